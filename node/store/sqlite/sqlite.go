// Package sqlite keeps messages in a SQLite file, for one process that needs no database server.
//
// A store holds its file exclusively, so that a second process fails at once instead of sharing it by mistake. It has
// one connection and makes every call one transaction, written to the disk (WAL, synchronous=FULL) before the
// call returns: what was confirmed survives a crash of the process and of the machine. People who look at the store use
// that connection too, and wait for the node (looks.go).
//
// The schema is in the folder migrations/sqlite. Open does not create it.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"chronos/node"
)

// Options are what Open may be told. The zero value is good.
type Options struct {
	// Now is the clock by which claims expire. Nil: the wall clock.
	Now func() time.Time

	// Timeout is how long a call may take. Zero: the store timeout of node.Default. A disk that hangs can hold
	// a call up for longer, because the operating system cannot be told to give up a write.
	Timeout time.Duration

	// Report is told of a row that cannot be read, because somebody has changed it by hand. The row is skipped: it
	// stays claimed until the hold time has passed, and then comes up again, or until it is mended, if its claim cannot
	// be read either. It is called in a transaction, and must not call the store. Nil: nobody is told.
	Report func(error)
}

// Store is a node.Store in a SQLite file. It is safe for concurrent use; calls take turns.
type Store struct {
	db      *sql.DB
	path    string
	now     func() time.Time
	timeout time.Duration
	report  func(error)

	calls  sync.RWMutex // held for reading by every call, so that Close can wait for them
	closed bool

	looks looks

	mu       sync.Mutex
	prepared *statements // nil until the first call, because there are no tables before the migration
}

var _ node.Store = (*Store)(nil)

// openWait is how long Open waits for another process to let go of the file: a predecessor that is just ending.
const openWait = time.Second

// Open opens the SQLite file at path, or creates it, and takes hold of it for this process. When another process has
// it, the error says so in one sentence. The caller closes the store, and migrates it before the first call.
func Open(ctx context.Context, path string, options Options) (*Store, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Timeout == 0 {
		defaults := node.Default()
		options.Timeout = defaults.StoreTimeout()
	}
	if options.Report == nil {
		options.Report = func(error) {}
	}
	absolute, err := filepath.Abs(path)
	if err != nil || path == "" {
		return nil, fmt.Errorf("open SQLite file %q: there is no such path", path)
	}
	createPrivate(absolute)
	db, err := sql.Open("sqlite", dataSource(absolute))
	if err != nil {
		return nil, fmt.Errorf("open SQLite file %s: %w", path, err)
	}
	// A second connection would be locked out like another process. This one stays open, and keeps the lock.
	db.SetMaxOpenConns(1)

	s := &Store{
		db: db, path: path, now: options.Now, timeout: options.Timeout, report: options.Report, looks: newLooks(),
	}
	if err := s.takeHold(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// InUseError says that another process has the file.
type InUseError struct{ Path string }

// Error returns the sentence.
func (e *InUseError) Error() string {
	return fmt.Sprintf("the file %s is in use by another process", e.Path)
}

// createPrivate creates the file for its owner alone, unless it is there: SQLite's own files get the mode of that one,
// and all of them have what waits. Whatever fails here, opening it says why. One that is there is not touched: to close
// a file is to give up the locks that this process has on it.
func createPrivate(path string) {
	if file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		_ = file.Close() // nothing was written
	}
}

// OpenToRead opens the SQLite file at path for somebody who only looks at it. Nothing is created or changed. While a
// store has the file, each look fails. The caller closes it.
func OpenToRead(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open SQLite file %s: %w", path, errors.Unwrap(err))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open SQLite file %s: %w", path, err)
	}
	// Not mode=ro, with which a log that a crash has left could not be read.
	query := url.Values{
		"mode": {"rw"}, "_busy_timeout": {fmt.Sprint(openWait.Milliseconds())}, "_pragma": {"query_only(1)"},
		"_error_rc": {"true"},
	}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, fmt.Errorf("open SQLite file %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// dataSource returns the name under which the driver opens the file at an absolute path.
func dataSource(absolute string) string {
	query := url.Values{
		"_busy_timeout": {fmt.Sprint(openWait.Milliseconds())},
		"_dqs":          {"false"},
		"_error_rc":     {"true"},
		"_txlock":       {"immediate"},
		"_pragma": {
			"locking_mode(EXCLUSIVE)", // first, so that the file is never shared
			"journal_mode(WAL)",
			"synchronous(FULL)",
			"cache_size(-32768)",           // KiB, negative by SQLite's rule
			"journal_size_limit(67108864)", // bytes to which a log that has grown is cut
		},
	}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: query.Encode()}
	return file.String()
}

