package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/headers"
)

// Present implements node.Store.
func (s *Store) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look for %d messages: %w", len(ids), err)
	}
	present := make([]bool, len(ids))
	for from := 0; from < len(ids); from += batchRows {
		var places []int
		var names, topics []string
		for at, id := range ids[from:min(from+batchRows, len(ids))] {
			if isStorable(id) {
				places = append(places, from+at)
				names, topics = append(names, id.ID), append(topics, id.Topic)
			}
		}
		found, err := collect(ctx, s, func(rows pgx.Rows, place *int) error {
			return rows.Scan(place)
		}, presentStatement, names, topics)
		if err != nil {
			return nil, fmt.Errorf("look for %d messages: %w", len(ids), err)
		}
		for _, place := range found {
			present[places[place-1]] = true
		}
	}
	return present, nil
}

// readyRow is a row of readyStatement.
type readyRow struct {
	node.Readied

	due     time.Time
	headers []byte
}

// Ready implements node.Store.
func (s *Store) Ready(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("claim messages: %w", err)
	}
	rows, err := collect(ctx, s, func(rows pgx.Rows, r *readyRow) error {
		return rows.Scan(&r.ID, &r.Topic, &r.Incarnation, &r.Deadline, &r.due, &r.Claim.ReadiedAt,
			&r.headers, &r.Key, &r.Value)
	}, readyStatement, uuidOf(request.Node), instant(request.Until), request.Limit, request.Bytes)
	if err != nil {
		return nil, fmt.Errorf("claim messages: %w", err)
	}
	slices.SortFunc(rows, func(a, b readyRow) int {
		return cmp.Or(a.due.Compare(b.due), strings.Compare(a.ID, b.ID), strings.Compare(a.Topic, b.Topic))
	})
	readied := make([]node.Readied, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		r.Headers, err = headers.Decode(r.headers)
		if err != nil {
			s.report(fmt.Errorf("read message %q for topic %s: %w", r.ID, r.Topic, err))
			continue
		}
		r.Deadline = r.Deadline.UTC()
		r.Claim = node.Claim{Ref: r.Ref(), ReadiedAt: r.Claim.ReadiedAt.UTC(), ReadiedBy: request.Node}
		readied = append(readied, r.Readied)
	}
	return readied, nil
}

// Delete implements node.Store.
func (s *Store) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("delete %d messages: %w", len(refs), err)
	}
	deleted := make([]bool, len(refs))
	for from := 0; from < len(refs); from += batchRows {
		if err := s.deleteBatch(ctx, refs[from:min(from+batchRows, len(refs))], deleted[from:]); err != nil {
			return nil, fmt.Errorf("delete %d messages: %w", len(refs), err)
		}
	}
	return deleted, nil
}

// deleteBatch executes one delete and notes which refs had a row, of equal ones the first.
func (s *Store) deleteBatch(ctx context.Context, refs []node.Ref, deleted []bool) error {
	n := newNames(len(refs))
	for at, ref := range refs {
		if _, repeated := n.places[ref]; !repeated {
			n.add(at, ref)
		}
	}
	gone, err := collect(ctx, s, scanRef, deleteStatement, n.ids, n.topics, n.incarnations)
	if err != nil {
		return err
	}
	for _, ref := range gone {
		deleted[n.places[ref]] = true
	}
	return nil
}

// Stuck implements node.Store.
func (s *Store) Stuck(ctx context.Context, request node.StuckRequest) ([]node.Claim, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look for stuck claims: %w", err)
	}
	microseconds := (request.Hold + time.Microsecond - 1).Microseconds()
	stuck, err := collect(ctx, s, func(rows pgx.Rows, c *node.Claim) error {
		if err := rows.Scan(&c.ID, &c.Topic, &c.Incarnation, &c.ReadiedAt, &c.ReadiedBy); err != nil {
			return err
		}
		c.ReadiedAt = c.ReadiedAt.UTC()
		return nil
	}, stuckStatement, microseconds, request.Limit)
	if err != nil {
		return nil, fmt.Errorf("look for stuck claims: %w", err)
	}
	return stuck, nil
}

// Reset implements node.Store.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reset %d claims: %w", len(releases), err)
	}
	reset := make([]bool, len(releases))
	for from := 0; from < len(releases); {
		n, err := s.resetBatch(ctx, releases[from:], reset[from:])
		if err != nil {
			return nil, fmt.Errorf("reset %d claims: %w", len(releases), err)
		}
		from += n
	}
	return reset, nil
}

// resetBatch executes one reset for the first n of releases, notes which took effect, and returns n. Of two that name
// the same message, the second is for the next batch, since it may be by another claim. The same holds for two with
// one incarnation, by which the statement finds the new due time.
func (s *Store) resetBatch(ctx context.Context, releases []node.Release, reset []bool) (int, error) {
	n := newNames(min(len(releases), batchRows))
	seen := map[any]bool{}
	var readiedAt []time.Time
	var readiedBy []pgtype.UUID
	var due []pgtype.Timestamptz
	end := 0
	for ; end < len(releases) && end < batchRows; end++ {
		r := &releases[end]
		id := node.MessageID{ID: r.ID, Topic: r.Topic}
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
	}
	waiting, err := collect(ctx, s, scanRef, resetStatement,
		n.ids, n.topics, n.incarnations, readiedAt, readiedBy, due)
	if err != nil {
		return 0, err
	}
	for _, ref := range waiting {
		reset[n.places[ref]] = true
	}
	return end, nil
}

func (s *Store) report(err error) {
	if s.options.Report != nil {
		s.options.Report(err)
	}
}

// names are refs as arguments, a slice for each part, and where in the batch they are.
type names struct {
	ids, topics  []string
	incarnations []pgtype.UUID
	places       map[node.Ref]int
}

func newNames(n int) *names {
	return &names{
		ids: make([]string, 0, n), topics: make([]string, 0, n), incarnations: make([]pgtype.UUID, 0, n),
		places: make(map[node.Ref]int, n),
	}
}

// add takes in a ref, unless the table can have no such row, and returns whether it did.
func (n *names) add(place int, ref node.Ref) bool {
	if !isStorable(node.MessageID{ID: ref.ID, Topic: ref.Topic}) {
		return false
	}
	n.ids = append(n.ids, ref.ID)
	n.topics = append(n.topics, ref.Topic)
	n.incarnations = append(n.incarnations, uuidOf(ref.Incarnation))
	n.places[ref] = place
	return true
}

func scanRef(rows pgx.Rows, ref *node.Ref) error {
	return rows.Scan(&ref.ID, &ref.Topic, &ref.Incarnation)
}
