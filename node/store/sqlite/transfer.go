package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/inspect"
	"chronos/node/store/transfer"
)

var _ transfer.Store = (*Store)(nil)

// sealedGate is the gate (claims_from) of a store that is sealed: it never opens. No lineage begins with it, because no
// clock and hold time come near.
const sealedGate = math.MaxInt64

const (
	sealedText = `SELECT claims_from = 9223372036854775807 FROM lineage`

	// The row of answers that stands for the seal: its columns are used as sealArguments says.
	sealText = `SELECT outcome, print, id, deadline, lineage, coalesce(sequence, 0) FROM answers WHERE request = ?1`

	openedText = `DELETE FROM answers WHERE request = ?1`

	ownText = `SELECT cluster, consumer_group, adopting, (SELECT count(*) FROM positions),
			(SELECT count(*) FROM messages), (SELECT count(*) FROM answers WHERE request <> ?1) FROM binding`

	allPlacesText = `SELECT topic, topic_id, partition, coalesce(mark, -1), epoch, next_offset FROM positions
		ORDER BY topic, partition, topic_id`

	heldText = `SELECT count(*), coalesce(max(expires_at), 0) FROM messages
		WHERE readied_at IS NOT NULL AND expires_at > ?1`

	lastClaimText = `SELECT coalesce(max(expires_at), 0) FROM messages WHERE readied_at IS NOT NULL`

	movedText = `SELECT due_at, attempts, bound, former, stopped, behind, ` + messageColumns + ` FROM messages
		WHERE (id, lane) > (?1, ?2) ORDER BY id, lane LIMIT ?3`

	toldText = `SELECT request, print, expires_at, outcome, id, lane, incarnation, deadline, former_deadline,
			coalesce(sequence, 0), may_appear, lineage
		FROM answers WHERE request > ?1 AND request <> ?2 ORDER BY request LIMIT ?3`

	movedTasksText   = selectTasks + "id > ?1 ORDER BY id LIMIT ?2"
	movedActionsText = "SELECT id, name, tags, content FROM actions WHERE id > ?1 ORDER BY id LIMIT ?2"

	queuedText = `SELECT EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM actions)
			OR (SELECT count(*) FROM (SELECT 1 FROM queues LIMIT 2)) > 1`

	receiveText = `INSERT INTO messages (` + messageColumns + `, due_at, attempts, bound, former, stopped, behind)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
		ON CONFLICT (id, lane) DO NOTHING`

	receivePlaceText = `INSERT INTO positions (topic_id, partition, topic, epoch, next_offset, mark)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6)`

	receivePauseText = `INSERT INTO pauses (lane, since, paused_by, reason) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT DO NOTHING`
)

// sealed reports whether the store is sealed.
func (t *transaction) sealed(ctx context.Context) (sealed bool, err error) {
	err = t.tx.QueryRowContext(ctx, sealedText).Scan(&sealed)
	return sealed, err
}

// seal returns what the store is sealed for, or was.
func (t *transaction) seal(ctx context.Context) (seal transfer.Seal, err error) {
	name := transfer.Name()
	var since int64
	err = t.tx.QueryRowContext(ctx, sealText, name[:]).
		Scan(&seal.Kind, &seal.ID, &seal.By, &since, &seal.Lineage, &seal.Lines)
	if errors.Is(err, sql.ErrNoRows) {
		return transfer.Seal{}, nil
	}
	seal.Since = fromColumn(since)
	return seal, err
}

// keep stores what the store is sealed for, or was.
func (t *transaction) keep(seal *transfer.Seal) error {
	name := transfer.Name()
	return t.execute(t.statements.remember, name[:], seal.ID[:], transfer.Forever().UnixMicro(), string(seal.Kind),
		seal.By, "", nil, seal.Since.UnixMicro(), nil, seal.Lines, false, seal.Lineage)
}

