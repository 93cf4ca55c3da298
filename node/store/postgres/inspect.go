package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/inspect"
)

var _ inspect.Store = (*Store)(nil)

const (
	// inspectLimit is the time limit of each statement for people who ask, and inspectTimeout that of the whole call,
	// in which a connection may have to be made.
	inspectLimit   = 90 * time.Millisecond
	inspectTimeout = time.Second
)

// shownColumns are those of a message, without its value, and movedColumns those of them that are moved to another
// store.
const (
	shownColumns = movedColumns + ", part"
	movedColumns = `id, lane, incarnation, deadline, due_at, readied_at, readied_by, expires_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers::text, message_key,
  not_after, bound, former, series, sequence, occurs_at, stopped`
)

// The statements for people who ask. They lock nothing, and each reads a bounded part of one index.
const (
	findStatement = `
SELECT ` + shownColumns + `, CASE WHEN $2::boolean THEN message_value END
FROM messages WHERE id = $1::text ORDER BY id, lane LIMIT $3::bigint`

	waitingSliceStatement = `
SELECT ` + shownColumns + `, NULL::bytea
FROM messages
WHERE lane = $1::text AND part = $6::text AND readied_at IS NULL AND (due_at, id) > ($2::timestamptz, $3::text)
  AND due_at <= $4::timestamptz
ORDER BY lane, part, due_at, id LIMIT $5::bigint`

	// claimedSliceStatement enters by the expiry. All claims of one call expire together, and are sorted. The name of
	// the lane is hidden from the planner, who would otherwise read all that waits there, by the primary key.
	claimedSliceStatement = `
SELECT ` + shownColumns + `, NULL::bytea
FROM messages
WHERE readied_at IS NOT NULL AND expires_at >= $1::timestamptz AND expires_at <= $4::timestamptz
  AND (expires_at, id, lane) > ($1::timestamptz, $2::text, $3::text) AND ($6::text = '' OR lane || '' = $6::text)
ORDER BY expires_at, id, lane LIMIT $5::bigint`

	// partsStatement jumps from part to part: one descent of the index each, so that it costs what there are parts, and
	// not what there are rows. It comes from the end, where each part has what falls due last. At the beginning of a
	// busy lane are the dead entries of all that has fired since the last vacuum, or since somebody holds a snapshot:
	// nodes that look for parts would never come to those behind.
	partsStatement = `
WITH RECURSIVE parts AS (
  (
    SELECT lane, part FROM messages WHERE readied_at IS NULL AND lane > ''
    ORDER BY lane DESC, part DESC, due_at DESC, id DESC LIMIT 1
  )
  UNION ALL
  SELECT next.lane, next.part FROM parts CROSS JOIN LATERAL (
    SELECT lane, part FROM messages WHERE readied_at IS NULL AND (lane, part) < (parts.lane, parts.part)
    ORDER BY lane DESC, part DESC, due_at DESC, id DESC LIMIT 1
  ) AS next
)
SELECT lane, part FROM parts LIMIT $1::bigint`

	placesStatement = `
SELECT p.topic, p.topic_id, p.partition, p.mark, at.epoch, at.next_offset
FROM partitions AS p CROSS JOIN LATERAL (
  SELECT epoch, next_offset FROM positions
  WHERE topic_id = p.topic_id AND partition = p.partition ORDER BY turn DESC LIMIT 1
) AS at
WHERE p.topic_id >= '00000000-0000-0000-0000-000000000000'
ORDER BY p.topic, p.partition, p.topic_id LIMIT 10000`

	// beatStatement is one, and not two, since each node makes it all the time. What it forgets is never its own row:
	// a statement must not write a row twice.
	beatStatement = `
WITH forgotten AS (
  DELETE FROM nodes
  WHERE id >= '00000000-0000-0000-0000-000000000000' AND id <> $1::uuid
    AND seen < clock_timestamp() - $6::bigint * interval '1 microsecond'
)
INSERT INTO nodes (id, host, version, started, seen, settings, status)
VALUES ($1::uuid, $2::text, $3::text, clock_timestamp(), clock_timestamp(), $4::jsonb, $5::jsonb)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, status = excluded.status`

	goneStatement = "DELETE FROM nodes WHERE id = $1::uuid"

	nodesStatement = `
SELECT id, host, version, started, seen, settings, status
FROM nodes WHERE id >= '00000000-0000-0000-0000-000000000000' ORDER BY host, id LIMIT 1000`
)

