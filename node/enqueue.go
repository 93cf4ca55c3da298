package node

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
)

// enqueuer is the operation "consume and enqueue": it reads the input topics from the positions that the store has,
// and takes what it reads into the store, the position with it, in one transaction. So a record that comes again,
// whatever the reason, is taken in once; a store that was set back is told again what it has lost; and what the
// consumer group has committed decides nothing.
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

	// nextLook is when to compare positions with the store next, and nextMarks when to bring the marks of a
	// lineage that catches up to date; both monotonic.
	nextLook, nextMarks time.Duration
	catchingUp          bool
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

	// refused says that a take of it was refused: it is to be read from where the store is, which look finds out.
	refused bool
}

const (
	// lookInterval is the time between two comparisons of positions with the store: how soon a store that was set back
	// is noticed where no record comes.
	lookInterval = time.Second

	// marksInterval is the time between two looks at how far the input topics reach while the store catches up.
	marksInterval = 5 * time.Second
)

func newEnqueuer(c *core, source Source, random *rand.ChaCha8) *enqueuer {
	return &enqueuer{
		core:    c,
		source:  source,
		random:  random,
		poll:    c.link(Enqueue, PortSource, random),
		commits: c.link(Enqueue, PortSource, random),
		links:   c.link(Enqueue, PortStore, random),
		takes:   ration{limit: c.config.StoreTimeout()},
		owned:   map[shard]*reading{},
	}
}

// run runs until ctx is done, then finishes the call in hand.
func (e *enqueuer) run(ctx context.Context) {
	for ctx.Err() == nil {
		b, err := e.source.Poll(ctx)
		if err != nil {
			if ctx.Err() == nil {
				e.clock.Sleep(ctx, e.poll.failed("poll", err))
			}
			continue
		}
		e.poll.succeeded()
		if len(b.Records) > 0 {
			e.observe(Polled{Records: len(b.Records)})
		}
		if e.turn(ctx, b) {
			e.commit(ctx)
		}
	}
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
	if len(b.Lost) > 0 {
		e.observe(RecordsLost{Losses: b.Lost})
	}
	e.assigned = append(e.assigned, b.Assigned...)
	if !e.begin(ctx) {
		return false
	}
	return e.takeIn(ctx, append(e.passLost(b.Lost), e.decodeBatch(b.Records)...)) && e.look(ctx)
}

// begin starts the partitions that were assigned, at the positions that the store has for them. One that has none gets
// it here, at the first record there is. A position below what the consumer group has committed proves that the store
// was set back since: commits never pass positions.
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
		setBack = setBack || positions[i].before(a.Committed) && a.Committed.Offset <= a.End
	}
	if !e.mindLineage(ctx, state, setBack && !state.CatchingUp) || !e.start(ctx, places) {
		return false
	}
	for i, a := range e.assigned {
		e.owned[shard{a.Topic, a.Number}] = &reading{
			Partition: a.Partition, first: a.First, from: places[i].Position, stored: places[i].Position,
		}
		e.uncommitted = e.uncommitted || a.Committed.Offset != places[i].Offset
	}
	e.observe(Assigned{Assignments: e.assigned, Starts: places})
	e.assigned = nil
	return true
}

