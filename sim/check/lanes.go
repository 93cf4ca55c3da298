package check

import (
	"strings"
	"time"
)

// l9 is the invariant L9, restored. What has become of a record that was taken in again is for L2.
func l9(s *state, e *Event) finding {
	if s.setBack < 0 && !s.rewound || s.healed < 0 {
		return holds()
	}
	for _, name := range s.partitionNames() {
		p := s.partitions[name]
		for _, r := range p.log {
			if !p.dropped && !r.taken && !r.gone && r.place.offset >= p.begin && s.drainedAt(r.at, e.At) &&
				!s.blockedPartition(p, e.At) {
				return brokenBy(r.submission,
					"the store was set back, or a position, and offset %d of %s was not taken in again",
					r.place.offset, name)
			}
		}
	}
	return holds()
}

// l10 is the invariant L10, alone.
func l10(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil || s.lane(sub.key.topic).hung {
		return holds()
	}
	bound := s.config.Turn()
	if s.rejected > 0 {
		bound += s.config.Look()
	}
	return s.late(e, bound, s.hangs > 0)
}

// l11 is the invariant L11, fair. It looks at how long a message has waited when it is claimed, or in the end.
func l11(s *state, e *Event) finding {
	if e.Kind == Claim {
		if r := s.rowOf(e); r != nil {
			return s.starved(r, e.At)
		}
		return holds()
	}
	for _, r := range s.left() {
		if f := s.starved(r, e.At); f.detail != "" {
			return f
		}
	}
	return holds()
}

// starved finds a message that could be claimed for too long and was not, although nothing has gone wrong, up to now.
// The messages of its own lane that were claimed meanwhile were before it.
func (s *state) starved(r *row, now time.Duration) finding {
	c := &s.config
	advance := c.TimingAdvance
	if c.Adaptive || isCallback(r.key.topic) {
		advance = 0 // it is measured, and may be as small; or there is none
	}
	since := max(r.waiting, r.due-advance-c.Lookahead)
	_, paused := s.paused[r.key.topic]
	w := s.window(r.key.topic)
	if w != nil && s.rewindowed {
		return holds() // the nodes do not agree when it is open
	}
	if w != nil { // it may be claimed from a lookahead before an opening on, and is not always claimed at its end
		from, open := w.from(since, s.ahead(r, since, now)+2*c.ClockError, c.Lookahead-c.ClockError)
		if !open {
			return holds()
		}
		since = from
	}
	if r.ready() || r.part != "" || now-since <= c.Fair() || s.catching || paused || s.lane(r.key.topic).whole ||
		s.unlocked(r.key) == locked {
		return holds()
	}
	if since <= s.wrong+s.forgiven() || !s.served(r.key.topic, since-s.forgiven()) {
		return holds()
	}
	if now-since > s.ahead(r, since, now)+s.behind(r.key.topic, r.due, since, now) {
		return brokenBy(r.submission, "nobody has claimed it for %v, after %d others of %s", now-since,
			len(s.lane(r.key.topic).takings)-r.ahead, r.key.topic)
	}
	return holds()
}

// ahead bounds the time in which a message that may be claimed is claimed, with those of its lane before it. On a
// callback lane that is full it waits besides until there is room for half as many as the node holds of it: a claim for
// each that comes out would be as many transactions.
func (s *state) ahead(r *row, since, now time.Duration) time.Duration {
	c := &s.config
	turns := (len(s.lane(r.key.topic).takings) - r.ahead) / c.Share()
	bound := c.Fair() + time.Duration(turns)*(c.Look()+3*c.StoreLatency+c.BrokerLatency)
	if s.hangs > 0 {
		bound += c.Turn()
	}
	if s.full(r.key.topic, now) || s.full(r.key.topic, since) {
		bound += c.turn()
	}
	return bound
}

// served reports whether some node is well. One whose wall clock was set is not, until the healing sets it right: it
// claims later by as much as the clock was set back. Nor is one that is stopped, or was lately, nor one that has failed
// to publish to the lane lately: it stands back from that lane.
func (s *state) served(lane string, lately time.Duration) bool {
	for _, name := range s.processNames() {
		p := s.processes[name]
		set := p.jumped >= 0 && s.healed < 0
		failed, known := p.failed[lane]
		standing := known && failed >= lately
		there := !p.dead && !p.stopping && p.away < lately
		if there && !p.cutOff && p.cut < 0 && !set && !standing && p.id != (UUID{}) {
			return true
		}
	}
	return false
}

// s25 is the invariant S25, paused. What was decided on before the pause has an older stamp.
func s25(s *state, e *Event) finding {
	if e.Kind == Decide {
		if _, paused := s.paused[""]; paused && e.Past {
			return brokenBy(nil, "%s of %s past Kafka is decided while the intake is paused", e.Action, e.ID)
		}
		return holds()
	}
	if e.Kind == Take {
		if _, paused := s.paused[""]; paused && !e.Skipped {
			return brokenBy(s.submissions[e.Message], "offset %d of %s is taken in while the intake is paused",
				e.Offset, e.Partition)
		}
		return holds()
	}
	p, paused := s.paused[e.Topic]
	if paused && e.Topic != "" && e.Owner != (UUID{}) && e.Stamp > p.stamp {
		return brokenBy(nil, "%s is claimed %v after %s was paused", e.ID, e.Stamp-p.stamp, e.Topic)
	}
	return holds()
}

