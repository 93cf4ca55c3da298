package main_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	lab "chronos/cmd/lab"
	"chronos/sim"
)

// wantOutput checks the exit code and that each of some texts is there, in their order.
func wantOutput(t *testing.T, got result, code int, texts ...string) {
	t.Helper()
	if got.code != code {
		t.Errorf("the exit code is %d, want %d", got.code, code)
	}
	rest := got.stdout
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Errorf("there is no %q at its place", text)
			continue
		}
		rest = after
	}
	if t.Failed() {
		t.Fatalf("the output is\n%s%s", got.stdout, got.stderr)
	}
	for line := range strings.Lines(got.stdout) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 && !strings.HasPrefix(line, "|") {
			t.Errorf("a line has %d letters: %s", n, line)
		}
	}
}

// simulated runs "lab sim" with something else in place of the simulator.
func simulated(t *testing.T, simulate func(sim.Setup) sim.Result, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := lab.RunSim(t.Context(), simulate, args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestSimRunsOneSeed(t *testing.T) {
	wantOutput(t, run(t, "", "sim", "--help"), 0, "Usage: lab sim", "Exit codes: 0 passed; 1 ", "--seed=N")
	want := sim.Run(sim.Setup{Options: sim.Swarm(3)})
	got := run(t, "", "sim", "--seed", "3", "--twice")
	wantOutput(t, got, 0, "seed 3\n\n  options      seed 3; nodes ", "virtual time", "wall time", "events",
		"submitted",
		"fired", "faults", "drained", fmt.Sprintf("trace hash   %016x\n", want.Hash), "\nPASSED: ")
	o := sim.Swarm(3)
	o.Nodes, o.Fates, o.Messages, o.Faulty = 1, "h", 7, 5*time.Second
	want = sim.Run(sim.Setup{Options: o})
	got = run(t, "", "sim", "--seed", "3", "--nodes", "1", "--messages", "7", "--for", "5s")
	wantOutput(t, got, 0, "messages 7; faulty 5s;", fmt.Sprintf("%016x", want.Hash))
}

// TestSimBroken breaks the engine on purpose, and follows the commands that the output names: each must break the
// same invariant.
func TestSimBroken(t *testing.T) {
	t.Chdir(t.TempDir())
	mutant, err := sim.MutantByName("delete-by-id")
	if err != nil {
		t.Fatal(err)
	}
	// From 3000 on it is a run that is made small in 2 s of a core. From 1 on it takes 11, which says nothing more.
	setup, _, hunted := sim.Hunt(mutant, 3000, 2000)
	if hunted == 0 {
		t.Fatal("the mutant survives")
	}
	seed := setup.Options.Seed
	got := run(t, "", "sim", "--seed", strconv.FormatUint(seed-1, 10), "--seeds", "3", "--break", "delete-by-id")
	wantOutput(t, got, 1, fmt.Sprintf("seed %-7d S2: ", seed), "FAILED: S2 is broken after", "Justified delete",
		"Made smaller: ", "The story of submissions", "submits", "is deleted", "broken    S2: ",
		"Replay it:")
	if want := fmt.Sprintf("lab: seed %d breaks S2\n", seed); got.stderr != want {
		t.Errorf("stderr is %q, want %q", got.stderr, want)
	}
	commands := regexp.MustCompile(`(?m)^  go run ./cmd/lab (sim .*?)   `).FindAllStringSubmatch(got.stdout, -1)
	if len(commands) != 2 {
		t.Fatalf("%d commands replay it: %q", len(commands), commands)
	}
	for _, command := range commands {
		again := run(t, "", strings.Fields(command[1])...)
		wantOutput(t, again, 1, "FAILED: S2 is broken after", "The story of")
	}
	name := fmt.Sprintf("chronos-sim-%d.txt", seed)
	if plan, err := os.ReadFile(name); err != nil || !strings.Contains(string(plan),
		"break delete-by-id\n") {
		t.Errorf("the plan is %q, and %v", plan, err)
	}
	// Without the mutant, the same plan passes: it is the engine that matters.
	plan := run(t, "", "sim", "--plan", writeWithout(t, name, "break "))
	wantOutput(t, plan, 0, "PASSED: ")
}

// TestSimShrinksByNoClock breaks a run on a machine that is very slow: the file that is left is that of a fast one.
// (The runs that make it smaller were once as many as the clock had room for.)
func TestSimShrinksByNoClock(t *testing.T) {
	left := func(simulate func(sim.Setup) sim.Result) string {
		t.Chdir(t.TempDir())
		wantOutput(t, simulated(t, simulate, "--seed", "1", "--break", "upsert"), 1, "FAILED: ", "Made smaller: ")
		plan, err := os.ReadFile("chronos-sim-1.txt")
		if err != nil {
			t.Fatal(err)
		}
		return string(plan)
	}
	slow := left(func(setup sim.Setup) sim.Result {
		<-time.After(2 * time.Second)
		return sim.Run(setup)
	})
	if fast := left(sim.Run); slow != fast {
		t.Errorf("on a slow machine it leaves\n%s\non a fast one\n%s", slow, fast)
	}
}

// writeWithout copies a file without the lines that begin with a prefix.
func writeWithout(t *testing.T, name, prefix string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "plan.txt", regexp.MustCompile(`(?m)^`+prefix+`.*\n`).ReplaceAllString(string(text), ""))
}

// TestSimCouldNotRun asks for the exit code 2 and one line that says why.
func TestSimCouldNotRun(t *testing.T) {
	badPlan := writeFile(t, "bad.txt", "node 1 dance 7: reply-lost\n")
	for _, args := range []string{
		"--seed x", "--nodes 0", "--nodes=-3", "--messages=-1", "--for=0s", "--seeds 0", "--duration=-1s",
		"--nonsense",
		"--scenario nowhere", "--break nobody", "--plan /nowhere/plan", "--plan " + badPlan, "--seeds 3 --nodes 0",
		"--seeds 3 --break nobody",
		"--seeds 3 --trace x", "--seeds 3 --plan x", "--scenario h01-lost-delete-reply --plan x", "--plan x --seed 3",
		"--scenario all --trace x", "--scenario list --twice", "--break list --seeds 2", "--break all --twice",
		"--bench --seed 3", "--trace /nowhere/trace", "--html /nowhere/page", "--scenario all --html x",
	} {
		got := run(t, "", append([]string{"sim"}, strings.Fields(args)...)...)
		if got.code != 2 || !strings.HasPrefix(got.stderr, "lab: ") || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("lab sim %s exits with %d and says\n%s", args, got.code, got.stderr)
		}
	}
	for _, args := range [][]string{
		{"sim"},
		{"sim", "--trace", "-"},
		{"sim", "--seeds", "2"},
		{"sim", "--scenario", "list"},
		{"sim", "--break", "list"},
	} {
		var stderr bytes.Buffer
		if code := lab.Run(t.Context(), args, nil, failingWriter{}, &stderr); code != 2 {
			t.Errorf("%q whose output cannot be written exits with %d: %s", args, code, stderr.String())
		}
	}
}

