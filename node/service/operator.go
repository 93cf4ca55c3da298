package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// Operator is what a person does to a deployment by hand, while nodes run or not: to look at whom its store belongs to
// and how far it has come, and to change that. Each change is planned first, which changes nothing, so that a person
// can see what it will do.
type Operator struct {
	config  Config
	store   *Store
	admin   *kafka.Admin
	cluster string
}

// OpenOperator returns an operator once the store and Kafka have answered; whoever waits for it gets an error soon. The
// caller closes it.
func OpenOperator(ctx context.Context, config Config) (_ *Operator, err error) {
	o := &Operator{config: config}
	if config.WithoutKafka() {
		return nil, Usagef("these are the settings of a node without Kafka: there is no cluster to bind the store " +
			"to, and " +
			"nothing to rewind; set --brokers")
	}
	if config.Store.IsJournal() {
		return nil, Usagef("%s is a journal in Kafka, which belongs to its input topic and the first consumer group "+
			"that has used it: it can be neither bound to others nor rewound", config.Store.String())
	}
	if o.store, err = config.Store.OpenThere(ctx, AnswerTimeout); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	if o.admin, err = kafka.NewAdmin(config.Kafka); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	if o.cluster, err = o.admin.ClusterID(limited); err != nil {
		return nil, fmt.Errorf("reach Kafka at %s: %s", strings.Join(config.Kafka.Brokers, ", "), CauseHere(err))
	}
	return o, nil
}

// Close closes the connections.
func (o *Operator) Close() error {
	if o.admin != nil {
		o.admin.Close()
	}
	return o.store.Close()
}

// Begin says where the partitions begin that have no position in the store.
type Begin int

// Where they can begin.
const (
	// BeginUnset: nothing is said.
	BeginUnset Begin = iota

	// BeginCommitted: where the consumer group has come to.
	BeginCommitted

	// BeginEarliest: at the first record that Kafka has.
	BeginEarliest
)

// BindPlan is what a bind will do.
type BindPlan struct {
	Bound          node.Bound // what the store belongs to now: nothing, if Cluster is empty
	Cluster, Group string     // what it will belong to

	// Committed is on how many partitions of the input topics the group has committed offsets.
	Committed int

	// Begin are the places at which partitions begin that have no position; nil if nothing was said of that.
	Begin []node.Place
}

// Same reports whether the store belongs to that cluster and group already.
func (p *BindPlan) Same() bool { return p.Bound.Cluster == p.Cluster && p.Bound.Group == p.Group }

// Undecided reports whether nodes would refuse to start after the bind: the group has come far with a store that knows
// nothing of it, and it was not said where to begin.
func (p *BindPlan) Undecided() bool {
	return p.Begin == nil && !p.Bound.Adopting && p.Bound.Partitions == 0 && p.Committed > 0
}

// PlanBind returns what a bind would do, and changes nothing.
func (o *Operator) PlanBind(ctx context.Context, begin Begin) (BindPlan, error) {
	plan := BindPlan{Cluster: o.cluster, Group: o.config.Group}
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	var err error
	if plan.Bound, err = o.store.Bind(limited, node.BindRequest{}); err != nil {
		return plan, err
	}
	committed, err := o.admin.Committed(limited, o.config.Group, o.config.inputs()...)
	if err != nil {
		return plan, err
	}
	plan.Committed = len(committed)
	switch begin {
	case BeginCommitted:
		if len(committed) == 0 {
			return plan, Usagef("--adopt is set, but consumer group %s has committed nothing on %s: there is nothing "+
				"to go on from", plan.Group, strings.Join(o.config.inputs(), ", "))
		}
		plan.Begin = make([]node.Place, len(committed))
		for i, c := range committed {
			plan.Begin[i] = c.Place // be it of another store: somebody has decided that
		}
		if plan.Bound.Adopting {
			plan.Begin = node.Adoptable(committed)
		}
	case BeginEarliest:
		extents, err := o.admin.Extents(limited, o.config.inputs()...)
		if err != nil {
			return plan, err
		}
		plan.Begin = make([]node.Place, len(extents))
		for i, e := range extents {
			plan.Begin[i] = firstPlace(e)
		}
	case BeginUnset:
	}
	return plan, nil
}

