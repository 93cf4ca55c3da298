package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"chronos/node"
)

// callers is how many callers race with each other.
const callers = 8

func concurrentCases() []testCase {
	return []testCase{
		{"claimers share nothing and take all", raceClaim},
		{"takes of the same records have one winner", raceTake},
		{"takes of several partitions in any order", raceManyPartitions},
		{"takes of the same ids have one winner each", raceInsert},
		{"repeated takes of one incarnation", raceRepeatedInsert},
		{"new lineages have one winner each", raceLineage},
		{"deletes have one winner each", raceDelete},
		{"resets have one winner each", raceReset},
		{"a reset against a delete", raceResetDelete},
		{"a take against a delete", raceInsertDelete},
		{"the same request is answered once", raceRequest},
		{"many nodes from take to delete", raceLives},
	}
}

// race is one of several callers: a node with its own order of things.
type race struct {
	store  node.Store
	owner  uuid.UUID
	random *rand.Rand
	at     *node.Place // how far it has taken in its partition
}

// take takes messages in as the next records of the caller's partition.
func (r race) take(ctx context.Context, messages ...submission) ([]node.ItemResult, error) {
	request := requestAt(*r.at, r.owner, messages...)
	result, err := r.store.Take(ctx, request)
	if err != nil {
		return nil, err
	}
	r.at.Offset += int64(len(messages))
	if result.Taken != len(messages) || result.Positions[0] != r.at.Position {
		return nil, fmt.Errorf("a take of %d records up to %+v: %+v", len(messages), r.at.Position, result)
	}
	return result.Results, nil
}

// race runs the callers at once.
func (s *subject) race(call func(ctx context.Context, caller int, r race) error) {
	s.Helper()
	var places [callers]node.Place
	for caller := range places {
		places[caller] = s.place(1, 10)
	}
	s.parallel(callers, func(caller int) error {
		store := s.Store
		if caller%2 == 1 {
			store = s.Peer
		}
		return call(s.Context(), caller, race{
			store: store, owner: uuid.UUID{0: byte(caller + 1), 6: 0x40, 8: 0x80},
			random: rand.New(rand.NewPCG(uint64(caller), 0)), at: &places[caller],
		})
	})
}

