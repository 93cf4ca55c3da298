package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"chronos/chaos/servers"
	"chronos/cmd/chronos/bench"
	"chronos/cmd/chronos/bench/machine"
)

// on uses a site, and takes it away.
func (g *ground) on(ctx context.Context, routes int, use func(s *site) error) (err error) {
	s, err := g.site(ctx, routes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	return use(s)
}

// usual is how long a load is sent, of which the first five seconds are not measured.
const usual = 25 * time.Second

// steady runs 1,000 messages/s for some time.
func (s *site) steady(ctx context.Context, t *table, d time.Duration, more ...string) (*bench.Result, error) {
	args := append([]string{
		"--rate", "1000", "--duration", s.duration(d).String(), "--delay", s.delays(),
		"--max-messages", "10000000",
	}, more...)
	return s.bench(ctx, t, args...)
}

// highest looks for the highest steady rate with p99.9 under a bound.
func (s *site) highest(ctx context.Context, t *table, from int, bound string) (*bench.Found, error) {
	b, err := s.begin(ctx, "--find-max", "--p999-under", bound, "--rate", strconv.Itoa(s.messages(from)),
		"--duration", s.duration(20*time.Second).String(), "--delay", s.delays(), "--max-messages", "100000000")
	if err != nil {
		return nil, err
	}
	found := new(bench.Found)
	if err := b.end(found); err != nil {
		return nil, err
	}
	t.ran(b.line)
	if found.Ended != "" {
		t.notes = append(t.notes, "`"+b.line+"`: "+found.Ended)
	}
	if found.Best != nil {
		t.others = max(t.others, found.Best.Others)
	}
	return found, nil
}

// measureSpeed measures what one node does at most.
func measureSpeed(ctx context.Context, g *ground, t *table) error {
	t.head = []string{"one node", "measured"}
	if err := g.on(ctx, 1, func(s *site) error {
		b, err := s.burst(ctx, t, 1)
		if err != nil {
			return err
		}
		t.add("intake, from the input topic into Postgres, messages/s", count(b.result.Intake.PerSecond))
		t.add("firing, all due at one instant, messages/s", count(b.result.Fired.PerSecondStamped))
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
		found, err := s.highest(ctx, t, 2000, "100ms")
		if err == nil {
			t.add("highest steady rate with p99.9 under 100 ms after the deadline, messages/s", count(found.Rate))
			t.add("CPUs at that rate: node, Postgres, Kafka, the load", cpusOf(found.Best))
		}
		return err
	})
}

// measureLateness measures 1,000 and 5,000 messages/s: on an empty store, beside a million that wait, and right after
// two million have come in by Kafka, when nothing of what that leaves behind in the store is tidied up yet.
func measureLateness(ctx context.Context, g *ground, t *table) error {
	t.head = lateHead("ms after the deadline")
	for _, c := range []struct{ rate, waiting, came int }{
		{1000, 0, 0}, {1000, 1_000_000, 0}, {5000, 0, 0}, {5000, 0, 2_000_000},
	} {
		name := count(float64(c.rate)) + " messages/s"
		if c.waiting > 0 {
			name += " with " + count(float64(g.messages(c.waiting))) + " waiting"
		}
		if c.came > 0 {
			name += " with " + count(float64(g.messages(c.came))) + " waiting, right after they came in"
		}
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
			var more []string
			if c.rate != 1000 {
				more = []string{"--rate", strconv.Itoa(c.rate)}
			}
			r, err := s.steady(ctx, t, usual, more...)
			if err == nil {
				t.add(lateRow(name, r)...)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// bring has messages that are due tomorrow come in by Kafka, as fast as the node takes them in, and returns when all of
// them wait. Whoever sends them is stopped then: nothing of that is measured.
func (s *site) bring(ctx context.Context, messages int) error {
	if messages == 0 {
		return nil
	}
	messages = s.messages(messages)
	sending, stop := context.WithCancel(ctx)
	defer stop()
	b, err := s.begin(sending, "--burst", strconv.Itoa(messages), "--in", "24h", "--max-messages", "10000000")
	if err != nil {
		return err
	}
	err = s.await(ctx, messages, true)
	stop()
	<-b.done //nolint:errcheck // it was interrupted, and has no result
	return err
}

// wait has messages of 200 bytes wait, from some time on and one each millisecond: what it would take a load an hour to
// bring. They have a key of 9 bytes and one header.
func (s *site) wait(ctx context.Context, rows int, from string) error {
	if rows == 0 {
		return nil
	}
	rows = s.messages(rows)
	s.say("%s messages are made to wait", count(float64(rows)))
	const step = 1_000_000 // A statement of all rows would hold its snapshot for minutes.
	for first := 1; first <= rows; first += step {
		if err := s.execute(ctx, fmt.Sprintf(`INSERT INTO messages (id, lane, incarnation, deadline, due_at,
		    message_size, message_headers, message_key, message_value, source_topic, source_partition, source_offset)
		  SELECT 'w-' || i, '%s', gen_random_uuid(), at, at, 209, '[{"trace": "0123456789abcdef"}]',
		    convert_to('k-' || i, 'UTF8'), convert_to(repeat(md5(i::text), 6) || 'vvvvvvvv', 'UTF8'), '%s', 0, i
		  FROM (SELECT i, now() + %s + i * interval '1 ms' AS at FROM generate_series(%d, %d) AS i) AS m`,
			s.routes[0][1], s.routes[0][0], from, first, min(first+step-1, rows))); err != nil {
			return err
		}
	}
	return s.execute(ctx, "VACUUM ANALYZE messages", "CHECKPOINT")
}

// bursting is what a burst has shown.
type bursting struct {
	result         *bench.Result
	intake, firing phase
	peak, files    int64 // memory of the largest node, and of that pages of files
}

// phase is what a part of a run has cost.
type phase struct {
	messages float64
	used     map[string]time.Duration
	log      float64 // bytes of write-ahead log
}

// cpu writes what a message has cost a group, in microseconds.
func (p *phase) cpu(group string) string {
	used, known := p.used[group]
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(used.Microseconds())/p.messages)
}

// cpus writes how many CPUs nodes, Postgres and Kafka use at a rate of messages a second. Where that is less than the
// machine has, the rest is for the load, and for waiting.
func (p *phase) cpus(rate float64) string {
	var used time.Duration
	for _, group := range []string{"nodes", "Postgres", "Kafka"} {
		one, known := p.used[group]
		if !known {
			return "-"
		}
		used += one
	}
	return fmt.Sprintf("%.2f", used.Seconds()/p.messages*rate)
}

// burst has a hundred thousand messages on the input topic before the nodes start, so that nothing but the service says
// how fast they are taken in, and all of them due at one instant after that.
func (s *site) burst(ctx context.Context, t *table, nodes int) (*bursting, error) {
	messages := s.messages(100_000)
	lead := 30*time.Second + time.Duration(messages/4000)*time.Second
	if err := s.migrate(ctx); err != nil {
		return nil, err
	}
	due := time.Now().Add(lead)
	b, err := s.begin(ctx, "--burst", strconv.Itoa(messages), "--in", lead.String())
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx, messages, false); err != nil {
		return nil, err
	}
	begun, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, nodes); err != nil {
		return nil, err
	}
	if err := s.await(ctx, messages, true); err != nil {
		return nil, err
	}
	taken, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Until(due.Add(-time.Second))):
	}
	before, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	r := new(bench.Result)
	if err := b.end(r); err != nil {
		return nil, err
	}
	t.measured(b.line, r)
	if r.Intake == nil {
		return nil, errors.New("how much was taken in is not known")
	}
	after, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return &bursting{
		result: r, intake: taken.since(begun, messages), firing: after.since(before, messages),
		peak: after.peak, files: after.files,
	}, nil
}

