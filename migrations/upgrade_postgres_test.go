package migrations_test

import (
	"bytes"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"chronos/migrations"
)

// older makes a Postgres database as the first release has it.
func older(t *testing.T, db *sql.DB) {
	t.Helper()
	var script bytes.Buffer
	if err := migrations.Print(&script, migrations.Postgres); err != nil {
		t.Fatal(err)
	}
	first, _, found := strings.Cut(script.String(), "\n-- Version 2")
	if !found {
		t.Fatal("there is no second version")
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
	older(t, db)
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
			older(t, db)
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