// TestSimNondeterministic replaces the simulator by one that draws another world at every second run.
func TestSimNondeterministic(t *testing.T) {
	var runs atomic.Int64
	moody := func(setup sim.Setup) sim.Result {
		if runs.Add(1)%2 == 0 {
			setup.Options.Seed++
		}
		return sim.Run(setup)
	}
	for _, args := range [][]string{{"--seed", "4"}, {"--seeds", "1", "--seed", "4"}} {
		got := simulated(t, moody, append(args, "--twice")...)
		wantOutput(t, got, 3, "NONDETERMINISM: seed 4 has given the hash ",
			"The first step in which two runs differ:\n\n  ",
			"Run it again:\n\n  go run ./cmd/lab sim --seed 4 --twice\n")
		lines := regexp.MustCompile(`runs differ:\n\n  (.*)\n  (.*)\n`).FindStringSubmatch(got.stdout)
		if len(lines) != 3 || lines[1] == lines[2] {
			t.Errorf("the steps that differ are %q", lines)
		}
	}
	got := simulated(t, moody, "--scenario", "all", "--twice")
	wantOutput(t, got, 3, "NONDETERMINISM: scenario ")
	steady := func(setup sim.Setup) sim.Result { return sim.Run(setup) }
	wantOutput(t, simulated(t, steady, "--seed", "4", "--twice"), 0, "PASSED")
}

