package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// The queue half of the store port, see storePort.
var _ queue.Store = (*storePort)(nil)

// Apply implements queue.Store.
func (p *storePort) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	e := &applied{server: p.life.host.world.store, command: command}
	err := p.transaction(opApply, e, 0, nil).perform(ctx)
	if n := p.life.node; n != nil {
		n.Stir() // as service does
	}
	if err != nil || e.result.Changed {
		p.life.tells()
	}
	if err != nil {
		return queue.Result{}, err
	}
	return e.result, e.err
}

// Transact implements queue.Store. Transactions are made at the store.
func (p *storePort) Transact(
	context.Context, func(context.Context, queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	panic("sim: a transaction of a node")
}

// Due implements queue.Store.
func (p *storePort) Due(ctx context.Context, limit int) ([]uuid.UUID, time.Duration, bool, error) {
	e := &dueQueues{server: p.life.host.world.store, most: limit}
	if err := p.transaction(opDue, e, 0, nil).perform(ctx); err != nil {
		return nil, 0, false, err
	}
	return e.queues, e.next, e.any, nil
}

// Queues, Tasks and Actions implement queue.Store. Nobody here lists anything.
func (p *storePort) Queues(context.Context, queue.Filter) ([]queue.Queue, error) { return nil, nil }

// Tasks implements queue.Store.
func (p *storePort) Tasks(context.Context, queue.Filter) ([]queue.Task, error) { return nil, nil }

// Actions implements queue.Store.
func (p *storePort) Actions(context.Context, queue.Filter) ([]queue.Action, error) { return nil, nil }

// applied is a queue.Store.Apply. Here its locks are one for all queues: which of them it needs is known only when it
// has read some.
type applied struct {
	simple

	server  *storeServer
	command queue.Command
	result  queue.Result
	err     error // only a refusal
}

func (e *applied) needs(*truth) []lockable {
	return []lockable{{MessageID: node.MessageID{Lane: queue.Lane}}}
}

func (e *applied) apply(node.Store) { e.result, e.err = e.server.truth.carryOut(e.command) }

// dueQueues is a queue.Store.Due.
type dueQueues struct {
	simple

	server *storeServer
	most   int
	queues []uuid.UUID
	next   time.Duration
	any    bool
}

func (e *dueQueues) waits() bool { return false }

func (e *dueQueues) apply(node.Store) {
	var err error
	e.queues, e.next, e.any, err = e.server.truth.rows.(queue.Store).Due(context.Background(), e.most)
	_ = must(e.any, err)
}

// queueRows are the queues and tasks that the store keeps, in the order in which they came.
type queueRows struct {
	queues     map[uuid.UUID]queue.Queue
	tasks      map[uuid.UUID]queue.Task
	queueOrder []uuid.UUID
	taskOrder  []uuid.UUID
}

func newQueueRows() queueRows {
	rows := queueRows{queues: map[uuid.UUID]queue.Queue{}, tasks: map[uuid.UUID]queue.Task{}}
	rows.putQueue(queue.NewRoot())
	return rows
}

func (r *queueRows) putQueue(q queue.Queue) {
	if _, known := r.queues[q.ID]; !known {
		r.queueOrder = append(r.queueOrder, q.ID)
	}
	r.queues[q.ID] = q
}

func (r *queueRows) dropQueue(id uuid.UUID) {
	delete(r.queues, id)
	r.queueOrder = slices.DeleteFunc(r.queueOrder, func(other uuid.UUID) bool { return other == id })
}

func (r *queueRows) putTask(t queue.Task) {
	if _, known := r.tasks[t.ID]; !known {
		r.taskOrder = append(r.taskOrder, t.ID)
	}
	r.tasks[t.ID] = t
}

// witness sees what a transaction writes, on its way to the rows.
type witness struct {
	queue.Tx

	truth    *truth
	queues   []queue.Queue
	dropped  []uuid.UUID
	tasks    []queue.Task
	messages []node.Message
}

// Takes implements queue.Tx. That the server has another history only the server shows.
func (w *witness) Takes(ctx context.Context) (bool, error) {
	takes, err := w.Tx.Takes(ctx)
	return takes && (!w.truth.suspect || w.truth.muted), err
}

// PutQueue implements queue.Tx.
func (w *witness) PutQueue(ctx context.Context, q *queue.Queue) error {
	w.queues = append(w.queues, q.Clone())
	return w.Tx.PutQueue(ctx, q)
}

// DropQueue implements queue.Tx.
func (w *witness) DropQueue(ctx context.Context, id uuid.UUID) error {
	w.dropped = append(w.dropped, id)
	return w.Tx.DropQueue(ctx, id)
}

// AddTask implements queue.Tx.
func (w *witness) AddTask(ctx context.Context, t *queue.Task) error {
	w.tasks = append(w.tasks, t.Clone())
	return w.Tx.AddTask(ctx, t)
}

// PutTask implements queue.Tx.
func (w *witness) PutTask(ctx context.Context, t *queue.Task) error {
	w.tasks = append(w.tasks, t.Clone())
	return w.Tx.PutTask(ctx, t)
}

// Insert implements queue.Tx.
func (w *witness) Insert(ctx context.Context, messages []node.Message) error {
	w.messages = append(w.messages, messages...)
	return w.Tx.Insert(ctx, messages)
}

// carryOut carries a command out at the rows, and tells the recorder what it has changed.
func (t *truth) carryOut(command queue.Command) (queue.Result, error) {
	ctx := context.Background()
	saw := &witness{truth: t}
	var at time.Time
	result, err := t.rows.(queue.Store).Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		*saw = witness{Tx: tx, truth: t}
		result, err := queue.Run(ctx, t.server.world.mutant.transaction(saw, t), command)
		at = tx.Now()
		return result, err
	})
	if err != nil {
		var refusal *queue.Refusal
		if !asRefusal(err, &refusal) {
			panic(fmt.Sprintf("sim: the store fails: %v", err))
		}
		t.server.world.count("queue-" + string(refusal.Code))
		return result, err
	}
	t.committed(saw, command, at)
	return result, nil
}

