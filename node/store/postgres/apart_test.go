package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chronos/node"
	"chronos/node/store/postgres"
)

// apartTest is a store whose takes are made of two transactions from two items on.
type apartTest struct {
	t       *testing.T
	address string
	store   *postgres.Store
	watch   *pgx.Conn
	from    []node.Place
}

func newApartTest(t *testing.T, options postgres.Options) *apartTest {
	t.Helper()
	address := newSchema(t, newDatabase(t))
	a := &apartTest{t, address, postgres.TakeApart(open(t, address, options), 2), connect(t, address), nil}
	for number := range int32(4) {
		place := input()
		place.Number = number
		a.from = append(a.from, place)
	}
	if _, _, err := a.store.Positions(t.Context(), a.from); err != nil {
		t.Fatal(err)
	}
	return a
}

// request returns a take of the next records, two of each partition, with ids that tell theirs.
func (a *apartTest) request() node.TakeRequest {
	request := node.TakeRequest{Node: owner(), Hold: time.Minute, From: append([]node.Place(nil), a.from...)}
	list := messages(2 * len(a.from))
	for i, m := range list {
		at := i % len(a.from)
		m.ID = fmt.Sprintf("%d of %d", i/len(a.from), at)
		request.Items = append(request.Items, node.Item{
			From: at, Offset: request.From[at].Offset + int64(i/len(a.from)), Epoch: request.From[at].Epoch,
			Action: node.Schedule, Message: m, Claim: true,
		})
	}
	return request
}

// take makes a take that has to be answered.
func (a *apartTest) take(request node.TakeRequest) node.TakeResult {
	a.t.Helper()
	result, err := a.store.Take(a.t.Context(), request)
	if err != nil {
		a.t.Fatal(err)
	}
	return result
}

// transactions returns how many transactions have stored what is there.
func (a *apartTest) transactions() (n int) {
	a.t.Helper()
	const distinct = "SELECT count(DISTINCT xmin::text) FROM messages"
	if err := a.watch.QueryRow(a.t.Context(), distinct).Scan(&n); err != nil {
		a.t.Fatal(err)
	}
	return n
}

// checkAll checks that all items of a request were dealt with, and are claimed by its node.
func (a *apartTest) checkAll(request node.TakeRequest, result node.TakeResult) {
	a.t.Helper()
	if result.Taken != len(request.Items) || len(result.Results) != result.Taken || result.Refusal != "" {
		a.t.Fatalf("took %d of %d: %q", result.Taken, len(request.Items), result.Refusal)
	}
	for i, one := range result.Results {
		if one.Outcome != node.Scheduled || one.Claim.Ref != request.Items[i].Ref() ||
			one.Claim.ReadiedBy != request.Node {
			a.t.Errorf("item %d: %v, claim on %v", i, one.Outcome, one.Claim.Ref)
		}
	}
	for i, place := range request.From {
		if result.Refused[i] || result.Positions[i].Offset != place.Offset+2 {
			a.t.Errorf("partition %d: refused %t, position %v", i, result.Refused[i], result.Positions[i])
		}
	}
}

// A take of several partitions is made of two transactions, and what comes of it is what one would come to; a repeat is
// told of the same claims. So it is through a pooler.
func TestTakeApart(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			a := newApartTest(t, postgres.Options{PgBouncer: pooled})
			request := a.request()
			result := a.take(request)
			a.checkAll(request, result)
			if n := a.transactions(); n != 2 {
				t.Errorf("it is %d transactions", n)
			}
			again := a.take(request)
			a.checkAll(request, again)
			for i := range result.Results {
				if again.Results[i] != result.Results[i] {
					t.Errorf("item %d, again: %v, not %v", i, again.Results[i], result.Results[i])
				}
			}
		})
	}
}

// A take is one transaction where its items have to take effect together, or in their order, or where two would not be
// faster.
func TestTakeTogether(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*node.TakeRequest)
		options postgres.Options
		items   int
	}{
		"few items": {items: 9},
		"one partition has nearly all": {change: func(r *node.TakeRequest) {
			for i := range r.Items[1:] {
				r.Items[1+i].From, r.Items[1+i].Offset = 3, int64(i)
			}
		}},
		"an item that stands in no partition": {change: func(r *node.TakeRequest) {
			r.Items[7].From, r.Items[7].Offset = node.NoPlace, 0
		}},
		"an answer is remembered": {change: func(r *node.TakeRequest) {
			r.Items[7].Request = &node.Request{ID: uuid.New(), Keep: time.Minute}
		}},
		"one message in two partitions": {change: func(r *node.TakeRequest) {
			r.Items[7].ID = r.Items[6].ID
		}},
		"a message is refused": {change: func(r *node.TakeRequest) { r.Items[7].ID = "" }},
		"one connection":       {options: postgres.Options{MaxConns: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApartTest(t, test.options)
			if test.items > 0 {
				postgres.TakeApart(a.store, test.items)
			}
			request := a.request()
			if test.change != nil {
				test.change(&request)
			}
			a.take(request)
			if n := a.transactions(); n != 1 {
				t.Errorf("it is %d transactions", n)
			}
		})
	}
}

// Where one transaction of a take fails, the take fails, the other one may have taken effect, and the repeat finds it.
func TestHalfOfTakeFails(t *testing.T) {
	a := newApartTest(t, postgres.Options{})
	request := a.request()
	mend := trip(t, a.address, "1 of 3")
	if result, err := a.store.Take(t.Context(), request); err == nil {
		t.Fatalf("took %d", result.Taken)
	}
	if n := a.transactions(); n != 1 {
		t.Errorf("%d transactions have stored something", n)
	}
	mend()
	a.checkAll(request, a.take(request))
	if n := a.transactions(); n != 2 {
		t.Errorf("%d transactions have stored something", n)
	}
}

