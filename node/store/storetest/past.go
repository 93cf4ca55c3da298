package storetest

import (
	"fmt"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// pastCases are about instructions that come past Kafka (node.NoPlace), and about those that act on one incarnation
// only (node.Item.Only), wherever they come from.
func pastCases() []testCase {
	return []testCase{
		{"past/every instruction acts without a partition", pastActs},
		{"past/records and others act in the order of the items", pastOrder},
		{"past/no position refuses it, skips it or is moved by it", pastPositions},
		{"past/it is decided anew when it is repeated", pastRepeated},
		{"past/nothing is done while claims from before may be held", pastHolding},
		{"past/nothing is done while the intake is paused", pastPaused},
		{"past/what it brings is claimed like a record's", pastClaims},
		{"past/what comes after a refusal is not done", pastRefusal},
		{"past/thousands at once", pastMany},
		{"only/an instruction for the incarnation that is stored", onlySame},
		{"only/an instruction for another incarnation", onlyOther},
		{"only/an instruction for what is gone", onlyGone},
		{"only/in a batch, by what the items before have left", onlyBatch},
	}
}

// past has an item stand in no partition.
func past(item node.Item) node.Item {
	item.From, item.Epoch, item.Offset = node.NoPlace, 0, 0
	return item
}

// only has an item act on one incarnation.
func only(item node.Item, m node.Message) node.Item {
	item.Only = m.Incarnation
	return item
}

// pastTake takes in items that stand in no partition, for alice.
func (s *subject) pastTake(items ...node.Item) node.TakeResult {
	s.Helper()
	request := node.TakeRequest{Node: alice(), Hold: hold}
	for _, item := range items {
		request.Items = append(request.Items, past(item))
	}
	return s.take(request)
}

// instructPast is pastTake for items all of which are dealt with.
func (s *subject) instructPast(items ...node.Item) []node.ItemResult {
	s.Helper()
	result := s.pastTake(items...)
	s.check("positions", len(result.Positions), 0)
	s.check("taken", result.Taken, len(items))
	s.check("state", result.State, s.state())
	return result.Results
}

// actions are all instructions.
func actions() []node.Action {
	return []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow}
}

// pastActs has each instruction come for a message that waits, for one that is claimed and for none.
func pastActs(s *subject) {
	for _, st := range standings() {
		switch st.name {
		case "a message that is not there", "a message that waits", "a message that is claimed",
			"an occurrence that is claimed":
			s.checkTable(st, func(item node.Item, _ *memory.Row) node.Item { return past(item) }, st.outcomes)
		}
	}
}

// checkTable has each instruction, as change makes it, come for a message of its own that stands in that way.
func (s *subject) checkTable(st standing, change func(node.Item, *memory.Row) node.Item, outcomes [5]node.Outcome) {
	s.Helper()
	for i, action := range actions() {
		before := st.make(s, s.message(fmt.Sprint(action)))
		next := s.dueAt(fmt.Sprint(action), noon().Add(-time.Hour))
		next.Value = []byte("next")
		answer := s.answer(next.ID)
		item := change(instruction(action, next, answer), before)
		want := outcomes[i]
		var results []node.ItemResult
		if item.From == node.NoPlace {
			results = s.instructPast(item)
		} else {
			results = s.instruct(item)
		}
		if results[0] != (node.ItemResult{Outcome: want}) {
			s.Fatalf("%s, %v: got %+v, want %v", st.name, action, results[0], want)
		}
		after := before
		if want == node.NotFound {
			s.checkReply(answer, headersOf("chronosOutcome", "not_found")...)
		} else {
			after = effect(want, before, &next)
			s.checkReply(answer, told(want, before, after)...)
		}
		s.checkStored(fmt.Sprint(action), next.Ref(), after)
		s.checkLeft(fmt.Sprint(action), next.ID, after)
	}
}

// pastOrder has records of one id and instructions past Kafka for it in one take.
func pastOrder(s *subject) {
	first, second, third := s.message("a"), s.message("a"), s.message("a")
	third.Value = []byte("third")
	later := s.dueAt("a", noon().Add(time.Hour))
	items := []node.Item{
		past(instruction(node.Cancel, s.message("a"), nil)),
		instruction(node.Schedule, first, nil),
		past(instruction(node.Cancel, s.message("a"), nil)),
		past(instruction(node.Schedule, second, nil)),
		instruction(node.Cancel, s.message("a"), nil),
		past(instruction(node.FireNow, s.message("a"), nil)),
		instruction(node.Schedule, third, nil),
		past(instruction(node.Reschedule, later, nil)),
	}
	request := s.request(alice())
	start := s.at
	for _, item := range items {
		if item.From != node.NoPlace {
			item.Epoch, item.Offset = s.at.Epoch, s.at.Offset
			s.at.Offset++
		}
		request.Items = append(request.Items, item)
	}
	request.From[0] = start
	result := s.take(request)
	s.check("outcomes", outcomesOf(result), []node.Outcome{
		node.NotFound, node.Scheduled, node.Cancelled, node.Scheduled, node.Cancelled, node.NotFound, node.Scheduled,
		node.Rescheduled,
	})
	s.check("positions", result.Positions, []node.Position{s.at.Position})
	third.Incarnation, third.Deadline = movedBy(later, third), later.Deadline
	s.checkStored("what is left", third.Ref(), &memory.Row{Message: third, Due: third.Deadline})
	s.checkMessages(s.claim(bob(), latest()), third)
}