// TestSimTrace writes the same trace twice to a file, and to standard output, where nothing else is.
func TestSimTrace(t *testing.T) {
	var traces [3]string
	for i := range 2 {
		file := writeFile(t, "trace", "")
		got := run(t, "", "sim", "--seed", "8", "--trace", file)
		wantOutput(t, got, 0, "trace hash")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		traces[i] = string(text)
	}
	got := run(t, "", "sim", "--seed", "8", "--trace", "-")
	if got.code != 0 || !strings.Contains(got.stderr, "trace hash") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	traces[2] = got.stdout
	if strings.Count(traces[0], "\n") < 100 || traces[0] != traces[1] || traces[0] != traces[2] {
		t.Errorf("the traces have %d, %d and %d bytes, and are not the same", len(traces[0]), len(traces[1]),
			len(traces[2]))
	}
}

// TestSimHistory writes a history of a run that passes and of one that fails, and has them judged again.
func TestSimHistory(t *testing.T) {
	t.Chdir(t.TempDir())
	wantOutput(t, run(t, "", "sim", "--seed", "8", "--history", "passed.txt"), 0, "PASSED")
	wantOutput(t, run(t, "", "check", "passed.txt"), 0, "judged     S1 S2", "all that was judged holds")
	got := run(t, "", "sim", "--scenario", "h33-upsert", "--break", "upsert", "--history", "failed.txt")
	wantOutput(t, got, 1, "FAILED: S2 is broken")
	wantOutput(t, run(t, "", "check", "failed.txt"), 1, "BROKEN S2 at")
	wantOutput(t, run(t, "not a history\n", "check", "-"), 2, "")
	wantOutput(t, run(t, "", "check", "nowhere.txt"), 2, "")
}

// TestSimPage draws a run that passes and one that fails.
func TestSimPage(t *testing.T) {
	t.Chdir(t.TempDir())
	got := run(t, "", "sim", "--seed", "8", "--html", "passed.html")
	wantOutput(t, got, 0, "The picture is in passed.html.", "PASSED")
	got = run(t, "", "sim", "--seed", "1", "--seeds", "2", "--break", "upsert", "--html", "failed.html")
	wantOutput(t, got, 1, "The story of", "The picture is in failed.html.", "Replay it:")
	for name, text := range map[string]string{
		"passed.html": "go run ./cmd/lab sim --seed 8", "failed.html": "go run ./cmd/lab sim --plan chronos-sim-1.txt",
	} {
		page, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(page), "</html>") || !strings.Contains(string(page), text) {
			t.Errorf("%s has %d bytes and lacks %q: %v", name, len(page), text, err)
		}
	}
}

// TestSimBrokenWithoutFiles asks that a broken invariant is told although the plan cannot be kept.
func TestSimBrokenWithoutFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("chronos-sim-1.txt", 0o700); err != nil {
		t.Fatal(err)
	}
	got := run(t, "", "sim", "--break", "upsert", "--html", "/nowhere/page")
	wantOutput(t, got, 1, "FAILED: S2 is broken", "keep the plan: ", "The story of", "--html is /nowhere/page",
		"Replay it:", "  go run ./cmd/lab sim --seed 1 --break upsert\n")
}

func TestSimScenarios(t *testing.T) {
	got := run(t, "", "sim", "--scenario", "list")
	wantOutput(t, got, 0, "h01-lost-delete-reply", "H1. The reply to a delete is lost", "no-fault", "store-down")
	got = run(t, "", "sim", "--scenario", "no-fault")
	wantOutput(t, got, 0, "scenario no-fault", "options", "PASSED: no invariant is broken")
	got = run(t, "", "sim", "--scenario", "h01-lost-delete-reply", "--break", "delete-by-id")
	wantOutput(t, got, 1, "FAILED: S2", "The story of submissions #1 and #2:",
		"go run ./cmd/lab sim --scenario h01-lost-delete-reply --break delete-by-id\n")
	got = run(t, "", "sim", "--scenario", "all")
	wantOutput(t, got, 0, "h01-lost-delete-reply", "passed\n", "PASSED: all of")

	// A scenario that expects something must come by it.
	plan := writeFile(t, "plan.txt", "sometimes event:Suspected\nmessages 3\n")
	wantOutput(t, run(t, "", "sim", "--plan", plan), 1, "FAILED: never occurred: event:Suspected")
	plan = writeFile(t, "plan.txt", "expect S1\nmessages 3\n")
	wantOutput(t, run(t, "", "sim", "--plan", plan), 1, "does not break S1")
	blind := func(setup sim.Setup) sim.Result {
		result := sim.Run(setup)
		result.Coverage = sim.Coverage{}
		return result
	}
	wantOutput(t, simulated(t, blind, "--scenario", "all"), 1, "FAILED: never occurred: ", "FAILED: ",
		"go run ./cmd/lab sim --scenario ")
}

