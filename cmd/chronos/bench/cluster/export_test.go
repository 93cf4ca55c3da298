package cluster

import (
	"time"

	"chronos/cmd/chronos/bench"
)

// ClockOf returns what a record says about its broker's clock.
func ClockOf(stamp, sent, acked time.Time) bench.Clock {
	return clock("b", stamp, sample{0, sent, acked})
}
