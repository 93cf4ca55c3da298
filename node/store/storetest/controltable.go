package storetest

import (
	"fmt"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// A standing is what a message may be when an instruction comes for it, and what then becomes of each instruction.
type standing struct {
	name string

	// make brings the message there. It returns its row; nil if there is none.
	make func(s *subject, m node.Message) *memory.Row

	// outcomes are those of schedule, replace, reschedule, cancel and fire.
	outcomes [5]node.Outcome
}

func standings() []standing {
	free := [5]node.Outcome{node.Duplicate, node.Replaced, node.Rescheduled, node.Cancelled, node.FiredNow}
	late := [5]node.Outcome{node.Duplicate, node.Replaced, node.TooLate, node.TooLate, node.TooLate}
	none := [5]node.Outcome{node.Scheduled, node.Scheduled, node.NotFound, node.NotFound, node.NotFound}
	last := [5]node.Outcome{node.Duplicate, node.Replaced, node.TooLate, node.Stopped, node.TooLate}
	return []standing{
		{"a message that is not there", func(*subject, node.Message) *memory.Row { return nil }, none},
		{"a message that has come out", standDeleted, none},
		{"a message that waits", standWaiting, free},
		{"a message that is claimed", standClaimed, late},
		{"a message that waits after an attempt", standAttempted, late},
		{"a message that waits after an unsent release", standUnsent, free},
		{"a message that was fired", standFired, late},
		{"a message that is claimed after it was fired", standFiredClaimed, late},
		{"a message that too late has bound", standBound, late},
		{"a message whose former content may appear", standFormer, free},
		{"a message that is claimed and whose former content may appear", standFormerClaimed, late},
		{"an occurrence that waits", inSeries(standWaiting), free},
		{"an occurrence that was fired", inSeries(standFired), last},
		{"an occurrence that is claimed", inSeries(standClaimed), last},
		{"an occurrence that waits after an attempt", inSeries(standAttempted), last},
		{"an occurrence that is the last", standStopped, last},
	}
}

// inSeries makes the message an occurrence of a series.
func inSeries(stand func(*subject, node.Message) *memory.Row) func(*subject, node.Message) *memory.Row {
	return func(s *subject, m node.Message) *memory.Row {
		m.Recurrence = node.Recurrence{Series: "every 1h", Sequence: 41, At: m.Deadline.Add(-time.Second)}
		return stand(s, m)
	}
}

// standStopped: the series was cancelled while the occurrence was claimed, which was given back then.
func standStopped(s *subject, m node.Message) *memory.Row {
	row := *inSeries(standClaimed)(s, m)
	cancel := instruction(node.Cancel, s.message(m.ID), nil)
	s.check("cancel", s.instruct(cancel), []node.ItemResult{{Outcome: node.Stopped}})
	s.release(node.Release{Claim: s.expired()[0], Unsent: true})
	return &memory.Row{Message: row.Message, Due: row.Due, Bound: true, Stopped: true}
}

func standDeleted(s *subject, m node.Message) *memory.Row {
	s.insert(m)
	s.check("delete", s.delete(m.Ref()), []bool{true})
	return nil
}

func standWaiting(s *subject, m node.Message) *memory.Row {
	s.insert(m)
	return &memory.Row{Message: m, Due: m.Deadline}
}

// withClaim sets the claim of a row.
func withClaim(row memory.Row, claim node.Claim) *memory.Row {
	row.ReadiedAt, row.ReadiedBy, row.Expires = claim.ReadiedAt, claim.ReadiedBy, claim.Expires
	row.Attempts++
	return &row
}

func standClaimed(s *subject, m node.Message) *memory.Row {
	return withClaim(memory.Row{Message: m, Due: m.Deadline}, s.insertClaimed(alice(), m)[0])
}

func standAttempted(s *subject, m node.Message) *memory.Row {
	s.insert(m)
	later := noon().Add(time.Minute)
	s.release(node.Release{Claim: s.claim(alice(), latest())[0].Claim, Due: later})
	return &memory.Row{Message: m, Due: later, Attempts: 1}
}

func standUnsent(s *subject, m node.Message) *memory.Row {
	s.insert(m)
	later := noon().Add(time.Minute)
	s.release(node.Release{Claim: s.claim(alice(), latest())[0].Claim, Due: later, Unsent: true})
	return &memory.Row{Message: m, Due: later}
}

func standFired(s *subject, m node.Message) *memory.Row {
	s.insert(m)
	fire := instruction(node.FireNow, s.dueAt(m.ID, noon().Add(-time.Minute)), nil)
	s.check("fire", s.instruct(fire), []node.ItemResult{{Outcome: node.FiredNow}})
	m.Incarnation, m.Deadline = movedBy(fire.Message, m), fire.Deadline
	return &memory.Row{Message: m, Due: m.Deadline, Bound: true}
}

func standFiredClaimed(s *subject, m node.Message) *memory.Row {
	return withClaim(*standFired(s, m), s.claim(alice(), latest())[0].Claim)
}

func standBound(s *subject, m node.Message) *memory.Row {
	claim := s.insertClaimed(alice(), m)[0]
	cancel := instruction(node.Cancel, s.message(m.ID), nil)
	s.check("cancel", s.instruct(cancel), []node.ItemResult{{Outcome: node.TooLate}})
	s.release(node.Release{Claim: claim, Unsent: true})
	return &memory.Row{Message: m, Due: m.Deadline, Bound: true}
}

func standFormer(s *subject, m node.Message) *memory.Row {
	s.insertClaimed(alice(), s.message(m.ID))
	s.check("replace", s.instruct(instruction(node.Replace, m, nil)), []node.ItemResult{{Outcome: node.Replaced}})
	return &memory.Row{Message: m, Due: m.Deadline, Former: true}
}

func standFormerClaimed(s *subject, m node.Message) *memory.Row {
	return withClaim(*standFormer(s, m), s.claim(alice(), latest())[0].Claim)
}

// controlTable has each instruction come for a message of its own that stands in that way.
func controlTable(s *subject, st standing) {
	for i, action := range []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow} {
		before := st.make(s, s.message(fmt.Sprint(action)))
		next := s.message(fmt.Sprint(action))
		next.Value, next.Headers = []byte("next"), headersOf("next", "header")
		next.Deadline = noon().Add([]time.Duration{1: time.Hour, 2: 2 * time.Hour, 4: -time.Hour}[i])
		answer := s.answer(next.ID)
		item := instruction(action, next, answer)
		s.pass()

		want := st.outcomes[i]
		if results := s.instruct(item); results[0] != (node.ItemResult{Outcome: want}) {
			s.Fatalf("%v: got %+v, want %v", action, results[0], want)
		}
		after := effect(want, before, &next)
		s.checkStored(fmt.Sprint(action), next.Ref(), after)
		s.checkReply(answer, told(want, before, after)...)
		s.checkLeft(fmt.Sprint(action), next.ID, after)
	}
}

