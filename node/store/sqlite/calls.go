package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/node"
)

// Claim implements node.Store.
func (s *Store) Claim(ctx context.Context, request node.ClaimRequest) (result node.ClaimResult, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		result = node.ClaimResult{}
		if result.State, err = t.state(ctx); err != nil || !result.State.Claims() {
			return err
		}
		var found []due
		left := request.Bytes
		for _, share := range request.Lanes {
			paused, err := t.paused(ctx, share.Lane)
			if err != nil {
				return err
			}
			if paused || !result.State.ClaimsOn(share.Lane) {
				continue
			}
			if request.Bytes > 0 {
				share.Bytes = min(share.Bytes, left)
			}
			lane, err := t.due(ctx, share, request.Until)
			if err != nil {
				return err
			}
			found = append(found, lane...)
			for i := range lane {
				left -= lane[i].Size()
			}
			if request.Bytes > 0 && left <= 0 {
				break
			}
		}
		slices.SortFunc(found, func(a, b due) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
		})
		claim := t.use(ctx, t.statements.claim)
		expires := instant(t.now.Add(request.Hold))
		readiedAt, readiedBy := claimColumns(t.now, request.Node)
		for _, d := range found {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := changes(claim, d.rowID, readiedAt, readiedBy, expires.UnixMicro()); err != nil {
				return err
			}
			if d.unreadable != nil {
				if !slices.Contains(result.Unreadable, d.Lane) {
					result.Unreadable = append(result.Unreadable, d.Lane)
				}
				s.report(d.unreadable)
				continue
			}
			result.Messages = append(result.Messages, node.Ready{
				Message: d.Message, Due: fromColumn(d.at), Part: d.part, Attempts: d.attempts + 1, Bound: d.bound,
				Claim: node.Claim{Ref: d.Ref(), ReadiedAt: t.now, ReadiedBy: request.Node, Expires: expires},
			})
		}
		if err := t.turns(ctx, found, result.Messages); err != nil {
			return err
		}
		result.Idle, err = t.idle(ctx, &request)
		return err
	})
	if err != nil {
		return node.ClaimResult{}, fmt.Errorf("claim on %d lanes: %w", len(request.Lanes), err)
	}
	return result, nil
}

// idle returns ClaimResult.Idle.
func (t *transaction) idle(ctx context.Context, request *node.ClaimRequest) (time.Duration, error) {
	if request.Ahead <= 0 {
		return 0, nil
	}
	end := request.Until.Add(request.Ahead).UnixMicro()
	idle := request.Ahead
	for _, share := range request.Lanes {
		var busy bool
		var due sql.NullInt64
		if err := t.row(ctx, t.statements.idle, share.Lane, end).Scan(&busy, &due); err != nil || busy {
			return 0, err
		}
		if due.Valid {
			idle = min(idle, time.UnixMicro(due.Int64).Sub(request.Until))
		}
	}
	return max(0, idle), nil
}

// due is a message that is to be claimed.
type due struct {
	node.Message

	rowID, at int64 // its place in the table, and due_at
	attempts  int
	part      string
	bound     bool

	// unreadable says why the row cannot be read. It is claimed all the same, and not returned: it would be found
	// again by each call, and once there are as many as a share allows, nothing else would.
	unreadable error
}

// due returns what a share of a claim takes.
func (t *transaction) due(ctx context.Context, share node.Share, until time.Time) (found []due, err error) {
	from := share.From.UnixMicro() // of the zero time that is the earliest that a store keeps

	statement := t.use(ctx, t.statements.due) //nolint:sqlclosecheck // the transaction does it
	rows, err := statement.QueryContext(ctx, share.Lane, until.UnixMicro(), share.Limit, from, share.Part)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; size < share.Bytes && rows.Next(); {
		d := due{part: share.Part}
		d.Message, d.unreadable = scanMessage(rows, &d.rowID, &d.at, &d.attempts, &d.bound)
		if d.unreadable != nil && ctx.Err() != nil {
			return nil, d.unreadable
		}
		found = append(found, d)
		size += d.Size()
	}
	return found, rows.Err()
}

// Settle implements node.Store.
func (s *Store) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	settled := make([]node.Settled, len(next))
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		for i, n := range next {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			if settled[i], err = t.settleNext(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle %d messages: %w", len(next), err)
	}
	return settled, nil
}

// settleNext settles one message.
func (t *transaction) settleNext(ctx context.Context, n node.Next) (node.Settled, error) {
	if n.PassesOver() {
		var promised bool
		err := t.row(ctx, t.statements.promised, n.Of.ID, n.Of.Lane, n.Of.Incarnation[:]).Scan(&promised)
		if err != nil || promised {
			return node.Promised, err
		}
	}
	if !n.Ends() {
		rearmed, err := t.settle(t.statements.rearm, n.Of.Lane, n.Of.ID, n.Of.Lane, n.Of.Incarnation[:],
			n.Incarnation[:], n.Sequence, n.At.UnixMicro())
		if err != nil || rearmed {
			return node.Rearmed, err
		}
	}
	removed, err := t.remove(n.Of)
	if err != nil || !removed {
		return node.Gone, err
	}
	return node.Removed, nil
}

// Expired implements node.Store. Claims that expire together are in the order of their ids, then lanes. One that cannot
// be read is reported, and counts for nothing.
func (s *Store) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	var expired []node.Claim
	err := s.transact(ctx, func(ctx context.Context, t *transaction) (err error) {
		statement := t.use(ctx, t.statements.expired) //nolint:sqlclosecheck // the transaction does it
		rows, err := statement.QueryContext(ctx, t.now.UnixMicro())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for len(expired) < limit && rows.Next() {
			claim, err := scanClaim(rows)
			switch {
			case err == nil:
				expired = append(expired, claim)
			case ctx.Err() != nil:
				return err
			default:
				s.report(err)
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("look for expired claims: %w", err)
	}
	return expired, nil
}

// Reset implements node.Store.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	reset := make([]node.Settled, len(releases))
	err := s.transact(ctx, func(ctx context.Context, t *transaction) (err error) {
		statement := t.use(ctx, t.statements.reset)
		behind := map[lineName]bool{}
		for i, r := range releases {
			if err := ctx.Err(); err != nil {
				return err
			}
			var due any
			if !r.Due.IsZero() {
				due = r.Due.UnixMicro()
			}
			unsent := 0
			if r.Unsent {
				unsent = 1
			}
			readiedAt, readiedBy := claimColumns(r.ReadiedAt, r.ReadiedBy)
			line, released, err := settled(statement, r.ID, r.Lane, r.Incarnation[:],
				readiedAt, readiedBy, due, unsent, r.Behind, r.Part)
			if err != nil {
				return err
			}
			if released {
				reset[i] = node.Freed
			}
			if line.Valid {
				behind[lineName{r.Lane, line.UUID}] = true
			}
		}
		for line := range behind {
			if err := t.forward(line); err != nil {
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

// execute executes a statement like changes, whatever it changes.
func (t *transaction) execute(statement *sql.Stmt, arguments ...any) error {
	_, err := changes(t.use(context.Background(), statement), arguments...)
	return err
}
