package storetest_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

func claimMutants() []mutant {
	return []mutant{
		{
			"limit is ignored", "contract/claim/limit takes the earliest", true,
			claimOf(eachShare(func(s *node.Share) { s.Limit = math.MaxInt }), asTaken),
		},
		{
			"bytes of all lanes are ignored", "contract/claim/bytes of all lanes together", false,
			claimOf(func(r *node.ClaimRequest) { r.Bytes = 0 }, asTaken),
		},
		{
			"from is ignored", "contract/claim/from an instant on, and the rest later", true,
			claimOf(eachShare(func(s *node.Share) { s.From = time.Time{} }), asTaken),
		},
		{
			"from is exclusive", "contract/claim/from an instant on, and the rest later", true,
			claimOf(eachShare(func(s *node.Share) {
				if !s.From.IsZero() {
					s.From = s.From.Add(time.Microsecond)
				}
			}), asTaken),
		},
		{
			"from is the same on all lanes", "contract/claim/from an instant on each lane", true,
			claimOf(func(r *node.ClaimRequest) {
				eachShare(func(s *node.Share) { s.From = r.Lanes[0].From })(r)
			}, asTaken),
		},
		{
			"what waits before is forgotten", "contract/claim/from an instant on, and the rest later", true,
			func(clock *storetest.Clock) storetest.Instance {
				seen := map[string]time.Time{}
				return claimOf(eachShare(func(s *node.Share) {
					if s.From.IsZero() {
						s.From = seen[s.Lane]
					} else {
						seen[s.Lane] = s.From
					}
				}), asTaken)(clock)
			},
		},
		{
			"bytes are ignored", "contract/claim/bytes end with the message that reaches them", true,
			claimOf(eachShare(func(s *node.Share) { s.Bytes = math.MaxInt }), asTaken),
		},
		{
			"bytes are exceeded by one", "contract/claim/bytes end with the message that reaches them", false,
			claimOf(eachShare(func(s *node.Share) {
				if s.Bytes < math.MaxInt {
					s.Bytes++
				}
			}), asTaken),
		},
		{
			"limit takes any", "contract/claim/limit takes the earliest", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					all := r
					all.Lanes = slices.Clone(r.Lanes)
					eachShare(func(s *node.Share) { s.Limit = math.MaxInt })(&all)
					result, err := b.Store.Claim(ctx, all)
					var kept []node.Ready
					for i, m := range result.Messages { // gives the earliest back
						at := slices.IndexFunc(r.Lanes, func(s node.Share) bool { return s.Lane == m.Lane })
						later := 0
						for _, other := range result.Messages[i+1:] {
							if other.Lane == m.Lane {
								later++
							}
						}
						if later < r.Lanes[at].Limit {
							kept = append(kept, m)
						} else {
							b.must(b.Store.Reset(ctx, []node.Release{{Claim: m.Claim, Unsent: true}}))
						}
					}
					result.Messages = kept
					return result, err
				}
			}),
		},
		{
			"always idle", "contract/claim/tells how long nothing falls due", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					result, err := b.Store.Claim(ctx, r)
					if len(result.Messages) == 0 {
						result.Idle = r.Ahead
					}
					return result, err
				}
			}),
		},
		{
			"idle while others hold claims", "contract/claim/tells how long nothing falls due", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					result, err := b.Store.Claim(ctx, r)
					waits := func(row memory.Row) bool {
						asked := func(s node.Share) bool { return s.Lane == row.Lane }
						return row.ReadiedAt.IsZero() && slices.ContainsFunc(r.Lanes, asked)
					}
					if len(result.Messages) == 0 && !slices.ContainsFunc(b.Dump(), waits) {
						result.Idle = r.Ahead
					}
					return result, err
				}
			}),
		},
		{
			"lanes share one limit", "contract/claim/a backlog on one lane takes nothing from another", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					left := 0
					for _, share := range r.Lanes {
						left = max(left, share.Limit)
					}
					var all node.ClaimResult
					for _, share := range r.Lanes {
						share.Limit = min(share.Limit, left)
						one := r
						if one.Lanes = []node.Share{share}; left == 0 {
							one.Lanes = nil
						}
						result, err := b.Store.Claim(ctx, one)
						if err != nil {
							return all, err
						}
						left -= len(result.Messages)
						all.State, all.Messages = result.State, append(all.Messages, result.Messages...)
					}
					return all, nil
				}
			}),
		},
		{
			"all that is due is claimed", "contract/claim/no lane that was not asked for", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					r.Lanes = slices.Clone(r.Lanes)
					for _, row := range b.Dump() {
						if !slices.ContainsFunc(r.Lanes, func(s node.Share) bool { return s.Lane == row.Lane }) {
							r.Lanes = append(r.Lanes, node.Share{Lane: row.Lane, Limit: 100, Bytes: 1000})
						}
					}
					return b.Store.Claim(ctx, r)
				}
			}),
		},
		{
			"claims are in the order of lanes", "contract/claim/in the order of due times over all lanes", true,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				slices.SortStableFunc(r, func(x, y node.Ready) int { return cmp.Compare(x.Lane, y.Lane) })
				return r
			}),
		},
		{
			"claims are in the order of deadlines", "contract/claim/by due time, not deadline", true,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				slices.SortStableFunc(r, func(x, y node.Ready) int { return x.Deadline.Compare(y.Deadline) })
				return r
			}),
		},
		{
			"due time is exclusive", "contract/claim/due time is inclusive", true,
			claimOf(func(r *node.ClaimRequest) { r.Until = r.Until.Add(-time.Microsecond) }, asTaken),
		},
		{
			"ties are in the order of a collation", "contract/claim/ties by id then lane, compared as bytes", true,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				slices.SortStableFunc(r, func(x, y node.Ready) int {
					return cmp.Or(
						x.Deadline.Compare(y.Deadline),
						cmp.Compare(strings.ToLower(x.ID), strings.ToLower(y.ID)),
					)
				})
				return r
			}),
		},
		{
			"claims do not last", "contract/claim/claims exclusively", true,
			claimOf(asAsked, func(ctx context.Context, b *broken, r []node.Ready) []node.Ready {
				for _, m := range r {
					b.must(b.Store.Reset(ctx, []node.Release{{Claim: m.Claim}}))
				}
				return r
			}),
		},
		{
			"claims are stamped when the store was opened", "contract/claim/claims are stamped by the store's clock",
			true, func(clock *storetest.Clock) storetest.Instance {
				opened := clock.Now()
				store := memory.New(func() time.Time { return opened })
				return storetest.Instance{Store: store, Clock: clock}
			},
		},
		{
			"claims do not count as attempts", "contract/claim/counts attempts", true,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				for i := range r {
					r[i].Attempts = 1
				}
				return r
			}),
		},
		{
			"a claim says that all fell due at their deadlines", "contract/claim/says when a message fell due", true,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				for i := range r {
					r[i].Due = r[i].Deadline
				}
				return r
			}),
		},
		{
			"all claims are for one hold time", "contract/expired/each claim by its own hold time", true,
			claimOf(func(r *node.ClaimRequest) { r.Hold = time.Minute }, asTaken),
		},
	}
}

