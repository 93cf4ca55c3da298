// Chaos runs the chaos suite: it starts Kafka and Postgres, lets nodes of the built binary deliver messages while
// faults strike, and judges what came of it. `make chaos` is its usual call; docs/CHAOS.md says how to read what it
// prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"chronos/chaos"
)

// The exit codes, the same as those of chronos sim.
const (
	exitBroken      = 1
	exitCouldNotRun = 2
)

// commandLine is what can be asked for.
type commandLine struct {
	Seed     uint64        `default:"1" placeholder:"N" help:"What workload and faults are drawn from."`
	Scenario []string      `placeholder:"NAME,..." help:"Run these only; or list."`
	Repeat   int           `default:"1" placeholder:"N" help:"Run everything so often, each time with the next seed."`
	Duration time.Duration `placeholder:"TIME" help:"Go on with the next seed until so much time has passed."`
	AtOnce   int           `default:"2" placeholder:"N" help:"So many scenarios run at once, on servers of their own."`
	Backend  string        `enum:",processes,containers" default:"" placeholder:"NAME" help:"processes or containers."`
	Kafka    string        `placeholder:"HOST:PORT,..." help:"Use this Kafka, which is left running. With --postgres."`
	Postgres string        `placeholder:"URL" help:"Use this Postgres, as superuser; wal_level has to be logical."`
	Report   string        `placeholder:"FILE" help:"Write a page with a timeline of each scenario."`
	Markdown string        `placeholder:"FILE" help:"Write the table as Markdown."`
	Dir      string        `default:".cache/chaos" placeholder:"DIR" help:"Where logs and histories go."`
	HoldTime time.Duration `default:"5s" placeholder:"TIME" help:"The hold time of the nodes."`
	Start    string        `placeholder:"COMMAND" help:"Judge another implementation, by its start command."`
	Mutants  bool          `help:"Run every mutant, and see that it is caught."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var line commandLine
	helped := false
	parser, err := kong.New(&line, kong.Name("chaos"), kong.Writers(stdout, stderr),
		kong.Description("Run nodes on real servers while faults strike, and judge what comes of it.\n\n"+
			"Exit codes: 0 passed; 1 a promise is broken; 2 could not run."),
		kong.Exit(func(int) { helped = true }))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if helped {
		return 0
	}
	if err == nil && slices.Contains(line.Scenario, "list") {
		for _, s := range chaos.Scenarios() {
			_, _ = fmt.Fprintf(stdout, "%-22s %s\n", s.Name, s.About)
		}
		return 0
	}
	passed := true
	if err == nil {
		passed, err = line.run(ctx, stdout, stderr)
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "chaos: %v\n", err)
		if !passed {
			return exitBroken // which is what matters more
		}
		return exitCouldNotRun
	case !passed:
		return exitBroken
	}
	return 0
}

// run runs what was asked for, prints the tables, and tells whether everything has passed.
func (c *commandLine) run(ctx context.Context, stdout, stderr io.Writer) (passed bool, err error) {
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
	mutants := chaos.Mutants()
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
func (c *commandLine) all(
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
	c.atOnce(ctx, next, config, say)
	results, absent, err := outcome(tries)
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
func (c *commandLine) chosen() ([]*chaos.Scenario, error) {
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
func (c *commandLine) tell(r *chaos.Result, out io.Writer) {
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
	say("judge it again:   go run ./cmd/chronos check %s", r.History)
	again := []string{fmt.Sprintf("go run ./chaos/cmd/chaos --scenario %s --seed %d", r.Scenario, r.Seed)}
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
func (c *commandLine) write(stdout io.Writer, results []*chaos.Result) error {
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
func (c *commandLine) hunt(
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
	c.atOnce(ctx, next, config, say)
	passed := true
	for _, t := range tries {
		if t.err != nil {
			return passed, fmt.Errorf("mutant %s: %w", t.mutant.Name, t.err)
		}
		passed = passed && (t.mutant.Caught(t.result) != nil) != t.mutant.Passes
		_, _ = fmt.Fprintf(stdout, "%-20s %s\n", t.mutant.Name, t.verdict())
	}
	return passed, nil
}
