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

// ways is how each statement has to read the tables.
func ways() map[string][]string {
	return map[string][]string{
		"lock_partitions": {"Index Scan partitions_pkey"},
		"positions":       {"Index Scan Backward positions_pkey"},
		"positions_and_state": {
			"Index Scan store_pkey", "Index Only Scan of all of partitions_marked", "Index Only Scan pauses_pkey",
			"Index Scan Backward positions_pkey",
		},
		"lock_messages": {"Index Scan messages_pkey"},
		"state": {
			"Index Scan store_pkey", "Index Only Scan of all of partitions_marked", "Index Only Scan pauses_pkey",
		},
		"paused": {"Index Only Scan pauses_pkey"},
		"pause":  nil,
		"resume": {"Index Scan pauses_pkey"},
		"pauses": {"Index Scan pauses_pkey"},

		"find":           {"Index Scan messages_pkey"},
		"waiting_slice":  {"Index Scan messages_waiting"},
		"claimed_slice":  {"Index Scan messages_claimed"},
		"parts":          {"Index Only Scan Backward messages_waiting", "Index Only Scan Backward messages_waiting"},
		"places":         {"Index Scan partitions_pkey", "Index Scan Backward positions_pkey"},
		"beat":           {"Index Scan nodes_pkey"},
		"gone":           {"Index Scan nodes_pkey"},
		"nodes":          {"Index Scan nodes_pkey"},
		"insert":         nil,
		"insert_all":     nil,
		"reply":          nil,
		"change":         {"Tid Scan"},
		"replace":        {"Tid Scan"},
		"remove":         {"Tid Scan"},
		"rearm":          {"Index Scan messages_pkey"},
		"end_series":     {"Index Scan messages_pkey"},
		"promised":       {"Index Scan messages_pkey"},
		"move":           nil,
		"forget":         {"Index Scan positions_pkey", "Tid Scan"},
		"mark":           {"Index Scan partitions_pkey"},
		"lock_store":     {"Index Scan store_pkey"},
		"bind":           {"Index Scan store_pkey"},
		"begin_lineage":  {"Index Scan store_pkey"},
		"add_partitions": nil,
		"add_positions":  {"Index Only Scan positions_pkey"},
		"lock_all":       {"Index Scan of all of partitions_pkey"},
		"count":          {"Index Only Scan partitions_pkey"},
		"idle": {
			"Index Only Scan messages_claimed", "Index Only Scan messages_waiting", "Index Only Scan messages_waiting",
		},
		"peek": {
			"Index Only Scan messages_claimed", "Index Only Scan messages_waiting", "Index Only Scan messages_waiting",
			"Index Scan store_pkey", "Index Only Scan of all of partitions_marked", "Index Only Scan pauses_pkey",
		},
		"channel": {"Index Scan pg_class_oid_index"},
		"notify":  {"Index Scan pg_class_oid_index"},
		"claim": {
			"Index Only Scan pauses_pkey", "Index Scan store_pkey", "Index Scan store_pkey",
			"Index Only Scan of all of partitions_marked",
			"Index Scan messages_waiting", "Tid Scan",
		},
		"look":    {"Index Only Scan messages_waiting"},
		"turn":    {"Index Only Scan messages_line", "Index Only Scan messages_line", "Index Scan messages_served"},
		"forward": {"Index Only Scan messages_line", "Index Scan messages_pkey", "Tid Scan"},
		"delete":  {"Index Scan messages_pkey"},
		"expired": {"Index Scan messages_claimed"},

		"first_expired":        {"Index Only Scan messages_claimed"},
		"lock_free_partitions": {"Index Scan partitions_pkey"},
		"lock_free_messages":   {"Index Scan messages_pkey"},
		"read_messages":        {"Index Scan messages_pkey"},
		"there":                {"Index Scan messages_pkey"},
		"held_claims":          {"Index Scan messages_pkey"},
		"delete_free":          {"Index Scan messages_pkey", "Tid Scan"},
		"reset_free":           {"Index Scan messages_pkey", "Tid Scan", "Index Only Scan messages_line"},
		"rearm_free":           {"Index Scan messages_pkey", "Tid Scan"},
		"end_free":             {"Index Scan messages_pkey", "Tid Scan"},

		"reset": {"Index Scan messages_pkey", "Index Only Scan messages_line"},

		"answers":  {"Index Scan answers_pkey"},
		"remember": nil,
		"replaced": {"Index Scan answers_pkey"},
		"sweep":    {"Index Scan answers_expiring", "Tid Scan"},

		"seal":        {"Index Scan answers_pkey"},
		"keep_seal":   nil,
		"forget_seal": {"Index Scan answers_pkey"},
		"close":       {"Index Scan store_pkey"},
		"open":        {"Index Only Scan Backward messages_claimed", "Index Scan store_pkey"},
		"own":         {"Index Scan store_pkey"},
		"used": {
			"Index Only Scan messages_pkey", "Index Only Scan tasks_pkey", "Index Only Scan actions_pkey",
			"Index Only Scan queues_pkey", "Index Only Scan partitions_pkey",
		},

		"count_messages":  {"Index Only Scan messages_pkey"},
		"count_answers":   {"Index Only Scan answers_pkey"},
		"all_places":      {"Index Scan partitions_pkey", "Index Scan Backward positions_pkey"},
		"held":            {"Index Only Scan messages_claimed"},
		"moved":           {"Index Scan messages_pkey"},
		"told":            {"Index Scan answers_pkey"},
		"receive":         nil,
		"receive_answers": nil,
		"receive_pause":   nil,

		"claimed_count":  {"Index Scan messages_claimed"},
		"coming_count":   {"Index Only Scan messages_waiting"},
		"overdue_count":  {"Index Only Scan messages_waiting"},
		"deferred_count": {"Index Only Scan messages_deferred"},
		"parked_count": {
			"Index Only Scan messages_waiting", "Index Only Scan messages_waiting", "Index Only Scan messages_waiting",
		},
		"origins": {"Index Scan messages_waiting"},
	}
}

