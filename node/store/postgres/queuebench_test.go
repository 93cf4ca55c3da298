package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
	"chronos/node/store/postgres"
)

// BenchmarkIdleQueues measures what a Keeper asks each second while nothing is due: of one queue with one task, and of
// 10,000 queues with a million tasks. Goal: it costs the same.
func BenchmarkIdleQueues(b *testing.B) {
	for _, size := range []struct{ queues, tasks int }{{1, 1}, {10_000, 1_000_000}} {
		b.Run(fmt.Sprintf("queues=%d/tasks=%d", size.queues, size.tasks), func(b *testing.B) {
			address := newSchema(b, newDatabase(b))
			exec(b, address, fmt.Sprintf(`
INSERT INTO queues (id, name, kind, open_window, paths, tags, drain, time_limit, depth, pending, look_at)
SELECT gen_random_uuid(), 'q' || i, 'sync', '10pm to 4am every day', '{}', '{}', false, 1000000, 0, %[2]d,
  now() + interval '1 hour' FROM generate_series(1, %[1]d) AS i;
INSERT INTO tasks (id, queue, name, tags, priority, not_before, execution, promise, arrival, status, reason,
  arrived_at, fates)
SELECT gen_random_uuid(), id, '', '{}', 0, now(), id, '{}', i, 'Pending', '', now(), ''
FROM queues, generate_series(1, %[2]d) AS i WHERE name <> 'root'`, size.queues, size.tasks/size.queues))
			exec(b, address, "ANALYZE queues")
			exec(b, address, "ANALYZE tasks")
			store := open(b, address, postgres.Options{Timeout: time.Minute})
			for b.Loop() {
				due, _, some, err := store.Due(context.Background(), 100)
				if err != nil || len(due) > 0 || !some {
					b.Fatal(due, some, err)
				}
			}
		})
	}
}

// BenchmarkSyncQueue measures the whole way of a task through a sync queue: it arrives, runs, and is completed, which
// starts the next one.
func BenchmarkSyncQueue(b *testing.B) {
	store := open(b, newSchema(b, newDatabase(b)), postgres.Options{Timeout: time.Minute})
	apply := func(command queue.Command) {
		if _, err := store.Apply(context.Background(), command); err != nil {
			b.Fatal(err)
		}
	}
	action, q := queue.Action{ID: numbered(1), URI: "http://x", Method: "GET"}, queue.Queue{
		ID: numbered(2), Name: "q", Kind: queue.Sync,
	}
	apply(queue.PutAction{Action: action})
	apply(queue.PutQueue{Queue: q})
	n := 10
	apply(queue.PutTask{Task: queue.Task{ID: numbered(n), Queue: q.ID, Execution: action.ID}})
	for b.Loop() {
		n++
		apply(queue.PutTask{Task: queue.Task{ID: numbered(n), Queue: q.ID, Execution: action.ID}})
		apply(queue.End{Task: numbered(n - 1)})
	}
}

// numbered returns the nth id.
func numbered(n int) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n)) }
