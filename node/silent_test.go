package node_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// errSilent is the error of a record whose partition does not answer.
var errSilent = &node.PublishError{Kind: node.PartUnavailable, Part: "3"}

// silence is what became of the records of a partition that does not answer: those without a value, or whose value
// says so.
type silence struct {
	mu    sync.Mutex
	tries map[time.Duration]int // by the second
}

// probe is how many messages a node tries at once of a partition that does not answer.
const probe = 10

// all returns how many tries there were.
func (s *silence) all() (all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.tries {
		all += n
	}
	return all
}

// silent has the partition of some records not answer.
func (w *world) silent() *silence {
	s := &silence{tries: map[time.Duration]int{}}
	w.refuse = func(r node.Record) error {
		if r.Topic != "out" || len(r.Value) > 0 && !strings.Contains(string(r.Value), "silent") {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tries[time.Since(w.began).Truncate(time.Second)]++
		return errSilent
	}
	return s
}

// most returns how many tries there were in the second with the most of them, from one on.
func (s *silence) most(from time.Duration) (most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, n := range s.tries {
		if at >= from {
			most = max(most, n)
		}
	}
	return most
}

// lateness returns how late the healthy messages came out that prompt has submitted, sorted; those that are still out
// count until now.
func (w *world) lateness(due map[string]time.Time) []time.Duration {
	late := map[string]time.Duration{}
	for _, d := range w.on("out") {
		if at, known := due[d.id()]; known {
			late[d.id()] = d.at.Sub(at)
		}
	}
	var all []time.Duration
	for id, at := range due {
		if _, out := late[id]; !out {
			late[id] = time.Since(at)
		}
		all = append(all, late[id])
	}
	slices.Sort(all)
	return all
}

// prompt submits a healthy message each while, due at once, and returns when each was due.
func (w *world) prompt(n int, each time.Duration) map[string]time.Time {
	due := map[string]time.Time{}
	for i := range n {
		pass(each)
		w.submit(id(i), 0)
		due[id(i)] = time.Now()
	}
	return due
}

// busy has claims and resets take as long as on a real store, and so bounds how much a node can go round.
func busy(_ int, call string) (error, bool) {
	if call == "claim" || call == "reset" {
		pass(30 * time.Millisecond)
	}
	return nil, true
}

// Much more waits for a silent partition than a store goes through in a second, and messages for other partitions of
// the lane come out in time. Where nothing else of the lane comes out, too, and where it has a pace.
func TestSilentBacklog(t *testing.T) {
	for _, c := range []struct {
		name     string
		backlog  int
		each     time.Duration
		pace     int
		p50, max time.Duration
	}{
		{"beside traffic", 60_000, 50 * time.Millisecond, 0, 300 * time.Millisecond, time.Second},
		{"beside little", 60_000, 10 * time.Second, 0, 300 * time.Millisecond, time.Second},
		{"with a pace", 20_000, 10 * time.Second, 100, 300 * time.Millisecond, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.silent()
				fill(t, w.store, c.backlog)
				config := config(0)
				config.Routes = append(config.Routes, node.Route{Input: "in2", Output: "out2"})
				if c.pace > 0 {
					config.Paces = []node.LanePace{{Lane: "out", PerSecond: c.pace}}
				}
				w.beside(150)
				w.run(config, busy)
				pass(10 * time.Second)
				n := int(min(600, 2*time.Minute/c.each))
				late := w.lateness(w.prompt(n, c.each))
				t.Logf("p50 %v, max %v", late[len(late)/2], late[len(late)-1])
				if late[len(late)/2] > c.p50 || late[len(late)-1] > c.max {
					t.Errorf("late by %v, and by %v at most, want %v and %v", late[len(late)/2], late[len(late)-1],
						c.p50, c.max)
				}
			})
		})
	}
}

// The clock of the store, or of the node, is set back while the node goes round what waits for a silent partition: that
// is tried as often as before, and what falls due meanwhile comes out.
func TestSilentSetBack(t *testing.T) {
	for _, back := range []time.Duration{3 * time.Second, 10 * time.Minute} {
		for _, ofStore := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v of the store %v", back, ofStore), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					var store atomic.Int64
					w.store = memory.New(func() time.Time { return time.Now().Add(time.Duration(store.Load())) })
					silence := w.silent()
					const waiting = 5_000
					fill(t, w.store, waiting)
					r := w.run(config(0), nil)
					pass(160 * time.Millisecond)
					due := time.Duration(0) // by the clock of the node, now
					if ofStore {
						store.Store(-int64(back))
					} else {
						r.gate.ahead.Store(-int64(back))
						due = -back
					}
					for i := range 200 {
						pass(100 * time.Millisecond)
						w.submit(id(i), due)
					}
					if most := silence.most(2 * time.Second); most > 2*waiting {
						t.Errorf("%d tries in a second, of %d", most, waiting)
					}
					pass(time.Second)
					if got := len(w.on("out")); got != 200 {
						t.Errorf("%d of 200 came out", got)
					}
				})
			})
		}
	}
}

// The clock of the store is behind that of the node. What is overdue by a few seconds when it is stored, past the node,
// is found at once, in front of thousands that wait for a silent partition.
func TestSilentStoreBehind(t *testing.T) {
	for _, by := range []time.Duration{0, 3 * time.Second, 10 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.store = memory.New(func() time.Time { return time.Now().Add(-by) })
				silence := w.silent()
				fill(t, w.store, 5_000)
				w.run(config(0), busy)
				w.prompt(100, 100*time.Millisecond)
				for i := range 20 {
					w.stored(node.Message{
						ID: fmt.Sprint("late", i), Lane: "out", Deadline: time.Now().Add(-4 * time.Second),
					})
					pass(2 * time.Second)
					if got := w.values("out")[fmt.Sprint("value late", i)]; got != 1 {
						t.Errorf("%d came out %d times within 2s", i, got)
					}
				}
				if most := silence.most(5 * time.Second); most > probe {
					t.Errorf("%d tries in a second, want a probe of %d at most", most, probe)
				}
			})
		})
	}
}

