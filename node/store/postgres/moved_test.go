package postgres_test

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node/queue"
	"chronos/node/store/postgres"
	"chronos/node/store/transfer"
)

// Goal: an export has the time of any call for what it reads, and not the little that people have who look. Method:
// somebody looks, and does not come to an end.
func TestExportBesideLooks(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	q, action := queue.NewRoot(), queue.Action{ID: uuid.New(), Topic: "t"}
	q.ID, q.Name = uuid.New(), "q"
	_, err := s.Receive(t.Context(), transfer.Batch{
		ID: uuid.New(), By: "test", Lineage: 1, To: 3, Last: true,
		Queues: []queue.Queue{q}, Actions: []queue.Action{action},
		Tasks: []queue.Task{{ID: uuid.New(), Queue: q.ID, Execution: action.ID, Status: queue.Pending}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Seal(t.Context(), uuid.New(), "test"); err != nil {
		t.Fatal(err)
	}
	defer postgres.Look(s)()
	counts, _, err := transfer.Export(t.Context(), s, transfer.Header{}, io.Discard, func(transfer.Progress) {})
	if err != nil || counts.Queues != 1 || counts.Actions != 1 || counts.Tasks != 1 {
		t.Errorf("%+v were exported, error %v", counts, err)
	}
}

// Goal: what a page costs that is moved is bounded by what is asked for, however much there is: the server reads as
// many rows, sends as many bytes, and sorts nothing. Method: it is asked what it has done.
func TestMovedPages(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	exec(t, address, `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size, message_headers, message_value)
SELECT i::text, 'topic', gen_random_uuid(), now(), now(), 1000, '[]', decode(repeat('00', 1000), 'hex')
FROM generate_series(1, 20000) AS i`)
	exec(t, address, `
INSERT INTO tasks (id, queue, name, tags, priority, not_before, inline, promise, arrival, status, reason,
  arrived_at, fates)
SELECT gen_random_uuid(), gen_random_uuid(), '', '{}', 0, now(), decode(repeat('00', 1000), 'hex'), '{}', i,
  'Pending', '', now(), ''
FROM generate_series(1, 5000) AS i`)
	exec(t, address, "INSERT INTO actions SELECT id, '', '{}', inline FROM tasks")
	s := open(t, address, postgres.Options{})
	statements, first := postgres.QueueStatements(), pgtype.UUID{Valid: true}
	statements["moved"] = postgres.Statements()["moved"]
	for name, arguments := range map[string][]any{
		"moved": {"", ""}, "moved_tasks": {first}, "moved_actions": {first},
	} {
		for _, c := range []struct{ limit, size, sent int }{{100, 1, 1}, {100, 10_000, 10}, {100, 1 << 20, 100}} {
			text, err := postgres.Run(t.Context(), s, "EXPLAIN (ANALYZE, FORMAT JSON) "+statements[name],
				slices.Concat(arguments, []any{c.limit, c.size})...)
			if err != nil {
				t.Fatal(err)
			}
			var done []struct{ Plan worked }
			if err := json.Unmarshal([]byte(strings.Join(text, "\n")), &done); err != nil {
				t.Fatal(err)
			}
			plan := &done[0].Plan
			if int(plan.Rows) != c.sent || plan.read() != c.limit || plan.sorts() {
				t.Errorf("%s: of %d rows or %d bytes the server reads %d, and sends %v, want %d:\n%s", name, c.limit,
					c.size, plan.read(), plan.Rows, c.sent, text)
			}
		}
	}
}

// worked is a node of what EXPLAIN ANALYZE prints.
type worked struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Plans    []worked
}

// read returns how many rows of tables were read.
func (w *worked) read() (rows int) {
	if w.Relation != "" {
		rows = int(w.Rows)
	}
	for i := range w.Plans {
		rows += w.Plans[i].read()
	}
	return rows
}

// sorts reports whether anything was sorted.
func (w *worked) sorts() bool {
	for i := range w.Plans {
		if w.Plans[i].sorts() {
			return true
		}
	}
	return strings.Contains(w.Type, "Sort")
}
