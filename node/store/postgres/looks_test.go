//go:build ignore

package postgres_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node/store/postgres"
)

// lookWays is how each statement of a look, and of moving a position, has to read its table.
func lookWays() map[string][]string {
	return map[string][]string{
		"claim":     {"Index Scan messages_waiting", "Tid Scan"},
		"look":      {"Index Only Scan messages_waiting"},
		"expired":   {"Index Scan messages_claimed"},
		"lock":      {"Index Scan partitions_pkey"},
		"positions": {"Index Scan Backward positions_pkey"},
		"move":      nil,
		"forget":    {"Index Scan positions_pkey", "Tid Scan"},
	}
}

// lookArguments are those of each statement for n lanes or partitions.
func lookArguments(n int) map[string][]any {
	topics, uuids := make([]string, n), make([]pgtype.UUID, n)
	times, numbers := make([]time.Time, n), make([]int64, n)
	for i := range n {
		topics[i] = fmt.Sprint("topic ", i)
		uuids[i] = pgtype.UUID{Bytes: uuid.UUID{0: byte(i >> 8), 1: byte(i)}, Valid: true}
		times[i] = time.Now()
	}
	return map[string][]any{
		"claim":     {uuids[0], int64(5_000_000), topics, numbers, numbers, times, topics, times},
		"look":      {topics, times, times},
		"expired":   {times[0], n},
		"lock":      {uuids, numbers},
		"positions": {uuids, numbers},
		"move":      {uuids, numbers, numbers, numbers, numbers},
		"forget":    {uuids, numbers, numbers},
	}
}

// Every statement of a look has one plan, whatever the server knows about the tables, like those of TestPlans.
func TestLookPlans(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	fill := func(rows int) string {
		return fmt.Sprintf(`
INSERT INTO messages (id, topic, incarnation, deadline, due_at, readied_at, readied_by, expires_at,
  message_size, message_headers)
SELECT i::text, 'topic ' || i %% 10, gen_random_uuid(), due, due, ready,
  CASE WHEN ready IS NOT NULL THEN gen_random_uuid() END, ready + interval '5 s', 10, '[]'
FROM (SELECT i, now() + i * interval '1 ms' AS due, CASE WHEN i %% 50 = 0 THEN now() END AS ready
  FROM generate_series(1, %[1]d) AS i) AS s;
INSERT INTO partitions SELECT gen_random_uuid(), i, 'input' FROM generate_series(1, %[1]d / 10) AS i;
INSERT INTO positions SELECT topic_id, partition, 7, 0, 0 FROM partitions`, rows)
	}
	const analyze = "VACUUM ANALYZE messages; VACUUM ANALYZE partitions; VACUUM ANALYZE positions"
	const empty = "DELETE FROM messages; DELETE FROM partitions; DELETE FROM positions"
	for _, state := range []struct{ name, statements string }{
		{"new", ""},
		{"found empty", analyze},
		{"filled unnoticed", fill(50_000)},
		{"large", analyze},
		{"emptied unnoticed", empty},
		{"found emptied", analyze},
		{"found small", fill(30) + ";" + analyze},
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
			for _, name := range slices.Sorted(maps.Keys(lookWays())) {
				statement := postgres.Looks()[name]
				if _, err := conn.Exec(t.Context(), "PREPARE "+name+"_look AS "+statement); err != nil {
					t.Fatal(err)
				}
				nulls := strings.Repeat(", NULL", len(lookArguments(1)[name]))[2:]
				var kept []byte
				err := conn.QueryRow(t.Context(),
					"EXPLAIN (FORMAT JSON) EXECUTE "+name+"_look ("+nulls+")").Scan(&kept)
				if err != nil {
					t.Fatal(err)
				}
				checkPlan(t, name, kept, lookWays())
				for _, n := range []int{1, 100} {
					made, err := postgres.Run(t.Context(), pooled,
						"EXPLAIN (FORMAT JSON) "+statement, lookArguments(n)[name]...)
					if err != nil {
						t.Fatal(err)
					}
					checkPlan(t, fmt.Sprint(name, " of ", n), []byte(strings.Join(made, "\n")), lookWays())
				}
			}
		})
	}
}
