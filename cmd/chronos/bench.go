package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos/bench"
	"chronos/cmd/chronos/bench/cluster"
	"chronos/cmd/chronos/bench/machine"
	"chronos/node/service"
)

// benchCommand puts a load on a delay service and measures what comes of it.
type benchCommand struct {
	Route []string `group:"load" placeholder:"IN=OUT" help:"Input topic and output topic. May be repeated: all alike."`

	loadFlags

	FindMax bool    `group:"search" help:"Look for the highest steady rate that is held."`
	Under   text    `group:"search" name:"p999-under" default:"100ms" placeholder:"TIME" help:"Default 100ms."`
	MaxRate float64 `group:"search" default:"100000" placeholder:"N" help:"No higher rate is tried. Default 100000."`
	Within  text    `group:"search" default:"5%" placeholder:"SHARE" help:"How near to the limit. Default 5%."`

	Group    *text    `group:"measure" placeholder:"NAME" help:"Group of the service: its offsets tell the intake."`
	Advance  *text    `group:"measure" placeholder:"TIME" help:"Timing advance of the service. Default 0s."`
	PID      []string `group:"measure" placeholder:"NAME=PID" help:"Measure that process and its children. Repeat it."`
	Patience *text    `group:"measure" placeholder:"TIME" help:"Wait so long for what is missing. Default 30s."`
	OnlySend bool     `group:"measure" help:"Wait for the intake only, not for what comes out."`

	MaxMessages *int  `group:"bound" placeholder:"N" help:"Send no more. Default 1000000; 10000000 to find the limit."`
	MaxTime     *text `group:"bound" placeholder:"TIME" help:"End after that. Default 15m; 1h to find the limit."`

	Output string `group:"output" short:"o" enum:"text,json" default:"text" placeholder:"FORM" help:"text or json."`
	HTML   *text  `group:"output" name:"html" placeholder:"FILE" help:"Write a page with plots, too."`

	clientSettings
}

// Help teaches with examples, and says what the exit code means.
func (c *benchCommand) Help() string {
	return `Sends messages on the input topics that are named, and watches what comes out on the output topics, of this
or of any other service that knows the headers chronosMessageId and chronosDeadline. Nothing is sent anywhere
else (--brokers and --route have no defaults here), no topic is created, no group is joined. What was sent
stays on the topics. BENCHMARKS.md says how to read what this prints.

  chronos bench --brokers kafka:9092 --route chronos.in=chronos.out --group chronos --rate 1000
  chronos bench --brokers kafka:9092 --route chronos.in=chronos.out --ramp 0..20000 --duration 5m --html ramp.html
  chronos bench --brokers kafka:9092 --route chronos.in=chronos.out --burst 100000 --in 30s --group chronos
  chronos bench --brokers kafka:9092 --route chronos.in=chronos.out --find-max --p999-under 100ms

The exit code is 0 if all came out, once, not early and as it went in (however late), or if a rate was held; 1 if not.
Ctrl-C ends the run and prints what was measured so far.`
}

// loadFlags say what the load is.
type loadFlags struct {
	Rate  *float64 `group:"load" placeholder:"N" help:"Send N a second; also of a burst; first of a search."`
	Ramp  *text    `group:"load" placeholder:"A..B" help:"Send at a rate that goes from A to B."`
	Burst *int     `group:"load" placeholder:"N" help:"Send N messages, all due at one instant."`

	Duration text    `group:"load" default:"30s" placeholder:"TIME" help:"How long to send. Default 30s."`
	Delay    text    `group:"load" default:"3s..6s" placeholder:"TIMES" help:"5s, 3s..6s or exp:5s. Default 3s..6s."`
	In       text    `group:"load" default:"30s" placeholder:"TIME" help:"How long until a burst is due. Default 30s."`
	Size     text    `group:"load" default:"200" placeholder:"BYTES" help:"200, 100..9000 or exp:500. Default 200."`
	Keys     int     `group:"load" placeholder:"N" help:"How many keys. Without it, each message has its own."`
	KeySkew  float64 `group:"load" placeholder:"S" help:"Some are frequent: Zipf's exponent, above 1, such as 1.1."`
	Twice    text    `group:"load" default:"0%" placeholder:"SHARE" help:"Send so many twice, same id. Default 0%."`
	WarmUp   *text   `group:"load" placeholder:"TIME" help:"Measure no speed before. Default 5s, or a fifth."`
	Seed     uint64  `group:"load" default:"1" placeholder:"N" help:"What all is drawn from. Default 1."`
}

