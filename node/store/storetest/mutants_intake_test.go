package storetest_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// positionMutants break the rules of exact intake, one each (design 3.1).
func positionMutants() []mutant {
	return []mutant{
		{
			"positions are offsets", "contract/positions/decide by epoch and offset", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.From {
					r.From[i].Epoch = node.UnknownEpoch
				}
				for i := range r.Items {
					r.Items[i].Epoch = node.UnknownEpoch
				}
			}),
		},
		{
			"a lower epoch is taken in", "contract/positions/a lower epoch is skipped", true,
			eachItem(func(position node.Position, item *node.Item) {
				if item.Offset >= position.Offset && item.Epoch >= 0 {
					item.Epoch = max(item.Epoch, position.Epoch)
				}
			}),
		},
		{
			"positions never move downwards", "contract/positions/move downwards with a higher epoch", true,
			eachItem(func(position node.Position, item *node.Item) {
				if item.Offset < position.Offset {
					item.Epoch = position.Epoch
				}
			}),
		},
		{
			"a take makes positions", "contract/positions/a take without one is refused and creates none", true,
			takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
				_, _, err := b.Store.Positions(ctx, r.From)
				b.must(nil, err)
			}),
		},
		{
			"positions are made at the earliest", "contract/positions/created where missing, and only there", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.positions = func(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
					places = slices.Clone(places)
					for i := range places {
						places[i].Offset = 0
					}
					return b.Store.Positions(ctx, places)
				}
			}),
		},
		{
			"a topic is its name", "contract/positions/a topic made anew is another one", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				first := map[string]node.Partition{}
				b.positions = func(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
					places = slices.Clone(places)
					for i, place := range places {
						if known, found := first[place.Topic]; found {
							places[i].TopicID = known.TopicID
						} else {
							first[place.Topic] = place.Partition
						}
					}
					return b.Store.Positions(ctx, places)
				}
			}),
		},
		{
			"the start is not compared", "contract/positions/a start above is refused", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.From {
					r.From[i].Position = node.Position{Epoch: node.UnknownEpoch}
				}
			}),
		},
		{
			"the start is compared by offset", "contract/positions/a start above is refused", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.From {
					r.From[i].Epoch = node.UnknownEpoch
				}
			}),
		},
		{
			"the start is the first record", "contract/positions/a start above is refused", true,
			takeOf(func(_ context.Context, _ *broken, r *node.TakeRequest) {
				for i := range r.From {
					first := slices.IndexFunc(r.Items, func(item node.Item) bool { return item.From == i })
					if first >= 0 {
						r.From[i].Position = node.Position{Epoch: r.Items[first].Epoch, Offset: r.Items[first].Offset}
					}
				}
			}),
		},
		{
			"one refused partition refuses all", "contract/positions/refusal is by partition", true,
			takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
				if slices.ContainsFunc(r.From, func(place node.Place) bool {
					position, found := b.position(ctx, place)
					return !found || place.Above(position)
				}) {
					for i := range r.From {
						r.From[i].Offset = math.MaxInt64
					}
				}
			}),
		},
		{
			"records that were skipped set the position", "contract/positions/the last record taken sets them", false,
			eachItem(func(position node.Position, item *node.Item) {
				if item.Action == node.Pass && item.Epoch < position.Epoch && item.Epoch >= 0 {
					item.Epoch = position.Epoch
				}
			}),
		},
		{
			"each record moves what decides on the next",
			"contract/positions/decided by what was before the call", true, oneByOne(),
		},
		{
			"a late take stores", "contract/positions/a late take changes nothing", true,
			takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
				other := node.Place{Partition: node.Partition{Topic: "aside"}}
				positions, _, err := b.Store.Positions(ctx, []node.Place{other})
				b.must(nil, err)
				if err != nil {
					return
				}
				other.Position = positions[0]
				for _, item := range r.Items {
					position, found := b.position(ctx, r.From[item.From])
					if found && !position.Takes(item.Epoch, item.Offset) && item.Action == node.Schedule {
						item.From, item.Epoch, item.Offset = 0, 0, other.Offset
						b.must(b.Store.Take(ctx, node.TakeRequest{From: []node.Place{other}, Items: []node.Item{item}}))
						other.Offset++
					}
				}
			}),
		},
		{
			"a repeated take forgets its claims",
			"contract/positions/a repeated take changes nothing and returns its claims", true,
			eachResult(func(_ *broken, before []memory.Row, r node.TakeRequest, i int, result *node.ItemResult) {
				if stores(before, r.Items[i].Ref()) {
					result.Claim = node.Claim{}
				}
			}),
		},
		{
			"a repeated take forgets what it stored",
			"contract/positions/a repeated take changes nothing and returns its claims", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					skipped := make([]bool, len(r.Items))
					for i, item := range r.Items {
						position, found := b.position(ctx, r.From[item.From])
						skipped[i] = found && !r.From[item.From].Above(position) &&
							!position.Takes(item.Epoch, item.Offset)
					}
					result, err := b.Store.Take(ctx, r)
					for i := range result.Results {
						if skipped[i] {
							result.Results[i] = node.ItemResult{Outcome: node.Skipped}
						}
					}
					return result, err
				}
			}),
		},
		{
			"a take is not atomic", "failure/a take that fails in the middle leaves nothing", false,
			func(clock *storetest.Clock) storetest.Instance {
				store := &halfway{Store: memory.New(clock.Now)}
				return storetest.Instance{Store: store, Clock: clock, Trip: store.trip}
			},
		},
	}
}

