package sim_test

import (
	"slices"
	"testing"

	"chronos/sim"
)

// TestShrinkFindsSmallPlans breaks the simulation on purpose, and expects that of dozens of faults and messages only a
// few are left, in the median of three runs. The smaller setup breaks the same invariant, again and again.
// (Delete-if-owner is not among these: its race is never run without others beside it, so that 14 messages are left.)
func TestShrinkFindsSmallPlans(t *testing.T) {
	for _, name := range []string{
		"delete-by-id", "upsert", "publish-timeout-is-success", "expired-not-own", "commit-first",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := sim.MutantByName(name)
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int
			for from := uint64(100); len(sizes) < 3; from += 1000 {
				sizes = append(sizes, shrunk(t, m, from))
			}
			// Which run a seed is changes with the simulator, and from some no small plan is reached step by step.
			slices.Sort(sizes)
			if sizes[1] > 6 { // an instruction can do what a fault does
				t.Errorf("%v faults and messages are left", sizes)
			}
		})
	}
	if _, found := sim.Shrink(sim.Setup{Options: sim.DefaultOptions()}, 100); found {
		t.Error("a run that breaks nothing has been made smaller")
	}
}

// shrunk hunts a mutant from a seed on, makes the run smaller, and returns how many faults and messages are left.
func shrunk(t *testing.T, m *sim.Mutant, from uint64) int {
	t.Helper()
	setup, result, seeds := sim.Hunt(m, from, 2000)
	if seeds == 0 {
		t.Fatal("the mutant survives")
	}
	small, found := sim.Shrink(setup, 2000)
	if !found {
		t.Fatal("the plan of the run does not replay it")
	}
	if got, want := small.Result.Violation.Invariant, result.Violation.Invariant; got != want {
		t.Errorf("the small plan breaks %s instead of %s", got, want)
	}
	faults, messages := len(small.Setup.Plan.Faults), len(small.Setup.Plan.Messages)
	t.Logf("%d faults, %d messages, %d nodes after %d runs, from %d faults and %d messages: %v",
		faults, messages, small.Setup.Options.Nodes, small.Runs,
		len(result.Plan.Faults), len(result.Plan.Messages), small.Setup.Plan.Faults)
	if again := sim.Run(small.Setup); again.Hash != small.Result.Hash {
		t.Error("the small plan has two traces")
	}
	return faults + messages
}
