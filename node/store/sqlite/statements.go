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
	insert, find, replace, alter, due, claim, idle, remove, rearm, promised, expired, reset *sql.Stmt

	turn, forward *sql.Stmt

	position, create, move, rewind, marks, unmark, mark, state, begin, bound, bind, adopt *sql.Stmt

	isPaused, pause, resume, pauses *sql.Stmt

	answer, remember, sweep *sql.Stmt
}

// The columns of a message, in the order of messageArguments and scanMessage.
const messageColumns = `id, lane, incarnation, deadline, not_after, series, sequence, occurs_at,
	message_key, message_value, message_headers, line`

const (
	insertText = `INSERT INTO messages (` + messageColumns + `, due_at, readied_at, readied_by, expires_at, attempts)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?4, ?13, ?14, ?15, ?13 IS NOT NULL)
		ON CONFLICT (id, lane) DO NOTHING`

	findText = `SELECT rowid, incarnation, deadline, due_at, attempts, bound, former, coalesce(sequence, 0), stopped,
			readied_at, readied_by, expires_at
		FROM messages WHERE id = ?1 AND lane = ?2`

	// Another message takes the row over, unclaimed.
	replaceText = `UPDATE messages SET incarnation = ?3, deadline = ?4, not_after = ?5, series = ?6, sequence = ?7,
			occurs_at = ?8, message_key = ?9, message_value = ?10, message_headers = ?11, line = ?12,
			due_at = ?13, attempts = ?14, bound = ?15, former = ?16, stopped = ?17, behind = 0, part = '',
			readied_at = NULL, readied_by = NULL, expires_at = NULL
		WHERE id = ?1 AND lane = ?2`

	// The content stays; so does the claim, as long as the incarnation does, and so does the part, as long as the
	// deadline does, too.
	alterText = `UPDATE messages SET incarnation = ?2, deadline = ?3, due_at = ?4, attempts = ?5, bound = ?6,
			former = ?7, stopped = ?8, readied_at = CASE WHEN incarnation = ?2 THEN readied_at END,
			readied_by = CASE WHEN incarnation = ?2 THEN readied_by END,
			expires_at = CASE WHEN incarnation = ?2 THEN expires_at END,
			part = CASE WHEN incarnation = ?2 AND deadline = ?3 THEN part ELSE '' END
		WHERE rowid = ?1`

	dueText = `SELECT rowid, due_at, attempts, bound <> 0, ` + messageColumns + ` FROM messages
		WHERE readied_at IS NULL AND lane = ?1 AND part = ?5 AND due_at BETWEEN ?4 AND ?2
		ORDER BY due_at, id LIMIT ?3`

	claimText = `UPDATE messages SET readied_at = ?2, readied_by = ?3, expires_at = ?4,
			attempts = attempts + (attempts < 9223372036854775807)
		WHERE rowid = ?1`

	// Whether somebody holds a claim, or anything is parked on a lane, and when the first message that waits there
	// falls due.
	idleText = `SELECT EXISTS (SELECT 1 FROM messages WHERE readied_at IS NOT NULL)
			OR EXISTS (SELECT 1 FROM messages WHERE lane = ?1 AND part > '' AND readied_at IS NULL),
		(SELECT due_at FROM messages WHERE lane = ?1 AND part = '' AND readied_at IS NULL AND due_at <= ?2
			ORDER BY due_at, id LIMIT 1)`

	// Whose turn it is of a line in which a message stands that this transaction has claimed: what node.Turn says. The
	// claims of the transaction have one instant, and one that was made before has another one, or another owner.
	turnText = `SELECT CASE
			WHEN EXISTS (SELECT 1 FROM messages WHERE line = ?1 AND lane = ?2 AND (deadline, id) < (?3, ?4)) THEN 1
			WHEN EXISTS (SELECT 1 FROM messages WHERE line = ?1 AND lane = ?2 AND readied_at IS NOT NULL
				AND rowid NOT IN (SELECT value FROM json_each(?5))) THEN 2
			ELSE 0 END`

	// The first of a line comes forward, if it waits and has stood back.
	forwardText = `UPDATE messages SET due_at = deadline, behind = 0
		WHERE rowid = (SELECT rowid FROM messages WHERE line = ?1 AND lane = ?2 ORDER BY deadline, id LIMIT 1)
			AND readied_at IS NULL AND behind AND due_at > deadline`

	removeText = `DELETE FROM messages WHERE id = ?1 AND lane = ?2 AND incarnation = ?3 RETURNING line`

	// The next occurrence takes the place of one, unless its series was stopped.
	rearmText = `UPDATE messages SET incarnation = ?4, sequence = ?5, occurs_at = ?6, deadline = ?6, due_at = ?6,
			attempts = 0, bound = 0, behind = 0, part = '', readied_at = NULL, readied_by = NULL, expires_at = NULL
		WHERE id = ?1 AND lane = ?2 AND incarnation = ?3 AND NOT stopped RETURNING line`

	promisedText = `SELECT EXISTS (
		SELECT 1 FROM messages WHERE id = ?1 AND lane = ?2 AND incarnation = ?3 AND bound)`

	expiredText = `SELECT id, lane, incarnation, readied_at, readied_by, expires_at FROM messages
		WHERE readied_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at, id, lane`

	resetText = `UPDATE messages SET readied_at = NULL, readied_by = NULL, expires_at = NULL,
			due_at = CASE WHEN ?8 AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.line = messages.line
				AND m.lane = messages.lane AND (m.deadline, m.id) < (messages.deadline, messages.id))
				THEN due_at ELSE coalesce(?6, due_at) END,
			attempts = max(attempts - ?7, 0), behind = ?8, part = ?9
		WHERE id = ?1 AND lane = ?2 AND incarnation = ?3 AND readied_at = ?4 AND readied_by = ?5
		RETURNING CASE WHEN behind THEN line END`

	positionText = `SELECT epoch, next_offset FROM positions WHERE topic_id = ?1 AND partition = ?2`

	createText = `INSERT INTO positions (topic_id, partition, topic, epoch, next_offset) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT DO NOTHING`

	moveText = `UPDATE positions SET epoch = ?3, next_offset = ?4, mark = CASE WHEN mark > ?4 THEN mark END
		WHERE topic_id = ?1 AND partition = ?2`

	rewindText = `INSERT INTO positions (topic_id, partition, topic, epoch, next_offset) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT DO UPDATE SET epoch = ?4, next_offset = ?5
		WHERE CASE WHEN ?4 = -1 OR epoch = -1 OR ?4 = epoch THEN ?5 < next_offset ELSE ?4 < epoch END`

	marksText = `SELECT topic_id, partition, mark FROM positions WHERE mark IS NOT NULL`

	unmarkText = `UPDATE positions SET mark = NULL WHERE mark IS NOT NULL`

	markText = `UPDATE positions SET mark = ?3 WHERE topic_id = ?1 AND partition = ?2 AND next_offset < ?3`

	stateText = `SELECT number, claims_from > ?1 OR EXISTS (SELECT 1 FROM positions WHERE mark IS NOT NULL),
			claims_from > ?1, claims_from <= ?1 AND calls_from > ?1, EXISTS (SELECT 1 FROM pauses WHERE lane = '')
		FROM lineage`

	isPausedText = `SELECT EXISTS (SELECT 1 FROM pauses WHERE lane = ?1)`

	pauseText = `INSERT INTO pauses (lane, since, paused_by, reason) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING`

	resumeText = `DELETE FROM pauses WHERE lane = ?1`

	pausesText = `SELECT lane, since, paused_by, reason FROM pauses ORDER BY lane`

	beginText = `UPDATE lineage SET number = ?1, claims_from = ?2, calls_from = ?3`

	boundText = `SELECT cluster, consumer_group, adopting, (SELECT count(*) FROM positions) FROM binding`

	bindText = `UPDATE binding SET cluster = ?1, consumer_group = ?2`

	adoptText = `UPDATE binding SET adopting = 0`
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
		{&p.replace, replaceText},
		{&p.alter, alterText},
		{&p.due, dueText},
		{&p.claim, claimText},
		{&p.idle, idleText},
		{&p.turn, turnText},
		{&p.forward, forwardText},
		{&p.remove, removeText},
		{&p.rearm, rearmText},
		{&p.promised, promisedText},
		{&p.expired, expiredText},
		{&p.reset, resetText},
		{&p.position, positionText},
		{&p.create, createText},
		{&p.move, moveText},
		{&p.rewind, rewindText},
		{&p.marks, marksText},
		{&p.unmark, unmarkText},
		{&p.mark, markText},
		{&p.state, stateText},
		{&p.begin, beginText},
		{&p.bound, boundText},
		{&p.bind, bindText},
		{&p.adopt, adoptText},
		{&p.isPaused, isPausedText},
		{&p.pause, pauseText},
		{&p.resume, resumeText},
		{&p.pauses, pausesText},
		{&p.answer, answerText},
		{&p.remember, rememberText},
		{&p.sweep, sweepText},
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
	var notAfter, series, sequence, at, line any
	if !m.NotAfter.IsZero() {
		notAfter = m.NotAfter.UnixMicro()
	}
	if m.Recurs() {
		series, sequence, at = m.Series, m.Sequence, m.At.UnixMicro()
	}
	if m.Line != uuid.Nil {
		line = m.Line[:]
	}
	return []any{
		m.ID, m.Lane, m.Incarnation[:], m.Deadline.UnixMicro(), notAfter, series, sequence, at, m.Key, m.Value,
		string(headers.Encode(m.Headers)), line,
	}
}

