package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	codes "modernc.org/sqlite/lib"

	"chronos/node"
)

// Take implements node.Store.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (result node.TakeResult, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		taking, err := t.begins(ctx, request)
		if err != nil {
			return err
		}
		result = node.TakeResult{Positions: taking.positions, Refused: taking.refused}
		if err := taking.items(ctx, &result); err != nil {
			return err
		}
		if err := taking.move(&result); err != nil {
			return err
		}
		if err := taking.complete(ctx, &result); err != nil {
			return err
		}
		result.State, err = t.state(ctx)
		return err
	})
	if err != nil {
		return node.TakeResult{}, fmt.Errorf("take %d records in: %w", len(request.Items), err)
	}
	return result, nil
}

// taking is a take under way.
type taking struct {
	*transaction

	request node.TakeRequest

	// state, positions and refused are what was true before the call, and decides.
	state     node.State
	positions []node.Position
	refused   []bool

	// instructed are the messages that an item of the request may remove, move or replace after another one has stored
	// it. Claims on these are made at the end; a request without instructions, as most are, makes its claims at once.
	instructed map[node.MessageID]bool

	// claims says of the lanes that have been asked for whether something is claimed on them.
	claims map[string]bool

	// left says of the items dealt with so far what is left to do for them at the end.
	left []remainder
}

// remainder is what is left to do for an item when all of them have been dealt with.
type remainder int

const (
	nothing  remainder = iota
	look               // its message may be stored: by an earlier take, say
	claiming           // it has stored a message that is to be claimed, if it is still there
)

// done is what has become of an item so far.
type done struct {
	node.ItemResult

	left remainder
}

// begins looks at what decides on a take.
func (t *transaction) begins(ctx context.Context, request node.TakeRequest) (*taking, error) {
	k := &taking{
		transaction: t, request: request, positions: make([]node.Position, len(request.From)),
		refused: make([]bool, len(request.From)), instructed: map[node.MessageID]bool{}, claims: map[string]bool{},
		left: make([]remainder, 0, len(request.Items)),
	}
	var err error
	if k.state, err = t.state(ctx); err != nil {
		return nil, err
	}
	for i, from := range request.From {
		position, found, err := t.position(ctx, from.Partition)
		if err != nil {
			return nil, err
		}
		k.positions[i] = position
		k.refused[i] = !found || from.Above(position) || !k.state.Takes()
	}
	for i := range request.Items {
		if item := &request.Items[i]; item.Action != node.Pass && item.Action != node.Schedule {
			k.instructed[nameOf(item)] = true
		}
	}
	return k, nil
}

// nameOf returns the name of the message that an item is about.
func nameOf(item *node.Item) node.MessageID { return node.MessageID{ID: item.ID, Lane: item.Lane} }

// items does what the items ask for, up to one that is refused.
func (k *taking) items(ctx context.Context, result *node.TakeResult) error {
	result.Results = make([]node.ItemResult, 0, len(k.request.Items))
	halted := make([]bool, len(k.request.From)) // the partitions that have met an item that is busy
	for i := range k.request.Items {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := &k.request.Items[i]
		var done done
		placed := item.From != node.NoPlace
		switch {
		case !placed && !k.state.Takes(), placed && k.refused[item.From]:
			done.Outcome = node.Untaken
		case placed && !k.positions[item.From].Takes(item.Epoch, item.Offset):
			done.Outcome = node.Skipped
			if item.Action.Stores() {
				done.left = look
			}
		case placed && halted[item.From]:
			done.Outcome = node.Untaken
		default:
			var err error
			if result.Refusal = item.Refusal(); result.Refusal == "" {
				done, result.Refusal, err = k.ask(ctx, item)
			}
			if err != nil {
				return err
			}
			if placed {
				halted[item.From] = done.Outcome == node.Blocked
			}
		}
		if result.Refusal != "" {
			break
		}
		result.Results, k.left = append(result.Results, done.ItemResult), append(k.left, done.left)
	}
	result.Taken = len(result.Results)
	return nil
}

// item does what an item asks for, and stores what is to be told of it, or says why its message can never be kept.
func (k *taking) item(
	ctx context.Context, item *node.Item,
) (done done, verdict node.Verdict, refusal string, err error) {
	verdict = item.Decide(nil)
	stored := false
	if item.Action.Stores() && item.Only == uuid.Nil {
		// Most messages are new: none is looked for before one of that name is in the way.
		if done, err = k.claimFor(ctx, item); err == nil {
			stored, err = k.insert(ctx, &item.Message, done.Claim)
		}
	}
	if err == nil && !stored {
		verdict, err = k.instruct(ctx, item)
		done.Claim, done.left = node.Claim{}, nothing
		switch {
		case verdict.Brings && item.Claim:
			done.left = claiming
		case item.Action.Stores() && verdict.Outcome == node.Scheduled:
			done.left = look // it was stored before, and may be claimed
		}
	}
	switch {
	case isCode(err, codes.SQLITE_TOOBIG):
		return done, verdict, "the message is larger than SQLite allows", nil
	case err != nil:
		return done, verdict, "", err
	}
	done.Outcome = verdict.Outcome
	if reply, told := item.Reply(verdict, k.state.Lineage); told {
		if _, err := k.insert(ctx, &reply, node.Claim{}); err != nil {
			return done, verdict, "", fmt.Errorf("tell of the outcome for %q: %w", item.ID, err)
		}
	}
	return done, verdict, "", nil
}

