package brokertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/node"
)

func publishCases() []testCase {
	return []testCase{
		{"publish/relays every byte", publishRelaysBytes},
		{"publish/of nothing returns nothing", publishNothing},
		{"publish/appends a value of 1 MiB", publishLargeValue},
		{"publish/appends what fits only if it is compressed", publishCompressible},
		{"publish/goes to the partition that Java chooses", publishPartitions},
		{"publish/keeps the order of a key", publishOrder},
		{"publish/keeps the order of a key with a large record among them", publishOrderLarge},
		{"publish/rejects a record that is too large and no other", publishTooLarge},
		{"publish/rejects large records only, many at once", publishManyTooLarge},
		{"publish/fits batches into a topic for small ones", publishSmallLimit},
		{"publish/names a missing topic and no other", publishNoTopic},
		{"publish/can be called concurrently", publishConcurrently},
		{"publish/ends with its context", publishContext},
	}
}

func publishRelaysBytes(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	want := payloads(topic)
	publish(t, env.publisher(t), want...)
	got := env.Cluster.Read(t, topic)
	if len(got) != len(want) {
		t.Fatalf("%d records on the topic, want %d", len(got), len(want))
	}
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g node.Record) bool { return samePayload(g, w) == "" }) {
			t.Errorf("not on the topic: key %s, value %s, headers %q", show(w.Key), show(w.Value), w.Headers)
		}
	}
}

func publishNothing(t *testing.T, env Environment) {
	b := env.publisher(t)
	if errs := b.Publish(t.Context(), nil); len(errs) != 0 {
		t.Fatalf("%d results for no records", len(errs))
	}
}

// noise returns bytes that cannot be compressed.
func noise(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func publishLargeValue(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 2, "max.message.bytes", "4194304")
	want := make([]node.Record, 8)
	for i := range want {
		want[i] = node.Record{
			Topic: topic, Key: []byte("key"), Value: noise(1 << 20),
			Headers: []node.Header{{Name: "number", Value: fmt.Append(nil, i)}},
		}
	}
	publish(t, env.publisher(t), want...)
	got := env.Cluster.Read(t, topic)
	if len(got) != len(want) {
		t.Fatalf("%d records on the topic, want %d", len(got), len(want))
	}
	for i := range want {
		if difference := samePayload(got[i], want[i]); difference != "" {
			t.Fatalf("record %d: %s", i, difference)
		}
	}
}

// An application can compress what it submits; what got into the input topic should not be too large for the output.
func publishCompressible(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1, "max.message.bytes", "100000")
	publish(t, env.publisher(t), node.Record{Topic: topic, Value: make([]byte, 5<<20)})
	if got := env.Cluster.Read(t, topic); len(got) != 1 || len(got[0].Value) != 5<<20 {
		t.Fatalf("%d records on the topic, want one of 5 MiB", len(got))
	}
}

// The hashes are what org.apache.kafka.common.utils.Utils of Kafka 4.3.1 computes: toPositive(murmur2(key)).
func publishPartitions(t *testing.T, env Environment) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	vectors := []struct {
		key  []byte
		hash int32
	}{
		{[]byte{}, 275646681},
		{[]byte("a"), 584102524},
		{[]byte("ab"), 316155434},
		{[]byte("abc"), 479470107},
		{[]byte("21"), 1173551340},
		{[]byte("foobar"), 1357151166},
		{[]byte("a-little-bit-long-string"), 1161502112},
		{[]byte("a-little-bit-longer-string"), 661178819},
		{[]byte("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"), 2088585677},
		{[]byte{0}, 375494588},
		{[]byte{0, 0, 0, 0, 0}, 263274959},
		{[]byte{0xff, 0xfe, 0}, 1514669764},
		{every, 199136374},
		{[]byte("3767d5c7-aced-45e5-91f1-3f7ad8205a3f"), 1766019796},
		{[]byte("☃"), 36233967},
	}
	b := env.publisher(t)
	for _, partitions := range []int32{1, 3, 16} {
		topic := env.Cluster.Topic(t, partitions)
		records := make([]node.Record, len(vectors))
		for i, v := range vectors {
			records[i] = node.Record{Topic: topic, Key: v.key, Value: fmt.Append(nil, i)}
		}
		publish(t, b, records...)
		for _, r := range env.Cluster.Read(t, topic) {
			i := slices.IndexFunc(vectors, func(v struct {
				key  []byte
				hash int32
			},
			) bool {
				return sameBytes(v.key, r.Key)
			})
			if want := vectors[i].hash % partitions; r.Partition != want {
				t.Errorf("key %s is in partition %d of %d, want %d", show(r.Key), r.Partition, partitions, want)
			}
		}
	}
}

