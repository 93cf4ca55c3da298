package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/memory"
	"chronos/node/store/postgres"
)

// patience is the time limit of calls that are to succeed, however busy the machine is.
const patience = 30 * time.Second

// newDatabase makes an empty database on the test server and returns its URL.
func newDatabase(t testing.TB) string {
	t.Helper()
	server := os.Getenv("CHRONOS_TEST_POSTGRES")
	switch {
	case server != "":
	case testing.Short():
		t.Skip("without CHRONOS_TEST_POSTGRES there is no server to test on")
	default:
		t.Fatal("set CHRONOS_TEST_POSTGRES or run make test")
	}
	name := "chronos_test_" + strings.ToLower(rand.Text())
	exec(t, server, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	t.Cleanup(func() { exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	at, err := url.Parse(server)
	if err != nil {
		t.Fatalf("CHRONOS_TEST_POSTGRES is not a URL: %v", err)
	}
	at.Path = "/" + name
	return at.String()
}

// newSchema makes a schema with the tables of Chronos in the database and returns the URL that leads to it. The script
// that is meant for people does what migrations.Up does, as the tests of package migrations show, in a fraction of the
// time. This session need not wait for the server's disk: what the test writes there later comes after it in the log.
func newSchema(t testing.TB, database string) string {
	t.Helper()
	name := "s" + strings.ToLower(rand.Text())
	var script strings.Builder
	if err := migrations.Print(&script, migrations.Postgres); err != nil {
		t.Fatal(err)
	}
	exec(t, database, "SET synchronous_commit = off; CREATE SCHEMA "+name+"; SET search_path = "+name+";\n"+
		script.String())
	return with(t, database, "search_path", name)
}

// with returns the URL with another parameter.
func with(t testing.TB, address, name, value string) string {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := at.Query()
	query.Set(name, value)
	at.RawQuery = query.Encode()
	return at.String()
}

// open opens a store that is closed when the test ends.
func open(t testing.TB, address string, options postgres.Options) *postgres.Store {
	t.Helper()
	if options.Timeout == 0 {
		options.Timeout = patience
	}
	return openHasty(t, address, postgres.Patient(options))
}

// openHasty opens a store that waits for locks as in production.
func openHasty(t testing.TB, address string, options postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// lock has a session lock messages and partitions, until unlock is called. It inserts what is not there.
func lock(t testing.TB, address string, locks memory.Locks) (unlock func()) {
	t.Helper()
	s := begin(t, address)
	for _, name := range locks.Messages {
		tag, err := s.tx.Exec(t.Context(), "SELECT FROM messages WHERE id = $1 AND lane = $2 FOR UPDATE",
			name.ID, name.Lane)
		if err != nil {
			t.Fatal(err)
		}
		if tag.RowsAffected() == 0 {
			s.Insert(node.Message{ID: name.ID, Lane: name.Lane, Deadline: time.Now()})
		}
	}
	for _, p := range locks.Partitions {
		s.exec("SELECT FROM partitions WHERE topic_id = $1 AND partition = $2 FOR UPDATE", p.TopicID, p.Number)
	}
	return s.Rollback
}

// connect opens a connection beside the store.
func connect(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// exec executes statements on a connection of their own, outside of a transaction if it is one.
func exec(t testing.TB, address, statements string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(context.Background(), statements, pgx.QueryExecModeSimpleProtocol)
	if err := errors.Join(err, conn.Close(context.Background())); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// dump returns all rows in the order of their ids, then lanes.
func dump(t testing.TB, conn *pgx.Conn) []memory.Row {
	t.Helper()
	rows, err := conn.Query(context.Background(), `
SELECT id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers::text, message_key, message_value,
  not_after, bound, former, series, sequence, occurs_at, stopped, line, behind, part
FROM messages ORDER BY id, lane`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(rows pgx.CollectableRow) (memory.Row, error) {
		var r memory.Row
		var readiedAt, expires, notAfter, at pgtype.Timestamptz
		var readiedBy, line pgtype.UUID
		var topic, series pgtype.Text
		var sequence pgtype.Int8
		var partition pgtype.Int4
		var offset pgtype.Int8
		var size int
		var text []byte
		err := rows.Scan(&r.ID, &r.Lane, &r.Incarnation, &r.Deadline, &r.Due, &readiedAt, &readiedBy,
			&expires, &r.Attempts, &topic, &partition, &offset, &size, &text, &r.Key, &r.Value,
			&notAfter, &r.Bound, &r.Former, &series, &sequence, &at, &r.Stopped, &line, &r.Behind, &r.Part)
		if err != nil {
			return r, err
		}
		r.Deadline, r.Due, r.Line = r.Deadline.UTC(), r.Due.UTC(), line.Bytes
		r.Origin = node.Origin{Topic: topic.String, Partition: partition.Int32, Offset: offset.Int64}
		if notAfter.Valid {
			r.NotAfter = notAfter.Time.UTC()
		}
		if series.Valid {
			r.Recurrence = node.Recurrence{Series: series.String, Sequence: sequence.Int64, At: at.Time.UTC()}
		}
		if readiedAt.Valid {
			r.ReadiedAt, r.ReadiedBy, r.Expires = readiedAt.Time.UTC(), readiedBy.Bytes, expires.Time.UTC()
		}
		r.Headers, err = headers.Decode(text)
		if size != r.Size() {
			t.Errorf("message_size of %q is %d, want %d", r.ID, size, r.Size())
		}
		return r, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// session is a transaction of another client, for the conformance suite.
type session struct {
	t     testing.TB
	tx    pgx.Tx
	watch *pgx.Conn
}

func begin(t testing.TB, address string) *session {
	t.Helper()
	tx, err := connect(t, address).Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return &session{t, tx, connect(t, address)}
}

// Insert implements storetest.Session.
func (s *session) Insert(m node.Message) {
	s.t.Helper()
	s.exec(`INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size, message_headers,
  message_key, message_value) VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8)`,
		m.ID, m.Lane, m.Incarnation, m.Deadline, m.Size(), string(headers.Encode(m.Headers)), m.Key, m.Value)
}

// Move implements storetest.Session.
func (s *session) Move(place node.Place) {
	s.t.Helper()
	var turn int64
	err := s.tx.QueryRow(context.Background(), `SELECT turn FROM positions WHERE topic_id = $1 AND partition = $2
ORDER BY turn DESC LIMIT 1`, place.TopicID, place.Number).Scan(&turn)
	if err != nil {
		s.t.Fatal(err)
	}
	s.exec(`SELECT FROM partitions WHERE topic_id = $1 AND partition = $2 FOR UPDATE`, place.TopicID, place.Number)
	s.exec(`INSERT INTO positions (topic_id, partition, turn, epoch, next_offset) VALUES ($1, $2, $3, $4, $5)`,
		place.TopicID, place.Number, turn+1, place.Epoch, place.Offset)
	s.exec(`DELETE FROM positions WHERE topic_id = $1 AND partition = $2 AND turn = $3`,
		place.TopicID, place.Number, turn)
}

// Delete implements storetest.Session.
func (s *session) Delete(ref node.Ref) {
	s.t.Helper()
	s.exec(`DELETE FROM messages WHERE id = $1 AND lane = $2 AND incarnation = $3`,
		ref.ID, ref.Lane, ref.Incarnation)
}

// Claim implements storetest.Session.
func (s *session) Claim(ref node.Ref, owner uuid.UUID) {
	s.t.Helper()
	s.exec(`UPDATE messages SET
  (readied_at, readied_by, expires_at) = (SELECT now, $4::uuid, now FROM clock_timestamp() AS now)
WHERE id = $1 AND lane = $2 AND incarnation = $3`, ref.ID, ref.Lane, ref.Incarnation, owner)
}

// Waiting implements storetest.Session.
func (s *session) Waiting() bool {
	s.t.Helper()
	return waiting(s.t, s.watch, s.tx.Conn())
}

// waiting reports whether a session waits for one of holder, as watch sees it.
func waiting(t testing.TB, watch, holder *pgx.Conn) (waits bool) {
	t.Helper()
	err := watch.QueryRow(context.Background(), `SELECT EXISTS (
  SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid))
) OR pg_sleep(0.002) IS NULL`, holder.PgConn().PID()).Scan(&waits)
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

// awaitWaiter returns when a session waits for one of holder.
func awaitWaiter(t testing.TB, watch, holder *pgx.Conn) {
	t.Helper()
	for end := time.Now().Add(patience); !waiting(t, watch, holder); {
		if time.Now().After(end) {
			t.Fatal("no session waits")
		}
	}
}

// Commit implements storetest.Session.
func (s *session) Commit() {
	s.t.Helper()
	if err := s.tx.Commit(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

// Rollback implements storetest.Session.
func (s *session) Rollback() {
	s.t.Helper()
	if err := s.tx.Rollback(context.Background()); err != nil {
		s.t.Fatal(err)
	}
}

// exec changes one row.
func (s *session) exec(statement string, arguments ...any) {
	s.t.Helper()
	tag, err := s.tx.Exec(context.Background(), statement, arguments...)
	if err != nil {
		s.t.Fatal(err)
	}
	if tag.RowsAffected() != 1 {
		s.t.Fatalf("%d rows changed, want 1: %s", tag.RowsAffected(), statement)
	}
}
