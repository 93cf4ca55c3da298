package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// seriesCases are about occurrences of series, and what takes their place. What instructions do to them is in the table
// of controlCases.
func seriesCases() []testCase {
	return []testCase{
		{"series/the next occurrence takes the place", rearmNext},
		{"series/one that ends is removed", rearmEnds},
		{"series/only by the incarnation", rearmFenced},
		{"series/whoever holds it", rearmHeld},
		{"series/one that was stopped is removed", rearmStopped},
		{"series/a stopped occurrence comes out", rearmStoppedComes},
		{"series/what is bound is not passed over", rearmPromised},
		{"series/what was missed is passed over", rearmPassesOver},
		{"series/what was replaced may appear still", rearmFormer},
		{"series/a missed occurrence is found at once", rearmEarlier},
		{"series/the instant does not move with the deadline", rearmMoved},
		{"series/what is claimed says which occurrence it is", seriesReturned},
		{"series/many at once", rearmMany},
	}
}

// series returns an occurrence, the first of a series, that is due at noon.
func (s *subject) series(id string) node.Message {
	m := s.message(id)
	m.Recurrence = node.Recurrence{Series: "every 1h from noon – \"é\"", Sequence: 1, At: m.Deadline}
	m.Headers = []node.Header{{Name: "a", Value: []byte{0xff}}, {Name: "a"}}
	return m
}

// following returns what takes the place of an occurrence, and the message that it is then.
func (s *subject) following(m node.Message, at time.Time) (node.Next, node.Message) {
	next := node.Next{Of: m.Ref(), Incarnation: s.incarnation(), Sequence: m.Sequence + 1, At: at}
	m.Incarnation, m.Sequence, m.At, m.Deadline = next.Incarnation, next.Sequence, at, at
	return next, m
}

func rearmNext(s *subject) {
	m := s.series("a")
	m.NotAfter = latest()
	s.insert(m)
	for i := range 3 {
		at := noon().Add(time.Duration(i+1) * time.Hour)
		claimed := s.claim(alice(), at)
		s.checkMessages(claimed, m)
		s.check("attempts", claimed[0].Attempts, 1)
		next, following := s.following(m, at)
		s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
		s.checkStored("next", following.Ref(), &memory.Row{Message: following, Due: at})
		s.check("rearm again, because the reply was lost", s.rearm(next), []node.Settled{node.Gone})
		s.check("claims", len(s.expired()), 0)
		s.check("reset by the claim of before", s.reset(claimed[0].Claim), []bool{false})
		s.check("delete of the one before", s.delete(m.Ref()), []bool{false})
		s.checkMessages(s.claim(bob(), at.Add(-time.Microsecond)))
		m = following
	}
	answer := s.answer("a")
	s.check("cancel", s.instruct(instruction(node.Cancel, s.message("a"), answer))[0].Outcome, node.Cancelled)
	s.checkReply(answer, headersOf("chronosOutcome", "cancelled",
		"chronosFormerDeadline", "2025-06-01T15:00:00.000000Z", "chronosSequence", "4")...)
}

func rearmEnds(s *subject) {
	m, waits := s.series("a"), s.series("b")
	s.insert(m, waits)
	s.check("rearm", s.rearm(node.Next{Of: m.Ref()}), []node.Settled{node.Removed})
	s.check("rearm again", s.rearm(node.Next{Of: m.Ref()}), []node.Settled{node.Gone})
	s.checkMessages(s.claim(alice(), latest()), waits)
	s.insert(s.message("a"))
}

// rearmFenced settles what is not there: another incarnation, another lane, another id, and none at all.
func rearmFenced(s *subject) {
	m, other := s.series("a"), s.series("a")
	other.Lane = "other"
	s.insert(m, other)
	before := s.rows()
	for _, change := range []func(*node.Ref){
		func(r *node.Ref) { r.Incarnation[15]++ }, func(r *node.Ref) { r.Lane = other.Lane },
		func(r *node.Ref) { r.ID = "b" }, func(r *node.Ref) { r.Lane = "" },
	} {
		next, _ := s.following(m, noon().Add(time.Hour))
		change(&next.Of)
		s.check("rearm", s.rearm(next, node.Next{Of: next.Of}), many(2, node.Gone))
	}
	s.check("none", len(s.rearm()), 0)
	s.checkRows(before, "settling what is not there")
	s.checkMessages(s.claim(alice(), latest()), other, m)
}

