package journal_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/node"
)

// Whoever claims, or asks for the lanes, does not step over what has been fired each time: the more has come out since
// the last compaction of the local copy, the longer all would wait for it. Nothing is overlooked for that: what falls
// due before all that was there is found, and lanes that nobody has claimed on. Method: a lane is fired empty, and keys
// that are stepped over are counted; then messages come for that lane and for others.
func TestNothingIsSteppedOverTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	const many = 1000
	var items []node.Item
	var messages []node.Message
	for i := range int64(many) {
		m := w.message(fmt.Sprint(i))
		items = append(items, node.Item{Epoch: 1, Offset: i, Action: node.Schedule, Message: m})
		messages = append(messages, m)
	}
	w.take(store, 0, items)
	lanes := func(want ...string) {
		t.Helper()
		if got, err := store.Parts(t.Context()); err != nil || !slices.Equal(node.LanesOf(got), want) {
			t.Errorf("lanes: %q, %v, want %q", got, err, want)
		}
	}
	if err := publish(t.Context(), store, messages...); err != nil {
		t.Fatal(err)
	}
	w.claim(store, 1)
	before := store.Steps()
	for range 10 {
		if got := w.claim(store, 1); len(got) > 0 {
			t.Fatalf("claimed %v", got)
		}
		lanes()
	}
	if steps := store.Steps() - before; steps > many/10 {
		t.Errorf("20 calls have stepped over %d keys, where %d messages had been fired", steps, many)
	}
	items = nil
	for i, lane := range []string{"a", output, output, "z"} {
		m := w.message(fmt.Sprint("later ", i))
		m.Lane, m.Deadline = lane, m.Deadline.Add(-time.Duration(i)*time.Hour)
		items = append(items, node.Item{Epoch: 1, Offset: int64(many + i), Action: node.Schedule, Message: m})
	}
	w.take(store, many, items[:2])
	lanes("a", output)
	w.take(store, many+2, items[2:])
	lanes("a", output, "z")
	if got := w.claim(store, 9); len(got) != 2 || got[0].ID != "later 2" || got[1].ID != "later 1" {
		t.Errorf("claimed %v, want what fell due before all else, and what fell due then", got)
	}
	lanes("a", "z")
}

// What is claimed is stepped over once, and not by each claim anew: a node holds thousands of claims on a lane, and
// makes the next ones all the time. Nothing is overlooked for that. Method: all that waits, at one instant, is claimed
// bit by bit, and keys that are stepped over are counted; then a claim is given back, another one is given back with an
// earlier instant, and a message that is claimed is replaced: each is claimed again, alone.
func TestClaimsAreSteppedOverOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	const many, step = 1000, 10
	var items []node.Item
	for i := range int64(many) {
		items = append(items, node.Item{
			Epoch: 1, Offset: i, Action: node.Schedule, Message: w.message(fmt.Sprintf("%04d", i)),
		})
	}
	w.take(store, 0, items)
	var claims []node.Ready
	before := store.Steps()
	for len(claims) < many {
		some := w.claim(store, step)
		if len(some) != step || some[0].ID != fmt.Sprintf("%04d", len(claims)) {
			t.Fatalf("claimed %d messages from %q on behind %d", len(some), some[0].ID, len(claims))
		}
		claims = append(claims, some...)
	}
	if steps := store.Steps() - before; steps > 2*many {
		t.Errorf("claims of %d messages, %d at a time, have stepped over %d keys", many, step, steps)
	}
	again := func(what string, back *node.Ready) {
		t.Helper()
		if got := w.claim(store, step); len(got) != 1 || got[0].ID != back.ID {
			t.Errorf("%s: claimed %v, want message %s alone", what, got, back.ID)
		}
	}
	giveBack := func(back *node.Ready, due time.Time) {
		t.Helper()
		reset, err := store.Reset(t.Context(), []node.Release{{Claim: back.Claim, Due: due}})
		if err != nil || reset[0] != node.Freed {
			t.Fatal(reset, err)
		}
	}
	if got := w.claim(store, step); len(got) > 0 {
		t.Fatalf("claimed %v, which is claimed", got)
	}
	giveBack(&claims[7], time.Time{})
	again("given back", &claims[7])
	giveBack(&claims[900], w.clock.Now().Add(-time.Hour))
	again("given back to an earlier instant", &claims[900])
	replaced := node.Item{Epoch: 1, Offset: many, Action: node.Replace, Message: w.message(claims[3].ID)}
	w.take(store, many, []node.Item{replaced})
	again("replaced", &claims[3])
}

// What is due at the same instant in several partitions is claimed by the order of ids, whichever partition it is in.
func TestClaimsByIDAcrossPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster.CreateTopic(topicName, 3, 0)
	own(t, w.stores[0], 0, 1, 2)
	for number, id := range []string{"b", "c", "a"} {
		place := node.Place{Partition: input(), Position: node.Position{Epoch: -1}}
		place.Number = int32(number)
		if _, _, err := w.stores[0].Positions(t.Context(), []node.Place{place}); err != nil {
			t.Fatal(err)
		}
		result, err := w.stores[0].Take(t.Context(), node.TakeRequest{
			From:  []node.Place{place},
			Items: []node.Item{{Epoch: 1, Action: node.Schedule, Message: w.message(id)}},
		})
		if err != nil || result.Refused[0] {
			t.Fatalf("take: %+v, %v", result, err)
		}
	}
	for _, want := range []string{"a", "b", "c"} {
		if claimed := w.claim(w.stores[0], 1); len(claimed) != 1 || claimed[0].ID != want {
			t.Errorf("claimed %+v, want %s", claimed, want)
		}
	}
}
