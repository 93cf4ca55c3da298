// Package system is node.Clock on the clocks of the machine, by way of github.com/benbjohnson/clock.
//
// A machine can be suspended: a laptop whose lid is shut, a virtual machine that is stopped and moved. The monotonic
// clock that Go reads stands still in the meantime, and a node that measured the age of its claims with it would
// believe, once it wakes up, that no time has passed since, and publish what other nodes have long published. So Mono
// adds, on Linux, for how long the machine was suspended. Waits do not count it: one that a suspension falls into goes
// on for what was left of it; while the engine holds claims, none of its waits is longer than the poll interval.
package system

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"chronos/node"
)

// Clock is node.Clock of one node. New makes it.
type Clock struct {
	clock clock.Clock

	// start is the origin of Mono. It carries a reading of the monotonic clock, so that no step of the wall
	// clock moves it.
	start time.Time

	// suspended returns for how long the machine has been suspended in all, and not more than that; asleep is
	// what it returned at start.
	suspended func() time.Duration
	asleep    time.Duration

	// slept is what Mono adds: it has grown with each suspension that was seen.
	slept atomic.Int64
}

var _ node.Clock = (*Clock)(nil)

// New returns a Clock whose monotonic reading begins at zero.
func New() *Clock { return newClock(suspended) }

// newClock returns a Clock of a machine that was suspended for as long as suspended says.
func newClock(suspended func() time.Duration) *Clock {
	machine := clock.New()
	c := &Clock{clock: machine, start: machine.Now(), suspended: suspended}
	// What is measured too small here would be added later.
	for range 10 {
		c.asleep = max(c.asleep, suspended())
	}
	return c
}

// Now returns the wall clock in UTC. The monotonic reading that time.Now adds is taken off, so that the difference of
// two readings is what the wall clock says.
func (c *Clock) Now() time.Time { return c.clock.Now().UTC().Round(0) }

// minSuspension is the least that counts as a suspension: no machine is back sooner, and less is the imprecision of
// measuring it.
const minSuspension = 10 * time.Millisecond

// Mono returns the time since New on the monotonic clock of the machine, with the time that it was suspended.
func (c *Clock) Mono() time.Duration {
	awake := c.clock.Since(c.start)
	for {
		slept := c.slept.Load()
		// It is measured too small now and then, and Mono never goes back.
		measured := int64(c.suspended() - c.asleep)
		if measured < slept+int64(minSuspension) || c.slept.CompareAndSwap(slept, measured) {
			return awake + time.Duration(c.slept.Load())
		}
	}
}

// Sleep returns when d has passed or ctx is done.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) { c.wait(ctx, d, nil) }

// Bell returns a new bell.
func (c *Clock) Bell() node.Bell { return &bell{clock: c, rung: make(chan struct{}, 1)} }

// bell is node.Bell on a Clock. rung holds the one ring that is remembered.
type bell struct {
	clock *Clock
	rung  chan struct{}
}

// Sleep returns when d has passed, ctx is done, or a ring is pending.
func (b *bell) Sleep(ctx context.Context, d time.Duration) { b.clock.wait(ctx, d, b.rung) }

// Ring ends the Sleep that goes on, or the next one.
func (b *bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default: // One ring is remembered already.
	}
}

// wait returns when d has passed, ctx is done or rung yields. A nil rung never does.
func (c *Clock) wait(ctx context.Context, d time.Duration, rung <-chan struct{}) {
	if d <= 0 {
		select {
		case <-rung: // It ends this call, which ends anyway.
		default:
		}
		return
	}
	timer := c.clock.Timer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-rung:
	case <-ctx.Done():
	}
}
