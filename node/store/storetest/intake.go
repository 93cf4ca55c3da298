package storetest

import "chronos/node"

func positionCases() []testCase {
	return []testCase{
		{"positions/created where missing, and only there", positionsCreated},
		{"positions/a topic made anew is another one", positionsRecreated},
		{"positions/a take without one is refused and creates none", takeWithoutPosition},
		{"positions/decide by epoch and offset", takeByPosition},
		{"positions/a lower epoch is skipped", takeLowerEpoch},
		{"positions/move downwards with a higher epoch", takeMovesDown},
		{"positions/the last record taken sets them", takeSetsPosition},
		{"positions/decided by what was before the call", takeDecidesByBefore},
		{"positions/a start above is refused", takeAbove},
		{"positions/refusal is by partition", takeRefusesPartition},
		{"positions/records that pass only move them", takePass},
		{"positions/a repeated take changes nothing and returns its claims", takeRepeated},
		{"positions/a late take changes nothing", takeLate},
	}
}

// pass returns the item that asks for nothing.
func pass(from int, epoch int32, offset int64) node.Item {
	return node.Item{From: from, Epoch: epoch, Offset: offset}
}

// schedule returns the item that asks for a message.
func schedule(from int, epoch int32, offset int64, m node.Message) node.Item {
	return node.Item{From: from, Epoch: epoch, Offset: offset, Action: node.Schedule, Message: m}
}

// outcomes returns what became of each item.
func outcomesOf(result node.TakeResult) []node.Outcome {
	outcomes := []node.Outcome{}
	for _, item := range result.Results {
		outcomes = append(outcomes, item.Outcome)
	}
	return outcomes
}

func positionsCreated(s *subject) {
	one, two := s.place(3, 30), s.place(node.UnknownEpoch, 0)
	three := node.Place{Partition: s.partition(), Position: node.Position{Epoch: 7, Offset: 1 << 60}}
	other := one
	other.Number++
	other.Offset = 5
	lower, higher := one, two
	lower.Epoch, lower.Offset = 1, 10
	higher.Epoch, higher.Offset = 9, 90
	for range 2 {
		s.check("positions", s.positions(higher, three, lower, other), []node.Position{
			two.Position, three.Position, one.Position, other.Position,
		})
	}
	s.check("partitions", s.bind(node.BindRequest{Cluster: "cluster", Group: "group"}).Partitions, 4)
}

func positionsRecreated(s *subject) {
	old := s.place(3, 30)
	anew := old
	anew.TopicID[15]++
	anew.Position = node.Position{Epoch: 0, Offset: 0}
	s.check("positions", s.positions(anew, old), []node.Position{anew.Position, old.Position})
	s.take(node.TakeRequest{From: []node.Place{anew}, Items: []node.Item{pass(0, 0, 0)}})
	s.check("positions", s.positions(anew, old), []node.Position{{Epoch: 0, Offset: 1}, old.Position})
}

func takeWithoutPosition(s *subject) {
	place := node.Place{Partition: s.partition()}
	m := s.message("a")
	request := requestAt(place, alice(), submission{m, true})
	result := s.take(request)
	s.check("result", result, node.TakeResult{
		State: result.State, Positions: []node.Position{{}}, Refused: []bool{true}, Taken: 1,
		Results: []node.ItemResult{{Outcome: node.Untaken}},
	})
	s.check("partitions", s.bind(node.BindRequest{Cluster: "cluster", Group: "group"}).Partitions, 0)
	s.check("claims", len(s.expired()), 0)

	s.positions(place)
	s.check("outcomes", outcomesOf(s.take(request)), []node.Outcome{node.Scheduled})
}