// Sealed implements transfer.Store.
func (s *Store) Sealed(ctx context.Context) (seal transfer.Seal, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		seal, err = t.seal(ctx)
		return err
	})
	if err != nil {
		return seal, fmt.Errorf("look for a seal: %w", err)
	}
	return seal, nil
}

// Contents implements transfer.Store.
func (s *Store) Contents(ctx context.Context) (contents transfer.Contents, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		if contents, err = t.contents(ctx); err != nil {
			return err
		}
		if contents.Places, err = t.places(ctx); err != nil {
			return err
		}
		contents.Pauses, err = t.pauses(ctx)
		return err
	})
	if err != nil {
		return contents, fmt.Errorf("look at what the store has: %w", err)
	}
	return contents, nil
}

// contents returns what decides on a call, without places and pauses.
func (t *transaction) contents(ctx context.Context) (contents transfer.Contents, err error) {
	name := transfer.Name()
	var cluster, group sql.NullString
	err = t.tx.QueryRowContext(ctx, ownText, name[:]).Scan(&cluster, &group, &contents.Bound.Adopting,
		&contents.Bound.Partitions, &contents.Messages, &contents.Answers)
	if err != nil {
		return contents, err
	}
	if err := t.tx.QueryRowContext(ctx, queuedText).Scan(&contents.Queues); err != nil {
		return contents, err
	}
	contents.Bound.Cluster, contents.Bound.Group = cluster.String, group.String
	if contents.State, err = t.state(ctx); err != nil {
		return contents, err
	}
	contents.Seal, err = t.seal(ctx)
	return contents, err
}

// places returns all positions.
func (t *transaction) places(ctx context.Context) (places []inspect.Place, err error) {
	rows, err := t.tx.QueryContext(ctx, allPlacesText)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p inspect.Place
		if err := rows.Scan(&p.Topic, &p.TopicID, &p.Number, &p.Mark, &p.Epoch, &p.Offset); err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, rows.Err()
}

// Seal implements transfer.Store.
func (s *Store) Seal(ctx context.Context, id uuid.UUID, by string) (seal transfer.Seal, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		contents, err := t.contents(ctx)
		if err != nil {
			return err
		}
		if seal = contents.Seal; seal.Kind == transfer.Exported {
			return nil
		}
		if err := contents.Refusal(); err != nil {
			return err
		}
		seal = transfer.Seal{
			Kind: transfer.Exported, ID: id, By: by, Since: t.now, Lineage: contents.State.Lineage + 1,
		}
		if err := t.execute(t.statements.begin, seal.Lineage, int64(sealedGate), int64(sealedGate)); err != nil {
			return err
		}
		return t.keep(&seal)
	})
	if err != nil {
		return seal, fmt.Errorf("seal the store: %w", err)
	}
	return seal, nil
}

// Unseal implements transfer.Store.
func (s *Store) Unseal(ctx context.Context) (state node.State, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		seal, err := t.seal(ctx)
		if err != nil {
			return err
		}
		if seal.Kind != transfer.Exported {
			return transfer.NotExported(&seal)
		}
		if state, err = t.state(ctx); err != nil {
			return err
		}
		var gate int64
		if err := t.tx.QueryRowContext(ctx, lastClaimText).Scan(&gate); err != nil {
			return err
		}
		now := t.now.UnixMicro()
		if err := t.execute(t.statements.begin, state.Lineage+1, max(gate, now), now); err != nil {
			return err
		}
		name := transfer.Name()
		if _, err := t.tx.ExecContext(ctx, openedText, name[:]); err != nil {
			return err
		}
		state, err = t.state(ctx)
		return err
	})
	if err != nil {
		return state, fmt.Errorf("open the store again: %w", err)
	}
	return state, nil
}

// Held implements transfer.Store.
func (s *Store) Held(ctx context.Context) (held transfer.Held, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		var until int64
		err := t.tx.QueryRowContext(ctx, heldText, t.now.UnixMicro()).Scan(&held.Claims, &until)
		if held.Claims > 0 {
			held.For = fromColumn(until).Sub(t.now)
		}
		return err
	})
	if err != nil {
		return held, fmt.Errorf("look for claims: %w", err)
	}
	return held, nil
}