// rearmHeld settles an occurrence that a peer has claimed again, after whoever published it was taken for dead. That
// claim is void.
func rearmHeld(s *subject) {
	m := s.series("a")
	s.insertClaimed(alice(), m)
	s.reset(s.expired()...)
	peer := s.claim(bob(), latest())[0]
	next, following := s.following(m, noon().Add(time.Hour))
	s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
	s.check("claims", len(s.expired()), 0)
	s.check("reset by the peer", s.release(node.Release{Claim: peer.Claim, Due: noon()}), []bool{false})
	peers, _ := s.following(m, noon().Add(2*time.Hour))
	s.check("rearm by the peer", s.rearm(peers), []node.Settled{node.Gone})
	claimed := s.claim(alice(), latest())
	s.checkMessages(claimed, following)
	s.check("attempts", claimed[0].Attempts, 1)
}

// rearmStopped: the node that settles has not heard of the cancel.
func rearmStopped(s *subject) {
	m := s.series("a")
	s.insertClaimed(alice(), m)
	for range 2 {
		answer := s.answer("a")
		s.check("cancel", s.instruct(instruction(node.Cancel, s.message("a"), answer)),
			[]node.ItemResult{{Outcome: node.Stopped}})
		s.checkReply(answer, headersOf("chronosOutcome", "stopped", "chronosDeadline", noonText,
			"chronosSequence", "1")...)
	}
	next, _ := s.following(m, noon().Add(time.Hour))
	s.check("rearm", s.rearm(next), []node.Settled{node.Removed})
	s.check("rearm again", s.rearm(next), []node.Settled{node.Gone})
	s.checkMessages(s.claim(bob(), latest()))
	s.insert(s.message("a"))
}

// rearmStoppedComes: what was named as the last occurrence stays the last one, and comes out, though it was given back.
func rearmStoppedComes(s *subject) {
	m := s.series("a")
	claim := s.insertClaimed(alice(), m)[0]
	for range 2 {
		s.check("cancel", s.instruct(instruction(node.Cancel, s.message("a"), nil)),
			[]node.ItemResult{{Outcome: node.Stopped}})
		s.release(node.Release{Claim: claim, Unsent: true})
		for action, want := range map[node.Action]node.Outcome{
			node.Cancel: node.Stopped, node.Reschedule: node.TooLate, node.FireNow: node.TooLate,
		} {
			s.check(fmt.Sprint(action), s.instruct(instruction(action, s.message("a"), nil)),
				[]node.ItemResult{{Outcome: want}})
		}
		claimed := s.claim(bob(), noon())
		s.checkMessages(claimed, m)
		claim = claimed[0].Claim
	}

	// A replace begins anew.
	anew := s.series("a")
	s.check("replace", s.instruct(instruction(node.Replace, anew, nil)), []node.ItemResult{{Outcome: node.Replaced}})
	next, following := s.following(anew, noon().Add(time.Hour))
	s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
	s.checkMessages(s.claim(bob(), latest()), following)
}

// rearmPromised: somebody was told that an occurrence comes out, after the claim of a node that passes it over.
func rearmPromised(s *subject) {
	for _, action := range []node.Action{node.Reschedule, node.FireNow, node.Cancel} {
		m := s.series("a")
		claim := s.insertClaimed(alice(), m)[0]
		next, _ := s.following(m, noon().Add(time.Hour))
		next.Missed = claim
		ends := node.Next{Of: m.Ref(), Missed: claim}
		s.instruct(instruction(action, s.message("a"), nil))
		s.check("rearm", s.rearm(next, ends, next), many(3, node.Promised))
		s.check("release", s.release(node.Release{Claim: claim, Unsent: true}), []bool{true})
		claimed := s.claim(bob(), latest())
		s.checkMessages(claimed, m)
		s.check("bound", claimed[0].Bound, true)
		next.Missed, ends.Missed = node.Claim{}, node.Claim{} // it was published
		want := []node.Settled{node.Rearmed, node.Gone}
		if action == node.Cancel {
			want[0] = node.Removed
		}
		s.check("rearm once it is published", s.rearm(next, ends), want)
		s.delete(node.Ref{ID: m.ID, Lane: m.Lane, Incarnation: next.Incarnation})
	}
}

