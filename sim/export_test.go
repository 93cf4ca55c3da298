package sim

import (
	"context"
	"time"

	"github.com/google/uuid"

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

// ShrinkWithin shrinks a setup within another number of occurrences than Shrink does.
func ShrinkWithin(setup Setup, most int, events uint64) (Shrinking, bool) {
	return shrink(setup, &shrinker{most: most, mostEvents: events})
}

// Order queues instants and returns the places that they had, in the order in which they come out.
func Order(instants []int64) []uint64 {
	var q agenda
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

// LockedSpan tells when a call has got its locks and when it has returned.
type LockedSpan struct{ Locked, Returned time.Duration }

// SessionPlaces returns the partitions of the sessions, before their first records.
func SessionPlaces() []node.Place {
	var places []node.Place
	for number := range int32(3) {
		places = append(places, node.Place{
			Partition: node.Partition{Topic: "sessions", TopicID: uuid.UUID{15: 1}, Number: number},
			Position:  node.Position{Epoch: node.UnknownEpoch},
		})
	}
	return places
}

// RunSessions makes calls at the simulated store, each session its own in their order, and returns when they happened
// and what is stored in the end. A call waits for so long for what others have locked, if it can do without that.
func RunSessions(calls []LockedCall, lockWait time.Duration) ([]LockedSpan, []node.Claim) {
	o := DefaultOptions()
	o.Messages, o.Nodes, o.HoldTime = 0, 3, time.Minute
	o.StoreLatency, o.Drain = time.Microsecond, false
	type nth struct {
		session int
		op      Op
		n       int
	}
	var plan Plan
	counts := map[nth]int{}
	applied := map[nth]time.Duration{} // when each call had its first effect
	names := make([]nth, len(calls))
	bySession := map[int][]int{}
	for i, c := range calls {
		counts[nth{c.Session, c.Op, 0}]++
		names[i] = nth{c.Session, c.Op, counts[nth{c.Session, c.Op, 0}]}
		if c.Held > 0 {
			kind := Locked
			if c.Undone {
				kind = RolledBack
			}
			plan.Faults = append(plan.Faults, Fault{
				Node: c.Session, Op: c.Op, Nth: names[i].n, Kind: kind, For: c.Held,
			})
		}
		bySession[c.Session] = append(bySession[c.Session], i)
	}
	w := newWorld(Setup{Options: o, Plan: &plan, Observe: func(s *Step) {
		name := nth{s.Node, s.Op, s.Nth}
		if _, again := applied[name]; s.Kind == StepApplied && !again {
			applied[name] = s.At
		}
	}})
	w.recorder.check = check.New() // nobody judges
	w.store.lockWait = lockWait
	w.store.truth.caller = &life{host: w.hosts[1], label: "nobody"}
	_, _, err := w.store.rows.Positions(context.Background(), SessionPlaces())
	_ = must(true, err)
	spans := make([]LockedSpan, len(calls))
	for _, h := range w.hosts[1:] {
		session := bySession[h.number]
		l := &life{host: h, number: 1, label: "session", cancel: func() {}, slow: map[*partition]int64{}}
		l.loops = newLoops(l)
		h.life = l
		t := newTask(l, node.Enqueue, func() {
			clock := nodeClock{l}
			for _, i := range session {
				c := &calls[i]
				clock.Sleep(context.Background(), c.At-time.Duration(w.now))
				c.Do(&storePort{life: l})
				span := &spans[i]
				span.Returned = time.Duration(w.now)
				took, is := applied[names[i]]
				switch {
				case !is: // it was rolled back without an effect
					took = span.Returned - c.Held
				case c.Op != OpClaim: // whose claims are made at once, and only not seen
					took -= c.Held
				}
				if took < c.At { // it did not stay open: it had nothing to change
					took = span.Returned
				}
				span.Locked = took
			}
			clock.Sleep(context.Background(), time.Duration(forever))
		})
		l.begins(t)
	}
	w.run(int64(calls[len(calls)-1].At + time.Minute))
	defer w.close()
	return spans, w.store.truth.claims()
}
