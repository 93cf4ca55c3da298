package node

import (
	"context"
	"time"
)

// Clock is one node's view of time. It has two readings that must not be mixed: the wall clock, which is
// compared with deadlines and may jump, and the monotonic clock, which measures how long something took and
// never goes back. The engine takes every reading and every wait from here, so that the simulator can skew,
// drift, step and pause each node on its own.
//
// A Clock is safe for concurrent use. It belongs to one node.
type Clock interface {
	// Now returns the wall clock in UTC. Successive readings may go backwards.
	Now() time.Time

	// Mono returns the time since an arbitrary instant that is fixed for the life of the Clock. It never
	// goes back, and it goes on while the process is stopped by a signal.
	Mono() time.Duration

	// Sleep returns when d has passed on the monotonic clock or ctx is done, whichever is first. It returns
	// at once when d is not positive.
	Sleep(ctx context.Context, d time.Duration)

	// Bell returns a new bell on this clock.
	Bell() Bell
}

// Bell is an alarm clock for one sleeper, whom others can wake.
type Bell interface {
	// Sleep is Clock.Sleep, except that Ring ends it early. One ring that came while nobody slept is remembered and
	// ends the next Sleep at once, so that a ring between looking for work and falling asleep is not lost. At most
	// one caller sleeps here at a time.
	Sleep(ctx context.Context, d time.Duration)

	// Ring wakes the sleeper, or the next one. It never blocks; rings do not add up. It is safe for concurrent use.
	Ring()
}
