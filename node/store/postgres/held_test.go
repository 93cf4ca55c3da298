package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"chronos/node/store/postgres"
)

// What a held snapshot costs is measured by
//
//	go test -run NONE -bench HeldSnapshot -benchtime 3x ./node/store/postgres -dead 3600000,6000000
//
// with the dead rows of an hour at 1,000 messages/s, then those of ten minutes at 10,000/s. Compare the rows of one
// run, as the load of the machine changes.
var dead = flag.String("dead", "200000", "numbers of messages that die under the held snapshot, in ascending order")

// held is a database in which rows die that the server may not remove.
type held struct {
	t    testing.TB
	conn *pgx.Conn
}

// newHeld returns a connection with the settings of the store, to a new schema.
func newHeld(t testing.TB) (h *held, address string) {
	t.Helper()
	address = newSchema(t, newDatabase(t))
	pooled, err := open(t, address, postgres.Options{Timeout: time.Hour}).Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooled.Release)
	return &held{t, pooled.Conn()}, address
}

// hold opens a transaction that sees what is there now, and goes on seeing it until the test ends.
func hold(t testing.TB, address string) (release func()) {
	t.Helper()
	tx, err := connect(t, address).BeginTx(context.Background(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "SELECT count(*) FROM messages"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func (h *held) exec(statement string, arguments ...any) int {
	h.t.Helper()
	tag, err := h.conn.Exec(h.t.Context(), statement, arguments...)
	if err != nil {
		h.t.Fatalf("%s: %v", statement, err)
	}
	return int(tag.RowsAffected())
}

// kill takes n messages through the cycle, in large batches, with due times evenly over the hour before end. Each
// leaves two dead rows, one dead entry in messages_waiting, one in messages_claimed and two in messages_pkey. Their
// ids are in the order of the index, which makes the dead quicker to come by.
func (h *held) kill(n int, end time.Time) {
	h.t.Helper()
	const batch = 50_000
	h.exec("SET synchronous_commit = off")
	step := time.Hour / time.Duration(n)
	for at := 0; at < n; at += batch {
		from := end.Add(-time.Hour + time.Duration(at)*step)
		rows := min(batch, n-at)
		h.exec(`
INSERT INTO messages (id, lane, incarnation, deadline, due_at,
  message_size, message_headers, message_key, message_value)
SELECT to_char(due, 'YYYY-MM-DD HH24:MI:SS.US') || i, 'output', gen_random_uuid(), due, due, 100, '[]', 'key',
  convert_to(repeat('x', 100), 'UTF8')
FROM (SELECT i, $1::timestamptz + i * $2::interval AS due FROM generate_series(0, $3::integer - 1) AS i) AS s`,
			from, step, rows)
		h.exec(`
UPDATE messages SET readied_at = clock_timestamp(), readied_by = gen_random_uuid(), attempts = 1,
  expires_at = due_at + interval '5 s' WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM messages WHERE lane = 'output' AND readied_at IS NULL AND due_at >= $1 ORDER BY due_at))`, from)
		killed := h.exec(`DELETE FROM messages WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM messages WHERE readied_at IS NOT NULL AND expires_at >= $1::timestamptz))`, from)
		if killed != rows {
			h.t.Fatalf("%d of %d messages went through the cycle", killed, rows)
		}
	}
	h.exec("SET synchronous_commit = on")
}

// claim claims on the lane "output" and returns the ids.
func (h *held) claim(limit int, from, until time.Time) []string {
	h.t.Helper()
	rows, err := h.conn.Query(h.t.Context(), postgres.Statements()["claim"], uuid.New(), int64(5_000_000),
		[]string{"output"}, []string{""}, []int{limit}, []int{8 << 20}, []time.Time{from}, []string{""}, until,
		int64(1<<40))
	if err != nil {
		h.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		return string(row.RawValues()[0]), nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return ids
}

// cycles measures how long the steps of the cycle take for a batch of messages that fall due now. Claims and looks for
// expired claims start that far back; the zero duration starts them at the beginning. The messages are fired as fast as
// that goes, so that a second back is as many dead entries as are fired in a second.
func (h *held) cycles(b *testing.B, batches int, back time.Duration) {
	b.Helper()
	const batch = 500
	took := map[string][]time.Duration{}
	timed := func(name string, step func()) {
		start := time.Now()
		step()
		took[name] = append(took[name], time.Since(start))
	}
	cycle := func() {
		now := time.Now()
		mark := now.Add(-back)
		if back == 0 {
			mark = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		var ids []string
		timed("insert", func() {
			h.exec(`
INSERT INTO messages (id, lane, incarnation, deadline, due_at,
  message_size, message_headers, message_key, message_value)
SELECT gen_random_uuid(), 'output', gen_random_uuid(), due, due, 100, '[]', 'key',
  convert_to(repeat('x', 100), 'UTF8')
FROM (SELECT $1::timestamptz + i * interval '1 us' AS due FROM generate_series(1, $2::integer) AS i) AS s
ON CONFLICT (id, lane) DO NOTHING`, now, batch)
		})
		timed("claim", func() { ids = h.claim(batch, mark, now.Add(time.Minute)) })
		if len(ids) != batch {
			b.Fatalf("%d messages claimed, want %d", len(ids), batch)
		}
		timed("expired", func() { h.exec(postgres.Statements()["expired"], mark, now, 100) })
		timed("delete", func() { h.exec("DELETE FROM messages WHERE id = ANY ($1)", ids) })
	}
	for b.Loop() {
		for range batches {
			cycle()
		}
	}
	medians := map[string]time.Duration{}
	for name, list := range took {
		slices.Sort(list)
		medians[name] = list[len(list)/2]
		b.ReportMetric(ms(medians[name]), name+"-ms")
	}
	b.ReportMetric(batch/(medians["claim"]+medians["delete"]).Seconds(), "fired/s")
	b.ReportMetric(0, "ns/op")
}

// slice measures a look at a stretch of the lane in which all are dead.
func (h *held) slice(b *testing.B, from time.Time, width time.Duration) {
	b.Helper()
	for b.Loop() {
		if ids := h.claim(500, from, from.Add(width)); len(ids) > 0 {
			b.Fatalf("%d of the dead were claimed", len(ids))
		}
	}
}

// BenchmarkHeldSnapshot compares the cycle among dead rows that a transaction keeps with the cycle on a fresh table
// beside it, in turns, with looks from the beginning of the indexes and from marks.
func BenchmarkHeldSnapshot(b *testing.B) {
	h, address := newHeld(b)
	beside, _ := newHeld(b)
	release := hold(b, address)
	for hours, killed := 0, 0; hours < len(strings.Split(*dead, ",")); hours++ {
		total, err := strconv.Atoi(strings.Split(*dead, ",")[hours])
		if err != nil {
			b.Fatalf("-dead: %v", err)
		}
		end := time.Now().Add(-time.Duration(hours) * time.Hour)
		h.kill(total-killed, end)
		killed = total
		name := fmt.Sprint("dead=", total, ",")
		for _, back := range []time.Duration{100 * time.Millisecond, time.Second} {
			b.Run(name+"fresh", func(b *testing.B) {
				beside.exec("TRUNCATE messages")
				beside.cycles(b, 20, 0)
			})
			b.Run(fmt.Sprint(name, "from ", back, " back"), func(b *testing.B) { h.cycles(b, 20, back) })
		}
		b.Run(name+"a slice of 10s", func(b *testing.B) { h.slice(b, end.Add(-time.Hour/2), 10*time.Second) })
		b.Run(name+"from the beginning", func(b *testing.B) { h.cycles(b, 1, 0) })
	}
	release()
	b.Run("released,from the beginning", func(b *testing.B) { h.cycles(b, 1, 0) })
}

// BenchmarkPositionsHeld takes in one partition again and again under a held snapshot, with its position in a row that
// is updated, and in rows of which each take adds one and deletes the one before. The turns before the measurement are
// made by the server alone.
//
//	go test -run NONE -bench PositionsHeld -benchtime 200x ./node/store/postgres
func BenchmarkPositionsHeld(b *testing.B) {
	turns := func(steps string, n int) string {
		return fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP %s COMMIT; END LOOP; END $$", n, steps)
	}
	const update = "UPDATE updated SET next_offset = next_offset + 1 WHERE topic_id = %[1]s AND partition = 0"
	const appendTurn = `
INSERT INTO positions SELECT topic_id, partition, turn + 1, epoch, next_offset + 1 FROM positions
  WHERE topic_id = %[1]s AND partition = 0 ORDER BY turn DESC LIMIT 1;
DELETE FROM positions WHERE (topic_id, partition, turn) = (SELECT topic_id, partition, turn - 1 FROM positions
  WHERE topic_id = %[1]s AND partition = 0 ORDER BY turn DESC LIMIT 1);`
	id := "'" + uuid.NewString() + "'::uuid"
	h, address := newHeld(b)
	h.exec(`CREATE TABLE updated (topic_id uuid, partition integer, next_offset bigint NOT NULL,
  PRIMARY KEY (topic_id, partition)) WITH (fillfactor = 50)`)
	h.exec("INSERT INTO partitions VALUES (" + id + ", 0, 'input')")
	h.exec("INSERT INTO positions VALUES (" + id + ", 0, 1, 0, 0)")
	h.exec("INSERT INTO updated VALUES (" + id + ", 0, 0)")
	measure := func(name string, step func()) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				step()
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(ms(took[len(took)/2]), "ms/take")
			b.ReportMetric(0, "ns/op")
		})
	}
	updated := func() { h.exec(fmt.Sprintf(update, id)) }
	appended := func() {
		h.exec("BEGIN")
		h.exec("SELECT FROM partitions WHERE topic_id = " + id + " AND partition = 0 FOR UPDATE")
		h.exec(fmt.Sprintf(strings.Split(appendTurn, ";")[0], id))
		h.exec(fmt.Sprintf(strings.Split(appendTurn, ";")[1], id))
		h.exec("COMMIT")
	}
	h.exec("SET synchronous_commit = off") // a flush would hide what is measured
	measure("updated,fresh", updated)
	measure("appended,fresh", appended)
	release := hold(b, address)
	defer release()
	for _, n := range []int{20_000, 40_000} {
		h.exec(turns(fmt.Sprintf(update, id)+";", n))
		measure(fmt.Sprintf("updated,%d more turns", n), updated)
	}
	for _, n := range []int{60_000, 300_000} {
		h.exec(turns(fmt.Sprintf(appendTurn, id), n))
		measure(fmt.Sprintf("appended,%d more turns", n), appended)
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
