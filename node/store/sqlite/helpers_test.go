package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/memory"
	"chronos/node/store/sqlite"
)

func file(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "chronos.db")
}

// open opens a store, brings its schema up to date, and closes it when the test ends.
func open(t testing.TB, path string, options sqlite.Options) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	migrate(t, store.DB())
	return store
}

func migrate(t testing.TB, db *sql.DB) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), db, migrations.SQLite); err != nil {
		t.Fatal(err)
	}
}

// message returns a message that is long due.
func message(id string) node.Message {
	return node.Message{
		ID: id, Lane: "output", Incarnation: uuid.New(), Deadline: time.Unix(0, 0).UTC(), Value: []byte(id),
	}
}

// input is where the messages of a test come from.
var input = node.Place{Partition: node.Partition{Topic: "input", TopicID: uuid.UUID{7}}}

// item is a message on its way in.
type item struct {
	node.Message

	claim bool
}

// insert stores messages, all of which are new.
func insert(t testing.TB, store *sqlite.Store, messages ...item) []node.ItemResult {
	t.Helper()
	positions, _, err := store.Positions(t.Context(), []node.Place{input})
	if err != nil {
		t.Fatal(err)
	}
	result, err := take(t.Context(), store, positions[0].Offset, messages...)
	if err != nil || result.Taken != len(messages) {
		t.Fatalf("taking %d messages in: %+v, error %v", len(messages), result, err)
	}
	for i, done := range result.Results {
		if done.Outcome != node.Scheduled {
			t.Fatalf("taking %q in: %+v", messages[i].ID, done)
		}
	}
	return result.Results
}

// take takes messages in as the records from an offset on.
func take(ctx context.Context, store *sqlite.Store, offset int64, messages ...item) (node.TakeResult, error) {
	from := input
	from.Offset = offset
	request := node.TakeRequest{Node: uuid.UUID{1}, Hold: time.Minute, From: []node.Place{from}}
	for i, m := range messages {
		request.Items = append(request.Items, node.Item{
			Offset: offset + int64(i), Action: node.Schedule, Message: m.Message, Claim: m.claim,
		})
	}
	return store.Take(ctx, request)
}

// execute does something to the file that the store does not.
func execute(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), text); err != nil {
		t.Fatal(err)
	}
}

func closing(t testing.TB, rows *sql.Rows) {
	t.Helper()
	if err := rows.Close(); err != nil {
		t.Error(err)
	}
}

// dump reads all rows.
func dump(t testing.TB, db *sql.DB) []memory.Row {
	t.Helper()
	result, err := db.QueryContext(context.Background(), `SELECT id, lane, incarnation, deadline, due_at,
		readied_at, readied_by, expires_at, attempts,
		not_after, series, sequence, occurs_at, bound, former, stopped, message_key, message_key IS NULL,
		message_value, message_value IS NULL,
		message_headers, line, behind, part FROM messages ORDER BY id, lane`)
	if err != nil {
		t.Fatal(err)
	}
	defer closing(t, result)
	var rows []memory.Row
	for result.Next() {
		var r memory.Row
		var deadline, due int64
		var readiedAt, expires, notAfter, sequence, at sql.NullInt64
		var series sql.NullString
		var noKey, noValue bool
		var list []byte
		var line uuid.NullUUID
		if err := result.Scan(&r.ID, &r.Lane, &r.Incarnation, &deadline, &due, &readiedAt, &r.ReadiedBy,
			&expires, &r.Attempts,
			&notAfter, &series, &sequence, &at, &r.Bound, &r.Former, &r.Stopped,
			&r.Key, &noKey, &r.Value, &noValue, &list, &line, &r.Behind, &r.Part); err != nil {
			t.Fatal(err)
		}
		r.Deadline, r.Due, r.Line = time.UnixMicro(deadline).UTC(), time.UnixMicro(due).UTC(), line.UUID
		if readiedAt.Valid {
			r.ReadiedAt = time.UnixMicro(readiedAt.Int64).UTC()
			r.Expires = time.UnixMicro(expires.Int64).UTC()
		}
		if notAfter.Valid {
			r.NotAfter = time.UnixMicro(notAfter.Int64).UTC()
		}
		if series.Valid || sequence.Valid || at.Valid {
			r.Recurrence = node.Recurrence{
				Series: series.String, Sequence: sequence.Int64, At: time.UnixMicro(at.Int64).UTC(),
			}
		}
		if r.Key == nil && !noKey {
			r.Key = []byte{}
		}
		if r.Value == nil && !noValue {
			r.Value = []byte{}
		}
		if r.Headers, err = headers.Decode(list); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}
