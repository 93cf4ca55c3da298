package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/postgres"
)

// feed is an input partition that one producer writes instructions to. All is taken in by one store.
type feed struct {
	store *postgres.Store
	at    node.Place
}

func newFeed(t testing.TB, s *postgres.Store, number int32) *feed {
	t.Helper()
	f := &feed{s, input()}
	f.at.Number = number
	if _, _, err := s.Positions(t.Context(), []node.Place{f.at}); err != nil {
		t.Fatal(err)
	}
	return f
}

// request returns the take of items as the next records.
func (f *feed) request(items ...node.Item) node.TakeRequest {
	request := node.TakeRequest{Node: owner(), Hold: time.Hour, From: []node.Place{f.at}, Items: items}
	for i := range items {
		items[i].Offset = f.at.Offset + int64(i)
	}
	return request
}

// take takes items in and returns their outcomes.
func (f *feed) take(ctx context.Context, items ...node.Item) ([]node.Outcome, error) {
	result, err := f.store.Take(ctx, f.request(items...))
	if err == nil && (result.Taken != len(items) || result.Refused[0]) {
		err = fmt.Errorf("%d of %d items are taken in: %q", result.Taken, len(items), result.Refusal)
	}
	if err != nil {
		return nil, err
	}
	f.at.Offset += int64(len(items))
	var outcomes []node.Outcome
	for _, r := range result.Results {
		outcomes = append(outcomes, r.Outcome)
	}
	return outcomes, nil
}

// must takes items in, which have to have these outcomes.
func (f *feed) must(t testing.TB, items []node.Item, want ...node.Outcome) {
	t.Helper()
	outcomes, err := f.take(t.Context(), items...)
	if err != nil || !slices.Equal(outcomes, want) {
		t.Fatalf("outcomes %v, want %v; error %v", outcomes, want, err)
	}
}

// one returns an item that asks for something about the message of an id, in an hour where it says when.
func one(action node.Action, id string) node.Item {
	return node.Item{Action: action, Message: node.Message{
		ID: id, Lane: "output", Incarnation: uuid.New(), Deadline: time.Now().Add(time.Hour).Truncate(time.Microsecond),
		Value: []byte(action.String()),
	}}
}

// told has the outcome of an item told on the lane "outcomes".
func told(item node.Item) node.Item {
	item.Answer = &node.Answer{Message: node.Message{
		ID: uuid.NewString(), Lane: "outcomes", Incarnation: uuid.New(),
		Deadline: time.Now().Truncate(time.Microsecond),
	}}
	return item
}

// on returns the rows of a lane.
func on(lane string, rows []memory.Row) []memory.Row {
	return slices.DeleteFunc(rows, func(r memory.Row) bool { return r.Lane != lane })
}

// A take of nothing but new messages sends what it did before there were instructions: one insert, and the position.
// What few messages have is not sent where none has it; and nothing is written of what a later record takes back.
func TestWrites(t *testing.T) {
	until := one(node.Schedule, "until")
	until.NotAfter = until.Deadline
	fire := one(node.FireNow, "a")
	fire.Deadline = time.Now().Truncate(time.Microsecond)
	for _, c := range []struct {
		name  string
		items []node.Item
		want  []string
	}{
		{"new messages", []node.Item{one(node.Schedule, "a"), one(node.Schedule, "b")}, []string{
			"insert 15", "move 5", "forget 3",
		}},
		{"what ends", []node.Item{one(node.Schedule, "a"), until}, []string{"insert_all 16", "move 5", "forget 3"}},
		{"fired at once", []node.Item{one(node.Schedule, "a"), fire}, []string{
			"insert_all 16", "move 5", "forget 3",
		}},
		{"told", []node.Item{told(one(node.Schedule, "a"))}, []string{
			"insert 15", "reply 15", "move 5", "forget 3",
		}},
		{"taken back", []node.Item{one(node.Schedule, "a"), one(node.Reschedule, "a"), one(node.Cancel, "a")}, []string{
			"move 5", "forget 3",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := postgres.Writes((&feed{at: input()}).request(c.items...)); !slices.Equal(got, c.want) {
				t.Errorf("the take sends %q, want %q", got, c.want)
			}
		})
	}
}

