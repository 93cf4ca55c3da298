package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// each measures one site for each value of what a curve is over.
func each[X any](ctx context.Context, g *ground, xs []X, routes func(X) int, use func(s *site, x X) error) error {
	for _, x := range xs {
		if err := g.on(ctx, routes(x), func(s *site) error { return use(s, x) }); err != nil {
			return err
		}
	}
	return nil
}

func one[X any](X) int { return 1 }

// measureBacklog measures lateness, and the highest rate, against how many messages wait.
func measureBacklog(ctx context.Context, g *ground, t *table) error {
	t.head = append(mediansHead("waiting, 1,000 messages/s, ms after the deadline"), "highest rate, messages/s",
		"CPUs at it", "the next, which failed: p50, p99, p99.9", "CPUs at it")
	err := each(ctx, g, []int{10_000, 1_000_000, 10_000_000}, one, func(s *site, waiting int) error {
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		if err := s.wait(ctx, waiting, "interval '1 day'"); err != nil {
			return err
		}
		name := count(float64(s.messages(waiting)))
		results, err := s.steadies(ctx, t, name+" waiting", 3)
		if err != nil {
			return err
		}
		t.on("%s waiting", name)
		found, err := s.highest(ctx, t, "100ms")
		if err == nil {
			next := failed(found).Result
			t.add(append(mediansRow(name, results), count(found.Rate), sumOf(found.Best),
				lateOf(next), sumOf(next))...)
		}
		return err
	})
	t.plotLateness("waiting")
	t.plotColumns(plot{title: "highest rate", unit: "messages/s", over: "waiting"}, "highest rate, messages/s")
	return err
}

// measureSize measures lateness against how large values are. A thousand of the largest ones a second would be more
// than the load and the disk of a small machine can do, each of them on its own.
func measureSize(ctx context.Context, g *ground, t *table) error {
	t.head = lateHead("bytes of a value, 200 messages/s, ms after the deadline")
	err := each(ctx, g, []int{100, 1000, 10_000, 100_000}, one, func(s *site, size int) error {
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		t.on("%s bytes", count(float64(size)))
		r, err := s.steady(ctx, t, 2*usual, "--rate", "200", "--size", strconv.Itoa(size))
		if err == nil {
			t.add(lateRow(count(float64(size)), r)...)
		}
		return err
	})
	t.plotLateness("bytes of a value")
	return err
}

// measureRoutes measures lateness against over how many routes the same load is spread: on topics that were just made,
// to whose partitions nothing was ever appended, and once more on the same ones.
func measureRoutes(ctx context.Context, g *ground, t *table) error {
	t.head = lateHead("routes, 1,000 messages/s in all, ms after the deadline")
	all := func(n int) int { return n }
	var fresh [][]string
	err := each(ctx, g, []int{1, 10, 100}, all, func(s *site, routes int) error {
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		t.on("%d, topics just made", routes)
		first, err := s.steady(ctx, t, usual)
		if err != nil {
			return err
		}
		fresh = append(fresh, lateRow(t.row, first))
		t.on("%d routes", routes)
		r, err := s.steady(ctx, t, usual)
		if err == nil {
			t.add(lateRow(strconv.Itoa(routes), r)...)
		}
		return err
	})
	t.plotLateness("routes")
	t.rows = append(t.rows, fresh...)
	return err
}

// advanceBound is how much earlier than its deadline a message may come with the timing advance auto: no publish to the
// Kafka beside it takes that long in the median.
const advanceBound = 20 * time.Millisecond

// measureAdvance measures how far from its deadline a message comes out, on either side.
func measureAdvance(ctx context.Context, g *ground, t *table) error {
	t.head = []string{"timing advance, 1,000 messages/s, ms after the deadline", "min", "p50", "p99", "p99.9"}
	return each(ctx, g, []string{"0s", "auto"}, one, func(s *site, advance string) error {
		s.advance = advance
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		var allowed []string
		if advance != "0s" {
			allowed = []string{"--advance", advanceBound.String()}
		}
		t.on("advance %s", advance)
		r, err := s.steady(ctx, t, usual, allowed...)
		if err != nil {
			return err
		}
		if r.Received == nil {
			return errors.New("nothing came out at 1,000 messages/s")
		}
		q := r.Received.AfterDeadline
		t.add(advance, ms(q.Min), ms(q.P50), ms(q.P99), ms(q.P999))
		return nil
	})
}

