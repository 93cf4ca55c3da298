package admin_test

import (
	"context"
	"math"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node/admin"
)

// Goal: the history has what was fired in each of the last 15 minutes' intervals and how late 99 in 100 of that was,
// forgets what is older, and gives what is new. Method: virtual time, counters that are known.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		now := admin.Counted{Fired: 1000, Lateness: []admin.Bound{{0.1, 900}, {2, 1000}, {math.Inf(1), 1000}}}
		fire := func(quick, slow, never uint64) {
			mu.Lock()
			defer mu.Unlock()
			now.Fired += quick + slow + never
			l := now.Lateness
			now.Lateness = []admin.Bound{
				{0.1, l[0].Count + quick},
				{2, l[1].Count + quick + slow},
				{math.Inf(1), l[2].Count + quick + slow + never},
			}
		}
		h := admin.NewHistory(func() admin.Counted {
			mu.Lock()
			defer mu.Unlock()
			return now
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { h.Run(ctx) })
		defer running.Wait()
		defer stop()
		if moments := h.Since(time.Time{}); len(moments) != 0 {
			t.Fatalf("it begins with %v", moments)
		}
		synctest.Wait()
		check := func(fired uint64, late float64) {
			t.Helper()
			<-time.After(5 * time.Second)
			synctest.Wait()
			moments := h.Since(time.Now().Add(-time.Second))
			if len(moments) != 1 || moments[0].Fired != fired || !moments[0].At.Equal(time.Now()) {
				t.Fatalf("after %v: %+v, want %d fired", time.Since(began), moments, fired)
			}
			if got := moments[0].Lateness; math.IsNaN(late) != (got == nil) || got != nil && *got != late {
				t.Errorf("after %v the lateness is %v, want %v", time.Since(began), got, late)
			}
		}
		check(0, math.NaN())
		fire(99, 1, 0)
		check(100, 0.1)
		fire(98, 2, 0)
		check(100, 2)
		fire(0, 0, 7) // later than all bounds
		check(7, 2)
		check(0, math.NaN())
		for range 2 * 180 {
			fire(1, 0, 0)
			check(1, 0.1)
		}
		all := h.Since(time.Time{})
		if len(all) != 180 || all[179].At.Sub(all[0].At) != 15*time.Minute-5*time.Second {
			t.Errorf("it has %d moments, from %v to %v", len(all), all[0].At, all[len(all)-1].At)
		}
	})
}

// Goal: the history is had from the API, all of it or what is new; a process without one says so.
func TestAPIHistory(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	s.ask(t, 404, "GET", "/v1/history", "", nil)
	s.api.History = admin.NewHistory(func() admin.Counted { return admin.Counted{} })
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	for i := range 3 {
		admin.Remember(s.api.History, at.Add(time.Duration(i)*5*time.Second), uint64(i), 0.5)
	}
	s.handler = s.api.Handler()
	var past admin.Past
	s.ask(t, 200, "GET", "/v1/history", "", &past)
	if past.Seconds != 5 || len(past.Moments) != 3 || past.Moments[2].Fired != 2 || *past.Moments[2].Lateness != 0.5 {
		t.Errorf("the past is %+v", past)
	}
	s.ask(t, 200, "GET", "/v1/history?after="+url.QueryEscape(past.Moments[1].At.Format(time.RFC3339Nano)), "", &past)
	if len(past.Moments) != 1 || !past.Moments[0].At.Equal(at.Add(10*time.Second)) {
		t.Errorf("what is new is %+v", past)
	}
	s.ask(t, 200, "GET", "/v1/history?after="+url.QueryEscape(past.Moments[0].At.Format(time.RFC3339Nano)), "", &past)
	if past.Moments == nil || len(past.Moments) != 0 {
		t.Errorf("nothing is new, and that is %+v", past)
	}
}
