package node_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// blockedMax is the longest wait before what is locked is tried again.
const blockedMax = 6 * time.Second

// lock has another session, of psql say, lock the row of a message.
func (w *world) lock(ids ...string) (unlock func()) {
	var locks memory.Locks
	for _, id := range ids {
		locks.Messages = append(locks.Messages, node.MessageID{ID: id, Lane: "out"})
	}
	return w.store.Lock(locks)
}

// One row is locked by a foreign session while its message is being published. All other messages are to come out, on
// its lane and on others (G5).
func TestIsolationLockedRowStopsFiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		w.run(c, nil)
		var unlocks []func()
		const locks, each = 8, 300 // together more than may wait for their delete
		for n := range locks {
			var ids []string
			for i := range each {
				ids = append(ids, fmt.Sprint("x", n, "-", i))
				w.stored(node.Message{ID: ids[i], Lane: "out", Deadline: time.Now().Add(time.Second)})
			}
			for held := 0; held < (n+1)*each; {
				pass(10 * time.Millisecond)
				held = 0
				for _, e := range seen[node.Claimed](w) {
					held += len(e.Messages)
				}
			}
			unlocks = append(unlocks, w.lock(ids...))
			pass(time.Second)
		}
		unlock := func() {
			for _, unlock := range unlocks {
				unlock()
			}
		}
		pass(1100 * time.Millisecond)
		for i := range 600 { // 100 messages a second, for a minute
			w.now("out2", fmt.Sprint("other", i), 10)
			pass(100 * time.Millisecond)
		}
		pass(5 * time.Second)
		came := w.on("out2")
		last := time.Duration(0)
		if len(came) > 0 {
			last = came[len(came)-1].at.Sub(w.began)
		}
		t.Logf("of 6000 messages of another lane %d came out, the last one %v after the beginning; x came out %d times",
			len(came), last, len(w.on("out")))
		if len(came) != 6000 {
			t.Errorf("%d of 6000 came out beside one locked row", len(came))
		}
		for value, n := range w.values("out") {
			if n != 1 {
				t.Errorf("%s came out %d times while it is locked", value, n)
			}
		}
		unlock()
		pass(8 * time.Second)
		w.empty()
	})
}

// A node that has lost its store begins no callback any more, although its claim is young enough: the store may have
// been set back, and another node have been told that the message is cancelled. It goes on when the store is back.
func TestIsolationUnconfirmedCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:slow", Concurrency: 1}}
		w.answer = func(node.Record) error { pass(6 * time.Second); return nil }
		var away atomic.Bool
		w.run(c, func(_ int, call string) (error, bool) {
			if away.Load() && call != "poll" && call != "call" {
				return errInjected, false
			}
			return nil, true
		})
		for _, id := range []string{"a", "b"} {
			w.stored(node.Message{ID: id, Lane: "http:slow", Deadline: time.Now().Add(time.Second)})
		}
		pass(2 * time.Second) // the first one is under way, and the second one waits for its turn
		away.Store(true)
		pass(15 * time.Second)
		if n := len(w.on("http:slow")); n != 1 {
			t.Errorf("%d callbacks have begun, want the one that had before the store was lost", n)
		}
		away.Store(false)
		pass(2 * time.Minute)
		if got := w.values("http:slow"); len(w.on("http:slow")) < 2 {
			t.Errorf("when the store is back, %v have come out", got)
		}
	})
}

// A node dies with claims on 100 messages; the row of the first one is locked by a foreign session. A peer is to
// recover the other 99.
func TestIsolationLockedRowStopsRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.now("out", "x", 100)
		dead := node.ClaimRequest{
			Node: [16]byte{1}, Hold: 5 * time.Second, Until: time.Now(),
			Lanes: []node.Share{{Lane: "out", Limit: 100, Bytes: 1 << 20}},
		}
		if r, err := w.store.Claim(t.Context(), dead); err != nil || len(r.Messages) != 100 {
			t.Fatal(err)
		}
		unlock := w.lock("x-0")
		w.run(config(0), nil)
		pass(2 * time.Minute)
		t.Logf("two minutes later %d of 99 are recovered", len(w.on("out")))
		if n := len(w.on("out")); n != 99 {
			t.Errorf("%d of 99 are recovered beside one locked row", n)
		}
		unlock()
		pass(2 * time.Second)
		if n := len(w.on("out")); n != 100 {
			t.Errorf("%d of 100 have come out after the lock", n)
		}
	})
}