// A record that the server refuses has no part in a take of two transactions: what comes behind it must not be taken in
// by a take that says so. The take fails, and its repeat is one transaction, which finds what the other one has stored.
func TestTakeRefusedInHalf(t *testing.T) {
	a := newApartTest(t, postgres.Options{})
	request := a.request()
	exec(t, a.address, `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id = '1 of 1' THEN RAISE EXCEPTION 'it is too odd' USING ERRCODE = '22000'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if result, err := a.store.Take(t.Context(), request); err == nil {
		t.Fatalf("took %d: %q", result.Taken, result.Refusal)
	}
	result := a.take(request)
	if result.Taken != 5 || result.Refusal == "" {
		t.Fatalf("took %d: %q", result.Taken, result.Refusal)
	}
	for i, one := range result.Results {
		if one.Outcome != node.Scheduled || one.Claim.Ref != request.Items[i].Ref() {
			t.Errorf("item %d: %v, claim on %v", i, one.Outcome, one.Claim.Ref)
		}
	}
}

// Where the two transactions of a take have not met one state of the store, the take fails: no state would be true of
// all of it. The repeat is one transaction, and says what is true by then.
func TestTakeInTwoStates(t *testing.T) {
	for name, changes := range map[string]string{
		"another lineage":      "UPDATE store SET lineage = lineage + 1",
		"the intake is paused": "INSERT INTO pauses (lane, since, paused_by, reason) VALUES ('', now(), 'a test', '')",
	} {
		t.Run(name, func(t *testing.T) {
			a := newApartTest(t, postgres.Options{})
			request := a.request()
			session, err := connect(t, a.address).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			const lock = "SELECT FROM partitions WHERE partition = 1 FOR UPDATE"
			if _, err := session.Exec(t.Context(), lock); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error)
			go func() {
				_, err := a.store.Take(t.Context(), request)
				failed <- err
			}()
			for stored := 0; stored < 4; {
				if err := a.watch.QueryRow(t.Context(), "SELECT count(*) FROM messages").Scan(&stored); err != nil {
					t.Fatal(err)
				}
			}
			awaitWaiter(t, a.watch, session.Conn())
			if _, err := session.Exec(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
			if err := session.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-failed; err == nil {
				t.Error("the take was answered")
			}
			if result := a.take(request); result.Taken != 8 {
				t.Errorf("the repeat took %d", result.Taken)
			}
		})
	}
}

// A take that passes the last marks of a lineage says that all has caught up, although neither of its transactions
// knows that of the other's marks: both wait with their commits until the other one has come as far. It is another node
// that has begun the lineage, of which this one has not heard.
func TestTakeCatchesUp(t *testing.T) {
	a := newApartTest(t, postgres.Options{})
	a.catchUp(open(t, a.address, postgres.Options{}))
	exec(t, a.address, `
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(33); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON messages DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION wait()`)
	exclusive := connect(t, a.address)
	if _, err := exclusive.Exec(t.Context(), "SELECT pg_advisory_lock(33)"); err != nil {
		t.Fatal(err)
	}
	request := a.request()
	var result node.TakeResult
	var taken error
	var first sync.WaitGroup
	first.Go(func() { result, taken = a.store.Take(t.Context(), request) })
	const waiters = "SELECT count(*) FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid))"
	for n, end := 0, time.Now().Add(patience); n < 2; {
		if err := a.watch.QueryRow(t.Context(), waiters, exclusive.PgConn().PID()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%d transactions wait", n)
		}
	}
	if _, err := exclusive.Exec(t.Context(), "SELECT pg_advisory_unlock(33)"); err != nil {
		t.Fatal(err)
	}
	first.Wait()
	if taken != nil {
		result = a.take(request)
	}
	if result.State.CatchingUp || result.Taken != len(request.Items) {
		t.Errorf("took %d, state %v", result.Taken, result.State)
	}
}

// Whoever has begun a lineage, or has heard of one, need not find out by a take that fails that the next one is to be
// of one transaction.
func TestTakeKnowsOfCatchUp(t *testing.T) {
	for name, hear := range map[string]func(t *testing.T, a *apartTest){
		"begun": func(_ *testing.T, a *apartTest) { a.catchUp(a.store) },
		"seen": func(t *testing.T, a *apartTest) {
			t.Helper()
			a.catchUp(open(t, a.address, postgres.Options{}))
			if _, state, err := a.store.Positions(t.Context(), a.from); err != nil || !state.CatchingUp {
				t.Fatalf("state %v, %v", state, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApartTest(t, postgres.Options{})
			hear(t, a)
			request := a.request()
			result, err := a.store.Take(t.Context(), request)
			if err != nil || result.Taken != len(request.Items) {
				t.Errorf("took %d, %v", result.Taken, err)
			}
		})
	}
}

// catchUp has a lineage begin that has caught up when two more records of each partition are taken in.
func (a *apartTest) catchUp(store node.Store) {
	a.t.Helper()
	request := node.CatchUpRequest{Lineage: 1, Begin: true}
	for _, place := range a.from {
		request.Marks = append(request.Marks, node.Extent{Partition: place.Partition, End: place.Offset + 2})
	}
	if state, err := store.CatchUp(a.t.Context(), request); err != nil || !state.CatchingUp {
		a.t.Fatalf("state %v, %v", state, err)
	}
}
