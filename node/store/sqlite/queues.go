package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

var _ queue.Store = (*Store)(nil)

// Apply implements queue.Store.
func (s *Store) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	return s.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		return queue.Run(ctx, tx, command)
	})
}

// Transact implements queue.Store.
func (s *Store) Transact(
	ctx context.Context, do func(ctx context.Context, tx queue.Tx) (queue.Result, error),
) (result queue.Result, err error) {
	for {
		err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
			result, err = do(ctx, &queueTransaction{t})
			return err
		})
		_, refused := errors.AsType[*queue.Refusal](err)
		switch {
		case err == nil:
			return result, nil
		case refused:
			return queue.Result{}, err
		case !errors.Is(err, queue.ErrAgain):
			return queue.Result{}, fmt.Errorf("queues: %w", err)
		}
	}
}

// Due implements queue.Store.
func (s *Store) Due(ctx context.Context, limit int) (due []uuid.UUID, next time.Duration, some bool, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		due, next, some = nil, 0, false
		return t.each(ctx, looksText, func(rows *sql.Rows) error {
			var id uuid.UUID
			var at int64
			if err := rows.Scan(&id, &at); err != nil {
				return err
			}
			if left := fromColumn(at).Sub(t.now); len(due) == limit || left > 0 {
				if !some {
					next, some = max(0, left), true
				}
				return nil
			}
			due = append(due, id)
			return nil
		}, limit+1)
	})
	if err != nil {
		return nil, 0, false, fmt.Errorf("look for queues that are due: %w", err)
	}
	return due, next, some, nil
}

