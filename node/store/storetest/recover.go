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

func expiredCases() []testCase {
	return []testCase{
		{"expired/from the hold time on", expiredAge},
		{"expired/each claim by its own hold time", expiredOwnHold},
		{"expired/longest expired first, limited", expiredOrder},
		{"expired/every node's claims and no waiting messages", expiredOwners},
		{"expired/changes nothing", expiredReads},
	}
}

func resetCases() []testCase {
	return []testCase{
		{"reset/makes the message wait again", resetWaits},
		{"reset/only the claim that is held", resetFence},
		{"reset/former claim of the same node", resetFormer},
		{"reset/late reset spares the next incarnation", resetLate},
		{"reset/puts off", resetDue},
		{"reset/attempts count claims, except those unsent", resetAttempts},
		{"reset/results in order, the first of two acts", resetOrder},
	}
}

func deleteIncarnation(s *subject) {
	m := s.message("a")
	s.insert(m)
	before := s.rows()
	s.check("delete", s.delete(
		node.Ref{ID: "a", Lane: output, Incarnation: s.incarnation()},
		node.Ref{ID: "a", Lane: output},
		node.Ref{ID: "a", Lane: "other", Incarnation: m.Incarnation},
		node.Ref{ID: "b", Lane: output, Incarnation: m.Incarnation},
	), many(4, false))
	s.checkRows(before, "deletes of others")
	s.check("delete", s.delete(m.Ref()), []bool{true})
	s.checkMessages(s.claim(alice(), latest()))
}

func deleteAnyOwner(s *subject) {
	list := s.messages(4)
	s.insert(list[0], list[1])
	held := s.insertClaimed(alice(), list[2])[0]
	s.insertClaimed(bob(), list[3])
	s.checkMessages(s.claim(alice(), list[0].Deadline), list[0])
	s.pass()
	s.check("reset", s.reset(held), []bool{true}) // list[2] waits again, as list[1] does
	s.check("delete", s.delete(refsOf(list)...), many(4, true))
	s.check("claims", len(s.expired()), 0)
	s.checkMessages(s.claim(alice(), latest()))
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
	s.insertClaimed(alice(), old)
	s.check("delete", s.delete(old.Ref()), []bool{true})
	claim := s.insertClaimed(alice(), next)[0]
	s.check("delete of the old one", s.delete(old.Ref()), []bool{false})
	s.check("claims", s.expired(), []node.Claim{claim})
	s.check("delete of both", s.delete(old.Ref(), next.Ref()), []bool{false, true})
}

func expiredAge(s *subject) {
	const hold = 20 * time.Millisecond
	s.insert(s.message("waiting"))
	start := time.Now()
	claim := s.insertHeld(alice(), hold, s.message("held"))
	s.insertHeld(alice(), time.Hour, s.message("held for an hour"))
	if s.Clock != nil {
		s.Clock.Advance(hold - time.Microsecond)
		s.check("claims a moment before", len(s.expired()), 0)
		s.Clock.Advance(time.Microsecond)
		s.check("claims at that moment", s.expired(), []node.Claim{claim})
		s.Clock.Advance(time.Minute)
		s.check("claims later", s.expired(), []node.Claim{claim})
		s.Clock.Advance(-2 * time.Minute)
		s.check("claims after the clock was put back", len(s.expired()), 0)
		return
	}
	for {
		expired := s.expired()
		if len(expired) > 0 {
			s.check("claims", expired, []node.Claim{claim})
			break
		}
		if time.Since(start) > time.Minute {
			s.Fatalf("a claim does not expire: it was for %v, and is held after a minute", hold)
		}
	}
	// The clocks of the store and of this process may run at slightly different rates.
	if passed := time.Since(start); passed < hold-hold/20 {
		s.Fatalf("a claim of %v has expired after %v", hold, passed)
	}
}

// insertHeld takes a message in as claimed for a hold time.
func (s *subject) insertHeld(owner uuid.UUID, hold time.Duration, m node.Message) node.Claim {
	s.Helper()
	request := s.request(owner, submission{m, true})
	request.Hold = hold
	result := s.accept(request, s.take(request))[0]
	s.checkClaim(result.Claim, m.Ref(), owner, hold)
	return result.Claim
}

