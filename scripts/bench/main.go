// Command bench measures Chronos on this machine, and writes the tables of BENCHMARKS.md: `make bench`. It starts a
// Kafka and a Postgres, and for each case a site of its own: topics, a database, nodes of the built binary. What is
// measured, `chronos bench` measures, in a process of its own; each of its command lines stands below the table.
//
//	go run ./scripts/bench                            the standard set, which prints
//	go run ./scripts/bench --write BENCHMARKS.md      and writes between the marks in that file
//	go run ./scripts/bench --curve backlog            how rate and lateness depend on what waits
//	go run ./scripts/bench --against 7ea5c5d          this tree beside another commit, in turns, by ratio
//	go run ./scripts/bench --scale 0.01               a hundredth of everything: does it work at all?
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"chronos/cmd/chronos/bench/machine"
)

// options are the command line.
type options struct {
	curve, write, dir, against string
	scale                      float64
	list                       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what args ask for.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.curve, "curve", "",
		"measure these curves, separated by commas, or all, in place of the standard set")
	flags.StringVar(&o.against, "against", "", "compare with this commit, in place of the standard set")
	flags.StringVar(&o.write, "write", "", "write the tables into this file, between their marks")
	flags.StringVar(&o.dir, "dir", ".cache/bench", "where logs, JSON and pages go")
	flags.Float64Var(&o.scale, "scale", 1, "multiply all numbers of messages by this, to 0.001")
	flags.BoolVar(&o.list, "list", false, "list what can be measured")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	cases, err := chosen(&o)
	if err != nil || o.list {
		for _, c := range allCases() {
			_, _ = fmt.Fprintf(stdout, "%-16s %s\n", c.name, c.about)
		}
		return err
	}
	if err := hasPlaces(o.write, cases); err != nil {
		return err
	}
	g, err := open(ctx, &o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for _, c := range cases {
		table := &table{
			name: c.name, machine: machine.Describe(), commit: g.commit, began: time.Now(), scale: o.scale,
		}
		g.say("measuring %s: %s", c.name, c.about)
		if err := c.measure(ctx, g, table); err != nil {
			return fmt.Errorf("measure %s: %w", c.name, err)
		}
		if _, err := io.WriteString(stdout, "\n"+table.markdown()); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
		if o.write != "" { // one by one, so that nothing is lost when a later one fails
			if err := writeTable(o.write, table); err != nil {
				return err
			}
		}
	}
	return nil
}

// measurement is one table.
type measurement struct {
	name, about string
	measure     func(ctx context.Context, g *ground, t *table) error
}

// standard is what `make bench` measures; curves are measured on demand.
func standard() []measurement {
	return []measurement{
		{"speed", "intake, firing, what a message costs, and the highest steady rate", measureSpeed},
		{"lateness", "lateness at 1,000 and 5,000 messages/s, with up to two million waiting", measureLateness},
	}
}

func curves() []measurement {
	return []measurement{
		{"backlog", "lateness and the highest rate with 10 thousand, 1 and 10 million waiting", measureBacklog},
		{"size", "lateness at 200 messages/s with values of 100 bytes to 100 kB", measureSize},
		{"nodes", "what a message costs one, two, four and eight nodes, and what they cost at rest", measureNodes},
		{"routes", "lateness at 1,000 messages/s over 1, 10 and 100 routes", measureRoutes},
		{"snapshot", "lateness while a transaction holds an old snapshot open", measureSnapshot},
		{"overdue", "lateness of new messages while a million overdue ones come out, which is timed", measureOverdue},
		{"advance", "how far from deadlines messages come out without timing advance, and with auto", measureAdvance},
		{"takeover", "lateness at 1,000 messages/s when one of three nodes ends", measureTakeover},
		{
			"takeover-journal", "how long until a node on a journal has taken over from one with a million waiting",
			measureTakeoverJournal,
		},
		{"journal", "one node on Postgres and on a journal in Kafka, and what transactions alone cost", measureJournal},
		{"full", "memory, disk and lateness of one node with 1 and 10 million waiting in a journal", measureFull},
	}
}

// comparison is measured when another commit is named.
func comparison() measurement {
	return measurement{"against", "this tree beside another commit, in turns", measureAgainst}
}

func allCases() []measurement {
	return slices.Concat(standard(), curves(), []measurement{comparison()})
}

// chosen returns what is to be measured.
func chosen(o *options) ([]measurement, error) {
	switch {
	case !(o.scale >= 0.001 && o.scale <= 100):
		return nil, fmt.Errorf("--scale is %v: it must be from 0.001 to 100", o.scale)
	case o.against != "" && o.curve != "":
		return nil, errors.New("--against and --curve measure different things: give one of them")
	case o.against != "":
		return []measurement{comparison()}, nil
	case o.curve == "":
		return standard(), nil
	case o.curve == "all":
		return curves(), nil
	}
	var cases []measurement
	for name := range strings.SplitSeq(o.curve, ",") {
		i := slices.IndexFunc(allCases(), func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no curve %q; those that there are stand above", name)
		}
		cases = append(cases, allCases()[i])
	}
	return cases, nil
}
