package callback_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/callback"
)

// A message that waits for its turn asks whether it may begin when its turn has come, and not before: then the pace of
// its lane counts it. If it may not, it was not tried, and its turn is the next one's.
func TestAsksWhenItsTurnHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lane := callback.Default("http:test")
		lane.PerHost = 1
		s, err := callback.New(callback.Config{
			Lanes: []callback.Lane{lane},
			Functions: map[string]callback.Function{"http:test": func(context.Context, *callback.Message) error {
				<-time.After(200 * time.Millisecond)
				return nil
			}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var asking sync.WaitGroup
		var asked []time.Duration
		for _, may := range []bool{true, false, true} {
			asking.Go(func() {
				ctx := node.WithBegins(t.Context(), func() bool {
					asked = append(asked, time.Since(start))
					return may
				})
				err := s.Publish(ctx, []node.Record{record("http://localhost")})[0]
				if may && err != nil || !may && !node.KindOf(err).Untried() {
					t.Errorf("one that may begin, %v, is told %v", may, err)
				}
			})
			synctest.Wait() // they come one after the other
		}
		asking.Wait()
		if want := []time.Duration{0, 200 * time.Millisecond, 200 * time.Millisecond}; !slices.Equal(asked, want) {
			t.Errorf("they asked after %v, want %v", asked, want)
		}
		if took := time.Since(start); took != 400*time.Millisecond {
			t.Errorf("all of it took %v, want 400ms", took)
		}
	})
}
