package model

// fire makes the steps of node/fire.go.
func (m *machine) fire(s *state, n uint8) {
	if free := m.freeSlot(s, n); free >= 0 && s.claimable() && s.consumers[n].apart == 0 {
		if m.rules.BlindClaim {
			t := *s
			t.slots[n][free] = slot{stage: slotSelected, src: s.store.row.src, inc: s.store.row.inc, by: s.store.row.by}
			m.add(t, action{kind: actSelect, node: n}, 0)
		} else {
			m.tryClaim(s, n, free)
		}
	}
	for i := range uint8(m.scope.Batches) { //nolint:gosec // 1 or 2
		m.fireSlot(s, n, i)
	}
}

// fireSlot takes a claimed message one step on.
func (m *machine) fireSlot(s *state, n, i uint8) {
	stage := s.slots[n][i].stage
	switch stage {
	case slotHeld:
		m.begin(s, n, i)
	case slotPublishing, slotDeleted:
		m.tryPublish(s, n, i)
	}
	if s.consumers[n].apart == 1 {
		return // what follows needs the store
	}
	switch stage {
	case slotSelected:
		m.blindClaim(s, n, i)
	case slotHeld, slotFailed:
		m.giveBack(s, n, i)
	case slotAcked:
		m.tryDelete(s, n, i)
	}
}

// freeSlot returns a slot that is free, or -1.
func (m *machine) freeSlot(s *state, n uint8) int {
	for i := range m.scope.Batches {
		if s.slots[n][i].stage == slotFree {
			return i
		}
	}
	return -1
}

// hold puts the row, as it is claimed, in a slot.
func (s *state) hold(n uint8, i int) {
	s.slots[n][i] = slot{
		stage: slotHeld, src: s.store.row.src, inc: s.store.row.inc, by: s.store.row.by, claim: s.store.row.claim,
	}
}

// tryClaim claims the row. A claim whose reply is lost is nobody's.
func (m *machine) tryClaim(s *state, n uint8, free int) {
	a := action{kind: actClaim, node: n}
	t := *s
	t.claim(n)
	if left := t; left.unknown(false) {
		a.outcome = outcomeReplyLost
		m.add(left, a, 0)
	}
	t.hold(n, free)
	a.outcome = outcomeReplied
	m.add(t, a, 0)
	if t := *s; t.unknown(true) {
		t.late = request{kind: lateClaim, node: n}
		a.outcome = outcomeLate
		m.add(t, a, 0)
	}
}

// blindClaim is the second half of a claim that does not look again.
func (m *machine) blindClaim(s *state, n, i uint8) {
	t := *s
	var broken Property
	if t.store.row.inc == none {
		t.slots[n][i] = slot{}
	} else {
		if t.store.row.claim != none {
			broken = S3
		}
		t.store.row.claim, t.store.row.owner = fresh, n
		t.hold(n, int(i))
	}
	m.add(t, action{kind: actClaim, node: n, slot: i}, broken)
}

// begin sends the publish of a claim that is young enough (deviation D3). What happens to it after that look is
// beyond the node's control.
func (m *machine) begin(s *state, n, i uint8) {
	var broken Property
	if s.slots[n][i].old == 1 {
		if !m.rules.PublishOld {
			return
		}
		broken = S13
	}
	t := *s
	l := &t.slots[n][i]
	if m.rules.DeleteFirst {
		broken |= m.delete(&t, deletion{inc: l.inc, by: l.by, claim: l.claim, node: n})
		l.stage, l.old = slotDeleted, 0
		m.add(t, action{kind: actDelete, node: n, slot: i}, broken)
		return
	}
	l.stage, l.old = slotPublishing, 0
	m.add(t, action{kind: actBegin, node: n, slot: i}, broken)
}

// tryPublish ends a publish: acknowledged, appended without anybody knowing, or neither yet.
func (m *machine) tryPublish(s *state, n, i uint8) {
	for _, end := range []outcome{outcomeReplied, outcomeReplyLost, outcomeLate} {
		t := *s
		l := &t.slots[n][i]
		var broken Property
		if end != outcomeReplied && !t.unknown(end == outcomeLate) {
			continue
		}
		if end != outcomeReplied {
			t.excuse(l.src)
		}
		if end == outcomeLate {
			t.late = request{kind: latePublish, src: l.src, node: n, former: l.former}
		} else {
			broken = t.publish(l.src, l.former)
		}
		switch {
		case l.stage == slotDeleted:
			*l = slot{}
		case end == outcomeReplied || m.rules.UnknownIsSuccess:
			l.stage = slotAcked
			if !m.rules.DeleteByClaim {
				l.claim = none // nobody asks for it any more
			}
		default:
			l.stage = slotFailed
		}
		l.former = 0
		m.add(t, action{kind: actPublish, node: n, slot: i, outcome: end}, broken)
	}
}

// giveBack releases a claim: of a message that was not sent, because it is not wanted now, or of one that was, and that
// may have come out. If the reply is lost, it is left at that.
func (m *machine) giveBack(s *state, n, i uint8) {
	a := action{kind: actGiveBack, node: n, slot: i}
	l := s.slots[n][i]
	r := request{kind: lateRelease, claim: l.claim, node: n}
	if l.stage == slotFailed {
		r.asked = 1
	}
	t := *s
	broken := m.release(&t, r)
	t.slots[n][i] = slot{}
	m.add(t, a, broken)
	if t := *s; t.unknown(true) {
		t.late = r
		t.slots[n][i] = slot{}
		a.outcome = outcomeLate
		m.add(t, a, 0)
	}
}

// release is the statement. A message that was sent counts as tried from then on.
func (m *machine) release(s *state, r request) Property {
	effect, broken := s.reset(r.claim, m.rules.ReleaseByID)
	switch {
	case !effect:
	case r.asked == 1 && !m.rules.UntrySent:
		s.store.row.tried = 1
	case m.rules.UntryAll:
		s.store.row.tried = 0
	}
	return broken
}

// tryDelete deletes what was acknowledged, and does so again until it gets a reply.
func (m *machine) tryDelete(s *state, n, i uint8) {
	a := action{kind: actDelete, node: n, slot: i}
	l := &s.slots[n][i]
	d := deletion{inc: l.inc, by: l.by, claim: l.claim, node: n}
	t := *s
	broken := m.delete(&t, d)
	if left := t; left.unknown(false) {
		a.outcome = outcomeReplyLost
		m.add(left, a, broken)
	}
	t.slots[n][i] = slot{}
	a.outcome = outcomeReplied
	m.add(t, a, broken)
	if t := *s; t.unknown(true) {
		t.late = request{kind: lateDelete, inc: d.inc, by: d.by, claim: d.claim, node: n}
		a.outcome = outcomeLate
		m.add(t, a, 0)
	}
}
