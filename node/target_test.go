package node_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// Goal: a message that its target rejects comes out there, and not on the output topic of its route, when its dead
// letter is submitted anew. Method: the copy is submitted as it is, once the target takes it. That the target is the
// output topic of another route makes no difference; and one that its own output topic rejects needs no name.
func TestDeadLetterOfTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var taking atomic.Bool
		w.refuse = func(r node.Record) error {
			if (r.Topic == "target" || string(r.Value) == "value z") && !taking.Load() && r.Topic != "dead" {
				return node.RecordRejected
			}
			return nil
		}
		c := config(0)
		c.Routes[0].Targets = []string{"target"}
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "target", DeadLetter: "dead"})
		w.submit("x", time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("target")})
		w.submit("y", time.Second)
		w.submit("z", 1500*time.Millisecond)
		w.run(c, nil)
		pass(2 * time.Second)
		dead := w.on("dead")
		if len(dead) != 2 || header(dead[0].Record, node.HeaderTopic) != "target" ||
			header(dead[1].Record, node.HeaderTopic) != "" || header(dead[1].Record, node.HeaderID) != "z" {
			t.Fatalf("dead letters: %v", dead)
		}
		taking.Store(true)
		again := dead[0].Record
		again.Topic = "in"
		w.submitRecord(again)
		pass(2 * time.Second)
		if got := w.values("target"); len(got) != 1 || got["value x"] != 1 {
			t.Errorf("the target has %v", got)
		}
		if got := w.values("out"); len(got) != 1 || got["value y"] != 1 {
			t.Errorf("the output topic has %v", got)
		}
	})
}

// A target with a * stands for all topics whose names begin so. Whoever takes a message in for one serves it from then
// on, and after its death the others find it in the store.
func TestFoundLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := controlled()
		c.Routes[0].Targets = []string{"mails", "to.*"}
		on := func(topic string) node.Header { return node.Header{Name: node.HeaderTopic, Value: []byte(topic)} }
		w.submit("soon", time.Second, on("to.a"))
		w.submit("now", -time.Second, on("to.b"))
		w.submit("later", 20*time.Second, on("to.c"))
		w.submit("named", time.Second, on("mails"))
		for i, bad := range []string{"to", "from.a", "to.a/b", "to." + strings.Repeat("x", 247)} {
			w.submit(fmt.Sprint("bad", i), time.Second, on(bad))
		}
		first := w.run(c, func(_ int, call string) (error, bool) { return nil, true })
		pass(5 * time.Second)
		if rejected := seen[node.Rejected](w); len(rejected) != 4 || rejected[3].Reason != node.UnknownTopic {
			t.Errorf("rejected: %v", rejected)
		}
		if held, _ := first.node.Held(); len(held) != 4+3 {
			t.Errorf("it serves %v, want the four that the route names and the three that it has heard of", held)
		}
		first.stop()
		c.Seed[0]++
		second := w.run(c, nil)
		pass(time.Second)
		w.instruct("reschedule", "later", node.HeaderTopic, "to.c", node.HeaderDelay, "3s")
		pass(5 * time.Second)
		for topic, want := range map[string]string{
			"to.a": "value soon", "to.b": "value now", "to.c": "value later", "mails": "value named",
		} {
			if got := w.values(topic); len(got) != 1 || got[want] != 1 {
				t.Errorf("%s has %v, want %s", topic, got, want)
			}
		}
		pass(2 * time.Minute)
		if held, _ := second.node.Held(); len(held) != 4 {
			t.Errorf("it serves %v, and nothing waits on what was found", held)
		}
		w.empty()
	})
}

// An application makes up names of topics. A node takes in messages for so many of them and no more, and what it holds
// of the lanes that its routes name has its share.
func TestTooManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := controlled()
		c.Routes[0].Targets = []string{"to.*"}
		for i := range 300 {
			topic := node.Header{Name: node.HeaderTopic, Value: fmt.Appendf(nil, "to.%d", i)}
			w.submit(fmt.Sprint(i), 10*time.Second, topic)
		}
		w.submit("x", 10*time.Second)
		w.run(c, nil)
		pass(9 * time.Second)
		rejected := seen[node.Rejected](w)
		if len(rejected) != 50 || rejected[0].Reason != node.TooManyTargets {
			t.Fatalf("%d are rejected, want 50 with the reason %s", len(rejected), node.TooManyTargets)
		}
		pass(3 * time.Second)
		for i := range 250 {
			if got := w.values(fmt.Sprint("to.", i)); len(got) != 1 {
				t.Errorf("to.%d has %v", i, got)
			}
		}
		if got := w.on("out"); len(got) != 1 || got[0].at.Sub(w.began) > 11*time.Second {
			t.Errorf("what no target was named for came out %v", got)
		}
		pass(2 * time.Minute)
		w.submit("again", time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("to.new")})
		pass(2 * time.Second)
		if got := w.values("to.new"); len(got) != 1 {
			t.Errorf("there is room again, and to.new has %v", got)
		}
		w.empty()
	})
}

// Goal: lanes that somebody was found to wait on far ahead take nothing from those that something is due on. Method: as
// many as there may be wait for an hour; then a burst falls due at one instant on the output topic. It comes out then,
// and not by a handful at a time.
func TestIdleFoundLanesTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := controlled()
		c.Routes[0].Targets = []string{"to.*"}
		for i := range 250 {
			topic := node.Header{Name: node.HeaderTopic, Value: fmt.Appendf(nil, "to.%d", i)}
			w.submit(fmt.Sprint("idle", i), time.Hour, topic)
		}
		const burst = 1000
		due := 10 * time.Second
		for i := range burst {
			w.submit(fmt.Sprint("burst", i), due)
		}
		w.run(c, nil)
		pass(due + 2*time.Second)
		all := w.on("out")
		if len(all) != burst {
			t.Fatalf("%d of %d came out", len(all), burst)
		}
		last := all[0].at
		for _, one := range all {
			if one.at.After(last) {
				last = one.at
			}
		}
		if late := last.Sub(w.began.Add(due)); late > 50*time.Millisecond {
			t.Errorf("the last one comes out %v after it was due", late)
		}
	})
}
