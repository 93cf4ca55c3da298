package storetest

import (
	"fmt"
	"math"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// controlCases are about instructions: what becomes of a message, and what is told of it. The first ones are the table
// of node.Item.Decide, cell by cell, written down here a second time, by hand.
func controlCases() []testCase {
	var cases []testCase
	for _, st := range standings() {
		cases = append(cases, testCase{"control/" + st.name, func(s *subject) { controlTable(s, st) }})
	}
	return append(cases, []testCase{
		{"control/nobody is told who does not ask", controlUntold},
		{"control/a reply is stored byte for byte", controlReplyBytes},
		{"control/a reply says by how much a deadline has moved", controlReplyDeadlines},
		{"control/a rejected record has a reply of its own", controlRejected},
		{"control/a reply leaves what is stored under its id", controlReplyTwice},
		{"control/too late binds, and giving back does not clear it", controlBinds},
		{"control/an attempt that was taken back does not count", controlUnsent},
		{"control/replace under a claim", controlReplaceClaimed},
		{"control/what was replaced may appear, and later replies say so", controlFormer},
		{"control/what moves is found in the order of due times", controlMoves},
		{"control/fire never comes later than it would have", controlFireOverdue},
		{"control/not after is kept and returned", controlNotAfter},
		{"control/an instruction is for one lane", controlLanes},
	}...)
}

// answers is the lane of replies. The calls of a case that claim on all lanes leave it out.
const answers = "outcomes"

// noonText is noon as a header has it.
const noonText = "2025-06-01T12:00:00.000000Z"

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
	m.Incarnation, m.Deadline = fire.Incarnation, fire.Deadline
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

// dueAt returns a new incarnation of a message that is due at an instant.
func (s *subject) dueAt(id string, deadline time.Time) node.Message {
	m := s.message(id)
	m.Deadline = deadline
	return m
}

// instruction returns the item that asks for something: of the message it has what such an instruction brings.
func instruction(action node.Action, m node.Message, answer *node.Answer) node.Item {
	if !action.Stores() {
		m.Key, m.Value, m.Headers = nil, nil, nil
		if action == node.Cancel {
			m.Deadline = time.Time{}
		}
	}
	return node.Item{Action: action, Message: m, Answer: answer}
}

// answer asks for the outcome of an instruction on a message.
func (s *subject) answer(id string) *node.Answer {
	m := s.message(fmt.Sprint("answer-", s.drawn))
	m.Lane, m.Deadline = answers, noon().Add(5*time.Second)
	m.Key, m.Value = []byte("key\x00of "+id), nil
	m.Headers = []node.Header{{Name: "chronosMessageId", Value: []byte(id)}, {Name: "null"}, {Name: "\xff", Value: []byte{}}}
	return &node.Answer{Message: m}
}

// instruct takes items in as the next records of the case's own partition, for alice, whatever comes of it.
func (s *subject) instruct(items ...node.Item) []node.ItemResult {
	s.Helper()
	request := s.instructions(items...)
	return s.accept(request, s.take(request))
}

// instructions returns the take that has items as the next records of the case's own partition.
func (s *subject) instructions(items ...node.Item) node.TakeRequest {
	s.Helper()
	request := s.request(alice())
	for i, item := range items {
		item.Epoch, item.Offset = s.at.Epoch, s.at.Offset+int64(i)
		request.Items = append(request.Items, item)
	}
	return request
}

// headersOf returns headers out of names and values in turn.
func headersOf(pairs ...string) []node.Header {
	var headers []node.Header
	for i := 0; i < len(pairs); i += 2 {
		headers = append(headers, node.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return headers
}

// replies claims all that is told until an instant.
func (s *subject) replies(until time.Time) []node.Ready {
	s.Helper()
	return s.claimWithin(bob(), until, node.Share{Lane: answers, Limit: math.MaxInt, Bytes: math.MaxInt})
}

// checkReply ends the case when what is told is not this one reply, or is not due at once, or did not wait. It removes
// the reply.
func (s *subject) checkReply(answer *node.Answer, headers ...node.Header) {
	s.Helper()
	want := answer.Message
	lineage := fmt.Sprint(s.state().Lineage)
	want.ID += "/" + lineage
	want.Headers = append(append([]node.Header{}, want.Headers...), headers...)
	want.Headers = append(want.Headers, node.Header{Name: "chronosLineage", Value: []byte(lineage)})
	s.checkMessages(s.replies(answer.Deadline.Add(-time.Microsecond)))
	replies := s.replies(answer.Deadline)
	s.checkMessages(replies, want)
	s.check("attempts of a reply", replies[0].Attempts, 1)
	s.check("delete of a reply", s.delete(want.Ref()), []bool{true})
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
		fresh.Incarnation, fresh.Deadline = next.Incarnation, next.Deadline
		fresh.Former, fresh.Bound = before.Former, outcome == node.FiredNow
		return fresh
	}
	return nil // cancelled, not found
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

func controlUntold(s *subject) {
	for _, action := range []node.Action{node.Schedule, node.Replace, node.Reschedule, node.FireNow, node.Cancel} {
		s.instruct(instruction(action, s.message("a"), nil), instruction(action, s.message("none"), nil))
	}
	s.checkMessages(s.replies(latest()))
}

// controlReplyBytes has an answer with all that a record may be: no key or an empty one, headers that repeat and are
// no text, and none at all.
func controlReplyBytes(s *subject) {
	headers := []node.Header{
		{Name: "a", Value: []byte{0, 0xff}}, {Name: "", Value: nil}, {Name: "a", Value: []byte{}},
		{Name: "\xff\x00", Value: []byte(`"\u0000`)},
	}
	for _, key := range [][]byte{nil, {}, {0}, []byte("é\xff\x00")} {
		for _, list := range [][]node.Header{nil, headers} {
			answer := s.answer("none")
			answer.Key, answer.Headers = key, list
			want := copyMessage(answer.Message)
			s.instruct(instruction(node.Cancel, s.message("none"), answer))
			if why := diffMessage(answer.Message, want); why != "" {
				s.Fatalf("Take has changed its argument: %s", why)
			}
			s.checkReply(answer, headersOf("chronosOutcome", "not_found")...)
		}
	}
}

func controlReplyDeadlines(s *subject) {
	s.insert(s.message("a"))
	answer := s.answer("a")
	s.instruct(instruction(node.Reschedule, s.message("a"), answer))
	s.checkReply(answer, headersOf("chronosOutcome", "rescheduled", "chronosDeadline", noonText)...)
	answer = s.answer("a")
	s.instruct(instruction(node.Reschedule, s.dueAt("a", noon().Add(time.Microsecond)), answer))
	s.checkReply(answer, headersOf("chronosOutcome", "rescheduled",
		"chronosDeadline", "2025-06-01T12:00:00.000001Z", "chronosFormerDeadline", noonText)...)
	answer = s.answer("a")
	s.instruct(instruction(node.Cancel, s.message("a"), answer))
	s.checkReply(answer, headersOf("chronosOutcome", "cancelled",
		"chronosFormerDeadline", "2025-06-01T12:00:00.000001Z")...)
}

// controlRejected has two records that are no valid instructions: nothing is done for the one, a copy for the
// dead-letter topic is stored for the other, and both are told so.
func controlRejected(s *subject) {
	waiting, deadLetter := s.message("a"), s.message("copy")
	s.insert(waiting)
	passed, stored := s.answer("a"), s.answer("a")
	passed.Rejected, stored.Rejected = true, true
	stored.Deadline = passed.Deadline.Add(time.Second)
	results := s.instruct(node.Item{Answer: passed}, instruction(node.Schedule, deadLetter, stored))
	s.check("results", results, []node.ItemResult{{Outcome: node.Passed}, {Outcome: node.Scheduled}})
	s.checkReply(passed, headersOf("chronosOutcome", "rejected")...)
	s.checkReply(stored, headersOf("chronosOutcome", "rejected")...)
	s.checkMessages(s.claim(alice(), latest()), waiting, deadLetter)
}

// controlReplyTwice has a message under the id of a reply already: it stays, and is no reason to fail.
func controlReplyTwice(s *subject) {
	answer := s.answer("none")
	stranger := s.message(answer.ID + "/1")
	stranger.Lane = answers
	s.insert(stranger)
	s.lanes = []string{output}
	s.check("outcome", s.instruct(instruction(node.Cancel, s.message("none"), answer))[0].Outcome, node.NotFound)
	s.checkMessages(s.replies(latest()), stranger)
	s.check("delete", s.delete(stranger.Ref()), []bool{true})
	s.checkMessages(s.replies(latest()))
}

// controlBinds: what was told to come out comes out, unless a replace takes it over.
func controlBinds(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(alice(), m)[0]
	late := []node.ItemResult{{Outcome: node.TooLate}}
	s.check("cancel", s.instruct(instruction(node.Cancel, s.message("a"), nil)), late)
	for range 2 {
		s.check("release", s.release(node.Release{Claim: claim, Unsent: true}), []bool{true})
		for _, action := range []node.Action{node.Cancel, node.Reschedule, node.FireNow} {
			s.check(fmt.Sprint(action), s.instruct(instruction(action, s.message("a"), nil)), late)
		}
		claimed := s.claim(bob(), latest())
		s.checkMessages(claimed, m)
		claim = claimed[0].Claim
	}
	next := s.message("a")
	s.check("replace", s.instruct(instruction(node.Replace, next, nil)), []node.ItemResult{{Outcome: node.Replaced}})
	s.check("cancel of what took over", s.instruct(instruction(node.Cancel, s.message("a"), nil)),
		[]node.ItemResult{{Outcome: node.Cancelled}})
}

// controlUnsent gives claims up again and again: while all of them are known to have led to nothing, a cancel works.
func controlUnsent(s *subject) {
	list := s.messages(3)
	s.insert(list...)
	for range 3 {
		for _, r := range s.claim(alice(), latest()) {
			s.release(node.Release{Claim: r.Claim, Unsent: true})
		}
	}
	claims := claimsOf(s.claim(bob(), latest()))
	s.release(node.Release{Claim: claims[0], Unsent: true}, node.Release{Claim: claims[1]},
		node.Release{Claim: claims[2], Unsent: true})
	claims = claimsOf(s.claim(alice(), latest()))
	s.release(node.Release{Claim: claims[0], Unsent: true}, node.Release{Claim: claims[1], Unsent: true})
	var got []node.Outcome
	for _, m := range list {
		got = append(got, s.instruct(instruction(node.Cancel, s.message(m.ID), nil))[0].Outcome)
	}
	s.check("outcomes", got, []node.Outcome{node.Cancelled, node.TooLate, node.TooLate})
}

// controlReplaceClaimed replaces what a node holds. Its claim is gone with the former content, and nothing that it does
// with it touches the new one.
func controlReplaceClaimed(s *subject) {
	old := s.message("a")
	claim := s.insertClaimed(alice(), old)[0]
	next := s.message("a")
	next.Value = nil
	s.check("replace", s.instruct(instruction(node.Replace, next, nil)), []node.ItemResult{{Outcome: node.Replaced}})
	s.checkStored("replaced", next.Ref(), &memory.Row{Message: next, Due: next.Deadline, Former: true})
	s.check("claims", len(s.expired()), 0)
	s.check("reset by the former owner", s.release(node.Release{Claim: claim, Due: latest()}), []bool{false})
	s.check("delete by the former owner", s.delete(old.Ref()), []bool{false})
	claimed := s.claim(bob(), noon())
	s.checkMessages(claimed, next)
	s.check("attempts", claimed[0].Attempts, 1)
	s.check("reset by the former owner", s.reset(claim), []bool{false})
	s.check("delete", s.delete(next.Ref()), []bool{true})
}

// controlFormer follows a message through instructions after it has replaced one that may appear. That is forgotten
// with the message only.
func controlFormer(s *subject) {
	claim := s.insertClaimed(alice(), s.message("a"))[0]
	deadline := noon()
	tell := func(action node.Action, outcome string, moved bool) {
		s.Helper()
		answer := s.answer("a")
		next := s.dueAt("a", deadline)
		if moved {
			next.Deadline = deadline.Add(-time.Second)
		}
		s.instruct(instruction(action, next, answer))
		list := headersOf("chronosOutcome", outcome)
		if action != node.Cancel || outcome == "too_late" {
			list = append(list, headersOf("chronosDeadline", next.Deadline.Format("2006-01-02T15:04:05.000000Z"))...)
		}
		if moved || action == node.Cancel && outcome != "too_late" {
			list = append(list,
				headersOf("chronosFormerDeadline", deadline.Format("2006-01-02T15:04:05.000000Z"))...)
		}
		s.checkReply(answer, append(list, headersOf("chronosFormer", "may appear")...)...)
		deadline = next.Deadline
	}
	tell(node.Replace, "replaced", false)
	tell(node.Schedule, "ignored", false)
	tell(node.Reschedule, "rescheduled", true)
	tell(node.Replace, "replaced", true)
	tell(node.FireNow, "fired", true)
	tell(node.Cancel, "too_late", false)
	tell(node.Replace, "replaced", false)
	tell(node.Cancel, "cancelled", false)
	s.check("the claim of before", s.reset(claim), []bool{false})

	fresh, answer := s.message("a"), s.answer("a")
	s.instruct(instruction(node.Schedule, fresh, answer))
	s.checkReply(answer, headersOf("chronosOutcome", "scheduled", "chronosDeadline", noonText)...)
}

// controlMoves moves messages to the front of a lane, by reschedule and by fire, and to its end. A claim finds them at
// their new places at once, and at the former ones no more.
func controlMoves(s *subject) {
	list := s.messages(6)
	for i := range list {
		list[i].Deadline = noon().Add(time.Duration(i) * time.Hour)
	}
	s.insert(list...)
	move := func(at int, action node.Action, deadline time.Time) {
		s.Helper()
		m := s.dueAt(list[at].ID, deadline)
		s.instruct(instruction(action, m, nil))
		list[at].Incarnation, list[at].Deadline = m.Incarnation, deadline
	}
	move(5, node.Reschedule, noon().Add(-2*time.Second))
	move(4, node.FireNow, noon().Add(-3*time.Second))
	move(3, node.Replace, noon().Add(-time.Second))
	list[3].Key, list[3].Value = []byte("key of "+list[3].ID), []byte("value of "+list[3].ID)
	move(0, node.Reschedule, noon().Add(24*time.Hour))
	s.checkMessages(s.claimWithin(bob(), noon(), share(1, math.MaxInt)), list[4])
	s.checkMessages(s.claimWithin(bob(), noon(), share(1, math.MaxInt)), list[5])
	s.checkMessages(s.claim(bob(), noon().Add(12*time.Hour)), list[3], list[1], list[2])
	s.checkMessages(s.claim(bob(), latest()), list[0])
}

// controlFireOverdue fires messages that are due already. One keeps its deadline, and its place before what has fallen
// due since; one that was put off is not put off any more.
func controlFireOverdue(s *subject) {
	overdue, between, off := s.dueAt("overdue", noon()), s.dueAt("between", noon().Add(time.Minute)), s.dueAt("off", noon())
	s.insert(off)
	s.release(node.Release{Claim: s.claim(alice(), latest())[0].Claim, Due: latest(), Unsent: true})
	s.insert(overdue, between)
	now := noon().Add(time.Hour)
	for _, m := range []*node.Message{&overdue, &off} {
		fire, answer := s.dueAt(m.ID, now), s.answer(m.ID)
		s.check("fire", s.instruct(instruction(node.FireNow, fire, answer)), []node.ItemResult{{Outcome: node.FiredNow}})
		s.checkReply(answer, headersOf("chronosOutcome", "fired", "chronosDeadline", noonText)...)
		m.Incarnation = fire.Incarnation
	}
	s.checkStored("overdue", overdue.Ref(), &memory.Row{Message: overdue, Due: noon(), Bound: true})
	s.checkStored("put off", off.Ref(), &memory.Row{Message: off, Due: now, Bound: true})
	s.checkMessages(s.claim(bob(), now), overdue, between, off)
}

// controlNotAfter: the last instant at which a message may be published goes with its content.
func controlNotAfter(s *subject) {
	limited := func(id string, notAfter time.Time) node.Message {
		m := s.message(id)
		m.NotAfter = notAfter
		return m
	}
	one, two := limited("a", noon().Add(time.Microsecond)), limited("b", latest())
	early, held := limited("c", earliest().Add(time.Microsecond)), limited("d", noon())
	replaced, kept := limited("e", noon()), limited("f", noon())
	s.insert(one, two, early, replaced, kept)
	claim := s.insertClaimed(alice(), held)[0]
	s.reset(claim)

	without := s.message("e")
	moved := s.message("f")
	s.instruct(instruction(node.Replace, without, nil), instruction(node.Reschedule, moved, nil))
	kept.Incarnation = moved.Incarnation
	with := limited("g", noon())
	s.insert(s.message("g"))
	s.instruct(instruction(node.Replace, with, nil))
	for range 2 {
		claimed := s.claim(bob(), latest())
		s.checkMessages(claimed, one, two, early, held, without, kept, with)
		for _, r := range claimed {
			if !r.NotAfter.IsZero() {
				s.checkInstant("NotAfter", r.NotAfter)
			}
		}
		s.reset(claimsOf(claimed)...)
	}
}

func controlLanes(s *subject) {
	here, there := s.message("a"), s.message("a")
	there.Lane = "other"
	s.insert(here, there)
	elsewhere := s.message("a")
	elsewhere.Lane = "elsewhere"
	results := s.instruct(
		instruction(node.Cancel, elsewhere, nil), instruction(node.Cancel, s.message("A"), nil),
		instruction(node.Cancel, s.message("a"), nil), instruction(node.Cancel, s.message("a"), nil),
	)
	s.check("results", results, []node.ItemResult{
		{Outcome: node.NotFound}, {Outcome: node.NotFound}, {Outcome: node.Cancelled}, {Outcome: node.NotFound},
	})
	s.checkMessages(s.claim(alice(), latest()), there)
}
