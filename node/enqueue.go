package node

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// enqueuer is the operation "consume and enqueue": it reads the input topics from the positions that the store has,
// and takes what it reads into the store, that of a partition and its position in one transaction. So a record that
// comes again, whatever the reason, is taken in once; a store that was set back is told again what it has lost; and
// what the consumer group has committed decides nothing.
//
// While a port fails, the loop keeps its records and tries again; it polls nothing, and drops nothing.
type enqueuer struct {
	*core

	source  Source
	random  *rand.ChaCha8
	poll    link
	commits link
	links   link // of the store
	takes   ration

	// owned are the partitions that this node reads, by topic and number.
	owned map[shard]*reading

	// assigned are partitions that wait to be started.
	assigned []Assignment

	// uncommitted says that the consumer group does not know all positions yet.
	uncommitted bool

	// nextLook is when to compare positions with the store next, nextMarks when to bring the marks of a lineage that
	// catches up to date, and nextCommit when to tell the consumer group of positions; all monotonic.
	nextLook, nextMarks, nextCommit time.Duration
	catchingUp                      bool

	// paused says that nothing is taken in, as the store has said when it was last asked: the intake is paused, of
	// which people are told, or claims from before the lineage may still be held.
	paused, told bool
}

// shard is a partition by name and number: what a polled record says of itself.
type shard struct {
	topic  string
	number int32
}

// reading is a partition that this node reads.
type reading struct {
	Partition

	first  int64    // the first offset of the log when it was assigned
	from   Position // where the last accepted take, or the start, left off
	stored Position // the store's position, when it was last heard of

	// lineage is that of the store when stored was heard of.
	lineage int64

	// refused says that a take of it was refused, or that records of it were skipped while the intake is paused: it is
	// to be read from where the store is, which look finds out. Until then no record of it may be taken in: it would
	// come after a gap.
	refused bool

	// blocked is how often in a row its next record was about a row that another session has locked, and retry when it
	// is read on, monotonic. It is refused meanwhile.
	blocked int
	retry   time.Duration

	// told is the loss that was told of last; moved says that the store's position was found elsewhere than expected,
	// and that this was not told yet.
	told  Loss
	moved bool
}

const (
	// lookInterval is the time between two comparisons of positions with the store: how soon a store that was set back
	// is noticed where no record comes.
	lookInterval = time.Second

	// marksInterval is the time between two looks at how far the input topics reach while the store catches up.
	marksInterval = 5 * time.Second

	// commitInterval is the time between two commits to the consumer group. Each takes as long as a take does, and only
	// people look at them, and whoever starts a partition: a store that was set back by less than this is read from its
	// position on, but nobody sees that it was.
	commitInterval = 100 * time.Millisecond
)

func newEnqueuer(c *core, source Source, random *rand.ChaCha8) *enqueuer {
	return &enqueuer{
		core:    c,
		source:  source,
		random:  random,
		poll:    c.link(Enqueue, PortSource, random),
		commits: c.link(Enqueue, PortSource, random),
		links:   c.link(Enqueue, PortStore, random),
		takes:   ration{limit: c.config.StoreTimeout(), most: c.config.batch()},
		owned:   map[shard]*reading{},
	}
}

// run runs until ctx is done, then finishes the call in hand. A poll that fails has brought nothing, and positions are
// looked at and committed nevertheless: where one topic is forbidden, each poll fails in which nothing of the others
// has come, for as long as nobody acts.
func (e *enqueuer) run(ctx context.Context) {
	for ctx.Err() == nil {
		b, err := e.source.Poll(ctx)
		switch {
		case err == nil:
			e.poll.succeeded()
		case ctx.Err() == nil:
			e.clock.Sleep(ctx, e.poll.failed("poll", err))
		}
		if len(b.Records) > 0 {
			e.observe(Polled{Records: len(b.Records)})
		}
		if e.turn(ctx, b) && e.clock.Mono() >= e.nextCommit {
			e.commit(ctx)
		}
	}
	e.commit(ctx)
}

