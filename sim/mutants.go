package sim

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// Mutants returns all mutants, in the order in which they are reported.
func Mutants() []*Mutant {
	return slices.Concat(storeMutants(), contentMutants(), claimMutants(), intakeMutants(), positionMutants(),
		upgradeMutants(),
		publishMutants(), idleMutants(), callbackMutants(), lineMutants(), laneMutants(), pauseMutants(),
		windowMutants(), paceMutants(), queueMutants(), lockMutants(), parkedMutants(), probeMutants(),
		controlMutants(), holdMutants(), pastMutants(), limitMutants(), seriesMutants(),
		clockMutants(), originalMutants(), delayMutants())
}

// storeMutants write and delete rows wrongly.
func storeMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "delete-by-id", About: "D2 read literally: a delete names the id only (H1, H2)",
			Kills: []string{"S2"}, Options: reusing,
			Rows: func(rows node.Store, table Table) node.Store { return deleteByID{rows, table} },
		},
		{
			Name: "delete-if-owner", About: "a delete is fenced by the owner of the claim (H3)",
			Kills: []string{"S14"}, Options: suspicious,
			Rows: fencedDelete(func(table Table, c node.Claim) bool { return c.ReadiedBy == table.Caller() }),
		},
		{
			Name: "delete-if-claimed", About: "a delete is fenced by the claim that the node had (H4)",
			Kills: []string{"S14"}, Options: suspicious,
			Rows: func(rows node.Store, table Table) node.Store {
				return claimFence{rows, table, map[grant]time.Time{}}
			},
		},
		{
			Name: "delete-ignored", About: "a delete reports success and does nothing",
			Kills: []string{"S14"}, Rows: fencedDelete(func(Table, node.Claim) bool { return false }),
		},
		{
			Name: "delete-waiting-only", About: "a delete spares what has been claimed by a peer meanwhile",
			Kills: []string{"S14"}, Options: suspicious,
			Rows: fencedDelete(func(table Table, c node.Claim) bool {
				return c.ReadiedBy == table.Caller() || c.ReadiedBy == uuid.Nil
			}),
		},
		{
			Name: "upsert", About: "a take replaces what is there (H33)",
			Kills: []string{"S2"}, Options: reusing,
			Rows: func(rows node.Store, table Table) node.Store { return upsert{rows, table} },
		},
		{
			Name: "second-row", About: "no index keeps the rows of one id apart: a take adds a second one",
			Kills: []string{"S11"}, Options: func(o *Options) { reusing(o); o.Instructed, o.Operated = 0, 0 },
			Broken: memory.Broken{Decide: func(item *node.Item, before *node.Kept) node.Verdict {
				if item.Action == node.Schedule {
					before = nil
				}
				return item.Decide(before)
			}},
		},
		{
			Name: "incarnation-of-id", About: "the incarnation repeats when the id does, like a sequence (H5)",
			Kills: []string{"S2"}, Options: reusing,
			Rows: changedTake(func(i *node.Item) {
				i.Incarnation = uuid.NewSHA1(uuid.NameSpaceOID, []byte(i.ID+i.Lane))
			}),
		},
		{
			Name: "duplicate-is-error", About: "a take of a duplicate fails, and with it the batch",
			Kills: []string{"L5"}, Options: func(o *Options) { reusing(o); o.FaultRate = 0 },
			Rows: func(rows node.Store, table Table) node.Store { return duplicateFails{rows, table} },
		},
	}
}

// contentMutants keep something else than what came in.
func contentMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "deadline-in-an-hour", About: "a zone-less deadline is read in another zone (H27)",
			Kills: []string{"S6", "L2"},
			Rows:  changedTake(func(i *node.Item) { i.Deadline = i.Deadline.Add(time.Hour) }),
		},
		{
			Name: "short-ids", About: "ids are cut off (H28)",
			Kills: []string{"S6"}, Rows: changedTake(func(i *node.Item) { i.ID = i.ID[:min(len(i.ID), 2)] }),
		},
		{
			Name: "text-values", About: "null values become empty (H28)",
			Kills: []string{"S6"}, Rows: changedTake(func(i *node.Item) { i.Value = append([]byte{}, i.Value...) }),
		},
		{
			Name: "sorted-headers", About: "headers are kept in a map (D6)",
			Kills: []string{"S6"},
			Rows: changedTake(func(i *node.Item) {
				i.Headers = slices.Clone(i.Headers)
				slices.SortStableFunc(i.Headers, func(a, b node.Header) int { return cmp.Compare(a.Name, b.Name) })
			}),
		},
	}
}

