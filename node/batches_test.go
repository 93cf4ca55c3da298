package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// counted counts the calls of a node by their name.
type counted map[string]*atomic.Int64

func (c counted) decide(_ int, call string) (error, bool) {
	if n := c[call]; n != nil {
		n.Add(1)
	}
	return nil, true
}

// everyMillisecond submits messages that fall due one every millisecond, from two seconds from now on.
func (w *world) everyMillisecond(messages int) (first time.Time) {
	first = time.Now().Add(2 * time.Second)
	for i := range messages {
		w.submit(id(i), time.Until(first)+time.Duration(i)*time.Millisecond)
	}
	return first
}

// A message every millisecond, publishes of 2 ms: each is out within the publish that it has found
// under way and its own, and they share publishes with those that came at the same time.
func TestBatchesWhatComesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 400
		w := newWorld(t)
		calls := counted{"publish": {}}
		first := w.everyMillisecond(messages)
		w.run(config(0), calls.decide)
		pass(time.Until(first) + (messages+30)*time.Millisecond)
		for i, d := range w.on("out") {
			due := first.Add(time.Duration(i) * time.Millisecond)
			if late := d.at.Sub(due); late < 0 || late > 4*time.Millisecond {
				t.Errorf("%s came %v after it was due", d.Value, late)
			}
		}
		w.empty()
		if n := calls["publish"].Load(); n > messages/2+10 {
			t.Errorf("%d publishes of %d messages, while each lasted as long as two fall due", n, messages)
		}
	})
}

// A publish hangs. What falls due meanwhile on the same lane waits for it for a moment only.
func TestMergesForMomentOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tardy = func(r node.Record) bool { return string(r.Value) == "value "+id(0) }
		first := w.everyMillisecond(100)
		w.run(config(0), nil)
		pass(time.Until(first) + 200*time.Millisecond)
		out := w.on("out")
		if len(out) != 100 {
			t.Errorf("%d of 100 messages came while one publish hung", len(out))
		}
		for i, d := range out {
			due := first.Add(time.Duration(i) * time.Millisecond)
			if late := d.at.Sub(due); late > 10*time.Millisecond {
				t.Errorf("%s came %v after it was due", d.Value, late)
			}
		}
	})
}

// Records keep coming, and each of them is taken in at once. The consumer group is told ten times a second, and of all
// when the node stops.
func TestCommitsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		calls := counted{"commit": {}, "take": {}}
		n := w.run(config(0), calls.decide)
		pass(time.Second)
		before := calls["commit"].Load()
		for i := range 200 {
			w.submit(id(i), time.Hour)
			pass(5 * time.Millisecond)
		}
		if commits := calls["commit"].Load() - before; commits < 5 || commits > 11 {
			t.Errorf("%d commits in a second", commits)
		}
		w.submit("last", time.Hour)
		n.stop()
		if taken, committed := int64(w.store.Len()), w.commits(); committed != taken || calls["take"].Load() == 0 {
			t.Errorf("%d records are taken in, and the group knows of %d", taken, committed)
		}
	})
}

// A call that claims, publishes or deletes has as many messages as the configuration says, and no more.
func TestBatch(t *testing.T) {
	for _, batch := range []int{20, 700} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			due := time.Now().Add(5 * time.Second)
			for i := range 2000 {
				w.submit(id(i), time.Until(due))
			}
			c := config(0)
			c.Batch = batch
			w.run(c, nil)
			pass(time.Until(due) + 10*time.Second)
			w.empty()
			largest := map[string]int{}
			note := func(call string, messages int) { largest[call] = max(largest[call], messages) }
			for _, e := range seen[node.Claimed](w) {
				note("claim", len(e.Messages))
			}
			for _, e := range seen[node.Fired](w) {
				note("publish", len(e.Messages))
			}
			for _, e := range seen[node.Deleted](w) {
				note("delete", len(e.Refs))
			}
			for _, call := range []string{"claim", "publish", "delete"} {
				if largest[call] != batch {
					t.Errorf("of calls with up to %d messages the largest %s has %d", batch, call, largest[call])
				}
			}
		})
	}
}
