package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

// Rearm implements node.Store. The statement that rearms comes before the one that removes: a row that is stopped by
// another transaction, for which the first one waits, it leaves alone, and the second one finds it stopped. In the
// other order neither would touch it:
//
//	                                        cancel x: stopped, not committed yet
//	remove x if it is stopped: it is not
//	                                        commit
//	rearm x unless it is stopped: it is
func (s *Store) Rearm(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	settled := make([]node.Settled, len(next))
	err := ctx.Err()
	for from := 0; from < len(next) && err == nil; {
		r := newRearm(next[from:])
		err = r.execute(ctx, s, settled[from:])
		from += r.n
	}
	effects := make([]bool, len(next))
	for i := range next {
		effects[i] = settled[i] == node.Rearmed || settled[i] == node.Removed
		if settled[i] == node.Rearmed && s.waiting.used() {
			s.waiting.note(next[i].Of.Lane, instant(next[i].At))
		}
	}
	if err == nil {
		err = s.confirm(ctx, effects)
	}
	if err != nil {
		return nil, fmt.Errorf("rearm %d messages: %w", len(next), err)
	}
	return settled, nil
}

// rearm is one batch of a Rearm.
type rearm struct {
	n    int
	all  *names
	ends []bool // by the name in all
	over []bool // the same: those that are passed over

	// Those that another occurrence follows.
	follow       *names
	places       map[node.Ref]int // under their next incarnations
	incarnations []pgtype.UUID
	sequences    []int64
	instants     []time.Time
	followOver   []bool
}

// newRearm makes a batch of the first n. Of two that name one message, or one incarnation, by which the statements find
// the other values, the second is for the next batch, as with Reset.
func newRearm(next []node.Next) *rearm {
	size := min(len(next), batchRows)
	r := &rearm{all: newNames(size), follow: newNames(size), places: map[node.Ref]int{}}
	seen := map[any]bool{}
	for ; r.n < size; r.n++ {
		n := &next[r.n]
		id := node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}
		if seen[id] || seen[n.Of.Incarnation] {
			break
		}
		seen[id], seen[n.Of.Incarnation] = true, true
		if !r.all.add(r.n, n.Of) {
			continue
		}
		r.ends = append(r.ends, n.Ends())
		r.over = append(r.over, n.PassesOver())
		if n.Ends() {
			continue
		}
		r.follow.add(r.n, n.Of)
		r.places[node.Ref{ID: n.Of.ID, Lane: n.Of.Lane, Incarnation: n.Incarnation}] = r.n
		r.incarnations = append(r.incarnations, uuidOf(n.Incarnation))
		r.sequences = append(r.sequences, n.Sequence)
		r.instants = append(r.instants, instant(n.At))
		r.followOver = append(r.followOver, n.PassesOver())
	}
	return r
}

// execute makes one transaction of the batch, and notes what became of each.
func (r *rearm) execute(ctx context.Context, s *Store, settled []node.Settled) error {
	var rearmed, removed, promised []node.Ref
	var behind lines
	collect := func(to *[]node.Ref) func(pgx.Rows) error {
		return func(rows pgx.Rows) error {
			var ref node.Ref
			var line pgtype.UUID
			err := rows.Scan(&ref.ID, &ref.Lane, &ref.Incarnation, &line)
			*to = append(*to, ref)
			behind.add(line, ref.Lane)
			return err
		}
	}
	f := r.follow
	steps := []step{
		{
			statement: rearmStatement, read: collect(&rearmed),
			arguments: []any{f.ids, f.lanes, f.incarnations, r.incarnations, r.sequences, r.instants, r.followOver},
		},
		{
			statement: endStatement, read: collect(&removed),
			arguments: []any{r.all.ids, r.all.lanes, r.all.incarnations, r.ends, r.over},
		},
	}
	if slices.Contains(r.over, true) {
		steps = append(steps, step{
			statement: promisedStatement, read: collect(&promised),
			arguments: []any{r.all.ids, r.all.lanes, r.all.incarnations},
		})
	}
	err := s.once(ctx, func() { rearmed, removed, promised, behind = nil, nil, nil, lines{} }, steps...)
	if err != nil {
		return err
	}
	s.forward(ctx, &behind)
	for _, ref := range rearmed {
		settled[r.places[ref]] = node.Rearmed
	}
	for _, ref := range removed {
		settled[r.all.places[ref]] = node.Removed
	}
	for _, ref := range promised {
		settled[r.all.places[ref]] = node.Promised
	}
	return nil
}
