package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

func takeMutants() []mutant {
	return []mutant{
		{
			"upsert instead of ignore", "contract/take/duplicate changes nothing", true,
			takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
				for _, item := range r.Items {
					row, found := b.row(item.ID, item.Lane)
					if found && row.Incarnation != item.Incarnation {
						b.must(b.Store.Settle(ctx, node.Removals(row.Ref())))
					}
				}
			}),
		},
		{
			"repeated message is a duplicate", "contract/take/repeated while waiting", true,
			eachResult(func(_ *broken, before []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				if result.Outcome == node.Scheduled && stores(before, r.Items[i].Ref()) {
					*result = node.ItemResult{Outcome: node.Duplicate}
				}
			}),
		},
		{
			"repeated message is claimed", "contract/take/repeated while waiting", true,
			takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
				for _, item := range r.Items {
					row, found := b.row(item.ID, item.Lane)
					if found && row.Incarnation == item.Incarnation && item.Claim && row.ReadiedBy != r.Node {
						b.must(b.Store.Settle(ctx, node.Removals(row.Ref())))
					}
				}
			}),
		},
		{
			"take returns the claims of others", "contract/take/claim is of the requesting node only", true,
			eachResult(func(b *broken, _ []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				row, _ := b.row(r.Items[i].ID, r.Items[i].Lane)
				if result.Outcome == node.Scheduled && !row.ReadiedAt.IsZero() {
					result.Claim = claimOn(row)
				}
			}),
		},
		{
			"duplicate returns the claim in its way", "contract/take/duplicate changes nothing", true,
			eachResult(func(b *broken, _ []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				row, _ := b.row(r.Items[i].ID, r.Items[i].Lane)
				if result.Outcome == node.Duplicate && row.ReadiedBy == r.Node {
					result.Claim = claimOn(row)
				}
			}),
		},
		{
			"take never claims", "contract/take/as claimed", true,
			eachMessage(func(i *node.Item) { i.Claim = false }),
		},
		{
			"the last of an id wins", "contract/take/same id twice in one batch", true,
			eachResult(func(b *broken, before []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				for j, item := range r.Items {
					same := item.ID == r.Items[i].ID && item.Lane == r.Items[i].Lane && item.Action == node.Schedule
					if same && j != i && result.Outcome == node.Scheduled && !stores(before, item.Ref()) {
						result.Outcome = node.Duplicate
					}
				}
			}),
		},
		{
			"results are in the order of ids", "contract/take/one result for each message in order", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					if result.Taken == len(r.Items) {
						order := make([]int, len(r.Items))
						for i := range order {
							order[i] = i
						}
						slices.SortStableFunc(order, func(x, y int) int {
							return cmp.Compare(r.Items[x].ID, r.Items[y].ID)
						})
						sorted := make([]node.ItemResult, len(order))
						for i, at := range order {
							sorted[i] = result.Results[at]
						}
						result.Results = sorted
					}
					return result, err
				}
			}),
		},
		{
			"take sorts its argument", "contract/take/arguments are not changed or kept", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					slices.SortFunc(r.Items, func(x, y node.Item) int { return cmp.Compare(x.ID, y.ID) })
					return result, err
				}
			}),
		},
		{
			"one poison message fails its take", "contract/take/refusal takes in what came before", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					for _, item := range r.Items {
						if strings.ContainsRune(item.ID, 0) {
							return node.TakeResult{}, errors.New("invalid byte sequence")
						}
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"one poison message refuses what came before it", "contract/take/refusal takes in what came before", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					for _, item := range r.Items {
						if strings.ContainsRune(item.ID, 0) {
							empty := r
							empty.Items = nil
							result, err := b.Store.Take(ctx, empty)
							result.Refusal = item.Refusal()
							return result, err
						}
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"one poison message is dropped silently", "contract/take/refusal takes in what came before", true,
			eachMessage(func(i *node.Item) {
				if strings.ContainsRune(i.ID, 0) {
					i.Action, i.Message = node.Pass, node.Message{}
				}
			}),
		},
		{
			"ids have 128 characters", "contract/take/one rule for ids, lanes and deadlines", false,
			eachMessage(func(i *node.Item) {
				if runes := []rune(i.ID); len(runes) <= 128 {
					i.ID = i.ID[:min(len(i.ID), 126)]
				}
			}),
		},
		{
			"ids are unique over all lanes", "contract/take/same id on two lanes", true,
			eachResult(func(_ *broken, before []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				if result.Outcome == node.Scheduled && slices.ContainsFunc(r.Items[:i], func(item node.Item) bool {
					return item.ID == r.Items[i].ID && item.Lane != r.Items[i].Lane
				}) {
					result.Outcome = node.Duplicate
				}
			}),
		},
		{
			"trailing spaces do not count", "contract/take/names that differ a little", false,
			eachMessage(func(i *node.Item) { i.ID = strings.TrimRight(i.ID, " ") }),
		},
		{
			"context is ignored", "contract/general/context is done", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.expired = func(ctx context.Context, limit int) ([]node.Claim, error) {
					return b.Store.Expired(context.WithoutCancel(ctx), limit)
				}
			}),
		},
		{
			"batches end at a thousand", "contract/general/large batches", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					settled, err := b.Store.Settle(ctx, next[:min(len(next), 1000)])
					return append(settled, make([]node.Settled, len(next)-len(settled))...), err
				}
			}),
		},
	}
}

// must is for calls of the model that cannot fail.
func (b *broken) must(_ any, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		panic(err)
	}
}

// claimOn returns the claim on a row.
func claimOn(row memory.Row) node.Claim {
	return node.Claim{Ref: row.Ref(), ReadiedAt: row.ReadiedAt, ReadiedBy: row.ReadiedBy, Expires: row.Expires}
}
