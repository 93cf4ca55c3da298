package transfer_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/migrations"
	"chronos/node/store/postgres"
	"chronos/node/store/sqlite"
	"chronos/node/store/transfer"
)

// patience is the time limit of calls that are to succeed, however busy the machine is.
const patience = time.Minute

// roundTrips is how often everything goes from server to server.
const roundTrips = 12

// server is a store in a new database of the test server.
type server struct {
	*postgres.Store

	db *sql.DB
}

func newServer(t *testing.T) *server {
	t.Helper()
	address := os.Getenv("CHRONOS_TEST_POSTGRES")
	switch {
	case address != "":
	case testing.Short():
		t.Skip("without CHRONOS_TEST_POSTGRES there is no server to test on")
	default:
		t.Fatal("set CHRONOS_TEST_POSTGRES or run make test")
	}
	root, err := postgres.OpenDB(address, postgres.Options{})
	check(t, err)
	name := "chronos_test_" + strings.ToLower(rand.Text())
	execute(t, root, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		execute(t, root, "DROP DATABASE "+name+" WITH (FORCE)")
		_ = root.Close()
	})
	at, err := url.Parse(address)
	check(t, err)
	at.Path = "/" + name
	s := &server{}
	s.db, err = postgres.OpenDB(at.String(), postgres.Options{})
	check(t, err)
	_, err = migrations.Up(t.Context(), s.db, migrations.Postgres)
	check(t, err)
	execute(t, s.db, "CREATE TABLE fresh AS TABLE store")
	execute(t, s.db, "CREATE TABLE fresh_queues AS TABLE queues")
	s.Store, err = postgres.Open(t.Context(), at.String(), postgres.Options{Timeout: patience})
	check(t, err)
	t.Cleanup(func() {
		s.Close()
		_ = s.db.Close()
	})
	return s
}

// empty makes the database a new one.
func (s *server) empty(t fataler) {
	t.Helper()
	execute(t, s.db, `SET synchronous_commit = off`)
	execute(t, s.db, `TRUNCATE messages, partitions, positions, store, pauses, answers, nodes, queues, queue_paths,
		tasks, actions`)
	execute(t, s.db, `INSERT INTO store TABLE fresh; INSERT INTO queues TABLE fresh_queues`)
}

func execute(t fataler, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// newFile returns a store in a new file.
func newFile(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "chronos.db"), sqlite.Options{Timeout: patience})
	check(t, err)
	t.Cleanup(func() { _ = store.Close() })
	_, err = migrations.Up(t.Context(), store.DB(), migrations.SQLite)
	check(t, err)
	return store
}

func emptyFile(t fataler, db *sql.DB) {
	t.Helper()
	for _, statement := range []string{
		"DELETE FROM messages", "DELETE FROM positions", "DELETE FROM pauses", "DELETE FROM answers",
		"DELETE FROM queue_paths", "DELETE FROM tasks", "DELETE FROM actions",
		"DELETE FROM queues WHERE name <> 'root'",
		"UPDATE queues SET arrivals = 0, pending = 0, running = 0, look_at = NULL",
		"UPDATE lineage SET number = 1, claims_from = -9223372036854775808",
		"UPDATE binding SET cluster = NULL, consumer_group = NULL, adopting = 0",
	} {
		execute(t, db, statement)
	}
}

// TestRoundTrip moves contents of every kind from Postgres to SQLite, and from there to Postgres. Goal: every field
// arrives, as the ports of the stores tell, and each lineage is above the one before. Only SQLite does not keep the
// records that messages were submitted by.
func TestRoundTrip(t *testing.T) {
	first, second, file := newServer(t), newServer(t), newFile(t)
	ctx := context.Background()
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		if checks++; checks > roundTrips {
			return // each of them waits for three servers and their disks; the rest is tried in memory
		}
		first.empty(t)
		second.empty(t)
		emptyFile(t, file.DB())
		e := drawEverything(t)
		_, err := first.Receive(ctx, e.batch())
		check(t, err)
		same(t, "the first database", of(t, first), e, true)
		lineage := e.lineage + 1
		source := transfer.Store(first)
		for i, target := range []transfer.Store{file, second} {
			out := exported(t, source)
			seal, err := transfer.Import(ctx, target, bytes.NewReader(out), "test", quiet)
			check(t, err)
			got := of(t, target)
			same(t, []string{"the file", "the second database"}[i], got, e, false)
			if lineage += 2; seal.Lineage != lineage || got.lineage != lineage {
				t.Fatalf("it is in lineage %d, and its seal says %d; want %d", got.lineage, seal.Lineage, lineage)
			}
			source = target
		}
		if state, err := first.Contents(ctx); err != nil || !state.Seal.Sealed() || !state.State.Holding {
			t.Fatalf("the first one is open: %+v %v", state, err)
		}
	})
}

