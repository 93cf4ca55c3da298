package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chronos/node"
	"chronos/node/queue"
)

// queueTransaction is a queue.Tx on a transaction of the server.
type queueTransaction struct {
	*transaction

	now      time.Time
	pending  []step // what is written, and not sent yet
	inserted []node.Message
	wrote    bool
	defines  bool // Define was called, or nobody else can

	// failure is what the server, or the way there, has failed with.
	failure error
}

// ask sends what is pending, and steps, and reads the answers.
func (tx *queueTransaction) ask(ctx context.Context, steps ...step) error {
	steps = append(tx.pending, steps...)
	tx.pending = nil
	tx.failure = tx.send(ctx, steps...)
	return tx.failure
}

// write has steps sent with what is asked next.
func (tx *queueTransaction) write(steps ...step) {
	tx.pending = append(tx.pending, steps...)
	tx.wrote = true
}

// Now implements queue.Tx.
func (tx *queueTransaction) Now() time.Time { return tx.now }

// Takes implements queue.Tx. Like a claim it keeps the beginning of a lineage, or a seal, waiting until the transaction
// has ended. Otherwise this would happen:
//
//	a task is to start: the store takes things in
//	                                                    the store is sealed, and what is in it is read
//	the task starts here, and in the store that gets what was read
func (tx *queueTransaction) Takes(ctx context.Context) (bool, error) {
	var state node.State
	err := tx.ask(ctx, step{statement: claimsLock}, stateStep(&state, &tx.now))
	tx.now = tx.now.UTC()
	return state.Takes(), err
}

// Define implements queue.Tx. Nobody else writes to the table that it locks.
func (tx *queueTransaction) Define(ctx context.Context) error {
	tx.defines = true
	return tx.ask(ctx, step{statement: defineStatement})
}

// Queue implements queue.Tx. The clock is a statement of its own: one that waits for a lock has read it before.
func (tx *queueTransaction) Queue(ctx context.Context, id uuid.UUID) (*queue.Queue, error) {
	var found []queue.Queue
	err := tx.ask(ctx, queuesStep(&found, lockQueueStatement, uuidOf(id)), clockStep(&tx.now))
	tx.now = tx.now.UTC()
	return first(found), err
}

func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// Containing implements queue.Tx.
func (tx *queueTransaction) Containing(ctx context.Context, q *queue.Queue) ([]queue.Queue, error) {
	var found []queue.Queue
	err := tx.ask(ctx, queuesStep(&found, queuesAtStatement, q.Prefixes()))
	slices.SortFunc(found, byName)
	var others []queue.Queue
	for i := range found {
		if found[i].ID != q.ID {
			others = append(others, found[i])
		}
	}
	return others, err
}

// Named implements queue.Tx.
func (tx *queueTransaction) Named(ctx context.Context, name string) (*queue.Queue, error) {
	var found []queue.Queue
	err := tx.ask(ctx, queuesStep(&found, queueByNameStatement, name))
	return first(found), err
}

// Touch implements queue.Tx. It locks in the order of the ids, so that nobody else who locks several waits in a circle.
func (tx *queueTransaction) Touch(ctx context.Context, paths []string) error {
	var inside []uuid.UUID
	for _, path := range paths {
		err := tx.ask(ctx, step{
			statement: insideStatement, arguments: []any{path + "/", path + "0"}, // 0 comes after /
			read: func(rows pgx.Rows) error {
				var id uuid.UUID
				err := rows.Scan(&id)
				inside = append(inside, id)
				return err
			},
		})
		if err != nil {
			return err
		}
	}
	if len(inside) == 0 {
		return nil
	}
	ids := uuids(inside)
	err := tx.ask(ctx, step{statement: lockQueuesStatement, arguments: []any{ids}})
	tx.write(step{statement: touchStatement, arguments: []any{ids, tx.now}})
	return err
}

// PutQueue implements queue.Tx. Statements that write paths wait for whoever has called Define, even if they change
// nothing. So those who have not must leave them alone, or this would happen each time that a queue is changed while
// something happens inside it:
//
//	a task of x ends: x is locked
//	                                                    a queue that contains x is changed: Define, and it waits for x
//	the row of x is written, and its paths: it waits for who has called Define
func (tx *queueTransaction) PutQueue(_ context.Context, q *queue.Queue) error {
	tx.write(step{statement: putQueueStatement, arguments: queueArguments(q)})
	if !tx.defines {
		return nil
	}
	tx.write(step{statement: forgetPathsStatement, arguments: []any{uuidOf(q.ID), texts(q.Paths)}},
		step{statement: putPathsStatement, arguments: []any{uuidOf(q.ID), texts(q.Paths)}})
	return nil
}

// DropQueue implements queue.Tx.
func (tx *queueTransaction) DropQueue(_ context.Context, id uuid.UUID) error {
	tx.write(step{statement: dropQueueStatement, arguments: []any{uuidOf(id)}},
		step{statement: forgetPathsStatement, arguments: []any{uuidOf(id), []string{}}})
	return nil
}

