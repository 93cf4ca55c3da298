package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"time"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/postgres"
	"chronos/node/store/sqlite"
)

// storeTarget is a store: a file of SQLite, or a database of Postgres.
type storeTarget struct {
	sqlite   string
	postgres *url.URL

	origin    string      // the setting that says so
	pgBouncer bool        // what is at the URL pools transactions
	report    func(error) // is told of rows that cannot be read; may be nil
}

// storeForms says what a store may be.
const storeForms = "it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:FILE"

// target returns the store. No error of it shows more of a URL than its scheme: there may be a password in it,
// anywhere if it is not well formed.
func (s *storeSettings) target() (storeTarget, error) {
	pgBouncer, err := s.PgBouncer.value()
	if err != nil {
		return storeTarget{}, err
	}
	target, err := s.address()
	target.pgBouncer, target.origin = pgBouncer, s.Store.origin
	return target, err
}

// address returns where the store is.
func (s *storeSettings) address() (storeTarget, error) {
	if !s.Store.isSet {
		return storeTarget{}, usagef("--store is not set: %s", storeForms)
	}
	scheme, rest, _ := strings.Cut(s.Store.text, ":")
	switch {
	case scheme == "sqlite" && s.StorePasswordFile.isSet:
		return storeTarget{}, usagef(
			"%s is set, but %s is a SQLite file, which has no password", s.StorePasswordFile.origin, s.Store.origin)
	case scheme == "sqlite" && rest != "" && !strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, ":"):
		return storeTarget{sqlite: rest}, nil
	case scheme == "sqlite":
		return storeTarget{}, s.Store.wrong(
			"it must be sqlite:FILE, such as sqlite:chronos.db or sqlite:/var/lib/chronos.db")
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return s.postgres()
	case !strings.ContainsAny(s.Store.text, "@=:"):
		return storeTarget{}, s.Store.wrong(storeForms)
	default:
		return storeTarget{}, usagef(
			"%s is not the URL of a store (it is not shown, there may be a password in it): %s",
			s.Store.origin, storeForms)
	}
}

// postgres returns the store that is a Postgres URL.
func (s *storeSettings) postgres() (storeTarget, error) {
	address, err := url.Parse(s.Store.text)
	if err != nil {
		return storeTarget{}, usagef(
			"%s is not a well-formed URL (it is not shown, there may be a password in it): %s, "+
				"with special characters in the password written as %%XX", s.Store.origin, storeForms)
	}
	if !s.StorePasswordFile.isSet {
		return storeTarget{postgres: address}, nil
	}
	if _, has := address.User.Password(); has {
		return storeTarget{}, usagef("%s is set, but there is a password in %s: only one of them may be set",
			s.StorePasswordFile.origin, s.Store.origin)
	}
	password, err := s.StorePasswordFile.secret()
	if err != nil {
		return storeTarget{}, err
	}
	address.User = url.UserPassword(address.User.Username(), password)
	return storeTarget{postgres: address}, nil
}

// String returns the store for a person, without its password.
func (t storeTarget) String() string {
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

// openStore is a store that was opened, and its database for migrations.
type openStore struct {
	node.Store

	db      *sql.DB
	dialect migrations.Dialect
	close   func() error
}

// open opens the store. A Postgres server may be away: then its calls fail, until it is there. The limit is that of
// one call.
func (t storeTarget) open(ctx context.Context, limit time.Duration) (*openStore, error) {
	if t.postgres == nil {
		store, err := sqlite.Open(ctx, t.sqlite, sqlite.Options{Timeout: limit})
		if err != nil {
			return nil, err
		}
		return &openStore{store, store.DB(), migrations.SQLite, store.Close}, nil
	}
	options := postgres.Options{Timeout: limit, PgBouncer: t.pgBouncer, Report: t.report}
	store, err := postgres.Open(ctx, t.postgres.String(), options)
	if err != nil {
		return nil, usagef("%s: %v", t.origin, err) // It is about the URL: nothing is connected yet.
	}
	db, err := postgres.OpenDB(t.postgres.String(), options)
	if err != nil {
		store.Close()
		return nil, err
	}
	return &openStore{store, db, migrations.Postgres, func() error {
		store.Close()
		return db.Close()
	}}, nil
}

// migrate brings the schema up to date.
func (s *openStore) migrate(ctx context.Context) ([]migrations.Migration, error) {
	return migrations.Up(ctx, s.db, s.dialect)
}

// check returns nil if the schema is the one that this program needs, and whether an error is the answer of
// the store, rather than that it does not answer.
func (s *openStore) check(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err = migrations.Check(ctx, s.db, s.dialect)
	var old *migrations.OutOfDateError
	var young *migrations.TooNewError
	return err == nil || errors.As(err, &old) || errors.As(err, &young), err
}
