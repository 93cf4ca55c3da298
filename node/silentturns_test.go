package node_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// asked is what the last claim of a node asked for.
type asked struct {
	last  atomic.Pointer[node.ClaimRequest]
	least atomic.Int64 // the lowest limit of those for what fell due lately; 0 if there was none
}

// follow has it told of each claim of a node.
func (a *asked) follow(r *running) {
	asks := func(r node.ClaimRequest) {
		a.last.Store(&r)
		if least := a.least.Load(); a.late() && (least == 0 || int64(r.Lanes[0].Limit) < least) {
			a.least.Store(int64(r.Lanes[0].Limit))
		}
	}
	r.gate.asks.Store(&asks)
}

// late reports whether the last claim was for what fell due lately.
func (a *asked) late() bool {
	r := a.last.Load()
	return r != nil && !r.Lanes[0].From.IsZero()
}

// Claims of one kind run into their time limit: those for what fell due lately, after one from the oldest on has, or
// all from the oldest on. The others have their turn all the same, and are as large as ever.
func TestTurnsOfASlowStore(t *testing.T) {
	for _, oldest := range []bool{true, false} {
		t.Run(fmt.Sprintf("from the oldest on %v", oldest), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fill(t, w.store, 2_000)
				var a asked
				claims := 0
				r := w.run(config(0), func(_ int, call string) (error, bool) {
					if call != "claim" {
						return nil, true
					}
					if claims++; claims == 1 || a.late() != oldest {
						pass(1500 * time.Millisecond)
						return errInjected, false
					}
					return nil, true
				})
				a.follow(r)
				if oldest {
					w.prompt(300, 100*time.Millisecond)
				}
				pass(time.Minute)
				if got := len(w.on("out")); oldest && got < 300 || !oldest && got != 2_000 {
					t.Errorf("%d came out", got)
				}
				if least := a.least.Load(); oldest && least < 100 {
					t.Errorf("a look for what fell due lately was for %d messages at most", least)
				}
			})
		})
	}
}

// Thousands that wait for a silent partition were due at one instant, and one for another partition as well. It comes
// out in the first round.
func TestSilentBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.silent()
		fill(t, w.store, 10_000)
		w.stored(node.Message{ID: "z", Lane: "out", Deadline: time.Now().Add(-time.Hour)})
		w.prompt(1, 0)
		w.run(config(0), busy)
		pass(3 * time.Second)
		if got := w.values("out")["value z"]; got != 1 {
			t.Errorf("it came out %d times", got)
		}
	})
}

// A partition is back in the middle of a round. What the round has come by already comes out as well, although nothing
// is tried in vain any more.
func TestSilentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 4_000
		w := newWorld(t)
		w.silent()
		w.overdue(waiting, time.Second)
		w.beside(60)
		c := besideAnother()
		c.Paces = []node.LanePace{{Lane: "out", PerSecond: 100}}
		w.run(c, busy)
		pass(3 * time.Second)
		w.answers()
		pass(50 * time.Second)
		if got := len(w.on("out")); got != waiting {
			t.Errorf("%d of %d came out", got, waiting)
		}
	})
}

// What falls due for a silent partition is tried two or three times in the first two seconds, and not at each look.
func TestSilentAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		silence := w.silent()
		w.submit("silent-1", time.Second)
		w.run(config(0), nil)
		w.prompt(30, 100*time.Millisecond)
		silence.mu.Lock()
		defer silence.mu.Unlock()
		if got := silence.tries[time.Second] + silence.tries[2*time.Second]; got < 2 || got > 3 {
			t.Errorf("it was tried %d times in two seconds", got)
		}
	})
}

// A look for what fell due lately that leaves nothing is followed by a claim from the oldest on at once, and not when
// the lane is looked at again: a backlog comes out as fast as the store gives it away.
func TestBacklogBesideLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, 40_000)
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "claim" {
				pass(30 * time.Millisecond)
			}
			return nil, true
		})
		pass(2 * time.Second)
		t.Logf("%d came out", len(w.on("out")))
		if got := len(w.on("out")); got < 18_000 {
			t.Errorf("%d came out in 2s", got)
		}
	})
}
