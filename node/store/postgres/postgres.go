// Package postgres is the store that nodes share: the tables messages, partitions, positions and store in a
// PostgreSQL server of version 14 or later. The schema is in the package migrations.
//
// # Statements
//
// Every call is one message to the server for each batch, and one transaction under READ COMMITTED. A large take is two
// transactions side by side, each of some partitions (apart.go). A take has two messages for each, as what
// it writes depends on what it finds, and is the only call that holds a transaction open in between:
// a node that stops there holds up the takes of the same partitions, until the server ends its session after the
// time limit. So does one that stops while an answer is on its way, whose session the server's network gives up after
// twice that. Three things make the statements right, and statements.go says of each how:
//
//   - Where two sessions want the same row, the later one waits for the earlier one and then looks again at what that
//     has left, or skips the row, which is for Claim only.
//   - Rows are locked in one order, partitions first and then messages by id and lane, and a take inserts, in that
//     order, before it removes, so that batches do not deadlock. Where they do after all, the victim tries again.
//   - Each statement can be executed by one plan only, whatever the server believes about the size of the table. A
//     queue is empty at one moment and holds a million rows at the next, and a plan for an empty table that is
//     kept for the full one brings everything to a halt.
//
// # What an answer rests on
//
// A commit waits for the synchronous standby, if there is one, and can be cancelled while it waits. Then it has
// happened here, where everybody sees it, and perhaps not there. So an answer that rests on what somebody else has
// committed waits as well: a take locks its partitions, which is written to the log, even if it has nothing else to
// write; and a delete or a reset that finds nothing writes an empty message to the log before it says so. Positions and
// Expired do not wait: nothing rests on what they say before a take or a reset has confirmed it.
//
// # Time limits
//
// A call ends within Options.Timeout. The server is told to give up a little earlier, so that it, not the network,
// decides, and the call ends with an error that says what happened. When the server doesn't answer, the client
// gives up: what it has asked for may then have happened or not.
//
// # Outages
//
// Open succeeds without a server, and connections are made when they are needed. When one of them turns out
// to be dead, all the idle ones are closed as well, so that the next call does not have to find that out again:
// after a restart or a failover the second call works. Only a primary server is used, because a replica lags.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"chronos/node"
)

// Store is a node.Store in a PostgreSQL database. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	options Options

	// preamble, with its arguments, is what makes the settings for one transaction; empty where a connection
	// carries them.
	preamble string
	values   []any

	waiting looks // for messages that fall due
	expired looks // for claims that have expired

	// held are the lanes that were paused at the last claim. Nothing is swept there: what a sweep finds it would find
	// again and again, because nothing is claimed. A lane that is resumed is missed by the sweeps for one claim.
	held atomic.Pointer[lanes]

	// apartFrom is apartItems, and together the time, by the system's clock, until which each take is one transaction.
	apartFrom int
	together  atomic.Int64

	watcher watcher // for Outlook

	// asked is for people who ask, and askedFor the time limit of such a call, inspectTimeout: inspect.go.
	asked    watcher
	askedFor time.Duration

	// queueing has as many places as there may be transactions about queues at the same time: half of the connections.
	// As many come as tasks begin and end at once, and as requests; claims wait for none of them.
	queueing chan struct{}

	// wading is until when, by the system's clock, what is parked is claimed apart: see claim.run.
	wading atomic.Int64

	// idle says that the last claim which was asked has found that there would be nothing for a while, see claim.peek.
	idle atomic.Bool

	hears  atomic.Bool // see Hears
	teller teller
}

var _ node.Store = (*Store)(nil)

