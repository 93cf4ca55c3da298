package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// overdue is how many messages come out in some three seconds where a publish of 500 takes 50 ms, three at a time.
const overdue = 80_000

// slowly has each publish take some 50 ms. They do not end together, so that claims come in time, and the schedule
// stays full.
func slowly(n int, call string) (error, bool) {
	if call == "publish" {
		pass(time.Duration(35+n%31) * time.Millisecond)
	}
	return nil, true
}

// ends returns when the last of what fill has stored came out, after the world began, and how many have.
func (w *world) ends() (last time.Duration, n int) {
	for _, d := range w.on("out") {
		if strings.HasPrefix(d.id(), "old") {
			last, n = max(last, d.at.Sub(w.began)), n+1
		}
	}
	return last, n
}

// id returns the id that a test has put into the value, or nothing for what fill has stored.
func (d delivery) id() string {
	if len(d.Value) == 0 {
		return "old"
	}
	return strings.TrimPrefix(string(d.Value), "value ")
}

// Much more is overdue on a lane than comes out at once. What is submitted meanwhile, due at once or soon, comes out
// within what the schedule holds of the lane and a poll interval or two, and what is overdue is hardly later for that.
func TestNewBesideBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, overdue)
		due := map[string]time.Time{}
		for i := range 20 {
			in := time.Duration(i%3) * 200 * time.Millisecond
			due[id(i)] = time.Now().Add(in + time.Duration(i)*100*time.Millisecond)
		}
		w.run(config(0), slowly)
		for i := range 20 {
			w.submit(id(i), time.Until(due[id(i)]))
			if i == 10 { // what comes late, but not much, is nothing of the backlog either
				w.submit("late", -700*time.Millisecond)
				due["late"] = time.Now()
			}
			pass(100 * time.Millisecond)
		}
		pass(10 * time.Second)
		last, n := w.ends()
		if n != overdue || last < 2500*time.Millisecond || last > 4*time.Second {
			t.Fatalf("%d of %d that were overdue came out, the last one after %v", n, overdue, last)
		}
		seen := 0
		for _, d := range w.on("out") {
			at, known := due[d.id()]
			if !known {
				continue
			}
			seen++
			if late := d.at.Sub(at); late > 300*time.Millisecond {
				t.Errorf("%s is %v late", d.id(), late)
			}
		}
		if seen != len(due) {
			t.Errorf("%d of %d that were submitted meanwhile came out", seen, len(due))
		}
		w.empty()
	})
}

// More falls due in each poll interval than half of what a claim takes, and far less than half of what comes out:
// all of it comes out as soon as the few do.
func TestManyBesideBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, overdue)
		w.run(config(0), slowly)
		pass(500 * time.Millisecond)
		brought := map[string]time.Time{}
		for range 20 {
			for _, key := range w.bring(300, true) {
				brought[key] = time.Now()
			}
			pass(50 * time.Millisecond)
		}
		pass(300 * time.Millisecond)
		for _, d := range w.on("out") {
			if at, known := brought[d.id()]; known && d.at.Sub(at) <= 300*time.Millisecond {
				delete(brought, d.id())
			}
		}
		if len(brought) > 0 {
			t.Errorf("%d of %d were late", len(brought), 20*300)
		}
	})
}

// The wall clock of a node that shares the claims on a lane is set back by an hour: what is submitted then, due at once
// by the clock of the node, comes out as soon as before, and not when the clock is again where it was.
func TestBacklogClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, overdue)
		r := w.run(config(0), slowly)
		r.gate.ahead.Store(int64(time.Hour))
		pass(time.Second)
		r.gate.ahead.Store(0)
		w.submit("x", 0)
		pass(600 * time.Millisecond)
		if got := w.values("out")["value x"]; got != 1 {
			t.Errorf("x came out %d times within 600ms", got)
		}
		pass(10 * time.Second)
		if last, n := w.ends(); n != overdue {
			t.Errorf("%d of %d that were overdue came out, the last one after %v", n, overdue, last)
		}
	})
}

// All the time more falls due on a lane than comes out, be it past the node, as from others, or from Kafka. What is
// overdue there comes out in twice the time that it would take alone.
func TestBacklogBesideNew(t *testing.T) {
	for _, past := range []bool{true, false} {
		t.Run(fmt.Sprintf("past Kafka %v", past), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				const old = overdue / 4
				fill(t, w.store, old)
				w.run(config(0), slowly)
				for range 60 { // 30,000 in a second, which is all that comes out
					w.bring(1500, past)
					pass(50 * time.Millisecond)
				}
				pass(10 * time.Second)
				last, n := w.ends()
				if n != old || last > 1800*time.Millisecond {
					t.Errorf("%d of %d that were overdue came out, the last one after %v", n, old, last)
				}
			})
		})
	}
}

