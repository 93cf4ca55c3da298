package storetest_test

import (
	"context"
	"slices"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// partMutants are wrong about what is parked.
func partMutants() []mutant {
	partsOf := func(choose func([]node.Part) []node.Part) func(*storetest.Clock) storetest.Instance {
		return breakIt(func(b *broken, _ *storetest.Clock) {
			b.parts = func(ctx context.Context) ([]node.Part, error) {
				parts, err := b.Store.Parts(ctx)
				return choose(parts), err
			}
		})
	}
	const onlyOnPart = "contract/parts/only a claim on the part finds what is parked"
	return []mutant{
		{
			"parks nothing", onlyOnPart, true,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Part = "" }),
		},
		{
			"parks under another name", "contract/parts/a reset parks elsewhere or brings back", true,
			eachRelease(func(r *node.Release, row memory.Row) {
				if r.Part != "" && row.Part != "" {
					r.Part = row.Part
				}
			}),
		},
		{
			"parks what expires", "contract/parts/a claim that expires brings back", true,
			eachRelease(func(r *node.Release, row memory.Row) {
				if r.Part == "" {
					r.Part = row.Part
				}
			}),
		},
		{
			"a claim on the lane takes what is parked", onlyOnPart, true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					r.Lanes = slices.Clone(r.Lanes)
					parts, _ := b.Store.Parts(ctx)
					for _, share := range r.Lanes {
						for _, part := range parts {
							asked := func(s node.Share) bool { return s.Where() == part }
							if share.Part == "" && part.Lane == share.Lane && !slices.ContainsFunc(r.Lanes, asked) {
								share.Part = part.Name
								r.Lanes = append(r.Lanes, share)
							}
						}
					}
					return b.Store.Claim(ctx, r)
				}
			}),
		},
		{
			"a claim on a part takes what is on the lane", onlyOnPart,
			true, claimOf(eachShare(func(s *node.Share) { s.Part = "" }), asTaken),
		},
		{
			"a claim does not say the part", onlyOnPart, true,
			claimOf(asAsked, func(_ context.Context, _ *broken, r []node.Ready) []node.Ready {
				for i := range r {
					r[i].Part = ""
				}
				return r
			}),
		},
		{
			"from does not hold on parts", "contract/parts/limits, bytes and instants of each share", true,
			claimOf(eachShare(func(s *node.Share) {
				if s.Part != "" {
					s.From = s.From.AddDate(-2100, 0, 0)
				}
			}), asTaken),
		},
		{
			"bytes of all parts are ignored", "contract/parts/bytes of lanes and parts together", false,
			claimOf(func(r *node.ClaimRequest) {
				if slices.ContainsFunc(r.Lanes, func(s node.Share) bool { return s.Part != "" }) {
					r.Bytes = 0
				}
			}, asTaken),
		},
		{"parks for good", "contract/parts/what changes a message brings it back", true, keepsParked(true, false)},
		{
			"parks the next occurrence", "contract/parts/the next occurrence waits on its lane", true,
			keepsParked(false, true),
		},
		{
			"any instruction brings back", "contract/parts/what changes nothing leaves it", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					for i := range result.Results {
						if result.Results[i].Outcome == node.TooLate {
							b.park(ctx, r.Items[i].ID, r.Items[i].Lane, "")
						}
					}
					return result, err
				}
			}),
		},
		{
			"parts lack the last", "contract/parts/lists lanes and parts in order", true,
			partsOf(func(parts []node.Part) []node.Part { return parts[:max(len(parts)-1, 0)] }),
		},
		{
			"parts are lanes only", "contract/parts/lists lanes and parts in order", true,
			partsOf(func(parts []node.Part) []node.Part {
				return slices.DeleteFunc(parts, func(p node.Part) bool { return p.Name != "" })
			}),
		},
		{
			"each lane is listed", "contract/parts/lists lanes and parts in order", true,
			partsOf(func(parts []node.Part) []node.Part {
				var all []node.Part
				for _, part := range parts {
					if lane := (node.Part{Lane: part.Lane}); part != lane && !slices.Contains(all, lane) {
						all = append(all, lane)
					}
					all = append(all, part)
				}
				return all
			}),
		},
		{
			"parts are in reverse order", "contract/parts/lists lanes and parts in order", false,
			partsOf(func(parts []node.Part) []node.Part {
				slices.Reverse(parts)
				return parts
			}),
		},
		{
			"all parts are listed", "contract/parts/lists no more than MaxParts", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.parts = func(ctx context.Context) ([]node.Part, error) {
					parts, err := b.Store.Parts(ctx)
					for _, row := range b.Dump() {
						part := node.Part{Lane: row.Lane, Name: row.Part}
						if row.ReadiedAt.IsZero() && len(parts) >= node.MaxParts && !slices.Contains(parts, part) {
							parts = append(parts, part)
						}
					}
					slices.SortFunc(parts, node.Part.Compare)
					return parts, err
				}
			}),
		},
		{
			"idle beside what is parked", "contract/parts/is not idle while anything is parked", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					result, err := b.Store.Claim(ctx, r)
					calm := !slices.ContainsFunc(b.Dump(), func(row memory.Row) bool {
						return !row.ReadiedAt.IsZero() || row.Part == ""
					})
					if len(result.Messages) == 0 && calm {
						result.Idle = r.Ahead
					}
					return result, err
				}
			}),
		},
		{
			"names are cut", "contract/parts/names", false,
			eachRelease(func(r *node.Release, _ memory.Row) { r.Part = r.Part[:min(len(r.Part), 63)] }),
		},
	}
}

// park has a message that waits be parked on a part.
func (b *broken) park(ctx context.Context, id, lane, part string) {
	row, found := b.row(id, lane)
	if !found || !row.ReadiedAt.IsZero() || row.Part == part {
		return
	}
	result, _ := b.Store.Claim(ctx, node.ClaimRequest{
		Until: row.Due, Lanes: []node.Share{{Lane: lane, Part: row.Part, Limit: 1000, Bytes: 1 << 20, From: row.Due}},
	})
	for _, r := range result.Messages {
		release := node.Release{Claim: r.Claim, Part: r.Part, Unsent: true}
		if r.ID == id {
			release.Part = part
		}
		b.must(b.Store.Reset(ctx, []node.Release{release}))
	}
}

// keepsParked breaks a store so that what was parked is so after an instruction that has changed it, or as its next
// occurrence.
func keepsParked(taken, settled bool) func(*storetest.Clock) storetest.Instance {
	return breakIt(func(b *broken, _ *storetest.Clock) {
		again := func(ctx context.Context, before []memory.Row) {
			for _, row := range before {
				if row.Part != "" {
					b.park(ctx, row.ID, row.Lane, row.Part)
				}
			}
		}
		if taken {
			b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
				before := b.Dump()
				result, err := b.Store.Take(ctx, r)
				again(ctx, before)
				return result, err
			}
		}
		if settled {
			b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
				before := b.Dump()
				result, err := b.Store.Settle(ctx, next)
				again(ctx, before)
				return result, err
			}
		}
	})
}
