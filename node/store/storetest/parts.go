package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"chronos/node"
)

// partCases are about messages that are parked on parts of their lanes.
func partCases() []testCase {
	return []testCase{
		{"parts/only a claim on the part finds what is parked", partClaim},
		{"parts/by due time and id", partOrder},
		{"parts/limits, bytes and instants of each share", partShares},
		{"parts/bytes of lanes and parts together", partBytes},
		{"parts/a reset parks elsewhere or brings back", partReset},
		{"parts/a claim that expires brings back", partExpired},
		{"parts/what changes a message brings it back", partChanged},
		{"parts/what changes nothing leaves it", partUnchanged},
		{"parts/the next occurrence waits on its lane", partSettled},
		{"parts/nothing is claimed on parts of a paused lane", partPaused},
		{"parts/what stands in line", partLine},
		{"parts/lists lanes and parts in order", partList},
		{"parts/lists no more than MaxParts", partListMany},
		{"parts/is not idle while anything is parked", partIdle},
		{"parts/names", partNames},
	}
}

// onPart returns a share of a part of the lane of messages whose lane does not matter.
func onPart(part string, limit, bytes int) node.Share {
	return node.Share{Lane: output, Part: part, Limit: limit, Bytes: bytes}
}

// parked claims what is parked on a part.
func (s *subject) parked(part string) []node.Ready {
	s.Helper()
	claimed := s.claimWithin(alice(), latest(), onPart(part, math.MaxInt, math.MaxInt))
	for i := range claimed {
		s.check("the part", claimed[i].Part, part)
	}
	return claimed
}

// park takes messages in, and parks them on a part.
func (s *subject) park(part string, messages ...node.Message) {
	s.Helper()
	s.releaseTo(part, s.insertClaimed(alice(), messages...)...)
}

// releaseTo gives claims up, under which nothing was sent, and parks the messages on a part.
func (s *subject) releaseTo(part string, claims ...node.Claim) {
	s.Helper()
	releases := make([]node.Release, len(claims))
	for i := range claims {
		releases[i] = node.Release{Claim: claims[i], Part: part, Unsent: true}
	}
	s.check("reset", s.release(releases...), many(len(claims), true))
}

// parts returns what the store lists.
func (s *subject) parts() []node.Part {
	s.Helper()
	parts, err := s.Store.Parts(s.Context())
	s.checkCall("Parts", err, 0, 0)
	return parts
}

func partClaim(s *subject) {
	list, other := s.messages(3), s.message("message-00001")
	other.Lane = "other"
	s.park("3", list[1], other)
	s.insert(list[0], list[2])
	for _, part := range []string{"1", "33", "2", "4"} {
		s.checkMessages(s.parked(part))
	}
	for range 2 {
		s.checkMessages(s.claim(alice(), latest()), list[0], list[2])
		claimed := s.parked("3")
		s.checkMessages(claimed, list[1])
		s.check("due", claimed[0].Due, list[1].Deadline)
		s.check("attempts", claimed[0].Attempts, 1)
		s.checkMessages(s.parked("3"))
		for _, claim := range s.expired() {
			part := ""
			if claim.Ref == list[1].Ref() {
				part = "3"
			}
			s.releaseTo(part, claim)
		}
	}
	s.checkMessages(s.claimWithin(bob(), latest(), node.Share{Lane: "other", Part: "3", Limit: 9, Bytes: 1000}), other)
	for _, r := range s.claim(alice(), latest()) {
		s.check("the part of what is not parked", r.Part, "")
	}
}

func partOrder(s *subject) {
	list := s.messages(4)
	twin := s.message("message-00002-")
	twin.Deadline = list[2].Deadline
	early := s.message("z")
	early.Deadline = earliest()
	late := s.message("0")
	late.Deadline = latest()
	s.park("a", list[3], list[1], twin, late)
	s.park("a", list[2], early, list[0])
	s.park("b", s.message("b"))
	s.checkMessages(s.claimWithin(alice(), list[1].Deadline.Add(-1), onPart("a", 9, 1000)), early, list[0])
	s.checkMessages(s.claimWithin(alice(), latest(), onPart("a", 2, 1000)), list[1], list[2])
	s.checkMessages(s.parked("a"), twin, list[3], late)
}

