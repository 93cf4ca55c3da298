package node_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// One claim runs into its time limit, and while it did more has fallen due than the lane can be asked for in one look.
// The oldest have half of the claims all the same, whatever comes; and where no more comes than came without trouble
// before, the lane gets back to where it was.
func TestClaimThatTimedOut(t *testing.T) {
	const waiting = 2_000
	for _, c := range []struct {
		rate int
		for_ time.Duration
	}{{7_000, 15 * time.Second}, {9_000, 15 * time.Second}, {20_000, 8 * time.Second}} {
		t.Run(fmt.Sprint(c.rate, " a second"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fill(t, w.store, waiting)
				failed := false
				w.run(config(0), func(_ int, call string) (error, bool) {
					switch {
					case call != "claim":
					case !failed && (c.rate > 10_000 || time.Since(w.began) > 3*time.Second):
						failed = true
						pass(1500 * time.Millisecond)
						return errInjected, false
					default:
						pass(30 * time.Millisecond)
					}
					return nil, true
				})
				const each = 50 * time.Millisecond
				brought := 0
				for range c.for_ / each {
					brought += len(w.bring(c.rate/int(time.Second/each), true))
					pass(each)
				}
				if _, n := w.ends(); n != waiting {
					t.Errorf("%d of the %d oldest came out", n, waiting)
				}
				if left := waiting + brought - len(w.on("out")); c.rate < 10_000 && left > c.rate/5 {
					t.Errorf("%d wait", left)
				}
			})
		})
	}
}

// overdue stores so many messages of a silent partition that fell due one after the other in the last two hours.
func (w *world) overdue(waiting int, each time.Duration) {
	w.t.Helper()
	items := make([]node.Item, waiting)
	for i := range items {
		items[i] = node.Item{From: node.NoPlace, Action: node.Schedule, Message: node.Message{
			ID: id(i), Lane: "out", Incarnation: uuid.New(),
			Deadline: time.Now().Add(-2*time.Hour + time.Duration(i)*each),
		}}
	}
	if _, err := w.store.Take(w.t.Context(), node.TakeRequest{Items: items}); err != nil {
		w.t.Fatal(err)
	}
}

// slowly returns a gate where each claim takes that long; if the store is out, for a minute it runs into its limit.
func (w *world) slowly(each time.Duration, out bool) func(int, string) (error, bool) {
	return func(_ int, call string) (error, bool) {
		if call != "claim" {
			return nil, true
		}
		if at := time.Since(w.began); out && at > 5*time.Second && at < 65*time.Second {
			pass(1500 * time.Millisecond)
			return errInjected, false
		}
		pass(each)
		return nil, true
	}
}

// answers has all partitions answer.
func (w *world) answers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = func(node.Record) error { return nil }
}

// besideAnother returns a config with a second lane, on which nothing waits.
func besideAnother() node.Config {
	c := config(0)
	c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
	return c
}

// A store that is far away or busy takes as long for each claim, whatever that has to go through. What was silent comes
// out soon when it answers again, also after a minute in which no claim came to its end.
func TestSilentSlowStore(t *testing.T) {
	const waiting = 4_000
	for _, each := range []time.Duration{130 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		for _, out := range []bool{false, true} {
			t.Run(fmt.Sprintf("claims of %v, after an outage %v", each, out), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.silent()
					w.overdue(waiting, 1800*time.Millisecond)
					w.beside(600)
					w.run(besideAnother(), w.slowly(each, out))
					pass(90 * time.Second)
					w.answers()
					pass(30 * time.Second)
					if _, n := w.ends(); n != waiting {
						t.Errorf("%d of %d came out", n, waiting)
					}
				})
			})
		}
	}
}

// When a partition answers again, what comes on a lane with a pace does not jump what waits for its place, also where
// the lane is still gone through in parts.
func TestSilentPaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.silent()
		w.overdue(8_000, 900*time.Millisecond)
		w.beside(600)
		c := besideAnother()
		c.Paces = []node.LanePace{{Lane: "out", PerSecond: 50}}
		w.run(c, w.slowly(300*time.Millisecond, true))
		pass(75 * time.Second)
		w.answers()
		pass(time.Minute)
		for i := range 20 {
			w.submit(fmt.Sprint("new", i), 0)
			pass(time.Second)
		}
		for i := range 20 {
			if w.values("out")[fmt.Sprint("value new", i)] > 0 {
				t.Errorf("new%d came out, and of 8000 that have waited longer %d did not", i, 8_000-len(w.on("out")))
			}
		}
	})
}