// l12 is the invariant L12, still.
func l12(s *state, e *Event) finding {
	p, paused := s.paused[e.Topic]
	if !paused || e.Topic == "" || s.faults+s.hangs+s.lineages > 0 || s.setBack >= 0 {
		return holds()
	}
	at := e.At
	if i := s.incarnations[e.Incarnation]; i != nil && isCallback(e.Topic) {
		at = i.begun // the receiver may get a request long after the node has given it up
	}
	if after := at - p.since; after > s.config.Still() {
		return brokenBy(s.submissions[e.Message], "it comes out %v after %s was paused", after, e.Topic)
	}
	return holds()
}

// isCallback reports whether a lane is one of callbacks.
func isCallback(lane string) bool { return strings.HasPrefix(lane, "http:") }

// l13 is the invariant L13, patient. While nothing else goes wrong, no claim expires, and no clock is set.
func l13(s *state, e *Event) finding {
	i := s.incarnations[e.Incarnation]
	if i == nil || i.calls == 0 || !isCallback(e.Topic) || s.faults+s.lineages > 0 || s.setBack >= 0 || s.healed >= 0 {
		return holds()
	}
	if s.pauses > 0 && s.config.RetryFor > 0 {
		return holds() // its dead letter may wait for the intake, and is tried again as a new failure
	}
	least := 4 * time.Second / 5 << min(i.calls-1, 8)
	if waited := e.At - i.called; waited+2*s.config.ClockError < min(least, 4*time.Minute) {
		return brokenBy(i.submission, "it is tried again %v after failure %d, before %v", waited, i.calls, least)
	}
	return holds()
}

// isLetter reports whether a row is the dead letter of a callback that its receiver has refused: it is stored beside
// the message, and again when a node has died in between.
func (s *state) isLetter(sub *submission, e *Event) bool {
	return isCallback(sub.key.topic) && e.row() != sub.key &&
		(sub.flaw == Poison || sub.notAfter > 0 || s.config.RetryFor > 0 && sub.flaw != Invalid)
}

// givenUp reports whether a callback may be settled although it has not come out: its dead letter was stored, or there
// are no dead letters, and its receiver refuses it or the time for which it is tried is over.
func (s *state) givenUp(r *row, e *Event) bool {
	return isCallback(r.key.topic) &&
		(r.lettered || !s.config.DeadLetter && (r.flaw == Poison || s.exhausted(r, e)))
}

// exhausted reports whether a node may think, by the clock that it has, that the time for which a callback is tried is
// over.
func (s *state) exhausted(r *row, e *Event) bool {
	return s.config.RetryFor > 0 && isCallback(r.key.topic) &&
		(e.At+s.config.ClockError >= r.deadline+s.config.RetryFor || s.process(e.Node).jumped >= 0)
}

// s27 is the invariant S27, given up. Of a dead letter that is stored by a node that has lost its claim meanwhile,
// nobody can tell what it knew.
func s27(s *state, e *Event) finding {
	var r *row
	if sub := s.submissions[e.Message]; e.Kind == Insert && sub != nil && s.isLetter(sub, e) {
		r = s.stored(sub)
	}
	if e.Kind != Insert {
		r = s.rowOf(e)
	}
	if r == nil || !isCallback(r.key.topic) || r.flaw != "" || s.exhausted(r, e) || s.ended(r.submission, e) {
		return holds()
	}
	early := r.deadline + s.config.RetryFor - e.At
	switch e.Kind {
	case Insert:
		if r.owner == s.process(e.Node).id {
			return brokenBy(r.submission, "its dead letter is stored %v before the time is over for which it is tried",
				early)
		}
	default: // Delete, Recur
		missed := r.series != nil && s.missed(r, e)
		if s.config.RetryFor > 0 && !r.lettered && r.published+r.loose == 0 && !missed {
			return brokenBy(r.submission, "it is given up %v before the time is over for which it is tried", early)
		}
	}
	return holds()
}

// l14 is the invariant L14, let go. A dead letter that waits for the intake to be resumed has its message tried again.
func l14(s *state, e *Event) finding {
	i := s.incarnations[e.Incarnation]
	if i == nil || s.config.RetryFor == 0 || !isCallback(e.Topic) || i.flaw != "" || !i.known || i.failedAt == 0 ||
		s.faults+s.lineages+s.pauses > 0 || s.setBack >= 0 || s.healed >= 0 {
		return holds()
	}
	if over := i.failedAt - i.comes - s.config.RetryFor - s.config.ClockError; over > 0 {
		return brokenBy(i.submission, "it is tried again, and has failed %v after the time was over for which it is",
			over)
	}
	return holds()
}
