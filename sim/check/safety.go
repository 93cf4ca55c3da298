package check

import (
	"fmt"
	"time"
)

// holds is what an invariant finds when it is not broken.
func holds() finding { return finding{} }

func brokenBy(sub *submission, format string, args ...any) finding {
	return finding{fmt.Sprintf(format, args...), sub}
}

// s1 is the invariant S1, no loss. A submission is lost when it was stored and is gone, or, where nobody has
// recorded the deliveries, when nothing has come of it in the end. What is still stored is left to L2, and what was not
// consumed to L3.
func s1(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	switch {
	case e.Kind == Reject && sub != nil && sub.flaw != Invalid:
		return brokenBy(sub, "a valid submission was rejected: %s", e.Text)
	case e.Kind == Fire && sub != nil && sub.flaw == Invalid:
		return brokenBy(sub, "it is no valid submission, and it fires")
	case e.Kind == Copy && sub != nil && sub.flaw == "" && sub.notAfter == 0 && !s.mayGiveUp(sub):
		return brokenBy(sub, "it is copied to a dead-letter topic, and nothing is wrong with it")
	case e.Kind != End:
		return holds()
	}
	for _, sub := range s.inOrder() {
		if how := s.lost(sub, e.At); how != "" {
			return brokenBy(sub, "%s", how)
		}
	}
	return holds()
}

// lost says how a submission was lost, at the end of a history; "" if it was not.
func (s *state) lost(sub *submission, end time.Duration) string {
	switch {
	case sub.kept > 0 || sub.copies > 0:
	case sub.flaw == Invalid && s.config.DeadLetter && sub.rejected && s.drained(sub, end) && s.retained(sub):
		return "it was rejected, and its copy for the dead-letter topic is lost"
	case sub.fires > 0 || sub.rejected || sub.covered || sub.flaw != "" || !s.retained(sub):
	case sub.inserts > 0 && (s.setBack < 0 || s.drained(sub, end)):
		return "it was stored, has not fired, and is gone"
	case s.recorded[Deliver] || s.coveredByOthers(sub) || !s.drained(sub, end):
	default:
		return "it was acknowledged, and nothing has come of it"
	}
	return ""
}

// retained reports whether a submission was stored in a store that was never set back, or could still be consumed.
func (s *state) retained(sub *submission) bool {
	return sub.inKafka() || sub.inserts > 0 && (s.setBack < 0 || sub.brought && sub.stored > 0)
}

// coveredByOthers reports whether a submission may have met another one of its id, where nobody has recorded what
// inserts and looks have found. If rows are recorded, that is one whose row was there since; otherwise one that fired
// no longer before than the recovery bound, which is how long its row may have stayed.
func (s *state) coveredByOthers(sub *submission) bool {
	rows := s.recorded[Insert] && s.recorded[Delete]
	for _, other := range s.namesakes[sub.key] {
		switch {
		case other == sub || other.fires == 0:
		case rows && other.inserts > 0 && (s.stored(other) != nil || other.gone >= sub.at):
			return true
		case !rows && other.at <= sub.at && other.first+s.config.Recovery() >= sub.at:
			return true
		}
	}
	return false
}

// s2 is the invariant S2, justified delete.
func s2(s *state, e *Event) finding {
	if e.Kind == Insert {
		i, sub := s.incarnations[e.Incarnation], s.submissions[e.Message]
		if i != nil && i.submission != sub {
			return brokenBy(sub, "it has the incarnation of another")
		}
		return holds()
	}
	switch r := s.rowOf(e); {
	case r == nil:
		return brokenBy(nil, "%s was deleted, which was not stored", e.ID)
	case r.series != nil && s.missed(r, e): // passed over
	case !s.config.DeadLetter && s.ended(r.submission, e): // dropped
	case s.givenUp(r, e):
	case isCallback(r.submission.key.topic) && r.key != r.submission.key && r.copies > r.letters:
		// A store that was set back can have two dead letters of one callback, the one that outlived that and one that
		// was made again. Their records are the same, so nobody can tell which is of which: each needs one.
	case r.published == 0 && r.loose == 0:
		return brokenBy(r.submission, "it is deleted and has not been published")
	}
	return holds()
}

