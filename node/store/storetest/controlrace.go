package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"chronos/node"
)

func controlRaceCases() []testCase {
	return []testCase{
		{"claims against cancels", raceCancel},
		{"claims against fires", raceFire},
		{"claims against reschedules", raceReschedule},
		{"claims against replaces", raceReplace},
		{"unsent releases against cancels", raceUnsentCancel},
		{"deletes against cancels", raceDeleteCancel},
		{"instructions of many in any order", raceInstructions},
		{"next occurrences have one winner each", raceRearm},
		{"next occurrences against cancels", raceRearmCancel},
	}
}

// contested is what happened to one message while some callers claimed and others gave instructions.
type contested struct {
	claims   []node.Ready
	outcomes map[node.Outcome]int

	// next are the incarnations that instructions have brought which took effect.
	next []node.Message
}

// instruct takes items in as the next records of the caller's partition.
func (r race) instruct(ctx context.Context, items []node.Item) ([]node.ItemResult, error) {
	request := node.TakeRequest{Node: r.owner, Hold: hold, From: []node.Place{*r.at}}
	for i, item := range items {
		item.Epoch, item.Offset = r.at.Epoch, r.at.Offset+int64(i)
		request.Items = append(request.Items, item)
	}
	result, err := r.store.Take(ctx, request)
	if err != nil {
		return nil, err
	}
	r.at.Offset += int64(len(items))
	if result.Taken != len(items) || result.Positions[0] != r.at.Position {
		return nil, fmt.Errorf("a take of %d instructions: %+v", len(items), result)
	}
	return result.Results, nil
}

// contend has half of the callers do something of their own again and again, as long as the other half gives
// instructions: each of them one on every message, a few at a time; but every message is replaced once only. It returns
// what came of the instructions, by id.
func (s *subject) contend(
	list []node.Message, action node.Action, other func(ctx context.Context, caller int, r race) error,
) map[string]*contested {
	s.Helper()
	const few = 5
	var batches [callers][]node.Item
	var results [callers][]node.ItemResult
	instructors := 0
	for caller := range callers {
		if caller%4 >= 2 {
			instructors++
			for i, m := range list {
				if action == node.Replace && i%(callers/2) != instructors-1 {
					continue
				}
				next := s.message(m.ID)
				next.Value = []byte(fmt.Sprint(caller))
				batches[caller] = append(batches[caller], instruction(action, next, nil))
			}
		}
	}
	var ended atomic.Int64
	s.race(func(ctx context.Context, caller int, r race) error {
		if caller%4 < 2 {
			for ended.Load() < int64(instructors) {
				if err := other(ctx, caller, r); err != nil {
					return err
				}
			}
			return nil
		}
		defer ended.Add(1)
		batches[caller] = shuffled(r, batches[caller])
		for part := range slices.Chunk(batches[caller], few) {
			got, err := r.instruct(ctx, part)
			if err != nil {
				return err
			}
			results[caller] = append(results[caller], got...)
		}
		return nil
	})
	all := map[string]*contested{}
	for _, m := range list {
		all[m.ID] = &contested{outcomes: map[node.Outcome]int{}}
	}
	for caller, batch := range batches {
		for i, item := range batch {
			c, result := all[item.ID], results[caller][i]
			s.check("claim", result.Claim, node.Claim{})
			c.outcomes[result.Outcome]++
			switch result.Outcome {
			case node.Replaced, node.Rescheduled, node.FiredNow:
				c.next = append(c.next, item.Message)
			default: // it has changed nothing
			}
		}
	}
	return all
}

// contendClaims has callers claim a few at a time while others give instructions, and claims what is left then. It
// returns what has happened, by id.
func (s *subject) contendClaims(list []node.Message, action node.Action) map[string]*contested {
	s.Helper()
	s.insert(list...)
	var claimed [callers][]node.Ready
	all := s.contend(list, action, func(ctx context.Context, caller int, r race) error {
		result, err := r.store.Claim(ctx, node.ClaimRequest{
			Node: r.owner, Hold: hold, Until: latest(), Lanes: []node.Share{share(3, math.MaxInt)},
		})
		claimed[caller] = append(claimed[caller], result.Messages...)
		return err
	})
	for _, r := range append(slices.Concat(claimed[:]...), s.claim(alice(), latest())...) {
		all[r.ID].claims = append(all[r.ID].claims, r)
	}
	return all
}

