package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"chronos/sim"
)

// simCommand runs the simulator.
type simCommand struct {
	Seed     *uint64        `group:"run" placeholder:"N" help:"The seed that all is drawn from. Default 1."`
	Nodes    *int           `group:"run" placeholder:"N" help:"Nodes in the cluster. Default drawn: 1 to 5."`
	Messages *int           `group:"run" placeholder:"N" help:"Submissions. Default drawn: 10 to 300."`
	For      *time.Duration `group:"run" placeholder:"TIME" help:"Virtual time in which faults strike. Default 30s."`

	Scenario string `group:"what" placeholder:"NAME" help:"Run a named scenario; or all, or list."`
	Plan     string `group:"what" placeholder:"FILE" help:"Run the plan in a file, such as one of a failure."`
	Break    string `group:"what" placeholder:"NAME" help:"Run a mutant, an engine broken on purpose; or all, or list."`

	Seeds    *uint64       `group:"batch" placeholder:"N" help:"Run so many seeds, from --seed on, on all cores."`
	Duration time.Duration `group:"batch" placeholder:"TIME" help:"Run seeds for so long, by the clock on the wall."`
	Twice    bool          `group:"batch" help:"Run everything twice: one seed must give one trace."`
	Proof    bool          `group:"batch" help:"Check each step to be one of the proof, see lab proof. Takes longer."`
	Bench    bool          `group:"batch" help:"Measure speed and memory, in a few minutes."`

	Trace   string `group:"output" placeholder:"FILE" help:"Write each step as a line; - is standard output."`
	History string `group:"output" placeholder:"FILE" help:"Write what the judge sees, for lab check."`
	HTML    string `group:"output" name:"html" placeholder:"FILE" help:"Draw the run, or a failure, as a page."`

	run func(sim.Setup) sim.Result // nil for sim.Run; tests put something else here
}

// Help tells what the output means.
func (c *simCommand) Help() string {
	return `The engine of "chronos run", unchanged, in a simulated world: virtual nodes, a store, brokers, clocks, and
faults that strike all of them. One seed gives one run, to the last bit, on every machine. A judge watches, and
says which invariant is broken, if one is. The plan of a failure is made as small as it gets, its story is told,
and the command that replays it is printed.

    lab sim                                   one run
    lab sim --seed 7 --nodes 100 --for 5m     one run, of another size
    lab sim --seeds 10000                     many runs
    lab sim --break all                       how soon each mutant is caught, as a table
    lab sim --scenario h01-lost-delete-reply --break delete-by-id
                                              what goes wrong with another algorithm

Exit codes: 0 passed; 1 an invariant is broken, or a batch has never come by something that it must; 2 could not
run; 3 two runs with one seed differ.`
}

// Run runs what the flags say.
func (c *simCommand) Run(ctx context.Context, w *world) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.run == nil {
		c.run = sim.Run
	}
	defer tuneForThroughput()()
	switch {
	case c.Scenario == "list":
		return listScenarios(w)
	case c.Break == "list":
		return listMutants(w)
	case c.Bench:
		return c.bench(ctx, w)
	case c.Break == "all":
		return c.hunt(ctx, w)
	case c.Scenario == "all":
		return c.allScenarios(ctx, w)
	case c.Seeds != nil || c.Duration > 0:
		return c.batch(ctx, w)
	}
	s, err := c.subject()
	if err != nil {
		return err
	}
	return c.single(w, s)
}

// check returns an error for flags that do not go together.
func (c *simCommand) check() error {
	given := map[string]bool{
		"seed": c.Seed != nil, "nodes": c.Nodes != nil, "messages": c.Messages != nil, "for": c.For != nil,
		"scenario": c.Scenario != "", "plan": c.Plan != "", "break": c.Break != "", "seeds": c.Seeds != nil,
		"duration": c.Duration > 0, "twice": c.Twice, "trace": c.Trace != "", "html": c.HTML != "",
		"history": c.History != "", "bench": c.Bench, "proof": c.Proof,
	}
	switch {
	case c.Seeds != nil && *c.Seeds == 0:
		return fmt.Errorf("--seeds is 0: it must be 1 or more")
	case c.Duration < 0:
		return fmt.Errorf("--duration is %v: it must be positive", c.Duration)
	}
	drawn := []string{"seed", "nodes", "messages", "for"}
	for _, mode := range []struct {
		is    bool
		names []string // the flags that make the mode
		with  []string // the other flags that go with it
	}{
		{c.Bench, []string{"bench"}, nil},
		{c.Scenario == "list", []string{"scenario"}, nil},
		{c.Break == "list" || c.Break == "all", []string{"break"}, nil},
		{c.Scenario == "all", []string{"scenario"}, []string{"twice", "proof"}},
		{c.Scenario != "", []string{"scenario"}, []string{"break", "twice", "trace", "html", "history", "proof"}},
		{c.Plan != "", []string{"plan"}, []string{"break", "twice", "trace", "html", "history", "proof"}},
		{
			c.Seeds != nil || c.Duration > 0,
			[]string{"seeds", "duration"},
			append(drawn, "break", "twice", "html", "proof"),
		},
		{true, nil, append(drawn, "break", "twice", "trace", "html", "history", "proof")},
	} {
		if !mode.is {
			continue
		}
		for _, name := range slices.Concat(drawn, []string{
			"scenario", "plan", "break", "seeds", "duration", "twice", "trace", "html", "history", "bench", "proof",
		}) {
			if given[name] && !slices.Contains(mode.names, name) && !slices.Contains(mode.with, name) {
				first := mode.names[0]
				for _, n := range mode.names {
					if given[n] {
						first = n
					}
				}
				return fmt.Errorf("--%s and --%s do not go together; \"lab sim --help\" explains", first, name)
			}
		}
		return nil
	}
	return nil
}

