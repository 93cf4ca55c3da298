package migrations_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"chronos/migrations"
)

// target is a kind of database to migrate.
type target struct {
	dialect migrations.Dialect

	// create makes an empty database and returns a way to open it, as often as wanted.
	create func(t *testing.T) (open func() *sql.DB)

	// tables counts what was created in the database.
	tables string

	// catalogue describes all that was created, one thing in each row.
	catalogue string
}

func targets() []target {
	return []target{
		{
			migrations.Postgres, createPostgres,
			`SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`,
			`
SELECT concat_ws(' ', 'table', relname, reloptions, obj_description(oid)) FROM pg_class
WHERE relnamespace = 'public'::regnamespace
UNION ALL
SELECT concat_ws(' ', 'column', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull,
  attcollation, attstorage, attcompression, col_description(attrelid, attnum)) FROM pg_attribute
WHERE attrelid IN (
  SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r') AND attnum > 0
UNION ALL
SELECT concat_ws(' ', 'index', pg_get_indexdef(indexrelid)) FROM pg_index
WHERE indrelid IN (
  SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r')
UNION ALL
SELECT concat_ws(' ', 'constraint', conname, pg_get_constraintdef(oid)) FROM pg_constraint
WHERE conrelid IN (
  SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r')
ORDER BY 1`,
		},
		{
			migrations.SQLite, createSQLite,
			`SELECT count(*) FROM sqlite_master`,
			`SELECT type || ' ' || replace(replace(replace(sql, char(10), ' '), char(9), ''), 'IF NOT EXISTS ', '')
FROM sqlite_master WHERE sql IS NOT NULL ORDER BY 1`,
		},
	}
}

func createPostgres(t *testing.T) func() *sql.DB {
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
	execute(t, openPostgres(t, server), "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	t.Cleanup(func() { execute(t, openPostgres(t, server), "DROP DATABASE "+name+" WITH (FORCE)") })
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/" + name
	return func() *sql.DB { return openPostgres(t, at.String()) }
}

func openPostgres(t *testing.T, address string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // whole scripts, as psql sends them
	db := stdlib.OpenDB(*config)
	closeAtEnd(t, db)
	return db
}

func createSQLite(t *testing.T) func() *sql.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chronos.db")
	return func() *sql.DB {
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, db)
		return db
	}
}

func closeAtEnd(t *testing.T, db *sql.DB) {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// each runs a test on every kind of database.
func each(t *testing.T, test func(t *testing.T, on target, open func() *sql.DB)) {
	t.Helper()
	for _, on := range targets() {
		t.Run(string(on.dialect), func(t *testing.T) { test(t, on, on.create(t)) })
	}
}

// An empty database is out of date, and finding that out leaves it empty. Up brings it up to date, once.
func TestUp(t *testing.T) {
	each(t, func(t *testing.T, on target, open func() *sql.DB) {
		db := open()
		status, err := migrations.Status(t.Context(), db, on.dialect)
		if err != nil {
			t.Fatal(err)
		}
		if len(status) == 0 {
			t.Fatal("there are no migrations")
		}
		for i, m := range status {
			if m.Version != int64(i+1) || m.Name == "" || m.Applied || !m.AppliedAt.IsZero() {
				t.Errorf("migration %d of an empty database: %+v", i, m)
			}
		}
		last := int64(len(status))
		var outOfDate *migrations.OutOfDateError
		err = migrations.Check(t.Context(), db, on.dialect)
		if !errors.As(err, &outOfDate) || *outOfDate != (migrations.OutOfDateError{Want: last}) {
			t.Fatalf("check of an empty database: %v", err)
		}
		for _, part := range []string{"empty", "chronos migrate up", "--migrate"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the sentence %q lacks %q", err, part)
			}
		}
		if n := number(t, db, on.tables); n != 0 {
			t.Fatalf("Status and Check have created %d things", n)
		}

		start := time.Now()
		applied, err := migrations.Up(t.Context(), db, on.dialect)
		if err != nil || int64(len(applied)) != last {
			t.Fatalf("up: %+v, error %v", applied, err)
		}
		if err := migrations.Check(t.Context(), db, on.dialect); err != nil {
			t.Errorf("check afterwards: %v", err)
		}
		if again, err := migrations.Up(t.Context(), db, on.dialect); err != nil || len(again) != 0 {
			t.Errorf("up again: %+v, error %v", again, err)
		}
		after, err := migrations.Status(t.Context(), db, on.dialect)
		if err != nil || int64(len(after)) != last {
			t.Fatalf("status: %+v, error %v", after, err)
		}
		for i, m := range after {
			if m.Name != status[i].Name || !m.Applied || applied[i].Version != m.Version || applied[i].Name != m.Name {
				t.Errorf("migration %d afterwards: %+v, applied was %+v", i, m, applied[i])
			}
			// SQLite notes whole seconds, and the server's clock is not this one.
			if m.AppliedAt.Before(start.Add(-time.Minute)) || m.AppliedAt.After(time.Now().Add(time.Minute)) ||
				m.AppliedAt.Location() != time.UTC {
				t.Errorf("migration %d was applied at %v, want about %v", i, m.AppliedAt, start)
			}
		}
	})
}

