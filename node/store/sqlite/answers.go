package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// sweep is how many answers that have expired are deleted for each one that is stored: more than one, so that they get
// fewer when requests get fewer.
const sweep = 4

const (
	answerText = `SELECT print, outcome, id, lane, incarnation, deadline, former_deadline, coalesce(sequence, 0),
			may_appear, lineage
		FROM answers WHERE request = ?1 AND expires_at > ?2`

	// One that has expired is in nobody's way.
	rememberText = `INSERT OR REPLACE INTO answers (request, print, expires_at, outcome, id, lane, incarnation,
			deadline, former_deadline, sequence, may_appear, lineage)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)`

	sweepText = `DELETE FROM answers WHERE request IN (
			SELECT request FROM answers WHERE expires_at <= ?1 ORDER BY expires_at, request LIMIT ?2)`
)

// ask does what an item asks for, unless its request was answered before: then that is the answer.
func (k *taking) ask(ctx context.Context, item *node.Item) (done done, refusal string, err error) {
	if item.Request == nil {
		if k.state.Holds(item) {
			done.Outcome = node.Blocked
			return done, "", nil
		}
		done, _, refusal, err = k.item(ctx, item)
		return done, refusal, err
	}
	told, found, err := k.answer(ctx, item.Request)
	if err != nil {
		return done, "", fmt.Errorf("look for the answer to a request: %w", err)
	}
	if found {
		done.Outcome, done.Told = told.Outcome, &told
		if item.Action.Stores() {
			done.left = look // a take whose answer was lost comes again: the node needs the claim that it holds
		}
		return done, "", nil
	}
	if k.state.Holds(item) {
		done.Outcome = node.Blocked
		return done, "", nil
	}
	done, verdict, refusal, err := k.item(ctx, item)
	if err != nil || refusal != "" {
		return done, refusal, err
	}
	told = item.Tell(verdict, k.state.Lineage)
	done.Told = &told
	if err := k.remember(item.Request, &told); err != nil {
		return done, "", fmt.Errorf("remember the answer to a request: %w", err)
	}
	return done, "", nil
}

// answer returns what a request was told before.
func (k *taking) answer(ctx context.Context, request *node.Request) (told node.Told, found bool, err error) {
	var outcome string
	var incarnation uuid.NullUUID
	var deadline, former sql.NullInt64
	err = k.row(ctx, k.statements.answer, request.ID[:], k.now.UnixMicro()).Scan(&told.Print, &outcome,
		&told.Message.ID, &told.Message.Lane, &incarnation, &deadline, &former, &told.Sequence, &told.MayAppear,
		&told.Lineage)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return told, false, nil
	case err != nil:
		return told, false, err
	}
	told.Again, told.Incarnation = true, incarnation.UUID
	if deadline.Valid {
		told.Deadline = fromColumn(deadline.Int64)
	}
	if former.Valid {
		told.Former = fromColumn(former.Int64)
	}
	told.Outcome, err = node.ParseOutcome(outcome)
	return told, true, err
}

// remember stores what a request is told, and deletes a few answers that have expired.
func (k *taking) remember(request *node.Request, told *node.Told) error {
	if err := k.execute(k.statements.sweep, k.now.UnixMicro(), sweep); err != nil {
		return err
	}
	var incarnation, sequence any
	if told.Incarnation != uuid.Nil {
		incarnation = told.Incarnation[:]
	}
	if told.Sequence != 0 {
		sequence = told.Sequence
	}
	return k.execute(k.statements.remember, request.ID[:], told.Print[:],
		instant(k.now.Add(request.Keep)).UnixMicro(), told.Outcome.String(), told.Message.ID, told.Message.Lane,
		incarnation, toColumn(told.Deadline), toColumn(told.Former), sequence, told.MayAppear, told.Lineage)
}

// toColumn returns what a column holds for an instant: NULL for none.
func toColumn(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}
