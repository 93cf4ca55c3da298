package node_test

import (
	"testing"
	"time"

	"chronos/node"
)

const pollEach = 100 * time.Millisecond // between two looks, in the tests of turns

// turns are the claims on a lane with a backlog, one each second.
type turns struct {
	node.Backlog

	t     *testing.T
	began time.Time
	now   time.Duration
}

// newTurns returns those of a lane on which a claim from the oldest on has left something.
func newTurns(t *testing.T) *turns {
	t.Helper()
	b := &turns{t: t, began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
	b.ask(node.FromOldest)
	b.oldest(500, true)
	return b
}

func (b *turns) lapsed() time.Time { return b.began.Add(b.now) }

// ask expects a claim to be for something, a second after the last one, and returns what it asks for.
func (b *turns) ask(want node.Look) (from time.Time) {
	b.t.Helper()
	b.now += time.Second
	look, from := b.Ask(b.now)
	if look != want {
		b.t.Fatalf("after %v a claim is for %v, want %v", b.now, look, want)
	}
	return from
}

func (b *turns) oldest(n int, more bool) { b.Oldest(n, b.now, b.lapsed(), pollEach, more) }

// late has a claim for what fell due lately bring so many.
func (b *turns) late(n int, more bool) {
	b.t.Helper()
	from := b.ask(node.ForLate)
	b.Lately(n, b.now, b.lapsed(), from, pollEach, more)
}

// Each look for what fell due lately is followed by a claim from the oldest on, also one that finds nothing, and though
// the next one is due by then. One that brings a thousand is followed by claims for a thousand.
func TestTurns(t *testing.T) {
	b := newTurns(t)
	for range 3 {
		b.late(0, false)
		b.ask(node.FromOldest)
		b.oldest(500, true)
	}
	b.late(1_000, false)
	for range 2 {
		b.ask(node.FromOldest)
		b.oldest(500, true)
	}
	b.ask(node.ForLate)
}

// A claim from the oldest on fails. What fell due lately is asked for until nothing is left of that, since the look
// before the failure, or the first one; then the oldest have their turn.
func TestTurnsAfterFailure(t *testing.T) {
	b := newTurns(t)
	b.late(0, false)
	looked := b.lapsed()
	b.ask(node.FromOldest)
	b.Failed(b.now, b.now+5*time.Second, b.lapsed())
	b.now += 5 * time.Second
	if from := b.ask(node.ForLate); from.After(looked.Add(-time.Second)) {
		t.Errorf("what fell due is asked for from %v on, after the last look was at %v", from, looked)
	}
	b.late(250, true)
	b.late(250, true)
	b.late(1, false)
	b.ask(node.FromOldest)
}

// However much falls due after a claim from the oldest on has failed, the next one follows after as long as that took.
func TestTurnsAfterFailureEnd(t *testing.T) {
	b := newTurns(t)
	b.late(0, false)
	b.ask(node.FromOldest)
	began := b.now
	b.Failed(began, began+5*time.Second, b.lapsed())
	for b.now += 5 * time.Second; b.now < began+10*time.Second; {
		b.late(250, true)
	}
	b.ask(node.FromOldest)
}