// s3 is the invariant S3, exclusive claim.
func s3(s *state, e *Event) finding {
	switch e.Kind {
	case Publish:
		sub := s.submissions[e.Message]
		if sub != nil && e.Topic == sub.key.topic && e.Incarnation == (UUID{}) {
			return brokenBy(sub, "it is published without a claim")
		}
		return holds()
	case Insert:
		if why := s.gated(e); e.Owner != (UUID{}) && why != "" {
			return brokenBy(s.submissions[e.Message], "it is claimed %s", why)
		}
		return holds()
	default:
	}
	switch r := s.rowOf(e); {
	case r == nil:
		return brokenBy(nil, "a claim was made on %s, which is not stored", e.ID)
	case r.ready():
		return brokenBy(r.submission, "it is claimed by %v, and %v has a claim on it", e.Owner, r.owner)
	case s.gated(e) != "":
		return brokenBy(r.submission, "it is claimed %s", s.gated(e))
	}
	return holds()
}

// gated says why nothing may be claimed yet in a new lineage; "" if it may. What the store was asked for before the
// lineage began may take effect up to the time limit of a call later. By whose clock the hold time ends nobody can
// tell after the clock of the store was set.
func (s *state) gated(e *Event) string {
	since := e.At - s.begun
	if s.begun < 0 || since <= s.config.StoreTimeout {
		return ""
	}
	if s.jumped < s.begun && since+s.config.ClockError < s.config.HoldTime*9/10 {
		return "within a hold time of the beginning of a lineage"
	}
	for _, name := range s.partitionNames() {
		if p := s.partitions[name]; max(p.position.offset, p.start) < p.mark {
			return "before " + name + " was taken in up to its mark"
		}
	}
	return ""
}

// s4 is the invariant S4, justified reset: who may reset what, and what a node says of its own claim. A claim that was
// made before the store's clock was set has no age that means anything.
func s4(s *state, e *Event) finding {
	r := s.rowOf(e)
	if r == nil || r.owner != e.Owner || r.stamp != e.Stamp {
		return brokenBy(nil, "a claim on %s was reset that was not held", e.ID)
	}
	set := r.since <= s.jumped || e.At-e.Age <= s.jumped
	hold := s.hold(r)
	if e.Node != "" && !s.own(e) && e.Age < hold && !set {
		return brokenBy(r.submission, "a claim of another node was reset that is %v old, and holds for %v", e.Age, hold)
	}
	if !s.recorded[Unknown] || !s.own(e) {
		return holds()
	}
	// A node that finds its own claim expired has forgotten it, and cannot know what was sent.
	// A node may have two claims at once where one was lost with the store that was set back, or was suspected early
	// because the store's clock was set: what is known of a publish under one of them says nothing of the other.
	lost := s.setBack >= 0 && r.since < s.setBack+hold || s.jumped >= 0 && r.since < s.jumped+hold
	began, unsure := r.unsure[e.Node]
	switch unsure = unsure && began >= r.since; {
	case lost:
	case isCallback(r.key.topic) && r.flaw == Poison, s.mayGiveUp(r.submission): // its dead letter is not stored yet
	case unsure && e.Unsent:
		return brokenBy(r.submission, "it was given back as unsent, and a publish of it had no known outcome")
	case !unsure && !e.Unsent && e.Age < hold && !set:
		return brokenBy(r.submission, "it was given back as sent, and nothing was")
	}
	return holds()
}

// s5 is the invariant S5, excused duplicates. Where unknown outcomes are not recorded, anything that went wrong since
// the submission excuses, or before it by no more than a publish, a retry and a session: what nodes have found out
// about the brokers, and about being members of their group, is as old as that.
func s5(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil {
		return holds()
	}
	if e.Kind == Publish {
		if e.Topic == sub.key.topic && sub.attempts >= sub.claims {
			return brokenBy(sub, "it is published %d times under %d claims", sub.attempts+1, sub.claims)
		}
		return holds()
	}
	if sub.fires > 0 && s.excuseOf(sub, e) == "" {
		return brokenBy(sub, "it fires %d times without an excuse", sub.fires+1)
	}
	if most := s.mostFires(sub); most > 0 && int(sub.fires) >= most {
		return brokenBy(sub, "it fires %d times, and %d are excused", sub.fires+1, most)
	}
	return holds()
}

