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
	passed := now - c.base
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
	w := c.life.host.world
	turn := t.parking()
	w.at(w.now+c.life.host.clock.trueFor(d), t, turn)
	t.interruptible = ctx.Done() != nil
	t.park()
}

// SleepUntilRung implements node.Clock.
func (c nodeClock) SleepUntilRung(ctx context.Context, d time.Duration) {
	l := c.life
	t := l.enter()
	if l.rung || d <= 0 || ctx.Err() != nil {
		l.rung = false
		return
	}
	w := l.host.world
	turn := t.parking()
	w.at(w.now+l.host.clock.trueFor(d), t, turn)
	t.interruptible = ctx.Done() != nil
	l.sleeper, l.sleeperTask = turn, t
	t.park()
	l.sleeper, l.rung = 0, false
}

// Ring implements node.Clock.
func (c nodeClock) Ring() {
	l := c.life
	l.enter()
	l.rung = true
	if l.sleeper != 0 {
		w := l.host.world
		w.at(w.now, l.sleeperTask, l.sleeper)
	}
}