// scanMessage reads a row that has the columns of before and then messageColumns. With an error comes what could be
// read: at least the name, if those of before could.
func scanMessage(rows *sql.Rows, before ...any) (m node.Message, err error) {
	var deadline int64
	var limits limits
	var list []byte
	var line uuid.NullUUID
	columns := append(before, &m.ID, &m.Lane, &m.Incarnation, &deadline,
		&limits.notAfter, &limits.series, &limits.sequence, &limits.at,
		(*nullable)(&m.Key), (*nullable)(&m.Value), &list, &line)
	err = rows.Scan(columns...)
	m.Deadline, m.Line = fromColumn(deadline), line.UUID
	limits.set(&m)
	if err == nil {
		m.Headers, err = headers.Decode(list)
	}
	if err != nil {
		return m, fmt.Errorf("read message %q for lane %q: %w", m.ID, m.Lane, err)
	}
	return m, nil
}

// limits are the columns that few messages have.
type limits struct {
	notAfter, sequence, at sql.NullInt64
	series                 sql.NullString
}

func (l *limits) set(m *node.Message) {
	if l.notAfter.Valid {
		m.NotAfter = fromColumn(l.notAfter.Int64)
	}
	if l.series.Valid {
		m.Recurrence = node.Recurrence{
			Series: l.series.String, Sequence: l.sequence.Int64, At: fromColumn(l.at.Int64),
		}
	}
}

// scanClaim reads a row that has the columns of a claim.
func scanClaim(rows *sql.Rows) (c node.Claim, err error) {
	var at, expires int64
	if err := rows.Scan(&c.ID, &c.Lane, &c.Incarnation, &at, &c.ReadiedBy, &expires); err != nil {
		return c, fmt.Errorf("read the claim on message %q for lane %q: %w", c.ID, c.Lane, err)
	}
	c.ReadiedAt, c.Expires = fromColumn(at), fromColumn(expires)
	return c, nil
}

// claimColumns returns the values of readied_at and readied_by for a claim.
func claimColumns(at time.Time, owner uuid.UUID) (readiedAt, readiedBy any) {
	return at.UnixMicro(), owner[:]
}

// placeArguments returns the values of topic_id, partition, topic, epoch and next_offset.
func placeArguments(p node.Place) []any {
	return []any{p.TopicID[:], p.Number, p.Topic, p.Epoch, p.Offset}
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
