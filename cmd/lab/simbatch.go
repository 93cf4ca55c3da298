package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"chronos/sim"
)

// coverageSeeds is how many seeds a batch must have so that what never occurred in it lets it fail.
const coverageSeeds = 1000

// outcome is what is left of a run in a batch.
type outcome struct {
	subject   *subject
	result    sim.Result
	again     uint64 // the hash of the second run
	different bool   // the two runs
}

// total is what a batch has shown so far. Runs are counted in their order, whoever ends first, so that
// what is printed depends on how many there were alone.
type total struct {
	runs     int
	fold     uint64
	virtual  time.Duration
	events   uint64
	faults   int
	coverage sim.Coverage

	broken      []outcome // that have broken an invariant
	differing   []outcome // that have two traces
	brokenCount int
}

// add counts a run.
func (t *total) add(o *outcome) {
	const kept = 10
	t.runs++
	t.fold = t.fold*31 + o.result.Hash
	t.virtual += o.result.Stats.Virtual
	t.events += o.result.Stats.Events
	t.faults += len(o.result.Plan.Faults)
	t.coverage.Add(o.result.Coverage)
	if o.different && len(t.differing) < kept {
		t.differing = append(t.differing, *o)
	}
	if o.result.Violation != nil {
		t.brokenCount++
		if len(t.broken) < kept {
			t.broken = append(t.broken, *o)
		}
	}
}

// batch runs many seeds.
func (c *simCommand) batch(ctx context.Context, w *world) error {
	mutant, err := c.mutant()
	if err != nil {
		return err
	}
	first := c.firstSeed()
	if _, err := c.drawn(first, mutant); err != nil {
		return err
	}
	p := &paper{out: w.stdout}
	p.line("%s", c.announcement(first, mutant))
	p.line("")
	if c.Duration > 0 {
		limited, cancel := context.WithTimeout(ctx, c.Duration)
		defer cancel()
		return c.report(ctx, p, first, c.runAll(limited, w, func(n uint64) *subject {
			return c.numbered(first, n, mutant)
		}))
	}
	return c.report(ctx, p, first, c.runAll(ctx, w, func(n uint64) *subject {
		return c.numbered(first, n, mutant)
	}))
}

// announcement says what a batch is about to do.
func (c *simCommand) announcement(first uint64, mutant *sim.Mutant) string {
	text := fmt.Sprintf("seeds from %d on", first)
	if c.Seeds != nil {
		text = fmt.Sprintf("%s from %d on", plural(*c.Seeds, "seed"), first)
	}
	if c.Duration > 0 {
		text += " for " + c.Duration.String()
	}
	text += fmt.Sprintf(", on %s", plural(workers(), "core"))
	if c.Twice {
		text += ", each run twice"
	}
	if c.Nodes != nil {
		text += fmt.Sprintf(", --nodes %d", *c.Nodes)
	}
	if c.Messages != nil {
		text += fmt.Sprintf(", --messages %d", *c.Messages)
	}
	if c.For != nil {
		text += fmt.Sprintf(", --for %v", *c.For)
	}
	if mutant != nil {
		text += fmt.Sprintf(", --break %s", mutant.Name)
	}
	return text
}

// numbered returns the nth run of a batch, from 0; nil if there are no more.
func (c *simCommand) numbered(first, n uint64, mutant *sim.Mutant) *subject {
	if n >= c.mostSeeds() || n > math.MaxUint64-first {
		return nil
	}
	s, err := c.drawn(first+n, mutant)
	if err != nil {
		return nil // The first one was fine, and all are alike.
	}
	return s
}

// mostSeeds is how many seeds a batch has at most.
func (c *simCommand) mostSeeds() uint64 {
	if c.Seeds != nil {
		return *c.Seeds
	}
	return math.MaxUint64
}

// workers is how many runs there are at a time.
func workers() int { return runtime.GOMAXPROCS(0) }

// atOnce returns a group of which so many run at a time. Its Go waits for one of them to end.
func atOnce(most int) *errgroup.Group {
	group := new(errgroup.Group)
	group.SetLimit(most)
	return group
}

// runAll runs subjects on all cores until there are no more or ctx is done. What has begun is brought to an end.
func (c *simCommand) runAll(ctx context.Context, w *world, next func(n uint64) *subject) *total {
	t := &total{coverage: sim.Coverage{}}
	var mu sync.Mutex
	var counted uint64
	early := map[uint64]*outcome{} // that ended before one that began earlier
	shown := newProgress(w.stderr, c.mostSeeds())
	end := func(n uint64, o *outcome) {
		mu.Lock()
		defer mu.Unlock()
		early[n] = o
		for early[counted] != nil {
			t.add(early[counted])
			delete(early, counted)
			counted++
		}
		shown.update(t)
	}
	running := atOnce(workers())
	for n := uint64(0); ctx.Err() == nil; n++ {
		s := next(n)
		if s == nil {
			break
		}
		running.Go(func() error {
			end(n, c.outcome(s))
			return nil
		})
	}
	_ = running.Wait() // no run returns an error
	shown.clear()
	return t
}

// outcome runs a subject of a batch.
func (c *simCommand) outcome(s *subject) *outcome {
	o := &outcome{subject: s}
	o.result = c.run(s.setup)
	if c.Twice {
		o.again = c.run(s.setup).Hash
		o.different = o.again != o.result.Hash
	}
	return o
}

