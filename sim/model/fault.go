package model

// late lets the request that is still on its way take effect, or get lost.
func (m *machine) late(s *state) {
	if s.late.kind == lateNone {
		return
	}
	t := *s
	t.late = request{}
	m.add(t, action{kind: actDrop}, 0)
	r := s.late
	var broken Property
	switch r.kind {
	case lateInsert:
		_, broken = m.insert(&t, insertion{src: r.src, inc: r.inc, ready: r.asked == 1, node: r.node})
	case lateClaim:
		t.claim(r.node)
	case latePublish:
		broken = t.publish(r.src)
	case lateDelete:
		broken = m.delete(&t, deletion{inc: r.inc, claim: r.claim, node: r.node})
	case lateReset:
		var effect bool
		effect, broken = t.reset(r.claim, m.rules.ResetByID)
		if effect {
			t.excuse(t.row.src)
		}
	case lateRelease:
		_, broken = t.reset(r.claim, m.rules.ReleaseByID)
	}
	m.add(t, action{kind: actLate}, broken)
}

// strike makes the faults that befall a whole process or server.
func (m *machine) strike(s *state) {
	if s.crashes > 0 {
		for n := range uint8(2) {
			for option := crashNothing; option <= crashReset; option++ {
				m.crash(s, n, option)
			}
		}
	}
	if s.rebalances > 0 {
		m.rebalance(s)
	}
	switch s.failover {
	case failoverLeft:
		t := *s
		t.failover, t.standby, t.behind = failoverLags, t.row, t.sequence
		m.add(t, action{kind: actLag}, 0)
	case failoverLags:
		m.failOver(s)
	}
}

// rebalance gives the partition to the other node: because the group has given its owner up for dead, or because that
// one cannot reach the store, drops its batch and leaves.
func (m *machine) rebalance(s *state) {
	t := *s
	t.rebalances--
	t.owner = 1 - t.owner
	t.position = t.committed
	left := t
	c := &t.consumers[s.owner]
	c.revoke()
	m.add(t, action{kind: actRebalance, node: s.owner}, 0)
	if c.phase == phaseStored {
		left.consumers[s.owner] = consumer{}
		m.add(left, action{kind: actRebalance, node: s.owner, option: rebalanceLeave}, 0)
	}
}

// revoke takes the partition away from a consumer, which keeps its batch in hand.
func (c *consumer) revoke() {
	if c.last != 0 {
		c.stale = 1
	}
}

// crash ends a process and starts another one in its place. The other joins the group and, where the partition was
// that node's, begins at the committed offset. A call that is on its way at that moment has an unknown outcome.
func (m *machine) crash(s *state, n, option uint8) {
	t := *s
	if option != crashNothing && (!t.unknown(true) || !m.leaveBehind(&t, n, option)) {
		return
	}
	t.crashes--
	t.consumers[n] = consumer{}
	t.slots[n] = [2]slot{}
	if t.detector.node == n {
		t.detector = detector{}
	}
	if t.owner == n {
		t.position = t.committed
	}
	for _, r := range []*row{&t.row, &t.standby} {
		if r.claim != none && r.owner == n {
			r.owner = dead
		}
	}
	if t.late.kind != lateNone && t.late.node == n {
		t.late.node = dead
	}
	m.add(t, action{kind: actCrash, node: n, option: option}, 0)
}

// leaveBehind leaves one call of a node that crashes on its way, if there is that call.
func (m *machine) leaveBehind(s *state, n, option uint8) bool {
	c := &s.consumers[n]
	working := c.last != 0 && c.at < c.last
	switch option {
	case crashInsertWaiting, crashInsertReady:
		ready := option == crashInsertReady
		if !working || c.phase == phaseAbsent || ready && !m.scope.Early {
			return false
		}
		s.late = request{kind: lateInsert, src: c.at, inc: c.inc, node: n}
		if c.inc == none {
			s.late.inc = fresh
		}
		if ready {
			s.late.asked = 1
		}
		s.excuse(c.at)
	case crashDirect:
		if !working || c.phase != phaseAbsent {
			return false
		}
		s.late = request{kind: latePublish, src: c.at, node: n}
		s.excuse(c.at)
	case crashSlot0, crashSlot1:
		return s.leaveSlot(n, s.slots[n][option-crashSlot0])
	case crashReset:
		if s.detector.claim == none || s.detector.node != n {
			return false
		}
		s.late = request{kind: lateReset, claim: s.detector.claim, node: n}
	}
	return true
}

func (s *state) leaveSlot(n uint8, l slot) bool {
	switch l.stage {
	case slotPublishing, slotDeleted:
		s.late = request{kind: latePublish, src: l.src, node: n}
		s.excuse(l.src)
	case slotAcked:
		s.late = request{kind: lateDelete, inc: l.inc, claim: l.claim, node: n}
	case slotFailed:
		s.late = request{kind: lateRelease, claim: l.claim, node: n}
	default:
		return false
	}
	return true
}

// failOver puts the standby in the place of the database: commits are lost. The offsets are rewound, which takes
// the partition from all consumers for a moment.
func (m *machine) failOver(s *state) {
	t := *s
	t.failover = failoverGone
	t.row, t.sequence = t.standby, t.behind
	t.standby, t.behind = row{}, 0
	t.excused = 3
	if !m.rules.NoRewind {
		t.committed, t.position = 0, 0
		t.covered, t.finished = 0, 0
		if !m.rules.UnfencedRewind {
			t.consumers[0].revoke()
			t.consumers[1].revoke()
		}
	}
	m.add(t, action{kind: actFailover}, 0)
}
