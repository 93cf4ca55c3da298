package sim

import (
	"context"
	"time"

	"chronos/node"
	"chronos/sim/check"
)

// Clock shows the clocks of a host to tests.
type Clock struct{ clock clock }

// NewClock returns a clock that goes wrong by so many parts per million.
func NewClock(ppm int64) *Clock { return &Clock{clock{ppm: ppm}} }

// Mono returns the monotonic reading.
func (c *Clock) Mono(now time.Duration) time.Duration { return time.Duration(c.clock.mono(int64(now))) }

// Wall returns how far the wall clock is from the epoch.
func (c *Clock) Wall(now time.Duration) time.Duration { return c.clock.wall(int64(now)).Sub(epoch()) }

// Rate changes the rate.
func (c *Clock) Rate(now time.Duration, ppm int64) { c.clock.rate(int64(now), ppm) }

// Correct sets the wall clock right.
func (c *Clock) Correct(now time.Duration) { c.clock.correct(int64(now)) }

// TrueFor returns the true time in which d passes.
func (c *Clock) TrueFor(d time.Duration) time.Duration { return time.Duration(c.clock.trueFor(d)) }

// Order queues instants and returns the places that they had, in the order in which they come out.
func Order(instants []int64) []uint64 {
	var q queue
	for i, at := range instants {
		q.push(occurrence{at: at, seq: uint64(i)})
	}
	var order []uint64
	for len(q) > 0 {
		order = append(order, q.pop().seq)
	}
	return order
}

// LockedCall is one call of the store by one of several sessions.
type LockedCall struct {
	Session int // from 1
	At      time.Duration
	Op      Op
	Held    time.Duration // how long its transaction stays open; 0 for not at all
	Undone  bool          // it is rolled back then
	Do      func(node.Store)
}

// RunSessions makes calls at the simulated store, each session its own in their order, and returns what is stored in
// the end.
func RunSessions(calls []LockedCall) []node.Claim {
	o := DefaultOptions()
	o.Messages, o.Nodes, o.HoldTime = 0, 3, time.Minute
	o.StoreLatency, o.Drain = time.Microsecond, false
	var plan Plan
	counts := map[int]map[Op]int{}
	bySession := map[int][]LockedCall{}
	for _, c := range calls {
		if counts[c.Session] == nil {
			counts[c.Session] = map[Op]int{}
		}
		counts[c.Session][c.Op]++
		if c.Held > 0 {
			kind := Locked
			if c.Undone {
				kind = RolledBack
			}
			plan.Faults = append(plan.Faults, Fault{
				Node: c.Session, Op: c.Op, Nth: counts[c.Session][c.Op], Kind: kind, For: c.Held,
			})
		}
		bySession[c.Session] = append(bySession[c.Session], c)
	}
	w := newWorld(Setup{Options: o, Plan: &plan})
	w.judge.check = check.New() // nobody judges
	for _, h := range w.hosts[1:] {
		session := bySession[h.number]
		l := &life{host: h, number: 1, label: "session", cancel: func() {}, cancelRest: func() {}}
		h.life = l
		t := newTask(l, node.Enqueue, func() {
			clock := nodeClock{l}
			for _, c := range session {
				clock.Sleep(context.Background(), c.At-time.Duration(w.now))
				c.Do(&storePort{life: l})
			}
			clock.Sleep(context.Background(), time.Duration(forever))
		})
		l.tasks = []*task{t}
		turn := t.parking()
		t.parked = true
		w.at(0, t, turn)
	}
	w.run(int64(calls[len(calls)-1].At + time.Minute))
	defer w.close()
	return w.store.truth.claims()
}
