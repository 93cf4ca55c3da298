package check

import "slices"

// apply takes over what an event says. The invariants have looked at it before.
func (s *state) apply(e *Event) {
	switch e.Kind {
	case Configure:
		s.config = *e.Config
		for _, k := range e.Config.Recorded {
			s.recorded[k] = true
		}
	case Submit:
		s.submit(e)
	case Fire, Copy, Publish, Unknown:
		s.appeared(e)
	case Insert, Claim, Reset, Delete, Rollback, Keep, Duplicate, Present, Ready:
		s.changed(e)
	case Poll, Deliver, Commit, Rewind, Reject:
		s.consumed(e)
	case Start, Term, Stop, Crash, Jump, Cut, Mend, Join, Leave:
		s.lived(e)
	case Fault:
		s.faults++
		s.fault = e.At
	case Heal:
		s.heal(e)
	case DeleteDone, End: // they only say what must hold
	}
}

func (s *state) submit(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		sub = &submission{
			number: e.Message, key: e.row(), deadline: e.Deadline, payload: e.Payload, flaw: e.Flaw, at: e.At,
			partition: e.Partition, faults: s.faults,
		}
		s.submissions[e.Message] = sub
		if !s.recorded[Duplicate] {
			s.namesakes[sub.key] = append(s.namesakes[sub.key], sub)
		}
	}
	sub.appended++
	if sub.appended > 1 {
		sub.excused("submitted twice")
	}
	if e.Flaw == Invalid || e.Flaw == Poison {
		s.rejected++
	}
	if e.Partition != "" {
		p := s.partition(e.Partition, e.Offset)
		p.log = append(p.log, sub)
	}
}

// partition returns the partition of that name, which begins at the offset if it is new.
func (s *state) partition(name string, base int64) *partition {
	p := s.partitions[name]
	if p == nil {
		p = &partition{base: base, committed: base, reached: base}
		s.partitions[name] = p
	}
	return p
}

func (s *state) appeared(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		return
	}
	switch e.Kind {
	case Publish:
		if e.Direct && e.Topic == sub.key.topic {
			delete(s.process(e.Node).checked, sub.key)
		} else if e.Topic == sub.key.topic {
			sub.attempts++
		}
		return
	case Unknown:
		sub.excused("a publish of unknown outcome")
		return
	case Copy:
		sub.copies++
	default:
		if sub.fires == 0 {
			sub.first = e.At
		}
		sub.fires++
		if e.Key != 0 && e.Partition != "" {
			s.placed[placedKey{sub.key.topic, e.Key}] = e.Partition
		}
	}
	i, known := s.published(e)
	if i != nil && s.healed >= 0 && !e.Twice {
		i.after++
	}
	switch {
	case known:
		i.published++
	case !e.Direct:
		sub.loose++
	}
}

func (s *state) changed(e *Event) {
	r := s.rowOf(e)
	switch e.Kind {
	case Insert:
		s.insert(e)
	case Claim:
		if r != nil {
			s.claim(r, e)
		}
	case Reset:
		if r != nil {
			s.reset(r, e)
		}
	case Delete:
		if r != nil {
			delete(s.rows, r.key)
			r.gone = e.At
		}
	case Rollback:
		clear(s.rows)
		for _, sub := range s.inOrder() {
			sub.excused("the store was rolled back")
		}
	case Keep:
		if i := s.incarnations[e.Incarnation]; i != nil {
			s.rows[e.row()] = &row{
				incarnation: i, key: e.row(), due: i.deadline, owner: e.Owner, stamp: e.Stamp, since: e.At,
			}
		}
	case Duplicate:
		if sub := s.submissions[e.Message]; sub != nil {
			sub.covered = true
		}
	case Present:
		p := s.process(e.Node)
		if e.Absent {
			p.checked[e.row()] = true
			return
		}
		delete(p.checked, e.row())
		for _, sub := range p.batch[e.row()] {
			sub.covered = sub.covered || !e.Absent
		}
	default: // Ready
		if r != nil {
			s.process(e.Node).due = r.due
		}
	}
}

