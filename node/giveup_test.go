package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// refusing returns a world in which the receivers of callbacks want nothing, and the settings of nodes that keep copies
// of what they give up. Messages of a lane fall due in it after a while.
func refusing(t *testing.T, messages int, due time.Duration) (*world, node.Config) {
	w := newWorld(t)
	w.answer = func(r node.Record) error {
		if r.Topic == "http:out" {
			return &node.RefusedError{Err: errInjected, Status: 410}
		}
		return nil
	}
	for i := range messages {
		w.submit(id(i), due)
	}
	c := calls(0)
	c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
	return w, c
}

// lettersOf returns for how many copies a take asks.
func lettersOf(r node.TakeRequest) (letters int) {
	for i := range r.Items {
		if r.Items[i].From == node.NoPlace {
			letters++
		}
	}
	return letters
}

// TestGivenUpTogether has callbacks given up at one instant, as many as are made at the same time, and again, while the
// store takes its time. Their copies are kept together, in one call after the other: a call for each would leave no
// connection to claims, and no lane would get on.
func TestGivenUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 640
		w, c := refusing(t, messages, 5*time.Second)
		var under, most, all atomic.Int32
		n := w.run(c, func(_ int, call string) (error, bool) {
			if call == "take" {
				most.Store(max(most.Load(), under.Add(1)))
				pass(50 * time.Millisecond)
				under.Add(-1)
			}
			return nil, true
		})
		takes := func(r node.TakeRequest) { all.Add(int32(min(1, lettersOf(r)))) }
		n.gate.takes.Store(&takes)
		pass(10 * time.Second)
		if most.Load() > 2 {
			t.Errorf("%d takes at the same time, want one that takes records in and one for copies", most.Load())
		}
		if all.Load() == 0 || all.Load() > messages/20 {
			t.Errorf("copies of %d messages were kept in %d calls", messages, all.Load())
		}
		if got := len(w.on("failed")); got != messages {
			t.Errorf("%d dead letters, want %d", got, messages)
		}
		w.empty()
	})
}

// TestGivenUpInOutage has the store answer nothing about copies for a while. For as long as a claim lasts its receiver,
// which has said that it wants none of it, is not asked again. Where the store is away for longer the messages are put
// off, and whoever has them next gives them up.
func TestGivenUpInOutage(t *testing.T) {
	settings := node.Default()
	hold := settings.CallbackHoldTime()
	for name, test := range map[string]struct {
		lasts time.Duration
		asked int
	}{
		"shorter than a claim": {hold - 2*time.Second, 1},
		"longer than a claim":  {hold + 2*time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages = 10
				w, c := refusing(t, messages, 5*time.Second)
				var failing atomic.Bool
				n := w.run(c, func(_ int, call string) (error, bool) {
					if call == "take" && failing.Load() {
						return errInjected, false
					}
					return nil, true
				})
				pass(4900 * time.Millisecond)
				failing.Store(true)
				pass(test.lasts)
				if got := len(w.on("failed")); got > 0 {
					t.Errorf("%d dead letters while the store keeps none", got)
				}
				failing.Store(false)
				pass(time.Minute)
				if got := len(w.on("http:out")); got < messages || got > test.asked*messages {
					t.Errorf("the receiver was asked %d times for %d messages, want %d times for each at most", got,
						messages, test.asked)
				}
				if got := len(w.on("failed")); got != messages {
					t.Errorf("%d dead letters, want %d", got, messages)
				}
				w.empty()
				n.stop()
			})
		})
	}
}

// TestGivenUpByTwo has a node that reaches the store for everything but copies, until another one has taken over what
// it has given up, and ended it. Its own copies are too old by then: a second one of each would come out.
func TestGivenUpByTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 10
		w, c := refusing(t, messages, 5*time.Second)
		var failing atomic.Bool
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "take" && failing.Load() {
				return errInjected, false
			}
			return nil, true
		})
		pass(4900 * time.Millisecond)
		failing.Store(true)
		pass(200 * time.Millisecond)
		c.Seed[0]++
		w.run(c, nil)
		pass(5 * time.Minute)
		failing.Store(false)
		pass(5 * time.Minute)
		if got := len(w.on("failed")); got != messages {
			t.Errorf("%d dead letters in the end, want %d", got, messages)
		}
		w.empty()
	})
}

// TestGivenUpBounded has the store keep no copies for long. What waits for that is bounded, in messages and in bytes:
// nothing more is asked of receivers then. A node that stops says what it leaves behind, and another one goes on.
func TestGivenUpBounded(t *testing.T) {
	const callers = 64
	for name, test := range map[string]struct{ messages, most, size int }{
		"in messages": {4000, 2000 + callers, 0},
		"in bytes":    {200, 32 + callers, 512 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := refusing(t, 0, 0)
				for i := range test.messages {
					r := w.submit(id(i), 5*time.Second)
					w.input["in"][i].Value = append(r.Value, make([]byte, test.size)...)
				}
				c.HoldTime = time.Minute
				var failing atomic.Bool
				decide := func(_ int, call string) (error, bool) {
					if call == "take" && failing.Load() {
						return errInjected, false
					}
					return nil, true
				}
				n := w.run(c, decide)
				pass(4900 * time.Millisecond)
				failing.Store(true)
				pass(20 * time.Second)
				if got := len(w.on("http:out")); got < test.most/3 || got > test.most {
					t.Errorf("receivers were asked for %d messages while the store keeps no copies, want %d at most",
						got, test.most)
				}
				n.stop()
				left, claimed := 0, 0
				for _, e := range seen[node.LeftBehind](w) {
					left += e.Claims
				}
				for _, row := range w.store.Dump() {
					if row.ReadiedBy != uuid.Nil {
						claimed++
					}
				}
				if left == 0 || left != claimed {
					t.Errorf("said of %d claims that they are left behind; there are %d", left, claimed)
				}
				failing.Store(false)
				c.Seed[0]++
				w.run(c, nil)
				pass(10 * time.Minute)
				if got := len(w.on("failed")); got != test.messages {
					t.Errorf("%d dead letters, want %d", got, test.messages)
				}
				w.empty()
			})
		})
	}
}
