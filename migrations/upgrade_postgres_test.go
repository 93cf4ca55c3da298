package migrations_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"chronos/migrations"
)

// older makes a Postgres database as the release before a version has it.
func older(t *testing.T, db *sql.DB, version int) {
	t.Helper()
	var script bytes.Buffer
	if err := migrations.Print(&script, migrations.Postgres); err != nil {
		t.Fatal(err)
	}
	first, _, found := strings.Cut(script.String(), fmt.Sprintf("\n-- Version %d,", version))
	if !found {
		t.Fatalf("there is no version %d", version)
	}
	execute(t, db, first)
}

// upgrade brings it up to date.
func upgrade(t *testing.T, db *sql.DB) {
	t.Helper()
	applied, err := migrations.Up(t.Context(), db, migrations.Postgres)
	if err != nil || len(applied) == 0 || applied[0].Version != 2 {
		t.Fatalf("upgrade: %+v, error %v", applied, err)
	}
}

// What waits in the database of the first release goes on waiting, what is claimed stays so for a minute, and what may
// have been published counts as attempted. A node of that release fails at its next statement.
func TestUpgradePostgres(t *testing.T) {
	db := createPostgres(t)()
	older(t, db, 2)
	execute(t, db, `
INSERT INTO hanger (id, topic, incarnation, deadline, due_at, readied_at, readied_by, message_size, message_headers,
  message_key, message_value)
SELECT id, 'output', gen_random_uuid(), due, due, ready, CASE WHEN ready IS NOT NULL THEN gen_random_uuid() END,
  10, '[{"name": "value"}]', 'k', 'v'
FROM (VALUES ('later', now() + interval '1 day', NULL), ('soon', now() + interval '10 s', NULL),
  ('claimed', now() + interval '1 day', now())) AS m (id, due, ready)`)
	before := texts(t, db, `SELECT md5(concat_ws('|', id, topic, incarnation, deadline, due_at, readied_at, readied_by,
  message_size, message_headers, message_key, message_value)) FROM hanger ORDER BY 1`)
	upgrade(t, db)

	after := texts(t, db, `SELECT md5(concat_ws('|', id, lane, incarnation, deadline, due_at, readied_at, readied_by,
  message_size, message_headers, message_key, message_value)) FROM messages ORDER BY 1`)
	if strings.Join(after, " ") != strings.Join(before, " ") || len(after) != 3 {
		t.Errorf("the messages have changed from %v to %v", before, after)
	}
	got := texts(t, db, `SELECT concat_ws(' ', id, attempts, coalesce(source_topic, 'from anywhere'),
  CASE WHEN expires_at BETWEEN now() AND now() + interval '1 minute' THEN 'held' ELSE expires_at::text END)
FROM messages ORDER BY id`)
	want := []string{"claimed 1 from anywhere held", "later 0 from anywhere", "soon 1 from anywhere"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err := db.ExecContext(t.Context(), "UPDATE hanger SET readied_at = now() WHERE id = 'later'")
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != "42P01" {
		t.Errorf("a statement of the first release: error %v, want one that there is no such table", err)
	}
}

// The database of a deployment adopts what its consumer group has committed, also if it is empty or never held
// anything. A new one must not.
func TestAdoptionPostgres(t *testing.T) {
	const insert = `INSERT INTO hanger (id, topic, incarnation, deadline, due_at, message_size, message_headers)
VALUES ('a', 'output', gen_random_uuid(), now(), now(), 0, '[]');`
	for _, c := range []struct {
		name, statements string
		adopts           string
	}{
		{"new", "", "false"},
		{"with a message", insert, "true"},
		{"with a message that has fired", insert + "DELETE FROM hanger", "true"},
		{"of yesterday", "UPDATE chronos_migrations SET tstamp = tstamp - interval '1 day'", "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := createPostgres(t)()
			older(t, db, 2)
			if c.statements != "" {
				execute(t, db, c.statements)
				execute(t, db, "VACUUM hanger")
			}
			upgrade(t, db)
			if got := texts(t, db, "SELECT adopting::text FROM store"); len(got) != 1 || got[0] != c.adopts {
				t.Errorf("adopting is %v, want %s", got, c.adopts)
			}
		})
	}
}