// shuffled returns list in an order of the caller's own.
func shuffled[T any](r race, list []T) []T {
	list = slices.Clone(list)
	r.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func raceClaim(s *subject) {
	const size = 1000
	list := s.messages(size)
	s.insert(list...)
	var claimed [callers][]node.Ready
	var taken atomic.Int64
	s.race(func(ctx context.Context, caller int, r race) error {
		// A call that finds nothing may have met rows that another caller is claiming.
		for taken.Load() < size {
			result, err := r.store.Claim(ctx, node.ClaimRequest{
				Node: r.owner, Hold: hold, Until: latest(), Lanes: []node.Share{share(7+caller, math.MaxInt)},
			})
			if err != nil {
				return err
			}
			messages := result.Messages
			if len(messages) > 7+caller {
				return fmt.Errorf("%d messages for a limit of %d", len(messages), 7+caller)
			}
			if !slices.IsSortedFunc(messages, func(a, b node.Ready) int {
				return a.Deadline.Compare(b.Deadline)
			}) {
				return fmt.Errorf("messages are out of order: %s", brief(idsOf(messages)))
			}
			claimed[caller] = append(claimed[caller], messages...)
			taken.Add(int64(len(messages)))
		}
		return nil
	})
	var all []node.Ready
	for caller, messages := range claimed {
		for _, r := range messages {
			s.check("owner", r.Claim.ReadiedBy[0], byte(caller+1))
		}
		all = append(all, messages...)
	}
	s.checkSet(all, list)
	s.check("reset by all claims", s.reset(claimsOf(all)...), many(size, true))
}

// raceInsert has every caller insert the same ids in another order, which deadlocks where rows are locked in
// the order of the arguments (hazard H30).
func raceInsert(s *subject) {
	const size = 100
	var batches [callers][]submission
	for caller := range callers {
		batches[caller] = submissions(s.messages(size), caller%3 == 0)
	}
	var results [callers][]node.ItemResult
	s.race(func(ctx context.Context, caller int, r race) (err error) {
		batches[caller] = shuffled(r, batches[caller])
		results[caller], err = r.take(ctx, batches[caller]...)
		return err
	})
	winners := map[string]node.Ref{}
	for caller, batch := range batches {
		s.checkCall("Take", nil, len(results[caller]), size)
		for i, m := range batch {
			switch result := results[caller][i]; result.Outcome {
			case node.Scheduled:
				if other, found := winners[m.ID]; found {
					s.Fatalf("%s: both %v and %v were inserted", m.ID, other.Incarnation, m.Incarnation)
				}
				winners[m.ID] = m.Ref()
			default:
				s.check("result of a loser", result, node.ItemResult{Outcome: node.Duplicate})
			}
		}
	}
	s.check("ids that have a winner", len(winners), size)
	refs := make([]node.Ref, 0, size)
	for _, ref := range winners {
		refs = append(refs, ref)
	}
	s.check("delete of the winners", s.delete(refs...), many(size, true))
}

func raceRepeatedInsert(s *subject) {
	const size = 100
	list := s.messages(size)
	claims := make([]atomic.Int64, size)
	s.race(func(ctx context.Context, caller int, r race) error {
		order := shuffled(r, list)
		results, err := r.take(ctx, submissions(order, true)...)
		if err != nil {
			return err
		}
		for i, result := range results {
			if result.Outcome != node.Scheduled {
				return fmt.Errorf("an incarnation is in its own way: %+v", result)
			}
			if result.Claim != (node.Claim{}) {
				at := slices.IndexFunc(list, func(m node.Message) bool { return m.ID == order[i].ID })
				claims[at].Add(1)
			}
		}
		return nil
	})
	for i := range claims {
		s.check("callers that hold the claim", claims[i].Load(), int64(1))
	}
	s.check("claims", len(s.expired()), size)
	s.check("delete", s.delete(refsOf(list)...), many(size, true))
}

// raceTake has all callers take the same records of one partition in, each with incarnations of its own, as zombies do.
// One of them does it, whole, and the others change nothing.
func raceTake(s *subject) {
	const size, rounds = 20, 5
	place := s.place(1, 10)
	for range rounds {
		var batches [callers][]submission
		for caller := range callers {
			batches[caller] = submissions(s.messages(size), caller%2 == 0)
		}
		var results [callers][]node.ItemResult
		s.race(func(ctx context.Context, caller int, r race) (err error) {
			at := place
			r.at = &at
			results[caller], err = r.take(ctx, batches[caller]...)
			return err
		})
		place.Offset += size
		var winner []node.Ref
		for caller, list := range results {
			if list[0].Outcome == node.Skipped {
				s.check("results of a loser", list, many(size, node.ItemResult{Outcome: node.Skipped}))
				continue
			}
			for i, result := range list {
				s.check("outcome", result.Outcome, node.Scheduled)
				winner = append(winner, batches[caller][i].Ref())
			}
		}
		s.check("messages of the winner", len(winner), size)
		s.check("delete", s.delete(winner...), many(size, true))
	}
}

// raceManyPartitions has all callers take records of the same partitions in, in another order each: a deadlock where
// positions are locked in the order of the arguments.
func raceManyPartitions(s *subject) {
	const partitions, rounds = 6, 8
	var places [partitions]node.Place
	for i := range places {
		places[i] = s.place(1, 10)
	}
	ids := s.messages(rounds * partitions)
	var taken atomic.Int64
	s.race(func(ctx context.Context, _ int, r race) error {
		for round := range rounds {
			request := node.TakeRequest{Node: r.owner, Hold: hold}
			for i, at := range shuffled(r, []int{0, 1, 2, 3, 4, 5}) {
				place := places[at]
				place.Offset += int64(round)
				m := ids[round*partitions+at]
				m.Incarnation[0] = r.owner[0]
				request.From = append(request.From, place)
				request.Items = append(request.Items, node.Item{
					From: i, Epoch: 1, Offset: place.Offset, Action: node.Schedule, Message: m,
				})
			}
			result, err := r.store.Take(ctx, request)
			if err != nil {
				return err
			}
			for _, item := range result.Results {
				if item.Outcome == node.Scheduled {
					taken.Add(1)
				} else if item.Outcome != node.Skipped {
					return fmt.Errorf("round %d: %+v", round, result)
				}
			}
		}
		return nil
	})
	s.check("messages taken in", taken.Load(), int64(rounds*partitions))
	s.check("messages stored", len(s.claim(alice(), latest())), rounds*partitions)
}

// raceLineage has all callers begin a new lineage when they have seen the same one.
func raceLineage(s *subject) {
	const rounds = 5
	first := s.state().Lineage
	s.race(func(ctx context.Context, _ int, r race) error {
		for round := range int64(rounds) {
			state, err := r.store.CatchUp(ctx, node.CatchUpRequest{Lineage: first + round, Begin: true})
			if err != nil || state.Lineage <= first+round {
				return fmt.Errorf("after lineage %d: %+v, error %w", first+round, state, err)
			}
		}
		return nil
	})
	s.check("lineage", s.state().Lineage, first+rounds)
}

// winners counts for each argument how many callers were told that it took effect.
func winners[T any](
	s *subject, list []T, call func(context.Context, race, []T) ([]node.Settled, error),
) []int64 {
	s.Helper()
	type numbered struct {
		at    int
		value T
	}
	all := make([]numbered, len(list))
	for i, value := range list {
		all[i] = numbered{i, value}
	}
	counts := make([]atomic.Int64, len(list))
	s.race(func(ctx context.Context, caller int, r race) error {
		order := shuffled(r, all)
		values := make([]T, len(order))
		for i, n := range order {
			values[i] = n.value
		}
		done, err := call(ctx, r, values)
		if err == nil && len(done) != len(values) {
			err = fmt.Errorf("%d results for %d arguments", len(done), len(values))
		}
		for i, did := range done {
			if did != node.Gone {
				counts[order[i].at].Add(1)
			}
		}
		return err
	})
	result := make([]int64, len(list))
	for i := range counts {
		result[i] = counts[i].Load()
	}
	return result
}

func raceDelete(s *subject) {
	const size = 200
	list := s.messages(size)
	s.insert(list[:size/2]...)
	s.insertClaimed(alice(), list[size/2:]...)
	counts := winners(s, refsOf(list), func(ctx context.Context, r race, refs []node.Ref) ([]node.Settled, error) {
		return r.store.Settle(ctx, node.Removals(refs...))
	})
	s.check("how often each was deleted", counts, many(size, int64(1)))
	s.checkMessages(s.claim(bob(), latest()))
}

func raceReset(s *subject) {
	const size = 200
	claims := s.insertClaimed(alice(), s.messages(size)...)
	counts := winners(s, claims, func(ctx context.Context, r race, claims []node.Claim) ([]node.Settled, error) {
		releases := make([]node.Release, len(claims))
		for i, claim := range claims {
			releases[i].Claim = claim
		}
		return r.store.Reset(ctx, releases)
	})
	s.check("how often each was reset", counts, many(size, int64(1)))
	s.check("waiting messages", len(s.claim(bob(), latest())), size)
}

// raceResetDelete has some callers give claims up that others delete: a delete wins always, before a reset or
// after it.
func raceResetDelete(s *subject) {
	const size = 200
	list := s.messages(size)
	claims := s.insertClaimed(alice(), list...)
	var deleted atomic.Int64
	s.race(func(ctx context.Context, caller int, r race) error {
		if caller%4 < 2 {
			var releases []node.Release
			for _, claim := range shuffled(r, claims) {
				releases = append(releases, node.Release{Claim: claim, Due: noon()})
			}
			_, err := r.store.Reset(ctx, releases)
			return err
		}
		gone, err := r.store.Settle(ctx, node.Removals(shuffled(r, refsOf(list))...))
		for _, did := range gone {
			if did == node.Removed {
				deleted.Add(1)
			}
		}
		return err
	})
	s.check("deletes that took effect", deleted.Load(), int64(size))
	s.checkMessages(s.claim(bob(), latest()))
	s.check("claims", len(s.expired()), 0)
}

// raceInsertDelete has two callers, one of which deletes what is in the way of the other's inserts. Whatever comes
// first, the answers agree with what is stored then: no new message is both confirmed and gone, and none is
// called a duplicate of what was not there.
func raceInsertDelete(s *subject) {
	const size = 200
	old, next := s.messages(size), s.messages(size)
	s.insert(old...)
	results := make([]node.ItemResult, 0, size)
	place := s.place(1, 10)
	taker := race{store: s.Peer, owner: alice(), at: &place}
	s.parallel(2, func(caller int) error {
		for from := 0; from < size; from += 20 {
			to := from + 20
			if caller == 0 {
				deleted, err := s.Store.Settle(s.Context(), node.Removals(refsOf(old[from:to])...))
				if err != nil || slices.Contains(deleted, node.Gone) {
					return fmt.Errorf("deleted %v, error %w", deleted, err)
				}
				continue
			}
			taken, err := taker.take(s.Context(), submissions(next[from:to], false)...)
			if err != nil {
				return err
			}
			results = append(results, taken...)
		}
		return nil
	})
	s.checkCall("Take", nil, len(results), size)
	var want []node.Message
	for i, result := range results {
		switch result.Outcome {
		case node.Scheduled:
			want = append(want, next[i])
		default:
			s.check("result", result, node.ItemResult{Outcome: node.Duplicate})
		}
	}
	s.checkMessages(s.claim(bob(), latest()), want...)
}

// raceLives runs small nodes side by side: each inserts its own messages, claims whatever is due, gives some back,
// and deletes what it holds. In the end every message has been deleted by exactly one of them.
func raceLives(s *subject) {
	const each = 60
	batches := make([][]submission, callers)
	for caller := range batches {
		batches[caller] = submissions(s.messages(each), false)
		for i := range batches[caller] {
			m := &batches[caller][i]
			m.ID = fmt.Sprint(m.ID, " of ", caller)
			m.claim = i%5 == 0
		}
	}
	var deleted atomic.Int64
	s.race(func(ctx context.Context, caller int, r race) error {
		own := batches[caller]
		for deleted.Load() < callers*each {
			n := min(len(own), 11)
			gone, err := r.live(ctx, own[:n])
			if err != nil {
				return err
			}
			own = own[n:]
			deleted.Add(gone)
		}
		return nil
	})
	s.check("deletes that took effect", deleted.Load(), int64(callers*each))
	s.checkMessages(s.claim(alice(), latest()))
	s.check("claims", len(s.expired()), 0)
}

// live takes messages in, claims some, gives one of these back, deletes the others, and returns how many.
func (r race) live(ctx context.Context, messages []submission) (deleted int64, err error) {
	results, err := r.take(ctx, messages...)
	if err != nil {
		return 0, err
	}
	var held []node.Claim
	for i, result := range results {
		if result.Outcome != node.Scheduled || (result.Claim != node.Claim{}) != messages[i].claim {
			return 0, fmt.Errorf("taking %+v in: %+v", messages[i], result)
		}
		if messages[i].claim {
			held = append(held, result.Claim)
		}
	}
	claimed, err := r.store.Claim(ctx, node.ClaimRequest{
		Node: r.owner, Hold: hold, Until: latest(), Lanes: []node.Share{share(1+r.random.IntN(20), math.MaxInt)},
	})
	if err != nil {
		return 0, err
	}
	held = append(held, claimsOf(claimed.Messages)...)
	if len(held) > 1 {
		reset, err := r.store.Reset(ctx, []node.Release{{Claim: held[0]}})
		if err != nil || reset[0] != node.Freed {
			return 0, fmt.Errorf("giving %+v back: %v, error %w", held[0], reset, err)
		}
		held = held[1:]
	}
	refs := make([]node.Ref, len(held))
	for i, claim := range shuffled(r, held) {
		refs[i] = claim.Ref
	}
	gone, err := r.store.Settle(ctx, node.Removals(refs...))
	if err != nil || slices.Contains(gone, node.Gone) {
		return 0, fmt.Errorf("deleting what this node holds: %v, error %w", gone, err)
	}
	return int64(len(gone)), nil
}