// pastPositions has instructions past Kafka beside records that are refused, and beside records that are skipped.
func pastPositions(s *subject) {
	s.insert(s.messages(3)...)
	gap := s.at
	gap.Offset++
	for i, c := range []struct {
		from    node.Place
		record  node.Outcome
		refused bool
	}{{gap, node.Untaken, true}, {s.at, node.Skipped, false}} {
		record := instruction(node.Cancel, s.message("message-00002"), nil)
		record.Epoch, record.Offset = s.at.Epoch, s.at.Offset-1
		id := fmt.Sprintf("message-%05d", i)
		result := s.take(node.TakeRequest{
			Node: alice(), Hold: hold, From: []node.Place{c.from},
			Items: []node.Item{past(instruction(node.Cancel, s.message(id), nil)), record},
		})
		s.check("outcomes", outcomesOf(result), []node.Outcome{node.Cancelled, c.record})
		s.check("refused", result.Refused, []bool{c.refused})
		s.check("positions", result.Positions, []node.Position{s.at.Position})
	}
	fresh := s.message("message-00000")
	s.insert(fresh) // the next record is taken in where the last one left off
	s.check("messages", len(s.claim(bob(), latest())), 2)
}

func pastRepeated(s *subject) {
	before := s.message("moved")
	s.insert(s.message("cancelled"), before)
	moved := s.dueAt("moved", noon().Add(time.Hour))
	cancel, move := instruction(node.Cancel, s.message("cancelled"), nil), instruction(node.Reschedule, moved, nil)
	s.check("once", s.instructPast(cancel, move), []node.ItemResult{
		{Outcome: node.Cancelled}, {Outcome: node.Rescheduled},
	})
	// Meanwhile it is put off.
	moved.Key, moved.Value = []byte("key of moved"), []byte("value of moved")
	by := moved
	moved.Incarnation = movedBy(by, before)
	claimed := s.claim(bob(), latest())
	s.checkMessages(claimed, moved)
	s.release(node.Release{Claim: claimed[0].Claim, Due: latest(), Unsent: true})
	s.check("again", s.instructPast(cancel, move), []node.ItemResult{
		{Outcome: node.NotFound}, {Outcome: node.Rescheduled},
	})
	moved.Incarnation = movedBy(by, moved)
	s.checkStored("moved again", moved.Ref(), &memory.Row{Message: moved, Due: moved.Deadline})
	s.checkMessages(s.claim(bob(), moved.Deadline), moved)
}

// checkUntaken ends the case unless an instruction past Kafka does nothing now.
func (s *subject) checkUntaken() {
	s.Helper()
	before := s.rows()
	fresh := instruction(node.Schedule, s.message("fresh"), s.answer("fresh"))
	fresh.Claim = true
	want := many(2, node.ItemResult{Outcome: node.Untaken})
	result := s.pastTake(instruction(node.Cancel, s.message("a"), s.answer("a")), fresh)
	s.check("results", result.Results, want)
	s.check("state", result.State, s.state())
	s.check("refusal", result.Refusal, "")
	s.checkRows(before, "a take while nothing is taken in")
}

// pastHolding gives instructions while claims from before the lineage may still be held: what is cancelled now may be
// what a node is about to publish.
func pastHolding(s *subject) {
	s.insert(s.message("a"))
	s.catchUp(node.CatchUpRequest{Lineage: 1, Begin: true, Hold: time.Hour})
	s.checkUntaken()
	if s.Clock != nil {
		s.Clock.Advance(time.Hour)
	} else {
		s.begin()
	}
	s.check("after it", s.instructPast(instruction(node.Cancel, s.message("a"), nil)),
		[]node.ItemResult{{Outcome: node.Cancelled}})
	s.checkMessages(s.replies(latest()))
}

func pastPaused(s *subject) {
	s.insert(s.message("a"))
	s.pause(node.Intake)
	s.checkUntaken()
	s.resume(node.Intake)
	s.check("after it", s.instructPast(instruction(node.Cancel, s.message("a"), nil)),
		[]node.ItemResult{{Outcome: node.Cancelled}})
	s.checkMessages(s.replies(latest()))
}