// mostFires returns how often a submission may have fired by now, where claims are recorded and publishes are not;
// 0 where nobody can tell. It is published once for each claim. A claim that was made just before the store was set
// back may be in nobody's records; and the times of two servers may put one record too early.
func (s *state) mostFires(sub *submission) int {
	if s.recorded[Publish] || !s.recorded[Claim] || !s.recorded[Insert] || s.config.PublishTimeout == 0 {
		return 0
	}
	return int(sub.claims) + 1 + s.lineages
}

// excuseOf returns why a submission may fire again; "" for no reason.
func (s *state) excuseOf(sub *submission, e *Event) string {
	shaken := func(at time.Duration) bool {
		return at+s.config.PublishTimeout+s.config.Retry+s.config.Session >= sub.at
	}
	switch {
	case sub.excuse != "":
		return sub.excuse
	case e.Twice:
		return "appended twice by the brokers"
	case !s.recorded[Unknown] && s.faults > 0 && shaken(s.fault):
		return "a fault shortly before it was submitted, or since"
	case !s.recorded[Unknown] && s.hangs > 0:
		return "a sink that hangs"
	}
	return ""
}

// s6 is the invariant S6, fidelity.
func s6(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	switch {
	case e.Past: // an operator submits no record
	case sub == nil:
		return brokenBy(nil, "a record is there that nobody submitted: %s", e.Kind)
	case e.Kind == Fire && e.Payload != sub.payload && (sub.of == 0 || sub.fires > 0 && sub.appended == 1):
		return brokenBy(sub, "its key, value or headers have changed: %s", e.Text)
	case e.Kind == Insert && e.Topic == sub.key.topic && (e.ID != sub.key.id || e.Deadline != sub.asked):
		return brokenBy(sub, "it is stored as %s with the deadline %v instead of %v", e.ID, e.Deadline, sub.asked)
	case e.Kind == Decide && e.Text == rescheduled && e.Deadline != sub.asked:
		return brokenBy(sub, "%s is moved to %v instead of %v", e.ID, e.Deadline, sub.asked)
	}
	return holds()
}

// s7 is the invariant S7, same key, same partition. Only records that were published once can be told apart.
func s7(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil || e.Key == 0 {
		return holds()
	}
	if before, known := s.appended[appendedKey{placedKey{sub.key.topic, e.Key}, sub.call}]; known && sub.nth < before {
		return brokenBy(sub, "it appears after record %d of its call, and it is %d, of the same key", before, sub.nth)
	}
	if e.Partition == "" {
		return holds()
	}
	if before, known := s.placed[placedKey{sub.key.topic, e.Key}]; known && before != e.Partition {
		return brokenBy(sub, "it appears in %s, and another record of its key in %s", e.Partition, before)
	}
	return holds()
}

// s8 is the invariant S8, not early. The clock that a node has looked at may have been set since: a publish that
// begins within a store timeout of that is not judged.
func s8(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil {
		return holds()
	}
	if e.Kind == Fire {
		early := sub.deadline - s.config.TimingAdvance - s.config.ClockError - e.At
		if early > 0 && !s.recorded[Publish] {
			return brokenBy(sub, "it fires %v too early", early)
		}
		return holds()
	}
	if i := s.incarnations[e.Incarnation]; i != nil && i.barred == s.era {
		return holds() // it has been given another deadline, and whether this one may come out is for S19
	}
	p := s.process(e.Node)
	set := p.jumped >= 0 && e.At-p.jumped <= s.config.StoreTimeout
	deadline := sub.deadline
	if i := s.incarnations[e.Incarnation]; i != nil && i.known {
		deadline = i.comes // what the store says of the message by now may be another incarnation's
	}
	if early := deadline - s.config.TimingAdvance - e.Wall; early > 0 && e.Topic == sub.key.topic && !set {
		return brokenBy(sub, "it is published %v too early", early)
	}
	return holds()
}

