package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
)

// Bind implements node.Store.
func (s *Store) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var bound node.Bound
	err := s.run(ctx, func(tx *transaction) error {
		var lineage int64
		bound = node.Bound{}
		err := tx.send(ctx, step{statement: lockStoreStatement, read: func(rows pgx.Rows) error {
			return rows.Scan(&bound.Cluster, &bound.Group, &bound.Adopting, &lineage, nil)
		}})
		if err != nil {
			return err
		}
		if lineage == 0 {
			return errNoStore
		}
		if request.Force || bound.Cluster == "" && bound.Group == "" {
			bound.Cluster, bound.Group = request.Cluster, request.Group
		}
		var adopted moves
		ours := bound.Cluster == request.Cluster && bound.Group == request.Group
		if bound.Adopting && request.Adopt != nil && ours {
			bound.Adopting = false
			for _, place := range sortedPlaces(request.Adopt) {
				adopted.add(place.Partition, 0, place.Position)
			}
		}
		steps := append(adopted.create(adopted.lock()),
			step{statement: bindStatement, arguments: []any{bound.Cluster, bound.Group, bound.Adopting}},
			step{statement: countStatement, read: func(rows pgx.Rows) error { return rows.Scan(&bound.Partitions) }},
		)
		return tx.commit(ctx, steps...)
	})
	if err != nil {
		return node.Bound{}, fmt.Errorf("bind the store: %w", err)
	}
	return bound, nil
}

// errNoStore is the error of a database that somebody has changed by hand.
var errNoStore = errors.New("the table store has lost its one row, which \"chronos migrate up\" made")

// Positions implements node.Store.
func (s *Store) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	positions, state, err := s.positions(ctx, places)
	if err != nil {
		return nil, node.State{}, fmt.Errorf("read %d positions: %w", len(places), err)
	}
	s.mindCatchUp(state)
	return positions, state, nil
}

func (s *Store) positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.State{}, err
	}
	var all, missing moves
	for _, place := range places {
		all.add(place.Partition, 0, place.Position)
	}
	read := &positionsRead{}
	steps := []step{read.step(all), stateStep(&read.state, new(time.Time))}
	if err := s.once(ctx, func() { read.restart(len(places)) }, read.both(all)); err != nil {
		return nil, node.State{}, err
	}
	var without []node.Place
	for i, place := range places {
		if !read.found[i].found {
			without = append(without, place)
		}
	}
	if len(without) > 0 {
		for _, place := range sortedPlaces(without) {
			missing.add(place.Partition, 0, place.Position)
		}
		err := s.once(ctx, func() { read.restart(len(places)) }, append(missing.create(missing.lock()), steps...)...)
		if err != nil {
			return nil, node.State{}, err
		}
	}
	if read.state.Lineage == 0 {
		return nil, node.State{}, errNoStore
	}
	positions := make([]node.Position, len(places))
	for i, p := range read.found {
		if !p.found {
			return nil, node.State{}, fmt.Errorf("partition %d of %s has no position although it was given one",
				places[i].Number, places[i].Topic)
		}
		positions[i] = p.Position
	}
	return positions, read.state, nil
}

// positionsRead is what positionsStatement returns, by the place of its arguments.
type positionsRead struct {
	found []foundPosition
	state node.State
}

func (r *positionsRead) restart(n int) { r.found, r.state = make([]foundPosition, n), node.State{} }

func (r *positionsRead) step(of moves) step {
	read := func(rows pgx.Rows) error {
		var place int
		p := foundPosition{found: true}
		err := rows.Scan(&place, &p.turn, &p.Epoch, &p.Offset)
		if err == nil {
			r.found[place-1] = p
		}
		return err
	}
	return step{statement: positionsStatement, arguments: []any{of.topics, of.numbers}, read: read}
}

// both returns what reads the state as well, in one statement: a node that has nothing to do asks once a second.
func (r *positionsRead) both(of moves) step {
	read := func(rows pgx.Rows) error {
		var place, turn, epoch, offset pgtype.Int8
		err := scanState(rows, &r.state, new(time.Time), &place, &turn, &epoch, &offset)
		if err == nil && place.Valid {
			r.found[place.Int64-1] = foundPosition{
				found: true, turn: turn.Int64,
				Position: node.Position{Epoch: int32(epoch.Int64), Offset: offset.Int64},
			}
		}
		return err
	}
	return step{statement: positionsAndStateStatement, arguments: []any{of.topics, of.numbers}, read: read}
}

// sortedPlaces returns places in the order in which partitions are locked, each partition once.
func sortedPlaces(places []node.Place) []node.Place {
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(a, b node.Place) int { return comparePartitions(a.Partition, b.Partition) })
	return slices.CompactFunc(sorted, func(a, b node.Place) bool {
		return comparePartitions(a.Partition, b.Partition) == 0
	})
}