func publishOrder(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 4)
	b := env.publisher(t)
	keys := []string{"a", "b", "c", "d", "e", "f", ""}
	for call := range 5 {
		var records []node.Record
		for i := range 500 {
			records = append(records, node.Record{
				Topic: topic, Key: []byte(keys[i%len(keys)]), Value: fmt.Appendf(nil, "%d-%03d", call, i),
			})
		}
		publish(t, b, records...)
	}
	expectOrder(t, env, topic, 2500)
}

// expectOrder expects so many records on a topic, the values of every key in ascending order.
func expectOrder(t *testing.T, env Environment, topic string, n int) {
	t.Helper()
	last := make(map[string]string)
	got := env.Cluster.Read(t, topic)
	for _, r := range got {
		order := string(r.Value[:min(len(r.Value), 10)])
		if before := last[string(r.Key)]; before >= order {
			t.Fatalf("key %s: %q comes after %q", show(r.Key), order, before)
		}
		last[string(r.Key)] = order
	}
	if len(got) != n {
		t.Fatalf("%d records on the topic, want %d", len(got), n)
	}
}

func publishOrderLarge(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 2, "max.message.bytes", "4194304")
	var records []node.Record
	for i := range 60 {
		value := fmt.Appendf(nil, "%010d", i)
		if i%20 == 10 {
			value = append(value, noise(1<<20)...)
		}
		records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i%3), Value: value})
	}
	publish(t, env.publisher(t), records...)
	expectOrder(t, env, topic, 60)
}

// expectRejected expects that the records at the given places are rejected, that all others are acknowledged, and that
// the topics hold exactly these, once each and in order.
func expectRejected(t *testing.T, env Environment, records []node.Record, errs []error, rejected ...int) {
	t.Helper()
	if len(errs) != len(records) {
		t.Fatalf("%d results for %d records", len(errs), len(records))
	}
	want := make(map[string]int)
	topics := make(map[string]bool)
	for i, err := range errs {
		topics[records[i].Topic] = true
		switch {
		case slices.Contains(rejected, i):
			if node.KindOf(err) != node.RecordRejected || node.KindOf(err) == node.TopicMissing {
				t.Errorf("record %d: %v, want it rejected", i, err)
			}
		case err != nil:
			t.Errorf("record %d: %v", i, err)
		default:
			want[records[i].Topic]++
		}
	}
	for topic := range topics {
		expectOrder(t, env, topic, want[topic])
	}
}

func publishTooLarge(t *testing.T, env Environment) {
	topic, other := env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
	b := env.publisher(t)
	for _, size := range []int{1_000_000, 1_048_576, 3 << 20} {
		var records []node.Record
		for i := range 21 {
			records = append(records, node.Record{
				Topic: topic, Key: fmt.Append(nil, i%4), Value: fmt.Appendf(nil, "%03d-%06d", size>>20, i),
			}, node.Record{
				Topic: other, Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "%03d-%06d", size>>20, i),
			})
		}
		records[20].Value = append(records[20].Value, noise(size)...)
		errs := b.Publish(t.Context(), records)
		if size == 1_000_000 { // fits into a topic with default settings
			for i, err := range errs {
				if err != nil {
					t.Errorf("record %d: %v", i, err)
				}
			}
			topic, other = env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
			continue
		}
		expectRejected(t, env, records, errs, 20)
		topic, other = env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 1)
	}
}

// Records that go in bulk, are refused together, and have to be told apart.
func publishManyTooLarge(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 2, "max.message.bytes", "20000")
	var records []node.Record
	var rejected []int
	for i := range 120 {
		value := fmt.Appendf(nil, "%010d", i)
		if i%17 == 3 {
			value = append(value, noise(30_000)...)
			rejected = append(rejected, i)
		}
		records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i%5), Value: value})
	}
	expectRejected(t, env, records, env.publisher(t).Publish(t.Context(), records), rejected...)
}

