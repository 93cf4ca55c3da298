package node_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// A host of a callback lane does not answer. What was not sent to it is parked, and so is what it has let run into its
// time limit; what it has refused, or nobody has tried, is where it was. When it answers, whatever it says, all that is
// parked is tried soon. On a lane with lines nothing is parked.
func TestHostIsAPart(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered %v", ordered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &parted{world: newWorld(t), tries: map[string]int{}}
				var err error
				p.answer = func(string, string) error { return err }
				p.world.answer = func(r node.Record) error {
					pass(30 * time.Millisecond)
					p.mu.Lock()
					defer p.mu.Unlock()
					p.tries[string(r.Value)]++
					return p.answer("", "")
				}
				is := func(now error) { p.mu.Lock(); defer p.mu.Unlock(); err = now; p.tries = map[string]int{} }
				c := calls(0)
				c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", Ordered: ordered}}
				const waiting = 400
				want := func(what string, parked int) {
					t.Helper()
					if ordered {
						parked = 0
					}
					if at := p.at(); at["host"] != parked || at[""] != waiting-parked {
						t.Errorf("%s: they are at %v", what, at)
					}
				}
				is(&node.PublishError{Kind: node.PartUnavailable, Part: "host", After: time.Hour})
				p.run(c, nil)
				for i := range waiting {
					p.stored(node.Message{ID: id(i), Lane: "http:out", Deadline: time.Now().UTC()})
				}
				pass(30 * time.Second)
				want("it does not answer", waiting)
				said := map[string]bool{}
				for _, e := range seen[node.Unpublished](p.world) {
					for i := range e.Messages {
						said[e.Messages[i].ID] = true
					}
				}
				if len(said) != waiting {
					t.Errorf("why they did not come out is told of %d messages, want %d", len(said), waiting)
				}
				is(&node.PublishError{Kind: node.NotSent, Err: errors.New("busy"), After: time.Second})
				pass(30 * time.Second)
				want("it is busy", waiting)
				is(&node.PublishError{Part: "host", Err: errInjected})
				pass(30 * time.Second)
				want("it has let a request hang", waiting)
				is(&node.PublishError{Err: errInjected, After: time.Hour})
				pass(10 * time.Second)
				want("it has failed", 0)
				if !ordered && len(p.tries) != waiting {
					t.Errorf("%d of %d were tried", len(p.tries), waiting)
				}
				is(nil)
				pass(2 * time.Hour)
				p.empty()
			})
		})
	}
}
