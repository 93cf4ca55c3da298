package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// wade is a store as it is while somebody holds a snapshot of it: on lanes called out… a claim wades through what has
// fired, at hour for each hour of it, and runs into the time limit where that is more. What waits is where it fell due.
type wade struct {
	node.Store

	rows         *memory.Store
	hour         time.Duration
	row          time.Duration // what each message costs that a claim returns
	since        time.Time     // nothing has fired that fell due before
	limit        time.Duration
	claims, late atomic.Int64
}

// wading returns a store that wades, if that of the world does.
func (w *world) wading(store node.Store) node.Store {
	if w.wade == nil {
		return store
	}
	w.wade.Store = store
	return w.wade
}

func (s *wade) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	s.claims.Add(1)
	cost := 5 * time.Millisecond
	for _, share := range request.Lanes {
		if strings.HasPrefix(share.Lane, "out") {
			cost += s.cost(share, share.Latest(request.Until))
		}
	}
	pass(min(cost, s.limit))
	if cost > s.limit {
		s.late.Add(1)
		return node.ClaimResult{}, context.DeadlineExceeded
	}
	return s.Store.Claim(ctx, request)
}

// cost is what it takes to find what a share asks for.
func (s *wade) cost(share node.Share, to time.Time) time.Duration {
	rows := slices.DeleteFunc(s.rows.Dump(), func(r memory.Row) bool {
		return r.Lane != share.Lane || r.ReadiedBy != uuid.Nil || r.Due.Before(share.From) || r.Due.After(to)
	})
	slices.SortFunc(rows, func(a, b memory.Row) int { return a.Due.Compare(b.Due) })
	if len(rows) >= share.Limit {
		to = rows[share.Limit-1].Due
	}
	from := s.since
	if share.From.After(from) {
		from = share.From
	}
	cost := time.Duration(min(len(rows), share.Limit)) * s.row
	return cost + max(0, time.Duration(float64(to.Sub(from))/float64(time.Hour)*float64(s.hour)))
}

// While somebody holds a snapshot, what waits for a silent partition for an hour has all behind it that has fired
// since, and a claim does not get through that. What falls due meanwhile comes out all the same, on a node that has
// just started, too; so does what is long overdue, and when the partition is back, what waits for it.
func TestSilentWade(t *testing.T) {
	for _, waiting := range []int{0, 1, 100, 1_000} {
		for _, hour := range []time.Duration{800 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
			t.Run(fmt.Sprintf("%d, %v for an hour", waiting, hour), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { silentWade(t, waiting, hour) })
			})
		}
	}
}

func silentWade(t *testing.T, waiting int, hour time.Duration) {
	w := newWorld(t)
	silence := w.silent()
	fill(t, w.store, waiting)
	store := &wade{rows: w.store, hour: hour, since: w.began.Add(-time.Hour), limit: 1500 * time.Millisecond}
	w.wade = store
	w.run(config(0), nil)
	pass(time.Minute)
	late := w.lateness(w.prompt(600, 100*time.Millisecond))
	p90, most := 400*time.Millisecond, time.Second
	if waiting == 0 {
		p90, most = 2*time.Second, 2*time.Second // each claim from the oldest on runs into its time limit
	}
	if got, last := late[len(late)*9/10], late[len(late)-1]; got > p90 || last > most {
		t.Errorf("nine of ten came %v late, and the last one %v", got, last)
	}
	if most := silence.most(5 * time.Second); most > 2*waiting {
		t.Errorf("%d tries in a second, of %d", most, waiting)
	}
	t.Logf("late by %v, %v for nine of ten, %v at most; %d claims, %d ran into their time limit", late[len(late)/2],
		late[len(late)*9/10], late[len(late)-1], store.claims.Load(), store.late.Load())
	if waiting == 0 {
		return // what is overdue at all is found by the marks of a store, which this one does not have
	}
	w.stored(node.Message{ID: "overdue", Lane: "out", Deadline: time.Now().Add(-10 * time.Minute)})
	pass(5*hour + 10*time.Second) // two rounds, half of each rests
	if got := w.values("out")["value overdue"]; got != 1 {
		t.Errorf("what is long overdue came out %d times", got)
	}
	w.answers()
	pass(5*hour + 10*time.Second)
	if got := len(w.on("out")); got != 601+waiting {
		t.Errorf("%d came out, of %d", got, 601+waiting)
	}
}