// TestSimBatch runs a batch twice: what it prints depends on nothing else.
func TestSimBatch(t *testing.T) {
	var fold uint64
	for seed := range uint64(12) {
		fold = fold*31 + sim.Run(sim.Setup{Options: sim.Swarm(7 + seed)}).Hash
	}
	first := run(t, "", "sim", "--seeds", "12", "--seed", "7", "--twice")
	wantOutput(t, first, 0, "12 seeds from 7 on", "each run twice", "12, from 7 to 18",
		fmt.Sprintf("hash of all  %016x", fold),
		"faults ", "reply-lost ", "engine ", "Fired ", "world ", "PASSED: no invariant is broken")
	if second := run(t, "", "sim", "--seeds", "12", "--seed", "7", "--twice"); second.stdout != first.stdout {
		t.Errorf("the second output is\n%s", second.stdout)
	}
	got := run(t, "", "sim", "--duration", "100ms", "--nodes", "2", "--messages", "5", "--for", "1s")
	wantOutput(t, got, 0, "seeds from 1 on for 100ms", "--nodes 2, --messages 5, --for 1s", "PASSED")

	stopped, stop := context.WithCancel(t.Context())
	stop()
	var stdout, stderr bytes.Buffer
	code := lab.Run(stopped, []string{"sim", "--seeds", "30"}, nil, &stdout, &stderr)
	wantOutput(t, result{code, stdout.String(), stderr.String()}, 2, "broken       0 seeds", "INTERRUPTED: ")
}

// TestSimCoverage asks that a batch fails by the name of what never occurred in it, if it is large enough.
func TestSimCoverage(t *testing.T) {
	everything := sim.Coverage{}
	for _, name := range sim.Sometimes() {
		everything[name] = 1
	}
	delete(everything, "event:Suspected")
	without := func(sim.Setup) sim.Result { return sim.Result{Plan: &sim.Plan{}, Coverage: everything} }
	got := simulated(t, without, "--seeds", "1000")
	wantOutput(t, got, 1, "FAILED: never occurred: event:Suspected.")
	got = simulated(t, without, "--seeds", "999")
	wantOutput(t, got, 0, "never occurred: event:Suspected.", "PASSED")
	got = simulated(t, without, "--seeds", "1000", "--nodes", "1")
	wantOutput(t, got, 0, "never occurred: event:Suspected.", "PASSED")
}

// TestSimMutants catches all mutants but one, which the report must name.
func TestSimMutants(t *testing.T) {
	got := run(t, "", "sim", "--break", "list")
	wantOutput(t, got, 0, "delete-by-id", "D2 read literally")
	survivor := "upsert"
	caught := func(setup sim.Setup) sim.Result {
		r := sim.Result{Plan: &sim.Plan{}, Stats: sim.Stats{Virtual: time.Second}}
		if setup.Break.Name != survivor {
			r.Violation = &sim.Violation{Invariant: setup.Break.Kills[0]}
		}
		return r
	}
	got = simulated(t, caught, "--break", "all")
	wantOutput(t, got, 1, "| mutant |", "| delete-by-id | ", "| 1 / 1 / 1 | 1 s / 1 s / 1 s |",
		"| **nothing** | 2000 / 2000 / 2000 |",
		"FAILED: survived a series: upsert\n")
	survivor = ""
	wantOutput(t, simulated(t, caught, "--break", "all"), 0, "median 1 seed, most 1.")
}

// TestSimBench checks that every goal has a figure.
func TestSimBench(t *testing.T) {
	quick := func(setup sim.Setup) sim.Result {
		r := sim.Result{Plan: &sim.Plan{}, Stats: sim.Stats{Virtual: time.Second, Events: 1}}
		if setup.Break != nil {
			r.Violation = &sim.Violation{Invariant: setup.Break.Kills[0]}
		}
		return r
	}
	mutants := len(sim.Mutants())
	wantOutput(t, simulated(t, quick, "--bench"), 0, "core", "at least 10\n", "less than 100 MB\n",
		"at most 60 s\n", "at least 60\n",
		fmt.Sprintf("%d of %d", mutants, mutants), "all\n", "at most 50\n", "at most 2,000\n", "at most 3\n",
		"at most 3\n", "at most 5 s\n")
}