// turn deals with what one poll has returned. It reports whether all is dealt with; it is not when ctx was done first
// or when the node has given its partitions up: then it comes again.
func (e *enqueuer) turn(ctx context.Context, b Batch) bool {
	for _, p := range b.Revoked {
		delete(e.owned, shard{p.Topic, p.Number})
		e.assigned = slices.DeleteFunc(e.assigned, func(a Assignment) bool { return a.Partition == p })
	}
	for _, place := range b.Moved {
		if r := e.owned[shard{place.Topic, place.Number}]; r != nil && r.Partition == place.Partition {
			r.from = place.Position
		}
	}
	if lost := e.untold(b.Lost); len(lost) > 0 {
		e.observe(RecordsLost{Losses: lost})
	}
	e.assigned = append(e.assigned, b.Assigned...)
	if !e.begin(ctx) {
		return false
	}
	if e.paused {
		return e.skip(ctx, b)
	}
	return e.takeIn(ctx, append(e.passLost(b.Lost), e.decodeBatch(b.Records)...)) && e.look(ctx)
}

// skip deals with what was polled while nothing may be taken in: nothing of it is, and its partitions are read
// again from the store's positions on when that is over. Polls go on meanwhile, because the consumer group
// hands partitions over in them. They are as slow as the looks at the store, so that a pause of hours over a long input
// topic does not read all of it for nothing.
func (e *enqueuer) skip(ctx context.Context, b Batch) bool {
	for _, loss := range b.Lost {
		if r := e.owned[shard{loss.Topic, loss.Number}]; r != nil {
			r.refused = true
		}
	}
	for _, record := range b.Records {
		if r := e.owned[shard{record.Topic, record.Partition}]; r != nil {
			r.refused = true
		}
	}
	if len(b.Records) > 0 {
		e.clock.Sleep(ctx, e.nextLook-e.clock.Mono())
	}
	return e.look(ctx)
}

// begin starts the partitions that were assigned, at the positions that the store has for them. One that has none gets
// it here, at the first record there is. While the intake is paused they are not started yet. A position below what the
// consumer group has committed proves that the store was set back since: commits never pass positions.
func (e *enqueuer) begin(ctx context.Context) bool {
	if len(e.assigned) == 0 {
		return true
	}
	places := make([]Place, len(e.assigned))
	for i, a := range e.assigned {
		places[i] = Place{a.Partition, Position{UnknownEpoch, a.First}}
	}
	var positions []Position
	var state State
	if !e.insist(ctx, "positions", func() (err error) {
		positions, state, err = e.positions(ctx, places)
		return err
	}) {
		return false
	}
	setBack := false
	for i, a := range e.assigned {
		places[i].Position = positions[i]
		setBack = setBack || positions[i].Before(a.Committed) && a.Committed.Offset <= a.End
	}
	if !e.mindLineage(ctx, state, setBack && !state.CatchingUp) || !e.paused && !e.start(ctx, places) {
		return false
	}
	for i, a := range e.assigned {
		e.owned[shard{a.Topic, a.Number}] = &reading{
			Partition: a.Partition, first: a.First, from: places[i].Position, stored: places[i].Position,
			lineage: state.Lineage, refused: e.paused,
		}
		e.uncommitted = e.uncommitted || a.Committed.Offset != places[i].Offset
	}
	e.observe(Assigned{Assignments: e.assigned, Starts: places})
	e.assigned = nil
	return true
}

// positions asks the store for positions and follows its lineage.
func (e *enqueuer) positions(ctx context.Context, places []Place) ([]Position, State, error) {
	asked, _ := e.known()
	positions, state, err := e.store.Positions(context.WithoutCancel(ctx), places)
	if err != nil {
		return nil, state, err
	}
	assert(len(positions) == len(places), "positions: %d of %d", len(positions), len(places))
	e.follow(asked, state)
	e.mindPause(state)
	return positions, state, nil
}