// rearmPassesOver: of an occurrence that nobody was promised, several may be missed at once.
func rearmPassesOver(s *subject) {
	m, last := s.series("a"), s.series("b")
	claims := s.insertClaimed(alice(), m, last)
	next, following := s.following(m, noon().Add(7*time.Hour))
	next.Sequence, next.Missed = 8, claims[0]
	following.Sequence = 8
	other := s.series("c")
	s.insert(other)
	gone := node.Next{Of: other.Ref(), Missed: claims[0]}
	gone.Of.Incarnation[2]++
	s.check("rearm", s.rearm(next, node.Next{Of: last.Ref(), Missed: claims[1]}, gone),
		[]node.Settled{node.Rearmed, node.Removed, node.Gone})
	s.checkStored("next", following.Ref(), &memory.Row{Message: following, Due: following.Deadline})
	s.check("claims", len(s.expired()), 0)
}

func rearmFormer(s *subject) {
	s.insertClaimed(alice(), s.message("a"))
	m := s.series("a")
	s.instruct(instruction(node.Replace, m, nil))
	next, following := s.following(m, noon().Add(time.Hour))
	s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
	s.checkStored("next", following.Ref(), &memory.Row{Message: following, Due: following.Deadline, Former: true})
	s.checkLeft("next", "a", &memory.Row{Message: following, Due: following.Deadline, Former: true})
}

// rearmEarlier has a series that makes up for what it has missed: its next occurrence is due before all that waits, and
// before what has been claimed already.
func rearmEarlier(s *subject) {
	list := s.messages(4)
	list[1].Recurrence = node.Recurrence{Series: "every 1h", Sequence: 7, At: noon().Add(-6 * time.Hour)}
	s.insert(list...)
	s.checkMessages(s.claimWithin(alice(), latest(), share(2, 1<<30)), list[0], list[1])
	next, following := s.following(list[1], noon().Add(-5*time.Hour))
	s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
	s.checkMessages(s.claimWithin(alice(), noon().Add(-time.Hour), share(1, 1<<30)), following)
	s.checkMessages(s.claim(alice(), latest()), list[2], list[3])
}

// rearmMoved reschedules and fires occurrences: the deadline moves, and the place in the series stays.
func rearmMoved(s *subject) {
	for _, action := range []node.Action{node.Reschedule, node.FireNow} {
		m := s.series("a")
		s.insert(m)
		moved := s.dueAt("a", noon().Add(-time.Minute))
		s.instruct(instruction(action, moved, nil))
		m.Incarnation, m.Deadline = movedBy(moved, m), moved.Deadline
		s.checkMessages(s.claim(alice(), latest()), m) // with the instant of before
		next, following := s.following(m, noon().Add(time.Hour))
		s.check("rearm", s.rearm(next), []node.Settled{node.Rearmed})
		s.checkStored("next", following.Ref(), &memory.Row{Message: following, Due: following.Deadline})
		s.check("cancel of the next", s.instruct(instruction(node.Cancel, s.message("a"), nil)),
			[]node.ItemResult{{Outcome: node.Cancelled}})
	}
}

// seriesReturned has occurrences with all that their columns may hold, beside messages that are none.
func seriesReturned(s *subject) {
	list := s.messages(5)
	list[0].Recurrence = node.Recurrence{Series: "x", Sequence: 1, At: earliest().Add(time.Microsecond)}
	list[2].Recurrence = node.Recurrence{Series: "'\"\\ – é 𐍈", Sequence: 1 << 62, At: latest()}
	s.insert(list[:3]...)
	s.reset(s.insertClaimed(alice(), list[3])...)
	list[4].Recurrence = list[2].Recurrence
	s.instruct(instruction(node.Replace, list[4], nil))
	for range 2 {
		claimed := s.claim(alice(), latest())
		s.checkMessages(claimed, list...)
		for _, r := range claimed {
			if r.Recurs() {
				s.checkInstant("At", r.At)
			}
		}
		s.reset(claimsOf(claimed)...)
	}
	plain := s.message(list[2].ID)
	plain.Deadline = list[2].Deadline
	s.instruct(instruction(node.Replace, plain, nil))
	list[2] = plain
	s.checkMessages(s.claim(alice(), latest()), list...)
}

