package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/postgres/marks"
)

// execute executes a statement that returns refs with lines, notes what became of those that came, and has what stood
// behind them come forward.
func (n *names) execute(
	ctx context.Context, s *Store, settled []node.Settled, how node.Settled, statement string, arguments ...any,
) error {
	var effective []node.Ref
	var behind lines
	var busy []node.Ref
	restart := func() { effective, busy, behind = nil, nil, lines{} }
	change := step{statement: statement, arguments: arguments, read: effects(&effective, &behind)}
	there := step{statement: thereStatement, arguments: arguments[:3]}
	if how == node.Freed {
		there = step{statement: heldClaimsStatement, arguments: arguments[:5]}
	}
	there.read = effects(&busy, nil)
	err := s.onceFree(ctx, restart, []step{change}, there)
	if err != nil {
		return err
	}
	s.forward(ctx, &behind)
	for _, ref := range busy {
		settled[n.places[ref]] = node.Busy
	}
	for _, ref := range effective {
		settled[n.places[ref]] = how
	}
	return nil
}

// effects returns what reads refs with the lines that they stood in; nil for lines that do not matter.
func effects(refs *[]node.Ref, behind *lines) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var ref node.Ref
		var line pgtype.UUID
		err := rows.Scan(&ref.ID, &ref.Lane, &ref.Incarnation, &line)
		*refs = append(*refs, ref)
		if behind != nil {
			behind.add(line, ref.Lane)
		}
		return err
	}
}

// onceFree makes one transaction of changes. Where another session has something locked for longer than a moment, it
// makes one that leaves that alone, and then tells what of all is still there.
func (s *Store) onceFree(ctx context.Context, restart func(), changes []step, there step) error {
	err := s.runWithin(ctx, "", func(t *transaction) error {
		restart()
		return t.commit(ctx, changes...)
	})
	if !isLocked(err) {
		return err
	}
	steps := []step{{statement: lockTableStatement}}
	for _, one := range changes {
		if one.changes() {
			one.statement = free(one.statement)
		}
		steps = append(steps, one)
	}
	return s.runWithin(ctx, s.patient(), func(t *transaction) error {
		restart()
		return t.commit(ctx, append(steps, there)...)
	})
}

// confirm waits until what others have done is durable, where a result rests on that: what an earlier call of unknown
// outcome has deleted or given back is not there any more, but perhaps it is on a standby that takes over.
func (s *Store) confirm(ctx context.Context, settled []node.Settled) error {
	if !slices.Contains(settled, node.Gone) && !slices.Contains(settled, node.Promised) {
		return nil
	}
	return s.once(ctx, func() {}, step{statement: confirmStatement})
}

// Reset implements node.Store.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	reset := make([]node.Settled, len(releases))
	err := ctx.Err()
	for from := 0; from < len(releases) && err == nil; {
		var n int
		n, err = s.resetBatch(ctx, releases[from:], reset[from:])
		from += n
	}
	if err == nil {
		err = s.confirm(ctx, reset)
	}
	if slices.ContainsFunc(releases, soonAgain) { // whatever has become of it: it may have taken effect
		s.tell()
	}
	if err != nil {
		return nil, fmt.Errorf("reset %d claims: %w", len(releases), err)
	}
	return reset, nil
}

// soonAgain reports whether a message that is given back may be due so soon that a node which rests has to be told.
// Whoever gives back may stand back from the lane, so that it is for the others to claim:
//
//	A        claims x of a lane, can't publish it, and stands back from the lane
//	B        has looked, nothing was due, and rests for a second
//	A        gives x back, due at once: nobody looks before B's rest is over
func soonAgain(release node.Release) bool { return release.Due.Before(time.Now().Add(tellWithin)) }

// resetBatch executes one reset for the first n of releases, notes which took effect, and returns n. Of two that name
// the same message, the second is for the next batch, since it may be by another claim. The same holds for two with
// one incarnation, by which the statement finds the new due time.
func (s *Store) resetBatch(ctx context.Context, releases []node.Release, reset []node.Settled) (int, error) {
	n := newNames(min(len(releases), batchRows))
	seen := map[any]bool{}
	var readiedAt []time.Time
	var readiedBy []pgtype.UUID
	var due []pgtype.Timestamptz
	var unsent, behind []bool
	var parts []string
	end := 0
	for ; end < len(releases) && end < batchRows; end++ {
		r := &releases[end]
		id := node.MessageID{ID: r.ID, Lane: r.Lane}
		if seen[id] || seen[r.Incarnation] {
			break
		}
		seen[id], seen[r.Incarnation] = true, true
		if !n.add(end, r.Ref) {
			continue
		}
		readiedAt = append(readiedAt, instant(r.ReadiedAt))
		readiedBy = append(readiedBy, uuidOf(r.ReadiedBy))
		due = append(due, pgtype.Timestamptz{Time: instant(r.Due), Valid: !r.Due.IsZero()})
		unsent, behind = append(unsent, r.Unsent), append(behind, r.Behind)
		switch {
		case r.Part != "" && isText(r.Part):
			parts = put(parts, len(n.ids)-1, r.Part)
		case !r.Due.IsZero(): // whatever becomes of it: it may take effect
			s.waiting.note(r.Lane, instant(r.Due))
		}
	}
	return end, n.execute(ctx, s, reset, node.Freed, resetStatement,
		n.ids, n.lanes, n.incarnations, readiedAt, readiedBy, due, unsent, behind, parts)
}

