package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// queueMutants break the rules of queues, or what they stand on.
func queueMutants() []*Mutant {
	mutants := slices.Concat(startMutants(), endMutants(), lookMutants())
	for _, m := range mutants {
		m.Options = queueing
	}
	return mutants
}

// startMutants start the wrong tasks.
func startMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "parent-ignored", About: "a task starts although a queue that contains its queue is closed",
			Kills:       []string{"S31"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return orphaned{tx} },
		},
		{
			Name: "head-taken-twice", About: "a sync queue starts a task while another one runs",
			Kills: []string{"S32"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx {
				return gets{tx, func(q *queue.Queue) {
					if q.Kind == queue.Sync {
						q.Running = 0
					}
				}}
			},
		},
		{
			Name: "priority-inverted", About: "of those that wait the one of the lowest priority starts",
			Kills:       []string{"S33"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return inverted{tx} },
		},
		{
			Name: "before-its-time", About: "an async queue starts what comes within the next second",
			Kills:       []string{"S33"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return hasty{tx} },
		},
	}
}

// endMutants end tasks wrongly, or forget what comes of it.
func endMutants() []*Mutant {
	part := func(m *node.Message) string { return valueOf(m.Headers, node.HeaderTaskPart) }
	unless := func(forgotten func(part string) bool) func(queue.Tx, Table) queue.Tx {
		return func(tx queue.Tx, _ Table) queue.Tx {
			return inserts{tx, func(m *node.Message) []node.Message {
				if forgotten(part(m)) {
					return nil
				}
				return []node.Message{*m}
			}}
		}
	}
	return []*Mutant{
		{
			Name: "completed-twice", About: "a completion that comes again counts again", Kills: []string{"S34"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return completedTwice{tx} },
		},
		{
			Name: "limit-and-completion", About: "a task that was completed is over its time limit once more",
			Kills:       []string{"S34"},
			Transaction: func(tx queue.Tx, t Table) queue.Tx { return overdue{tx, t} },
		},
		{
			Name: "promise-early", About: "the promise of a task is stored with its execution", Kills: []string{"S34"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return inserts{tx, early} },
		},
		{
			Name: "promise-forgotten", About: "the promise of a task that is completed is not stored",
			Kills:       []string{"S34"},
			Transaction: unless(func(part string) bool { return strings.HasPrefix(part, promisePart) }),
		},
		{
			Name: "execution-forgotten", About: "a task runs, and nobody is asked to execute it",
			Kills:       []string{"S34"},
			Transaction: unless(func(part string) bool { return part == executionPart }),
		},
		{
			Name: "drain-forgotten", About: "what waits in a queue that is to be drained is deleted with it",
			Kills: []string{"L18"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx {
				return gets{tx, func(q *queue.Queue) { q.Drain = q.Drain && !q.Deleting }}
			},
		},
	}
}

// lookMutants do not look after queues when they should.
func lookMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "opening-missed", About: "nobody looks after a queue that is closed", Kills: []string{"L18"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx {
				return puts{tx, func(q *queue.Queue) {
					if !opens(q.Window, tx.Now()) && q.Running == 0 {
						q.Look = time.Time{}
					}
				}}
			},
		},
		{
			Name: "inside-forgotten", About: "nobody looks after the queues inside one that changes",
			Kills:       []string{"L18"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return untouched{tx} },
		},
		{
			Name: "limit-forgotten", About: "a task that nobody completes runs forever", Kills: []string{"L19"},
			Transaction: func(tx queue.Tx, _ Table) queue.Tx { return patient{tx} },
		},
	}
}

// queueing has a world have queues, and not much else.
func queueing(o *Options) {
	o.Queues, o.Tasks, o.Messages = 4, 40, min(o.Messages, 10)
	if o.StoreSkew > latestStart || o.StoreSkew < -time.Minute {
		o.StoreSkew = drawStoreSkew(stream(o.Seed, forQueues, 0, 1))
	}
	o.FaultRate = min(o.FaultRate, 20)
	o.Bandwidth, o.Large = 0, 0
}

// opens reports whether a window that worlds have is open.
func opens(words string, at time.Time) bool {
	w, has := judgedWindow(words)
	if !has {
		return true
	}
	return (sinceEpoch(at)-w.Phase+2*w.Period)%w.Period < w.Open
}

// completedTwice shows a task that is done as one that runs, to whoever ends it.
type completedTwice struct{ queue.Tx }

