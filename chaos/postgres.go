package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is the database server.
type postgres struct {
	server

	admin    url.URL // where the suite's own superuser finds the database
	address  string  // of the server
	password string  // of the nodes
	role     string  // whom the nodes connect as: no superuser, so that the limit of connections is one for them
	slot     string  // the name of the replication slot and of the publication
	log      string
}

// newPostgres prepares a server whose commits survive a crash, and which keeps a log for a replication slot.
func newPostgres(ctx context.Context, b backend, p *ports, log func(string) string) (*postgres, error) {
	port, err := p.take()
	if err != nil {
		return nil, err
	}
	db := &postgres{
		address: local(port), password: rand.Text(), role: "node", slot: "chaos", log: log("postgres.log"),
	}
	db.admin = url.URL{
		Scheme: "postgres", User: url.UserPassword("chronos", db.password), Host: db.address, Path: "/postgres",
		RawQuery: "sslmode=disable",
	}
	db.server, err = b.database(ctx, databaseSpec{
		port: port, password: db.password, log: db.log,
		settings: map[string]string{
			"fsync":                          "on",
			"synchronous_commit":             "on",
			"full_page_writes":               "on",
			"wal_level":                      "logical",
			"max_replication_slots":          "4",
			"max_wal_senders":                "4",
			"max_connections":                "60",
			"superuser_reserved_connections": "5",
			"tcp_keepalives_idle":            "5",
			"tcp_keepalives_interval":        "1",
			"tcp_keepalives_count":           "3",
		},
	})
	return db, err
}

// url returns where the nodes find the database by way of an address: the server's own, or that of a proxy.
func (p *postgres) url(address string) string {
	u := p.admin
	u.User, u.Host = url.UserPassword(p.role, p.password), address
	return u.String()
}

// connect returns a connection of the suite's own, as superuser, which no fault of a link reaches.
func (p *postgres) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.admin.String())
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	return conn, nil
}

// do calls use with a connection of the suite's own.
func (p *postgres) do(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	conn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the server may be gone
	}()
	return use(ctx, conn)
}

// exec executes statements one after the other.
func (p *postgres) exec(ctx context.Context, statements ...string) error {
	return p.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// endSessions ends the sessions of the nodes.
func (p *postgres) endSessions(ctx context.Context) error {
	return p.exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+p.role+"'")
}

// ready waits until the server answers.
func (p *postgres) ready(ctx context.Context, within time.Duration) error {
	err := await(ctx, within, func(ctx context.Context) error {
		return p.do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
	})
	if err != nil {
		return fmt.Errorf("wait for Postgres: %w\n%s", err, tail(p.log))
	}
	return nil
}

// givenServer is a server that the suite has not started, and does not touch.
type givenServer struct{}

func (givenServer) start(context.Context) error  { return nil }
func (givenServer) kill(context.Context) error   { return errGiven() }
func (givenServer) stop(context.Context) error   { return errGiven() }
func (givenServer) freeze(context.Context) error { return errGiven() }
func (givenServer) thaw(context.Context) error   { return errGiven() }

func errGiven() error {
	return fmt.Errorf("%w: the servers were given, and are not the suite's own", ErrImpossible)
}

// givenPostgres makes a database of its own on a server that somebody else runs, and removes it in the end. It needs a
// superuser, and wal_level has to be logical.
func givenPostgres(ctx context.Context, server string) (*postgres, func() error, error) {
	admin, err := url.Parse(server)
	if err != nil {
		return nil, nil, fmt.Errorf("read the address of Postgres: %w", err)
	}
	mark := strings.ToLower(rand.Text()[:10])
	there := &postgres{server: givenServer{}, admin: *admin}
	p := &postgres{
		server: givenServer{}, admin: *admin, address: admin.Host, password: rand.Text(),
		role: "chaos_" + mark, slot: "chaos_" + mark,
	}
	p.admin.Path = "/chaos_" + mark
	if err := there.exec(ctx, "CREATE DATABASE chaos_"+mark); err != nil {
		return nil, nil, fmt.Errorf("make a database: %w", err)
	}
	return p, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		// The slot may not have been made yet.
		_ = there.exec(ctx, "SELECT pg_drop_replication_slot('"+p.slot+"')")
		return errors.Join(there.exec(ctx, "DROP DATABASE chaos_"+mark+" WITH (FORCE)"),
			there.exec(ctx, "DROP ROLE IF EXISTS "+p.role))
	}, nil
}
