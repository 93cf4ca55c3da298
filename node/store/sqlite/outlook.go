package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/node/store/outlook"
)

var _ outlook.Source = (*Store)(nil)

// The statements of an outlook. Each reads a bounded part of one index, in a transaction of its own, so that it keeps
// the node's calls waiting for a few milliseconds at most.
const (
	comingText = `SELECT
		CASE WHEN due_at <= ?3 THEN 0 WHEN due_at <= ?4 THEN 1 WHEN due_at <= ?5 THEN 2 WHEN due_at <= ?6 THEN 3
			WHEN due_at <= ?7 THEN 4 ELSE 5 END AS bucket, count(*), min(due_at)
		FROM (SELECT due_at FROM messages
			WHERE readied_at IS NULL AND lane = ?1 AND part = ?9 AND due_at >= ?2 ORDER BY due_at, id LIMIT ?8)
		GROUP BY bucket`

	overdueText = `SELECT count(*), coalesce(min(due_at), 0)
		FROM (SELECT due_at FROM messages
			WHERE readied_at IS NULL AND lane = ?1 AND part = ?4 AND due_at < ?2 ORDER BY due_at, id LIMIT ?3)`

	// What was put off, in the order of its deadlines, and how much of that waits for its next try.
	deferredText = `SELECT count(*) FILTER (WHERE due_at >= ?2), count(*), coalesce(min(deadline), 0)
		FROM (SELECT deadline, due_at FROM messages
			WHERE due_at > deadline AND lane = ?1 AND deadline < ?2 ORDER BY deadline, due_at LIMIT ?3)`

	// From part to part of a lane, the first of each.
	parkedText = `WITH RECURSIVE parts (part, due_at) AS (
			SELECT * FROM (SELECT part, due_at FROM messages WHERE readied_at IS NULL AND lane = ?1 AND part > ''
				ORDER BY part, due_at, id LIMIT 1)
			UNION ALL
			SELECT next.part, next.due_at FROM parts JOIN messages AS next ON next.rowid = (
				SELECT rowid FROM messages WHERE readied_at IS NULL AND lane = ?1 AND part > parts.part
				ORDER BY part, due_at, id LIMIT 1))
		SELECT part, due_at FROM parts LIMIT ?2`

	claimedText = `SELECT lane, count(*), count(*) FILTER (WHERE due_at < ?1),
			coalesce(min(due_at) FILTER (WHERE due_at < ?1), 0)
		FROM (SELECT lane, due_at FROM messages
			WHERE readied_at IS NOT NULL ORDER BY expires_at, id, lane LIMIT ?2)
		GROUP BY lane`
)

// Outlook implements outlook.Source. Counts end at outlook.Limit: there are no statistics to tell more. The file does
// not say which records messages came from, and has no clock of its own.
func (s *Store) Outlook(ctx context.Context, request outlook.Request) (outlook.Outlook, error) {
	var seen outlook.Outlook
	claimed, err := s.claimedLanes(ctx, request.Now)
	if err != nil {
		return seen, fmt.Errorf("look at what waits: %w", err)
	}
	for _, name := range request.Lanes {
		lane := outlook.Lane{Name: name, Within: make([]outlook.Count, len(outlook.Horizons()))}
		if err := s.countLane(ctx, &lane, request.Now, claimed[name]); err != nil {
			return seen, fmt.Errorf("look at what waits on lane %q: %w", name, err)
		}
		seen.Lanes = append(seen.Lanes, lane)
	}
	return seen, nil
}

// held is what nodes hold of a lane, and how much of that is overdue since when.
type held struct {
	n, late int
	oldest  time.Time
}

func (s *Store) claimedLanes(ctx context.Context, now time.Time) (map[string]held, error) {
	all := map[string]held{}
	err := s.look(ctx, claimedText, func(scan func(...any) error) error {
		var lane string
		var h held
		var oldest int64
		err := scan(&lane, &h.n, &h.late, &oldest)
		h.oldest = fromColumn(oldest)
		all[lane] = h
		return err
	}, now.Add(-outlook.Grace).UnixMicro(), outlook.Limit)
	return all, err
}

