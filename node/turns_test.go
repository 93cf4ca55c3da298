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
func (b *turns) ask(want node.Look) (from, until time.Time) {
	b.t.Helper()
	b.now += time.Second
	look, from, until := b.Ask(b.now, b.lapsed())
	if look != want {
		b.t.Fatalf("after %v a claim is for %v, want %v", b.now, look, want)
	}
	return from, until
}

func (b *turns) oldest(n int, more bool) { b.Oldest(n, b.now, b.lapsed(), pollEach, more) }

// late has a claim for what fell due lately bring so many.
func (b *turns) late(n int, more bool) {
	b.t.Helper()
	from, _ := b.ask(node.ForLate)
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
	if from, _ := b.ask(node.ForLate); from.After(looked.Add(-time.Second)) {
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

// Between two looks for what fell due lately there is one for the occurrences that a round has left behind, until none
// are left.
func TestTurnsOfOccurrences(t *testing.T) {
	b := newTurns(t)
	b.late(0, false)
	first, last := b.began.Add(-time.Hour), b.began.Add(-time.Minute)
	for _, at := range []time.Time{last, first, first.Add(time.Second), b.lapsed()} {
		b.Recurred(at, b.lapsed())
	}
	b.ask(node.FromOldest)
	b.oldest(500, true)
	for range 3 {
		from, until := b.ask(node.ForMissed)
		if !from.Equal(first) || !until.Equal(last) {
			t.Fatalf("occurrences are looked for from %v to %v, want %v and %v", from, until, first, last)
		}
		b.Sought(0, b.now, true)
		b.ask(node.FromOldest)
		b.oldest(500, true)
		b.late(0, false)
		b.ask(node.FromOldest)
		b.oldest(500, true)
	}
	b.ask(node.ForMissed)
	b.Sought(1, b.now, false)
	b.ask(node.FromOldest)
	b.oldest(500, true)
	b.late(0, false)
	b.ask(node.FromOldest)
	b.oldest(500, true)
	b.ask(node.ForLate)
}

// On a lane without a backlog there is no look for what fell due lately between two claims. Occurrences that are left
// behind there are looked for once after each claim.
func TestTurnsOfOccurrencesAlone(t *testing.T) {
	b := newTurns(t)
	b.ask(node.ForLate)
	b.Recurred(b.began.Add(-time.Hour), b.lapsed())
	b.oldest(1, false)
	for range 3 {
		b.ask(node.ForMissed)
		b.Sought(1, b.now, true)
		b.ask(node.FromOldest)
		b.oldest(1, false)
	}
}

// In a rest nothing is asked for but what fell due lately, and that is owed to nobody: after it the first look is due
// as ever, and one claim from the oldest on follows.
func TestTurnsInARest(t *testing.T) {
	b := newTurns(t)
	b.late(1, false)
	b.ask(node.FromOldest)
	b.oldest(500, true)
	b.Took(5*time.Second, time.Minute, b.now, b.lapsed(), true, true)
	for range 4 {
		b.late(500, false)
	}
	b.now += time.Second
	b.late(1, false)
	b.ask(node.FromOldest)
	b.oldest(1, true)
	b.ask(node.ForLate) // not before as many of the oldest as came in the rest
}

// A claim that took long is followed by a rest as long, be it the last one of a round or not. A round that took less
// than a second is followed by a rest until that is over, which does not make a longer one shorter.
func TestRoundRests(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		over bool
		rest time.Duration
	}{
		"short, in between": {10 * time.Millisecond, false, 0},
		"short, the last":   {10 * time.Millisecond, true, 990 * time.Millisecond},
		"long, in between":  {5 * time.Second, false, 5 * time.Second},
		"long, the last":    {5 * time.Second, true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := &turns{t: t, began: time.Now(), now: time.Minute}
			started, to := b.now, time.Time{}
			if b.now += c.took; !c.over {
				to = b.began
			}
			b.Took(c.took, 10*time.Second, b.now, b.lapsed(), true, true)
			b.Claimed(started, nil, to)
			for at, want := range map[time.Duration]bool{c.rest - 1: true, c.rest: false} {
				if look, _, _ := b.Ask(b.now+at, b.lapsed()); (look == node.ForLate) != want && c.rest > 0 {
					t.Errorf("%v after the claim it rests: %v, want %v", at, !want, want)
				}
			}
			if look, _, _ := b.Ask(b.now, b.lapsed()); c.rest == 0 && look != node.FromOldest {
				t.Error("it rests, for nothing")
			}
		})
	}
}

// Claims that take long go through less of the time each, from the first message of the last round on or from the
// cursor on, but through a second at least; then through more again, up to all there is.
func TestRoundWidth(t *testing.T) {
	const most = 16 * time.Second
	b := &turns{t: t, began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
	first := b.began.Add(-time.Hour)
	ask := func() time.Duration { // how far it goes
		b.now += time.Minute
		_, _, until := b.Ask(b.now, b.began)
		if until.IsZero() {
			return 0
		}
		return until.Sub(first)
	}
	took := func(took time.Duration, through bool) {
		b.now += time.Minute // no rest is as long
		_, _, until := b.Ask(b.now, b.began)
		whole := until.IsZero()
		if whole {
			until = b.began
		}
		b.Took(took, most, b.now, until, whole, through)
	}
	ask()
	took(most, false)
	if got := ask(); got != 0 {
		t.Fatalf("a claim goes through %v, from nobody knows where on", got)
	}
	b.Claimed(b.now, &node.Ready{Due: first}, time.Time{})
	took(most, false) // the first one of the next round
	if got := ask(); got != time.Hour/2 {
		t.Errorf("after one that did not get through, from where the last round began, a claim goes through %v", got)
	}
	took(most/10, true)
	if got := ask(); got != 0 {
		t.Errorf("after one that took little for half an hour, a claim goes through %v, and not through all", got)
	}
	took(most, false)
	took(most, false)
	took(most/10, true)
	if got := ask(); got != time.Hour/2 {
		t.Errorf("after one that took little for a quarter of an hour, a round begins with %v", got)
	}
	b.Took(0, most, b.now, b.began, true, true)
	b.Claimed(b.now, &node.Ready{Due: first}, first) // in the middle of a round, with the cursor there
	took(most, false)
	if got := ask(); got != time.Hour/2 {
		t.Errorf("after one that did not get through an hour, a claim goes through %v", got)
	}
	took(most/2, true)
	if got := ask(); got != time.Hour/4 {
		t.Errorf("after one that took long for half an hour, a claim goes through %v", got)
	}
	took(most/10, true)
	if got := ask(); got != time.Hour/2 {
		t.Errorf("after one that took little for a quarter of an hour, a claim goes through %v", got)
	}
	for range 30 {
		took(most, false)
		ask()
	}
	if got := ask(); got != time.Second {
		t.Errorf("after many that did not get through, a claim goes through %v", got)
	}
	for range 12 {
		took(0, true)
		ask()
	}
	if got := ask(); got != 0 {
		t.Errorf("after many that took nothing, a claim goes through %v", got)
	}
}

// A round that has claimed nothing at its beginning says nothing of where the next one begins, whatever the one before
// has found there: a claim that does not get through is followed by one for all there is.
func TestRoundBeginsNowhere(t *testing.T) {
	const most = 16 * time.Second
	b := &turns{began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
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
	b := &turns{began: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), now: time.Minute}
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
