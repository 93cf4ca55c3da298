package cluster_test

import (
	"testing"
	"time"

	"chronos/cmd/chronos/bench"
	"chronos/cmd/chronos/bench/cluster"
)

// TestClock has a broker append a record 2 ms after it was sent, 3 ms before the acknowledgement, by clocks that differ
// by a known time: what is said contains that, and no more than the 5 ms and the millisecond that is cut off.
func TestClock(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 1, 2, 3, 4, 5, 600_700_000, time.UTC)
	acked := sent.Add(5 * time.Millisecond)
	for _, ahead := range []time.Duration{0, 700 * time.Microsecond, -20 * time.Millisecond, time.Hour} {
		stamp := sent.Add(2*time.Millisecond + ahead).Truncate(time.Millisecond)
		c := cluster.ClockOf(stamp, sent, acked)
		want := bench.Millis(float64(ahead.Microseconds()) / 1000)
		if c.Low > want || c.High < want || c.High-c.Low > 6.001 {
			t.Errorf("%v ahead is said to be %v to %v ms", ahead, c.Low, c.High)
		}
	}
}
