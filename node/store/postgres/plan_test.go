//go:build ignore

package postgres_test

import (
	"encoding/json"
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

// plan is a node of what EXPLAIN prints.
type plan struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Way      string `json:"Scan Direction"`
	Plans    []plan
}

// scans returns how the table is read, and whether anything is sorted below a lock, in the order of the plan.
func (p *plan) scans(locked bool) (list []string) {
	switch {
	case p.Index != "" && p.Cond == "":
		list = append(list, p.Type+" of all of "+p.Index)
	case p.Relation != "" && p.Type != "ModifyTable":
		list = append(list, strings.TrimSpace(strings.TrimSuffix(p.Type+" "+p.Way, " Forward")+" "+p.Index))
	case locked && strings.Contains(p.Type, "Sort"):
		list = append(list, p.Type)
	}
	for _, below := range p.Plans {
		list = append(list, below.scans(locked || p.Type == "LockRows")...)
	}
	return list
}

// ways is how each statement has to read the table.
func ways() map[string][]string {
	return map[string][]string{
		"insert":  nil,
		"lookup":  {"Index Scan hanger_pkey"},
		"present": {"Index Only Scan hanger_pkey"},
		"ready":   {"Index Scan hanger_waiting", "Tid Scan"},
		"delete":  {"Index Scan hanger_pkey"},
		"stuck":   {"Index Scan hanger_ready"},
		"reset":   {"Index Scan hanger_pkey"},
	}
}

// arguments are those of each statement for a batch of n messages.
func arguments(n int) map[string][]any {
	ids, topics := make([]string, n), make([]string, n)
	uuids := make([]pgtype.UUID, n)
	times := make([]time.Time, n)
	headers := make([]string, n)
	for i := range n {
		ids[i], topics[i], headers[i] = fmt.Sprint("id ", i), "topic", "[]"
		uuids[i] = pgtype.UUID{Bytes: uuid.UUID{0: byte(i >> 8), 1: byte(i)}, Valid: true}
		times[i] = time.Now()
	}
	return map[string][]any{
		"insert": {
			uuids[0], ids, topics, uuids, times, make([]bool, n), make([]int32, n), headers,
			make([][]byte, n), make([][]byte, n),
		},
		"lookup":  {ids, topics},
		"present": {ids, topics},
		"ready":   {uuids[0], time.Now(), n, 8 << 20},
		"delete":  {ids, topics, uuids},
		"stuck":   {int64(5_000_000), n},
		"reset":   {ids, topics, uuids, times, uuids, times},
	}
}

// Every statement has one plan, whatever the server knows about the table: when it is new, when it was found empty
// and has been filled since, when it is large. That is so for the plan that a connection keeps, and for those that
// are made anew for each call through a pooler.
func TestPlans(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	fill := func(rows int) string {
		return fmt.Sprintf(`
INSERT INTO hanger SELECT i::text, 'topic', gen_random_uuid(), due, due, ready, CASE WHEN ready IS NOT NULL
  THEN gen_random_uuid() END, 10, '[]', NULL, 'ten bytes.'
FROM (SELECT i, now() + i * interval '1 ms' AS due, CASE WHEN i %% 50 = 0 THEN now() END AS ready
  FROM generate_series(1, %d) AS i) AS s`, rows)
	}
	for _, state := range []struct{ name, statements string }{
		{"new", ""},
		{"found empty", "VACUUM ANALYZE hanger"},
		{"filled unnoticed", fill(100_000)},
		{"large", "VACUUM ANALYZE hanger"},
		{"emptied unnoticed", "DELETE FROM hanger"},
		{"found emptied", "VACUUM ANALYZE hanger"},
		{"found small", "TRUNCATE hanger;" + fill(3) + "; ANALYZE hanger"},
	} {
		if state.statements != "" {
			for statement := range strings.SplitSeq(state.statements, ";") {
				exec(t, address, statement)
			}
		}
		t.Run(state.name, func(t *testing.T) {
			pooled := open(t, address, postgres.Options{PgBouncer: true})
			conn, err := open(t, address, postgres.Options{}).Pool().Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, name := range slices.Sorted(maps.Keys(ways())) {
				statement := postgres.Statements()[name]
				if _, err := conn.Exec(t.Context(), "PREPARE "+name+" AS "+statement); err != nil {
					t.Fatal(err)
				}
				nulls := strings.Repeat(", NULL", len(arguments(1)[name]))[2:]
				var kept []byte
				err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE "+name+" ("+nulls+")").Scan(&kept)
				if err != nil {
					t.Fatal(err)
				}
				checkPlan(t, name, kept, ways())
				for _, n := range []int{1, 1000} {
					made, err := postgres.Run(t.Context(), pooled,
						"EXPLAIN (FORMAT JSON) "+statement, arguments(n)[name]...)
					if err != nil {
						t.Fatal(err)
					}
					checkPlan(t, fmt.Sprint(name, " of ", n), []byte(strings.Join(made, "\n")), ways())
				}
			}
		})
	}
}

func checkPlan(t *testing.T, name string, explained []byte, ways map[string][]string) {
	t.Helper()
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(explained, &plans); err != nil {
		t.Fatal(err)
	}
	statement, _, _ := strings.Cut(name, " ")
	if got := plans[0].Plan.scans(false); !slices.Equal(got, ways[statement]) {
		t.Errorf("%s reads the table by %q, want %q:\n%s", name, got, ways[statement], explained)
	}
}
