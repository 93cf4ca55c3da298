package chaos

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"chronos/chaos/servers"
)

// The names in the database that the suite knows of: the table of messages and that of what is paused, whose every
// change it follows.
const (
	table       = "messages"
	pausesTable = "pauses"
)

// database is what the nodes take for Postgres: one server, or after a failover another one.
type database struct {
	server   atomic.Pointer[servers.Postgres]
	role     string // whom the nodes connect as: no superuser, so that the limit of connections is one for them
	password string // theirs
	slot     string // the name of the replication slot and of the publication
}

// newDatabase prepares a server whose commits survive a crash, and which keeps a log for a replication slot.
func newDatabase(ctx context.Context, s *servers.Servers) (*database, error) {
	p, err := s.Postgres(ctx, servers.PostgresConfig{Settings: servers.Durable(map[string]string{
		"max_connections":                "60",
		"superuser_reserved_connections": "5",
		"tcp_keepalives_idle":            "5",
		"tcp_keepalives_interval":        "1",
		"tcp_keepalives_count":           "3",
	})})
	if err != nil {
		return nil, err
	}
	d := &database{role: "node", password: rand.Text(), slot: "chaos"}
	d.server.Store(p)
	return d, nil
}

// now is the server that is in charge.
func (d *database) now() *servers.Postgres { return d.server.Load() }

// url returns where the nodes find the database by way of an address: the server's own, or that of a proxy.
func (d *database) url(address string) string {
	u := d.now().Admin
	u.User, u.Host = url.UserPassword(d.role, d.password), address
	return u.String()
}

// endSessions ends the sessions of the nodes.
func (d *database) endSessions(ctx context.Context) error {
	return d.now().Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+d.role+"'")
}

// ready waits until the server answers.
func (d *database) ready(ctx context.Context, within time.Duration) error {
	return d.now().Ready(ctx, within)
}

// givenDatabase makes a database of its own on a server that somebody else runs, and removes it in the end. It needs a
// superuser, and wal_level has to be logical.
func givenDatabase(ctx context.Context, server string) (*database, func() error, error) {
	there, err := servers.GivenPostgres(server)
	if err != nil {
		return nil, nil, err
	}
	mark := strings.ToLower(rand.Text()[:10])
	ours := *there
	ours.Admin.Path = "/chaos_" + mark
	d := &database{role: "chaos_" + mark, password: rand.Text(), slot: "chaos_" + mark}
	d.server.Store(&ours)
	if err := there.Exec(ctx, "CREATE DATABASE chaos_"+mark); err != nil {
		return nil, nil, fmt.Errorf("make a database: %w", err)
	}
	return d, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		// The slot may not have been made yet.
		_ = there.Exec(ctx, "SELECT pg_drop_replication_slot('"+d.slot+"')")
		return errors.Join(there.Exec(ctx, "DROP DATABASE chaos_"+mark+" WITH (FORCE)"),
			there.Exec(ctx, "DROP ROLE IF EXISTS "+d.role))
	}, nil
}

// prepareDatabase makes the schema, and has every change of the table written into a replication slot, with the whole
// row as it was. Another implementation makes its own table, of which nothing is known.
func (c *cluster) prepareDatabase(ctx context.Context) error {
	d := c.postgres
	statements := []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", d.role, d.password),
		"GRANT ALL ON SCHEMA public TO " + d.role,
	}
	if c.config.Start == "" {
		admin := d.now().Admin
		chronos := cmp.Or(c.config.Migrator, c.config.Binary)
		migrate := exec.CommandContext(ctx, chronos, "migrate", "up", "--store", admin.String())
		if out, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("migrate: %w: %s", err, out)
		}
		statements = append(statements,
			"GRANT ALL ON ALL TABLES IN SCHEMA public TO "+d.role,
			"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "+d.role,
		)
	}
	if c.follows() {
		statements = append(statements,
			"ALTER TABLE "+table+" REPLICA IDENTITY FULL",
			"CREATE PUBLICATION "+d.slot+" FOR TABLE "+table+", "+pausesTable,
			"SELECT pg_create_logical_replication_slot('"+d.slot+"', 'pgoutput')",
		)
	}
	if err := d.now().Exec(ctx, statements...); err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}

// follows reports whether the changes of the rows are in the history. Nothing is known of the tables of another
// implementation, and a replication slot outlives neither a failover nor a restore.
func (c *cluster) follows() bool { return c.config.Start == "" && !c.scenario.Outside }
