package check

import "time"

// l1 is the invariant L1, recovery.
func l1(s *state, e *Event) finding {
	if s.healed < 0 || s.divided() || s.catching {
		return holds()
	}
	late := func(r *row) time.Duration {
		return e.At - max(s.healed, s.caught, r.due-s.config.TimingAdvance, s.unlocked(r.key)) - s.recovery(r.key.topic)
	}
	if e.Kind == Fire {
		i := s.incarnations[e.Incarnation]
		if i == nil {
			return holds()
		}
		if r := s.stored(i.submission); r != nil && r.orphan && r.flaw == "" && late(r) > 0 {
			return brokenBy(r.submission, "its node was dead, and it fires %v too late", late(r))
		}
		return holds()
	}
	for _, r := range s.left() {
		if r.orphan && r.flaw == "" && late(r) > 0 {
			return brokenBy(r.submission, "its node was dead, and it has not fired, %v too late", late(r))
		}
	}
	return holds()
}

// divided reports whether somebody reaches the store and not the brokers.
func (s *state) divided() bool {
	for _, name := range s.processNames() {
		p := s.processes[name]
		if !p.dead && p.cutOff && p.cut < 0 {
			return true
		}
	}
	return false
}

// l2 is the invariant L2, drain.
func l2(s *state, e *Event) finding {
	for _, r := range s.left() {
		poison := r.flaw == Poison && !s.config.DeadLetter
		if !poison && s.healed >= 0 && s.drainedAt(max(r.at, r.deadline, s.unlocked(r.key)), e.At) {
			return brokenBy(r.submission, "it is still stored on %s %v after its deadline", r.key.topic,
				e.At-r.deadline)
		}
	}
	return holds()
}

// drained reports whether everything about a submission must have been done by now.
func (s *state) drained(sub *submission, now time.Duration) bool {
	return s.drainedAt(max(sub.at, sub.deadline, s.delayed(sub)), now)
}

// drainedAt reports whether everything that was to be done from that instant on must have been done by now.
func (s *state) drainedAt(due, now time.Duration) bool {
	bound := s.config.Drained()
	if s.setBack >= 0 || s.begun >= 0 {
		bound = s.config.Restored()
	}
	return now >= plus(max(s.healed, s.setBack, s.begun, due, s.heldUp()), bound)
}

// l3 is the invariant L3, consumed.
func l3(s *state, e *Event) finding {
	for _, sub := range s.inOrder() {
		switch {
		case s.healed < 0 || !s.drained(sub, e.At):
			if s.healed >= 0 && s.delayed(sub) != 0 {
				continue // the others do not wait for that lock
			}
			return holds() // the history ends too early
		case s.finished(sub) || sub.flaw == Poison && sub.delivered > 0 || sub.flaw == Unacknowledged || !sub.inKafka():
		case sub.delivered > 0:
			return brokenBy(sub, "it was consumed, and is neither stored nor fired")
		default:
			return brokenBy(sub, "it was never consumed")
		}
	}
	for _, name := range s.partitionNames() {
		switch p := s.partitions[name]; {
		case p.dropped, s.blockedPartition(p, e.At):
		case p.reached < p.last():
			return brokenBy(nil, "%s is committed up to %d, and ends at %d", name, p.reached, p.last())
		case p.kept && !p.guessed && p.position.offset < p.start:
			return brokenBy(nil, "%s is taken in up to %d, and retention took what comes before %d", name,
				p.position.offset, p.start)
		case s.recorded[Move] && s.setBack < 0 && p.position.offset < p.last():
			return brokenBy(nil, "%s is taken in up to %d, and ends at %d", name, p.position.offset, p.last())
		}
	}
	return holds()
}

// l4 is the invariant L4, no livelock. Where nobody has recorded what a record is of, one that appears while its
// submission is stored counts for that incarnation.
func l4(s *state, e *Event) finding {
	switch e.Kind {
	case Error:
		b := s.process(e.Node).errors[e.Port+" "+e.Text]
		if b != nil && e.At-b.since < time.Second && b.count >= s.config.failures(e.Text) {
			return brokenBy(nil, "%s repeats a call that fails, %s, %d times in %v", e.Node, e.Text, b.count+1,
				e.At-b.since)
		}
		return holds()
	case Fail, Unknown:
		i, _ := s.published(e)
		if i == nil || i.rejections+i.failed == 0 {
			return holds()
		}
		tries, rejected := i.failed, e.Kind == Fail && e.Text == Rejected
		if rejected {
			tries = i.rejections
		}
		if tries >= s.config.Tries(rejected, e.At-i.tried) {
			return brokenBy(i.submission, "it has failed to be published %d times in %v", tries+1, e.At-i.tried)
		}
		return holds()
	default:
	}
	i, _ := s.published(e)
	if i != nil && i.appended > 1 && i.after < i.inserts+i.before {
		return holds() // it was submitted twice, and may have come out under a row of the other record
	}
	if i != nil && s.healed >= 0 && !e.Twice && i.after >= i.rows+i.before {
		return brokenBy(i.submission,
			"it fires %d times after the healing, after %d inserts and %d claims before", i.after+1, i.rows, i.before)
	}
	return holds()
}

