package main

import (
	"context"
	"errors"
	"fmt"
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
	args := []string{
		"--rate", "1000", "--duration", s.duration(d).String(), "--delay", s.delays(), "--max-messages", "10000000",
	}
	return s.bench(ctx, t, overridden(append(args, more...))...)
}

// overridden returns flags with their values, of which each is there once: the last value of a flag that is given
// twice, at its first place. So the command line says what is run, and nothing else.
func overridden(flags []string) []string {
	var all []string
	for i := 0; i+1 < len(flags); i += 2 {
		at := 0
		for at < len(all) && all[at] != flags[i] {
			at += 2
		}
		if at == len(all) {
			all = append(all, flags[i], "")
		}
		all[at+1] = flags[i+1]
	}
	return all
}

// highest looks for the highest steady rate with p99.9 under a bound. It begins with a rate that most machines hold.
func (s *site) highest(ctx context.Context, t *table, bound string) (*bench.Found, error) {
	b, err := s.begin(ctx, "--find-max", "--p999-under", bound, "--rate", strconv.Itoa(s.messages(8000)),
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
		t.notes = append(t.notes, t.of(b.line)+": "+found.Ended)
	}
	if found.Best != nil {
		t.others = max(t.others, found.Best.Others)
	}
	return found, nil
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
		if err := s.execute(ctx, s.waiting(first, min(first+step-1, rows), from)); err != nil {
			return err
		}
	}
	return s.execute(ctx, "VACUUM ANALYZE messages", "CHECKPOINT")
}

// waiting is the statement that has them wait from a first one to a last one.
func (s *site) waiting(first, last int, from string) string {
	return fmt.Sprintf(`INSERT INTO messages (id, lane, incarnation, deadline, due_at,
		    message_size, message_headers, message_key, message_value, source_topic, source_partition, source_offset)
		  SELECT 'w-' || i, '%s', gen_random_uuid(), at, at, 209, '[{"trace": "0123456789abcdef"}]',
		    convert_to('k-' || i, 'UTF8'), convert_to(repeat(md5(i::text), 6) || 'vvvvvvvv', 'UTF8'), '%s', 0, i
		  FROM (SELECT i, now() + %s + i * interval '1 ms' AS at FROM generate_series(%d, %d) AS i) AS m`,
		s.routes[0][1], s.routes[0][0], from, first, last)
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
	appended float64 // to the journal, if the site has one, with what ends transactions
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

// burstOf is how many messages a burst has that is measured.
const burstOf = 300_000

// burst has messages on the input topic before the nodes start, so that nothing but the service says how fast they are
// taken in, and all of them due at one instant after that. They have so long to come in that a fifth of the usual speed
// is enough.
func (s *site) burst(ctx context.Context, t *table, nodes, messages int) (*bursting, error) {
	messages = s.messages(messages)
	lead := 30*time.Second + time.Duration(messages/7500)*time.Second
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
	if spare := time.Until(due); spare < time.Second {
		t.faults = append(t.faults, fmt.Sprintf("%s: the last of %s messages came in %v after all were due: this is "+
			"no speed of firing alone", t.of(b.line), count(float64(messages)), -spare.Round(time.Second/10)))
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
	log, appended       float64
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
	if s.journal {
		if all.appended, err = s.end(ctx, s.name+".journal"); err != nil {
			return nil, err
		}
	}
	return all, s.do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8").Scan(&all.log)
	})
}

// since returns what was used up since an earlier reading.
func (s *spent) since(before *spent, messages int) phase {
	p := phase{
		messages: float64(messages), used: map[string]time.Duration{}, log: s.log - before.log,
		appended: s.appended - before.appended,
	}
	for name, used := range s.used {
		p.used[name] = used - before.used[name]
	}
	return p
}
