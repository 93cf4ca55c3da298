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

// Take implements node.Store. It is one transaction, or two side by side (apart.go), each of two messages to the server
// with an answer:
//
//	lock the partitions; read their positions; lock the rows that are there; read the answers and the state
//	insert, change, replace, remove; remember what was answered; move the positions; commit
//
// In between it decides, in memory, what becomes of each record: each instruction is decided on what the ones before it
// have left (node.Item.Decide), and only what is left at the end is written, once for each message. A row that was not
// there at first, and is in the way of the insert, makes the whole take begin anew.
//
// Where the server refuses a record, the take is tried with fewer of them, always the first so many: what becomes of an
// instruction depends on all those before it.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	result, err := s.takeBriefly(ctx, request)
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
	err = t.attempt(ctx, s, len(request.Items), "", true)
	if isLocked(err) {
		t.free, t.blocked = true, make([]bool, len(request.Items))
		err = t.attempt(ctx, s, len(request.Items), "", true)
	}
	err = t.passBlocked(ctx, s, err)
	if refused, is := errors.AsType[*refusedError](err); is {
		good, other := t.firstBad(ctx, s, isRefused)
		if other != nil {
			return result, other
		}
		err = t.attempt(ctx, s, good, refused.Error(), true)
	}
	if err == nil && s.waiting.used() {
		t.note(&s.waiting)
	}
	if t.tells() { // whatever has become of it: it may have taken effect
		s.tell()
	}
	return t.result, err
}

// attempt makes a transaction of the first upTo items, which ends as if there had been none unless it commits.
func (t *take) attempt(ctx context.Context, s *Store, upTo int, refusal string, commit bool) error {
	locks := ""
	if t.free {
		locks = s.patient()
	}
	return s.runWithin(ctx, locks, func(tx *transaction) error {
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

// firstBad returns the place of the first item with which an attempt fails in that way, where one with all does. The
// error is one of another kind.
func (t *take) firstBad(ctx context.Context, s *Store, bad func(error) bool) (int, error) {
	good, fails := 0, len(t.request.Items)
	for fails-good > 1 {
		middle := (good + fails) / 2
		switch err := t.attempt(ctx, s, middle, "", false); {
		case err == nil:
			good = middle
		case bad(err):
			fails = middle
		default:
			return 0, err
		}
	}
	return good, nil
}

func isRefused(err error) bool {
	_, is := errors.AsType[*refusedError](err)
	return is
}

// mostBlocked is how many items a take finds one by one that another session blocks. Each costs some ten attempts.
const mostBlocked = 3

// passBlocked is for a take that another session blocks although it leaves alone what is locked: that session has
// inserted one of the names and has not committed. The first such item is busy, and the take is tried without it. From
// the last that is looked for all are busy: some are taken in with each call.
func (t *take) passBlocked(ctx context.Context, s *Store, err error) error {
	for found := 1; t.free && t.looked && isLocked(err); found++ {
		at, other := t.firstBad(ctx, s, isLocked)
		if other != nil {
			return other
		}
		for i := range t.blocked {
			same := t.request.Items[at].Action != node.Pass && t.request.Items[i].Action != node.Pass &&
				nameOf(&t.request.Items[i]) == nameOf(&t.request.Items[at])
			t.blocked[i] = t.blocked[i] || i == at || same || i > at && found >= mostBlocked
		}
		if err = t.attempt(ctx, s, len(t.request.Items), "", true); found > mostBlocked {
			return err
		}
	}
	return err
}

// take is one call of Take.
type take struct {
	request    node.TakeRequest
	partitions []int            // the places of request.From in the order of the locks
	names      []node.MessageID // those that rows are looked for, in the order of the locks

	// free says that the take leaves alone what is locked, since it has met something that was, and looked that it has
	// found out what that is. blocked are the items that another session blocks all the same; nil for none.
	free, looked bool
	blocked      []bool

	// What the first message has found.
	found []foundPosition // by the place in request.From
	rows  map[node.MessageID]*row
	state node.State
	now   time.Time
	held  lanes // those that are paused

	// answers are those that were found, and those that are given.
	answers answers

	// What is decided.
	result  node.TakeResult
	brought []bool // by the item, whether it has brought a message
	fresh   []*row // those of rows that are not stored yet
	spare   []row  // for those of fresh
	replies []*row // what tells of outcomes, under names of its own
}

// foundPosition is what is stored of a partition.
type foundPosition struct {
	node.Position

	found  bool
	locked bool // by this take; otherwise somebody else has its row locked
	turn   int64
	mark   pgtype.Int8

	// What is decided: whether the position moves, and past the mark; and whether it has met an item that is busy.
	moved, passed, halted bool
}

// row is what becomes of a message.
type row struct {
	name node.MessageID

	// busy says that somebody else has the row locked. Then it has no place.
	busy bool

	// place is where the row is, and stored what it says; not valid, and the zero value, where there is none.
	place  pgtype.TID
	stored node.Kept

	// kept is what the items up to now have left; nil for nothing.
	kept *node.Kept

	// content is where key, value and headers come from; nil where they stay as they are.
	content *node.Message

	// claim is the one that is stored, or is going to be; the zero value while the message waits.
	claim node.Claim
}

// held returns the claim on what is kept, and the zero value where nobody has claimed this incarnation.
func (r *row) held() node.Claim {
	if r.kept == nil || r.claim.Incarnation != r.kept.Incarnation {
		return node.Claim{}
	}
	return r.claim
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
		name := nameOf(&request.Items[i])
		if request.Items[i].Action != node.Pass && !seen[name] && isStorable(name) {
			seen[name] = true
			t.names = append(t.names, name)
		}
	}
	slices.SortFunc(t.names, compareNames)
	return t
}

func nameOf(item *node.Item) node.MessageID { return node.MessageID{ID: item.ID, Lane: item.Lane} }

// compareNames is the order in which messages are locked and inserted, which is that of their key.
func compareNames(a, b node.MessageID) int {
	return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Lane, b.Lane))
}

