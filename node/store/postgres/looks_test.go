package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"chronos/node"
	"chronos/node/store/postgres"
)

// lane is a store with messages on one lane, and claims on it.
type lane struct {
	t       *testing.T
	address string
	store   *postgres.Store
	place   node.Place
	now     time.Time
}

func newLane(t *testing.T) *lane {
	t.Helper()
	address := newSchema(t, newDatabase(t))
	l := &lane{
		t: t, address: address, store: open(t, address, postgres.Options{Timeout: 10 * time.Second}),
		place: node.Place{Partition: node.Partition{Topic: "in", TopicID: uuid.New()}},
		now:   time.Now().UTC().Truncate(time.Microsecond),
	}
	if _, _, err := l.store.Positions(t.Context(), []node.Place{l.place}); err != nil {
		t.Fatal(err)
	}
	return l
}

// take stores n messages, a second apart, the first of which fell due so long ago.
func (l *lane) take(n int, ago time.Duration) {
	l.t.Helper()
	request := node.TakeRequest{From: []node.Place{l.place}}
	for i := range n {
		request.Items = append(request.Items, node.Item{
			Offset: l.place.Offset, Action: node.Schedule, Message: node.Message{
				ID: fmt.Sprint("m", l.place.Offset), Lane: "out", Incarnation: uuid.New(),
				Deadline: l.now.Add(time.Duration(i)*time.Second - ago),
			},
		})
		l.place.Offset++
	}
	if result, err := l.store.Take(l.t.Context(), request); err != nil || result.Taken != n {
		l.t.Fatalf("took %d, %v", result.Taken, err)
	}
}

// claim returns how many messages are claimed, of so many.
func (l *lane) claim(limit int) int {
	l.t.Helper()
	return l.claimFrom(time.Time{}, limit)
}

// claimFrom does so of those that fell due from an instant on.
func (l *lane) claimFrom(from time.Time, limit int) int {
	l.t.Helper()
	result, err := l.store.Claim(l.t.Context(), node.ClaimRequest{
		Node: uuid.New(), Hold: time.Hour, Until: l.now,
		Lanes: []node.Share{{Lane: "out", Limit: limit, Bytes: 1 << 20, From: from}},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return len(result.Messages)
}

// A look that could not find anything tells nothing about what waits above the mark, which stays where it is.
func TestMarkStays(t *testing.T) {
	t.Run("while the store catches up", func(t *testing.T) {
		l := newLane(t)
		l.take(20, time.Minute)
		end := node.Extent{Partition: l.place.Partition, End: l.place.Offset + 1}
		if _, err := l.store.CatchUp(t.Context(), node.CatchUpRequest{
			Lineage: 1, Begin: true, Marks: []node.Extent{end},
		}); err != nil {
			t.Fatal(err)
		}
		postgres.UseMark(l.store, "out", l.now.Add(-time.Minute), l.now)
		if got := l.claim(100); got != 0 {
			t.Fatalf("claimed %d while the store catches up", got)
		}
		l.take(1, time.Second) // passes the mark of the catch-up
		if got := l.claim(100); got != 21 {
			t.Errorf("claimed %d of 21 after the catch-up", got)
		}
	})
	t.Run("when only what has fallen due lately is asked for", func(t *testing.T) {
		l := newLane(t)
		l.take(20, time.Minute)
		postgres.UseMark(l.store, "out", l.now.Add(-time.Hour), l.now)
		if got := l.claimFrom(l.now.Add(-45*time.Second), 100); got != 5 {
			t.Fatalf("claimed %d of 5 that fell due lately", got)
		}
		if got := l.claim(100); got != 15 {
			t.Errorf("claimed %d of 15 above the mark", got)
		}
	})
	t.Run("when the sweep has used the share up", func(t *testing.T) {
		l := newLane(t)
		l.take(20, time.Minute)
		l.take(2, time.Minute+2*time.Second) // stragglers
		postgres.UseMark(l.store, "out", l.now.Add(-time.Minute), l.now)
		if got := l.claim(2); got != 2 {
			t.Fatalf("claimed %d of 2 stragglers", got)
		}
		if got := l.claim(100); got != 20 {
			t.Errorf("claimed %d of 20 above the mark", got)
		}
	})
}

// Names of lanes are made up, thousands of them, and each is claimed on for a while. Nothing is kept of one on which
// all was well, for a second at most of one that was looked at, and for ten minutes of the others.
func TestLooksForgetLanes(t *testing.T) {
	const many, dear, minute = 1000, 100 * time.Millisecond, time.Minute
	cancelled := &pgconn.PgError{Code: "57014"}
	for _, c := range []struct {
		what string
		each func(l *postgres.Looks, lane string)
		kept int           // of them, at first
		over time.Duration // when there are none any more
	}{
		{"cheap", func(l *postgres.Looks, lane string) { l.Done([]string{lane}, 0, nil) }, 0, 0},
		{"an error", func(l *postgres.Looks, lane string) { l.Done([]string{lane}, 0, errors.New("reset")) }, 0, 0},
		{"dear", func(l *postgres.Looks, lane string) { l.Done([]string{lane}, dear, nil) }, many, 10 * minute},
		{"given up", func(l *postgres.Looks, lane string) { l.Done([]string{lane}, 0, cancelled) }, many, 10 * minute},
		{"dear, then looked at", func(l *postgres.Looks, lane string) {
			l.Done([]string{lane}, dear, nil)
			l.Suspects(lane)
		}, many, time.Second},
		{"with a mark", func(l *postgres.Looks, lane string) { l.UseMark(lane, time.Now()) }, many, 10 * minute},
		{"a mark from which a look is given up", func(l *postgres.Looks, lane string) {
			l.UseMark(lane, time.Now())
			l.Done([]string{lane}, 0, cancelled)
		}, 2 * many, 10 * minute},
		{"a mark, and the dead are gone", func(l *postgres.Looks, lane string) {
			l.UseMark(lane, time.Now())
			for !l.Sweep(lane, 0).IsZero() {
			}
			l.Done(nil, 0, nil)
		}, 0, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l postgres.Looks
				for i := range many {
					c.each(&l, fmt.Sprint("made up ", i))
				}
				if n := l.Kept(); n != c.kept {
					t.Errorf("of %d lanes %d are kept, want %d", many, n, c.kept)
				}
				<-time.After(c.over)
				if l.Done(nil, 0, nil); l.Kept() > 0 {
					t.Errorf("%d are kept after %v", l.Kept(), c.over)
				}
			})
		})
	}
}

// Of a lane that is claimed on the mark is kept, however long that goes on, and that it was looked at for as long as it
// is not looked at again.
func TestLooksRememberLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l postgres.Looks
		mark := time.Now().Add(-time.Hour)
		l.UseMark("marked", mark)
		for i := range 3600 {
			l.Done([]string{"dear"}, 100*time.Millisecond, nil)
			if from := l.From("marked"); !from.Equal(mark) {
				t.Fatalf("a look begins at %v, want the mark at %v", from, mark)
			}
			if looks := l.Suspects("dear"); looks != (i%2 == 0) {
				t.Fatalf("after %d halves of a second it is %t that the lane is looked at", i, looks)
			}
			l.Done([]string{"another"}, 0, nil)
			<-time.After(time.Second / 2)
		}
	})
}
