package model

// A lineage of the store ends when it loses a commit or is rewound. What was said before may then be undone: Kafka
// still has the records, and they are taken in again.

// failOver puts the standby in the place of the database: commits are lost, and with them the positions of before. The
// connections end with the server, and with them the calls that are on their way to it.
func (m *machine) failOver(s *state) {
	t := *s
	t.failover = failoverGone
	t.store, t.sequence = t.standby, t.behind
	t.standby, t.behind = store{}, 0
	if t.late.kind != latePublish {
		t.late = request{}
	}
	t.endLineage()
	if r := t.store.row; r.inc != none && !r.free() {
		t.kept &^= 1 << r.src // claimed, in the world that the store is back in
	}
	if !m.rules.NoPositions && !m.rules.OffsetsOnly {
		t.store.phase, t.store.mark = phaseSetBack, position{}
		for n := range t.consumers {
			t.consumers[n].apart = 1
		}
	}
	m.add(t, action{kind: actFailover}, 0)
}

// endLineage forgets what was promised, but not what was cancelled.
func (s *state) endLineage() {
	s.excused = 1<<records - 1
	s.kept = s.cancelled
	if s.log.fate != logWhole {
		s.kept = 0 // Kafka may have lost the cancel itself
	}
	s.cancelled, s.bound = 0, 0
}

// beginLineage is where the new one begins to make promises: nothing is taken in before, and so no outcome is given. A
// publish that is on its way at that moment can be called back by nobody, and is not held against an outcome.
func (s *state) beginLineage() {
	s.came = 0
	for n := range s.slots {
		for i := range s.slots[n] {
			if l := &s.slots[n][i]; l.stage == slotPublishing {
				l.former = 1
			}
		}
	}
	if s.late.kind == latePublish {
		s.late.former = 1
	}
}

// connect is what a node does first on a new connection: it looks at the timeline of the server. A new one means
// that the store may have been set back. The node lets go of what it holds, and the first one to see it marks the
// log end: nothing may be claimed before that is passed. What it has sent to Kafka can't be called back; it goes on
// with that, and with the batch in its hand, which is refused if it lies above the position.
func (m *machine) connect(s *state, n uint8) {
	t := *s
	t.consumers[n].apart = 0
	if t.store.phase == phaseSetBack {
		m.mark(&t)
	}
	for i := range t.slots[n] {
		if l := &t.slots[n][i]; l.stage == slotHeld || l.stage == slotFailed || l.stage == slotSelected {
			*l = slot{}
		}
	}
	m.add(t, action{kind: actConnect, node: n}, 0)
}

// mark stores what must be taken in again before anything is claimed: as far as Kafka has records now. The committed
// offset would not do, because a take whose reply was lost was never committed.
func (m *machine) mark(s *state) {
	version := s.log.version()
	end := s.log.length(version)
	if m.rules.MarkCommitted {
		end = min(end, s.committed)
	}
	s.store.mark = position{has: s.log.topic(version), offset: end, epoch: s.log.epochBefore(version, end)}
	s.store.phase = phaseHold
	if m.rules.NoHoldTime {
		s.store.phase = phaseCatching
		s.beginLineage()
		m.pass(s)
	}
}

// distrust finds out from the committed offset, and from that alone, that the store was set back.
func (m *machine) distrust(s *state, topic uint8) {
	if m.rules.OffsetsOnly && s.store.phase == phaseSound && s.committed > m.position(s, topic).offset {
		m.mark(s)
	}
}

// holdOver lets the hold time pass. Whatever was claimed before is older than that now, by everybody's clock.
func (m *machine) holdOver(s *state) {
	if s.store.phase != phaseHold {
		return
	}
	t := *s
	t.store.phase = phaseCatching
	for n := range t.slots {
		t.consumers[n].asked = 0
		for i := range t.slots[n] {
			if l := &t.slots[n][i]; l.stage == slotHeld {
				l.old = 1
			}
		}
	}
	t.beginLineage()
	m.pass(&t)
	m.add(t, action{kind: actHoldOver}, 0)
}

// pass ends the time of catching up if the position has got to the mark.
func (m *machine) pass(s *state) {
	if s.store.phase != phaseCatching {
		return
	}
	mark := s.store.mark
	p := *m.position(s, mark.has)
	mark.has = 0
	if m.rules.NoMark || p.has == 1 && !p.below(mark.offset, mark.epoch) || m.newer(p, mark) {
		s.store.phase, s.store.mark = phaseSound, position{}
	}
}

// newer reports whether a position is beyond a mark because a later leader has begun a new tail.
func (m *machine) newer(p, mark position) bool {
	return p.has == 1 && p.epoch != epochUnknown && mark.epoch != epochUnknown && p.epoch > mark.epoch
}

// rewind is what an operator does to have records taken in again. Nothing else lowers a position. It takes the epoch
// of the record before the target, and marks the log end.
func (m *machine) rewind(s *state) {
	version := s.log.version()
	topic := s.log.topic(version)
	p := *m.position(s, topic)
	if p.has == 0 || s.store.phase != phaseSound {
		return
	}
	for target := range min(p.offset, s.log.length(version)) {
		t := *s
		t.rewinds--
		to := position{has: 1, offset: target, epoch: s.log.epochBefore(version, target)}
		if m.rules.RewindKeepsEpoch {
			to.epoch = p.epoch
		}
		*m.position(&t, topic) = to
		// What is still to be taken again counts as not taken; and so does what Kafka has lost, because this is
		// another lineage.
		t.store.taken &= s.log.visible()
		for offset := target; offset < s.log.length(version); offset++ {
			t.store.taken &^= 1 << s.log.at(version, offset)
		}
		t.endLineage()
		m.mark(&t)
		m.add(t, action{kind: actRewind, option: target}, 0)
	}
}