// checkOutcomes ends the case unless a message has had these outcomes, and no others.
func (s *subject) checkOutcomes(id string, c *contested, want map[node.Outcome]int) {
	s.Helper()
	for outcome, n := range want {
		if n == 0 {
			delete(want, outcome)
		}
	}
	s.check(id, c.outcomes, want)
}

// raceCancel: what is cancelled is not claimed, and what is claimed is not cancelled; each is one of the two.
func raceCancel(s *subject) {
	list := s.messages(200)
	for id, c := range s.contendClaims(list, node.Cancel) {
		if len(c.claims) == 0 {
			s.checkOutcomes(id, c, map[node.Outcome]int{node.Cancelled: 1, node.NotFound: callers/2 - 1})
			continue
		}
		s.checkOutcomes(id, c, map[node.Outcome]int{node.TooLate: callers / 2})
		s.check("reset of "+id, s.reset(claimsOf(c.claims)...), []bool{true})
	}
}

// raceFire: what is fired is claimed as fired, and what was claimed before is not fired; each is claimed once.
func raceFire(s *subject) {
	list := s.messages(200)
	for id, c := range s.contendClaims(list, node.FireNow) {
		s.check("claims of "+id, len(c.claims), 1)
		s.checkOutcomes(id, c, map[node.Outcome]int{node.FiredNow: len(c.next), node.TooLate: callers/2 - len(c.next)})
		if len(c.next) > 1 {
			s.Fatalf("%s was fired %d times", id, len(c.next))
		}
		s.checkLast(list, id, c)
	}
}

// raceReschedule: what was claimed once is not rescheduled any more, and is claimed as it was rescheduled last.
func raceReschedule(s *subject) {
	list := s.messages(200)
	for id, c := range s.contendClaims(list, node.Reschedule) {
		s.check("claims of "+id, len(c.claims), 1)
		s.checkOutcomes(id, c, map[node.Outcome]int{
			node.Rescheduled: len(c.next), node.TooLate: callers/2 - len(c.next),
		})
		s.checkLast(list, id, c)
	}
}

// checkLast ends the case unless the one claim on a message is on what instructions have made of it, if any has, and in
// force.
func (s *subject) checkLast(list []node.Message, id string, c *contested) {
	s.Helper()
	at := slices.IndexFunc(list, func(m node.Message) bool { return m.ID == id })
	want, claim := list[at], c.claims[0]
	if len(c.next) > 0 {
		if !movedAll(want.Incarnation, c.next, claim.Incarnation) {
			s.Fatalf("%s was claimed as it was before, although an instruction took effect: %+v", id, c.outcomes)
		}
		want.Incarnation = claim.Incarnation
		want.Deadline = claim.Deadline // which of the two is the earlier one is for other cases
	}
	s.checkMessages(c.claims, want)
	s.check("reset of "+id, s.reset(claim.Claim), []bool{true})
}

// movedAll reports whether an incarnation comes of another one by all these moves, in some order.
func movedAll(from uuid.UUID, moves []node.Message, to uuid.UUID) bool {
	if len(moves) == 0 {
		return from == to
	}
	for i, m := range moves {
		item := node.Item{Message: m}
		if movedAll(item.Moved(from), slices.Delete(slices.Clone(moves), i, i+1), to) {
			return true
		}
	}
	return false
}

// raceReplace: a replace takes effect, be the message claimed or not. A claim on what was there before is void; and
// that it may appear is known exactly where there was one.
func raceReplace(s *subject) {
	list := s.messages(200)
	all := s.contendClaims(list, node.Replace)
	var items []node.Item
	var asked []*node.Answer
	for i, m := range list {
		c := all[m.ID]
		s.checkOutcomes(m.ID, c, map[node.Outcome]int{node.Replaced: 1})
		seen := map[node.Ref]bool{}
		for _, r := range c.claims {
			if seen[r.Ref()] {
				s.Fatalf("%s was claimed twice in one incarnation", m.ID)
			}
			seen[r.Ref()] = true
		}
		answer := s.answer(m.ID)
		answer.ID = fmt.Sprintf("answer-%05d", i)
		items, asked = append(items, instruction(node.Cancel, s.message(m.ID), answer)), append(asked, answer)
	}
	for _, result := range s.instruct(items...) {
		s.check("a cancel of what is claimed", result.Outcome, node.TooLate)
	}
	replies := s.replies(latest())
	s.check("replies", len(replies), len(asked))
	for i, m := range list {
		c := all[m.ID]
		held := s.reset(claimsOf(c.claims)...)
		inForce := 0
		for _, h := range held {
			if h {
				inForce++
			}
		}
		s.check("claims in force", inForce, 1)
		former := slices.ContainsFunc(replies[i].Headers, func(h node.Header) bool {
			return h.Name == "chronosFormer"
		})
		if former != (len(c.claims) > 1) {
			s.Fatalf("%s was claimed in %d incarnations, and its reply says of former content: %v",
				m.ID, len(c.claims), former)
		}
	}
}

