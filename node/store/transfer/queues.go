package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
)

// The lines of queues, tasks and actions. What an action does stands in them as queue.Action.Content has it.

type queueLine struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	Kind       queue.Kind `json:"kind"`
	Window     string     `json:"window"`
	Paths      []string   `json:"paths,omitempty"`
	Tags       []string   `json:"tags,omitempty"`
	Drain      bool       `json:"drain,omitempty"`
	TimeLimit  int64      `json:"timeLimitMicroseconds"`
	Depth      int        `json:"depth,omitempty"`
	Relief     *uuid.UUID `json:"relief,omitempty"`
	Deleting   bool       `json:"deleting,omitempty"`
	Arrivals   int64      `json:"arrivals"`
	Pending    int        `json:"pending"`
	Running    int        `json:"running"`
	RelievedAt *time.Time `json:"relievedAt,omitempty"`
	LookAt     *time.Time `json:"lookAt,omitempty"`
}

type taskLine struct {
	ID        uuid.UUID       `json:"id"`
	Queue     uuid.UUID       `json:"queue"`
	Name      string          `json:"name,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
	Priority  int             `json:"priority"`
	NotBefore *time.Time      `json:"notBefore,omitempty"`
	Execution *uuid.UUID      `json:"execution,omitempty"`
	Inline    json.RawMessage `json:"inline,omitempty"`
	Promise   []uuid.UUID     `json:"promise,omitempty"`
	Arrival   int64           `json:"arrival"`
	Status    queue.Status    `json:"status"`
	Reason    string          `json:"reason,omitempty"`
	Run       *uuid.UUID      `json:"run,omitempty"`
	Arrived   time.Time       `json:"arrived"`
	Started   *time.Time      `json:"started,omitempty"`
	Ended     *time.Time      `json:"ended,omitempty"`
	Fates     string          `json:"fates,omitempty"`
}

type actionLine struct {
	ID      uuid.UUID       `json:"id"`
	Name    string          `json:"name,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Content json.RawMessage `json:"content"`
}

func lineOfQueue(q *queue.Queue) *queueLine {
	return &queueLine{
		q.ID, q.Name, q.Kind, q.Window, q.Paths, q.Tags, q.Drain, q.TimeLimit.Microseconds(), q.Depth, some(q.Relief),
		q.Deleting, q.Arrivals, q.Pending, q.Running, some(q.Relieved), some(q.Look),
	}
}

func (l *queueLine) queue() queue.Queue {
	return queue.Queue{
		ID: l.ID, Name: l.Name, Kind: l.Kind, Window: l.Window, Paths: l.Paths, Tags: l.Tags, Drain: l.Drain,
		TimeLimit: time.Duration(l.TimeLimit) * time.Microsecond, Depth: l.Depth, Relief: value(l.Relief),
		State: queue.State{
			Deleting: l.Deleting, Arrivals: l.Arrivals, Pending: l.Pending, Running: l.Running,
			Relieved: value(l.RelievedAt), Look: value(l.LookAt),
		},
	}
}

func lineOfTask(t *queue.Task) (*taskLine, error) {
	l := &taskLine{
		ID: t.ID, Queue: t.Queue, Name: t.Name, Tags: t.Tags, Priority: t.Priority, NotBefore: some(t.When),
		Execution: some(t.Execution), Promise: t.Promise, Arrival: t.Arrival, Status: t.Status, Reason: t.Reason,
		Run: some(t.Run), Arrived: t.Arrived, Started: some(t.Started), Ended: some(t.Ended), Fates: t.Fates,
	}
	if t.Inline == nil {
		return l, nil
	}
	content, err := t.Inline.Content()
	l.Inline = content
	return l, err
}

func (l *taskLine) task() (queue.Task, error) {
	t := queue.Task{
		ID: l.ID, Queue: l.Queue, Name: l.Name, Tags: l.Tags, Priority: l.Priority, When: value(l.NotBefore),
		Execution: value(l.Execution), Promise: l.Promise, Arrival: l.Arrival, Status: l.Status, Reason: l.Reason,
		Run: value(l.Run), Arrived: l.Arrived, Started: value(l.Started), Ended: value(l.Ended), Fates: l.Fates,
	}
	if l.Inline == nil {
		return t, nil
	}
	t.Inline = &queue.Action{}
	return t, t.Inline.SetContent(l.Inline)
}

func lineOfAction(a *queue.Action) (*actionLine, error) {
	content, err := a.Content()
	return &actionLine{a.ID, a.Name, a.Tags, content}, err
}

func (l *actionLine) action() (queue.Action, error) {
	a := queue.Action{ID: l.ID, Name: l.Name, Tags: l.Tags}
	return a, a.SetContent(l.Content)
}

// addQueues adds a line that is about queues to a batch, and reports whether it is.
func (r *reader) addQueues(to *Batch, l *line) (is bool, err error) {
	switch {
	case l.Queue != nil:
		r.counts.Queues++
		to.Queues = append(to.Queues, l.Queue.queue())
	case l.Action != nil:
		r.counts.Actions++
		var a queue.Action
		a, err = l.Action.action()
		to.Actions = append(to.Actions, a)
	case l.Task != nil:
		r.counts.Tasks++
		var t queue.Task
		t, err = l.Task.task()
		to.Tasks = append(to.Tasks, t)
	default:
		return false, nil
	}
	return true, err
}

// batchTasks is how many rows of queues are read at once, beside batchBytes of what there is to do: tags, paths and
// promises are not counted.
const batchTasks = 100

func exportQueues(ctx context.Context, source Store, w *writer, report func()) error {
	for after := ""; ; report() {
		queues, err := source.QueuesBehind(ctx, after, batchTasks)
		if err != nil {
			return err
		}
		if len(queues) == 0 {
			break
		}
		for i := range queues {
			after = queues[i].Name
			if reflect.DeepEqual(queues[i], queue.NewRoot()) {
				continue // every store has it: a release without queues can read the file
			}
			if err := w.write(line{Queue: lineOfQueue(&queues[i])}); err != nil {
				return err
			}
		}
	}
	for after := uuid.Nil; ; report() {
		actions, err := source.ActionsBehind(ctx, after, batchTasks, batchBytes)
		if err != nil {
			return err
		}
		if len(actions) == 0 {
			break
		}
		for i := range actions {
			l, err := lineOfAction(&actions[i])
			if err != nil {
				return err
			}
			if err := w.write(line{Action: l}); err != nil {
				return err
			}
			after = actions[i].ID
		}
	}
	return exportTasks(ctx, source, w, report)
}

func exportTasks(ctx context.Context, source Store, w *writer, report func()) error {
	for after := uuid.Nil; ; report() {
		tasks, err := source.TasksBehind(ctx, after, batchTasks, batchBytes)
		if err != nil || len(tasks) == 0 {
			return err
		}
		for i := range tasks {
			l, err := lineOfTask(&tasks[i])
			if err != nil {
				return fmt.Errorf("write task %v: %w", tasks[i].ID, err)
			}
			if err := w.write(line{Task: l}); err != nil {
				return err
			}
			after = tasks[i].ID
		}
	}
}
