package chaos

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is the database server.
type postgres struct {
	server

	port     int
	password string
	log      string
}

// newPostgres prepares a server whose commits survive a crash, and which keeps a log for a replication slot.
func newPostgres(ctx context.Context, b backend, p *ports, log func(string) string) (*postgres, error) {
	port, err := p.take()
	if err != nil {
		return nil, err
	}
	db := &postgres{port: port, password: rand.Text(), log: log("postgres.log")}
	db.server, err = b.database(ctx, databaseSpec{
		port: db.port, password: db.password, log: db.log,
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

// url returns where the server is found by way of a port: its own, or that of a proxy.
func (p *postgres) url(user, password string, port int) string {
	return fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable", user, password, local(port))
}

// connect returns a connection of the suite's own, as superuser, which no fault of a link reaches.
func (p *postgres) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.url("chronos", p.password, p.port))
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
