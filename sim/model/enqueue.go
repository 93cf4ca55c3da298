package model

// consume makes the steps of node/enqueue.go.
func (m *machine) consume(s *state, n uint8) {
	c := &s.consumers[n]
	switch {
	case c.last == 0:
		m.poll(s, n)
	case c.at == c.last:
		m.commit(s, n)
	case c.phase == phaseAbsent:
		m.direct(s, n)
	default:
		m.tryInsert(s, n, false)
		if m.scope.Early {
			m.tryInsert(s, n, true)
		}
		if m.scope.Lapsed && c.phase == phaseDecoded {
			m.look(s, n)
		}
	}
}

// poll takes one record or two.
func (m *machine) poll(s *state, n uint8) {
	if n != s.owner {
		return
	}
	for last := s.position + 1; last <= s.submitted; last++ {
		t := *s
		t.consumers[n] = consumer{at: s.position, last: last}
		t.position = last
		for src := s.position; src < last; src++ {
			t.excused |= t.polled & (1 << src) // delivered again
			t.polled |= 1 << src
		}
		var broken Property
		if m.rules.CommitFirst {
			broken = t.commitTo(last)
		}
		m.add(t, action{kind: actPoll, node: n, option: last - s.position}, broken)
	}
}

// tryInsert inserts the record in work, for the first time or again with the same incarnation.
func (m *machine) tryInsert(s *state, n uint8, ready bool) {
	c := &s.consumers[n]
	if ready && (m.freeSlot(s, n) < 0 || c.phase == phaseStored && c.asked == 0) {
		return
	}
	i := insertion{src: c.at, inc: c.inc, ready: ready, node: n}
	if i.inc == none {
		i.inc = fresh
	}
	a := action{kind: actInsert, node: n}
	if ready {
		a.option = insertReady
	}
	t := *s
	before := t.row
	inserted, broken := m.insert(&t, i)
	made := inserted && t.row != before
	if made && ready {
		t.hold(n, m.freeSlot(&t, n))
	}
	t.done(n)
	m.add(t, a, broken)
	if inserted && !made {
		m.takeUp(s, n)
	}
	for _, a.outcome = range []outcome{outcomeReplyLost, outcomeLate} {
		t := *s
		if !t.unknown(a.outcome == outcomeLate) {
			continue
		}
		var broken Property
		if a.outcome == outcomeLate {
			t.late = request{kind: lateInsert, src: i.src, inc: i.inc, node: n}
			if ready {
				t.late.asked = 1
			}
		} else {
			_, broken = m.insert(&t, i)
		}
		m.repeatInsert(&t, n, i)
		m.add(t, a, broken)
	}
}

// repeatInsert leaves a consumer with an insert of unknown outcome.
func (m *machine) repeatInsert(s *state, n uint8, i insertion) {
	c := &s.consumers[n]
	if c.phase != phaseStored {
		c.phase = phaseStored
		c.asked = 0
		if i.ready {
			c.asked = 1
		}
	}
	c.inc = i.inc
	if m.rules.Sequence {
		c.inc = none // the database has not told it
	}
	s.excuse(i.src)
}

// takeUp is a repeated insert that finds its row there and claimed by this node, and puts the claim on the schedule.
func (m *machine) takeUp(s *state, n uint8) {
	c := &s.consumers[n]
	free := m.freeSlot(s, n)
	if free < 0 || s.row.claim == none || s.row.owner != n || c.asked == 0 && !m.rules.TakeUpAny {
		return
	}
	t := *s
	var broken Property
	for _, l := range t.slots[n] {
		if l.stage != slotFree && l.claim == t.row.claim {
			broken = S3
		}
	}
	t.hold(n, free)
	t.done(n)
	m.add(t, action{kind: actInsert, node: n, option: insertTakeUp}, broken)
}

// done ends the work on a record.
func (s *state) done(n uint8) {
	c := &s.consumers[n]
	s.finished |= 1 << c.at
	c.next()
}

func (c *consumer) next() {
	c.at++
	c.phase, c.asked, c.inc = phaseDecoded, 0, none
}

// look asks whether the id of a lapsed message is in the store.
func (m *machine) look(s *state, n uint8) {
	t := *s
	var broken Property
	switch {
	case s.row.inc == none:
		t.consumers[n].phase = phaseAbsent
	case m.rules.NoLook:
		broken = S9
		t.consumers[n].phase = phaseAbsent
	default:
		broken = t.ignore(s.consumers[n].at)
		t.done(n)
	}
	m.add(t, action{kind: actLook, node: n}, broken)
}

// direct publishes what has lapsed and was not in the store.
func (m *machine) direct(s *state, n uint8) {
	src := s.consumers[n].at
	a := action{kind: actDirect, node: n}
	t := *s
	broken := t.publish(src)
	t.done(n)
	m.add(t, a, broken)
	for _, a.outcome = range []outcome{outcomeReplyLost, outcomeLate} {
		t := *s
		if !t.unknown(a.outcome == outcomeLate) {
			continue
		}
		var broken Property
		if a.outcome == outcomeLate {
			t.late = request{kind: latePublish, src: src, node: n}
		} else {
			broken = t.publish(src)
		}
		t.excuse(src)
		t.consumers[n].phase = phaseUnpublished
		if m.rules.SkipUnpublished {
			t.consumers[n].next()
		}
		m.add(t, a, broken)
	}
}

// commit stores the offset. For a partition that was taken away since the poll it does nothing.
func (m *machine) commit(s *state, n uint8) {
	c := &s.consumers[n]
	t := *s
	var broken Property
	if c.stale == 0 {
		broken = t.commitTo(c.last)
	}
	if left := t; left.unknown(false) {
		m.add(left, action{kind: actCommit, node: n, outcome: outcomeReplyLost}, broken)
	}
	t.consumers[n] = consumer{}
	m.add(t, action{kind: actCommit, node: n}, broken)
}

func (s *state) commitTo(offset uint8) Property {
	var broken Property
	if offset < s.committed || s.finished&(1<<offset-1) != 1<<offset-1 {
		broken = S10
	}
	s.committed = offset
	return broken
}
