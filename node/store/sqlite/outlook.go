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
			WHERE readied_at IS NULL AND lane = ?1 AND due_at >= ?2 ORDER BY due_at, id LIMIT ?8)
		GROUP BY bucket`

	overdueText = `SELECT count(*), coalesce(min(due_at), 0)
		FROM (SELECT due_at FROM messages
			WHERE readied_at IS NULL AND lane = ?1 AND due_at < ?2 ORDER BY due_at, id LIMIT ?3)`

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
		held := claimed[name]
		lane.Claimed = limited(held.n)
		if err := s.overdue(ctx, &lane, request.Now, held); err != nil {
			return seen, fmt.Errorf("look at what is overdue: %w", err)
		}
		if err := s.coming(ctx, &lane, request.Now); err != nil {
			return seen, fmt.Errorf("look at what comes: %w", err)
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

func (s *Store) overdue(ctx context.Context, lane *outlook.Lane, now time.Time, claimed held) error {
	var n int
	var oldest int64
	err := s.look(ctx, overdueText, func(scan func(...any) error) error { return scan(&n, &oldest) },
		lane.Name, now.Add(-outlook.Grace).UnixMicro(), outlook.Limit)
	lane.Overdue = limited(n)
	lane.Overdue.N += claimed.late
	if n > 0 {
		lane.Oldest = fromColumn(oldest)
	}
	if claimed.late > 0 && (n == 0 || claimed.oldest.Before(lane.Oldest)) {
		lane.Oldest = claimed.oldest
	}
	lane.Waiting = limited(n)
	return err
}

func (s *Store) coming(ctx context.Context, lane *outlook.Lane, now time.Time) error {
	arguments := []any{lane.Name, now.Add(-outlook.Grace).UnixMicro(), now.UnixMicro()}
	for _, horizon := range outlook.Horizons() {
		arguments = append(arguments, now.Add(horizon).UnixMicro())
	}
	var counts [6]int
	err := s.look(ctx, comingText, func(scan func(...any) error) error {
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
	}, append(arguments, outlook.Limit)...)
	all, so := 0, 0
	for _, n := range counts {
		all += n
	}
	for i := range lane.Within {
		so += counts[i+1]
		// What was counted is the first of all that comes: a horizon that ends within it is exact.
		lane.Within[i] = outlook.Count{N: so, Estimated: all >= outlook.Limit && counts[0]+so == all}
	}
	lane.Waiting.N += all
	lane.Waiting.Estimated = lane.Waiting.Estimated || all >= outlook.Limit
	return err
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