// ended reports whether a node may think, by the clock that it has, that a submission is not to be published any more.
func (s *state) ended(sub *submission, e *Event) bool {
	wall := e.Wall
	if wall == 0 {
		wall = e.At + s.config.ClockError
	}
	return sub.notAfter > 0 && (wall > sub.notAfter || s.process(e.Node).jumped >= 0)
}

// s26 is the invariant S26, not after. As in S8, the clock that a node has looked at may have been set since.
func s26(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil || sub.notAfter == 0 {
		return holds()
	}
	p := s.process(e.Node)
	looked := s.config.StoreTimeout
	if e.Topic != sub.key.topic {
		looked += s.config.PublishTimeout // the rest of its batch is published between the look and the copy
	}
	set := p.jumped >= 0 && e.At-p.jumped <= looked
	switch {
	case e.Kind == Fire:
		late := e.At - sub.notAfter - s.config.ClockError - s.config.PublishTimeout
		if late > 0 && !s.recorded[Publish] {
			return brokenBy(sub, "it fires %v after it was to be published at the latest", late)
		}
	case e.Kind == Copy:
		failed := e.Text == callbackFailed && s.mayGiveUp(sub)
		if sub.flaw == "" && e.Text != expired && !failed {
			return brokenBy(sub, "nothing is wrong with it, and its copy says %q", e.Text)
		}
	case set:
	case e.Topic == sub.key.topic && e.Wall > sub.notAfter:
		return brokenBy(sub, "it is published %v after it was to be at the latest", e.Wall-sub.notAfter)
	case isCallback(sub.key.topic): // its copy went through the store, and another node may have decided that
		early := s.faults == 0 && e.At+2*s.config.ClockError <= sub.notAfter
		if e.Topic != sub.key.topic && sub.flaw == "" && !s.mayGiveUp(sub) && early {
			return brokenBy(sub, "its copy is published %v before its time has passed", sub.notAfter-e.At)
		}
	case e.Topic != sub.key.topic && sub.flaw == "" && e.Wall <= sub.notAfter:
		return brokenBy(sub, "its copy is published %v before its time has passed", sub.notAfter-e.Wall)
	}
	return holds()
}

// The reasons in the copy of a message that was not to be published any more, and of a callback that was given up.
const (
	expired        = "expired"
	callbackFailed = "callback_failed"
)

// mayGiveUp reports whether a submission is a callback that is given up when it has failed for long enough. S27 looks
// when.
func (s *state) mayGiveUp(sub *submission) bool {
	return s.config.RetryFor > 0 && isCallback(sub.key.topic)
}

// s9 is the invariant S9, nothing past the store.
func s9(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil {
		return holds()
	}
	if e.Kind == Publish {
		if i := s.incarnations[e.Incarnation]; i == nil || i.submission != sub {
			return brokenBy(sub, "it is published, and was not stored as %v", e.Incarnation)
		}
		return holds()
	}
	key := sub.key
	if e.Topic != "" {
		key = e.row()
	}
	r := s.rows[key]
	switch {
	case key != sub.key || sub.flaw == Invalid: // a copy
	case r == nil:
		return brokenBy(sub, "it was found to be a duplicate, and nothing of its id is stored")
	case r.submission != sub && r.partition == sub.partition && sub.partition != "" &&
		sub.appended == 1 && r.appended == 1 && sub.taken == 0 && r.offset > sub.offset && r.there > 0:
		return brokenBy(sub, "it was found to be a duplicate of submission %d, which comes after it", r.number)
	}
	return holds()
}