// rest is how long nodes are watched that have nothing to do, after as long a time in which they had nothing to do.
const rest = 30 * time.Second

// measureNodes measures what a message costs more and more nodes, and what they cost at rest. How many a second there
// are depends on the machine; this does so much less, and is what a cluster is sized by.
func measureNodes(ctx context.Context, g *ground, t *table) error {
	counts := []int{1, 2, 4, 8}
	rows := [][]string{
		{"intake, CPU of the nodes for a message, µs"},
		{"intake, CPU of Postgres, µs"},
		{"intake, write-ahead log, bytes"},
		{"firing, CPU of the nodes for a message, µs"},
		{"firing, CPU of Postgres, µs"},
		{"firing, write-ahead log, bytes"},
		{"firing, all due at one instant, messages/s"},
		{"at rest, CPU of a node in a second, ms"},
		{"at rest, CPU of Postgres in a second, for each node, ms"},
		{"at rest, transactions in a second, for each node"},
		{"at rest, memory of a node, without pages of the program's file, MB"},
		{"at rest, pages of the program's file, which all nodes share, MB"},
		{"peak resident memory of the largest node, MB"},
	}
	t.head = []string{""}
	err := each(ctx, g, counts, one, func(s *site, nodes int) error {
		name := "1 node"
		if nodes > 1 {
			name = fmt.Sprintf("%d nodes", nodes)
		}
		t.on("%s", name)
		b, err := s.burst(ctx, t, nodes, burstOf)
		if err != nil {
			return err
		}
		idle, err := s.rest(ctx)
		if err != nil {
			return err
		}
		perNode := func(d time.Duration) string {
			return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000/rest.Seconds()/float64(nodes))
		}
		postgres := "-"
		if used, known := idle.used["Postgres"]; known {
			postgres = perNode(used)
		}
		t.head = append(t.head, name)
		for i, cell := range []string{
			b.intake.cpu("nodes"), b.intake.cpu("Postgres"), count(b.intake.log / b.intake.messages),
			b.firing.cpu("nodes"), b.firing.cpu("Postgres"), count(b.firing.log / b.firing.messages),
			count(b.result.Fired.PerSecondStamped), perNode(idle.used["nodes"]), postgres,
			fmt.Sprintf("%.1f", float64(idle.transactions)/rest.Seconds()/float64(nodes)),
			count(float64(idle.memory-idle.files) / 1e6 / float64(nodes)), count(float64(idle.files) / 1e6),
			count(float64(b.peak) / 1e6),
		} {
			rows[i] = append(rows[i], cell)
		}
		return nil
	})
	t.rows = rows
	t.plotRows(plot{title: "CPU of the nodes for a message, firing", unit: "µs", over: "nodes"}, rows[3][0])
	t.plotRows(plot{title: "firing, all due at one instant", unit: "messages/s", over: "nodes"}, rows[6][0])
	return err
}

// resting is what nodes use that have nothing to do.
type resting struct {
	phase

	transactions  int64
	memory, files int64 // at the end: of all nodes, and of that pages of the program's file, which they share
}

// rest watches nodes that have had nothing to do for some time: they and Postgres tidy up behind a burst.
func (s *site) rest(ctx context.Context) (used resting, err error) {
	select {
	case <-ctx.Done():
		return used, ctx.Err()
	case <-time.After(rest):
	}
	first, err := s.transactions(ctx)
	if err != nil {
		return used, err
	}
	before, err := s.read(ctx)
	if err != nil {
		return used, err
	}
	select {
	case <-ctx.Done():
		return used, ctx.Err()
	case <-time.After(rest):
	}
	after, err := s.read(ctx)
	if err != nil {
		return used, err
	}
	last, err := s.transactions(ctx)
	return resting{after.since(before, 1), last - first, after.memory, after.files}, err
}

// transactions returns how many the database of the site has committed.
func (s *site) transactions(ctx context.Context) (n int64, err error) {
	err = s.do(ctx, func(conn *pgx.Conn) error {
		const query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
		return conn.QueryRow(ctx, query).Scan(&n)
	})
	return n, err
}