// Bounds where nobody sets them: for one run, and for a search.
const (
	benchMessages, searchMessages = 1_000_000, 10_000_000
	benchTime, searchTime         = 15 * time.Minute, time.Hour
	benchPatience, searchPatience = 30 * time.Second, 2 * time.Minute

	// mostMessages is what one run may have at most: a gigabyte of state.
	mostMessages = 1_000_000_000
)

// benchPlan is what the flags ask for.
type benchPlan struct {
	load        bench.Load
	search      *bench.Search // nil for one run
	under       bench.Millis
	options     bench.Options
	maxMessages int
	cluster     cluster.Config
	about       string // where the service is, for people
	groups      []machine.Group
}

// Run measures, and writes what was measured.
func (c *benchCommand) Run(ctx context.Context, w *world) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
	p.options.Meter, err = p.meter()
	if err != nil {
		return err
	}
	s, err := cluster.Open(ctx, p.cluster)
	if err != nil {
		return err
	}
	defer s.Close()
	progress := &benchProgress{out: w.stderr, rewrites: isTerminal(w.stderr)}
	p.options.Tell = progress.tell
	var report benchReport
	var passed bool
	if p.search == nil {
		result, err := p.run(ctx, s, p.load)
		progress.clear()
		if err != nil {
			return err
		}
		report, passed = result, result.Passed()
	} else {
		found, err := p.find(ctx, s, progress)
		progress.clear()
		if err != nil {
			return err
		}
		report, passed = found, found.Rate > 0
	}
	if err := c.write(report, w.stdout); err != nil {
		return err
	}
	if !passed {
		return errFindings
	}
	return nil
}

// run measures one load.
func (p *benchPlan) run(ctx context.Context, s bench.Service, load bench.Load) (*bench.Result, error) {
	load.Run = "bench-" + strings.ToLower(rand.Text()[:8])
	result, err := bench.Run(ctx, &load, s, p.options)
	if err != nil {
		return nil, err
	}
	result.Service, result.Machine = p.about, machine.Describe()
	return result, nil
}

// errEnough ends a search that may send no more, or has no more time.
var errEnough = errors.New("enough")

