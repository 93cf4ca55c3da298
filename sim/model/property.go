package model

import "math/bits"

// Property is a set of properties: usually one, which a step has broken.
type Property uint32

// The properties. S1 to S20 and L2 to L9 are those of package check, as far as they can be told here. A lineage of the
// store ends when that loses a commit or is rewound.
const (
	// S1, no loss: every submission that was taken in came out, or has a row, or was ignored for the row of
	// another one, or was cancelled or replaced.
	S1 Property = 1 << iota

	// S2, justified delete: a delete removes a row only after its content came out.
	S2

	// S3, exclusive claim: a row is claimed only while it waits, and a claim is in one pair of hands.
	S3

	// S4, justified reset: a row becomes waiting again only if its claim is the one that was found too old, or
	// that its owner gives back.
	S4

	// S5, excused duplicates: what comes out twice was suspected, rolled back or rewound, or the subject of a
	// publish of unknown outcome. That it was delivered twice is no excuse.
	S5

	// S9: nothing is published past the store.
	S9

	// S13: no publish starts for a claim that is older than the hold time.
	S13

	// S14: once the delete of an acknowledged incarnation was executed, that incarnation is gone.
	S14

	// S17, taken once: in one lineage, a record takes effect at most once.
	S17

	// S18, no gap: what lies behind the position, and Kafka still has, was taken in.
	S18

	// S19, cancelled stays cancelled: content of which an outcome has said that it does not come out does not do so in
	// this lineage, before or after, except by a publish that was begun before the lineage.
	S19

	// S20, too late comes out: content of which an outcome has said that it comes out stays in the store until it
	// has, or until it is replaced.
	S20

	// S21, one outcome: an instruction that was taken in has got its outcome, or somebody has it in hand. That it has
	// no second one in the lineage is S17.
	S21

	// Undone: what a former lineage has cancelled comes out, although Kafka still has the cancel and the store is back
	// in a world in which it was not claimed yet.
	Undone

	// Loss: S1 or S18 is broken, and nobody has the submission in hand any more. It never comes out.
	Loss

	// L2, drain: from every state, a state is reachable without any further fault in which everything is
	// taken in and published and the store is empty.
	L2

	// L9, restored: the same after the store was set back or rewound. All that Kafka still has comes out.
	L9

	// U1 is not promised: a submission made after the id was seen to fire is not ignored for the row that fired.
	U1

	// U2: a submission made after the id was seen to fire is not ignored for a row that a second delivery has put
	// there since.
	U2
)

// Promised are the properties that our algorithm has.
const Promised = S1 | S2 | S3 | S4 | S5 | S9 | S13 | S14 | S17 | S18 | S19 | S20 | S21 | Undone | Loss | L2 | L9 | U2

// String names the properties of the set, in order.
func (p Property) String() string {
	names := []string{
		"S1", "S2", "S3", "S4", "S5", "S9", "S13", "S14", "S17", "S18", "S19", "S20", "S21", "undone", "loss",
		"L2", "L9", "U1", "U2",
	}
	text := ""
	for ; p != 0; p &= p - 1 {
		if text != "" {
			text += " "
		}
		text += names[bits.TrailingZeros32(uint32(p))]
	}
	return text
}

// lost tells which of S1, S18, S20, S21 and Loss a state breaks.
func (m *machine) lost(s *state) Property {
	var broken Property
	gone := m.skipped(s)
	if gone != 0 {
		broken |= S18
	}
	for src := range min(s.log.sent, records) {
		if m.rules.OutcomesApart && (s.store.taken&^s.answered)>>src&1 == 1 && !s.inHand(src) &&
			!schedules(m.scope.kind(src)) {
			broken |= S21
		}
		if s.safe(src) || !schedules(m.scope.kind(src)) {
			continue
		}
		if s.bound>>src&1 == 1 {
			broken |= S20
		}
		if s.store.taken>>src&1 == 1 && (s.store.covered|s.store.ended)>>src&1 == 0 {
			broken |= S1
			gone |= 1 << src
		}
		if gone>>src&1 == 1 && !s.inHand(src) {
			broken |= Loss
		}
	}
	return broken
}

// skipped returns the set of the records that Kafka still has, that lie behind the position, and that were not taken.
func (m *machine) skipped(s *state) uint8 {
	version := s.log.version()
	p := m.position(s, s.log.topic(version))
	set := uint8(0)
	for offset := range s.log.length(version) {
		if r := s.log.at(version, offset); p.behind(offset, s.log.epoch(r)) {
			set |= 1 << r
		}
	}
	return set &^ s.store.taken
}

// safe: it came out, or is in the store.
func (s *state) safe(src uint8) bool { return s.fired>>src&1 == 1 || s.store.row.of(src) }

// inHand: somebody has a submission in memory, or a request is on its way, from which it may still come out.
func (s *state) inHand(src uint8) bool {
	switch l := &s.late; {
	case l.kind == latePublish && l.src == src, l.kind == lateTake && s.among(src, l.ver, l.from, l.to):
		return true
	}
	for n := range s.consumers {
		if c := &s.consumers[n]; c.batch() && s.among(src, c.ver, c.next, c.last) {
			return true
		}
		for _, l := range s.slots[n] {
			if l.src != src {
				continue
			}
			switch l.stage {
			case slotHeld, slotPublishing, slotSelected, slotDeleted:
				return true
			}
		}
	}
	return false
}

// among reports whether a record is in a batch.
func (s *state) among(src, version, from, to uint8) bool {
	for offset := from; offset < to; offset++ {
		if s.log.at(version, offset) == src {
			return true
		}
	}
	return false
}

// drained: all that was sent is taken in, and nothing is left to do.
func (s *state) drained() bool {
	idle := s.log.visible()&^s.store.taken == 0 && s.store.row.inc == none && s.store.phase == phaseSound &&
		s.late.kind == lateNone && s.detector.claim == none
	for n := range s.consumers {
		idle = idle && s.consumers[n].last == 0 && s.slots[n][0].stage == slotFree
	}
	return idle
}

// later reports whether the store has been set back or rewound.
func (m *machine) later(s *state) bool {
	return s.rewinds < m.scope.Rewinds || m.scope.Failover && s.failover == failoverGone
}
