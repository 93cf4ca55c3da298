package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
	"chronos/cmd/chronos/bench/machine"
)

// bare is what transactions cost that do nothing else: a producer for each partition of a journal, as a node has them,
// and one transaction of each at a time. No journal on this Kafka can be faster, or cheaper.
type bare struct {
	perTransaction int // messages
	perSecond      float64
	used           map[string]time.Duration // by the producers, which are called nodes, and by Kafka
	messages       float64
}

// cpu writes what a message has cost a group, in microseconds.
func (b *bare) cpu(group string) string {
	return (&phase{messages: b.messages, used: b.used}).cpu(group)
}

// bareRecord is how many bytes of a message are appended to a journal, and come out.
const bareRecord = 200

// bare appends messages to one topic with as many partitions as a journal has, in transactions of some messages each.
// Where they come out, each is a record on one topic and a tombstone on the other; where they come in, one record.
func (s *site) bare(ctx context.Context, messages, perTransaction int, out bool) (*bare, error) {
	name := fmt.Sprintf("%s.bare.%t", s.name, out)
	if err := s.kafka.Create(ctx, servers.Topic{Name: name, Partitions: partitions},
		servers.Topic{Name: name + ".out", Partitions: partitions}); err != nil {
		return nil, err
	}
	var producers []*kgo.Client
	defer func() {
		for _, p := range producers {
			p.Close()
		}
	}()
	for number := range partitions {
		p, err := s.kafka.Connect(kgo.TransactionalID(fmt.Sprintf("%s/%d", name, number)), kgo.ManualFlushing(),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.MaxBufferedRecords(4*perTransaction))
		if err != nil {
			return nil, err
		}
		producers = append(producers, p)
		// The first transaction finds out what the others know.
		if err := commitBare(ctx, p, name, int32(number), 1, out); err != nil {
			return nil, err
		}
	}
	before, err := s.readBare()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var left atomic.Int64
	left.Store(int64(messages))
	errs := make([]error, len(producers))
	var all sync.WaitGroup
	for number, p := range producers {
		all.Go(func() {
			for errs[number] == nil {
				n := min(left.Add(-int64(perTransaction))+int64(perTransaction), int64(perTransaction))
				if n <= 0 {
					return
				}
				errs[number] = commitBare(ctx, p, name, int32(number), int(n), out)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	after, err := s.readBare()
	if err != nil {
		return nil, err
	}
	b := &bare{
		perTransaction: perTransaction, perSecond: float64(messages) / took.Seconds(),
		used: map[string]time.Duration{}, messages: float64(messages),
	}
	for group, used := range after {
		b.used[group] = used - before[group]
	}
	return b, nil
}

// commitBare makes one transaction of some messages.
func commitBare(ctx context.Context, p *kgo.Client, topic string, number int32, messages int, out bool) error {
	if err := p.BeginTransaction(); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	var mu sync.Mutex
	var failed error
	produce := func(r *kgo.Record) {
		r.Partition = number
		p.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	for range messages {
		key := []byte(fmt.Sprintf("bench-%016x", rand.Uint64()))
		if out {
			produce(&kgo.Record{Topic: topic + ".out", Key: key, Value: bareValue()})
			produce(&kgo.Record{Topic: topic, Key: key})
			continue
		}
		produce(&kgo.Record{Topic: topic, Key: key, Value: bareValue()})
	}
	if err := p.Flush(ctx); err != nil {
		return fmt.Errorf("append what a transaction has: %w", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return fmt.Errorf("append what a transaction has: %w", failed)
	}
	if err := p.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit a transaction: %w", err)
	}
	return nil
}

// pool is what values are cut from: more random bytes than a compressor looks back on.
var pool = sync.OnceValue(func() []byte {
	var seed [32]byte
	bytes := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8(seed).Read(bytes) // it never fails
	return bytes
})

// bareValue is a value that hardly compresses. It is not copied, so that it costs the producers nothing.
func bareValue() []byte {
	from := rand.IntN(len(pool()) - bareRecord)
	return pool()[from : from+bareRecord]
}

// readBare reads what this process, which is the producers, and Kafka have used up.
func (s *site) readBare() (map[string]time.Duration, error) {
	groups := []machine.Group{{Name: "nodes", PIDs: []int{os.Getpid()}}}
	if len(s.kafka.Brokers) > 0 {
		groups = []machine.Group{{Name: "Kafka", PIDs: []int{pid(s.kafka.Brokers[0].Server)}}}
	}
	meter, err := machine.Open(groups)
	if err != nil {
		return nil, err
	}
	readings, _, err := meter.Read()
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{}
	for _, r := range readings {
		if r.Name == machine.Self {
			r.Name = "nodes"
		}
		used[r.Name] = r.CPU
	}
	return used, nil
}

// end returns how many records a topic has had, with those that end transactions.
func (s *site) end(ctx context.Context, topic string) (end float64, err error) {
	client, err := s.kafka.Connect()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("find the end of %s: %w", topic, err)
	}
	ends.Each(func(o kadm.ListedOffset) { end += float64(o.Offset) })
	return end, nil
}
