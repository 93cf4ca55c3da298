package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

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
