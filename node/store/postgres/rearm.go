package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

// Settle implements node.Store. Messages that are removed whatever their rows say take one statement, and the others
// three, in a transaction of their own.
func (s *Store) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	settled := make([]node.Settled, len(next))
	err := ctx.Err()
	for from := 0; from < len(next) && err == nil; {
		b := newSettlement(next[from:])
		err = b.execute(ctx, s, settled[from:])
		from += b.n
	}
	for i := range next {
		if settled[i] == node.Rearmed && s.waiting.used() {
			s.waiting.note(next[i].Of.Lane, instant(next[i].At))
		}
	}
	if err == nil {
		err = s.confirm(ctx, settled)
	}
	if err != nil {
		return nil, fmt.Errorf("settle %d messages: %w", len(next), err)
	}
	return settled, nil
}

// settlement is one batch of a Settle.
type settlement struct {
	n        int
	removals *names
	rearm    *rearm
}

// newSettlement makes a batch of the first n. Of two that name one message, the second is for the next batch. So is the
// second of two that may be rearmed and have one incarnation: the statements find the other values by it.
func newSettlement(next []node.Next) *settlement {
	size := min(len(next), batchRows)
	b := &settlement{removals: newNames(size), rearm: newRearm()}
	seen := make(map[any]bool, 2*size)
	for ; b.n < size; b.n++ {
		n := &next[b.n]
		id := node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}
		if seen[id] || !n.Removes() && seen[n.Of.Incarnation] {
			break
		}
		seen[id] = true
		if n.Removes() {
			b.removals.add(b.n, n.Of)
			continue
		}
		seen[n.Of.Incarnation] = true
		b.rearm.add(b.n, n)
	}
	return b
}

// execute settles the batch, and notes what became of each.
func (b *settlement) execute(ctx context.Context, s *Store, settled []node.Settled) error {
	if n := b.removals; len(n.ids) > 0 {
		err := n.execute(ctx, s, settled, node.Removed, deleteStatement, n.ids, n.lanes, n.incarnations)
		if err != nil {
			return err
		}
	}
	if len(b.rearm.all.ids) == 0 {
		return nil
	}
	return b.rearm.execute(ctx, s, settled)
}

// rearm is what a batch of a Settle has to do with series. The statement that rearms comes before the one that removes:
// a row that is stopped by another transaction, for which the first one waits, it leaves alone, and the second one
// finds it stopped. In the other order neither would touch it:
//
//	                                        cancel x: stopped, not committed yet
//	remove x if it is stopped: it is not
//	                                        commit
//	rearm x unless it is stopped: it is
type rearm struct {
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

func newRearm() *rearm {
	return &rearm{all: newNames(0), follow: newNames(0), places: map[node.Ref]int{}}
}

// add takes in what is at a place of the batch.
func (r *rearm) add(place int, n *node.Next) {
	if !r.all.add(place, n.Of) {
		return
	}
	r.ends = append(r.ends, n.Ends())
	r.over = append(r.over, n.PassesOver())
	if n.Ends() {
		return
	}
	r.follow.add(place, n.Of)
	r.places[node.Ref{ID: n.Of.ID, Lane: n.Of.Lane, Incarnation: n.Incarnation}] = place
	r.incarnations = append(r.incarnations, uuidOf(n.Incarnation))
	r.sequences = append(r.sequences, n.Sequence)
	r.instants = append(r.instants, instant(n.At))
	r.followOver = append(r.followOver, n.PassesOver())
}

// execute makes one transaction, and notes what became of each.
func (r *rearm) execute(ctx context.Context, s *Store, settled []node.Settled) error {
	var rearmed, removed, promised, busy []node.Ref
	var behind lines
	f := r.follow
	steps := []step{
		{
			statement: rearmStatement, read: effects(&rearmed, &behind),
			arguments: []any{f.ids, f.lanes, f.incarnations, r.incarnations, r.sequences, r.instants, r.followOver},
		},
		{
			statement: endStatement, read: effects(&removed, &behind),
			arguments: []any{r.all.ids, r.all.lanes, r.all.incarnations, r.ends, r.over},
		},
	}
	if slices.Contains(r.over, true) {
		steps = append(steps, step{
			statement: promisedStatement, read: effects(&promised, nil),
			arguments: []any{r.all.ids, r.all.lanes, r.all.incarnations},
		})
	}
	restart := func() { rearmed, removed, promised, busy, behind = nil, nil, nil, nil, lines{} }
	err := s.onceFree(ctx, restart, steps, step{
		statement: thereStatement, read: effects(&busy, nil),
		arguments: []any{r.all.ids, r.all.lanes, r.all.incarnations},
	})
	if err != nil {
		return err
	}
	s.forward(ctx, &behind)
	for _, ref := range busy {
		settled[r.all.places[ref]] = node.Busy
	}
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