// positions asks the store for positions and follows its lineage.
func (e *enqueuer) positions(ctx context.Context, places []Place) ([]Position, State, error) {
	asked, _ := e.lineage.known()
	positions, state, err := e.store.Positions(context.WithoutCancel(ctx), places)
	if err != nil {
		return nil, state, err
	}
	assert(len(positions) == len(places), "positions: %d of %d", len(positions), len(places))
	e.follow(asked, state)
	return positions, state, nil
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
	highest, behind := e.lineage.known()
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
		Lineage: state.Lineage, Begin: begin, Floor: highest, Hold: e.config.HoldTime, Marks: extents,
	}
	return e.insist(ctx, "catch up", func() error {
		asked, _ := e.lineage.known()
		after, err := e.store.CatchUp(context.WithoutCancel(ctx), request)
		if err != nil {
			return err
		}
		e.nextMarks = e.clock.Mono() + jittered(e.random, marksInterval, 10)
		e.follow(asked, after)
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
	before, _ := e.lineage.known()
	var positions []Position
	var state State
	if !e.insist(ctx, "positions", func() (err error) {
		positions, state, err = e.positions(ctx, places)
		return err
	}) {
		return false
	}
	e.nextLook = e.clock.Mono() + jittered(e.random, lookInterval, 10)
	var differ []Place
	lowered := false
	for i, r := range readings {
		if positions[i] != r.stored || r.refused {
			differ = append(differ, Place{r.Partition, positions[i]})
			lowered = lowered || positions[i].before(r.stored)
		}
	}
	// Whoever has begun the lineage in which a position is lower knows of it.
	setBack := lowered && state.Lineage == before && !state.CatchingUp
	return e.mindLineage(ctx, state, setBack) && e.startOver(ctx, differ)
}

// readings returns the partitions that this node reads, in a fixed order.
func (e *enqueuer) readings() []*reading {
	list := make([]*reading, 0, len(e.owned))
	for _, r := range e.owned {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *reading) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
	return list
}

// startOver has partitions be read from the store's positions on.
func (e *enqueuer) startOver(ctx context.Context, places []Place) bool {
	if len(places) == 0 {
		return true
	}
	if !e.start(ctx, places) {
		return false
	}
	for _, place := range places {
		if r := e.owned[shard{place.Topic, place.Number}]; r != nil {
			r.from, r.stored, r.refused = place.Position, place.Position, false
		}
	}
	e.observe(StartedOver{Places: places})
	return true
}

// commit tells the consumer group of the positions: never more than what the store has. Nothing waits for it: if it
// fails, the next one comes with the next records or a second later.
func (e *enqueuer) commit(ctx context.Context) {
	if !e.uncommitted {
		return
	}
	var places []Place
	for _, r := range e.readings() {
		places = append(places, Place{r.Partition, r.stored})
	}
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

// submission is a record on its way into the store.
type submission struct {
	Item
	record  Record
	reading *reading

	// tried: a take of it was tried, and may have taken effect even if it failed.
	tried bool

	// since is the monotonic clock before the first take that asked for a claim; no claim on the message
	// can be older.
	since   time.Duration
	claimed bool
}

// passLost has the position move behind records that Kafka has deleted. Without it the position would stay before them
// until the next record comes, which may be never: a lag that nobody can make up for, and a mark of a lineage that is
// never passed, so that nothing would be claimed any more.
func (e *enqueuer) passLost(losses []Loss) []*submission {
	var passed []*submission
	for _, loss := range losses {
		if owned := e.owned[shard{loss.Topic, loss.Number}]; owned != nil && owned.Partition == loss.Partition {
			s := &submission{reading: owned, record: Record{Topic: loss.Topic, Partition: loss.Number, Control: true}}
			s.Epoch, s.Offset = UnknownEpoch, loss.To-1
			passed = append(passed, s)
		}
	}
	return passed
}

// decodeBatch turns records into submissions, in order. A record that is not a valid submission is replaced by its copy
// for the dead-letter topic, or passed over when there is none: it stands in nobody's way.
func (e *enqueuer) decodeBatch(records []Record) []*submission {
	submissions := make([]*submission, 0, len(records))
	for _, r := range records {
		owned := e.owned[shard{r.Topic, r.Partition}]
		if owned == nil {
			continue // it was given up meanwhile
		}
		s := &submission{record: r, reading: owned}
		s.Epoch, s.Offset = r.LeaderEpoch, r.Offset
		submissions = append(submissions, s)
		if r.Control {
			continue
		}
		route, known := e.routes[r.Topic]
		assert(known, "polled a record of topic %s, which has no route", r.Topic)
		message, rejected := e.config.decode(r, route)
		if rejected != nil {
			e.reject(s, rejected, route.DeadLetter)
			continue
		}
		s.Action, s.Message = Schedule, message
		s.Incarnation = newUUID(e.random)
	}
	return submissions
}

// reject says that a record is rejected, and has its copy for the dead-letter topic take its place.
func (e *enqueuer) reject(s *submission, rejected *rejection, deadLetter string) {
	e.observe(Rejected{s.record, rejected.reason, rejected.detail, deadLetter})
	s.Action, s.Message, s.claimed, s.tried = Pass, Message{}, false, false
	if deadLetter == "" {
		return
	}
	s.Action = Schedule
	s.Message = deadLetterOfRecord(s.reading.Partition, s.record, rejected, deadLetter, e.clock.Now())
	s.Incarnation = newUUID(e.random)
}

// takeIn takes submissions into the store, in calls that are bounded in number and bytes. Those of partitions that are
// refused are dropped: they are read again.
func (e *enqueuer) takeIn(ctx context.Context, submissions []*submission) bool {
	for len(submissions) > 0 {
		taken, ok := e.take(ctx, submissions[:e.chunk(submissions)])
		if !ok {
			return false
		}
		submissions = slices.DeleteFunc(submissions[taken:], func(s *submission) bool { return s.reading.refused })
	}
	return true
}

// chunk returns how many submissions fit into one call, at least one.
func (e *enqueuer) chunk(submissions []*submission) int {
	messages, bytes := e.takes.get()
	n, size := 0, 0
	for n < len(submissions) && n < messages && (n == 0 || size+submissions[n].Size() <= bytes) {
		size += submissions[n].Size()
		n++
	}
	return n
}

func sizeOf(chunk []*submission) (size int) {
	for _, s := range chunk {
		size += s.Size()
	}
	return size
}

// take takes submissions in with one call, which is repeated until it is answered: with the same incarnations, so that
// it does nothing twice. It returns how many are dealt with. A partition is refused when its position was lowered, which
// is the first that this node hears of it where records keep coming. What that means, and where to read, is for look to
// find out, which comes next: it needs the position as it was.
func (e *enqueuer) take(ctx context.Context, chunk []*submission) (taken int, ok bool) {
	var request TakeRequest
	var readings []*reading
	var result TakeResult
	ok = e.insist(ctx, "take", func() error {
		chunk = chunk[:e.chunk(chunk)] // which may be allowed less than it was at first
		request, readings = e.takeRequest(chunk)
		asked, _ := e.lineage.known()
		started := e.clock.Mono()
		var err error
		result, err = e.store.Take(context.WithoutCancel(ctx), request)
		e.takes.took(e.clock.Mono()-started, err == nil, len(chunk), sizeOf(chunk))
		if err != nil {
			e.contest(chunk)
			return err
		}
		assert(len(result.Results) == result.Taken && result.Taken <= len(chunk) &&
			len(result.Positions) == len(readings) && len(result.Refused) == len(readings),
			"take: %d results for %d records", len(result.Results), len(chunk))
		if !e.follow(asked, result.State) {
			result.Results = slices.Clone(result.Results)
			for i := range result.Results {
				result.Results[i].Claim = Claim{} // of a lineage that is over
			}
		}
		return nil
	})
	if !ok {
		return 0, false
	}
	e.took(chunk[:result.Taken], result)
	for i, r := range readings {
		if result.Refused[i] {
			r.refused = true
			e.nextLook = 0
			continue
		}
		r.stored = result.Positions[i]
	}
	if result.Taken < len(chunk) && result.Refusal != "" {
		e.refuse(chunk[result.Taken], result.Refusal)
	}
	return result.Taken, true
}

// contest tells the schedule of a take whose outcome is unknown.
func (e *enqueuer) contest(chunk []*submission) {
	var incarnations []uuid.UUID
	for _, s := range chunk {
		if s.claimed {
			incarnations = append(incarnations, s.Incarnation)
		}
	}
	e.schedule.contest(incarnations, e.clock.Mono()+e.config.HoldTime)
}

// refuse has the copy of a record that the store can never keep take its place. What is refused as such a copy is passed
// over: it has been reported.
func (e *enqueuer) refuse(s *submission, reason string) {
	deadLetter := e.routes[s.record.Topic].DeadLetter
	if s.Topic == deadLetter {
		deadLetter = ""
	}
	e.reject(s, &rejection{StoreRefused, reason}, deadLetter)
}

// takeRequest asks for submissions to be taken in. It decides which are stored as claimed: those that fall due within
// the lookahead, if there is room on the schedule, because the next look of any node would be too late for them, and
// it saves the claim. That is decided at the first take. When it is repeated, because its outcome is unknown,
// the claim is asked for again only while it could still be published: after that a fresh row would wait for the
// hold time, where a waiting one is claimed at the next look.
func (e *enqueuer) takeRequest(chunk []*submission) (TakeRequest, []*reading) {
	request := TakeRequest{Node: e.id, Hold: e.config.HoldTime, Items: make([]Item, len(chunk))}
	var readings []*reading
	now := e.clock.Mono()
	soon := e.lapsed().Add(e.config.Lookahead)
	rooms := map[string]*room{}
	for i, s := range chunk {
		s.From = slices.Index(readings, s.reading)
		if s.From < 0 {
			s.From = len(readings)
			readings = append(readings, s.reading)
			request.From = append(request.From, Place{s.reading.Partition, s.reading.from})
		}
		s.Claim = e.ours(s)
		if !s.tried && s.Action == Schedule && !s.Deadline.After(soon) && e.roomOn(s.Topic, rooms).fits(s.Size()) {
			s.Claim, s.claimed, s.since = true, true, now
		}
		s.tried = true
		request.Items[i] = s.Item
	}
	return request, readings
}

// room is how much a lane's part of the schedule has room for.
type room struct{ messages, bytes int }

func (e *enqueuer) roomOn(lane string, rooms map[string]*room) *room {
	r := rooms[lane]
	if r == nil {
		r = &room{}
		r.messages, r.bytes = e.schedule.room(lane)
		rooms[lane] = r
	}
	return r
}

// fits reports whether there is room for one more message, and takes it.
func (r *room) fits(size int) bool {
	if r.messages <= 0 || r.bytes <= 0 {
		return false
	}
	r.messages--
	r.bytes -= size
	return true
}

// ours reports whether a claim of this node on s can only be the one that enqueue has asked for. It cannot when
// enqueue never asked:
//
//	enqueue takes x in as waiting, the reply is lost
//	                              the claimer claims x, and puts it on the schedule
//	enqueue takes x in again, and is told of that claim: x would be published twice
//
// nor when it asked so long ago that the claim may have been reset, and the row claimed again by the claimer, since.
func (e *enqueuer) ours(s *submission) bool {
	return s.claimed && e.clock.Mono()-s.since < e.config.PublishableAge()
}

// took notes what became of submissions: how far their partitions have come, and which claims go to the schedule.
func (e *enqueuer) took(taken []*submission, result TakeResult) {
	var stored []Message
	var ignored []MessageID
	var claimed []holding
	skipped := 0
	for i, s := range taken {
		one := result.Results[i]
		if one.Outcome == Untaken {
			continue
		}
		s.reading.from = Position{s.Epoch, s.Offset + 1}
		e.uncommitted = true
		switch one.Outcome {
		case Scheduled:
			stored = append(stored, s.Message)
		case Duplicate:
			ignored = append(ignored, MessageID{s.ID, s.Topic})
		case Skipped:
			skipped++
		case Passed, Untaken:
		}
		if one.Claim.ReadiedBy != uuid.Nil && e.ours(s) {
			claimed = append(claimed, holding{Ready{s.Message, one.Claim, 1}, s.since})
		}
	}
	if len(stored) > 0 {
		e.observe(Enqueued{Messages: stored})
	}
	if len(ignored) > 0 {
		e.observe(Ignored{IDs: ignored})
	}
	if skipped > 0 {
		e.observe(SkippedTaken{Records: skipped})
	}
	if len(claimed) > 0 {
		e.hold(result.State.Lineage, claimed)
	}
}
