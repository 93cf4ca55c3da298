package node_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// A take asks for a claim while the lane is paused, and its answer is lost; then the claimer claims the message,
// and the take is repeated, and told of the same claim. Whoever of the two is answered first, the claim is scheduled
// once.
func TestClaimOfTwo(t *testing.T) {
	for name, takeFirst := range map[string]bool{"the claimer is answered first": false, "the take is": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.pause("out")
				time.AfterFunc(150*time.Millisecond, func() { w.resume("out") })
				var once sync.Once
				claimed, answered := make(chan struct{}), make(chan struct{})
				w.watch = func(e node.Event) {
					switch e.(type) {
					case node.Claimed:
						once.Do(func() {
							close(claimed)
							if takeFirst {
								<-answered
								pass(50 * time.Millisecond) // and the schedule is looked through
							}
						})
					case node.Enqueued:
						close(answered)
					}
				}
				w.submit("x", 400*time.Millisecond)
				takes := 0
				w.run(lookingAhead(), func(_ int, call string) (error, bool) {
					if call != "take" {
						return nil, true
					}
					if takes++; takes == 1 {
						return errInjected, true
					}
					<-claimed
					if !takeFirst {
						pass(20 * time.Millisecond)
					}
					return nil, true
				})
				pass(3 * time.Second)
				if got := w.values("out"); got["value x"] != 1 || takes != 2 {
					t.Errorf("delivered %v after %d takes", got, takes)
				}
				w.empty()
			})
		})
	}
}

// A contested message whose claim was given back is claimed anew, and that claim is scheduled too.
func TestContestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		refusals := 0
		w.refuse = func(node.Record) error {
			if refusals++; refusals == 1 {
				return errSilent
			}
			return nil
		}
		start := time.Now()
		w.submit("x", 300*time.Millisecond)
		takes := 0
		w.run(lookingAhead(), func(_ int, call string) (error, bool) {
			if call == "take" {
				if takes++; takes == 1 {
					return errInjected, true
				}
			}
			return nil, true
		})
		pass(3 * time.Second)
		for _, d := range w.on("out") {
			if late := d.at.Sub(start); late > 1500*time.Millisecond {
				t.Errorf("it came after %v", late)
			}
		}
		if got := w.values("out"); got["value x"] != 1 {
			t.Errorf("delivered %v", got)
		}
		w.empty()
	})
}

// lookingAhead returns a configuration of a node that claims long before it publishes.
func lookingAhead() node.Config {
	c := config(0)
	c.Lookahead = 900 * time.Millisecond
	return c
}
