package sim

import (
	"context"
	"time"

	"chronos/node"
)

// clock is a pair of clocks driven by one oscillator of a wrong rate. The monotonic one only ever goes on; the
// wall clock has an offset besides, which jumps.
type clock struct {
	base    int64 // the true time since when the rate is what it is
	reading int64 // the monotonic reading at that time
	ppm     int64 // how much faster than true time, in parts per million
	offset  int64 // of the wall clock
}

// mono returns the monotonic reading at a true time.
func (c *clock) mono(now int64) int64 {
	passed := max(now-c.base, 0)
	return c.reading + passed + passed/1_000_000*c.ppm + passed%1_000_000*c.ppm/1_000_000
}

// wall returns the wall clock at a true time.
func (c *clock) wall(now int64) time.Time {
	return epoch().Add(time.Duration(c.mono(now) + c.offset))
}

// rate changes the rate from now on. Neither reading jumps.
func (c *clock) rate(now, ppm int64) {
	c.reading = c.mono(now)
	c.base = now
	c.ppm = ppm
}

// trueFor returns the shortest true time in which at least d passes on this clock.
func (c *clock) trueFor(d time.Duration) int64 {
	n := int64(d)
	rate := 1_000_000 + c.ppm
	whole, rest := n/rate, n%rate
	return whole*1_000_000 + (rest*1_000_000+rate-1)/rate
}

// correct sets the wall clock right, by what the oscillator has been wrong too.
func (c *clock) correct(now int64) { c.offset = now - c.mono(now) }

// nodeClock is the Clock port of one life.
type nodeClock struct{ life *life }

var _ node.Clock = nodeClock{}

// Now implements node.Clock.
func (c nodeClock) Now() time.Time {
	h := c.life.host
	return h.clock.wall(h.world.now)
}

// Mono implements node.Clock.
func (c nodeClock) Mono() time.Duration {
	h := c.life.host
	return time.Duration(h.clock.mono(h.world.now) - c.life.mono)
}

// Sleep implements node.Clock.
func (c nodeClock) Sleep(ctx context.Context, d time.Duration) {
	t := c.life.enter()
	if d <= 0 || ctx.Err() != nil {
		return
	}
	c.park(ctx, t, d)
}

// park parks a task until d has passed, ctx is done, or somebody wakes it.
func (c nodeClock) park(ctx context.Context, t *task, d time.Duration) {
	h := c.life.host
	turn := t.parking()
	t.rings = h.world.now + h.clock.trueFor(d)
	h.world.at(t.rings, t, turn)
	t.until(ctx)
	t.park()
}

// Bell implements node.Clock.
func (c nodeClock) Bell() node.Bell { return &bell{clock: c} }

// bell is a bell of one life.
type bell struct {
	clock   nodeClock
	sleeper *task // nil when nobody sleeps
	rung    bool
}

var _ node.Bell = (*bell)(nil)

// Sleep implements node.Bell.
func (b *bell) Sleep(ctx context.Context, d time.Duration) {
	t := b.clock.life.enter()
	if !b.rung && d > 0 && ctx.Err() == nil {
		b.sleeper = t
		b.clock.park(ctx, t, d)
		b.sleeper = nil
	}
	b.rung = false
}

// Ring implements node.Bell.
func (b *bell) Ring() {
	b.clock.life.enter()
	b.rung = true
	if b.sleeper != nil {
		w := b.clock.life.host.world
		w.at(w.now, b.sleeper, b.sleeper.turn)
	}
}
