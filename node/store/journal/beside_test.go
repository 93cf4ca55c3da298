package journal_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
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
	if err != nil || result.Taken != 1 {
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
