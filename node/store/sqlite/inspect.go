package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/inspect"
)

var _ inspect.Store = (*Store)(nil)

// shownColumns are those of a message, without its value. The file does not say which records messages came from.
const shownColumns = `id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
	not_after, series, sequence, occurs_at, bound, former, stopped, part,
	coalesce(length(message_value), 0), message_key, message_headers`

// The statements for people who ask. Each reads a bounded part of one index, in a transaction of its own, so that it
// keeps the node's calls waiting for a few milliseconds at most.
const (
	shownText = `SELECT ` + shownColumns + `, CASE WHEN ?2 THEN message_value END FROM messages
		WHERE id = ?1 ORDER BY lane LIMIT ?3`

	waitingSliceText = `SELECT ` + shownColumns + `, NULL FROM messages
		WHERE readied_at IS NULL AND lane = ?1 AND part = ?6 AND due_at >= ?2 AND (due_at > ?2 OR id > ?3)
			AND due_at <= ?4
		ORDER BY due_at, id LIMIT ?5`

	claimedSliceText = `SELECT ` + shownColumns + `, NULL FROM messages
		WHERE readied_at IS NOT NULL AND expires_at >= ?1 AND (expires_at, id, lane) > (?1, ?2, ?3) AND expires_at <= ?4
			AND (?6 = '' OR lane = ?6)
		ORDER BY expires_at, id, lane LIMIT ?5`

	// From part to part: two descents of the index each. A comparison of (lane, part) with those of the one before
	// would use the lane only, and read all of that again.
	partsText = `WITH RECURSIVE parts (lane, part) AS (
			SELECT * FROM (SELECT lane, part FROM messages WHERE readied_at IS NULL
				ORDER BY lane, part, due_at, id LIMIT 1)
			UNION ALL
			SELECT next.lane, next.part FROM parts JOIN messages AS next ON next.rowid = coalesce(
				(SELECT rowid FROM messages WHERE readied_at IS NULL AND lane = parts.lane AND part > parts.part
					ORDER BY part, due_at, id LIMIT 1),
				(SELECT rowid FROM messages WHERE readied_at IS NULL AND lane > parts.lane
					ORDER BY lane, part, due_at, id LIMIT 1)))
		SELECT lane, part FROM parts LIMIT ?1`

	placesText = `SELECT topic, topic_id, partition, coalesce(mark, -1), epoch, next_offset FROM positions
		ORDER BY topic, partition, topic_id LIMIT 10000`

	beatText = `INSERT INTO nodes (id, host, version, started, seen, settings, status)
		VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
		ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, status = excluded.status`

	forgetNodesText = `DELETE FROM nodes WHERE seen < ?1`

	goneText = `DELETE FROM nodes WHERE id = ?1`

	nodesText = `SELECT id, host, version, started, seen, settings, status FROM nodes ORDER BY host, id LIMIT 1000`
)

// Find implements inspect.Source.
func (s *Store) Find(ctx context.Context, id string, parts inspect.Parts) (found []inspect.Message, err error) {
	err = s.look(ctx, shownText, s.showing(&found), id, parts.Payload, inspect.MaxFound)
	if err != nil {
		return nil, fmt.Errorf("look for message %q: %w", id, err)
	}
	return found, nil
}

// Slice implements inspect.Source.
func (s *Store) Slice(ctx context.Context, r inspect.SliceRequest) (slice []inspect.Message, err error) {
	limit := min(max(r.Limit, 1), inspect.MaxSlice)
	if r.Claimed {
		err = s.look(ctx, claimedSliceText, s.showing(&slice),
			r.After.At.UnixMicro(), r.After.ID, r.After.Lane, r.Until.UnixMicro(), limit, r.Lane)
	} else {
		err = s.look(ctx, waitingSliceText, s.showing(&slice),
			r.Lane, r.After.At.UnixMicro(), r.After.ID, r.Until.UnixMicro(), limit, r.Part)
	}
	if err != nil {
		return nil, fmt.Errorf("look at the messages of lane %q: %w", r.Lane, err)
	}
	return slice, nil
}

