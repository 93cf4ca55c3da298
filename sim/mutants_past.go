package sim

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// pastMutants decide otherwise on what comes past Kafka than on records: the short cuts that a tool for operators is
// tempted to take.
func pastMutants() []*Mutant { //nolint:funlen // a table
	// past changes what is decided on the instructions of operators, given how the message is really kept.
	past := func(decide func(item *node.Item, before *node.Kept) node.Verdict) memory.Broken {
		return memory.Broken{Decide: func(item *node.Item, before *node.Kept) node.Verdict {
			if item.From != node.NoPlace || before == nil {
				return item.Decide(before)
			}
			return decide(item, before)
		}}
	}
	return []*Mutant{
		{
			Name:  "past-ignores-only",
			About: "an operator who has chosen a message gets whatever has its id by now",
			Kills: []string{"S21"}, Options: operatedALot,
			Broken: past(func(item *node.Item, before *node.Kept) node.Verdict {
				whoever := *item
				whoever.Only = uuid.Nil
				return whoever.Decide(before)
			}),
		},
		{
			Name: "past-cancels-claimed", About: "past Kafka what is claimed is cancelled, as by a DELETE in SQL",
			Kills: []string{"S19"}, Options: operatedALot,
			Broken: past(func(item *node.Item, before *node.Kept) node.Verdict {
				v := item.Decide(before)
				if item.Action == node.Cancel && v.Outcome == node.TooLate {
					v.Outcome, v.After = node.Cancelled, nil
				}
				return v
			}),
		},
		{
			Name:  "past-too-late-forgotten",
			About: "an operator is told that it is too late, and nothing is written down",
			Kills: []string{"S20"}, Options: operatedALot,
			Broken: past(func(item *node.Item, before *node.Kept) node.Verdict {
				v := item.Decide(before)
				if v.Outcome == node.TooLate {
					v.After = v.Before
				}
				return v
			}),
		},
		{
			Name: "past-fired-forgotten", About: "what an operator has fired can be cancelled until somebody claims it",
			Kills: []string{"S20"}, Options: operatedALot,
			Broken: past(func(item *node.Item, before *node.Kept) node.Verdict {
				v := item.Decide(before)
				if v.Outcome == node.FiredNow {
					after := *v.After
					after.Bound, v.After = false, &after
				}
				return v
			}),
		},
		{
			Name:  "past-while-paused",
			About: "what comes past Kafka is done while the intake is paused",
			Kills: []string{"S25"}, Options: func(o *Options) { steered(o); operatedALot(o) },
			Broken: memory.Broken{TakesPast: true},
		},
		{
			Name:  "past-while-holding",
			About: "what comes past Kafka is done while claims from before the store was set back may be held",
			Kills: []string{"S19"}, Options: heldFromBefore,
			Broken: memory.Broken{TakesPast: true},
		},
		{
			Name:  "past-request-forgotten",
			About: "a request that is repeated is decided anew, as if it had no name",
			Kills: []string{"S17"}, Options: askedALot,
			Broken: memory.Broken{Forgets: true},
		},
		{
			Name:  "past-request-told-anew",
			About: "a request that is repeated does nothing, and is told what is true by now",
			Kills: []string{"S21"}, Options: askedALot,
			Rows: func(rows node.Store, _ Table) node.Store { return toldAnew{rows} },
		},
		{
			Name:  "past-put-renamed",
			About: "a message that is brought once more by HTTP counts as another request, as without a key",
			Kills: []string{"S17"}, Options: askedALot,
			Rows: func(rows node.Store, _ Table) node.Store { return &renames{Store: rows} },
		},
		{
			Name:  "past-put-unstored",
			About: "who brings a message by HTTP is answered, and the transaction is never committed",
			Kills: []string{"S21"}, Options: askedALot,
			Rows: func(rows node.Store, _ Table) node.Store {
				return neverCommits{rows, node.Schedule, node.Scheduled}
			},
		},
		{
			Name: "past-unstored", About: "an operator is answered, and the transaction is never committed",
			Kills: []string{"S21"}, Options: operatedALot,
			Rows: func(rows node.Store, _ Table) node.Store { return neverCommits{rows, node.Cancel, node.Cancelled} },
		},
	}
}

// operatedALot has operators give a lot of instructions.
func operatedALot(o *Options) {
	o.Operated, o.Reuse, o.Lapsed = 40, 20, 10
	o.Messages = max(o.Messages, 100)
}

// askedALot has clients ask by requests with names, over a network that loses answers.
func askedALot(o *Options) {
	operatedALot(o)
	o.Operated, o.FaultRate, o.Mix = 60, 200, []FaultKind{ReplyLost, ReplyLost, CrashApplied, CrashReplied}
}

// toldAnew answers a request that comes again by what is stored now: nothing, as often as not.
type toldAnew struct{ node.Store }

// Take implements node.Store.
func (s toldAnew) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	for i := range result.Results {
		if told := result.Results[i].Told; told != nil && told.Again {
			result.Results[i].Outcome = node.NotFound
		}
	}
	return result, err
}

// heldFromBefore has the store be set back while nodes that cannot hear of it hold claims for long before the
// deadlines, and operators at work at that time.
func heldFromBefore(o *Options) {
	operatedALot(o)
	o.Operated, o.Nodes, o.Fates = 70, max(o.Nodes, 3), ""
	o.FaultRate, o.Mix = 300, []FaultKind{SetBack, CutStore, CutStoreReplies}
	o.HoldTime, o.Horizon, o.Messages = 10*time.Second, 5*time.Second, 300
	o.Lookahead = o.HoldTime/5 - time.Millisecond
}

// neverCommits answers whoever asks for one kind of action past Kafka that it is done, and does nothing.
type neverCommits struct {
	node.Store

	action  node.Action
	outcome node.Outcome
}

// Take implements node.Store.
func (s neverCommits) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	past := func(i node.Item) bool { // but no dead letter
		return i.From == node.NoPlace && i.Action == s.action && (i.Request != nil || !i.Action.Stores())
	}
	if !slices.ContainsFunc(request.Items, past) {
		return s.Store.Take(ctx, request)
	}
	_, state, err := s.Positions(ctx, nil)
	return node.TakeResult{
		State: state, Taken: len(request.Items),
		Results: slices.Repeat([]node.ItemResult{{Outcome: s.outcome}}, len(request.Items)),
	}, err
}

// renames gives each request that brings a message a name of its own.
type renames struct {
	node.Store

	names uint64
}

// Take implements node.Store.
func (s *renames) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.Items = slices.Clone(request.Items)
	for i := range request.Items {
		if item := &request.Items[i]; item.Request != nil && item.Action.Stores() {
			s.names++
			named := *item.Request
			binary.BigEndian.PutUint64(named.ID[:], s.names)
			item.Request = &named
		}
	}
	return s.Store.Take(ctx, request)
}
