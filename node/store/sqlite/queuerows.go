package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
)

// The columns of queues and tasks, in the order of the functions that read and write them.
const (
	queueColumns = `id, name, kind, open_window, paths, tags, drain, time_limit, depth, relief, deleting, arrivals,
		pending, running, relieved_at, look_at`

	taskColumns = `id, queue, name, tags, priority, not_before, execution, inline, promise, arrival, status, reason,
		run, arrived_at, started_at, ended_at, fates`
)

// The statements of queues.
const (
	selectQueues = "SELECT " + queueColumns + " FROM queues WHERE "

	queueText       = selectQueues + "id = ?1"
	queueByNameText = selectQueues + "name = ?1"
	queuesAtText    = selectQueues + `id IN (SELECT queue FROM queue_paths
		WHERE path IN (SELECT value FROM json_each(?1))) ORDER BY name`
	listQueuesText = selectQueues + `name > ?1 AND (?2 = '' OR ?2 IN (SELECT value FROM json_each(tags)))
		ORDER BY name LIMIT ?3`

	touchText = `UPDATE queues SET look_at = ?3
		WHERE pending > 0 AND id IN (SELECT queue FROM queue_paths WHERE path >= ?1 AND path < ?2)`

	putQueueText = `INSERT INTO queues (` + queueColumns + `)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, kind = excluded.kind, open_window = excluded.open_window,
			paths = excluded.paths, tags = excluded.tags, drain = excluded.drain, time_limit = excluded.time_limit,
			depth = excluded.depth, relief = excluded.relief, deleting = excluded.deleting,
			arrivals = excluded.arrivals, pending = excluded.pending, running = excluded.running,
			relieved_at = excluded.relieved_at, look_at = excluded.look_at`

	dropQueueText = "DELETE FROM queues WHERE id = ?1"

	forgetPathsText = `DELETE FROM queue_paths
		WHERE queue = ?1 AND path NOT IN (SELECT value FROM json_each(?2))`

	putPathsText = `INSERT INTO queue_paths (path, queue) SELECT value, ?1 FROM json_each(?2) WHERE true
		ON CONFLICT DO NOTHING`

	looksText = "SELECT id, look_at FROM queues WHERE look_at IS NOT NULL ORDER BY look_at, id LIMIT ?1"

	selectTasks = "SELECT " + taskColumns + " FROM tasks WHERE "

	taskText = selectTasks + "id = ?1"

	firstTasksText = selectTasks + "queue = ?1 AND status = 'Pending' ORDER BY priority DESC, arrival LIMIT ?2"

	dueTasksText = selectTasks + `queue = ?1 AND status = 'Pending' AND not_before <= ?3
		ORDER BY not_before, arrival LIMIT ?2`

	overdueTasksText = selectTasks + `queue = ?1 AND status = 'Running' AND started_at <= ?3
		ORDER BY started_at, arrival LIMIT ?2`

	soonestText = `SELECT not_before FROM tasks WHERE queue = ?1 AND status = 'Pending'
		ORDER BY not_before, arrival LIMIT 1`

	longestText = `SELECT started_at FROM tasks WHERE queue = ?1 AND status = 'Running'
		ORDER BY started_at, arrival LIMIT 1`

	ofStatus = ` AND (?2 = '' OR status = ?2) AND (?3 = '' OR ?3 IN (SELECT value FROM json_each(tags)))
		ORDER BY id LIMIT ?4`

	listTasksText   = selectTasks + "id > ?1" + ofStatus
	listTasksOfText = selectTasks + "queue = ?5 AND id > ?1" + ofStatus

	addTaskText = `INSERT INTO tasks (` + taskColumns + `)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)`

	putTaskText = `UPDATE tasks SET queue = ?2, name = ?3, tags = ?4, priority = ?5, not_before = ?6, execution = ?7,
			inline = ?8, promise = ?9, arrival = ?10, status = ?11, reason = ?12, run = ?13, arrived_at = ?14,
			started_at = ?15, ended_at = ?16, fates = ?17
		WHERE id = ?1`

	forgetTasksText = `DELETE FROM tasks WHERE id IN (
			SELECT id FROM tasks WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2)
		RETURNING 1`

	actionText = "SELECT id, name, tags, content FROM actions WHERE id = ?1"

	listActionsText = `SELECT id, name, tags, content FROM actions
		WHERE id > ?1 AND (?2 = '' OR ?2 IN (SELECT value FROM json_each(tags))) ORDER BY id LIMIT ?3`

	inUseText = `SELECT EXISTS (SELECT 1 FROM tasks WHERE execution = ?1 AND ended_at IS NULL)
		OR EXISTS (SELECT 1 FROM queues WHERE relief = ?1)
		OR EXISTS (SELECT 1 FROM tasks WHERE ended_at IS NULL AND promise <> '[]'
			AND ?2 IN (SELECT value FROM json_each(promise)))`

	putActionText = `INSERT INTO actions (id, name, tags, content) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, tags = excluded.tags, content = excluded.content`

	dropActionText = "DELETE FROM actions WHERE id = ?1"
)

