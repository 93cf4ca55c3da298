package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// File is a file of the repository, by its path from the root.
type File struct {
	Path string
	Text string
}

// maxLines is the greatest number of lines that a file has: what is longer is two things.
const maxLines = 600

// folders are the only ones at the root, beside those whose names begin with a dot.
var folders = []string{"chaos", "cmd", "docs", "migrations", "node", "scripts", "sim"}

var (
	// The words are put together here so that this file does not find itself.
	leftover = regexp.MustCompile(`\b(FIX` + `ME|TO` + `DO|XX` + `X)\b`)

	machinePath = regexp.MustCompile(`(^|[^\w.~/-])/(ro` + `ot|ho` + `me|wo` + `rk|Use` + `rs)(/|\b)`)

	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// Long finds code files that are too long. Generated files may be of any length.
func Long(file File) []string {
	if !slices.Contains([]string{"", ".go", ".sh", ".sql"}, path.Ext(file.Path)) || generated.MatchString(file.Text) {
		return nil
	}
	if lines := strings.Count(file.Text, "\n"); lines > maxLines {
		return []string{fmt.Sprintf("%s: has %d lines, more than %d", file.Path, lines, maxLines)}
	}
	return nil
}

// Leftover finds marks of work that was put off.
func Leftover(file File) []string {
	return lines(file, leftover, "leaves something to do")
}

// MachinePath finds paths that exist on somebody's machine only.
func MachinePath(file File) []string {
	return lines(file, machinePath, "names a path of one machine")
}

// Misplaced finds a file in a folder at the root that is none of ours.
func Misplaced(file File) []string {
	folder, _, inside := strings.Cut(file.Path, "/")
	if !inside || strings.HasPrefix(folder, ".") || slices.Contains(folders, folder) {
		return nil
	}
	return []string{file.Path + ": is in a folder that the tree does not have"}
}

// lines finds the lines of a text file that match.
func lines(file File, match *regexp.Regexp, what string) []string {
	if strings.ContainsRune(file.Text, 0) {
		return nil
	}
	var findings []string
	number := 0
	for line := range strings.Lines(file.Text) {
		number++
		if match.MatchString(line) {
			findings = append(findings, fmt.Sprintf("%s:%d: %s: %s", file.Path, number, what, strings.TrimSpace(line)))
		}
	}
	return findings
}
