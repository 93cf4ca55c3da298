// Package migrations holds the schema of the SQL stores, as a list of steps for each kind of database, and takes a
// database from whatever step it is at to the last one.
//
// A step is a file NNNNN_name.sql in the folder of its dialect, in the form that goose reads: a line "-- +goose Up"
// and then plain SQL. It runs in one transaction, together with the note that it has run, so that it happens as a
// whole or not at all. A step that has been released is never changed again; what was wrong with it is put right
// by the next one. There are no steps back: the only way back from a table of messages is to drop them.
//
// Which steps have run is kept in the database itself, in the table chronos_migrations. Its name is not goose's own
// because an application may keep its tables, and its migrations, in the same database.
//
// Nothing here happens by itself. A node calls Check, which writes nothing, and refuses to start unless the schema
// is exactly the one it was built for. Up is for the command "chronos migrate up" and for nodes that are told to
// migrate. Print is for a person who is not allowed to run either and asks somebody who is.
//
// A release has one step at most, and the step leaves the statements of the release before it working. So nodes of both
// run side by side while they are replaced one by one, an old one that ends meanwhile may start again, and the way back
// is to start the old ones: a schema that is one version newer than the program is accepted. A step that can't be like
// that leaves a number out, so that older programs refuse to start, and makes their statements fail where they would
// do harm, because only a start checks; as version 2 does, since a node that knows no positions must not go on. (The
// releases up to version 2 refuse any schema that is newer.) cmd/chronos tests the step to the last version with nodes
// of the release before it.
package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed */*.sql
var files embed.FS

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Migration is one step of a schema.
type Migration struct {
	Version int64

	// Name is the file's name without version and ending; empty for a step that only a newer release knows.
	Name string

	// Applied says whether the database has it, AppliedAt since when.
	Applied   bool
	AppliedAt time.Time
}

// table is where a database notes which migrations it has.
const table = "chronos_migrations"

// OutOfDateError says that a database lacks migrations.
type OutOfDateError struct {
	// Have is the last version of the unbroken run of migrations that the database has, 0 for none. Want is the
	// last that this program knows.
	Have, Want int64
}

// Error returns the sentence for a person.
func (e *OutOfDateError) Error() string {
	have := fmt.Sprintf("at version %d", e.Have)
	if e.Have == 0 {
		have = "empty"
	}
	return fmt.Sprintf("the database schema is %s, but this chronos needs version %d: "+
		"run \"chronos migrate up\", or start with --migrate", have, e.Want)
}

// TooNewError says that a database has migrations that this program can't work with.
type TooNewError struct {
	// Have is the last version that the database has, Want the last that this program knows.
	Have, Want int64
}

// Error returns the sentence for a person.
func (e *TooNewError) Error() string {
	return fmt.Sprintf("the database schema is at version %d, but this chronos works with no version after %d: "+
		"a newer release has migrated it, so run that one", e.Have, e.Want+1)
}

// Up applies to db what it lacks and returns what it has applied, in order, also when it then fails. Any number of
// nodes may call it at once: one migrates, the others wait and find nothing left to do. On Postgres that takes
// a lock that belongs to the session, so db must lead to the server itself, not to a PgBouncer that
// hands out another session for every transaction. A SQLite file belongs to one process, which holds it: package sqlite
// sees to that, and here only the callers of that process are kept apart.
func Up(ctx context.Context, db *sql.DB, d Dialect) ([]Migration, error) {
	if d == SQLite {
		migrating.Lock()
		defer migrating.Unlock()
	}
	before, err := Status(ctx, db, d)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if err := compare(before); !isOutOfDate(err) {
		return nil, err
	}
	applied, err := up(ctx, db, d)
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

// migrating is held by the one caller of Up that migrates a SQLite file.
var migrating sync.Mutex

// Status returns all migrations that the program or the database knows, in order. It writes nothing.
func Status(ctx context.Context, db *sql.DB, d Dialect) ([]Migration, error) {
	known, err := list(d)
	if err != nil {
		return nil, err
	}
	applied, err := read(ctx, db, d)
	if err != nil {
		return nil, fmt.Errorf("read which migrations the database has: %w", err)
	}
	var status []Migration
	for _, m := range known {
		m.AppliedAt, m.Applied = applied[m.Version]
		delete(applied, m.Version)
		status = append(status, m.Migration)
	}
	for version, at := range applied {
		status = append(status, Migration{Version: version, Applied: true, AppliedAt: at})
	}
	slices.SortFunc(status, func(a, b Migration) int { return cmp.Compare(a.Version, b.Version) })
	return status, nil
}

// Check returns nil when db has the migrations that this program knows, and the next one at most, an *OutOfDateError
// when it lacks some, a *TooNewError when it has others, and any other error when that could not be found out. It
// writes nothing.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	status, err := Status(ctx, db, d)
	if err != nil {
		return err
	}
	return compare(status)
}

// Print writes the migrations of d as one script for the database's own client (psql, sqlite3), with which it does
// what Up does to an empty database. On Postgres a migration that the database has already is refused by an error
// and changes nothing, so the script brings older schemas up to date as well.
func Print(w io.Writer, d Dialect) error {
	known, err := list(d)
	if err != nil {
		return err
	}
	script, err := header(d)
	if err != nil {
		return err
	}
	for _, m := range known {
		text, err := fs.ReadFile(files, m.path)
		if err != nil {
			return fmt.Errorf("read migration %d: %w", m.Version, err)
		}
		script += fmt.Sprintf("\n-- Version %d, %s.\nBEGIN;\n", m.Version, m.Name)
		if d == Postgres {
			script += fmt.Sprintf(`SET LOCAL TIME ZONE 'UTC';
LOCK TABLE %[1]s;
DO $$ BEGIN
  IF EXISTS (SELECT FROM %[1]s WHERE version_id = %[2]d) THEN
    RAISE EXCEPTION 'this database has version %[2]d already: nothing is changed';
  END IF;
END $$;
`, table, m.Version)
		}
		_, sql, found := strings.Cut(string(text), "-- +goose Up\n")
		if !found {
			return fmt.Errorf("migration %d has no line \"-- +goose Up\"", m.Version)
		}
		script += strings.TrimSpace(sql)
		script += fmt.Sprintf("\nINSERT INTO %s (version_id, is_applied) VALUES (%d, true);\nCOMMIT;\n",
			table, m.Version)
	}
	if _, err := io.WriteString(w, script); err != nil {
		return fmt.Errorf("print migrations: %w", err)
	}
	return nil
}

// up applies what is missing with goose.
func up(ctx context.Context, db *sql.DB, d Dialect) ([]Migration, error) {
	provider, err := newProvider(db, d)
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	if partial, failed := errors.AsType[*goose.PartialError](err); failed {
		results = partial.Applied
	}
	applied := make([]Migration, len(results))
	for i, r := range results {
		applied[i] = Migration{Version: r.Source.Version, Name: name(r.Source.Path), Applied: true}
	}
	return applied, err
}

func newProvider(db *sql.DB, d Dialect) (*goose.Provider, error) {
	folder, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("open the migrations for %q: %w", d, err)
	}
	options := []goose.ProviderOption{
		goose.WithTableName(table), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
	}
	dialect := goose.DialectSQLite3
	if d == Postgres {
		dialect = goose.DialectPostgres
		locker, err := newSession()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(dialect, db, folder, options...)
}

// read returns the versions that db has and since when. Goose could tell too, but would create its table.
func read(ctx context.Context, db *sql.DB, d Dialect) (applied map[int64]time.Time, err error) {
	exists := `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?)`
	if d == Postgres {
		exists = `SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1)`
	}
	applied = map[int64]time.Time{}
	var found bool
	if err := db.QueryRowContext(ctx, exists, table).Scan(&found); err != nil || !found {
		return applied, err
	}
	rows, err := db.QueryContext(ctx,
		"SELECT version_id, is_applied, tstamp FROM "+table+" WHERE version_id > 0 ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var version int64
		var isApplied bool
		var at time.Time
		if err := rows.Scan(&version, &isApplied, &at); err != nil {
			return nil, err
		}
		if isApplied {
			applied[version] = at.UTC()
		} else {
			delete(applied, version)
		}
	}
	return applied, rows.Err()
}

// source is a migration that the program knows, and the file that it is in.
type source struct {
	Migration

	path string
}

// list returns the migrations that the program knows, in order, none of them applied.
func list(d Dialect) ([]source, error) {
	paths, err := fs.Glob(files, string(d)+"/*.sql")
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("there are no migrations for a database of the kind %q: %w", d, fs.ErrNotExist)
	}
	sources := make([]source, len(paths))
	for i, p := range paths {
		version, err := goose.NumericComponent(p)
		if err != nil {
			return nil, fmt.Errorf("read the version of %s: %w", p, err)
		}
		sources[i] = source{Migration{Version: version, Name: name(p)}, p}
	}
	slices.SortFunc(sources, func(a, b source) int { return cmp.Compare(a.Version, b.Version) })
	return sources, nil
}

// compare returns nil for a database that has all that is known, and at most the version after that.
func compare(status []Migration) error {
	var have, want int64
	broken, unknown := false, false
	for _, m := range status {
		switch {
		case m.Name == "":
			unknown = true
			have = m.Version
			continue
		case !m.Applied:
			broken = true
		case !broken:
			have = m.Version
		}
		want = m.Version
	}
	switch {
	case unknown && (broken || have > want+1):
		return &TooNewError{Have: have, Want: want}
	case broken:
		return &OutOfDateError{Have: have, Want: want}
	}
	return nil
}

func isOutOfDate(err error) bool {
	_, is := errors.AsType[*OutOfDateError](err)
	return is
}

// header returns the beginning of the script: it makes the table that goose would make, with goose's own statement.
func header(d Dialect) (string, error) {
	dialect := database.DialectSQLite3
	if d == Postgres {
		dialect = database.DialectPostgres
	}
	store, err := database.NewStore(dialect, table)
	if err != nil {
		return "", fmt.Errorf("print migrations: %w", err)
	}
	var r recorder
	if err := store.CreateVersionTable(context.Background(), &r); err != nil {
		return "", fmt.Errorf("print migrations: %w", err)
	}
	create := strings.ReplaceAll(strings.Replace(r.statement, "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1),
		"\n\t", "\n")
	return fmt.Sprintf(`-- The schema of Chronos, as "chronos migrate print" writes it.

%s;
INSERT INTO %[2]s (version_id, is_applied)
SELECT 0, true WHERE NOT EXISTS (SELECT 1 FROM %[2]s WHERE version_id = 0);
`, create, table), nil
}

// recorder takes a statement down instead of executing it.
type recorder struct {
	database.DBTxConn

	statement string
}

// ExecContext implements database.DBTxConn.
func (r *recorder) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	r.statement = query
	return nil, nil
}

// name returns the name of the migration in a file.
func name(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
	return name
}
