package sim_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/postgres"
	"chronos/sim"
)

// round is what two or three sessions do at once: the first leaves its transaction open, while the others call; then it
// commits or is rolled back, and all calls return.
type round struct {
	calls  []lockedOp // by session
	undone bool
}

// lockedOp is a call on one id: insert (a new incarnation each time), ready (whatever is there), delete (the
// incarnation that was inserted last), reset (the claim that was made last), or present.
type lockedOp struct {
	op sim.Op
	id string
}

// lockedSide is one of the two stores, with what its sessions know.
type lockedSide struct {
	inserted int
	last     map[string]uuid.UUID  // the incarnation that was inserted last
	claims   map[string]node.Claim // the claim that was made last
}

// do makes a call and returns its result as text.
func (s *lockedSide) do(store node.Store, session int, c lockedOp) string {
	ctx := context.Background()
	id := node.MessageID{ID: c.id, Topic: "out"}
	switch c.op {
	case sim.OpInsert:
		s.inserted++
		var incarnation uuid.UUID
		binary.BigEndian.PutUint64(incarnation[:], uint64(s.inserted))
		in := node.Insertion{Message: node.Message{
			ID: id.ID, Topic: id.Topic, Incarnation: incarnation, Deadline: time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC),
		}}
		results, err := store.Insert(ctx, node.InsertRequest{Node: sessionID(session), Messages: []node.Insertion{in}})
		if err != nil {
			return "error"
		}
		if results[0].Outcome == node.Inserted {
			s.last[c.id] = incarnation
		}
		return fmt.Sprint("outcome ", results[0].Outcome)
	case sim.OpReady:
		claimed, err := store.Ready(ctx, node.ReadyRequest{
			Node: sessionID(session), Until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Limit: 10, Bytes: 1 << 20,
		})
		if err != nil {
			return "error"
		}
		var ids []string
		for i := range claimed {
			s.claims[claimed[i].ID] = claimed[i].Claim
			ids = append(ids, claimed[i].ID)
		}
		return fmt.Sprint("claims ", ids)
	case sim.OpDelete:
		done, err := store.Delete(ctx, []node.Ref{{ID: c.id, Topic: id.Topic, Incarnation: s.last[c.id]}})
		if err != nil {
			return "error"
		}
		return fmt.Sprint("deletes ", done)
	case sim.OpReset:
		claim := s.claims[c.id]
		claim.ID, claim.Topic = c.id, id.Topic
		done, err := store.Reset(ctx, []node.Release{{Claim: claim}})
		if err != nil {
			return "error"
		}
		return fmt.Sprint("resets ", done)
	default:
		present, err := store.Present(ctx, []node.MessageID{id})
		if err != nil {
			return "error"
		}
		return fmt.Sprint("present ", present)
	}
}

func sessionID(session int) uuid.UUID { return uuid.UUID{15: byte(session)} }

func newLockedSide() *lockedSide {
	return &lockedSide{last: map[string]uuid.UUID{}, claims: map[string]node.Claim{}}
}

// simulated runs the rounds on the store of the simulator.
func simulated(rounds []round) []string {
	side := newLockedSide()
	results := make([]string, 3*len(rounds))
	var calls []sim.LockedCall
	for r, round := range rounds {
		for i, c := range round.calls {
			call := sim.LockedCall{
				Session: i + 1, At: time.Duration(r)*time.Second + time.Duration(i)*100*time.Millisecond, Op: c.op,
				Do: func(store node.Store) { results[3*r+i] = side.do(store, i+1, c) },
			}
			if i == 0 {
				call.Held, call.Undone = 500*time.Millisecond, round.undone
			}
			calls = append(calls, call)
		}
	}
	var stored []string
	for _, claim := range sim.RunSessions(calls) {
		stored = append(stored, fmt.Sprint(claim.ID, " ", claim.Incarnation, " ", claim.ReadiedBy))
	}
	return slices.Concat(results, stored)
}

// holdTransactions makes the statements of the first session wait for an advisory lock once they have had their effect,
// and fail then if they are to be rolled back.
const holdTransactions = `
CREATE TABLE held (undone boolean);
INSERT INTO held VALUES (false);
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('application_name') = 'session 1' THEN
    PERFORM pg_advisory_xact_lock(1);
    IF (SELECT undone FROM held) THEN
      RAISE EXCEPTION 'rolled back';
    END IF;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON hanger FOR EACH STATEMENT EXECUTE FUNCTION hold();`

// realSessions are three sessions of the store of production, and one beside them.
type realSessions struct {
	t      *testing.T
	stores []*postgres.Store
	beside *pgx.Conn
}