// arguments are those of each statement for a batch of n messages, partitions or lanes.
func arguments(n int) map[string][]any {
	ids, topics := make([]string, n), make([]string, n)
	uuids := make([]pgtype.UUID, n)
	times := make([]time.Time, n)
	headers := make([]string, n)
	numbers := make([]int64, n)
	places := make([]pgtype.TID, n)
	for i := range n {
		ids[i], topics[i], headers[i] = fmt.Sprint("id ", i), fmt.Sprint("topic ", i%10), "[]"
		uuids[i] = pgtype.UUID{Bytes: uuid.UUID{0: byte(i >> 8), 1: byte(i)}, Valid: true}
		times[i] = time.Now()
		places[i] = pgtype.TID{BlockNumber: uint32(i), OffsetNumber: 1, Valid: true}
	}
	// Of what most messages do not have, the slices are shorter than the others, or nil.
	contents := []any{
		uuids, times, make([]bool, n), topics, numbers, numbers, make([]int32, n), headers, make([][]byte, n),
		make([][]byte, n), times[:0], times[:1], []bool(nil), make([]bool, 1),
		[]string(nil), numbers[:1], times[:0], make([]bool, n), uuids[:1],
	}
	insert := append([]any{uuids[0], times[0], times[0], ids, topics}, contents...)
	return map[string][]any{
		"lock_partitions":     {uuids, numbers},
		"positions":           {uuids, numbers},
		"positions_and_state": {uuids, numbers},
		"lock_messages":       {ids, topics},
		"state":               nil,
		"paused":              nil,
		"pause":               {"lane", "who", "why"},
		"resume":              {"lane"},
		"pauses":              nil,

		"find":           {"id 1", true, 10},
		"waiting_slice":  {"topic 1", times[0], "id", times[0], 100, "part"},
		"claimed_slice":  {times[0], "id", "lane", times[0], 100, "lane"},
		"parts":          {100},
		"places":         nil,
		"beat":           {uuids[0], "host", "version", "{}", "{}", int64(1000)},
		"gone":           {uuids[0]},
		"nodes":          nil,
		"insert":         insert[:15],
		"insert_all":     insert,
		"reply":          insert[:15],
		"change":         {places, uuids, times, times, make([]bool, n), make([]bool, n)},
		"replace":        append([]any{uuids[0], times[0], times[0], places}, contents...),
		"remove":         {places},
		"rearm":          {ids, topics, uuids, uuids, numbers, times, make([]bool, n)},
		"end_series":     {ids, topics, uuids, make([]bool, n), make([]bool, n)},
		"promised":       {ids, topics, uuids},
		"move":           {uuids, numbers, numbers, numbers, numbers},
		"forget":         {uuids, numbers, numbers},
		"mark":           {uuids, numbers, numbers},
		"lock_store":     nil,
		"bind":           {"cluster", "group", false},
		"begin_lineage":  {int64(2), int64(0), int64(0)},
		"add_partitions": {uuids, numbers, topics},
		"add_positions":  {uuids, numbers, numbers, numbers},
		"lock_all":       nil,
		"count":          nil,
		"idle":           {topics, times[0]},
		"peek":           {topics, times[0]},
		"channel":        nil,
		"notify":         {"_of_one"},
		"claim": {
			uuids[0], int64(5_000_000), topics, topics, numbers, numbers, times, topics, times[0], int64(1 << 40),
		},
		"look":          {topics, times, times[0], numbers},
		"turn":          {uuids, topics, times, ids, times, uuids},
		"forward":       {uuids, topics},
		"delete":        {ids, topics, uuids},
		"expired":       {times[0], times[0], n},
		"first_expired": {times[0], times[0]},

		"lock_free_partitions": {uuids, numbers},
		"lock_free_messages":   {ids, topics},
		"read_messages":        {ids, topics},
		"there":                {ids, topics, uuids},
		"held_claims":          {ids, topics, uuids, times, uuids},
		"delete_free":          {ids, topics, uuids},
		"reset_free":           {ids, topics, uuids, times, uuids, times, make([]bool, n), make([]bool, n), topics},
		"rearm_free":           {ids, topics, uuids, uuids, numbers, times, make([]bool, n)},
		"end_free":             {ids, topics, uuids, make([]bool, n), make([]bool, n)},

		"reset":   {ids, topics, uuids, times, uuids, times, make([]bool, n), make([]bool, n), topics},
		"answers": {uuids},
		"remember": {
			uuids, uuids, times, ids, ids, topics, uuids, times, times, numbers, make([]bool, n), numbers,
		},
		"replaced":       {uuids, times[0]},
		"sweep":          {times[0], int64(n)},
		"seal":           {uuids[0]},
		"keep_seal":      {uuids[0], uuids[0], times[0], "kind", "by", times[0], int64(1), int64(1)},
		"forget_seal":    {uuids[0]},
		"close":          {int64(1)},
		"open":           {int64(1)},
		"own":            nil,
		"used":           nil,
		"count_messages": nil,
		"count_answers":  {uuids[0], uuids[0]},
		"all_places":     nil,
		"held":           nil,
		"moved":          {"id", "lane", n, 1 << 20},
		"told":           {uuids[0], uuids[0], n},
		"receive":        append([]any{ids, topics, uuids, times, numbers, make([]bool, n)}, contents[3:]...),
		"receive_pause":  {"lane", times[0], "who", "why"},
		"receive_answers": {
			uuids, uuids, times, ids, ids, topics, uuids, times, times, numbers, make([]bool, n), numbers,
		},
		"claimed_count":  {times[0], times[0], n},
		"coming_count":   {"topic 1", times[0], times[:1], n},
		"overdue_count":  {"topic 1", times[0], times[0], n},
		"deferred_count": {"topic 1", times[0], n},
		"parked_count":   {"topic 1", 100, times[:1], n},
		"origins":        {"topic 1", topics, times, times[0], n},
	}
}

