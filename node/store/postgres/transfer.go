package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/inspect"
	"chronos/node/store/transfer"
)

var _ transfer.Store = (*Store)(nil)

// The statements by which the contents of a store are moved. A store is sealed by its gate, which is infinitely far,
// and says why in a row of answers under a name of its own, whose columns are used as keepSealStatement says.
const (
	sealStatement = `
SELECT outcome, print, id, deadline, lineage, sequence FROM answers WHERE request = $1::uuid`

	keepSealStatement = `
INSERT INTO answers (request, print, expires_at, outcome, id, lane, deadline, sequence, may_appear, lineage)
VALUES ($1::uuid, $2::uuid, $3::timestamptz, $4::text, $5::text, '', $6::timestamptz, $7::bigint, false, $8::bigint)
ON CONFLICT (request) DO UPDATE SET print = excluded.print, outcome = excluded.outcome, id = excluded.id,
  deadline = excluded.deadline, sequence = excluded.sequence, lineage = excluded.lineage`

	forgetSealStatement = "DELETE FROM answers WHERE request = $1::uuid"

	closeStatement = `
UPDATE store SET lineage = $1::bigint, timeline = ` + currentTimeline + `, gate = 'infinity' WHERE single`

	// openStatement opens the store when the claims have expired that it knows of. Others there are none: what is not
	// in a store that is sealed was settled.
	openStatement = `
UPDATE store SET lineage = $1::bigint, timeline = ` + currentTimeline + `, gate = greatest(clock_timestamp(), (
  SELECT max(expires_at) FROM messages WHERE readied_at IS NOT NULL
))
WHERE single`

	// ownStatement is lockStoreStatement without the lock.
	ownStatement = "SELECT cluster, consumer_group, adopting, lineage, gate = 'infinity' FROM store WHERE single"

	// lockPartitionTableStatement has nobody insert a partition until the transaction ends.
	lockPartitionTableStatement = "LOCK TABLE partitions IN SHARE ROW EXCLUSIVE MODE"

	// usedStatement tells whether the store has messages, whether it has queues, and how many partitions.
	usedStatement = `
SELECT EXISTS (SELECT FROM messages WHERE id >= ''),
  EXISTS (SELECT FROM tasks WHERE id >= '00000000-0000-0000-0000-000000000000')
    OR EXISTS (SELECT FROM actions WHERE id >= '00000000-0000-0000-0000-000000000000')
    OR EXISTS (SELECT FROM queues WHERE id >= '00000000-0000-0000-0000-000000000000' OFFSET 1),
  (SELECT count(*) FROM partitions WHERE topic_id >= '00000000-0000-0000-0000-000000000000')`

	countMessagesStatement = "SELECT count(*) FROM messages WHERE id >= ''"
	countAnswersStatement  = "SELECT count(*) FROM answers WHERE request > $1::uuid AND request <> $2::uuid"

	allPlacesStatement = `
SELECT p.topic, p.topic_id, p.partition, p.mark, at.epoch, at.next_offset
FROM partitions AS p CROSS JOIN LATERAL (
  SELECT epoch, next_offset FROM positions
  WHERE topic_id = p.topic_id AND partition = p.partition ORDER BY turn DESC LIMIT 1
) AS at
WHERE p.topic_id >= '00000000-0000-0000-0000-000000000000'
ORDER BY p.topic, p.partition, p.topic_id`

	heldStatement = `
SELECT count(*), max(m.expires_at), clock.now
FROM (SELECT clock_timestamp() AS now) AS clock CROSS JOIN LATERAL (
  SELECT expires_at FROM messages WHERE readied_at IS NOT NULL AND expires_at > clock.now OFFSET 0
) AS m
GROUP BY clock.now`

	// movedStatement ends behind the row with which their sizes reach $4. It touches $3 rows of the index all the same,
	// and leaves what is large where it is, beside the table, in those that it does not return. The order in which the
	// sizes are summed is that of the index: nothing is sorted.
	movedStatement = `
SELECT ` + movedColumns + `, message_value, line, behind
FROM (
  SELECT *, sum(message_size) OVER (ORDER BY id, lane ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM (SELECT * FROM messages WHERE (id, lane) > ($1::text, $2::text) ORDER BY id, lane LIMIT $3::bigint) AS next
) AS sized
WHERE coalesce(before, 0) < $4::bigint ORDER BY id, lane`

	toldStatement = `
SELECT request, print, expires_at, outcome, id, lane, incarnation, deadline, former_deadline, sequence, may_appear,
  lineage
FROM answers WHERE request > $1::uuid AND request <> $2::uuid ORDER BY request LIMIT $3::bigint`

	// receiveStatement returns the names that it has stored. Each row is there for the first time, so one that is in
	// the way is somebody else's.
	receiveStatement = `
INSERT INTO messages (id, lane, incarnation, deadline, due_at, attempts,
  source_topic, source_partition, source_offset, message_size, message_headers, message_key, message_value,
  not_after, bound, former, series, sequence, occurs_at, stopped, line, behind)
SELECT u.id, u.lane, u.incarnation, u.deadline, coalesce(u.due, u.deadline), u.attempts,
  u.source_topic, u.source_partition, u.source_offset, u.size, u.headers::jsonb, u.key, u.value,
  u.not_after, coalesce(u.bound, false), coalesce(u.former, false),
  u.series, u.sequence, u.occurs_at, coalesce(u.stopped, false), u.line, u.behind
FROM unnest($1::text[], $2::text[], $3::uuid[], $4::timestamptz[], $5::integer[], $6::boolean[],
  $7::text[], $8::integer[], $9::bigint[], $10::integer[], $11::text[], $12::bytea[], $13::bytea[],
  $14::timestamptz[], $15::timestamptz[], $16::boolean[], $17::boolean[],
  $18::text[], $19::bigint[], $20::timestamptz[], $21::boolean[], $22::uuid[])
  AS u (id, lane, incarnation, deadline, attempts, behind,
    source_topic, source_partition, source_offset, size, headers, key, value, due, not_after, bound, former,
    series, sequence, occurs_at, stopped, line)
ON CONFLICT DO NOTHING RETURNING id, lane`

	receiveAnswersStatement = rememberStatement + " ON CONFLICT DO NOTHING"

	receivePauseStatement = `
INSERT INTO pauses (lane, since, paused_by, reason) VALUES ($1::text, $2::timestamptz, $3::text, $4::text)
ON CONFLICT DO NOTHING`
)

