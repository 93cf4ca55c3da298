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

// Bind implements node.Store.
func (s *Store) Bind(ctx context.Context, request node.BindRequest) (bound node.Bound, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		if bound, err = t.bound(ctx); err != nil {
			return err
		}
		if request.Force || bound.Cluster == "" && bound.Group == "" {
			if err := t.execute(t.statements.bind, request.Cluster, request.Group); err != nil {
				return err
			}
			bound.Cluster, bound.Group = request.Cluster, request.Group
		}
		ours := bound.Cluster == request.Cluster && bound.Group == request.Group
		if !bound.Adopting || !ours || request.Adopt == nil {
			return nil
		}
		for _, place := range request.Adopt {
			if err := t.execute(t.statements.create, placeArguments(place)...); err != nil {
				return err
			}
		}
		if err := t.execute(t.statements.adopt); err != nil {
			return err
		}
		bound, err = t.bound(ctx)
		return err
	})
	if err != nil {
		return node.Bound{}, fmt.Errorf("bind the store to group %q of cluster %q: %w",
			request.Group, request.Cluster, err)
	}
	return bound, nil
}

// bound returns what the store belongs to.
func (t *transaction) bound(ctx context.Context) (bound node.Bound, err error) {
	var cluster, group sql.NullString
	err = t.row(ctx, t.statements.bound).Scan(&cluster, &group, &bound.Adopting, &bound.Partitions)
	bound.Cluster, bound.Group = cluster.String, group.String
	return bound, err
}

// Positions implements node.Store.
func (s *Store) Positions(
	ctx context.Context, places []node.Place,
) (positions []node.Position, state node.State, err error) {
	positions = make([]node.Position, len(places))
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		for i, place := range places {
			position, found, err := t.position(ctx, place.Partition)
			if err != nil {
				return err
			}
			if !found {
				position = place.Position
				if err := t.execute(t.statements.create, placeArguments(place)...); err != nil {
					return err
				}
			}
			positions[i] = position
		}
		state, err = t.state(ctx)
		return err
	})
	if err != nil {
		return nil, node.State{}, fmt.Errorf("look for %d positions: %w", len(places), err)
	}
	return positions, state, nil
}

// position returns the position of a partition, and whether it has one.
func (t *transaction) position(ctx context.Context, p node.Partition) (position node.Position, found bool, err error) {
	err = t.row(ctx, t.statements.position, p.TopicID[:], p.Number).Scan(&position.Epoch, &position.Offset)
	if errors.Is(err, sql.ErrNoRows) {
		return position, false, nil
	}
	return position, err == nil, err
}

// state returns what the store says of itself. A file has no server, and so no other history than its own.
func (t *transaction) state(ctx context.Context) (state node.State, err error) {
	err = t.row(ctx, t.statements.state, t.now.UnixMicro()).
		Scan(&state.Lineage, &state.CatchingUp, &state.IntakePaused)
	return state, err
}

// CatchUp implements node.Store.
func (s *Store) CatchUp(ctx context.Context, request node.CatchUpRequest) (state node.State, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		if state, err = t.state(ctx); err != nil || state.Lineage != request.Lineage {
			return err
		}
		if request.Begin {
			if err := t.begin(request); err != nil {
				return err
			}
		}
		if err := t.mark(ctx, request); err != nil {
			return err
		}
		state, err = t.state(ctx)
		return err
	})
	if err != nil {
		return node.State{}, fmt.Errorf("catch up after lineage %d: %w", request.Lineage, err)
	}
	return state, nil
}

// begin begins a new lineage, without marks yet.
func (t *transaction) begin(request node.CatchUpRequest) error {
	number := max(request.Lineage, request.Floor) + 1
	if err := t.execute(t.statements.begin, number, instant(t.now.Add(request.Hold)).UnixMicro()); err != nil {
		return err
	}
	for _, place := range request.Rewind {
		if err := t.execute(t.statements.rewind, placeArguments(place)...); err != nil {
			return err
		}
	}
	return nil
}

// mark sets the marks of a lineage that begins, or lowers and gives up those of one that catches up.
func (t *transaction) mark(ctx context.Context, request node.CatchUpRequest) error {
	former, err := t.marks(ctx)
	if err != nil {
		return err
	}
	if err := t.execute(t.statements.unmark); err != nil {
		return err
	}
	for _, extent := range request.Marks {
		position := node.Position{Epoch: node.UnknownEpoch, Offset: extent.First}
		place := node.Place{Partition: extent.Partition, Position: position}
		if err := t.execute(t.statements.create, placeArguments(place)...); err != nil {
			return err
		}
		end := extent.End
		if !request.Begin {
			mark, found := former[partition{extent.TopicID, extent.Number}]
			if !found {
				continue
			}
			end = min(mark, end)
		}
		if end <= extent.First {
			continue
		}
		// A mark that the position has reached already is not set.
		if err := t.execute(t.statements.mark, extent.TopicID[:], extent.Number, end); err != nil {
			return err
		}
	}
	return nil
}

// partition is the key of a position.
type partition struct {
	topicID uuid.UUID
	number  int32
}

// marks returns those that there are.
func (t *transaction) marks(ctx context.Context) (marks map[partition]int64, err error) {
	marked := t.use(ctx, t.statements.marks) //nolint:sqlclosecheck // the transaction does it
	rows, err := marked.QueryContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	marks = map[partition]int64{}
	for rows.Next() {
		var p partition
		var mark int64
		if err := rows.Scan(&p.topicID, &p.number, &mark); err != nil {
			return nil, err
		}
		marks[p] = mark
	}
	return marks, rows.Err()
}