// expiredOwnHold has nodes with different hold times (issue 10, A13): each claim carries the one of its owner, however
// it was made, and nobody else's counts.
func expiredOwnHold(s *subject) {
	list := s.messages(4)
	long := s.insertHeld(alice(), time.Hour, list[0])
	short := s.insertHeld(bob(), 0, list[1])
	s.insert(list[2], list[3])
	claim := func(owner uuid.UUID, hold time.Duration) node.Claim {
		return s.claimFor(node.ClaimRequest{
			Node: owner, Hold: hold, Until: latest(), Lanes: []node.Share{share(1, math.MaxInt)},
		})[0].Claim
	}
	s.pass()
	longer := claim(bob(), 2*time.Hour)
	s.pass()
	none := claim(alice(), 0)
	s.check("claims", s.expired(), []node.Claim{short, none})
	s.check("repeated take", s.insertAll(alice(), submission{list[0], true})[0].Claim, long)
	s.check("reset", s.reset(long, longer), []bool{true, true})
	s.check("reset by a claim with another expiry", s.reset(node.Claim{
		Ref: none.Ref, ReadiedAt: none.ReadiedAt, ReadiedBy: none.ReadiedBy,
	}), []bool{true})
}

func expiredOrder(s *subject) {
	var claims []node.Claim
	for i, m := range s.messages(6) {
		// What was claimed first expires last: it is the expiry that counts.
		if s.Clock != nil {
			s.Clock.Advance(time.Millisecond)
		}
		claims = append(claims, s.insertHeld(alice(), time.Duration(6-i)*30*time.Millisecond, m))
	}
	slices.SortFunc(claims, func(a, b node.Claim) int { return a.Expires.Compare(b.Expires) })
	if s.Clock != nil {
		s.Clock.Advance(time.Second)
	}
	for start := time.Now(); len(s.expired()) < len(claims); {
		if time.Since(start) > time.Minute {
			s.Fatalf("of %d claims, %d have expired", len(claims), len(s.expired()))
		}
	}
	s.check("claims", s.expired(), claims)

	// Nor does the order of names or deadlines count: two are claimed again.
	s.check("reset", s.reset(claims[0], claims[2]), []bool{true, true})
	again := claimsOf(s.claim(bob(), latest()))
	want := []node.Claim{claims[1], claims[3], claims[4]}
	for limit := 1; limit <= 3; limit++ {
		s.check("longest expired claims", s.expiredWithin(limit), want[:limit])
	}
	s.check("claims", len(s.expiredWithin(100)), 4+len(again))
}

func expiredOwners(s *subject) {
	list := s.messages(4)
	s.insert(list[0], list[1])
	want := s.insertClaimed(alice(), list[2])
	s.pass()
	want = append(want, s.insertClaimed(bob(), list[3])...)
	s.pass()
	want = append(want, claimsOf(s.claim(alice(), list[0].Deadline))...)
	s.pass()
	s.check("claims", s.expired(), want)
	s.delete(list[2].Ref())
	s.reset(want[2])
	s.check("claims that are left", s.expired(), want[1:2])
}

func expiredReads(s *subject) {
	list := s.messages(3)
	s.insert(list[0])
	claims := s.insertClaimed(alice(), list[1], list[2])
	s.pass()
	before := s.rows()
	for range 3 {
		s.check("claims", len(s.expired()), 2)
	}
	s.checkRows(before, "Expired")
	s.checkMessages(s.claim(bob(), latest()), list[0])
	s.check("reset", s.reset(claims...), []bool{true, true})
}

func resetWaits(s *subject) {
	list := s.messages(2)
	s.insert(list[0])
	claims := append(claimsOf(s.claim(alice(), latest())), s.insertClaimed(alice(), list[1])...)
	s.check("reset", s.reset(claims...), []bool{true, true})
	s.check("claims", len(s.expired()), 0)
	s.check("repeated reset", s.reset(claims...), []bool{false, false})
	s.checkMessages(s.claim(bob(), latest()), list...)
}

