package queue

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

const (
	// batch is how many tasks one transaction starts, fails or deletes at most, and batchBytes how large what it reads
	// and writes for them may become: it begins with no further task then. What remains is done by the next one, at
	// once: Queue.Look is the instant of the transaction then, or one before it.
	batch, batchBytes = 100, 8 << 20

	// growth is how many times as many tasks are read next as before, at most: those to come may be larger.
	growth = 8
)

// Run carries out a command in a transaction: the rules of queues, which all stores share. After an error the
// transaction is to be undone. It keeps nothing between calls.
func Run(ctx context.Context, tx Tx, command Command) (Result, error) {
	takes, err := tx.Takes(ctx)
	if err != nil {
		return Result{}, err
	}
	if !takes {
		return Result{}, &Refusal{Closed, "The store takes nothing in at the moment, because its intake is paused, " +
			"or it is being moved or restored. Try again later."}
	}
	r := &run{Tx: tx, now: tx.Now()}
	switch c := command.(type) {
	case PutQueue:
		return r.putQueue(ctx, c.Queue, c.Before)
	case DropQueue:
		return r.deleteQueue(ctx, c.ID)
	case PutAction:
		return r.putAction(ctx, c.Action, c.Before)
	case DropAction:
		return r.deleteAction(ctx, c.ID)
	case PutTask:
		return r.putTask(ctx, c)
	case DropTask:
		return r.dropTask(ctx, c.ID)
	case End:
		return r.end(ctx, c)
	case Fulfil:
		return r.fulfil(ctx, c)
	case Look:
		return r.look(ctx, c.Queue)
	case Forget:
		forgotten, err := tx.Forget(ctx, r.now.Add(-c.Age), c.Limit)
		return Result{Changed: forgotten > 0, Forgotten: forgotten}, err
	}
	return Result{}, fmt.Errorf("%T is no command of queues", command)
}

// run is one transaction.
type run struct {
	Tx

	now     time.Time
	started []Task
	moved   int // bytes of the tasks and messages that it has read and written, beside what the caller has brought
}

// full reports whether the transaction is not to touch any more tasks.
func (r *run) full() bool { return r.moved >= batchBytes }

// fits returns how many tasks to read next where that many were dealt with: one, and then as many as fit if they are
// like those so far.
func (r *run) fits(done int) int {
	if done == 0 {
		return 1
	}
	return max(1, min(growth*done, (batchBytes-r.moved)*done/max(1, r.moved)))
}

// each reads tasks, and has something done with each of them, until there are no more, or there is no room for more, or
// the transaction has done enough. What was dealt with must not be read again.
func (r *run) each(room func() int, read func(limit int) ([]Task, error), do func(t *Task) error) error {
	for done := 0; done < batch; {
		limit := min(batch-done, r.fits(done), room())
		if limit <= 0 {
			return nil
		}
		tasks, err := read(limit)
		if err != nil {
			return err
		}
		for i := range tasks {
			if tasks[i].Inline != nil {
				r.moved += len(tasks[i].Inline.Payload)
			}
		}
		for i := range tasks {
			if err := do(&tasks[i]); err != nil {
				return err
			}
			if done++; r.full() {
				return nil
			}
		}
		if len(tasks) < limit {
			return nil
		}
	}
	return nil
}

// insert inserts messages, and counts them.
func (r *run) insert(ctx context.Context, messages ...node.Message) error {
	for i := range messages {
		r.moved += messages[i].Size()
	}
	return r.Insert(ctx, messages)
}

// lock locks a queue and returns it, and reads the clock: what happens to it happens at that instant, and not when the
// wait for the lock began.
func (r *run) lock(ctx context.Context, id uuid.UUID) (*Queue, error) {
	q, err := r.Queue(ctx, id)
	r.now = r.Now()
	return q, err
}

// result returns what the command has led to.
func (r *run) result(q *Queue, t *Task, changed bool) Result {
	result := Result{Queue: q, Task: t, Changed: changed, Started: r.started}
	for i := range r.started {
		if t != nil && r.started[i].ID == t.ID {
			started := r.started[i]
			result.Task = &started // it has not only arrived, it runs
		}
	}
	return result
}

// changed refuses what was chosen by something that is not so any more.
func changed(what string) error {
	return refuse(Changed, "Somebody else has changed the %s meanwhile. Look at it, and try again.", what)
}

// same reports whether two queues say the same, whatever has become of them.
func (q *Queue) same(other *Queue) bool {
	a, b := *q, *other
	a.State, b.State = State{}, State{}
	return reflect.DeepEqual(a, b)
}

