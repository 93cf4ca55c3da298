package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

const (
	// batchRows and batchBytes bound one statement. More rows are not faster, they only hold locks for longer.
	batchRows  = 1000
	batchBytes = 8 << 20
)

// Take implements node.Store. It is one transaction of two messages to the server, each with its answer:
//
//	lock the partitions; read their positions; lock the rows that are there; read the state
//	insert; move the positions; commit
//
// In between it decides, in memory, what becomes of each record. A row that was not there at first, and is in the way
// of the insert, makes the whole take begin anew.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	result, err := s.take(ctx, request)
	if err != nil {
		return node.TakeResult{}, fmt.Errorf("take %d records in: %w", len(request.Items), err)
	}
	return result, nil
}

func (s *Store) take(ctx context.Context, request node.TakeRequest) (result node.TakeResult, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	t := newTake(request)
	attempt := func(upTo int, refusal string, commit bool) error {
		return s.run(ctx, func(tx *transaction) error {
			if err := tx.send(ctx, t.look()...); err != nil {
				return err
			}
			t.decide(upTo, refusal)
			if !commit {
				return tx.send(ctx, t.write()...)
			}
			return tx.commit(ctx, t.write()...)
		})
	}
	all := len(request.Items)
	err = attempt(all, "", true)
	if refused, is := errors.AsType[*refusedError](err); is {
		// The server refuses one of the records up to "bad", and none of those before "good".
		good, bad := 0, all
		for bad-good > 1 {
			middle := (good + bad) / 2
			switch err = attempt(middle, "", false); {
			case err == nil:
				good = middle
			case !errors.As(err, &refused):
				return result, err
			default:
				bad = middle
			}
		}
		err = attempt(good, refused.Error(), true)
	}
	return t.result, err
}

// take is one call of Take.
type take struct {
	request    node.TakeRequest
	partitions []int            // the places of request.From in the order of the locks
	names      []node.MessageID // those that rows are looked for, in the order of the locks

	// What the first message has found.
	found []foundPosition // by the place in request.From
	rows  map[node.MessageID]foundRow
	state node.State
	now   time.Time
	held  lanes // those that are paused

	// What is decided.
	result  node.TakeResult
	inserts []int // the places of the items
}

// foundPosition is what is stored of a partition.
type foundPosition struct {
	node.Position

	found bool
	turn  int64
	mark  pgtype.Int8

	// What is decided: whether the position moves, and past the mark.
	moved, passed bool
}

// foundRow is what is stored of a message, or is going to be.
type foundRow struct {
	incarnation uuid.UUID
	claim       node.Claim // the zero value while it waits
}

func newTake(request node.TakeRequest) *take {
	t := &take{request: request}
	for i := range request.From {
		t.partitions = append(t.partitions, i)
	}
	slices.SortFunc(t.partitions, func(a, b int) int {
		return comparePartitions(request.From[a].Partition, request.From[b].Partition)
	})
	seen := make(map[node.MessageID]bool, len(request.Items))
	for i := range request.Items {
		m := &request.Items[i].Message
		name := node.MessageID{ID: m.ID, Lane: m.Lane}
		if request.Items[i].Action == node.Schedule && !seen[name] && isStorable(name) {
			seen[name] = true
			t.names = append(t.names, name)
		}
	}
	slices.SortFunc(t.names, func(a, b node.MessageID) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Lane, b.Lane))
	})
	return t
}

// look returns the statements that find out what is there, and forgets what an earlier try has found. The state is
// read last, since its clock is that of the claims.
func (t *take) look() []step {
	t.found = make([]foundPosition, len(t.request.From))
	t.rows = make(map[node.MessageID]foundRow, len(t.names))
	var topics []pgtype.UUID
	var numbers []int32
	for _, at := range t.partitions {
		topics = append(topics, uuidOf(t.request.From[at].TopicID))
		numbers = append(numbers, t.request.From[at].Number)
	}
	steps := []step{
		{statement: lockPartitionsStatement, arguments: []any{topics, numbers}, read: func(rows pgx.Rows) error {
			var place int
			var mark pgtype.Int8
			err := rows.Scan(&place, &mark)
			if err == nil {
				t.found[t.partitions[place-1]].mark = mark
			}
			return err
		}},
		{statement: positionsStatement, arguments: []any{topics, numbers}, read: func(rows pgx.Rows) error {
			var place int
			p := foundPosition{found: true}
			err := rows.Scan(&place, &p.turn, &p.Epoch, &p.Offset)
			if err == nil {
				p.mark = t.found[t.partitions[place-1]].mark
				t.found[t.partitions[place-1]] = p
			}
			return err
		}},
	}
	for names := range slices.Chunk(t.names, batchRows) {
		steps = append(steps, t.lock(names))
	}
	t.held = lanes{}
	return append(steps, t.held.step(), stateStep(&t.state, &t.now))
}

// lock returns the statement that locks what is there of messages.
func (t *take) lock(names []node.MessageID) step {
	ids, topics := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		ids[i], topics[i] = name.ID, name.Lane
	}
	return step{statement: lockMessagesStatement, arguments: []any{ids, topics}, read: func(rows pgx.Rows) error {
		var place int
		var r foundRow
		var readiedAt, expires pgtype.Timestamptz
		var readiedBy pgtype.UUID
		if err := rows.Scan(&place, &r.incarnation, &readiedAt, &readiedBy, &expires); err != nil {
			return err
		}
		name := names[place-1]
		if readiedBy.Valid {
			r.claim = node.Claim{
				Ref:       node.Ref{ID: name.ID, Lane: name.Lane, Incarnation: r.incarnation},
				ReadiedAt: readiedAt.Time.UTC(), ReadiedBy: readiedBy.Bytes, Expires: expires.Time.UTC(),
			}
		}
		t.rows[name] = r
		return nil
	}}
}

