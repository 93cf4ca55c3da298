// Package system is node.Clock on the clocks of the machine, by way of github.com/benbjohnson/clock.
package system

import (
	"context"
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

	// rung holds the one ring that is remembered.
	rung chan struct{}
}

var _ node.Clock = (*Clock)(nil)

// New returns a Clock whose monotonic reading begins at zero.
func New() *Clock {
	machine := clock.New()
	return &Clock{clock: machine, start: machine.Now(), rung: make(chan struct{}, 1)}
}

// Now returns the wall clock in UTC. The monotonic reading that time.Now adds is taken off, so that the difference of
// two readings is what the wall clock says.
func (c *Clock) Now() time.Time { return c.clock.Now().UTC().Round(0) }

// Mono returns the time since New on the monotonic clock of the machine.
func (c *Clock) Mono() time.Duration { return c.clock.Since(c.start) }

// Sleep returns when d has passed or ctx is done.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) { c.wait(ctx, d, nil) }

// SleepUntilRung returns when d has passed, ctx is done, or Ring was called since the ring that ended another call.
func (c *Clock) SleepUntilRung(ctx context.Context, d time.Duration) { c.wait(ctx, d, c.rung) }

// Ring ends the SleepUntilRung that goes on, or the next one.
func (c *Clock) Ring() {
	select {
	case c.rung <- struct{}{}:
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