// sealStep returns the statement that reads the seal.
func sealStep(seal *transfer.Seal) step {
	read := func(rows pgx.Rows) error {
		var id pgtype.UUID
		var sequence pgtype.Int8
		err := rows.Scan(&seal.Kind, &id, &seal.By, &seal.Since, &seal.Lineage, &sequence)
		seal.ID, seal.Since, seal.Lines = id.Bytes, seal.Since.UTC(), sequence.Int64
		return err
	}
	return step{statement: sealStatement, arguments: []any{uuidOf(transfer.Name())}, read: read}
}

// keepSeal returns the statement that stores the seal.
func keepSeal(seal *transfer.Seal) step {
	return step{statement: keepSealStatement, arguments: []any{
		uuidOf(transfer.Name()), uuidOf(seal.ID), transfer.Forever(), string(seal.Kind), seal.By, seal.Since,
		seal.Lines, seal.Lineage,
	}}
}

// Sealed implements transfer.Store.
func (s *Store) Sealed(ctx context.Context) (seal transfer.Seal, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	if err := s.once(ctx, func() { seal = transfer.Seal{} }, sealStep(&seal)); err != nil {
		return seal, fmt.Errorf("look for a seal: %w", err)
	}
	return seal, nil
}

// Contents implements transfer.Store.
func (s *Store) Contents(ctx context.Context) (contents transfer.Contents, err error) {
	limited, cancel := s.limit(ctx)
	defer cancel()
	err = s.run(limited, func(tx *transaction) error {
		contents = transfer.Contents{}
		var now time.Time
		err := tx.commit(limited, append(ownSteps(&contents, false, &now), placesStep(&contents.Places),
			pausesStep(&contents.Pauses))...)
		if err == nil && contents.State.Lineage == 0 {
			err = errNoStore
		}
		return err
	})
	if err != nil {
		return contents, fmt.Errorf("look at what the store has: %w", err)
	}
	name := uuidOf(transfer.Name())
	for _, count := range []struct {
		step
		to *int64
	}{
		{step{statement: countMessagesStatement}, &contents.Messages},
		{step{statement: countAnswersStatement, arguments: []any{uuidOf(uuid.Nil), name}}, &contents.Answers},
	} {
		if *count.to, err = s.count(ctx, count.step); err != nil {
			return contents, fmt.Errorf("count what the store has: %w", err)
		}
	}
	return contents, nil
}

// count returns what a statement counts; -1 if it takes too long.
func (s *Store) count(ctx context.Context, count step) (n int64, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	count.read = func(rows pgx.Rows) error { return rows.Scan(&n) }
	if err = s.once(ctx, func() {}, count); isCancelled(err) {
		return -1, nil
	}
	return n, err
}

