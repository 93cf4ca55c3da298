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
	told := []string{
		"CHRONOS_STORE=journal:" + s.name + ".journal",
		"CHRONOS_DATA_DIR=" + s.copyOf(node),
	}
	if s.standby {
		told = append(told, "CHRONOS_STANDBY=true", "CHRONOS_ADMIN_LISTEN=127.0.0.1:0")
	}
	return told
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

// measureJournal measures one node on Postgres, and one on a journal in Kafka, in the same way; and beside them what
// transactions alone cost, of as many messages as those of the journal had.
func measureJournal(ctx context.Context, g *ground, t *table) error {
	if err := g.warmJournal(ctx); err != nil {
		return err
	}
	t.head = []string{"one node", "on Postgres", "on a journal", "ratio", "transactions and nothing else"}
	kinds, err := g.kinds(ctx, t)
	if err != nil {
		return err
	}
	database, journal := kinds[0], kinds[1]
	if database.steady.Received == nil || journal.steady.Received == nil {
		return errors.New("nothing came out at 1,000 messages/s")
	}
	in, out, err := g.floors(ctx, journal.burst)
	if err != nil {
		return err
	}
	row := func(what string, of func(k *kept) float64, floor string) {
		a, b := of(&database), of(&journal)
		t.add(what, count(a), count(b), fmt.Sprintf("%.1f", b/a), floor)
	}
	row("intake, messages/s", func(k *kept) float64 { return k.burst.result.Intake.PerSecond }, count(in.perSecond))
	row(fmt.Sprintf("firing, %s due at one instant, messages/s", count(float64(g.messages(burstOf)))),
		func(k *kept) float64 { return k.burst.result.Fired.PerSecondStamped }, count(out.perSecond))
	for _, c := range []struct {
		what  string
		of    func(k *kept) phase
		floor *bare
	}{
		{"intake", func(k *kept) phase { return k.burst.intake }, in},
		{"firing", func(k *kept) phase { return k.burst.firing }, out},
	} {
		a, b := c.of(&database), c.of(&journal)
		for _, group := range []string{"nodes", "Kafka", "Postgres"} {
			t.add(fmt.Sprintf("%s, CPU of %s for a message, µs", c.what, group), a.cpu(group), b.cpu(group), "",
				c.floor.cpu(group))
		}
		t.add(c.what+", messages of a transaction of the journal", "", count(float64(c.floor.perTransaction)), "",
			count(float64(c.floor.perTransaction)))
	}
	late := func(what string, of func(q *bench.Quantiles) bench.Millis) {
		a, b := of(database.steady.Received.AfterDue), of(journal.steady.Received.AfterDue)
		t.add("1,000 messages/s, ms after the deadline, "+what, ms(a), ms(b),
			fmt.Sprintf("%.1f", float64(b)/float64(a)), "")
	}
	late("p50", func(q *bench.Quantiles) bench.Millis { return q.P50 })
	late("p99", func(q *bench.Quantiles) bench.Millis { return q.P99 })
	late("p99.9", func(q *bench.Quantiles) bench.Millis { return q.P999 })
	row("highest steady rate with p99.9 under 250 ms after the deadline, messages/s", func(k *kept) float64 {
		return k.highest.Rate
	}, "")
	t.add("CPUs at that rate: node, Postgres, Kafka, the load",
		cpusOf(database.highest.Best), cpusOf(journal.highest.Best), "", "")
	failedA, failedB := failed(database.highest), failed(journal.highest)
	t.add("the next rate that was tried, and failed, messages/s", count(failedA.Rate), count(failedB.Rate), "", "")
	t.add("p50, p99, p99.9 of the next rate, ms", lateOf(failedA.Result), lateOf(failedB.Result), "", "")
	t.add("CPUs at the next rate: node, Postgres, Kafka, the load",
		cpusOf(failedA.Result), cpusOf(failedB.Result), "", "")
	return nil
}

// kinds measures one node on either kind of store.
func (g *ground) kinds(ctx context.Context, t *table) (kinds [2]kept, err error) {
	for i := range kinds {
		for _, part := range []func(s *site) error{
			func(s *site) (err error) {
				kinds[i].burst, err = s.burst(ctx, t, 1, burstOf)
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
					kinds[i].highest, err = s.highest(ctx, t, "250ms")
				}
				return err
			},
		} {
			if err := g.on(ctx, 1, func(s *site) error {
				if i == 1 {
					s.keep()
				}
				t.on("%s", t.head[1+i])
				return part(s)
			}); err != nil {
				return kinds, err
			}
		}
	}
	return kinds, nil
}

// floors measures transactions alone, of as many messages as those had in which a journal took a burst in and fired it.
// A transaction that takes messages in has an entry for each, one of its position, and what ends it; one that fires has
// no position.
func (g *ground) floors(ctx context.Context, b *bursting) (in, out *bare, err error) {
	per := func(p phase, others float64) int {
		return int(p.messages / max((p.appended-p.messages)/others, 1))
	}
	err = g.on(ctx, 1, func(s *site) (err error) {
		messages := s.messages(burstOf)
		if in, err = s.bare(ctx, messages, max(per(b.intake, 2), 1), false); err != nil {
			return err
		}
		out, err = s.bare(ctx, messages, max(per(b.firing, 1), 1), true)
		return err
	})
	return in, out, err
}

// measureFull measures one node with a journal in which many messages wait, which have come in by Kafka just before:
// what they take of its memory and of its disk, and how late others are beside them.
func measureFull(ctx context.Context, g *ground, t *table) error {
	if err := g.warmJournal(ctx); err != nil {
		return err
	}
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
		t.on("%s waiting", count(float64(s.messages(waiting))))
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
