package node_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// besideDear runs a node on a lane with a silent partition, for which so many messages wait that fell due in the last
// two hours, and on another lane, whose claims from the oldest on take so long, for reasons of its own.
func (w *world) besideDear(waiting int, dear time.Duration) {
	w.silent()
	w.overdue(waiting, 2*time.Hour/time.Duration(waiting))
	var asked node.ClaimRequest
	r := w.run(besideAnother(), func(_ int, call string) (error, bool) {
		if call != "claim" {
			return nil, true
		}
		took := 10 * time.Millisecond
		if slices.ContainsFunc(asked.Lanes, func(s node.Share) bool { return s.Lane == "out2" && s.From.IsZero() }) {
			took += dear
		}
		pass(took)
		return nil, true
	})
	asks := func(request node.ClaimRequest) { asked = request }
	r.gate.asks.Store(&asks)
}

// now stores n messages of a lane that are due now.
func (w *world) now(lane, prefix string, n int) {
	messages := make([]node.Message, n)
	for i := range messages {
		messages[i] = node.Message{
			ID: fmt.Sprint(prefix, "-", i), Lane: lane, Deadline: time.Now().UTC().Truncate(time.Microsecond),
		}
	}
	w.stored(messages...)
}

// What waits for a silent partition is gone through by parts, each as wide as there is time for. That the claims of
// another lane take long does not make them narrower: when the partition answers, all of it comes out soon.
func TestSilentBesideDearClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting, load = 4_000, 30
		w := newWorld(t)
		w.now("out2", "backlog", 30_000)
		w.besideDear(waiting, 600*time.Millisecond)
		for i := range 1500 {
			if i == 900 {
				w.answers()
			}
			w.now("out2", fmt.Sprint("other", i), load)
			pass(100 * time.Millisecond)
		}
		if _, n := w.ends(); n != waiting {
			t.Errorf("a minute after the partition answers %d of %d came out", n, waiting)
		}
	})
}

// Claims on another lane take more than a second, and rounds take long. What falls due before a round begins, and after
// the last claim on its lane, is in a look for what fell due lately, and does not wait for the end of the round.
func TestSilentAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.besideDear(20_000, 1400*time.Millisecond)
		stored := map[string]time.Time{}
		for i := range 4000 {
			w.now("out2", fmt.Sprint("other", i), 20)
			w.now("out", fmt.Sprint("mine", i), 1)
			stored[fmt.Sprint("mine", i, "-0")] = time.Now()
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		for _, d := range w.on("out") {
			if at, mine := stored[d.id()]; mine && d.at.Sub(at) > 10*time.Second {
				t.Errorf("%s came out %v late", d.id(), d.at.Sub(at))
			}
			delete(stored, d.id())
		}
		if len(stored) > 0 {
			t.Errorf("%d did not come out in time", len(stored))
		}
	})
}
