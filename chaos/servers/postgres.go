package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresConfig says what a database server is to be like.
type PostgresConfig struct {
	// Name is that of its folder and of its log; "" for postgres.
	Name string

	// Settings are added to its postgresql.conf.
	Settings map[string]string

	// Authority, if there is one, signs the certificate of the server, which then asks everybody but the superuser for
	// TLS, and the role mutual for a certificate. Only for processes.
	Authority *Authority
}

// Postgres is a database server, with an own superuser for whoever has started it.
type Postgres struct {
	Server

	// Admin is where the superuser finds the database: a copy of the URL serves to make others.
	Admin url.URL

	// Address is that of the server, host:port.
	Address string

	// Log is the file of its log.
	Log string

	servers *Servers
	config  PostgresConfig
}

// Postgres prepares a server with an empty database. It is not started.
func (s *Servers) Postgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	if config.Name == "" {
		config.Name = "postgres"
	}
	return s.newPostgres(ctx, config, rand.Text())
}

// newPostgres prepares a server, on the data in its folder where there is some.
func (s *Servers) newPostgres(ctx context.Context, config PostgresConfig, password string) (*Postgres, error) {
	if s.backend == nil {
		return nil, fmt.Errorf("make a Postgres: %w: the servers were given", ErrImpossible)
	}
	port, err := s.Port()
	if err != nil {
		return nil, err
	}
	p := &Postgres{Address: Local(port), Log: s.log(config.Name), servers: s, config: config}
	p.Admin = url.URL{
		Scheme: "postgres", User: url.UserPassword("chronos", password), Host: p.Address, Path: "/postgres",
		RawQuery: "sslmode=disable",
	}
	settings := maps.Clone(config.Settings)
	if config.Authority != nil {
		if p.Dir() == "" {
			return nil, fmt.Errorf("make a Postgres with TLS: %w", ErrImpossible)
		}
		settings = tlsSettings(p.Dir())
		maps.Copy(settings, config.Settings)
	}
	p.Server, err = s.backend.database(ctx, databaseSpec{
		name: config.Name, port: port, password: password, settings: settings, log: p.Log,
	})
	if err == nil && config.Authority != nil {
		err = writeTLS(p.Dir(), config.Authority)
	}
	return p, err
}

// Durable are settings with which what is committed survives a loss of power, and with which a server keeps the log for
// standbys and replication slots. They are the defaults, said aloud: a chaos suite whose servers forget shows nothing.
func Durable(more map[string]string) map[string]string {
	settings := map[string]string{
		"fsync":                 "on",
		"synchronous_commit":    "on",
		"full_page_writes":      "on",
		"wal_level":             "logical",
		"max_replication_slots": "4",
		"max_wal_senders":       "4",
		"wal_keep_size":         "512MB",
	}
	maps.Copy(settings, more)
	return settings
}

// Dir is the folder of the server; "" where it has none on this machine.
func (p *Postgres) Dir() string {
	if p.servers == nil || p.servers.config.Backend != Processes {
		return ""
	}
	return filepath.Join(p.servers.config.Dir, p.config.Name)
}

// Connect returns a connection of the superuser to the server itself.
func (p *Postgres) Connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Admin.String())
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	return conn, nil
}

// Do calls use with a connection of the superuser.
func (p *Postgres) Do(ctx context.Context, use func(context.Context, *pgx.Conn) error) error {
	conn, err := p.Connect(ctx)
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

// Exec executes statements one after the other.
func (p *Postgres) Exec(ctx context.Context, statements ...string) error {
	return p.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// Ready waits until the server answers.
func (p *Postgres) Ready(ctx context.Context, within time.Duration) error {
	err := Await(ctx, within, func(ctx context.Context) error {
		return p.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
	})
	if err != nil {
		return fmt.Errorf("wait for Postgres: %w\n%s", err, Tail(p.Log))
	}
	return nil
}

// GivenPostgres is a server that somebody else runs, by the URL of its superuser. It can't be killed or frozen.
func GivenPostgres(address string) (*Postgres, error) {
	admin, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read the address of Postgres: %w", err)
	}
	return &Postgres{Server: givenServer{}, Admin: *admin, Address: admin.Host}, nil
}

// givenServer is a server that somebody else runs, and that is not touched.
type givenServer struct{}

func (givenServer) Start(context.Context) error  { return nil }
func (givenServer) Kill(context.Context) error   { return errGiven() }
func (givenServer) Stop(context.Context) error   { return errGiven() }
func (givenServer) Freeze(context.Context) error { return errGiven() }
func (givenServer) Thaw(context.Context) error   { return errGiven() }

func errGiven() error {
	return fmt.Errorf("%w: the servers were given, and are somebody else's", ErrImpossible)
}
