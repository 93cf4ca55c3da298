package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"chronos/cmd/chronos/bench"
)

// leaving is how one of three nodes ends under load.
type leaving struct {
	what    string
	signal  syscall.Signal // 0: it goes on
	session string         // session-timeout of the nodes; their default if it is empty
}

// measureTakeover measures how late what is submitted meanwhile comes out when one of three nodes ends. Messages are
// due half a second to a second after they were submitted, so that what waits on the input topic for a new owner of
// its partition is late by nearly as long as it has waited.
func measureTakeover(ctx context.Context, g *ground, t *table) error {
	t.head = append(lateHead("one of three nodes, 1,000 messages/s, ms after the deadline"), "came out twice")
	ways := []leaving{
		{"goes on", 0, ""},
		{"stops (SIGTERM)", syscall.SIGTERM, ""},
		{"is killed (SIGKILL)", syscall.SIGKILL, ""},
		{"is killed, --session-timeout 4s", syscall.SIGKILL, "4s"},
		{"is killed, --session-timeout 3s", syscall.SIGKILL, "3s"},
		{"goes on, --session-timeout 3s", 0, "3s"},
	}
	err := each(ctx, g, ways, one, func(s *site, way leaving) error {
		s.session = way.session
		if err := s.start(ctx, 3); err != nil {
			return err
		}
		// The load measures processes as long as it runs, so the one that ends is not among those it is told of.
		ends := s.nodes[0]
		s.nodes = s.nodes[1:]
		defer func() { s.nodes = append(s.nodes, ends) }()
		t.on("%s", way.what)
		r, err := s.whileOneEnds(ctx, t, func() error {
			if way.signal == 0 {
				return nil
			}
			return ends.Stop(way.signal, 20*time.Second)
		})
		if err == nil {
			t.add(append(lateRow(way.what, r), count(float64(r.Integrity.Doubled)))...)
		}
		return err
	})
	t.plotLateness("one of three nodes")
	return err
}

// whileOneEnds runs 1,000 messages/s, and ends a node after a third of the time.
func (s *site) whileOneEnds(ctx context.Context, t *table, end func() error) (*bench.Result, error) {
	whole := s.duration(45 * time.Second)
	b, err := s.begin(ctx, "--rate", "1000", "--duration", whole.String(), "--delay", "500ms..1s",
		"--max-messages", "10000000")
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), b.end(new(bench.Result)))
	case <-time.After(whole / 3):
	}
	if err := end(); err != nil {
		return nil, fmt.Errorf("end a node: %w", err)
	}
	r := new(bench.Result)
	if err := b.end(r); err != nil {
		return nil, err
	}
	t.measured(b.line, r)
	return r, nil
}