func partShares(s *subject) {
	lane, three, four := s.on(output, 3), s.on(output, 4), s.on(output, 4)
	for i := range three {
		three[i].ID, four[i].ID = "three-"+three[i].ID, "z-four-"+four[i].ID
	}
	s.insert(lane...)
	s.park("3", three...)
	s.park("4", four...)
	from := onPart("4", 9, 1000)
	from.From = four[2].Deadline
	s.checkMessages(s.claimWithin(alice(), latest(), onPart("3", 2, 1000), share(9, 11), from),
		lane[0], three[0], lane[1], three[1], four[2], four[3])
	s.checkMessages(s.claimWithin(alice(), latest(), onPart("4", 9, 1)), four[0])
	s.checkMessages(s.claimWithin(alice(), latest(), onPart("4", 9, 1000), onPart("5", 9, 1000), onPart("3", 1, 1000)),
		four[1], three[2])
	s.checkMessages(s.claimWithin(alice(), latest(), share(9, 1000), onPart("3", 1, 1000)), lane[2], three[3])
}

func partBytes(s *subject) {
	lane, part, other := s.on(output, 2), s.on(output, 2), s.on("other", 2)
	for i := range part {
		part[i].ID = "part-" + part[i].ID
	}
	s.insert(slices.Concat(lane, other)...)
	s.park("3", part...)
	claim := func(bytes int, want ...node.Message) {
		s.Helper()
		s.checkMessages(s.claimFor(node.ClaimRequest{
			Node: alice(), Hold: hold, Until: latest(), Bytes: bytes,
			Lanes: []node.Share{
				{Lane: "other", Limit: 1, Bytes: 1000}, onPart("3", 1, 1000), share(1, 1000),
			},
		}), want...)
	}
	claim(11, other[0], part[0])
	claim(1, other[1])
	claim(11, lane[0], part[1])
	claim(10, lane[1])
	claim(10)
}

func partReset(s *subject) {
	list := s.messages(5)
	s.park("3", list...)
	claims := claimsOf(s.parked("3"))
	later, sooner := noon().Add(time.Hour), noon().Add(-time.Hour)
	s.check("reset", s.release(
		node.Release{Claim: claims[0], Part: "4"}, node.Release{Claim: claims[1]},
		node.Release{Claim: claims[2], Part: "4", Due: sooner}, node.Release{Claim: claims[3], Due: later},
		node.Release{Claim: claims[4], Part: "3"},
	), many(5, true))
	claimed := s.parked("4")
	s.checkMessages(claimed, list[2], list[0])
	s.check("due", claimed[0].Due, sooner)
	s.checkMessages(s.parked("3"), list[4])
	claimed = s.claim(bob(), latest())
	s.checkMessages(claimed, list[1], list[3])
	s.check("due", claimed[1].Due, later)
	s.check("parks under a claim that is over", s.release(node.Release{Claim: claims[1], Part: "5"}), []bool{false})
	s.checkMessages(s.parked("5"))

	// Thousands go where each belongs.
	lots := s.messages(1200)
	held := s.insertClaimed(alice(), lots[5:]...)
	releases := make([]node.Release, len(held))
	want := map[string][]node.Message{}
	for i := range held {
		part := []string{"", "a", "b"}[i*7%3]
		releases[i] = node.Release{Claim: held[i], Part: part}
		want[part] = append(want[part], lots[5+i])
	}
	s.check("reset", s.release(releases...), many(len(held), true))
	for _, part := range []string{"", "a", "b"} {
		s.checkMessages(s.parked(part), want[part]...)
	}
}

func partExpired(s *subject) {
	m := s.message("a")
	s.park("3", m)
	s.checkMessages(s.parked("3"), m)
	s.check("reset", s.reset(s.expired()...), []bool{true})
	s.checkMessages(s.parked("3"))
	claimed := s.claim(bob(), latest())
	s.checkMessages(claimed, m)
	s.check("attempts", claimed[0].Attempts, 2)
}

// partChanged gives each instruction on what is parked, and one that also acts on what is claimed there.
func partChanged(s *subject) {
	for _, c := range []struct {
		action  node.Action
		claimed bool
		want    node.Outcome
	}{
		{node.Replace, false, node.Replaced},
		{node.Replace, true, node.Replaced},
		{node.Reschedule, false, node.Rescheduled},
		{node.FireNow, false, node.FiredNow},
		{node.Cancel, false, node.Cancelled},
	} {
		m := s.message(fmt.Sprint(c.action, c.claimed))
		s.park("3", m)
		if c.claimed {
			s.checkMessages(s.parked("3"), m)
		}
		item := instruction(c.action, s.dueAt(m.ID, noon().Add(-time.Second)), nil)
		s.check(fmt.Sprint(c.action), s.instruct(item)[0].Outcome, c.want)
		s.checkMessages(s.parked("3"))
		claimed := s.claim(bob(), latest())
		if left := c.action != node.Cancel; len(claimed) > 1 || (len(claimed) == 1) != left {
			s.Fatalf("after %v there are %q on the lane", c.action, idsOf(claimed))
		}
		for _, r := range claimed {
			s.check("id", r.ID, m.ID)
			s.check("part", r.Part, "")
			s.delete(r.Ref())
		}
	}
}

