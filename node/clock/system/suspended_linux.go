package system

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns for how long the machine has been suspended since it was started. Of the two clocks of Linux that
// are never set, one goes on in a suspension and the other, which is the one that Go measures with, stands still; in
// all else they are the same to the nanosecond.
//
// The clocks are read one after the other. The one that may be ahead is read first, so that whatever comes in between
// makes the result less than the truth and never more. A kernel that lacks the clock (before 2.6.39) yields zero.
func suspended() time.Duration {
	var all, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil {
		return 0
	}
	return time.Duration(all.Nano() - awake.Nano())
}
