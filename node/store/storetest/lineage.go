package storetest

import (
	"math"
	"time"

	"chronos/node"
)

func bindCases() []testCase {
	return []testCase{
		{"bind/the first one binds, others do not", bindFirst},
		{"bind/by force", bindForce},
		{"bind/a new store adopts nothing", bindAdopt},
	}
}

func bindFirst(s *subject) {
	ours := node.BindRequest{Cluster: "cluster", Group: "group"}
	want := node.Bound{Cluster: "cluster", Group: "group"}
	s.check("first", s.bind(ours), want)
	s.check("again", s.bind(ours), want)
	for _, other := range []node.BindRequest{
		{Cluster: "cluster", Group: "other"},
		{Cluster: "other", Group: "group"},
		{Cluster: "Cluster", Group: "group"},
		{Cluster: "cluster", Group: "group "},
		{Cluster: "group", Group: "cluster"},
	} {
		s.check("another", s.bind(other), want)
	}
	place := s.place(1, 10)
	want.Partitions = 1
	s.check("with a position", s.bind(ours), want)
	s.positions(place, node.Place{Partition: s.partition()})
	want.Partitions = 2
	s.check("with two", s.bind(node.BindRequest{Cluster: "other", Group: "other"}), want)
}

func bindForce(s *subject) {
	s.bind(node.BindRequest{Cluster: "cluster", Group: "group"})
	place, m := s.place(1, 10), s.message("a")
	s.insert(m)
	for range 2 {
		s.check("by force", s.bind(node.BindRequest{Cluster: "other", Group: "new", Force: true}),
			node.Bound{Cluster: "other", Group: "new", Partitions: 2})
	}
	s.check("the former", s.bind(node.BindRequest{Cluster: "cluster", Group: "group"}),
		node.Bound{Cluster: "other", Group: "new", Partitions: 2})
	s.check("position", s.positions(place), []node.Position{place.Position})
	s.checkMessages(s.claim(alice(), latest()), m)
}

// bindAdopt offers positions to a store that does not come from an older deployment.
func bindAdopt(s *subject) {
	place := node.Place{Partition: s.partition(), Position: node.Position{Epoch: 1, Offset: 10}}
	s.check("bound", s.bind(node.BindRequest{Cluster: "cluster", Group: "group", Adopt: []node.Place{place}}),
		node.Bound{Cluster: "cluster", Group: "group"})
	lower := place
	lower.Offset = 3
	s.check("position", s.positions(lower), []node.Position{lower.Position})
}

// upgradeCases are those of a store that has come from an older deployment.
func upgradeCases() []testCase {
	return []testCase{
		{"adopts once", adoptOnce},
		{"adopts that nothing was committed", adoptNothing},
		{"adopts for its own cluster only", adoptOthers},
	}
}

func adoptOnce(s *subject) {
	s.Upgrade(s)
	ours := node.BindRequest{Cluster: "cluster", Group: "group"}
	want := node.Bound{Cluster: "cluster", Group: "group", Adopting: true}
	for range 2 {
		s.check("before", s.bind(ours), want)
	}
	kept := s.place(1, 10)
	higher := kept
	higher.Offset = 99
	one := node.Place{Partition: s.partition(), Position: node.Position{Epoch: node.UnknownEpoch, Offset: 50}}
	two := node.Place{Partition: s.partition(), Position: node.Position{Epoch: 3, Offset: 70}}
	ours.Adopt = []node.Place{one, higher, two}
	want.Adopting, want.Partitions = false, 3
	for range 2 {
		s.check("adopt", s.bind(ours), want)
	}
	late := node.Place{Partition: s.partition(), Position: node.Position{Offset: 7}}
	ours.Adopt = []node.Place{late}
	s.check("adopt a second time", s.bind(ours), want)
	s.check("positions", s.positions(one, two, kept), []node.Position{one.Position, two.Position, kept.Position})
}

func adoptNothing(s *subject) {
	s.Upgrade(s)
	ours := node.BindRequest{Cluster: "cluster", Group: "group", Adopt: []node.Place{}}
	s.check("adopt", s.bind(ours), node.Bound{Cluster: "cluster", Group: "group"})
	ours.Adopt = []node.Place{{Partition: s.partition(), Position: node.Position{Offset: 7}}}
	s.check("adopt again", s.bind(ours), node.Bound{Cluster: "cluster", Group: "group"})
}