// countLane counts what waits on a lane and on its parts. All parts together have as many messages looked at as the
// lane itself.
func (s *Store) countLane(ctx context.Context, lane *outlook.Lane, now time.Time, claimed held) error {
	lane.Claimed = limited(claimed.n)
	lane.Overdue.N, lane.Oldest = claimed.late, claimed.oldest
	if claimed.late == 0 {
		lane.Oldest = time.Time{}
	}
	if _, err := s.count(ctx, lane, "", now, outlook.Limit); err != nil {
		return err
	}
	err := s.look(ctx, parkedText, func(scan func(...any) error) error {
		var p outlook.Parked
		var oldest int64
		err := scan(&p.Part, &oldest)
		p.Oldest = fromColumn(oldest)
		lane.Parked = append(lane.Parked, p)
		return err
	}, lane.Name, outlook.MaxParked+1)
	if len(lane.Parked) > outlook.MaxParked {
		lane.Parked = lane.Parked[:outlook.MaxParked]
		lane.Waiting.Estimated, lane.Overdue.Estimated = true, true
	}
	for i := range lane.Parked {
		if err != nil {
			break
		}
		p := &lane.Parked[i]
		p.Waiting, err = s.count(ctx, lane, p.Part, now, max(1, outlook.Limit/len(lane.Parked)))
	}
	if err != nil {
		return err
	}
	return s.countDeferred(ctx, lane, now)
}

// countDeferred counts what was put off, and adds that to what is overdue.
func (s *Store) countDeferred(ctx context.Context, lane *outlook.Lane, now time.Time) error {
	var n, all int
	var oldest int64
	err := s.look(ctx, deferredText, func(scan func(...any) error) error { return scan(&n, &all, &oldest) },
		lane.Name, now.Add(-outlook.Grace).UnixMicro(), outlook.Limit)
	if err != nil {
		return err
	}
	lane.Deferred = outlook.Count{N: n, Estimated: all >= outlook.Limit}
	lane.Overdue.Add(lane.Deferred)
	if first := fromColumn(oldest); all > 0 && (lane.Oldest.IsZero() || first.Before(lane.Oldest)) {
		lane.Oldest = first
	}
	return nil
}

// count counts what waits on a part of a lane: so many messages that are overdue, and as many of the others. It adds
// that to the counts of the lane, and returns all of it.
func (s *Store) count(
	ctx context.Context, lane *outlook.Lane, part string, now time.Time, limit int,
) (all outlook.Count, err error) {
	late := now.Add(-outlook.Grace).UnixMicro()
	var overdue int
	var oldest int64
	err = s.look(ctx, overdueText, func(scan func(...any) error) error { return scan(&overdue, &oldest) },
		lane.Name, late, limit, part)
	if err != nil {
		return all, err
	}
	if first := fromColumn(oldest); overdue > 0 && (lane.Oldest.IsZero() || first.Before(lane.Oldest)) {
		lane.Oldest = first
	}
	lane.Overdue.Add(outlook.Count{N: overdue, Estimated: overdue >= limit})

	arguments := []any{lane.Name, late, now.UnixMicro()}
	for _, horizon := range outlook.Horizons() {
		arguments = append(arguments, now.Add(horizon).UnixMicro())
	}
	var counts [6]int
	err = s.look(ctx, comingText, func(scan func(...any) error) error {
		var bucket, n int
		var first int64
		err := scan(&bucket, &n, &first)
		if err == nil {
			counts[bucket] = n
		}
		if due := fromColumn(first); lane.Next.IsZero() || due.Before(lane.Next) {
			lane.Next = due
		}
		return err
	}, append(arguments, limit, part)...)
	coming, so := 0, 0
	for _, n := range counts {
		coming += n
	}
	for i := range lane.Within {
		so += counts[i+1]
		// What was counted is the first of all that comes: a horizon that ends within it is exact.
		lane.Within[i].Add(outlook.Count{N: so, Estimated: coming >= limit && counts[0]+so == coming})
	}
	all = outlook.Count{N: overdue + coming, Estimated: overdue >= limit || coming >= limit}
	lane.Waiting.Add(all)
	return all, err
}

func limited(n int) outlook.Count { return outlook.Count{N: n, Estimated: n >= outlook.Limit} }

// look executes a statement in a transaction of its own, in its turn, and has each of its rows read.
func (s *Store) look(
	ctx context.Context, text string, read func(scan func(...any) error) error, arguments ...any,
) error {
	return s.lookAt(ctx, func(ctx context.Context, t *transaction) (err error) {
		rows, err := t.tx.QueryContext(ctx, text, arguments...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			if err := read(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
