package sim_test

import (
	"testing"

	"chronos/sim"
)

// dearest is the mutant that the judge catches in the 614th world, and all others in the first 150. With -short it is
// not hunted: TestProofCatchesFirst catches it by the proof, and make test-long hunts it.
const dearest = "past-while-holding"

// near has the seeds from which mutants are hunted with -short: of those that take seconds of a core from the first
// seed on, because their worlds are long or the judge finds nothing in most, and a fraction of one from another. All
// are hunted from the first seed in make test-long. A seed that becomes another world makes the hunt longer, no more.
func near(name string) uint64 {
	return map[string]uint64{
		"start-of-batch": 101, "too-late-forgotten": 301, "past-too-late-forgotten": 301, "expired-never": 201,
	}[name]
}

// TestMutantsAreKilled hunts each mutant: a mutant that survives is a hole in the judge or in the world.
func TestMutantsAreKilled(t *testing.T) {
	for _, m := range sim.Mutants() {
		if testing.Short() && m.Name == dearest {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			from := uint64(1)
			if testing.Short() {
				from = max(from, near(m.Name))
			}
			_, result, seeds := sim.Hunt(m, from, 2000)
			if seeds == 0 {
				t.Fatalf("%s survives 2,000 seeds: %s", m.Name, m.About)
			}
			t.Logf("killed by %s after %d seeds", result.Violation.Invariant, seeds)
		})
	}
}