// deleteByID deletes whatever has the id.
type deleteByID struct {
	node.Store

	table Table
}

// Settle implements node.Store.
func (s deleteByID) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	return s.Store.Settle(ctx, mapped(next, func(n node.Next) node.Next {
		if n.Removes() {
			c, _ := s.table.Claim(node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane})
			n.Of = c.Ref
		}
		return n
	}))
}

// deleteFence deletes only what is allowed, and calls everything deleted.
type deleteFence struct {
	node.Store

	allowed func(node.Ref) bool
}

// Settle implements node.Store.
func (s deleteFence) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	settled := make([]node.Settled, len(next))
	for i := range next {
		settled[i] = node.Removed
		if !next[i].Removes() || s.allowed(next[i].Of) {
			found, _ := s.Store.Settle(ctx, next[i:i+1])
			settled[i] = found[0]
		}
	}
	return settled, nil
}

// fencedDelete deletes what is allowed by the claim that there is.
func fencedDelete(allowed func(Table, node.Claim) bool) func(node.Store, Table) node.Store {
	return func(rows node.Store, table Table) node.Store {
		return deleteFence{rows, func(ref node.Ref) bool {
			c, _ := table.Claim(node.MessageID{ID: ref.ID, Lane: ref.Lane})
			return allowed(table, c)
		}}
	}
}

// claimFence deletes only under the claim that the caller was given last.
type claimFence struct {
	node.Store

	table Table
	given map[grant]time.Time
}

// grant is a claim that was given to somebody.
type grant struct {
	owner uuid.UUID
	ref   node.Ref
}

// Claim implements node.Store.
func (s claimFence) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	for _, m := range result.Messages {
		s.given[grant{request.Node, m.Claim.Ref}] = m.Claim.ReadiedAt
	}
	return result, err
}

// Take implements node.Store.
func (s claimFence) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	for _, r := range result.Results {
		if r.Claim.ReadiedBy == request.Node {
			s.given[grant{request.Node, r.Claim.Ref}] = r.Claim.ReadiedAt
		}
	}
	return result, err
}

// Settle implements node.Store.
func (s claimFence) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	return deleteFence{s.Store, func(ref node.Ref) bool {
		c, _ := s.table.Claim(node.MessageID{ID: ref.ID, Lane: ref.Lane})
		return c.ReadiedBy == s.table.Caller() && s.given[grant{s.table.Caller(), ref}].Equal(c.ReadiedAt)
	}}.Settle(ctx, next)
}

// upsert deletes what is in the way of a take.
type upsert struct {
	node.Store

	table Table
}

// Take implements node.Store.
func (s upsert) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	for _, item := range request.Items {
		c, found := s.table.Claim(node.MessageID{ID: item.ID, Lane: item.Lane})
		if found && item.Action == node.Schedule && c.Incarnation != item.Incarnation {
			_, _ = s.Settle(ctx, node.Removals(c.Ref))
		}
	}
	return s.Store.Take(ctx, request)
}

// duplicateFails fails a take with a duplicate in it.
type duplicateFails struct {
	node.Store

	table Table
}

// Take implements node.Store.
func (s duplicateFails) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	for i := range request.Items {
		item := &request.Items[i]
		c, found := s.table.Claim(node.MessageID{ID: item.ID, Lane: item.Lane})
		if found && item.Action == node.Schedule && c.Incarnation != item.Incarnation {
			return node.TakeResult{}, errRefused
		}
	}
	return s.Store.Take(ctx, request)
}

// takeChanger changes what is taken in.
type takeChanger struct {
	node.Store

	change func(*node.Item)
}

// Take implements node.Store.
func (s takeChanger) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.Items = slices.Clone(request.Items)
	for i := range request.Items {
		if request.Items[i].Action == node.Schedule {
			s.change(&request.Items[i])
		}
	}
	return s.Store.Take(ctx, request)
}

