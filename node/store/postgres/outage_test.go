package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chronos/node"
	"chronos/node/store/postgres"
)

const (
	// limit is the time limit of calls that are to fail.
	limit = 2 * time.Second

	// slack is what a busy machine may add to a time limit.
	slack = time.Second
)

func owner() uuid.UUID { return uuid.UUID{0: 0xa1, 6: 0x40, 8: 0x80, 15: 1} }

// messages returns n messages that are due.
func messages(n int) []node.Message {
	list := make([]node.Message, n)
	for i := range list {
		list[i] = node.Message{
			ID: fmt.Sprintf("message-%06d", i), Lane: "output", Incarnation: uuid.New(),
			Deadline: time.Date(2025, 6, 1, 12, 0, 0, i*1000, time.UTC),
			Key:      []byte("key"), Value: []byte("value"),
		}
	}
	return list
}

// due asks for at most n messages that are due. The claims on them are expired from the start.
func due(n int) node.ClaimRequest {
	return node.ClaimRequest{
		Node: owner(), Until: time.Now(), Lanes: []node.Share{{Lane: "output", Limit: n, Bytes: 1 << 30}},
	}
}

// input is the beginning of the partition that messages come from.
func input() node.Place {
	return node.Place{Partition: node.Partition{Topic: "input", TopicID: uuid.UUID{15: 1}, Number: 1}}
}

// takeOf returns the take of messages as the records of a partition from place on.
func takeOf(place node.Place, list []node.Message, claim bool) node.TakeRequest {
	request := node.TakeRequest{Node: owner(), From: []node.Place{place}}
	for i, m := range list {
		request.Items = append(request.Items, node.Item{
			Epoch: place.Epoch, Offset: place.Offset + int64(i), Action: node.Schedule, Message: m, Claim: claim,
		})
	}
	return request
}

// take takes messages in as the next records of the input.
func take(ctx context.Context, s *postgres.Store, list []node.Message, claim bool) (node.TakeResult, error) {
	place := input()
	positions, _, err := s.Positions(ctx, []node.Place{place})
	if err != nil {
		return node.TakeResult{}, err
	}
	place.Position = positions[0]
	return s.Take(ctx, takeOf(place, list, claim))
}

// insert takes messages in, all of which the store has to accept.
func insert(t testing.TB, s *postgres.Store, list []node.Message, claim bool) []node.ItemResult {
	t.Helper()
	result, err := take(t.Context(), s, list, claim)
	if err != nil || result.Refusal != "" || result.Taken != len(list) || result.Refused[0] {
		t.Fatalf("take %d of %d messages: refusal %q, error %v", result.Taken, len(list), result.Refusal, err)
	}
	return result.Results
}

// calls are all calls of a store, on messages that are there or not.
func calls(s *postgres.Store) map[string]func(context.Context) error {
	m := messages(1)[0]
	claim := node.Claim{Ref: m.Ref(), ReadiedAt: m.Deadline, ReadiedBy: owner()}
	return map[string]func(context.Context) error{
		"Bind": func(ctx context.Context) error {
			_, err := s.Bind(ctx, node.BindRequest{Cluster: "cluster", Group: "group"})
			return err
		},
		"Positions": func(ctx context.Context) error {
			_, _, err := s.Positions(ctx, []node.Place{input()})
			return err
		},
		"Take": func(ctx context.Context) error {
			_, err := s.Take(ctx, takeOf(input(), []node.Message{m}, true))
			return err
		},
		"CatchUp": func(ctx context.Context) error {
			_, err := s.CatchUp(ctx, node.CatchUpRequest{Lineage: 1})
			return err
		},
		"Claim": func(ctx context.Context) error {
			_, err := s.Claim(ctx, node.ClaimRequest{Lanes: []node.Share{{Lane: "output", Limit: 1, Bytes: 1}}})
			return err
		},
		"Delete": func(ctx context.Context) error {
			_, err := s.Settle(ctx, node.Removals(claim.Ref))
			return err
		},
		"Expired": func(ctx context.Context) error {
			_, err := s.Expired(ctx, 1)
			return err
		},
		"Reset": func(ctx context.Context) error {
			_, err := s.Reset(ctx, []node.Release{{Claim: claim}})
			return err
		},
	}
}