// partUnchanged gives instructions that do nothing, and one that binds what may have come out.
func partUnchanged(s *subject) {
	m := s.message("a")
	claim := s.insertClaimed(alice(), m)[0]
	s.check("reset", s.release(node.Release{Claim: claim, Part: "3"}), []bool{true})
	other := s.dueAt("a", noon().Add(time.Hour))
	onlyOther := instruction(node.Replace, other, nil)
	onlyOther.Only = other.Incarnation
	for _, c := range []struct {
		item node.Item
		want node.Outcome
	}{
		{instruction(node.Schedule, other, nil), node.Duplicate},
		{onlyOther, node.NotFound},
		{instruction(node.Cancel, s.message("a"), nil), node.TooLate},
		{instruction(node.Reschedule, s.dueAt("a", latest()), nil), node.TooLate},
	} {
		s.check(fmt.Sprint(c.item.Action), s.instruct(c.item)[0].Outcome, c.want)
		s.checkMessages(s.claim(bob(), latest()))
	}
	claimed := s.parked("3")
	s.checkMessages(claimed, m)
	s.check("bound", claimed[0].Bound, true)
}

func partSettled(s *subject) {
	recurs, ends, gone, held := s.series("a"), s.series("b"), s.message("c"), s.series("d")
	s.park("3", recurs, ends, gone, held)
	next, following := s.following(recurs, noon().Add(time.Hour))
	last, lasting := s.following(held, noon().Add(2*time.Hour))
	s.checkMessages(s.parked("3"), recurs, ends, gone, held)
	for _, claim := range s.expired() {
		if claim.ID != held.ID {
			s.releaseTo("3", claim)
		}
	}
	s.check("settle", s.rearm(next, node.Next{Of: ends.Ref()}, last), []node.Settled{
		node.Rearmed, node.Removed, node.Rearmed,
	})
	s.check("delete", s.delete(gone.Ref()), []bool{true})
	s.checkMessages(s.parked("3"))
	s.checkMessages(s.claim(bob(), latest()), following, lasting)
}

func partPaused(s *subject) {
	m, lane := s.message("a"), s.message("b")
	s.park("3", m)
	s.insert(lane)
	s.pause(output)
	s.checkMessages(s.parked("3"))
	s.checkMessages(s.claim(alice(), latest()))
	s.check("parts", s.parts(), []node.Part{{Lane: output}, {Lane: output, Name: "3"}})
	s.resume(output)
	s.checkMessages(s.parked("3"), m)
}

// partLine has the first of a line parked: who stands behind it stays there, and comes forward when it is settled.
func partLine(s *subject) {
	list := s.queue(2)
	s.insert(list[0])
	s.releaseTo("3", claimsOf(s.claim(alice(), latest()))...)
	s.insert(list[1])
	claimed := s.claim(alice(), latest())
	s.checkMessages(claimed, list[1])
	s.check("turn", claimed[0].Turn, node.Behind)
	s.release(node.Release{Claim: claimed[0].Claim, Due: latest(), Unsent: true, Behind: true, Part: "3"})
	claimed = s.parked("3")
	s.checkMessages(claimed, list...)
	s.check("turn", []node.Turn{claimed[0].Turn, claimed[1].Turn}, []node.Turn{node.ItsTurn, node.Behind})
	s.release(node.Release{Claim: claimed[1].Claim, Due: latest(), Unsent: true, Behind: true})
	s.check("delete", s.delete(list[0].Ref()), []bool{true})
	claimed = s.claimWithin(alice(), noon().Add(time.Hour), share(9, 1000))
	s.checkMessages(claimed, list[1])
	s.check("turn", claimed[0].Turn, node.ItsTurn)
}

