package node_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// More is overdue than the schedule has room for, and publishers take a while: the claimer goes on as soon as there is
// room again, and does not wait for its next look.
func TestRoomWakesClaimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const messages = 8000
		fill(t, w.store, messages)
		c := config(0)
		c.PollInterval = time.Second
		start := time.Now()
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "publish" {
				pass(50 * time.Millisecond)
			}
			return nil, true
		})
		pass(10 * time.Second)
		got := w.on("out")
		if len(got) != messages {
			t.Fatalf("%d of %d came out", len(got), messages)
		}
		// Three publishers, a batch of 500 each in 52 ms: 278 ms, and a bit to begin with.
		if took := got[len(got)-1].at.Sub(start); took > 500*time.Millisecond {
			t.Errorf("%d messages took %v", messages, took)
		}
	})
}

// A way to the brokers that lets no batch of more than 300 kB through within the time limit of a publish: batches
// shrink until they are through.
func TestSlowBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.narrow = 300 << 10
		const messages = 40
		for i := range messages {
			r := w.submit(id(i), time.Second)
			w.input["in"][i].Value = append([]byte(string(r.Value)), make([]byte, 100<<10)...)
		}
		w.run(config(0), nil)
		pass(2 * time.Minute)
		if got := len(w.values("out")); got != messages {
			t.Errorf("%d of %d came out", got, messages)
		}
	})
}

// lanesOf returns a configuration with that many output topics, and puts messages of a size on them, overdue.
func (w *world) lanesOf(sizes ...[]int) node.Config {
	c := config(0)
	c.Routes = nil
	request := node.TakeRequest{}
	for i, lane := range sizes {
		route := node.Route{Input: fmt.Sprint("in", i), Output: fmt.Sprint("out", i)}
		c.Routes = append(c.Routes, route)
		for j, size := range lane {
			request.Items = append(request.Items, node.Item{
				From: node.NoPlace, Action: node.Schedule, Message: node.Message{
					ID: id(j), Lane: route.Output, Deadline: time.Now().Add(-time.Hour).UTC(), Incarnation: uuid.New(),
					Value: make([]byte, size),
				},
			})
		}
	}
	if result, err := w.store.Take(w.t.Context(), request); err != nil || result.Taken != len(request.Items) {
		w.t.Fatalf("took %d, %v", result.Taken, err)
	}
	return c
}

// A way from the store that lets one message through within the time limit of a claim, and not two: the lanes take
// turns, and a lane with many messages does not keep the others waiting.
func TestLanesInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.slow = 1 << 20
		many := slices.Repeat([]int{1 << 20}, 30)
		w.run(w.lanesOf(many, many[:1], many[:1], many[:1]), nil)
		pass(5 * time.Minute)
		most := w.on("out0")
		if len(most) != len(many) {
			t.Fatalf("of the lane with many %d came out", len(most))
		}
		half := most[len(most)/2].at
		for lane := 1; lane < 4; lane++ {
			if got := w.on(fmt.Sprint("out", lane)); len(got) != 1 || got[0].at.After(half) {
				t.Errorf("lane %d: %d came out, want 1, before half of the lane with many", lane, len(got))
			}
		}
	})
}

// For a while no claim was answered in time. Once the store answers again, the lanes take turns, and those that a claim
// has not come to come in the next claims, not at the next look.
func TestLanesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		none, one := []int{}, []int{300 << 10} // more than a claim may have by then, so that each comes to one lane
		c := w.lanesOf(none, none, none, none, none, none)
		c.PollInterval, c.HoldTime = time.Second, 5*time.Second
		claims := 0
		w.run(c, func(_ int, call string) (error, bool) {
			if call != "claim" {
				return nil, true
			}
			if claims++; claims > 12 {
				return nil, true
			}
			pass(1500 * time.Millisecond)
			return errInjected, false
		})
		pass(time.Minute)
		if claims <= 12 {
			t.Fatalf("%d claims only", claims)
		}
		w.lanesOf(one, one, one, one, one, one)
		pass(time.Minute)
		var first, last time.Time
		for lane := range 6 {
			got := w.on(fmt.Sprint("out", lane))
			if len(got) != 1 {
				t.Fatalf("lane %d: %d came out, want 1", lane, len(got))
			}
			if at := got[0].at; first.IsZero() || at.Before(first) {
				first = at
			}
			if at := got[0].at; at.After(last) {
				last = at
			}
		}
		if took := last.Sub(first); took > 100*time.Millisecond {
			t.Errorf("from the first lane to the last one it took %v", took)
		}
	})
}