// look returns the statements that find out what is there, and forgets what an earlier try has found. The state is
// read last, since its clock is that of the claims.
func (t *take) look() []step {
	t.found = make([]foundPosition, len(t.request.From))
	t.rows = make(map[node.MessageID]*row, len(t.names))
	var topics []pgtype.UUID
	var numbers []int32
	for _, at := range t.partitions {
		topics = append(topics, uuidOf(t.request.From[at].TopicID))
		numbers = append(numbers, t.request.From[at].Number)
	}
	var steps []step
	t.looked = false
	locks, messages := lockPartitionsStatement, lockMessagesStatement
	if t.free {
		locks, messages = lockFreePartitionsStatement, lockFreeMessagesStatement
		steps = append(steps, step{statement: lockTablesStatement})
	}
	if slices.ContainsFunc(t.request.Items, func(i node.Item) bool { return i.From == node.NoPlace }) {
		// What stands in no partition has none that it could lock. It must not act while a lineage begins, nor be
		// answered before a synchronous standby has what it was decided on.
		steps = append(steps, step{statement: claimsLock}, step{statement: confirmStatement})
	}
	steps = append(steps, []step{
		{statement: locks, arguments: []any{topics, numbers}, read: func(rows pgx.Rows) error {
			var place int
			var mark pgtype.Int8
			err := rows.Scan(&place, &mark)
			if err == nil {
				t.found[t.partitions[place-1]] = foundPosition{mark: mark, locked: true}
			}
			return err
		}},
		{statement: positionsStatement, arguments: []any{topics, numbers}, read: func(rows pgx.Rows) error {
			var place int
			p := foundPosition{found: true}
			err := rows.Scan(&place, &p.turn, &p.Epoch, &p.Offset)
			if err == nil {
				before := &t.found[t.partitions[place-1]]
				p.mark, p.locked = before.mark, before.locked
				t.found[t.partitions[place-1]] = p
			}
			return err
		}},
	}...)
	for names := range slices.Chunk(t.names, batchRows) {
		steps = append(steps, t.read(messages, names))
		if t.free {
			steps = append(steps, t.read(readMessagesStatement, names))
		}
	}
	steps = append(steps, t.answersSteps()...)
	t.held = lanes{}
	steps = append(steps, t.held.step(), stateStep(&t.state, &t.now))
	if t.free {
		steps = append(steps, step{statement: lockLimitStatement, arguments: []any{blockedLimit}})
	}
	return steps
}

