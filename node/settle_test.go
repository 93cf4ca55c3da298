package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// The store answers claims, but no deletes: a node publishes no more than it can afford to fire twice if it dies. Its
// bound is 2,000 messages, and what is in the hands of its publishers when there are that many comes on top.
func TestStopsPublishingWithoutDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, 8000)
		var away atomic.Bool
		away.Store(true)
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "delete" && away.Load() {
				return errInjected, false
			}
			return nil, true
		})
		pass(2 * time.Second)
		if got := len(w.on("out")); got < 2000 || got > 4000 {
			t.Errorf("%d messages were published while none could be deleted, want 2000 to 4000", got)
		}
		away.Store(false)
		pass(10 * time.Second)
		if left := w.store.Len(); left > 0 {
			t.Errorf("%d messages are left once the store deletes again", left)
		}
	})
}

// The reply to a delete is lost. The repeated one finds nothing, and says that it was repeated: otherwise it would look
// as if a peer had fired the message as well.
func TestRepeatedDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		deletes := 0
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "delete" {
				if deletes++; deletes == 1 {
					return errInjected, true
				}
			}
			return nil, true
		})
		pass(3 * time.Second)
		if missing := seen[node.Missing](w); len(missing) != 1 || !missing[0].Repeated {
			t.Errorf("missing: %v, want one, of a repeated delete", missing)
		}
		w.empty()
	})
}

// A node is stopped while a publish is under way, and the store fails the delete after it once: the node waits for the
// acknowledgement, and tries the delete again at once, whatever its back-off. Otherwise a peer would fire the message
// a second time.
func TestStopDeletesWhatFires(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration // the publish
		failing int           // deletes
	}{
		"the publish is slow":        {time.Second, 0},
		"the delete fails":           {0, 1},
		"both":                       {time.Second, 1},
		"the delete fails two times": {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("x", time.Second)
				publishing := make(chan struct{})
				deletes := 0
				n := w.run(config(0), func(_ int, call string) (error, bool) {
					switch call {
					case "publish":
						close(publishing)
						pass(c.takes)
					case "delete":
						if deletes++; deletes <= c.failing {
							return errInjected, false
						}
					}
					return nil, true
				})
				<-publishing
				n.stop()
				if w.store.Len() > 0 {
					t.Errorf("the message that fired is left in the store after %d deletes", deletes)
				}
				if left := seen[node.LeftBehind](w); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		})
	}
}