// CatchUp implements node.Store. It locks all partitions, so that no take is under way when a lineage begins, and no
// claim either.
func (s *Store) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var state node.State
	err := s.run(ctx, func(tx *transaction) (err error) {
		state, err = catchUp(ctx, tx, request)
		return err
	})
	if err != nil {
		return node.State{}, fmt.Errorf("catch up: %w", err)
	}
	s.mindCatchUp(state)
	return state, nil
}

func catchUp(ctx context.Context, tx *transaction, request node.CatchUpRequest) (state node.State, err error) {
	var lineage int64
	var sealed bool
	var steps []step
	if request.Begin {
		steps = append(steps, step{statement: lineageLock})
	}
	err = tx.send(ctx, append(steps, step{statement: lockStoreStatement, read: func(rows pgx.Rows) error {
		return rows.Scan(nil, nil, nil, &lineage, &sealed)
	}})...)
	switch {
	case err != nil:
		return state, err
	case lineage == 0:
		return state, errNoStore
	case lineage != request.Lineage || sealed:
		return state, tx.commit(ctx, stateStep(&state, new(time.Time)))
	}
	c, err := lookAtPartitions(ctx, tx, request)
	if err != nil {
		return state, err
	}
	steps = c.decide(request)
	if request.Begin {
		steps = append(steps, step{
			statement: beginStatement,
			arguments: []any{
				max(lineage, request.Floor) + 1, request.Hold.Microseconds(),
				(request.Hold + request.Calls).Microseconds(),
			},
		})
	}
	return state, tx.commit(ctx, append(steps, stateStep(&state, new(time.Time)))...)
}

// catchingUp is what a catch-up has found of the partitions that it names, and of the marks of all.
type catchingUp struct {
	places map[partitionKey]int // in named and in read.found
	named  moves
	read   positionsRead
	marks  map[partitionKey]int64
}

// partitionKey is the key of a partition.
type partitionKey struct {
	topic  pgtype.UUID
	number int32
}

func keyOf(p node.Partition) partitionKey { return partitionKey{uuidOf(p.TopicID), p.Number} }

// lookAtPartitions gives positions to the partitions of the request that have none, locks all that there are, and reads
// the positions of those that the request names.
func lookAtPartitions(ctx context.Context, tx *transaction, request node.CatchUpRequest) (*catchingUp, error) {
	var named []node.Place
	if request.Begin {
		named = append(named, request.Rewind...) // before those of marks: they come first if they are new
	}
	for _, extent := range request.Marks {
		named = append(named, node.Place{
			Partition: extent.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: extent.First},
		})
	}
	c := &catchingUp{places: map[partitionKey]int{}, marks: map[partitionKey]int64{}}
	for i, place := range sortedPlaces(named) {
		c.named.add(place.Partition, 0, place.Position)
		c.places[keyOf(place.Partition)] = i
	}
	c.read.restart(len(c.places))
	steps := append(c.named.create(step{statement: lockAllStatement, read: func(rows pgx.Rows) error {
		var key partitionKey
		var mark pgtype.Int8
		err := rows.Scan(&key.topic, &key.number, &mark)
		if mark.Valid {
			c.marks[key] = mark.Int64
		}
		return err
	}}), c.read.step(c.named))
	return c, tx.send(ctx, steps...)
}

// decide returns the statements that set positions and marks.
func (c *catchingUp) decide(request node.CatchUpRequest) []step {
	var rewound, marked moves
	if request.Begin {
		for _, place := range sortedPlaces(request.Rewind) {
			found := &c.read.found[c.places[keyOf(place.Partition)]]
			if !place.Before(found.Position) {
				continue
			}
			found.Position = place.Position
			rewound.add(place.Partition, found.turn, place.Position)
		}
	}
	marks := map[partitionKey]int64{}
	for _, extent := range request.Marks {
		key := keyOf(extent.Partition)
		mark, found := c.marks[key]
		if request.Begin {
			mark = extent.End
		} else if !found {
			continue // it has been passed, and is not raised again
		}
		if mark = min(mark, extent.End); max(c.read.found[c.places[key]].Offset, extent.First) < mark {
			marks[key] = mark
		}
	}
	var values []pgtype.Int8
	change := func(key partitionKey, mark pgtype.Int8) {
		marked.add(node.Partition{TopicID: key.topic.Bytes, Number: key.number}, 0, node.Position{})
		values = append(values, mark)
	}
	for key := range c.marks {
		if _, kept := marks[key]; !kept {
			change(key, pgtype.Int8{})
		}
	}
	for key, mark := range marks {
		if before, found := c.marks[key]; !found || before != mark {
			change(key, pgtype.Int8{Int64: mark, Valid: true})
		}
	}
	steps := rewound.steps()
	if len(values) > 0 {
		steps = append(steps, step{statement: markStatement, arguments: []any{marked.topics, marked.numbers, values}})
	}
	return steps
}
