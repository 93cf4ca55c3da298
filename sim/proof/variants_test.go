package proof_test

import (
	"strings"
	"testing"

	"chronos/sim/proof"
	"chronos/sim/proof/solver"
)

// TestVariants has z3 refute each variant by the step and the conjunct that it is said to break, and evaluates the
// counterexample by the same formulas: what is written for solvers and what is evaluated are one thing.
func TestVariants(t *testing.T) {
	if err := solver.Missing(solver.Z3(limit)); err != nil {
		t.Fatal(err)
	}
	for number, v := range proof.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			s := v.System()
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			if testing.Short() && number%6 != 0 { // to make a counterexample small takes longest
				if refuted, err := solver.Refutes(t.Context(), &v); err != nil || !refuted {
					t.Fatalf("%s does not break %q: %v", v.By, v.Breaks, err)
				}
				return
			}
			for _, o := range s.Obligations() {
				if o.Step != v.By || o.Claim != v.Breaks {
					continue
				}
				found, err := solver.Refute(t.Context(), s, &o)
				if err != nil {
					t.Fatal(err)
				}
				if found == nil {
					t.Fatalf("%s does not break %q", o.Step, o.Claim)
				}
				if err := found.Check(); err != nil {
					t.Errorf("the evaluation and the solver disagree: %v\n%v", err, found)
				}
				if text := found.String(); strings.Contains(text, "%!") {
					t.Errorf("the words do not fit:\n%s", text)
				} else {
					t.Log("\n" + text)
				}
				return
			}
			t.Fatalf("there is no obligation %s -> %s", v.By, v.Breaks)
		})
	}
}
