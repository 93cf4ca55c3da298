package postgres

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node/queue"
)

// The columns of queues, tasks and actions, in the order of the functions that read and write them.
const (
	queueColumns = `id, name, kind, open_window, paths, tags, drain, time_limit, depth, relief, deleting, arrivals,
  pending, running, relieved_at, look_at`

	taskColumns = `id, queue, name, tags, priority, not_before, execution, inline, promise, arrival, status, reason,
  run, arrived_at, started_at, ended_at, fates`
)

// The statements of queues. Each has one plan, as those of statements.go.
const (
	// defineStatement conflicts with itself, and with whoever writes the paths of a queue.
	defineStatement = "LOCK TABLE queue_paths IN SHARE ROW EXCLUSIVE MODE"

	selectQueues = "SELECT " + queueColumns + " FROM queues WHERE "

	lockQueueStatement   = selectQueues + "id = $1::uuid FOR UPDATE"
	queueByIDStatement   = selectQueues + "id = $1::uuid"
	queueByNameStatement = selectQueues + "name = $1::text"
	listQueuesStatement  = selectQueues + "name > $1::text"

	taggedQueues = " AND ($2::text = '' OR $2 = ANY (tags)) ORDER BY name LIMIT $3"

	queuesAtStatement = selectQueues +
		"id = ANY (ARRAY(SELECT queue FROM queue_paths WHERE path = ANY ($1::text[])))"

	insideStatement = "SELECT queue FROM queue_paths WHERE path >= $1::text AND path < $2::text"

	lockQueuesStatement = "SELECT id FROM queues WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE"

	touchStatement = "UPDATE queues SET look_at = $2::timestamptz WHERE id = ANY ($1::uuid[]) AND pending > 0"

	putQueueStatement = `
INSERT INTO queues (` + queueColumns + `)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, kind = excluded.kind, open_window = excluded.open_window,
  paths = excluded.paths, tags = excluded.tags, drain = excluded.drain, time_limit = excluded.time_limit,
  depth = excluded.depth, relief = excluded.relief, deleting = excluded.deleting, arrivals = excluded.arrivals,
  pending = excluded.pending, running = excluded.running, relieved_at = excluded.relieved_at,
  look_at = excluded.look_at`

	dropQueueStatement = "DELETE FROM queues WHERE id = $1::uuid"

	// forgetPathsStatement leaves those alone that stay, so that nothing is written where nothing changes.
	forgetPathsStatement = "DELETE FROM queue_paths WHERE queue = $1::uuid AND path <> ALL ($2::text[])"

	putPathsStatement = `
INSERT INTO queue_paths (path, queue) SELECT u.path, $1::uuid FROM unnest($2::text[]) AS u (path)
ON CONFLICT DO NOTHING`

	looksStatement = "SELECT id, look_at FROM queues WHERE look_at IS NOT NULL ORDER BY look_at, id LIMIT $1"

	selectTasks = "SELECT " + taskColumns + " FROM tasks WHERE "

	taskStatement = selectTasks + "id = $1::uuid"

	firstTasksStatement = selectTasks +
		"queue = $1::uuid AND status = 'Pending' ORDER BY priority DESC, arrival LIMIT $2"

	dueTasksStatement = selectTasks + `queue = $1::uuid AND status = 'Pending' AND not_before <= $3::timestamptz
ORDER BY not_before, arrival LIMIT $2`

	overdueTasksStatement = selectTasks + `queue = $1::uuid AND status = 'Running' AND started_at <= $3::timestamptz
ORDER BY started_at, arrival LIMIT $2`

	soonestStatement = `
SELECT not_before FROM tasks WHERE queue = $1::uuid AND status = 'Pending' ORDER BY not_before, arrival LIMIT 1`

	longestStatement = `
SELECT started_at FROM tasks WHERE queue = $1::uuid AND status = 'Running' ORDER BY started_at, arrival LIMIT 1`

	ofStatus = " AND ($2::text = '' OR status = $2) AND ($3::text = '' OR $3 = ANY (tags)) "

	listTasksStatement = selectTasks + "id > $1::uuid" + ofStatus + "ORDER BY id LIMIT $4"

	listTasksOfStatement = selectTasks + `queue = $5::uuid AND id::text COLLATE "C" > $1::uuid::text` + ofStatus +
		`ORDER BY id::text COLLATE "C" LIMIT $4`

	addTaskStatement = `
INSERT INTO tasks (` + taskColumns + `)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

	putTaskStatement = `
UPDATE tasks SET queue = $2, name = $3, tags = $4, priority = $5, not_before = $6, execution = $7, inline = $8,
  promise = $9, arrival = $10, status = $11, reason = $12, run = $13, arrived_at = $14, started_at = $15,
  ended_at = $16, fates = $17
WHERE id = $1`

	forgetTasksStatement = `
DELETE FROM tasks WHERE id = ANY (ARRAY(SELECT id FROM tasks WHERE ended_at < $1::timestamptz
  ORDER BY ended_at, id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id`

	actionStatement = "SELECT id, name, tags, content FROM actions WHERE id = $1::uuid"

	listActionsStatement = `
SELECT id, name, tags, content FROM actions
WHERE id > $1::uuid AND ($2::text = '' OR $2 = ANY (tags)) ORDER BY id LIMIT $3`

	inUseStatement = `
SELECT EXISTS (SELECT FROM tasks WHERE execution = $1::uuid AND ended_at IS NULL)
  OR EXISTS (SELECT FROM queues WHERE relief = $1::uuid)
  OR EXISTS (SELECT FROM tasks WHERE ended_at IS NULL AND promise <> '{}' AND $1::uuid = ANY (promise)
    AND id >= '00000000-0000-0000-0000-000000000000')`

	putActionStatement = `
INSERT INTO actions (id, name, tags, content) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tags = excluded.tags, content = excluded.content`

	dropActionStatement = "DELETE FROM actions WHERE id = $1::uuid"
)

// look is when a queue is to be looked at.
type look struct {
	queue uuid.UUID
	at    time.Time
}

func looksStep(limit int, found *[]look) step {
	return step{statement: looksStatement, arguments: []any{limit}, read: func(rows pgx.Rows) error {
		var l look
		err := rows.Scan(&l.queue, &l.at)
		*found = append(*found, l)
		return err
	}}
}

func queuesStep(found *[]queue.Queue, statement string, arguments ...any) step {
	return step{statement: statement, arguments: arguments, read: func(rows pgx.Rows) error {
		var q queue.Queue
		var relief pgtype.UUID
		var limit int64
		var relieved, look pgtype.Timestamptz
		err := rows.Scan(&q.ID, &q.Name, (*string)(&q.Kind), &q.Window, &q.Paths, &q.Tags, &q.Drain, &limit, &q.Depth,
			&relief, &q.Deleting, &q.Arrivals, &q.Pending, &q.Running, &relieved, &look)
		q.Paths, q.Tags = filled(q.Paths), filled(q.Tags)
		q.TimeLimit, q.Relief = time.Duration(limit)*time.Microsecond, relief.Bytes
		q.Relieved, q.Look = timeOf(relieved), timeOf(look)
		*found = append(*found, q)
		return err
	}}
}

func queueArguments(q *queue.Queue) []any {
	return []any{
		uuidOf(q.ID), q.Name, string(q.Kind), q.Window, texts(q.Paths), texts(q.Tags), q.Drain,
		q.TimeLimit.Microseconds(), q.Depth, someUUID(q.Relief), q.Deleting, q.Arrivals, q.Pending, q.Running,
		instantOf(q.Relieved), instantOf(q.Look),
	}
}

func tasksStep(found *[]queue.Task, statement string, arguments ...any) step {
	return step{statement: statement, arguments: arguments, read: func(rows pgx.Rows) error {
		var t queue.Task
		var execution, run pgtype.UUID
		var inline []byte
		var promise []pgtype.UUID
		var when, arrived time.Time
		var started, ended pgtype.Timestamptz
		err := rows.Scan(&t.ID, &t.Queue, &t.Name, &t.Tags, &t.Priority, &when, &execution, &inline, &promise,
			&t.Arrival, (*string)(&t.Status), &t.Reason, &run, &arrived, &started, &ended, &t.Fates)
		if err != nil {
			return err
		}
		t.Tags, t.When, t.Arrived = filled(t.Tags), when.UTC(), arrived.UTC()
		t.Execution, t.Run, t.Started, t.Ended = execution.Bytes, run.Bytes, timeOf(started), timeOf(ended)
		for _, id := range promise {
			t.Promise = append(t.Promise, id.Bytes)
		}
		if inline != nil {
			t.Inline = &queue.Action{}
			err = t.Inline.SetContent(inline)
		}
		*found = append(*found, t)
		return err
	}}
}

func taskArguments(t *queue.Task) (arguments []any, err error) {
	var inline []byte
	if t.Inline != nil {
		inline, err = t.Inline.Content()
	}
	return []any{
		uuidOf(t.ID), uuidOf(t.Queue), t.Name, texts(t.Tags), t.Priority, t.When, someUUID(t.Execution), inline,
		uuids(t.Promise), t.Arrival, string(t.Status), t.Reason, someUUID(t.Run), t.Arrived, instantOf(t.Started),
		instantOf(t.Ended), t.Fates,
	}, err
}

func actionsStep(found *[]queue.Action, statement string, arguments ...any) step {
	return step{statement: statement, arguments: arguments, read: func(rows pgx.Rows) error {
		var a queue.Action
		var content []byte
		if err := rows.Scan(&a.ID, &a.Name, &a.Tags, &content); err != nil {
			return err
		}
		a.Tags = filled(a.Tags)
		err := a.SetContent(content)
		*found = append(*found, a)
		return err
	}}
}

// someUUID returns an id as an argument: NULL for the zero value.
func someUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != uuid.Nil} }

func uuids(ids []uuid.UUID) []pgtype.UUID {
	list := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		list[i] = uuidOf(id)
	}
	return list
}

// texts returns a list as an argument, which is not NULL.
func texts(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// filled returns a list that a row has: nil for an empty one.
func filled(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