// Bind has the store belong to the cluster and the group of the plan, whomever it has belonged to, and gives the
// partitions of the plan that have no position one. It returns what the store then belongs to.
func (o *Operator) Bind(ctx context.Context, plan BindPlan) (node.Bound, error) {
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	request := node.BindRequest{Cluster: plan.Cluster, Group: plan.Group, Force: true}
	bound, err := o.store.Bind(limited, request)
	if err != nil || plan.Begin == nil {
		return bound, err
	}
	if bound.Adopting {
		request.Adopt = plan.Begin
	} else if _, _, err = o.store.Positions(limited, plan.Begin); err != nil {
		return bound, err
	}
	return o.store.Bind(limited, request)
}

// firstPlace returns the place of the first record of a partition.
func firstPlace(e node.Extent) node.Place {
	return node.Place{Partition: e.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: e.First}}
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
	Moves []Move // none, if no partition has come beyond the target

	// Hold is how long nothing fires at least, and CallsAfter how much longer nothing on callback lanes does.
	Hold, CallsAfter time.Duration

	marks []node.Extent
}

// Move is what a rewind does to one partition.
type Move struct {
	node.Extent

	From, To node.Position
}

// Again is how many records are taken in again, at most.
func (m *Move) Again() int64 { return max(0, min(m.From.Offset, m.End)-m.To.Offset) }

// Again is how many records are taken in again, at most.
func (p *RewindPlan) Again() (records int64) {
	for i := range p.Moves {
		records += p.Moves[i].Again()
	}
	return records
}

// PlanRewind returns what a rewind to target would do, and moves nothing. An error that is about the target says what
// to choose instead.
func (o *Operator) PlanRewind(ctx context.Context, target RewindTarget) (RewindPlan, error) {
	plan := RewindPlan{Hold: o.config.Node.HoldTime, CallsAfter: o.config.Node.CallsAfter()}
	if !slices.Contains(o.config.inputs(), target.Topic) {
		return plan, Usagef("--topic is %s: it must be an input topic of this deployment, which reads %s",
			Shown(target.Topic), strings.Join(o.config.inputs(), ", "))
	}
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	mover, err := o.store.Mover()
	if err != nil {
		return plan, err
	}
	if seal, err := mover.Sealed(limited); err != nil || seal.Sealed() {
		return plan, cmp.Or[error](err, &SealedError{Seal: seal})
	}
	bound, err := o.store.Bind(limited, node.BindRequest{})
	switch {
	case err != nil:
		return plan, err
	case bound.Cluster != "" && (bound.Cluster != o.cluster || bound.Group != o.config.Group):
		return plan, &OtherOwnerError{Bound: bound, Cluster: o.cluster, Group: o.config.Group}
	case bound.Adopting || bound.Partitions == 0:
		// To look at a position that is not there would create it, which is not for a rewind to do.
		return plan, errors.New("the store has no positions yet, so there is nothing to rewind: " +
			"they come with the first start of a node")
	}
	if plan.marks, err = o.admin.Extents(limited, o.config.inputs()...); err != nil {
		return plan, err
	}
	if err := o.aim(limited, &plan, target); err != nil {
		return plan, err
	}
	// A partition that was added, and that no node has looked at yet, gets the position here that a node would give it.
	places := make([]node.Place, len(plan.Moves))
	for i, m := range plan.Moves {
		places[i] = firstPlace(m.Extent)
	}
	positions, state, err := o.store.Positions(limited, places)
	if err != nil {
		return plan, err
	}
	plan.State = state
	if err := plan.complete(positions); err != nil {
		return plan, err
	}
	return plan, o.locate(limited, &plan)
}

