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

// busyOnce returns a world with two callbacks, settings to make them with, and the number of requests to the second
// receiver, which is busy when it is asked first: it is to be asked again a second later. The first one is deleted.
func busyOnce(t *testing.T) (w *world, c node.Config, asked func() int) {
	var first atomic.Bool
	w = newWorld(t)
	w.answer = func(r node.Record) error {
		if r.Topic == "http:other" && first.CompareAndSwap(false, true) {
			return &node.PublishError{Err: errInjected}
		}
		return nil
	}
	w.submit("done", 5*time.Second)
	w.submit("busy", 6*time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("http:other")})
	return w, calls(0), func() int { return len(w.on("http:other")) }
}

// Somebody has locked a row, so that deletes fail. What was put off is given back meanwhile, and comes when it should.
func TestPutOffBesideDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, asked := busyOnce(t)
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "delete" {
				pass(1500 * time.Millisecond)
				return errInjected, false
			}
			return nil, true
		})
		pass(10 * time.Second)
		if asked() != 2 {
			t.Errorf("the receiver that was busy was asked %d times, want twice", asked())
		}
	})
}

// Nothing can be given back for a while. What has fired is deleted meanwhile; and what was put off is given back when
// that is over.
func TestDeletesBesidePutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, asked := busyOnce(t)
		w.submit("later", 8*time.Second)
		var failing atomic.Bool
		failing.Store(true)
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "reset" && failing.Load() {
				pass(1500 * time.Millisecond)
				return errInjected, false
			}
			return nil, true
		})
		pass(11 * time.Second)
		if left := w.store.Len(); left != 1 {
			t.Errorf("%d messages are left, want the one that was put off", left)
		}
		failing.Store(false)
		pass(5 * time.Second)
		if asked() != 2 {
			t.Errorf("the receiver that was busy was asked %d times, want twice", asked())
		}
		w.empty()
	})
}
