package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// step is one statement of a transaction.
type step struct {
	statement string
	arguments []any

	// read reads the rows; nil where there are none.
	read func(pgx.Rows) error

	// data says that an error about data is one about the arguments, which are messages.
	data bool
}

// transaction is one transaction of a call. What is sent together makes one round trip.
type transaction struct {
	store *Store
	conn  *pgxpool.Conn
	begun bool

	// locks is the time limit for a lock, in milliseconds; empty for that of the session.
	locks string

	// committing says that COMMIT has been sent, so that the outcome is unknown until the answer is there.
	committing bool
}

// begin returns a transaction on a connection of its own. Nothing has been sent yet, unless a connection had to be
// made.
func (s *Store) begin(ctx context.Context) (*transaction, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &transaction{store: s, conn: conn}, nil
}

// send executes steps, and goes on in the transaction.
func (t *transaction) send(ctx context.Context, steps ...step) error {
	return t.execute(ctx, steps, false)
}

// commit executes steps and ends the transaction. If it returns an error, except one of the server about a step, the
// outcome is unknown.
func (t *transaction) commit(ctx context.Context, steps ...step) error {
	return t.execute(ctx, steps, true)
}

// end gives the connection back. A transaction that is still open has failed or is not wanted; its connection is kept,
// if the server answers.
func (t *transaction) end(ctx context.Context) {
	if !t.conn.Conn().IsClosed() && t.conn.Conn().PgConn().TxStatus() != 'I' {
		// If this fails the pool finds a connection that is not idle, and closes it.
		_, _ = t.conn.Exec(ctx, "ROLLBACK")
	}
	t.conn.Release()
}

// execute sends everything in one message and reads the answers. What is sent alone, from beginning to end, needs no
// BEGIN and COMMIT on a connection that has its settings: what comes in one message is one transaction.
func (t *transaction) execute(ctx context.Context, steps []step, commit bool) error {
	if !t.begun && t.locks != "" {
		if err := t.limitLocks(ctx); err != nil {
			return err
		}
	}
	batch, skip := &pgx.Batch{}, 0
	explicit := t.begun || !commit || t.store.options.PgBouncer
	if !t.begun && explicit {
		t.queueBegin(batch)
		skip = batch.Len()
	}
	for _, s := range steps {
		batch.Queue(s.statement, s.arguments...)
	}
	if commit && explicit {
		batch.Queue("COMMIT")
	}
	t.begun, t.committing = true, commit
	results := t.conn.SendBatch(ctx, batch)
	err := t.read(results, skip, steps, commit && explicit)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err == nil && commit && t.warned() {
		return errUnconfirmed
	}
	return err
}

// queueBegin adds what begins a transaction to a message.
func (t *transaction) queueBegin(batch *pgx.Batch) {
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	if t.store.options.PgBouncer {
		batch.Queue(t.store.preamble, t.store.values...)
	}
}

// limitLocks begins the transaction with a time limit for locks of its own, in a message of its own: to prepare a
// statement takes a lock on its tables as well, and that comes before the message with the statement.
func (t *transaction) limitLocks(ctx context.Context) error {
	batch := &pgx.Batch{}
	t.queueBegin(batch)
	batch.Queue(lockLimitStatement, t.locks)
	t.begun = true
	return t.conn.SendBatch(ctx, batch).Close()
}

// read reads the answers, in order, up to the first that is an error.
func (t *transaction) read(results pgx.BatchResults, skip int, steps []step, commit bool) error {
	for range skip {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if err := s.take(results); err != nil {
			if answer, is := errors.AsType[*pgconn.PgError](err); is && s.data && isRefusal(answer) {
				return &refusedError{answer}
			}
			return err
		}
	}
	t.forget()
	if !commit {
		return nil
	}
	tag, err := results.Exec()
	if err == nil && tag.String() != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	return err
}

// changes reports whether the step changes rows.
func (s *step) changes() bool { return strings.Contains(s.statement, "\nRETURNING") }

func (s *step) take(results pgx.BatchResults) error {
	if s.read == nil {
		_, err := results.Exec()
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := s.read(rows); err != nil {
			return err
		}
	}
	rows.Close()
	return rows.Err()
}

// A commit that waits for a synchronous standby can be cancelled. It has then happened on this server, and perhaps on
// no other: a failover to the standby takes it back. The server says so by a mere warning, and the commit reports
// success.

