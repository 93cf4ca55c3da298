package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

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
		Scan(&state.Lineage, &state.CatchingUp, &state.Holding, &state.HoldingCalls, &state.IntakePaused)
	return state, err
}

// CatchUp implements node.Store.
func (s *Store) CatchUp(ctx context.Context, request node.CatchUpRequest) (state node.State, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		if state, err = t.state(ctx); err != nil || state.Lineage != request.Lineage {
			return err
		}
		if sealed, err := t.sealed(ctx); err != nil || sealed {
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
	gate := t.now.Add(request.Hold)
	calls := gate.Add(request.Calls)
	err := t.execute(t.statements.begin, number, instant(gate).UnixMicro(), instant(calls).UnixMicro())
	if err != nil {
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
