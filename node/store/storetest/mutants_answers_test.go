package storetest_test

import (
	"context"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// eachAsked breaks Take by changing what is done for a request.
func eachAsked(change func(i *node.Item)) func(*storetest.Clock) storetest.Instance {
	return takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
		for i := range r.Items {
			if item := &r.Items[i]; item.Request != nil {
				request := *item.Request
				item.Request = &request
				change(item)
			}
		}
	})
}

// eachTold breaks Take by changing what a request is told.
func eachTold(change func(told *node.Told)) func(*storetest.Clock) storetest.Instance {
	return eachResult(func(_ *broken, _ []memory.Row, _ node.TakeRequest, _ int, result *node.ItemResult) {
		if result.Told != nil {
			told := *result.Told
			change(&told)
			result.Told = &told
		}
	})
}

// answerMutants are wrong about what requests are told.
func answerMutants() []mutant {
	return []mutant{
		{
			"no answer is remembered", "contract/request/the same answer again, and nothing is done", true,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{Forgets: true}) }),
		},
		{
			"what was asked for is part of the name", "contract/request/the answer that was given counts, not the " +
				"one asked for",
			true, eachAsked(func(i *node.Item) { i.Request.ID[1] = i.Request.Print[15] }),
		},
		{
			"an answer is kept forever", "contract/request/an answer is kept for so long and no longer", true,
			eachAsked(func(i *node.Item) { i.Request.Keep += 1000 * time.Hour }),
		},
		{
			"an answer is kept for too short a time", "contract/request/an answer is kept for so long and no " +
				"longer", false,
			eachAsked(func(i *node.Item) { i.Request.Keep -= 10 * time.Millisecond }),
		},
		{
			"what has expired stays", "contract/request/answers that have expired are deleted", false,
			func(clock *storetest.Clock) storetest.Instance {
				instance, given := intact(clock), 0
				instance.Answers = nil
				inner := instance.Store.(*broken) // it is what intact makes
				take := inner.take
				inner.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					given += len(r.Items)
					return take(ctx, r)
				}
				instance.Answers = func(testing.TB) int { return given }
				return instance
			},
		},
		{
			"nobody is told that it is an old answer", "contract/request/the same answer again, and nothing is " +
				"done", true,
			eachTold(func(told *node.Told) { told.Again = false }),
		},
		{
			"the former deadline is left out", "contract/request/what is told of every instruction", true,
			eachTold(func(told *node.Told) { told.Former = time.Time{} }),
		},
		{
			"nobody is told that content may appear", "contract/request/what is told of every instruction", true,
			eachTold(func(told *node.Told) { told.MayAppear = false }),
		},
		{
			"a take that is repeated is not told of its claims",
			"contract/request/the claim of the first take again", true,
			eachResult(func(_ *broken, _ []memory.Row, _ node.TakeRequest, _ int, result *node.ItemResult) {
				if result.Told != nil && result.Told.Again {
					result.Claim = node.Claim{}
				}
			}),
		},
		{
			"the request that asks again is told of its own print",
			"contract/request/the answer that was given counts, not the one asked for", true,
			eachResult(func(_ *broken, _ []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				if result.Told != nil {
					told := *result.Told
					told.Print = r.Items[i].Request.Print
					result.Told = &told
				}
			}),
		},
		{
			"the lineage is that of now", "contract/request/an answer is one of its lineage", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					for i := range result.Results {
						if result.Results[i].Told != nil {
							result.Results[i].Told.Lineage = result.State.Lineage
						}
					}
					return result, err
				}
			}),
		},
	}
}
