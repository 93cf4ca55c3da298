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
// A Clock is safe for concurrent use. It belongs to one node: its alarm wakes that node's fire operation.
type Clock interface {
	// Now returns the wall clock in UTC. Successive readings may go backwards.
	Now() time.Time

	// Mono returns the time since an arbitrary instant that is fixed for the life of the Clock. It never
	// goes back, and it goes on while the process is stopped by a signal.
	Mono() time.Duration

	// Sleep returns when d has passed on the monotonic clock or ctx is done, whichever is first. It returns
	// at once when d is not positive.
	Sleep(ctx context.Context, d time.Duration)

	// SleepUntilRung is a Sleep that Ring ends early. One ring that came while nobody slept is remembered and
	// ends the next call at once, so that a ring between looking at the schedule and falling asleep is not
	// lost. At most one caller sleeps here at a time: the fire operation.
	SleepUntilRung(ctx context.Context, d time.Duration)

	// Ring wakes the sleeper of SleepUntilRung, or the next one. It never blocks; rings do not add up.
	Ring()
}