// A row is locked by a foreign session, and a record comes that is about it. Records of another input topic are to be
// taken in.
func TestIsolationLockedRowStopsIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stored(node.Message{ID: "x", Lane: "out", Deadline: time.Now().Add(time.Hour)})
		unlock := w.lock("x")
		c := config(0)
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		for i := range 4 {
			c.Seed[1] = byte(i)
			w.run(c, nil)
		}
		pass(2 * time.Second)
		w.submit("before", time.Second)
		w.submit("x", time.Hour)
		w.submit("behind", time.Second)
		for i := range 600 {
			w.submitRecord(node.Record{Topic: "in2", Value: fmt.Append(nil, "y", i), Headers: []node.Header{
				{Name: node.HeaderID, Value: []byte(fmt.Sprint("y", i))},
				{Name: node.HeaderDeadline, Value: []byte(time.Now().UTC().Format("2006-01-02T15:04:05.000000"))},
			}})
			pass(100 * time.Millisecond)
		}
		pass(5 * time.Second)
		n := map[string]bool{}
		for _, d := range w.on("out2") {
			n[d.id()] = true
		}
		t.Logf("%d of 600 records of another input topic came out; nodes left their group %d times", len(n),
			len(seen[node.LeftGroup](w)))
		if len(n) < 600 {
			t.Errorf("%d of 600", len(n))
		}
		if len(seen[node.LeftGroup](w)) > 0 {
			t.Error("a node has left its group")
		}
		if got := w.values("out"); len(got) != 1 || got["value before"] != 1 {
			t.Errorf("of the partition of the locked message %v came out", got)
		}
		unlock()
		pass(blockedMax + 2*time.Second)
		if got := w.values("out"); len(got) != 2 {
			t.Errorf("after the lock %v came out", got)
		}
	})
}

// slowSink is what the Kafka sink is on a slow way to the brokers: of a batch it sends what there is time for, at the
// pace of what it has sent before, and says of the rest that it was not sent (NotSent, node/broker/kafka/publish.go:
// "no time left at the pace of what was published before").
type slowSink struct {
	node.Sink

	most int
}

func (s *slowSink) Publish(ctx context.Context, records []node.Record) []error {
	n := min(len(records), s.most)
	pass(time.Duration(n) * 1200 * time.Millisecond / time.Duration(s.most))
	errs := s.Sink.Publish(ctx, records[:n])
	for range records[n:] {
		errs = append(errs, fmt.Errorf("no time left: %w", node.NotSent))
	}
	return errs
}

// No partition is silent: the way to the brokers is slow, for a lane with a backlog of an hour. Half of what comes out
// is to be what is there longest (ADR 34).
func TestIsolationSlowWayIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const backlog = 20_000
		w := newWorld(t)
		for i := range backlog {
			w.stored(node.Message{
				ID: fmt.Sprintf("m%05d", i), Lane: "out",
				Deadline: time.Now().Add(-time.Hour + time.Duration(i)*180*time.Millisecond),
			})
		}
		g := &gate{decide: nil, died: make(chan struct{})}
		sink := &slowSink{&gatedSink{gate: g, world: w}, 50}
		n, err := node.New(config(0), node.Ports{
			Clock: &clock{gate: g, start: time.Now()}, Sink: sink, Store: gatedStore{g, w.store, 0},
			Source: &gatedSource{gate: g, world: w, next: map[string]int64{}, limit: 7, topics: []string{"in"}},
		}, func(node.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); n.Run(ctx, node.Goroutines()) }()
		defer func() { cancel(); <-done }()
		for range 30 {
			pass(10 * time.Second)
			out := w.on("out")
			oldest, all := 0, len(out)
			for _, d := range out {
				if d.id() < "m01000" {
					oldest++
				}
			}
			t.Logf("after %v %d came out, of the oldest 1000 %d", time.Since(w.began).Round(time.Second), all, oldest)
			if at := time.Since(w.began); at > 45*time.Second && at < 55*time.Second && oldest < 1000 {
				t.Errorf("after %v, in which %d came out, %d of the oldest 1000 have", at, all, oldest)
			}
			if all >= backlog {
				break
			}
		}
	})
}