// Several nodes start at once and are told to migrate: each finds the schema complete, one has done it.
func TestUpAtOnce(t *testing.T) {
	each(t, func(t *testing.T, on target, open func() *sql.DB) {
		const nodes = 6
		var all sync.WaitGroup
		applied := make([]int, nodes)
		errs := make([]error, nodes)
		start := make(chan struct{})
		for i := range nodes {
			db := open()
			all.Go(func() {
				<-start
				done, err := migrations.Up(t.Context(), db, on.dialect)
				applied[i] = len(done)
				errs[i] = errors.Join(err, migrations.Check(t.Context(), db, on.dialect))
			})
		}
		close(start)
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		status, err := migrations.Status(t.Context(), open(), on.dialect)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range applied {
			sum += n
		}
		if sum != len(status) {
			t.Errorf("%d migrations were applied by %v", len(status), applied)
		}
	})
}

// The script makes what Up makes. Where the database's client stops at errors, a second time changes nothing.
func TestPrint(t *testing.T) {
	each(t, func(t *testing.T, on target, open func() *sql.DB) {
		var script bytes.Buffer
		if err := migrations.Print(&script, on.dialect); err != nil {
			t.Fatal(err)
		}
		db := open()
		execute(t, db, script.String())
		if err := migrations.Check(t.Context(), db, on.dialect); err != nil {
			t.Fatalf("check after the script: %v", err)
		}
		if applied, err := migrations.Up(t.Context(), db, on.dialect); err != nil || len(applied) != 0 {
			t.Errorf("up after the script: %+v, error %v", applied, err)
		}
		other := on.create(t)()
		if _, err := migrations.Up(t.Context(), other, on.dialect); err != nil {
			t.Fatal(err)
		}
		got, want := texts(t, db, on.catalogue), texts(t, other, on.catalogue)
		if len(want) < 4 || !slices.Equal(got, want) {
			t.Errorf("the script made\n%s\nand Up\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if on.dialect != migrations.Postgres {
			return
		}
		_, err := db.ExecContext(t.Context(), script.String())
		if err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("the script a second time: error %v, want one that says what is there already", err)
		}
		if again := texts(t, open(), on.catalogue); !slices.Equal(again, got) {
			t.Errorf("a second time it has changed %v to %v", got, again)
		}
		if n := number(t, open(), `SELECT count(*) FROM chronos_migrations WHERE version_id = 1`); n != 1 {
			t.Errorf("version 1 is noted %d times", n)
		}
	})
}

