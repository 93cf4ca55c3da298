package storetest_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// eachNext breaks Settle by changing everything that is settled, given the row of its name.
func eachNext(change func(n *node.Next, row memory.Row)) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
			next = slices.Clone(next)
			for i := range next {
				if row, found := b.row(next[i].Of.ID, next[i].Of.Lane); found {
					change(&next[i], row)
				}
			}
			return b.Store.Settle(ctx, next)
		}
	})
}

// afterRearm does something more with what was settled, given its row before.
func afterRearm(
	more func(ctx context.Context, b *broken, n node.Next, before memory.Row, settled *node.Settled),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
			settled := make([]node.Settled, len(next))
			for i, n := range next {
				before, _ := b.row(n.Of.ID, n.Of.Lane)
				one, err := b.Store.Settle(ctx, []node.Next{n})
				if err != nil {
					return nil, err
				}
				settled[i] = one[0]
				if before.Ref() == n.Of {
					more(ctx, b, n, before, &settled[i])
				}
			}
			return settled, ctx.Err()
		}
	})
}

func seriesMutants() []mutant {
	return []mutant{
		{
			"a series is settled by its id", "contract/series/only by the incarnation", true,
			eachNext(func(n *node.Next, row memory.Row) { n.Of.Incarnation = row.Incarnation }),
		},
		{
			"a stopped series goes on", "contract/series/one that was stopped is removed", true,
			afterRearm(func(ctx context.Context, b *broken, n node.Next, before memory.Row, settled *node.Settled) {
				if before.Stopped && !n.Ends() {
					m := before.Message
					m.Incarnation, m.Sequence, m.At, m.Deadline = n.Incarnation, n.Sequence, n.At, n.At
					b.rewrite(ctx, m, node.TakeRequest{}, n.At)
					*settled = node.Rearmed
				}
			}),
		},
		{
			"what is bound is passed over", "contract/series/what is bound is not passed over", true,
			eachNext(func(n *node.Next, _ memory.Row) { n.Missed = node.Claim{} }),
		},
		{
			"what is missed and bound goes", "contract/series/what is bound is not passed over", false,
			eachNext(func(n *node.Next, _ memory.Row) {
				if n.Ends() {
					n.Missed = node.Claim{}
				}
			}),
		},
		{
			"nothing is passed over", "contract/series/what was missed is passed over", true,
			afterRearm(func(ctx context.Context, b *broken, n node.Next, before memory.Row, settled *node.Settled) {
				if n.PassesOver() && *settled != node.Promised {
					b.rewrite(ctx, before.Message, node.TakeRequest{}, before.Due)
					*settled = node.Promised
				}
			}),
		},
		{
			"a series that has ended stays", "contract/series/one that ends is removed", true,
			afterRearm(func(ctx context.Context, b *broken, n node.Next, before memory.Row, _ *node.Settled) {
				if n.Ends() {
					b.rewrite(ctx, before.Message, node.TakeRequest{}, before.Due)
				}
			}),
		},
		{
			"what is claimed is settled by nobody", "contract/series/whoever holds it", true,
			eachNext(func(n *node.Next, row memory.Row) {
				if !row.ReadiedAt.IsZero() {
					n.Of.Incarnation[3]++
				}
			}),
		},
		{
			"the next occurrence has an attempt", "contract/series/the next occurrence takes the place", true,
			afterRearm(func(ctx context.Context, b *broken, n node.Next, _ memory.Row, settled *node.Settled) {
				if row, _ := b.row(n.Of.ID, n.Of.Lane); *settled == node.Rearmed {
					claim := b.rewrite(ctx, row.Message, node.TakeRequest{}, time.Time{})
					b.must(b.Store.Reset(ctx, []node.Release{{Claim: claim, Due: row.Due}}))
				}
			}),
		},
		{
			"the next occurrence forgets what was replaced", "contract/series/what was replaced may appear still", true,
			afterRearm(func(ctx context.Context, b *broken, n node.Next, before memory.Row, settled *node.Settled) {
				if row, _ := b.row(n.Of.ID, n.Of.Lane); *settled == node.Rearmed && before.Former {
					b.rewrite(ctx, row.Message, node.TakeRequest{}, row.Due)
				}
			}),
		},
		{
			"the place in a series moves with the deadline",
			"contract/series/the instant does not move with the deadline",
			true, claimOf(asAsked, func(_ context.Context, _ *broken, list []node.Ready) []node.Ready {
				for i := range list {
					if list[i].Recurs() {
						list[i].At = list[i].Deadline
					}
				}
				return list
			}),
		},
		{
			"the next occurrence is due when the last one was",
			"contract/series/the next occurrence takes the place", true,
			eachNext(func(n *node.Next, row memory.Row) {
				if !n.Ends() {
					n.At = row.Due
				}
			}),
		},
		{
			"the number stays", "contract/series/the next occurrence takes the place", true,
			eachNext(func(n *node.Next, row memory.Row) {
				if !n.Ends() {
					n.Sequence = row.Sequence
				}
			}),
		},
		{
			"what was stopped is not bound", "contract/series/a stopped occurrence comes out", true,
			decideOf(func(_ *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Stopped {
					v.After.Bound = before.Bound
				}
			}),
		},
		{
			"what was stopped is not remembered", "contract/series/one that was stopped is removed", true,
			decideOf(func(_ *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Stopped {
					v.After.Stopped = before.Stopped
				}
			}),
		},
		{
			"a cancel of what is claimed is too late for the series",
			"contract/control/an occurrence that is claimed", true,
			asIf(func(_ *node.Item, k *node.Kept) { k.Sequence = 0 }),
		},
		{
			"a cancel does not say from which occurrence on", "contract/control/an occurrence that waits", true,
			eachReply(func(m *node.Message, v node.Verdict) {
				if v.Outcome == node.Cancelled {
					without(m, node.HeaderSequence)
				}
			}),
		},
		{
			"stopped does not say which occurrence is the last", "contract/control/an occurrence that is claimed", true,
			eachReply(func(m *node.Message, v node.Verdict) {
				if v.Outcome == node.Stopped {
					without(m, node.HeaderSequence)
				}
			}),
		},
		{
			"two settle one occurrence", "concurrent/next occurrences have one winner each", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				race := &meeting{left: 1}
				var settling sync.Mutex
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					before := b.Dump()
					race.meet()
					settling.Lock()
					defer settling.Unlock()
					next = slices.Clone(next)
					for i := range next {
						row, found := b.row(next[i].Of.ID, next[i].Of.Lane)
						if found && stores(before, next[i].Of) {
							next[i].Of = row.Ref()
						}
					}
					return b.Store.Settle(ctx, next)
				}
			}),
		},
	}
}
