package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

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
	m.Headers = []node.Header{
		{Name: "chronosMessageId", Value: []byte(id)}, {Name: "null"}, {Name: "\xff", Value: []byte{}},
	}
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
	want.Incarnation = uuid.NewSHA1(want.Incarnation, []byte(lineage))
	want.Headers = append(append([]node.Header{}, want.Headers...), headers...)
	want.Headers = append(want.Headers, node.Header{Name: "chronosLineage", Value: []byte(lineage)})
	s.checkMessages(s.replies(answer.Deadline.Add(-time.Microsecond)))
	replies := s.replies(answer.Deadline)
	s.checkMessages(replies, want)
	s.check("attempts of a reply", replies[0].Attempts, 1)
	s.check("delete of a reply", s.delete(want.Ref()), []bool{true})
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
		{Name: "a", Value: []byte{0, 0xff}},
		{Name: "", Value: nil},
		{Name: "a", Value: []byte{}},
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
		s.check("bound", claimed[0].Bound, true)
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
	s.check("bound", claimed[0].Bound, false)
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
		if action == node.Replace {
			list[at].Incarnation = m.Incarnation
		} else {
			list[at].Incarnation = movedBy(m, list[at])
		}
		list[at].Deadline = deadline
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

// movedBy returns the incarnation that a message has after an instruction with another one's incarnation has moved it.
func movedBy(by, m node.Message) uuid.UUID {
	item := node.Item{Message: by}
	return item.Moved(m.Incarnation)
}

// controlFireOverdue fires messages that are due already. One keeps its deadline, and its place before what has fallen
// due since; one that was put off is not put off any more.
func controlFireOverdue(s *subject) {
	overdue, off := s.dueAt("overdue", noon()), s.dueAt("off", noon())
	between := s.dueAt("between", noon().Add(time.Minute))
	s.insert(off)
	s.release(node.Release{Claim: s.claim(alice(), latest())[0].Claim, Due: latest(), Unsent: true})
	s.insert(overdue, between)
	now := noon().Add(time.Hour)
	for _, m := range []*node.Message{&overdue, &off} {
		fire, answer := s.dueAt(m.ID, now), s.answer(m.ID)
		results := s.instruct(instruction(node.FireNow, fire, answer))
		s.check("fire", results, []node.ItemResult{{Outcome: node.FiredNow}})
		s.checkReply(answer, headersOf("chronosOutcome", "fired", "chronosDeadline", noonText)...)
		m.Incarnation = movedBy(fire, *m)
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
	kept.Incarnation = movedBy(moved, kept)
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
