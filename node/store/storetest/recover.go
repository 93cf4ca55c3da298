package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

func deleteCases() []testCase {
	return []testCase{
		{"delete/one incarnation only", deleteIncarnation},
		{"delete/whoever holds the claim", deleteAnyOwner},
		{"delete/results in order, a repeated one false", deleteOrder},
		{"delete/late delete spares the next incarnation", deleteLate},
	}
}

func stuckCases() []testCase {
	return []testCase{
		{"stuck/age from hold on", stuckAge},
		{"stuck/oldest first, limited", stuckOrder},
		{"stuck/every node's claims and no waiting messages", stuckOwners},
		{"stuck/changes nothing", stuckReads},
	}
}

func resetCases() []testCase {
	return []testCase{
		{"reset/makes the message wait again", resetWaits},
		{"reset/only the claim that is held", resetFence},
		{"reset/former claim of the same node", resetFormer},
		{"reset/late reset spares the next incarnation", resetLate},
		{"reset/puts off", resetDue},
		{"reset/results in order, the first of two acts", resetOrder},
	}
}

func deleteIncarnation(s *subject) {
	m := s.message("a")
	s.insert(m)
	before := s.rows()
	s.check("delete", s.delete(
		node.Ref{ID: "a", Topic: output, Incarnation: s.incarnation()},
		node.Ref{ID: "a", Topic: output},
		node.Ref{ID: "a", Topic: "other", Incarnation: m.Incarnation},
		node.Ref{ID: "b", Topic: output, Incarnation: m.Incarnation},
	), many(4, false))
	s.checkRows(before, "deletes of others")
	s.check("delete", s.delete(m.Ref()), []bool{true})
	s.check("present", s.present(messageID(m)), []bool{false})
	s.checkMessages(s.ready(alice(), latest()))
}

func deleteAnyOwner(s *subject) {
	list := s.messages(4)
	s.insert(list[0], list[1])
	held := s.insertReadied(alice(), list[2])[0]
	s.insertReadied(bob(), list[3])
	s.checkMessages(s.ready(alice(), list[0].Deadline), list[0])
	s.pass()
	s.check("reset", s.reset(held), []bool{true}) // list[2] waits again, as list[1] does
	s.check("delete", s.delete(refsOf(list)...), many(4, true))
	s.check("claims", len(s.stuck(0)), 0)
	s.checkMessages(s.ready(alice(), latest()))
}

func deleteOrder(s *subject) {
	list := s.messages(3)
	s.insert(list[2], list[0])
	s.check("delete", s.delete(
		list[2].Ref(), list[1].Ref(), list[2].Ref(), list[0].Ref(), list[0].Ref(), list[1].Ref(),
	), []bool{true, false, false, true, false, false})
	s.check("delete again", s.delete(refsOf(list)...), many(3, false))
}

// deleteLate repeats a delete whose reply was lost, after the same id has been submitted again (hazards H1, H2).
func deleteLate(s *subject) {
	old, next := s.message("a"), s.message("a")
	s.insertReadied(alice(), old)
	s.check("delete", s.delete(old.Ref()), []bool{true})
	claim := s.insertReadied(alice(), next)[0]
	s.check("delete of the old one", s.delete(old.Ref()), []bool{false})
	s.check("claims", s.stuck(0), []node.Claim{claim})
	s.check("delete of both", s.delete(old.Ref(), next.Ref()), []bool{false, true})
}

