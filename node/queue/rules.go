package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
)

// reliefAgain is how long a depth that does not go down goes on before its relief is called once more.
const reliefAgain = time.Hour

// settle does what a queue asks for as it is now, which is locked: what can start starts, what is too deep is
// relieved, what is deleted goes. Every command that changes a queue, or its tasks, ends with it. It writes the queue.
func (r *run) settle(ctx context.Context, q *Queue) error {
	open, opens, err := r.open(ctx, q)
	if err != nil {
		return err
	}
	if q.Deleting && !q.Drain {
		if err := r.clear(ctx, q); err != nil {
			return err
		}
	} else if open {
		if err := r.start(ctx, q); err != nil {
			return err
		}
	}
	if q.Deleting && q.Pending == 0 && q.Running == 0 {
		return r.drop(ctx, q)
	}
	if err := r.relieve(ctx, q, open); err != nil {
		return err
	}
	if q.Look, err = r.next(ctx, q, open, opens); err != nil {
		return err
	}
	return r.PutQueue(ctx, q)
}

// open reports whether a queue is open, with all that contain it; if it is not, then it is closed until opens at least,
// zero forever, as far as the windows are as they are now.
func (r *run) open(ctx context.Context, q *Queue) (open bool, opens time.Time, err error) {
	windows := []string{q.Window}
	if len(prefixes(q.Paths)) > 0 {
		containing, err := r.Containing(ctx, q)
		if err != nil {
			return false, time.Time{}, err
		}
		for i := range containing {
			windows = append(windows, containing[i].Window)
		}
	}
	return Open(windows, r.now)
}

// Open reports whether all windows are open at an instant. If not, they are not all open before opens; zero for never.
// That need not be when they are: each of those that are closed is still so until then or opens at that instant, and
// then is the time to ask again.
func Open(windows []string, at time.Time) (open bool, opens time.Time, err error) {
	open = true
	ever := true
	for _, words := range windows {
		if words == always {
			continue
		}
		window, err := calendar.ParseWindow(words, at)
		if err != nil {
			return false, time.Time{}, fmt.Errorf("the window %q of a queue: %w", words, err)
		}
		if window.Open(at) {
			continue
		}
		open = false
		change, changes := window.Next(at)
		ever = ever && changes
		if change.After(opens) {
			opens = change.UTC()
		}
	}
	if !ever {
		opens = time.Time{}
	}
	return open, opens, nil
}

// start starts what can start in a queue that is open: one task of a sync queue. What is over at once makes room for
// others.
func (r *run) start(ctx context.Context, q *Queue) error {
	begun := 0
	room := func() int {
		if q.Kind == Sync {
			return min(q.Pending, 1-max(q.Running, begun))
		}
		return min(q.Pending, MaxRunning-q.Running)
	}
	next := func(limit int) ([]Task, error) { return r.Next(ctx, q, limit) }
	return r.each(room, next, func(t *Task) error {
		if err := r.begin(ctx, q, t); err != nil {
			return err
		}
		r.started = append(r.started, *t)
		begun++
		return nil
	})
}

// begin starts a task that is Pending: it is Running, and the message of its execution is inserted. A record that an
// async task asks for is certain to come out then, and nobody completes it: the task is done.
func (r *run) begin(ctx context.Context, q *Queue, t *Task) error {
	action := t.Inline
	if action == nil {
		var err error
		if action, err = r.Action(ctx, t.Execution, false); err != nil {
			return err
		}
	}
	t.Status, t.Started = Running, r.now
	t.Run = derive(t.ID, "run", r.now)
	q.Pending--
	q.Running++
	if action == nil {
		return r.finish(ctx, q, t, Failure, fmt.Sprintf("Its action %v is not there any more.", t.Execution))
	}
	message := r.message(t, action, partExecution)
	if err := r.insert(ctx, message); err != nil {
		return err
	}
	if q.Kind == Async && action.Topic != "" {
		return r.finish(ctx, q, t, Complete, "")
	}
	return r.PutTask(ctx, t)
}