// A schema of the next release is accepted, by Check and by Up, which has nothing to do: that is how old nodes start
// again during an upgrade, and after a roll-back. It is not if a step is missing.
func TestNextVersion(t *testing.T) {
	each(t, func(t *testing.T, on target, open func() *sql.DB) {
		db := open()
		if _, err := migrations.Up(t.Context(), db, on.dialect); err != nil {
			t.Fatal(err)
		}
		status, err := migrations.Status(t.Context(), db, on.dialect)
		if err != nil {
			t.Fatal(err)
		}
		last := status[len(status)-1].Version
		execute(t, db, fmt.Sprintf("INSERT INTO chronos_migrations (version_id, is_applied) VALUES (%d, true)", last+1))
		if err := migrations.Check(t.Context(), db, on.dialect); err != nil {
			t.Errorf("check: %v", err)
		}
		if applied, err := migrations.Up(t.Context(), db, on.dialect); err != nil || len(applied) != 0 {
			t.Errorf("up: %v, error %v", applied, err)
		}
		execute(t, db, fmt.Sprintf("DELETE FROM chronos_migrations WHERE version_id = %d", last))
		var tooNew *migrations.TooNewError
		if err := migrations.Check(t.Context(), db, on.dialect); !errors.As(err, &tooNew) {
			t.Errorf("check without version %d: error %v", last, err)
		}
	})
}

// A schema of a later release is refused, by Check and by Up, with a sentence of its own.
func TestTooNew(t *testing.T) {
	each(t, func(t *testing.T, on target, open func() *sql.DB) {
		db := open()
		if _, err := migrations.Up(t.Context(), db, on.dialect); err != nil {
			t.Fatal(err)
		}
		status, err := migrations.Status(t.Context(), db, on.dialect)
		if err != nil {
			t.Fatal(err)
		}
		want := migrations.TooNewError{Have: 99, Want: int64(len(status))}
		execute(t, db, "INSERT INTO chronos_migrations (version_id, is_applied) VALUES (99, true)")
		_, upErr := migrations.Up(t.Context(), db, on.dialect)
		for _, err := range []error{migrations.Check(t.Context(), db, on.dialect), upErr} {
			var tooNew *migrations.TooNewError
			if !errors.As(err, &tooNew) || *tooNew != want || !strings.Contains(err.Error(), "version 99") {
				t.Errorf("a schema that is too new: error %v", err)
			}
		}
		if status, err = migrations.Status(t.Context(), db, on.dialect); err != nil ||
			status[len(status)-1].Version != 99 || status[len(status)-1].Name != "" {
			t.Errorf("status: %+v, error %v", status, err)
		}

		// The first one is missing, which is worse than being old: it is refused as out of date.
		execute(t, db, "DELETE FROM chronos_migrations WHERE version_id IN (1, 99)")
		var outOfDate *migrations.OutOfDateError
		if err := migrations.Check(t.Context(), db, on.dialect); !errors.As(err, &outOfDate) || outOfDate.Have != 0 {
			t.Errorf("a schema without its first migration: error %v", err)
		}
	})
}

// A server that does not answer says nothing about its schema.
func TestNoServer(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "postgres://nobody@" + listener.Addr().String() + "/none?sslmode=disable"
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	db := openPostgres(t, address)
	_, upErr := migrations.Up(t.Context(), db, migrations.Postgres)
	for _, err := range []error{migrations.Check(t.Context(), db, migrations.Postgres), upErr} {
		var outOfDate *migrations.OutOfDateError
		var tooNew *migrations.TooNewError
		if err == nil || errors.As(err, &outOfDate) || errors.As(err, &tooNew) {
			t.Errorf("no server: error %v, want another", err)
		}
	}
}

// A dialect that does not exist is an error, not an empty schema.
func TestUnknownDialect(t *testing.T) {
	db := openPostgres(t, "postgres://nobody@127.0.0.1/none")
	if err := migrations.Check(t.Context(), db, "oracle"); err == nil || !strings.Contains(err.Error(), "oracle") {
		t.Errorf("check: error %v", err)
	}
	if err := migrations.Print(&bytes.Buffer{}, "oracle"); err == nil {
		t.Error("print: no error")
	}
}

func execute(t *testing.T, db *sql.DB, script string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), script); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func texts(t *testing.T, db *sql.DB, query string) (list []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