// Options says how the store uses the server. The zero value is a good one.
type Options struct {
	// Timeout is the time limit of a call: Config.StoreTimeout of the node. 10 ms or more; 0 means 1.5 s, that of
	// the default hold time.
	Timeout time.Duration

	// MaxConns is the greatest number of connections. A node makes three calls at once, of which a large take uses two
	// connections if one is free; half of all may be for what is about queues; and it needs as many more when the
	// server is gone without a word: each connection that a call gave up counts for another quarter of a minute.
	// 0 means what the URL says with pool_max_conns, or else 8.
	MaxConns int

	// ApplicationName is what pg_stat_activity shows; empty means what the URL says, or else "chronos".
	ApplicationName string

	// PgBouncer says that the URL leads to a PgBouncer that pools transactions, or to another pooler of that kind.
	// Then no prepared statements and no settings of a session are used: every call sends its settings along, in
	// the same message, and has its statement planned anew, which costs a third of the throughput. Set
	// tcp_user_timeout in PgBouncer's own configuration: see configure for why.
	PgBouncer bool

	// Password returns the password for a connection that is about to be made; nil: the URL has it, or what else libpq
	// knows of.
	Password func() string

	// Report is told of a row that cannot be read, because somebody has changed it by hand. The row is skipped: it
	// stays claimed until the hold time has passed, and then comes up again. Nil: nobody is told.
	Report func(error)

	// LockWait is how long a statement waits for a lock of another session; 0 means 50 ms. More is for tests that watch
	// a call wait.
	LockWait time.Duration
}

// lockMoment is how long a statement waits for a lock of another session before the call does without what is locked.
// Two nodes that meet at a row keep it for one statement and its commit, which takes some milliseconds: they wait for
// each other. A session that keeps a row for longer is stuck, or a person's.
const lockMoment = 50 * time.Millisecond

const (
	defaultTimeout  = 1500 * time.Millisecond
	minTimeout      = 10 * time.Millisecond
	defaultMaxConns = 8
)

// Open returns the store in the database at url, a URL or a list of settings as libpq has them. Nothing is
// connected yet: the error is about the URL or the options. ctx gives values to the making of
// connections; that it ends does not matter.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the store's URL: %w", err)
	}
	connection, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the store's URL: %w", err)
	}
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Timeout < minTimeout {
		return nil, fmt.Errorf("the store's time limit is %v: it must be %v or more", options.Timeout, minTimeout)
	}
	_, inURL := connection.RuntimeParams["pool_max_conns"]
	switch {
	case options.MaxConns > 0:
		config.MaxConns = int32(min(options.MaxConns, 1000))
	case !inURL:
		config.MaxConns = defaultMaxConns
	}

	config.MinConns, config.MinIdleConns = 0, 0 // or the pool would knock at an absent server by itself
	config.MaxConnLifetime = 30 * time.Minute   // so that nodes spread over what a load balancer offers
	config.MaxConnLifetimeJitter = 5 * time.Minute
	config.MaxConnIdleTime = 5 * time.Minute
	config.PingTimeout = options.Timeout / 4 // of a connection that has been idle for a second

	s := &Store{
		options: options, apartFrom: apartItems, watcher: newWatcher(""),
		asked: newWatcher(askedLimit(inspectLimit)), askedFor: inspectTimeout,
		queueing: make(chan struct{}, max(1, config.MaxConns/2)),
	}
	s.teller.hurry = make(chan struct{})
	s.configure(config.ConnConfig)
	config.BeforeConnect = renew(url, options)
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return s, nil
}

// OpenDB returns the database at url for package migrations: no time limits but those of the context, no
// settings that a pooler would refuse. Nothing is connected yet. The caller closes it.
func OpenDB(url string, options Options) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the store's URL: %w", err)
	}
	common(config, options)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(renew(url, options)))
	db.SetMaxOpenConns(2)
	return db, nil
}