func partList(s *subject) {
	s.check("an empty store", len(s.parts()), 0)
	id := 0
	park := func(lane, part string) {
		id++
		m := s.message(fmt.Sprintf("id-%02d", id))
		m.Lane = lane
		s.park(part, m)
	}
	for _, part := range []string{"b", "a", "", "10", "9", "a b", "A", "é", "\U0001d34a", "\uffff"} {
		park("b", part)
		park("b", part)
	}
	park("a-", "z")
	park("a", "b")
	park("only parked", "1")
	s.insertClaimed(alice(), s.message("claimed"))
	at := func(lane string, names ...string) (parts []node.Part) {
		for _, name := range names {
			parts = append(parts, node.Part{Lane: lane, Name: name})
		}
		return parts
	}
	want := slices.Concat(at("a", "b"), at("a-", "z"),
		at("b", "", "10", "9", "A", "a", "a b", "b", "é", "\uffff", "\U0001d34a"), at("only parked", "1"))
	s.check("parts", s.parts(), want)
	s.check("what is in order", slices.IsSortedFunc(want, node.Part.Compare), true)

	claimed := s.claimWithin(alice(), latest(), node.Share{Lane: "only parked", Part: "1", Limit: 9, Bytes: 1000},
		node.Share{Lane: "b", Part: "a", Limit: 1, Bytes: 1000})
	s.check("claimed", len(claimed), 2)
	s.check("without what is claimed", s.parts(), want[:len(want)-1])
	s.check("delete", s.delete(claimed[0].Ref()), []bool{true})
	s.reset(claimed[1].Claim)
	s.check("when one is back on its lane", s.parts(),
		slices.Concat(want[:len(want)-1], at("only parked", "")))
}

func partListMany(s *subject) {
	list := s.messages(node.MaxParts + 100)
	held := s.insertClaimed(alice(), list...)
	releases := make([]node.Release, len(held))
	for i := range held {
		releases[i] = node.Release{Claim: held[i], Part: fmt.Sprintf("%05d", i), Unsent: true}
	}
	s.check("reset", s.release(releases...), many(len(held), true))
	parts := s.parts()
	s.check("so many", len(parts), node.MaxParts)
	for i, part := range parts {
		var n int
		_, err := fmt.Sscanf(part.Name, "%05d", &n)
		if part.Lane != output || err != nil || n >= len(list) || i > 0 && parts[i-1].Compare(part) >= 0 {
			s.Fatalf("part %d is %+v, behind %+v", i, part, parts[max(i-1, 0)])
		}
	}
}

func partIdle(s *subject) {
	const elsewhere = "elsewhere"
	idle := func(shares ...node.Share) time.Duration {
		result, err := s.Store.Claim(s.Context(), node.ClaimRequest{
			Node: alice(), Hold: hold, Until: noon(), Ahead: time.Second, Lanes: shares,
		})
		if err != nil {
			s.Fatal(err)
		}
		s.check("claimed", len(result.Messages), 0)
		return result.Idle
	}
	lane, other := share(9, 1000), node.Share{Lane: elsewhere, Limit: 9, Bytes: 1000}
	if idle(lane) == 0 {
		return // it need not say anything
	}
	s.check("idle of a part without anything", idle(lane, onPart("3", 9, 1000), other), time.Second)
	m := s.message("a")
	m.Deadline = noon().Add(time.Hour)
	s.park("3", m)
	for _, shares := range [][]node.Share{
		{lane}, {other, lane}, {lane, onPart("3", 9, 1000)}, {onPart("3", 9, 1000)}, {onPart("4", 9, 1000), other},
	} {
		s.check("idle beside what is parked", idle(shares...), time.Duration(0))
	}
	s.check("idle of another lane", idle(other), time.Second)
	s.checkMessages(s.parked("3"), m)
	s.check("idle while it is claimed", idle(other), time.Duration(0))
	s.reset(s.expired()...)
	s.check("idle when it is back on its lane", idle(lane, other), time.Second)
}

func partNames(s *subject) {
	names := []string{
		strings.Repeat("x", node.MaxPartName), strings.Repeat("é", node.MaxPartName/2), `a "quoted" 'name'`,
		`\`, `\x00`, "%s", "{}", "NULL", "null", " ", "a,b", "ends with a space ", "\U0001f680",
		"\x01\n\t", "x", "X", "[::1]:8080",
	}
	var messages []node.Message
	for i, name := range names {
		m := s.message(fmt.Sprintf("message-%02d", i))
		s.park(name, m)
		messages = append(messages, m)
	}
	var want []node.Part
	for _, name := range slices.Sorted(slices.Values(names)) {
		want = append(want, node.Part{Lane: output, Name: name})
	}
	s.check("parts", s.parts(), want)
	s.checkMessages(s.claim(bob(), latest()))
	for i, name := range names {
		s.checkMessages(s.parked(name), messages[i])
	}

	// Who asks for what cannot be there is told of nothing.
	for _, name := range []string{"\x00", "a\x00b", "\xff", strings.Repeat("x", node.MaxPartName+1)} {
		s.checkMessages(s.parked(name))
	}
}