// ownSteps returns the statements that read what decides on a call, without places and pauses. Of the messages they
// tell whether there are any. With lock the store is locked, and no other call seals it or begins a lineage.
func ownSteps(contents *transfer.Contents, lock bool, now *time.Time) []step {
	own := step{statement: ownStatement, read: func(rows pgx.Rows) error {
		return rows.Scan(&contents.Bound.Cluster, &contents.Bound.Group, &contents.Bound.Adopting, nil, nil)
	}}
	if lock {
		own.statement = lockStoreStatement
	}
	used := step{statement: usedStatement, read: func(rows pgx.Rows) error {
		var has bool
		err := rows.Scan(&has, &contents.Queues, &contents.Bound.Partitions)
		if has {
			contents.Messages = 1
		}
		return err
	}}
	return []step{own, used, stateStep(&contents.State, now), sealStep(&contents.Seal)}
}

func placesStep(places *[]inspect.Place) step {
	return step{statement: allPlacesStatement, read: func(rows pgx.Rows) error {
		p := inspect.Place{Mark: -1}
		var mark pgtype.Int8
		err := rows.Scan(&p.Topic, &p.TopicID, &p.Number, &mark, &p.Epoch, &p.Offset)
		if mark.Valid {
			p.Mark = mark.Int64
		}
		*places = append(*places, p)
		return err
	}}
}

// change makes a transaction that may change what the store is. Like the beginning of a lineage it waits for the claims
// and the takes that are under way, and those after it see what it has done. Nor does any partition get its first
// position meanwhile: a take of that one would not have been waited for.
//
// What work refuses has changed nothing. It is no failure, which would be tried again.
func (s *Store) change(
	ctx context.Context, work func(tx *transaction, contents *transfer.Contents, now time.Time) error,
) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var refused error
	err := s.run(ctx, func(tx *transaction) error {
		var contents transfer.Contents
		var now time.Time
		own := ownSteps(&contents, true, &now)
		steps := []step{
			{statement: lineageLock},
			own[0],
			{statement: lockPartitionTableStatement},
			{statement: lockAllStatement, read: func(pgx.Rows) error { return nil }},
		}
		if err := tx.send(ctx, append(steps, own[1:]...)...); err != nil {
			return err
		}
		if contents.State.Lineage == 0 {
			return errNoStore
		}
		refused = nil
		err := work(tx, &contents, now.Truncate(time.Microsecond))
		if transfer.IsRefused(err) {
			refused = err
			return nil
		}
		return err
	})
	return errors.Join(err, refused)
}

// Seal implements transfer.Store.
func (s *Store) Seal(ctx context.Context, id uuid.UUID, by string) (seal transfer.Seal, err error) {
	err = s.change(ctx, func(tx *transaction, contents *transfer.Contents, now time.Time) error {
		if seal = contents.Seal; seal.Kind == transfer.Exported {
			return tx.commit(ctx, step{statement: confirmStatement})
		}
		if err := contents.Refusal(); err != nil {
			return err
		}
		seal = transfer.Seal{
			Kind: transfer.Exported, ID: id, By: by, Since: now, Lineage: contents.State.Lineage + 1,
		}
		return tx.commit(ctx, step{statement: closeStatement, arguments: []any{seal.Lineage}}, keepSeal(&seal))
	})
	if err != nil {
		return seal, fmt.Errorf("seal the store: %w", err)
	}
	return seal, nil
}

// Unseal implements transfer.Store.
func (s *Store) Unseal(ctx context.Context) (state node.State, err error) {
	err = s.change(ctx, func(tx *transaction, contents *transfer.Contents, now time.Time) error {
		if contents.Seal.Kind != transfer.Exported {
			return transfer.NotExported(&contents.Seal)
		}
		return tx.commit(ctx,
			step{statement: openStatement, arguments: []any{contents.State.Lineage + 1}},
			step{statement: forgetSealStatement, arguments: []any{uuidOf(transfer.Name())}},
			stateStep(&state, &now))
	})
	if err != nil {
		return state, fmt.Errorf("open the store again: %w", err)
	}
	return state, nil
}

// Held implements transfer.Store.
func (s *Store) Held(ctx context.Context) (held transfer.Held, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err = s.once(ctx, func() { held = transfer.Held{} },
		step{statement: heldStatement, read: func(rows pgx.Rows) error {
			var until, now time.Time
			err := rows.Scan(&held.Claims, &until, &now)
			held.For = until.Sub(now)
			return err
		}})
	if err != nil {
		return held, fmt.Errorf("look for claims: %w", err)
	}
	return held, nil
}

