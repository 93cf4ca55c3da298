package sim_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/sqlite"
	"chronos/sim"
)

// TestSameTraceOnSQLite runs seeds on a store of another kind: one seed gives one trace, whatever keeps the rows.
func TestSameTraceOnSQLite(t *testing.T) {
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for seed := range uint64(seeds) {
		o := sim.Swarm(seed)
		o.Messages, o.Faulty, o.Healed, o.Horizon = 40, 12*time.Second, 20*time.Second, 4*time.Second
		o.PollInterval, o.DetectionInterval = 250*time.Millisecond, 500*time.Millisecond
		setup := sim.Setup{Options: o}
		want := sim.Run(setup)
		path := filepath.Join(t.TempDir(), strconv.FormatUint(seed, 10))
		setup.Store = func(now func() time.Time) node.Store { return openSQLite(t, path, now) }
		if got := sim.Run(setup); got.Hash != want.Hash {
			t.Errorf("seed %d: the hash is %x on SQLite, and %x in memory", seed, got.Hash, want.Hash)
		}
	}
}

func openSQLite(t *testing.T, path string, now func() time.Time) node.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: now, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := migrations.Up(t.Context(), store.DB(), migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	return store
}