// Every statement has one plan, whatever the server knows about the table: when it is new, when it was found empty
// and has been filled since, when it is large, and when it was found empty though its indexes are large, because a
// snapshot keeps what has died. Then all indexes seem to have nothing, and the flattest is the cheapest: the dead are
// so many that one with short entries is a level flatter than the one that brings them in order. That is so for the
// plan that a connection keeps, and for those that are made anew for each call through a pooler.
func TestPlans(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	fill := func(rows int) string {
		return fmt.Sprintf(`
INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at,
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
		{"found dead", empty + ";" + fill(80_000) + ";" + empty + ";" + analyze},
	} {
		if state.name == "found dead" {
			defer hold(t, address)()
		}
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
			for _, name := range slices.Sorted(maps.Keys(ways())) {
				statement := postgres.Statements()[name]
				if _, err := conn.Exec(t.Context(), "PREPARE "+name+" AS "+statement); err != nil {
					t.Fatal(err)
				}
				execute := "EXPLAIN (FORMAT JSON) EXECUTE " + name
				if n := len(arguments(1)[name]); n > 0 {
					execute += " (" + strings.Repeat("NULL, ", n-1) + "NULL)"
				}
				var kept []byte
				err := conn.QueryRow(t.Context(), execute).Scan(&kept)
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
