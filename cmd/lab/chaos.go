package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/chaos"
)

// chaosCommand runs the chaos suite: it starts Kafka and Postgres, lets nodes of the built binary deliver messages
// while faults strike, and judges what came of it. `make chaos` is its usual call.
type chaosCommand struct {
	Seed     uint64        `group:"run" default:"1" placeholder:"N" help:"What workload and faults are drawn from."`
	Scenario []string      `group:"run" placeholder:"NAME,..." help:"Run these only; or list."`
	HoldTime time.Duration `group:"run" default:"5s" placeholder:"TIME" help:"The hold time of the nodes."`
	Start    string        `group:"run" placeholder:"COMMAND" help:"Judge another implementation, started like this."`
	Mutants  bool          `group:"run" help:"Run every mutant (of these scenarios), and see that it is caught."`

	Repeat   int           `group:"batch" default:"1" placeholder:"N" help:"Run all N times, each with the next seed."`
	Duration time.Duration `group:"batch" placeholder:"TIME" help:"Go on with the next seed until that has passed."`
	AtOnce   int           `group:"batch" default:"2" placeholder:"N" help:"Scenarios at once, each on own servers."`

	Backend  string `group:"where" enum:",processes,containers" default:"" help:"processes or containers."`
	Kafka    string `group:"where" placeholder:"HOST:PORT,..." help:"Use this Kafka, and leave it running."`
	Postgres string `group:"where" placeholder:"URL" help:"Use this Postgres, as superuser, with wal_level logical."`

	Report   string `group:"output" placeholder:"FILE" help:"Write a page with a timeline of each scenario."`
	Markdown string `group:"output" placeholder:"FILE" help:"Write the table as Markdown."`
	Dir      string `group:"output" default:".cache/chaos" placeholder:"DIR" help:"Where logs and histories go."`
}

// Help says where to read on.
func (c *chaosCommand) Help() string {
	return `docs/CHAOS.md says what the scenarios are, and how to read what this prints.

Exit codes: 0 passed; 1 a promise is broken; 2 could not run.`
}

// errBroken says that a promise is broken, which the tables have told already.
var errBroken = errors.New("not everything has passed")

// Run runs what was asked for.
func (c *chaosCommand) Run(ctx context.Context, w *world) error {
	if slices.Contains(c.Scenario, "list") {
		p := &paper{out: w.stdout}
		for _, s := range chaos.Scenarios() {
			p.line("%-22s %s", s.Name, s.About)
		}
		return p.err
	}
	passed, err := c.run(ctx, w.stdout, w.stderr)
	switch {
	case !passed && err != nil: // that a promise is broken is what matters more
		return &exitError{exitBroken, err}
	case !passed:
		return &exitError{exitBroken, errBroken}
	}
	return err
}

// run runs what was asked for, prints the tables, and reports whether everything has passed.
func (c *chaosCommand) run(ctx context.Context, stdout, stderr io.Writer) (passed bool, err error) {
	if (c.Kafka == "") != (c.Postgres == "") {
		return true, errors.New("--kafka and --postgres go together")
	}
	scenarios, err := c.chosen()
	if err != nil {
		return true, err
	}
	say := &screen{out: stderr}
	config := chaos.Config{
		Backend: c.Backend, Kafka: c.Kafka, Postgres: c.Postgres, Start: c.Start, HoldTime: c.HoldTime, Say: say,
	}
	mutants := slices.DeleteFunc(chaos.Mutants(), func(m *chaos.Mutant) bool {
		return !slices.ContainsFunc(scenarios, func(s *chaos.Scenario) bool { return s.Name == m.Scenario.Name })
	})
	if c.Mutants && len(mutants) == 0 {
		return true, errors.New("there are no mutants for these scenarios")
	}
	if c.Mutants {
		config.Mutant = mutants[0].Name // one binary has them all
	}
	undo, err := chaos.Prepare(ctx, &config)
	defer func() { err = errors.Join(err, undo()) }()
	switch {
	case ctx.Err() != nil:
		return true, errors.New("interrupted")
	case err != nil:
		return true, err
	case c.Mutants:
		return c.hunt(ctx, mutants, config, stdout, say)
	}
	return c.all(ctx, scenarios, config, stdout, say)
}

