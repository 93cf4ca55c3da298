package journal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/transfer"
)

// queue has a store take in messages of one line, by the order of their ids.
func (w *world) queue(store *journal.Store, ids ...string) {
	w.Helper()
	var items []node.Item
	for i, id := range ids {
		m := w.message(id)
		m.Line = uuid.UUID{15: 7}
		items = append(items, node.Item{Epoch: 1, Offset: int64(i), Action: node.Schedule, Message: m})
	}
	w.take(store, 0, items)
}

// turns has a store claim all that is due, and returns those that have their turn and those that have not, which stand
// back for an hour.
func (w *world) turns(store *journal.Store) (ready []node.Ready, back []string) {
	w.Helper()
	result, err := store.Claim(w.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: w.clock.Now(),
		Lanes: []node.Share{{Lane: output, Limit: 9, Bytes: 1 << 20}},
	})
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range result.Messages {
		if m.Turn == node.ItsTurn {
			ready = append(ready, m)
			continue
		}
		back = append(back, m.ID)
		if _, err := store.Reset(w.Context(), []node.Release{{
			Claim: m.Claim, Due: w.clock.Now().Add(time.Hour), Unsent: true, Behind: true,
		}}); err != nil {
			w.Fatal(err)
		}
	}
	return ready, back
}

// After a takeover in the middle of a line its order holds, whatever copy the new owner has: what was settled is gone,
// what was claimed and not settled comes first again, and nothing comes before it. Who is the owner no more settles
// nothing, and so lets nobody forward.
func TestLineTakeover(t *testing.T) {
	t.Parallel()
	for _, stands := range []bool{false, true} { // whether the new owner was one before, and has an old copy
		w := newWorld(t)
		own(t, w.stores[0], 0)
		w.queue(w.stores[0], "a", "b", "c", "d")
		if stands {
			own(t, w.stores[1], 0)
			w.turns(w.stores[1])
			own(t, w.stores[0], 0)
		}
		ready, back := w.turns(w.stores[0])
		if len(ready) != 1 || ready[0].ID != "a" || !slices.Equal(back, []string{"b", "c", "d"}) {
			t.Fatalf("%v have their turn, and %q stand back", ready, back)
		}
		deleted, err := w.stores[0].Settle(t.Context(), node.Removals(ready[0].Ref()))
		if err != nil || deleted[0] != node.Removed {
			t.Fatalf("delete: %v, %v", deleted, err)
		}
		second, back := w.turns(w.stores[0])
		if len(second) != 1 || second[0].ID != "b" || back != nil {
			t.Fatalf("%v have their turn, and %q stand back", second, back)
		}
		own(t, w.stores[1], 0)
		deleted, err = w.stores[0].Settle(t.Context(), node.Removals(second[0].Ref()))
		if err == nil && deleted[0] == node.Removed {
			t.Fatal("the former owner settles b")
		}
		if third, _ := w.turns(w.stores[0]); len(third) > 0 {
			t.Fatalf("the former owner goes on in the line, with %v", third)
		}
		w.clock.Advance(2 * time.Hour)
		for _, id := range []string{"b", "c", "d"} {
			ready, _ := w.turns(w.stores[1])
			if len(ready) != 1 || ready[0].ID != id {
				t.Fatalf("%v have their turn at the new owner, want %s", ready, id)
			}
			deleted, err := w.stores[1].Settle(t.Context(), node.Removals(ready[0].Ref()))
			if err != nil || deleted[0] != node.Removed {
				t.Fatalf("delete: %v, %v", deleted, err)
			}
		}
	}
}

// A settlement whose transaction is aborted lets nobody forward; one whose outcome is unknown neither, and the next
// owner finds out.
func TestLineUnsettled(t *testing.T) {
	t.Parallel()
	for _, fault := range []simulated.Step{{At: simulated.Appending}, {At: simulated.Ending}} {
		w := newWorld(t)
		own(t, w.stores[0], 0)
		w.queue(w.stores[0], "a", "b")
		ready, _ := w.turns(w.stores[0])
		w.cluster.Strike(func(s simulated.Step) simulated.Fault {
			if s.At == fault.At {
				return simulated.Lost
			}
			return simulated.None
		})
		if _, err := w.stores[0].Settle(context.Background(), node.Removals(ready[0].Ref())); err == nil {
			t.Fatal("settled without a transaction")
		}
		w.cluster.Strike(nil)
		if next, back := w.turns(w.stores[0]); len(next)+len(back) > 0 {
			t.Fatalf("%v have their turn, and %q stand back", next, back)
		}
		own(t, w.stores[1], 0)
		if next, _ := w.turns(w.stores[1]); len(next) != 1 || next[0].ID != "a" {
			t.Fatalf("%v have their turn at the new owner, want a", next)
		}
	}
}

// The messages of a line are moved where their key leads, and nowhere else.
func TestLineMoves(t *testing.T) {
	t.Parallel()
	m := transfer.Message{Message: node.Message{
		ID: "a", Lane: output, Line: uuid.UUID{15: 7}, Key: []byte("k"),
		Origin: node.Origin{Topic: "input", Partition: 1},
	}}
	for placing, refused := range map[journal.Placing]bool{journal.PlaceByKey: false, journal.PlaceByOrigin: true} {
		fit := journal.Fit{
			Partitions: 2, Input: input(), Placing: placing, Choose: func([]byte) int32 { return 0 },
		}
		fit.Add(&transfer.Batch{Messages: []transfer.Message{m}})
		if err := fit.Refusal(); err != nil != refused {
			t.Errorf("place %s: %v", placing, err)
		}
	}
}