// eachItem breaks Take by changing every item, given the position of its partition.
func eachItem(change func(node.Position, *node.Item)) func(*storetest.Clock) storetest.Instance {
	return takeOf(func(ctx context.Context, b *broken, r *node.TakeRequest) {
		before := make([]node.Position, len(r.From))
		for i, place := range r.From {
			before[i], _ = b.position(ctx, place)
		}
		for i := range r.Items {
			change(before[r.Items[i].From], &r.Items[i])
		}
	})
}

// oneByOne takes every record in by a call of its own.
func oneByOne() func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			empty := r
			empty.Items = nil
			all, err := b.Store.Take(ctx, empty)
			for i := range r.Items {
				if err != nil {
					break
				}
				one := r
				one.Items = r.Items[i : i+1]
				one.From = slices.Clone(r.From)
				for j := range one.From {
					if !all.Refused[j] {
						one.From[j].Position = node.Position{Epoch: node.UnknownEpoch, Offset: math.MinInt64}
					}
				}
				var result node.TakeResult
				result, err = b.Store.Take(ctx, one)
				all.State, all.Positions, all.Refusal = result.State, result.Positions, result.Refusal
				all.Results = append(all.Results, result.Results...)
				if all.Taken += result.Taken; result.Refusal != "" {
					break
				}
			}
			return all, err
		}
	})
}

// halfway fails in the middle of a take and keeps what it has done until then.
type halfway struct {
	*memory.Store

	tripped string
}

func (h *halfway) trip(_ testing.TB, id string) func() {
	h.tripped = id
	return func() { h.tripped = "" }
}

func (h *halfway) Take(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
	at := slices.IndexFunc(r.Items, func(item node.Item) bool { return item.ID == h.tripped })
	if h.tripped == "" || at < 0 {
		return h.Store.Take(ctx, r)
	}
	r.Items = r.Items[:at]
	_, err := h.Store.Take(ctx, r)
	return node.TakeResult{}, errors.Join(err, errors.New("tripped"))
}