// Of a batch one message fails and the others come through: that is no failure of the lane.
func TestOneOfBatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var failed atomic.Bool
		w.refuse = func(r node.Record) error {
			if strings.HasSuffix(string(r.Value), id(19)) && !failed.Swap(true) {
				return errInjected
			}
			return nil
		}
		for i := range 20 {
			w.submit(id(i), time.Second)
		}
		w.run(config(0), nil)
		pass(5 * time.Second)
		if failures := seen[node.Failed](w); len(failures) > 0 || !failed.Load() {
			t.Errorf("failures: %v, want none of the lane", failures)
		}
		if got := len(w.values("out")); got != 20 {
			t.Errorf("%d of 20 came out", got)
		}
		w.empty()
	})
}

// All that is overdue on a lane belongs to a silent partition, much more of it than a node claims at once, while
// another lane comes through. What it has tried stays where it is, and claims go on behind it: the rest of the lane
// gets its turn, what falls due meanwhile, which has a share of the claims, and what is long overdue but stands behind
// all of that, which has none.
func TestSilentPartitionLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}}
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" && len(r.Value) == 0 {
				return errSilent
			}
			return nil
		}
		fill(t, w.store, 6000) // without values
		behind(t, w)
		for i := range 120 {
			r := w.submit(id(i), time.Duration(i)*500*time.Millisecond)
			r.Topic = "in2"
			w.submitRecord(r)
		}
		w.input["in"] = nil
		w.submit("x", 40*time.Second) // once something comes through, the lane counts as one that works
		w.run(c, nil)
		pass(39 * time.Second)
		if got := len(w.on("out")); got != 1 {
			t.Errorf("%d came out behind the silent partition, want 1", got)
		}
		pass(3500 * time.Millisecond) // a second until it is due, and once that the node stands back
		if got := len(w.on("out")); got != 2 {
			t.Errorf("%d came out beside the silent partition, want 2", got)
		}
	})
}

// behind stores a message that is overdue for less long than those of fill.
func behind(t *testing.T, w *world) {
	t.Helper()
	from := node.Place{
		Partition: node.Partition{Topic: "behind"}, Position: node.Position{Epoch: node.UnknownEpoch},
	}
	if _, _, err := w.store.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: []node.Item{{
		Action: node.Schedule, Message: node.Message{
			ID: "behind", Lane: "out", Deadline: time.Now().Add(-time.Minute).UTC(), Incarnation: uuid.New(),
			Value: []byte("behind"),
		},
	}}}); err != nil {
		t.Fatal(err)
	}
}

// There is one lane, nothing falls due, and all that is overdue but one message belongs to a silent partition. That one
// is reached all the same, and soon: of each claim all is tried, and the next one goes on behind it.
func TestSilentPartitionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if len(r.Value) == 0 {
				return errSilent
			}
			return nil
		}
		fill(t, w.store, 6000) // without values
		behind(t, w)
		w.run(config(0), nil)
		pass(15 * time.Second) // in each look, two seconds apart, two thousand; twice, as all were due at one instant
		if got := w.values("out"); len(got) != 1 {
			t.Errorf("%v came out behind the silent partition, want one", got)
		}
	})
}

// All publishers of a lane hang for longer than a claim may be published, and what waits on the schedule meanwhile is
// given back: its bytes are, too, or there would be no room on the lane ever after.
func TestAbandonedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const messages = 60
		value := make([]byte, 1<<20)
		for i := range messages {
			r := w.submit(id(i), time.Second)
			w.input["in"][i].Value = append([]byte(string(r.Value)), value...)
		}
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "publish" && time.Since(w.began) < 4*time.Second {
				pass(6 * time.Second)
			}
			return nil, true
		})
		pass(20 * time.Second)
		abandoned := 0
		for _, e := range seen[node.Abandoned](w) {
			abandoned += len(e.Claims)
		}
		if abandoned < 16 {
			t.Errorf("%d claims were abandoned, want 16 MiB of them: this tests nothing", abandoned)
		}
		if got := len(w.values("out")); got != messages {
			t.Errorf("%d of %d came out", got, messages)
		}
	})
}

