package main_test

import (
	"strings"
	"testing"

	"chronos/sim/proof"
)

// TestProofTable has z3 check the proof: every transition has its line, every variant is refuted, and nothing is open.
// That cvc5 says the same is for the tests of the package.
func TestProofTable(t *testing.T) {
	r := run(t, "", "proof", "--solver", "z3")
	if r.code != 0 || r.stderr != "" || strings.Contains(r.stdout, "NOT") {
		t.Fatalf("exit code %d, %q:\n%s", r.code, r.stderr, r.stdout)
	}
	for _, transition := range proof.Ours().Transitions {
		if !strings.Contains(r.stdout, "\n"+transition.Name+" ") {
			t.Errorf("there is no line for %q", transition.Name)
		}
	}
	for _, v := range proof.Variants() {
		if line := lineWith(r.stdout, "\n"+v.Name+" "); !strings.Contains(r.stdout, v.By+" -> "+v.Breaks) {
			t.Errorf("the line of %s is %q", v.Name, line)
		}
	}
}

// TestProofVariant looks at a counterexample in words.
func TestProofVariant(t *testing.T) {
	r := run(t, "", "proof", "--variant", "delete-by-id")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d, %q", r.code, r.stderr)
	}
	for _, want := range []string{
		"before\n  x#1 is stored\n", "a delete of x#2 is on its way\n", "the step: delete\n",
		"no more: x#1 is stored\n",
		`which breaks "settled is over"`,
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("there is no %q in:\n%s", want, r.stdout)
		}
	}
	if r := run(t, "", "proof", "--variant", "none"); r.code != 2 || !strings.Contains(r.stderr, "delete-by-id") {
		t.Errorf("exit code %d, %q", r.code, r.stderr)
	}
}

// TestProofWithoutSolvers says in one sentence what is missing, and what to do.
func TestProofWithoutSolvers(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := run(t, "", "proof")
	const want = "z3 is not installed, which checks the proof: run scripts/setup solvers"
	if r.code != 2 || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("exit code %d, %q", r.code, r.stderr)
	}
}

// TestProofText writes the questions, for any solver.
func TestProofText(t *testing.T) {
	r := run(t, "", "proof", "--text")
	if r.code != 0 || !strings.HasPrefix(r.stdout, "(set-logic ALL)\n(declare-sort node 0)\n") {
		t.Fatalf("exit code %d, %q", r.code, r.stderr)
	}
	if asked := strings.Count(r.stdout, "(check-sat)"); asked != len(proof.Ours().Obligations()) {
		t.Errorf("%d questions", asked)
	}
	if push, pop := strings.Count(r.stdout, "(push 1)"), strings.Count(r.stdout, "(pop 1)"); push != pop {
		t.Errorf("%d begin, and %d end", push, pop)
	}
}

// TestSimFollowsTheProof follows a seed and a mutant: that is caught by the proof, and the command says how to see it.
func TestSimFollowsTheProof(t *testing.T) {
	if r := run(t, "", "sim", "--seed", "5", "--proof"); r.code != 0 {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	t.Chdir(t.TempDir()) // it leaves a plan
	r := run(t, "", "sim", "--seed", "5", "--break", "past-too-late-forgotten", "--proof")
	if r.code != 1 || !strings.Contains(r.stdout, "no step of the proof") || !strings.Contains(r.stdout, "--proof") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
