package queue

import (
	"bytes"
	"context"
	"reflect"
	"strings"

	"github.com/google/uuid"
)

func (r *run) putTask(ctx context.Context, c PutTask) (Result, error) {
	wanted, read, arrives := c.Task, c.Before, c.New
	if err := wanted.normalise(); err != nil {
		return Result{}, err
	}
	before, from, err := r.locked(ctx, wanted.ID, wanted.Queue)
	if err != nil {
		return Result{}, err
	}
	if before != nil {
		if before.says(&wanted) {
			return r.result(from, before, false), nil
		}
		if before.Status != Pending {
			return Result{}, refuse(Conflict, "The task %v is %s, and can be changed only while it is %s. Make "+
				"another one.", before.ID, before.Status, Pending)
		}
		if arrives {
			return r.result(from, before, false), nil
		}
		if read != nil && !before.says(read) {
			return Result{}, changed("task " + before.ID.String())
		}
	}
	to := from
	if from == nil || from.ID != wanted.Queue {
		if to, err = r.lock(ctx, wanted.Queue); err != nil {
			return Result{}, err
		}
	}
	if err := r.arrivable(ctx, to, &wanted); err != nil {
		return Result{}, err
	}
	wanted.Status, wanted.Arrived = Pending, r.now
	if before != nil {
		wanted.Arrived, wanted.Arrival = before.Arrived, before.Arrival
	}
	if from != to {
		to.Arrivals++
		to.Pending++
		wanted.Arrival = to.Arrivals
	}
	write := r.PutTask
	if before == nil {
		write = r.AddTask
	}
	if err := write(ctx, &wanted); err != nil {
		return Result{}, err
	}
	if before != nil && from != to {
		from.Pending--
		if err := r.settle(ctx, from); err != nil {
			return Result{}, err
		}
	}
	err = r.settle(ctx, to)
	return r.result(to, &wanted, true), err
}

// arrivable refuses a task that cannot be in a queue.
func (r *run) arrivable(ctx context.Context, q *Queue, t *Task) error {
	switch {
	case q == nil:
		return refuse(NotFound, "There is no queue %v for the task %v. Make the queue first.", t.Queue, t.ID)
	case q.Deleting:
		return refuse(Conflict, "The queue %q is being deleted, and takes no tasks. Name another one.", q.Name)
	}
	if t.Inline == nil {
		if err := r.known(ctx, t.Execution, "its execution"); err != nil {
			return err
		}
	}
	for _, id := range t.Promise {
		if err := r.known(ctx, id, "its promise"); err != nil {
			return err
		}
	}
	return nil
}

// locked returns a task with its queue locked, and another queue, too: in the order of their ids, so that two that move
// tasks both ways wait for each other in no circle. Where the queue of the task is gone, Root is locked in its place,
// and the queue is nil.
func (r *run) locked(ctx context.Context, id, also uuid.UUID) (*Task, *Queue, error) {
	seen, err := r.Task(ctx, id)
	if err != nil || seen == nil {
		return nil, nil, err
	}
	if also != uuid.Nil && bytes.Compare(also[:], seen.Queue[:]) < 0 {
		if _, err := r.lock(ctx, also); err != nil {
			return nil, nil, err
		}
	}
	q, err := r.lock(ctx, seen.Queue)
	if err != nil {
		return nil, nil, err
	}
	if q == nil {
		if _, err := r.lock(ctx, Root); err != nil {
			return nil, nil, err
		}
	}
	// It may have moved on before the lock was there.
	t, err := r.Task(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if t == nil || t.Queue != seen.Queue {
		return nil, nil, ErrAgain
	}
	return t, q, nil
}

func (r *run) dropTask(ctx context.Context, id uuid.UUID) (Result, error) {
	t, q, err := r.locked(ctx, id, uuid.Nil)
	switch {
	case err != nil:
		return Result{}, err
	case t == nil:
		return Result{}, refuse(NotFound, "There is no task %v.", id)
	case t.Status.Done():
		return r.result(q, t, false), nil
	case t.Status == Running:
		return Result{}, refuse(Conflict, "The task %v runs already, and is not to be had back. Complete it as "+
			"failed, if nobody else will.", id)
	}
	t.Status, t.Ended, t.Reason = Deleted, r.now, "Somebody has deleted it."
	if err := r.PutTask(ctx, t); err != nil {
		return Result{}, err
	}
	q.Pending--
	err = r.settle(ctx, q)
	return r.result(q, t, true), err
}

func (r *run) end(ctx context.Context, c End) (Result, error) {
	t, q, err := r.locked(ctx, c.Task, uuid.Nil)
	switch {
	case err != nil:
		return Result{}, err
	case t == nil:
		return Result{}, refuse(NotFound, "There is no task %v. It may have been forgotten, some days after it ended.",
			c.Task)
	case t.Status == Pending:
		return Result{}, refuse(Conflict, "The task %v waits, and has not run. Complete it when it runs, or delete it.",
			c.Task)
	case t.Status != Running, c.Run != uuid.Nil && c.Run != t.Run, c.Delivered && q.Kind == Sync:
		return r.result(q, t, false), nil
	}
	status, reason := Complete, ""
	if c.Failed {
		status, reason = Failure, cut(c.Reason)
	}
	if err := r.finish(ctx, q, t, status, reason); err != nil {
		return Result{}, err
	}
	err = r.settle(ctx, q)
	return r.result(q, t, true), err
}

// maxReason is how many bytes of a reason are kept: it may be the answer of a server.
const maxReason = 500

func cut(reason string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(reason[:min(len(reason), maxReason)], "\x00", ""), "")
}

func (r *run) fulfil(ctx context.Context, c Fulfil) (Result, error) {
	t, q, err := r.locked(ctx, c.Task, uuid.Nil)
	switch {
	case err != nil:
		return Result{}, err
	case t == nil:
		return Result{}, refuse(NotFound, "There is no task %v. It may have been forgotten, some days after it ended.",
			c.Task)
	case c.Run != t.Run || !t.Status.Done() || c.Action < 0 || c.Action >= len(t.Fates),
		t.Fates[c.Action] != FateOpen:
		return r.result(q, t, false), nil
	}
	fates := []byte(t.Fates)
	fates[c.Action] = FateDone
	if c.Broken {
		fates[c.Action] = FateBroken
	}
	if t.Fates = string(fates); t.Promised() > 0 && t.Broken() > 0 {
		t.Status = PartiallyFailed
	}
	err = r.PutTask(ctx, t)
	return r.result(q, t, true), err
}

// says reports whether a task says all that somebody asks for.
func (t *Task) says(wanted *Task) bool {
	same := t.ID == wanted.ID && t.Queue == wanted.Queue && t.Name == wanted.Name && t.Priority == wanted.Priority &&
		t.When.Equal(wanted.When) && t.Execution == wanted.Execution && (t.Inline == nil) == (wanted.Inline == nil)
	return same && reflect.DeepEqual(t.Tags, wanted.Tags) && reflect.DeepEqual(t.Promise, wanted.Promise) &&
		(t.Inline == nil || t.Inline.same(wanted.Inline))
}

// same reports whether two actions say the same. That of nothing and that of null differ in a record.
func (a *Action) same(other *Action) bool {
	return a.ID == other.ID && a.Name == other.Name && a.URI == other.URI && a.Method == other.Method &&
		a.Topic == other.Topic && reflect.DeepEqual(a.Tags, other.Tags) &&
		reflect.DeepEqual(a.Headers, other.Headers) && reflect.DeepEqual(a.Key, other.Key) &&
		reflect.DeepEqual(a.Payload, other.Payload)
}