// Close closes the connections, when the calls that are under way have ended. It returns within the time limit of a
// call: the library goes on for a quarter of a minute to take leave of a server that does not answer.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.teller.close()
		s.watcher.close()
		s.asked.close()
		s.pool.Close()
	}()
	timer := time.NewTimer(s.options.Timeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// Pool returns the connections of the store, for metrics.
func (s *Store) Pool() *pgxpool.Pool {
	return s.pool
}

// configure says how to make a connection.
func (s *Store) configure(config *pgx.ConnConfig) {
	common(config, s.options)
	config.ValidateConnect = validate
	config.OnNotice = notice
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > s.options.Timeout {
		config.ConnectTimeout = s.options.Timeout
	}
	milliseconds := func(percent int64) string {
		return strconv.FormatInt(max(1, s.options.Timeout.Milliseconds()*percent/100), 10)
	}
	settings := append(planSettings(),
		setting{"statement_timeout", milliseconds(80)},
		setting{"lock_timeout", s.lockLimit(s.options.LockWait, lockMoment)},
		// A node that stops between two statements of a transaction must not keep its peers from a partition.
		setting{"idle_in_transaction_session_timeout", milliseconds(100)},
		// A role or a database may have defaults of its own, but what was acknowledged has to be on the disk.
		setting{"synchronous_commit", "on"},
		setting{"bytea_output", "hex"},
	)
	if s.options.PgBouncer {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		s.preamble = "SELECT "
		for i, one := range settings {
			if i > 0 {
				s.preamble += ", "
			}
			s.preamble += fmt.Sprintf("set_config('%s', $%d, true)", one.name, i+1)
			s.values = append(s.values, one.value)
		}
		return
	}
	settings = append(settings,
		setting{"plan_cache_mode", "force_generic_plan"},
		setting{"default_transaction_isolation", "read committed"},
		setting{"default_transaction_read_only", "off"},
		setting{"default_transaction_deferrable", "off"},
		// A node that is stopped in the middle of an answer keeps its rows locked until its connection breaks: the
		// server's network would wait for it forever.
		setting{"tcp_user_timeout", milliseconds(200)},
		setting{"tcp_keepalives_idle", "10"},
		setting{"tcp_keepalives_interval", "5"},
		setting{"tcp_keepalives_count", "3"},
	)
	for _, one := range settings {
		config.RuntimeParams[one.name] = one.value
	}
}

// patient is the time limit for a lock, in milliseconds, of a transaction that has met one and cannot do without what
// is locked: of most calls, and of all where a whole table is locked. Before it a call may have waited for two moments,
// and for a look that was given up.
func (s *Store) patient() string { return s.lockLimit(s.options.Timeout * 60 / 100) }

// lockLimit returns the first limit that is not zero in milliseconds, but no more than leaves a call time to say that
// it has failed.
func (s *Store) lockLimit(limits ...time.Duration) string {
	limit := min(cmp.Or(limits...), s.options.Timeout*70/100)
	return strconv.FormatInt(max(1, limit.Milliseconds()), 10)
}

// validate returns an error for a server that the store must not use. With several hosts in the URL, the next one
// is tried.
func validate(ctx context.Context, conn *pgconn.PgConn) error {
	if encoding := conn.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return fmt.Errorf("the database's encoding is %s: it must be UTF8, which every id can be stored in", encoding)
	}
	return pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, conn)
}

// setting is a configuration parameter of the server, for a session or a transaction.
type setting struct{ name, value string }

// planSettings are the settings that leave one plan to each statement, see statements.go.
func planSettings() []setting {
	return []setting{
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_sort", "off"},
		{"random_page_cost", "1.1"},
		{"jit", "off"},
		{"max_parallel_workers_per_gather", "0"},
	}
}

// common is what the connections of the store and of the migrations have in common.
func common(config *pgx.ConnConfig, options Options) {
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	config.DialFunc = dialer.DialContext
	if config.ConnectTimeout <= 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	for name := range config.RuntimeParams {
		if len(name) > 5 && name[:5] == "pool_" {
			delete(config.RuntimeParams, name)
		}
	}
	// These are all that PgBouncer knows how to keep apart.
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.RuntimeParams["datestyle"] = "ISO"
	config.RuntimeParams["timezone"] = "UTC"
	switch {
	case options.ApplicationName != "":
		config.RuntimeParams["application_name"] = options.ApplicationName
	case config.RuntimeParams["application_name"] == "":
		config.RuntimeParams["application_name"] = "chronos"
	}
}

// renew returns what prepares a connection that is about to be made: it reads the certificates and passwords anew that
// are in files, so that what was replaced is used without a restart. While one of them cannot be read, because it is
// just being replaced, what was read before is used.
func renew(url string, options Options) func(context.Context, *pgx.ConnConfig) error {
	return func(_ context.Context, config *pgx.ConnConfig) error {
		if fresh, err := pgx.ParseConfig(url); err == nil {
			config.Password = fresh.Password
			config.TLSConfig, config.Fallbacks = fresh.TLSConfig, fresh.Fallbacks
		}
		if options.Password != nil {
			config.Password = options.Password()
		}
		return nil
	}
}

// limit returns ctx with the time limit of one call. It keeps a twentieth in reserve for coming back.
func (s *Store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.options.Timeout-s.options.Timeout/20)
}