func refuse(code Code, format string, args ...any) error {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

func (r *run) putQueue(ctx context.Context, wanted Queue, read *Queue) (Result, error) {
	if err := wanted.normalise(r.now); err != nil {
		return Result{}, err
	}
	if err := r.Define(ctx); err != nil {
		return Result{}, err
	}
	before, err := r.lock(ctx, wanted.ID)
	if err != nil {
		return Result{}, err
	}
	if err := r.allowed(ctx, before, &wanted); err != nil {
		return Result{}, err
	}
	wanted.State = State{}
	touched := wanted.Paths
	if before != nil {
		if wanted.State = before.State; reflect.DeepEqual(*before, wanted) {
			return r.result(before, nil, false), nil
		}
		if read != nil && !before.same(read) {
			return Result{}, changed("queue " + before.Name)
		}
		touched = append(append([]string{}, wanted.Paths...), before.Paths...)
	}
	if err := r.PutQueue(ctx, &wanted); err != nil {
		return Result{}, err
	}
	if err := r.Touch(ctx, touched); err != nil {
		return Result{}, err
	}
	err = r.settle(ctx, &wanted)
	return r.result(&wanted, nil, true), err
}

// allowed refuses a queue that may not become what is wanted.
func (r *run) allowed(ctx context.Context, before, wanted *Queue) error {
	switch {
	case wanted.ID == Root:
		return refuse(Conflict, "The queue %s is always there, and is not changed. Make a queue of your own.", RootName)
	case before != nil && before.Deleting:
		return refuse(Conflict, "The queue %q is being deleted. Wait until it is gone, and make it again.", before.Name)
	case before != nil && before.Running > 0 && before.Kind != wanted.Kind:
		return refuse(Conflict, "The queue %q cannot become %s while %d of its tasks run. Wait until they are done.",
			before.Name, wanted.Kind, before.Running)
	}
	switch other, err := r.Named(ctx, wanted.Name); {
	case err != nil:
		return err
	case other != nil && other.ID != wanted.ID:
		return refuse(Conflict, "There is another queue of the name %q, with the UUID %v. Give this one another name.",
			wanted.Name, other.ID)
	}
	if wanted.Relief == uuid.Nil {
		return nil
	}
	return r.known(ctx, wanted.Relief, "its backpressure")
}

// known refuses what names an action that is not there.
func (r *run) known(ctx context.Context, action uuid.UUID, what string) error {
	switch a, err := r.Action(ctx, action, false); {
	case err != nil:
		return err
	case a == nil:
		return refuse(Invalid, "There is no action %v, which was given for %s. Make the action first.", action, what)
	}
	return nil
}

func (r *run) deleteQueue(ctx context.Context, id uuid.UUID) (Result, error) {
	if id == Root {
		return Result{}, refuse(Conflict, "The queue %s is always there, and is not deleted.", RootName)
	}
	if err := r.Define(ctx); err != nil {
		return Result{}, err
	}
	q, err := r.lock(ctx, id)
	switch {
	case err != nil:
		return Result{}, err
	case q == nil:
		return Result{}, refuse(NotFound, "There is no queue %v.", id)
	case q.Deleting:
		return r.result(q, nil, false), nil
	}
	q.Deleting = true
	err = r.settle(ctx, q)
	return r.result(q, nil, true), err
}

func (r *run) putAction(ctx context.Context, wanted Action, read *Action) (Result, error) {
	if err := wanted.check(); err != nil {
		return Result{}, err
	}
	before, err := r.Action(ctx, wanted.ID, true)
	if err != nil {
		return Result{}, err
	}
	if before != nil && before.same(&wanted) {
		return Result{Action: before}, nil
	}
	if before != nil && read != nil && !before.same(read) {
		return Result{}, changed("action " + before.ID.String())
	}
	err = r.PutAction(ctx, &wanted)
	return Result{Action: &wanted, Changed: true}, err
}

func (r *run) deleteAction(ctx context.Context, id uuid.UUID) (Result, error) {
	a, err := r.Action(ctx, id, true)
	if err != nil {
		return Result{}, err
	}
	if a == nil {
		return Result{}, refuse(NotFound, "There is no action %v.", id)
	}
	switch used, err := r.InUse(ctx, id); {
	case err != nil:
		return Result{}, err
	case used:
		return Result{}, refuse(Conflict, "The action %v is still named by a queue, or by a task that is not done. "+
			"Change or delete these first.", id)
	}
	err = r.DropAction(ctx, id)
	return Result{Action: a, Changed: true}, err
}

// look does for a queue what has fallen due.
func (r *run) look(ctx context.Context, id uuid.UUID) (Result, error) {
	q, err := r.lock(ctx, id)
	if err != nil || q == nil {
		return Result{}, err
	}
	before := *q
	if err := r.giveUp(ctx, q); err != nil {
		return Result{}, err
	}
	err = r.settle(ctx, q)
	before.Look = q.Look // by itself no change that anybody sees
	return r.result(q, nil, !reflect.DeepEqual(before, *q)), err
}

// giveUp ends what has run for longer than the time limit of its queue.
func (r *run) giveUp(ctx context.Context, q *Queue) error {
	room := func() int { return q.Running }
	overdue := func(limit int) ([]Task, error) { return r.Overdue(ctx, q.ID, r.now.Add(-q.TimeLimit), limit) }
	return r.each(room, overdue, func(t *Task) error {
		return r.finish(ctx, q, t, Failure, fmt.Sprintf("It was not completed within %v.", q.TimeLimit))
	})
}
