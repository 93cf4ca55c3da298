package node_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// The store is away for longer than the hold time, between a publish and its delete. It answers the detector first when
// it is back, and the owner of the claim is given the time to repeat its delete: nobody suspects it, and the message
// does not fire twice.
func TestOwnerDeletesFirstAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		var away, back atomic.Bool // back: the detector's call is answered, the others' are not yet
		w.run(config(0), func(_ int, call string) (error, bool) {
			switch call {
			case "sleep", "poll", "start", "commit", "leave":
				return nil, true
			case "publish":
				away.Store(true)
				return nil, true
			case "expired":
				if back.Load() {
					return nil, true
				}
			}
			if away.Load() {
				return errInjected, false
			}
			return nil, true
		})
		pass(9 * time.Second)
		if got := len(w.on("out")); got != 1 || w.store.Len() != 1 {
			t.Fatalf("%d deliveries, %d messages in the store: this tests nothing", got, w.store.Len())
		}
		back.Store(true)
		for waited := 0; len(seen[node.Resumed](w)) == 0 && waited < 2000; waited++ {
			pass(time.Millisecond)
		}
		away.Store(false)
		pass(10 * time.Second)
		if got := len(w.on("out")); got != 1 {
			t.Errorf("%d deliveries", got)
		}
		if suspected := seen[node.Suspected](w); len(suspected) > 0 {
			t.Errorf("suspected after the outage: %v", suspected)
		}
		w.empty()
	})
}

// A node dies between a publish and its delete. Whoever recovers the claim does not know that it was published, so
// that the next claim counts as the second attempt.
func TestSuspectedClaimCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "publish" {
				return errCrash, true
			}
			return nil, true
		})
		w.run(config(1), nil)
		pass(10 * time.Second)
		var attempts []int
		for _, e := range seen[node.Claimed](w) {
			for _, m := range e.Messages {
				attempts = append(attempts, m.Attempts)
			}
		}
		if !slices.Equal(attempts, []int{1, 2}) {
			t.Errorf("the claims count as attempts %v, want 1 and 2", attempts)
		}
		w.empty()
	})
}

// A node died that held more claims than one look for them returns: all are reset at once, and not a page in each
// detection interval.
func TestRecoversAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const messages = 1300
		fill(t, w.store, messages)
		result, err := w.store.Claim(t.Context(), node.ClaimRequest{
			Node: uuid.New(), Hold: time.Second, Until: time.Now(),
			Lanes: []node.Share{{Lane: "out", Limit: messages, Bytes: 1 << 30}},
		})
		if err != nil || len(result.Messages) != messages {
			t.Fatalf("claimed %d, %v", len(result.Messages), err)
		}
		pass(2 * time.Second) // they have expired
		c := config(0)
		c.DetectionInterval = time.Minute
		w.run(c, nil)
		pass(5 * time.Second)
		if got := len(w.on("out")); got != messages {
			t.Errorf("%d of %d came out within one detection interval", got, messages)
		}
	})
}

// A node is stopped, and the store does not take back its claims: it says how many it leaves behind, and a peer
// recovers them.
func TestStopLeavesClaimsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const messages = 20
		for i := range messages {
			w.submit(id(i), 1200*time.Millisecond)
		}
		n := w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "reset" {
				return errInjected, false
			}
			return nil, true
		})
		pass(1050 * time.Millisecond)
		n.stop()
		if left := seen[node.LeftBehind](w); len(left) != 1 || left[0].Claims != messages {
			t.Errorf("left behind: %v, want the claims on %d messages", left, messages)
		}
		w.run(config(1), nil)
		pass(10 * time.Second)
		if got := w.on("out"); len(got) != messages {
			t.Errorf("%d of %d came out", len(got), messages)
		}
		w.empty()
	})
}
