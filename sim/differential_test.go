package sim_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/postgres"
	"chronos/node/store/sqlite"
	"chronos/sim"
	"chronos/sim/check"
)

// TestSameTraceOnSQLite runs seeds on a store of another kind: one seed gives one trace, whatever keeps the rows.
func TestSameTraceOnSQLite(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 6
	}
	for seed := range uint64(seeds) {
		o := sim.Swarm(seed)
		o.Messages, o.Faulty, o.Healed, o.Horizon = 40, 12*time.Second, 20*time.Second, 4*time.Second
		o.PollInterval, o.DetectionInterval = 250*time.Millisecond, 500*time.Millisecond
		withQueues(&o)
		setup := sim.Setup{Options: o}
		want := sim.Run(setup)
		stores := 0
		setup.Store = func(now func() time.Time) node.Store {
			stores++ // a store that is set back begins anew
			return openSQLite(t, filepath.Join(t.TempDir(), strconv.Itoa(stores)), now)
		}
		if got := sim.Run(setup); got.Hash != want.Hash {
			t.Errorf("seed %d: the hash is %x on SQLite, and %x in memory: %s",
				seed, got.Hash, want.Hash, difference(sim.Setup{Options: o}, setup))
		}
	}
}

// withQueues gives every second world queues, and an opening at midnight.
func withQueues(o *sim.Options) {
	if o.Seed%2 == 1 {
		o.Queues, o.Tasks, o.StoreSkew, o.Bandwidth = 3, 20, -8*time.Second, 0
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

// TestSameTraceOnPostgres runs seeds on the store of production: its statements, on a real server, have the results
// that the specification has. The one thing that is replaced is the server's clock: a function of the same name stands
// before it in the search path, and says what the simulated clock says. CHRONOS_DIFFERENTIAL_SEEDS is how many
// seeds to run, 12 unless it is set.
func TestSameTraceOnPostgres(t *testing.T) {
	server, seeds := postgresOf(t), seedsOf(t, 12)
	calls := 0
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			o := sim.Swarm(seed)
			o.Messages, o.Faulty, o.Healed, o.Horizon = 30, 10*time.Second, 20*time.Second, 4*time.Second
			o.PollInterval, o.DetectionInterval = 500*time.Millisecond, time.Second
			if o.IdleInterval > 0 {
				o.IdleInterval = max(o.IdleInterval, o.PollInterval)
			}
			withQueues(&o)
			setup := sim.Setup{Options: o}
			want := sim.Run(setup)
			setup.Store = func(now func() time.Time) node.Store { return openPostgres(t, server, now, &calls) }
			if got := sim.Run(setup); got.Hash != want.Hash {
				t.Errorf("the hash is %x on Postgres, and %x in memory: %s",
					got.Hash, want.Hash, difference(sim.Setup{Options: o}, setup))
			}
		})
	}
	if calls < 100*seeds {
		t.Errorf("there were %d calls only", calls)
	}
}

// postgresOf returns the URL of the server to test on.
func postgresOf(t *testing.T) string {
	t.Helper()
	server := os.Getenv("CHRONOS_TEST_POSTGRES")
	switch {
	case server != "":
	case testing.Short():
		t.Skip("without CHRONOS_TEST_POSTGRES there is no server to test on")
	default:
		t.Fatal("set CHRONOS_TEST_POSTGRES or run make test")
	}
	return server
}

// seedsOf returns how many seeds CHRONOS_DIFFERENTIAL_SEEDS asks for, or else the usual number.
func seedsOf(t *testing.T, usual int) int {
	t.Helper()
	given := os.Getenv("CHRONOS_DIFFERENTIAL_SEEDS")
	if given == "" {
		return usual
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		t.Fatalf("CHRONOS_DIFFERENTIAL_SEEDS is %q: %v", given, err)
	}
	return n
}

// simulatedClock makes the clock of a database say what a table says.
const simulatedClock = `
CREATE SCHEMA IF NOT EXISTS sim;
CREATE TABLE sim.clock (now timestamptz);
INSERT INTO sim.clock VALUES (now());
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT now FROM sim.clock';`

