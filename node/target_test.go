package node_test

import (
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
				return node.ErrRejected
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