// A series that is behind, since the store was away, catches up beside messages for a silent partition.
func TestSilentSeries(t *testing.T) {
	for _, waiting := range []int{1, 5_000} {
		t.Run(fmt.Sprint(waiting), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.silent()
				fill(t, w.store, waiting)
				w.beside(100)
				w.series("x", "every 1s", time.Second, node.HeaderMissed, "all")
				c := config(0)
				c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
				w.run(c, func(n int, call string) (error, bool) {
					if at := time.Since(w.began); at > 20*time.Second && at < 25*time.Second {
						pass(time.Second)
						return errInjected, false
					}
					return busy(n, call)
				})
				pass(80*time.Second + 500*time.Millisecond)
				if got := len(w.on("out")); got != 80 {
					t.Errorf("%d of 80 occurrences came out", got)
				}
			})
		})
	}
}

// beside has a message of another lane come out each second, for so long.
func (w *world) beside(seconds int) {
	for i := range seconds {
		r := w.submit(fmt.Sprint("beside-", i), time.Duration(i)*time.Second)
		r.Topic = "in2"
		w.submitRecord(r)
	}
	w.input["in"] = slices.DeleteFunc(w.input["in"], func(r node.Record) bool {
		return strings.HasPrefix(string(r.Value), "value beside-")
	})
}

// A hundred messages fall due each second for a silent partition, and one in ten seconds for another one of its lane,
// on which nothing else comes out: it is in time.
func TestSilentTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.silent()
		c := config(0)
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		due := map[string]time.Time{}
		w.beside(150)
		for i := range 12_000 {
			in := time.Duration(i) * 10 * time.Millisecond
			w.submit(fmt.Sprint("silent-", i), in)
			if i%1000 == 999 {
				w.submit(id(i), in)
				due[id(i)] = w.began.Add(in)
			}
		}
		w.run(c, busy)
		pass(121 * time.Second)
		if late := w.lateness(due); late[len(late)-1] > time.Second {
			t.Errorf("late by %v", late)
		}
	})
}

// What waits for a silent partition is tried once, and then a few of it in each probe, by a node on which its lane
// works and by one on which nothing else comes out.
func TestSilentTries(t *testing.T) {
	for _, waiting := range []int{1, 50, 5_000} {
		for _, works := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, works %v", waiting, works), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					silence := w.silent()
					fill(t, w.store, waiting)
					var claims atomic.Int64
					w.run(config(0), func(_ int, call string) (error, bool) {
						if call == "claim" {
							claims.Add(1)
						}
						return nil, true
					})
					if works {
						w.prompt(200, 100*time.Millisecond)
					} else {
						pass(20 * time.Second)
					}
					// At each look one, and those of the first pass.
					if n := claims.Load(); n > 20*(15+int64(waiting)/100) {
						t.Errorf("%d claims in 20s", n)
					}
					if most := silence.most(5 * time.Second); works && most > probe {
						t.Errorf("%d tries in a second, want a probe of %d at most", most, probe)
					}
					// Probes come after 1, 3 and 7 s, and then each 5 s, give or take a fifth. A node through which
					// nothing comes does not claim on the lane all the time.
					all := silence.all()
					if all > waiting+8*probe || works && all < waiting+min(waiting, probe) || all < waiting/3 {
						t.Errorf("%d tries of %d messages", all, waiting)
					}
				})
			})
		}
	}
}

// Of two nodes one does not reach a partition, and is ahead, or behind: what is due there comes out of the other one,
// be it that the lane works at the first one otherwise, or that nothing comes out of that.
func TestSilentToOne(t *testing.T) {
	for _, ahead := range []time.Duration{-10 * time.Second, 100 * time.Millisecond, 15 * time.Second} {
		for _, works := range []bool{true, false} {
			for _, waiting := range []int{1, 2000} {
				t.Run(fmt.Sprintf("%v ahead, works %v, %d", ahead, works, waiting), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { silentToOne(t, ahead, works, waiting) })
				})
			}
		}
	}
}

func silentToOne(t *testing.T, ahead time.Duration, works bool, waiting int) {
	w := newWorld(t)
	for i := range waiting {
		w.submit(fmt.Sprint("silent-", i), 5*time.Second)
	}
	if works {
		for i := range 600 {
			w.submit(id(i), time.Duration(i)*100*time.Millisecond)
		}
	}
	cut := w.run(config(0), busy)
	cut.gate.ahead.Store(int64(ahead))
	cut.sink.refuse = func(r node.Record) error {
		if strings.Contains(string(r.Value), "silent") {
			return errSilent
		}
		return nil
	}
	w.run(config(1), busy)
	pass(15 * time.Second)
	came := 0
	var last time.Duration
	for _, d := range w.on("out") {
		if strings.Contains(d.id(), "silent") {
			came++
			last = max(last, d.at.Sub(w.began)-5*time.Second)
		}
	}
	if came != waiting || last > 6*time.Second {
		t.Errorf("%d of %d came out, the last one %v late", came, waiting, last)
	}
	t.Logf("the last one was %v late", last)
}
