package main

import (
	"os"
	"path/filepath"
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
