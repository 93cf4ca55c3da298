package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/postgres"
)

// occurrence returns an item that schedules the first occurrence of a series, overdue.
func occurrence(id string) node.Item {
	item := one(node.Schedule, id)
	item.Deadline = time.Now().Add(-time.Minute).Truncate(time.Microsecond).UTC()
	item.Recurrence = node.Recurrence{Series: "every minute", Sequence: 1, At: item.Deadline}
	return item
}

// following returns what follows an occurrence, a minute later.
func following(of node.Ref, sequence int64, at time.Time) node.Next {
	return node.Next{Of: of, Incarnation: uuid.New(), Sequence: sequence, At: at}
}

// A series that is cancelled while its occurrence is being settled ends there, whichever of the two comes first: the
// settling waits for the cancel, and sees what it has decided. One that was to be passed over comes out first.
func TestRearmWaitsForACancel(t *testing.T) {
	for _, missed := range []bool{false, true} {
		t.Run(fmt.Sprint("missed=", missed), func(t *testing.T) { rearmWaitsForACancel(t, missed) })
	}
}

func rearmWaitsForACancel(t *testing.T, missed bool) {
	t.Helper()
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	f := newFeed(t, s, 1)
	item := occurrence("x")
	item.Claim = true
	f.must(t, []node.Item{item}, node.Scheduled)
	gate := begin(t, address)
	gate.lock()
	exec(t, address, `
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE TRIGGER wait AFTER UPDATE ON messages FOR EACH STATEMENT EXECUTE FUNCTION wait()`)
	var all sync.WaitGroup
	var outcomes []node.Outcome
	var settled []node.Settled
	errs := make([]error, 2)
	all.Go(func() { outcomes, errs[0] = f.take(t.Context(), one(node.Cancel, "x")) })
	gate.awaitWaiters(1)
	next := following(item.Ref(), 2, time.Now())
	want, left := node.Removed, 0
	if missed {
		next.Missed = node.Claim{Ref: item.Ref(), ReadiedBy: uuid.New()}
		want, left = node.Promised, 1
	}
	all.Go(func() { settled, errs[1] = s.Settle(t.Context(), []node.Next{next}) })
	gate.awaitWaiters(2)
	gate.Commit()
	all.Wait()
	if errs[0] != nil || errs[1] != nil || !slices.Equal(outcomes, []node.Outcome{node.Stopped}) ||
		!slices.Equal(settled, []node.Settled{want}) {
		t.Errorf("outcomes %v, settled %v, want one that is stopped and %v; errors %v", outcomes, settled, want, errs)
	}
	if rows := dump(t, connect(t, address)); len(rows) != left {
		t.Errorf("stored is %+v, want %d", rows, left)
	}
}

// Each of a call is settled as if it came alone, one after another: also where an occurrence comes twice, or with the
// one that follows it. What has gone is no error.
func TestRearmInOrder(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	f := newFeed(t, s, 1)
	list := []node.Item{occurrence("a"), occurrence("b"), occurrence("c"), one(node.Schedule, "d")}
	f.must(t, list, node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled)
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	second := following(list[0].Ref(), 2, at)
	third := following(node.Ref{ID: "a", Lane: "output", Incarnation: second.Incarnation}, 3, at.Add(time.Hour))
	alien := following(node.Ref{ID: "a\x00", Lane: "output", Incarnation: uuid.New()}, 2, at)
	settled, err := s.Settle(t.Context(), []node.Next{
		second, second, third, {Of: list[1].Ref()}, alien, following(list[2].Ref(), 2, at), {Of: list[2].Ref()},
	})
	want := []node.Settled{
		node.Rearmed, node.Gone, node.Rearmed, node.Removed, node.Gone, node.Rearmed, node.Gone,
	}
	if err != nil || !slices.Equal(settled, want) {
		t.Fatalf("settled %v, want %v; error %v", settled, want, err)
	}
	rows := dump(t, connect(t, address))
	if len(rows) != 3 || rows[0].Incarnation != third.Incarnation || rows[0].Sequence != 3 ||
		!rows[0].At.Equal(third.At) || !rows[0].Deadline.Equal(third.At) || !rows[0].Due.Equal(third.At) ||
		rows[1].Sequence != 2 || rows[2].Recurs() {
		t.Errorf("stored is %+v, want the third of a, the second of c, and d", rows)
	}
}

// A series keeps what it is when its time is moved, is what its replacement says, and is stopped by a cancel that comes
// too late for the occurrence; also where all that is one take, which stores only what is left.
func TestSeriesInOneTake(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := open(t, address, postgres.Options{})
	f := newFeed(t, s, 1)
	stored := func() (list []string) {
		for _, r := range dump(t, connect(t, address)) {
			list = append(list,
				fmt.Sprint(r.ID, " ", r.Series, " ", r.Sequence, " ", r.Bound, r.Stopped, r.At.IsZero()))
		}
		return list
	}
	once := one(node.Replace, "c")
	f.must(t, []node.Item{
		occurrence("a"), occurrence("b"), occurrence("c"), one(node.FireNow, "a"), one(node.Cancel, "a"),
	}, node.Scheduled, node.Scheduled, node.Scheduled, node.FiredNow, node.Stopped)
	f.must(t, []node.Item{one(node.Reschedule, "b"), one(node.FireNow, "b"), one(node.Cancel, "b"), once},
		node.Rescheduled, node.FiredNow, node.Stopped, node.Replaced)
	want := []string{"a every minute 1 true true false", "b every minute 1 true true false", "c  0 false false true"}
	if got := stored(); !slices.Equal(got, want) {
		t.Errorf("stored is %q, want %q", got, want)
	}
	again := occurrence("c")
	again.Action = node.Replace
	f.must(t, []node.Item{again, one(node.FireNow, "c"), one(node.Cancel, "c")},
		node.Replaced, node.FiredNow, node.Stopped)
	want[2] = "c every minute 1 true true false"
	if got := stored(); !slices.Equal(got, want) {
		t.Errorf("stored is %q, want %q", got, want)
	}
}

// An occurrence that takes its place below a mark, since it was missed, is claimed by the next call.
func TestMarksHeedRearm(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	f := newFeed(t, s, 1)
	item := occurrence("x")
	item.Claim = true
	f.must(t, []node.Item{item}, node.Scheduled)
	postgres.UseMarks(s, []string{"output"}, time.Now())
	next := following(item.Ref(), 2, time.Now().Add(-time.Hour))
	if settled, err := s.Settle(t.Context(), []node.Next{next}); err != nil || settled[0] != node.Rearmed {
		t.Fatalf("settled %v, error %v", settled, err)
	}
	result, err := s.Claim(t.Context(), due(10))
	if err != nil || len(result.Messages) != 1 || result.Messages[0].Sequence != 2 ||
		result.Messages[0].Series != item.Series || result.Messages[0].Attempts != 1 {
		t.Errorf("claimed %+v, want the second occurrence; error %v", result.Messages, err)
	}
}