// decided are the tables and columns of both schemas, and whether they are moved. Those that only one of them has are
// marked so. Who adds a column decides here: docs/adr/0023-a-store-that-moves-is-sealed.md has the reasons.
func decided() map[string]string {
	const moved, not = "moved", "not moved: "
	all := map[string]string{
		"messages.readied_at": not + "claims have expired", "messages.readied_by": not + "claims have expired",
		"messages.expires_at":   not + "claims have expired",
		"messages.message_size": not + "it follows from the content",
		"messages.part":         not + "who does not answer is found out anew",
		"positions.turn":        not + "it counts the versions of a row",
		"store.single":          not + "the one row", "lineage.row": not + "the one row",
		"binding.row": not + "the one row",
		"store.gate":  not + "an instant of the server", "lineage.claims_from": not + "an instant of the server",
		"store.calls_gate": not + "an instant of the server", "lineage.calls_from": not + "an instant of the server",
		"store.timeline": not + "the server's own",
		"store.adopting": not + "refused while it is true", "binding.adopting": not + "refused while it is true",
		"chronos_migrations": not + "chronos migrate makes it", "nodes": not + "they are processes that run",
	}
	for table, columns := range map[string]string{
		"messages": "id lane incarnation deadline due_at attempts message_headers message_key message_value " +
			"not_after bound former series sequence occurs_at stopped line behind source_topic source_partition " +
			"source_offset",
		"partitions": "topic_id partition topic mark",
		"positions":  "topic_id partition epoch next_offset topic mark",
		"store":      "cluster consumer_group lineage", "lineage": "number", "binding": "cluster consumer_group",
		"pauses": "lane since paused_by reason",
		"answers": "request print expires_at outcome id lane incarnation deadline former_deadline sequence " +
			"may_appear lineage",
		"queues": "id name kind open_window paths tags drain time_limit depth relief deleting arrivals pending " +
			"running relieved_at look_at",
		"queue_paths": "path queue",
		"tasks": "id queue name tags priority not_before execution inline promise arrival status reason run " +
			"arrived_at started_at ended_at fates",
		"actions": "id name tags content",
	} {
		for column := range strings.FieldsSeq(columns) {
			all[table+"."+column] = moved
		}
	}
	return all
}

// TestEveryColumnIsDecided asks both schemas for their columns. Goal: none is forgotten when a store is moved, because
// a migration that adds one fails here until somebody has decided.
func TestEveryColumnIsDecided(t *testing.T) {
	s := newServer(t)
	execute(t, s.db, "DROP TABLE fresh, fresh_queues")
	missing := decided()
	for _, asked := range []struct {
		db    *sql.DB
		query string
	}{
		{newFile(t).DB(), `SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
			WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`},
		{s.db, `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'`},
	} {
		for _, names := range columns(t, asked.db, asked.query) {
			table, column := names[0], names[1]
			_, whole := decided()[table]
			_, one := decided()[table+"."+column]
			if !whole && !one {
				t.Errorf("nobody has decided whether %s.%s is moved: transfer it, or say here why not", table, column)
			}
			delete(missing, table)
			delete(missing, table+"."+column)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no schema has %v any more", slices.Sorted(maps.Keys(missing)))
	}
}

// columns returns tables and columns.
func columns(t *testing.T, db *sql.DB, query string) (names [][2]string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	check(t, err)
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var name [2]string
		check(t, rows.Scan(&name[0], &name[1]))
		names = append(names, name)
	}
	check(t, rows.Err())
	return names
}
