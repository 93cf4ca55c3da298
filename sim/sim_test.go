package sim_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"chronos/scripts/tidy"
	"chronos/sim"
)

// TestSameSeedSameTrace runs seeds twice, and once more from the plan that the first run has recorded: without the
// random source the same faults must strike at the same calls.
func TestSameSeedSameTrace(t *testing.T) {
	for seed := range seeds(60) {
		setup := sim.Setup{Options: sim.Swarm(seed)}
		first := sim.Run(setup)
		if again := sim.Run(setup); again.Hash != first.Hash {
			t.Fatalf("seed %d: two runs have the hashes %x and %x: %s",
				seed, first.Hash, again.Hash, difference(setup, setup))
		}
		planned := setup
		planned.Plan = first.Plan
		replayed := sim.Run(planned)
		if replayed.Hash != first.Hash {
			t.Fatalf("seed %d: the plan gives another trace: %s", seed, difference(setup, planned))
		}
		if !slices.Equal(replayed.Plan.Faults, first.Plan.Faults) {
			t.Fatalf("seed %d: of the faults\n%v\nonly these strike in the replay\n%v",
				seed, first.Plan.Faults, replayed.Plan.Faults)
		}
	}
}

// seeds returns how many seeds a test runs: a quarter of all when it is to be short.
func seeds(all uint64) uint64 {
	if testing.Short() {
		return all / 4
	}
	return all
}

// difference returns the first steps in which two runs differ.
func difference(a, b sim.Setup) string {
	x, y := trace(a), trace(b)
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + " | " + y[i]
		}
	}
	return "one trace is longer"
}

func trace(setup sim.Setup) []string {
	var lines []string
	setup.Observe = func(s *sim.Step) { lines = append(lines, s.String()) }
	sim.Run(setup)
	return lines
}

// TestObserverChangesNothing compares a run that is watched with one that is not.
func TestObserverChangesNothing(t *testing.T) {
	setup := sim.Setup{Options: sim.Swarm(5)}
	want := sim.Run(setup).Hash
	steps := 0
	setup.Observe = func(*sim.Step) { steps++ }
	if got := sim.Run(setup).Hash; got != want || steps == 0 {
		t.Fatalf("watched with %d steps, the hash is %x instead of %x", steps, got, want)
	}
}

// TestHashDependsOnNothingElse folds the hashes of a hundred seeds and compares the fold with the one in testdata: it
// is the same with the race detector and without, and on every machine. The hashes are the same under other numbers of
// processors and with another garbage collector; a short test runs a quarter of the seeds again for that. A change of
// the engine or of the simulator changes the fold; CHRONOS_UPDATE=1 writes it anew.
func TestHashDependsOnNothingElse(t *testing.T) {
	const golden = "testdata/fold.txt"
	hashes := func(n uint64) (all []uint64) {
		for seed := range n {
			all = append(all, sim.Run(sim.Setup{Options: sim.Swarm(seed)}).Hash)
		}
		return all
	}
	want, sum := hashes(100), uint64(0)
	for _, hash := range want {
		sum = sum*31 + hash
	}
	text := fmt.Sprintf("%016x\n", sum)
	if os.Getenv("CHRONOS_UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if before, err := os.ReadFile(golden); err != nil || string(before) != text {
		t.Errorf("the fold is %s, and %s says %s: %v; after a change of the engine or the simulator, "+
			"run this with CHRONOS_UPDATE=1", text, golden, before, err)
	}
	again := seeds(100)
	want = want[:again]
	processors := runtime.GOMAXPROCS(1)
	one := hashes(again)
	runtime.GOMAXPROCS(2)
	two := hashes(again)
	runtime.GOMAXPROCS(processors)
	collect := debug.SetGCPercent(5)
	eager := hashes(again)
	debug.SetGCPercent(collect)
	if !slices.Equal(one, want) || !slices.Equal(two, want) || !slices.Equal(eager, want) {
		t.Fatalf("the hashes are %x, with 1 processor %x, with 2 %x, with an eager collector %x",
			want, one, two, eager)
	}
}

// TestSwarm runs a batch of seeds. All invariants hold, and in the whole batch everything occurs that must occur
// sometimes.
func TestSwarm(t *testing.T) {
	const swarm = 1000 // as many as lab sim wants for that; the rarest occurs in one of 400
	coverage := sim.Coverage{}
	for seed := range seeds(swarm) {
		result := sim.Run(sim.Setup{Options: sim.Swarm(seed)})
		coverage.Add(result.Coverage)
		if v := result.Violation; v != nil {
			t.Errorf("lab sim --seed %d: %s at %v: %s", seed, v.Invariant, v.At, v.Detail)
		}
	}
	if missing := coverage.Missing(); len(missing) > 0 && !testing.Short() {
		t.Errorf("%d seeds never came by %v", seeds(swarm), missing)
	}
}

// TestNothingLeft checks that a run leaves no coroutine behind, however it ends.
func TestNothingLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for seed := range uint64(30) {
		sim.Run(sim.Setup{Options: sim.Swarm(seed)})
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Fatalf("%d coroutines are left", after-before)
	}
}

// TestReplayable applies the rules of replayed code to the simulator, the judge and the model: no goroutine, channel,
// wall clock, global randomness, map order or floating point. A page is only drawn from what they say.
func TestReplayable(t *testing.T) {
	for dir, files := range map[string]int{".": 20, "check": 10, "model": 10} {
		code, err := tidy.Load(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(code.Trees) < files {
			t.Fatalf("there are %d files only in %s: this looks in the wrong place", len(code.Trees), dir)
		}
		for _, finding := range tidy.Replayed(code) {
			t.Error(finding)
		}
	}
}

// TestNames checks that everything which is named can be found by its name.
func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, m := range sim.Mutants() {
		if names[m.Name] || len(m.Kills) == 0 || m.About == "" {
			t.Errorf("mutant %q is there twice, or lacks a text or an invariant", m.Name)
		}
		names[m.Name] = true
		if found, err := sim.MutantByName(m.Name); err != nil || found.Name != m.Name {
			t.Errorf("mutant %q is not found: %v", m.Name, err)
		}
	}
	if _, err := sim.MutantByName("nobody"); err == nil {
		t.Error("a mutant is found that is not there")
	}
	if _, err := sim.ScenarioByName("nowhere"); err == nil {
		t.Error("a scenario is found that is not there")
	}
	if s, err := sim.ScenarioByName("no-fault"); err != nil || s.About == "" {
		t.Errorf("the scenario no-fault is not found, or says nothing: %v", err)
	}
}