// effect is what is stored after an outcome.
func effect(outcome node.Outcome, before *memory.Row, next *node.Message) *memory.Row {
	fresh := &memory.Row{Message: *next, Due: next.Deadline}
	switch outcome {
	case node.Duplicate:
		return before
	case node.Scheduled:
		return fresh
	case node.Replaced:
		fresh.Former = before.Former || before.Attempts > 0
		return fresh
	case node.TooLate:
		same := *before
		same.Bound = true
		return &same
	case node.Stopped:
		same := *before
		same.Bound, same.Stopped = true, true
		return &same
	case node.Rescheduled, node.FiredNow:
		fresh.Message = before.Message
		fresh.Incarnation, fresh.Deadline = movedBy(*next, before.Message), next.Deadline
		fresh.Former, fresh.Bound = before.Former, outcome == node.FiredNow
		return fresh
	default: // cancelled, not found
		return nil
	}
}

// told is what a reply says of an outcome.
func told(outcome node.Outcome, before, after *memory.Row) []node.Header {
	list := headersOf("chronosOutcome", map[node.Outcome]string{
		node.Scheduled: "scheduled", node.Duplicate: "ignored", node.Replaced: "replaced",
		node.Rescheduled: "rescheduled", node.Cancelled: "cancelled", node.FiredNow: "fired",
		node.TooLate: "too_late", node.Stopped: "stopped", node.NotFound: "not_found",
	}[outcome])
	text := func(row *memory.Row) string { return row.Deadline.Format("2006-01-02T15:04:05.000000Z") }
	if after != nil {
		list = append(list, headersOf("chronosDeadline", text(after))...)
	}
	if before != nil && (after == nil || text(after) != text(before)) {
		list = append(list, headersOf("chronosFormerDeadline", text(before))...)
	}
	if before != nil && before.Former || after != nil && after.Former {
		list = append(list, headersOf("chronosFormer", "may appear")...)
	}
	if before != nil && before.Sequence > 0 && (outcome == node.Cancelled || outcome == node.Stopped) {
		list = append(list, headersOf("chronosSequence", fmt.Sprint(before.Sequence))...)
	}
	return list
}

// checkStored compares the row of a name with the one wanted, or none, where rows can be seen.
func (s *subject) checkStored(what string, of node.Ref, want *memory.Row) {
	s.Helper()
	if s.Dump == nil {
		return
	}
	var got, wanted []memory.Row
	for _, row := range s.rows() {
		if row.ID == of.ID && row.Lane == of.Lane {
			got = append(got, row)
		}
	}
	if want != nil {
		wanted = []memory.Row{*want}
	}
	if why := diffRows(got, wanted); why != "" {
		s.Fatalf("%s: %s", what, why)
	}
}

// checkLeft finds out by the port alone what is kept of an id, the only one of the case's lanes, and removes it.
func (s *subject) checkLeft(what, id string, want *memory.Row) {
	s.Helper()
	if want == nil {
		fresh := s.message(id)
		s.insert(fresh)
		s.check(what+": delete", s.delete(fresh.Ref()), []bool{true})
		return
	}
	if !want.ReadiedAt.IsZero() {
		claim := node.Claim{
			Ref: want.Ref(), ReadiedAt: want.ReadiedAt, ReadiedBy: want.ReadiedBy, Expires: want.Expires,
		}
		s.check(what+": claims", s.expired(), []node.Claim{claim})
		s.check(what+": reset", s.reset(claim), []bool{true})
	}
	s.check(what+": claims", len(s.expired()), 0)
	s.checkMessages(s.claim(bob(), want.Due.Add(-time.Microsecond)))
	claimed := s.claim(bob(), want.Due)
	s.checkMessages(claimed, want.Message)
	s.check(what+": attempts", claimed[0].Attempts, want.Attempts+1)
	s.release(node.Release{Claim: claimed[0].Claim, Unsent: true})

	// Whether it is bound, and remembers former content, shows in the next outcome.
	answer, outcome, after := s.answer(id), node.Cancelled, (*memory.Row)(nil)
	if want.Bound || want.Attempts > 0 {
		outcome, after = node.TooLate, want
		if want.Sequence > 0 {
			outcome = node.Stopped
		}
	}
	results := s.instruct(instruction(node.Cancel, s.message(id), answer))
	s.check(what+": a cancel after it", results, []node.ItemResult{{Outcome: outcome}})
	s.checkReply(answer, told(outcome, want, after)...)
	s.check(what+": delete", s.delete(want.Ref()), []bool{after != nil})
}