// queues reads queues.
func (t *transaction) queues(ctx context.Context, text string, arguments ...any) (found []queue.Queue, err error) {
	err = t.each(ctx, text, func(rows *sql.Rows) error {
		var q queue.Queue
		var paths, tags string
		var limit int64
		var relief uuid.NullUUID
		var relieved, look sql.NullInt64
		err := rows.Scan(&q.ID, &q.Name, (*string)(&q.Kind), &q.Window, &paths, &tags, &q.Drain, &limit, &q.Depth,
			&relief, &q.Deleting, &q.Arrivals, &q.Pending, &q.Running, &relieved, &look)
		if err != nil {
			return err
		}
		q.TimeLimit, q.Relief = time.Duration(limit)*time.Microsecond, relief.UUID
		q.Relieved, q.Look = someInstant(relieved), someInstant(look)
		if q.Paths, err = texts(paths); err != nil {
			return err
		}
		q.Tags, err = texts(tags)
		found = append(found, q)
		return err
	}, arguments...)
	return found, err
}

func queueArguments(q *queue.Queue) []any {
	return []any{
		q.ID[:], q.Name, string(q.Kind), q.Window, list(q.Paths), list(q.Tags), q.Drain, q.TimeLimit.Microseconds(),
		q.Depth, someID(q.Relief), q.Deleting, q.Arrivals, q.Pending, q.Running, toColumn(q.Relieved), toColumn(q.Look),
	}
}

// tasks reads tasks.
func (t *transaction) tasks(ctx context.Context, text string, arguments ...any) (found []queue.Task, err error) {
	err = t.each(ctx, text, func(rows *sql.Rows) error {
		one, _, err := scanTask(rows)
		found = append(found, one)
		return err
	}, arguments...)
	return found, err
}

// scanTask reads a task. Its size is that of what it has inline.
func scanTask(rows *sql.Rows) (t queue.Task, size int, err error) {
	var tags, promise string
	var when, arrived int64
	var execution, run uuid.NullUUID
	var started, ended sql.NullInt64
	var inline []byte
	err = rows.Scan(&t.ID, &t.Queue, &t.Name, &tags, &t.Priority, &when, &execution, (*nullable)(&inline), &promise,
		&t.Arrival, (*string)(&t.Status), &t.Reason, &run, &arrived, &started, &ended, &t.Fates)
	if err != nil {
		return t, 0, err
	}
	t.When, t.Arrived = fromColumn(when), fromColumn(arrived)
	t.Started, t.Ended = someInstant(started), someInstant(ended)
	t.Execution, t.Run = execution.UUID, run.UUID
	if t.Tags, err = texts(tags); err != nil {
		return t, 0, err
	}
	if err := json.Unmarshal([]byte(promise), &t.Promise); err != nil {
		return t, 0, fmt.Errorf("read the promise of task %v: %w", t.ID, err)
	}
	if len(t.Promise) == 0 {
		t.Promise = nil
	}
	if inline != nil {
		t.Inline = &queue.Action{}
		err = t.Inline.SetContent(inline)
	}
	return t, len(inline), err
}

func taskArguments(t *queue.Task) ([]any, error) {
	var inline any
	if t.Inline != nil {
		content, err := t.Inline.Content()
		if err != nil {
			return nil, err
		}
		inline = content
	}
	ids := make([]string, len(t.Promise))
	for i, id := range t.Promise {
		ids[i] = id.String()
	}
	return []any{
		t.ID[:], t.Queue[:], t.Name, list(t.Tags), t.Priority, t.When.UnixMicro(), someID(t.Execution), inline,
		list(ids), t.Arrival, string(t.Status), t.Reason, someID(t.Run), t.Arrived.UnixMicro(), toColumn(t.Started),
		toColumn(t.Ended), t.Fates,
	}, nil
}

// actions reads actions.
func (t *transaction) actions(ctx context.Context, text string, arguments ...any) (found []queue.Action, err error) {
	err = t.each(ctx, text, func(rows *sql.Rows) error {
		one, _, err := scanAction(rows)
		found = append(found, one)
		return err
	}, arguments...)
	return found, err
}

// scanAction reads an action. Its size is that of the content.
func scanAction(rows *sql.Rows) (a queue.Action, size int, err error) {
	var tags string
	var content []byte
	if err := rows.Scan(&a.ID, &a.Name, &tags, &content); err != nil {
		return a, 0, err
	}
	if a.Tags, err = texts(tags); err != nil {
		return a, 0, err
	}
	return a, len(content), a.SetContent(content)
}

// texts reads a list; nil for an empty one.
func texts(column string) (all []string, err error) {
	if column == "[]" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(column), &all); err != nil {
		return nil, fmt.Errorf("read a list of a queue: %w", err)
	}
	return all, nil
}

// someID returns an id as a column: NULL for the zero value.
func someID(id uuid.UUID) any {
	if id == uuid.Nil {
		return nil
	}
	return id[:]
}

// someInstant returns the instant that a column has; the zero value for NULL.
func someInstant(column sql.NullInt64) time.Time {
	if !column.Valid {
		return time.Time{}
	}
	return fromColumn(column.Int64)
}
