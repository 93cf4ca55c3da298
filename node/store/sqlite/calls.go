package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	codes "modernc.org/sqlite/lib"

	"chronos/node"
)

// Insert implements node.Store.
func (s *Store) Insert(
	ctx context.Context, request node.InsertRequest,
) ([]node.InsertResult, error) {
	results := make([]node.InsertResult, len(request.Messages))
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		insert := t.use(ctx, t.statements.insert)
		find := t.use(ctx, t.statements.find)
		for i := range request.Messages {
			if err := ctx.Err(); err != nil {
				return err
			}
			m := &request.Messages[i]
			if results[i].Reason = refusal(&m.Message); results[i].Reason != "" {
				results[i].Outcome = node.Refused
				continue
			}
			var readiedAt, readiedBy any
			if m.Readied {
				readiedAt, readiedBy = claimColumns(t.now, request.Node)
			}
			inserted, err := changes(insert, append(messageArguments(&m.Message), readiedAt, readiedBy)...)
			switch {
			case isCode(err, codes.SQLITE_TOOBIG):
				results[i] = node.InsertResult{Outcome: node.Refused, Reason: "it is larger than SQLite allows"}
			case err != nil:
				return err
			case inserted:
				results[i].Outcome = node.Inserted
				if m.Readied {
					results[i].Claim = node.Claim{Ref: m.Ref(), ReadiedAt: t.now, ReadiedBy: request.Node}
				}
			default:
				if results[i], err = stored(ctx, find, m.Ref(), request.Node); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("insert %d messages: %w", len(request.Messages), err)
	}
	return results, nil
}

// refusal returns why m can never be stored, empty when it can. The file would take most of what is refused
// here, but its tools would not show it, and node.Message does not allow it.
func refusal(m *node.Message) string {
	switch year := m.Deadline.UTC().Year(); {
	case len(m.ID) == 0 || len(m.ID) > 128:
		return fmt.Sprintf("its id has %d bytes, not 1 to 128", len(m.ID))
	case !utf8.ValidString(m.ID) || strings.ContainsRune(m.ID, 0):
		return "its id is not UTF-8 without NUL"
	case !utf8.ValidString(m.Topic) || strings.ContainsRune(m.Topic, 0):
		return "its topic is not UTF-8 without NUL"
	case year < 1 || year > 9999:
		return fmt.Sprintf("its deadline is in the year %d, not 1 to 9999", year)
	}
	return ""
}

// stored returns the result of inserting a message that was in its own way, or had another in its way.
func stored(
	ctx context.Context, find *sql.Stmt, ref node.Ref, owner uuid.UUID,
) (result node.InsertResult, err error) {
	var incarnation, readiedBy uuid.UUID
	var readiedAt sql.NullInt64
	if err := find.QueryRowContext(ctx, ref.ID, ref.Topic).Scan(&incarnation, &readiedAt, &readiedBy); err != nil {
		return result, err
	}
	if incarnation != ref.Incarnation {
		return node.InsertResult{Outcome: node.Duplicate}, nil
	}
	result.Outcome = node.Inserted
	if readiedAt.Valid && readiedBy == owner {
		result.Claim = node.Claim{Ref: ref, ReadiedAt: fromColumn(readiedAt.Int64), ReadiedBy: owner}
	}
	return result, nil
}

// Present implements node.Store.
func (s *Store) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	present := make([]bool, len(ids))
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		exists := t.use(ctx, t.statements.present) //nolint:sqlclosecheck // the transaction does it
		for i, id := range ids {
			if err := exists.QueryRowContext(ctx, id.ID, id.Topic).Scan(&present[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for %d messages: %w", len(ids), err)
	}
	return present, nil
}

// Ready implements node.Store.
func (s *Store) Ready(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
	var readied []node.Readied
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		rowIDs, messages, err := t.due(ctx, request)
		if err != nil {
			return err
		}
		claim := t.use(ctx, t.statements.claim)
		readiedAt, readiedBy := claimColumns(t.now, request.Node)
		readied = make([]node.Readied, len(messages))
		for i, m := range messages {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := changes(claim, rowIDs[i], readiedAt, readiedBy); err != nil {
				return err
			}
			readied[i] = node.Readied{
				Message: m,
				Claim:   node.Claim{Ref: m.Ref(), ReadiedAt: t.now, ReadiedBy: request.Node},
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim at most %d messages: %w", request.Limit, err)
	}
	return readied, nil
}

// due returns the messages that are to be claimed, and their places in the table.
func (t *transaction) due(
	ctx context.Context, request node.ReadyRequest,
) (rowIDs []int64, messages []node.Message, err error) {
	due := t.use(ctx, t.statements.due) //nolint:sqlclosecheck // the transaction does it
	rows, err := due.QueryContext(ctx, request.Until.UnixMicro(), request.Limit)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; size < request.Bytes && rows.Next(); {
		var rowID int64
		m, err := scanMessage(rows, &rowID)
		if err != nil {
			return nil, nil, err
		}
		rowIDs, messages = append(rowIDs, rowID), append(messages, m)
		size += m.Size()
	}
	return rowIDs, messages, rows.Err()
}

// Delete implements node.Store.
func (s *Store) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	deleted := make([]bool, len(refs))
	err := s.transact(ctx, func(ctx context.Context, t *transaction) (err error) {
		remove := t.use(ctx, t.statements.remove)
		for i, ref := range refs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if deleted[i], err = changes(remove, ref.ID, ref.Topic, ref.Incarnation[:]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("delete %d messages: %w", len(refs), err)
	}
	return deleted, nil
}

// Stuck implements node.Store. Claims of one age are in the order of their ids, then topics.
func (s *Store) Stuck(ctx context.Context, request node.StuckRequest) ([]node.Claim, error) {
	var stuck []node.Claim
	err := s.transact(ctx, func(ctx context.Context, t *transaction) (err error) {
		old := t.use(ctx, t.statements.stuck) //nolint:sqlclosecheck // the transaction does it
		rows, err := old.QueryContext(ctx, t.now.Add(-request.Hold).UnixMicro(), request.Limit)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			claim, err := scanClaim(rows)
			if err != nil {
				return err
			}
			stuck = append(stuck, claim)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("look for claims older than %v: %w", request.Hold, err)
	}
	return stuck, nil
}

// Reset implements node.Store.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	reset := make([]bool, len(releases))
	err := s.transact(ctx, func(ctx context.Context, t *transaction) (err error) {
		statement := t.use(ctx, t.statements.reset)
		for i, r := range releases {
			if err := ctx.Err(); err != nil {
				return err
			}
			var due any
			if !r.Due.IsZero() {
				due = r.Due.UnixMicro()
			}
			readiedAt, readiedBy := claimColumns(r.ReadiedAt, r.ReadiedBy)
			reset[i], err = changes(statement, r.ID, r.Topic, r.Incarnation[:], readiedAt, readiedBy, due)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reset %d claims: %w", len(releases), err)
	}
	return reset, nil
}

// changes executes a statement that concerns one row at most, and returns whether it has changed one. It runs to
// its end whatever the context does, because the driver starts a goroutine for each statement that may be
// interrupted, and such a statement takes microseconds. Its caller asks the context before.
func changes(statement *sql.Stmt, arguments ...any) (bool, error) {
	result, err := statement.ExecContext(context.Background(), arguments...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}