// slowest is how long a message may take to be sent and taken in where there are millions: several times as long as on
// a machine that has nothing else to do.
const slowest = 180 * time.Microsecond

// await waits until all messages are on the input topic, or the group has taken them in: for ten minutes, and for ten
// million messages half an hour.
func (s *site) await(ctx context.Context, messages int, taken bool) error {
	client, err := s.kafka.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	wait := max(patience, time.Duration(messages)*slowest)
	return servers.Await(ctx, wait, func(ctx context.Context) error {
		var there int64
		if taken {
			committed, err := admin.FetchOffsetsForTopics(ctx, s.name, s.routes[0][0])
			if err != nil {
				return err
			}
			committed.Each(func(o kadm.OffsetResponse) { there += max(o.At, 0) })
		} else {
			ends, err := admin.ListEndOffsets(ctx, s.routes[0][0])
			if err != nil {
				return err
			}
			ends.Each(func(o kadm.ListedOffset) { there += o.Offset })
		}
		if there < int64(messages) {
			return fmt.Errorf("%d of %d messages are there", there, messages)
		}
		return nil
	})
}

// spent is what was used up until an instant.
type spent struct {
	used                map[string]time.Duration
	log                 float64
	peak, files, memory int64 // of the nodes: the largest one's peak, its pages of files, and what all have
}

// read reads what was used up. Nodes that do not run yet have used nothing.
func (s *site) read(ctx context.Context) (*spent, error) {
	var groups []machine.Group
	if len(s.nodes) > 0 {
		nodes := machine.Group{Name: "nodes"}
		for _, p := range s.nodes {
			nodes.PIDs = append(nodes.PIDs, p.PID())
		}
		groups = append(groups, nodes)
	}
	if len(s.kafka.Brokers) > 0 {
		groups = append(groups, machine.Group{Name: "Kafka", PIDs: []int{pid(s.kafka.Brokers[0].Server)}},
			machine.Group{Name: "Postgres", PIDs: []int{pid(s.postgres.Server)}})
	}
	meter, err := machine.Open(groups)
	if err != nil {
		return nil, err
	}
	readings, _, err := meter.Read()
	if err != nil {
		return nil, err
	}
	all := &spent{used: map[string]time.Duration{}}
	for _, r := range readings {
		all.used[r.Name] = r.CPU
		if r.Name == "nodes" {
			all.peak, all.files, all.memory = r.Peak, r.Files, r.Memory
		}
	}
	return all, s.do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8").Scan(&all.log)
	})
}

// since returns what was used up since an earlier reading.
func (s *spent) since(before *spent, messages int) phase {
	p := phase{messages: float64(messages), used: map[string]time.Duration{}, log: s.log - before.log}
	for name, used := range s.used {
		p.used[name] = used - before.used[name]
	}
	return p
}
