package model

// recover makes the steps of node/recover.go: a detector reads a claim that is too old, and later resets it. Which node
// it is on does not matter to what can happen; it is the peer of the claim's owner.
func (m *machine) recover(s *state) {
	if s.detector.claim != none {
		m.resetStuck(s)
		return
	}
	if m.rules.NoRecovery || s.store.row.claim == none {
		return
	}
	t := *s
	if s.inUse() && t.suspicions != Unbounded {
		if t.suspicions == 0 {
			return
		}
		t.suspicions--
	}
	t.detector = detector{claim: t.store.row.claim, node: 1}
	if t.store.row.owner == 1 {
		t.detector.node = 0
	}
	if t.consumers[t.detector.node].apart == 1 {
		return
	}
	t.age()
	m.add(t, action{kind: actSuspect, node: t.detector.node}, 0)
}

// inUse reports whether somebody alive is working on the claimed row, slow as he may be.
func (s *state) inUse() bool {
	if s.store.row.owner == dead {
		return false
	}
	there := s.store.row
	for _, l := range s.slots[there.owner] {
		if l.stage != slotFree && there.is(l.inc, l.by) && (l.claim == there.claim || l.stage == slotAcked) {
			return true
		}
	}
	c := &s.consumers[there.owner]
	return c.asked == 1 && c.inc == there.inc
}

// age tells the holders of a claim that it is too old, as their own clocks do.
func (s *state) age() {
	for n := range s.slots {
		for i := range s.slots[n] {
			if l := &s.slots[n][i]; l.stage == slotHeld && l.claim == s.store.row.claim {
				l.old = 1
			}
		}
	}
	if s.store.row.owner != dead {
		if c := &s.consumers[s.store.row.owner]; c.inc == s.store.row.inc {
			c.asked = 0
		}
	}
}

// resetStuck resets the claim that was read.
func (m *machine) resetStuck(s *state) {
	if s.consumers[s.detector.node].apart == 1 {
		return
	}
	a := action{kind: actReset, node: s.detector.node}
	t := *s
	broken := m.resetOld(&t, s.detector.claim)
	t.detector = detector{}
	m.add(t, a, broken)
	if t := *s; t.unknown(true) {
		t.late = request{kind: lateReset, claim: s.detector.claim, node: s.detector.node}
		t.detector = detector{}
		a.outcome = outcomeLate
		m.add(t, a, 0)
	}
}

// resetOld is the statement of a detector. Nobody knows how far the owner of the claim has got: the message counts as
// tried.
func (m *machine) resetOld(s *state, claim uint8) Property {
	effect, broken := s.reset(claim, m.rules.ResetByID)
	if effect {
		s.excuse(s.store.row.src)
		if !m.rules.UntryReset {
			s.store.row.tried = 1
		}
	}
	return broken
}