func adoptOthers(s *subject) {
	s.Upgrade(s)
	s.bind(node.BindRequest{Cluster: "cluster", Group: "group"})
	place := node.Place{Partition: s.partition(), Position: node.Position{Offset: 7}}
	want := node.Bound{Cluster: "cluster", Group: "group", Adopting: true}
	other := node.BindRequest{Cluster: "other", Group: "group", Adopt: []node.Place{place}}
	s.check("others", s.bind(other), want)
	other.Force = true
	s.check("others by force", s.bind(other), node.Bound{Cluster: "other", Group: "group", Partitions: 1})
}

func lineageCases() []testCase {
	return []testCase{
		{"lineage/the first one", lineageFirst},
		{"lineage/only by who has seen it", lineageCompare},
		{"lineage/above all that are known", lineageFloor},
		{"lineage/nothing is claimed for the hold time", lineageGate},
		{"lineage/nothing is taken in for the hold time", lineageHolding},
		{"lineage/callback lanes wait for callbacks under way", lineageCalls},
		{"lineage/nothing is claimed until all marks are passed", lineageMarks},
		{"lineage/a mark that is passed already is none", lineageNoMarks},
		{"lineage/a mark is none below what retention took", lineageRetention},
		{"lineage/marks are lowered and given up, never raised", lineageLowered},
		{"lineage/partitions of marks get positions", lineageCreates},
		{"lineage/what is taken in meanwhile waits", lineageTakes},
		{"lineage/rewind sets positions", lineageRewind},
		{"lineage/what is held stays held", lineageHeld},
	}
}

// begin begins a new lineage without a hold time.
func (s *subject) begin(marks ...node.Extent) node.State {
	s.Helper()
	return s.catchUp(node.CatchUpRequest{Lineage: s.state().Lineage, Begin: true, Marks: marks})
}

// update brings the marks up to date.
func (s *subject) update(marks ...node.Extent) node.State {
	s.Helper()
	return s.catchUp(node.CatchUpRequest{Lineage: s.state().Lineage, Marks: marks})
}

// extent returns what place's partition holds, with a log that ends there.
func extent(place node.Place, end int64) node.Extent {
	return node.Extent{Partition: place.Partition, First: 0, End: end}
}

// takeTo takes records in up to an offset.
func (s *subject) takeTo(place node.Place, epoch int32, offset int64) node.State {
	s.Helper()
	place.Position = s.positions(place)[0]
	result := s.take(node.TakeRequest{From: []node.Place{place}, Items: []node.Item{pass(0, epoch, offset-1)}})
	s.check("outcomes", outcomesOf(result), []node.Outcome{node.Passed})
	return result.State
}

// checkGate ends the case when the store claims although it must not, or does not although it may.
func (s *subject) checkGate(what string, state node.State, catchingUp bool) {
	s.Helper()
	s.checkClaims(what, state, node.State{Lineage: state.Lineage, CatchingUp: catchingUp})
}

// checkClaims ends the case when the state is not the one wanted, or the store claims although it must not in that
// state, or does not although it may.
func (s *subject) checkClaims(what string, state, want node.State) {
	s.Helper()
	s.check(what, state, want)
	s.check("state", s.state(), state)
	result, err := s.Store.Claim(s.Context(), node.ClaimRequest{
		Node: alice(), Hold: hold, Until: latest(), Lanes: s.unlimited(),
	})
	s.checkCall("Claim", err, 0, 0)
	s.check("state of a claim", result.State, state)
	if claimed := len(result.Messages) > 0; claimed != want.Claims() {
		s.Fatalf("%s: the state is %+v, and %d messages were claimed", what, want, len(result.Messages))
	}
	s.reset(claimsOf(result.Messages)...)
}

func lineageFirst(s *subject) {
	s.insert(s.message("a"))
	s.check("state", s.state(), node.State{Lineage: 1})
	s.checkGate("first lineage", s.state(), false)
}