// Queues implements queue.Store.
func (s *Store) Queues(ctx context.Context, filter queue.Filter) (found []queue.Queue, err error) {
	text, arguments := listQueuesText, []any{filter.AfterName, filter.Tag, filter.Limit}
	switch {
	case filter.ID != uuid.Nil:
		text, arguments = queueText, []any{filter.ID[:]}
	case filter.Name != "":
		text, arguments = queueByNameText, []any{filter.Name}
	case len(filter.Paths) > 0:
		text, arguments = queuesAtText, []any{list(filter.Paths)}
	}
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		all, err := t.queues(ctx, text, arguments...)
		found = nil
		for i := range all {
			if filter.Queues(&all[i]) && len(found) < filter.Limit {
				found = append(found, all[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return found, nil
}

// Tasks implements queue.Store.
func (s *Store) Tasks(ctx context.Context, filter queue.Filter) (found []queue.Task, err error) {
	arguments := []any{filter.AfterID[:], string(filter.Status), filter.Tag, filter.Limit}
	text := listTasksText
	switch {
	case filter.ID != uuid.Nil:
		text, arguments = taskText, []any{filter.ID[:]}
	case filter.Queue != uuid.Nil:
		text, arguments = listTasksOfText, append(arguments, filter.Queue[:])
	}
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		all, err := t.tasks(ctx, text, arguments...)
		found = nil
		for i := range all {
			if filter.Tasks(&all[i]) {
				found = append(found, all[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return found, nil
}

// Actions implements queue.Store.
func (s *Store) Actions(ctx context.Context, filter queue.Filter) (found []queue.Action, err error) {
	text, arguments := listActionsText, []any{filter.AfterID[:], filter.Tag, filter.Limit}
	if filter.ID != uuid.Nil {
		text, arguments = actionText, []any{filter.ID[:]}
	}
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		all, err := t.actions(ctx, text, arguments...)
		found = nil
		for i := range all {
			if filter.Actions(&all[i]) {
				found = append(found, all[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	return found, nil
}

// queueTransaction is a queue.Tx.
type queueTransaction struct{ *transaction }

// Now implements queue.Tx.
func (tx *queueTransaction) Now() time.Time { return tx.now }

// Takes implements queue.Tx.
func (tx *queueTransaction) Takes(ctx context.Context) (bool, error) {
	state, err := tx.state(ctx)
	return state.Takes(), err
}

// Define implements queue.Tx. All transactions come one after the other.
func (tx *queueTransaction) Define(context.Context) error { return nil }

// Queue implements queue.Tx.
func (tx *queueTransaction) Queue(ctx context.Context, id uuid.UUID) (*queue.Queue, error) {
	found, err := tx.queues(ctx, queueText, id[:])
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
	found, err := tx.queues(ctx, queuesAtText, list(q.Prefixes()))
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
	found, err := tx.queues(ctx, queueByNameText, name)
	return first(found), err
}

// Touch implements queue.Tx.
func (tx *queueTransaction) Touch(_ context.Context, paths []string) error {
	for _, path := range paths {
		// 0 comes after /.
		if err := tx.say(touchText, path+"/", path+"0", tx.now.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}

// PutQueue implements queue.Tx.
func (tx *queueTransaction) PutQueue(_ context.Context, q *queue.Queue) error {
	return errors.Join(
		tx.say(putQueueText, queueArguments(q)...),
		tx.say(forgetPathsText, q.ID[:], list(q.Paths)),
		tx.say(putPathsText, q.ID[:], list(q.Paths)))
}

// DropQueue implements queue.Tx.
func (tx *queueTransaction) DropQueue(_ context.Context, id uuid.UUID) error {
	return errors.Join(tx.say(dropQueueText, id[:]), tx.say(forgetPathsText, id[:], "[]"))
}

// Task implements queue.Tx.
func (tx *queueTransaction) Task(ctx context.Context, id uuid.UUID) (*queue.Task, error) {
	found, err := tx.tasks(ctx, taskText, id[:])
	return first(found), err
}

// Next implements queue.Tx.
func (tx *queueTransaction) Next(ctx context.Context, q *queue.Queue, limit int) ([]queue.Task, error) {
	if q.Kind == queue.Sync {
		return tx.tasks(ctx, firstTasksText, q.ID[:], limit)
	}
	return tx.tasks(ctx, dueTasksText, q.ID[:], limit, tx.now.UnixMicro())
}

// Soonest implements queue.Tx.
func (tx *queueTransaction) Soonest(ctx context.Context, id uuid.UUID) (time.Time, bool, error) {
	return tx.instant(ctx, soonestText, id)
}

// Longest implements queue.Tx.
func (tx *queueTransaction) Longest(ctx context.Context, id uuid.UUID) (time.Time, bool, error) {
	return tx.instant(ctx, longestText, id)
}

func (tx *queueTransaction) instant(
	ctx context.Context, text string, id uuid.UUID,
) (at time.Time, some bool, err error) {
	err = tx.each(ctx, text, func(rows *sql.Rows) error {
		var column int64
		err := rows.Scan(&column)
		at, some = fromColumn(column), true
		return err
	}, id[:])
	return at, some, err
}

// Overdue implements queue.Tx.
func (tx *queueTransaction) Overdue(
	ctx context.Context, id uuid.UUID, started time.Time, limit int,
) ([]queue.Task, error) {
	return tx.tasks(ctx, overdueTasksText, id[:], limit, started.UnixMicro())
}

// AddTask implements queue.Tx.
func (tx *queueTransaction) AddTask(_ context.Context, t *queue.Task) error {
	return tx.writeTask(addTaskText, t)
}

// PutTask implements queue.Tx.
func (tx *queueTransaction) PutTask(_ context.Context, t *queue.Task) error {
	return tx.writeTask(putTaskText, t)
}

func (tx *queueTransaction) writeTask(text string, t *queue.Task) error {
	arguments, err := taskArguments(t)
	if err != nil {
		return err
	}
	return tx.say(text, arguments...)
}

// Forget implements queue.Tx.
func (tx *queueTransaction) Forget(ctx context.Context, before time.Time, limit int) (forgotten int, err error) {
	err = tx.each(ctx, forgetTasksText, func(*sql.Rows) error {
		forgotten++
		return nil
	}, before.UnixMicro(), limit)
	return forgotten, err
}

// Action implements queue.Tx.
func (tx *queueTransaction) Action(ctx context.Context, id uuid.UUID, _ bool) (*queue.Action, error) {
	found, err := tx.actions(ctx, actionText, id[:])
	return first(found), err
}

// InUse implements queue.Tx.
func (tx *queueTransaction) InUse(ctx context.Context, action uuid.UUID) (used bool, err error) {
	err = tx.each(ctx, inUseText, func(rows *sql.Rows) error { return rows.Scan(&used) }, action[:], action.String())
	return used, err
}

// PutAction implements queue.Tx.
func (tx *queueTransaction) PutAction(_ context.Context, a *queue.Action) error {
	content, err := a.Content()
	if err != nil {
		return err
	}
	return tx.say(putActionText, a.ID[:], a.Name, list(a.Tags), content)
}

// DropAction implements queue.Tx.
func (tx *queueTransaction) DropAction(_ context.Context, id uuid.UUID) error {
	return tx.say(dropActionText, id[:])
}

// Insert implements queue.Tx.
func (tx *queueTransaction) Insert(_ context.Context, messages []node.Message) error {
	for i := range messages {
		err := tx.execute(tx.statements.insert, append(messageArguments(&messages[i]), nil, nil, nil)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// say executes a statement of queues that returns nothing. Like all that write it runs to its end.
func (t *transaction) say(text string, arguments ...any) error {
	_, err := t.tx.ExecContext(context.Background(), text, arguments...)
	return err
}

// each reads the rows of a statement of queues.
func (t *transaction) each(
	ctx context.Context, text string, read func(rows *sql.Rows) error, arguments ...any,
) (err error) {
	return t.while(ctx, text, func() bool { return true }, read, arguments...)
}

// while is each, and reads no further row once goes is false.
func (t *transaction) while(
	ctx context.Context, text string, goes func() bool, read func(rows *sql.Rows) error, arguments ...any,
) (err error) {
	rows, err := t.tx.QueryContext(ctx, text, arguments...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for goes() && rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list returns a list as a column: JSON.
func list(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	encoded, err := json.Marshal(texts)
	if err != nil {
		panic(err) // there is no text that is none
	}
	return string(encoded)
}
