package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Mutants returns all mutants, in the order in which they are reported.
func Mutants() []*Mutant {
	return slices.Concat(storeMutants(), claimMutants(), intakeMutants(), publishMutants(), clockMutants(),
		originalMutants(), delayMutants())
}

// storeMutants write and delete rows wrongly.
func storeMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "delete-by-id", About: "D2 read literally: a delete names the id only (H1, H2)",
			Kills: []string{"S2"}, Options: reusing,
			Rows: func(rows node.Store, table Table) node.Store {
				return brokenStore{Store: rows, remove: func(ctx context.Context, refs []node.Ref) ([]bool, error) {
					return rows.Delete(ctx, mapped(refs, func(ref node.Ref) node.Ref {
						c, _ := table.Claim(node.MessageID{ID: ref.ID, Topic: ref.Topic})
						return c.Ref
					}))
				}}
			},
		},
		{
			Name: "delete-if-owner", About: "a delete is fenced by the owner of the claim (H3)",
			Kills: []string{"S14"}, Options: suspicious,
			Rows: func(rows node.Store, table Table) node.Store {
				return fencedDelete(rows, func(ref node.Ref) bool {
					c, _ := table.Claim(node.MessageID{ID: ref.ID, Topic: ref.Topic})
					return c.ReadiedBy == table.Caller()
				})
			},
		},
		{
			Name: "delete-if-claimed", About: "a delete is fenced by the claim that the node had (H4)",
			Kills: []string{"S14"}, Rows: claimFence, Options: suspicious,
		},
		{
			Name: "delete-ignored", About: "a delete reports success and does nothing",
			Kills: []string{"S14"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return fencedDelete(rows, func(node.Ref) bool { return false })
			},
		},
		{
			Name: "delete-waiting-only", About: "a delete spares what has been claimed by a peer meanwhile",
			Kills: []string{"S14"}, Options: suspicious,
			Rows: func(rows node.Store, table Table) node.Store {
				return fencedDelete(rows, func(ref node.Ref) bool {
					c, _ := table.Claim(node.MessageID{ID: ref.ID, Topic: ref.Topic})
					return c.ReadiedBy == table.Caller() || c.ReadiedBy == uuid.Nil
				})
			},
		},
		{
			Name: "upsert", About: "an insert replaces what is there (H33)",
			Kills: []string{"S2"}, Options: reusing,
			Rows: func(rows node.Store, table Table) node.Store {
				return brokenStore{Store: rows, insert: func(
					ctx context.Context, in node.InsertRequest,
				) ([]node.InsertResult, error) {
					for _, m := range in.Messages {
						c, found := table.Claim(node.MessageID{ID: m.ID, Topic: m.Topic})
						if found && c.Incarnation != m.Incarnation {
							_, _ = rows.Delete(ctx, []node.Ref{c.Ref})
						}
					}
					return rows.Insert(ctx, in)
				}}
			},
		},
		{
			Name: "incarnation-of-id", About: "the incarnation repeats when the id does, like a sequence (H5)",
			Kills: []string{"S2"}, Options: reusing, Rows: repeatedIncarnation,
		},
		{
			Name: "duplicate-is-error", About: "an insert of a duplicate fails, and with it the batch",
			Kills: []string{"L5"}, Options: func(o *Options) { reusing(o); o.FaultRate = 0 },
			Ports: func(p Ports) Ports {
				store := p.Store
				p.Store = brokenStore{Store: store, insert: func(
					ctx context.Context, in node.InsertRequest,
				) ([]node.InsertResult, error) {
					results, err := store.Insert(ctx, in)
					for _, r := range results {
						if r.Outcome == node.Duplicate {
							return nil, errRefused
						}
					}
					return results, err
				}}
				return p
			},
		},
		{
			Name: "deadline-in-an-hour", About: "a zone-less deadline is read in another zone (H27)",
			Kills: []string{"S6", "L2"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return changedInsert(rows, func(m *node.Insertion) { m.Deadline = m.Deadline.Add(time.Hour) })
			},
		},
		{
			Name: "short-ids", About: "ids are cut off (H28)",
			Kills: []string{"S6"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return changedInsert(rows, func(m *node.Insertion) { m.ID = m.ID[:min(len(m.ID), 2)] })
			},
		},
		{
			Name: "text-values", About: "null values become empty (H28)",
			Kills: []string{"S6"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return changedInsert(rows, func(m *node.Insertion) { m.Value = append([]byte{}, m.Value...) })
			},
		},
		{
			Name: "sorted-headers", About: "headers are kept in a map (D6)",
			Kills: []string{"S6"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return changedInsert(rows, func(m *node.Insertion) {
					m.Headers = slices.Clone(m.Headers)
					slices.SortStableFunc(m.Headers, func(a, b node.Header) int {
						return slices.Compare([]byte(a.Name), []byte(b.Name))
					})
				})
			},
		},
	}
}

