package sim

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/sim/check"
)

func asRefusal(err error, refusal **queue.Refusal) bool { return errors.As(err, refusal) }

// queueEvent returns what a history says of a queue.
func queueEvent(kind check.Kind, q *queue.Queue) check.Event {
	e := check.Event{
		Kind: kind, Queue: check.UUID(q.ID), Lasts: q.TimeLimit, Sync: q.Kind == queue.Sync,
		Paths: strings.Join(q.Paths, ","),
	}
	if w, has := judgedWindow(q.Window); has {
		e.Windows = []check.Window{w}
	}
	return e
}

// queuePut tells that a queue was made or changed, or that it is being deleted from now on. What has only become of it
// is told of its tasks.
func (j *recorder) queuePut(l *life, before, q *queue.Queue, known bool, at time.Time) {
	if known && sameQueue(before, q) {
		return
	}
	j.world.digest.number(uint64(digestOf(q.ID)))
	if !known || !q.Deleting {
		e := queueEvent(check.PutQueue, q)
		e.Node, e.Stamp = l.label, sinceEpoch(at)
		j.add(e)
	}
	if q.Deleting {
		j.world.count("queue-dropped")
		j.add(check.Event{Kind: check.DropQueue, Node: l.label, Queue: check.UUID(q.ID), Drain: q.Drain})
	}
}

func (j *recorder) queueGone(l *life, id uuid.UUID) {
	j.world.count("queue-gone")
	j.add(check.Event{Kind: check.QueueGone, Node: l.label, Queue: check.UUID(id)})
}

// taskEvent returns what a history says of a task.
func taskEvent(kind check.Kind, t *queue.Task) check.Event {
	return check.Event{Kind: kind, Task: check.UUID(t.ID)}
}

// arrival returns the same with what it was when it came.
func arrival(kind check.Kind, t *queue.Task) check.Event {
	e := taskEvent(kind, t)
	e.Queue, e.Priority, e.Arrival, e.Limit = check.UUID(t.Queue), t.Priority, t.Arrival, len(t.Promise)
	e.Due = sinceEpoch(t.When)
	return e
}

// taskCame tells of a task that is new, or was changed while it waited. It may have started since.
func (j *recorder) taskCame(l *life, before, t *queue.Task, at time.Time) {
	same := before.Queue == t.Queue && before.Arrival == t.Arrival && before.Priority == t.Priority &&
		before.When.Equal(t.When) && len(before.Promise) == len(t.Promise)
	if before.Status != "" && (before.Status != queue.Pending || same) {
		return
	}
	j.world.digest.number(uint64(digestOf(t.ID)))
	e := arrival(check.Arrive, t)
	e.Node, e.Stamp = l.label, sinceEpoch(at)
	j.add(e)
}

// taskEnded tells of a task that is completed, or was deleted. A promise that was broken in part changes nothing more.
func (j *recorder) taskEnded(l *life, before, t *queue.Task, asked bool, at time.Time) {
	switch {
	case !t.Status.Done() || before.Ended.Equal(t.Ended):
	case t.Status == queue.Deleted:
		e := taskEvent(check.Withdraw, t)
		if e.Node = l.label; asked {
			e.Text = check.OnRequest
		}
		j.world.count("task-deleted")
		j.add(e)
	default:
		if before.Status == "" || before.Status == queue.Pending { // it has run for no time
			j.taskBegins(l, t, at)
		}
		e := taskEvent(check.Done, t)
		e.Node, e.Run, e.Text, e.Stamp = l.label, check.UUID(t.Run), string(t.Status), sinceEpoch(at)
		j.world.count("task-" + strings.ToLower(e.Text))
		j.taskStep(l, t, "is done: "+e.Text+" "+t.Reason)
		j.add(e)
	}
}

// promised tells of an action of a promise that is stored.
func (j *recorder) promised(l *life, m *node.Message) {
	number, is := strings.CutPrefix(valueOf(m.Headers, node.HeaderTaskPart), promisePart)
	nth, err := strconv.Atoi(number)
	if !is || err != nil {
		return
	}
	e := runEvent(check.Promise, l, m.Headers)
	e.Nth = nth
	j.add(e)
}

// runEvent returns what a history says of the run that headers name.
func runEvent(kind check.Kind, l *life, headers []node.Header) check.Event {
	return check.Event{
		Kind: kind, Node: l.label, Task: uuidIn(headers, node.HeaderTask), Run: uuidIn(headers, node.HeaderTaskRun),
	}
}

func (j *recorder) taskStarted(l *life, before, t *queue.Task, at time.Time) {
	if t.Status == queue.Running && before.Status != queue.Running {
		j.taskBegins(l, t, at)
	}
}

func (j *recorder) taskBegins(l *life, t *queue.Task, at time.Time) {
	e := taskEvent(check.Begin, t)
	e.Node, e.Run, e.Stamp = l.label, check.UUID(t.Run), sinceEpoch(at)
	j.world.count("task-started")
	j.taskStep(l, t, "starts")
	j.add(e)
}

func (j *recorder) taskStep(l *life, t *queue.Task, what string) {
	if w := j.world; w.observe != nil {
		w.step(&Step{
			Kind: StepRow, Node: l.host.number, Life: l.number, Text: "task " + t.ID.String()[24:] + " " + what,
		})
	}
}

// queuesKept tells what is left of queues and tasks in a store that was set back.
func (j *recorder) queuesKept(rows *queueRows) {
	if j.world.options.Queues == 0 {
		return
	}
	now := sinceEpoch(j.world.store.instant())
	for _, id := range rows.queueOrder {
		q := rows.queues[id]
		e := queueEvent(check.KeepQueue, &q)
		e.Stamp = now
		e.Deleting, e.Drain = q.Deleting, q.Drain
		j.add(e)
	}
	for _, id := range rows.taskOrder {
		t := rows.tasks[id]
		e := arrival(check.KeepTask, &t)
		e.Run, e.Text, e.Stamp = check.UUID(t.Run), string(t.Status), now
		if t.Status == queue.PartiallyFailed {
			e.Text = check.TaskComplete
		}
		j.add(e)
	}
}

// called tells that a receiver is asked for something.
func (j *recorder) called(l *life, r *node.Record) {
	e := runEvent(check.Call, l, r.Headers)
	e.Text = valueOf(r.Headers, node.HeaderTaskPart)
	j.add(e)
}

// accepted tells that a client is told that its task is kept, and completed that one is told what became of a run.
func (j *recorder) accepted(id uuid.UUID) {
	j.add(check.Event{Kind: check.Accept, Task: check.UUID(id)})
}

func (j *recorder) completed(t *queue.Task) {
	if t == nil || t.Status != queue.Complete && t.Status != queue.Failure {
		return
	}
	e := taskEvent(check.Told, t)
	e.Run, e.Text = check.UUID(t.Run), string(t.Status)
	j.add(e)
}

// uuidIn returns the UUID in a header; the zero one for none.
func uuidIn(headers []node.Header, name string) check.UUID {
	id, err := uuid.Parse(valueOf(headers, name))
	if err != nil {
		return check.UUID{}
	}
	return check.UUID(id)
}
