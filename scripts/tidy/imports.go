package tidy

import (
	"context"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Foreign finds what a package imports, directly or not, that is neither of the standard library nor allowed. Dir is
// a folder of the package's module.
func Foreign(ctx context.Context, dir, pkg string, allowed func(path string) bool) ([]string, error) {
	list, err := run(ctx, dir, "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
	if err != nil {
		return nil, err
	}
	imported := strings.Fields(list)
	// Without this, a name that is written wrong would pass.
	if !slices.Contains(imported, pkg) {
		return nil, fmt.Errorf("list what %s imports: it is not in its own list", pkg)
	}
	var findings []string
	for _, path := range imported {
		if path != pkg && !allowed(path) {
			findings = append(findings, pkg+": imports "+path)
		}
	}
	return findings, nil
}

// Tracked returns the files of the repository around dir, but not those that git ignores, and no links.
func Tracked(ctx context.Context, dir string) ([]File, error) {
	// The rule that a repository must belong to the user is about hooks, and none is run here.
	list, err := run(ctx, dir, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	if err != nil {
		return nil, err
	}
	var files []File
	for path := range strings.SplitSeq(strings.Trim(list, "\x00"), "\x00") {
		name := filepath.Join(dir, path)
		info, err := os.Lstat(name)
		if os.IsNotExist(err) || err == nil && !info.Mode().IsRegular() {
			continue // deleted, and not yet committed
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the repository: %w", err)
		}
		files = append(files, File{Path: filepath.ToSlash(path), Text: string(text)})
	}
	return files, nil
}

// Load parses and checks the package of dir, without its tests.
func Load(ctx context.Context, dir string) (Code, error) {
	list, err := run(ctx, dir, "go", "list", "-f", `{{range .GoFiles}}{{.}}{{"\n"}}{{end}}`, ".")
	if err != nil {
		return Code{}, err
	}
	sources := map[string]string{}
	for name := range strings.FieldsSeq(list) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return Code{}, fmt.Errorf("read the package: %w", err)
		}
		sources[name] = string(text)
	}
	return Check(ctx, dir, sources)
}

// Check parses and checks a package given as text by file name. Its imports are resolved as in dir.
func Check(ctx context.Context, dir string, sources map[string]string) (Code, error) {
	code := Code{
		Files: token.NewFileSet(),
		Info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{},
		},
	}
	var imports []string
	for name, text := range sources {
		tree, err := parser.ParseFile(code.Files, name, text, parser.SkipObjectResolution)
		if err != nil {
			return Code{}, fmt.Errorf("parse: %w", err)
		}
		code.Trees = append(code.Trees, tree)
		for _, spec := range tree.Imports {
			imports = append(imports, strings.Trim(spec.Path.Value, `"`))
		}
	}
	lookup, err := compiled(ctx, dir, imports)
	if err != nil {
		return Code{}, err
	}
	config := types.Config{Importer: importer.ForCompiler(code.Files, "gc", lookup)}
	if _, err := config.Check("checked", code.Files, code.Trees, code.Info); err != nil {
		return Code{}, fmt.Errorf("check types: %w", err)
	}
	return code, nil
}

// compiled returns how to open what the compiler exports of packages and of all that they import.
func compiled(ctx context.Context, dir string, packages []string) (importer.Lookup, error) {
	exports := map[string]string{}
	if len(packages) > 0 {
		arguments := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)
		list, err := run(ctx, dir, "go", arguments...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
			exports[path] = file
		}
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }, nil
}

// run returns what a command writes.
func run(ctx context.Context, dir, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = dir
	var complaint strings.Builder
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", name, arguments[0], err, complaint.String())
	}
	return string(output), nil
}
