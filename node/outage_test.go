package node_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// While the store is away nothing is committed or lost; after a while the node leaves its group; when the store is
// back it takes up its work.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("before", 3*time.Second)
		var away atomic.Bool
		var calls atomic.Int64
		w.run(config(0), func(_ int, call string) (error, bool) {
			switch call {
			case "sleep", "poll", "start", "commit", "publish", "leave":
				return nil, true
			}
			if !away.Load() {
				return nil, true
			}
			calls.Add(1)
			return errInjected, false
		})
		pass(time.Second)
		away.Store(true)
		w.submit("during", 3*time.Second)
		w.submit("lapsed", -time.Second)
		pass(time.Minute)
		if w.commits() != 1 {
			t.Errorf("committed %d", w.commits())
		}
		if len(seen[node.LeftGroup](w)) != 1 {
			t.Errorf("left the group %d times", len(seen[node.LeftGroup](w)))
		}
		if calls.Load() > 60*5 {
			t.Errorf("%d calls in a minute", calls.Load())
		}
		away.Store(false)
		pass(4 * time.Second)
		if got := w.values("out"); got["value before"] != 1 || got["value during"] != 1 || got["value lapsed"] != 1 {
			t.Errorf("delivered %v", got)
		}
		w.empty()
	})
}

// While the broker is away nothing is lost, and firing resumes soon after it is back.
func TestBrokerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 100 {
			w.submit(id(i), 3*time.Second)
		}
		var away atomic.Bool
		w.run(config(0), func(_ int, call string) (error, bool) {
			if away.Load() && slices.Contains([]string{"poll", "start", "commit", "publish"}, call) {
				return errInjected, false
			}
			return nil, true
		})
		pass(2 * time.Second)
		away.Store(true)
		pass(30 * time.Second)
		away.Store(false)
		pass(3 * time.Second)
		if got := w.values("out"); len(got) != 100 {
			t.Errorf("delivered %d of 100 within three seconds", len(got))
		}
		w.empty()
	})
}

// A claim whose publish succeeded is deleted even after a peer has reset it.
func TestDeletesAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		var publishing, published atomic.Bool
		w.run(config(0), func(_ int, call string) (error, bool) {
			switch {
			case call == "publish" && !published.Load():
				publishing.Store(true)
				<-time.After(6 * time.Second) // longer than the hold time
				published.Store(true)
			case call == "claim" && publishing.Load() && !published.Load():
				return errInjected, false // nobody else gets to it meanwhile
			}
			return nil, true
		})
		pass(20 * time.Second)
		if got := len(w.on("out")); got != 1 {
			t.Errorf("%d deliveries", got)
		}
		if len(seen[node.Suspected](w)) != 1 {
			t.Error("the claim was not reset: this tests nothing")
		}
		w.empty()
	})
}

// The adaptive advance follows the acknowledgements: a slow broker is given its records earlier.
func TestAdaptiveAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.AdaptiveAdvance = true
		start := time.Now()
		for i := range 40 {
			w.submit(id(i), time.Second+time.Duration(i)*500*time.Millisecond)
		}
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "publish" {
				<-time.After(118 * time.Millisecond) // and the two that each takes
			}
			return nil, true
		})
		pass(25 * time.Second)
		got := w.on("out")
		for i, d := range got[20:] {
			deadline := start.Add(time.Second + time.Duration(20+i)*500*time.Millisecond)
			if off := d.at.Sub(deadline).Abs(); off > 10*time.Millisecond {
				t.Errorf("%s is off by %v", d.Value, off)
			}
		}
		w.empty()
	})
}

// The adaptive advance is bounded by the lookahead: a broker that takes longer than that makes no message earlier.
func TestAdaptiveAdvanceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.AdaptiveAdvance = true
		start := time.Now()
		for i := range 20 {
			w.submit(id(i), time.Second+time.Duration(i)*2*time.Second)
		}
		var publishes []time.Time
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "publish" {
				publishes = append(publishes, time.Now())
				<-time.After(time.Second)
			}
			return nil, true
		})
		pass(45 * time.Second)
		if len(publishes) != 20 {
			t.Fatalf("%d publishes, want 20", len(publishes))
		}
		for i, at := range publishes[10:] {
			deadline := start.Add(time.Second + time.Duration(10+i)*2*time.Second)
			// A publish takes two milliseconds until it gets here.
			if early := deadline.Sub(at); early < c.Lookahead-10*time.Millisecond || early > c.Lookahead {
				t.Errorf("message %d was published %v before its deadline, want %v", 10+i, early, c.Lookahead)
			}
		}
	})
}

