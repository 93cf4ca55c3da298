package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3/lock"
)

// lockID is the key of the advisory lock that a migrating session of Postgres holds: "chronos" in ASCII.
const lockID = 0x6368726f6e6f73

// lockSeconds is how long Up waits for another node that is migrating. It looks once a second.
const lockSeconds = 300

// session is a goose SessionLocker. It lifts the limits that the role or the database has for its sessions, and then
// takes the lock: a step on a large table takes longer than a statement may on most managed servers. The limits are
// back when the lock is given up.
type session struct{ lock.SessionLocker }

func newSession() (*session, error) {
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(lockID), lock.WithLockTimeout(1, lockSeconds), lock.WithUnlockTimeout(1, 5),
	)
	if err != nil {
		return nil, fmt.Errorf("make the lock: %w", err)
	}
	return &session{locker}, nil
}

// limits chooses, of those that the server knows, the settings that limit a session. transaction_timeout is new in
// Postgres 17. A value of off or 0 is no limit.
const limits = `FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout',
  'idle_in_transaction_session_timeout', 'default_transaction_read_only')`

// lift sets them to no limit.
const lift = `SELECT set_config(name, CASE vartype WHEN 'bool' THEN 'off' ELSE '0' END, false) ` + limits

// SessionLock lifts the limits of the session and takes the lock.
func (s *session) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, lift); err != nil {
		return fmt.Errorf("lift the limits of the session: %w", err)
	}
	return s.SessionLocker.SessionLock(ctx, conn)
}

// SessionUnlock gives the lock up and sets the limits again.
func (s *session) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	err := s.SessionLocker.SessionUnlock(ctx, conn)
	if _, after := conn.ExecContext(ctx, "SELECT set_config(name, reset_val, false) "+limits); after != nil {
		err = errors.Join(err, fmt.Errorf("set the limits of the session again: %w", after))
	}
	return err
}