func changedTake(change func(*node.Item)) func(node.Store, Table) node.Store {
	return func(rows node.Store, _ Table) node.Store { return takeChanger{rows, change} }
}

// claimMutants make and give up claims wrongly.
func claimMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "claim-the-claimed", About: "what is claimed already is claimed again (H21)",
			Kills: []string{"S3", "S4"},
			Rows:  func(rows node.Store, table Table) node.Store { return claimsTheClaimed{rows, table} },
		},
		{
			Name: "claim-no-limit", About: "the limit of a claim is ignored (D4, H22)",
			Kills:   []string{"S15"},
			Options: func(o *Options) { o.Messages, o.Bursts, o.Faulty = 3000, 1, 12*time.Second },
			Rows: changedClaim(func(r *node.ClaimRequest) {
				for i := range r.Lanes {
					r.Lanes[i].Limit, r.Lanes[i].Bytes = math.MaxInt, math.MaxInt
				}
			}),
		},
		{
			Name: "claim-latest-first", About: "claims come in no useful order",
			Kills: []string{"S15"},
			Rows:  func(rows node.Store, _ Table) node.Store { return claimsBackwards{rows} },
		},
		{
			Name: "claim-too-far-ahead", About: "what is not due is claimed",
			Kills: []string{"S15"},
			Rows:  changedClaim(func(r *node.ClaimRequest) { r.Until = r.Until.Add(2 * time.Second) }),
		},
		{
			Name: "reset-by-id", About: "a reset does not look whose claim it is (H18)",
			Kills: []string{"S4"}, Options: lateResets,
			Rows: looseReset(func(Table, node.Release, node.Claim) bool { return true }),
		},
		{
			Name: "reset-by-owner", About: "a reset looks whose claim it is, but not since when",
			Kills: []string{"S4"}, Options: lateResets,
			Rows: looseReset(func(table Table, r node.Release, c node.Claim) bool {
				return r.ReadiedBy == c.ReadiedBy && table.Caller() != c.ReadiedBy
			}),
		},
		{
			Name: "reset-ignored", About: "a reset reports success and does nothing",
			Kills: []string{"L2"},
			Rows:  func(rows node.Store, _ Table) node.Store { return resetsNothing{rows} },
		},
		{
			Name: "expired-never", About: "no claim ever expires",
			Kills: []string{"L2"}, Rows: filteredExpired(func(node.Claim, Table) bool { return false }),
		},
		{
			Name: "expired-not-own", About: "a node never suspects itself (H19)",
			Kills: []string{"L2"}, Options: func(o *Options) { o.Nodes, o.Fates = 1, "" },
			Rows: filteredExpired(func(c node.Claim, t Table) bool { return c.ReadiedBy != t.Caller() }),
		},
		{
			Name: "expired-inverted", About: "live claims are suspected, as in the published original",
			Kills: []string{"S4"},
			Rows:  func(rows node.Store, table Table) node.Store { return expiredInverted{rows, table} },
		},
		{
			Name: "short-hold", About: "claims expire before they can have been used (D10)",
			Kills: []string{"S16", "L5", "S3", "S4"},
			Options: func(o *Options) {
				o.FaultRate, o.HoldTime, o.Lookahead = 0, 2500*time.Millisecond, 499*time.Millisecond
				o.PollInterval, o.DetectionInterval = 50*time.Millisecond, 100*time.Millisecond
			},
			Rows: changedClaim(func(r *node.ClaimRequest) { r.Hold /= 10 }),
		},
		{
			Name:  "hold-halved",
			About: "a node claims for half as long as the others, and its calls take as long as theirs",
			Kills: []string{"S16"},
			Options: func(o *Options) {
				o.HoldTime, o.Lookahead, o.PollInterval = 10*time.Second, 0, 100*time.Millisecond
			},
			Config: func(c *node.Config) { c.HoldTime /= 2 },
		},
		{
			Name: "node-stamps", About: "claims are stamped and compared by the clocks of the nodes (D7, H20)",
			Kills: []string{"S4"}, NodeStamps: true,
			Options: func(o *Options) {
				o.Nodes, o.Skew, o.StoreSkew, o.StoreLatency = 4, 10*time.Second, 0, 20*time.Millisecond
			},
		},
	}
}