// rearmMany settles many in an order of its own, with some that are gone, stopped and ended among them.
func rearmMany(s *subject) {
	const size = 1000
	list := s.messages(size)
	var cancels []node.Item
	for i := range list {
		list[i].Recurrence = node.Recurrence{Series: "every 1h", Sequence: 5, At: list[i].Deadline}
		if i%4 == 1 {
			cancels = append(cancels, instruction(node.Cancel, s.message(list[i].ID), nil))
		}
	}
	s.insertClaimed(alice(), list...)
	s.instruct(cancels...)
	var next []node.Next
	var want []node.Settled
	left := make([]node.Message, size)
	for j := range list {
		i := j * 7 % size // which have no common divisor
		n, following := s.following(list[i], list[i].Deadline.Add(time.Hour))
		left[i] = following
		settled := node.Rearmed
		switch i % 4 {
		case 1:
			settled = node.Removed
		case 2:
			n.Incarnation, n.Sequence, n.At = node.Next{}.Incarnation, 0, time.Time{}
			settled = node.Removed
		case 3:
			n.Of.Incarnation[1]++
			settled = node.Gone
		}
		next, want = append(next, n), append(want, settled)
	}
	s.check("settled", s.rearm(next...), want)
	var waiting []node.Message
	for i := 0; i < size; i += 4 {
		waiting = append(waiting, left[i])
	}
	s.checkMessages(s.claim(bob(), latest()), waiting...)
}

// raceRearm has all callers settle the same occurrences, each with a next one of its own: one of them does it.
func raceRearm(s *subject) {
	list := s.messages(200)
	var batches [callers][]node.Next
	for i := range list {
		list[i].Recurrence = node.Recurrence{Series: "every 1h", Sequence: 1, At: list[i].Deadline}
	}
	for caller := range batches {
		for _, m := range list {
			next, _ := s.following(m, noon().Add(time.Hour))
			batches[caller] = append(batches[caller], next)
		}
	}
	s.insertClaimed(alice(), list...)
	var results [callers][]node.Settled
	s.race(func(ctx context.Context, caller int, r race) (err error) {
		batches[caller] = shuffled(r, batches[caller])
		results[caller], err = r.store.Settle(ctx, batches[caller])
		return err
	})
	won := map[node.Ref]bool{}
	for caller, settled := range results {
		s.checkCall("Settle", nil, len(settled), len(list))
		for i, one := range settled {
			if one == node.Rearmed {
				next := batches[caller][i]
				won[node.Ref{ID: next.Of.ID, Lane: next.Of.Lane, Incarnation: next.Incarnation}] = true
			} else {
				s.check("settled by a loser", one, node.Gone)
			}
		}
	}
	s.check("winners", len(won), len(list))
	for _, r := range s.claim(bob(), latest()) {
		if !won[r.Ref()] {
			s.Fatalf("%s is there as an incarnation that nobody was told of", r.ID)
		}
		delete(won, r.Ref())
	}
	s.check("winners that are not there", len(won), 0)
}

// raceRearmCancel: either a cancel comes first, and the occurrence is the last; or the next one was there already, and
// is cancelled.
func raceRearmCancel(s *subject) {
	list := s.messages(200)
	var nexts []node.Next
	for i := range list {
		list[i].Recurrence = node.Recurrence{Series: "every 1h", Sequence: 1, At: list[i].Deadline}
		next, _ := s.following(list[i], noon().Add(time.Hour))
		nexts = append(nexts, next)
	}
	s.insertClaimed(alice(), list...)
	var turn [callers]int
	var rearmed, removed atomic.Int64
	settle := func(settled []node.Settled) {
		for _, one := range settled {
			switch one {
			case node.Rearmed:
				rearmed.Add(1)
			case node.Removed:
				removed.Add(1)
			default: // another caller has settled it
			}
		}
	}
	all := s.contend(list, node.Cancel, func(ctx context.Context, caller int, r race) error {
		settled, err := r.store.Settle(ctx, []node.Next{nexts[turn[caller]*7%len(nexts)]})
		turn[caller]++
		settle(settled)
		return err
	})
	settle(s.rearm(nexts...))
	cancelled, stopped := 0, 0
	for id, c := range all {
		if c.outcomes[node.Cancelled] > 0 {
			s.checkOutcomes(id, c, map[node.Outcome]int{node.Cancelled: 1, node.NotFound: callers/2 - 1})
			cancelled++
			continue
		}
		n := c.outcomes[node.Stopped]
		s.checkOutcomes(id, c, map[node.Outcome]int{node.Stopped: n, node.NotFound: callers/2 - n})
		stopped++
	}
	s.check("occurrences that were followed, and those cancelled", rearmed.Load(), int64(cancelled))
	s.check("occurrences that were the last, and those stopped", removed.Load(), int64(stopped))
	s.checkMessages(s.claim(bob(), latest()))
}
