package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"chronos/cmd/chronos/bench"
)

// measureSpeed measures what one node does at most, and what takes the cores meanwhile.
func measureSpeed(ctx context.Context, g *ground, t *table) error {
	t.head = []string{"one node", "measured"}
	if err := g.on(ctx, 1, func(s *site) error {
		t.on("burst")
		b, err := s.burst(ctx, t, 1, burstOf)
		if err != nil {
			return err
		}
		messages := count(float64(s.messages(burstOf)))
		t.add("intake, from the input topic into Postgres, messages/s", count(b.result.Intake.PerSecond))
		t.add("firing, "+messages+" due at one instant, messages/s", count(b.result.Fired.PerSecondStamped))
		for _, c := range []struct {
			what string
			of   phase
		}{{"intake", b.intake}, {"firing", b.firing}} {
			t.add(c.what+", CPU of node, Postgres and Kafka for a message, µs",
				fmt.Sprintf("%s, %s, %s", c.of.cpu("nodes"), c.of.cpu("Postgres"), c.of.cpu("Kafka")))
		}
		t.add(fmt.Sprintf("CPUs that these three use of %d, while messages are taken in, and fired", runtime.NumCPU()),
			b.intake.cpus(b.result.Intake.PerSecond)+", "+b.firing.cpus(b.result.Fired.PerSecondStamped))
		t.add("peak resident memory of the node meanwhile, and of that pages of its program file, MB",
			count(float64(b.peak)/1e6)+", "+count(float64(b.files)/1e6))
		return nil
	}); err != nil {
		return err
	}
	return g.on(ctx, 1, func(s *site) error {
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		t.on("highest steady rate")
		found, err := s.highest(ctx, t, "100ms")
		if err != nil {
			return err
		}
		t.add("highest steady rate with p99.9 under 100 ms after the deadline, messages/s", count(found.Rate))
		t.add("its p50, p99, p99.9, ms", lateOf(found.Best))
		t.add("CPUs at that rate: node, Postgres, Kafka, the load", cpusOf(found.Best))
		next := failed(found)
		t.add("the next rate that was tried, and failed, messages/s", count(next.Rate))
		t.add("p50, p99, p99.9 of the next rate, ms", lateOf(next.Result))
		t.add("CPUs at the next rate: node, Postgres, Kafka, the load", cpusOf(next.Result))
		if found.Rate == 0 {
			return nil
		}
		return s.share(ctx, t, found.Rate)
	})
}

// failed returns the last try of the lowest rate that was not held, of those above the one that was; an empty step
// where none failed. What bounds the highest rate shows there: cores that are all in use, or a tail that is long beside
// a median that is not.
func failed(found *bench.Found) (next bench.Step) {
	for _, s := range found.Steps {
		if !s.Held && s.Rate > found.Rate && (next.Rate == 0 || s.Rate <= next.Rate) {
			next = s
		}
	}
	return next
}

// lateOf writes some quantiles of a result.
func lateOf(r *bench.Result) string {
	if r == nil || r.Received == nil {
		return "-, -, -"
	}
	q := r.Received.AfterDue
	return ms(q.P50) + ", " + ms(q.P99) + ", " + ms(q.P999)
}

// share measures once more at a steady rate, for all that a search does not tell: which part takes how much of the
// cores, and how much of Postgres a message takes.
func (s *site) share(ctx context.Context, t *table, rate float64) error {
	t.on("where the cores go")
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	first, err := s.transactions(ctx)
	if err != nil {
		return err
	}
	r, err := s.steady(ctx, t, usual, "--rate", strconv.Itoa(int(rate)))
	if err != nil {
		return err
	}
	after, err := s.read(ctx)
	if err != nil {
		return err
	}
	last, err := s.transactions(ctx)
	if err != nil {
		return err
	}
	if r.Sent.Messages == 0 {
		return errors.New("nothing was sent")
	}
	below := t.explain(fmt.Sprintf("Where %d cores go at %s messages/s, in a run of its own (p50, p99, p99.9: %s ms):",
		runtime.NumCPU(), count(rate), lateOf(r)), "", "CPU for a message, µs", "CPUs", "of the cores, %")
	left := float64(runtime.NumCPU())
	add := func(name string, cpus float64) {
		below.add(name, fmt.Sprintf("%.1f", cpus/rate*1e6), fmt.Sprintf("%.2f", cpus),
			fmt.Sprintf("%.0f", cpus/float64(runtime.NumCPU())*100))
		left -= cpus
	}
	for _, name := range parts {
		if cpus, known := busy(r, name); known {
			add(name, cpus)
		}
	}
	if r.Others >= 0 {
		add("all other processes", r.Others)
	}
	add("idle", max(left, 0))
	sent := float64(r.Sent.Messages)
	whole := sent / rate // seconds
	t.notes = append(t.notes, fmt.Sprintf("In that run Postgres committed %s transactions/s, one for %.1f messages, "+
		"and wrote %s bytes of write-ahead log for a message.", count(float64(last-first)/whole),
		sent/max(float64(last-first), 1), count((after.log-before.log)/sent)))
	return nil
}

// busy returns how many CPUs a part has used while as many messages came out as were sent: from when the first ones
// were due until the last one was sent; in the whole run where that is shorter than a second.
func busy(r *bench.Result, name string) (cpus float64, known bool) {
	var used []float64
	for _, s := range r.Seconds {
		at := s.At.Duration()
		if at <= r.Load.WarmUp+time.Second+time.Duration(r.Load.Delay.High) || at > r.Load.Duration {
			continue
		}
		for _, u := range s.Use {
			if u.Name == name {
				used = append(used, u.CPUs)
			}
		}
	}
	if len(used) == 0 {
		p := process(r, name)
		if p == nil {
			return 0, false
		}
		return p.CPUs, true
	}
	for _, u := range used {
		cpus += u / float64(len(used))
	}
	return cpus, true
}