func openSessions(t *testing.T, server string) *realSessions {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	name := "locks_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	db, err := postgres.OpenDB(address.String(), postgres.Options{})
	if err == nil {
		_, err = migrations.Up(ctx, db, migrations.Postgres)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := &realSessions{t: t}
	if s.beside, err = pgx.Connect(ctx, address.String()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.beside.Exec(ctx, holdTransactions); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		store, err := postgres.Open(ctx, address.String(), postgres.Options{
			Timeout: time.Minute, MaxConns: 1, ApplicationName: fmt.Sprint("session ", i+1),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.stores = append(s.stores, store)
	}
	t.Cleanup(func() {
		for _, store := range s.stores {
			store.Close()
		}
		_ = s.beside.Close(ctx) // the server is of this test run
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	return s
}

// run runs the rounds on Postgres.
func (s *realSessions) run(rounds []round) []string {
	side := newLockedSide()
	results := make([]string, 3*len(rounds))
	for r, round := range rounds {
		s.exec("UPDATE held SET undone = $1", round.undone)
		s.exec("SELECT pg_advisory_lock(1)")
		var returned []chan struct{}
		for i, c := range round.calls {
			done := make(chan struct{})
			returned = append(returned, done)
			go func() {
				defer close(done)
				results[3*r+i] = side.do(s.stores[i], i+1, c)
			}()
			s.settled(i+1, done)
		}
		s.exec("SELECT pg_advisory_unlock(1)")
		for _, done := range returned {
			<-done
		}
	}
	rows, err := s.beside.Query(context.Background(),
		"SELECT id, incarnation, coalesce(readied_by, '00000000-0000-0000-0000-000000000000') FROM hanger ORDER BY id")
	if err != nil {
		s.t.Fatal(err)
	}
	var stored []string
	var id string
	var incarnation, owner uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id, &incarnation, &owner}, func() error {
		stored = append(stored, fmt.Sprint(id, " ", incarnation, " ", owner))
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return slices.Concat(results, stored)
}

func (s *realSessions) exec(statement string, arguments ...any) {
	if _, err := s.beside.Exec(context.Background(), statement, arguments...); err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until the call of a session has returned, or waits for a lock.
func (s *realSessions) settled(session int, done chan struct{}) {
	limit := time.Now().Add(time.Minute)
	for time.Now().Before(limit) {
		select {
		case <-done:
			return
		default:
		}
		var waits bool
		err := s.beside.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE application_name = $1 AND datname = current_database() AND state = 'active'
			AND wait_event_type = 'Lock')`, fmt.Sprint("session ", session)).Scan(&waits)
		if err != nil {
			s.t.Fatal(err)
		}
		if waits {
			return
		}
	}
	s.t.Fatalf("session %d neither returns nor waits", session)
}

// TestRowLocks compares the row locks of the simulated store with those of Postgres, in rounds of two and three
// sessions: first the cases that have a name, then drawn ones. The results of all calls must be equal, and what is
// stored.
func TestRowLocks(t *testing.T) {
	server := os.Getenv("CHRONOS_TEST_POSTGRES")
	switch {
	case server != "":
	case testing.Short():
		t.Skip("without CHRONOS_TEST_POSTGRES there is no server to test on")
	default:
		t.Fatal("set CHRONOS_TEST_POSTGRES or run make test")
	}
	ops := func(text string) (calls []lockedOp) {
		for call := range strings.SplitSeq(text, ", ") {
			op, id, _ := strings.Cut(call, " ")
			calls = append(calls, lockedOp{sim.Op(op), id})
		}
		return calls
	}
	scripts := map[string][]string{ // each round is what the sessions do; "-" before it rolls the first one back
		"an insert waits for a delete":          {"insert x", "ready", "delete x, insert x", "present x"},
		"an insert waits for a delete, undone":  {"insert x", "ready", "-delete x, insert x, present x", "ready"},
		"an insert waits for an insert":         {"insert x, insert x", "ready"},
		"an insert waits for an insert, undone": {"-insert x, insert x", "ready"},
		"a claim skips what is claimed":         {"insert x", "insert y", "ready, ready", "ready"},
		"a claim skips what is claimed, undone": {"insert x", "insert y", "-ready, ready", "ready"},
		"a claim skips what is being deleted":   {"insert x", "insert y", "delete x, ready", "ready"},
		"a claim skips a delete that is undone": {"insert x", "insert y", "-delete x, ready", "ready"},
		"a claim does not see an insert":        {"insert x, ready, present x", "ready"},
		"a reset waits for a delete":            {"insert x", "ready", "delete x, reset x", "present x"},
		"a reset waits for a delete, undone":    {"insert x", "ready", "-delete x, reset x", "ready"},
		"a delete waits for a reset":            {"insert x", "ready", "reset x, delete x", "present x"},
		"a delete waits for a reset, undone":    {"insert x", "ready", "-reset x, delete x", "present x"},
		"a delete waits for a claim":            {"insert x", "ready, delete x", "present x"},
		"a delete does not see an insert":       {"insert x", "delete x", "insert x, delete x", "present x"},
		"two wait for one, about different things": {
			"insert x", "insert y", "ready", "delete x, insert x, reset y", "ready",
		},
	}
	check := func(t *testing.T, rounds []round) {
		t.Helper()
		want, got := openSessions(t, server).run(rounds), simulated(rounds)
		if !slices.Equal(want, got) {
			t.Errorf("%+v\nPostgres:  %q\nsimulated: %q", rounds, want, got)
		}
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			var rounds []round
			for _, line := range script {
				line, undone := strings.CutPrefix(line, "-")
				rounds = append(rounds, round{ops(line), undone})
			}
			check(t, rounds)
		})
	}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("drawn ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var rounds []round
			for range 20 {
				rounds = append(rounds, drawRound(random))
			}
			check(t, rounds)
		})
	}
}

// drawRound draws what two or three sessions do. No two of those that may have to wait are about one id: which of them
// goes first when the lock is released is nobody's promise.
func drawRound(random *rand.Rand) round {
	ids := []string{"x", "y", "z"}
	random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	kinds := []sim.Op{sim.OpInsert, sim.OpInsert, sim.OpReady, sim.OpDelete, sim.OpReset, sim.OpPresent}
	held := lockedOp{kinds[random.IntN(5)], ids[random.IntN(3)]}
	r := round{calls: []lockedOp{held}, undone: random.IntN(3) == 0}
	for i := range 1 + random.IntN(2) {
		r.calls = append(r.calls, lockedOp{kinds[random.IntN(len(kinds))], ids[i]})
	}
	return r
}
