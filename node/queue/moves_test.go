package queue_test

import (
	"testing"
	"time"

	"chronos/node/queue"
)

// What lay inside a queue is free once that lies elsewhere.
func TestParentMovesAway(t *testing.T) {
	w := newWorld(t)
	parent, child := syncQueue(10), syncQueue(11)
	parent.Window, parent.Paths, child.Paths = "never", []string{"/a"}, []string{"/a/b"}
	w.do(queue.PutQueue{Queue: parent})
	w.do(queue.PutQueue{Queue: child})
	w.arrive(21, 11, 0)
	w.want(w.runs(21), "Pending")
	parent.Paths = []string{"/c"}
	w.do(queue.PutQueue{Queue: parent})
	w.look()
	w.want(w.runs(21), "Running")
}

// A queue that is deleted when nothing waits goes with the last task that is moved out of it. A task that is changed
// has not arrived anew.
func TestLastMovesAway(t *testing.T) {
	w := newWorld(t)
	q := syncQueue(10)
	q.Window, q.Drain = "never", true
	w.do(queue.PutQueue{Queue: q})
	arrived := w.arrive(21, 10, 0).Task.Arrived
	w.do(queue.DropQueue{ID: q.ID})
	w.now = w.now.Add(time.Minute)
	if moved := w.arrive(21, 0, 0).Task; !moved.Arrived.Equal(arrived) {
		t.Errorf("it arrived at %v, and now at %v", arrived, moved.Arrived)
	}
	if left := w.queue(10); left != nil {
		t.Errorf("%+v is left", left)
	}
}

// No more of an async queue run than may, and one that is full is not due before a time limit.
func TestFull(t *testing.T) {
	w := newWorld(t)
	for n := range queue.MaxRunning + 1 {
		w.arrive(2000+n, 0, 0)
	}
	w.look()
	root, err := w.Queues(t.Context(), queue.Filter{ID: queue.Root, Limit: 1})
	if err != nil || root[0].Running != queue.MaxRunning || root[0].Pending != 1 {
		t.Errorf("%+v, %v", root, err)
	}
	if limit := w.now.Add(queue.DefaultTimeLimit); !root[0].Look.Equal(limit) {
		t.Errorf("it is due at %v, not %v", root[0].Look, limit)
	}
}

// What became of the promise of another run says nothing about this one.
func TestPromiseOfAnotherRun(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutTask{Task: queue.Task{ID: id(21), Execution: id(1), Promise: ids(1)}})
	run := w.do(queue.End{Task: id(21)}).Task.Run
	if w.do(queue.Fulfil{Task: id(21), Run: id(99)}).Changed {
		t.Error("that of another run counts")
	}
	if !w.do(queue.Fulfil{Task: id(21), Run: run}).Changed {
		t.Error("that of its run does not count")
	}
}

// Whoever changes something by what it has said is refused if it says something else by now; a repeat of what has taken
// effect is not.
func TestChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	q, a := syncQueue(10), queue.Action{ID: id(7), Name: "first", Topic: "out"}
	q.Window = "never"
	w.do(queue.PutQueue{Queue: q})
	w.do(queue.PutAction{Action: a})
	read, k := *w.queue(10), *w.arrive(21, 10, 0).Task

	closed, tagged := read, read
	closed.Depth, tagged.Tags = 9, []string{"mine"}
	w.do(queue.PutQueue{Queue: closed, Before: &read})
	w.refused(queue.PutQueue{Queue: tagged, Before: &read}, queue.Changed, "Somebody else has changed the queue")
	w.do(queue.PutQueue{Queue: closed, Before: &read})

	higher, named := k, k
	higher.Priority, named.Name = 9, "mine"
	w.do(queue.PutTask{Task: higher, Before: &k})
	w.refused(queue.PutTask{Task: named, Before: &k}, queue.Changed, "Somebody else has changed the task")
	w.do(queue.PutTask{Task: higher, Before: &k})

	second, third := a, a
	second.Name, third.Name = "second", "third"
	w.do(queue.PutAction{Action: second, Before: &a})
	w.refused(queue.PutAction{Action: third, Before: &a}, queue.Changed, "Somebody else has changed the action")
	w.do(queue.PutAction{Action: second, Before: &a})
}