// lineageMutants break the rules of lineages and bindings.
func lineageMutants() []mutant {
	return []mutant{
		{
			"anybody begins a lineage", "contract/lineage/only by who has seen it", true,
			catchUpOf(func(ctx context.Context, b *broken, r *node.CatchUpRequest) {
				_, state, err := b.Store.Positions(ctx, nil)
				b.must(nil, err)
				r.Lineage = state.Lineage
			}),
		},
		{
			"the floor is ignored", "contract/lineage/above all that are known", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) { r.Floor = 0 }),
		},
		{
			"claims go on at once", "contract/lineage/nothing is claimed for the hold time", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) { r.Hold = 0 }),
		},
		{
			"marks are not kept", "contract/lineage/nothing is claimed until all marks are passed", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) {
				for i := range r.Marks {
					r.Marks[i].End = math.MinInt64
				}
			}),
		},
		{
			"marks are one too high", "contract/lineage/nothing is claimed until all marks are passed", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) {
				for i := range r.Marks {
					r.Marks[i].End++
				}
			}),
		},
		{
			"marks are kept below what retention took",
			"contract/lineage/a mark is none below what retention took", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) {
				for i := range r.Marks {
					if r.Marks[i].First > 0 {
						r.Marks[i].First--
					}
				}
			}),
		},
		{
			"marks are raised", "contract/lineage/marks are lowered and given up, never raised", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) { r.Begin = true }),
		},
		{
			"marks stay", "contract/lineage/marks are lowered and given up, never raised", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.catchUp = func(ctx context.Context, r node.CatchUpRequest) (node.State, error) {
					if !r.Begin {
						_, state, err := b.Store.Positions(ctx, nil)
						return state, err
					}
					return b.Store.CatchUp(ctx, r)
				}
			}),
		},
		{
			"partitions of marks get no positions", "contract/lineage/partitions of marks get positions", true,
			catchUpOf(func(ctx context.Context, b *broken, r *node.CatchUpRequest) {
				r.Marks = slices.DeleteFunc(r.Marks, func(extent node.Extent) bool {
					_, found := b.position(ctx, node.Place{Partition: extent.Partition})
					return !found
				})
			}),
		},
		{
			"takes claim while the store catches up", "contract/lineage/what is taken in meanwhile waits", true,
			breakIt(func(b *broken, clock *storetest.Clock) { ungate(b, memory.New(clock.Now)) }),
		},
		{
			"nothing is rewound", "contract/lineage/rewind sets positions", true,
			catchUpOf(func(_ context.Context, _ *broken, r *node.CatchUpRequest) { r.Rewind = nil }),
		},
		{
			"a rewind keeps epochs", "contract/lineage/rewind sets positions", true,
			catchUpOf(func(ctx context.Context, b *broken, r *node.CatchUpRequest) {
				r.Rewind = slices.Clone(r.Rewind)
				for i, place := range r.Rewind {
					if position, found := b.position(ctx, place); found {
						r.Rewind[i].Epoch = position.Epoch
					}
				}
			}),
		},
		{
			"a new lineage gives all claims back", "contract/lineage/what is held stays held", true,
			catchUpOf(func(ctx context.Context, b *broken, _ *node.CatchUpRequest) {
				for _, row := range b.Dump() {
					b.must(b.Store.Reset(ctx, []node.Release{{Claim: claimOn(row)}}))
				}
			}),
		},
		{
			"another server is trusted", "history/a suspect store claims nothing and takes nothing in", false,
			func(clock *storetest.Clock) storetest.Instance {
				return storetest.Instance{Store: memory.New(clock.Now), Clock: clock, Promote: func(testing.TB) {}}
			},
		},
		{
			"anybody binds", "contract/bind/the first one binds, others do not", true,
			bindOf(func(_ *broken, r *node.BindRequest) { r.Force = true }),
		},
		{
			"force does not bind", "contract/bind/by force", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				bound := false
				b.bind = func(ctx context.Context, r node.BindRequest) (node.Bound, error) {
					r.Force = !bound // the first one, with which random calls begin
					bound = true
					return b.Store.Bind(ctx, r)
				}
			}),
		},
		{
			"a new store adopts", "contract/bind/a new store adopts nothing", false,
			bindOf(func(b *broken, r *node.BindRequest) {
				if r.Adopt != nil {
					b.Upgrade()
				}
			}),
		},
		{
			"a store adopts twice", "upgrade/adopts once", false,
			bindOf(func(b *broken, r *node.BindRequest) {
				if r.Adopt != nil {
					b.Upgrade()
				}
			}),
		},
		{
			"nothing committed is no adoption", "upgrade/adopts that nothing was committed", false,
			bindOf(func(_ *broken, r *node.BindRequest) {
				if len(r.Adopt) == 0 {
					r.Adopt = nil
				}
			}),
		},
	}
}

// ungate makes a store whose claims obey the gate of a catch-up and whose takes do not: the gate is that of another
// store, which is told the same.
func ungate(b *broken, gate *memory.Store) {
	b.positions = func(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
		positions, _, err := b.Store.Positions(ctx, places)
		_, state, gateErr := gate.Positions(ctx, places)
		return positions, state, errors.Join(err, gateErr)
	}
	b.catchUp = func(ctx context.Context, r node.CatchUpRequest) (node.State, error) {
		open := r
		open.Hold, open.Marks = 0, slices.Clone(r.Marks)
		for i := range open.Marks {
			open.Marks[i].End = math.MinInt64
		}
		_, err := b.Store.CatchUp(ctx, open)
		state, gateErr := gate.CatchUp(ctx, r)
		return state, errors.Join(err, gateErr)
	}
	b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
		result, err := b.Store.Take(ctx, r)
		same, gateErr := gate.Take(ctx, r)
		result.State = same.State
		return result, errors.Join(err, gateErr)
	}
	b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
		_, state, err := gate.Positions(ctx, nil)
		if err != nil || !state.Claims() {
			return node.ClaimResult{State: state}, err
		}
		result, err := b.Store.Claim(ctx, r)
		result.State = state
		return result, err
	}
}