// claimMutants make and give up claims wrongly.
func claimMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "ready-ignores-claims", About: "what is ready already is claimed again (H21)",
			Kills: []string{"S3", "S4"},
			Rows: func(rows node.Store, table Table) node.Store {
				return brokenStore{Store: rows, ready: func(
					ctx context.Context, in node.ReadyRequest,
				) ([]node.Readied, error) {
					for _, c := range table.Claims() {
						if c.ReadiedBy != uuid.Nil && c.ReadiedBy != in.Node {
							_, _ = rows.Reset(ctx, []node.Release{{Claim: c}})
						}
					}
					return rows.Ready(ctx, in)
				}}
			},
		},
		{
			Name: "ready-no-limit", About: "the limit of a claim is ignored (D4, H22)",
			Kills:   []string{"S15"},
			Options: func(o *Options) { o.Messages, o.Bursts, o.Faulty = 3000, 1, 12*time.Second },
			Rows: func(rows node.Store, _ Table) node.Store {
				return brokenStore{Store: rows, ready: func(
					ctx context.Context, in node.ReadyRequest,
				) ([]node.Readied, error) {
					in.Limit, in.Bytes = math.MaxInt, math.MaxInt
					return rows.Ready(ctx, in)
				}}
			},
		},
		{
			Name: "ready-latest-first", About: "claims come in no useful order",
			Kills: []string{"S15"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return brokenStore{Store: rows, ready: func(
					ctx context.Context, in node.ReadyRequest,
				) ([]node.Readied, error) {
					claimed, err := rows.Ready(ctx, in)
					slices.Reverse(claimed)
					return claimed, err
				}}
			},
		},
		{
			Name: "ready-too-far-ahead", About: "what is not due is claimed",
			Kills: []string{"S15"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return brokenStore{Store: rows, ready: func(
					ctx context.Context, in node.ReadyRequest,
				) ([]node.Readied, error) {
					in.Until = in.Until.Add(2 * time.Second)
					return rows.Ready(ctx, in)
				}}
			},
		},
		{
			Name: "reset-by-id", About: "a reset does not look whose claim it is (H18)",
			Kills: []string{"S4"}, Options: lateResets,
			Rows: func(rows node.Store, table Table) node.Store {
				return looseReset(rows, table, func(node.Release, node.Claim) bool { return true })
			},
		},
		{
			Name: "reset-by-owner", About: "a reset looks whose claim it is, but not since when",
			Kills: []string{"S4"},
			Rows: func(rows node.Store, table Table) node.Store {
				return looseReset(rows, table, func(r node.Release, c node.Claim) bool {
					return r.ReadiedBy == c.ReadiedBy && table.Caller() != c.ReadiedBy
				})
			},
			Options: lateResets,
		},
		{
			Name: "reset-ignored", About: "a reset reports success and does nothing",
			Kills: []string{"L2"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return brokenStore{Store: rows, reset: func(_ context.Context, r []node.Release) ([]bool, error) {
					return mapped(r, func(node.Release) bool { return true }), nil
				}}
			},
		},
		{
			Name: "stuck-never", About: "no claim is ever stuck",
			Kills: []string{"L2"}, Rows: filteredStuck(func(node.Claim, Table) bool { return false }),
		},
		{
			Name: "stuck-inverted", About: "claims younger than the hold time are stuck, as in the published original",
			Kills: []string{"S4"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return brokenStore{Store: rows, stuck: func(
					ctx context.Context, in node.StuckRequest,
				) ([]node.Claim, error) {
					old, _ := rows.Stuck(ctx, in)
					in.Hold = 0
					all, err := rows.Stuck(ctx, in)
					return slices.DeleteFunc(all, func(c node.Claim) bool { return slices.Contains(old, c) }), err
				}}
			},
		},
		{
			Name: "stuck-not-own", About: "a node never suspects itself (H19)",
			Kills: []string{"L2"}, Options: func(o *Options) { o.Nodes, o.Fates = 1, "" },
			Rows: filteredStuck(func(c node.Claim, t Table) bool { return c.ReadiedBy != t.Caller() }),
		},
		{
			Name: "short-hold", About: "claims are suspected before they can have been used (D10)",
			Kills: []string{"S4"},
			Rows: func(rows node.Store, _ Table) node.Store {
				return brokenStore{Store: rows, stuck: func(
					ctx context.Context, in node.StuckRequest,
				) ([]node.Claim, error) {
					in.Hold /= 4
					return rows.Stuck(ctx, in)
				}}
			},
		},
		{
			Name: "node-stamps", About: "claims are stamped and compared by the clocks of the nodes (D7, H20)",
			Kills: []string{"S4"}, NodeStamps: true,
			Options: func(o *Options) {
				o.Nodes, o.Skew, o.StoreSkew, o.StoreLatency = 4, 10*time.Second, 0, 20*time.Millisecond
			},
		},
	}
}

// lateResets makes it likely that what a detector has seen is not so any more when its reset takes effect.
func lateResets(o *Options) {
	reusing(o)
	o.Nodes, o.Fates, o.Lapsed, o.FaultRate = 2, "", 0, 1000
	o.Mix = []FaultKind{Late, Slow, Pause, PauseSent, RequestLost, Disconnected}
}

// suspicious makes it likely that a node is slow and a peer takes over.
func suspicious(o *Options) {
	o.Nodes, o.Fates, o.Lapsed, o.FaultRate = 3, "", 0, 300
	o.HoldTime, o.PollInterval, o.Lookahead = 2500*time.Millisecond, 50*time.Millisecond, 250*time.Millisecond
	o.Mix = []FaultKind{Slow, Pause, PauseSent, CutStore}
}

func reusing(o *Options) { o.Reuse, o.Horizon = 40, 5*time.Second }
