package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node/queue"
	"chronos/node/store/postgres"
)

// queueWays is how each statement of queues has to read the tables, and queueArguments what it is asked with.
func queueWays() map[string][]string {
	return map[string][]string{
		"lock_queue":    {"Index Scan queues_pkey"},
		"queue_by_id":   {"Index Scan queues_pkey"},
		"queue_by_name": {"Index Scan queues_name"},
		"list_queues":   {"Index Scan queues_name"},
		"queues_at":     {"Index Scan queues_pkey", "Index Only Scan queue_paths_pkey"},
		"inside":        {"Index Only Scan queue_paths_pkey"},
		"lock_queues":   {"Index Scan queues_pkey"},
		"touch":         {"Index Scan queues_pkey"},
		"drop_queue":    {"Index Scan queues_pkey"},
		"forget_paths":  {"Index Scan queue_paths_queue"},
		"looks":         {"Index Only Scan of all of queues_look"},
		"task":          {"Index Scan tasks_pkey"},
		"first_tasks":   {"Index Scan tasks_first"},
		"due_tasks":     {"Index Scan tasks_due"},
		"overdue_tasks": {"Index Scan tasks_running"},
		"soonest":       {"Index Only Scan tasks_due"},
		"longest":       {"Index Only Scan tasks_running"},
		"list_tasks":    {"Index Scan tasks_pkey"},
		"list_tasks_of": {"Index Scan tasks_queue"},
		"put_task":      {"Index Scan tasks_pkey"},
		"forget_tasks":  {"Index Scan tasks_ended", "Index Scan tasks_pkey"},
		"action":        {"Index Scan actions_pkey"},
		"list_actions":  {"Index Scan actions_pkey"},
		"in_use": {
			"Index Only Scan tasks_execution", "Index Only Scan queues_relief", "Index Scan tasks_promising",
		},
		"drop_action":   {"Index Scan actions_pkey"},
		"moved_tasks":   {"Index Scan tasks_pkey"},
		"moved_actions": {"Index Scan actions_pkey"},
	}
}

func queueArguments() map[string][]any {
	id, now := pgtype.UUID{Valid: true}, time.Now()
	return map[string][]any{
		"lock_queue": {id}, "queue_by_id": {id}, "queue_by_name": {"name"}, "list_queues": {"name", "", 10},
		"queues_at": {[]string{"/a"}}, "inside": {"/a/", "/a0"}, "lock_queues": {[]pgtype.UUID{id}},
		"touch": {[]pgtype.UUID{id}, now}, "drop_queue": {id}, "forget_paths": {id, []string{"/a"}}, "looks": {10},
		"task": {id}, "first_tasks": {id, 10}, "due_tasks": {id, 10, now}, "overdue_tasks": {id, 10, now},
		"soonest": {id}, "longest": {id}, "list_tasks": {id, "", "", 10}, "list_tasks_of": {id, "", "", 10, id},
		"put_task": {
			id, id, "", []string{}, 0, now, id, nil, []pgtype.UUID{}, int64(0), "", "", id, now, now, now, "",
		},
		"forget_tasks": {now, 10}, "action": {id}, "list_actions": {id, "", 10}, "in_use": {id}, "drop_action": {id},
		"moved_tasks": {id, 10, 1 << 20}, "moved_actions": {id, 10, 1 << 20},
	}
}

// Every statement of queues has one plan, too, whatever the server knows about the tables.
func TestQueuePlans(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	const fill = `
INSERT INTO queues (id, name, kind, open_window, paths, tags, drain, time_limit, depth, look_at)
SELECT gen_random_uuid(), 'q' || i, 'sync', 'always', '{}', '{}', false, 1, 0,
  CASE WHEN i % 100 = 0 THEN now() END FROM generate_series(1, 5000) AS i;
INSERT INTO queue_paths SELECT '/a/' || name, id FROM queues;
INSERT INTO tasks (id, queue, name, tags, priority, not_before, execution, promise, arrival, status, reason,
  arrived_at, started_at, ended_at, fates)
SELECT gen_random_uuid(), id, '', '{}', 0, now(), id, '{}', i, CASE i WHEN 1 THEN 'Running' WHEN 2 THEN 'Complete'
  ELSE 'Pending' END, '', now(), CASE WHEN i < 3 THEN now() END, CASE WHEN i = 2 THEN now() END, ''
FROM queues, generate_series(1, 10) AS i;
INSERT INTO actions SELECT id, '', '{}', '{}' FROM queues`
	const analyze = "VACUUM ANALYZE queues; VACUUM ANALYZE queue_paths; VACUUM ANALYZE tasks; VACUUM ANALYZE actions"
	for _, state := range []struct{ name, statements string }{
		{"new", ""},
		{"found empty", analyze},
		{"filled unnoticed", fill},
		{"large", analyze},
	} {
		for statement := range strings.SplitSeq(state.statements, ";") {
			exec(t, address, statement)
		}
		t.Run(state.name, func(t *testing.T) {
			pooled := open(t, address, postgres.Options{PgBouncer: true})
			conn, err := open(t, address, postgres.Options{}).Pool().Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, name := range slices.Sorted(maps.Keys(queueWays())) {
				statement, arguments := postgres.QueueStatements()[name], queueArguments()[name]
				if _, err := conn.Exec(t.Context(), "PREPARE "+name+" AS "+statement); err != nil {
					t.Fatal(name, err)
				}
				var kept []byte
				err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE "+name+
					" ("+strings.Repeat("NULL, ", len(arguments)-1)+"NULL)").Scan(&kept)
				if err != nil {
					t.Fatal(name, err)
				}
				checkPlan(t, name, kept, queueWays())
				made, err := postgres.Run(t.Context(), pooled, "EXPLAIN (FORMAT JSON) "+statement, arguments...)
				if err != nil {
					t.Fatal(name, err)
				}
				checkPlan(t, name+" anew", []byte(strings.Join(made, "\n")), queueWays())
			}
		})
	}
}

// queueWork makes each call about queues once.
func queueWork(ctx context.Context, store *postgres.Store) error {
	action := queue.Action{ID: uuid.New(), URI: "http://x", Method: "GET"}
	q := queue.Queue{ID: uuid.New(), Kind: queue.Sync, Paths: []string{"/a"}}
	q.Name = q.ID.String()
	moved := q
	moved.Paths = []string{"/b"}
	task := queue.Task{ID: uuid.New(), Queue: q.ID, Execution: action.ID}
	for _, command := range []queue.Command{
		queue.PutAction{Action: action},
		queue.PutQueue{Queue: q},
		queue.PutQueue{Queue: moved},
		queue.PutTask{Task: task},
		queue.Look{Queue: q.ID},
		queue.End{Task: task.ID},
		queue.Forget{Age: -time.Hour, Limit: 100},
		queue.DropQueue{ID: q.ID},
		queue.DropAction{ID: action.ID},
	} {
		if _, err := store.Apply(ctx, command); err != nil {
			return fmt.Errorf("%T: %w", command, err)
		}
	}
	_, _, _, err := store.Due(ctx, 10)
	filter := queue.Filter{Limit: 1}
	_, err2 := store.Queues(ctx, filter)
	_, err3 := store.Tasks(ctx, filter)
	_, err4 := store.Actions(ctx, filter)
	return errors.Join(err, err2, err3, err4)
}
