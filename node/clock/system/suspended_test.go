package system_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node/clock/system"
)

// TestMonoSeesSuspension suspends a machine between two readings. A claim of before is as old as it is for everybody
// else.
func TestMonoSeesSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		suspended := 3 * time.Hour // before the process began
		c := system.NewSuspended(func() time.Duration { return suspended })
		if got := c.Mono(); got != 0 {
			t.Errorf("Mono of a new clock is %v", got)
		}
		c.Sleep(t.Context(), time.Second)
		for i, step := range []struct{ suspension, want time.Duration }{
			{0, time.Second},
			{time.Hour, time.Second + time.Hour},
			{-time.Microsecond, time.Second + time.Hour}, // measured too small
			{time.Microsecond, time.Second + time.Hour},
			{time.Minute, time.Second + time.Hour + time.Minute},
			{-time.Minute, time.Second + time.Hour + time.Minute},
		} {
			suspended += step.suspension
			if got := c.Mono(); got != step.want {
				t.Errorf("step %d: Mono is %v, want %v", i, got, step.want)
			}
		}
	})
}

// TestMonoIgnoresImprecision lets the measurement wander by less than any suspension lasts.
func TestMonoIgnoresImprecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		suspended := time.Hour
		c := system.NewSuspended(func() time.Duration { return suspended })
		for range 100 {
			suspended -= time.Microsecond
		}
		suspended += system.MinSuspension / 2
		if got := c.Mono(); got != 0 {
			t.Errorf("Mono is %v, and no time has passed", got)
		}
	})
}

// TestMonoNeverGoesBack reads from several goroutines while the machine is suspended again and again.
func TestMonoNeverGoesBack(t *testing.T) {
	var mu sync.Mutex
	suspended := time.Duration(0)
	c := system.NewSuspended(func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		suspended += 3 * time.Millisecond
		return suspended - time.Duration(suspended.Milliseconds()%5)*time.Millisecond
	})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			before := c.Mono()
			for range 1000 {
				now := c.Mono()
				if now < before {
					t.Errorf("Mono went back from %v to %v", before, now)
				}
				before = now
			}
		})
	}
	readers.Wait()
}

// TestSuspendedIsSteady asks this machine twice. Between the two it was not suspended, or the test is as patient.
func TestSuspendedIsSteady(t *testing.T) {
	first := system.Suspended()
	if first < -time.Second {
		t.Fatalf("the machine was suspended for %v", first)
	}
	if runtime.GOOS != "linux" && first != 0 {
		t.Errorf("the machine was suspended for %v: where does it know that from?", first)
	}
	least := time.Hour
	for range 100 {
		least = min(least, (system.Suspended() - first).Abs())
	}
	if least >= system.MinSuspension {
		t.Errorf("the machine was suspended for %v more at each of 100 readings", least)
	}
}

// BenchmarkMono measures what a reading costs.
func BenchmarkMono(b *testing.B) {
	c := system.New()
	for b.Loop() {
		c.Mono()
	}
}
