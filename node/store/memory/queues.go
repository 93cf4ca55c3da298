package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

var _ queue.Store = (*Store)(nil)

// queues are the rows of queues. A row that is stored is never changed, but replaced, so that copies of the maps are
// copies of all.
type queues struct {
	queues  map[uuid.UUID]*queue.Queue
	tasks   map[uuid.UUID]*queue.Task
	actions map[uuid.UUID]*queue.Action

	// live are the tasks of each queue that are not done.
	live map[uuid.UUID]map[uuid.UUID]*queue.Task
}

// newQueues returns the rows of a store that was never used: the queue root.
func newQueues() queues {
	root := queue.NewRoot()
	return queues{
		queues: map[uuid.UUID]*queue.Queue{root.ID: &root}, tasks: map[uuid.UUID]*queue.Task{},
		actions: map[uuid.UUID]*queue.Action{}, live: map[uuid.UUID]map[uuid.UUID]*queue.Task{},
	}
}

func (q *queues) copy() queues {
	c := queues{
		queues: maps.Clone(q.queues), tasks: maps.Clone(q.tasks), actions: maps.Clone(q.actions),
		live: map[uuid.UUID]map[uuid.UUID]*queue.Task{},
	}
	for id, tasks := range q.live {
		c.live[id] = maps.Clone(tasks)
	}
	return c
}

// setTask stores a task in place of the one of its id, or removes it if it is nil.
func (q *queues) setTask(id uuid.UUID, t *queue.Task) {
	if before := q.tasks[id]; before != nil && !before.Status.Done() {
		if delete(q.live[before.Queue], id); len(q.live[before.Queue]) == 0 {
			delete(q.live, before.Queue)
		}
	}
	if t == nil {
		delete(q.tasks, id)
		return
	}
	if q.tasks[id] = t; t.Status.Done() {
		return
	}
	if q.live[t.Queue] == nil {
		q.live[t.Queue] = map[uuid.UUID]*queue.Task{}
	}
	q.live[t.Queue][id] = t
}

// Apply implements queue.Store.
func (s *Store) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	return s.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		return queue.Run(ctx, tx, command)
	})
}

