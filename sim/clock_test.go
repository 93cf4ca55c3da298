package sim_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/sim"
)

// TestClock checks the properties that the engine relies on, for any rate: the monotonic clock never goes back, also
// when the rate changes, and a wait lasts at least as long as it should on that clock, but hardly longer.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ppm := func() int64 { return rapid.Int64Range(-100_000, 100_000).Draw(t, "ppm") }
		step := func() time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "step"))
		}
		c := sim.NewClock(ppm())
		var now time.Duration
		for range 5 {
			before := c.Mono(now)
			c.Rate(now, ppm())
			if c.Mono(now) != before {
				t.Fatalf("the reading jumps from %v to %v when the rate changes", before, c.Mono(now))
			}
			d := step()
			passed := c.Mono(now+c.TrueFor(d)) - before
			if passed < d-time.Nanosecond || passed > d+2*time.Nanosecond {
				t.Fatalf("a wait of %v takes %v", d, passed)
			}
			now += step()
			if c.Mono(now) < before {
				t.Fatalf("the monotonic clock goes back from %v to %v", before, c.Mono(now))
			}
			c.Correct(now)
			if c.Wall(now) != now {
				t.Fatalf("the wall clock is set right to %v at %v", c.Wall(now), now)
			}
		}
	})
}

// TestQueueOrder compares the queue with a stable sort.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instants := rapid.SliceOf(rapid.Int64Range(0, 20)).Draw(t, "instants")
		var want []uint64
		for i := range instants {
			want = append(want, uint64(i))
		}
		slices.SortStableFunc(want, func(a, b uint64) int { return cmp.Compare(instants[a], instants[b]) })
		if got := sim.Order(instants); !slices.Equal(got, want) {
			t.Fatalf("%v come out as %v, want %v", instants, got, want)
		}
	})
}