// finish ends a task that is Running, and inserts the messages of its promise. It writes the task, not the queue.
func (r *run) finish(ctx context.Context, q *Queue, t *Task, status Status, reason string) error {
	t.Status, t.Reason, t.Ended = status, reason, r.now
	q.Running--
	var promise []node.Message
	fates := []byte(t.Fates)
	for i, id := range t.Promise {
		action, err := r.Action(ctx, id, false)
		switch {
		case err != nil:
			return err
		case action == nil:
			fates[i] = FateBroken
		default:
			promise = append(promise, r.message(t, action, partPromise(i)))
			if action.Topic != "" {
				fates[i] = FateDone
			}
		}
	}
	t.Fates = string(fates)
	if len(promise) > 0 {
		if err := r.insert(ctx, promise...); err != nil {
			return err
		}
	}
	return r.PutTask(ctx, t)
}

// relieve calls the relief of a queue that is open and too deep.
func (r *run) relieve(ctx context.Context, q *Queue, open bool) error {
	switch {
	case q.Depth == 0 || q.Pending <= q.Depth*4/5:
		q.Relieved = time.Time{}
		return nil
	case !open || q.Relief == uuid.Nil || !q.deep() || q.Deleting,
		!q.Relieved.IsZero() && r.now.Before(q.Relieved.Add(reliefAgain)):
		return nil
	}
	q.Relieved = r.now
	action, err := r.Action(ctx, q.Relief, false)
	if err != nil || action == nil {
		return err
	}
	return r.Insert(ctx, []node.Message{r.relief(q, action)})
}

// deep reports whether more waits than should.
func (q *Queue) deep() bool { return q.Depth > 0 && q.Pending > q.Depth }

// clear deletes what waits in a queue that is deleted.
func (r *run) clear(ctx context.Context, q *Queue) error {
	all := *q
	all.Kind = Sync // whatever their time is
	next := func(limit int) ([]Task, error) { return r.Next(ctx, &all, limit) }
	return r.each(func() int { return q.Pending }, next, func(t *Task) error {
		t.Status, t.Ended = Deleted, r.now
		t.Reason = fmt.Sprintf("The queue %q was deleted.", q.Name)
		q.Pending--
		return r.PutTask(ctx, t)
	})
}

// drop deletes a queue in which nothing is left. What lies inside it is not contained by it any more.
func (r *run) drop(ctx context.Context, q *Queue) error {
	if err := r.Define(ctx); err != nil {
		return err
	}
	if err := r.DropQueue(ctx, q.ID); err != nil {
		return err
	}
	q.Look = time.Time{}
	return r.Touch(ctx, q.Paths)
}

// next returns when somebody has to look after a queue: the earliest instant at which something may have to happen to
// it that no command brings about. A closing is none.
func (r *run) next(ctx context.Context, q *Queue, open bool, opens time.Time) (time.Time, error) {
	var look time.Time
	earlier := func(at time.Time) {
		if look.IsZero() || at.Before(look) {
			look = at
		}
	}
	if q.Running > 0 {
		longest, some, err := r.Longest(ctx, q.ID)
		if err != nil {
			return time.Time{}, err
		}
		if some {
			earlier(longest.Add(q.TimeLimit))
		}
	}
	if q.Pending == 0 {
		return look, nil
	}
	if q.Deleting && !q.Drain {
		return r.now, nil
	}
	if open && !q.Relieved.IsZero() && q.deep() {
		earlier(q.Relieved.Add(reliefAgain))
	}
	if !open && opens.IsZero() {
		return look, nil
	}
	if !open && q.Relief != uuid.Nil && q.deep() {
		earlier(opens) // too deep from then on, whether anything can start or not
	}
	switch {
	case q.Kind == Sync && !open:
		earlier(opens)
	case q.Kind == Sync && q.Running == 0:
		earlier(r.now)
	case q.Kind == Async && q.Running < MaxRunning:
		soonest, some, err := r.Soonest(ctx, q.ID)
		if err != nil {
			return time.Time{}, err
		}
		if some && soonest.Before(opens) {
			soonest = opens // zero if it is open
		}
		if some {
			earlier(later(soonest, r.now))
		}
	}
	return look, nil
}

// later returns the later one of two instants.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