// mindPause takes note of whether anything may be taken in. Nothing depends on how soon that is: the store refuses
// what is taken in too late.
func (e *enqueuer) mindPause(state State) {
	switch {
	case state.IntakePaused && !e.told:
		e.observe(IntakePaused{})
	case !state.IntakePaused && e.told:
		e.observe(IntakeResumed{})
	}
	e.told = state.IntakePaused
	e.paused = state.IntakePaused || state.Holding
}

// start has the source read from places on.
func (e *enqueuer) start(ctx context.Context, places []Place) bool {
	for {
		err := e.source.Start(ctx, places)
		if err == nil {
			e.poll.succeeded()
			return true
		}
		e.clock.Sleep(ctx, e.poll.failed("start", err))
		if ctx.Err() != nil {
			return false
		}
	}
}

// mindLineage begins a new lineage where the store was set back, by whatever shows it, and brings the marks of one
// that catches up to date now and then: topics can be deleted meanwhile, or lose their ends.
func (e *enqueuer) mindLineage(ctx context.Context, state State, setBack bool) bool {
	known, behind := e.known()
	if e.catchingUp && !state.CatchingUp && !state.Suspect && !behind && !setBack {
		e.observe(CaughtUp{Lineage: state.Lineage})
	}
	e.catchingUp = state.CatchingUp
	begin := setBack || behind || state.Suspect
	if !begin && (!state.CatchingUp || e.clock.Mono() < e.nextMarks) {
		return true
	}
	var extents []Extent
	for {
		var err error
		if extents, err = e.source.Extents(context.WithoutCancel(ctx)); err == nil {
			e.poll.succeeded()
			break
		}
		wait := e.poll.failed("extents", err)
		if !begin {
			e.nextMarks = e.clock.Mono() + wait
			return true
		}
		e.clock.Sleep(ctx, wait)
		if ctx.Err() != nil {
			return false
		}
	}
	request := CatchUpRequest{
		Lineage: state.Lineage, Begin: begin, Floor: known.lineage, Marks: extents,
		Hold: e.config.HoldTime, Calls: e.config.CallsAfter(),
	}
	return e.insist(ctx, "catch up", func() error {
		asked, _ := e.known()
		after, err := e.store.CatchUp(context.WithoutCancel(ctx), request)
		if err != nil {
			return err
		}
		e.nextMarks = e.clock.Mono() + jittered(e.random, marksInterval, 10)
		e.follow(asked, after)
		e.mindPause(after)
		if begin && after.Lineage > state.Lineage {
			e.observe(CatchingUp{From: state.Lineage, To: after.Lineage, Marks: extents})
		}
		e.catchingUp = after.CatchingUp
		return nil
	})
}

// look compares the positions of this node with those of the store, once in a while. They differ when the store was
// set back or a position was lowered on purpose, or when another node, which took this one for dead, has taken in what
// this one was about to. In each case reading goes on from where the store is. Without it, a partition where no record
// comes would never be read again after the store was set back.
func (e *enqueuer) look(ctx context.Context) bool {
	now := e.clock.Mono()
	if now < e.nextLook {
		return true
	}
	readings := e.readings()
	places := make([]Place, len(readings))
	for i, r := range readings {
		places[i] = Place{r.Partition, Position{UnknownEpoch, r.first}}
	}
	before, _ := e.known()
	var positions []Position
	var state State
	if !e.insist(ctx, "positions", func() (err error) {
		positions, state, err = e.positions(ctx, places)
		return err
	}) {
		return false
	}
	now = e.clock.Mono()
	e.nextLook = now + jittered(e.random, lookInterval, 10)
	var differ []Place
	lowered := false
	for i, r := range readings {
		if positions[i] != r.stored || r.refused && now >= r.retry {
			differ = append(differ, Place{r.Partition, positions[i]})
			lowered = lowered || positions[i].Before(r.stored) && r.lineage == state.Lineage
		} else {
			r.lineage = state.Lineage
		}
		if r.refused && now < r.retry {
			e.nextLook = min(e.nextLook, r.retry)
		}
	}
	// A position that was higher in an earlier lineage proves nothing: whoever has begun this one knows of that. One
	// that was higher in this one does, also while the store catches up:
	//
	//	lineage 2 begins; x is taken in, and claimed; all has caught up
	//	the store is set back to within the catch-up: it catches up once more, in lineage 2
	//	x and its cancel are taken in: cancelled, by a store that knows of no claim on x
	setBack := lowered && state.Lineage == before.lineage
	return e.mindLineage(ctx, state, setBack) && e.startOver(ctx, differ, state.Lineage)
}

