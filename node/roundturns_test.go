package node_test

import (
	"testing"
	"time"

	"chronos/node"
)

// A round that has claimed nothing at its beginning says nothing of where the next one begins, whatever the one before
// has found there: a claim that does not get through is followed by one for all there is.
func TestRoundBeginsNowhere(t *testing.T) {
	const most = 16 * time.Second
	b := &turns{t: t, began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
	b.Claimed(b.now, &node.Ready{Due: b.began.Add(-time.Hour)}, time.Time{})
	b.Claimed(b.now, nil, time.Time{})
	b.Took(most, most, b.now, b.began, true, false)
	if _, _, until := b.Ask(b.now+time.Minute, b.began); !until.IsZero() {
		t.Errorf("a claim goes up to %v, from nobody knows where on", until)
	}
}

// A claim that takes between an eighth and a quarter of its limit is followed by one that goes through as much.
func TestRoundWidthStays(t *testing.T) {
	const most = 16 * time.Second
	b := &turns{t: t, began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
	first := b.began.Add(-time.Hour)
	b.Claimed(b.now, &node.Ready{Due: first}, time.Time{})
	b.Took(most, most, b.now, b.began, true, false)
	b.Took(most/6, most, b.now, first.Add(time.Hour/2), false, true)
	if _, _, until := b.Ask(b.now+time.Minute, b.began); until.Sub(first) != time.Hour/2 {
		t.Errorf("a claim goes up to %v, want half an hour from %v on", until, first)
	}
}

// A look in a rest begins a second before the claim that the rest follows: a message may be stored that late.
func TestRestBeginsLate(t *testing.T) {
	b := &turns{t: t, began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
	lapsed := b.lapsed()
	b.Took(5*time.Second, time.Minute, b.now, lapsed, true, true)
	b.Rest(b.now, lapsed, 100*time.Millisecond)
	if look, from, _ := b.Ask(b.now, lapsed); look != node.ForLate || !from.Equal(lapsed.Add(-time.Second)) {
		t.Errorf("what is asked for is %v from %v on, a second before %v is due", look, from, lapsed)
	}
}

// A series that is behind has a later occurrence after an earlier one: the look for those left behind reaches both.
func TestTurnsOfLaterOccurrences(t *testing.T) {
	b := newTurns(t)
	b.late(0, false)
	first, last := b.began.Add(-time.Hour), b.began.Add(-time.Minute)
	b.Recurred(first, b.lapsed())
	b.Recurred(last, b.lapsed())
	b.ask(node.FromOldest)
	b.oldest(500, true)
	if from, until := b.ask(node.ForMissed); !from.Equal(first) || !until.Equal(last) {
		t.Errorf("occurrences are looked for from %v to %v, want %v and %v", from, until, first, last)
	}
}
