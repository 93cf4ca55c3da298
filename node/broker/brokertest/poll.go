package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/node"
)

func pollCases() []testCase {
	return []testCase{
		{"poll/relays every byte", pollRelaysBytes},
		{"poll/tells the timestamps of records", pollTimestamps},
		{"poll/returns a value of 1 MiB", pollLargeValue},
		{"poll/keeps the order of a partition", pollOrder},
		{"poll/reads several topics", pollSeveralTopics},
		{"poll/begins at the start", pollBeginsAtStart},
		{"poll/returns nothing when there is nothing", pollNothing},
		{"poll/ends with its context", pollContext},
		{"poll/gives its records away", pollOwnership},
		{"poll/leaves aborted transactions out", pollAborted},
	}
}

// Null and empty, repeated headers, bytes that are no text: all that Kafka tells apart arrives as it was.
func pollRelaysBytes(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	want := env.Cluster.Produce(t, payloads(topic)...)
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	for i, got := range pollN(t, b, len(want)) {
		if got.Topic != topic || got.Partition != 0 || got.Offset != want[i].Offset || got.LeaderEpoch < 0 {
			t.Fatalf("record %d is %s in epoch %d, want %s", i, position(got), got.LeaderEpoch, position(want[i]))
		}
		if difference := samePayload(got, want[i]); difference != "" {
			t.Fatalf("record %d: %s", i, difference)
		}
	}
}

// noTimestamp is how the protocol of Kafka says that a record has no timestamp.
func noTimestamp() time.Time { return time.UnixMilli(-1) }

// A delay counts from the timestamp that the producer has given its record, which stays the same however often the
// record is delivered. A record without one must not pass for one of 1970, and be hours or decades late.
func pollTimestamps(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	produced := time.Now().Add(-90 * time.Minute).UTC().Truncate(time.Millisecond)
	want := []time.Time{produced, produced.Add(time.Millisecond), {}, produced.Add(-time.Hour), time.UnixMilli(0).UTC()}
	for _, at := range want {
		if at.IsZero() {
			at = noTimestamp()
		}
		env.Cluster.Produce(t, node.Record{Topic: topic, Timestamp: at}) // each in a batch of its own
	}
	for range 2 { // by another member of another group it is the same
		b := env.open(t, SourceOptions{Inputs: []string{topic}})
		for i, got := range pollN(t, b, len(want)) {
			if got.Timestamp != want[i] {
				t.Errorf("record %d has the timestamp %v, want %v", i, got.Timestamp, want[i])
			}
		}
		closeNow(t, b)
	}
}

// Where the broker sets the timestamps, they are its own, whatever the producer says.
func pollAppendTime(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().Add(-time.Minute)
	env.Cluster.Produce(t, node.Record{Topic: topic, Timestamp: before.Add(-time.Hour)})
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	if got := pollN(t, b, 1)[0].Timestamp; got.Before(before) {
		t.Errorf("the record has the timestamp %v, want that of when it was appended", got)
	}
}

func pollLargeValue(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1, "max.message.bytes", "4194304")
	want := make([]node.Record, 12)
	for i := range want {
		want[i] = node.Record{Topic: topic, Key: []byte("key"), Value: noise(1 << 20)}
		env.Cluster.Produce(t, want[i]) // each in a batch of its own, or they are too large together
	}
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	for i, got := range pollN(t, b, len(want)) {
		if difference := samePayload(got, want[i]); difference != "" {
			t.Fatalf("record %d: %s", i, difference)
		}
	}
}

func pollOrder(t *testing.T, env Environment) {
	const partitions, each = 3, 2000
	topic := env.Cluster.Topic(t, partitions)
	var records []node.Record
	for i := range each {
		for p := range int32(partitions) {
			records = append(records, node.Record{Topic: topic, Partition: p, Value: fmt.Append(nil, i)})
		}
	}
	env.Cluster.Produce(t, records...)
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	next := make([]int64, partitions)
	for _, r := range pollN(t, b, partitions*each) {
		if r.Offset != next[r.Partition] || string(r.Value) != fmt.Sprint(r.Offset) {
			t.Fatalf("polled %s with value %s, want offset %d next", position(r), r.Value, next[r.Partition])
		}
		next[r.Partition]++
	}
}