func stuckAge(s *subject) {
	const hold = 20 * time.Millisecond
	s.insert(s.message("waiting"))
	start := time.Now()
	claim := s.insertReadied(alice(), s.message("held"))[0]
	s.check("claims an hour old", len(s.stuck(time.Hour)), 0)
	if s.Clock != nil {
		s.Clock.Advance(hold - time.Microsecond)
		s.check("claims a moment before", len(s.stuck(hold)), 0)
		s.Clock.Advance(time.Microsecond)
		s.check("claims of that age", s.stuck(hold), []node.Claim{claim})
		s.Clock.Advance(time.Hour)
		s.check("claims later", s.stuck(hold), []node.Claim{claim})
		s.Clock.Advance(-2 * time.Hour)
		s.check("claims after the clock was put back", len(s.stuck(0)), 0)
		return
	}
	for {
		stuck := s.stuck(hold)
		if len(stuck) > 0 {
			s.check("claims of that age", stuck, []node.Claim{claim})
			break
		}
		if time.Since(start) > time.Minute {
			s.Fatalf("a claim does not age: it is not %v old after a minute", hold)
		}
	}
	// The clocks of the store and of this process may run at slightly different rates.
	if passed := time.Since(start); passed < hold-hold/20 {
		s.Fatalf("a claim of %v counts as %v old", passed, hold)
	}
}

func stuckOrder(s *subject) {
	var claims []node.Claim
	for _, m := range s.messages(5) {
		claims = append(claims, s.insertReadied(alice(), m)...)
		s.pass()
	}
	// The oldest is the one that was claimed longest ago, not the first by name or deadline.
	s.check("reset", s.reset(claims[0], claims[2]), []bool{true, true})
	again := claimsOf(s.ready(bob(), latest()))
	slices.SortFunc(again, func(a, b node.Claim) int { return a.ReadiedAt.Compare(b.ReadiedAt) })
	want := append([]node.Claim{claims[1], claims[3], claims[4]}, again...)
	for _, limit := range []int{1, 2, 3, 5, 6} {
		stuck := s.stuckWithin(node.StuckRequest{Limit: limit})
		if limit == 5 || limit == 6 {
			s.check("claims", len(stuck), 5)
			stuck, want = stuck[:3], want[:3] // the last two may be of one age
		}
		s.check("oldest claims", stuck, want[:min(limit, len(want))])
	}
}

func stuckOwners(s *subject) {
	list := s.messages(4)
	s.insert(list[0], list[1])
	want := s.insertReadied(alice(), list[2])
	s.pass()
	want = append(want, s.insertReadied(bob(), list[3])...)
	s.pass()
	want = append(want, claimsOf(s.ready(alice(), list[0].Deadline))...)
	s.pass()
	s.check("claims", s.stuck(0), want)
	s.delete(list[2].Ref())
	s.reset(want[2])
	s.check("claims that are left", s.stuck(0), want[1:2])
}

func stuckReads(s *subject) {
	list := s.messages(3)
	s.insert(list[0])
	claims := s.insertReadied(alice(), list[1], list[2])
	s.pass()
	before := s.rows()
	for range 3 {
		s.check("claims", len(s.stuck(0)), 2)
	}
	s.checkRows(before, "Stuck")
	s.checkMessages(s.ready(bob(), latest()), list[0])
	s.check("reset", s.reset(claims...), []bool{true, true})
}

func resetWaits(s *subject) {
	list := s.messages(2)
	s.insert(list[0])
	claims := append(claimsOf(s.ready(alice(), latest())), s.insertReadied(alice(), list[1])...)
	s.check("reset", s.reset(claims...), []bool{true, true})
	s.check("claims", len(s.stuck(0)), 0)
	s.check("repeated reset", s.reset(claims...), []bool{false, false})
	s.check("present", s.present(messageID(list[0]), messageID(list[1])), []bool{true, true})
	s.checkMessages(s.ready(bob(), latest()), list...)
}

