package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/postgres"
)

// The benchmarks that decided about the schema are these:
//
//	go test -run NONE -bench Cycle/b=500 -benchtime 10x ./node/store/postgres -backlog 1000000
//	go test -run NONE -bench Layouts -benchtime 10x ./node/store/postgres -backlog 1000000
//
// A server's settings, its disk, and who else uses the machine change every figure: compare ratios, made in turns.
var (
	backlog   = flag.Int("backlog", 0, "messages that wait all the time, due tomorrow")
	valueSize = flag.Int("value", 200, "bytes of a value")
)

// batchSizes are the numbers of messages in a call.
func batchSizes() []int { return []int{100, 500, 1000} }

// newBench returns a store with the backlog.
func newBench(b *testing.B, options postgres.Options, changes string) *postgres.Store {
	b.Helper()
	address := newSchema(b, newDatabase(b))
	if changes != "" {
		exec(b, address, changes)
	}
	if *backlog > 0 {
		exec(b, address, fmt.Sprintf(`
INSERT INTO messages (id, lane, incarnation, deadline, due_at,
  message_size, message_headers, message_key, message_value)
SELECT gen_random_uuid(), 'output', gen_random_uuid(), due, due, %[1]d, '[{"trace": "0123456789abcdef"}]', 'key',
  convert_to(repeat('x', %[1]d), 'UTF8')
FROM (SELECT now() + interval '1 day' + i * interval '10 ms' AS due FROM generate_series(1, %[2]d) AS i
  ORDER BY random()) AS s`, *valueSize, *backlog))
	}
	exec(b, address, "VACUUM ANALYZE messages")
	exec(b, address, "CHECKPOINT") // so that none falls into the measurement for what happened before
	return open(b, address, options)
}

// newBatch returns n messages that are due, with ids at random.
func newBatch(n int, value []byte) []node.Message {
	list := make([]node.Message, n)
	for i := range list {
		list[i] = node.Message{
			ID: uuid.NewString(), Lane: "output", Incarnation: uuid.New(), Deadline: time.Now(),
			Origin: node.Origin{Topic: "input", Partition: 7, Offset: int64(i)},
			Key:    []byte("key of it"), Value: value,
			Headers: []node.Header{{Name: "trace", Value: []byte("0123456789abcdef")}},
		}
	}
	return list
}

// benchPartition is a partition of the input that one producer takes in.
type benchPartition struct {
	store *postgres.Store
	at    node.Place
}

func newPartition(ctx context.Context, s *postgres.Store, number int32) (*benchPartition, error) {
	p := &benchPartition{s, input()}
	p.at.Number = number
	positions, _, err := s.Positions(ctx, []node.Place{p.at})
	if err == nil {
		p.at.Position = positions[0]
	}
	return p, err
}

// take takes the next messages in.
func (p *benchPartition) take(ctx context.Context, list []node.Message, claim bool) error {
	request := takeOf(p.at, list, claim)
	request.Hold = 5 * time.Second
	result, err := p.store.Take(ctx, request)
	if err == nil && result.Taken != len(list) {
		err = errors.New(result.Refusal)
	}
	p.at.Offset += int64(len(list))
	return err
}

// value returns bytes that compress to about a half, as JSON does.
func value(n int) []byte {
	text := ""
	for i := 0; len(text) < n; i++ {
		text += fmt.Sprintf(`{"order":%d,"customer":%d},`, i*7919%100_000, i*104_729%1_000_000)
	}
	return []byte(text[:n])
}

// BenchmarkCalls makes every call alone, one after another, on rows of its own, and tells the rows a second of each.
func BenchmarkCalls(b *testing.B) {
	for _, size := range batchSizes() {
		b.Run(fmt.Sprint("b=", size), func(b *testing.B) {
			s := newBench(b, postgres.Options{}, "")
			took := map[string]time.Duration{}
			timed := func(name string, call func() error) {
				start := time.Now()
				if err := call(); err != nil {
					b.Fatal(err)
				}
				took[name] += time.Since(start)
			}
			ctx, payload := b.Context(), value(*valueSize)
			p, err := newPartition(ctx, s, 0)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				list := newBatch(size, payload)
				var claimed node.ClaimResult
				releases, refs := make([]node.Release, size), make([]node.Ref, size)
				timed("take", func() error { return p.take(ctx, list, false) })
				timed("duplicate", func() error { return p.take(ctx, list, false) })
				p.at.Offset -= int64(size)
				timed("repeated", func() error { return p.take(ctx, list, false) })
				timed("claim", func() (err error) { claimed, err = s.Claim(ctx, due(size)); return err })
				for i, r := range claimed.Messages {
					releases[i].Claim, refs[i] = r.Claim, r.Ref()
				}
				timed("expired", func() error { _, err := s.Expired(ctx, size); return err })
				timed("reset", func() error { _, err := s.Reset(ctx, releases); return err })
				timed("delete", func() error { _, err := s.Settle(ctx, node.Removals(refs...)); return err })
				timed("take-claimed", func() error { return p.take(ctx, list, true) })
				if _, err := s.Settle(ctx, node.Removals(refs...)); err != nil {
					b.Fatal(err)
				}
			}
			for name, d := range took {
				b.ReportMetric(float64(b.N*size)/d.Seconds(), name+"-rows/s")
			}
		})
	}
}