// find looks for the highest rate that is held. All runs together keep within the bounds.
func (p *benchPlan) find(ctx context.Context, s bench.Service, progress *benchProgress) (*bench.Found, error) {
	sent, tooLate, why := 0, time.Now().Add(p.options.Limit), ""
	found, err := p.search.Find(ctx, func(ctx context.Context, rate float64) (bench.Step, error) {
		load := p.load
		load.Rate = rate
		p.options.Limit = time.Until(tooLate)
		switch {
		case why != "":
		case ctx.Err() != nil:
			why = "The search was interrupted."
		case sent+mostSubmissions(&load) > p.maxMessages:
			why = fmt.Sprintf("The search ended at --max-messages, before %.0f messages/s.", rate)
		case p.options.Limit < load.Duration:
			why = fmt.Sprintf("The search ended at --max-time, before %.0f messages/s.", rate)
		}
		if why != "" {
			return bench.Step{}, errEnough
		}
		result, err := p.run(ctx, s, load)
		if err != nil {
			return bench.Step{}, err
		}
		sent += result.Sent.Messages + result.Sent.Twice
		step := bench.Step{Rate: rate, Result: result}
		step.Held, step.Why = result.Holds(p.under)
		progress.step(&step)
		if result.Integrity.Missing > 0 {
			// What comes after all would be late with the next rate, and be blamed on it.
			why = fmt.Sprintf("The search ended because %d messages at %.0f/s were still missing after --patience.",
				result.Integrity.Missing, rate)
		}
		return step, nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	found.Bound = fmt.Sprintf("p99.9 under %v, runs of %v", p.under.Duration(), p.load.Duration)
	found.Ended = why
	return found, nil
}

// meter returns what measures the processes; nil where nothing can.
func (p *benchPlan) meter() (bench.Meter, error) {
	meter, err := machine.Open(p.groups)
	switch {
	case errors.Is(err, machine.ErrUnknown) && len(p.groups) == 0:
		return nil, nil
	case err != nil:
		return nil, usagef("--pid: %v", err)
	}
	return meter, nil
}

// benchReport is what a run or a search has shown.
type benchReport interface {
	WriteText(out io.Writer) error
	WriteHTML(out io.Writer) error
}

// write writes the report, and the page if one was asked for.
func (c *benchCommand) write(report benchReport, stdout io.Writer) (err error) {
	if c.Output == "json" {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(report)
	} else {
		err = report.WriteText(stdout)
	}
	if err != nil || c.HTML == nil {
		return err
	}
	file, err := os.Create(string(*c.HTML))
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return errors.Join(report.WriteHTML(file), file.Close())
}

// plan reads the flags.
func (c *benchCommand) plan() (*benchPlan, error) {
	p := &benchPlan{maxMessages: benchMessages, options: bench.Options{
		Limit: benchTime, Patience: benchPatience, Fill: c.OnlySend,
	}}
	if c.FindMax {
		p.maxMessages, p.options.Limit, p.options.Patience = searchMessages, searchTime, searchPatience
	}
	if c.MaxMessages != nil {
		p.maxMessages = *c.MaxMessages
	}
	for _, read := range []func(*benchPlan) error{c.readCluster, c.readShape, c.readSearch, c.readMeasure} {
		if err := read(p); err != nil {
			return nil, err
		}
	}
	p.load.Routes, p.load.Run = len(p.cluster.Routes), "bench"
	if err := p.load.Validate(); err != nil {
		return nil, usagef("%v", err)
	}
	p.cluster.Largest = int(p.load.Size.High)
	switch messages := mostSubmissions(&p.load); {
	case p.maxMessages < 1 || p.maxMessages > mostMessages:
		return nil, usagef("--max-messages is %d: it must be from 1 to %d", p.maxMessages, mostMessages)
	case messages > p.maxMessages:
		return nil, usagef("the load is of up to %d messages, and --max-messages allows %d", messages, p.maxMessages)
	}
	return p, nil
}

// mostSubmissions returns how many records a load may send: which of them are sent twice is drawn.
func mostSubmissions(load *bench.Load) int {
	if load.Twice > 0 {
		return 2 * load.Messages()
	}
	return load.Messages()
}

// readCluster reads where the service is. Nothing of that is guessed: a load on the wrong topics harms.
func (c *benchCommand) readCluster(p *benchPlan) error {
	if !c.values.BrokersAreSet() {
		return usagef("--brokers is not set: say where the load may go")
	}
	if len(c.Route) == 0 {
		return usagef("--route is not set: say where the load may go, such as --route chronos.in=chronos.out")
	}
	var names []string
	for _, route := range c.Route {
		in, out, ok := strings.Cut(route, "=")
		if !ok || in == "" || out == "" {
			return usagef("--route is %s: it must be the input topic, a =, and the output topic", shown(route))
		}
		for _, name := range []string{in, out} {
			if slices.Contains(names, name) {
				return usagef("--route has topic %s twice: each topic may be of one route", shown(name))
			}
			names = append(names, name)
		}
		p.cluster.Routes = append(p.cluster.Routes, cluster.Route{Input: in, Output: out})
	}
	connection, err := c.values.Connection()
	if err != nil {
		return err
	}
	p.about = fmt.Sprintf("Kafka at %s, %s", strings.Join(connection.Brokers, ","), strings.Join(c.Route, ", "))
	if c.Group != nil {
		p.cluster.Group = string(*c.Group)
		p.about += ", group " + p.cluster.Group
	}
	p.cluster.Connect = func(ctx context.Context, options ...kgo.Opt) (*kgo.Client, error) {
		return connect(ctx, c.values, options...)
	}
	return nil
}

// readMeasure reads how to measure.
func (c *benchCommand) readMeasure(p *benchPlan) error {
	for _, f := range []struct {
		name   string
		value  *text
		target *time.Duration
	}{
		{"advance", c.Advance, &p.load.Advance},
		{"patience", c.Patience, &p.options.Patience},
		{"max-time", c.MaxTime, &p.options.Limit},
	} {
		if f.value == nil {
			continue
		}
		if err := benchDuration(f.name, *f.value, f.target); err != nil {
			return err
		}
	}
	for _, of := range c.PID {
		name, number, ok := strings.Cut(of, "=")
		pid, err := strconv.Atoi(number)
		if !ok || name == "" || name == machine.Self || err != nil {
			return usagef("--pid is %s: it must be NAME=PID, such as node=4711", shown(of))
		}
		i := slices.IndexFunc(p.groups, func(g machine.Group) bool { return g.Name == name })
		if i < 0 {
			i = len(p.groups)
			p.groups = append(p.groups, machine.Group{Name: name})
		}
		p.groups[i].PIDs = append(p.groups[i].PIDs, pid)
	}
	return nil
}

// benchDuration reads the value of a flag.
func benchDuration(name string, value text, target *time.Duration) error {
	v := service.FlagValue(name, string(value))
	return v.Duration(target)
}
