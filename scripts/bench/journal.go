package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"chronos/cmd/chronos/bench"
)

// keep has the nodes of a site keep what waits in a journal in Kafka, and not in Postgres.
func (s *site) keep() { s.journal = true }

// storeOf returns what a node is told of its store.
func (s *site) storeOf(node int) []string {
	if !s.journal {
		return []string{"CHRONOS_STORE=" + s.store.String()}
	}
	return []string{
		"CHRONOS_STORE=journal:" + s.name + ".journal",
		"CHRONOS_DATA_DIR=" + s.copyOf(node),
	}
}

// copyOf returns the folder in which a node has its local copy.
func (s *site) copyOf(node int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s-copy-%d", s.name, node))
}

// kept is what one node does with one kind of store.
type kept struct {
	burst   *bursting
	steady  *bench.Result
	highest *bench.Found
}

// measureJournal measures one node on Postgres, and one on a journal in Kafka, in the same way.
func measureJournal(ctx context.Context, g *ground, t *table) error {
	t.head = []string{"one node", "on Postgres", "on a journal", "ratio"}
	var kinds [2]kept
	for i := range kinds {
		for _, part := range []func(s *site) error{
			func(s *site) (err error) {
				kinds[i].burst, err = s.burst(ctx, t, 1)
				return err
			},
			func(s *site) (err error) {
				if err = s.start(ctx, 1); err == nil {
					kinds[i].steady, err = s.steady(ctx, t, usual)
				}
				return err
			},
			func(s *site) (err error) {
				if err = s.start(ctx, 1); err == nil {
					kinds[i].highest, err = s.highest(ctx, t, 2000, "250ms")
				}
				return err
			},
		} {
			if err := g.on(ctx, 1, func(s *site) error {
				if i == 1 {
					s.keep()
				}
				return part(s)
			}); err != nil {
				return err
			}
		}
	}
	database, journal := kinds[0], kinds[1]
	if database.steady.Received == nil || journal.steady.Received == nil {
		return errors.New("nothing came out at 1,000 messages/s")
	}
	row := func(what string, of func(k *kept) float64) {
		a, b := of(&database), of(&journal)
		t.add(what, count(a), count(b), fmt.Sprintf("%.1f", b/a))
	}
	row("intake, messages/s", func(k *kept) float64 { return k.burst.result.Intake.PerSecond })
	row("firing, all due at one instant, messages/s", func(k *kept) float64 {
		return k.burst.result.Fired.PerSecondStamped
	})
	for _, c := range []struct {
		what string
		of   func(k *kept) phase
	}{
		{"intake", func(k *kept) phase { return k.burst.intake }},
		{"firing", func(k *kept) phase { return k.burst.firing }},
	} {
		a, b := c.of(&database), c.of(&journal)
		for _, group := range []string{"nodes", "Kafka", "Postgres"} {
			t.add(fmt.Sprintf("%s, CPU of %s for a message, µs", c.what, group), a.cpu(group), b.cpu(group), "")
		}
	}
	late := func(what string, of func(q *bench.Quantiles) bench.Millis) {
		a, b := of(database.steady.Received.AfterDue), of(journal.steady.Received.AfterDue)
		t.add("1,000 messages/s, ms after the deadline, "+what, ms(a), ms(b),
			fmt.Sprintf("%.1f", float64(b)/float64(a)))
	}
	late("p50", func(q *bench.Quantiles) bench.Millis { return q.P50 })
	late("p99", func(q *bench.Quantiles) bench.Millis { return q.P99 })
	late("p99.9", func(q *bench.Quantiles) bench.Millis { return q.P999 })
	row("highest steady rate with p99.9 under 250 ms after the deadline, messages/s", func(k *kept) float64 {
		return k.highest.Rate
	})
	t.add("CPUs at that rate: node, Postgres, Kafka, the load",
		cpusOf(database.highest.Best), cpusOf(journal.highest.Best), "")
	return nil
}

// measureFull measures one node with a journal in which many messages wait, which have come in by Kafka just before:
// what they take of its memory and of its disk, and how late others are beside them.
func measureFull(ctx context.Context, g *ground, t *table) error {
	t.head = slices.Insert(lateHead("waiting in a journal, 1,000 messages/s, ms after the deadline"), 1,
		"bytes of the local copy for each")
	return each(ctx, g, []int{1_000_000, 10_000_000}, one, func(s *site, waiting int) error {
		s.keep()
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		if err := s.bring(ctx, waiting); err != nil {
			return err
		}
		r, err := s.steady(ctx, t, usual)
		if err != nil {
			return err
		}
		if err := s.stop(); err != nil { // which has it write to the disk what it has in memory
			return err
		}
		stored, err := size(s.copyOf(1))
		if err == nil {
			n := s.messages(waiting)
			t.add(slices.Insert(lateRow(count(float64(n)), r), 1, count(float64(stored)/float64(n)))...)
		}
		return err
	})
}

// size returns how many bytes the files of a folder have.
func size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		about, err := entry.Info()
		if err == nil {
			bytes += about.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find out how large the local copy is: %w", err)
	}
	return bytes, nil
}