// Take implements node.Store.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (result node.TakeResult, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		result = node.TakeResult{
			Positions: make([]node.Position, len(request.From)), Refused: make([]bool, len(request.From)),
		}
		if result.State, err = t.state(ctx); err != nil {
			return err
		}
		for i, from := range request.From {
			position, found, err := t.position(ctx, from.Partition)
			if err != nil {
				return err
			}
			result.Positions[i] = position
			result.Refused[i] = !found || from.Above(position) || result.State.IntakePaused
		}
		if err := t.takeItems(ctx, request, &result); err != nil {
			return err
		}
		if err := t.move(request, &result); err != nil {
			return err
		}
		if err := t.complete(ctx, request, &result); err != nil {
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

// takeItems does what the items ask for, up to one that is refused. The result has the positions and the state of
// before, and these decide.
func (t *transaction) takeItems(ctx context.Context, request node.TakeRequest, result *node.TakeResult) error {
	result.Results = make([]node.ItemResult, 0, len(request.Items))
	for i := range request.Items {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := &request.Items[i]
		var done node.ItemResult
		switch {
		case result.Refused[item.From]:
			done.Outcome = node.Untaken
		case !result.Positions[item.From].Takes(item.Epoch, item.Offset):
			done.Outcome = node.Skipped
		case item.Action == node.Pass:
			done.Outcome = node.Passed
		default:
			var err error
			if done, result.Refusal, err = t.schedule(ctx, item, request, result.State); err != nil {
				return err
			}
		}
		if result.Refusal != "" {
			break
		}
		result.Results = append(result.Results, done)
	}
	result.Taken = len(result.Results)
	return nil
}

// schedule stores the message of an item, or says why it never can be.
func (t *transaction) schedule(
	ctx context.Context, item *node.Item, request node.TakeRequest, state node.State,
) (done node.ItemResult, refusal string, err error) {
	if refusal := item.Refusal(); refusal != "" {
		return done, refusal, nil
	}
	var readiedAt, readiedBy, expires any
	claim := item.Claim && state.Claims()
	if claim {
		paused, err := t.paused(ctx, item.Lane)
		if err != nil {
			return done, "", err
		}
		claim = !paused
	}
	if claim {
		done.Claim = node.Claim{
			Ref: item.Ref(), ReadiedAt: t.now, ReadiedBy: request.Node, Expires: instant(t.now.Add(request.Hold)),
		}
		readiedAt, readiedBy = claimColumns(t.now, request.Node)
		expires = done.Claim.Expires.UnixMicro()
	}
	insert := t.use(ctx, t.statements.insert)
	inserted, err := changes(insert, append(messageArguments(&item.Message), readiedAt, readiedBy, expires)...)
	switch {
	case isCode(err, codes.SQLITE_TOOBIG):
		return node.ItemResult{}, "the message is larger than SQLite allows", nil
	case err != nil:
		return done, "", err
	case inserted:
		done.Outcome = node.Scheduled
		return done, "", nil
	}
	if done, err = t.stored(ctx, item, request.Node); err == nil && done.Outcome != node.Scheduled {
		done.Outcome = node.Duplicate
	}
	return done, "", err
}

// stored returns Scheduled, and the claim that owner holds, if the message of item is stored under its incarnation.
func (t *transaction) stored(ctx context.Context, item *node.Item, owner uuid.UUID) (done node.ItemResult, err error) {
	var incarnation, readiedBy uuid.UUID
	var readiedAt, expires sql.NullInt64
	err = t.row(ctx, t.statements.find, item.ID, item.Lane).Scan(&incarnation, &readiedAt, &readiedBy, &expires)
	if errors.Is(err, sql.ErrNoRows) || err == nil && incarnation != item.Incarnation {
		return done, nil
	}
	if err != nil {
		return done, err
	}
	done.Outcome = node.Scheduled
	if readiedAt.Valid && readiedBy == owner {
		done.Claim = node.Claim{
			Ref: item.Ref(), ReadiedAt: fromColumn(readiedAt.Int64), ReadiedBy: owner,
			Expires: fromColumn(expires.Int64),
		}
	}
	return done, nil
}

// move sets the positions behind what was taken in.
func (t *transaction) move(request node.TakeRequest, result *node.TakeResult) error {
	moved := make([]bool, len(request.From))
	for i, done := range result.Results {
		if item := &request.Items[i]; done.Outcome != node.Untaken && done.Outcome != node.Skipped {
			result.Positions[item.From] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
			moved[item.From] = true
		}
	}
	for i, from := range request.From {
		if !moved[i] {
			continue
		}
		to := result.Positions[i]
		if err := t.execute(t.statements.move, from.TopicID[:], from.Number, to.Epoch, to.Offset); err != nil {
			return err
		}
	}
	return nil
}

// complete finds what was skipped because an earlier call has stored it.
func (t *transaction) complete(ctx context.Context, request node.TakeRequest, result *node.TakeResult) error {
	for i := range result.Results {
		item := &request.Items[i]
		if item.Action != node.Schedule || result.Results[i].Outcome != node.Skipped {
			continue
		}
		done, err := t.stored(ctx, item, request.Node)
		if err != nil {
			return err
		}
		if done.Outcome == node.Scheduled {
			result.Results[i] = done
		}
	}
	return nil
}
