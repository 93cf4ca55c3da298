package admin_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node/admin"
	"chronos/node/store/outlook"
)

// slow is a source that takes its time, and counts how often it was asked.
type slow struct{ asked atomic.Int32 }

// Outlook implements outlook.Source.
func (s *slow) Outlook(_ context.Context, request outlook.Request) (outlook.Outlook, error) {
	s.asked.Add(1)
	<-time.After(700 * time.Millisecond)
	return outlook.Outlook{Lanes: []outlook.Lane{{Name: request.Lanes[0]}}}, nil
}

// Goal: however many ask, the store counts once in two seconds, nobody but the first waits for it, nobody gets the
// count of other lanes, and nothing is counted while nobody asks. Method: virtual time.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &slow{}
		r := admin.NewRecent(source)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		defer running.Wait()
		defer stop()
		ask := func(lane string) time.Duration {
			began := time.Now()
			seen, err := r.Outlook(ctx, outlook.Request{Now: began, Lanes: []string{lane}})
			if err != nil || seen.Lanes[0].Name != lane {
				t.Fatalf("%+v, %v", seen, err)
			}
			return time.Since(began)
		}
		if took := ask("a"); took != 700*time.Millisecond {
			t.Errorf("the first took %v", took)
		}
		for range 200 {
			<-time.After(100 * time.Millisecond)
			if took := ask("a"); took != 0 {
				t.Fatalf("one waits for %v", took)
			}
		}
		if n := source.asked.Load(); n < 8 || n > 12 {
			t.Errorf("the store was asked %d times in 20 s", n)
		}
		ask("b")
		<-time.After(time.Minute)
		before := source.asked.Load()
		<-time.After(time.Hour)
		if n := source.asked.Load() - before; n > 0 {
			t.Errorf("the store was asked %d times while nobody asks", n)
		}
		ask("b")
	})
}