// Messages implements transfer.Store.
func (s *Store) Messages(
	ctx context.Context, after node.MessageID, limit, size int,
) (messages []transfer.Message, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) (err error) {
		rows, err := t.tx.QueryContext(ctx, movedText, after.ID, after.Lane, limit)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for size > 0 && rows.Next() {
			var due int64
			var m transfer.Message
			m.Message, err = scanMessage(rows, &due, &m.Attempts, &m.Bound, &m.Former, &m.Stopped, &m.Behind)
			if err != nil {
				return err
			}
			m.Due = fromColumn(due)
			size -= m.Size()
			messages = append(messages, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the messages behind %q: %w", after.ID, err)
	}
	return messages, nil
}

// Told implements transfer.Store.
func (s *Store) Told(ctx context.Context, after uuid.UUID, limit int) (answers []transfer.Answer, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) (err error) {
		name := transfer.Name()
		rows, err := t.tx.QueryContext(ctx, toldText, after[:], name[:], limit)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			a, err := scanAnswer(rows)
			if err != nil {
				return err
			}
			answers = append(answers, a)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the answers behind %s: %w", after, err)
	}
	return answers, nil
}

// QueuesBehind implements transfer.Store.
func (s *Store) QueuesBehind(ctx context.Context, name string, limit int) ([]queue.Queue, error) {
	return s.Queues(ctx, queue.Filter{AfterName: name, Limit: limit})
}

// TasksBehind implements transfer.Store.
func (s *Store) TasksBehind(ctx context.Context, id uuid.UUID, limit, size int) (tasks []queue.Task, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		return t.while(ctx, movedTasksText, func() bool { return size > 0 }, func(rows *sql.Rows) error {
			one, takes, err := scanTask(rows)
			tasks = append(tasks, one)
			size -= takes
			return err
		}, id[:], limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tasks behind %s: %w", id, err)
	}
	return tasks, nil
}

// ActionsBehind implements transfer.Store.
func (s *Store) ActionsBehind(ctx context.Context, id uuid.UUID, limit, size int) (actions []queue.Action, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		return t.while(ctx, movedActionsText, func() bool { return size > 0 }, func(rows *sql.Rows) error {
			one, takes, err := scanAction(rows)
			actions = append(actions, one)
			size -= takes
			return err
		}, id[:], limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read the actions behind %s: %w", id, err)
	}
	return actions, nil
}

func scanAnswer(rows *sql.Rows) (a transfer.Answer, err error) {
	var outcome string
	var expires int64
	var incarnation uuid.NullUUID
	var deadline, former sql.NullInt64
	told := &a.Told
	err = rows.Scan(&a.Request, &told.Print, &expires, &outcome, &told.Message.ID, &told.Message.Lane, &incarnation,
		&deadline, &former, &told.Sequence, &told.MayAppear, &told.Lineage)
	if err != nil {
		return a, err
	}
	a.Expires, told.Incarnation = fromColumn(expires), incarnation.UUID
	if deadline.Valid {
		told.Deadline = fromColumn(deadline.Int64)
	}
	if former.Valid {
		told.Former = fromColumn(former.Int64)
	}
	told.Outcome, err = node.ParseOutcome(outcome)
	return a, err
}

// Receive implements transfer.Store.
func (s *Store) Receive(ctx context.Context, batch transfer.Batch) (seal transfer.Seal, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		if seal, err = t.seal(ctx); err != nil {
			return err
		}
		if err := batch.Refuse(&seal); err != nil {
			return err
		}
		if seal.Kind == transfer.Open {
			if seal, err = t.beginImport(ctx, &batch); err != nil {
				return err
			}
		}
		if !batch.Goes(&seal) {
			return nil
		}
		if err := t.receive(ctx, &batch); err != nil {
			return err
		}
		seal.Lines = batch.To
		if batch.Last {
			if err := t.endImport(ctx, &batch, &seal); err != nil {
				return err
			}
		}
		return t.keep(&seal)
	})
	if err != nil {
		return seal, fmt.Errorf("fill the store: %w", err)
	}
	return seal, nil
}