// Transact implements queue.Store.
func (s *Store) Transact(
	ctx context.Context, do func(ctx context.Context, tx queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	if err := ctx.Err(); err != nil {
		return queue.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	for {
		tx := &transaction{store: s, now: instant(s.now())}
		result, err := do(ctx, tx)
		if err == nil {
			return result, nil
		}
		for _, undo := range slices.Backward(tx.undo) {
			undo()
		}
		if !errors.Is(err, queue.ErrAgain) {
			return queue.Result{}, err
		}
	}
}

// transaction is a queue.Tx under the lock of the store.
type transaction struct {
	store *Store
	now   time.Time
	undo  []func() // what takes back what was written, in order
}

// Now implements queue.Tx.
func (tx *transaction) Now() time.Time { return tx.now }

// Takes implements queue.Tx.
func (tx *transaction) Takes(context.Context) (bool, error) {
	return tx.store.state(tx.now).Takes(), nil
}

// Define implements queue.Tx.
func (tx *transaction) Define(context.Context) error { return nil }

// Queue implements queue.Tx.
func (tx *transaction) Queue(_ context.Context, id uuid.UUID) (*queue.Queue, error) {
	if q := tx.store.queues.queues[id]; q != nil {
		copied := q.Clone()
		return &copied, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// Containing implements queue.Tx.
func (tx *transaction) Containing(_ context.Context, q *queue.Queue) ([]queue.Queue, error) {
	paths := q.Prefixes()
	return tx.store.listQueues(func(other *queue.Queue) bool { return other.ID != q.ID && other.At(paths) }), nil
}

// Named implements queue.Tx.
func (tx *transaction) Named(_ context.Context, name string) (*queue.Queue, error) {
	for _, q := range tx.store.listQueues(func(q *queue.Queue) bool { return q.Name == name }) {
		return &q, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// Touch implements queue.Tx.
func (tx *transaction) Touch(ctx context.Context, paths []string) error {
	inside := tx.store.listQueues(func(q *queue.Queue) bool { return q.Pending > 0 && q.Inside(paths) })
	for i := range inside {
		inside[i].Look = tx.now
		if err := tx.PutQueue(ctx, &inside[i]); err != nil {
			return err
		}
	}
	return nil
}

// PutQueue implements queue.Tx.
func (tx *transaction) PutQueue(_ context.Context, q *queue.Queue) error {
	copied := q.Clone()
	tx.setQueue(q.ID, &copied)
	return nil
}

// DropQueue implements queue.Tx.
func (tx *transaction) DropQueue(_ context.Context, id uuid.UUID) error {
	tx.setQueue(id, nil)
	return nil
}

func (tx *transaction) setQueue(id uuid.UUID, q *queue.Queue) {
	rows := tx.store.queues.queues
	set := func(q *queue.Queue) {
		if q == nil {
			delete(rows, id)
		} else {
			rows[id] = q
		}
	}
	before := rows[id]
	tx.undo = append(tx.undo, func() { set(before) })
	set(q)
}

// Task implements queue.Tx.
func (tx *transaction) Task(_ context.Context, id uuid.UUID) (*queue.Task, error) {
	if t := tx.store.queues.tasks[id]; t != nil {
		copied := t.Clone()
		return &copied, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// tasks returns the tasks of a queue of a status that fit, in an order, at most limit.
func (tx *transaction) tasks(
	id uuid.UUID, status queue.Status, limit int, compare func(a, b *queue.Task) int, fits func(t *queue.Task) bool,
) []queue.Task {
	var found []*queue.Task
	for _, t := range tx.store.queues.live[id] { // sorted below
		if t.Status == status && fits(t) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, compare)
	var tasks []queue.Task
	for _, t := range found[:min(limit, len(found))] {
		tasks = append(tasks, t.Clone())
	}
	return tasks
}

func anyTask(*queue.Task) bool { return true }

func byPriority(a, b *queue.Task) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), byArrival(a, b))
}

func byWhen(a, b *queue.Task) int { return cmp.Or(a.When.Compare(b.When), byArrival(a, b)) }

func byStarted(a, b *queue.Task) int { return cmp.Or(a.Started.Compare(b.Started), byArrival(a, b)) }

func byArrival(a, b *queue.Task) int { return cmp.Compare(a.Arrival, b.Arrival) }

// Next implements queue.Tx.
func (tx *transaction) Next(_ context.Context, q *queue.Queue, limit int) ([]queue.Task, error) {
	if q.Kind == queue.Sync {
		return tx.tasks(q.ID, queue.Pending, limit, byPriority, anyTask), nil
	}
	due := func(t *queue.Task) bool { return !t.When.After(tx.now) }
	return tx.tasks(q.ID, queue.Pending, limit, byWhen, due), nil
}

// Soonest implements queue.Tx.
func (tx *transaction) Soonest(_ context.Context, id uuid.UUID) (time.Time, bool, error) {
	for _, t := range tx.tasks(id, queue.Pending, 1, byWhen, anyTask) {
		return t.When, true, nil
	}
	return time.Time{}, false, nil
}

// Longest implements queue.Tx.
func (tx *transaction) Longest(_ context.Context, id uuid.UUID) (time.Time, bool, error) {
	for _, t := range tx.tasks(id, queue.Running, 1, byStarted, anyTask) {
		return t.Started, true, nil
	}
	return time.Time{}, false, nil
}

// Overdue implements queue.Tx.
func (tx *transaction) Overdue(
	_ context.Context, id uuid.UUID, started time.Time, limit int,
) ([]queue.Task, error) {
	over := func(t *queue.Task) bool { return !t.Started.After(started) }
	return tx.tasks(id, queue.Running, limit, byStarted, over), nil
}

// AddTask implements queue.Tx.
func (tx *transaction) AddTask(ctx context.Context, t *queue.Task) error { return tx.PutTask(ctx, t) }

// PutTask implements queue.Tx.
func (tx *transaction) PutTask(_ context.Context, t *queue.Task) error {
	copied := t.Clone()
	tx.setTask(t.ID, &copied)
	return nil
}

func (tx *transaction) setTask(id uuid.UUID, t *queue.Task) {
	before := tx.store.queues.tasks[id]
	tx.undo = append(tx.undo, func() { tx.store.queues.setTask(id, before) })
	tx.store.queues.setTask(id, t)
}

// Forget implements queue.Tx.
func (tx *transaction) Forget(_ context.Context, before time.Time, limit int) (int, error) {
	old := tx.store.listTasks(func(t *queue.Task) bool { return t.Status.Done() && t.Ended.Before(before) })
	slices.SortStableFunc(old, func(a, b queue.Task) int { return a.Ended.Compare(b.Ended) })
	old = old[:min(limit, len(old))]
	for i := range old {
		tx.setTask(old[i].ID, nil)
	}
	return len(old), nil
}

// Action implements queue.Tx.
func (tx *transaction) Action(_ context.Context, id uuid.UUID, _ bool) (*queue.Action, error) {
	if a := tx.store.queues.actions[id]; a != nil {
		copied := a.Clone()
		return &copied, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// InUse implements queue.Tx.
func (tx *transaction) InUse(_ context.Context, action uuid.UUID) (bool, error) {
	for _, q := range tx.store.queues.queues { // any one
		if q.Relief == action {
			return true, nil
		}
	}
	for _, tasks := range tx.store.queues.live { // any one
		for _, t := range tasks { // any one
			if t.Execution == action || slices.Contains(t.Promise, action) {
				return true, nil
			}
		}
	}
	return false, nil
}

// PutAction implements queue.Tx.
func (tx *transaction) PutAction(_ context.Context, a *queue.Action) error {
	copied := a.Clone()
	tx.setAction(a.ID, &copied)
	return nil
}

// DropAction implements queue.Tx.
func (tx *transaction) DropAction(_ context.Context, id uuid.UUID) error {
	tx.setAction(id, nil)
	return nil
}

func (tx *transaction) setAction(id uuid.UUID, a *queue.Action) {
	rows := tx.store.queues.actions
	set := func(a *queue.Action) {
		if a == nil {
			delete(rows, id)
		} else {
			rows[id] = a
		}
	}
	before := rows[id]
	tx.undo = append(tx.undo, func() { set(before) })
	set(a)
}

// Insert implements queue.Tx.
func (tx *transaction) Insert(_ context.Context, messages []node.Message) error {
	for i := range messages {
		m := clone(messages[i])
		if tx.store.rows[nameOf(&m)] != nil {
			continue
		}
		r := &row{Row: Row{Message: m, Due: m.Deadline}}
		tx.store.insert(r)
		tx.undo = append(tx.undo, func() { tx.store.drop(r) })
	}
	return nil
}

// Due implements queue.Store.
func (s *Store) Due(ctx context.Context, limit int) ([]uuid.UUID, time.Duration, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := instant(s.now())
	looks := s.listQueues(func(q *queue.Queue) bool { return !q.Look.IsZero() })
	slices.SortFunc(looks, func(a, b queue.Queue) int {
		return cmp.Or(a.Look.Compare(b.Look), bytes.Compare(a.ID[:], b.ID[:]))
	})
	var due []uuid.UUID
	for i := range looks {
		if len(due) == limit || looks[i].Look.After(now) {
			return due, max(0, looks[i].Look.Sub(now)), true, nil
		}
		due = append(due, looks[i].ID)
	}
	return due, 0, false, nil
}

// Queues implements queue.Store.
func (s *Store) Queues(ctx context.Context, filter queue.Filter) ([]queue.Queue, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	found := s.listQueues(filter.Queues)
	return found[:min(filter.Limit, len(found))], nil
}

// Tasks implements queue.Store.
func (s *Store) Tasks(ctx context.Context, filter queue.Filter) ([]queue.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	found := s.listTasks(filter.Tasks)
	return found[:min(filter.Limit, len(found))], nil
}

// Actions implements queue.Store.
func (s *Store) Actions(ctx context.Context, filter queue.Filter) ([]queue.Action, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	var found []queue.Action
	for _, a := range s.queues.actions { // sorted below
		if filter.Actions(a) {
			found = append(found, a.Clone())
		}
	}
	slices.SortFunc(found, func(a, b queue.Action) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return found[:min(filter.Limit, len(found))], nil
}

// listQueues returns the queues that fit, in the order of their names.
func (s *Store) listQueues(fits func(q *queue.Queue) bool) []queue.Queue {
	var found []queue.Queue
	for _, q := range s.queues.queues { // sorted below
		if fits(q) {
			found = append(found, q.Clone())
		}
	}
	slices.SortFunc(found, func(a, b queue.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// listTasks returns the tasks that fit, in the order of their ids.
func (s *Store) listTasks(fits func(t *queue.Task) bool) []queue.Task {
	var found []queue.Task
	for _, t := range s.queues.tasks { // sorted below
		if fits(t) {
			found = append(found, t.Clone())
		}
	}
	slices.SortFunc(found, func(a, b queue.Task) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return found
}
