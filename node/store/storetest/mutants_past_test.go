package storetest_test

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// eachPast breaks Take by changing every item that stands in no partition.
func eachPast(change func(r *node.TakeRequest, i *node.Item)) func(*storetest.Clock) storetest.Instance {
	return takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
		for i := range r.Items {
			if item := &r.Items[i]; item.From == node.NoPlace {
				change(r, item)
			}
		}
	})
}

// pastMutants are wrong about instructions that come past Kafka, or about those for one incarnation.
func pastMutants() []mutant {
	return []mutant{
		{
			"the incarnation that is asked for is ignored",
			"contract/only/an instruction for another incarnation", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.Items {
					r.Items[i].Only = uuid.Nil
				}
			}),
		},
		{
			"the incarnation that is asked for is compared before the take",
			"contract/only/in a batch, by what the items before have left", true,
			takeOf(func(_ context.Context, b *broken, r *node.TakeRequest) {
				for i := range r.Items {
					item := &r.Items[i]
					if row, _ := b.row(item.ID, item.Lane); item.Only != uuid.Nil && row.Incarnation == item.Only {
						item.Only = uuid.Nil
					}
				}
			}),
		},
		{
			"what is asked for and gone is stored", "contract/only/an instruction for what is gone", true,
			decideOf(func(i *node.Item, before *node.Kept, v *node.Verdict) {
				if before == nil && i.Only != uuid.Nil && i.Action.Stores() {
					i := *i
					i.Only = uuid.Nil
					*v = i.Decide(nil)
				}
			}),
		},
		{
			"another message binds", "contract/only/an instruction for another incarnation", true,
			decideOf(func(i *node.Item, before *node.Kept, v *node.Verdict) {
				if before != nil && v.Outcome == node.NotFound {
					bound := *before
					bound.Bound = true
					v.After = &bound
				}
			}),
		},
		{
			"something is told of another message", "contract/only/an instruction for another incarnation", true,
			eachReply(func(m *node.Message, v node.Verdict) {
				if v.Outcome == node.NotFound && v.After != nil && !v.After.Former {
					m.Headers = append(m.Headers, node.Header{Name: node.HeaderFormer, Value: []byte("may appear")})
				}
			}),
		},
		{
			"done past Kafka while claims may be held",
			"contract/past/nothing is done while claims from before may be held", true,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{TakesPast: true}) }),
		},
		{
			"done past Kafka while the intake is paused",
			"contract/past/nothing is done while the intake is paused", false,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{TakesPast: true}) }),
		},
		{
			"done past Kafka while it is suspect", "history/a suspect store claims nothing and takes nothing in", false,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{TakesPast: true}) }),
		},
		{
			"nothing is done without a partition", "contract/past/every instruction acts without a partition", true,
			eachPast(func(r *node.TakeRequest, i *node.Item) {
				if len(r.From) == 0 {
					i.Action, i.Message = node.Pass, node.Message{}
				}
			}),
		},
		{
			"what comes past Kafka is a record of the first partition",
			"contract/past/no position refuses it, skips it or is moved by it", true,
			eachPast(func(r *node.TakeRequest, i *node.Item) {
				if len(r.From) > 0 {
					i.From, i.Epoch, i.Offset = 0, r.From[0].Epoch, r.From[0].Offset
				}
			}),
		},
		{
			"what comes past Kafka acts last", "contract/past/records and others act in the order of the items", true,
			last(),
		},
		{
			"what comes past Kafka is done once", "contract/past/it is decided anew when it is repeated", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				done := map[node.MessageID]bool{}
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					for i := range result.Results {
						item, one := &r.Items[i], &result.Results[i]
						if item.From != node.NoPlace || item.Action != node.Cancel {
							continue
						}
						name := node.MessageID{ID: item.ID, Lane: item.Lane}
						if one.Outcome == node.NotFound && done[name] {
							one.Outcome = node.Cancelled
						}
						done[name] = done[name] || one.Outcome == node.Cancelled
					}
					return result, err
				}
			}),
		},
		{
			"nothing that comes past Kafka is claimed", "contract/past/what it brings is claimed like a record's", true,
			eachPast(func(_ *node.TakeRequest, i *node.Item) { i.Claim = false }),
		},
		{
			"a reschedule that is repeated changes nothing", "contract/past/it is decided anew when it is repeated",
			false, decideOf(func(i *node.Item, before *node.Kept, v *node.Verdict) {
				if v.Outcome == node.Rescheduled && before.Deadline.Equal(i.Deadline) {
					v.After = before
				}
			}),
		},
		{
			"a thousand at a time", "contract/past/thousands at once", false,
			eachResult(func(_ *broken, _ []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				if i >= 1000 && r.Items[i].From == node.NoPlace {
					result.Outcome = node.Untaken
				}
			}),
		},
		{
			"what comes after a refusal is done", "contract/past/what comes after a refusal is not done", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					if rest := r; result.Refusal != "" && len(r.From) == 0 {
						rest.Items = r.Items[result.Taken+1:]
						b.must(nil, func() error { _, err := b.Store.Take(ctx, rest); return err }())
					}
					return result, err
				}
			}),
		},
	}
}

// last has what comes past Kafka act behind the records of its take.
func last() func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			var order []int
			for _, past := range []bool{false, true} {
				for i := range r.Items {
					if r.Items[i].From == node.NoPlace == past {
						order = append(order, i)
					}
				}
			}
			items := r.Items
			r.Items = make([]node.Item, len(items))
			for to, from := range order {
				r.Items[to] = items[from]
			}
			result, err := b.Store.Take(ctx, r)
			if result.Taken < len(items) {
				return result, err
			}
			results := slices.Clone(result.Results)
			for to, from := range order {
				results[from] = result.Results[to]
			}
			result.Results = results
			return result, err
		}
	})
}
