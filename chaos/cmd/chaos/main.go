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
func (c *commandLine) run(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	if (c.Kafka == "") != (c.Postgres == "") {
		return true, errors.New("--kafka and --postgres go together")
	}
	scenarios, err := c.chosen()
	if err != nil {
		return true, err
	}
	if c.Mutants {
		return c.hunt(ctx, stdout, stderr)
	}
	begin := time.Now()
	var results []*chaos.Result
	passed := true
	var failed error
	var absent []string
	for round := 0; round < c.Repeat || time.Since(begin) < c.Duration; round++ {
		for i, s := range scenarios {
			seed := c.Seed + uint64(round)
			_, _ = fmt.Fprintf(stderr, "[%d/%d] %s, seed %d: %s\n", i+1, len(scenarios), s.Name, seed, s.About)
			r, err := c.one(ctx, s, seed, "", stderr)
			switch {
			case ctx.Err() != nil:
				return passed, errors.Join(errors.New("interrupted"), c.write(stdout, results))
			case chaos.Impossible(err):
				_, _ = fmt.Fprintf(stderr, "  not run: %v\n", err)
				absent = append(absent, s.Name)
				continue
			case err != nil:
				failed = fmt.Errorf("scenario %s, seed %d: %w", s.Name, seed, err)
				_, _ = fmt.Fprintf(stderr, "  could not run: %v\n", err)
				continue
			}
			results = append(results, r)
			passed = passed && r.Passed()
			c.tell(r, stderr)
		}
	}
	if err := errors.Join(failed, c.write(stdout, results)); err != nil {
		return passed, err
	}
	if len(absent) > 0 {
		_, _ = fmt.Fprintf(stdout, "not run, because it is not possible here: %s\n", strings.Join(absent, ", "))
	}
	if len(results) == 0 {
		return true, errors.New("nothing could be run")
	}
	return passed, nil
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

// one runs one scenario, in a folder of its own.
func (c *commandLine) one(
	ctx context.Context, s *chaos.Scenario, seed uint64, mutant string, say io.Writer,
) (*chaos.Result, error) {
	name := fmt.Sprintf("%s-%d", s.Name, seed)
	if mutant != "" {
		name += "-" + mutant
	}
	dir := filepath.Join(c.Dir, name)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, fmt.Errorf("make a folder for the logs: %w", err)
	}
	return chaos.Run(ctx, s, chaos.Config{
		Seed: seed, Backend: c.Backend, Kafka: c.Kafka, Postgres: c.Postgres, Dir: dir,
		Start: c.Start, Mutant: mutant, HoldTime: c.HoldTime, Say: say,
	})
}

// tell says what a scenario has shown; of a failure, all that is needed to look into it.
func (c *commandLine) tell(r *chaos.Result, out io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, "  "+format+"\n", args...) }
	s := &r.Verdict.Summary
	if r.Passed() {
		say("passed in %v: %d submitted, %d fired, %d duplicates, nothing lost",
			r.Took.Round(time.Second), r.Submitted, s.Fired, s.Duplicates)
		return
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
		Title:   fmt.Sprintf("Chaos: %d scenarios", len(results)),
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
func (c *commandLine) hunt(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	passed := true
	for _, m := range chaos.Mutants() {
		_, _ = fmt.Fprintf(stderr, "mutant %s: %s\n", m.Name, m.About)
		caught, err := c.catch(ctx, m, stderr)
		if err != nil {
			return true, err
		}
		passed = passed && (caught != "") != m.Passes
		switch {
		case m.Passes && caught == "":
			caught = "passes, as it should"
		case m.Passes:
			caught = "SHOULD PASS, and is caught " + caught
		case caught == "":
			caught = "NOT CAUGHT in " + m.Scenario.Name
		}
		_, _ = fmt.Fprintf(stdout, "%-28s %s\n", m.Name, strings.TrimSpace(caught))
	}
	return passed, nil
}

// catch runs a mutant with up to three seeds, and says what has caught it; "" for nothing.
func (c *commandLine) catch(ctx context.Context, m *chaos.Mutant, stderr io.Writer) (string, error) {
	for try := range uint64(3) {
		r, err := c.one(ctx, m.Scenario, c.Seed+try, m.Name, stderr)
		if err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if len(r.Verdict.Violations) > 0 {
			return fmt.Sprintf("by %s in %s, seed %d: %s", r.Verdict.Violations[0].Invariant, m.Scenario.Name, r.Seed,
				r.Verdict.Violations[0].Detail), nil
		}
		if m.Passes {
			break
		}
	}
	return "", nil
}
