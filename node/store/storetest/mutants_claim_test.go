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

func readyMutants() []mutant {
	return []mutant{
		{
			"limit is ignored", "contract/ready/limit takes the earliest", true,
			readyOf(func(r *node.ReadyRequest) { r.Limit = math.MaxInt }, asTaken),
		},
		{
			"bytes are ignored", "contract/ready/bytes end with the message that reaches them", true,
			readyOf(func(r *node.ReadyRequest) { r.Bytes = math.MaxInt }, asTaken),
		},
		{
			"bytes are exceeded by one", "contract/ready/bytes end with the message that reaches them", true,
			readyOf(func(r *node.ReadyRequest) {
				if r.Bytes < math.MaxInt {
					r.Bytes++
				}
			}, asTaken),
		},
		{
			"limit takes any", "contract/ready/limit takes the earliest", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.ready = func(ctx context.Context, r node.ReadyRequest) ([]node.Readied, error) {
					limit := r.Limit
					r.Limit = math.MaxInt
					readied, err := b.Store.Ready(ctx, r)
					for len(readied) > limit { // gives the earliest back
						if _, err := b.Store.Reset(ctx, []node.Release{{Claim: readied[0].Claim}}); err != nil {
							return nil, err
						}
						readied = readied[1:]
					}
					return readied, err
				}
			}),
		},
		{
			"due time is exclusive", "contract/ready/due time is inclusive", true,
			readyOf(func(r *node.ReadyRequest) { r.Until = r.Until.Add(-time.Microsecond) }, asTaken),
		},
		{
			"claims are in the order of ids", "contract/ready/ties by id then topic, compared as bytes", true,
			readyOf(asAsked, func(_ context.Context, _ *broken, r []node.Readied) []node.Readied {
				slices.SortStableFunc(r, func(x, y node.Readied) int { return cmp.Compare(x.ID, y.ID) })
				return r
			}),
		},
		{
			"ties are in the order of a collation", "contract/ready/ties by id then topic, compared as bytes", true,
			readyOf(asAsked, func(_ context.Context, _ *broken, r []node.Readied) []node.Readied {
				slices.SortStableFunc(r, func(x, y node.Readied) int {
					return cmp.Or(
						x.Deadline.Compare(y.Deadline),
						cmp.Compare(strings.ToLower(x.ID), strings.ToLower(y.ID)),
					)
				})
				return r
			}),
		},
		{
			"claims do not last", "contract/ready/claims exclusively", true,
			readyOf(asAsked, func(ctx context.Context, b *broken, r []node.Readied) []node.Readied {
				for _, readied := range r {
					if _, err := b.Store.Reset(ctx, []node.Release{{Claim: readied.Claim}}); err != nil {
						return nil
					}
				}
				return r
			}),
		},
		{
			"claims are stamped when the store was opened", "contract/ready/claims are stamped by the store's clock",
			true, func(clock *storetest.Clock) storetest.Instance {
				opened := clock.Now()
				store := memory.New(func() time.Time { return opened })
				return storetest.Instance{Store: store, Clock: clock}
			},
		},
	}
}

func recoverMutants() []mutant {
	return []mutant{
		{
			"delete by id only", "contract/delete/one incarnation only", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.delete = func(ctx context.Context, refs []node.Ref) ([]bool, error) {
					refs = slices.Clone(refs)
					for i := range refs {
						if row, found := b.row(refs[i].ID, refs[i].Topic); found {
							refs[i].Incarnation = row.Incarnation
						}
					}
					return b.Store.Delete(ctx, refs)
				}
			}),
		},
		{
			"delete by id only, late", "contract/delete/late delete spares the next incarnation", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.delete = func(ctx context.Context, refs []node.Ref) ([]bool, error) {
					refs = slices.Clone(refs)
					for i := range refs {
						if row, found := b.row(refs[i].ID, refs[i].Topic); found {
							refs[i].Incarnation = row.Incarnation
						}
					}
					return b.Store.Delete(ctx, refs)
				}
			}),
		},
		{
			"delete needs a claim", "contract/delete/whoever holds the claim", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.delete = func(ctx context.Context, refs []node.Ref) ([]bool, error) {
					refs = slices.Clone(refs)
					for i := range refs {
						if row, _ := b.row(refs[i].ID, refs[i].Topic); row.ReadiedAt.IsZero() {
							refs[i] = node.Ref{}
						}
					}
					return b.Store.Delete(ctx, refs)
				}
			}),
		},
		{
			"delete confirms twice", "contract/delete/results in order, a repeated one false", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.delete = func(ctx context.Context, refs []node.Ref) ([]bool, error) {
					deleted, err := b.Store.Delete(ctx, refs)
					for i := range deleted {
						first := slices.Index(refs, refs[i])
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
			"reset without due returns to the deadline", "contract/reset/puts off", true,
			eachRelease(func(r *node.Release, row memory.Row) {
				if r.Due.IsZero() {
					r.Due = row.Deadline
				}
			}),
		},
		{
			"the last of two resets acts", "contract/reset/results in order, the first of two acts", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.reset = func(ctx context.Context, releases []node.Release) ([]bool, error) {
					releases = slices.Clone(releases)
					slices.Reverse(releases)
					reset, err := b.Store.Reset(ctx, releases)
					slices.Reverse(reset)
					return reset, err
				}
			}),
		},
		{
			"stuck is exclusive", "contract/stuck/age from hold on", false,
			stuckOf(func(r *node.StuckRequest) { r.Hold += time.Microsecond }),
		},
		{
			"stuck takes every age", "contract/stuck/age from hold on", true,
			stuckOf(func(r *node.StuckRequest) { r.Hold = math.MinInt64 }),
		},
		{
			"stuck ignores the limit", "contract/stuck/oldest first, limited", true,
			stuckOf(func(r *node.StuckRequest) { r.Limit = math.MaxInt }),
		},
		{
			"stuck starts with the newest", "contract/stuck/oldest first, limited", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.stuck = func(ctx context.Context, r node.StuckRequest) ([]node.Claim, error) {
					stuck, err := b.Store.Stuck(ctx, node.StuckRequest{Hold: r.Hold, Limit: math.MaxInt})
					slices.Reverse(stuck)
					return stuck[:min(len(stuck), r.Limit)], err
				}
			}),
		},
		{
			"stuck returns the young", "contract/stuck/age from hold on", true,
			breakIt(func(b *broken, clock *storetest.Clock) {
				b.stuck = func(ctx context.Context, r node.StuckRequest) ([]node.Claim, error) {
					stuck, err := b.Store.Stuck(ctx, node.StuckRequest{Hold: math.MinInt64, Limit: math.MaxInt})
					stuck = slices.DeleteFunc(stuck, func(c node.Claim) bool {
						return clock.Now().Sub(c.ReadiedAt) >= r.Hold && r.Hold > 0
					})
					return stuck[:min(len(stuck), r.Limit)], err
				}
			}),
		},
		{
			"stuck resets", "contract/stuck/changes nothing", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.stuck = func(ctx context.Context, r node.StuckRequest) ([]node.Claim, error) {
					stuck, err := b.Store.Stuck(ctx, r)
					for _, claim := range stuck {
						if _, err := b.Store.Reset(ctx, []node.Release{{Claim: claim}}); err != nil {
							return nil, err
						}
					}
					return stuck, err
				}
			}),
		},
	}
}
