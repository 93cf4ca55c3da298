package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/chaos/servers"
)

// backlog is what is overdue when a node starts.
type backlog struct {
	overdue int
	apart   bool // on another lane than what comes meanwhile
}

// measureOverdue has a node start on a backlog that is overdue, and measures the lateness of what comes meanwhile: on
// the lane of the backlog, which lets out what is due first, and on one of its own; and how long the backlog takes.
func measureOverdue(ctx context.Context, g *ground, t *table) error {
	t.head = append(lateHead("overdue at the start, 1,000 new messages/s, ms after the deadline"),
		"all overdue are out after, s", "of them, messages/s")
	lanes := func(b backlog) int {
		if b.apart {
			return 2
		}
		return 1
	}
	err := each(ctx, g, []backlog{{}, {1_000_000, true}, {1_000_000, false}}, lanes, func(s *site, b backlog) error {
		if err := s.migrate(ctx); err != nil {
			return err
		}
		if err := s.wait(ctx, b.overdue, "interval '-1 hour'"); err != nil {
			return err
		}
		what, overdue := "0", 0
		if b.overdue > 0 {
			overdue = s.messages(b.overdue)
			what = count(float64(overdue))
		}
		began := time.Now()
		drained := s.drain(ctx, s.routes[0][1], overdue)
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		if b.apart {
			what += ", on another lane"
			s.routes = s.routes[1:] // the load knows this one only
		}
		t.on("%s overdue", what)
		r, err := s.steady(ctx, t, usual, "--warm-up", "0s")
		d := <-drained
		if err := errors.Join(err, d.err); err != nil {
			return err
		}
		t.add(append(lateRow(what, r), d.cells(began, overdue)...)...)
		return nil
	})
	t.plotLateness("overdue at the start")
	return err
}

// draining is when the first and the last of a backlog had come out.
type draining struct {
	first, last time.Time
	err         error
}

// cells are how long that took since the node was started, and how many a second came out from the first one on.
func (d *draining) cells(began time.Time, messages int) []string {
	if messages == 0 {
		return []string{"-", "-"}
	}
	rate := "-"
	if took := d.last.Sub(d.first); took > 0 {
		rate = count(float64(messages) / took.Seconds())
	}
	return []string{fmt.Sprintf("%.1f", d.last.Sub(began).Seconds()), rate}
}

// drain watches an output topic until so many messages are on it, which are those of a backlog: a lane lets out what is
// due first, and on that of the backlog nothing is due before it.
func (s *site) drain(ctx context.Context, topic string, messages int) <-chan draining {
	done := make(chan draining, 1)
	if messages == 0 {
		done <- draining{}
		return done
	}
	go func() {
		var d draining
		d.err = servers.Await(ctx, max(patience, time.Duration(messages)*slowest), func(ctx context.Context) error {
			there, err := s.end(ctx, topic)
			if err != nil {
				return err
			}
			if now := time.Now(); there > 0 && d.first.IsZero() {
				d.first = now
			}
			if there < float64(messages) {
				return fmt.Errorf("%.0f of %d overdue messages have come out", there, messages)
			}
			d.last = time.Now()
			return nil
		})
		done <- d
	}()
	return done
}