func pastClaims(s *subject) {
	m, gone := s.message("a"), s.message("b")
	one, two := instruction(node.Schedule, m, nil), instruction(node.Schedule, gone, nil)
	one.Claim, two.Claim = true, true
	results := s.instructPast(one, two, instruction(node.Cancel, s.message("b"), nil))
	s.checkClaim(results[0].Claim, m.Ref(), alice(), hold)
	s.check("claims", len(s.expired()), 1)
	results[0].Claim = node.Claim{}
	s.check("results", results, []node.ItemResult{
		{Outcome: node.Scheduled}, {Outcome: node.Scheduled}, {Outcome: node.Cancelled},
	})
}

func pastRefusal(s *subject) {
	s.insert(s.message("a"), s.message("b"))
	bad := s.message("with\x00NUL")
	result := s.pastTake(instruction(node.Cancel, s.message("a"), nil), instruction(node.Cancel, bad, nil),
		instruction(node.Cancel, s.message("b"), nil))
	s.check("results", result.Results, []node.ItemResult{{Outcome: node.Cancelled}})
	s.check("refusal", result.Refusal, bad.Refusal())
	s.check("left", len(s.claim(bob(), latest())), 1)
}

// pastMany cancels thousands in one take: most of them wait, some are claimed, some are others by now, some are gone.
func pastMany(s *subject) {
	list := s.messages(2500)
	s.insert(list...)
	claimed := s.claimWithin(bob(), latest(), share(10, 1<<30))
	var items []node.Item
	want := make([]node.Outcome, len(list))
	for i, m := range list {
		item := only(instruction(node.Cancel, node.Message{ID: m.ID, Lane: m.Lane}, nil), m)
		switch {
		case i < len(claimed):
			want[i] = node.TooLate
		case i%100 == 50:
			want[i], item.Only = node.NotFound, s.incarnation()
		case i%100 == 51:
			want[i], item.ID = node.NotFound, item.ID+" that is none"
		default:
			want[i] = node.Cancelled
		}
		items = append(items, item)
	}
	s.check("outcomes", outcomesOf(node.TakeResult{Results: s.instructPast(items...)}), want)
	s.check("left", len(s.claim(alice(), latest())), 2*(len(list)/100))
}

// onlySame: an instruction for the incarnation that is stored is an instruction like any other.
func onlySame(s *subject) {
	for _, st := range standings() {
		switch st.name {
		case "a message that waits", "a message that is claimed", "a message that was fired":
			s.checkTable(st, func(item node.Item, before *memory.Row) node.Item {
				return only(item, before.Message)
			}, st.outcomes)
		}
	}
}

// onlyOther: whatever the message that is stored has become, it is none of the instruction's business, and nothing is
// told of it.
func onlyOther(s *subject) {
	for _, st := range standings() {
		s.checkTable(st, func(item node.Item, _ *memory.Row) node.Item {
			return only(item, s.message("another"))
		}, [5]node.Outcome(many(5, node.NotFound)))
	}
}

// onlyGone has a message come out and another one of its id be stored, between the choice and the instruction.
func onlyGone(s *subject) {
	for _, action := range actions() {
		chosen, next := s.message("a"), s.message("a")
		s.insert(chosen)
		s.delete(chosen.Ref())
		item := only(instruction(action, s.message("a"), nil), chosen)
		notFound := []node.ItemResult{{Outcome: node.NotFound}}
		s.check(fmt.Sprint(action, " of nothing"), s.instructPast(item), notFound)
		s.insert(next)
		s.check(fmt.Sprint(action, " of another"), s.instructPast(item), notFound)
		s.checkMessages(s.claim(bob(), latest()), next)
		s.delete(next.Ref())
	}
}

// onlyBatch: what the items before have left is what counts, not what was stored before the take.
func onlyBatch(s *subject) {
	first, second, third := s.message("a"), s.message("a"), s.message("a")
	moved := second
	moved.Incarnation = movedBy(third, second)
	s.insert(first)
	s.check("outcomes", outcomesOf(node.TakeResult{Results: s.instructPast(
		only(instruction(node.Replace, second, nil), first),
		only(instruction(node.Cancel, s.message("a"), nil), first),
		only(instruction(node.Reschedule, third, nil), second),
		only(instruction(node.Cancel, s.message("a"), nil), second),
		only(instruction(node.Cancel, s.message("a"), nil), moved),
		only(instruction(node.Schedule, s.message("a"), nil), moved),
	)}), []node.Outcome{
		node.Replaced, node.NotFound, node.Rescheduled, node.NotFound, node.Cancelled, node.NotFound,
	})
	s.checkMessages(s.claim(bob(), latest()))
}