func lineageCompare(s *subject) {
	place := s.place(1, 10)
	s.insert(s.message("a"))
	rewind := place
	rewind.Offset = 3
	for _, lineage := range []int64{0, 2, 7, -1} {
		s.checkGate("another lineage", s.catchUp(node.CatchUpRequest{
			Lineage: lineage, Begin: true, Floor: 9, Hold: time.Hour, Rewind: []node.Place{rewind},
			Marks: []node.Extent{extent(place, 99), extent(node.Place{Partition: s.partition()}, 5)},
		}), false)
	}
	s.check("state", s.state(), node.State{Lineage: 1})
	s.check("position", s.positions(place), []node.Position{place.Position})
	s.check("partitions", s.bind(node.BindRequest{Cluster: "cluster", Group: "group"}).Partitions, 2)

	begin := node.CatchUpRequest{Lineage: 1, Begin: true, Marks: []node.Extent{extent(place, 99)}}
	want := node.State{Lineage: 2, CatchingUp: true}
	for _, what := range []string{"begin", "begin again"} {
		s.check(what, s.catchUp(begin), want)
	}
	s.check("late update", s.catchUp(node.CatchUpRequest{Lineage: 1}), want)
	s.check("update", s.catchUp(node.CatchUpRequest{Lineage: 2}), node.State{Lineage: 2})
}

func lineageFloor(s *subject) {
	lineage := int64(1)
	for _, c := range []struct{ floor, least int64 }{{0, 2}, {1, 3}, {100, 101}, {100, 102}, {1 << 40, 1<<40 + 1}} {
		state := s.catchUp(node.CatchUpRequest{Lineage: lineage, Begin: true, Floor: c.floor})
		if state.Lineage <= lineage || state.Lineage <= c.floor {
			s.Fatalf("a lineage after %d and above %d has the number %d", lineage, c.floor, state.Lineage)
		}
		lineage = state.Lineage
	}
	s.check("state", s.state(), node.State{Lineage: lineage})
}

func lineageGate(s *subject) {
	const hold = 50 * time.Millisecond
	s.insert(s.message("a"))
	start := time.Now()
	state := s.catchUp(node.CatchUpRequest{Lineage: 1, Begin: true, Hold: hold})
	holding := node.State{Lineage: 2, CatchingUp: true, Holding: true}
	s.check("state", state, holding)
	if s.Clock != nil {
		s.Clock.Advance(hold - time.Microsecond)
		s.checkClaims("a moment before", s.state(), holding)
		s.Clock.Advance(time.Microsecond)
		s.checkGate("at that moment", s.state(), false)
		return
	}
	for len(s.claim(alice(), latest())) == 0 {
		if time.Since(start) > time.Minute {
			s.Fatal("nothing is claimed a minute after a hold time of 50 ms")
		}
	}
	if passed := time.Since(start); passed < hold-hold/20 {
		s.Fatalf("a message was claimed %v after a lineage with a hold time of %v began", passed, hold)
	}
	s.check("state", s.state(), node.State{Lineage: 2})
}

// lineageHolding takes records in while claims from before the lineage may still be held. A cancel must not be believed
// then: the claim that it would be too late for may be one that the store has forgotten. So nothing is taken in, and
// the caller is told as if the intake were paused; positions are created nevertheless.
func lineageHolding(s *subject) {
	s.insert(s.message("a"))
	state := s.catchUp(node.CatchUpRequest{Lineage: 1, Begin: true, Hold: time.Hour})
	holding := node.State{Lineage: 2, CatchingUp: true, Holding: true}
	s.checkClaims("begin", state, holding)
	fresh := node.Place{Partition: s.partition(), Position: node.Position{Epoch: 1, Offset: 7}}
	s.check("new position", s.positions(fresh), []node.Position{fresh.Position})

	answer := s.answer("a")
	request := s.request(alice(), submission{s.message("b"), true})
	cancel := instruction(node.Cancel, s.message("a"), answer)
	cancel.Epoch, cancel.Offset = s.at.Epoch, s.at.Offset+1
	request.Items = append(request.Items, cancel)
	before := s.rows()
	for range 2 {
		s.check("take", s.take(request), node.TakeResult{
			State: holding, Positions: []node.Position{s.at.Position}, Refused: []bool{true},
			Taken: 2, Results: many(2, node.ItemResult{Outcome: node.Untaken}),
		})
		s.checkRows(before, "a take while claims from before may be held")
	}
	if s.Clock != nil {
		s.Clock.Advance(time.Hour - time.Microsecond)
		s.check("refused a moment before", s.take(request).Refused, []bool{true})
		s.Clock.Advance(time.Microsecond)
	} else {
		state = s.catchUp(node.CatchUpRequest{Lineage: 2, Begin: true})
		s.check("the next lineage, which holds nothing up", state, node.State{Lineage: 3})
	}
	results := s.accept(request, s.take(request))
	s.check("outcome", results[0].Outcome, node.Scheduled)
	s.check("outcome", results[1], node.ItemResult{Outcome: node.Cancelled})
	s.checkReply(answer, headersOf("chronosOutcome", "cancelled", "chronosFormerDeadline", noonText)...)
}

