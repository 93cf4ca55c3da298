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

func insertMutants() []mutant {
	return []mutant{
		{
			"upsert instead of ignore", "contract/insert/duplicate changes nothing", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					for _, m := range r.Messages {
						if row, found := b.row(m.ID, m.Topic); found && row.Incarnation != m.Incarnation {
							if _, err := b.Store.Delete(ctx, []node.Ref{row.Ref()}); err != nil {
								return nil, err
							}
						}
					}
					return b.Store.Insert(ctx, r)
				}
			}),
		},
		{
			"repeated insert is a duplicate", "contract/insert/repeated while waiting", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					var old []bool
					for _, m := range r.Messages {
						_, found := b.row(m.ID, m.Topic)
						old = append(old, found)
					}
					results, err := b.Store.Insert(ctx, r)
					for i := range results {
						if old[i] {
							results[i] = node.InsertResult{Outcome: node.Duplicate}
						}
					}
					return results, err
				}
			}),
		},
		{
			"repeated insert claims", "contract/insert/repeated while waiting", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					for _, m := range r.Messages {
						row, found := b.row(m.ID, m.Topic)
						if found && row.Incarnation == m.Incarnation && m.Readied && row.ReadiedBy != r.Node {
							if _, err := b.Store.Delete(ctx, []node.Ref{row.Ref()}); err != nil {
								return nil, err
							}
						}
					}
					return b.Store.Insert(ctx, r)
				}
			}),
		},
		{
			"repeated insert forgets the claim", "contract/insert/repeated while readied", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					before := b.Dump()
					results, err := b.Store.Insert(ctx, r)
					for i := range results {
						if slices.ContainsFunc(before, func(row memory.Row) bool {
							return row.Ref() == r.Messages[i].Ref()
						}) {
							results[i].Claim = node.Claim{}
						}
					}
					return results, err
				}
			}),
		},
		{
			"insert returns the claims of others", "contract/insert/claim is of the requesting node only", true,
			eachResult(func(b *broken, r node.InsertRequest, i int, result *node.InsertResult) {
				row, _ := b.row(r.Messages[i].ID, r.Messages[i].Topic)
				if result.Outcome == node.Inserted && !row.ReadiedAt.IsZero() {
					result.Claim = node.Claim{
						Ref: row.Ref(), ReadiedAt: row.ReadiedAt, ReadiedBy: row.ReadiedBy,
					}
				}
			}),
		},
		{
			"duplicate returns the claim in its way", "contract/insert/duplicate changes nothing", true,
			eachResult(func(b *broken, r node.InsertRequest, i int, result *node.InsertResult) {
				row, _ := b.row(r.Messages[i].ID, r.Messages[i].Topic)
				if row.ReadiedBy == r.Node {
					result.Claim = node.Claim{
						Ref: row.Ref(), ReadiedAt: row.ReadiedAt, ReadiedBy: row.ReadiedBy,
					}
				}
			}),
		},
		{
			"insert never claims", "contract/insert/readied", true,
			eachMessage(func(m *node.Insertion) { m.Readied = false }),
		},
		{
			"batch acts backwards", "contract/insert/same id twice in one batch", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					r.Messages = slices.Clone(r.Messages)
					slices.Reverse(r.Messages)
					results, err := b.Store.Insert(ctx, r)
					slices.Reverse(results)
					return results, err
				}
			}),
		},
		{
			"results are in the order of ids", "contract/insert/one result for each message in order", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					r.Messages = slices.Clone(r.Messages)
					slices.SortStableFunc(r.Messages, func(x, y node.Insertion) int {
						return cmp.Compare(x.ID, y.ID)
					})
					return b.Store.Insert(ctx, r)
				}
			}),
		},
		{
			"insert sorts its argument", "contract/insert/arguments are not changed or kept", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					slices.SortFunc(r.Messages, func(x, y node.Insertion) int { return cmp.Compare(x.ID, y.ID) })
					return b.Store.Insert(ctx, r)
				}
			}),
		},
		{
			"one poison message fails its batch", "contract/insert/refused message disturbs no other", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					for _, m := range r.Messages {
						if strings.ContainsRune(m.ID, 0) {
							return nil, errors.New("invalid byte sequence")
						}
					}
					return b.Store.Insert(ctx, r)
				}
			}),
		},
		{
			"one poison message is dropped silently", "contract/insert/refused message disturbs no other", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					results, err := b.Store.Insert(ctx, r)
					for _, m := range r.Messages {
						if strings.ContainsRune(m.ID, 0) {
							if _, err := b.Store.Delete(ctx, []node.Ref{m.Ref()}); err != nil {
								return nil, err
							}
						}
					}
					return results, err
				}
			}),
		},
		{
			"ids are unique over all topics", "contract/insert/same id on two topics", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					results := make([]node.InsertResult, len(r.Messages))
					for i, m := range r.Messages {
						if slices.ContainsFunc(b.Dump(), func(row memory.Row) bool {
							return row.ID == m.ID && row.Topic != m.Topic
						}) {
							results[i].Outcome = node.Duplicate
							continue
						}
						one, err := b.Store.Insert(ctx, node.InsertRequest{
							Node: r.Node, Messages: r.Messages[i : i+1],
						})
						if err != nil {
							return nil, err
						}
						results[i] = one[0]
					}
					return results, nil
				}
			}),
		},
		{
			"trailing spaces do not count", "contract/insert/names that differ a little", false,
			eachMessage(func(m *node.Insertion) { m.ID = strings.TrimRight(m.ID, " ") }),
		},
		{
			"present means waiting", "contract/present/waiting, ready, gone and never there", true,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.present = func(ctx context.Context, ids []node.MessageID) ([]bool, error) {
					present, err := b.Store.Present(ctx, ids)
					for i := range present {
						row, _ := b.row(ids[i].ID, ids[i].Topic)
						present[i] = present[i] && row.ReadiedAt.IsZero()
					}
					return present, err
				}
			}),
		},
		{
			"context is ignored", "contract/general/context is done", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.present = func(ctx context.Context, ids []node.MessageID) ([]bool, error) {
					return b.Store.Present(context.WithoutCancel(ctx), ids)
				}
			}),
		},
		{
			"batches end at a thousand", "contract/general/large batches", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				b.delete = func(ctx context.Context, refs []node.Ref) ([]bool, error) {
					deleted, err := b.Store.Delete(ctx, refs[:min(len(refs), 1000)])
					return append(deleted, make([]bool, len(refs)-len(deleted))...), err
				}
			}),
		},
	}
}
