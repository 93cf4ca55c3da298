package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/node"
)

const (
	// apartItems is how many items a take has, at least, that is made of two transactions. Measured: with 250 what two
	// cost is more than what they save, with 500 it is not (docs/PERFORMANCE.md).
	apartItems = 300

	// apartShare is the least part of the items that the smaller of the two has: one in so many.
	apartShare = 4

	// togetherFor is for how long takes are made of one transaction each, after one that had to be. Whoever repeats a
	// take does so within a second.
	togetherFor = 10 * time.Second
)

// errApart says that the two transactions of a take have not met one store, or that the server has refused a record of
// one of them. Either may have taken effect, as after any error.
var errApart = errors.New("the two transactions of the take do not fit together: it is to be repeated as one")

// takeBriefly makes a take of one transaction or, if that is faster, of two side by side, which share the partitions
// out among them: one goes on while the other waits for the disk, and they need two processors, here and at the server.
//
// No message is in both, so it makes no difference which comes first, and together they are what one would be, except
// that one of them may be lost without the other. The contract has each partition take effect by itself. Neither
// transaction waits for the other, and whoever has a connection needs no second one, so nobody waits forever.
//
// A repeat within the call would be told of claims that this node has made meanwhile, which the caller takes for those
// of a first try:
//
//	take      two transactions: x is stored as waiting, since its lane is paused; they do not fit together
//	          the lane is resumed
//	claimer   claims x; it is scheduled, published
//	take      one transaction: told of that claim: x would be published twice
//
// So a take whose transactions do not fit together fails, and the repeat of it is made of one.
func (s *Store) takeBriefly(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	a, apart := s.apartOf(&request)
	if !apart {
		result, err := s.take(ctx, request)
		if err == nil {
			s.mindCatchUp(result.State)
		}
		return result, err
	}
	var errs [2]error
	var second sync.WaitGroup
	second.Go(func() { a.results[1], errs[1] = s.take(ctx, a.requests[1]) })
	a.results[0], errs[0] = s.take(ctx, a.requests[0])
	second.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return node.TakeResult{}, err
	}
	result, fits := a.merge()
	if !fits {
		s.keepTogether()
		return node.TakeResult{}, errApart
	}
	return result, nil
}

// mindCatchUp has takes be made of one transaction each while marks are passed: of two, each would know less of the
// state than it should.
func (s *Store) mindCatchUp(state node.State) {
	if state.CatchingUp {
		s.keepTogether()
	}
}

// keepTogether has takes be made of one transaction each for a while.
func (s *Store) keepTogether() { s.together.Store(time.Now().Add(togetherFor).UnixNano()) }

// apart is a take that is made of two transactions.
type apart struct {
	request  *node.TakeRequest
	of       []int // the transaction of each partition, by its place in request.From
	requests [2]node.TakeRequest
	results  [2]node.TakeResult
}

// apartOf shares a take out among two transactions, if it is to be made of two. It is not where its items have to take
// effect together, or in their order: those that stand in no partition, those whose answers are remembered, and those
// about one message. Nor is one with a message that is refused: those behind it are not to be taken in. And it is not
// where a second connection is not free at once.
func (s *Store) apartOf(request *node.TakeRequest) (a apart, is bool) {
	if len(request.Items) < s.apartFrom || len(request.From) < 2 ||
		time.Now().UnixNano() < s.together.Load() || !s.hasTwoFree() {
		return a, false
	}
	counts := make([]int, len(request.From))
	for i := range request.Items {
		item := &request.Items[i]
		if item.From == node.NoPlace || item.Request != nil || item.Refusal() != "" {
			return a, false
		}
		counts[item.From]++
	}
	a = apart{request: request, of: make([]int, len(request.From))}
	if !a.halve(counts) || !a.parts() {
		return a, false
	}
	return a, true
}

// hasTwoFree reports whether two connections are free, of which one is there already: the server was a moment ago.
func (s *Store) hasTwoFree() bool {
	stat := s.pool.Stat()
	idle := stat.IdleConns()
	return idle > 1 || idle == 1 && stat.TotalConns() < stat.MaxConns()
}

// halve gives each partition to the transaction that has fewer items up to then, those with the most first, and reports
// whether both have a good part.
func (a *apart) halve(counts []int) bool {
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(counts[y], counts[x]) })
	var sums [2]int
	for _, i := range order {
		if sums[1] < sums[0] {
			a.of[i] = 1
		}
		sums[a.of[i]] += counts[i]
	}
	return apartShare*min(sums[0], sums[1]) >= sums[0]+sums[1]
}

// parts makes the two requests, and reports whether no message is in both.
func (a *apart) parts() bool {
	places := make([]int, len(a.of))
	for i, which := range a.of {
		r := &a.requests[which]
		r.Node, r.Hold = a.request.Node, a.request.Hold
		places[i] = len(r.From)
		r.From = append(r.From, a.request.From[i])
	}
	names := make(map[node.MessageID]int, len(a.request.Items))
	for i := range a.request.Items {
		item := a.request.Items[i]
		which := a.of[item.From]
		if item.Action != node.Pass {
			if other, known := names[nameOf(&item)]; known && other != which {
				return false
			}
			names[nameOf(&item)] = which
		}
		item.From = places[item.From]
		a.requests[which].Items = append(a.requests[which].Items, item)
	}
	return true
}

// merge returns what became of the take, and whether both transactions have dealt with all of their items in one state
// of the store, in which nothing is to be caught up with.
func (a *apart) merge() (result node.TakeResult, fits bool) {
	state := a.results[0].State
	if state != a.results[1].State || state.CatchingUp ||
		a.results[0].Refusal != "" || a.results[1].Refusal != "" {
		return result, false
	}
	result.State = state
	var at [2]int
	for _, which := range a.of {
		one := &a.results[which]
		result.Positions = append(result.Positions, one.Positions[at[which]])
		result.Refused = append(result.Refused, one.Refused[at[which]])
		at[which]++
	}
	at = [2]int{}
	result.Results = make([]node.ItemResult, 0, len(a.request.Items))
	for i := range a.request.Items {
		which := a.of[a.request.Items[i].From]
		result.Results = append(result.Results, a.results[which].Results[at[which]])
		at[which]++
	}
	result.Taken = len(result.Results)
	return result, true
}
