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
		if found[i].Line != uuid.Nil || found[i].unreadable != nil { // its line may not have been read
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
// forward, and reports whether there was such a message.
func (t *transaction) settle(statement *sql.Stmt, lane string, arguments ...any) (bool, error) {
	line, there, err := settled(t.use(context.Background(), statement), arguments...)
	if err != nil || !line.Valid {
		return there, err
	}
	return true, t.forward(lineName{lane, line.UUID})
}

// settled executes a statement that concerns one row at most and returns its line, and reports whether it has changed
// one. Like changes it runs to its end.
func settled(statement *sql.Stmt, arguments ...any) (line uuid.NullUUID, there bool, err error) {
	var value []byte
	err = statement.QueryRowContext(context.Background(), arguments...).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return line, false, nil
	}
	if id, unreadable := uuid.FromBytes(value); unreadable == nil { // what somebody has spoilt by hand is no line
		line = uuid.NullUUID{UUID: id, Valid: true}
	}
	return line, err == nil, err
}

// lineName names a line: of one lane.
type lineName struct {
	lane string
	line uuid.UUID
}

// forward has what is first in a line come forward.
func (t *transaction) forward(line lineName) error {
	return t.execute(t.statements.forward, line.line[:], line.lane)
}
