package storetest

import (
	"context"
	"fmt"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// answerCases are about requests (node.Request): what one is told, and that a repeated one is told the same.
func answerCases() []testCase {
	return []testCase{
		{"request/what is told of every instruction", requestTable},
		{"request/the same answer again, and nothing is done", requestAgain},
		{"request/the claim of the first take again", requestClaimed},
		{"request/the answer that was given counts, not the one asked for", requestPrint},
		{"request/another request is decided anew", requestOther},
		{"request/an answer is kept for so long and no longer", requestExpires},
		{"request/twice in one take", requestTwice},
		{"request/what is not taken in is not answered", requestUntaken},
		{"request/what is refused is not answered", requestRefused},
		{"request/an answer is one of its lineage", requestLineage},
		{"request/answers that have expired are deleted", requestSwept},
	}
}

// asked has an item be asked for by a request whose answer is kept for a day.
func (s *subject) asked(item node.Item) node.Item {
	item = past(item)
	item.Request = &node.Request{ID: s.incarnation(), Print: s.incarnation(), Keep: node.AnswerKept}
	return item
}

// again returns an item as somebody brings it who asks again: of the same request, with an incarnation of its own.
func (s *subject) again(item node.Item) node.Item {
	if item.Action != node.Cancel {
		item.Incarnation = s.incarnation()
	}
	return item
}

// requestTable has each instruction be asked for, of a message that stands in each way. It is told what the table says,
// and what is true of the message from then on.
func requestTable(s *subject) {
	for _, st := range standings() {
		for i, action := range actions() {
			id := fmt.Sprint(action)
			before := st.make(s, s.message(id))
			next := s.dueAt(id, noon().Add(-time.Hour))
			item := s.asked(instruction(action, next, nil))
			result := s.instructPast(item)[0]
			what := fmt.Sprint(st.name, ", ", action)
			s.check(what, result.Outcome, st.outcomes[i])
			after := before
			if st.outcomes[i] != node.NotFound {
				after = effect(st.outcomes[i], before, &next)
			}
			s.check(what+": told", result.Told, expected(item, st.outcomes[i], before, after))
			s.checkStored(what, next.Ref(), after)
			s.checkLeft(what, id, after)
		}
	}
}

// expected returns what a request is told of an outcome that has made after of before; nil for no message.
func expected(item node.Item, outcome node.Outcome, before, after *memory.Row) *node.Told {
	told := &node.Told{
		Outcome: outcome, Message: node.MessageID{ID: item.ID, Lane: item.Lane}, Print: item.Request.Print, Lineage: 1,
	}
	if after != nil {
		told.Incarnation, told.Deadline, told.MayAppear = after.Incarnation, after.Deadline, after.Former
		told.Sequence = after.Sequence
	}
	if before != nil && (after == nil || !after.Deadline.Equal(before.Deadline)) {
		told.Former = before.Deadline
	}
	if before != nil && after == nil {
		told.Sequence = before.Sequence
	}
	told.MayAppear = told.MayAppear || before != nil && before.Former
	return told
}

// requestClaimed repeats a take whose answer was lost: the node is told of the claims that it holds by it, as it is of
// those of records. Another node is not, nor is a request of another incarnation.
func requestClaimed(s *subject) {
	for _, action := range []node.Action{node.Schedule, node.Replace} {
		id := fmt.Sprint(action)
		if action == node.Replace {
			s.insert(s.message(id))
		}
		item := s.asked(instruction(action, s.dueAt(id, noon().Add(-time.Hour)), nil))
		item.Claim = true
		request := node.TakeRequest{Node: alice(), Hold: time.Hour, Items: []node.Item{item}}
		want := s.take(request).Results[0].Claim
		s.check(id+": claimed", want.Ref, item.Ref())
		s.check(id+": claimed again", s.take(request).Results[0].Claim, want)

		request.Node = bob()
		s.check(id+": to another node", s.take(request).Results[0].Claim, node.Claim{})
		request.Node, request.Items = alice(), []node.Item{s.again(item)}
		s.check(id+": to another incarnation", s.take(request).Results[0].Claim, node.Claim{})
		s.clear()
	}
}

// requestAgain repeats every instruction, by another node: it does nothing, whatever has become of the message since.
func requestAgain(s *subject) {
	for _, action := range actions() {
		id := fmt.Sprint(action)
		first := s.message(id)
		if action != node.Schedule {
			s.insert(first)
		}
		next := s.dueAt(id, noon().Add(-time.Hour))
		item := s.asked(instruction(action, next, nil))
		want := s.instructPast(item)[0]
		if want.Told == nil || want.Told.Again {
			s.Fatalf("%v: told %+v at first", action, want.Told)
		}
		repeated := *want.Told
		repeated.Again = true
		for range 2 {
			rows := s.rows()
			result, err := s.Peer.Take(s.Context(), node.TakeRequest{Node: bob(), Items: []node.Item{s.again(item)}})
			s.checkCall("Take", err, len(result.Results), 1)
			s.check(id+" again", result.Results[0], node.ItemResult{Outcome: want.Outcome, Told: &repeated})
			s.checkRows(rows, id+" again")
			s.instructPast(instruction(node.Cancel, s.message(id), nil)) // it is gone, or stays as it was promised
		}
		s.clear()
	}
}

// clear removes all messages.
func (s *subject) clear() {
	s.Helper()
	var refs []node.Ref
	for _, row := range s.rows() {
		refs = append(refs, row.Ref())
	}
	for _, r := range s.claim(bob(), latest()) {
		refs = append(refs, r.Ref())
	}
	s.delete(refs...)
}

// requestPrint has something else be asked for under the same name. What is told shows by its print that it is the
// answer to the first one.
func requestPrint(s *subject) {
	s.insert(s.message("a"), s.message("b"))
	item := s.asked(instruction(node.Cancel, s.message("a"), nil))
	told := *s.instructPast(item)[0].Told
	other := past(instruction(node.Cancel, s.message("b"), nil))
	other.Request = &node.Request{ID: item.Request.ID, Print: s.incarnation(), Keep: time.Hour}
	told.Again = true
	s.check("another question", s.instructPast(other), []node.ItemResult{{Outcome: node.Cancelled, Told: &told}})
	s.check("left", len(s.claim(bob(), latest())), 1)
}

func requestOther(s *subject) {
	s.insert(s.message("a"))
	outcomes := []node.Outcome{node.Cancelled, node.NotFound, node.NotFound}
	for _, want := range outcomes {
		result := s.instructPast(s.asked(instruction(node.Cancel, s.message("a"), nil)))[0]
		s.check("outcome", result.Outcome, want)
		s.check("told", result.Told.Outcome, want)
		s.check("again", result.Told.Again, false)
	}
}

// requestExpires has requests whose answers are kept for no time, and, where the clock can be moved, for an hour.
func requestExpires(s *subject) {
	s.insert(s.message("a"))
	item := s.asked(instruction(node.Cancel, s.message("a"), nil))
	item.Request.Keep = 0
	for _, want := range []node.Outcome{node.Cancelled, node.NotFound, node.NotFound} {
		result := s.instructPast(item)[0]
		s.check("outcome", result.Outcome, want)
		s.check("again", result.Told.Again, false)
	}
	item.Request.Keep = time.Hour
	s.check("kept now", s.instructPast(item)[0].Told.Again, false)
	s.check("kept", s.instructPast(item)[0].Told.Again, true)
	if s.Clock == nil {
		return
	}
	s.Clock.Advance(time.Hour - time.Millisecond)
	s.check("just before", s.instructPast(item)[0].Told.Again, true)
	s.Clock.Advance(2 * time.Millisecond)
	s.check("just after", s.instructPast(item)[0].Told.Again, false)
}

func requestTwice(s *subject) {
	s.insert(s.message("a"), s.message("b"))
	item := s.asked(instruction(node.Cancel, s.message("a"), nil))
	short := s.asked(instruction(node.Cancel, s.message("b"), nil))
	short.Request.Keep = 0
	results := s.instructPast(item, item, short, short)
	s.check("outcomes", outcomesOf(node.TakeResult{Results: results}), []node.Outcome{
		node.Cancelled, node.Cancelled, node.Cancelled, node.NotFound,
	})
	s.check("again", []bool{
		results[0].Told.Again, results[1].Told.Again, results[2].Told.Again, results[3].Told.Again,
	}, []bool{false, true, false, false})
}

func requestUntaken(s *subject) {
	s.insert(s.message("a"))
	item := s.asked(instruction(node.Cancel, s.message("a"), nil))
	s.pause(node.Intake)
	s.check("paused", s.pastTake(item).Results, []node.ItemResult{{Outcome: node.Untaken}})
	s.resume(node.Intake)
	s.check("resumed", s.instructPast(item)[0].Told.Again, false)
	s.pause(node.Intake)
	s.check("paused again", s.pastTake(item).Results, []node.ItemResult{{Outcome: node.Untaken}})
	s.resume(node.Intake)
	s.check("resumed again", s.instructPast(item)[0].Told.Again, true)
}

func requestRefused(s *subject) {
	s.insert(s.message("a"))
	item := s.asked(instruction(node.Cancel, s.message("with\x00NUL"), nil))
	s.check("refused", s.pastTake(item).Taken, 0)
	good := past(instruction(node.Cancel, s.message("a"), nil))
	good.Request = item.Request
	result := s.instructPast(good)[0]
	s.check("outcome", result.Outcome, node.Cancelled)
	s.check("again", result.Told.Again, false)
}

// requestLineage asks again in a lineage that begins later: the answer says in which one it was given, since what was
// true then need not be true any more.
func requestLineage(s *subject) {
	s.insert(s.message("a"))
	item := s.asked(instruction(node.Cancel, s.message("a"), nil))
	s.check("lineage", s.instructPast(item)[0].Told.Lineage, int64(1))
	s.begin()
	s.check("of before", s.instructPast(item)[0].Told.Lineage, int64(1))
	s.check("of now", s.instructPast(s.asked(item))[0].Told.Lineage, s.state().Lineage)
}

// requestSwept makes many requests whose answers expire at once, and sees that they do not gather; what has not expired
// stays.
func requestSwept(s *subject) {
	if s.Answers == nil {
		return
	}
	kept := s.asked(instruction(node.Cancel, s.message("kept"), nil))
	s.instructPast(kept)
	for range 20 {
		var items []node.Item
		for range 10 {
			item := s.asked(instruction(node.Cancel, s.message("a"), nil))
			item.Request.Keep = 0
			items = append(items, item)
		}
		s.instructPast(items...)
	}
	if n := s.Answers(s); n < 1 || n > 20 {
		s.Fatalf("there are %d answers after 200 that have expired and one that has not", n)
	}
	s.check("what is kept", s.instructPast(kept)[0].Told.Again, true)
	for range 10 {
		s.instructPast(s.asked(instruction(node.Cancel, s.message("a"), nil)))
	}
	s.check("what is left", s.Answers(s), 11)
}

// raceRequest has all callers make the same requests at once: each brings a message, which the next one removes. One of
// them is answered anew, and all the others are told what that one was.
func raceRequest(s *subject) {
	const requests = 20
	items := make([]node.Item, requests)
	for i := range items {
		items[i] = s.asked(instruction(node.Schedule, s.message("a"), nil))
		if i%2 == 1 {
			items[i] = s.asked(instruction(node.Cancel, s.message("a"), nil))
		}
	}
	var told [callers][requests]node.Told
	for i := range items {
		s.race(func(ctx context.Context, caller int, r race) error {
			item := items[i]
			item.Incarnation[0] = byte(caller)
			result, err := r.store.Take(ctx, node.TakeRequest{Node: r.owner, Items: []node.Item{item}})
			if err == nil {
				told[caller][i] = *result.Results[0].Told
			}
			return err
		})
	}
	for i := range items {
		first := 0
		for caller := range callers {
			if !told[caller][i].Again {
				first++
			}
			told[caller][i].Again = false
			s.check(fmt.Sprint("request ", i, " of caller ", caller), told[caller][i], told[0][i])
		}
		s.check(fmt.Sprint("how often request ", i, " was answered"), first, 1)
		want := node.Scheduled
		if i%2 == 1 {
			want = node.Cancelled
		}
		s.check(fmt.Sprint("outcome ", i), told[0][i].Outcome, want)
	}
}