// blockedLimit is how long a take waits, in milliseconds, for a session that has inserted what it wants to insert, when
// it has waited for a moment already.
const blockedLimit = "10"

// read returns a statement that reads what is there of messages, and mostly locks it. What is there and was not locked
// by the one before is locked by somebody else.
func (t *take) read(statement string, names []node.MessageID) step {
	ids, topics := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		ids[i], topics[i] = name.ID, name.Lane
	}
	return step{statement: statement, arguments: []any{ids, topics}, read: func(rows pgx.Rows) error {
		var at int
		r := &row{}
		k := &r.stored
		var readiedAt, expires pgtype.Timestamptz
		var readiedBy pgtype.UUID
		var sequence pgtype.Int8
		err := rows.Scan(&at, &r.place, &k.Incarnation, &k.Deadline, &k.Due, &readiedAt, &readiedBy, &expires,
			&k.Attempts, &k.Bound, &k.Former, &sequence, &k.Stopped)
		if err != nil {
			return err
		}
		r.name = names[at-1]
		if statement == readMessagesStatement {
			if t.rows[r.name] != nil {
				return nil
			}
			r.busy, r.place = true, pgtype.TID{}
		}
		k.Deadline, k.Due, k.Claimed, k.Sequence = k.Deadline.UTC(), k.Due.UTC(), readiedBy.Valid, sequence.Int64
		if k.Claimed {
			r.claim = node.Claim{
				Ref:       node.Ref{ID: r.name.ID, Lane: r.name.Lane, Incarnation: k.Incarnation},
				ReadiedAt: readiedAt.Time.UTC(), ReadiedBy: readiedBy.Bytes, Expires: expires.Time.UTC(),
			}
		}
		kept := r.stored
		r.kept = &kept
		t.rows[r.name] = r
		return nil
	}}
}

// stateStep returns the statement that reads the state and the server's clock.
func stateStep(state *node.State, now *time.Time) step {
	return step{statement: stateStatement, read: func(rows pgx.Rows) error { return scanState(rows, state, now) }}
}

// scanState reads what stateStatement tells, behind what the row has before that.
func scanState(rows pgx.Rows, state *node.State, now *time.Time, before ...any) error {
	var marked bool
	err := rows.Scan(append(before,
		&state.Lineage, &state.Holding, &state.HoldingCalls, &marked, &state.Suspect, &state.IntakePaused, now)...)
	state.CatchingUp = state.Holding || marked
	*now = now.UTC()
	return err
}

