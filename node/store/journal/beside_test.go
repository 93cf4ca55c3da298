package journal_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/journal"
)

// hook is a callback lane.
const hook = "http:hook"

// letter has a store keep the dead letter of a callback, and returns what became of that.
func (w *world) letter(of node.Ref) (node.Outcome, error) {
	letter := w.message("letter of " + of.ID)
	letter.Lane = deadLetters
	result, err := w.stores[0].Take(w.Context(), node.TakeRequest{
		Node: uuid.UUID{2}, Hold: time.Minute,
		Items: []node.Item{{From: node.NoPlace, Action: node.Schedule, Message: letter, Beside: of}},
	})
	if err == nil && result.Refusal != "" {
		err = errors.New(result.Refusal)
	}
	if err != nil {
		return node.Untaken, err
	}
	return result.Results[0].Outcome, nil
}

// The dead letter of a callback that is given up is kept where the callback is, since no other place is known for it.
// It once was refused, as everything is that brings a message past the input topic: so the engine took it for one that
// no store can ever keep, ended the callback, and the letter was lost. Who is the owner no more keeps none, nor is one
// kept of what is not there any more.
func TestDeadLetterBeside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	m, other := w.message("x"), w.message("y")
	m.Lane, other.Lane = hook, hook
	w.take(w.stores[0], 0, []node.Item{
		{Epoch: 1, Action: node.Schedule, Message: m}, {Epoch: 1, Offset: 1, Action: node.Schedule, Message: other},
	})
	for _, want := range []node.Outcome{node.Scheduled, node.Duplicate} {
		if got, err := w.letter(m.Ref()); got != want || err != nil {
			t.Fatalf("the letter is %v, %v, want %v", got, err, want)
		}
	}
	another := m.Ref()
	another.Incarnation = uuid.UUID{9}
	if got, err := w.letter(another); got != node.Untaken || err != nil {
		t.Errorf("the letter of what is not there is %v, %v", got, err)
	}
	own(t, w.stores[1], 0) // it knows of all
	if rows, err := w.stores[1].Dump(); err != nil || len(rows) != 3 {
		t.Errorf("the next owner has %v, %v", rows, err)
	}
	if got, err := w.letter(other.Ref()); err == nil {
		t.Errorf("who is the owner no more says of the letter that it is %v", got)
	}
}

// A callback that is due when its partition changes hands, or soon after, may be in the hands of whoever owned that
// before, also if that was this node: so to cancel it is too late, and it comes out. It once was cancelled, and its
// request was made all the same. What was taken in since then, or is due later, is cancelled as ever.
func TestCancelOfCallbackAfterTakeover(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		w := newWorld(t)
		first, next := w.stores[0], w.stores[1]
		if same {
			next = first
		}
		own(t, first, 0)
		var items []node.Item
		for offset, id := range []string{"claimed", "later", "replaced"} {
			m := w.message(id)
			if m.Lane = hook; id == "later" {
				m.Deadline = m.Deadline.Add(time.Hour)
			}
			items = append(items, node.Item{Epoch: 1, Offset: int64(offset), Action: node.Schedule, Message: m})
		}
		w.take(first, 0, items)
		own(t, next, 0)
		fresh := w.message("fresh")
		fresh.Lane = hook
		items = []node.Item{{Action: node.Schedule, Message: fresh}}
		for _, id := range []string{"claimed", "later", "fresh"} {
			items = append(items, node.Item{Action: node.Cancel, Message: node.Message{ID: id, Lane: hook}})
		}
		again := w.message("replaced")
		again.Lane = hook
		items = append(items, node.Item{Action: node.Replace, Message: again},
			node.Item{Action: node.Cancel, Message: node.Message{ID: "replaced", Lane: hook}})
		for i := range items {
			items[i].Epoch, items[i].Offset = 1, int64(3+i)
		}
		place := []node.Place{{Partition: input(), Position: node.Position{Epoch: 1, Offset: 3}}}
		var got []node.Outcome
		for i := range items { // one by one, as nothing that one take brings and removes is ever stored
			place[0].Offset = items[i].Offset
			result, err := next.Take(t.Context(), node.TakeRequest{From: place, Items: items[i : i+1]})
			if err != nil || result.Refused[0] {
				t.Fatalf("take: %+v, %v", result, err)
			}
			got = append(got, result.Results[0].Outcome)
		}
		want := []node.Outcome{
			node.Scheduled, node.TooLate, node.Cancelled, node.Cancelled, node.Replaced, node.Cancelled,
		}
		if !slices.Equal(got, want) {
			t.Errorf("by the same node %v: %v, want %v", same, got, want)
		}
	}
}