// The topic rejects a message for good, and the dead-letter topic is missing. What needs somebody to act is to be tried
// again after 1 s, 2 s, ... 5 min (publish.go: permanentRetryMin, permanentRetryMax), not each second for ever.
func TestIsolationPoisonWithoutDeadLetterTopic(t *testing.T) {
	for _, dead := range []string{"", "dead"} {
		t.Run("dead letters to "+dead, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var tries atomic.Int64
				w.refuse = func(r node.Record) error {
					if r.Topic == "out" {
						tries.Add(1)
						return node.RecordRejected
					}
					return node.TopicMissing
				}
				c := config(0)
				c.Routes[0].DeadLetter = dead
				w.now("out", "poison", 1)
				w.run(c, nil)
				pass(10 * time.Minute)
				t.Logf("tried %d times in ten minutes", tries.Load())
				if tries.Load() > 20 {
					t.Errorf("tried %d times in ten minutes", tries.Load())
				}
			})
		})
	}
}

// Many messages are rejected for good while the dead-letter topic is missing (or forbidden). New messages of the same
// lane are to come out in time (G5, L6).
func TestIsolationPoisonDelaysOthers(t *testing.T) {
	for _, dead := range []string{"", "dead"} {
		for _, n := range []int{20_000, 60_000} {
			t.Run(fmt.Sprintf("dead letters to %s, %d rejected", dead, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.refuse = func(r node.Record) error {
						switch {
						case r.Topic == "dead":
							return node.TopicMissing
						case len(r.Value) == 0:
							return node.RecordRejected
						}
						return nil
					}
					c := config(0)
					c.Routes[0].DeadLetter = dead
					fill(t, w.store, n)
					w.run(c, busy)
					pass(time.Minute)
					late := w.lateness(w.prompt(300, 100*time.Millisecond))
					t.Logf("late by %v, and by %v at most", late[len(late)/2], late[len(late)-1])
					if late[len(late)/2] > 300*time.Millisecond {
						t.Errorf("new messages are %v late at the median", late[len(late)/2])
					}
				})
			})
		}
	}
}

// A claim runs into its time limit once, since the server was busy for a second and a half. Two seconds later and on,
// what falls due on many lanes is to be claimed within a poll interval and three calls, as before (L11).
func TestIsolationTurnsAfterOneStall(t *testing.T) {
	for _, lanes := range []int{10, 100, 250} {
		for _, stall := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d lanes, a stall %v", lanes, stall), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					c := config(0)
					for i := range lanes {
						c.Routes[0].Targets = append(c.Routes[0].Targets, fmt.Sprint("lane", i))
					}
					once := stall
					w.run(c, func(_ int, call string) (error, bool) {
						if call != "claim" {
							return nil, true
						}
						if once && time.Since(w.began) > 10*time.Second {
							once = false
							pass(1500 * time.Millisecond)
							return errInjected, false
						}
						pass(20 * time.Millisecond)
						return nil, true
					})
					due := map[string]time.Time{}
					for i := range 900 { // 10 a second, on one lane after the other, each due two seconds later
						at := time.Now().Add(2 * time.Second)
						id := fmt.Sprint("m", i)
						w.stored(node.Message{ID: id, Lane: fmt.Sprint("lane", i*7%lanes), Deadline: at})
						due[id] = at
						pass(100 * time.Millisecond)
					}
					pass(10 * time.Second)
					var before, after, later []time.Duration
					w.mu.Lock()
					defer w.mu.Unlock()
					for _, d := range w.output {
						late := d.at.Sub(due[d.id()])
						switch at := due[d.id()].Sub(w.began); {
						case at < 9*time.Second:
							before = append(before, late)
						case at > 14*time.Second && at < 60*time.Second:
							after = append(after, late)
						case at > 65*time.Second:
							later = append(later, late)
						}
					}
					for _, l := range [][]time.Duration{before, after, later} {
						slices.Sort(l)
					}
					t.Logf("late by (median, most) %v %v before; %v %v from 2 s after it; %v %v later",
						before[len(before)/2], before[len(before)-1], after[len(after)/2], after[len(after)-1],
						later[len(later)/2], later[len(later)-1])
					if most := after[len(after)-1]; most > 200*time.Millisecond {
						t.Errorf("%v late, 2 s and more after a stall of 1.5 s", most)
					}
				})
			})
		}
	}
}

