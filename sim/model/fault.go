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
	case lateTake:
		if s.store.phase == phaseHold {
			return
		}
		broken = m.take(&t, taking{
			ver: r.ver, from: r.from, to: r.to, epoch: r.epoch, inc: r.inc, node: r.node,
			ready: r.asked == 1 && s.store.phase == phaseSound,
		}).broken
	case lateClaim:
		t.claim(r.node)
	case latePublish:
		broken = t.publish(r.src, r.former)
	case lateDelete:
		broken = m.delete(&t, deletion{inc: r.inc, by: r.by, claim: r.claim, node: r.node})
	case lateReset:
		broken = m.resetOld(&t, r.claim)
	case lateRelease:
		broken = m.release(&t, r)
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
		t.failover, t.standby, t.behind = failoverLags, t.store, t.sequence
		m.add(t, action{kind: actLag}, 0)
	case failoverLags:
		m.failOver(s)
	}
	if s.rewinds > 0 {
		m.rewind(s)
	}
	if s.log.fate == logWhole && s.log.sent > 0 {
		m.strikeLog(s)
	}
}

// rebalance gives the partition to the other node: because the group has given its owner up for dead, or because that
// one cannot reach the store, drops its batch and leaves. In the first case the former owner knows nothing of it: it
// goes on to poll and to take.
func (m *machine) rebalance(s *state) {
	t := *s
	t.rebalances--
	t.owner = 1 - t.owner
	t.consumers[t.owner].reset()
	left := t
	m.add(t, action{kind: actRebalance, node: s.owner}, 0)
	if c := &left.consumers[s.owner]; c.phase == batchTried {
		c.reset()
		m.add(left, action{kind: actRebalance, node: s.owner, option: rebalanceLeave}, 0)
	}
}

// strikeLog lets Kafka lose the tail of the log, or somebody create the topic again.
func (m *machine) strikeLog(s *state) {
	if m.scope.Truncate {
		for keep := range s.log.sent {
			t := *s
			t.log.fate, t.log.cut, t.log.keep = logTruncated, s.log.sent, keep
			t.kept = 0 // the cancels may be lost
			m.add(t, action{kind: actTruncate, option: keep}, 0)
		}
	}
	if m.scope.Recreate {
		t := *s
		t.log.fate, t.log.cut = logRecreated, s.log.sent
		t.committed, t.marked, t.kept = 0, 0, 0
		m.add(t, action{kind: actRecreate}, 0)
	}
}

// crash ends a process and starts another one in its place, which joins the group like the other node. A call that
// is on its way at that moment has an unknown outcome.
func (m *machine) crash(s *state, n, option uint8) {
	t := *s
	if option != crashNothing && (!t.unknown(true) || !m.leaveBehind(&t, n, option)) {
		return
	}
	t.crashes--
	t.consumers[n].reset()
	t.slots[n] = [2]slot{}
	if t.detector.node == n {
		t.detector = detector{}
	}
	for _, r := range []*row{&t.store.row, &t.standby.row} {
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
	switch option {
	case crashTakeWaiting, crashTakeReady:
		ready := option == crashTakeReady
		switch {
		case !c.batch() || c.phase == batchAbsent || c.phase == batchHalf || c.apart == 1,
			ready && !m.scope.Early, s.store.phase == phaseHold:
			return false
		}
		s.late = c.taking(n, ready).request()
	case crashDirect:
		if c.phase != batchAbsent {
			return false
		}
		s.late = request{kind: latePublish, src: s.log.at(c.ver, c.next), node: n}
		s.excuse(s.late.src)
	case crashSlot0, crashSlot1:
		return s.leaveSlot(n, s.slots[n][option-crashSlot0])
	case crashReset:
		if s.detector.claim == none || s.detector.node != n || c.apart == 1 {
			return false
		}
		s.late = request{kind: lateReset, claim: s.detector.claim, node: n}
	}
	return true
}

func (s *state) leaveSlot(n uint8, l slot) bool {
	switch {
	case l.stage == slotPublishing || l.stage == slotDeleted:
		s.late = request{kind: latePublish, src: l.src, node: n, former: l.former}
		s.excuse(l.src)
	case s.consumers[n].apart == 1:
		return false
	case l.stage == slotAcked:
		s.late = request{kind: lateDelete, inc: l.inc, by: l.by, claim: l.claim, node: n}
	case l.stage == slotFailed:
		s.late = request{kind: lateRelease, claim: l.claim, node: n, asked: 1}
	default:
		return false
	}
	return true
}
