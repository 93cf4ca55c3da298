package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// taken is a take that is done, and what was stored before it.
type taken struct {
	node.TakeRequest
	*node.TakeResult

	before []memory.Row
}

// afterTake breaks Take by doing something more when it is done.
func afterTake(
	more func(ctx context.Context, b *broken, t *taken),
) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			before := b.Dump()
			result, err := b.Store.Take(ctx, r)
			if err == nil {
				more(ctx, b, &taken{r, &result, before})
			}
			return result, err
		}
	})
}

// keptOf returns what instructions are decided on.
func keptOf(row memory.Row) *node.Kept {
	return &node.Kept{
		Incarnation: row.Incarnation, Deadline: row.Deadline, Due: row.Due, Claimed: !row.ReadiedAt.IsZero(),
		Attempts: row.Attempts, Bound: row.Bound, Former: row.Former,
	}
}

// onWhatWas are rules that decide on rows as they were at some time, and on nothing if there was none. What is gone by
// now is not found: such a verdict could not be carried out.
func onWhatWas(rows []memory.Row) memory.Broken {
	kept := map[node.MessageID]*node.Kept{}
	for _, row := range rows {
		kept[node.MessageID{ID: row.ID, Lane: row.Lane}] = keptOf(row)
	}
	return memory.Broken{
		Decide: func(i *node.Item, now *node.Kept) node.Verdict {
			was := kept[node.MessageID{ID: i.ID, Lane: i.Lane}]
			if now == nil && !i.Action.Stores() {
				was = nil
			}
			return i.Decide(was)
		},
	}
}

// foldMutants decide one instruction rightly, and a batch of them, or one that comes again, wrongly.
func foldMutants() []mutant {
	return []mutant{
		{
			"a batch is decided on what was there before it", "contract/control/a batch acts in order", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var taking sync.Mutex
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					taking.Lock()
					defer taking.Unlock()
					b.Break(onWhatWas(b.Dump()))
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"a batch acts by kind", "contract/control/a batch acts in order", true, byKind(),
		},
		{
			"claims are made at once", "contract/control/a claim only on what remains", true, claimsAtOnce(),
		},
		{
			"a claim is on whatever remains", "contract/control/a claim only on what remains", true,
			afterTake(func(ctx context.Context, b *broken, t *taken) {
				for i, done := range t.Results {
					item := t.Items[i]
					row, found := b.row(item.ID, item.Lane)
					if found && done.Outcome == node.Scheduled && item.Claim && done.Claim == (node.Claim{}) &&
						row.Incarnation != item.Incarnation && row.Attempts == 0 {
						t.Results[i].Claim = b.rewrite(ctx, row.Message, t.TakeRequest, time.Time{})
					}
				}
			}),
		},
		{
			"what replaces is never claimed", "contract/control/a claim on what has replaced another", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.Items {
					r.Items[i].Claim = r.Items[i].Claim && r.Items[i].Action == node.Schedule
				}
			}),
		},
		{
			"a repeated take acts again", "contract/control/a repeated take changes and tells nothing", true,
			afterTake(func(ctx context.Context, b *broken, t *taken) {
				for i, done := range t.Results {
					if done.Outcome == node.Skipped && !t.Items[i].Action.Stores() && t.Items[i].Action != node.Pass {
						b.aside(ctx, t.TakeRequest, t.Items[i])
					}
				}
			}),
		},
		{
			"a repeated take tells again", "contract/control/a repeated take changes and tells nothing", true,
			afterTake(func(ctx context.Context, b *broken, t *taken) {
				for i, done := range t.Results {
					if done.Outcome == node.Skipped && t.Items[i].Answer != nil {
						b.aside(ctx, t.TakeRequest, node.Item{Answer: t.Items[i].Answer})
					}
				}
			}),
		},
		{
			"a late take tells", "contract/control/a late take changes and tells nothing", true,
			afterTake(func(ctx context.Context, b *broken, t *taken) {
				for i, done := range t.Results {
					if done.Outcome == node.Skipped && t.Items[i].Answer != nil && !stores(t.before, t.Items[i].Ref()) {
						b.aside(ctx, t.TakeRequest, node.Item{Answer: t.Items[i].Answer})
					}
				}
			}),
		},
		{
			"a repeated take finds nothing", "contract/control/a repeated take changes and tells nothing", true,
			afterTake(func(_ context.Context, _ *broken, t *taken) {
				for i, done := range t.Results {
					if done.Outcome == node.Skipped && t.Items[i].Action == node.Cancel {
						t.Results[i].Outcome = node.NotFound
					}
				}
			}),
		},
		{
			"what replaced is skipped when it comes again",
			"contract/control/a repeated take changes and tells nothing", true,
			afterTake(func(_ context.Context, _ *broken, t *taken) {
				for i, done := range t.Results {
					if item := t.Items[i]; item.Action == node.Replace && done.Outcome == node.Scheduled &&
						stores(t.before, item.Ref()) {
						t.Results[i] = node.ItemResult{Outcome: node.Skipped}
					}
				}
			}),
		},
		{
			"instructions of a refused partition act",
			"contract/control/a refused partition changes and tells nothing", true,
			afterTake(func(ctx context.Context, b *broken, t *taken) {
				for i, done := range t.Results {
					if done.Outcome == node.Untaken && t.Items[i].Refusal() == "" {
						b.aside(ctx, t.TakeRequest, t.Items[i])
					}
				}
			}),
		},
		{
			"what comes after a refusal acts",
			"contract/control/what comes after a refusal changes and tells nothing", true,
			afterTake(func(ctx context.Context, b *broken, t *taken) {
				for i := t.Taken + 1; i < len(t.Items); i++ {
					if t.Items[i].Refusal() == "" {
						b.aside(ctx, t.TakeRequest, t.Items[i])
					}
				}
			}),
		},
		{
			"takes in while claims from before may be held",
			"contract/lineage/nothing is taken in for the hold time", true,
			breakIt(func(b *broken, clock *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					_, before, _ := b.Store.Positions(ctx, nil)
					if before.Holding {
						clock.Advance(time.Hour)
						defer clock.Advance(-time.Hour)
					}
					result, err := b.Store.Take(ctx, r)
					result.State = before
					return result, err
				}
			}),
		},
		{
			"takes in while it is suspect", "history/a suspect store claims nothing and takes nothing in", false,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{TakesWhileSuspect: true}) }),
		},
		{
			"callback lanes do not wait", "contract/lineage/callback lanes wait for callbacks under way", false,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{CallsEarly: true}) }),
		},
		{
			"takes in while claims may be held", "contract/lineage/nothing is taken in for the hold time", true,
			breakIt(func(b *broken, _ *storetest.Clock) { b.Break(memory.Broken{TakesWhileHolding: true}) }),
		},
		{
			"the state hides that claims may be held", "contract/lineage/nothing is taken in for the hold time", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.positions = func(ctx context.Context, p []node.Place) ([]node.Position, node.State, error) {
					positions, state, err := b.Store.Positions(ctx, p)
					state.Holding = false
					return positions, state, err
				}
			}),
		},
	}
}