// subject is what a single run is about.
type subject struct {
	name   string // as a person calls it
	about  string // what it shows; "" if nobody knows
	setup  sim.Setup
	script *sim.Script // what a run with a script expects; nil for a run that is drawn from its seed
	replay string      // the command that runs it again
}

// subject returns the run that the flags name.
func (c *simCommand) subject() (*subject, error) {
	mutant, err := c.mutant()
	if err != nil {
		return nil, err
	}
	if c.Plan == "" && c.Scenario == "" {
		return c.drawn(c.firstSeed(), mutant)
	}
	s := &subject{}
	if s.script, err = c.script(); err != nil {
		return nil, err
	}
	s.about = s.script.About
	s.name, s.replay = "scenario "+c.Scenario, self+" sim --scenario "+c.Scenario
	if c.Plan != "" {
		s.name, s.replay = "plan "+c.Plan, self+" sim --plan "+quoted(c.Plan)
	}
	if mutant != nil {
		s.script.Break, s.script.Expect = c.Break, ""
		s.replay += " --break " + c.Break
	}
	if s.setup, err = s.script.Setup(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	c.follow(s)
	return s, nil
}

// follow has a run checked against the proof, if that was asked for.
func (c *simCommand) follow(s *subject) {
	if c.Proof {
		s.setup.Proof = true
		s.replay += " --proof"
	}
}

// script reads the scenario or the plan.
func (c *simCommand) script() (*sim.Script, error) {
	if c.Scenario != "" {
		script, err := sim.ScenarioByName(c.Scenario)
		if err != nil {
			return nil, fmt.Errorf("%w; \"lab sim --scenario list\" lists them", err)
		}
		return script, nil
	}
	file, err := os.Open(c.Plan)
	if err != nil {
		return nil, fmt.Errorf("--plan is %s: %w", c.Plan, errors.Unwrap(err))
	}
	defer func() { _ = file.Close() }() // It was only read.
	script, err := sim.ReadScript(file)
	if err != nil {
		return nil, fmt.Errorf("--plan is %s: %w", c.Plan, err)
	}
	return script, nil
}

// mutant returns the mutant that --break names; nil if none is named.
func (c *simCommand) mutant() (*sim.Mutant, error) {
	if c.Break == "" {
		return nil, nil //nolint:nilnil // no mutant is what was asked for
	}
	m, err := sim.MutantByName(c.Break)
	if err != nil {
		return nil, fmt.Errorf("%w; \"lab sim --break list\" lists them", err)
	}
	return m, nil
}

// firstSeed returns the seed that was asked for.
func (c *simCommand) firstSeed() uint64 {
	if c.Seed != nil {
		return *c.Seed
	}
	return 1
}

// drawn returns the run that is drawn from a seed, changed as the flags say.
func (c *simCommand) drawn(seed uint64, mutant *sim.Mutant) (*subject, error) {
	s := &subject{
		name:   fmt.Sprintf("seed %d", seed),
		setup:  swarm(seed, mutant),
		replay: fmt.Sprintf("%s sim --seed %d", self, seed),
	}
	o := &s.setup.Options
	if c.Nodes != nil {
		o.Nodes = *c.Nodes
		o.Fates = fates(o.Fates, *c.Nodes)
		s.replay += fmt.Sprintf(" --nodes %d", *c.Nodes)
	}
	if c.Messages != nil {
		o.Messages = *c.Messages
		s.replay += fmt.Sprintf(" --messages %d", *c.Messages)
	}
	if c.For != nil {
		o.Faulty = *c.For
		s.replay += fmt.Sprintf(" --for %v", *c.For)
	}
	if mutant != nil {
		s.replay += " --break " + mutant.Name
	}
	c.follow(s)
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return s, nil
}

// swarm draws the run of a seed. A mutant is given what it needs to have a chance.
func swarm(seed uint64, mutant *sim.Mutant) sim.Setup {
	if mutant != nil {
		return mutant.Drawn(seed)
	}
	return sim.Setup{Options: sim.Swarm(seed)}
}

// fates returns what becomes of so many nodes: what was drawn for them, the rest healed, and one of them at least.
func fates(drawn string, nodes int) string {
	drawn = drawn[:max(min(nodes, len(drawn)), 0)]
	if len(drawn) == nodes && !strings.ContainsRune(drawn, sim.FateHealed) && nodes > 0 {
		return string(sim.FateHealed) + drawn[1:]
	}
	return drawn
}

// quoted returns a file name as a shell takes it.
func quoted(name string) string {
	if strings.ContainsAny(name, " \t'\"$&;|<>()*?[]#~`\\!") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}

// listScenarios prints the scenarios, each with what it shows.
func listScenarios(w *world) error {
	scripts, err := sim.Scenarios()
	if err != nil {
		return err
	}
	p := &paper{out: w.stdout}
	for _, s := range scripts {
		p.words(32, s.Name, strings.Fields(s.About)...)
	}
	return p.err
}

// listMutants prints the mutants, each with what is wrong with it.
func listMutants(w *world) error {
	p := &paper{out: w.stdout}
	for _, m := range sim.Mutants() {
		p.words(32, m.Name, strings.Fields(m.About)...)
	}
	return p.err
}
