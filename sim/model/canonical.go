package model

// labels gives new labels to old ones, in the order in which it is asked for them.
type labels struct {
	of   [8]uint8
	next uint8
}

// keep gives a label to what is, or can still come, in the store: labels.find knows it then.
func (l *labels) keep(v *uint8) {
	if *v == none || *v == stale {
		return
	}
	if l.of[*v] == none {
		l.next++
		l.of[*v] = l.next
	}
	*v = l.of[*v]
}

// find relabels what is only compared with what is in the store.
func (l *labels) find(v *uint8) {
	if *v == none || *v == stale {
		return
	}
	if l.of[*v] == none {
		*v = stale
	} else {
		*v = l.of[*v]
	}
}

// canonical brings states together that differ in nothing that matters to what can happen: it renames incarnations and
// claims, sorts slots, and ends what can have no effect any more.
func (m *machine) canonical(s *state) {
	if !m.plain && s.late.kind == lateTake && m.skipsAll(s) {
		s.late = request{} // before its incarnation gets a label
	}
	m.rename(s)
	if !m.plain {
		m.simplify(s)
	}
	for n := range s.slots {
		if s.slots[n][0].order() < s.slots[n][1].order() {
			s.slots[n][0], s.slots[n][1] = s.slots[n][1], s.slots[n][0]
		}
	}
}

// rename gives labels. Rules that compare the numbers of incarnations keep those.
func (m *machine) rename(s *state) {
	var incs, claims labels
	numbered := m.rules.Sequence
	for _, r := range []*row{&s.store.row, &s.standby.row} {
		claims.keep(&r.claim)
		if !numbered {
			incs.keep(&r.inc)
		}
	}
	claims.find(&s.late.claim)
	claims.find(&s.detector.claim)
	if !numbered {
		if s.late.kind == lateTake {
			incs.keep(&s.late.inc)
		}
		incs.keep(&s.consumers[0].inc)
		incs.keep(&s.consumers[1].inc)
		if s.late.kind != lateTake {
			incs.find(&s.late.inc)
		}
	}
	for n := range s.slots {
		for i := range s.slots[n] {
			l := &s.slots[n][i]
			claims.find(&l.claim)
			if !numbered {
				incs.find(&l.inc)
			}
			if l.inc == stale {
				l.by = 0 // no row is of it
			}
		}
	}
	if s.late.inc == stale {
		s.late.by = 0
	}
}

// simplify ends calls that can have no effect any more, as if they had been made at once, and forgets what nothing
// depends on.
func (m *machine) simplify(s *state) {
	if !m.rules.OutcomesApart {
		s.answered = 0 // nobody asks
	}
	s.store.covered &^= s.fired
	s.standby.covered &^= s.fired
	if !m.asksOffsets() {
		// Commits are for the tools of Kafka, and nothing depends on them.
		s.committed, s.marked = 0, 0
		for n := range s.consumers {
			if c := &s.consumers[n]; c.phase == batchTaken {
				c.release()
			}
		}
	}
	if s.detector.claim == stale && !m.rules.ResetByID {
		s.detector = detector{}
	}
	switch {
	case s.late.kind == lateDelete && m.vain(s.late.inc),
		s.late.kind == lateReset && s.late.claim == stale && !m.rules.ResetByID,
		s.late.kind == lateRelease && s.late.claim == stale && !m.rules.ReleaseByID:
		s.late = request{}
	}
	for n := range s.slots {
		for i := range s.slots[n] {
			l := &s.slots[n][i]
			switch {
			case l.stage == slotAcked && m.vain(l.inc),
				l.stage == slotFailed && l.claim == stale && !m.rules.ReleaseByID,
				l.stage == slotHeld && l.old == 1 && l.claim == stale && !m.rules.ReleaseByID && !m.rules.PublishOld:
				*l = slot{}
			}
		}
	}
}

// asksOffsets reports whether anybody asks for committed offsets.
func (m *machine) asksOffsets() bool {
	r := &m.rules
	return r.NoPositions || r.StartCommitted || r.CreateCommitted || r.MarkCommitted || r.OffsetsOnly || m.scope.Adopt
}

// vain: a delete can find nothing, now or later.
func (m *machine) vain(inc uint8) bool {
	ours := !m.rules.DeleteByID && !m.rules.DeleteByOwner && !m.rules.DeleteByClaim && !m.rules.Sequence
	return ours && inc == stale
}

// skipsAll: the late take can do nothing, now or later: our rules let positions only rise, unless they are rewound
// or set back.
func (m *machine) skipsAll(s *state) bool {
	l := &s.late
	p := s.store.positions[s.log.topic(l.ver)]
	return m.rules == Rules{} && s.rewinds == 0 && s.failover == failoverGone && p.epoch != epochUnknown &&
		p.behind(l.to-1, s.log.epoch(s.log.at(l.ver, l.to-1)))
}

func (l slot) order() int {
	return int(l.stage)<<11 | int(l.src)<<9 | int(l.inc)<<6 | int(l.by)<<4 | int(l.claim)<<1 | int(l.old)
}