// readings returns the partitions that this node reads, in a fixed order.
func (e *enqueuer) readings() []*reading {
	return slices.SortedFunc(maps.Values(e.owned), func(a, b *reading) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
}

// startOver has partitions be read from the store's positions on: while the intake is paused, as soon as it is resumed.
// It is told of those whose positions are not where this node had come to; after a pause most are.
func (e *enqueuer) startOver(ctx context.Context, places []Place, lineage int64) bool {
	if len(places) == 0 {
		return true
	}
	if !e.paused && !e.start(ctx, places) {
		return false
	}
	var moved []Place
	for _, place := range places {
		r := e.owned[shard{place.Topic, place.Number}]
		if r == nil {
			continue
		}
		// Where another node has taken records in that took this one for dead, or was taken for dead, it may not
		// have been allowed to tell the group.
		e.uncommitted = e.uncommitted || place.Position != r.stored
		r.moved = r.moved || place.Position != r.stored || place.Offset != r.from.Offset
		r.from, r.stored, r.lineage, r.refused = place.Position, place.Position, lineage, e.paused
		if r.moved && !e.paused {
			moved = append(moved, place)
			r.moved = false
		}
	}
	if len(moved) > 0 {
		e.observe(StartedOver{Places: moved})
	}
	return true
}

// commit tells the consumer group of the positions: never more than what the store has. Nothing waits for it: if it
// fails, the next one comes with the next poll, which lasts a second at most.
func (e *enqueuer) commit(ctx context.Context) {
	if !e.uncommitted {
		return
	}
	var places []Place
	for _, r := range e.readings() {
		places = append(places, Place{r.Partition, r.stored})
	}
	e.nextCommit = e.clock.Mono() + commitInterval
	if err := e.source.Commit(context.WithoutCancel(ctx), places); err != nil {
		e.commits.failed("commit", err)
		return
	}
	e.commits.succeeded()
	e.uncommitted = false
	e.observe(Committed{Places: places})
}

// insist calls the store until it answers, and reports whether it did before ctx was done or the node has left the
// group: it has been out of this node's reach for too long then, while it may be in a peer's.
func (e *enqueuer) insist(ctx context.Context, call string, try func() error) bool {
	for {
		err := try()
		if err == nil {
			e.links.succeeded()
			return true
		}
		wait := e.links.failed(call, err)
		if e.links.outage() >= e.config.LeaveAfter {
			e.leave(ctx)
			return false
		}
		e.clock.Sleep(ctx, wait)
		if ctx.Err() != nil {
			return false
		}
	}
}

// leave gives the partitions up, and waits until the store answers again. What is in hand was not taken in: whoever
// gets the partitions gets it.
func (e *enqueuer) leave(ctx context.Context) {
	e.observe(LeftGroup{Outage: e.links.outage()})
	if err := e.source.Leave(context.WithoutCancel(ctx)); err != nil {
		e.poll.failed("leave", err)
	}
	clear(e.owned)
	e.assigned = nil
	for ctx.Err() == nil {
		_, _, err := e.positions(ctx, nil)
		if err == nil {
			e.links.succeeded()
			return
		}
		e.clock.Sleep(ctx, e.links.failed("positions", err))
	}
}
