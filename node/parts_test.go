package node_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// time.
func TestPartFailsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			at := time.Since(w.began)
			if r.Topic == "out" && (at < 8*time.Second || at > 20*time.Second) &&
				strings.Contains(string(r.Value), "silent") {
				return errSilent
			}
			return nil
		}
		for i := range 4_000 {
			w.submit(fmt.Sprint("silent-", i), time.Duration(i)*10*time.Millisecond)
		}
		r := w.run(config(0), busy)
		most := 0
		asks := func(r node.ClaimRequest) {
			for _, s := range r.Lanes {
				if s.Part != "" && time.Since(w.began) > 20200*time.Millisecond {
					most = max(most, s.Limit)
				}
			}
		}
		r.gate.asks.Store(&asks)
		pass(39 * time.Second)
		if most == 0 || most > probe {
			t.Errorf("a probe was for %d messages", most)
		}
	})
}

// without a pause.
func TestPartUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var phase, publishes atomic.Int64
		w.refuse = func(r node.Record) error {
			if r.Topic != "out" {
				return nil
			}
			publishes.Add(1)
			switch at := time.Since(w.began); {
			case at < 5*time.Second:
				return errSilent
			case phase.Load() < 20: // a probe comes through
				phase.Add(1)
				return nil
			}
			return node.NotSent
		}
		fill(t, w.store, 5_000)
		var claims atomic.Int64
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "claim" {
				claims.Add(1)
			}
			return nil, true
		})
		pass(20 * time.Second)
		c, p := claims.Load(), publishes.Load()
		pass(10 * time.Second)
		t.Logf("%d claims and %d messages tried in 10s", claims.Load()-c, publishes.Load()-p)
		if n := claims.Load() - c; n > 150 {
			t.Errorf("%d claims in 10s", n)
		}
	})
}

// park has somebody else park a message on a part.
func (w *world) park(lane, part, id string) {
	w.t.Helper()
	w.stored(node.Message{ID: id, Lane: lane, Deadline: time.Now().Add(-time.Second)})
	by := uuid.New()
	result, err := w.store.Claim(w.t.Context(), node.ClaimRequest{
		Node: by, Hold: time.Minute, Until: time.Now(), Lanes: []node.Share{{Lane: lane, Limit: 10, Bytes: 1 << 20}},
	})
	if err != nil || len(result.Messages) != 1 {
		w.t.Fatal(len(result.Messages), err)
	}
	release := node.Release{Claim: result.Messages[0].Claim, Part: part, Unsent: true}
	if _, err := w.store.Reset(w.t.Context(), []node.Release{release}); err != nil {
		w.t.Fatal(err)
	}
}

// A node that rests as far as topics go hears soon of callbacks that another one has parked, and the other way about.
func TestHearsOfParked(t *testing.T) {
	for _, lane := range []string{"out", "http:out"} {
		t.Run(lane, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := calls(0)
				c.IdleInterval = time.Second
				w.run(c, nil)
				var worst time.Duration
				for i := range 12 {
					pass(10*time.Second + time.Duration(i)*700*time.Millisecond)
					id := fmt.Sprint("x", i)
					w.park(lane, fmt.Sprint("host", i), id)
					parked := time.Now()
					for len(w.on(lane)) <= i && time.Since(parked) < time.Minute {
						pass(10 * time.Millisecond)
					}
					worst = max(worst, time.Since(parked))
				}
				t.Log(worst)
				if worst > 3*time.Second {
					t.Errorf("it came out %v late", worst)
				}
			})
		})
	}
}

// Callbacks parked on a host that are given up, since their time to try is over, are given up at once.
func TestParkedGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := &node.PublishError{Kind: node.PartUnavailable, Part: "host"}
		w.answer = func(node.Record) error {
			if time.Since(w.began) < 20*time.Second {
				return &node.PublishError{Kind: node.PartUnavailable, Part: "host", After: time.Second}
			}
			return &node.PublishError{Kind: node.RecordRejected, Part: "host", Err: away}
		}
		var messages []node.Message
		for i := range 1000 {
			messages = append(messages, node.Message{ID: id(i), Lane: "http:out", Deadline: time.Now()})
		}
		w.stored(messages...)
		w.run(calls(0), nil)
		pass(20*time.Second + time.Minute)
		if n := w.store.Len(); n > 0 {
			t.Errorf("%d of 1000 are still there", n)
		}
	})
}

// Hundreds of parts are probed in turn, beside a lane that is claimed on all the time.
func TestPartsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		last := map[string]time.Duration{}
		w.refuse = func(r node.Record) error {
			if r.Topic != "out2" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			last[string(r.Value)] = time.Since(w.began)
			return &node.PublishError{Kind: node.PartUnavailable, Part: string(r.Value)}
		}
		fill(t, w.store, 30_000)
		const parts = 450
		for i := range parts {
			w.stored(node.Message{ID: fmt.Sprintf("%03d", i), Lane: "out2", Deadline: time.Now().Add(-time.Hour)})
		}
		c := config(0)
		c.PollInterval = time.Second
		c.Paces = []node.LanePace{{Lane: "out", PerSecond: 100}}
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		w.run(c, nil)
		pass(3 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		var longest time.Duration
		starved := 0
		for _, at := range last {
			longest = max(longest, time.Since(w.began)-at)
			if time.Since(w.began)-at > 20*time.Second {
				starved++
			}
		}
		t.Log(longest, len(last))
		if starved > 0 {
			t.Errorf("%d of %d parts were not probed for %v", starved, parts, longest)
		}
	})
}