// askedLimit is the time limit of each statement for people who ask, as the server reads it.
func askedLimit(limit time.Duration) string { return fmt.Sprint(limit.Milliseconds()) }

// ask executes statements for people who ask, on the connection for that, within their time limit.
func (s *Store) ask(asking context.Context, restart func(), steps ...step) error {
	ctx, cancel := context.WithTimeout(asking, s.askedFor)
	defer cancel()
	if err := s.asked.begin(ctx); err != nil {
		return cmp.Or(asking.Err(), inspect.ErrTooLong)
	}
	defer s.asked.end()
	through, err := s.asked.get(ctx, s)
	if err != nil {
		return err
	}
	if s.options.PgBouncer { // others have it from the connection
		limit := step{statement: limitStatement, arguments: []any{s.asked.limit}}
		steps = append([]step{limit}, steps...)
	}
	if err = through.once(ctx, restart, steps...); isCancelled(err) {
		return inspect.ErrTooLong
	}
	return err
}

// Find implements inspect.Source.
func (s *Store) Find(ctx context.Context, id string, parts inspect.Parts) (found []inspect.Message, err error) {
	if !isText(id) {
		return nil, nil
	}
	err = s.ask(ctx, func() { found = nil }, step{
		statement: findStatement, arguments: []any{id, parts.Payload, inspect.MaxFound}, read: s.shown(&found),
	})
	if err != nil {
		return nil, fmt.Errorf("look for message %q: %w", id, err)
	}
	return found, nil
}

// Slice implements inspect.Source. What waits on a lane is read from the mark of the claims on, where that is later:
// below it lie dead entries.
func (s *Store) Slice(ctx context.Context, r inspect.SliceRequest) (slice []inspect.Message, err error) {
	if !isText(r.Lane) || !isText(r.Part) || !isText(r.After.ID) || !isText(r.After.Lane) {
		return nil, nil
	}
	limit := min(max(r.Limit, 1), inspect.MaxSlice)
	look := step{
		statement: waitingSliceStatement, read: s.shown(&slice),
		arguments: []any{r.Lane, instant(r.After.At), r.After.ID, instant(r.Until), limit, r.Part},
	}
	if r.Claimed {
		look.statement = claimedSliceStatement
		look.arguments = []any{instant(r.After.At), r.After.ID, r.After.Lane, instant(r.Until), limit, r.Lane}
	}
	if err := s.ask(ctx, func() { slice = nil }, look); err != nil {
		return nil, fmt.Errorf("look at the messages of lane %q: %w", r.Lane, err)
	}
	return slice, nil
}

// shown reads rows of shownColumns. A row that somebody has spoilt by hand is reported and left out.
func (s *Store) shown(to *[]inspect.Message) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var m inspect.Message
		var text []byte
		var readiedAt, expires, notAfter, at pgtype.Timestamptz
		var readiedBy pgtype.UUID
		var topic, series pgtype.Text
		var partition, size pgtype.Int4
		var offset, sequence pgtype.Int8
		err := rows.Scan(&m.ID, &m.Lane, &m.Incarnation, &m.Deadline, &m.Due, &readiedAt, &readiedBy, &expires,
			&m.Attempts, &topic, &partition, &offset, &size, &text, &m.Key, &notAfter, &m.Bound,
			&m.Former, &series, &sequence, &at, &m.Stopped, &m.Part, &m.Value)
		if err != nil {
			return err
		}
		if m.Headers, err = headers.Decode(text); err != nil {
			s.report(fmt.Errorf("read message %q for lane %s: %w", m.ID, m.Lane, err))
		}
		m.Deadline, m.Due, m.Bytes = m.Deadline.UTC(), m.Due.UTC(), int(size.Int32)
		m.NotAfter, m.Recurrence = timeOf(notAfter), recurrence(series, sequence, at)
		m.Origin = node.Origin{Topic: topic.String, Partition: partition.Int32, Offset: offset.Int64}
		if readiedBy.Valid {
			m.Claim = node.Claim{
				Ref: m.Ref(), ReadiedAt: readiedAt.Time.UTC(), ReadiedBy: readiedBy.Bytes, Expires: expires.Time.UTC(),
			}
		}
		*to = append(*to, m)
		return nil
	}
}