// lineageCalls begins a lineage in which callbacks of before may be under way for longer than claims on topics are
// held. Topics go on. On callback lanes nothing is claimed, and only Schedule is decided: an instruction is busy, and
// so waits what is behind it in its partition.
func lineageCalls(s *subject) {
	const lane = "http:lane"
	call, topic := s.message("a"), s.message("b")
	call.Lane = lane
	s.insert(call, topic)
	parked := s.message("parked")
	parked.Lane = lane
	s.park("host", parked)
	onHost := node.Share{Lane: lane, Part: "host", Limit: 9, Bytes: math.MaxInt}
	holding := node.State{Lineage: 2, HoldingCalls: true}
	s.check("begin", s.catchUp(node.CatchUpRequest{Lineage: 1, Begin: true, Calls: time.Hour}), holding)
	share := node.Share{Lane: lane, Limit: 9, Bytes: math.MaxInt}
	other := node.Share{Lane: output, Limit: 9, Bytes: math.MaxInt}
	s.checkMessages(s.claimWithin(alice(), latest(), share, onHost, other), topic)

	next := s.message("c")
	next.Lane = lane
	request := s.request(alice(), submission{next, false})
	behind := instruction(node.Cancel, call, s.answer("a"))
	behind.Epoch, behind.Offset = s.at.Epoch, s.at.Offset+1
	last := s.request(alice(), submission{s.message("d"), false}).Items[0]
	last.Offset = s.at.Offset + 2
	request.Items = append(request.Items, behind, last)
	result := s.take(request)
	outcomes := make([]node.Outcome, 0, len(result.Results))
	for _, r := range result.Results {
		outcomes = append(outcomes, r.Outcome)
	}
	s.check("outcomes", outcomes, []node.Outcome{node.Scheduled, node.Blocked, node.Untaken})
	s.check("refused", result.Refused, []bool{false})
	s.check("position", result.Positions[0].Offset, behind.Offset)

	if s.Clock != nil {
		s.Clock.Advance(time.Hour)
	} else {
		s.catchUp(node.CatchUpRequest{Lineage: 2, Begin: true})
	}
	s.check("after that", s.state().HoldingCalls, false)
	s.check("outcome", s.take(request).Results[1].Outcome, node.Cancelled)
	s.checkMessages(s.claimWithin(alice(), latest(), share, onHost), next, parked)
}

func lineageMarks(s *subject) {
	one, two := s.place(1, 10), s.place(1, 20)
	s.insert(s.message("a"))
	s.checkGate("begin", s.begin(extent(one, 15), extent(two, 22)), true)
	s.checkGate("one of two", s.takeTo(one, 1, 15), true)
	s.checkGate("one before", s.takeTo(two, 1, 21), true)
	s.checkGate("all", s.takeTo(two, 1, 22), false)

	// What was passed is passed: a partition whose end Kafka loses afterwards does not close the gate again.
	s.checkGate("moved down", s.takeTo(two, 2, 5), false)

	// A mark that is passed by far is passed, too.
	s.checkGate("next", s.begin(extent(one, 17), extent(two, 8)), true)
	s.checkGate("one far behind", s.takeTo(one, 1, 1000), true)
	s.checkGate("both", s.takeTo(two, 3, 8), false)
}

func lineageNoMarks(s *subject) {
	one, two := s.place(1, 10), s.place(1, 20)
	s.insert(s.message("a"))
	s.checkGate("no partitions", s.begin(), false)
	s.checkGate("at their ends", s.begin(extent(one, 10), extent(two, 3)), false)
}

