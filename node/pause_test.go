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
		if got := seen[node.StartedOver](w); len(got) != 1 || len(got[0].Places) != 1 {
			t.Errorf("that the position is lower is told %d times: %v", len(got), got)
		}
		if got := w.values("out"); len(got) != 2 || got["value before"] != 1 || got["value after"] != 1 {
			t.Errorf("delivered: %v", fmt.Sprint(got))
		}
		w.empty()
	})
}

// A pause alone is no reason to say that reading starts over: the position is where this node had come to. A position
// that was lowered meanwhile is.
func TestResumeStartsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(config(0), nil)
		for i := range 3 {
			w.submit(id(i), 0)
			pass(2 * time.Second)
			w.pause(node.Intake)
			pass(100 * time.Millisecond)
			w.submit("paused "+id(i), 0) // polled, and skipped
			pass(2 * time.Second)
			w.resume(node.Intake)
			pass(2 * time.Second)
		}
		if got := seen[node.StartedOver](w); len(got) != 0 {
			t.Errorf("reading starts over after a pause: %v", got)
		}
		backup := w.store.Snapshot()
		w.submit("last", 0)
		pass(2 * time.Second)
		w.pause(node.Intake)
		pass(2 * time.Second)
		w.store.Restore(backup)
		pass(8 * time.Second) // longer than claims of before are held
		if got := seen[node.StartedOver](w); len(got) != 1 || len(got[0].Places) != 1 || got[0].Places[0].Offset != 6 {
			t.Errorf("a store that is set back while the intake is paused, which it has forgotten: %v", got)
		}
		if got := w.values("out"); len(got) != 7 {
			t.Errorf("%d of 7 came out: %v", len(got), got)
		}
	})
}

// What retention takes is told once, whether that is while the intake is paused or not, and however often reading
// starts over before it; more of it is told by itself.
func TestLossWhilePausedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(config(0), nil)
		w.submit("before", 0)
		pass(2 * time.Second)
		w.pause(node.Intake)
		pass(2 * time.Second)
		for i := range 10 {
			w.submit(id(i), 0)
		}
		retain := func(from int64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.taken["in"] = from
		}
		retain(4) // 1, 2 and 3 are gone before they are read
		pass(5 * time.Second)
		retain(6) // and more of what was read, and skipped
		w.resume(node.Intake)
		pass(5 * time.Second)
		var told []string
		for _, e := range seen[node.RecordsLost](w) {
			for _, loss := range e.Losses {
				told = append(told, fmt.Sprintf("%d to %d", loss.From, loss.To))
			}
		}
		if got := fmt.Sprint(told); got != "[1 to 4 4 to 6]" {
			t.Errorf("lost: %s, want 1 to 4 and 4 to 6", got)
		}
		if got := w.values("out"); len(got) != 1+5 {
			t.Errorf("%d came out, want 6: %v", len(got), got)
		}
		w.empty()
	})
}