// Records that are small enough one by one, but not together, are all appended.
func publishSmallLimit(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1, "max.message.bytes", "5000")
	var records []node.Record
	for i := range 200 {
		value := append(fmt.Appendf(nil, "%010d", i), noise(990)...)
		records = append(records, node.Record{Topic: topic, Key: []byte("key"), Value: value})
	}
	expectRejected(t, env, records, env.publisher(t).Publish(t.Context(), records))
}

// A topic that does not exist is named, and hinders no other. Once it exists, it works.
func publishNoTopic(t *testing.T, env Environment) {
	topic, missing := env.Cluster.Topic(t, 1), unique("missing")
	b := env.publisher(t)
	records := texts(topic, "text", 6)
	for i := range records {
		if i%2 == 1 {
			records[i].Topic = missing
		}
	}
	invalid := texts("not a/topic name", "text", 1)
	for round := range 2 {
		errs := b.Publish(t.Context(), append(records, invalid...))
		for i, err := range errs {
			if want := i%2 == 1 || i == 6; want != (node.KindOf(err) == node.TopicMissing) || !want && err != nil ||
				node.KindOf(err) == node.RecordRejected {
				t.Errorf("round %d, record %d: %v", round, i, err)
			}
		}
	}
	if got := env.Cluster.Read(t, topic); len(got) != 6 {
		t.Errorf("%d records on the topic, want 6", len(got))
	}
	env.Cluster.CreateTopic(t, missing, 1)
	start := time.Now()
	await(t, "the topic that was missing accepts a record", func() bool {
		err := b.Publish(t.Context(), records[1:2])[0]
		if err != nil && node.KindOf(err) == node.RecordRejected {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Logf("the topic accepted a record after %v", time.Since(start).Round(time.Millisecond))
}

// Calls share a partition, each with a record that is too large among many that are not, and each gets its own results.
func publishConcurrently(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1, "max.message.bytes", "20000")
	b := env.publisher(t)
	const callers, calls, each = 6, 8, 80
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for call := range calls {
				var records []node.Record
				for i := range each {
					records = append(records, node.Record{
						Topic: topic, Key: fmt.Append(nil, caller),
						Value: fmt.Appendf(nil, "%d-%d-%06d", caller, call, i),
					})
				}
				large := call * 7
				records[large].Value = append(records[large].Value, noise(30_000)...)
				for i, err := range b.Publish(t.Context(), records) {
					if (i == large) != (node.KindOf(err) == node.RecordRejected) || i != large && err != nil {
						t.Errorf("caller %d, call %d, record %d: %v", caller, call, i, err)
					}
				}
			}
		})
	}
	wg.Wait()
	expectOrder(t, env, topic, callers*calls*(each-1))
}

func publishContext(t *testing.T, env Environment) {
	network := NewNetwork(t)
	b := env.publisher(t, SinkOptions{PublishTimeout: defaultPublishTimeout, Dial: network.Dial})
	topic := env.Cluster.Topic(t, 1)
	network.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	errs := b.Publish(ctx, texts(topic, "text", 3))
	if took := time.Since(start); took > defaultPublishTimeout/2 {
		t.Fatalf("publishing with a context that is done took %v", took)
	}
	expectUnknown(t, errs, 3)
}

// expectUnknown expects n errors of unknown outcome.
func expectUnknown(t *testing.T, errs []error, n int) {
	t.Helper()
	if len(errs) != n {
		t.Fatalf("%d results for %d records", len(errs), n)
	}
	for i, err := range errs {
		if err == nil || node.KindOf(err).Permanent() {
			t.Fatalf("record %d: %v, want an unknown outcome", i, err)
		}
	}
}

func realCases() []testCase {
	return []testCase{
		{"publish/rejects an invalid record and no other", publishInvalid},
		{"poll/tells when the broker has appended a record", pollAppendTime},
	}
}

// A compacted topic takes no record without a key, and says so about the whole batch.
func publishInvalid(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1, "cleanup.policy", "compact")
	var records []node.Record
	for i := range 100 {
		records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	records[33].Key, records[77].Key = nil, nil
	expectRejected(t, env, records, env.publisher(t).Publish(t.Context(), records), 33, 77)
}