func (s *state) insert(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		return
	}
	i := s.incarnations[e.Incarnation]
	switch {
	case i != nil:
		sub.excused("inserted again, after it was deleted")
	default:
		i = &incarnation{submission: sub, id: e.Incarnation}
		s.incarnations[i.id] = i
		if sub.inserts > 0 && !s.recorded[Deliver] {
			sub.excused("stored again")
		}
	}
	sub.inserts++
	i.rows++
	r := &row{incarnation: i, key: e.row(), due: e.Deadline}
	s.rows[r.key] = r
	if e.Owner != (UUID{}) {
		s.claim(r, e)
	}
}

func (s *state) claim(r *row, e *Event) {
	r.owner, r.stamp, r.since = e.Owner, e.Stamp, e.At
	r.claims++
	if s.healed < 0 {
		r.before++
	}
}

func (s *state) reset(r *row, e *Event) {
	if s.own(e) {
		r.excused("given back by its owner")
	} else {
		r.excused("suspected")
	}
	r.owner, r.stamp = UUID{}, 0
	if e.Due != 0 {
		r.due = e.Due
		r.lasting = e.Due-e.At-s.config.ClockError > s.config.Retry
	}
}

// own tells whether a claim is reset by its owner.
func (s *state) own(e *Event) bool {
	return e.Node != "" && s.process(e.Node).id == e.Owner
}

func (s *state) consumed(e *Event) {
	switch e.Kind {
	case Poll:
		p := s.process(e.Node)
		p.holding = false
		p.batch, p.checked = map[rowKey][]*submission{}, map[rowKey]bool{}
	case Deliver:
		sub := s.submissions[e.Message]
		if sub == nil {
			return
		}
		sub.delivered++
		if sub.delivered > sub.appended {
			sub.excused("delivered again")
		}
		p := s.process(e.Node)
		p.polled, p.holding = e.At, true
		p.batch[sub.key] = append(p.batch[sub.key], sub)
	case Reject:
		if sub := s.submissions[e.Message]; sub != nil {
			sub.rejected = true
		}
	case Rewind:
		s.partition(e.Partition, e.Offset).committed = e.Offset
	default: // Commit
		p := s.partition(e.Partition, e.Offset)
		p.committed = e.Offset
		p.reached = max(p.reached, e.Offset)
		if done := p.committed - p.base; done >= 1000 {
			p.base, p.log = p.committed, slices.Clone(p.log[done:])
		}
	}
}

func (s *state) lived(e *Event) {
	if e.Kind == Jump && e.Node == "" {
		s.jumped = e.At
		return
	}
	p := s.process(e.Node)
	switch e.Kind {
	case Start:
		p.id = e.Owner
		s.ids[p.id] = p
	case Term:
		s.faults++
		s.terms++
		s.fault = e.At
	case Stop, Crash:
		p.dead, p.member = true, false
		s.cuts -= count(p.cut >= 0)
	case Jump:
		p.jumped = e.At
	case Cut:
		if e.Port == "store" && p.cut < 0 {
			p.cut = e.At
			s.cuts++
		}
		p.cutOff = p.cutOff || e.Port == "broker"
	case Mend:
		if e.Port == "store" {
			s.cuts -= count(p.cut >= 0)
			p.cut = -1
		} else {
			p.cutOff = false
		}
	case Join:
		p.member = true
	default: // Leave
		p.member, p.holding = false, false
	}
}

// heal notes which claims belong to nobody who lives. The age of a claim that was made before the store's clock was set
// back is anybody's guess.
func (s *state) heal(e *Event) {
	s.healed = e.At
	for _, r := range s.left() {
		if p := s.ids[r.owner]; r.ready() && r.since > s.jumped && (p == nil || p.dead) {
			r.orphan = true
		}
	}
}
