package sim

import (
	"context"
	"slices"

	"chronos/node"
	"chronos/node/store/memory"
)

// seriesMutants settle occurrences by other rules.
func seriesMutants() []*Mutant {
	rearms := func(change func(n *node.Next, t Table)) func(node.Store, Table) node.Store {
		return func(rows node.Store, t Table) node.Store { return rearmsOtherwise{rows, t, change} }
	}
	return []*Mutant{
		{
			Name: "goes-on-stopped", About: "the node decides what follows, and does not know of the cancel",
			Kills: []string{"S22"}, Options: recurring, Broken: memory.Broken{GoesOnStopped: true},
		},
		{
			Name: "rearms-by-id", About: "the next occurrence takes the place of whatever has the id",
			Kills:   []string{"S22", "S2", "S9"},
			Options: func(o *Options) { recurring(o); o.Reuse = 40 },
			Rows: rearms(func(n *node.Next, t Table) {
				if c, found := t.Claim(node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}); found {
					n.Of.Incarnation = c.Incarnation
				}
			}),
		},
		{
			Name: "drifts", About: "the next occurrence is counted from the moment at which the last one was settled",
			Kills: []string{"S22"}, Options: recurring,
			Rows: rearms(func(n *node.Next, t Table) { n.At = n.At.Add(t.Late(n.Of)) }),
		},
		{
			Name: "counts-publishes", About: "an occurrence that is published again gets the next number",
			Kills: []string{"S22", "L2", "S1"}, Options: recurring,
			Rows: rearms(func(n *node.Next, _ Table) { n.Sequence++ }),
		},
		{
			Name: "ends-after-one", About: "an occurrence is deleted like any other message, and the series with it",
			Kills: []string{"S22"}, Options: recurring,
			Rows: rearms(func(n *node.Next, _ Table) { *n = node.Next{Of: n.Of} }),
		},
		{
			Name: "rearms-first", About: "the next occurrence takes its place before this one is published",
			Kills: []string{"S22", "S2"}, Options: recurring,
			Ports: func(p node.Ports) node.Ports { p.Store = rearmsFirst{p.Store}; return p },
		},
	}
}

// recurring submits a lot of series.
func recurring(o *Options) {
	instructed(o)
	o.Recurring = 60
}

// rearmsOtherwise changes what follows an occurrence.
type rearmsOtherwise struct {
	node.Store

	table  Table
	change func(*node.Next, Table)
}

// Settle implements node.Store.
func (s rearmsOtherwise) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	next = slices.Clone(next)
	for i := range next {
		if !next[i].Removes() {
			s.change(&next[i], s.table)
		}
	}
	return s.Store.Settle(ctx, next)
}

// rearmsFirst settles occurrences when they are claimed.
type rearmsFirst struct{ node.Store }

// Claim implements node.Store.
func (s rearmsFirst) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	var next []node.Next
	for i := range result.Messages {
		if m := &result.Messages[i]; m.Recurs() && m.Attempts == 1 {
			n := node.Next{Of: m.Ref(), Incarnation: m.Incarnation, Sequence: m.Sequence + 1, At: m.At}
			n.Incarnation[0]++
			next = append(next, n)
		}
	}
	if err == nil && len(next) > 0 {
		_, _ = s.Settle(ctx, next) // it is wrong on purpose
	}
	return result, err
}