// Where messages are claimed long before they fall due, by a large lookahead or timing advance, whoever owned the
// partition before may have claimed what falls due as long after the takeover. It once was cancelled, and its request
// was made all the same. That owner may have claimed for a moment longer, until he knows that the partition is lost.
func TestCancelOfCallbackClaimedFarAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const ahead = 30 * time.Second
	for _, store := range w.stores {
		store.ClaimAhead(ahead)
	}
	own(t, w.stores[0], 0)
	var items []node.Item
	for offset, in := range []time.Duration{ahead, ahead + 9*time.Second, ahead + time.Hour} {
		m := w.message(in.String())
		m.Lane, m.Deadline = hook, m.Deadline.Add(in)
		items = append(items, node.Item{Epoch: 1, Offset: int64(offset), Action: node.Schedule, Message: m})
	}
	w.take(w.stores[0], 0, items)
	claimed, err := w.stores[0].Claim(t.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Hour, Until: w.clock.Now().Add(ahead),
		Lanes: []node.Share{{Lane: hook, Limit: 9, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 1 {
		t.Fatalf("claimed %v, %v", claimed.Messages, err)
	}
	own(t, w.stores[1], 0)
	for i, want := range []node.Outcome{node.TooLate, node.TooLate, node.Cancelled} {
		result, err := w.stores[1].Take(t.Context(), node.TakeRequest{Items: []node.Item{{
			From: node.NoPlace, Action: node.Cancel, Message: node.Message{ID: items[i].ID, Lane: hook},
		}}})
		if err != nil || result.Results[0].Outcome != want {
			t.Errorf("cancel what is due in %s: %+v, %v, want %v", items[i].ID, result, err, want)
		}
	}
}

// More callbacks are stored that are overdue already than a node keeps in mind: those that it does not keep in mind may
// be in the hands of whoever owned the partition before, for all it knows. When they are gone it minds others.
func TestFreshIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	const more = 1000
	cancel := func(name int) node.Outcome {
		result, err := w.stores[0].Take(t.Context(), node.TakeRequest{Items: []node.Item{{
			From: node.NoPlace, Action: node.Cancel, Message: node.Message{ID: strconv.Itoa(name), Lane: hook},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return result.Results[0].Outcome
	}
	store := func(from, to int) {
		var items []node.Item
		for i := from; i < to; i++ {
			m := w.message(strconv.Itoa(i))
			m.Lane, m.Incarnation = hook, uuid.New()
			items = append(items, node.Item{Epoch: 1, Offset: int64(i), Action: node.Schedule, Message: m})
		}
		w.take(w.stores[0], int64(from), items)
	}
	for i := 0; i < journal.MaxFresh+more; i += more {
		store(i, i+more)
	}
	if n := w.stores[0].Fresh(); n != journal.MaxFresh {
		t.Errorf("%d messages are kept in mind, want %d", n, journal.MaxFresh)
	}
	first, last := cancel(0), cancel(journal.MaxFresh)
	if first != node.Cancelled || last != node.TooLate {
		t.Errorf("the first one is %v, and the first beyond %v", first, last)
	}
	store(journal.MaxFresh+more, journal.MaxFresh+more+1)
	if got := cancel(journal.MaxFresh + more); got != node.Cancelled {
		t.Errorf("one that is stored when another is gone is %v", got)
	}
}

// What has fallen due on a callback lane while that was paused nobody has claimed, and so it can be cancelled after a
// takeover as before it: a lane is paused to do just that. What was due before may have been claimed.
func TestCancelOfCallbackOnPausedLane(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	h.bringTo(hook, 0, "before")
	h.wish(0, hook, true)
	if err := h.stores[0].Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(30 * time.Second)
	h.bringTo(hook, 0, "meanwhile")
	own(t, h.stores[1], 0)
	for id, want := range map[string]node.Outcome{"before": node.TooLate, "meanwhile": node.Cancelled} {
		result, err := h.stores[1].Take(t.Context(), node.TakeRequest{Items: []node.Item{{
			From: node.NoPlace, Action: node.Cancel, Message: node.Message{ID: id, Lane: hook},
		}}})
		if err != nil || result.Results[0].Outcome != want {
			t.Errorf("cancel %s: %+v, %v, want %v", id, result, err, want)
		}
	}
}
