package node_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

func (w *world) pause(lane string) {
	w.t.Helper()
	if _, err := w.store.Pause(w.t.Context(), node.Pause{Lane: lane}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) resume(lane string) {
	w.t.Helper()
	if was, err := w.store.Resume(w.t.Context(), lane); err != nil || !was {
		w.t.Fatalf("%q was paused: %v, error %v", lane, was, err)
	}
}

// What falls due on a paused lane stays in the store, whether it waits there already or is submitted when it is due,
// for as long as the pause lasts, and comes out once when it is over. What was claimed before comes out on time.
func TestPausedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("waits", 5*time.Second)
		w.run(config(0), nil)
		w.run(config(1), nil)
		pass(time.Second)
		w.submit("claimed", 100*time.Millisecond)
		pass(60 * time.Millisecond)
		w.pause("out")
		pass(time.Second)
		w.submit("due at once", 0)
		pass(time.Minute)
		if got := w.values("out"); len(got) != 1 || got["value claimed"] != 1 {
			t.Fatalf("delivered while the lane is paused: %v", got)
		}
		w.resume("out")
		pass(time.Second)
		for _, id := range []string{"waits", "due at once", "claimed"} {
			if got := w.values("out")["value "+id]; got != 1 {
				t.Errorf("%s was delivered %d times", id, got)
			}
		}
		w.empty()
	})
}

// While the intake is paused, nothing is taken in, by a node that has seen records before, by one that starts
// meanwhile, or after a restart; what waits comes out. When it is resumed, all is taken in once and in order.
func TestPausedIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("waits", 10*time.Second)
		first := w.run(config(0), nil)
		pass(time.Second)
		w.pause(node.Intake)
		for i := range 2000 { // more than one poll
			w.submit(id(i), 0)
		}
		pass(5 * time.Second)
		w.run(config(1), nil)
		first.stop()
		pass(time.Minute)
		if got := w.values("out"); len(got) != 1 || got["value waits"] != 1 {
			t.Fatalf("%d delivered while the intake is paused: %v", len(got), got["value waits"])
		}
		if n := len(seen[node.IntakePaused](w)); n != 2 {
			t.Errorf("%d nodes have seen the pause", n)
		}
		w.resume(node.Intake)
		pass(3 * time.Second)
		got := w.values("out")
		for i := range 2000 {
			if got["value "+id(i)] != 1 {
				t.Fatalf("%s was delivered %d times", id(i), got["value "+id(i)])
			}
		}
		if n := len(seen[node.IntakeResumed](w)); n != 1 {
			t.Errorf("%d nodes have seen the end of the pause", n)
		}
		w.empty()
	})
}

// Pauses that come and go while records keep coming lose nothing, and have nothing fire twice.
func TestPausesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(config(0), nil)
		n := 0
		for turn := range 40 {
			if turn%2 == 0 {
				w.pause(node.Intake)
			} else {
				w.resume(node.Intake)
			}
			for range turn { // pauses of 30 ms to a second, out of step with the looks
				w.submit(id(n), time.Duration(n%7)*100*time.Millisecond)
				n++
				pass(30 * time.Millisecond)
			}
		}
		pass(10 * time.Second)
		got := w.values("out")
		for i := range n {
			if got["value "+id(i)] != 1 {
				t.Errorf("%s was delivered %d times", id(i), got["value "+id(i)])
			}
		}
		w.empty()
	})
}

// A store that is set back while the intake is paused catches up when it is resumed, and fires nothing before.
func TestSetBackWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("before", 20*time.Second)
		w.run(config(0), nil)
		pass(3 * time.Second)
		w.pause(node.Intake)
		backup := w.store.Snapshot()
		w.resume(node.Intake)
		w.submit("after", 10*time.Second)
		pass(3 * time.Second)
		w.store.Restore(backup)
		pass(time.Minute)
		if got := w.values("out"); len(got) != 0 {
			t.Errorf("delivered before the store has caught up: %v", got)
		}
		if n := len(seen[node.CatchingUp](w)); n != 1 {
			t.Errorf("%d lineages have begun", n)
		}
		w.resume(node.Intake)
		pass(10 * time.Second)
		if got := w.values("out"); len(got) != 2 || got["value before"] != 1 || got["value after"] != 1 {
			t.Errorf("delivered: %v", fmt.Sprint(got))
		}
		w.empty()
	})
}
