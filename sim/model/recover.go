package model

// recover makes the steps of node/recover.go: a detector reads a claim that is too old, and later resets it. Which node
// it is on does not matter to what can happen; it is the peer of the claim's owner.
func (m *machine) recover(s *state) {
	if s.detector.claim != none {
		m.resetStuck(s)
		return
	}
	if m.rules.NoRecovery || s.row.claim == none {
		return
	}
	t := *s
	if s.inUse() && t.suspicions != Unbounded {
		if t.suspicions == 0 {
			return
		}
		t.suspicions--
	}
	t.detector = detector{claim: t.row.claim, node: 1}
	if t.row.owner == 1 {
		t.detector.node = 0
	}
	t.age()
	m.add(t, action{kind: actSuspect, node: t.detector.node}, 0)
}

// inUse tells whether somebody alive is working on the claimed row, slow as he may be.
func (s *state) inUse() bool {
	if s.row.owner == dead {
		return false
	}
	for _, l := range s.slots[s.row.owner] {
		if l.stage != slotFree && l.inc == s.row.inc && (l.claim == s.row.claim || l.stage == slotAcked) {
			return true
		}
	}
	c := &s.consumers[s.row.owner]
	return c.asked == 1 && c.inc == s.row.inc
}

// age tells the holders of a claim that it is too old, as their own clocks do.
func (s *state) age() {
	for n := range s.slots {
		for i := range s.slots[n] {
			if l := &s.slots[n][i]; l.stage == slotHeld && l.claim == s.row.claim {
				l.old = 1
			}
		}
	}
	if s.row.owner != dead {
		if c := &s.consumers[s.row.owner]; c.inc == s.row.inc {
			c.asked = 0
		}
	}
}

// resetStuck resets the claim that was read.
func (m *machine) resetStuck(s *state) {
	a := action{kind: actReset, node: s.detector.node}
	t := *s
	effect, broken := t.reset(s.detector.claim, m.rules.ResetByID)
	if effect {
		t.excuse(t.row.src)
	}
	t.detector = detector{}
	m.add(t, a, broken)
	if t := *s; t.unknown(true) {
		t.late = request{kind: lateReset, claim: s.detector.claim, node: s.detector.node}
		t.detector = detector{}
		a.outcome = outcomeLate
		m.add(t, a, 0)
	}
}