// takeByPosition tells for one record each whether it is taken in, and where the position is then: the pairs of
// design 3.1, which differ from a comparison of offsets and from one of (epoch, offset) in order.
func takeByPosition(s *subject) {
	const unknown = node.UnknownEpoch
	for _, c := range []struct {
		position node.Position
		epoch    int32
		offset   int64
		takes    bool
	}{
		{node.Position{Epoch: 2, Offset: 10}, 2, 10, true},
		{node.Position{Epoch: 2, Offset: 10}, 2, 11, true},
		{node.Position{Epoch: 2, Offset: 10}, 2, 9, false},
		{node.Position{Epoch: 2, Offset: 10}, 3, 10, true},
		{node.Position{Epoch: 2, Offset: 10}, 3, 4, true},
		{node.Position{Epoch: 2, Offset: 10}, 1, 9, false},
		{node.Position{Epoch: 2, Offset: 10}, 1, 10, false},
		{node.Position{Epoch: 2, Offset: 10}, 1, 99, false},
		{node.Position{Epoch: unknown, Offset: 10}, 5, 10, true},
		{node.Position{Epoch: unknown, Offset: 10}, 5, 9, false},
		{node.Position{Epoch: 2, Offset: 10}, unknown, 10, true},
		{node.Position{Epoch: 2, Offset: 10}, unknown, 9, false},
		{node.Position{Epoch: unknown, Offset: 10}, unknown, 9, false},
		{node.Position{Epoch: unknown, Offset: 10}, unknown, 10, true},
	} {
		place := s.place(c.position.Epoch, c.position.Offset)
		m := s.message("a")
		want, position := node.Skipped, c.position
		if c.takes {
			want, position = node.Scheduled, node.Position{Epoch: c.epoch, Offset: c.offset + 1}
		}
		from := place
		from.Offset = min(from.Offset, c.offset)
		from.Epoch = min(from.Epoch, c.epoch)
		result := s.take(node.TakeRequest{
			From: []node.Place{from}, Items: []node.Item{schedule(0, c.epoch, c.offset, m)},
		})
		if outcome := result.Results[0].Outcome; outcome != want || result.Positions[0] != position {
			s.Fatalf("a record at epoch %d, offset %d, where the position is %+v: got %+v, want %v and %+v",
				c.epoch, c.offset, c.position, result, want, position)
		}
		s.check("stored position", s.positions(place), []node.Position{position})
		s.check("delete", s.delete(m.Ref()), []bool{c.takes})
	}
}

// takeLowerEpoch has what a zombie holds of an end of the log that Kafka has lost, at offsets that nobody has taken
// in: second-engine.md, finding 3.
func takeLowerEpoch(s *subject) {
	place := s.place(1, 2)
	from := place
	from.Epoch = 0
	lost := s.messages(3)
	result := s.take(node.TakeRequest{From: []node.Place{from}, Items: []node.Item{
		schedule(0, 0, 2, lost[0]), schedule(0, 0, 3, lost[1]), schedule(0, 0, 9, lost[2]),
	}})
	s.check("outcomes", outcomesOf(result), many(3, node.Skipped))
	s.check("refused", result.Refused, []bool{false})
	s.check("positions", result.Positions, []node.Position{place.Position})
	s.checkMessages(s.claim(alice(), latest()))
}

// takeMovesDown follows the same finding to its end: Kafka has lost [2, 3), the next leader wrote other records from 1
// on, and those are taken in, once.
func takeMovesDown(s *subject) {
	place := s.place(0, 3)
	list := s.messages(2)
	from := place
	from.Offset, from.Epoch = 1, 0
	request := node.TakeRequest{From: []node.Place{from}, Items: []node.Item{schedule(0, 1, 1, list[0])}}
	for _, what := range []string{"take", "repeated take"} {
		result := s.take(request)
		s.check(what, outcomesOf(result), []node.Outcome{node.Scheduled})
		s.check("positions", result.Positions, []node.Position{{Epoch: 1, Offset: 2}})
	}
	s.check("delete", s.delete(list[0].Ref()), []bool{true})
	s.check("take after the delete", outcomesOf(s.take(request)), []node.Outcome{node.Skipped})
	request.Items = append(request.Items, schedule(0, 1, 2, list[1]))
	s.check("take of the next", outcomesOf(s.take(request)), []node.Outcome{node.Skipped, node.Scheduled})
	s.check("position", s.positions(place), []node.Position{{Epoch: 1, Offset: 3}})
}