// lineageRetention has a position in a log whose first record lies above it: nothing may ever come to move it.
func lineageRetention(s *subject) {
	one, two := s.place(1, 10), s.place(1, 20)
	s.insert(s.message("a"))
	log := func(place node.Place, first, end int64) node.Extent {
		return node.Extent{Partition: place.Partition, First: first, End: end}
	}
	s.checkGate("all is gone", s.begin(log(one, 15, 15), log(two, 25, 25)), false)
	s.checkGate("one record is left", s.begin(log(one, 14, 15), log(two, 25, 25)), true)
	s.checkGate("it is taken in", s.takeTo(one, 1, 15), false)
	s.checkGate("two are left", s.begin(log(one, 18, 20), log(two, 25, 25)), true)
	s.checkGate("one of them is gone", s.update(log(one, 19, 20), log(two, 25, 25)), true)
	s.checkGate("both are, and others came", s.update(log(one, 20, 99), log(two, 25, 99)), false)
}

func lineageLowered(s *subject) {
	one, two, three := s.place(1, 10), s.place(1, 20), s.place(1, 30)
	s.insert(s.message("a"))
	s.begin(extent(one, 15), extent(two, 25), extent(three, 35))
	s.checkGate("raised", s.update(extent(one, 99), extent(two, 99), extent(three, 99)), true)
	s.takeTo(one, 1, 15)
	s.takeTo(two, 1, 25)
	s.checkGate("passed marks are not raised", s.update(extent(one, 99), extent(two, 99), extent(three, 99)), true)
	s.checkGate("lowered", s.update(extent(one, 99), extent(two, 99), extent(three, 33)), true)
	s.checkGate("not raised again", s.update(extent(one, 99), extent(two, 99), extent(three, 35)), true)
	s.checkGate("passed where it was lowered to", s.takeTo(three, 1, 33), false)

	s.begin(extent(one, 50), extent(two, 50))
	s.checkGate("given up", s.update(extent(one, 60)), true)
	s.checkGate("not restored", s.update(extent(one, 60), extent(two, 60)), true)
	s.checkGate("lowered to the position", s.update(extent(one, 15), extent(two, 60)), false)
	s.checkGate("nothing to be raised", s.update(extent(one, 99), extent(two, 99)), false)
}

// lineageCreates has partitions that the store knows nothing of: they were added, or the backup is from before.
func lineageCreates(s *subject) {
	s.insert(s.message("a"))
	added := node.Extent{Partition: s.partition(), First: 40, End: 42}
	empty := node.Extent{Partition: s.partition(), First: 7, End: 7}
	s.checkGate("begin", s.begin(added, empty), true)
	want := []node.Position{
		{Epoch: node.UnknownEpoch, Offset: 40}, {Epoch: node.UnknownEpoch, Offset: 7},
	}
	places := []node.Place{{Partition: added.Partition}, {Partition: empty.Partition}}
	s.check("positions", s.positions(places...), want)
	s.checkGate("taken in", s.takeTo(node.Place{Partition: added.Partition}, 1, 42), false)
	later := node.Extent{Partition: s.partition(), First: 3, End: 9}
	s.checkGate("update", s.update(later), false)
	s.check("positions", s.positions(node.Place{Partition: later.Partition}), []node.Position{
		{Epoch: node.UnknownEpoch, Offset: 3},
	})
}

// lineageTakes takes messages in while the store catches up. Those that ask for a claim wait, also in the take that
// passes the last mark, because a cancel may come behind it.
func lineageTakes(s *subject) {
	place := s.place(1, 10)
	list := s.messages(3)
	s.begin(extent(place, 12))
	request := requestAt(place, alice(), submissions(list, true)...)
	first := request
	first.Items = request.Items[:1]
	s.check("results", s.take(first).Results, []node.ItemResult{{Outcome: node.Scheduled}})
	first.Items = request.Items[:2]
	result := s.take(first)
	s.check("results", result.Results, many(2, node.ItemResult{Outcome: node.Scheduled}))
	s.check("state", result.State, node.State{Lineage: 2})
	result = s.take(request)
	s.checkClaim(result.Results[2].Claim, list[2].Ref(), alice(), hold)
	s.check("claims", s.expired(), []node.Claim{result.Results[2].Claim})
	for _, r := range s.claim(bob(), latest()) {
		s.check("attempts", r.Attempts, 1)
	}
}