func resetFence(s *subject) {
	waiting, held := s.message("waiting"), s.message("held")
	s.insert(waiting)
	claim := s.insertClaimed(alice(), held)[0]
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
		func(c *node.Claim) { c.Lane = "other" },
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
	s.check("claims", s.expired(), []node.Claim{claim})
	s.checkMessages(s.claim(bob(), noon()), waiting)
	s.check("reset by the claim", s.reset(claim), []bool{true})
}

// resetFormer gives up what a node held before it claimed the message again (hazard H18 within one node).
func resetFormer(s *subject) {
	former := s.insertClaimed(alice(), s.message("a"))[0]
	s.check("reset", s.reset(former), []bool{true})
	s.pass()
	held := s.claim(alice(), latest())[0].Claim
	s.check("reset by the former claim", s.reset(former), []bool{false})
	s.check("claims", s.expired(), []node.Claim{held})
	s.check("reset by both", s.reset(former, held), []bool{false, true})
}

// resetLate resets by a claim that was read before its message was fired and submitted again (hazard H18).
func resetLate(s *subject) {
	former := s.insertClaimed(alice(), s.message("a"))[0]
	s.delete(former.Ref)
	held := s.insertClaimed(alice(), s.message("a"))[0]
	late := held
	late.Incarnation = former.Incarnation
	s.check("reset", s.reset(former, late), []bool{false, false})
	s.check("claims", s.expired(), []node.Claim{held})
}

func resetDue(s *subject) {
	m := s.message("a")
	s.insert(m)
	due := noon()
	for _, next := range []time.Time{
		noon().Add(time.Hour), {}, noon().Add(time.Second), latest(), {}, noon().Add(-time.Hour), {},
	} {
		claim := s.claim(alice(), due)[0].Claim
		s.check("reset", s.release(node.Release{Claim: claim, Due: next}), []bool{true})
		if !next.IsZero() {
			due = next
		}
		s.checkMessages(s.claim(alice(), due.Add(-time.Microsecond)))
	}
	s.checkMessages(s.claim(alice(), due), m) // its deadline is as ever
}

func resetOrder(s *subject) {
	list, absent := s.messages(3), s.message("absent")
	claims := s.insertClaimed(alice(), list...)
	one, two := noon().Add(time.Hour), noon().Add(2*time.Hour)
	s.check("reset", s.release(
		node.Release{Claim: claims[2], Due: two},
		node.Release{Claim: node.Claim{Ref: absent.Ref()}},
		node.Release{Claim: claims[0], Due: one},
		node.Release{Claim: claims[2], Due: one},
		node.Release{Claim: claims[0], Due: two},
	), []bool{true, false, true, false, false})
	s.check("claims", s.expired(), claims[1:2])
	s.checkMessages(s.claim(bob(), one), list[0])
	s.checkMessages(s.claimWithin(bob(), two, share(math.MaxInt, math.MaxInt)), list[2])
}

// resetAttempts counts the claims on an incarnation that may have led to a publish. A release that knows that nothing
// was sent takes its own claim back, and no other.
func resetAttempts(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(alice(), m)[0]
	for _, step := range []struct {
		unsent bool
		want   int
	}{
		{false, 2}, {true, 2}, {true, 2}, {false, 3}, {false, 4}, {true, 4},
	} {
		s.check("reset", s.release(node.Release{Claim: claim, Unsent: step.unsent}), []bool{true})
		s.check("late reset", s.release(node.Release{Claim: claim, Unsent: true}), []bool{false})
		s.pass()
		claimed := s.claim(bob(), latest())
		s.check("attempts", claimed[0].Attempts, step.want)
		claim = claimed[0].Claim
	}

	// A message that is taken in as waiting was not tried, and neither was the next of its id.
	waiting := s.message("b")
	s.insert(waiting)
	s.check("delete", s.delete(m.Ref()), []bool{true})
	s.insert(s.message("a"))
	for range 2 {
		for _, r := range s.claim(alice(), latest()) {
			s.check("attempts", r.Attempts, 1)
			s.check("reset", s.release(node.Release{Claim: r.Claim, Unsent: true}), []bool{true})
		}
	}
}