// The step to version 4 writes no row, and gives up soon where something is in its way. Then the statements of version
// 3 go on: what they store is not bound, and what is bound they leave so.
func TestUpgradeForControl(t *testing.T) {
	db := createPostgres(t)()
	older(t, db, 4)
	// insert, claim and reset are those of the release before.
	const insert = `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers, message_key, message_value)
SELECT u.id, 'output', gen_random_uuid(), now(), now(), NULL, NULL, NULL, 0, 'input', 1, 1, 1, '[]', 'k', NULL
FROM unnest($1::text[]) AS u (id)`
	const claim = `
UPDATE messages SET attempts = attempts + 1, (readied_at, readied_by, expires_at) = (now(), gen_random_uuid(), now())`
	const reset = `
UPDATE messages SET readied_at = NULL, readied_by = NULL, expires_at = NULL,
  (due_at, attempts) = (SELECT due_at, attempts - 1)`
	const old = `SELECT md5(concat_ws('|', id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at,
  attempts, source_topic, source_partition, source_offset, message_size, message_headers, message_key)) FROM messages
ORDER BY id`
	const file = "SELECT pg_relation_filenode('messages')::text"
	run := func(statement string, arguments ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, arguments...); err != nil {
			t.Fatal(err)
		}
	}
	run(insert, []string{"a", "b"})
	run(claim + " WHERE id = 'b'")
	before, at := texts(t, db, old), texts(t, db, file)

	dump, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dump.ExecContext(t.Context(), "LOCK TABLE messages IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	var answer *pgconn.PgError
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	if !errors.As(err, &answer) || answer.Code != "55P03" || !strings.Contains(err.Error(), "backup") {
		t.Errorf("beside a long transaction: error %v, want one that says so", err)
	}
	run(insert, []string{"c"})
	run("DELETE FROM messages WHERE id = 'c'")
	if err := dump.Rollback(); err != nil {
		t.Fatal(err)
	}
	applied, err := migrations.Up(t.Context(), db, migrations.Postgres)
	if err != nil || len(applied) == 0 || applied[0].Version != 4 {
		t.Fatalf("upgrade: %+v, error %v", applied, err)
	}
	if got := texts(t, db, old); strings.Join(got, " ") != strings.Join(before, " ") || len(got) != 2 {
		t.Errorf("the messages have changed from %v to %v", before, got)
	}
	if got := texts(t, db, file); got[0] != at[0] {
		t.Errorf("the table is in file %s, and was in %s: it was written anew", got, at)
	}
	run(insert, []string{"d"})
	run("UPDATE messages SET bound = true, not_after = now() WHERE id = 'b'")
	run(reset + " WHERE id = 'b'")
	run(claim)
	run(reset)
	got := texts(t, db,
		"SELECT concat_ws(' ', id, bound, former, not_after IS NULL, attempts) FROM messages ORDER BY id")
	want := []string{"a f f t 0", "b t f f 0", "d f f t 0"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The step to version 5 adds a table, and touches no other: it waits for nobody, and nothing of what was there changes.
func TestUpgradeForAnswers(t *testing.T) {
	db := createPostgres(t)()
	older(t, db, 5)
	const files = `SELECT concat_ws(' ', relname, relfilenode) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relname !~ '^(answers|chronos_migrations)' ORDER BY 1`
	before := texts(t, db, files)
	busy, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"messages", "partitions", "positions", "store", "pauses", "nodes"} {
		if _, err := busy.ExecContext(t.Context(), "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	// The next step would wait for the table: it is given up, and this one is not.
	applied, _ := migrations.Up(t.Context(), db, migrations.Postgres)
	if len(applied) != 1 || applied[0].Version != 5 || !applied[0].Applied {
		t.Fatalf("upgrade: %+v", applied)
	}
	if err := busy.Rollback(); err != nil {
		t.Fatal(err)
	}
	if after := texts(t, db, files); strings.Join(after, "\n") != strings.Join(before, "\n") || len(after) < 6 {
		t.Errorf("the tables were %q and are %q", before, after)
	}
	if n := texts(t, db, "SELECT count(*)::text FROM answers"); n[0] != "0" {
		t.Errorf("there are %s answers", n[0])
	}
}

// The step to version 6 writes no row, and gives up soon where something is in its way. What is there stands in no
// line.
func TestUpgradeForLines(t *testing.T) {
	db := createPostgres(t)()
	older(t, db, 6)
	execute(t, db, `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size, message_headers)
SELECT i::text, 'http:out', gen_random_uuid(), now(), now(), 0, '[]' FROM generate_series(1, 3) AS i`)
	const file = "SELECT pg_relation_filenode('messages')::text"
	before := texts(t, db, file)
	dump, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dump.ExecContext(t.Context(), "LOCK TABLE messages IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	var answer *pgconn.PgError
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	if !errors.As(err, &answer) || answer.Code != "55P03" || !strings.Contains(err.Error(), "backup") {
		t.Errorf("beside a long transaction: error %v, want one that says so", err)
	}
	if err := dump.Rollback(); err != nil {
		t.Fatal(err)
	}
	applied, err := migrations.Up(t.Context(), db, migrations.Postgres)
	if err != nil || len(applied) == 0 || applied[0].Version != 6 {
		t.Fatalf("upgrade: %+v, error %v", applied, err)
	}
	got := texts(t, db, "SELECT concat_ws(' ', id, line IS NULL, behind) FROM messages ORDER BY id")
	if want := "1 t f, 2 t f, 3 t f"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if after := texts(t, db, file); after[0] != before[0] {
		t.Errorf("the table is in file %s, and was in %s: it was written anew", after, before)
	}
}

// The step to version 7 makes tables, and changes none that is there: it waits for nobody who uses them. The queue root
// is there after it.
func TestUpgradeForQueues(t *testing.T) {
	db := createPostgres(t)()
	older(t, db, 7)
	execute(t, db, `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size, message_headers)
SELECT i::text, 'http:out', gen_random_uuid(), now(), now(), 0, '[]' FROM generate_series(1, 3) AS i`)
	busy, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := busy.ExecContext(t.Context(), "LOCK TABLE messages IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	// The next step would wait for the table: it is given up, and this one is not.
	applied, _ := migrations.Up(t.Context(), db, migrations.Postgres)
	if len(applied) != 1 || applied[0].Version != 7 || !applied[0].Applied {
		t.Fatalf("upgrade: %+v", applied)
	}
	if err := busy.Rollback(); err != nil {
		t.Fatal(err)
	}
	got := texts(t, db, "SELECT concat_ws(' ', name, kind, open_window, pending, running) FROM queues")
	if strings.Join(got, ", ") != "root async always 0 0" {
		t.Errorf("the queues are %q", got)
	}
	if n := texts(t, db, "SELECT count(*)::text FROM messages"); n[0] != "3" {
		t.Errorf("%s messages are left", n[0])
	}
}

// The step to version 8 writes the paths that an import has left out, and has what waits in such queues looked after.
// It sees what those have done who were defining queues when it began, and leaves alone what nothing is missing of.
func TestUpgradeForPaths(t *testing.T) {
	open := createPostgres(t)
	db := open()
	older(t, db, 8)
	execute(t, db, `
INSERT INTO queues (id, name, kind, open_window, paths, tags, drain, time_limit, depth, pending, look_at)
SELECT gen_random_uuid(), name, 'sync', 'never', paths, '{}', false, 1, 0, pending, look
FROM (VALUES ('outer', '{/apps}'::text[], 0, NULL::timestamptz), ('inner', '{/apps/mail,/z}', 1, NULL),
  ('later', '{/apps/later}', 1, '2100-01-01'), ('half', '{/half,/whole}', 1, NULL), ('whole', '{/whole}', 1, NULL),
  ('nowhere', '{}', 1, NULL), ('moved', '{/from}', 0, NULL)) AS q (name, paths, pending, look);
INSERT INTO queue_paths SELECT path, id FROM queues CROSS JOIN LATERAL unnest(paths) AS p (path)
WHERE path IN ('/whole', '/from')`)
	definer, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var holder int
	for _, statement := range []string{
		"LOCK TABLE queue_paths IN SHARE ROW EXCLUSIVE MODE",
		"UPDATE queues SET paths = '{/to}' WHERE name = 'moved'",
		"DELETE FROM queue_paths WHERE path = '/from'",
		"INSERT INTO queue_paths SELECT '/to', id FROM queues WHERE name = 'moved'",
	} {
		if _, err := definer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := definer.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&holder); err != nil {
		t.Fatal(err)
	}
	var applied []migrations.Migration
	var failed error
	var group sync.WaitGroup
	beside := open()
	group.Go(func() { applied, failed = migrations.Up(t.Context(), beside, migrations.Postgres) })
	awaitWaiter(t, open(), holder)
	if err := definer.Commit(); err != nil {
		t.Fatal(err)
	}
	if group.Wait(); failed != nil || len(applied) == 0 || applied[0].Version != 8 {
		t.Fatalf("upgrade: %+v, error %v", applied, failed)
	}
	got := texts(t, db, `SELECT concat_ws(' ', q.name, p.path) FROM queue_paths AS p JOIN queues AS q ON q.id = p.queue
ORDER BY 1`)
	want := []string{
		"half /half", "half /whole", "inner /apps/mail", "inner /z", "later /apps/later", "moved /to", "outer /apps",
		"whole /whole",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the queues lie at %q, want %q", got, want)
	}
	got = texts(t, db, "SELECT name FROM queues WHERE look_at <= now() ORDER BY 1")
	if strings.Join(got, ", ") != "half, inner, later" {
		t.Errorf("these are looked after: %q", got)
	}
}

// The step to version 8 writes no row of a message, and gives up soon where something is in its way. What is there is
// parked nowhere, and is in the order of lanes and parts.
func TestUpgradeForParts(t *testing.T) {
	db := createPostgres(t)()
	older(t, db, 8)
	execute(t, db, `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size, message_headers)
SELECT i::text, 'out', gen_random_uuid(), now(), now(), 0, '[]' FROM generate_series(1, 3) AS i`)
	const file = "SELECT pg_relation_filenode('messages')::text"
	before := texts(t, db, file)
	dump, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dump.ExecContext(t.Context(), "LOCK TABLE messages IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	var answer *pgconn.PgError
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	if !errors.As(err, &answer) || answer.Code != "55P03" || !strings.Contains(err.Error(), "backup") {
		t.Errorf("beside a long transaction: error %v, want one that says so", err)
	}
	if err := dump.Rollback(); err != nil {
		t.Fatal(err)
	}
	applied, err := migrations.Up(t.Context(), db, migrations.Postgres)
	if err != nil || len(applied) != 1 || applied[0].Version != 8 {
		t.Fatalf("upgrade: %+v, error %v", applied, err)
	}
	got := texts(t, db, "SELECT id FROM messages WHERE part = '' ORDER BY id")
	if strings.Join(got, ", ") != "1, 2, 3" {
		t.Errorf("parked nowhere are %q", got)
	}
	if after := texts(t, db, file); after[0] != before[0] {
		t.Errorf("the table is in file %s, and was in %s: it was written anew", after, before)
	}
	got = texts(t, db, "SELECT pg_get_indexdef('messages_waiting'::regclass)")
	if !strings.Contains(got[0], "(lane, part, due_at, id) WHERE (readied_at IS NULL)") {
		t.Errorf("the index is %s", got[0])
	}
}

// awaitWaiter returns when a session waits for the one of a process.
func awaitWaiter(t *testing.T, db *sql.DB, holder int) {
	t.Helper()
	query := fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))`, holder)
	for end := time.Now().Add(time.Minute); number(t, db, query) == 0; {
		if time.Now().After(end) {
			t.Fatal("no session waits")
		}
	}
}

// A step waits for what is in its way, and writes, whatever limits the role or the database has for its sessions; and a
// session that goes on to be used has them again. Method: limits that end a statement at once, and a lock to wait for.
func TestLimitsAreLifted(t *testing.T) {
	open := createPostgres(t)
	db := open()
	older(t, db, 8)
	holding, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var holder int
	if err := holding.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&holder); err != nil {
		t.Fatal(err)
	}
	if _, err := holding.ExecContext(t.Context(), "LOCK TABLE queue_paths IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	execute(t, open(), `DO $$ BEGIN
  EXECUTE format('ALTER DATABASE %I SET lock_timeout = 1', current_database());
  EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
END $$`)
	limited := open()
	limited.SetMaxOpenConns(1)
	var applied []migrations.Migration
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		applied, failed = migrations.Up(t.Context(), limited, migrations.Postgres)
	}()
	waits := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))", holder)
	for ended := false; !ended && number(t, db, waits) == 0; {
		select {
		case <-done:
			ended = true
		default:
		}
	}
	if err := holding.Commit(); err != nil {
		t.Fatal(err)
	}
	if <-done; failed != nil || len(applied) == 0 {
		t.Fatalf("upgrade: %+v, error %v", applied, failed)
	}
	if got := texts(t, limited, "SHOW lock_timeout"); got[0] != "1ms" {
		t.Errorf("lock_timeout is %s afterwards", got[0])
	}
}