// Task implements queue.Tx.
func (tx *queueTransaction) Task(ctx context.Context, id uuid.UUID) (*queue.Task, error) {
	found, err := tx.tasks(ctx, taskStatement, uuidOf(id))
	return first(found), err
}

func (tx *queueTransaction) tasks(ctx context.Context, statement string, arguments ...any) ([]queue.Task, error) {
	var found []queue.Task
	err := tx.ask(ctx, tasksStep(&found, statement, arguments...))
	return found, err
}

// Next implements queue.Tx.
func (tx *queueTransaction) Next(ctx context.Context, q *queue.Queue, limit int) ([]queue.Task, error) {
	if q.Kind == queue.Sync {
		return tx.tasks(ctx, firstTasksStatement, uuidOf(q.ID), limit)
	}
	return tx.tasks(ctx, dueTasksStatement, uuidOf(q.ID), limit, tx.now)
}

// Soonest implements queue.Tx.
func (tx *queueTransaction) Soonest(ctx context.Context, id uuid.UUID) (time.Time, bool, error) {
	return tx.instant(ctx, soonestStatement, id)
}

// Longest implements queue.Tx.
func (tx *queueTransaction) Longest(ctx context.Context, id uuid.UUID) (time.Time, bool, error) {
	return tx.instant(ctx, longestStatement, id)
}

func (tx *queueTransaction) instant(ctx context.Context, statement string, id uuid.UUID) (time.Time, bool, error) {
	var at time.Time
	some := false
	err := tx.ask(ctx, step{
		statement: statement, arguments: []any{uuidOf(id)},
		read: func(rows pgx.Rows) error {
			some = true
			return rows.Scan(&at)
		},
	})
	return at.UTC(), some, err
}

// Overdue implements queue.Tx.
func (tx *queueTransaction) Overdue(
	ctx context.Context, id uuid.UUID, started time.Time, limit int,
) ([]queue.Task, error) {
	return tx.tasks(ctx, overdueTasksStatement, uuidOf(id), limit, instant(started))
}

// AddTask implements queue.Tx. Where somebody else has added one of that id meanwhile, the statement fails, and with it
// the transaction, which begins anew.
func (tx *queueTransaction) AddTask(_ context.Context, t *queue.Task) error {
	return tx.writeTask(addTaskStatement, t)
}

// PutTask implements queue.Tx.
func (tx *queueTransaction) PutTask(_ context.Context, t *queue.Task) error {
	return tx.writeTask(putTaskStatement, t)
}

func (tx *queueTransaction) writeTask(statement string, t *queue.Task) error {
	arguments, err := taskArguments(t)
	tx.write(step{statement: statement, arguments: arguments})
	return err
}

// Forget implements queue.Tx.
func (tx *queueTransaction) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	forgotten := 0
	err := tx.ask(ctx, step{
		statement: forgetTasksStatement, arguments: []any{instant(before), limit},
		read: func(pgx.Rows) error {
			forgotten++
			return nil
		},
	})
	tx.wrote = tx.wrote || forgotten > 0
	return forgotten, err
}

// Action implements queue.Tx.
func (tx *queueTransaction) Action(ctx context.Context, id uuid.UUID, change bool) (*queue.Action, error) {
	statement := actionStatement + " FOR SHARE"
	if change {
		statement = actionStatement + " FOR UPDATE"
	}
	var found []queue.Action
	err := tx.ask(ctx, actionsStep(&found, statement, uuidOf(id)))
	return first(found), err
}

// InUse implements queue.Tx.
func (tx *queueTransaction) InUse(ctx context.Context, action uuid.UUID) (bool, error) {
	used := false
	err := tx.ask(ctx, step{
		statement: inUseStatement, arguments: []any{uuidOf(action)},
		read: func(rows pgx.Rows) error { return rows.Scan(&used) },
	})
	return used, err
}

// PutAction implements queue.Tx.
func (tx *queueTransaction) PutAction(_ context.Context, a *queue.Action) error {
	content, err := a.Content()
	tx.write(step{
		statement: putActionStatement, arguments: []any{uuidOf(a.ID), a.Name, texts(a.Tags), content},
	})
	return err
}

// DropAction implements queue.Tx.
func (tx *queueTransaction) DropAction(_ context.Context, id uuid.UUID) error {
	tx.write(step{statement: dropActionStatement, arguments: []any{uuidOf(id)}})
	return nil
}

// Insert implements queue.Tx.
func (tx *queueTransaction) Insert(_ context.Context, messages []node.Message) error {
	c := newColumns(len(messages))
	for i := range messages {
		m := &messages[i]
		c.add(m, &node.Kept{Incarnation: m.Incarnation, Deadline: m.Deadline, Due: m.Deadline}, false)
	}
	contents := c.contents()
	arguments := append([]any{uuidOf(uuid.Nil), tx.now, tx.now, c.ids, c.lanes}, contents[:len(contents)-few]...)
	tx.write(step{statement: replyStatement, arguments: arguments})
	tx.inserted = append(tx.inserted, messages...)
	return nil
}