// works checks that every call succeeds.
func works(t *testing.T, s *postgres.Store) {
	t.Helper()
	for name, call := range calls(s) {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fails checks that every call returns an error in time, all at once as the operations of a node.
func fails(t *testing.T, s *postgres.Store, check func(error) bool) {
	t.Helper()
	var all sync.WaitGroup
	for name, call := range calls(s) {
		all.Go(func() {
			start := time.Now()
			err := call(t.Context())
			if took := time.Since(start); took > limit+slack {
				t.Errorf("%s took %v, the limit is %v", name, took, limit)
			}
			if err == nil || !check(err) {
				t.Errorf("%s: error %v, want another", name, err)
			}
		})
	}
	all.Wait()
}

// recovers checks that calls succeed within a second, after few failures, and then go on to succeed.
func recovers(t *testing.T, s *postgres.Store, failures int) {
	t.Helper()
	start := time.Now()
	for failed := 0; ; failed++ {
		_, err := s.Expired(t.Context(), 1)
		if err == nil {
			break
		}
		if failed >= failures {
			t.Fatalf("%d failures, the last is %v", failed+1, err)
		}
	}
	if took := time.Since(start); took > time.Second+slack {
		t.Errorf("calls succeeded after %v", took)
	}
	works(t, s)
}

// warm makes the store open several connections.
func warm(t *testing.T, s *postgres.Store) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := postgres.Run(t.Context(), s, "SELECT pg_sleep(0.1)::text"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.Pool().Stat().IdleConns(); n < 2 {
		t.Fatalf("%d connections are open, want several", n)
	}
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// A server that is absent fails calls at once, and is used as soon as it is there.
func TestServerAbsent(t *testing.T) {
	network, address := newRelay(t, newSchema(t, newDatabase(t)))
	network.stop()
	s := open(t, address, postgres.Options{Timeout: limit})
	fails(t, s, func(err error) bool {
		var refused *pgconn.ConnectError
		return errors.As(err, &refused)
	})
	network.start()
	recovers(t, s, 0)
	warm(t, s)
	network.stop()
	fails(t, s, func(error) bool { return true })
	network.start()
	recovers(t, s, 0)
}

// After a restart of the server, which ends all sessions, one call fails at most.
func TestSessionsTerminated(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{ApplicationName: "victim"})
	for range 3 {
		warm(t, s)
		conn := connect(t, address)
		for left := 1; left > 0; {
			err := conn.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid))
FROM pg_stat_activity WHERE application_name = 'victim' AND datname = current_database()`).Scan(&left)
			if err != nil {
				t.Fatal(err)
			}
		}
		recovers(t, s, 1)
	}
}

// A server that stops answering, with its connections open, fails calls in time. When it goes on, so do the calls.
func TestServerFrozen(t *testing.T) {
	network, address := newRelay(t, newSchema(t, newDatabase(t)))
	s := open(t, address, postgres.Options{Timeout: limit})
	warm(t, s)
	network.hold(true, true)
	for range 2 {
		fails(t, s, isTimeout)
	}
	network.hold(false, false)
	recovers(t, s, 1)
}

// A server that is gone without a word, as when its host dies and another takes its address, costs one call its time
// limit, and not one for every connection. The store can be closed meanwhile, in time.
func TestServerGone(t *testing.T) {
	network, address := newRelay(t, newSchema(t, newDatabase(t)))
	s := open(t, address, postgres.Options{Timeout: limit})
	warm(t, s)
	network.silence()
	if _, err := s.Expired(t.Context(), 1); !isTimeout(err) {
		t.Fatalf("error %v, want a time-out", err)
	}
	recovers(t, s, 0)
	start := time.Now()
	s.Close()
	if took := time.Since(start); took > limit+slack {
		t.Errorf("closing took %v", took)
	}
}

// A call that is held up by a lock on the whole table ends in time, and by the server's decision: nothing has
// happened, and nothing is going on there any more.
func TestTableLocked(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			address := newSchema(t, newDatabase(t))
			s := openHasty(t, address, postgres.Options{Timeout: limit, PgBouncer: pooled})
			var all sync.WaitGroup // so that no connection has to be made in the time of a call that is to fail
			for _, call := range calls(s) {
				all.Go(func() {
					if err := call(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			lock := begin(t, address)
			if _, err := lock.tx.Exec(t.Context(), "LOCK TABLE messages, partitions, positions, store"); err != nil {
				t.Fatal(err)
			}
			fails(t, s, func(err error) bool {
				var answer *pgconn.PgError
				return errors.As(err, &answer) && answer.Code == "55P03" // lock not available
			})
			if lock.Waiting() {
				t.Error("a session is still waiting for the lock")
			}
			lock.Rollback()
			works(t, s)
		})
	}
}

// A statement that takes too long is ended by the server before the call's limit.
func TestStatementTooLong(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	for _, pooled := range []bool{false, true} {
		s := open(t, address, postgres.Options{Timeout: limit, PgBouncer: pooled})
		start := time.Now()
		_, err := postgres.Run(t.Context(), s, "SELECT pg_sleep(60)::text")
		var answer *pgconn.PgError
		if !errors.As(err, &answer) || answer.Code != "57014" || time.Since(start) > limit+slack {
			t.Errorf("error %v after %v, want the server's after less than %v", err, time.Since(start), limit)
		}
		works(t, s)
	}
}

// A node that stops in the middle of the answer to a Claim has not claimed anything yet, and locks what it asked
// for. The server ends its session, so that its peers get the messages.
func TestReaderStops(t *testing.T) {
	direct := newSchema(t, newDatabase(t))
	network, address := newRelay(t, direct)
	peer := open(t, direct, postgres.Options{})
	list := messages(40) // of a megabyte each: more than what is on its way in a network
	for i := range list {
		list[i].Value = []byte(strings.Repeat(fmt.Sprintf("%016x", i), 1<<16))
	}
	insert(t, peer, list, false)
	exec(t, direct, "ALTER TABLE messages ALTER COLUMN message_value SET STORAGE EXTERNAL")

	stopped := open(t, address, postgres.Options{Timeout: limit, ApplicationName: "stopped"})
	request := due(100)
	// On a busy machine the server may not come as far as its answer within the limit of a call. Then nothing has
	// happened, and it is tried again.
	var stops <-chan error
	for end := time.Now().Add(patience); stops == nil; {
		if time.Now().After(end) {
			t.Fatal("the server does not wait for the client")
		}
		network.hold(false, false)
		works(t, stopped)
		postgres.ForgetLooks(stopped) // a look that is to find out why a call took long would come first
		network.hold(false, true)
		stops = stopInAnswer(t, stopped, request, connect(t, direct))
	}
	network.hold(true, true) // a process that is stopped does not hang up either
	if err := <-stops; !isTimeout(err) {
		t.Fatalf("error %v, want a time-out", err)
	}
	claimed := 0
	for end := time.Now().Add(patience); claimed < len(list); {
		result, err := peer.Claim(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		claimed += len(result.Messages)
		if time.Now().After(end) {
			t.Fatalf("the peer has got %d of %d messages", claimed, len(list))
		}
	}
}

// stopInAnswer has s claim, and returns where its result will come as soon as watch has seen the server wait for s to
// read. It returns nil if the call ended before.
func stopInAnswer(t *testing.T, s *postgres.Store, request node.ClaimRequest, watch *pgx.Conn) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), request)
		done <- err
	}()
	for {
		var blocked bool
		err := watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
WHERE application_name = 'stopped' AND datname = current_database() AND wait_event = 'ClientWrite')`).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if !isTimeout(err) {
				t.Fatalf("error %v, want a time-out", err)
			}
			return nil
		default:
		}
		if blocked {
			return done
		}
	}
}

// Two sessions that lock the same rows in opposite orders: the one that the server picks as the victim tries again.
func TestDeadlock(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	for range 20 {
		list := messages(2)
		insert(t, s, list, false)
		other := begin(t, address)
		other.Claim(list[1].Ref(), owner())
		done := make(chan error, 1)
		go func() {
			deleted, err := s.Settle(t.Context(), node.Removals(list[0].Ref(), list[1].Ref()))
			if err == nil && slices.Contains(deleted, node.Gone) {
				err = fmt.Errorf("deleted %v", deleted)
			}
			done <- err
		}()
		// The one that waits first looks for a deadlock first, after a second.
		awaitWaiter(t, other.watch, other.tx.Conn())
		_, err := other.tx.Exec(t.Context(), "UPDATE messages SET due_at = due_at WHERE id = $1", list[0].ID)
		if err != nil { // on a very slow machine there was none yet
			other.Rollback()
		} else {
			other.Commit()
		}
		if err := <-done; err != nil {
			t.Fatalf("delete: %v", err)
		}
		if err == nil {
			return
		}
	}
	t.Error("the store was never the victim of a deadlock")
}
