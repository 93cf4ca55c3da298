package model

import "math/bits"

// Property is a set of properties: usually one, which a step has broken.
type Property uint16

// The properties. S1 to S14 are those of package check, as far as they can be told here.
const (
	// S1, no loss: every submission below the committed offset was published, or has a row, or was ignored for a
	// row of the other submission, of which the same is true.
	S1 Property = 1 << iota

	// S2, justified delete: a delete removes the row of a submission only after that was published.
	S2

	// S3, exclusive claim: a row is claimed only while it waits, and a claim is in one pair of hands.
	S3

	// S4, justified reset: a row becomes waiting again only if its claim is the one that was found too old, or
	// that its owner gives back.
	S4

	// S5, excused duplicates: what is published twice was suspected, delivered twice, rolled back, or the subject of
	// an insert or publish of unknown outcome.
	S5

	// S9: nothing is published past the store while the store has a row of its id.
	S9

	// S10: the committed offset never passes a record that is not dealt with, and never decreases.
	S10

	// S13: no publish starts for a claim that is older than the hold time.
	S13

	// S14: once the delete of an acknowledged incarnation was executed, that incarnation is gone.
	S14

	// Loss: S1 is broken, and nobody has the submission in hand any more. It is never published.
	Loss

	// L2, drain: from every state, a state is reachable without any further fault in which everything is
	// consumed and published and the store is empty.
	L2

	// U1 is not promised: a submission made after the id was seen to fire is not ignored for the row that fired.
	U1

	// U2 is not promised: a submission made after the id was seen to fire is not ignored for a row that a second
	// delivery has put there since.
	U2
)

// Promised are the properties that our algorithm has.
const Promised = S1 | S2 | S3 | S4 | S5 | S9 | S10 | S13 | S14 | Loss | L2

// String names the properties of the set, in order.
func (p Property) String() string {
	names := []string{"S1", "S2", "S3", "S4", "S5", "S9", "S10", "S13", "S14", "loss", "L2", "U1", "U2"}
	text := ""
	for ; p != 0; p &= p - 1 {
		if text != "" {
			text += " "
		}
		text += names[bits.TrailingZeros16(uint16(p))]
	}
	return text
}

// lost tells which of S1 and Loss a state breaks.
func (s *state) lost() Property {
	var broken Property
	for src := range s.committed {
		other := 1 - src
		if s.safe(src) || s.covered>>src&1 == 1 && s.safe(other) {
			continue
		}
		broken |= S1
		if !s.inHand(src) {
			broken |= Loss
		}
	}
	return broken
}

// safe: published, or in the store.
func (s *state) safe(src uint8) bool { return s.fired>>src&1 == 1 || s.row.of(src) }

// inHand: somebody has a submission in memory, or a request is on its way, from which it may still fire.
func (s *state) inHand(src uint8) bool {
	if (s.late.kind == lateInsert || s.late.kind == latePublish) && s.late.src == src {
		return true
	}
	for n := range s.consumers {
		if c := &s.consumers[n]; c.at <= src && src < c.last {
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

// drained: all that was submitted is consumed, and nothing is left to do.
func (s *state) drained() bool {
	idle := s.committed == s.submitted && s.row.inc == none && s.late.kind == lateNone &&
		s.detector.claim == none
	for n := range s.consumers {
		idle = idle && s.consumers[n].last == 0 && s.slots[n][0].stage == slotFree
	}
	return idle
}
