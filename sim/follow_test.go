package sim_test

import (
	"testing"

	"chronos/sim"
)

// TestFollowsTheProof checks each step of a hundred worlds to be a step of the transition system that is proved. That
// nothing else comes of it shows the hash, which stays as it is.
func TestFollowsTheProof(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		result := sim.Run(sim.Setup{Options: sim.Swarm(seed), Proof: true})
		if v := result.Violation; v != nil {
			t.Errorf("seed %d: %s: %s", seed, v.Invariant, v.Detail)
			continue
		}
		if seed%10 == 0 && result.Hash != sim.Run(sim.Setup{Options: sim.Swarm(seed)}).Hash {
			t.Errorf("seed %d: the hash of the run depends on whether it is followed", seed)
		}
	}
}
