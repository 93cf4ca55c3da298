package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// For a while no call of one kind is answered within its time limit, so that the next ones are halved again and again.
// When the way is as fast as before, each call that goes well lets them grow, until they are as large as ever. A node
// that stayed with small batches would be slow for the rest of its life, after one bad minute.
func TestBatchesGrowAgain(t *testing.T) {
	for call, c := range map[string]struct {
		limit time.Duration
		full  int // messages
		sizes func(w *world) []int
	}{
		"take": {1500 * time.Millisecond, 7, func(w *world) (sizes []int) { // all that a poll returns
			for _, e := range seen[node.Enqueued](w) {
				sizes = append(sizes, len(e.Messages))
			}
			return sizes
		}},
		"claim": {1500 * time.Millisecond, 500, func(w *world) (sizes []int) {
			for _, e := range seen[node.Claimed](w) {
				sizes = append(sizes, len(e.Messages))
			}
			return sizes
		}},
		"publish": {2 * time.Second, 500, func(w *world) (sizes []int) {
			for _, e := range seen[node.Fired](w) {
				sizes = append(sizes, len(e.Messages))
			}
			return sizes
		}},
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if call == "take" {
					for i := range 70 {
						r := w.submit(id(i), time.Hour)
						w.input["in"][r.Offset].Value = make([]byte, 1<<20)
					}
				} else {
					fill(t, w.store, overdue/4)
				}
				var fast atomic.Bool
				w.run(config(0), func(_ int, name string) (error, bool) {
					if name != call || fast.Load() {
						return nil, true
					}
					pass(c.limit)
					return errInjected, false
				})
				pass(8 * time.Second)
				before := len(c.sizes(w))
				fast.Store(true)
				pass(20 * time.Second)
				sizes := c.sizes(w)[before:]
				if len(sizes) == 0 || sizes[0] > c.full/4 {
					t.Fatalf("they were not halved: %v", sizes)
				}
				full := 0
				for _, n := range sizes {
					if n == c.full {
						full++
					}
				}
				if full < 5 {
					t.Errorf("%d calls were as large as ever: %v", full, sizes)
				}
			})
		})
	}
}

// The topic rejects all messages, and says so of a large batch only when the claims on it are too old for the copies.
// So there are fewer in the next batch, of which there are copies.
func TestCopiesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" {
				return node.RecordRejected
			}
			return nil
		}
		w.tardy = func(r node.Record) bool {
			if r.Topic == "out" {
				pass(7 * time.Millisecond) // 1.75 s for the 250 of a claim
			}
			return false
		}
		const rejected = 2000
		fill(t, w.store, rejected)
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "claim" {
				pass(1400 * time.Millisecond)
			}
			return nil, true
		})
		pass(30 * time.Second) // those of the first batches have been put off by minutes
		if got := len(w.on("dead")); got < rejected/2 {
			t.Errorf("there are copies of %d of %d messages", got, rejected)
		}
	})
}

// However many parts are probed by a claim, the lanes in it may have as many messages and bytes as without probes, and
// the bound on all bytes has room for both.
func TestProbesBesideLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := park(t, config(0))
		p.waits(100, 3, nil)
		const none = 1 << 40
		claims, limit, size, beside := 0, none, none, none
		before := *p.node.gate.asks.Load()
		asks := func(request node.ClaimRequest) {
			before(request)
			probes := 0
			for _, share := range request.Lanes {
				if share.Part != "" {
					probes += share.Bytes
				}
			}
			for _, share := range request.Lanes {
				if share.Lane == "out" && share.Part == "" && len(request.Lanes) > 30 {
					claims++
					limit, size = min(limit, share.Limit), min(size, share.Bytes)
					beside = min(beside, request.Bytes-probes)
				}
			}
		}
		p.node.gate.asks.Store(&asks)
		p.traffic(30)
		if claims == 0 || limit < 200 || size < 1<<20 || beside < 8<<20 {
			t.Errorf("in %d claims with many probes the lane has %d messages and %d bytes, and all lanes %d bytes",
				claims, limit, size, beside)
		}
	})
}