// claimsTheClaimed takes the claims of others before it claims.
type claimsTheClaimed struct {
	node.Store

	table Table
}

// Claim implements node.Store.
func (s claimsTheClaimed) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	for _, c := range s.table.Claims() {
		if claimed(c) && c.ReadiedBy != request.Node {
			_, _ = s.Reset(ctx, []node.Release{{Claim: c}})
		}
	}
	return s.Store.Claim(ctx, request)
}

// claimChanger changes what is claimed.
type claimChanger struct {
	node.Store

	change func(*node.ClaimRequest)
}

// Claim implements node.Store.
func (s claimChanger) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	request.Lanes = slices.Clone(request.Lanes)
	s.change(&request)
	return s.Store.Claim(ctx, request)
}

func changedClaim(change func(*node.ClaimRequest)) func(node.Store, Table) node.Store {
	return func(rows node.Store, _ Table) node.Store { return claimChanger{rows, change} }
}

// claimsBackwards gives the latest first.
type claimsBackwards struct{ node.Store }

// Claim implements node.Store.
func (s claimsBackwards) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	slices.Reverse(result.Messages)
	return result, err
}

// resetLoosely resets whatever claim there is now, if the two look alike.
type resetLoosely struct {
	node.Store

	table Table
	alike func(table Table, asked node.Release, is node.Claim) bool
}

// Reset implements node.Store.
func (s resetLoosely) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	return s.Store.Reset(ctx, mapped(releases, func(r node.Release) node.Release {
		if c, found := s.table.Claim(node.MessageID{ID: r.ID, Lane: r.Lane}); found && s.alike(s.table, r, c) {
			r.Claim = c
		}
		return r
	}))
}

func looseReset(alike func(Table, node.Release, node.Claim) bool) func(node.Store, Table) node.Store {
	return func(rows node.Store, table Table) node.Store { return resetLoosely{rows, table, alike} }
}

// resetsNothing calls every claim reset.
type resetsNothing struct{ node.Store }

// Reset implements node.Store.
func (resetsNothing) Reset(_ context.Context, releases []node.Release) ([]node.Settled, error) {
	return mapped(releases, func(node.Release) node.Settled { return node.Freed }), nil
}

// expiredFilter leaves some expired claims out.
type expiredFilter struct {
	node.Store

	table Table
	keep  func(node.Claim, Table) bool
}

// Expired implements node.Store.
func (s expiredFilter) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	claims, err := s.Store.Expired(ctx, limit)
	return slices.DeleteFunc(claims, func(c node.Claim) bool { return !s.keep(c, s.table) }), err
}

func filteredExpired(keep func(node.Claim, Table) bool) func(node.Store, Table) node.Store {
	return func(rows node.Store, table Table) node.Store { return expiredFilter{rows, table, keep} }
}

// expiredInverted returns the claims that are younger than the hold time.
type expiredInverted struct {
	node.Store

	table Table
}

// Expired implements node.Store.
func (s expiredInverted) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	old, err := s.Store.Expired(ctx, limit)
	return slices.DeleteFunc(s.table.Claims(), func(c node.Claim) bool {
		return !claimed(c) || slices.Contains(old, c)
	}), err
}

// lateResets makes it likely that what a detector has seen is not so any more when its reset takes effect.
func lateResets(o *Options) {
	reusing(o)
	o.Nodes, o.Fates, o.Lapsed, o.FaultRate = 2, "", 0, 1000
	o.Mix = []FaultKind{Late, Slow, Pause, PauseSent, RequestLost, Disconnected}
}

// suspicious makes it likely that a node is slow and a peer takes over.
func suspicious(o *Options) {
	o.Nodes, o.Fates, o.Lapsed, o.FaultRate = 3, "", 0, 300
	o.HoldTime, o.PollInterval, o.Lookahead = 2500*time.Millisecond, 50*time.Millisecond, 250*time.Millisecond
	o.Mix = []FaultKind{Slow, Pause, PauseSent, CutStore}
}

func reusing(o *Options) { o.Reuse, o.Horizon = 40, 5*time.Second }
