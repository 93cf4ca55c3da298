package kafka_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
	"chronos/node/ledger"
	"chronos/node/ledger/ledgertest"
)

// The conformance suite of ledgers, which the simulated cluster passes as well, on a real Kafka.
func TestLedger(t *testing.T) {
	t.Parallel()
	addresses := os.Getenv("CHRONOS_TEST_KAFKA")
	if addresses == "" {
		if testing.Short() {
			t.Skip("CHRONOS_TEST_KAFKA names no broker")
		}
		t.Fatal("CHRONOS_TEST_KAFKA names no broker: set it, or run make test")
	}
	ledgertest.Run(t, func(t *testing.T) ledgertest.Environment {
		t.Helper()
		return ledgerOn(t, strings.Split(addresses, ","))
	})
}

func ledgerOn(t *testing.T, brokers []string) ledgertest.Environment {
	t.Helper()
	cluster := brokertest.NewCluster(t, kgo.SeedBrokers(brokers...))
	compacted := []string{"cleanup.policy", "compact,delete", "retention.ms", "-1"} // which lets records be deleted
	topic := cluster.Topic(t, ledgertest.Partitions, compacted...)
	config := kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: brokers}, Topic: topic, Name: topic + ".chronos",
	}
	return ledgertest.Environment{
		OutputTopic: cluster.Topic(t, 3, "max.message.bytes", "10000"),
		Open: func(t testing.TB) ledger.Ledger {
			t.Helper()
			l, err := kafka.NewLedger(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			return l
		},
		Records: func(t testing.TB, topic string, committed bool) []node.Record {
			t.Helper()
			return consume(t, brokers, topic, committed)
		},
		Freeze: func(t testing.TB, number int32, transaction ledger.Transaction) func() error {
			t.Helper()
			l, err := kafka.NewLedger(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			ctx := context.WithoutCancel(t.Context())
			goOn, err := l.Freeze(ctx, number, ledger.Entry{Key: []byte("fence")}, transaction)
			if err != nil {
				t.Fatal(err)
			}
			return goOn
		},
		DeleteRecords: func(t testing.TB, number int32, before int64) {
			t.Helper()
			cluster.DeleteRecords(t, topic, number, before)
		},
		Recreate: func(t testing.TB) {
			t.Helper()
			cluster.DeleteTopic(t, topic)
			cluster.Fresh(t).CreateTopic(t, topic, ledgertest.Partitions, compacted...)
		},
	}
}

// consume returns what a consumer sees of a topic.
func consume(t testing.TB, brokers []string, topic string, committed bool) []node.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	admin, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	ends, err := kadm.NewClient(admin).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			from[end.Partition], left[end.Partition] = kgo.NewOffset().AtStart(), end.Offset
		}
	})
	if len(left) == 0 {
		return nil
	}
	isolation := kgo.ReadUncommitted()
	if committed {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []node.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume %s: %v; left: %v", topic, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				record := node.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					record.Headers = append(record.Headers, node.Header{Name: h.Key, Value: h.Value})
				}
				records = append(records, record)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records
}

// A broker that takes the first records of a transaction for out of order costs a try: they are there once, and the
// writer goes on.
func TestLedgerOutOfOrder(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: topic, Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	w, err := l.Own(t.Context(), 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.OutOfOrderSequenceNumber, Count: 1,
	})
	for _, value := range []string{"first", "second"} {
		entry := ledger.Entry{Key: []byte(value), Value: []byte(value)}
		if _, err := w.Commit(t.Context(), ledger.Transaction{Entries: []ledger.Entry{entry}}); err != nil {
			t.Errorf("commit %s: %v", value, err)
		}
	}
	var got []string
	for _, r := range consume(t, cluster.ListenAddrs(), topic, true) {
		got = append(got, string(r.Value))
	}
	if want := []string{"fence", "first", "second"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// A writer that can't abort what it has begun is spent, and not fenced: whoever is fenced has to wait before he owns
// the partition anew. An entry that is refused is told from what nobody is to blame for.
func TestLedgerSpent(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: topic, Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	fence := ledger.Entry{Key: []byte("fence"), Value: []byte("fence")}
	w, err := l.Own(t.Context(), 0, fence)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.MessageTooLarge, Count: 1})
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, Count: 1})
	_, err = w.Commit(t.Context(), ledger.Transaction{Entries: []ledger.Entry{{Key: []byte("a"), Value: []byte("a")}}})
	for _, is := range []error{ledger.ErrAborted, ledger.ErrSpent, ledger.ErrRefused} {
		if !errors.Is(err, is) {
			t.Errorf("%v, want %v", err, is)
		}
	}
	if errors.Is(err, ledger.ErrFenced) {
		t.Errorf("nobody else owns the partition: %v", err)
	}
	if _, err := l.Own(t.Context(), 0, fence); err != nil {
		t.Fatal(err)
	}
}

// A commit that the brokers refuse, and ask to be aborted, is aborted: its writer goes on. One of which nobody knows
// what became of it is its writer's last.
func TestLedgerCommitFails(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: topic, Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	w, err := l.Own(t.Context(), 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	commit := func(value string, fails *kerr.Error) error {
		if fails != nil {
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: fails, Count: 1})
		}
		entry := ledger.Entry{Key: []byte(value), Value: []byte(value)}
		_, err := w.Commit(t.Context(), ledger.Transaction{Entries: []ledger.Entry{entry}})
		return err
	}
	if err := commit("refused", kerr.TransactionAbortable); !errors.Is(err, ledger.ErrAborted) ||
		errors.Is(err, ledger.ErrSpent) {
		t.Errorf("a commit that is to be aborted: %v", err)
	}
	if err := commit("next", nil); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if err := commit("unknown", kerr.UnknownServerError); err == nil || errors.Is(err, ledger.ErrAborted) {
		t.Errorf("a commit of which nobody knows: %v", err)
	}
	if err := commit("too late", nil); !errors.Is(err, ledger.ErrFenced) || !errors.Is(err, ledger.ErrAborted) {
		t.Errorf("what comes after it: %v", err)
	}
}

// Where a partition begins and ends is known while another one has no leader: its owner can be asked by HTTP, and it
// can be taken over. Of the one without a leader nothing is said, and not that it is empty.
func TestLedgerPlacesApart(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 2)
	plain.Produce(t, node.Record{Topic: topic, Partition: 0, Value: []byte("x")})
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: topic, Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	leaderless(cluster, topic, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for what, place := range map[string]func(context.Context, int32) (ledger.Place, error){
		"begin": l.Begin, "end": l.End,
	} {
		got, err := place(ctx, 0)
		want := map[string]int64{"begin": 0, "end": 1}[what]
		if err != nil || got.Offset != want || got.Number != 0 {
			t.Errorf("%s: %+v, %v, want offset %d", what, got, err, want)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		if got, err := place(short, 1); err == nil {
			t.Errorf("%s of the partition without a leader: %+v", what, got)
		}
		stop()
	}
	if _, err := l.End(ctx, 2); err == nil || ctx.Err() != nil {
		t.Errorf("a partition that there is not: %v", err)
	}
}