// takeHold opens the connection, makes sure that it is as asked, and takes the lock. A file that has nothing in it yet
// is not locked by being opened: only reading a page does that, and a first page has to be written before.
func (s *Store) takeHold(ctx context.Context) error {
	var mode string
	err := s.db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "BEGIN IMMEDIATE; PRAGMA application_id = 0x43487231; COMMIT")
	}
	switch {
	case isCode(err, codes.SQLITE_BUSY):
		return &InUseError{s.path}
	case isCode(err, codes.SQLITE_NOTADB):
		return fmt.Errorf("the file %s is not a SQLite database", s.path)
	case isCode(err, codes.SQLITE_CANTOPEN):
		return fmt.Errorf("the file %s cannot be opened: its folder must be there, and this user must be allowed to "+
			"write in it", s.path)
	case err != nil:
		return fmt.Errorf("open SQLite file %s: %w", s.path, err)
	case mode != "wal":
		return fmt.Errorf("open SQLite file %s: its journal mode is %s, not WAL", s.path, mode)
	}
	return nil
}

// DB returns the store's database, for migrations and for looking inside. It has one connection, which the calls of
// the store wait for: give it back soon.
func (s *Store) DB() *sql.DB { return s.db }

// Close lets go of the file when the calls that are running have ended. Later calls fail.
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	s.closed = true
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close SQLite file %s: %w", s.path, err)
	}
	return nil
}

// transaction is one call of the store.
type transaction struct {
	tx         *sql.Tx
	statements *statements
	used       map[*sql.Stmt]*sql.Stmt

	// now is the store's clock, read after the calls before it had ended.
	now time.Time
}

// transact runs work in a transaction, within the time limit. When work returns an error, nothing has happened; when
// the commit does, that is unknown.
func (s *Store) transact(ctx context.Context, work func(ctx context.Context, t *transaction) error) error {
	return s.inTurn(ctx, s.looks.called(), work)
}

// inTurn is transact; got is called when the connection has been got, or cannot be.
func (s *Store) inTurn(
	ctx context.Context, got func(), work func(ctx context.Context, t *transaction) error,
) (err error) {
	defer got()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer func() { err = s.explain(ctx, err) }()
	s.calls.RLock()
	defer s.calls.RUnlock()
	if s.closed {
		return fmt.Errorf("the store of file %s is closed", s.path)
	}

	prepared, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	got()
	t := &transaction{tx: tx, statements: prepared, used: map[*sql.Stmt]*sql.Stmt{}, now: instant(s.now())}
	if err := work(ctx, t); err != nil {
		if undone := tx.Rollback(); undone != nil && !errors.Is(undone, sql.ErrTxDone) {
			return errors.Join(err, undone)
		}
		return err
	}
	return tx.Commit()
}

// use returns a prepared statement for use in the transaction, which closes what is returned when it ends.
func (t *transaction) use(ctx context.Context, prepared *sql.Stmt) *sql.Stmt {
	if t.used[prepared] == nil {
		t.used[prepared] = t.tx.StmtContext(ctx, prepared)
	}
	return t.used[prepared]
}

// row asks for one row.
func (t *transaction) row(ctx context.Context, prepared *sql.Stmt, arguments ...any) *sql.Row {
	statement := t.use(ctx, prepared) //nolint:sqlclosecheck // the transaction does it
	return statement.QueryRowContext(ctx, arguments...)
}

// explain makes a sentence of an error whose own text misleads.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("%w: %w", ctx.Err(), err) // the driver says "interrupted" or "transaction done"
	case isCode(err, codes.SQLITE_BUSY):
		return fmt.Errorf("the file %s is in use by another process: %w", s.path, err)
	}
	return err
}

// isCode reports whether err is SQLite's error of that primary code.
func isCode(err error, code int) bool {
	var failure *driver.Error
	return errors.As(err, &failure) && failure.Code()&0xff == code
}

// instant returns t as the store keeps it.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
