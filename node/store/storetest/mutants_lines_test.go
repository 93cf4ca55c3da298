package storetest_test

import (
	"context"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// lineMutants are wrong about lines.
func lineMutants() []mutant {
	wrong := func(how memory.Broken) func(*storetest.Clock) storetest.Instance {
		return breakIt(func(b *broken, _ *storetest.Clock) { b.Break(how) })
	}
	each := func(change func(r *node.Ready)) func(*storetest.Clock) storetest.Instance {
		return claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
			for i := range r {
				change(&r[i])
			}
			return r
		})
	}
	return []mutant{
		{"it is everybody's turn", "contract/line/one after the other", true, wrong(memory.Broken{Jumps: true})},
		{
			"the first has its turn, whoever is out", "contract/line/one that came first, while another is out", true,
			wrong(memory.Broken{Halves: true}),
		},
		{"nobody comes forward", "contract/line/one after the other", false, wrong(memory.Broken{Stays: true})},
		{
			"only what waits is asked", "contract/line/behind one that somebody holds", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
					held := map[uuid.UUID]bool{}
					for _, row := range b.Dump() {
						held[row.Line] = held[row.Line] || row.ReadiedBy != uuid.Nil
					}
					result, err := b.Store.Claim(ctx, request)
					for i := range result.Messages {
						if r := &result.Messages[i]; held[r.Line] && r.Turn == node.Behind {
							r.Turn = node.ItsTurn
						}
					}
					return result, err
				}
			}),
		},
		{
			"who is first waits for who is behind him", "contract/line/one after the other", true,
			each(func(r *node.Ready) {
				if r.Line != uuid.Nil && r.Turn == node.ItsTurn {
					r.Turn = node.InTheWay
				}
			}),
		},
		{
			"the line of a message is forgotten", "contract/line/one after the other", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.Items {
					r.Items[i].Line = uuid.Nil
				}
			}),
		},
		{
			"a line goes over all lanes", "contract/line/of one lane and one name", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
					result, err := b.Store.Claim(ctx, request)
					seen := map[uuid.UUID]bool{}
					for i := range result.Messages {
						r := &result.Messages[i]
						if r.Line != uuid.Nil && seen[r.Line] {
							r.Turn = node.Behind
						}
						seen[r.Line] = true
					}
					return result, err
				}
			}),
		},
	}
}