// Parts implements node.Store and inspect.Source.
func (s *Store) Parts(ctx context.Context) (parts []node.Part, err error) {
	err = s.ask(ctx, func() { parts = nil }, step{
		statement: partsStatement, arguments: []any{node.MaxParts}, read: func(rows pgx.Rows) error {
			var part node.Part
			err := rows.Scan(&part.Lane, &part.Name)
			parts = append(parts, part)
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("look for parts of lanes: %w", err)
	}
	slices.Reverse(parts)
	return parts, nil
}

// Places implements inspect.Source.
func (s *Store) Places(ctx context.Context) (places []inspect.Place, state node.State, err error) {
	err = s.ask(ctx, func() { places, state = nil, node.State{} },
		step{statement: placesStatement, read: func(rows pgx.Rows) error {
			var p inspect.Place
			var mark pgtype.Int8
			err := rows.Scan(&p.Topic, &p.TopicID, &p.Number, &mark, &p.Epoch, &p.Offset)
			if p.Mark = -1; mark.Valid {
				p.Mark = mark.Int64
			}
			places = append(places, p)
			return err
		}},
		stateStep(&state, new(time.Time)))
	if err == nil && state.Lineage == 0 {
		err = errNoStore
	}
	if err != nil {
		return nil, node.State{}, fmt.Errorf("look at the positions: %w", err)
	}
	return places, state, nil
}

// Beat implements inspect.Roster.
func (s *Store) Beat(ctx context.Context, beat inspect.Node) error {
	if !json.Valid(beat.Settings) || !json.Valid(beat.Status) {
		return errors.New("say that the node lives: its settings or its status are no JSON")
	}
	err := s.ask(ctx, func() {}, step{statement: beatStatement, arguments: []any{
		uuidOf(beat.ID), beat.Host, beat.Version, string(beat.Settings), string(beat.Status),
		inspect.Forgotten.Microseconds(),
	}})
	if err != nil {
		return fmt.Errorf("say that the node lives: %w", err)
	}
	return nil
}

// Gone implements inspect.Roster.
func (s *Store) Gone(ctx context.Context, id uuid.UUID) error {
	if err := s.ask(ctx, func() {}, step{statement: goneStatement, arguments: []any{uuidOf(id)}}); err != nil {
		return fmt.Errorf("say that the node has ended: %w", err)
	}
	return nil
}

// Nodes implements inspect.Roster.
func (s *Store) Nodes(ctx context.Context) (nodes []inspect.Node, now time.Time, err error) {
	err = s.ask(ctx, func() { nodes = nil },
		step{statement: nodesStatement, read: func(rows pgx.Rows) error {
			var n inspect.Node
			err := rows.Scan(&n.ID, &n.Host, &n.Version, &n.Started, &n.Seen, &n.Settings, &n.Status)
			n.Started, n.Seen = n.Started.UTC(), n.Seen.UTC()
			nodes = append(nodes, n)
			return err
		}},
		clockStep(&now))
	if err != nil {
		return nil, now, fmt.Errorf("look for nodes: %w", err)
	}
	return nodes, now.UTC(), nil
}