// Takes of different partitions, whose instructions are about the same messages in all orders, beside claims and
// deletes, all come to an end; and their outcomes fit together: a message is there if and only if it has been scheduled
// once more than it was cancelled or deleted.
func TestTakesThatCross(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	const feeds, rounds, ids, size = 4, 40, 10, 12
	actions := []node.Action{
		node.Schedule, node.Schedule, node.Cancel, node.Cancel, node.Reschedule, node.Replace, node.FireNow,
	}
	var mu sync.Mutex
	count, seen := map[string]int{}, map[node.Outcome]int{}
	var all sync.WaitGroup
	errs := make([]error, feeds+1)
	done := make(chan struct{})
	var takes sync.WaitGroup
	for number := range feeds {
		f := newFeed(t, s, int32(number))
		random := rand.New(rand.NewPCG(uint64(number), 1))
		takes.Go(func() {
			for range rounds {
				var items []node.Item
				for range size {
					item := one(actions[random.IntN(len(actions))], fmt.Sprint("id ", random.IntN(ids)))
					if random.IntN(2) == 0 {
						item = told(item)
					}
					items = append(items, item)
				}
				outcomes, err := f.take(t.Context(), items...)
				if err != nil {
					errs[number] = err
					return
				}
				mu.Lock()
				for i, outcome := range outcomes {
					seen[outcome]++
					if outcome == node.Scheduled {
						count[items[i].ID]++
					}
					if outcome == node.Cancelled {
						count[items[i].ID]--
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			result, err := s.Claim(t.Context(), due(3))
			var refs []node.Ref
			for _, m := range result.Messages {
				refs = append(refs, m.Ref())
			}
			deleted, failed := s.Settle(t.Context(), node.Removals(refs...))
			if err := errors.Join(err, failed); err != nil {
				errs[feeds] = err
				return
			}
			mu.Lock()
			for i, effect := range deleted {
				if effect == node.Removed {
					count[refs[i].ID]--
				}
			}
			mu.Unlock()
		}
	})
	takes.Wait()
	close(done)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, r := range on("output", dump(t, connect(t, address))) {
		count[r.ID]--
	}
	for id, n := range count {
		if n != 0 {
			t.Errorf("of %q there are %d more than were scheduled and not cancelled or deleted", id, -n)
		}
	}
	for _, outcome := range []node.Outcome{
		node.Scheduled, node.Duplicate, node.Replaced, node.Rescheduled, node.Cancelled, node.FiredNow, node.NotFound,
	} {
		if seen[outcome] == 0 {
			t.Errorf("no outcome %q: %v", outcome, seen)
		}
	}
}

// A take that cancels one message and brings another, and a take that brings both and has seen neither, do not wait for
// each other. If they did, they would do so forever here, since the server does not look for deadlocks.
func TestTakesDoNotWaitForEachOther(t *testing.T) {
	address := with(t, newSchema(t, newDatabase(t)), "deadlock_timeout", "1h")
	s := open(t, address, postgres.Options{})
	left, middle, right := newFeed(t, s, 1), newFeed(t, s, 2), newFeed(t, s, 3)
	// The right one stops when it has inserted a, and is about to insert b.
	gate := begin(t, address)
	gate.lock()
	marked := one(node.Schedule, "b")
	exec(t, address, `
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$;
CREATE TRIGGER wait BEFORE INSERT ON messages FOR EACH ROW
  WHEN (NEW.incarnation = '`+marked.Incarnation.String()+`') EXECUTE FUNCTION wait()`)
	results := make(chan error, 2)
	start := func(f *feed, items ...node.Item) {
		go func() {
			_, err := f.take(t.Context(), items...)
			results <- err
		}()
	}
	start(right, one(node.Schedule, "a"), marked)
	gate.awaitWaiters(1)
	middle.must(t, []node.Item{one(node.Schedule, "b")}, node.Scheduled)
	start(left, one(node.Cancel, "b"), one(node.Schedule, "a"))
	gate.awaitWaiters(2)
	gate.Commit()
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	// The left one came first, once the right one had begun anew.
	var ids []string
	for _, r := range dump(t, connect(t, address)) {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("stored are %q, want a and, by the take that began anew, b", ids)
	}
}

// A take that waits for the replacement of a message is decided on what it was replaced by.
func TestInstructionsFollowAReplacement(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	left, right := newFeed(t, s, 1), newFeed(t, s, 2)
	for action, want := range map[node.Action]node.Outcome{
		node.Cancel: node.Cancelled, node.Reschedule: node.Rescheduled, node.Replace: node.Replaced,
		node.Schedule: node.Duplicate, node.FireNow: node.FiredNow,
	} {
		t.Run(action.String(), func(t *testing.T) {
			id := action.String()
			left.must(t, []node.Item{one(node.Schedule, id)}, node.Scheduled)
			gate := begin(t, address)
			gate.lock()
			exec(t, address, `
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE TRIGGER wait AFTER INSERT OR UPDATE ON messages FOR EACH STATEMENT EXECUTE FUNCTION wait()`)
			var all sync.WaitGroup
			errs := make([]error, 2)
			var outcomes []node.Outcome
			all.Go(func() { _, errs[0] = left.take(t.Context(), one(node.Replace, id)) })
			gate.awaitWaiters(1)
			all.Go(func() { outcomes, errs[1] = right.take(t.Context(), one(action, id)) })
			gate.awaitWaiters(2)
			gate.Commit()
			all.Wait()
			if err := errors.Join(errs...); err != nil || !slices.Equal(outcomes, []node.Outcome{want}) {
				t.Errorf("outcome %v, want %v; error %v", outcomes, want, err)
			}
			exec(t, address, "DROP FUNCTION wait() CASCADE")
		})
	}
}

// lock takes the advisory lock 1, up to the end of the session's transaction.
func (s *session) lock() {
	s.t.Helper()
	s.exec("SELECT pg_advisory_xact_lock(1)")
}

// awaitWaiters returns when so many sessions of the database wait for others.
func (s *session) awaitWaiters(n int) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		var waits int
		err := s.watch.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`).Scan(&waits)
		switch {
		case err != nil || time.Now().After(end):
			s.t.Fatalf("%d sessions wait, want %d; error %v", waits, n, err)
		case waits == n:
			return
		}
	}
}

// A cancel beside a claim either comes first, and the message is never claimed, or comes too late, and then the message
// is claimed, and bound, also once the claim is given back.
func TestCancelAgainstClaim(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	const n, step = 400, 8
	list := messages(n)
	insert(t, s, list, false)
	var all sync.WaitGroup
	errs := make([]error, 2)
	claimed := map[string]node.Claim{}
	outcomes := map[string]node.Outcome{}
	done, begin, begun := make(chan struct{}), make(chan struct{}), make(chan struct{})
	all.Go(func() {
		<-begin
		meet := sync.OnceFunc(func() { close(begun) })
		defer meet()
		for {
			result, err := s.Claim(t.Context(), due(step))
			for _, m := range result.Messages {
				claimed[m.ID] = m.Claim
			}
			meet()
			select {
			case <-done:
				err = errors.Join(err, errEnded)
			default:
			}
			if err != nil {
				errs[0] = err
				return
			}
		}
	})
	f := newFeed(t, s, 7)
	all.Go(func() {
		defer close(done)
		// Claims come from the front, and cancels from the end: they meet. Some of each come for certain.
		meet := sync.OnceFunc(func() { close(begin) })
		defer meet()
		for from := n - step; from >= 0 && errs[1] == nil; from -= step {
			var items []node.Item
			for _, m := range list[from : from+step] {
				items = append(items, one(node.Cancel, m.ID))
			}
			var some []node.Outcome
			some, errs[1] = f.take(t.Context(), items...)
			for i, outcome := range some {
				outcomes[items[i].ID] = outcome
			}
			if from == n-10*step {
				meet()
				<-begun
			}
		}
	})
	all.Wait()
	if errs[1] != nil || !errors.Is(errs[0], errEnded) {
		t.Fatal(errs)
	}
	var releases []node.Release
	for _, m := range list {
		claim, is := claimed[m.ID]
		if want := map[bool]node.Outcome{true: node.TooLate, false: node.Cancelled}[is]; outcomes[m.ID] != want {
			t.Errorf("%q: outcome %q, want %q", m.ID, outcomes[m.ID], want)
		}
		if is {
			releases = append(releases, node.Release{Claim: claim, Unsent: true})
		}
	}
	if len(releases) == 0 || len(releases) == n {
		t.Fatalf("%d of %d are claimed: there was no race", len(releases), n)
	}
	if _, err := s.Reset(t.Context(), releases); err != nil {
		t.Fatal(err)
	}
	rows := dump(t, connect(t, address))
	if len(rows) != len(releases) {
		t.Errorf("%d rows, want the %d that were claimed", len(rows), len(releases))
	}
	for _, r := range rows {
		if !r.Bound || r.ReadiedBy != uuid.Nil || r.Attempts != 0 {
			t.Errorf("%q: bound %v, held by %v, %d attempts, want it bound and waiting", r.ID, r.Bound, r.ReadiedBy,
				r.Attempts)
		}
	}
	f.must(t, []node.Item{one(node.Cancel, rows[0].ID)}, node.TooLate)
}

var errEnded = errors.New("the other side has ended")

// A take whose commit is cancelled while it waits for its standby has an unknown outcome. Here it has happened: taken
// in once more, it does nothing, and each outcome is there once.
func TestUnknownCommitOfInstructions(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	f := newFeed(t, s, 1)
	first := one(node.Schedule, "moved")
	f.must(t, []node.Item{
		one(node.Schedule, "cancelled"), first, one(node.Schedule, "replaced"),
	}, node.Scheduled, node.Scheduled, node.Scheduled)
	exec(t, address, `
CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER warn AFTER INSERT OR UPDATE OR DELETE ON messages
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()`)
	moved, replaced := told(one(node.Reschedule, "moved")), told(one(node.Replace, "replaced"))
	replaced.Claim = true
	request := f.request(told(one(node.Cancel, "cancelled")), moved, replaced)
	if _, err := s.Take(t.Context(), request); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Fatalf("error %v, want one about the standby", err)
	}
	exec(t, address, "DROP TRIGGER warn ON messages")
	before := dump(t, connect(t, address))
	result, err := s.Take(t.Context(), request)
	if err != nil || result.Taken != 3 {
		t.Fatalf("%+v, error %v", result, err)
	}
	if r := result.Results; r[0].Outcome != node.Skipped || r[1].Outcome != node.Skipped ||
		r[2].Outcome != node.Scheduled || r[2].Claim.ReadiedBy != owner() {
		t.Errorf("results %+v, want two that are skipped, and one that is stored and claimed", r)
	}
	after := dump(t, connect(t, address))
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the second take has changed %+v to %+v", before, after)
	}
	rows := on("output", slices.Clone(after))
	if len(on("outcomes", after)) != 3 || len(rows) != 2 || rows[0].Incarnation != moved.Moved(first.Incarnation) ||
		!rows[0].Deadline.Equal(moved.Deadline) || rows[1].Incarnation != replaced.Incarnation {
		t.Errorf("stored is %+v, want three outcomes, one message that was moved, and one that was replaced", rows)
	}
}

// A record that the server refuses is found by fewer and fewer of the first records, so that what comes before it is
// decided as ever, and what comes after it does not count.
func TestRefusedAmongInstructions(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	f := newFeed(t, s, 1)
	exec(t, address, `
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0; RETURN NEW; END $$;
CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON messages
  FOR EACH ROW WHEN (NEW.message_key = 'bad') EXECUTE FUNCTION fail()`)
	bad, worse := one(node.Schedule, "b"), one(node.Replace, "a")
	bad.Key, worse.Key = []byte("bad"), []byte("bad")
	for name, refused := range map[string]node.Item{"insert": bad, "replace": worse} {
		t.Run(name, func(t *testing.T) {
			f.must(t, []node.Item{one(node.Schedule, "a")}, node.Scheduled)
			fresh, last := one(node.Schedule, "a"), one(node.Reschedule, "a")
			result, err := s.Take(t.Context(), f.request(
				one(node.Cancel, "a"), fresh, last, told(one(node.Cancel, "z")),
				refused, one(node.Schedule, "c")))
			if err != nil || result.Taken != 4 || !strings.Contains(result.Refusal, "22012") {
				t.Fatalf("%+v, error %v", result, err)
			}
			f.at.Offset += 4
			rows := dump(t, connect(t, address))
			if len(rows) != 2 || len(on("outcomes", slices.Clone(rows))) != 1 ||
				on("output", rows)[0].Incarnation != last.Moved(fresh.Incarnation) {
				t.Errorf("stored is %+v, want a, as it was moved, and one outcome", rows)
			}
			// Where a later instruction takes it back, it is never written, and so nobody refuses it.
			want := map[string]node.Outcome{"a": node.Replaced, "b": node.Scheduled}[refused.ID]
			f.must(t, []node.Item{refused, one(node.Cancel, refused.ID)}, want, node.Cancelled)
			exec(t, address, "DELETE FROM messages")
		})
	}
}
