package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// Operator is what a person does to a deployment by hand, beside nodes that run: to look at its positions, to lower
// them, and to say whom its store belongs to.
type Operator struct {
	config  Config
	store   *Store
	admin   *kafka.Admin
	cluster string
}

// OpenOperator returns an operator once the store and Kafka have answered; whoever waits for it gets an error soon. The
// caller closes it.
func OpenOperator(ctx context.Context, config Config) (o *Operator, err error) {
	o = &Operator{config: config}
	if o.store, err = config.Store.Open(ctx, AnswerTimeout); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	answered, err := o.store.Check(ctx)
	if !answered {
		return o, fmt.Errorf("reach the store %s: %w", config.Store.String(), err)
	}
	if err != nil {
		return o, err
	}
	if o.admin, err = kafka.NewAdmin(config.Kafka); err != nil {
		return o, err
	}
	limited, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	o.cluster, err = o.admin.ClusterID(limited)
	return o, err
}

// Close closes the connections.
func (o *Operator) Close() error {
	if o.admin != nil {
		o.admin.Close()
	}
	return o.store.Close()
}

// Binding returns whom the store belongs to: nobody, if it has never been used; and whom it would belong to.
func (o *Operator) Binding(ctx context.Context) (bound node.Bound, cluster, group string, err error) {
	bound, err = o.store.Bind(ctx, node.BindRequest{})
	return bound, o.cluster, o.config.Group, err
}

// Begin says where a store that has no positions begins.
type Begin int

// Where it can begin.
const (
	// BeginUnset: nothing is said; right where it has positions.
	BeginUnset Begin = iota

	// BeginCommitted: where the consumer group has come to.
	BeginCommitted

	// BeginEarliest: at the first record that Kafka has.
	BeginEarliest
)

// Bind has the store belong to this cluster and group, whomever it has belonged to, and begin as begin says where it
// has no positions. It returns what the store then belongs to.
func (o *Operator) Bind(ctx context.Context, begin Begin) (node.Bound, error) {
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	var places []node.Place
	switch begin {
	case BeginCommitted:
		committed, err := o.admin.Committed(limited, o.config.Group, o.config.inputs()...)
		if err != nil {
			return node.Bound{}, err
		}
		places = committed
	case BeginEarliest:
		extents, err := o.admin.Extents(limited, o.config.inputs()...)
		if err != nil {
			return node.Bound{}, err
		}
		for _, e := range extents {
			places = append(places, node.Place{
				Partition: e.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: e.First},
			})
		}
	case BeginUnset:
	}
	request := node.BindRequest{Cluster: o.cluster, Group: o.config.Group, Force: true}
	bound, err := o.store.Bind(ctx, request)
	if err != nil || begin == BeginUnset {
		return bound, err
	}
	if bound.Adopting {
		request.Adopt = append([]node.Place{}, places...)
		return o.store.Bind(ctx, request)
	}
	if _, _, err := o.store.Positions(ctx, places); err != nil {
		return bound, err
	}
	return o.store.Bind(ctx, node.BindRequest{Cluster: o.cluster, Group: o.config.Group})
}

// RewindTarget says which partitions are to be read again, and from where. One of Offset, Time and Earliest is set.
type RewindTarget struct {
	Topic     string
	Partition *int32 // nil: all of them

	Offset   *int64
	Time     time.Time // the first record with a timestamp not before it
	Earliest bool
}

// RewindPlan is what a rewind will do.
type RewindPlan struct {
	State node.State
	Moves []Move
	marks []node.Extent
}

// Move is what a rewind does to one partition.
type Move struct {
	node.Extent

	From, To node.Position
}

// Again is how many records are taken in again, at most.
func (m *Move) Again() int64 { return max(0, min(m.From.Offset, m.End)-m.To.Offset) }

// PlanRewind returns what a rewind to target would do, and changes nothing. An error that is about the target says what
// to choose instead.
func (o *Operator) PlanRewind(ctx context.Context, target RewindTarget) (RewindPlan, error) {
	bound, cluster, group, err := o.Binding(ctx)
	switch {
	case err != nil:
		return RewindPlan{}, err
	case bound.Cluster != cluster || bound.Group != group:
		return RewindPlan{}, &OtherOwnerError{Bound: bound, Cluster: cluster, Group: group}
	case !slices.Contains(o.config.inputs(), target.Topic):
		return RewindPlan{}, Usagef("--topic is %s: it must be an input topic of this deployment's routes", target.Topic)
	}
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	plan := RewindPlan{}
	if plan.marks, err = o.admin.Extents(limited, o.config.inputs()...); err != nil {
		return plan, err
	}
	times := map[node.Partition]int64{}
	if !target.Time.IsZero() {
		places, err := o.admin.PlacesAt(limited, target.Time, target.Topic)
		if err != nil {
			return plan, err
		}
		for _, p := range places {
			times[p.Partition] = p.Offset
		}
	}
	var places []node.Place
	for _, e := range plan.marks {
		if e.Topic != target.Topic || target.Partition != nil && *target.Partition != e.Number {
			continue
		}
		to := e.First
		switch {
		case target.Offset != nil:
			to = *target.Offset
		case !target.Time.IsZero():
			to = times[e.Partition]
		}
		unknown := node.Position{Epoch: node.UnknownEpoch, Offset: to}
		plan.Moves = append(plan.Moves, Move{Extent: e, To: unknown})
		places = append(places, node.Place{
			Partition: e.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: e.First},
		})
	}
	if len(places) == 0 {
		return plan, Usagef("topic %s has no partition %d", target.Topic, *cmp.Or(target.Partition, new(int32)))
	}
	positions, state, err := o.store.Positions(ctx, places)
	if err != nil {
		return plan, err
	}
	plan.State = state
	return plan, plan.complete(positions)
}

// complete says where the partitions are now, and refuses a target that would skip records or has none.
func (p *RewindPlan) complete(positions []node.Position) error {
	var moves []Move
	for i, m := range p.Moves {
		m.From = positions[i]
		if m.To.Offset < m.First {
			return Usagef("partition %d of %s has no offset %d any more: the first record that Kafka has is %d",
				m.Number, m.Topic, m.To.Offset, m.First)
		}
		if m.To.Offset > m.From.Offset {
			if len(p.Moves) == 1 {
				return Usagef("partition %d of %s is at %d: a rewind to %d would skip records, and nothing here does that",
					m.Number, m.Topic, m.From.Offset, m.To.Offset)
			}
			continue // this partition is not that far yet
		}
		moves = append(moves, m)
	}
	p.Moves = moves
	return nil
}

// Rewind lowers positions as planned, while nodes run. They notice within a second, forget what they hold, and claim
// nothing until everything is taken in again and a hold time has passed.
func (o *Operator) Rewind(ctx context.Context, plan RewindPlan) (node.State, error) {
	request := node.CatchUpRequest{
		Lineage: plan.State.Lineage, Begin: true, Floor: plan.State.Lineage,
		Hold: o.config.Node.HoldTime, Marks: plan.marks,
	}
	for _, m := range plan.Moves {
		request.Rewind = append(request.Rewind, node.Place{Partition: m.Partition, Position: m.To})
	}
	state, err := o.store.CatchUp(ctx, request)
	if err == nil && state.Lineage == plan.State.Lineage {
		err = errors.New("somebody else has just set the store back or rewound it: look again, and repeat")
	}
	return state, err
}