// stateStep returns the statement that reads the state and the server's clock.
func stateStep(state *node.State, now *time.Time) step {
	return step{statement: stateStatement, read: func(rows pgx.Rows) error {
		err := rows.Scan(&state.Lineage, &state.CatchingUp, &state.Suspect, &state.IntakePaused, now)
		*now = now.UTC()
		return err
	}}
}

// decide works out what becomes of the first upTo items, which are all of them unless the server refuses the next one
// by that refusal.
func (t *take) decide(upTo int, refusal string) {
	t.inserts = nil
	t.result = node.TakeResult{State: t.state, Refused: make([]bool, len(t.found))}
	before := slices.Clone(t.found)
	for i, from := range t.request.From {
		t.result.Refused[i] = !before[i].found || from.Above(before[i].Position) || t.state.IntakePaused
	}
	for i := range t.request.Items[:upTo] {
		item := &t.request.Items[i]
		outcome := node.Skipped
		switch {
		case t.result.Refused[item.From]:
			outcome = node.Untaken
		case before[item.From].Takes(item.Epoch, item.Offset):
			if item.Action == node.Schedule {
				t.result.Refusal = item.Refusal()
			}
			if t.result.Refusal == "" {
				outcome = t.decideItem(i)
				p := &t.found[item.From]
				p.Position, p.moved = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}, true
				p.passed = p.passed || p.mark.Valid && p.Offset >= p.mark.Int64
			}
		}
		if t.result.Refusal != "" {
			break
		}
		t.result.Results = append(t.result.Results, node.ItemResult{Outcome: outcome})
	}
	if t.result.Refusal == "" {
		t.result.Refusal = refusal
	}
	t.result.Taken = len(t.result.Results)
	t.complete()
	for i := range t.found {
		t.result.Positions = append(t.result.Positions, t.found[i].Position)
	}
}

// decideItem decides on one record that is to be taken in.
func (t *take) decideItem(i int) node.Outcome {
	item := &t.request.Items[i]
	if item.Action == node.Pass {
		return node.Passed
	}
	name := node.MessageID{ID: item.ID, Lane: item.Lane}
	if r, found := t.rows[name]; found {
		if r.incarnation == item.Incarnation {
			return node.Scheduled
		}
		return node.Duplicate
	}
	r := foundRow{incarnation: item.Incarnation}
	if item.Claim && t.state.Claims() && !t.held[item.Lane] {
		r.claim = node.Claim{
			Ref: item.Ref(), ReadiedAt: t.now, ReadiedBy: t.request.Node, Expires: expiry(t.now, t.request.Hold),
		}
	}
	t.rows[name] = r
	t.inserts = append(t.inserts, i)
	return node.Scheduled
}

// complete adds to the results what is true after the take: which skipped messages are stored nevertheless, and which
// claims the node holds. So what this call stores and what an earlier one did look alike, as they must.
func (t *take) complete() {
	for i := range t.result.Results {
		item, result := &t.request.Items[i], &t.result.Results[i]
		if item.Action != node.Schedule || result.Outcome != node.Skipped && result.Outcome != node.Scheduled {
			continue
		}
		r, found := t.rows[node.MessageID{ID: item.ID, Lane: item.Lane}]
		if !found || r.incarnation != item.Incarnation {
			continue
		}
		result.Outcome = node.Scheduled
		if r.claim.ReadiedBy == t.request.Node {
			result.Claim = r.claim
		}
	}
}

// write returns the statements that store what is decided.
func (t *take) write() []step {
	slices.SortFunc(t.inserts, func(a, b int) int {
		x, y := &t.request.Items[a].Message, &t.request.Items[b].Message
		return cmp.Or(strings.Compare(x.ID, y.ID), strings.Compare(x.Lane, y.Lane))
	})
	var steps []step
	for rest := t.inserts; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < batchRows {
			next := t.request.Items[rest[n]].Size()
			if n > 0 && size+next > batchBytes {
				break
			}
			size += next
			n++
		}
		steps = append(steps, t.insert(rest[:n]))
		rest = rest[n:]
	}
	return append(steps, t.move()...)
}

// insert returns the statement that stores the messages of items.
func (t *take) insert(items []int) step {
	c := newColumns(len(items))
	for _, at := range items {
		item := &t.request.Items[at]
		claimed := t.rows[node.MessageID{ID: item.ID, Lane: item.Lane}].claim != node.Claim{}
		c.add(&item.Message, claimed)
	}
	return step{
		statement: insertStatement, data: true,
		arguments: []any{
			uuidOf(t.request.Node), t.now, expiry(t.now, t.request.Hold),
			c.ids, c.lanes, c.incarnations, c.deadlines, c.claimed,
			c.sourceTopics, c.sourcePartitions, c.sourceOffsets, c.sizes, c.headers, c.keys, c.values,
		},
	}
}

// move returns the statements that move the positions, and remove the marks that were passed.
func (t *take) move() []step {
	var moved, passed moves
	for _, at := range t.partitions {
		p := &t.found[at]
		if !p.moved {
			continue
		}
		moved.add(t.request.From[at].Partition, p.turn, p.Position)
		if p.passed {
			passed.add(t.request.From[at].Partition, 0, node.Position{})
		}
	}
	steps := moved.steps()
	if len(passed.topics) > 0 {
		none := make([]pgtype.Int8, len(passed.topics))
		steps = append(steps,
			step{statement: markStatement, arguments: []any{passed.topics, passed.numbers, none}},
			stateStep(&t.result.State, new(time.Time)),
		)
	}
	return steps
}