// The same on callback lanes, whose claims are held for longer.
func TestIsolationTurnsOfCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes = 100
		w := newWorld(t)
		c := config(0)
		for i := range lanes {
			c.Callbacks.Lanes = append(c.Callbacks.Lanes, node.CallbackLane{Name: fmt.Sprint("http:lane", i)})
		}
		var asked atomic.Bool
		once := true
		r := w.run(c, func(_ int, call string) (error, bool) {
			if call != "claim" {
				return nil, true
			}
			if once && time.Since(w.began) > 10*time.Second && asked.Load() {
				once = false
				pass(1500 * time.Millisecond)
				return errInjected, false
			}
			pass(20 * time.Millisecond)
			return nil, true
		})
		asks := func(r node.ClaimRequest) { asked.Store(node.IsCallback(r.Lanes[0].Lane)) }
		r.gate.asks.Store(&asks)
		due := map[string]time.Time{}
		for i := range 4500 {
			at := time.Now().Add(2 * time.Second)
			id := fmt.Sprint("m", i)
			w.stored(node.Message{ID: id, Lane: fmt.Sprint("http:lane", i*7%lanes), Deadline: at})
			due[id] = at
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		bins := map[int][]time.Duration{}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.output {
			id := d.id()
			bin := int(due[id].Sub(w.began) / (50 * time.Second))
			bins[bin] = append(bins[bin], d.at.Sub(due[id]))
		}
		for b := range 10 {
			if l := bins[b]; len(l) > 0 {
				slices.Sort(l)
				t.Logf("due from %ds on: %d came, late by %v, %v at most", b*50, len(l), l[len(l)/2], l[len(l)-1])
				if b > 0 && l[len(l)-1] > 200*time.Millisecond {
					t.Errorf("%v late, %d s after a stall of 1.5 s", l[len(l)-1], b*50-10)
				}
			}
		}
	})
}

// A standby of the database takes over. Topics wait for the hold time of topics, whatever the time limit of callbacks;
// callback lanes wait for one request besides.
func TestIsolationFailover(t *testing.T) {
	for _, limit := range []time.Duration{0, 16 * time.Second, time.Minute, 15 * time.Minute} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := config(0)
				if limit > 0 {
					c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:slow"}}
					c.Callbacks.Timeout = limit
				}
				w.run(c, nil)
				pass(10 * time.Second)
				at := time.Now()
				if limit > 0 {
					w.stored(node.Message{ID: "y", Lane: "http:slow", Deadline: at.Add(time.Second)})
				}
				w.store.Promote()
				w.submit("x", 0)
				pass(time.Hour)
				came := func(lane string, least, most time.Duration) {
					t.Helper()
					got := w.on(lane)
					if len(got) != 1 {
						t.Fatalf("%d came out on %s, want 1", len(got), lane)
					}
					if after := got[0].at.Sub(at); after < least || after > most {
						t.Errorf("it came out on %s %v after the promotion, want %v to %v", lane, after, least, most)
					}
				}
				came("out", c.HoldTime, c.HoldTime+2*time.Second)
				if limit > 0 {
					came("http:slow", c.HoldTime+limit, c.HoldTime+limit+3*time.Second)
				}
			})
		})
	}
}