// raceUnsentCancel: either a cancel comes first, and is too late, and so is every one after it; or the release does,
// and one cancel takes effect.
func raceUnsentCancel(s *subject) {
	list := s.messages(200)
	claims := s.insertClaimed(alice(), list...)
	var next [callers]int
	all := s.contend(list, node.Cancel, func(ctx context.Context, caller int, r race) error {
		var releases []node.Release
		for range 3 {
			releases = append(releases, node.Release{Claim: claims[next[caller]*7%len(claims)], Unsent: true})
			next[caller]++
		}
		_, err := r.store.Reset(ctx, releases)
		return err
	})
	left := 0
	for id, c := range all {
		if c.outcomes[node.TooLate] > 0 {
			s.checkOutcomes(id, c, map[node.Outcome]int{node.TooLate: callers / 2})
			left++
		} else {
			s.checkOutcomes(id, c, map[node.Outcome]int{node.Cancelled: 1, node.NotFound: callers/2 - 1})
		}
	}
	s.reset(claims...)
	s.check("messages that are left", len(s.claim(bob(), latest())), left)
}

// raceDeleteCancel: what was published is deleted, once, and never cancelled.
func raceDeleteCancel(s *subject) {
	list := s.messages(200)
	s.insertClaimed(alice(), list...)
	var next [callers]int
	var deleted atomic.Int64
	all := s.contend(list, node.Cancel, func(ctx context.Context, caller int, r race) error {
		ref := list[next[caller]*7%len(list)].Ref()
		next[caller]++
		gone, err := r.store.Settle(ctx, node.Removals(ref))
		if err == nil && gone[0] == node.Removed {
			deleted.Add(1)
		}
		return err
	})
	for id, c := range all {
		s.checkOutcomes(id, c, map[node.Outcome]int{
			node.TooLate: c.outcomes[node.TooLate], node.NotFound: callers/2 - c.outcomes[node.TooLate],
		})
	}
	for _, gone := range s.delete(refsOf(list)...) {
		if gone {
			deleted.Add(1)
		}
	}
	s.check("deletes that took effect", deleted.Load(), int64(len(list)))
}

// raceInstructions has all callers give all kinds of instructions on a few ids, in batches with the ids in any order: a
// deadlock where rows are locked in the order of the records. What was stored and not cancelled is there in the end.
func raceInstructions(s *subject) {
	const ids, rounds, each = 12, 12, 10
	actions := []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow}
	var batches [callers][rounds][]node.Item
	var results [callers][rounds][]node.ItemResult
	for caller := range batches {
		for round := range batches[caller] {
			for i := range each {
				// Every kind, on ids that differ from caller to caller and from round to round.
				id := fmt.Sprint("message-", (i*(2*caller+1)+round*5)%ids)
				item := instruction(actions[(i*3+caller+round)%len(actions)], s.message(id), nil)
				// Which incarnation a move has made depends on the one before. So it is asked for.
				item.Request = &node.Request{ID: s.incarnation(), Print: s.incarnation(), Keep: node.AnswerKept}
				batches[caller][round] = append(batches[caller][round], item)
			}
		}
	}
	s.race(func(ctx context.Context, caller int, r race) (err error) {
		for round, items := range batches[caller] {
			if results[caller][round], err = r.instruct(ctx, items); err != nil {
				return err
			}
		}
		return nil
	})
	there := map[string]int{}
	made := map[uuid.UUID]bool{}
	for caller := range batches {
		for round, items := range batches[caller] {
			for i, item := range items {
				result := results[caller][round][i]
				switch result.Outcome {
				case node.Scheduled:
					there[item.ID]++
				case node.Cancelled:
					there[item.ID]--
				default: // as many as before
				}
				made[result.Told.Incarnation] = true
			}
		}
	}
	for _, r := range s.claim(bob(), latest()) {
		if !made[r.Incarnation] {
			s.Fatalf("%s is there as an incarnation that no outcome tells of", r.ID)
		}
		there[r.ID]--
	}
	for id, n := range there {
		s.check("stored and neither cancelled nor there: "+id, n, 0)
	}
}