// Messages implements transfer.Store. A row that somebody has spoilt by hand is an error: it must not be lost silently.
func (s *Store) Messages(
	ctx context.Context, after node.MessageID, limit, size int,
) (messages []transfer.Message, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	read := func(rows pgx.Rows) error {
		m, err := scanMoved(rows)
		messages = append(messages, m)
		return err
	}
	err = s.once(ctx, func() { messages = nil },
		step{statement: movedStatement, arguments: []any{after.ID, after.Lane, limit, size}, read: read})
	if err != nil {
		return nil, fmt.Errorf("read the messages behind %q: %w", after.ID, err)
	}
	return messages, nil
}

// scanMoved reads a row of movedStatement.
func scanMoved(rows pgx.Rows) (m transfer.Message, err error) {
	var text []byte
	var readiedAt, expires, notAfter, at pgtype.Timestamptz
	var readiedBy, line pgtype.UUID
	var topic, series pgtype.Text
	var partition, size pgtype.Int4
	var offset, sequence pgtype.Int8
	err = rows.Scan(&m.ID, &m.Lane, &m.Incarnation, &m.Deadline, &m.Due, &readiedAt, &readiedBy, &expires, &m.Attempts,
		&topic, &partition, &offset, &size, &text, &m.Key, &notAfter, &m.Bound, &m.Former, &series, &sequence, &at,
		&m.Stopped, &m.Value, &line, &m.Behind)
	if err != nil {
		return m, err
	}
	m.Deadline, m.Due, m.NotAfter, m.Line = m.Deadline.UTC(), m.Due.UTC(), timeOf(notAfter), line.Bytes
	m.Recurrence = recurrence(series, sequence, at)
	m.Origin = node.Origin{Topic: topic.String, Partition: partition.Int32, Offset: offset.Int64}
	if m.Headers, err = headers.Decode(text); err != nil {
		return m, fmt.Errorf("read message %q for lane %s: %w", m.ID, m.Lane, err)
	}
	return m, nil
}