// showing reads rows of shownColumns. Headers that somebody has spoilt by hand are reported and left out.
func (s *Store) showing(to *[]inspect.Message) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var m inspect.Message
		var deadline, due int64
		var readiedAt, expires sql.NullInt64
		var limits limits
		var list []byte
		var readiedBy uuid.NullUUID
		err := scan(&m.ID, &m.Lane, &m.Incarnation, &deadline, &due, &readiedAt, &readiedBy, &expires, &m.Attempts,
			&limits.notAfter, &limits.series, &limits.sequence, &limits.at, &m.Bound, &m.Former, &m.Stopped,
			&m.Part, &m.Bytes, (*nullable)(&m.Key), &list, (*nullable)(&m.Value))
		if err != nil {
			return err
		}
		m.Deadline, m.Due = fromColumn(deadline), fromColumn(due)
		limits.set(&m.Message)
		if m.Headers, err = headers.Decode(list); err != nil {
			s.report(fmt.Errorf("read message %q for lane %q: %w", m.ID, m.Lane, err))
		}
		value := m.Value
		m.Value = nil
		m.Bytes += m.Size()
		m.Value = value
		if readiedAt.Valid {
			m.Claim = node.Claim{
				Ref: m.Ref(), ReadiedAt: fromColumn(readiedAt.Int64), ReadiedBy: readiedBy.UUID,
				Expires: fromColumn(expires.Int64),
			}
		}
		*to = append(*to, m)
		return nil
	}
}

// Parts implements node.Store and inspect.Source.
func (s *Store) Parts(ctx context.Context) (parts []node.Part, err error) {
	err = s.look(ctx, partsText, func(scan func(...any) error) error {
		var part node.Part
		err := scan(&part.Lane, &part.Name)
		parts = append(parts, part)
		return err
	}, node.MaxParts)
	if err != nil {
		return nil, fmt.Errorf("look for parts of lanes: %w", err)
	}
	return parts, nil
}

// Places implements inspect.Source.
func (s *Store) Places(ctx context.Context) (places []inspect.Place, state node.State, err error) {
	err = s.look(ctx, placesText, func(scan func(...any) error) error {
		var p inspect.Place
		err := scan(&p.Topic, &p.TopicID, &p.Number, &p.Mark, &p.Epoch, &p.Offset)
		places = append(places, p)
		return err
	})
	if err == nil {
		err = s.lookAt(ctx, func(ctx context.Context, t *transaction) (err error) {
			state, err = t.state(ctx)
			return err
		})
	}
	if err != nil {
		return nil, state, fmt.Errorf("look at the positions: %w", err)
	}
	return places, state, nil
}

// Beat implements inspect.Roster.
func (s *Store) Beat(ctx context.Context, beat inspect.Node) error {
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		now := t.now
		_, err := t.tx.ExecContext(ctx, beatText, beat.ID[:], beat.Host, beat.Version, now.UnixMicro(),
			string(beat.Settings), string(beat.Status))
		if err != nil {
			return err
		}
		_, err = t.tx.ExecContext(ctx, forgetNodesText, now.Add(-inspect.Forgotten).UnixMicro())
		return err
	})
	if err != nil {
		return fmt.Errorf("say that the node lives: %w", err)
	}
	return nil
}

// Gone implements inspect.Roster.
func (s *Store) Gone(ctx context.Context, id uuid.UUID) error {
	err := s.transact(ctx, func(ctx context.Context, t *transaction) error {
		_, err := t.tx.ExecContext(ctx, goneText, id[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("say that the node has ended: %w", err)
	}
	return nil
}

// Nodes implements inspect.Roster.
func (s *Store) Nodes(ctx context.Context) (nodes []inspect.Node, now time.Time, err error) {
	err = s.look(ctx, nodesText, func(scan func(...any) error) error {
		var n inspect.Node
		var started, seen int64
		err := scan(&n.ID, &n.Host, &n.Version, &started, &seen, &n.Settings, &n.Status)
		n.Started, n.Seen = fromColumn(started), fromColumn(seen)
		nodes = append(nodes, n)
		return err
	})
	if err != nil {
		return nil, now, errors.Join(fmt.Errorf("look for nodes: %w", err))
	}
	return nodes, instant(s.now()), nil
}
