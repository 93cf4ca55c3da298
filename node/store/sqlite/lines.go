package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"chronos/node"
)

// turns says of messages that were claimed just now whose turn it is.
func (t *transaction) turns(ctx context.Context, found []due, claimed []node.Ready) error {
	rows := []int64{}
	for i := range found {
		if found[i].Line != uuid.Nil {
			rows = append(rows, found[i].rowID)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	own, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	for i := range claimed {
		m := &claimed[i]
		if m.Line == uuid.Nil {
			continue
		}
		err := t.row(ctx, t.statements.turn, m.Line[:], m.Lane, m.Deadline.UnixMicro(), m.ID, string(own)).Scan(&m.Turn)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a message, and reports whether it was there.
func (t *transaction) remove(ref node.Ref) (bool, error) {
	return t.settle(t.statements.remove, ref.Lane, ref.ID, ref.Lane, ref.Incarnation[:])
}

// settle executes a statement that settles one message at most and returns its line, has what is first there now come
// forward, and reports whether there was such a message. Like changes it runs to its end.
func (t *transaction) settle(statement *sql.Stmt, lane string, arguments ...any) (bool, error) {
	var line uuid.NullUUID
	err := t.row(context.Background(), statement, arguments...).Scan(&line)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil || !line.Valid:
		return err == nil, err
	}
	return true, t.execute(t.statements.forward, line.UUID[:], lane)
}