// lineageRewind sets positions downwards, and where there are none, and raises none. The mark is that of the position
// after it.
func lineageRewind(s *subject) {
	down, up, kept, later := s.place(5, 10), s.place(5, 20), s.place(5, 30), s.place(5, 40)
	fresh := node.Place{Partition: s.partition(), Position: node.Position{Epoch: 2, Offset: 4}}
	s.insert(s.message("a"))
	rewind := []node.Place{
		{Partition: down.Partition, Position: node.Position{Epoch: 3, Offset: 2}},
		{Partition: up.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: 25}},
		fresh,
		{Partition: later.Partition, Position: node.Position{Epoch: 6, Offset: 35}},
	}
	marks := []node.Extent{extent(down, 10), extent(up, 20), extent(kept, 30), extent(fresh, 4), extent(later, 40)}
	s.check("without a beginning", s.catchUp(node.CatchUpRequest{Lineage: 1, Rewind: rewind}), node.State{Lineage: 1})
	s.check("position", s.positions(down), []node.Position{down.Position})
	state := s.catchUp(node.CatchUpRequest{Lineage: 1, Begin: true, Rewind: rewind, Marks: marks})
	s.checkGate("rewind", state, true)
	got := s.positions(down, up, kept, node.Place{Partition: fresh.Partition}, later)
	s.check("positions", got, []node.Position{
		rewind[0].Position, up.Position, kept.Position, fresh.Position, later.Position,
	})

	// A node that goes on from before is refused; the records since then are taken in a second time.
	m := s.message("b")
	s.check("refused", s.take(requestAt(down, alice(), submission{Message: m})).Refused, []bool{true})
	from := rewind[0]
	result := s.take(node.TakeRequest{From: []node.Place{from}, Items: []node.Item{
		pass(0, 3, 2), schedule(0, 5, 9, m),
	}})
	s.check("outcomes", outcomesOf(result), []node.Outcome{node.Passed, node.Scheduled})
	s.checkGate("caught up", result.State, false)
}

// lineageHeld begins a lineage while messages are claimed. They stay so, and can be deleted and given back.
func lineageHeld(s *subject) {
	place := s.place(1, 10)
	list := s.messages(3)
	s.insert(list[0])
	claims := s.insertClaimed(alice(), list[1], list[2])
	before := s.rows()
	s.begin(extent(place, 99))
	s.checkRows(before, "a new lineage")
	s.check("delete", s.delete(claims[0].Ref), []bool{true})
	s.check("claims", s.expired(), claims[1:])
	s.check("reset", s.reset(claims[1]), []bool{true})
	s.checkMessages(s.claim(alice(), latest()))
	s.update()
	s.checkMessages(s.claim(alice(), latest()), list[0], list[2])
}

// lineageSuspect gives the server another history. Nothing is claimed or taken in until a new lineage has begun.
func lineageSuspect(s *subject) {
	list := s.messages(2)
	s.insert(list[0])
	s.Promote(s)
	suspect := node.State{Lineage: 1, Suspect: true}
	s.check("state", s.state(), suspect)
	result, err := s.Store.Claim(s.Context(), node.ClaimRequest{
		Node: alice(), Hold: hold, Until: latest(), Lanes: s.unlimited(),
	})
	s.checkCall("Claim", err, len(result.Messages), 0)
	s.check("state", result.State, suspect)
	answer := s.answer(list[0].ID)
	cancel := instruction(node.Cancel, s.message(list[0].ID), answer)
	request := s.request(alice(), submission{list[1], true})
	cancel.Epoch, cancel.Offset = s.at.Epoch, s.at.Offset+1
	request.Items = append(request.Items, cancel)
	s.check("take", s.take(request), node.TakeResult{
		State: suspect, Positions: []node.Position{s.at.Position}, Refused: []bool{true},
		Taken: 2, Results: many(2, node.ItemResult{Outcome: node.Untaken}),
	})
	s.check("past Kafka", s.pastTake(instruction(node.Cancel, s.message(list[0].ID), answer)).Results,
		[]node.ItemResult{{Outcome: node.Untaken}})
	s.check("update", s.catchUp(node.CatchUpRequest{Lineage: 1}), suspect)
	s.check("begin", s.begin(), node.State{Lineage: 2})
	s.checkMessages(s.replies(latest()))
	s.insert(list[1])
	s.checkMessages(s.claim(bob(), latest()), list...)
}
