package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// resting returns a configuration whose nodes rest for an interval.
func resting(seed byte, interval time.Duration) node.Config {
	c := config(seed)
	c.IdleInterval = interval
	return c
}

// storeAside stores a message past Kafka, as a listener of a node does, and returns when it is due.
func (w *world) storeAside(name, lane string, in time.Duration) time.Time {
	w.t.Helper()
	due := time.Now().UTC().Add(in)
	result, err := w.store.Take(w.t.Context(), node.TakeRequest{Items: []node.Item{{
		From: node.NoPlace, Action: node.Schedule, Message: node.Message{
			ID: name, Lane: lane, Incarnation: uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)), Deadline: due,
			Value: []byte(name),
		},
	}}})
	if err != nil || result.Results[0].Outcome != node.Scheduled {
		w.t.Error(result, err)
	}
	return due
}

// cameOut fails the test unless one message has come out on a lane, at its instant: in virtual time, within the calls.
func (w *world) cameOut(lane, name string, due time.Time, within time.Duration) {
	w.t.Helper()
	for _, d := range w.on(lane) {
		if string(d.Value) == name {
			if late := d.at.Sub(due); late < 0 || late > within {
				w.t.Errorf("%s came out %v late", name, late)
			}
			return
		}
	}
	w.t.Errorf("%s did not come out", name)
}

// Two nodes that have nothing to do call the store seldom: the claimer once in each idle interval, and the recoverer
// hardly ever. A message that one of them stores then, due in 300 ms, comes out on time, and so does one that is due in
// a minute, of which nobody is told any more; and the other node has not looked more often for that.
func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := make([]map[string]int, 2)
		var nodes []*running
		for i := range calls {
			calls[i] = map[string]int{}
			nodes = append(nodes, w.run(resting(byte(i), time.Second), func(_ int, call string) (error, bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				calls[i][call]++
				return nil, true
			}))
		}
		pass(10 * time.Second)
		w.mu.Lock()
		clear(calls[0])
		clear(calls[1])
		w.mu.Unlock()
		pass(time.Minute)
		w.mu.Lock()
		for i := range calls {
			if n, m := calls[i]["claim"], calls[i]["expired"]; n < 50 || n > 75 || m < 1 || m > 20 {
				t.Errorf("node %d made %d claims and %d looks for expired ones in a minute", i, n, m)
			}
		}
		w.mu.Unlock()
		for i := range 20 {
			name := id(i)
			due := w.storeAside(name, "out", 300*time.Millisecond)
			nodes[i%2].node.Stir()
			pass(3*time.Second + time.Duration(i)*77*time.Millisecond)
			w.cameOut("out", name, due, 10*time.Millisecond)
		}
		due := w.storeAside("later", "out", time.Minute)
		pass(62 * time.Second)
		w.cameOut("out", "later", due, 10*time.Millisecond)
	})
}

// What is heard of while a look is under way is not lost: the look has not seen it, and the claimer does not rest after
// it. Each message is stored when the store has looked, and before the node is told what it has seen.
func TestStirredWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.run(resting(0, time.Second), nil)
		for i := range 10 {
			pass(3*time.Second + time.Duration(i)*77*time.Millisecond)
			stored := make(chan time.Time, 1)
			after := func(call string) {
				if call == "claim" && len(stored) == 0 {
					stored <- w.storeAside(id(i), "out", 300*time.Millisecond)
					r.node.Stir()
				}
			}
			r.gate.after.Store(&after)
			pass(1200 * time.Millisecond)
			r.gate.after.Store(nil)
			pass(time.Second)
			w.cameOut("out", id(i), <-stored, 10*time.Millisecond)
		}
	})
}

// While a lane is left alone after failures the claimer does not rest: what is due there is to be claimed when that is
// over, and the store was not asked about it.
func TestNoRestBesideFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" {
				return errInjected
			}
			return nil
		}
		claims := 0
		w.run(resting(0, 10*time.Second), func(_ int, call string) (error, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if call == "claim" {
				claims++
			}
			return nil, true
		})
		w.submit("x", 3*time.Second)
		pass(10 * time.Second)
		w.mu.Lock()
		claims = 0
		w.mu.Unlock()
		pass(10 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if claims < 80 {
			t.Errorf("%d claims in ten seconds", claims)
		}
		w.refuse = func(node.Record) error { return nil }
	})
}

// A lane that is found, since a message waits there that another process has left, is looked at soon.
func TestRestEndsForFoundLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := resting(0, 10*time.Second)
		c.Routes[0].Targets = []string{"out.*"}
		w.run(c, nil)
		pass(33 * time.Second)
		due := w.storeAside("x", "out.y", 0)
		pass(15 * time.Second)
		w.cameOut("out.y", "x", due, time.Second)
	})
}

// A node rests only while it hears what others store, and when it has lost its hearing, it looks as often as it would
// without an idle interval, from that moment on.
func TestRestsWhileItHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var claims atomic.Int64
		w.hears = &atomic.Bool{}
		r := w.run(resting(0, 10*time.Second), func(_ int, call string) (error, bool) {
			if call == "claim" {
				claims.Add(1)
			}
			return nil, true
		})
		in := func(d time.Duration) int64 {
			claims.Store(0)
			pass(d)
			return claims.Load()
		}
		if n := in(10 * time.Second); n < 80 {
			t.Errorf("%d claims in ten seconds, of a node that does not hear", n)
		}
		w.hears.Store(true)
		pass(time.Second)
		if n := in(100 * time.Second); n > 20 {
			t.Errorf("%d claims in a hundred seconds, of a node that hears", n)
		}
		w.hears.Store(false)
		r.node.Stir()
		if n := in(10 * time.Second); n < 80 {
			t.Errorf("%d claims in ten seconds, of a node that hears no longer", n)
		}
	})
}

// A node that loses its hearing while a look is under way does not rest after it: neither when it is stirred before the
// store has looked, nor after that; nor when that is so between the moment at which it forgets what it was stirred for
// and the one at which it asks whether it hears.
func TestDeafWhileLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hears = &atomic.Bool{}
		w.hears.Store(true)
		var claims atomic.Int64
		r := w.run(resting(0, 10*time.Second), func(_ int, call string) (error, bool) {
			if call == "claim" {
				claims.Add(1)
			}
			return nil, true
		})
		lose := func() {
			if w.hears.CompareAndSwap(true, false) {
				r.node.Stir()
				claims.Store(0)
			}
		}
		for _, when := range []string{"as it is asked", "after the store has looked"} {
			pass(31 * time.Second)
			if when == "as it is asked" {
				w.asked.Store(&lose)
			} else {
				after := func(call string) {
					if call == "claim" {
						lose()
					}
				}
				r.gate.after.Store(&after)
			}
			for range 110 {
				if w.hears.Load() {
					pass(100 * time.Millisecond)
				}
			}
			if w.hears.Load() {
				t.Fatalf("%s: no look in eleven seconds", when)
			}
			pass(5 * time.Second)
			if n := claims.Load(); n < 40 {
				t.Errorf("%s: %d claims after that", when, n)
			}
			w.asked.Store(nil)
			r.gate.after.Store(nil)
			w.hears.Store(true)
		}
	})
}
