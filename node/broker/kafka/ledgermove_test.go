package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
	"chronos/node/ledger"
)

// What is imported goes where a producer sends records of its key, and where Java does.
func TestJavaPartition(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	const partitions = 7
	topic := plain.Topic(t, partitions)
	client, err := kgo.NewClient(append(kafka.ProducerOptions(), kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for i := range 50 {
		key := fmt.Append(nil, "key-", i)
		if i == 0 {
			key = []byte{}
		}
		r, err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: key, Value: key}).First()
		if err != nil {
			t.Fatal(err)
		}
		if got := kafka.JavaPartition(key, partitions); got != r.Partition {
			t.Errorf("key %q: partition %d, and a producer sends it to %d", key, got, r.Partition)
		}
	}
	// Utils.murmur2 of Kafka's own tests: 21 is -973932308, foobar is -790332482.
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482} {
		if got, want := kafka.JavaPartition([]byte(key), 1000), (hash&0x7fffffff)%1000; got != want {
			t.Errorf("key %q: partition %d of 1000, and Java's is %d", key, got, want)
		}
	}
}

// Stable is behind everything that was committed, and before what is not.
func TestLedgerStable(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: plain.Topic(t, 1), Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	stable := func() int64 {
		t.Helper()
		end, err := l.Stable(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	if end := stable(); end != 0 {
		t.Errorf("an empty partition ends at %d", end)
	}
	w, err := l.Own(t.Context(), 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	before := stable()
	if before != w.Fence()+2 { // the fence, and the marker of its transaction
		t.Errorf("it ends at %d, and the fence is at %d", before, w.Fence())
	}
}

// Of a partition without a leader it says that, to whoever has waited for long enough, and not before: a leader may be
// elected meanwhile. The end of another partition is told nevertheless.
func TestLedgerStableWithoutLeader(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 2)
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: topic, Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	fault := leaderless(cluster, topic, 0)
	if end, err := l.Stable(t.Context(), 1); err != nil || end != 0 {
		t.Errorf("the other partition ends at %d: %v", end, err)
	}
	const limit = 2 * time.Second
	began := time.Now() // before the deadline is set: it is what ends the call
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err = l.Stable(ctx, 0)
	if took := time.Since(began); !errors.Is(err, kerr.LeaderNotAvailable) || !errors.Is(err, ctx.Err()) ||
		took < limit || took > patience/2 {
		t.Errorf("after %v: %v", took, err)
	}
	fault.Remove()
	if end, err := l.Stable(t.Context(), 0); err != nil || end != 0 {
		t.Errorf("it has a leader again, and ends at %d: %v", end, err)
	}
}
