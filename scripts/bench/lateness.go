package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"chronos/cmd/chronos/bench"
)

// lateCase is a row of the table of lateness.
type lateCase struct {
	rate          int
	waiting, came int
	runs          int
}

// The cases: on an empty store, beside a million that wait, and right after two million have come in by Kafka, when
// nothing of what that leaves behind in the store is tidied up yet. That is so once only.
var lateCases = []lateCase{{1000, 0, 0, 5}, {1000, 1_000_000, 0, 3}, {5000, 0, 0, 3}, {5000, 0, 2_000_000, 1}}

// name names a case.
func (c *lateCase) name(g *ground) string {
	name := count(float64(c.rate)) + " messages/s"
	if c.waiting > 0 {
		name += " with " + count(float64(g.messages(c.waiting))) + " waiting"
	}
	if c.came > 0 {
		name += " with " + count(float64(g.messages(c.came))) + " waiting, right after they came in"
	}
	return name
}

// measureLateness measures 1,000 and 5,000 messages/s, several times each: of 20,000 messages the p99.9 is the latest
// 20, which one stop of a server can decide. What servers did meanwhile stands below.
func measureLateness(ctx context.Context, g *ground, t *table) error {
	t.head = mediansHead("ms after the deadline")
	below := t.explain("Run by run, with what the logs of the servers say of the time that was measured, and of that "+
		"in which the latest message was late, which is a second long and more:", interruptedHead...)
	all := new(interruptions)
	for _, c := range lateCases {
		if err := g.on(ctx, 1, func(s *site) error {
			if err := s.start(ctx, 1); err != nil {
				return err
			}
			if err := s.wait(ctx, c.waiting, "interval '1 day'"); err != nil {
				return err
			}
			if err := s.bring(ctx, c.came); err != nil {
				return err
			}
			results, err := s.steadies(ctx, t, c.name(g), c.runs, "--rate", strconv.Itoa(c.rate))
			if err != nil {
				return err
			}
			t.add(mediansRow(c.name(g), results)...)
			logged, err := g.interruptions()
			if err != nil {
				return err
			}
			for i, r := range results {
				below.add(interruptedRow(fmt.Sprintf("%s, run %d", c.name(g), i+1), r, logged)...)
				all = all.plus(logged.in(measuredTime(r)))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if all.known {
		t.notes = append(t.notes, fmt.Sprintf("In these %d runs Kafka's collector stopped it %d times, for %.1f ms at "+
			"the longest; %d checkpoints of Postgres and %d vacuums were under way.", len(below.rows), len(all.stops),
			longest(all.stops).Seconds()*1000, len(all.checkpoints), len(all.vacuums)))
	}
	return nil
}

// steadies runs a steady load several times.
func (s *site) steadies(ctx context.Context, t *table, what string, runs int, more ...string) ([]*bench.Result, error) {
	var results []*bench.Result
	for i := range runs {
		t.on("%s, run %d", what, i+1)
		r, err := s.steady(ctx, t, usual, more...)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// mediansHead is the head of a table of several runs for each row.
func mediansHead(what string) []string {
	return []string{
		what, "runs", "p50", "p99", "p99.9 (range)", "p99.99, worst", "max, worst", "nodes' CPUs", "Postgres' CPUs",
		"Kafka's CPUs", "largest node, MB",
	}
}

// mediansRow is a row of several runs: the median of each figure, and beside the p99.9 its range; of what depends on a
// few messages the worst.
func mediansRow(what string, results []*bench.Result) []string {
	var all []*bench.Quantiles
	for _, r := range results {
		if r.Received == nil {
			return append([]string{what, strconv.Itoa(len(results)), "nothing came in one of them"},
				slices.Repeat([]string{"-"}, len(mediansHead(""))-3)...)
		}
		all = append(all, r.Received.AfterDue)
	}
	of := func(figure func(q *bench.Quantiles) bench.Millis) (xs []float64) {
		for _, q := range all {
			xs = append(xs, float64(figure(q)))
		}
		return xs
	}
	middle := func(figure func(q *bench.Quantiles) bench.Millis) string { return ms(bench.Millis(median(of(figure)))) }
	worst := func(figure func(q *bench.Quantiles) bench.Millis) string {
		return ms(bench.Millis(slices.Max(of(figure))))
	}
	p999 := func(q *bench.Quantiles) bench.Millis { return q.P999 }
	tail := middle(p999)
	if len(results) > 1 {
		tail += fmt.Sprintf(" (%s to %s)", ms(bench.Millis(slices.Min(of(p999)))), worst(p999))
	}
	row := []string{
		what, strconv.Itoa(len(results)),
		middle(func(q *bench.Quantiles) bench.Millis { return q.P50 }),
		middle(func(q *bench.Quantiles) bench.Millis { return q.P99 }), tail,
		worst(func(q *bench.Quantiles) bench.Millis { return q.P9999 }),
		worst(func(q *bench.Quantiles) bench.Millis { return q.Max }),
	}
	for _, name := range []string{"nodes", "Postgres", "Kafka"} {
		var used []float64
		for _, r := range results {
			if p := process(r, name); p != nil {
				used = append(used, p.CPUs)
			}
		}
		cell := "-"
		if len(used) > 0 {
			cell = fmt.Sprintf("%.2f", median(used))
		}
		row = append(row, cell)
	}
	largest := results[0]
	for _, r := range results {
		if p, most := process(r, "nodes"), process(largest, "nodes"); p != nil && most != nil && p.Peak > most.Peak {
			largest = r
		}
	}
	return append(row, memory(process(largest, "nodes")))
}

// interruptedHead is the head of a table of single runs.
var interruptedHead = []string{
	"ms after the deadline", "p99.9", "max", "stops of Kafka's collector, the longest", "checkpoints", "vacuums",
	"while the latest was late",
}

// interruptedRow is a row of one run, with what servers did meanwhile.
func interruptedRow(what string, r *bench.Result, logged *interruptions) []string {
	if r.Received == nil {
		return append([]string{what, "nothing came"}, slices.Repeat([]string{"-"}, len(interruptedHead)-2)...)
	}
	row := append([]string{what, ms(r.Received.AfterDue.P999), ms(r.Received.AfterDue.Max)},
		logged.in(measuredTime(r)).cells()...)
	return append(row, logged.in(latestTime(r)).String())
}