// errUnconfirmed is the error of a commit that came with a warning.
var errUnconfirmed = errors.New("the server gave up waiting for its synchronous standby, so what it has committed " +
	"may be lost in a failover")

// warning is the key under which a connection notes that a warning has come.
const warning = "chronos.warning"

// notice is what a connection does with a notice of the server.
func notice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warning] = true
	}
}

func (t *transaction) forget() { delete(t.conn.Conn().PgConn().CustomData(), warning) }

func (t *transaction) warned() bool {
	_, warned := t.conn.Conn().PgConn().CustomData()[warning]
	return warned
}

// refusedError is what the server says of messages that it can never store.
type refusedError struct{ answer *pgconn.PgError }

func (e *refusedError) Error() string {
	return fmt.Sprintf("PostgreSQL refuses it: %s (SQLSTATE %s)", e.answer.Message, e.answer.Code)
}

func (e *refusedError) Unwrap() error { return e.answer }

// isRefusal reports whether an answer is about the data of a statement, so that sending the same again is of no use.
func isRefusal(answer *pgconn.PgError) bool {
	switch answer.Code[:2] {
	case "22", // data exception
		"54": // program limit exceeded
		return true
	}
	return answer.Code == "23514" // a check of the table
}

// tries is how often a transaction is sent that had no effect for a reason that passes.
const tries = 4

// run calls transact with a transaction, and again while it had no effect for a reason that passes. Where it has met
// another transaction there is no end to that but that of the time. One that has met a lock which lasts for longer than
// a moment waits for it the next time.
func (s *Store) run(ctx context.Context, transact func(*transaction) error) error {
	err := s.runWithin(ctx, "", transact)
	if isLocked(err) && s.options.LockWait == 0 {
		err = s.runWithin(ctx, s.patient(), transact)
	}
	return err
}

// runWithin is run with a time limit for locks, in milliseconds: what it meets for longer is an error.
func (s *Store) runWithin(ctx context.Context, locks string, transact func(*transaction) error) error {
	for try := 1; ; try++ {
		t, err := s.begin(ctx)
		committing := false
		if err == nil {
			t.locks = locks
			err = transact(t)
			committing = t.committing
			t.end(ctx)
		}
		if err == nil {
			return nil
		}
		if isDead(ctx, err) {
			s.pool.Reset()
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, errUnconfirmed):
			return err
		case isConflict(err):
			try = 0 // somebody else got on
		case try >= tries || !hadNoEffect(err, committing):
			return err
		}
	}
}

// isLocked reports whether err says that a transaction has waited for a lock for as long as it may.
func isLocked(err error) bool {
	answer, is := errors.AsType[*pgconn.PgError](err)
	return is && answer.Code == "55P03"
}

// once makes one transaction of steps, in one round trip. Their read functions see the rows of each try.
func (s *Store) once(ctx context.Context, restart func(), steps ...step) error {
	return s.run(ctx, func(t *transaction) error {
		restart()
		return t.commit(ctx, steps...)
	})
}

// isDead reports whether err shows that the server has gone, is going, or is no longer the primary. A server that
// says anything else is alive, and a caller that does not want to wait proves nothing.
func isDead(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, errUnconfirmed) || errors.Is(err, errNoStore) {
		return false
	}
	answer, is := errors.AsType[*pgconn.PgError](err)
	if !is {
		return true
	}
	switch answer.Code {
	case "57P01", "57P02", "57P03", "57P05", // shutdown, crash, start, idle session ended
		"25006": // read-only: a primary has become a replica
		return true
	}
	return answer.Code[:2] == "08" // connection exception
}

// isConflict reports whether err is of a transaction that has met another one: a deadlock, a serialization failure, or
// a row that another one has inserted meanwhile.
func isConflict(err error) bool {
	answer, is := errors.AsType[*pgconn.PgError](err)
	return is && (answer.Code == "40P01" || answer.Code == "40001" || answer.Code == "23505")
}

// hadNoEffect reports whether err is of a transaction that has surely done nothing, and that is worth sending again at
// once: a connection that was dead already.
func hadNoEffect(err error, committing bool) bool {
	if _, is := errors.AsType[*pgconn.PgError](err); is {
		return false
	}
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	return !errors.Is(err, errNoStore) && (!committing || pgconn.SafeToRetry(err))
}
