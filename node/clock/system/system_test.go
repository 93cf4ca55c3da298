package system_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/clock/system"
)

// The clock of the machine is virtual in a bubble of synctest: it stands still while anything runs, and every wait
// takes exactly as long as it says.

func TestSleepTakesAsLongAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := system.New()
		for _, d := range []time.Duration{-time.Second, 0, 1, time.Microsecond, 99 * time.Hour} {
			mono, now := c.Mono(), c.Now()
			c.Sleep(t.Context(), d)
			want := max(d, 0)
			if got := c.Mono() - mono; got != want {
				t.Errorf("Sleep(%v) took %v on the monotonic clock", d, got)
			}
			if got := c.Now().Sub(now); got != want {
				t.Errorf("Sleep(%v) took %v on the wall clock", d, got)
			}
		}
	})
}

func TestMonoStartsAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system.New().Sleep(t.Context(), time.Hour)
		if got := system.New().Mono(); got != 0 {
			t.Errorf("Mono of a new clock is %v", got)
		}
	})
}

// TestNowIsUTCAndOnlyWallClock compares two instants with ==, which tells a location and a monotonic reading.
func TestNowIsUTCAndOnlyWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where every bubble begins
		if got := system.New().Now(); got != want {
			t.Errorf("Now is %#v, want %#v", got, want)
		}
	})
}

func TestSleepEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := system.New()
		for name, sleep := range map[string]func(context.Context, time.Duration){
			"Sleep": c.Sleep, "Bell.Sleep": c.Bell().Sleep,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			before := c.Mono()
			sleep(ctx, time.Hour)
			if got := c.Mono() - before; got != time.Second {
				t.Errorf("%s took %v with a context of a second", name, got)
			}
			sleep(ctx, time.Hour)
			if got := c.Mono() - before; got != time.Second {
				t.Errorf("%s with a context that is done took %v", name, got-time.Second)
			}
			cancel()
		}
	})
}

// TestRingWakesSleeper rings while somebody sleeps, and asks that one sleep ends and no other does.
func TestRingWakesSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := system.New()
		bell, other := c.Bell(), c.Bell()
		var rung, slept time.Duration
		done := make(chan struct{}, 2)
		go func() {
			bell.Sleep(t.Context(), time.Hour)
			rung = c.Mono()
			done <- struct{}{}
		}()
		go func() {
			c.Sleep(t.Context(), time.Minute)
			slept = c.Mono()
			done <- struct{}{}
		}()
		system.New().Sleep(t.Context(), time.Second)
		bell.Ring()
		<-done
		<-done
		if rung != time.Second || slept != time.Minute {
			t.Errorf("the bell's Sleep ended after %v, Sleep after %v; rung after 1s", rung, slept)
		}
		assertSleeps(t, c, bell, time.Hour)
		assertSleeps(t, c, other, time.Hour)
	})
}

func TestRingIsRememberedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := system.New()
		bell := c.Bell()
		for range 3 {
			bell.Ring()
		}
		c.Sleep(t.Context(), time.Second) // A plain Sleep neither ends early nor uses the ring up.
		if got := c.Mono(); got != time.Second {
			t.Errorf("Sleep took %v after a ring", got)
		}
		assertSleeps(t, c, bell, 0)
		assertSleeps(t, c, bell, time.Hour)
	})
}

func TestRingEndsCallThatDoesNotSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := system.New()
		for _, d := range []time.Duration{0, -time.Second} {
			bell := c.Bell()
			bell.Ring()
			bell.Sleep(t.Context(), d)
			assertSleeps(t, c, bell, time.Hour)
		}
	})
}

// assertSleeps asks that a Sleep of an hour by the bell takes want.
func assertSleeps(t *testing.T, c *system.Clock, bell node.Bell, want time.Duration) {
	t.Helper()
	before := c.Mono()
	bell.Sleep(t.Context(), time.Hour)
	if got := c.Mono() - before; got != want {
		t.Errorf("Sleep of 1h took %v, want %v", got, want)
	}
}