// A lane in doubt shares no batch with a healthy one, whose messages would be acknowledged at the time limit of a
// publish only.
func TestLaneInDoubtComesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{
			{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}, {Input: "in3", Output: "out3"},
		}
		w.hangs = func(r node.Record) bool { return r.Topic == "out2" }
		healthy := map[string]time.Duration{} // by id: when it is due
		submit := func(topic string, in time.Duration) {
			r := w.submit(topic+in.String(), in)
			w.input["in"] = w.input["in"][:len(w.input["in"])-1]
			r.Topic = topic
			w.submitRecord(r)
			if topic != "in2" {
				healthy[topic+in.String()] = in
			}
		}
		submit("in2", time.Second)  // hangs until it is in doubt, at 3 s
		submit("in", 2*time.Second) // so that out3 is the first of the lanes in the next batch
		for _, topic := range []string{"in", "in2", "in3"} {
			submit(topic, 3500*time.Millisecond)
		}
		w.run(c, nil)
		pass(8 * time.Second)
		for _, e := range seen[node.Fired](w) {
			for _, m := range e.Messages {
				if late := e.At.Sub(w.began) - healthy[m.ID]; late > 100*time.Millisecond {
					t.Errorf("%s was acknowledged %v after its deadline", m.ID, late)
				}
				delete(healthy, m.ID)
			}
		}
		if len(healthy) > 0 {
			t.Errorf("not fired: %v", healthy)
		}
	})
}

// Two lanes have a backlog of messages so large that a few of them fill a batch, and a third lane has one now and then.
// The lanes take turns in coming first, so that it is not kept waiting.
func TestLanesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { quietLane(t, 3, 120, 2<<20) })
}

// Many lanes have a backlog, and another has a message now and then: each has a share of every batch, so that it is not
// kept waiting, however many come before it.
func TestLanesShareBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { quietLane(t, 32, 500, 0) })
}

// quietLane runs a node on some lanes, with publishes that take 100 ms or a little more. All but the last lane have a
// backlog of messages of a size; the last has a message every 50 ms meanwhile, and none of them may come late.
func quietLane(t *testing.T, lanes, backlog, size int) {
	t.Helper()
	w := newWorld(t)
	c := config(0)
	c.Routes = nil
	for i := range lanes {
		c.Routes = append(c.Routes, node.Route{Input: fmt.Sprint("in", i), Output: fmt.Sprint("out", i)})
	}
	const begin = 5 * time.Second // everything is taken in by then
	value := make([]byte, size)
	submit := func(lane, i int, in time.Duration) {
		r := w.submit(fmt.Sprint(i), in)
		w.input["in"] = nil
		r.Topic = fmt.Sprint("in", lane)
		if lane < lanes-1 {
			r.Value = value
		}
		w.submitRecord(r)
	}
	for lane := range lanes - 1 {
		for i := range backlog {
			submit(lane, i, begin)
		}
	}
	const messages = 10
	for i := range messages {
		submit(lanes-1, i, begin+time.Duration(i)*50*time.Millisecond)
	}
	var publishes atomic.Int64
	w.run(c, func(_ int, call string) (error, bool) {
		if call == "publish" {
			pass(100*time.Millisecond + time.Duration(publishes.Add(1)%4)*7*time.Millisecond)
		}
		return nil, true
	})
	pass(begin + 5*time.Second)
	got := w.on(fmt.Sprint("out", lanes-1))
	if len(got) != messages {
		t.Fatalf("%d of %d came out", len(got), messages)
	}
	for i, d := range got {
		// A publish that has just begun, its own, and a batch that another lane comes first in.
		late := d.at.Sub(w.began) - begin - time.Duration(i)*50*time.Millisecond
		if late > 350*time.Millisecond {
			t.Errorf("%s came %v late", d.Value, late)
		}
	}
	busy := w.on("out0")
	if took := busy[len(busy)-1].at.Sub(w.began) - begin; took < 500*time.Millisecond {
		t.Errorf("the backlog lasted for %v, want as long as the quiet lane has messages: this tests nothing", took)
	}
}
