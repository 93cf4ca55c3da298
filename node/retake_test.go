package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// The reply to a take is lost, and before it is tried again the store is set back, not as far as that, and another
// node, whose hold time is shorter, begins a new lineage. The claim that the second try is told of is of the lineage
// before: what it is on comes out when the store has caught up, and not earlier, since its cancel may come in again
// until then.
func TestRetakeIsToldOfFormerClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const due, caughtUp = 100 * time.Millisecond, 3 * time.Second // due within the lookahead: the take claims
		takes := 0
		w.submit("x", due)
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call != "take" {
				return nil, true
			}
			takes++
			if takes == 1 {
				return errInjected, true
			}
			if takes == 2 {
				if row := w.store.Dump()[0]; row.ReadiedAt.IsZero() {
					t.Error("the first take did not claim")
				}
				w.submit("next", due) // up to the mark
				state, err := w.store.CatchUp(t.Context(), node.CatchUpRequest{
					Lineage: 1, Begin: true, Marks: []node.Extent{{Partition: partition("in"), End: 2}},
				})
				if err != nil || state.Lineage != 2 || !state.CatchingUp || state.Holding {
					t.Errorf("the lineage begins with %+v, %v", state, err)
				}
			}
			if takes > 2 && time.Since(w.began) < caughtUp {
				return errInjected, false
			}
			return nil, true
		})
		pass(caughtUp)
		if got := w.on("out"); len(got) != 0 {
			t.Errorf("%d came out while the store was catching up", len(got))
		}
		pass(10 * time.Second)
		if got := w.values("out"); got["value x"] != 1 || got["value next"] != 1 {
			t.Errorf("delivered: %v", got)
		}
		w.empty()
	})
}

// A take is tried again and again while the store is away. It asks for the claim only as long as that could still be
// published: later a row that is claimed from the start would wait for the hold time, and nobody would publish it.
func TestRetakeAsksForNoOldClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		back := w.began.Add(c.PublishableAge() + time.Second)
		const due = 100 * time.Millisecond // within the lookahead, so that the first try asks for a claim
		var tries, claimed atomic.Int64
		w.submit("x", due)
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "take" && time.Now().Before(back) {
				tries.Add(1)
				return errInjected, false
			}
			return nil, true
		}).gate.after.Store(new(func(call string) {
			if call == "take" && !time.Now().Before(back) {
				for _, row := range w.store.Dump() {
					if !row.ReadiedAt.IsZero() {
						claimed.Add(1)
					}
				}
			}
		}))
		pass(c.PublishableAge() + 15*time.Second)
		if tries.Load() < 2 || claimed.Load() > 0 {
			t.Errorf("after %d tries that failed, x was taken in as claimed", tries.Load())
		}
		if got := w.on("out"); len(got) != 1 || got[0].at.Sub(back) > 3*time.Second {
			t.Errorf("%d came out, want one, soon after the store was back: %v", len(got), got)
		}
		w.empty()
	})
}

// Another node, which takes a partition for its own, has brought the position in a new lineage to where this node has
// it from the lineage before. From then on the position is one of the new lineage: when it is lower later, in the same
// one, the store was set back.
func TestPositionIsOfTheLineageInWhichItWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		place := []node.Place{{Partition: partition("in"), Position: node.Position{Epoch: node.UnknownEpoch}}}
		w.submit("before", 30*time.Second)
		first := w.run(config(0), nil)
		pass(3 * time.Second)
		first.stop()
		before := w.store.Snapshot() // the position is 1
		w.submit("x", 30*time.Second)
		w.run(config(1), nil)
		pass(3 * time.Second) // the position is 2
		if positions, state, err := w.store.Positions(t.Context(), place); err != nil || state.Lineage != 1 ||
			positions[0].Offset != 2 {
			t.Fatalf("positions %v, %+v, %v", positions, state, err)
		}

		// All of this between two looks of the node.
		w.store.Restore(before)
		state, err := w.store.CatchUp(t.Context(), node.CatchUpRequest{
			Lineage: 1, Begin: true, Marks: []node.Extent{{Partition: partition("in"), End: 1}},
		})
		if err != nil || state.Lineage != 2 {
			t.Fatalf("%+v, %v", state, err)
		}
		low := w.store.Snapshot() // lineage 2, position 1
		item := node.Item{Action: node.Pass, Offset: 1}
		place[0].Offset = 1
		if taken, err := w.store.Take(t.Context(), node.TakeRequest{
			From: place, Items: []node.Item{item},
		}); err != nil || taken.Taken != 1 || taken.Refused[0] {
			t.Fatalf("%+v, %v", taken, err)
		}
		pass(3 * time.Second) // the node looks, and finds its position
		if begun := seen[node.CatchingUp](w); len(begun) != 0 {
			t.Fatalf("lineages begun before the store was set back: %v", begun)
		}

		w.store.Restore(low)
		pass(15 * time.Second)
		if begun := seen[node.CatchingUp](w); len(begun) != 1 || begun[0].From != 2 || begun[0].To != 3 {
			t.Errorf("lineages begun: %v, want one, 3 after 2", begun)
		}
	})
}