// A node is stopped while it waits for its source: where reading begins, where it starts over, or how far the topics
// reach when the store was set back. It stops at once, and a peer goes on where it was.
func TestStopsWhileSourceFails(t *testing.T) {
	forgetAll := func(w *world) { w.store.Restore(memory.New(time.Now).Snapshot()) }
	promote := func(w *world) { w.store.Promote() }
	for name, c := range map[string]struct {
		fails   string // the call
		setBack func(*world)
		later   bool // the node is at work before
	}{
		"at an assignment":           {"start", func(*world) {}, false},
		"when reading starts over":   {"start", forgetAll, true},
		"when a new lineage begins":  {"extents", promote, true},
		"when it begins with a node": {"extents", promote, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("x", 20*time.Second)
				var fails atomic.Bool
				fails.Store(!c.later)
				if !c.later {
					c.setBack(w)
				}
				failed := 0
				n := w.run(config(0), func(_ int, call string) (error, bool) {
					if call == c.fails && fails.Load() {
						failed++
						return errInjected, false
					}
					return nil, true
				})
				pass(3 * time.Second)
				if c.later {
					fails.Store(true)
					c.setBack(w)
					pass(8 * time.Second) // longer than claims of before are held: then reading starts over
				}
				stopped := time.Now()
				n.stop()
				if took := time.Since(stopped); took > 100*time.Millisecond || failed == 0 {
					t.Errorf("it took %v to stop after %d failures", took, failed)
				}
				w.run(config(1), nil)
				pass(20 * time.Second)
				if got := w.values("out"); got["value x"] != 1 {
					t.Errorf("delivered %v", got)
				}
				w.empty()
			})
		})
	}
}

// Of four nodes three reach the store and no broker: what they claim comes late, and not much later, because they let
// the fourth go first.
func TestOneOfFourReachesBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const messages, apart = 40, 15 * time.Second
		due := map[string]time.Time{}
		for i := range messages {
			in := 10*time.Second + time.Duration(i)*apart
			due[string(w.submit(id(i), in).Value)] = time.Now().Add(in)
		}
		for i := range 4 {
			w.run(config(byte(i)), func(_ int, call string) (error, bool) {
				if call == "publish" && i > 0 {
					<-time.After(2 * time.Second) // until its time limit
					return errInjected, false
				}
				return nil, true
			})
		}
		pass(messages*apart + 30*time.Second)
		var late time.Duration
		for _, d := range w.on("out") {
			late += d.at.Sub(due[string(d.Value)])
		}
		if got := len(w.on("out")); got != messages {
			t.Fatalf("%d of %d came out", got, messages)
		}
		if late > messages*3*time.Second/2 { // twice as much if all looked as often
			t.Errorf("they came %v late on average", late/messages)
		}
		w.empty()
	})
}

// A lane on which a node has failed, and another one has published that, is not looked at less often for good: when the
// other one stops, half an hour later, what falls due is on time.
func TestRestsForAMinute(t *testing.T) {
	for seed := range 8 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			began := time.Now()
			for i := range 10 {
				w.submit(id(i), time.Second+time.Duration(i)*3*time.Second)
			}
			w.submit("late", time.Hour)
			w.run(config(byte(2*seed)), func(_ int, call string) (error, bool) {
				if call == "publish" && time.Since(began) < 40*time.Second {
					<-time.After(2 * time.Second) // until its time limit
					return errInjected, false
				}
				return nil, true
			})
			other := w.run(config(byte(2*seed+1)), nil)
			pass(30 * time.Minute)
			other.stop()
			pass(31 * time.Minute)
			if came := w.at("out", "value late"); len(came) != 1 || came[0] > time.Hour+50*time.Millisecond {
				t.Errorf("it came at %v, want after an hour", came)
			}
		})
	}
}

// A poll fails each time that nothing has come, as it does where one of the input topics is forbidden. What was taken
// in is committed all the same, and a store that was set back is noticed.
func TestPollFailsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		polls := 0
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call != "poll" {
				return nil, true
			}
			if polls++; polls > 4 { // all has come by then
				return errInjected, false
			}
			return nil, true
		})
		for i := range 20 {
			w.submit(id(i), time.Hour)
		}
		pass(3 * time.Second)
		if got := w.commits(); got != 20 {
			t.Errorf("committed %d of 20", got)
		}
		back := node.Place{Partition: partition("in"), Position: node.Position{Epoch: node.UnknownEpoch, Offset: 10}}
		state, err := w.store.CatchUp(t.Context(), node.CatchUpRequest{
			Lineage: 1, Begin: true, Rewind: []node.Place{back},
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if over := seen[node.StartedOver](w); len(over) != 1 || over[0].Places[0].Offset != 10 {
			t.Errorf("in lineage %d, it started over: %v", state.Lineage, over)
		}
	})
}

// With a timing advance, too, what is rejected is tried again after a second at the soonest: the advance was over when
// it was tried first, and does not make the waits shorter.
func TestPutsOffWithAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var tries []time.Time
		w.refuse = func(node.Record) error {
			tries = append(tries, time.Now())
			return node.RecordRejected
		}
		c := config(0)
		c.Routes[0].DeadLetter = ""
		c.TimingAdvance = 2 * time.Second
		w.submit("x", 5*time.Second)
		w.run(c, nil)
		pass(20 * time.Second)
		if len(tries) < 3 {
			t.Fatalf("%d tries in 20 s", len(tries))
		}
		for i := range tries[1:] {
			if wait := tries[i+1].Sub(tries[i]); wait < time.Second {
				t.Errorf("try %d came %v after the one before", i+2, wait)
			}
		}
	})
}