func pollSeveralTopics(t *testing.T, env Environment) {
	topics := []string{env.Cluster.Topic(t, 1), env.Cluster.Topic(t, 2), env.Cluster.Topic(t, 1)}
	b := env.open(t, SourceOptions{Inputs: topics})
	for round := range 2 {
		var want []string
		for _, topic := range topics {
			text := fmt.Sprintf("%s in round %d", topic, round)
			want = append(want, text)
			env.Cluster.Produce(t, node.Record{Topic: topic, Value: []byte(text)})
		}
		records := pollN(t, b, len(topics))
		for _, r := range records {
			if string(r.Value) != fmt.Sprintf("%s in round %d", r.Topic, round) {
				t.Fatalf("polled %s with value %q", position(r), r.Value)
			}
		}
		got := values(records)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("polled %q, want %q", got, want)
		}
	}
}

// A group that has committed nothing reads everything there is: what was acknowledged before the first node was started
// is not lost.
func pollBeginsAtStart(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	env.Cluster.Produce(t, texts(topic, "before", 3)...)
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	if got := pollN(t, b, 3)[0].Offset; got != 0 {
		t.Fatalf("the first record has offset %d, want 0", got)
	}
}

func pollNothing(t *testing.T, env Environment) {
	b := env.open(t, SourceOptions{Inputs: []string{env.Cluster.Topic(t, 1)}})
	for range 3 {
		start := time.Now()
		if records := poll(t, b); len(records) > 0 {
			t.Fatalf("polled %d records of an empty topic", len(records))
		}
		if took := time.Since(start); took > patience/3 {
			t.Fatalf("a poll of nothing took %v", took)
		}
	}
}

func pollContext(t *testing.T, env Environment) {
	b := env.open(t, SourceOptions{Inputs: []string{env.Cluster.Topic(t, 1)}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 { // would take a quarter of an hour
		if records, err := b.Poll(ctx); len(records) > 0 || err != nil {
			t.Fatalf("poll with a context that is done: %d records, error %v", len(records), err)
		}
	}
}

// What the caller does with the memory of a record changes no other, and no other part of the same one.
func pollOwnership(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	want := payloads(topic)
	env.Cluster.Produce(t, want...)
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	scribble := func(b []byte) {
		b = b[:cap(b)]
		for i := range b {
			b[i] = '#'
		}
	}
	records := pollN(t, b, len(want))
	for i, r := range records {
		if difference := samePayload(r, want[i]); difference != "" {
			t.Fatalf("record %d, after those before it were overwritten: %s", i, difference)
		}
		scribble(r.Key)
		if !sameBytes(r.Value, want[i].Value) {
			t.Fatalf("record %d: overwriting the key has changed the value", i)
		}
		scribble(r.Value)
		for j, h := range r.Headers {
			if !sameBytes(h.Value, want[i].Headers[j].Value) {
				t.Fatalf("record %d: overwriting what comes before has changed header %d", i, j)
			}
			scribble(h.Value)
		}
	}
}

// A message whose transaction was aborted has never been submitted.
func pollAborted(t *testing.T, env Environment) {
	topic := env.Cluster.Topic(t, 1)
	env.Cluster.Transact(t, false, texts(topic, "aborted", 3)...)
	env.Cluster.Transact(t, true, texts(topic, "committed", 3)...)
	env.Cluster.Transact(t, false, texts(topic, "aborted", 3)...)
	env.Cluster.Produce(t, texts(topic, "plain", 1)...)
	b := env.open(t, SourceOptions{Inputs: []string{topic}})
	got := values(pollN(t, b, 4))
	if want := []string{"committed-0", "committed-1", "committed-2", "plain-0"}; !slices.Equal(got, want) {
		t.Fatalf("polled %q, want %q", got, want)
	}
}