// Expired implements node.Store. It keeps marks like Claim, on one lane that has no name.
func (s *Store) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	expired, err := s.lookForExpired(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("look for expired claims: %w", err)
	}
	return expired, nil
}

func (s *Store) lookForExpired(ctx context.Context, limit int) ([]node.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lanes := []string{""}
	err := s.expired.prepare(ctx, lanes, time.Now(), func(
		ctx context.Context, _ []string, froms []time.Time, until time.Time,
	) (map[string]marks.Place, time.Duration, bool, error) {
		_, first, took, gaveUp, err := s.briefly(ctx, limit, froms[0], until)
		return first, took, gaveUp, err
	})
	if err != nil {
		return nil, err
	}
	var found []node.Claim
	if swept, due := s.expired.next(lanes, nil); due {
		claims, first, took, gaveUp, err := s.briefly(ctx, limit, swept.slice.From[0], swept.slice.Until[0])
		if err != nil {
			return nil, err
		}
		found = claims
		// They stay until somebody resets them.
		s.expired.swept(swept, took, gaveUp, len(found) >= limit || len(found) == 0 && len(first) > 0)
	}
	start := time.Now()
	list, first, watch, err := s.expiredBetween(ctx, limit, s.expired.from("").Due, latest())
	s.expired.done(lanes, first, watch.began, time.Since(start), err)
	if err != nil {
		return nil, err
	}
	// What has expired at the very mark may have been found twice.
	list = slices.DeleteFunc(list, func(c node.Claim) bool { return slices.Contains(found, c) })
	list = append(found, list...)
	return list[:min(len(list), limit)], nil
}

// briefly is expiredBetween for the time that the look at a slice may take.
func (s *Store) briefly(ctx context.Context, limit int, from, until time.Time) (
	list []node.Claim, first map[string]marks.Place, took time.Duration, gaveUp bool, err error,
) {
	list, first, watch, err := s.expiredBetween(ctx, limit, from, until, step{
		statement: limitStatement, arguments: []any{fmt.Sprint(marks.SliceLimit.Milliseconds())},
	})
	if isCancelled(err) {
		return nil, nil, watch.took(true), true, nil
	}
	return list, first, watch.took(false), false, err
}

// errNoClaim is what is wrong with a claim that somebody has edited.
var errNoClaim = errors.New("readied_at is infinite, so nobody can give it up: set readied_at, readied_by and " +
	"expires_at to NULL")

// expiredBetween returns claims that have expired between two instants, but for those that are locked; the place of the
// first of all, which the mark must not pass; and when the server began and ended to look.
func (s *Store) expiredBetween(ctx context.Context, limit int, from, until time.Time, before ...step) (
	list []node.Claim, first map[string]marks.Place, watch stopwatch, err error,
) {
	steps := append(before,
		watch.begin(),
		step{statement: expiredStatement, arguments: []any{from, until, limit}, read: func(rows pgx.Rows) error {
			var c node.Claim
			var readiedAt pgtype.Timestamptz
			err := rows.Scan(&c.ID, &c.Lane, &c.Incarnation, &readiedAt, &c.ReadiedBy, &c.Expires)
			c.ReadiedAt, c.Expires = readiedAt.Time.UTC(), c.Expires.UTC()
			if err == nil && (readiedAt.InfinityModifier != pgtype.Finite) {
				s.report(fmt.Errorf("read the claim on message %q for lane %s: %w", c.ID, c.Lane, errNoClaim))
				return nil
			}
			list = append(list, c)
			return err
		}},
		step{statement: firstExpiredStatement, arguments: []any{from, until}, read: func(rows pgx.Rows) error {
			var place marks.Place
			err := rows.Scan(&place.Due)
			first = map[string]marks.Place{"": place}
			return err
		}},
		watch.end())
	err = s.once(ctx, func() { list, first = nil, nil }, steps...)
	return list, first, watch, err
}
