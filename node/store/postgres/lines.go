package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

// lines are lines of lanes, each once, as the arguments of a statement.
type lines struct {
	lines []pgtype.UUID
	lanes []string
	seen  map[line]bool
}

type line struct {
	line pgtype.UUID
	lane string
}

// add adds the line that a row says, if it stands in any.
func (l *lines) add(id pgtype.UUID, lane string) {
	if !id.Valid || l.seen[line{id, lane}] {
		return
	}
	if l.seen == nil {
		l.seen = map[line]bool{}
	}
	l.seen[line{id, lane}] = true
	l.lines, l.lanes = append(l.lines, id), append(l.lanes, lane)
}

// turns asks whose turn it is of what was claimed and stands in a line. If it cannot find out, all of that is in the
// way: it is given back, and looked at again soon.
func (c *claim) turns(ctx context.Context) error {
	var of []*claimedRow
	var lines, owners []pgtype.UUID
	var lanes, ids []string
	var deadlines, since []time.Time
	for i := range c.rows {
		r := &c.rows[i]
		if r.Line == uuid.Nil {
			continue
		}
		of = append(of, r)
		lines, owners = append(lines, uuidOf(r.Line)), append(owners, uuidOf(r.Claim.ReadiedBy))
		lanes, ids = append(lanes, r.Lane), append(ids, r.ID)
		deadlines, since = append(deadlines, r.Deadline), append(since, r.Claim.ReadiedAt)
	}
	if len(of) == 0 {
		return nil
	}
	all := func(turn node.Turn) {
		for _, r := range of {
			r.Turn = turn
		}
	}
	err := c.store.once(ctx, func() { all(node.ItsTurn) }, step{
		statement: turnStatement, arguments: []any{lines, lanes, deadlines, ids, since, owners},
		read: func(rows pgx.Rows) error {
			var place int
			var turn node.Turn
			err := rows.Scan(&place, &turn)
			if err == nil {
				of[place-1].Turn = turn
			}
			return err
		},
	})
	if err != nil {
		all(node.InTheWay)
	}
	return err
}

// forwardLimit is the time limit of forwardStatement, in milliseconds.
const forwardLimit = "200"

// forward has what is first in lines come forward. It is not worth an error: who stands there is looked at again
// anyway.
func (s *Store) forward(ctx context.Context, l *lines) {
	if len(l.lines) == 0 {
		return
	}
	dues := map[string]time.Time{}
	limit := step{statement: limitStatement, arguments: []any{forwardLimit}}
	err := s.once(ctx, func() { clear(dues) }, limit, step{
		statement: forwardStatement, arguments: []any{l.lines, l.lanes}, read: func(rows pgx.Rows) error {
			var lane string
			var due time.Time
			err := rows.Scan(&lane, &due)
			if before, known := dues[lane]; err == nil && (!known || due.Before(before)) {
				dues[lane] = due
			}
			return err
		},
	})
	if err != nil {
		return
	}
	for lane, due := range dues {
		s.waiting.note(lane, due)
	}
}