func (c completedTwice) Task(ctx context.Context, id uuid.UUID) (*queue.Task, error) {
	t, err := c.Tx.Task(ctx, id)
	if t != nil && (t.Status == queue.Complete || t.Status == queue.Failure) {
		t.Status = queue.Running
	}
	return t, err
}

// puts changes queues that are written, and gets those that are read.
type puts struct {
	queue.Tx

	change func(*queue.Queue)
}

func (p puts) PutQueue(ctx context.Context, q *queue.Queue) error {
	other := *q
	p.change(&other)
	return p.Tx.PutQueue(ctx, &other)
}

type gets struct {
	queue.Tx

	change func(*queue.Queue)
}

func (g gets) Queue(ctx context.Context, id uuid.UUID) (*queue.Queue, error) {
	q, err := g.Tx.Queue(ctx, id)
	if q != nil {
		g.change(q)
	}
	return q, err
}

// orphaned finds nothing that contains a queue.
type orphaned struct{ queue.Tx }

func (orphaned) Containing(context.Context, *queue.Queue) ([]queue.Queue, error) { return nil, nil }

// untouched looks after nothing inside a queue.
type untouched struct{ queue.Tx }

func (untouched) Touch(context.Context, []string) error { return nil }

// inverted takes the one of the lowest priority first.
type inverted struct{ queue.Tx }

func (i inverted) Next(ctx context.Context, q *queue.Queue, limit int) ([]queue.Task, error) {
	if q.Kind != queue.Sync {
		return i.Tx.Next(ctx, q, limit)
	}
	tasks, err := waiting(ctx, i.Tx, q)
	slices.SortStableFunc(tasks, func(a, b queue.Task) int { return a.Priority - b.Priority })
	return tasks[:min(limit, len(tasks))], err
}

// waiting returns what waits in a queue, as if it were a sync one.
func waiting(ctx context.Context, tx queue.Tx, q *queue.Queue) ([]queue.Task, error) {
	asked := *q
	asked.Kind = queue.Sync
	return tx.Next(ctx, &asked, 1000)
}

// hasty takes what comes within a second.
type hasty struct{ queue.Tx }

func (h hasty) Next(ctx context.Context, q *queue.Queue, limit int) ([]queue.Task, error) {
	if q.Kind == queue.Sync {
		return h.Tx.Next(ctx, q, limit)
	}
	tasks, err := waiting(ctx, h.Tx, q)
	tasks = slices.DeleteFunc(tasks, func(t queue.Task) bool { return t.When.After(h.Now().Add(time.Second)) })
	return tasks[:min(limit, len(tasks))], err
}

// patient finds no task that has run for too long.
type patient struct{ queue.Tx }

func (patient) Overdue(context.Context, uuid.UUID, time.Time, int) ([]queue.Task, error) {
	return nil, nil
}

// overdue finds those that were completed, too.
type overdue struct {
	queue.Tx

	table Table
}

func (o overdue) Overdue(ctx context.Context, id uuid.UUID, started time.Time, limit int) ([]queue.Task, error) {
	tasks, err := o.Tx.Overdue(ctx, id, started, limit)
	rows := &o.table.truth.queues
	for _, other := range rows.taskOrder {
		t := rows.tasks[other]
		if t.Queue == id && t.Status == queue.Complete && !t.Started.After(started) && len(tasks) < limit {
			tasks = append(tasks, t)
		}
	}
	return tasks, err
}

// inserts puts other messages in the place of each.
type inserts struct {
	queue.Tx

	instead func(*node.Message) []node.Message
}

func (i inserts) Insert(ctx context.Context, messages []node.Message) error {
	var others []node.Message
	for n := range messages {
		others = append(others, i.instead(&messages[n])...)
	}
	return i.Tx.Insert(ctx, others)
}

// early returns a message, and with an execution that of the first action of a promise.
func early(m *node.Message) []node.Message {
	if valueOf(m.Headers, node.HeaderTaskPart) != executionPart {
		return []node.Message{*m}
	}
	promise := *m
	promise.ID += "/early"
	promise.Incarnation[0] ^= 0xff
	promise.Headers = slices.Clone(m.Headers)
	for i := range promise.Headers {
		if promise.Headers[i].Name == node.HeaderTaskPart {
			promise.Headers[i].Value = []byte(promisePart + "0")
		}
	}
	return []node.Message{*m, promise}
}