// locate has the targets of a plan name the leader epochs of the records before them, which are none above that of the
// position. By offsets alone records would be skipped when Kafka loses the end of a log, before the rewind or after it:
//
//	                                   Kafka loses the log from 3 on, and other records come in the place of 3 and 4
//	the position, which is 6 of the    these two are never taken in
//	lost log, goes back to 5
//
//	the position goes back to 5
//	                                   Kafka loses the log from 3 on, and other records come in the place of 3 and 4
//	reading goes on at 5               these two are never taken in
func (o *Operator) locate(ctx context.Context, plan *RewindPlan) error {
	targets := make([]node.Place, len(plan.Moves))
	for i, m := range plan.Moves {
		targets[i] = node.Place{Partition: m.Partition, Position: m.To}
		targets[i].Epoch = m.From.Epoch
	}
	located, err := o.admin.WithEpochs(ctx, targets)
	if err != nil {
		return err
	}
	for i := range plan.Moves {
		plan.Moves[i].To = located[i].Position
	}
	return nil
}

// aim says which partitions go where.
func (o *Operator) aim(ctx context.Context, plan *RewindPlan, target RewindTarget) error {
	byTime := map[node.Partition]int64{}
	if !target.Time.IsZero() {
		places, err := o.admin.PlacesAt(ctx, target.Time, target.Topic)
		if err != nil {
			return err
		}
		for _, p := range places {
			byTime[p.Partition] = p.Offset
		}
	}
	for _, e := range plan.marks {
		if e.Topic != target.Topic || target.Partition != nil && *target.Partition != e.Number {
			continue
		}
		to := e.First
		switch {
		case target.Offset != nil:
			to = *target.Offset
		case !target.Time.IsZero():
			to = byTime[e.Partition]
		}
		plan.Moves = append(plan.Moves, Move{Extent: e, To: node.Position{Epoch: node.UnknownEpoch, Offset: to}})
	}
	if len(plan.Moves) == 0 && target.Partition != nil {
		return Usagef("--partition is %d: topic %s has no such partition", *target.Partition, target.Topic)
	}
	return nil
}

// complete says where the partitions are now, leaves out those that are not beyond their target, and refuses a target
// that Kafka does not have any more or, where it is meant for one partition, that would skip records.
func (p *RewindPlan) complete(positions []node.Position) error {
	alone := len(p.Moves) == 1
	var moves []Move
	for i, m := range p.Moves {
		m.From = positions[i]
		switch {
		case m.To.Offset < m.First && m.First < m.From.Offset:
			return Usagef("partition %d of %s has no offset %d any more: the first record that Kafka has is %d",
				m.Number, m.Topic, m.To.Offset, m.First)
		case m.To.Offset < m.From.Offset:
			moves = append(moves, m)
		case m.To.Offset > m.From.Offset && alone:
			return Usagef("partition %d of %s is at %d: a rewind to %d would skip records, and only goes back",
				m.Number, m.Topic, m.From.Offset, m.To.Offset)
		}
	}
	p.Moves = moves
	return nil
}

// Rewind lowers positions as planned, while nodes run. They notice within a second, forget what they hold, and claim
// nothing until everything is taken in again and a hold time has passed. It returns the state of the store after it.
func (o *Operator) Rewind(ctx context.Context, plan RewindPlan) (node.State, error) {
	limited, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	// The floor leaves a number out, so that this lineage is told from one that a node begins at the same moment.
	request := node.CatchUpRequest{
		Lineage: plan.State.Lineage, Begin: true, Floor: plan.State.Lineage + 1, Marks: plan.marks,
		Hold: plan.Hold, Calls: plan.CallsAfter,
	}
	for _, m := range plan.Moves {
		request.Rewind = append(request.Rewind, node.Place{Partition: m.Partition, Position: m.To})
	}
	state, err := o.store.CatchUp(limited, request)
	switch {
	case err != nil:
		return state, fmt.Errorf("rewind: %w; it may have happened nevertheless: repeat without --yes to see", err)
	case state.Lineage != request.Floor+1:
		return state, fmt.Errorf("nothing was rewound: the store has begun lineage %d meanwhile, because it was set "+
			"back or rewound by others; look again, and repeat", state.Lineage)
	}
	return state, nil
}