// byKind has a take of one partition do all that stores something first.
func byKind() func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			if len(r.From) != 1 {
				return b.Store.Take(ctx, r)
			}
			var order []int
			for _, first := range []bool{true, false} {
				for i := range r.Items {
					if r.Items[i].Action.Stores() == first {
						order = append(order, i)
					}
				}
			}
			sorted := slices.Clone(r.Items)
			for to, from := range order {
				sorted[to] = r.Items[from]
				sorted[to].Epoch, sorted[to].Offset = r.Items[to].Epoch, r.Items[to].Offset
			}
			r.Items = sorted
			result, err := b.Store.Take(ctx, r)
			if len(result.Results) == len(order) {
				results := make([]node.ItemResult, len(order))
				for to, from := range order {
					results[from] = result.Results[to]
				}
				result.Results = results
			}
			return result, err
		}
	})
}

// claimsAtOnce makes what a take has claimed too late for the rest of it.
func claimsAtOnce() func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		var taking sync.Mutex
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			taking.Lock()
			defer taking.Unlock()
			claimed := map[node.MessageID]bool{}
			var rules memory.Broken
			rules.Decide = func(i *node.Item, before *node.Kept) node.Verdict {
				name := node.MessageID{ID: i.ID, Lane: i.Lane}
				if before != nil && claimed[name] {
					held := *before
					held.Claimed, held.Attempts = true, 1
					before = &held
				}
				v := i.Decide(before)
				if v.Brings {
					claimed[name] = i.Claim
				}
				return v
			}
			b.Break(rules)
			return b.Store.Take(ctx, r)
		}
	})
}

