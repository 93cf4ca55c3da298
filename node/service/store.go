package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/credential"
	"chronos/node/store/postgres"
	"chronos/node/store/sqlite"
)

// Target is a store: a file of SQLite, a database of Postgres, or a journal in Kafka.
type Target struct {
	sqlite   string
	postgres *url.URL
	journal  *Journal

	password  func() string // reads it from a file; nil where the URL has it, or there is none
	origin    string        // the setting that says so
	pgBouncer bool          // what is at the URL pools transactions
	report    func(error)   // is told of rows that cannot be read; may be nil
}

// storeForms says what a store may be.
const storeForms = "it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE, sqlite:FILE or journal:TOPIC"

// Target returns the store. No error of it shows more of a URL than its scheme: there may be a password in it,
// anywhere if it is not well formed.
func (s *Settings) Target() (Target, error) {
	target, err := s.address()
	target.pgBouncer, target.origin = s.pgBouncer.on(), s.store.Origin
	return target, err
}

// address returns where the store is.
func (s *Settings) address() (Target, error) {
	if !s.store.IsSet {
		return Target{}, Usagef("--store is not set: %s", storeForms)
	}
	scheme, rest, _ := strings.Cut(s.store.Text, ":")
	switch {
	case scheme == "sqlite" && s.storePasswordFile.IsSet:
		return Target{}, Usagef(
			"%s is set, but %s is a SQLite file, which has no password", s.storePasswordFile.Origin, s.store.Origin)
	case scheme == "sqlite" && rest != "" && !strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, ":"):
		return Target{sqlite: rest}, nil
	case scheme == "sqlite":
		return Target{}, s.store.Wrong(
			"it must be sqlite:FILE, such as sqlite:chronos.db or sqlite:/var/lib/chronos.db")
	case scheme == "journal":
		return s.journal(rest)
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return s.postgres()
	case !strings.ContainsAny(s.store.Text, "@=:"):
		return Target{}, s.store.Wrong(storeForms)
	default:
		return Target{}, Usagef(
			"%s is not the URL of a store (it is not shown, there may be a password in it): %s",
			s.store.Origin, storeForms)
	}
}

// postgres returns the store that is a Postgres URL.
func (s *Settings) postgres() (Target, error) {
	address, err := url.Parse(s.store.Text)
	if err != nil {
		return Target{}, Usagef(
			"%s is not a well-formed URL (it is not shown, there may be a password in it): %s, "+
				"with special characters in the password written as %%XX", s.store.Origin, storeForms)
	}
	if !s.storePasswordFile.IsSet {
		return Target{postgres: address}, nil
	}
	if _, has := address.User.Password(); has {
		return Target{}, Usagef("%s is set, but there is a password in %s: only one of them may be set",
			s.storePasswordFile.Origin, s.store.Origin)
	}
	password, err := credential.New(s.keeper, s.storePasswordFile.fileSecret)
	if err != nil {
		return Target{}, err
	}
	return Target{postgres: address, password: password.Get}, nil
}

// String returns the store for a person, without its password.
func (t *Target) String() string {
	if t.journal != nil {
		return "journal:" + t.journal.named()
	}
	if t.postgres == nil {
		return "sqlite:" + t.sqlite
	}
	shown := *t.postgres
	query := shown.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
		}
	}
	shown.RawQuery = query.Encode()
	return shown.Redacted()
}

// File returns the file that the store is; "" for a server, or a journal.
func (t *Target) File() string { return t.sqlite }

// URL returns the address of a database server; nil for anything else. There may be a password in it.
func (t *Target) URL() *url.URL { return t.postgres }

// OpenToRead opens the database for somebody who only looks at it: nothing is created, and a file that is not there is
// an error. A server may be away. The caller closes it.
func (t *Target) OpenToRead() (*sql.DB, migrations.Dialect, error) {
	if t.journal != nil {
		return nil, "", errors.New("a journal in Kafka is no database")
	}
	if t.postgres == nil {
		db, err := sqlite.OpenToRead(t.sqlite)
		return db, t.dialect(), err
	}
	db, err := postgres.OpenDB(t.postgres.String(), postgres.Options{PgBouncer: t.pgBouncer, Password: t.password})
	if err != nil {
		return nil, t.dialect(), Usagef("%s: %v", t.origin, err)
	}
	return db, t.dialect(), nil
}

// InFile returns the store that is a file of SQLite.
func InFile(name string) Target { return Target{sqlite: name} }

// Dialect returns what kind of database the store is. It is Postgres where --store is not set.
func (s *Settings) Dialect() (migrations.Dialect, error) {
	if !s.store.IsSet {
		return migrations.Postgres, nil
	}
	target, err := s.Target()
	return target.dialect(), err
}

func (t *Target) dialect() migrations.Dialect {
	if t.postgres == nil {
		return migrations.SQLite
	}
	return migrations.Postgres
}

// Store is a store that was opened.
type Store struct {
	node.Store

	dialect migrations.Dialect
	journal *opened // nil for a database
	close   func() error

	// connect returns its database for a migration, and what closes that.
	connect func() (*sql.DB, func() error, error)
}