// bring brings messages that are due, from Kafka or past it, and returns their ids.
func (w *world) bring(n int, past bool) (keys []string) {
	w.t.Helper()
	request := node.TakeRequest{}
	for range n {
		key := uuid.NewString()
		keys = append(keys, key)
		if !past {
			w.submit(key, 0)
			continue
		}
		request.Items = append(request.Items, node.Item{
			From: node.NoPlace, Action: node.Schedule, Message: node.Message{
				ID: key, Lane: "out", Value: []byte(key), Incarnation: uuid.New(),
				Deadline: time.Now().UTC().Truncate(time.Microsecond),
			},
		})
	}
	if _, err := w.store.Take(w.t.Context(), request); err != nil {
		w.t.Fatal(err)
	}
	return keys
}

// A claim asks for what fell due lately only on a lane that has had a backlog for a poll interval: not on one that has
// none for so long, on one with a pace, or on one whose callbacks come out one after the other.
func TestSharedLanes(t *testing.T) {
	ordered := config(0)
	ordered.Routes[0] = node.Route{Input: "in", Output: "http:out"}
	ordered.Callbacks.Others.Ordered = true
	for name, c := range map[string]struct {
		config   node.Config
		messages int
		want     bool
	}{
		"backlog":       {config(0), 20_000, true},
		"short backlog": {config(0), 2_000, false},
		"nothing":       {config(0), 0, false},
		"pace":          {paceOf(0, 500), 5_000, false},
		"in line":       {ordered, 5_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				lane := c.config.Routes[0].Output
				var list []node.Item
				for i := range c.messages {
					list = append(list, node.Item{From: node.NoPlace, Action: node.Schedule, Message: node.Message{
						ID: fmt.Sprint(i), Lane: lane, Incarnation: uuid.New(),
						Deadline: time.Now().Add(-time.Hour).UTC(),
					}})
				}
				if _, err := w.store.Take(t.Context(), node.TakeRequest{Items: list}); err != nil {
					t.Fatal(err)
				}
				w.answer = func(node.Record) error { pass(50 * time.Millisecond); return nil }
				r := w.run(c.config, slowly)
				asked := make(chan node.ClaimRequest, 10_000)
				asks := func(r node.ClaimRequest) { asked <- r }
				r.gate.asks.Store(&asks)
				pass(2 * time.Second)
				r.stop()
				close(asked)
				claims, shared := 0, 0
				for r := range asked {
					claims++
					if slices.ContainsFunc(r.Lanes, func(s node.Share) bool { return !s.From.IsZero() }) {
						shared++
					}
				}
				if claims == 0 || (shared > 0) != c.want || 2*shared > claims {
					t.Errorf("%d of %d claims were for what fell due lately", shared, claims)
				}
			})
		})
	}
}

// On a lane whose claims are shared, what comes from Kafka when it is due is stored as claimed by nobody: it has its
// half of the claims, and enqueue does not give it more than that, although there is room on the schedule. On a lane
// without a backlog it is claimed as it is stored.
func TestSharedLaneIsClaimedByTheClaimer(t *testing.T) {
	for name, backlog := range map[string]int{"backlog": overdue, "none": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				fill(t, w.store, max(backlog, 1))
				r := w.run(config(0), func(_ int, call string) (error, bool) {
					if call == "claim" {
						pass(20 * time.Millisecond) // so that there is room meanwhile
					}
					return nil, true
				})
				pass(time.Second) // the claims are shared by now
				claimed, stored := make(chan bool, 10_000), 0
				takes := func(r node.TakeRequest) {
					for i := range r.Items {
						claimed <- r.Items[i].Claim
					}
				}
				r.gate.takes.Store(&takes)
				for i := range 50 {
					w.submit(id(i), 0)
					pass(13 * time.Millisecond)
				}
				r.stop()
				close(claimed)
				for is := range claimed {
					if stored++; is == (backlog > 0) {
						t.Fatalf("message %d is stored as claimed: %v", stored, is)
					}
				}
				if left := w.claimedBy(r.node.ID()); stored < 40 || left > 0 {
					t.Errorf("%d messages were stored, and %d are claimed after the stop", stored, left)
				}
			})
		})
	}
}
