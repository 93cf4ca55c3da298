package sim_test

import (
	"testing"

	"chronos/sim"
)

// TestMutantsAreKilled hunts each mutant: a mutant that survives is a hole in the judge or in the world.
func TestMutantsAreKilled(t *testing.T) {
	for _, m := range sim.Mutants() {
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