// stale has the first take that gives instructions decide on what it has seen before a claim, and carry that out after
// it. The claimers wait until it has looked.
func stale(action node.Action) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		looked, claimed := make(chan struct{}), make(chan struct{})
		var first, then sync.Once
		var taking sync.Mutex
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			var rules memory.Broken
			if slices.ContainsFunc(r.Items, func(i node.Item) bool { return i.Action == action }) {
				first.Do(func() {
					rules = onWhatWas(b.Dump())
					close(looked)
					<-claimed
				})
			}
			taking.Lock()
			defer taking.Unlock()
			b.Break(rules)
			defer b.Break(memory.Broken{})
			return b.Store.Take(ctx, r)
		}
		b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
			select {
			case <-looked:
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				panic("nobody gives instructions")
			}
			for i := range r.Lanes {
				r.Lanes[i].Limit = max(r.Lanes[i].Limit, 1000) // the messages of that take are among them
			}
			result, err := b.Store.Claim(ctx, r)
			then.Do(func() { close(claimed) })
			return result, err
		}
	})
}

func controlRaceMutants() []mutant {
	return []mutant{
		{"a cancel looks first and writes later", "concurrent/claims against cancels", false, stale(node.Cancel)},
		{"a fire looks first and writes later", "concurrent/claims against fires", false, stale(node.FireNow)},
		{
			"a reschedule looks first and writes later", "concurrent/claims against reschedules", false,
			stale(node.Reschedule),
		},
		{"a replace looks first and writes later", "concurrent/claims against replaces", false, stale(node.Replace)},
		{
			"a claim chooses first and claims later", "concurrent/claims against cancels", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				chosen, cancelled := make(chan struct{}), make(chan struct{})
				var first, then sync.Once
				b.claim = func(ctx context.Context, r node.ClaimRequest) (result node.ClaimResult, err error) {
					late := false
					first.Do(func() {
						late = true
						r.Lanes = slices.Clone(r.Lanes)
						eachShare(func(s *node.Share) { s.Limit = 1000 })(&r)
						result, err = b.Store.Claim(ctx, r)
						for _, one := range result.Messages {
							b.must(b.Store.Reset(ctx, []node.Release{{Claim: one.Claim, Unsent: true}}))
						}
						close(chosen)
						<-cancelled
					})
					if late {
						return result, err
					}
					return b.Store.Claim(ctx, r)
				}
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					if !slices.ContainsFunc(r.Items, func(i node.Item) bool { return i.Action == node.Cancel }) {
						return b.Store.Take(ctx, r)
					}
					<-chosen
					result, err := b.Store.Take(ctx, r)
					then.Do(func() { close(cancelled) })
					return result, err
				}
			}),
		},
		{
			"a release clears what a cancel has bound", "concurrent/unsent releases against cancels", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				bound := make(chan struct{})
				var first sync.Once
				var mu sync.Mutex
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					mu.Lock()
					defer mu.Unlock()
					result, err := b.Store.Take(ctx, r)
					if slices.ContainsFunc(result.Results, func(i node.ItemResult) bool {
						return i.Outcome == node.TooLate
					}) {
						first.Do(func() { close(bound) })
					}
					return result, err
				}
				b.reset = func(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
					<-bound
					mu.Lock()
					defer mu.Unlock()
					reset, err := b.Store.Reset(ctx, releases)
					for i, release := range releases {
						if row, found := b.row(release.ID, release.Lane); found && reset[i] == node.Freed && row.Bound {
							b.rewrite(ctx, row.Message, node.TakeRequest{}, row.Due)
						}
					}
					return reset, err
				}
			}),
		},
		{
			"a message that is deleted is cancelled as well", "concurrent/deletes against cancels", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var mu sync.Mutex
				gone := map[node.MessageID]bool{}
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					mu.Lock()
					defer mu.Unlock()
					for _, n := range next {
						gone[node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}] = true
					}
					return b.Store.Settle(ctx, next)
				}
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					mu.Lock()
					defer mu.Unlock()
					for i, done := range result.Results {
						item := r.Items[i]
						if done.Outcome == node.NotFound && gone[node.MessageID{ID: item.ID, Lane: item.Lane}] {
							result.Results[i].Outcome = node.Cancelled
						}
					}
					return result, err
				}
			}),
		},
		{
			"instructions deadlock", "concurrent/instructions of many in any order", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				race := &meeting{left: 1}
				var mu sync.Mutex
				inside := 0
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					if len(r.Items) < 2 {
						return b.Store.Take(ctx, r)
					}
					mu.Lock()
					inside++
					mu.Unlock()
					race.meet()
					mu.Lock()
					defer mu.Unlock()
					if inside--; inside > 0 {
						return node.TakeResult{}, errors.New("deadlock detected")
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
	}
}