// all runs the scenarios, some at once, and prints the table.
func (c *chaosCommand) all(
	ctx context.Context, scenarios []*chaos.Scenario, config chaos.Config, stdout io.Writer, say *screen,
) (bool, error) {
	begin := time.Now()
	var tries []*try
	next := func() *try {
		round := len(tries) / len(scenarios)
		if round >= c.Repeat && time.Since(begin) >= c.Duration {
			return nil
		}
		t := &try{scenario: scenarios[len(tries)%len(scenarios)], seed: c.Seed + uint64(round)}
		tries = append(tries, t)
		return t
	}
	c.tryAll(ctx, next, config, say)
	results, absent, err := sortOut(tries)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if len(results) > 0 {
		err = errors.Join(err, c.write(stdout, results))
	}
	if len(absent) > 0 {
		_, _ = fmt.Fprintf(stdout, "not run, because it is not possible here: %s\n", strings.Join(absent, ", "))
	}
	if len(results) == 0 && err == nil {
		err = errors.New("nothing could be run")
	}
	return !slices.ContainsFunc(results, func(r *chaos.Result) bool { return !r.Passed() }), err
}

// chosen returns the scenarios that were named, or all.
func (c *chaosCommand) chosen() ([]*chaos.Scenario, error) {
	all := chaos.Scenarios()
	if len(c.Scenario) == 0 {
		return all, nil
	}
	var chosen []*chaos.Scenario
	for _, name := range c.Scenario {
		found := false
		for _, s := range all {
			if s.Name == name {
				chosen, found = append(chosen, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no scenario %q: --scenario list shows them", name)
		}
	}
	return chosen, nil
}

// tell says what a scenario has shown; of a failure, all that is needed to look into it.
func (c *chaosCommand) tell(r *chaos.Result, out io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	s := &r.Verdict.Summary
	if r.Busy > 0 {
		say("the machine was busy: an answer took %v without a fault, and bounds are wider by that",
			r.Busy.Round(time.Millisecond))
	}
	if r.Passed() {
		say("passed in %v: submitted %d, fired %d, duplicates %d, nothing lost",
			r.Took.Round(time.Second), r.Submitted, s.Fired, s.Duplicates)
		return
	}
	if s.Lost > 0 {
		say("LOST %d of %d submissions", s.Lost, r.Submitted)
	}
	for i := range r.Verdict.Violations {
		if i == 5 {
			say("and %d more", len(r.Verdict.Violations)-i)
			break
		}
		say("%s", r.Verdict.Violations[i].String())
	}
	for _, b := range r.Broken {
		say("BROKEN %s", b)
	}
	say("logs and history: %s", filepath.Dir(r.History))
	say("judge it again:   %s check %s", self, r.History)
	again := []string{fmt.Sprintf("%s chaos --scenario %s --seed %d", self, r.Scenario, r.Seed)}
	for _, f := range [][2]string{
		{"hold-time", c.HoldTime.String()},
		{"backend", c.Backend},
		{"start", c.Start},
		{"kafka", c.Kafka},
		{"postgres", c.Postgres},
	} {
		if f[1] != "" {
			again = append(again, fmt.Sprintf("--%s '%s'", f[0], f[1]))
		}
	}
	say("run it again:     %s", strings.Join(again, " "))
}

// write prints the table and writes the files that were asked for.
func (c *chaosCommand) write(stdout io.Writer, results []*chaos.Result) error {
	if len(results) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(stdout)
	if err := chaos.WriteTable(stdout, results); err != nil {
		return err
	}
	report := &chaos.Report{
		Title:   "Chaos, from seed " + strconv.FormatUint(c.Seed, 10),
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
		Results: results,
	}
	for name, write := range map[string]func(io.Writer) error{
		c.Report: report.WriteHTML, c.Markdown: func(w io.Writer) error { return chaos.WriteMarkdown(w, results) },
	} {
		if name == "" {
			continue
		}
		out, err := os.Create(name)
		if err == nil {
			err = errors.Join(write(out), out.Close())
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// hunt runs every mutant in the scenario that is to catch it.
func (c *chaosCommand) hunt(
	ctx context.Context, mutants []*chaos.Mutant, config chaos.Config, stdout io.Writer, say *screen,
) (bool, error) {
	var tries []*try
	next := func() *try {
		if len(tries) == len(mutants) {
			return nil
		}
		m := mutants[len(tries)]
		t := &try{scenario: m.Scenario, seed: c.Seed, mutant: m}
		tries = append(tries, t)
		return t
	}
	c.tryAll(ctx, next, config, say)
	passed := true
	for _, t := range tries {
		if t.err != nil {
			return passed, fmt.Errorf("mutant %s: %w", t.mutant.Name, t.err)
		}
		passed = passed && (t.mutant.Caught(t.result) != "") != t.mutant.Passes
		_, _ = fmt.Fprintf(stdout, "%-20s %s\n", t.mutant.Name, t.verdict())
	}
	return passed, nil
}