// newPostgres makes an empty database that lasts as long as the test, and returns its URL.
func newPostgres(t *testing.T, server string) *url.URL {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	name := "sim_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		if err := admin.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	db, err := postgres.OpenDB(address.String(), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(ctx, db, migrations.Postgres); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

// openPostgres makes an empty database whose clock is the one given.
func openPostgres(t *testing.T, server string, now func() time.Time, calls *int) node.Store {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	address := newPostgres(t, server)
	clock, err := pgx.Connect(ctx, address.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clock.Exec(ctx, simulatedClock); err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("search_path", "sim,pg_catalog,public")
	address.RawQuery = query.Encode()
	store, err := postgres.Open(ctx, address.String(), postgres.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		store.Close()
		if err := clock.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &clockedStore{Store: store, t: t, clock: clock, now: now, calls: calls}
}

// clockedStore sets the clock of the database before every call that reads it.
type clockedStore struct {
	*postgres.Store

	t     *testing.T
	clock *pgx.Conn
	now   func() time.Time
	calls *int
}

func (s *clockedStore) set() {
	*s.calls++
	if _, err := s.clock.Exec(context.Background(), "UPDATE sim.clock SET now = $1", s.now()); err != nil {
		s.t.Fatal(err)
	}
}

// Positions implements node.Store.
func (s *clockedStore) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	s.set()
	return s.Store.Positions(ctx, places)
}

// Take implements node.Store.
func (s *clockedStore) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	s.set()
	return s.Store.Take(ctx, request)
}

// CatchUp implements node.Store.
func (s *clockedStore) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	s.set()
	return s.Store.CatchUp(ctx, request)
}

// Claim implements node.Store.
func (s *clockedStore) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	s.set()
	result, err := s.Store.Claim(ctx, request)
	for i := range result.Messages {
		if got, want := result.Messages[i].Claim.ReadiedAt, s.now().Truncate(time.Microsecond); !got.Equal(want) {
			s.t.Fatalf("a claim is stamped %v, and the simulated clock says %v", got, want)
		}
	}
	return result, err
}

// Expired implements node.Store.
func (s *clockedStore) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	s.set()
	claims, err := s.Store.Expired(ctx, limit)
	// Claims of one call expire at one time here, and the contract leaves their order open; the specification has that
	// of the ids.
	slices.SortStableFunc(claims, func(a, b node.Claim) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return claims, err
}

// Pause implements node.Switches.
func (s *clockedStore) Pause(ctx context.Context, pause node.Pause) (node.Pause, error) {
	s.set()
	return s.Store.Pause(ctx, pause)
}

// Transact implements queue.Store.
func (s *clockedStore) Transact(
	ctx context.Context, do func(context.Context, queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	s.set()
	return s.Store.Transact(ctx, do)
}

// Due implements queue.Store.
func (s *clockedStore) Due(ctx context.Context, limit int) ([]uuid.UUID, time.Duration, bool, error) {
	s.set()
	return s.Store.Due(ctx, limit)
}

// TestLossyFailover loses the last commit of the store, an insert. The standby that takes over has all those before it.
func TestLossyFailover(t *testing.T) {
	o := sim.DefaultOptions()
	o.Lossy, o.Nodes = true, 1
	plan := sim.Plan{Faults: []sim.Fault{
		{Node: 1, Op: sim.OpClaim, Nth: 60, Kind: sim.Failover, Count: 1, For: time.Second},
	}}
	for i := range 30 {
		plan.Messages = append(plan.Messages, sim.Submission{
			Number: i + 1, At: time.Duration(i+1) * 500 * time.Millisecond, ID: fmt.Sprint(i), In: time.Hour,
		})
	}
	inserted, kept, lost := 0, 0, false
	sim.Run(sim.Setup{Options: o, Plan: &plan, History: func(e *check.Event) {
		switch {
		case e.Kind == check.Insert && !lost:
			inserted++
		case e.Kind == check.Rollback:
			lost = true
		case e.Kind == check.Keep:
			kept++
		}
	}})
	if inserted < 5 || kept != inserted-1 {
		t.Errorf("of %d rows, the standby has %d, want 1 less", inserted, kept)
	}
}