// committed takes note of what a transaction has written: each queue and task as it is after it. They are told in one
// order, whatever the order in which they were written.
func (t *truth) committed(saw *witness, command queue.Command, at time.Time) {
	if len(saw.queues)+len(saw.dropped)+len(saw.tasks)+len(saw.messages) > 0 {
		t.changes++
	}
	recorder, caller := t.server.world.recorder, t.caller
	_, asked := command.(queue.DropTask)
	for i := range saw.queues {
		q := saw.queues[i]
		before, known := t.queues.queues[q.ID]
		t.queues.putQueue(q)
		t.tell(func() { recorder.queuePut(caller, &before, &q, known, at) })
	}
	for _, id := range saw.dropped {
		q := t.queues.queues[id]
		if before := q; !q.Deleting { // it is gone as soon as it is deleted
			q.Deleting = true
			t.tell(func() { recorder.queuePut(caller, &before, &q, true, at) })
		}
	}
	// Of a task that is written twice only what it was before, and what it is in the end, count.
	befores := map[uuid.UUID]queue.Task{}
	var changed []queue.Task
	for _, k := range saw.tasks {
		if _, again := befores[k.ID]; !again {
			befores[k.ID] = t.queues.tasks[k.ID]
		} else {
			changed = slices.DeleteFunc(changed, func(other queue.Task) bool { return other.ID == k.ID })
		}
		changed = append(changed, k)
		t.queues.putTask(k)
	}
	t.tell(func() {
		each := func(tell func(l *life, before, k *queue.Task, at time.Time)) {
			for i := range changed {
				before := befores[changed[i].ID]
				tell(caller, &before, &changed[i], at)
			}
		}
		each(recorder.taskCame)
		each(func(l *life, before, k *queue.Task, at time.Time) { recorder.taskEnded(l, before, k, asked, at) })
		for i := range saw.messages {
			recorder.promised(caller, &saw.messages[i])
		}
		each(recorder.taskStarted)
	})
	for _, m := range saw.messages {
		id := node.MessageID{ID: m.ID, Lane: m.Lane}
		if _, stored := t.stored[id]; !stored {
			t.stored[id], t.due[id], t.deadline[id] = node.Claim{Ref: m.Ref()}, m.Deadline, m.Deadline
		}
	}
	for _, id := range saw.dropped {
		t.queues.dropQueue(id)
		t.tell(func() { recorder.queueGone(caller, id) })
	}
}

// sameQueue reports whether a queue is what somebody has set before: only its state may be another.
func sameQueue(a, b *queue.Queue) bool {
	return a.Kind == b.Kind && a.Window == b.Window && slices.Equal(a.Paths, b.Paths) && a.TimeLimit == b.TimeLimit &&
		a.Deleting == b.Deleting && a.Drain == b.Drain
}

// digestOf is for the digest of a run: what was written of an id.
func digestOf(id uuid.UUID) digest {
	var d digest
	d.bytes(bytes.Clone(id[:]))
	return d
}