// report writes what a batch has shown.
func (c *simCommand) report(ctx context.Context, p *paper, first uint64, t *total) error {
	p.figure("seeds", "%s, from %d to %d", thousands(t.runs), first, first+uint64(max(t.runs, 1))-1)
	p.figure("virtual time", "%s", span(t.virtual))
	p.figure("events", "%s", thousands(t.events))
	p.figure("faults", "%s", thousands(t.faults))
	p.figure("broken", "%s", plural(t.brokenCount, "seed"))
	p.figure("hash of all", "%016x", t.fold)
	p.line("")
	p.line("What has occurred, and how often:")
	p.line("")
	p.coverage(t.coverage)
	p.line("")
	switch {
	case len(t.differing) > 0:
		o := t.differing[0]
		return c.nondeterministic(p, o.subject, o.result.Hash, o.again)
	case len(t.broken) > 0:
		return c.brokenBatch(p, t)
	}
	whole := c.Break == "" && c.Nodes == nil && c.Messages == nil && c.For == nil
	missing := t.coverage.Missing()
	switch {
	case ctx.Err() != nil && uint64(t.runs) < c.mostSeeds():
		p.line("INTERRUPTED: what has run has passed")
		return &exitError{exitCouldNotRun, fmt.Errorf("interrupted after %s", plural(t.runs, "seed"))}
	case len(missing) > 0 && whole && t.runs >= coverageSeeds:
		p.paragraph("FAILED: never occurred: " + strings.Join(missing, ", ") +
			". What never occurs is not tested.")
		return brokenf("%s have never come by %s", plural(t.runs, "seed"), strings.Join(missing, ", "))
	case len(missing) > 0:
		p.paragraph(fmt.Sprintf("never occurred: %s. That lets a batch fail only when it has drawn everything "+
			"itself, and %s seeds or more.", strings.Join(missing, ", "), thousands(coverageSeeds)))
		p.line("")
	}
	p.line("PASSED: no invariant is broken")
	return p.err
}

// coverage writes how often each thing has occurred that must, by class.
func (p *paper) coverage(coverage sim.Coverage) {
	must := sim.Coverage{}
	for _, name := range sim.Sometimes() {
		if strings.Contains(name, ":") {
			must[name] = coverage[name]
		} else {
			must["point:"+name] = coverage[name]
		}
	}
	p.words(labelled, "faults", occurred(must, "fault")...)
	p.words(labelled, "engine", occurred(must, "event")...)
	p.words(labelled, "world", occurred(must, "point")...)
}

// brokenBatch tells which seeds have broken what, and all about the first of them.
func (c *simCommand) brokenBatch(p *paper, t *total) error {
	for i := range t.broken {
		v := t.broken[i].result.Violation
		p.words(labelled, t.broken[i].subject.name, strings.Fields(v.Invariant+": "+v.Detail)...)
	}
	if more := t.brokenCount - len(t.broken); more > 0 {
		p.line("  and %s more", plural(more, "seed"))
	}
	p.line("")
	o := &t.broken[0]
	p.line("%s, which is the first of them:", o.subject.name)
	p.line("")
	err := c.broken(p, o.subject, &o.result)
	if p.err != nil {
		return p.err
	}
	return err
}

// allScenarios runs all scenarios.
func (c *simCommand) allScenarios(ctx context.Context, w *world) error {
	scripts, err := sim.Scenarios()
	if err != nil {
		return err
	}
	p := &paper{out: w.stdout}
	var failed []string
	for _, script := range scripts {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted before the scenario %s", script.Name)
		}
		setup, err := script.Setup()
		if err != nil {
			return fmt.Errorf("scenario %s: %w", script.Name, err)
		}
		name := "scenario " + script.Name
		one := &subject{
			name: name, setup: setup, script: script, replay: self + " sim --scenario " + script.Name,
		}
		c.follow(one)
		o := c.outcome(one)
		if o.different {
			return c.nondeterministic(p, o.subject, o.result.Hash, o.again)
		}
		verdict := scenarioVerdict(script, &o.result)
		if strings.HasPrefix(verdict, "FAILED") {
			failed = append(failed, script.Name)
		}
		label := fmt.Sprintf("%-28s  %016x", script.Name, o.result.Hash)
		p.words(len(label)+4, label, strings.Fields(verdict)...)
	}
	p.line("")
	if len(failed) > 0 {
		p.line("FAILED: %d of %s", len(failed), plural(len(scripts), "scenario"))
		p.line("")
		for _, name := range failed {
			p.line("  %s sim --scenario %s", self, name)
		}
		return brokenf("scenarios fail: %s", strings.Join(failed, ", "))
	}
	p.line("PASSED: all of %s", plural(len(scripts), "scenario"))
	return p.err
}

// scenarioVerdict says in a few words whether a scenario has shown what it is meant to.
func scenarioVerdict(script *sim.Script, r *sim.Result) string {
	v := r.Violation
	missing := absent(script.Sometimes, r.Coverage)
	switch {
	case v != nil && v.Invariant != script.Expect:
		return "FAILED: breaks " + v.Invariant
	case v != nil:
		return "passed: breaks " + v.Invariant + ", as it is meant to"
	case script.Expect != "":
		return "FAILED: does not break " + script.Expect
	case len(missing) > 0:
		return "FAILED: never occurred: " + strings.Join(missing, ", ")
	}
	return "passed"
}

// tuneForThroughput lets the garbage collector run rarely, and returns what undoes that. A world is small and soon
// gone: to collect whenever the memory in use has doubled takes a sixth of all time (measured with 3,000 seeds), and
// to wait for longer than this gains nothing more.
func tuneForThroughput() (undo func()) {
	percent := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(percent) }
}
