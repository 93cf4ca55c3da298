package migrations_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"chronos/migrations"
)

// openOld returns a SQLite database as the release before positions has left it, with a first migration of that age.
func openOld(t *testing.T, age time.Duration) *sql.DB {
	t.Helper()
	var script bytes.Buffer
	if err := migrations.Print(&script, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	first, _, found := strings.Cut(script.String(), "\n-- Version 2,")
	if !found {
		t.Fatal("the script has no version 2")
	}
	db := createSQLite(t)()
	execute(t, db, first)
	execute(t, db, fmt.Sprintf("UPDATE chronos_migrations SET tstamp = datetime('now', '-%d seconds')",
		int(age.Seconds())))
	return db
}

// TestUpgradeSQLite brings a file with messages up to date. All of them are there with what they had; what may have
// been published counts as attempted, and claims, whose process has ended, have expired.
func TestUpgradeSQLite(t *testing.T) {
	db := openOld(t, 0)
	for _, row := range []string{
		"'waiting', 'a', x'01', unixepoch() * 1000000 + 3600000000, NULL, NULL",
		"'soon', 'b', x'02', unixepoch() * 1000000 + 30000000, NULL, NULL",
		"'overdue', 'b', x'03', -5, NULL, NULL",
		"'claimed', 'a', x'04', unixepoch() * 1000000 + 3600000000, 77, x'aa'",
	} {
		execute(t, db, `INSERT INTO hanger (id, topic, incarnation, deadline, readied_at, readied_by, due_at,
			message_key, message_headers) SELECT *, column4 + 1, x'6b6579', '[{"a":"b"}]' FROM (VALUES (`+row+`))`)
	}
	if _, err := migrations.Up(t.Context(), db, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"claimed a 04 1 77 aa 77 1", "overdue b 03 1 -   - 1", "soon b 02 1 -   - 1", "waiting a 01 1 -   - 0",
	}
	var got []string
	rows, err := db.QueryContext(t.Context(), `SELECT id || ' ' || lane || ' ' || hex(incarnation) || ' ' ||
		(due_at - deadline) || ' ' || coalesce(readied_at, '-') || ' ' || lower(coalesce(hex(readied_by), ' ')) ||
		' ' ||
		coalesce(expires_at, '-') || ' ' || attempts FROM messages
		WHERE message_key = x'6b6579' AND message_value IS NULL AND message_headers = '[{"a":"b"}]' ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if want[i] = strings.Join(strings.Fields(want[i]), " "); i < len(got) {
			got[i] = strings.Join(strings.Fields(got[i]), " ")
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the messages are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAdoptionSQLite checks which files wait for the adoption of what their consumer group has committed: those that an
// older release has used, be they empty at the moment, and no new ones.
func TestAdoptionSQLite(t *testing.T) {
	message := `INSERT INTO hanger (id, topic, incarnation, deadline, due_at, message_headers)
		VALUES ('a', 'b', x'01', 1, 1, '[]')`
	for _, c := range []struct {
		name string
		old  time.Duration
		fill string
		want bool
	}{
		{"new", 0, "", false},
		{"old and empty", time.Hour, "", true},
		{"young with a message", 0, message, true},
		{"old with a message", time.Hour, message, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openOld(t, c.old)
			execute(t, db, c.fill)
			if _, err := migrations.Up(t.Context(), db, migrations.SQLite); err != nil {
				t.Fatal(err)
			}
			var adopting bool
			var positions int
			err := db.QueryRowContext(t.Context(), "SELECT adopting, (SELECT count(*) FROM positions) FROM binding").
				Scan(&adopting, &positions)
			if err != nil || adopting != c.want || positions != 0 {
				t.Errorf("adopting: %v, %d positions, error %v, want adopting: %v", adopting, positions, err, c.want)
			}
		})
	}
}
