package simulated_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/ledgertest"
	"chronos/node/ledger/simulated"
)

// The conformance suite, which a real Kafka passes as well (package kafka).
func TestSimulated(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledgertest.Environment { return environment().Environment })
}

// clustered is the environment of a case, on a cluster of its own.
type clustered struct {
	ledgertest.Environment

	cluster *simulated.Cluster
}

func environment() clustered {
	cluster := simulated.New()
	cluster.CreateTopic("journal", ledgertest.Partitions, 0)
	cluster.CreateTopic("output", 3, 10_000)
	return clustered{cluster: cluster, Environment: ledgertest.Environment{
		OutputTopic: "output",
		Open:        func(testing.TB) ledger.Ledger { return cluster.Ledger("journal", "test") },
		Records: func(_ testing.TB, topic string, committed bool) []node.Record {
			return cluster.Records(topic, committed)
		},
		Freeze: func(t testing.TB, number int32, transaction ledger.Transaction) func() error {
			t.Helper()
			return freeze(t, cluster, number, transaction)
		},
		DeleteRecords: func(_ testing.TB, number int32, before int64) {
			cluster.DeleteRecords("journal", number, before)
		},
		Recreate: func(testing.TB) {
			cluster.DeleteTopic("journal")
			cluster.CreateTopic("journal", ledgertest.Partitions, 0)
		},
	}}
}

// freeze has a writer wait when it is about to commit.
func freeze(t testing.TB, cluster *simulated.Cluster, number int32, transaction ledger.Transaction) func() error {
	t.Helper()
	w, err := cluster.Ledger("journal", "test").Own(t.Context(), number, ledger.Entry{Key: []byte("fence")})
	if err != nil {
		t.Fatal(err)
	}
	frozen, thaw, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Ending {
			cluster.Strike(nil)
			close(frozen)
			<-thaw
		}
		return simulated.None
	})
	ctx := context.WithoutCancel(t.Context())
	go func() {
		_, err := w.Commit(ctx, transaction)
		result <- err
	}()
	<-frozen
	goOn := sync.OnceValue(func() error {
		close(thaw)
		return <-result
	})
	t.Cleanup(func() { _ = goOn() })
	return goOn
}

// Compaction keeps what was said last of each key, and nothing that was aborted; the tombstones go when they are told
// to.
func TestCompact(t *testing.T) {
	t.Parallel()
	cluster := simulated.New()
	cluster.CreateTopic("journal", 1, 0)
	w, err := cluster.Ledger("journal", "test").Own(t.Context(), 0, ledger.Entry{Key: []byte("fence"), Value: []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []ledger.Entry{
		{Key: []byte("a"), Value: []byte("1")},
		{Key: []byte("b"), Value: []byte("1")},
		{Key: []byte("a"), Value: []byte("2")},
		{Key: []byte("b")},
		{Key: []byte("c"), Value: []byte("waits")},
	} {
		if _, err := w.Commit(t.Context(), ledger.Transaction{Entries: []ledger.Entry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Appending {
			return simulated.Unanswered // and so aborted
		}
		return simulated.None
	})
	if _, err := w.Commit(t.Context(), ledger.Transaction{
		Entries: []ledger.Entry{{Key: []byte("c")}},
	}); !errors.Is(err, ledger.ErrAborted) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tombstones bool
		want       string
	}{{false, "fence= a=2 b= c=waits "}, {true, "fence= a=2 c=waits "}} {
		cluster.Compact("journal", 0, c.tombstones)
		got := ""
		for _, r := range cluster.Records("journal", false) {
			got += string(r.Key) + "=" + string(r.Value) + " "
		}
		if got != c.want {
			t.Errorf("with tombstones gone %v: %q, want %q", c.tombstones, got, c.want)
		}
	}
}
