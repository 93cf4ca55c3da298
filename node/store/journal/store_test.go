package journal_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// number is the partition that the conformance suite uses.
const number = 3

// topicName is that of the journal.
const topicName = "journal"

// The conformance suite, on the simulated cluster.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.RunOwned(t, func(t *testing.T) storetest.Instance {
		t.Helper()
		cluster := simulated.New()
		cluster.CreateTopic(topicName, number+2, 0)
		clock := storetest.NewClock()
		store := open(t, journal.Config{
			Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: clock.Now, MaxEntry: 32 << 20,
		})
		switchboard(t, cluster, store)
		own(t, store, 0, 1, 2, number, number+1)
		return storetest.Instance{
			Store: store, Clock: clock,
			Dump: func(t testing.TB) []memory.Row {
				t.Helper()
				rows, err := store.Dump()
				if err != nil {
					t.Fatal(err)
				}
				return rows
			},
		}
	})
}

// open opens a store until the test ends.
func open(t *testing.T, config journal.Config) *journal.Store {
	t.Helper()
	if config.Now == nil {
		config.Now = time.Now
	}
	store, err := journal.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func own(t *testing.T, store *journal.Store, numbers ...int32) {
	t.Helper()
	for _, n := range numbers {
		if err := store.Own(t.Context(), n, uuid.New()); err != nil {
			t.Fatal(err)
		}
	}
}
