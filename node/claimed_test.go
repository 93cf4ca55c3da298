package node_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// A claim fails when the store has claimed a part already, and tells of that part: it comes out on time, and the call
// counts as failed. Of the rest nobody knows, so that comes out when its claims have expired.
func TestClaimFailsWithMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, 2)
		r := w.run(config(0), nil)
		failed := false
		claimed := func(result node.ClaimResult) (node.ClaimResult, error) {
			if failed || len(result.Messages) < 2 {
				return result, nil
			}
			failed = true
			result.Messages = result.Messages[:1]
			return result, errInjected
		}
		r.gate.claimed.Store(&claimed)
		pass(time.Second)
		if n := len(w.on("out")); !failed || n != 1 {
			t.Errorf("%d came out, want the one of which the store has told", n)
		}
		if failures := seen[node.Failed](w); len(failures) != 1 || failures[0].Call != "claim" {
			t.Errorf("the failures are %+v, want that of the claim", failures)
		}
		pass(2 * config(0).HoldTime)
		if n := len(w.on("out")); n != 2 {
			t.Errorf("%d came out, want both", n)
		}
	})
}

// unreadable makes the answers to claims of a store that cannot read some messages of the lane "out".
func unreadable(bad func(node.Ready) bool) func(node.ClaimResult) (node.ClaimResult, error) {
	return func(result node.ClaimResult) (node.ClaimResult, error) {
		if slices.ContainsFunc(result.Messages, bad) {
			result.Messages = slices.DeleteFunc(result.Messages, bad)
			result.Unreadable = []string{"out"}
		}
		return result, nil
	}
}

// What a claim has claimed cannot be read, all of it or a part. What waits behind it is claimed at once, and not only
// after the poll interval.
func TestBehindTheUnreadable(t *testing.T) {
	for _, bad := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			fill(t, w.store, 25)
			c := config(0)
			c.Batch, c.PollInterval = 10, time.Second
			claimed := unreadable(func(m node.Ready) bool { return m.ID < "old"+id(bad) })
			w.run(c, nil).gate.claimed.Store(&claimed)
			pass(c.PollInterval / 2)
			if n := len(w.on("out")); n != 25-bad {
				t.Errorf("with %d unreadable %d came out, want %d", bad, n, 25-bad)
			}
		})
	}
}

// Beside a silent partition claims go round, and one of them finds nothing but what cannot be read. The round goes on
// at once with what is there beside that.
func TestRoundOfTheUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.silent()
		fill(t, w.store, 5)
		c := config(0)
		c.Batch = 10
		var met time.Time
		claimed := unreadable(func(m node.Ready) bool {
			bad := strings.HasPrefix(m.ID, "bad")
			if bad {
				met = time.Now()
			}
			return bad
		})
		w.run(c, nil).gate.claimed.Store(&claimed)
		pass(2500 * time.Millisecond)
		var request node.TakeRequest
		for i := range 20 {
			m := node.Message{ID: "bad" + id(i), Lane: "out", Incarnation: uuid.New()}
			if m.Deadline = time.Now().Add(-2 * time.Hour).UTC(); i >= 10 {
				m.ID, m.Value, m.Deadline = id(i), []byte("value"), m.Deadline.Add(time.Hour+time.Minute)
			}
			request.Items = append(request.Items, node.Item{From: node.NoPlace, Action: node.Schedule, Message: m})
		}
		if _, err := w.store.Take(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		pass(2500 * time.Millisecond)
		for _, d := range w.on("out") {
			if wait := d.at.Sub(met); wait > 500*time.Millisecond { // the rest after a round is up to a second
				t.Errorf("%s came out after %v", d.Value, wait)
			}
		}
		if n := len(w.on("out")); n != 10 || met.IsZero() {
			t.Errorf("%d came out, want 10", n)
		}
	})
}
