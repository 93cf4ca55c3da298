package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"chronos/node/queue"
	"chronos/node/store/transfer"
)

// The statements by which tasks and actions are moved.
const (
	// movedTasksStatement and movedActionsStatement are like movedStatement.
	movedTasksStatement = `
SELECT ` + taskColumns + `
FROM (
  SELECT *, sum(octet_length(inline)) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM tasks WHERE id > $1::uuid ORDER BY id LIMIT $2::bigint) AS next
) AS sized
WHERE coalesce(before, 0) < $3::bigint ORDER BY id`

	movedActionsStatement = `
SELECT id, name, tags, content
FROM (
  SELECT *, sum(octet_length(content)) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM actions WHERE id > $1::uuid ORDER BY id LIMIT $2::bigint) AS next
) AS sized
WHERE coalesce(before, 0) < $3::bigint ORDER BY id`
)

// QueuesBehind implements transfer.Store. Unlike Queues, which is for people who look, it and the two after it have the
// time of any call.
func (s *Store) QueuesBehind(ctx context.Context, name string, limit int) (queues []queue.Queue, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err = s.once(ctx, func() { queues = nil }, queuesStep(&queues, listQueuesStatement+taggedQueues, name, "", limit))
	if err != nil {
		return nil, fmt.Errorf("read the queues behind %q: %w", name, err)
	}
	return queues, nil
}

// TasksBehind implements transfer.Store.
func (s *Store) TasksBehind(ctx context.Context, id uuid.UUID, limit, size int) (tasks []queue.Task, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err = s.once(ctx, func() { tasks = nil }, tasksStep(&tasks, movedTasksStatement, uuidOf(id), limit, size))
	if err != nil {
		return nil, fmt.Errorf("read the tasks behind %s: %w", id, err)
	}
	return tasks, nil
}

// ActionsBehind implements transfer.Store.
func (s *Store) ActionsBehind(ctx context.Context, id uuid.UUID, limit, size int) (actions []queue.Action, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err = s.once(ctx, func() { actions = nil }, actionsStep(&actions, movedActionsStatement, uuidOf(id), limit, size))
	if err != nil {
		return nil, fmt.Errorf("read the actions behind %s: %w", id, err)
	}
	return actions, nil
}

// receiveQueues returns the statements that store the queues, actions and tasks of a batch. Where the queues lie is
// written without the lock of those who define queues: these are kept out, since the store takes nothing in, and change
// has waited for those who were at it.
func receiveQueues(ctx context.Context, batch *transfer.Batch) ([]step, error) {
	tx := &queueTransaction{defines: true}
	for i := range batch.Queues {
		if err := tx.PutQueue(ctx, &batch.Queues[i]); err != nil {
			return nil, err
		}
	}
	for i := range batch.Actions {
		if err := tx.PutAction(ctx, &batch.Actions[i]); err != nil {
			return nil, err
		}
	}
	for i := range batch.Tasks {
		if err := tx.writeTask(addTaskStatement+" ON CONFLICT DO NOTHING", &batch.Tasks[i]); err != nil {
			return nil, err
		}
	}
	return tx.pending, nil
}