// s10 is the invariant S10, offsets.
func s10(s *state, e *Event) finding {
	p := s.partitions[e.Partition]
	if e.Kind == KeepPlace {
		if p != nil && !p.dropped && !s.forgetful && p.told.epoch == e.Epoch && p.told.offset > e.Offset {
			return brokenBy(nil, "%s is taken in up to %d in the standby that takes over, and a node was told %d",
				e.Partition, e.Offset, p.told.offset)
		}
		return holds()
	}
	switch {
	case p == nil:
		if e.Offset == 0 {
			return holds()
		}
		return brokenBy(nil, "the offset %d of %s was committed, which is empty", e.Offset, e.Partition)
	case p.dropped:
		return holds()
	case e.Offset > p.furthest:
		return brokenBy(nil, "the offset %d of %s was committed, which ends at %d", e.Offset, e.Partition, p.furthest)
	case e.Offset < p.committed:
		return brokenBy(nil, "the offset of %s went back from %d to %d", e.Partition, p.committed, e.Offset)
	case s.recorded[Move] && e.Offset > max(p.highest, p.committed):
		return brokenBy(nil, "the offset %d of %s was committed, and its position was never above %d",
			e.Offset, e.Partition, p.highest)
	}
	for _, r := range p.between(max(p.committed, p.begin), e.Offset) {
		later := r.epoch > e.Epoch && e.Epoch != Unknowable // it has taken the place of what was committed
		if !s.finished(r.submission) && !r.gone && !later {
			return brokenBy(r.submission, "its offset was committed, and it is neither stored nor fired nor rejected")
		}
	}
	return holds()
}

// s11 is the invariant S11, one row.
func s11(s *state, e *Event) finding {
	if s.rows[e.row()] != nil {
		return brokenBy(s.submissions[e.Message], "there are two rows of its id")
	}
	return holds()
}

// s12 is the invariant S12, dead is dead.
func s12(s *state, e *Event) finding {
	switch p := s.process(e.Node); e.Kind {
	case Start:
		if s.ids[e.Owner] != nil || p.id != (UUID{}) {
			return brokenBy(nil, "the process %s starts as %v, which was there before", e.Node, e.Owner)
		}
	case Claim:
		if s.ids[e.Owner] == nil {
			return brokenBy(nil, "a claim on %s belongs to %v, which has never started", e.ID, e.Owner)
		}
	default:
		if p.dead {
			return brokenBy(s.submissions[e.Message], "the process %s has ended, and begins to %s", e.Node, e.Kind)
		}
	}
	return holds()
}

// s13 is the invariant S13, self-suspicion.
func s13(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub != nil && e.Topic == sub.key.topic && e.Age > s.config.PublishableAge && e.Incarnation != (UUID{}) {
		return brokenBy(sub, "it is published under a claim that is %v old", e.Age)
	}
	return holds()
}

// s14 is the invariant S14, acknowledged and deleted is gone.
func s14(s *state, e *Event) finding {
	if r := s.rowOf(e); r != nil {
		return brokenBy(r.submission, "it was published and deleted, and is still stored")
	}
	return holds()
}

// s15 is the invariant S15, bounded claims in order.
func s15(s *state, e *Event) finding {
	r := s.rowOf(e)
	switch {
	case e.Nth >= e.Limit:
		return brokenBy(nil, "%d messages of %s were claimed for a limit of %d", e.Nth+1, e.Topic, e.Limit)
	case r != nil && r.placed && e.Part != r.part:
		return brokenBy(r.submission, "it was claimed on part %q of its lane, and is parked on %q", e.Part, r.part)
	case r != nil && r.behind && min(r.due, r.deadline) <= e.Until: // it has come forward
	case r != nil && (r.due > e.Until || e.Nth > 0 && r.due < s.process(e.Node).due[e.Topic]):
		return brokenBy(r.submission, "it was not its turn to be claimed")
	}
	return holds()
}

// s16 is the invariant S16, sound configuration.
func s16(s *state, e *Event) finding {
	if e.Kind != Configure {
		calls := s.config.StoreTimeout + s.config.PublishTimeout
		if hold := e.Expires - e.Stamp; e.Expires != 0 && hold <= calls {
			return brokenBy(s.submissions[e.Message],
				"the claim on %s holds for %v, and a claim and a publish may take %v",
				e.ID, hold, calls)
		}
		return holds()
	}
	c := e.Config
	switch {
	case c.HoldTime == 0:
	case c.HoldTime <= c.StoreTimeout+c.PublishTimeout:
		return brokenBy(nil, "the hold time %v leaves no margin over a claim of %v and a publish of %v",
			c.HoldTime, c.StoreTimeout, c.PublishTimeout)
	case c.PublishableAge > c.HoldTime-c.PublishTimeout:
		return brokenBy(nil, "a claim is publishable for %v, longer than the hold time %v less the publish timeout %v",
			c.PublishableAge, c.HoldTime, c.PublishTimeout)
	}
	return holds()
}