func recoverMutants() []mutant {
	return []mutant{
		{
			"delete by id only", "contract/delete/one incarnation only", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					next = slices.Clone(next)
					for i := range next {
						if row, found := b.row(next[i].Of.ID, next[i].Of.Lane); found {
							next[i].Of.Incarnation = row.Incarnation
						}
					}
					return b.Store.Settle(ctx, next)
				}
			}),
		},
		{
			"delete by id only, late", "contract/delete/late delete spares the next incarnation", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					next = slices.Clone(next)
					for i := range next {
						if row, found := b.row(next[i].Of.ID, next[i].Of.Lane); found {
							next[i].Of.Incarnation = row.Incarnation
						}
					}
					return b.Store.Settle(ctx, next)
				}
			}),
		},
		{
			"delete needs a claim", "contract/delete/whoever holds the claim", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					next = slices.Clone(next)
					for i := range next {
						if row, _ := b.row(next[i].Of.ID, next[i].Of.Lane); row.ReadiedAt.IsZero() {
							next[i].Of = node.Ref{}
						}
					}
					return b.Store.Settle(ctx, next)
				}
			}),
		},
		{
			"delete confirms twice", "contract/delete/results in order, a repeated one false", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					deleted, err := b.Store.Settle(ctx, next)
					for i := range deleted {
						first := slices.Index(next, next[i])
						deleted[i] = deleted[first]
					}
					return deleted, err
				}
			}),
		},
		{
			"reset ignores readied_at", "contract/reset/former claim of the same node", true,
			eachRelease(func(r *node.Release, row memory.Row) { r.ReadiedAt = row.ReadiedAt }),
		},
		{
			"reset ignores readied_by", "contract/reset/only the claim that is held", true,
			eachRelease(func(r *node.Release, row memory.Row) { r.ReadiedBy = row.ReadiedBy }),
		},
		{
			"reset ignores the incarnation", "contract/reset/late reset spares the next incarnation", true,
			eachRelease(func(r *node.Release, row memory.Row) { r.Incarnation = row.Incarnation }),
		},
		{
			"reset compares milliseconds", "contract/reset/only the claim that is held", true,
			eachRelease(func(r *node.Release, row memory.Row) {
				if d := r.ReadiedAt.Sub(row.ReadiedAt).Abs(); d < time.Millisecond {
					r.ReadiedAt = row.ReadiedAt
				}
			}),
		},
		{
			"reset does not put off", "contract/reset/puts off", true,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Due = time.Time{} }),
		},
		{
			"reset without due returns to the deadline", "contract/reset/puts off", false,
			eachRelease(func(r *node.Release, row memory.Row) {
				if r.Due.IsZero() {
					r.Due = row.Deadline
				}
			}),
		},
		{
			"the last of two resets acts", "contract/reset/results in order, the first of two acts", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.reset = func(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
					releases = slices.Clone(releases)
					slices.Reverse(releases)
					reset, err := b.Store.Reset(ctx, releases)
					slices.Reverse(reset)
					return reset, err
				}
			}),
		},
		{
			"unsent claims count", "contract/reset/attempts count claims, except those unsent", true,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Unsent = false }),
		},
		{
			"no claim that was given back counts", "contract/reset/attempts count claims, except those unsent", true,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Unsent = true }),
		},
		{
			"a claim expires a moment late", "contract/expired/from the hold time on", true,
			breakIt(func(b *broken, clock *storetest.Clock) {
				b.expired = func(ctx context.Context, limit int) ([]node.Claim, error) {
					all, err := b.Store.Expired(ctx, math.MaxInt)
					all = slices.DeleteFunc(all, func(c node.Claim) bool {
						return clock.Now().Sub(c.Expires) < time.Microsecond
					})
					return all[:min(len(all), limit)], err
				}
			}),
		},
		{
			"every claim has expired", "contract/expired/from the hold time on", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.expired = func(ctx context.Context, limit int) ([]node.Claim, error) {
					var all []node.Claim
					for _, row := range b.Dump() {
						if !row.ReadiedAt.IsZero() {
							all = append(all, claimOn(row))
						}
					}
					slices.SortFunc(all, func(a, b node.Claim) int { return a.Expires.Compare(b.Expires) })
					return all[:min(len(all), limit)], ctx.Err()
				}
			}),
		},
		{
			"expired ignores the limit", "contract/expired/longest expired first, limited", true,
			expiredOf(func(all []node.Claim, _ int) []node.Claim { return all }),
		},
		{
			"expired starts with the newest", "contract/expired/longest expired first, limited", true,
			expiredOf(func(all []node.Claim, limit int) []node.Claim {
				slices.Reverse(all)
				return all[:min(len(all), limit)]
			}),
		},
		{
			"expired goes by when claims were made", "contract/expired/longest expired first, limited", true,
			expiredOf(func(all []node.Claim, limit int) []node.Claim {
				slices.SortStableFunc(all, func(a, b node.Claim) int { return a.ReadiedAt.Compare(b.ReadiedAt) })
				return all[:min(len(all), limit)]
			}),
		},
		{
			"expired resets", "contract/expired/changes nothing", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.expired = func(ctx context.Context, limit int) ([]node.Claim, error) {
					expired, err := b.Store.Expired(ctx, limit)
					for _, claim := range expired {
						b.must(b.Store.Reset(ctx, []node.Release{{Claim: claim}}))
					}
					return expired, err
				}
			}),
		},
	}
}
