package sim_test

import (
	"slices"
	"testing"

	"chronos/sim"
)

// TestShrinkFindsSmallPlans breaks the simulation on purpose, and expects that of dozens of faults and messages only a
// few are left, in the median of seven runs. The smaller setup breaks the same invariant, again and again.
// (Delete-if-owner is not among these: it takes twice as long as they do together.) With -short it leaves out the two
// that take nine tenths of the time, which make test-long has.
func TestShrinkFindsSmallPlans(t *testing.T) {
	names := []string{"upsert", "publish-timeout-is-success", "commit-first", "delete-by-id", "expired-not-own"}
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			m, err := sim.MutantByName(name)
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int
			for from := uint64(100); len(sizes) < 7; from += 1000 {
				sizes = append(sizes, shrunk(t, m, from))
			}
			// Which run a seed is changes with the simulator, and from some no small plan is reached step by step.
			slices.Sort(sizes)
			if sizes[3] > 4 { // an instruction can do what a fault does
				t.Errorf("%v faults and messages are left", sizes)
			}
		})
	}
	if _, found := sim.Shrink(sim.Setup{Options: sim.DefaultOptions()}, 100); found {
		t.Error("a run that breaks nothing has been made smaller")
	}
}

// TestShrinkIsBounded shrinks within fewer occurrences than it takes. Goal: a seed shrinks to the same plan on every
// machine, so that what bounds the work is counted, and a large world does not take hours. Method: with no occurrence
// to spend it makes the runs that it always may, and no other; with some, it ends at the first run that reaches the
// bound; and a second time all is as it was.
func TestShrinkIsBounded(t *testing.T) {
	m, err := sim.MutantByName("upsert")
	if err != nil {
		t.Fatal(err)
	}
	setup, _, seeds := sim.Hunt(m, 1, 2000)
	if seeds == 0 {
		t.Fatal("the mutant survives")
	}
	whole, _ := sim.ShrinkWithin(setup, 2000, 1<<40)
	for _, events := range []uint64{0, whole.Events / 2} {
		small, found := sim.ShrinkWithin(setup, 2000, events)
		again, _ := sim.ShrinkWithin(setup, 2000, events)
		if !found || small.Runs < 20 || small.Runs >= whole.Runs || events == 0 && small.Runs != 20 {
			t.Errorf("%d occurrences: %d runs, and %d without a bound", events, small.Runs, whole.Runs)
		}
		if again.Result.Hash != small.Result.Hash || again.Runs != small.Runs || again.Events != small.Events {
			t.Errorf("%d occurrences: %d runs and %d occurrences, and %d and %d the second time", events,
				small.Runs, small.Events, again.Runs, again.Events)
		}
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