// beginImport seals a store that has never been used, and binds it.
func (t *transaction) beginImport(ctx context.Context, batch *transfer.Batch) (seal transfer.Seal, err error) {
	contents, err := t.contents(ctx)
	if err != nil {
		return seal, err
	}
	if err := batch.Unfit(&contents); err != nil {
		return seal, err
	}
	seal = batch.Begin()
	seal.Since = t.now
	if batch.Cluster != "" {
		if err := t.execute(t.statements.bind, batch.Cluster, batch.Group); err != nil {
			return seal, err
		}
	}
	return seal, t.execute(t.statements.begin, contents.State.Lineage, int64(sealedGate), int64(sealedGate))
}

// endImport opens the store.
func (t *transaction) endImport(ctx context.Context, batch *transfer.Batch, seal *transfer.Seal) error {
	state, err := t.state(ctx)
	if err != nil {
		return err
	}
	seal.Kind, seal.Lineage = transfer.Imported, max(state.Lineage, batch.Lineage)+1
	now := t.now.UnixMicro()
	return t.execute(t.statements.begin, seal.Lineage, now, now)
}

// receive stores the contents of a batch.
func (t *transaction) receive(ctx context.Context, batch *transfer.Batch) (err error) {
	for i := range batch.Places {
		p := &batch.Places[i]
		var mark any
		if p.Mark >= 0 {
			mark = p.Mark
		}
		if _, err := t.tx.ExecContext(ctx, receivePlaceText, append(placeArguments(p.Place), mark)...); err != nil {
			return err
		}
	}
	for _, p := range batch.Pauses {
		_, err := t.tx.ExecContext(ctx, receivePauseText, p.Lane, p.Since.UnixMicro(), p.By, p.Why)
		if err != nil {
			return err
		}
	}
	for i := range batch.Answers {
		if err := t.receiveAnswer(&batch.Answers[i]); err != nil {
			return err
		}
	}
	if err := t.receiveQueues(ctx, batch); err != nil {
		return err
	}
	if len(batch.Messages) == 0 {
		return nil
	}
	insert, err := t.tx.PrepareContext(ctx, receiveText)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	for i := range batch.Messages {
		m := &batch.Messages[i]
		stored, err := changes(insert, append(messageArguments(&m.Message), instant(m.Due).UnixMicro(), m.Attempts,
			m.Bound, m.Former, m.Stopped, m.Behind)...)
		switch {
		case err != nil:
			return err
		case !stored:
			return batch.Taken(m.ID)
		}
	}
	return nil
}

// receiveQueues stores the queues, actions and tasks of a batch.
func (t *transaction) receiveQueues(ctx context.Context, batch *transfer.Batch) error {
	tx := &queueTransaction{t}
	for i := range batch.Queues {
		if err := tx.PutQueue(ctx, &batch.Queues[i]); err != nil {
			return err
		}
	}
	for i := range batch.Actions {
		if err := tx.PutAction(ctx, &batch.Actions[i]); err != nil {
			return err
		}
	}
	for i := range batch.Tasks {
		if err := tx.AddTask(ctx, &batch.Tasks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) receiveAnswer(a *transfer.Answer) error {
	told := &a.Told
	var incarnation, sequence any
	if told.Incarnation != uuid.Nil {
		incarnation = told.Incarnation[:]
	}
	if told.Sequence != 0 {
		sequence = told.Sequence
	}
	return t.execute(t.statements.remember, a.Request[:], told.Print[:], a.Expires.UnixMicro(), told.Outcome.String(),
		told.Message.ID, told.Message.Lane, incarnation, toColumn(told.Deadline), toColumn(told.Former), sequence,
		told.MayAppear, told.Lineage)
}