// insert stores a message under a claim, or as waiting where that is the zero value, unless one of its name is there.
func (k *taking) insert(ctx context.Context, m *node.Message, claim node.Claim) (bool, error) {
	var readiedAt, readiedBy, expires any
	if claim != (node.Claim{}) {
		readiedAt, readiedBy = claimColumns(claim.ReadiedAt, claim.ReadiedBy)
		expires = claim.Expires.UnixMicro()
	}
	return changes(k.use(ctx, k.statements.insert), append(messageArguments(m), readiedAt, readiedBy, expires)...)
}

// claimFor returns the claim to store the message of a new item with, or that it is to be claimed later.
func (k *taking) claimFor(ctx context.Context, item *node.Item) (done done, err error) {
	may, err := k.mayClaim(ctx, item)
	switch {
	case err != nil || !may:
	case k.instructed[nameOf(item)]:
		done.left = claiming
	default:
		done.Claim = k.newClaim(item)
	}
	return done, err
}

// newClaim returns the claim that the request asks for on the message of an item.
func (k *taking) newClaim(item *node.Item) node.Claim {
	return node.Claim{
		Ref: item.Ref(), ReadiedAt: k.now, ReadiedBy: k.request.Node, Expires: instant(k.now.Add(k.request.Hold)),
	}
}

// mayClaim reports whether an item asks for a claim that the state allows.
func (k *taking) mayClaim(ctx context.Context, item *node.Item) (bool, error) {
	if !item.Claim || item.Line != uuid.Nil || !k.state.ClaimsOn(item.Lane) {
		return false, nil
	}
	if _, asked := k.claims[item.Lane]; !asked {
		paused, err := k.paused(ctx, item.Lane)
		if err != nil {
			return false, err
		}
		k.claims[item.Lane] = !paused
	}
	return k.claims[item.Lane], nil
}

// row is what is stored of a message beside its content.
type row struct {
	node.Kept

	rowID int64
	claim node.Claim
}

// find returns the row of the message that an item is about, nil if there is none.
func (t *transaction) find(ctx context.Context, item *node.Item) (*row, error) {
	var r row
	var deadline, due int64
	var readiedAt, expires sql.NullInt64
	var readiedBy uuid.NullUUID
	err := t.row(ctx, t.statements.find, item.ID, item.Lane).Scan(&r.rowID, &r.Incarnation, &deadline, &due,
		&r.Attempts, &r.Bound, &r.Former, &r.Sequence, &r.Stopped, &readiedAt, &readiedBy, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.Deadline, r.Due = fromColumn(deadline), fromColumn(due)
	if r.Claimed = readiedAt.Valid; r.Claimed {
		r.claim = node.Claim{
			Ref:       node.Ref{ID: item.ID, Lane: item.Lane, Incarnation: r.Incarnation},
			ReadiedAt: fromColumn(readiedAt.Int64), ReadiedBy: readiedBy.UUID, Expires: fromColumn(expires.Int64),
		}
	}
	return &r, nil
}

// instruct decides on an item by what the ones before it have left, and does it.
func (k *taking) instruct(ctx context.Context, item *node.Item) (v node.Verdict, err error) {
	var r *row
	var before *node.Kept
	if item.Action != node.Pass {
		if r, err = k.find(ctx, item); err != nil {
			return v, err
		}
		if r != nil {
			before = &r.Kept
		}
	}
	v = item.Decide(before)
	after := v.After
	switch {
	case after == v.Before:
		return v, nil
	case after == nil:
		return v, k.execute(k.statements.remove, item.ID, item.Lane, before.Incarnation[:])
	case v.Brings:
		return v, k.execute(k.statements.replace, append(messageArguments(&item.Message),
			after.Due.UnixMicro(), after.Attempts, after.Bound, after.Former, after.Stopped)...)
	}
	return v, k.execute(k.statements.alter, r.rowID, after.Incarnation[:], after.Deadline.UnixMicro(),
		after.Due.UnixMicro(), after.Attempts, after.Bound, after.Former, after.Stopped)
}

// move sets the positions behind what was taken in.
func (k *taking) move(result *node.TakeResult) error {
	moved := make([]bool, len(k.request.From))
	for i, done := range result.Results {
		item := &k.request.Items[i]
		if item.From != node.NoPlace && done.Outcome != node.Untaken && done.Outcome != node.Blocked &&
			done.Outcome != node.Skipped {
			result.Positions[item.From] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
			moved[item.From] = true
		}
	}
	for i, from := range k.request.From {
		if !moved[i] {
			continue
		}
		to := result.Positions[i]
		if err := k.execute(k.statements.move, from.TopicID[:], from.Number, to.Epoch, to.Offset); err != nil {
			return err
		}
	}
	return nil
}

// complete makes the claims that were put off, on what no later item has touched, and finds what was stored by an
// earlier call.
func (k *taking) complete(ctx context.Context, result *node.TakeResult) error {
	for i, left := range k.left {
		if left == nothing {
			continue
		}
		item, done := &k.request.Items[i], &result.Results[i]
		r, err := k.find(ctx, item)
		if err != nil {
			return err
		}
		if r == nil || r.Incarnation != item.Incarnation {
			continue
		}
		if done.Outcome == node.Skipped {
			done.Outcome = node.Scheduled
		}
		if left == claiming {
			may, err := k.mayClaim(ctx, item)
			if err != nil {
				return err
			}
			if may {
				r.claim = k.newClaim(item)
				at, by := claimColumns(r.claim.ReadiedAt, r.claim.ReadiedBy)
				err = k.execute(k.statements.claim, r.rowID, at, by, r.claim.Expires.UnixMicro())
				if err != nil {
					return err
				}
			}
		}
		if r.claim.ReadiedBy == k.request.Node {
			done.Claim = r.claim
		}
	}
	return nil
}