// Told implements transfer.Store.
func (s *Store) Told(ctx context.Context, after uuid.UUID, limit int) (answers []transfer.Answer, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err = s.once(ctx, func() { answers = nil }, step{
		statement: toldStatement, arguments: []any{uuidOf(after), uuidOf(transfer.Name()), limit},
		read: func(rows pgx.Rows) error {
			var outcome string
			var incarnation pgtype.UUID
			var deadline, former pgtype.Timestamptz
			var sequence pgtype.Int8
			a := transfer.Answer{}
			told := &a.Told
			err := rows.Scan(&a.Request, &told.Print, &a.Expires, &outcome, &told.Message.ID, &told.Message.Lane,
				&incarnation, &deadline, &former, &sequence, &told.MayAppear, &told.Lineage)
			if err != nil {
				return err
			}
			a.Expires, told.Incarnation, told.Sequence = a.Expires.UTC(), incarnation.Bytes, sequence.Int64
			told.Deadline, told.Former = timeOf(deadline), timeOf(former)
			told.Outcome, err = node.ParseOutcome(outcome)
			answers = append(answers, a)
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read the answers behind %s: %w", after, err)
	}
	return answers, nil
}

// Receive implements transfer.Store.
func (s *Store) Receive(ctx context.Context, batch transfer.Batch) (seal transfer.Seal, err error) {
	err = s.change(ctx, func(tx *transaction, contents *transfer.Contents, now time.Time) error {
		seal, err = receive(ctx, tx, &batch, contents, now)
		return err
	})
	if err != nil {
		return seal, fmt.Errorf("fill the store: %w", err)
	}
	return seal, nil
}

func receive(
	ctx context.Context, tx *transaction, batch *transfer.Batch, contents *transfer.Contents, now time.Time,
) (seal transfer.Seal, err error) {
	seal = contents.Seal
	if err := batch.Refuse(&seal); err != nil {
		return seal, err
	}
	var steps []step
	if seal.Kind == transfer.Open {
		if err := batch.Unfit(contents); err != nil {
			return seal, err
		}
		seal = batch.Begin()
		seal.Since = now
		steps = append(steps, step{statement: closeStatement, arguments: []any{contents.State.Lineage}})
		if batch.Cluster != "" {
			steps = append(steps, step{
				statement: bindStatement, arguments: []any{batch.Cluster, batch.Group, false},
			})
		}
	}
	if !batch.Goes(&seal) {
		return seal, tx.commit(ctx, step{statement: confirmStatement})
	}
	stored := map[node.MessageID]bool{}
	steps = append(steps, receiveSteps(batch, stored)...)
	queued, err := receiveQueues(ctx, batch)
	if err != nil {
		return seal, err
	}
	steps = append(steps, queued...)
	if err := tx.send(ctx, steps...); err != nil {
		return seal, err
	}
	for i := range batch.Messages {
		if m := &batch.Messages[i]; !stored[node.MessageID{ID: m.ID, Lane: m.Lane}] {
			return seal, batch.Taken(m.ID)
		}
	}
	seal.Lines, steps = batch.To, nil
	if batch.Last {
		seal.Kind, seal.Lineage = transfer.Imported, max(contents.State.Lineage, batch.Lineage)+1
		steps = append(steps, step{statement: openStatement, arguments: []any{seal.Lineage}})
	}
	return seal, tx.commit(ctx, append(steps, keepSeal(&seal))...)
}

// receiveSteps returns the statements that store the contents of a batch. They note the messages that are stored.
func receiveSteps(batch *transfer.Batch, stored map[node.MessageID]bool) (steps []step) {
	var created, marked moves
	var marks []pgtype.Int8
	places := make([]node.Place, len(batch.Places))
	for i, p := range batch.Places {
		places[i] = p.Place
		if p.Mark >= 0 {
			marked.add(p.Partition, 0, p.Position)
			marks = append(marks, pgtype.Int8{Int64: p.Mark, Valid: true})
		}
	}
	for _, place := range sortedPlaces(places) {
		created.add(place.Partition, 0, place.Position)
	}
	if len(places) > 0 {
		steps = append(steps, created.create(created.lock())...)
	}
	if len(marks) > 0 {
		steps = append(steps, step{statement: markStatement, arguments: []any{marked.topics, marked.numbers, marks}})
	}
	for _, p := range batch.Pauses {
		steps = append(steps, step{
			statement: receivePauseStatement, arguments: []any{p.Lane, p.Since, p.By, p.Why},
		})
	}
	if len(batch.Answers) > 0 {
		steps = append(steps, step{statement: receiveAnswersStatement, arguments: answerArguments(batch.Answers)})
	}
	if len(batch.Messages) > 0 {
		steps = append(steps, step{
			statement: receiveStatement, arguments: messageArguments(batch.Messages), read: func(rows pgx.Rows) error {
				var name node.MessageID
				err := rows.Scan(&name.ID, &name.Lane)
				stored[name] = true
				return err
			},
		})
	}
	return steps
}

// answerArguments are those of rememberStatement.
func answerArguments(answers []transfer.Answer) []any {
	n := len(answers)
	requests, prints, incarnations := make([]pgtype.UUID, n), make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	expires, deadlines := make([]time.Time, n), make([]pgtype.Timestamptz, n)
	formers, outcomes := make([]pgtype.Timestamptz, n), make([]string, n)
	ids, lanes, sequences := make([]string, n), make([]string, n), make([]pgtype.Int8, n)
	appear, lineages := make([]bool, n), make([]int64, n)
	for i := range answers {
		a := &answers[i]
		told := &a.Told
		requests[i], prints[i], expires[i] = uuidOf(a.Request), uuidOf(told.Print), a.Expires
		outcomes[i], ids[i], lanes[i] = told.Outcome.String(), told.Message.ID, told.Message.Lane
		incarnations[i] = uuidOf(told.Incarnation)
		incarnations[i].Valid = told.Incarnation != uuid.Nil
		deadlines[i], formers[i] = instantOf(told.Deadline), instantOf(told.Former)
		sequences[i] = pgtype.Int8{Int64: told.Sequence, Valid: told.Sequence != 0}
		appear[i], lineages[i] = told.MayAppear, told.Lineage
	}
	return []any{
		requests, prints, expires, outcomes, ids, lanes, incarnations, deadlines, formers, sequences, appear, lineages,
	}
}

// messageArguments are those of receiveStatement.
func messageArguments(messages []transfer.Message) []any {
	c := newColumns(len(messages))
	attempts, behind := make([]int32, len(messages)), make([]bool, len(messages))
	for i := range messages {
		m := &messages[i]
		kept := node.Kept{
			Incarnation: m.Incarnation, Deadline: m.Deadline, Due: m.Due, Bound: m.Bound, Former: m.Former,
			Stopped: m.Stopped,
		}
		c.add(&m.Message, &kept, false)
		attempts[i], behind[i] = int32(m.Attempts), m.Behind
	}
	return append([]any{
		c.ids, c.lanes, c.incarnations, c.deadlines, attempts, behind, c.sourceTopics, c.sourcePartitions,
		c.sourceOffsets, c.sizes, c.headers, c.keys, c.values,
	}, c.contents()[10:]...)
}
