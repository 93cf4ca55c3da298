package storetest

import (
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// controlBatchCases are about several instructions in one take, and about takes that are repeated, late or refused.
func controlBatchCases() []testCase {
	return []testCase{
		{"control/a batch acts in order", batchOrder},
		{"control/a batch ends with what comes last", batchEnds},
		{"control/each of a batch gets its own", batchSeveral},
		{"control/a claim only on what remains", batchClaims},
		{"control/a claim on what has replaced another", batchClaimReplaced},
		{"control/fire after schedule in one take", batchFire},
		{"control/a repeated take changes and tells nothing", batchRepeated},
		{"control/a late take changes and tells nothing", batchLate},
		{"control/a refused partition changes and tells nothing", batchRefused},
		{"control/what comes after a refusal changes and tells nothing", batchRefusal},
	}
}

// batchOrder is the batch of the issue: schedule, cancel, schedule, reschedule of one id, with others between them.
func batchOrder(s *subject) {
	s.insert(s.message("other"))
	first, second, later := s.message("a"), s.message("a"), s.dueAt("a", noon().Add(time.Hour))
	second.Value = []byte("second")
	var items []node.Item
	var asked []*node.Answer
	add := func(action node.Action, m node.Message) {
		answer := s.answer(m.ID)
		answer.Deadline = answer.Deadline.Add(time.Duration(len(asked)) * time.Second)
		items, asked = append(items, instruction(action, m, answer)), append(asked, answer)
	}
	add(node.Schedule, first)
	add(node.Cancel, s.message("a"))
	add(node.Cancel, s.message("other"))
	add(node.Schedule, second)
	add(node.Reschedule, later)
	add(node.Reschedule, s.message("other"))
	results := s.instruct(items...)
	s.check("results", results, []node.ItemResult{
		{Outcome: node.Scheduled},
		{Outcome: node.Cancelled},
		{Outcome: node.Cancelled},
		{Outcome: node.Scheduled},
		{Outcome: node.Rescheduled},
		{Outcome: node.NotFound},
	})
	was := headersOf("chronosFormerDeadline", noonText)
	is := headersOf("chronosDeadline", noonText)
	for i, headers := range [][]node.Header{
		append(headersOf("chronosOutcome", "scheduled"), is...),
		append(headersOf("chronosOutcome", "cancelled"), was...),
		append(headersOf("chronosOutcome", "cancelled"), was...),
		append(headersOf("chronosOutcome", "scheduled"), is...),
		append(headersOf("chronosOutcome", "rescheduled", "chronosDeadline", "2025-06-01T13:00:00.000000Z"), was...),
		headersOf("chronosOutcome", "not_found"),
	} {
		s.checkReply(asked[i], headers...)
	}
	second.Incarnation, second.Deadline = movedBy(later, second), later.Deadline
	s.checkStored("a", second.Ref(), &memory.Row{Message: second, Due: second.Deadline})
	s.checkMessages(s.claim(bob(), latest()), second)
}

// batchSeveral moves and replaces several messages in one take, all to different times in the far future: each has its
// own deadline, key, value and due time then.
func batchSeveral(s *subject) {
	far := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	var items []node.Item
	var want []node.Message
	for i, action := range []node.Action{
		node.Reschedule, node.Replace, node.Reschedule, node.Replace, node.FireNow, node.Reschedule,
	} {
		id := string(rune('a' + i))
		before := s.message(id)
		before.Value = []byte("the former " + id)
		s.insert(before)
		m := s.dueAt(id, far.Add(time.Duration(10-i)*time.Hour))
		m.Key, m.Value = []byte("another key"), []byte("the new "+id)
		items = append(items, instruction(action, m, nil))
		switch action {
		case node.Replace:
		case node.FireNow: // it was due long ago, and keeps its deadline
			before.Incarnation = movedBy(m, before)
			m = before
		default:
			before.Incarnation, before.Deadline = movedBy(m, before), m.Deadline
			m = before
		}
		want = append(want, m)
	}
	s.instruct(items...)
	for i := range want {
		row := &memory.Row{Message: want[i], Due: want[i].Deadline, Bound: items[i].Action == node.FireNow}
		s.checkStored(want[i].ID, want[i].Ref(), row)
	}
}

// batchEnds has sequences on messages that were there before, each with the outcomes and what remains.
func batchEnds(s *subject) {
	const (
		schedule, replace, reschedule = node.Schedule, node.Replace, node.Reschedule
		cancel, fire                  = node.Cancel, node.FireNow
	)
	for _, c := range []struct {
		actions  []node.Action
		outcomes []node.Outcome
		row      memory.Row // what remains of it, where row.Attempts is 0; with Attempts -1, nothing remains
	}{
		{
			[]node.Action{reschedule, reschedule, cancel, cancel},
			[]node.Outcome{node.Rescheduled, node.Rescheduled, node.Cancelled, node.NotFound},
			memory.Row{Attempts: -1},
		},
		{
			[]node.Action{cancel, schedule, schedule},
			[]node.Outcome{node.Cancelled, node.Scheduled, node.Duplicate},
			memory.Row{},
		},
		{
			[]node.Action{cancel, replace, fire, cancel},
			[]node.Outcome{node.Cancelled, node.Scheduled, node.FiredNow, node.TooLate},
			memory.Row{Bound: true},
		},
		{
			[]node.Action{fire, reschedule, replace, reschedule, fire, fire},
			[]node.Outcome{
				node.FiredNow, node.TooLate, node.Replaced, node.Rescheduled, node.FiredNow, node.TooLate,
			},
			memory.Row{Bound: true},
		},
		{
			[]node.Action{replace, replace, cancel, replace, schedule},
			[]node.Outcome{node.Replaced, node.Replaced, node.Cancelled, node.Scheduled, node.Duplicate},
			memory.Row{},
		},
	} {
		s.insert(s.message("a"))
		var items []node.Item
		var last node.Message
		for i, action := range c.actions {
			m := s.message("a")
			m.Value = []byte{byte(i)}
			items = append(items, instruction(action, m, nil))
			switch outcome := c.outcomes[i]; outcome {
			case node.Scheduled, node.Replaced:
				last = m
			case node.Rescheduled, node.FiredNow:
				last.Incarnation = movedBy(m, last)
			default: // as it was
			}
		}
		s.check("outcomes", outcomesOf(node.TakeResult{Results: s.instruct(items...)}), c.outcomes)
		if c.row.Attempts < 0 {
			s.checkStored("row", last.Ref(), nil)
			s.checkLeft("row", "a", nil)
			continue
		}
		c.row.Message, c.row.Due = last, last.Deadline
		s.checkStored("row", last.Ref(), &c.row)
		s.checkLeft("row", "a", &c.row)
	}
}

// batchClaims asks for claims on messages that later items of the take remove, move, fire and replace. A claim at once
// would make these too late.
func batchClaims(s *subject) {
	var items []node.Item
	add := func(action node.Action, claim bool, id string) node.Message {
		m := s.message(id)
		m.Value = []byte(action.String())
		item := instruction(action, m, nil)
		item.Claim = claim
		items = append(items, item)
		return m
	}
	add(node.Schedule, true, "cancelled")
	first := add(node.Schedule, true, "fired")
	moved := add(node.Schedule, true, "moved")
	add(node.Schedule, true, "replaced")
	kept := add(node.Schedule, true, "same")
	taken := add(node.Schedule, true, "taken")
	add(node.Cancel, false, "cancelled")
	fired := add(node.FireNow, false, "fired")
	at := add(node.Reschedule, false, "moved")
	replaced := add(node.Replace, false, "replaced")
	add(node.Schedule, true, "same") // another one, which is ignored
	results := s.instruct(items...)
	for i, want := range []node.Outcome{
		node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled,
		node.Cancelled, node.FiredNow, node.Rescheduled, node.Replaced, node.Duplicate,
	} {
		if i == 4 || i == 5 {
			s.checkClaim(results[i].Claim, items[i].Ref(), alice(), hold)
			results[i].Claim = node.Claim{}
		}
		s.check("result", results[i], node.ItemResult{Outcome: want})
	}
	claims := s.expired()
	s.check("claims", len(claims), 2)
	s.check("owned", []node.Ref{claims[0].Ref, claims[1].Ref}, []node.Ref{kept.Ref(), taken.Ref()})
	moved.Incarnation = movedBy(at, moved)
	fired.Incarnation = movedBy(fired, first)
	fired.Key, fired.Value = []byte("key of fired"), []byte("schedule")
	s.checkMessages(s.claim(bob(), latest()), fired, moved, replaced)
}

// batchClaimReplaced asks for claims on what replaces: something that was there, something of the same take, something
// that another node holds.
func batchClaimReplaced(s *subject) {
	s.insert(s.message("a"))
	held := s.insertClaimed(bob(), s.message("c"))[0]
	var items []node.Item
	for _, id := range []string{"a", "b", "b", "b", "c"} {
		item := instruction(node.Replace, s.message(id), nil)
		item.Claim = len(items) != 3
		items = append(items, item)
	}
	items[1].Action = node.Schedule
	items[3].Action = node.Schedule // one that is ignored
	results := s.instruct(items...)
	for i, want := range []node.Outcome{node.Replaced, node.Scheduled, node.Replaced, node.Duplicate, node.Replaced} {
		s.check("outcome", results[i].Outcome, want)
		if want == node.Replaced {
			s.checkClaim(results[i].Claim, items[i].Ref(), alice(), hold)
		} else {
			s.check("claim", results[i].Claim, node.Claim{})
		}
	}
	s.check("the claim of before", s.reset(held), []bool{false})
	s.check("claims", len(s.expired()), 3)
	s.check("reset", s.reset(results[0].Claim, results[2].Claim, results[4].Claim), many(3, true))
	again := s.claim(bob(), latest())
	s.checkMessages(again, items[0].Message, items[2].Message, items[4].Message)
	for i := range again {
		s.check("attempts", again[i].Attempts, 2) // the claim of the take was given back, and may have led to a publish
	}
}

// batchFire: what was scheduled by the same take and fired is due at once, bound, and waits.
func batchFire(s *subject) {
	m := s.dueAt("a", noon().Add(time.Hour))
	now := s.message("a")
	schedule := instruction(node.Schedule, m, nil)
	schedule.Claim = true
	results := s.instruct(schedule, instruction(node.FireNow, now, nil), instruction(node.Cancel, s.message("a"), nil))
	s.check("results", results, []node.ItemResult{
		{Outcome: node.Scheduled}, {Outcome: node.FiredNow}, {Outcome: node.TooLate},
	})
	m.Incarnation, m.Deadline = movedBy(now, m), now.Deadline
	s.checkStored("fired", m.Ref(), &memory.Row{Message: m, Due: noon(), Bound: true})
	s.checkMessages(s.claim(bob(), noon()), m)
}

// everything returns a take with every instruction on ids of their own, each with an answer, and the messages that it
// is for, which it stores first.
func (s *subject) everything() node.TakeRequest {
	s.Helper()
	s.insert(s.message("replaced"), s.message("moved"), s.message("cancelled"), s.message("fired"))
	s.insertClaimed(bob(), s.message("late"))
	var items []node.Item
	for _, i := range []struct {
		action node.Action
		id     string
		claim  bool
	}{
		{node.Schedule, "scheduled", true},
		{node.Schedule, "fired", true},
		{node.Replace, "replaced", true},
		{node.Replace, "new", false},
		{node.Reschedule, "moved", false},
		{node.Cancel, "cancelled", false},
		{node.FireNow, "fired", false},
		{node.Cancel, "late", false},
		{node.Cancel, "none", false},
		{node.Pass, "", false},
	} {
		m := s.message(i.id)
		if i.action == node.Pass {
			m = node.Message{}
		}
		item := instruction(i.action, m, s.answer(i.id))
		item.Claim = i.claim
		items = append(items, item)
	}
	items[9].Answer.Rejected = true
	return s.instructions(items...)
}

// batchRepeated repeats a take whose reply was lost. What it stored is scheduled, with its claims; what it did
// otherwise was done before.
func batchRepeated(s *subject) {
	request := s.everything()
	first := s.accept(request, s.take(request))
	s.check("outcomes", outcomesOf(node.TakeResult{Results: first}), []node.Outcome{
		node.Scheduled, node.Duplicate, node.Replaced, node.Scheduled, node.Rescheduled, node.Cancelled, node.FiredNow,
		node.TooLate, node.NotFound, node.Passed,
	})
	s.pass()
	before := s.rows()
	skipped := node.ItemResult{Outcome: node.Skipped}
	want := []node.ItemResult{
		{Outcome: node.Scheduled, Claim: first[0].Claim},
		skipped,
		{Outcome: node.Scheduled, Claim: first[2].Claim},
		{Outcome: node.Scheduled},
		skipped, skipped, skipped, skipped, skipped, skipped,
	}
	for range 2 {
		s.check("repeated take", s.take(request).Results, want)
		s.checkRows(before, "a repeated take")
	}

	// Nor when everybody has been told, and there is something to cancel, reschedule and fire again.
	replies := s.replies(latest())
	s.check("replies", len(replies), 10)
	for _, reply := range replies {
		s.delete(reply.Ref())
	}
	s.insert(s.message("cancelled"), s.message("none"))
	s.instruct(instruction(node.Replace, s.message("moved"), nil), instruction(node.Replace, s.message("fired"), nil))
	before = s.rows()
	s.check("repeated take", s.take(request).Results, want)
	s.checkRows(before, "a repeated take")
	s.checkMessages(s.replies(latest()))

	// What became since of what it stored is what a repeated take is told.
	s.check("delete", s.delete(request.Items[0].Ref()), []bool{true})
	s.reset(first[2].Claim)
	want[0], want[2].Claim = skipped, node.Claim{}
	s.check("repeated take", s.take(request).Results, want)
}

// batchLate has a zombie take in what the next owner has taken in already, with incarnations of its own.
func batchLate(s *subject) {
	request := s.everything()
	s.accept(request, s.take(request))
	before := s.rows()
	for i := range request.Items {
		if item := &request.Items[i]; item.Action != node.Pass {
			item.Incarnation = s.incarnation()
		}
		answer := *request.Items[i].Answer
		answer.ID += " of a zombie"
		request.Items[i].Answer = &answer
	}
	s.check("late take", s.take(request).Results, many(10, node.ItemResult{Outcome: node.Skipped}))
	s.checkRows(before, "a late take")
	s.check("replies", len(s.replies(latest())), 10)
}

// batchRefused refuses the partition of the instructions, for a start that leaves a gap, beside one that is taken in.
func batchRefused(s *subject) {
	request := s.everything()
	good := s.place(1, 10)
	request.From[0].Offset++
	request.From = append(request.From, good)
	fine := s.message("fine")
	item := schedule(1, 1, 10, fine)
	item.Answer = s.answer("fine")
	request.Items = append(request.Items, item)
	before := s.rows()
	result := s.take(request)
	s.check("refused", result.Refused, []bool{true, false})
	s.check("results", result.Results,
		append(many(10, node.ItemResult{Outcome: node.Untaken}), node.ItemResult{Outcome: node.Scheduled}))
	s.checkReply(item.Answer, headersOf("chronosOutcome", "scheduled", "chronosDeadline", noonText)...)
	s.check("delete", s.delete(fine.Ref()), []bool{true})
	s.checkRows(before, "a take that was refused")

	// The same records, from where there is no gap, are taken in.
	request.From[0].Offset--
	request.Items = request.Items[:10]
	request.From = request.From[:1]
	s.accept(request, s.take(request))
	s.check("replies", len(s.replies(latest())), 10)
}

// batchRefusal has an instruction in the middle that no store takes.
func batchRefusal(s *subject) {
	s.insert(s.message("a"), s.message("b"), s.message("c"))
	one, two, three := s.answer("a"), s.answer("b"), s.answer("c")
	request := s.instructions(
		instruction(node.Cancel, s.message("a"), one), instruction(node.Cancel, s.message("with\x00NUL"), two),
		instruction(node.Cancel, s.message("c"), three),
	)
	refusal := request.Items[1].Message.Refusal()
	for _, want := range []node.Outcome{node.Cancelled, node.Skipped} {
		result := s.take(request)
		s.check("results", result.Results, []node.ItemResult{{Outcome: want}})
		s.check("refusal", result.Refusal, refusal)
		s.check("positions", result.Positions, []node.Position{{Epoch: s.at.Epoch, Offset: s.at.Offset + 1}})
	}
	s.checkReply(one, headersOf("chronosOutcome", "cancelled", "chronosFormerDeadline", noonText)...)
	request.Items[1].Action, request.Items[1].Message, request.Items[1].Answer = node.Pass, node.Message{}, nil
	s.check("outcomes", outcomesOf(node.TakeResult{Results: s.accept(request, s.take(request))}),
		[]node.Outcome{node.Skipped, node.Passed, node.Cancelled})
	s.checkReply(three, headersOf("chronosOutcome", "cancelled", "chronosFormerDeadline", noonText)...)
}
