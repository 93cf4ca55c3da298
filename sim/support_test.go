package sim_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chronos/sim"
)

// TestSupport compares the two tables of docs/CORRECTNESS.md with each other: that a promise is supported by simulation
// means that some mutant is caught by it. What each mutant was caught by must be one of the invariants that it counts
// for, which TestMutantsAreKilled looks at.
func TestSupport(t *testing.T) {
	page, err := os.ReadFile("../docs/CORRECTNESS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, support, _ := strings.Cut(string(page), "### What supports each promise\n")
	support, rest, _ := strings.Cut(support, "\n### ")
	_, rest, _ = strings.Cut(rest, "\n### Mutants\n")
	printed, _, _ := strings.Cut(rest, "\n### ")
	mutants := map[string]*sim.Mutant{}
	for _, m := range sim.Mutants() {
		mutants[m.Name] = m
	}
	catches := map[string]string{} // by the invariant, a mutant that it has caught
	caught := regexp.MustCompile(`(?m)^\| ([a-z0-9-]+) \| .* \| ([SL0-9, ]+) \| \d`)
	for _, row := range caught.FindAllStringSubmatch(printed, -1) {
		m := mutants[row[1]]
		if m == nil {
			t.Errorf("the table of mutants has %s twice, or there is none", row[1])
			continue
		}
		delete(mutants, row[1])
		for by := range strings.SplitSeq(row[2], ", ") {
			catches[by] = row[1]
			if !slices.Contains(m.Kills, by) {
				t.Errorf("the table of mutants says that %s is caught by %s, and it counts for %v", row[1], by, m.Kills)
			}
		}
	}
	for name := range mutants {
		t.Errorf("the table of mutants does not have %s: print it anew, by make mutants", name)
	}
	promises := regexp.MustCompile(`(?m)^\| ([SL]\d+) \|[^|]*\|[^|]*\| ([a-z]*) ?\|`).FindAllStringSubmatch(support, -1)
	if len(promises) < 50 {
		t.Fatalf("there are %d promises only", len(promises))
	}
	for _, row := range promises {
		if by, caught := catches[row[1]]; caught != (row[2] == "yes") {
			t.Errorf("%s is said to be supported by simulation: %q; it has caught %q", row[1], row[2], by)
		}
	}
}
