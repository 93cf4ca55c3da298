package storetest

import (
	"math"

	"chronos/node"
)

func pauseCases() []testCase {
	return append(ownedPauseCases(),
		testCase{"pause/positions are created and marks set while the intake is paused", pauseCatchUp})
}

func ownedPauseCases() []testCase {
	return []testCase{
		{"pause/nothing is claimed on a paused lane", pauseLane},
		{"pause/a take on a paused lane stores as waiting", pauseTake},
		{"pause/what is claimed already is settled and given back", pauseHeld},
		{"pause/nothing is taken in while the intake is paused", pauseIntake},
		{"pause/a take that is repeated into a pause is refused", pauseRepeated},
		{"pause/the first one who paused it stays", pauseTwice},
	}
}

// switches returns the side of the store that things are paused by, which every store has.
func (s *subject) switches() node.Switches {
	s.Helper()
	switches, has := s.Store.(node.Switches)
	if !has {
		s.Fatalf("%T has no switches", s.Store)
	}
	return switches
}

func (s *subject) pause(lane string) node.Pause {
	s.Helper()
	pause, err := s.switches().Pause(s.Context(), node.Pause{Lane: lane, By: "somebody", Why: "a \"reason\" – 100 %"})
	if err != nil {
		s.Fatal(err)
	}
	return pause
}

func (s *subject) resume(lane string) bool {
	s.Helper()
	was, err := s.switches().Resume(s.Context(), lane)
	if err != nil {
		s.Fatal(err)
	}
	return was
}

func pauseLane(s *subject) {
	a, b := s.message("a"), s.message("b")
	b.Lane = output + "2"
	s.insert(a, b)
	s.pause(output)
	for range 2 {
		s.checkMessages(s.claim(alice(), latest()), b) // and not a
		s.reset(s.expired()...)
	}
	if !s.state().Claims() || s.state().IntakePaused {
		s.Fatalf("a paused lane shows in the state: %+v", s.state())
	}
	s.check("resume", s.resume(output), true)
	s.checkMessages(s.claim(alice(), latest()), a, b)
}

func pauseTake(s *subject) {
	s.pause(output)
	a, b := s.message("a"), s.message("b")
	b.Lane = output + "2"
	results := s.insertAll(alice(), submission{a, true}, submission{b, true})
	s.check("on the paused lane", results[0], node.ItemResult{Outcome: node.Scheduled})
	s.checkClaim(results[1].Claim, b.Ref(), alice(), hold)
	s.resume(output)
	s.checkMessages(s.claim(alice(), latest()), a)
}

func pauseHeld(s *subject) {
	a, b := s.message("a"), s.message("b")
	s.insert(a, b)
	held := claimsOf(s.claim(alice(), latest()))
	s.pause(output)
	s.check("delete", s.delete(a.Ref()), []bool{true})
	s.check("expired", s.expired(), held[1:])
	s.check("reset", s.reset(held[1]), []bool{true})
	s.checkMessages(s.claim(alice(), latest()))
	s.resume(output)
	s.checkMessages(s.claim(alice(), latest()), b)
}

func pauseIntake(s *subject) {
	waiting := s.message("before")
	s.insert(waiting)
	s.pause(node.Intake)
	if !s.state().IntakePaused {
		s.Fatal("the state does not show that the intake is paused")
	}
	request := s.request(alice(), submission{s.message("a"), false}, submission{s.message("b"), true})
	request.Items = append(request.Items, node.Item{Epoch: s.at.Epoch, Offset: s.at.Offset + 2}) // one to pass over
	want := node.TakeResult{
		State: s.state(), Positions: []node.Position{s.at.Position}, Refused: []bool{true},
		Taken: 3, Results: many(3, node.ItemResult{Outcome: node.Untaken}),
	}
	before := s.rows()
	s.check("take", s.take(request), want)
	s.checkRows(before, "a take while the intake is paused")
	s.checkMessages(s.claim(alice(), latest()), waiting) // it comes out all the same

	s.check("resume", s.resume(node.Intake), true)
	s.accept(request, s.take(request))
	s.check("the state", s.state().IntakePaused, false)
}

// pauseRepeated repeats a take, whose reply was lost, say, after a pause.
func pauseRepeated(s *subject) {
	request := s.request(alice(), submission{s.message("a"), true})
	first := s.accept(request, s.take(request))
	s.pause(node.Intake)
	again := s.take(request)
	s.check("refused", again.Refused, []bool{true})
	s.check("positions", again.Positions, []node.Position{s.at.Position})
	s.check("results", again.Results, []node.ItemResult{{Outcome: node.Untaken}})
	s.resume(node.Intake)
	s.check("after it", s.take(request).Results, first)
}

func pauseTwice(s *subject) {
	switches := s.switches()
	first := s.pause(output)
	if first.Lane != output || first.By != "somebody" || first.Why != "a \"reason\" – 100 %" || first.Since.IsZero() {
		s.Fatalf("the pause is %+v", first)
	}
	s.checkInstant("Since", first.Since)
	second, err := switches.Pause(s.Context(), node.Pause{Lane: output, By: "another", Why: "late"})
	if err != nil {
		s.Fatal(err)
	}
	s.check("the pause in force", second, first)
	intake := s.pause(node.Intake)
	pauses, err := switches.Pauses(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.check("pauses", pauses, []node.Pause{intake, first})
	s.check("resume what is not paused", s.resume("other"), false)
	s.check("resume", s.resume(output), true)
	s.check("resume again", s.resume(output), false)
	if pauses, err = switches.Pauses(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.check("pauses", pauses, []node.Pause{intake})
}

// pauseCatchUp begins a lineage while the intake is paused: it gets on when that is resumed, and not before.
func pauseCatchUp(s *subject) {
	m := s.message("a")
	s.insert(m)
	s.pause(node.Intake)
	fresh := node.Place{Partition: s.partition(), Position: node.Position{Epoch: 1, Offset: 7}}
	s.check("new position", s.positions(fresh), []node.Position{fresh.Position})
	state := s.catchUp(node.CatchUpRequest{
		Lineage: 1, Begin: true, Marks: []node.Extent{{Partition: s.at.Partition, End: s.at.Offset + 1}},
	})
	if state.Lineage != 2 || !state.CatchingUp || !state.IntakePaused {
		s.Fatalf("the state is %+v", state)
	}
	request := s.request(alice(), submission{s.message("b"), false})
	s.check("refused", s.take(request).Refused, []bool{true})
	s.checkMessages(s.claimFor(node.ClaimRequest{
		Node: alice(), Until: latest(), Lanes: []node.Share{{Lane: output, Limit: 9, Bytes: math.MaxInt}},
	}))
	s.resume(node.Intake)
	s.accept(request, s.take(request))
	if s.state().CatchingUp {
		s.Fatalf("the state is %+v", s.state())
	}
	if got := len(s.claim(alice(), latest())); got != 2 {
		s.Fatalf("%d messages can be claimed, want 2", got)
	}
}
