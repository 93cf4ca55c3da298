package storetest

import (
	"fmt"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// busyCases are about what another session has locked: no call waits for it, fails by it, or does anything to it, and
// each does the rest.
func busyCases() []testCase {
	cases := []testCase{
		{"claims pass over it", busyClaim},
		{"expired claims pass over it", busyExpired},
		{"thousands of expired claims do not hide the others", busyExpiredMany},
		{"what is settled", busySettle},
		{"occurrences that are settled", busySeries},
		{"what is reset", busyReset},
		{"a partition goes up to it", busyTake},
		{"each instruction", busyInstructions},
		{"a name that is being inserted", busyInsert},
		{"two names that are being inserted", busyInserts},
		{"a partition whose row is locked", busyPartition},
		{"what was taken in before", busyAgain},
		{"what stands in no partition", busyPast},
		{"a request that was answered before", busyRequest},
		{"what stands in line", busyLine},
		{"what is parked", busyParked},
	}
	for i := range cases {
		run := cases[i].run
		cases[i].run = func(s *subject) {
			if s.Hasty != nil {
				s.Store = s.Hasty
			}
			run(s)
		}
	}
	return cases
}

// lock has another session lock messages.
func (s *subject) lock(messages ...node.Message) (unlock func()) {
	s.Helper()
	var locks memory.Locks
	for i := range messages {
		locks.Messages = append(locks.Messages, node.MessageID{ID: messages[i].ID, Lane: messages[i].Lane})
	}
	return s.Lock(s, locks)
}

// settle settles messages.
func (s *subject) settle(next ...node.Next) []node.Settled {
	s.Helper()
	settled, err := s.Store.Settle(s.Context(), next)
	s.checkCall("Settle", err, len(settled), len(next))
	return settled
}

func busyClaim(s *subject) {
	list := s.messages(4)
	s.insert(list...)
	unlock := s.lock(list[0], list[2])
	s.checkMessages(s.claimWithin(alice(), latest(), share(2, 1<<20)), list[1], list[3])
	unlock()
	s.checkMessages(s.claim(bob(), latest()), list[0], list[2])
}

func busyExpired(s *subject) {
	list := s.messages(3)
	var claims []node.Claim
	for i := range list {
		claims = append(claims, s.insertClaimed(alice(), list[i])...)
		s.pass()
	}
	unlock := s.lock(list[0])
	s.check("expired beside the lock", s.expired(), claims[1:])
	s.check("the first of them", s.expiredWithin(1), claims[1:2])
	unlock()
	s.check("expired", s.expired(), claims)
}

func busyExpiredMany(s *subject) {
	const many = 1200
	list := s.messages(many + 1)
	for from := 0; from < many; from += 300 {
		s.insertClaimed(alice(), list[from:from+300]...)
	}
	s.pass()
	last := s.insertClaimed(alice(), list[many])
	unlock := s.lock(list[:many]...)
	s.check("expired beside the locks", s.expiredWithin(500), last)
	unlock()
	for range 2 {
		s.check("expired", len(s.expiredWithin(500)), 500)
	}
	s.check("expired", len(s.expired()), many+1)
}

func busySettle(s *subject) {
	list := s.messages(4)
	s.insert(list[:2]...)
	s.insertClaimed(alice(), list[2:]...)
	other, nobodys := s.message(list[0].ID), s.message("of nobody")
	unlock := s.lock(list[0], list[2])
	refs := append(refsOf(list), other.Ref(), nobodys.Ref())
	s.check("beside the locks", s.settle(node.Removals(refs...)...), []node.Settled{
		node.Busy, node.Removed, node.Busy, node.Removed, node.Gone, node.Gone,
	})
	s.check("once more", s.settle(node.Removals(refs...)...), []node.Settled{
		node.Busy, node.Gone, node.Busy, node.Gone, node.Gone, node.Gone,
	})
	unlock()
	s.check("after that", s.delete(refsOf(list)...), []bool{true, false, true, false})
}

func busySeries(s *subject) {
	list := []node.Message{s.series("a"), s.series("b"), s.series("c"), s.series("d"), s.message("e")}
	s.insert(list...)
	claimed := s.claim(alice(), latest())
	s.check("too late", s.instruct(instruction(node.FireNow, list[3], nil))[0].Outcome, node.TooLate)
	var next []node.Next
	var following []node.Message
	for i := range list[:4] {
		n, m := s.following(list[i], noon().Add(time.Hour))
		next, following = append(next, n), append(following, m)
	}
	next[3].Missed = claimed[3].Claim // and it is bound
	next = append(next, node.Removals(list[4].Ref())...)
	unlock := s.lock(list[0], list[2], list[3])
	s.check("beside the locks", s.settle(next...), []node.Settled{
		node.Busy, node.Rearmed, node.Busy, node.Promised, node.Removed,
	})
	unlock()
	s.check("after that", s.settle(next...), []node.Settled{
		node.Rearmed, node.Gone, node.Rearmed, node.Promised, node.Gone,
	})
	s.checkMessages(s.claim(bob(), latest()), following[:3]...)
}

func busyReset(s *subject) {
	list := s.messages(4)
	claims := s.insertClaimed(alice(), list...)
	unlock := s.lock(list[0], list[2])
	releases := make([]node.Release, len(claims))
	for i := range claims {
		releases[i] = node.Release{Claim: claims[i], Unsent: true}
	}
	releases[2].ReadiedBy = bob() // nobody holds that
	reset := func(what string, want ...node.Settled) {
		s.Helper()
		got, err := s.Store.Reset(s.Context(), releases)
		s.checkCall("Reset", err, len(got), len(releases))
		s.check(what, got, want)
	}
	reset("beside the locks", node.Busy, node.Freed, node.Gone, node.Freed)
	s.checkMessages(s.claim(bob(), latest()), list[1], list[3])
	reset("once more", node.Busy, node.Gone, node.Gone, node.Gone)
	unlock()
	reset("after that", node.Freed, node.Gone, node.Gone, node.Gone)
	s.checkMessages(s.claim(bob(), latest()), list[0])
}

// busyTakeRequest is a take of three partitions, with an instruction on a in the first two.
func (s *subject) busyTakeRequest(a node.Message) node.TakeRequest {
	s.Helper()
	request := node.TakeRequest{Node: alice(), Hold: hold}
	for range 3 {
		request.From = append(request.From, s.place(1, 10))
	}
	for from := range request.From {
		for i := range 4 {
			item := node.Item{
				From: from, Epoch: 1, Offset: 10 + int64(i), Action: node.Schedule,
				Message: s.message(fmt.Sprintf("%d of %d", i, from)), Claim: i%2 == 0,
			}
			if i == 2 && from < 2 {
				item.Action, item.Message, item.Claim = node.Replace, s.message(a.ID), false
			}
			request.Items = append(request.Items, item)
		}
	}
	return request
}

func busyTake(s *subject) {
	a := s.message("a")
	s.insert(a)
	request := s.busyTakeRequest(a)
	unlock := s.lock(a)
	result := s.take(request)
	one := []node.Outcome{node.Scheduled, node.Scheduled, node.Blocked, node.Untaken}
	all := []node.Outcome{node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled}
	s.check("outcomes beside the lock", outcomesOf(result), append(append(one[:4:4], one...), all...))
	s.check("refused", result.Refused, make([]bool, 3))
	want := []node.Position{{Epoch: 1, Offset: 12}, {Epoch: 1, Offset: 12}, {Epoch: 1, Offset: 14}}
	s.check("positions", result.Positions, want)
	s.check("stored positions", s.positions(request.From...), want)
	s.checkClaim(result.Results[0].Claim, request.Items[0].Ref(), alice(), hold)

	result = s.take(request)
	s.check("outcomes once more", outcomesOf(result), append(append(one[:4:4], one...), all...))
	unlock()
	result = s.take(request)
	replaced := []node.Outcome{node.Scheduled, node.Scheduled, node.Replaced, node.Scheduled}
	s.check("outcomes after that", outcomesOf(result)[4:], append(replaced, all...))
	s.check("positions", result.Positions, []node.Position{
		{Epoch: 1, Offset: 14}, {Epoch: 1, Offset: 14}, {Epoch: 1, Offset: 14},
	})
}

// busyInstructions has each action, for what waits, what is claimed and what is not about the row at all.
func busyInstructions(s *subject) {
	for _, action := range actions() {
		for _, claims := range []bool{false, true} {
			m := s.message(fmt.Sprint(action, claims))
			if claims {
				s.insertClaimed(bob(), m)
			} else {
				s.insert(m)
			}
			place := s.place(1, 10)
			request := node.TakeRequest{Node: alice(), Hold: hold, From: []node.Place{place}}
			item := instruction(action, m, nil)
			item.Incarnation = s.incarnation()
			item.From, item.Epoch, item.Offset = 0, 1, 11
			request.Items = []node.Item{{Epoch: 1, Offset: 10}, item, {Epoch: 1, Offset: 12}}
			before := s.rows()
			unlock := s.lock(m)
			result := s.take(request)
			s.check("outcomes", outcomesOf(result), []node.Outcome{node.Passed, node.Blocked, node.Untaken})
			s.check("position", result.Positions[0].Offset, int64(11))
			unlock()
			s.checkRows(before, "a take that has met a lock")
			result = s.take(request)
			s.check("position", result.Positions[0].Offset, int64(13))
			if o := outcomesOf(result)[1]; o == node.Blocked || o == node.Skipped || o == node.Untaken {
				s.Fatalf("%v after the lock: %v", action, o)
			}
		}
	}
}

func busyInsert(s *subject) {
	request := s.busyTakeRequest(s.message("a"))
	unlock := s.lock(s.message("a"))
	result := s.take(request)
	one := []node.Outcome{node.Scheduled, node.Scheduled, node.Blocked, node.Untaken}
	all := []node.Outcome{node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled}
	s.check("outcomes beside the insert", outcomesOf(result), append(append(one[:4:4], one...), all...))
	s.check("stored positions", s.positions(request.From...), []node.Position{
		{Epoch: 1, Offset: 12}, {Epoch: 1, Offset: 12}, {Epoch: 1, Offset: 14},
	})
	unlock()
	result = s.take(request)
	s.check("outcomes after that", outcomesOf(result)[:8], []node.Outcome{
		node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled,
		node.Scheduled, node.Scheduled, node.Replaced, node.Scheduled,
	})
}

func busyInserts(s *subject) {
	list := s.messages(6)
	unlock := s.lock(list[1], list[4])
	request := node.TakeRequest{Node: alice(), Hold: hold}
	for i := range list {
		request.From = append(request.From, s.place(1, 10))
		request.Items = append(request.Items, node.Item{
			From: i, Epoch: 1, Offset: 10, Action: node.Schedule, Message: list[i],
		})
	}
	result := s.take(request)
	s.check("outcomes", outcomesOf(result), []node.Outcome{
		node.Scheduled, node.Blocked, node.Scheduled, node.Scheduled, node.Blocked, node.Scheduled,
	})
	unlock()
	s.check("outcomes after that", outcomesOf(s.take(request)), many(6, node.Scheduled))
}

func busyPartition(s *subject) {
	a := s.message("a")
	request := s.busyTakeRequest(a)
	s.take(node.TakeRequest{From: request.From[1:2], Items: []node.Item{{Epoch: 1, Offset: 10}}})
	request.From[1].Offset = 11
	unlock := s.Lock(s, memory.Locks{Partitions: []node.Partition{request.From[1].Partition}})
	result := s.take(request)
	all := []node.Outcome{node.Scheduled, node.Scheduled, node.Scheduled, node.Scheduled}
	s.check("outcomes", outcomesOf(result), append(append(all[:4:4], many(4, node.Blocked)...), all...))
	s.check("refused", result.Refused, make([]bool, 3))
	want := []node.Position{{Epoch: 1, Offset: 14}, {Epoch: 1, Offset: 11}, {Epoch: 1, Offset: 14}}
	s.check("positions", result.Positions, want)
	unlock()
	s.check("stored positions", s.positions(request.From...), want)
	s.check("outcomes after that", outcomesOf(s.take(request))[4:8], []node.Outcome{
		node.Skipped, node.Scheduled, node.Replaced, node.Scheduled,
	})
}

// busyAgain repeats a take whose messages are locked meanwhile: they were taken in, and that is what it says.
func busyAgain(s *subject) {
	list := s.messages(2)
	request := s.request(alice(), submissions(list, true)...)
	first := s.take(request)
	unlock := s.lock(list...)
	s.check("the repeat", s.take(request), first)
	unlock()
}

func busyPast(s *subject) {
	list := s.messages(3)
	s.insert(list...)
	unlock := s.lock(list[1])
	var items []node.Item
	for i := range list {
		items = append(items, instruction(node.Cancel, list[i], nil))
		items[i].Incarnation = s.incarnation()
	}
	s.check("outcomes", outcomesOf(s.pastTake(items...)), []node.Outcome{
		node.Cancelled, node.Blocked, node.Cancelled,
	})
	unlock()
	s.checkMessages(s.claim(bob(), latest()), list[1])
}

func busyRequest(s *subject) {
	m := s.message("a")
	item := past(instruction(node.Schedule, m, nil))
	item.Message = m
	item.Request = &node.Request{ID: s.incarnation(), Print: s.incarnation(), Keep: node.AnswerKept}
	unlock := s.lock(m)
	s.check("beside the lock", outcomesOf(s.pastTake(item)), []node.Outcome{node.Blocked})
	unlock()
	s.check("after that", outcomesOf(s.pastTake(item)), []node.Outcome{node.Scheduled})
	unlock = s.lock(m)
	again := s.pastTake(item)
	s.check("once more", outcomesOf(again), []node.Outcome{node.Scheduled})
	s.check("told again", again.Results[0].Told.Again, true)
	unlock()
}

// busyLine locks the second of a line while the first is settled: nobody waits for it.
func busyLine(s *subject) {
	list := s.messages(2)
	line := s.incarnation()
	for i := range list {
		list[i].Line = line
	}
	s.insert(list...)
	claimed := s.claim(alice(), latest())
	s.release(node.Release{Claim: claimed[1].Claim, Due: latest(), Unsent: true, Behind: true})
	unlock := s.lock(list[1])
	s.check("delete", s.delete(list[0].Ref()), []bool{true})
	unlock()
	s.checkMessages(s.claim(bob(), latest()), list[1])
}

func busyParked(s *subject) {
	list := s.messages(3)
	s.park("3", list...)
	unlock := s.lock(list[0])
	claimed := s.parked("3")
	s.checkMessages(claimed, list[1:]...)
	unlock()
	unlock = s.lock(list[1])
	releases := []node.Release{{Claim: claimed[0].Claim, Part: "4"}, {Claim: claimed[1].Claim, Part: "4"}}
	reset, err := s.Store.Reset(s.Context(), releases)
	s.checkCall("Reset", err, len(reset), len(releases))
	s.check("beside the lock", reset, []node.Settled{node.Busy, node.Freed})
	s.checkMessages(s.parked("4"), list[2])
	unlock()
	s.check("after that", s.release(releases[0]), []bool{true})
	s.checkMessages(s.parked("4"), list[1])
	s.checkMessages(s.parked("3"), list[0])
}