// BenchmarkTake takes messages in, and nothing else. What the client allocates for a batch does not depend on how busy
// the machine is.
func BenchmarkTake(b *testing.B) {
	for _, size := range batchSizes() {
		b.Run(fmt.Sprint("b=", size), func(b *testing.B) {
			s := newBench(b, postgres.Options{}, "")
			p, err := newPartition(b.Context(), s, 0)
			if err != nil {
				b.Fatal(err)
			}
			payload := value(*valueSize)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				list := newBatch(size, payload)
				b.StartTimer()
				if err := p.take(b.Context(), list, true); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkCycle takes messages from insert to delete, with two producers and two firers at once.
func BenchmarkCycle(b *testing.B) {
	for _, size := range batchSizes() {
		b.Run(fmt.Sprint("b=", size), func(b *testing.B) {
			runCycles(b, newBench(b, postgres.Options{}, ""), size, false)
		})
	}
	b.Run("b=500,as claimed", func(b *testing.B) {
		runCycles(b, newBench(b, postgres.Options{}, ""), 500, true)
	})
	b.Run("b=500,as through PgBouncer", func(b *testing.B) {
		runCycles(b, newBench(b, postgres.Options{PgBouncer: true}, ""), 500, false)
	})
}

// BenchmarkLayouts compares the schema with others, on which the same statements work.
func BenchmarkLayouts(b *testing.B) {
	const drop = "DROP INDEX messages_waiting; DROP INDEX messages_claimed;"
	for _, layout := range []struct{ name, changes string }{
		{"as it is", ""},
		{"shorter index", `DROP INDEX messages_waiting;
CREATE INDEX messages_waiting ON messages (lane, part, due_at) WHERE readied_at IS NULL`},
		{"updates in place", drop + `CREATE INDEX messages_waiting ON messages (lane, part, due_at, id);
ALTER TABLE messages SET (fillfactor = 50)`},
		{"fillfactor 85", "ALTER TABLE messages SET (fillfactor = 85)"},
		{"without checks", `ALTER TABLE messages DROP CONSTRAINT messages_instants_are_finite;
ALTER TABLE messages DROP CONSTRAINT messages_claim_is_whole`},
		{"pglz", "ALTER TABLE messages ALTER COLUMN message_value SET COMPRESSION pglz"},
		{"external", "ALTER TABLE messages ALTER COLUMN message_value SET STORAGE EXTERNAL"},
	} {
		b.Run(layout.name, func(b *testing.B) {
			runCycles(b, newBench(b, postgres.Options{}, layout.changes), 500, false)
		})
	}
}

// BenchmarkTies claims seventy thousand messages that fall due at one instant, in batches, and deletes them. This
// is what the long index for waiting messages is for.
func BenchmarkTies(b *testing.B) {
	const size, batch = 70_000, 500
	for _, layout := range []struct{ name, changes string }{
		{"as it is", ""},
		{"shorter index", `DROP INDEX messages_waiting;
CREATE INDEX messages_waiting ON messages (lane, part, due_at) WHERE readied_at IS NULL`},
	} {
		b.Run(layout.name, func(b *testing.B) {
			s := newBench(b, postgres.Options{}, layout.changes)
			payload, deadline := value(*valueSize), time.Now()
			var worst time.Duration
			for b.Loop() {
				b.StopTimer()
				for range size / batch {
					list := newBatch(batch, payload)
					for i := range list {
						list[i].Deadline = deadline
					}
					insert(b, s, list, false)
				}
				b.StartTimer()
				for left := size; left > 0; {
					n, took, err := fire(b.Context(), s, batch)
					if err != nil {
						b.Fatal(err)
					}
					left -= n
					worst = max(worst, took)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "messages/s")
			b.ReportMetric(worst.Seconds()*1000, "ms/worst-claim")
		})
	}
}

// runCycles takes some thousands of messages from insert to delete in each iteration.
func runCycles(b *testing.B, s *postgres.Store, size int, asClaimed bool) {
	b.Helper()
	const workers = 2
	each := 10_000 / size // batches of a producer
	payload := value(*valueSize)
	var calls, claimed atomic.Int64
	for b.Loop() {
		var all sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(workers * each * size))
		errs := make([]error, 2*workers)
		for w := range workers {
			all.Go(func() {
				p, err := newPartition(b.Context(), s, int32(w))
				for i := 0; i < each && err == nil; i++ {
					err = p.produce(b.Context(), newBatch(size, payload), asClaimed, &left)
				}
				if err != nil {
					errs[w] = err
					left.Store(0)
				}
			})
			all.Go(func() {
				for left.Load() > 0 && !asClaimed {
					n, took, err := fire(b.Context(), s, size)
					left.Add(-int64(n))
					if n > 0 {
						calls.Add(1)
						claimed.Add(int64(took))
					}
					if err != nil {
						errs[workers+w] = err
						left.Store(0)
					}
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*workers*each*size)/b.Elapsed().Seconds(), "messages/s")
	if n := calls.Load(); n > 0 {
		b.ReportMetric(float64(claimed.Load())/float64(n)/1e6, "ms/claim")
	}
}

// produce takes a batch in. What was taken in as claimed it deletes at once, as a node that publishes it does.
func (p *benchPartition) produce(ctx context.Context, list []node.Message, asClaimed bool, left *atomic.Int64) error {
	if err := p.take(ctx, list, asClaimed); err != nil || !asClaimed {
		return err
	}
	refs := make([]node.Ref, len(list))
	for i := range list {
		refs[i] = list[i].Ref()
	}
	left.Add(-int64(len(list)))
	_, err := p.store.Settle(ctx, node.Removals(refs...))
	return err
}

// fire claims a batch and deletes it.
func fire(ctx context.Context, s *postgres.Store, size int) (n int, took time.Duration, err error) {
	start := time.Now()
	result, err := s.Claim(ctx, due(size))
	took = time.Since(start)
	if err != nil || len(result.Messages) == 0 {
		return 0, took, err
	}
	refs := make([]node.Ref, len(result.Messages))
	for i := range result.Messages {
		refs[i] = result.Messages[i].Ref()
	}
	_, err = s.Settle(ctx, node.Removals(refs...))
	return len(refs), took, err
}
