package sim

import (
	"time"
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