// Open opens the store. A Postgres server may be away: then its calls fail, until it is there. The limit is that of
// one call.
func (t *Target) Open(ctx context.Context, limit time.Duration) (*Store, error) {
	if t.journal != nil {
		return t.journal.open()
	}
	if t.postgres == nil {
		store, err := sqlite.Open(ctx, t.sqlite, sqlite.Options{Timeout: limit, Report: t.report})
		if err != nil {
			return nil, err
		}
		return &Store{store, t.dialect(), nil, store.Close, func() (*sql.DB, func() error, error) {
			return store.DB(), func() error { return nil }, nil
		}}, nil
	}
	address, options := t.postgres.String(), postgres.Options{
		Timeout: limit, PgBouncer: t.pgBouncer, Report: t.report,
		Password: t.password,
	}
	store, err := postgres.Open(ctx, address, options)
	if err != nil {
		return nil, Usagef("%s: %v", t.origin, err) // It is about the URL: nothing is connected yet.
	}
	return &Store{store, t.dialect(), nil, func() error {
		store.Close()
		return nil
	}, func() (*sql.DB, func() error, error) {
		db, err := postgres.OpenDB(address, options)
		if err != nil {
			return nil, nil, err
		}
		return db, db.Close, nil
	}}, nil
}

// OpenNow opens the store for a person who waits: it must answer now, whatever its schema is. A file of SQLite is made
// if there is none. The caller closes the store.
func (t *Target) OpenNow(ctx context.Context, limit time.Duration) (*Store, error) {
	store, _, err := t.openNow(ctx, limit)
	return store, err
}

// OpenAny is OpenNow for somebody who looks: a file must be there.
func (t *Target) OpenAny(ctx context.Context, limit time.Duration) (*Store, error) {
	if err := t.exists(); err != nil {
		return nil, err
	}
	return t.OpenNow(ctx, limit)
}

// OpenThere is OpenAny for a store that must have the schema that this program needs.
func (t *Target) OpenThere(ctx context.Context, limit time.Duration) (*Store, error) {
	if err := t.exists(); err != nil {
		return nil, err
	}
	store, schema, err := t.openNow(ctx, limit)
	if err == nil && schema != nil {
		return nil, errors.Join(schema, store.Close())
	}
	return store, err
}

// openNow opens the store, and returns what is wrong with its schema.
func (t *Target) openNow(ctx context.Context, limit time.Duration) (store *Store, schema, err error) {
	if store, err = t.Open(ctx, limit); err != nil {
		return nil, nil, err
	}
	answered, err := store.Check(ctx)
	if !answered {
		err = fmt.Errorf("reach the store %s: %s", t.String(), CauseHere(err))
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, err, nil
}

// exists returns an error if the store is a file that is not there: to look at it would make one.
func (t *Target) exists() error {
	if t.sqlite == "" {
		return nil
	}
	if _, err := os.Stat(t.sqlite); err != nil {
		return fmt.Errorf("there is no store %s: %w; \"chronos migrate up\" makes a new one", t.String(),
			cmp.Or(errors.Unwrap(err), err))
	}
	return nil
}

// CauseHere says in words why a call to Kafka or to a store failed, for a person whose own command has failed: what is
// not known is shown as it is, since there is no log that has more.
func CauseHere(err error) string {
	if text := cause(err); text != inLog {
		return text
	}
	return oneLine(err)
}

// Close closes the store.
func (s *Store) Close() error { return s.close() }

// Migrate brings the schema up to date, or creates the topic of a journal, and returns what it has applied.
func (s *Store) Migrate(ctx context.Context) (applied []migrations.Migration, err error) {
	if s.journal != nil {
		return s.journal.create(ctx)
	}
	err = s.migrating(func(db *sql.DB) error {
		applied, err = migrations.Up(ctx, db, s.dialect)
		return err
	})
	return applied, err
}

// Status returns all migrations, and whether the store has them. A journal has none.
func (s *Store) Status(ctx context.Context) (status []migrations.Migration, err error) {
	if s.journal != nil {
		return nil, nil
	}
	err = s.migrating(func(db *sql.DB) error {
		status, err = migrations.Status(ctx, db, s.dialect)
		return err
	})
	return status, err
}

// Check returns nil if the schema, or the topic of a journal, is the one that this program needs, and whether an error
// is the answer of the store, rather than that it does not answer.
func (s *Store) Check(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	if s.journal != nil {
		return s.journal.check(ctx)
	}
	err = s.migrating(func(db *sql.DB) error { return migrations.Check(ctx, db, s.dialect) })
	var old *migrations.OutOfDateError
	var young *migrations.TooNewError
	return err == nil || errors.As(err, &old) || errors.As(err, &young), err
}

// migrating calls use with the database. Its connections do not outlive that: a node needs them for a moment when it
// starts, and a server counts them for as long as they are open.
func (s *Store) migrating(use func(*sql.DB) error) error {
	db, done, err := s.connect()
	if err != nil {
		return err
	}
	return errors.Join(use(db), done())
}
