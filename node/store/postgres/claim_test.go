package postgres_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/postgres"
)

// The sweep claims what waits below the mark, and what waits above it fails the claim that follows. What the sweep has
// claimed comes with the error, and with the state of when it was claimed. Of the other nothing comes, also if it was
// read before its commit failed.
func TestClaimFailsAfterTheSweep(t *testing.T) {
	for what, trigger := range map[string]string{
		"the claim":  "CREATE TRIGGER fail BEFORE UPDATE ON messages",
		"its commit": "CREATE CONSTRAINT TRIGGER fail AFTER UPDATE ON messages DEFERRABLE INITIALLY DEFERRED",
	} {
		t.Run(what, func(t *testing.T) {
			address := newSchema(t, newDatabase(t))
			s := open(t, address, postgres.Options{})
			list := messages(2)
			list[0].Deadline = time.Now().Add(-time.Hour)
			list[1].Deadline = time.Now()
			postgres.UseMarks(s, []string{"output"}, time.Now())
			insert(t, s, list, false)
			exec(t, address, `
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0; RETURN NEW; END $$;
`+trigger+` FOR EACH ROW WHEN (NEW.id = '`+list[1].ID+`') EXECUTE FUNCTION fail()`)
			request := due(10)
			request.Hold = time.Minute
			result, err := s.Claim(t.Context(), request)
			if err == nil || !strings.Contains(err.Error(), "22012") {
				t.Errorf("error %v, want one with 22012", err)
			}
			if len(result.Messages) != 1 || result.Messages[0].ID != list[0].ID || !result.State.Claims() ||
				result.State.Lineage == 0 {
				t.Errorf("with the error comes %+v, want what the sweep has claimed", result)
			}
			if result, err := s.Claim(t.Context(), request); err == nil || len(result.Messages) > 0 {
				t.Errorf("claimed once more: %+v, error %v", result, err)
			}
		})
	}
}

// A claim is committed, and then nobody can find out whose turn it is. What stands in no line comes out all the same;
// of the others each is in the way, also the first of its line.
//
//	claim: waits in a trigger
//	                             another session asks for the whole table
//	claim: goes on; committed
//	                             has the table
//	whose turn is it: waits, and is cancelled
func TestClaimOfUnknownTurns(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{Timeout: patience})
	list := messages(3)
	for i := range list[1:] {
		list[1+i].Line = uuid.UUID{1}
	}
	insert(t, s, list, false)
	exec(t, address, `
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE TRIGGER hold AFTER UPDATE ON messages FOR EACH STATEMENT EXECUTE FUNCTION hold()`)
	gate, table, watch := connect(t, address), connect(t, address), connect(t, address)
	if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	var result node.ClaimResult
	claimed, locked := make(chan error, 1), make(chan error, 1)
	go func() {
		var err error
		result, err = s.Claim(context.Background(), due(10))
		claimed <- err
	}()
	awaitWaiter(t, watch, gate)
	tx, err := table.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var claimer, own int
	const blocked = "SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid))"
	if err := watch.QueryRow(t.Context(), blocked, gate.PgConn().PID()).Scan(&claimer); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := tx.Exec(context.Background(), "LOCK TABLE messages IN ACCESS EXCLUSIVE MODE")
		locked <- err
	}()
	for end := time.Now().Add(patience); own == 0; {
		if err := watch.QueryRow(t.Context(), blocked, claimer).Scan(&own); err != nil || time.Now().After(end) {
			t.Fatalf("nobody waits for the claim: %v", err)
		}
	}
	if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	awaitWaiter(t, watch, table)
	if _, err := watch.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "+
		"WHERE $1::integer = ANY (pg_blocking_pids(pid))", table.PgConn().PID()); err != nil {
		t.Fatal(err)
	}
	err = <-claimed
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("error %v, want one with 57014", err)
	}
	var turns []node.Turn
	for _, m := range result.Messages {
		turns = append(turns, m.Turn)
	}
	if len(turns) != 3 || turns[0] != node.ItsTurn || turns[1] != node.InTheWay || turns[2] != node.InTheWay {
		t.Errorf("the turns are %v", turns)
	}
}

// Somebody has changed rows by hand, so that they cannot be read. The claim says on which lanes, each once, and says so
// to whoever is to be told; the others are claimed as ever.
func TestClaimSaysWhatIsUnreadable(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	var reports []string
	s := open(t, address, postgres.Options{Report: func(err error) { reports = append(reports, err.Error()) }})
	list := messages(5)
	for i := range list[3:] {
		list[3+i].Lane = "other"
	}
	insert(t, s, list, false)
	exec(t, address, `UPDATE messages SET message_headers = '{}' WHERE id < '`+list[2].ID+`'`)
	request := due(3)
	request.Hold = time.Minute
	request.Lanes = append(request.Lanes, node.Share{Lane: "other", Limit: 3, Bytes: 1 << 20})
	result, err := s.Claim(t.Context(), request)
	if err != nil || len(result.Messages) != 3 || result.Messages[0].ID != list[2].ID {
		t.Errorf("claimed %d messages, want 3; error %v", len(result.Messages), err)
	}
	if len(result.Unreadable) != 1 || result.Unreadable[0] != "output" || len(reports) != 2 {
		t.Errorf("unreadable on %q, and %d reports, want 2 on the lane output", result.Unreadable, len(reports))
	}
	if result, err := s.Claim(t.Context(), request); err != nil || len(result.Messages)+len(result.Unreadable) > 0 {
		t.Errorf("claimed once more: %+v, error %v", result, err)
	}
}

// A store that has made a claim does not keep what was claimed.
func TestClaimIsNotKept(t *testing.T) {
	l := newLane(t)
	l.take(1, time.Minute)
	exec(t, l.address, "UPDATE messages SET message_value = convert_to(repeat('x', 1000000), 'UTF8')")
	claimed := func() weak.Pointer[byte] {
		result, err := l.store.Claim(t.Context(), node.ClaimRequest{
			Node: uuid.New(), Hold: time.Hour, Until: l.now,
			Lanes: []node.Share{{Lane: "out", Limit: 1, Bytes: 8 << 20}},
		})
		if err != nil || len(result.Messages) != 1 || len(result.Messages[0].Value) != 1_000_000 {
			t.Fatalf("claimed %d, %v", len(result.Messages), err)
		}
		return weak.Make(&result.Messages[0].Value[0])
	}()
	runtime.GC()
	if claimed.Value() != nil {
		t.Error("the value is in memory still")
	}
	runtime.KeepAlive(l.store)
}
