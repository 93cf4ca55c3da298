package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsApply sees that each mutant is an edit of today's source: one that is not would be missed only when
// somebody runs them all.
func TestMutantsApply(t *testing.T) {
	mutants, err := parse(table)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("there are two mutants %s", m.name)
		}
		names[m.name] = true
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		edited, err := m.apply(string(source))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if edited == string(source) {
			t.Errorf("%s changes nothing", m.name)
		}
	}
}

// TestNamedTestsExist sees that the tests that are tried first are there, and that a comment belongs to the mutant
// above.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	mutants, err := parse("mutant a f.go: a\n# TestOne, caught by TestTwo/of_it\n- a\n+ b\n\n# TestOfNone\n\n" + table)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(mutants[0].tests, " "); got != "TestOne TestTwo" {
		t.Errorf("the tests of the first are %q", got)
	}
	var all strings.Builder
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".cache") {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants[1:] {
		for _, name := range m.tests {
			if !strings.Contains(all.String(), "\nfunc "+name+"(") {
				t.Errorf("%s names %s, which is nowhere", m.name, name)
			}
		}
	}
}

// mutated is a file of the engine that no build has but that of TestProofCatchesAlone.
const mutated = "package node\n\nimport \"os\"\n\nvar mutated = os.Getenv(\"MUTANT_AT_WORK\")\n"

// TestProofCatchesAlone runs the mutants that have a seed of the proof in that world: following the proof ends the run,
// and without it no invariant of the judge is broken. So the trace check sees what nothing else does. All of them are
// in one binary, in which a variable of the environment chooses.
func TestProofCatchesAlone(t *testing.T) {
	mutants, err := parse(table)
	if err != nil {
		t.Fatal(err)
	}
	dir, root := t.TempDir(), filepath.Join("..", "..")
	sources := map[string]string{"node/mutated.go": mutated}
	for _, m := range mutants {
		if m.proof == 0 {
			continue
		}
		if sources[m.file] == "" {
			source, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			sources[m.file] = string(source)
		}
		either := *m
		either.new = []string{fmt.Sprintf("if mutated == %q {\n%s\n} else {\n%s\n}", m.name, strings.Join(m.new, "\n"),
			strings.Join(m.old, "\n"))}
		if sources[m.file], err = either.apply(sources[m.file]); err != nil {
			t.Fatal(err)
		}
	}
	overlay := map[string]string{}
	for file, source := range sources {
		path, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		overlay[path] = filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(overlay[path], []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, worlds := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "worlds")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-overlay", list, "-o", worlds, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	found := 0
	for _, m := range mutants {
		if m.proof == 0 {
			continue
		}
		found++
		for _, follow := range []bool{true, false} {
			run := exec.CommandContext(t.Context(), worlds, "-worlds", "-seeds", "1", "-first", fmt.Sprint(m.proof),
				fmt.Sprintf("-follow=%v", follow))
			run.Env = append(os.Environ(), "MUTANT_AT_WORK="+m.name)
			output, err := run.CombinedOutput()
			if said := string(output); follow != strings.Contains(said, ": proof") || follow != (err != nil) {
				t.Errorf("%s, seed %d, followed %v: %v %s", m.name, m.proof, follow, err, said)
			}
		}
	}
	if found < 3 {
		t.Errorf("%d mutants are caught by the proof alone, and three are wanted", found)
	}
}