// takeSetsPosition has gaps between the records, as compaction and transactions leave them, several epochs, and
// records at the end that are skipped and so do not count.
func takeSetsPosition(s *subject) {
	one, two, three := s.place(4, 10), s.place(4, 20), s.place(4, 30)
	result := s.take(node.TakeRequest{From: []node.Place{three, one, two}, Items: []node.Item{
		pass(1, 4, 12), pass(2, 4, 20), pass(1, 4, 17), pass(2, 6, 25), pass(0, 3, 40), pass(1, 5, 18), pass(2, 3, 99),
	}})
	want := []node.Position{three.Position, {Epoch: 5, Offset: 19}, {Epoch: 6, Offset: 26}}
	s.check("positions", result.Positions, want)
	s.check("stored", s.positions(three, one, two), want)
	s.check("outcomes", outcomesOf(result), []node.Outcome{
		node.Passed, node.Passed, node.Passed, node.Passed, node.Skipped, node.Passed, node.Skipped,
	})
}

// takeDecidesByBefore has a record of a higher epoch first, after which one of the epoch before would be skipped: each
// is decided on by itself.
func takeDecidesByBefore(s *subject) {
	place := s.place(4, 10)
	list := s.messages(3)
	result := s.take(node.TakeRequest{From: []node.Place{place}, Items: []node.Item{
		schedule(0, 5, 10, list[0]), schedule(0, 4, 11, list[1]), schedule(0, node.UnknownEpoch, 12, list[2]),
	}})
	s.check("outcomes", outcomesOf(result), many(3, node.Scheduled))
	s.check("positions", result.Positions, []node.Position{{Epoch: node.UnknownEpoch, Offset: 13}})
}

func takeAbove(s *subject) {
	const unknown = node.UnknownEpoch
	for _, c := range []struct {
		position, from node.Position
		refused        bool
	}{
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 2, Offset: 10}, false},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 2, Offset: 9}, false},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 2, Offset: 11}, true},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 3, Offset: 10}, true},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 3, Offset: 4}, true},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 1, Offset: 11}, true},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: 1, Offset: 10}, false},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: unknown, Offset: 10}, false},
		{node.Position{Epoch: 2, Offset: 10}, node.Position{Epoch: unknown, Offset: 11}, true},
		{node.Position{Epoch: unknown, Offset: 10}, node.Position{Epoch: 7, Offset: 10}, false},
		{node.Position{Epoch: unknown, Offset: 10}, node.Position{Epoch: 7, Offset: 11}, true},
	} {
		place := s.place(c.position.Epoch, c.position.Offset)
		from := node.Place{Partition: place.Partition, Position: c.from}
		m := s.message("a")
		result := s.take(node.TakeRequest{From: []node.Place{from}, Items: []node.Item{schedule(0, 9, 11, m)}})
		want, position := node.Scheduled, node.Position{Epoch: 9, Offset: 12}
		if c.refused {
			want, position = node.Untaken, c.position
		}
		if result.Refused[0] != c.refused || result.Results[0].Outcome != want || result.Positions[0] != position {
			s.Fatalf("a take from %+v where the position is %+v: got %+v, want refused: %v",
				c.from, c.position, result, c.refused)
		}
		s.check("stored position", s.positions(place), []node.Position{position})
		s.check("delete", s.delete(m.Ref()), []bool{!c.refused})
	}
}

func takeRefusesPartition(s *subject) {
	good, above := s.place(1, 10), s.place(1, 20)
	missing := node.Place{Partition: s.partition()}
	from := above
	from.Offset++
	list := s.messages(6)
	list[4].ID = list[1].ID
	result := s.take(node.TakeRequest{
		Node: bob(), Hold: hold, From: []node.Place{from, good, missing},
		Items: []node.Item{
			schedule(1, 1, 10, list[0]), schedule(0, 1, 21, list[1]), schedule(2, 1, 0, list[2]),
			schedule(1, 1, 11, list[3]), schedule(1, 1, 12, list[4]), pass(0, 1, 22),
		},
	})
	s.check("refused", result.Refused, []bool{true, false, true})
	s.check("positions", result.Positions, []node.Position{above.Position, {Epoch: 1, Offset: 13}, {}})
	s.check("outcomes", outcomesOf(result), []node.Outcome{
		node.Scheduled, node.Untaken, node.Untaken, node.Scheduled, node.Scheduled, node.Untaken,
	})
	s.check("stored positions", s.positions(above, good), []node.Position{above.Position, {Epoch: 1, Offset: 13}})
	s.checkMessages(s.claim(alice(), latest()), list[0], list[3], list[4])
}

