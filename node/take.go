package node

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

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

// instructs reports whether the record asks for more than to be scheduled as ever.
func (s *submission) instructs() bool {
	if s.Answer != nil {
		return !s.Answer.Rejected
	}
	return s.Action != Pass && s.Action != Schedule
}

// untold returns what is new of losses. A loss is met again when its partition is read again from a position before
// it, which cannot move behind the loss while the intake is paused:
//
//	paused; the log begins at 80, the position is 50: 50 to 80 is lost
//	resumed; reading starts over at 50:               50 to 80 is lost
//
// One on a partition that was given up meanwhile is for whoever has it now to tell.
func (e *enqueuer) untold(losses []Loss) []Loss {
	var fresh []Loss
	for _, loss := range losses {
		r := e.owned[shard{loss.Topic, loss.Number}]
		if r == nil || r.Partition != loss.Partition {
			continue
		}
		if loss.From >= r.told.From && loss.From < r.told.To {
			loss.From = min(loss.To, r.told.To)
		}
		if loss.From < loss.To {
			fresh = append(fresh, loss)
			if loss.From != r.told.To {
				r.told.From = loss.From
			}
			r.told.To = loss.To
		}
	}
	return fresh
}

// passLost has the position move behind records that Kafka has deleted. Without it the position would stay before them
// until the next record comes, which may be never: a lag that nobody can make up for, and a mark of a lineage that is
// never passed, so that nothing would be claimed any more.
func (e *enqueuer) passLost(losses []Loss) []*submission {
	var passed []*submission
	for _, loss := range losses {
		owned := e.owned[shard{loss.Topic, loss.Number}]
		if owned != nil && !owned.refused && owned.Partition == loss.Partition {
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
		if owned == nil || owned.refused {
			continue // it was given up meanwhile, or is read again from an earlier place
		}
		s := &submission{record: r, reading: owned}
		s.Epoch, s.Offset = r.LeaderEpoch, r.Offset
		submissions = append(submissions, s)
		if r.Control {
			continue
		}
		route, known := e.routes[r.Topic]
		assert(known, "polled a record of topic %s, which has no route", r.Topic)
		in := e.config.decode(r, route)
		if in.rejected == nil {
			in.rejected = e.config.Limits.exceeded(r, &in.message, e.clock.Now)
		}
		if in.rejected == nil && in.action.Stores() {
			in.rejected = e.uncallable(&in.message)
		}
		if in.rejected == nil && in.action.Stores() && !e.serves(in.message.Lane) {
			in.rejected = tooManyTargets(route.Format.topicHeader(), in.message.Lane)
		}
		if e.config.Requests != nil {
			var forged *rejection
			if s.Request, s.Only, forged = e.config.Requests.requestOf(&r); forged != nil {
				in.rejected = forged
			}
		}
		if in.told && route.Outcomes != "" && s.Request == nil {
			s.Answer = answer(owned.Partition, r, in.id, in.word, route.Outcomes, e.clock.Now())
			s.Answer.Incarnation = newUUID(e.random)
			s.Answer.Opens = e.scheduleOf(in.message.Lane).opensAt(in.message.Lane, in.message.Deadline)
		}
		if in.rejected != nil {
			e.reject(s, in.rejected, route.DeadLetter)
			continue
		}
		s.Action, s.Message = in.action, in.message
		s.Incarnation = newUUID(e.random)
		if s.Action == FireNow {
			s.Deadline = e.clock.Now().UTC().Truncate(time.Microsecond)
		}
	}
	return submissions
}

// uncallable returns a rejection for a message on a callback lane whose request would never be made: whoever has sent
// it hears of that now, and not when it is due, which may be in a year. What is allowed may change until then, in both
// directions: the sink looks again.
func (e *enqueuer) uncallable(m *Message) *rejection {
	if e.callable == nil || !IsCallback(m.Lane) {
		return nil
	}
	err := e.callable(m.Lane, m.Headers)
	if err == nil {
		return nil
	}
	return &rejection{InvalidRequest, err.Error(), HeaderURL}
}

// serves reports whether messages for a lane may be taken in, and has the lane served from now on.
func (e *enqueuer) serves(lane string) bool {
	return !e.seeks || !e.config.Finds(lane) || e.scheduleOf(lane).find(lane, e.clock.Mono())
}

// reject says that a record is rejected, and has its copy for the dead-letter topic take its place. Whoever is to be
// told of its outcome is.
func (e *enqueuer) reject(s *submission, rejected *rejection, deadLetter string) {
	e.observe(Rejected{s.record, rejected.reason, rejected.detail, deadLetter})
	s.Action, s.Message, s.claimed, s.tried = Pass, Message{}, false, false
	if s.Answer != nil && !s.Answer.Rejected {
		answer := *s.Answer // the one before may be in the hands of a call that is late
		answer.Rejected = true
		answer.Headers = append(slices.Clip(answer.Headers),
			Header{HeaderReason, []byte(rejected.reason)}, Header{HeaderError, []byte(rejected.detail)})
		s.Answer = &answer
	}
	if s.Request != nil { // whoever waits for its outcome has what it has sent
		request := *s.Request // the one before may be in the hands of a call that is late
		request.Refused = rejected.detail
		s.Request, s.Only = &request, uuid.Nil
		return
	}
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
	for _, group := range apart(submissions) {
		for len(group) > 0 {
			taken, ok := e.take(ctx, group[:e.chunk(group)])
			if !ok {
				return false
			}
			group = slices.DeleteFunc(group[taken:], func(s *submission) bool { return s.reading.refused })
		}
	}
	return true
}

// apart parts the submissions of partitions that were blocked when they were tried last, each for itself, from the
// others, which come first: a call that meets what another session has locked takes longer, and fewer may come of it.
func apart(submissions []*submission) [][]*submission {
	groups := [][]*submission{nil}
	places := map[*reading]int{}
	for _, s := range submissions {
		at := 0
		if s.reading.blocked > 0 {
			if at = places[s.reading]; at == 0 {
				at = len(groups)
				groups, places[s.reading] = append(groups, nil), at
			}
		}
		groups[at] = append(groups[at], s)
	}
	return groups
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
// it does nothing twice. It returns how many are dealt with. A partition is refused when its position was lowered,
// which is the first that this node hears of it where records keep coming, or when the intake is paused. What that
// means, and where to read, is for look to find out, which comes next: it needs the position as it was.
func (e *enqueuer) take(ctx context.Context, chunk []*submission) (taken int, ok bool) {
	var request TakeRequest
	var readings []*reading
	var result TakeResult
	tries := 0
	ok = e.insist(ctx, "take", func() error {
		tries++
		chunk = chunk[:e.chunk(chunk)] // which may be allowed less than it was at first
		request, readings = e.takeRequest(chunk)
		e.contest(chunk)
		asked, _ := e.known()
		started := e.clock.Mono()
		var err error
		result, err = e.store.Take(context.WithoutCancel(ctx), request)
		e.changed() // also where the outcome is unknown
		e.takes.took(e.clock.Mono()-started, err == nil, len(chunk), sizeOf(chunk))
		if err != nil {
			return err
		}
		assert(len(result.Results) == result.Taken && result.Taken <= len(chunk) &&
			len(result.Positions) == len(readings) && len(result.Refused) == len(readings),
			"take: %d results for %d records", len(result.Results), len(chunk))
		e.follow(asked, result.State)
		if !result.State.Claims() {
			dropClaims(&result)
		}
		return nil
	})
	if !ok {
		return 0, false
	}
	e.took(chunk[:result.Taken], result)
	if tries == 1 {
		e.schedule.uncontest(chunk) // nobody is told of a claim twice
	}
	e.mindPause(result.State)
	for i, r := range readings {
		if result.Refused[i] {
			r.refused = true
			e.nextLook = 0
			continue
		}
		r.stored, r.lineage = result.Positions[i], result.State.Lineage
	}
	e.block(chunk[:result.Taken], result.Results)
	if result.Taken < len(chunk) && result.Refusal != "" {
		e.refuse(chunk[result.Taken], result.Refusal)
	}
	return result.Taken, true
}

// block has partitions wait whose next record is about a row that another session has locked: they are read on from
// there after a back-off of their own, and the others go on. Records come in order, so what is behind it waits, too.
func (e *enqueuer) block(taken []*submission, results []ItemResult) {
	var places []Place
	var partitions []Partition
	moved := map[*reading]bool{}
	for i, s := range taken {
		r := s.reading
		switch {
		case results[i].Outcome != Blocked:
			moved[r] = moved[r] || results[i].Outcome != Untaken
			continue
		case r.refused: // it is blocked by an item before this one
			continue
		case moved[r]:
			r.blocked = 0
		}
		r.blocked++
		r.refused, r.retry = true, e.clock.Mono()+backoff(r.blocked, blockedMax, e.random)
		e.nextLook = min(e.nextLook, r.retry)
		partitions = append(partitions, r.Partition)
		places = append(places, Place{r.Partition, Position{s.Epoch, s.Offset}})
	}
	for _, s := range taken {
		if moved[s.reading] && !s.reading.refused {
			s.reading.blocked = 0
		}
	}
	if len(partitions) > 0 {
		e.source.Pause(partitions)
		e.observe(RowsLocked{Blocked: places})
	}
}

// dropClaims forgets the claims that a take was answered with while the store claims nothing: it has not made them, so
// an earlier try of the take has, and since then the store was set back. What they are on comes out when the store has
// caught up, after a cancel that is taken in again until then.
//
//	take x in, claimed: the reply is lost
//	                              the store is set back, not as far; lineage 2 begins
//	take x in again: told of the claim of lineage 1
func dropClaims(result *TakeResult) {
	result.Results = slices.Clone(result.Results)
	for i := range result.Results {
		result.Results[i].Claim = Claim{}
	}
}

// contest tells the schedule of a take that is about to be tried: its outcome may be unknown.
func (e *enqueuer) contest(chunk []*submission) {
	var incarnations []uuid.UUID
	for _, s := range chunk {
		if s.claimed {
			incarnations = append(incarnations, s.Incarnation)
		}
	}
	e.schedule.contest(incarnations, e.clock.Mono()+e.config.HoldTime)
}

// refuse has the copy of a record that the store can never keep take its place. What is refused as such a copy is
// passed over: it has been reported.
func (e *enqueuer) refuse(s *submission, reason string) {
	deadLetter := e.routes[s.record.Topic].DeadLetter
	if s.Lane == deadLetter {
		deadLetter = ""
	}
	e.reject(s, &rejection{StoreRefused, reason, ""}, deadLetter)
}

// takeRequest asks for submissions to be taken in. It decides which are stored as claimed: those that fall due within
// the lookahead, if there is room on the schedule, because the next look of any node would be too late for them, and it
// saves the claim. Those on callback lanes are not, since their hold time is another; the claimer hears of them at
// once. Nor are those on lanes that are closed, or those that would come out before what waits there (jumps). That is
// decided at the first take. When it is repeated, because its outcome is unknown, the claim is asked for again only
// while it could still be published: after that a fresh row would wait for the hold time, where a waiting one is
// claimed at the next look.
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
		if !s.tried && s.Action.Stores() && !IsCallback(s.Lane) && !s.Deadline.After(soon) &&
			e.schedule.claimable(s.Lane, e.config.Lookahead) && !e.schedule.jumps(s.Lane) &&
			e.roomOn(s.Lane, rooms).fits(s.Size()) {
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
		r.messages, r.bytes = e.schedule.room(Part{Lane: lane})
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
	stored := make([]Message, 0, len(taken)) // nearly all are
	var ignored []Message
	var claimed []*holding
	var decided []Decision
	skipped := 0
	for i, s := range taken {
		one := result.Results[i]
		if one.Outcome == Untaken || one.Outcome == Blocked {
			continue
		}
		s.reading.from = Position{s.Epoch, s.Offset + 1}
		e.uncommitted = true
		switch one.Outcome {
		case Scheduled:
			e.serves(s.Lane) // the call may have taken long
			stored = append(stored, s.Message)
		case Duplicate:
			ignored = append(ignored, s.Message)
		case Skipped:
			skipped++
		case Replaced:
			e.serves(s.Lane)
			stored = append(stored, s.Message)
		case Passed, Untaken, Blocked, Rescheduled, Cancelled, FiredNow, TooLate, Stopped, NotFound:
		}
		if s.instructs() && one.Outcome != Skipped {
			decided = append(decided, Decision{MessageID{s.ID, s.Lane}, s.Action, one.Outcome})
		}
		if one.Claim.ReadiedBy != uuid.Nil && e.ours(s) {
			claimed = append(claimed, &holding{
				Ready: Ready{Message: s.Message, Claim: one.Claim, Attempts: 1}, since: s.since,
			})
		}
	}
	if len(stored) > 0 {
		e.observe(Enqueued{Messages: stored})
		e.announce(stored)
	}
	if len(ignored) > 0 {
		e.observe(Ignored{Messages: ignored})
	}
	if len(decided) > 0 {
		e.observe(Decided{Decisions: decided})
	}
	if skipped > 0 {
		e.observe(SkippedTaken{Records: skipped})
	}
	if len(claimed) > 0 {
		e.hold(e.schedule, result.State.Lineage, claimed)
	}
}