// l5 is the invariant L5, punctual. A claim that expires although its owner was well all the time was forgotten.
func l5(s *state, e *Event) finding {
	if e.Kind == Fire {
		return s.late(e, s.config.Punctual(), s.rejected == 0 && s.hangs == 0)
	}
	r := s.rowOf(e)
	if r == nil || e.Node == "" || s.own(e) || s.unlocked(r.key) > 0 {
		return holds()
	}
	if s.wrong+s.recovery("") >= r.since || r.since <= s.jumped {
		return holds()
	}
	if p := s.ids[e.Owner]; p != nil && !p.dead && !p.stopping && !p.cutOff && p.cut < 0 {
		return brokenBy(r.submission, "the claim of %s on it expires, and nothing has gone wrong", p.name)
	}
	return holds()
}

// l6 is the invariant L6, poison delays nobody.
func l6(s *state, e *Event) finding {
	return s.late(e, s.config.Punctual()+s.config.Look(), s.rejected > 0 && s.hangs == 0)
}

// late judges the first record of a submission while nothing has gone wrong, on a lane that is always open. The others
// are judged by L16.
func (s *state) late(e *Event, bound time.Duration, applies bool) finding {
	sub := s.submissions[e.Message]
	return s.overdue(e, bound, applies && sub != nil && s.window(sub.key.topic) == nil)
}

// overdue judges the same on any lane, from when the lane is open for long enough.
func (s *state) overdue(e *Event, bound time.Duration, applies bool) finding {
	sub := s.submissions[e.Message]
	if sub == nil || !applies || sub.fires > 0 || s.delayed(sub) > 0 {
		return holds()
	}
	if s.faults+s.pauses > 0 || s.lineages > 0 || s.healed >= 0 ||
		sub.at < s.config.Settle {
		return holds()
	}
	at := e.At
	if isCallback(sub.key.topic) {
		i := s.incarnations[e.Incarnation]
		if sub.attempts > 1 || i == nil {
			return holds() // its own receiver has not done at first what was asked
		}
		if i.lined(s) {
			return holds() // it waits for others, see L15
		}
		at = i.begun // when it does that is its own business
	}
	due := sub.deadline
	if !s.config.Adaptive && !isCallback(sub.key.topic) {
		due -= s.config.TimingAdvance
	}
	due = max(due, sub.at)
	if s.config.pace(sub.key.topic) > 0 && !s.recorded[Publish] {
		return holds() // nobody knows who went before it
	}
	bound += s.behind(sub.key.topic, sub.deadline, due, at)
	if w := s.window(sub.key.topic); w != nil {
		opens, open := w.from(due, bound, 0)
		if !open || s.rewindowed {
			return holds() // it is never open for so long, or the nodes do not agree when it is
		}
		if opens > due {
			bound -= s.waited(sub, opens)
		}
		due = opens
	}
	late := at - due
	if late > bound {
		late -= s.occupied(sub, s.incarnations[e.Incarnation], due)
	}
	if late > bound {
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
	since := max(p.cut, p.joined, s.healed)
	if p.member && !p.dead && !p.cutOff && p.cut >= 0 && e.At-since > s.config.Leaves() {
		return brokenBy(nil, "the process %s, without the store for %v, is still in the group", p.name, e.At-since)
	}
	return holds()
}

// l8 is the invariant L8, orderly stop. What was claimed in an earlier lineage of the store was forgotten.
func l8(s *state, e *Event) finding {
	p := s.process(e.Node)
	if s.faults > s.terms || p.id == (UUID{}) {
		return holds()
	}
	for _, r := range s.left() {
		if r.owner == p.id && r.since > s.begun && s.unlocked(r.key) == 0 {
			return brokenBy(r.submission, "the process %s has ended cleanly, and still has a claim on it", e.Node)
		}
	}
	return holds()
}