func takePass(s *subject) {
	place := s.place(1, 10)
	before := s.rows()
	request := node.TakeRequest{From: []node.Place{place}, Items: []node.Item{pass(0, 1, 10), pass(0, 1, 11)}}
	s.check("outcomes", outcomesOf(s.take(request)), many(2, node.Passed))
	s.check("outcomes again", outcomesOf(s.take(request)), many(2, node.Skipped))
	s.check("position", s.positions(place), []node.Position{{Epoch: 1, Offset: 12}})
	s.checkRows(before, "records that pass")
	s.checkMessages(s.claim(alice(), latest()))
}

// takeRepeated repeats a take whose reply was lost: by its node, by another one, after what it stored was claimed by
// another, given back, and deleted.
func takeRepeated(s *subject) {
	list := s.messages(4)
	request := s.request(alice(), submission{list[0], true}, submission{list[1], false}, submission{list[2], true})
	request.Items = append(request.Items, pass(0, 1, s.at.Offset+3))
	first := s.accept(request, s.take(request))
	s.pass()
	before := s.rows()
	want := []node.ItemResult{first[0], first[1], first[2], {Outcome: node.Skipped}}
	s.check("repeated take", s.take(request).Results, want)
	s.check("position", s.positions(s.at), []node.Position{s.at.Position})
	s.checkRows(before, "a repeated take")
	other := request
	other.Node = bob()
	scheduled := node.ItemResult{Outcome: node.Scheduled}
	want = []node.ItemResult{scheduled, scheduled, scheduled, {Outcome: node.Skipped}}
	s.check("by another node", s.take(other).Results, want)
	s.checkRows(before, "a take by another node")

	s.check("reset", s.reset(first[0].Claim), []bool{true})
	s.check("delete", s.delete(list[2].Ref()), []bool{true})
	held := s.claim(bob(), list[0].Deadline)[0].Claim
	want = []node.ItemResult{scheduled, scheduled, {Outcome: node.Skipped}, {Outcome: node.Skipped}}
	s.check("after the delete", s.take(request).Results, want)
	want[0].Claim = held
	s.check("by another node", s.take(other).Results, want)
	s.checkMessages(s.claim(alice(), latest()), list[1])
}

// takeLate has a zombie take records in that the next owner of the partition has taken in already, each with
// incarnations of its own; some of what the owner stored is gone again.
func takeLate(s *subject) {
	mine, late := s.messages(4), s.messages(4)
	place := s.place(1, 10)
	s.check("outcomes", outcomesOf(s.take(requestAt(place, alice(), submissions(mine, false)...))),
		many(4, node.Scheduled))
	s.check("delete", s.delete(mine[0].Ref(), mine[3].Ref()), []bool{true, true})
	before := s.rows()
	zombie := requestAt(place, bob(), submissions(late, true)...)
	result := s.take(zombie)
	s.check("results", result.Results, many(4, node.ItemResult{Outcome: node.Skipped}))
	s.check("positions", result.Positions, []node.Position{{Epoch: 1, Offset: 14}})
	s.checkRows(before, "a late take")

	// Of a take that reaches further than the owner's, the rest is new.
	next := s.message("next")
	zombie.Items = append(zombie.Items, schedule(0, 1, 14, next))
	s.check("outcomes", outcomesOf(s.take(zombie)), append(many(4, node.Skipped), node.Scheduled))
	s.checkMessages(s.claim(alice(), latest()), next, mine[1], mine[2])
}

// takeAtomic lets the database fail in the middle of a take. No message is stored, and no position has moved; repeated,
// the take does all of it.
func takeAtomic(s *subject) {
	one, two := s.place(1, 10), s.place(1, 20)
	list := s.messages(20)
	request := requestAt(one, alice(), submissions(list, true)...)
	request.From = append(request.From, two)
	request.Items[0].From, request.Items[0].Offset = 1, 20
	request.Items[19].From, request.Items[19].Offset = 1, 21
	mend := s.Trip(s, list[12].ID)
	result, err := s.Store.Take(s.Context(), request)
	mend()
	if err == nil {
		s.Fatalf("a take that could not be done: %s", brief(result))
	}
	s.check("positions", s.positions(one, two), []node.Position{one.Position, two.Position})
	s.check("claims", len(s.expired()), 0)
	s.checkMessages(s.claim(bob(), latest()))
	s.check("outcomes", outcomesOf(s.take(request)), many(20, node.Scheduled))
	s.check("claims", len(s.expired()), 20)
}
