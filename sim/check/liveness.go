package check

import "time"

// l1 is the invariant L1, recovery.
func l1(s *state, e *Event) finding {
	if s.healed < 0 || s.divided() {
		return holds()
	}
	late := func(r *row) time.Duration {
		return e.At - max(s.healed, r.due-s.config.TimingAdvance) - s.config.Recovery()
	}
	if e.Kind == Fire {
		i := s.incarnations[e.Incarnation]
		if i == nil {
			return holds()
		}
		if r := s.stored(i.submission); r != nil && r.orphan && !r.lasting && late(r) > 0 {
			return brokenBy(r.submission, "its node was dead, and it fires %v too late", late(r))
		}
		return holds()
	}
	for _, r := range s.left() {
		if r.orphan && !r.lasting && r.flaw == "" && late(r) > 0 {
			return brokenBy(r.submission, "its node was dead, and it has not fired, %v too late", late(r))
		}
	}
	return holds()
}

// divided tells whether somebody reaches the store and not the brokers.
func (s *state) divided() bool {
	for _, name := range s.processNames() {
		p := s.processes[name]
		if !p.dead && p.cutOff && p.cut < 0 {
			return true
		}
	}
	return false
}

// l2 is the invariant L2, drain. A message is put off when its topic is missing, each time for twice as long.
func l2(s *state, e *Event) finding {
	turn := 2*s.config.PollInterval + time.Second
	for _, r := range s.left() {
		putOff := !r.ready() && r.lasting && r.due > e.At-turn
		if r.flaw != Poison && !putOff && s.healed >= 0 && s.drained(r.submission, e.At) {
			return brokenBy(r.submission, "it is still stored %v after its deadline", e.At-r.deadline)
		}
	}
	return holds()
}

// drained tells whether everything about a submission must have been done by now.
func (s *state) drained(sub *submission, now time.Duration) bool {
	return now >= max(s.healed, sub.at, sub.deadline)+s.config.Drained()
}

// l3 is the invariant L3, consumed.
func l3(s *state, e *Event) finding {
	for _, sub := range s.inOrder() {
		switch {
		case s.healed < 0 || !s.drained(sub, e.At):
			return holds() // the history ends too early
		case sub.finished() || sub.flaw == Poison && sub.delivered > 0 || sub.flaw == Unacknowledged:
		case sub.delivered > 0:
			return brokenBy(sub, "it was consumed, and is neither stored nor fired")
		default:
			return brokenBy(sub, "it was never consumed")
		}
	}
	for _, name := range s.partitionNames() {
		if p := s.partitions[name]; p.reached < p.end() {
			return brokenBy(nil, "%s is committed up to %d, and ends at %d", name, p.reached, p.end())
		}
	}
	return holds()
}

// l4 is the invariant L4, no livelock. Where nobody has recorded what a record is of, one that appears while its
// submission is stored counts for that incarnation. It may have been published at once, by a node that has looked just
// before the insert: that happens once.
func l4(s *state, e *Event) finding {
	i, known := s.published(e)
	if i != nil && s.healed >= 0 && !e.Twice && i.after >= i.rows+i.before+int32(count(!known)) {
		return brokenBy(i.submission,
			"it fires %d times after the healing, after %d inserts and %d claims before", i.after+1, i.rows, i.before)
	}
	return holds()
}

// l5 is the invariant L5, punctual.
func l5(s *state, e *Event) finding {
	return s.late(e, s.config.Punctual(), s.rejected == 0)
}

// l6 is the invariant L6, poison delays nobody.
func l6(s *state, e *Event) finding {
	return s.late(e, s.config.Punctual()+s.config.PollInterval, s.rejected > 0)
}

// late judges the first record of a submission while nothing has gone wrong.
func (s *state) late(e *Event, bound time.Duration, applies bool) finding {
	sub := s.submissions[e.Message]
	if sub == nil || !applies || sub.fires > 0 || s.faults > 0 || s.healed >= 0 || sub.at < s.config.Settle {
		return holds()
	}
	due := sub.deadline
	if !s.config.Adaptive {
		due -= s.config.TimingAdvance
	}
	due = max(due, sub.at)
	if late := e.At - due; late > bound {
		return brokenBy(sub, "it fires %v late, more than %v, and nothing has gone wrong", late, bound)
	}
	return holds()
}

// l7 is the invariant L7, cut off and gone. Whatever happens to others is an occasion to look.
func l7(s *state, e *Event) finding {
	if s.cuts == 0 {
		return holds()
	}
	for _, name := range s.processNames() {
		if f := s.overstays(s.processes[name], e); f.detail != "" {
			return f
		}
	}
	return holds()
}

// overstays finds a member that has not reached the store for too long, up to now.
func (s *state) overstays(p *process, e *Event) finding {
	since := max(p.cut, p.polled, s.healed)
	if p.member && p.holding && !p.dead && !p.cutOff && p.cut >= 0 && e.At-since > s.config.Leaves() {
		return brokenBy(nil,
			"the process %s, with a batch and without the store for %v, is still in the group", p.name, e.At-since)
	}
	return holds()
}

// l8 is the invariant L8, orderly stop.
func l8(s *state, e *Event) finding {
	p := s.process(e.Node)
	if s.faults > s.terms || p.id == (UUID{}) {
		return holds()
	}
	for _, r := range s.left() {
		if r.owner == p.id {
			return brokenBy(r.submission, "the process %s has ended in order, and still has a claim on it", e.Node)
		}
	}
	return holds()
}
