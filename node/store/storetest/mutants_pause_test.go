package storetest_test

import (
	"context"

	"chronos/node"
	"chronos/node/store/storetest"
)

// blind makes a call as if nothing were paused.
func (b *broken) blind(ctx context.Context, intake, lanes bool, call func()) {
	pauses, _ := b.Pauses(ctx)
	for _, p := range pauses {
		if p.Lane == node.Intake && intake || p.Lane != node.Intake && lanes {
			b.must(b.Resume(ctx, p.Lane))
			defer func() { b.must(b.Pause(ctx, p)) }()
		}
	}
	call()
}

func pauseMutants() []mutant {
	blindTake := func(intake, lanes bool) func(*storetest.Clock) storetest.Instance {
		return breakIt(func(b *broken, _ *storetest.Clock) {
			b.take = func(ctx context.Context, r node.TakeRequest) (result node.TakeResult, err error) {
				b.blind(ctx, intake, lanes, func() { result, err = b.Store.Take(ctx, r) })
				return result, err
			}
		})
	}
	return []mutant{
		{
			"claims on paused lanes", "contract/pause/nothing is claimed on a paused lane", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (result node.ClaimResult, err error) {
					b.blind(ctx, false, true, func() { result, err = b.Store.Claim(ctx, r) })
					return result, err
				}
			}),
		},
		{
			"takes claim on paused lanes", "contract/pause/a take on a paused lane stores as waiting", false,
			blindTake(false, true),
		},
		{
			"takes in while the intake is paused",
			"contract/pause/nothing is taken in while the intake is paused", false,
			blindTake(true, false),
		},
		{
			"a paused intake stops claims", "contract/pause/nothing is taken in while the intake is paused", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					_, state, err := b.Store.Positions(ctx, nil)
					if err != nil || state.IntakePaused {
						return node.ClaimResult{State: state}, err
					}
					return b.Store.Claim(ctx, r)
				}
			}),
		},
		{
			"the state hides the pause", "contract/pause/nothing is taken in while the intake is paused", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.positions = func(ctx context.Context, p []node.Place) ([]node.Position, node.State, error) {
					positions, state, err := b.Store.Positions(ctx, p)
					state.IntakePaused = false
					return positions, state, err
				}
			}),
		},
	}
}
