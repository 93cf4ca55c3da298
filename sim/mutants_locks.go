package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"chronos/node"
)

// lockMutants let what another session has locked, or one slow call, stop what it does not concern.
func lockMutants() []*Mutant {
	const rowsLocked = "rows-locked"
	return []*Mutant{
		{
			Name: "waits-for-locks", About: "a call of the store waits for what another session has locked",
			Kills: []string{"L11", "L5", "L2"}, Scenario: rowsLocked, WaitsForLocks: true,
		},
		{
			Name:  "fails-by-locks",
			About: "a call of the store fails as a whole where another session has locked one row",
			Kills: []string{"L11", "L5", "L2", "L4"}, Scenario: rowsLocked,
			Ports: func(p node.Ports) node.Ports { p.Store = failsByLocks{p.Store}; return p },
		},
		{
			Name:  "passes-blocked",
			About: "a take goes on behind an item that is blocked, and the position moves past it",
			Kills: []string{"S10", "L3", "S18"}, Scenario: rowsLocked, PassesBlocked: true,
		},
		{
			Name:  "lanes-in-turn",
			About: "after a claim that failed, each claim is for one lane, for twenty seconds",
			Kills: []string{"L11"}, Scenario: "many-lanes",
			Ports: func(p node.Ports) node.Ports { p.Store = &lanesInTurn{Store: p.Store, clock: p.Clock}; return p },
		},
	}
}

// failsByLocks returns an error for a call of which something is locked, after its effect on the rest.
type failsByLocks struct{ node.Store }

var errByLocks = errors.New("canceling statement due to lock timeout")

func (s failsByLocks) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	settled, err := s.Store.Settle(ctx, next)
	if err == nil && slices.Contains(settled, node.Busy) {
		return nil, errByLocks
	}
	return settled, err
}

func (s failsByLocks) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	settled, err := s.Store.Reset(ctx, releases)
	if err == nil && slices.Contains(settled, node.Busy) {
		return nil, errByLocks
	}
	return settled, err
}

func (s failsByLocks) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	blocked := func(r node.ItemResult) bool { return r.Outcome == node.Blocked }
	if err == nil && slices.ContainsFunc(result.Results, blocked) {
		return node.TakeResult{}, errByLocks
	}
	return result, err
}

// lanesInTurn claims on one lane in each call, for a while after one that failed.
type lanesInTurn struct {
	node.Store

	clock node.Clock
	until time.Duration
	next  int
}

func (s *lanesInTurn) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	if s.clock.Mono() < s.until && len(request.Lanes) > 0 {
		s.next++
		request.Lanes = []node.Share{request.Lanes[s.next%len(request.Lanes)]}
	}
	result, err := s.Store.Claim(ctx, request)
	if err != nil {
		s.until = s.clock.Mono() + 20*time.Second
	}
	return result, err
}
