package proof_test

import (
	"runtime"
	"testing"
	"time"

	"chronos/sim/proof"
	"chronos/sim/proof/solver"
)

// limit is how long a solver may think about one question. It needs milliseconds.
const limit = 30 * time.Second

// TestOurs proves the algorithm with z3 and with cvc5: neither knows of the other.
func TestOurs(t *testing.T) {
	s := proof.Ours()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	solvers := []solver.Solver{solver.Z3(limit), solver.CVC5(limit)}
	if err := solver.Missing(solvers...); err != nil {
		t.Fatal(err)
	}
	proved := map[string]int{}
	obligations := s.Obligations()
	err := solver.Prove(t.Context(), s, obligations, solvers, runtime.NumCPU(), func(r solver.Result) bool {
		if r.Proved() {
			proved[r.Solver]++
			return true
		}
		t.Errorf("%s: %s -> %s: %s", r.Solver, r.Step, r.Claim, r.Answer)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, solver := range solvers {
		if !t.Failed() && proved[solver.Name] != len(obligations) {
			t.Errorf("%s was asked %d of %d questions", solver.Name, proved[solver.Name], len(obligations))
		}
	}
	t.Logf("%d questions, %d transitions, %d conjuncts", len(obligations), len(s.Transitions), len(s.Invariant))
}

// TestNothingIsVacuous asks whether each transition is possible in a state in which the invariant is true: one that is
// not would keep the invariant, and say nothing.
func TestNothingIsVacuous(t *testing.T) {
	if err := solver.Missing(solver.Z3(limit)); err != nil {
		t.Fatal(err)
	}
	s := proof.Ours()
	err := solver.Prove(t.Context(), s, s.Possibilities(), []solver.Solver{solver.Z3(limit)}, runtime.NumCPU(),
		func(r solver.Result) bool {
			if r.Answer != solver.Satisfiable {
				t.Errorf("%s: %s", r.Step, r.Answer)
			}
			return true
		})
	if err != nil {
		t.Fatal(err)
	}
}
