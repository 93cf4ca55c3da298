package sim

import (
	"context"
	"fmt"
	"iter"

	"chronos/node"
)

// task is one loop of one life of a node: a coroutine that runs the engine's own code and is parked in every call of a
// port. At any moment at most one task runs, and it runs until it parks: there is no other concurrency.
type task struct {
	life      *life
	operation node.Operation

	next  func() (struct{}, bool)
	halt  func()
	yield func(struct{}) bool

	// turn numbers the parkings. Whoever wants to wake the task names the parking that he means: one who comes
	// too late wakes nobody.
	turn   uint64
	parked bool
	ended  bool

	// cause tells whether the context of the call that the task is parked in is done, which ends it early; nil
	// where nothing does.
	cause func() error

	// late: the task should have gone on, but the process is stopped.
	late bool

	// rings is when the timer rings that it waits for, and left how much of the wait is left while the machine is
	// suspended; 0 for none.
	rings, left int64
}

// unwound is what a crash throws through the engine, up to where the task began.
type unwound struct{}

// newTask prepares a coroutine that runs loop.
func newTask(l *life, operation node.Operation, loop func()) *task {
	t := &task{life: l, operation: operation}
	t.next, t.halt = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer t.finish()
		loop()
	})
	return t
}

// finish notes how a task has ended: it returned, the node crashed, or the engine broke one of its own assumptions.
func (t *task) finish() {
	t.ended = true
	switch reason := recover().(type) {
	case nil, unwound:
	default:
		t.life.host.world.enginePanicked(t, fmt.Sprint(reason))
	}
}

// until lets the end of a context wake the task from its next parking.
func (t *task) until(ctx context.Context) {
	if ctx.Done() != nil {
		t.cause = ctx.Err
	}
}

// park lets the world go on until somebody wakes the task. It does not return when the node has crashed.
func (t *task) park() {
	t.parked = true
	if !t.yield(struct{}{}) || t.life.dead {
		panic(unwound{})
	}
}

// parking returns the number of the next parking, for those who are to wake the task from it.
func (t *task) parking() uint64 {
	t.turn++
	return t.turn
}

// do wakes the task from the parking with that number, or, while the process is stopped, when it goes on.
func (t *task) do(turn uint64) {
	if t.turn != turn || !t.parked || t.life.dead {
		return
	}
	w := t.life.host.world
	if w.now < t.life.pausedUntil {
		t.late = true
		w.at(t.life.pausedUntil, t, turn)
		return
	}
	t.run()
}

// run goes on with the task until it parks again or ends.
func (t *task) run() {
	t.parked, t.late, t.cause, t.rings, t.left = false, false, nil, 0, 0
	t.life.running = t
	_, more := t.next()
	if !more && !t.life.dead {
		t.life.taskEnded(t)
	}
}