// decide works out what becomes of the first upTo items, which are all of them unless the server refuses the next one
// by that refusal.
func (t *take) decide(upTo int, refusal string) {
	t.looked = true
	t.brought, t.fresh, t.replies = make([]bool, 0, upTo), make([]*row, 0, upTo), nil
	t.spare = make([]row, upTo)
	t.result = node.TakeResult{
		State: t.state, Refused: make([]bool, len(t.found)), Results: make([]node.ItemResult, 0, upTo),
	}
	before := slices.Clone(t.found)
	closed := !t.state.Takes()
	for i, from := range t.request.From {
		t.result.Refused[i] = closed || !before[i].found || from.Above(before[i].Position)
	}
	for i := range t.request.Items[:upTo] {
		item := &t.request.Items[i]
		one, brings := node.ItemResult{Outcome: node.Skipped}, false
		placed := item.From != node.NoPlace
		switch {
		case !placed && closed, placed && t.result.Refused[item.From]:
			one.Outcome = node.Untaken
		case placed && !before[item.From].locked:
			one.Outcome = node.Blocked
		case placed && !before[item.From].Takes(item.Epoch, item.Offset):
		case placed && t.found[item.From].halted:
			one.Outcome = node.Untaken
		default:
			if t.result.Refusal = item.Refusal(); t.result.Refusal != "" {
				break
			}
			one, brings = t.decideItem(i)
			if placed {
				t.found[item.From].take(item, one.Outcome)
			}
		}
		if t.result.Refusal != "" {
			break
		}
		t.result.Results = append(t.result.Results, one)
		t.brought = append(t.brought, brings)
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

// take has a position move behind an item, unless that is busy.
func (p *foundPosition) take(item *node.Item, outcome node.Outcome) {
	if outcome == node.Blocked {
		p.halted = true
		return
	}
	p.Position, p.moved = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}, true
	p.passed = p.passed || p.mark.Valid && p.Offset >= p.mark.Int64
}

// decideItem decides on one record that is to be taken in, and reports whether it has brought a message.
func (t *take) decideItem(i int) (one node.ItemResult, brings bool) {
	item := &t.request.Items[i]
	if told := t.answered(item); told != nil {
		return node.ItemResult{Outcome: told.Outcome, Told: told}, false
	}
	var r *row
	var before *node.Kept
	if item.Action != node.Pass {
		if r = t.rows[nameOf(item)]; r != nil {
			before = r.kept
		}
	}
	if t.blocked != nil && t.blocked[i] || r != nil && r.busy || t.state.Holds(item) {
		return node.ItemResult{Outcome: node.Blocked}, false
	}
	v := item.Decide(before)
	if r == nil && v.After != nil {
		r = &t.spare[0]
		t.spare, r.name = t.spare[1:], nameOf(item)
		t.rows[r.name] = r
		t.fresh = append(t.fresh, r)
	}
	if r != nil {
		if v.After == nil || before == nil || v.After.Incarnation != before.Incarnation {
			r.claim = node.Claim{} // also where a take that is repeated past Kafka comes back to an incarnation
		}
		r.kept = v.After
	}
	if v.Brings {
		r.content = &item.Message
	}
	if item.Answer != nil {
		t.reply(item, v)
	}
	one.Outcome = v.Outcome
	if item.Request != nil {
		one.Told = t.tell(item, v)
	}
	return one, v.Brings
}

// reply adds the message that tells of a verdict.
func (t *take) reply(item *node.Item, v node.Verdict) {
	if reply, told := item.Reply(v, t.state.Lineage); told {
		t.replies = append(t.replies, &row{
			name: node.MessageID{ID: reply.ID, Lane: reply.Lane}, content: &reply,
			kept: &node.Kept{Incarnation: reply.Incarnation, Deadline: reply.Deadline, Due: reply.Deadline},
		})
	}
}

// complete makes the claims that are asked for, on what this take has brought and not touched again. And it adds to the
// results what is true after the take: which skipped messages are stored nevertheless, and which claims the node holds.
// So what this call stores and what an earlier one did look alike, as they must.
func (t *take) complete() {
	for i := range t.result.Results {
		item, result := &t.request.Items[i], &t.result.Results[i]
		if !item.Action.Stores() || result.Outcome == node.Untaken || result.Outcome == node.Blocked ||
			result.Outcome == node.Duplicate {
			continue
		}
		r := t.rows[nameOf(item)]
		if r == nil || r.kept == nil || r.kept.Incarnation != item.Incarnation {
			continue
		}
		if result.Outcome == node.Skipped {
			result.Outcome = node.Scheduled
		}
		if t.brought[i] && item.Claim && item.Line == uuid.Nil && t.state.ClaimsOn(item.Lane) && !t.held[item.Lane] {
			r.claim = node.Claim{
				Ref: item.Ref(), ReadiedAt: t.now, ReadiedBy: t.request.Node, Expires: expiry(t.now, t.request.Hold),
			}
		}
		if held := r.held(); held.ReadiedBy == t.request.Node {
			result.Claim = held
		}
	}
}
