package sim_test

import (
	"testing"

	"chronos/sim"
)

// dearest is the mutant that the judge catches in the 614th world, and all others in the first 150. With -short it is
// not hunted: TestProofCatchesFirst catches it by the proof, and make test-all hunts it.
const dearest = "past-while-holding"

// TestMutantsAreKilled hunts each mutant: a mutant that survives is a hole in the judge or in the world.
func TestMutantsAreKilled(t *testing.T) {
	for _, m := range sim.Mutants() {
		if testing.Short() && m.Name == dearest {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			_, result, seeds := sim.Hunt(m, 1, 2000)
			if seeds == 0 {
				t.Fatalf("%s survives 2,000 seeds: %s", m.Name, m.About)
			}
			t.Logf("killed by %s after %d seeds", result.Violation.Invariant, seeds)
		})
	}
}