func resetFence(s *subject) {
	waiting, held := s.message("waiting"), s.message("held")
	s.insert(waiting)
	claim := s.insertReadied(alice(), held)[0]
	before := s.rows()
	var releases []node.Release
	for _, change := range []func(*node.Claim){
		func(c *node.Claim) { c.ReadiedAt = c.ReadiedAt.Add(time.Microsecond) },
		func(c *node.Claim) { c.ReadiedAt = c.ReadiedAt.Add(-time.Microsecond) },
		func(c *node.Claim) { c.ReadiedAt = c.ReadiedAt.Add(time.Hour) },
		func(c *node.Claim) { c.ReadiedAt = time.Time{} },
		func(c *node.Claim) { c.ReadiedBy = bob() },
		func(c *node.Claim) { c.ReadiedBy = uuid.Nil },
		func(c *node.Claim) { c.Incarnation = s.incarnation() },
		func(c *node.Claim) { c.Incarnation = waiting.Incarnation },
		func(c *node.Claim) { c.ID = "other" },
		func(c *node.Claim) { c.ID = "waiting" },
		func(c *node.Claim) { c.Topic = "other" },
		func(c *node.Claim) { c.Ref = waiting.Ref() },
		func(c *node.Claim) { *c = node.Claim{Ref: waiting.Ref()} },
	} {
		other := claim
		change(&other)
		releases = append(releases, node.Release{Claim: other, Due: latest()})
	}
	for i, release := range releases {
		if s.release(release)[0] {
			s.Fatalf("reset by %+v, but the claim is %+v (change %d)", release.Claim, claim, i)
		}
	}
	s.check("all at once", s.release(releases...), many(len(releases), false))
	s.checkRows(before, "resets by other claims")
	s.check("claims", s.stuck(0), []node.Claim{claim})
	s.checkMessages(s.ready(bob(), noon()), waiting)
	s.check("reset by the claim", s.reset(claim), []bool{true})
}

// resetFormer gives up what a node held before it claimed the message again (hazard H18 within one node).
func resetFormer(s *subject) {
	former := s.insertReadied(alice(), s.message("a"))[0]
	s.check("reset", s.reset(former), []bool{true})
	s.pass()
	held := s.ready(alice(), latest())[0].Claim
	s.check("reset by the former claim", s.reset(former), []bool{false})
	s.check("claims", s.stuck(0), []node.Claim{held})
	s.check("reset by both", s.reset(former, held), []bool{false, true})
}

// resetLate resets by a claim that was read before its message was fired and submitted again (hazard H18).
func resetLate(s *subject) {
	former := s.insertReadied(alice(), s.message("a"))[0]
	s.delete(former.Ref)
	held := s.insertReadied(alice(), s.message("a"))[0]
	late := held
	late.Incarnation = former.Incarnation
	s.check("reset", s.reset(former, late), []bool{false, false})
	s.check("claims", s.stuck(0), []node.Claim{held})
}

func resetDue(s *subject) {
	m := s.message("a")
	s.insert(m)
	due := noon()
	for _, next := range []time.Time{
		noon().Add(time.Hour), {}, noon().Add(time.Second), latest(), {}, noon().Add(-time.Hour), {},
	} {
		claim := s.ready(alice(), due)[0].Claim
		s.check("reset", s.release(node.Release{Claim: claim, Due: next}), []bool{true})
		if !next.IsZero() {
			due = next
		}
		s.checkMessages(s.ready(alice(), due.Add(-time.Microsecond)))
	}
	s.checkMessages(s.ready(alice(), due), m) // its deadline is as ever
}

func resetOrder(s *subject) {
	list, absent := s.messages(3), s.message("absent")
	claims := s.insertReadied(alice(), list...)
	one, two := noon().Add(time.Hour), noon().Add(2*time.Hour)
	s.check("reset", s.release(
		node.Release{Claim: claims[2], Due: two},
		node.Release{Claim: node.Claim{Ref: absent.Ref()}},
		node.Release{Claim: claims[0], Due: one},
		node.Release{Claim: claims[2], Due: one},
		node.Release{Claim: claims[0], Due: two},
	), []bool{true, false, true, false, false})
	s.check("claims", s.stuck(0), claims[1:2])
	s.checkMessages(s.ready(bob(), one), list[0])
	s.checkMessages(s.readyWithin(node.ReadyRequest{
		Node: bob(), Until: two, Limit: math.MaxInt, Bytes: math.MaxInt,
	}), list[2])
}
