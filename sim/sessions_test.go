package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chronos/node/store/postgres"
	"chronos/sim"
)

// holdTransactions makes every statement that writes wait, once it has had its effect, for the advisory lock of its
// session, and fail then if it is to be rolled back. It waits for that however short the store's time limit for locks
// is.
const holdTransactions = `
CREATE TABLE held (session bigint, undone boolean);
INSERT INTO held VALUES (1, false), (2, false), (3, false);
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
DECLARE
  me bigint := substr(current_setting('application_name'), 9);
BEGIN
  PERFORM pg_advisory_xact_lock(me);
  IF (SELECT undone FROM held WHERE session = me) THEN
    RAISE EXCEPTION 'rolled back';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON messages FOR EACH STATEMENT EXECUTE FUNCTION hold();
CREATE TRIGGER hold AFTER INSERT ON positions FOR EACH STATEMENT EXECUTE FUNCTION hold();`

// realSessions are three sessions of the store of production, and one beside them.
type realSessions struct {
	t      *testing.T
	stores []*postgres.Store
	beside *pgx.Conn

	// briefly says that no session waits for long for what another has locked.
	briefly bool
}

// openSessions makes an empty database with sessions, which wait for so long for what others have locked; 0 for as long
// as the store of production does.
func openSessions(t *testing.T, server string, lockWait time.Duration) *realSessions {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	address := newPostgres(t, server)
	s := &realSessions{t: t, briefly: lockWait == 0}
	var err error
	if s.beside, err = pgx.Connect(ctx, address.String()); err != nil {
		t.Fatal(err)
	}
	s.exec(holdTransactions)
	for i := range 3 {
		store, err := postgres.Open(ctx, address.String(), postgres.Options{
			LockWait: lockWait, Timeout: time.Minute, MaxConns: 1, ApplicationName: fmt.Sprint("session ", i+1),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.stores = append(s.stores, store)
	}
	t.Cleanup(func() {
		_ = s.beside.Close(ctx) // what is held ends
		for _, store := range s.stores {
			store.Close()
		}
	})
	return s
}

// run runs the rounds on Postgres, each in the order of its events.
func (s *realSessions) run(rounds []round, events [][]lockedEvent) lockedRun {
	s.exec("UPDATE held SET undone = false")
	s.exec("TRUNCATE messages, partitions, positions")
	run := lockedRun{events: events}
	side := newLockedSide()
	if _, _, err := s.stores[0].Positions(s.t.Context(), sim.SessionPlaces()); err != nil {
		s.t.Fatal(err)
	}
	for n, r := range rounds {
		results := make([]string, len(r.calls))
		var states []string
		var begun []chan struct{}
		for _, e := range events[n] {
			if e.ends {
				s.exec("SELECT pg_advisory_unlock($1)", e.session+1)
			} else {
				c := r.calls[e.session]
				s.exec("UPDATE held SET undone = $2 WHERE session = $1", e.session+1, c.undone)
				if c.held {
					s.exec("SELECT pg_advisory_lock($1)", e.session+1)
				}
				done := make(chan struct{})
				begun = append(begun, done)
				go func() {
					defer close(done)
					results[e.session] = side.do(s.stores[e.session], n, e.session+1, c)
				}()
			}
			states = append(states, s.settled(begun))
		}
		for _, done := range begun {
			<-done
		}
		run.states, run.results = append(run.states, states), append(run.results, results)
	}
	run.rows = s.rows()
	return run
}

// rows returns what is in the table.
func (s *realSessions) rows() (stored []string) {
	rows, err := s.beside.Query(context.Background(),
		`SELECT id, incarnation, coalesce(readied_by, '00000000-0000-0000-0000-000000000000')
FROM messages ORDER BY id`)
	if err != nil {
		s.t.Fatal(err)
	}
	var id string
	var incarnation, owner uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id, &incarnation, &owner}, func() error {
		stored = append(stored, fmt.Sprint(id, " ", incarnation, " ", owner))
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return stored
}

func (s *realSessions) exec(statement string, arguments ...any) {
	s.t.Helper()
	if _, err := s.beside.Exec(context.Background(), statement, arguments...); err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until every session that has begun either has returned or cannot get a lock, and returns what each
// does. A lock that is released is granted at that moment, so none of them seems to wait that is about to go on. Those
// that wait briefly for what others have locked are waited for, too.
func (s *realSessions) settled(begun []chan struct{}) string {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		states := make([]string, len(begun))
		for i, done := range begun {
			select {
			case <-done:
				states[i] = "returns"
			default:
			}
		}
		rows, err := s.beside.Query(context.Background(), `
SELECT substr(a.application_name, 9)::bigint, bool_or(l.locktype = 'advisory')
FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
WHERE NOT l.granted AND a.datname = current_database() AND a.application_name LIKE 'session %'
GROUP BY 1`)
		if err != nil {
			s.t.Fatal(err)
		}
		var session int
		var holds bool
		if _, err := pgx.ForEachRow(rows, []any{&session, &holds}, func() error {
			switch state := &states[session-1]; {
			case *state != "":
			case holds:
				*state = "holds"
			case !s.briefly:
				*state = "waits"
			}
			return nil
		}); err != nil {
			s.t.Fatal(err)
		}
		if !slices.Contains(states, "") {
			return strings.Join(states, " ")
		}
	}
	s.t.Fatal("a session neither returns nor waits")
	return ""
}
