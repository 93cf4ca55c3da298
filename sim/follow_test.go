package sim_test

import (
	"slices"
	"strings"
	"testing"

	"chronos/sim"
	"chronos/sim/proof"
)

// unfollowed are the steps of the proof that no run makes: what a run is taken at its word for, see follower; and what
// did not come about, that an occurrence is passed over.
func unfollowed() []string {
	return []string{
		"write", "lose", "retain", "read", "place", "commit", "forget", "save", "restore", "restore unseen",
		"pass over", "passed over", "passed over at last",
	}
}

// TestFollowsTheProof checks each step of a hundred worlds to be a step of the transition system that is proved. That
// nothing else comes of it shows the hash, which stays as it is. Each step of the proof is made by some run: so its
// guards can be true.
func TestFollowsTheProof(t *testing.T) {
	made := map[string]int{}
	for seed := uint64(1); seed <= 100; seed++ {
		result := sim.Run(sim.Setup{Options: sim.Swarm(seed), Proof: true})
		if v := result.Violation; v != nil {
			t.Errorf("seed %d: %s: %s", seed, v.Invariant, v.Detail)
			continue
		}
		for step, times := range result.Followed {
			made[step] += times
		}
		if seed%10 == 0 && result.Hash != sim.Run(sim.Setup{Options: sim.Swarm(seed)}).Hash {
			t.Errorf("seed %d: the hash of the run depends on whether it is followed", seed)
		}
	}
	for _, transition := range proof.Ours().Transitions {
		if made[transition.Name] == 0 && !slices.Contains(unfollowed(), transition.Name) {
			t.Errorf("no run makes the step %q", transition.Name)
		}
	}
}

// TestProofCatchesFirst runs mutants of the engine that take a step which the proof does not have, or leave a row
// otherwise than it does. Following the proof shows it at once; no invariant of the judge is broken in the same run
// before that, and in most cases in that run at all: what was not written down matters only to the next instruction.
func TestProofCatchesFirst(t *testing.T) {
	const seeds = 12
	for _, name := range []string{
		"too-late-forgotten", "past-too-late-forgotten", "fired-forgotten", "replaces-silently", "takes-while-holding",
		"past-while-holding",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := sim.MutantByName(name)
			if err != nil {
				t.Fatal(err)
			}
			for seed := uint64(1); seed <= seeds; seed++ {
				setup := m.Drawn(seed)
				setup.Proof = true
				followed := sim.Run(setup).Violation
				if followed == nil {
					continue
				}
				if followed.Invariant != "proof" {
					t.Fatalf("seed %d: the judge was first: %s: %s", seed, followed.Invariant, followed.Detail)
				}
				judged := sim.Run(m.Drawn(seed)).Violation
				if judged != nil && judged.At <= followed.At {
					t.Fatalf("seed %d: the judge was as early: %s: %s", seed, judged.Invariant, judged.Detail)
				}
				t.Logf("seed %d, after %v: %s; the judge alone: %+v", seed, followed.At, followed.Detail, judged)
				return
			}
			t.Fatalf("it was not caught in %d seeds", seeds)
		})
	}
}

// TestProofNamesTheGuard runs mutants that break one rule each, and looks that following the proof names it. So a guard
// that the follower does not look at, or an event that it passes over, is missed here.
func TestProofNamesTheGuard(t *testing.T) {
	const seeds = 20
	for name, guard := range map[string]string{
		"publish-twice":              "its owner holds it",
		"node-stamps":                "it is young enough",
		"delete-before-ack":          "its time may be over, or its receiver refuse it",
		"publish-timeout-is-success": "its time may be over, or its receiver refuse it",
		"expired-inverted":           "the clock of the store has reached its expiry",
		"goes-on-stopped":            "it is not stopped",
		"no-catch-up":                "all claims from before have expired",
		"delete-by-id":               "somebody who may has asked for it",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := sim.MutantByName(name)
			if err != nil {
				t.Fatal(err)
			}
			for seed := uint64(1); seed <= seeds; seed++ {
				setup := m.Drawn(seed)
				setup.Proof = true
				v := sim.Run(setup).Violation
				if v != nil && v.Invariant == "proof" && strings.HasSuffix(v.Detail, guard) {
					return
				}
			}
			t.Errorf("no run of %d ends since it needs that %s", seeds, guard)
		})
	}
}
