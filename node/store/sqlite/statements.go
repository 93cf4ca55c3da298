package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/headers"
)

// statements are the prepared forms of all that the store says to its database.
type statements struct {
	insert, find, present, due, claim, remove, stuck, reset *sql.Stmt
}

// The columns of a message, in the order of messageArguments and scanMessage.
const messageColumns = `id, topic, incarnation, deadline, message_key, message_value, message_headers`

const (
	insertText = `INSERT INTO hanger (` + messageColumns + `, due_at, readied_at, readied_by)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?4, ?8, ?9) ON CONFLICT (id, topic) DO NOTHING`

	findText = `SELECT incarnation, readied_at, readied_by FROM hanger WHERE id = ?1 AND topic = ?2`

	presentText = `SELECT EXISTS (SELECT 1 FROM hanger WHERE id = ?1 AND topic = ?2)`

	dueText = `SELECT rowid, ` + messageColumns + ` FROM hanger
		WHERE readied_at IS NULL AND due_at <= ?1 ORDER BY due_at, id, topic LIMIT ?2`

	claimText = `UPDATE hanger SET readied_at = ?2, readied_by = ?3 WHERE rowid = ?1`

	removeText = `DELETE FROM hanger WHERE id = ?1 AND topic = ?2 AND incarnation = ?3`

	stuckText = `SELECT id, topic, incarnation, readied_at, readied_by FROM hanger
		WHERE readied_at IS NOT NULL AND readied_at <= ?1 ORDER BY readied_at, id, topic LIMIT ?2`

	resetText = `UPDATE hanger SET readied_at = NULL, readied_by = NULL, due_at = coalesce(?6, due_at)
		WHERE id = ?1 AND topic = ?2 AND incarnation = ?3 AND readied_at = ?4 AND readied_by = ?5`
)

// prepare returns the statements, which it prepares when it is called for the first time.
func (s *Store) prepare(ctx context.Context) (*statements, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared != nil {
		return s.prepared, nil
	}
	var p statements
	for _, statement := range []struct {
		target **sql.Stmt
		text   string
	}{
		{&p.insert, insertText},
		{&p.find, findText},
		{&p.present, presentText},
		{&p.due, dueText},
		{&p.claim, claimText},
		{&p.remove, removeText},
		{&p.stuck, stuckText},
		{&p.reset, resetText},
	} {
		prepared, err := s.db.PrepareContext(ctx, statement.text) //nolint:sqlclosecheck // Close closes all
		if err != nil {
			return nil, fmt.Errorf("prepare statements: %w", err)
		}
		*statement.target = prepared
	}
	s.prepared = &p
	return s.prepared, nil
}

// messageArguments returns the values of messageColumns.
func messageArguments(m *node.Message) []any {
	return []any{
		m.ID, m.Topic, m.Incarnation[:], m.Deadline.UnixMicro(), m.Key, m.Value,
		string(headers.Encode(m.Headers)),
	}
}

// scanMessage reads a row that has the columns of before and then messageColumns.
func scanMessage(rows *sql.Rows, before ...any) (m node.Message, err error) {
	var deadline int64
	var list []byte
	columns := append(before, &m.ID, &m.Topic, &m.Incarnation, &deadline,
		(*nullable)(&m.Key), (*nullable)(&m.Value), &list)
	if err := rows.Scan(columns...); err != nil {
		return m, err
	}
	m.Deadline = fromColumn(deadline)
	if m.Headers, err = headers.Decode(list); err != nil {
		return m, fmt.Errorf("read message %q for topic %q: %w", m.ID, m.Topic, err)
	}
	return m, nil
}

// scanClaim reads a row that has the columns of a claim.
func scanClaim(rows *sql.Rows) (c node.Claim, err error) {
	var at int64
	if err := rows.Scan(&c.ID, &c.Topic, &c.Incarnation, &at, &c.ReadiedBy); err != nil {
		return c, err
	}
	c.ReadiedAt = fromColumn(at)
	return c, nil
}

// claimColumns returns the values of readied_at and readied_by for a claim.
func claimColumns(at time.Time, owner uuid.UUID) (readiedAt, readiedBy any) {
	return at.UnixMicro(), owner[:]
}

// fromColumn returns the instant that a column holds.
func fromColumn(microseconds int64) time.Time { return time.UnixMicro(microseconds).UTC() }

// nullable is a BLOB that may be NULL. The driver hands an empty one over as nil in a non-nil interface, which a
// plain []byte would take for NULL.
type nullable []byte

// Scan implements sql.Scanner.
func (n *nullable) Scan(source any) error {
	switch value := source.(type) {
	case nil:
		*n = nil
	case []byte:
		*n = append(make([]byte, 0, len(value)), value...)
	default:
		return fmt.Errorf("a %T where a BLOB is expected", source)
	}
	return nil
}
