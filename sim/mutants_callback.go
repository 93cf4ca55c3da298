package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// callbackMutants draw the wrong conclusions from what the receivers of callbacks answer.
func callbackMutants() []*Mutant { //nolint:funlen // a table
	forgive := func(forgiven func(error) bool) func(node.Ports) node.Ports {
		return func(p node.Ports) node.Ports { p.Callback = publishForgiver{p.Callback, forgiven}; return p }
	}
	deferred := func(err error) bool { return !rejected(err) && !node.KindOf(err).Untried() }
	return []*Mutant{
		{
			Name: "callback-5xx-is-success", About: "a callback that is answered with 503 counts as made (3.5)",
			Kills: []string{"S2", "S10"}, Options: calling100, Ports: forgive(func(err error) bool {
				return errors.Is(err, errBusy)
			}),
		},
		{
			Name: "callback-timeout-is-success", About: "a callback without an answer counts as made (3.5)",
			Kills: []string{"S2", "S10"}, Options: func(o *Options) { calling100(o); o.FaultRate = 300 },
			Ports: forgive(func(err error) bool { return deferred(err) && !errors.Is(err, errBusy) }),
		},
		{
			Name:  "callback-unsent-is-success",
			About: "a callback that was not made, since its host stands back, counts as made (3.5)",
			Kills: []string{"S2", "S10"}, Options: calling100,
			Ports: forgive(func(err error) bool { return node.KindOf(err).Untried() }),
		},
		{
			Name: "callback-twice", About: "every callback is made twice", Kills: []string{"S5"},
			Options: func(o *Options) { calling100(o); o.Unhelpful = 0 },
			Ports:   func(p node.Ports) node.Ports { p.Callback = callsTwice{p.Callback}; return p },
		},
		{
			Name:  "callback-doubts-lane",
			About: "a host that fails puts off the callbacks to all hosts of its lane (3.5)",
			Kills: []string{"S23"}, Options: calling100,
			Ports: func(p node.Ports) node.Ports {
				p.Callback = &doubtsLane{p.Callback, p.Clock, map[string]time.Duration{}}
				return p
			},
		},
		{
			Name: "callback-forgets-attempts", About: "each failure of a callback counts as the first (3.5)",
			Kills: []string{"L13"}, Options: func(o *Options) { calling100(o); o.Unhelpful, o.FaultRate = 80, 0 },
			Ports: func(p node.Ports) node.Ports { p.Store = forgetsAttempts{p.Store}; return p },
		},
		{
			Name:  "callback-letter-outside",
			About: "the dead letter of a callback is handed over outside the store, and lost (3.5)",
			Kills: []string{"S2", "S20"},
			Options: func(o *Options) {
				calling100(o)
				o.Poison, o.DeadLetter, o.Unhelpful = 20, true, 10
			},
			Ports: func(p node.Ports) node.Ports { p.Store = losesLetters{p.Store}; return p },
		},
		{
			Name:  "callback-given-up-early",
			About: "a callback is given up by its first failure, and not when its time is over (3.5)",
			Kills: []string{"S27"}, Options: failing,
			Ports: func(p node.Ports) node.Ports { p.Callback = givesUpEarly{p.Callback}; return p },
		},
		{
			Name:  "callback-never-given-up",
			About: "a callback that fails is made again when its time is over (3.5)",
			Kills: []string{"L14"}, Options: failing,
			Ports: func(p node.Ports) node.Ports { p.Callback = neverGivesUp{p.Callback}; return p },
		},
		{
			Name:  "callback-ends-series",
			About: "a series ends with an occurrence whose callback is given up (3.5)",
			Kills: []string{"S22"}, Options: func(o *Options) { failing(o); o.Recurring = 60 },
			Ports: func(p node.Ports) node.Ports {
				e := &endsSeries{Store: p.Store, sink: p.Callback, failed: map[string]bool{}}
				p.Store, p.Callback = e, endedSeries{e}
				return p
			},
		},
	}
}

// lineMutants do not mind that callbacks of one key come one after the other.
func lineMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "line-jumps", About: "every message of a key has its turn (node.Turn)", Kills: []string{"S28"},
			Options: inLine, Broken: memory.Broken{Jumps: true},
		},
		{
			Name:  "line-halves",
			About: "who comes first has his turn, although another one of his key is out (node.Turn)",
			Kills: []string{"S28"}, Options: inLine, Broken: memory.Broken{Halves: true},
		},
		{
			Name: "line-stays", About: "nobody comes forward when the one before him is settled (node.Turn)",
			Kills: []string{"L15"}, Broken: memory.Broken{Stays: true}, Options: func(o *Options) {
				inLine(o)
				o.Unhelpful, o.FaultRate, o.Lapsed, o.Bursts = 0, 0, 50, 0
			},
		},
		{
			Name: "line-never-stands-back", About: "a node minds no turn of what it has claimed (node.Turn)",
			Kills: []string{"S28"}, Options: inLine,
			Ports: func(p node.Ports) node.Ports { p.Store = mindsNoTurn{p.Store}; return p },
		},
	}
}

// inLine has most callbacks stand in two lines.
func inLine(o *Options) { calling100(o); o.Ordered = 2 }

// mindsNoTurn does not hear whose turn it is.
type mindsNoTurn struct{ node.Store }

// Claim implements node.Store.
func (s mindsNoTurn) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	result.Messages = slices.Clone(result.Messages)
	for i := range result.Messages {
		result.Messages[i].Turn = node.ItsTurn
	}
	return result, err
}

// failing has all messages come out as callbacks, most of which fail for longer than they are tried, while nothing else
// goes wrong.
func failing(o *Options) {
	calling100(o)
	o.Unhelpful, o.FaultRate, o.DeadLetter, o.RetryFor = 80, 0, true, 3*time.Second
	o.Operated, o.Instructed = 0, 0
}

// givesUpEarly takes any failure for the last one.
type givesUpEarly struct{ node.Sink }

// Publish implements node.Sink.
func (s givesUpEarly) Publish(ctx context.Context, records []node.Record) []error {
	errs := s.Sink.Publish(ctx, records)
	for i, err := range errs {
		if err != nil && !rejected(err) {
			errs[i] = &node.PublishError{Kind: node.RecordRejected, Err: err}
		}
	}
	return errs
}

// neverGivesUp takes the last failure for one of many.
type neverGivesUp struct{ node.Sink }

// Publish implements node.Sink.
func (s neverGivesUp) Publish(ctx context.Context, records []node.Record) []error {
	errs := s.Sink.Publish(ctx, records)
	for i, err := range errs {
		if last, failed := errors.AsType[*node.PublishError](node.FailureOf(err).Err); failed {
			errs[i] = last
		}
	}
	return errs
}

// endsSeries settles a series as it settles what comes once, if its callback was given up.
type endsSeries struct {
	node.Store

	sink   node.Sink
	failed map[string]bool // the ids of the messages whose last callback was given up
}

// Settle implements node.Store.
func (s *endsSeries) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	next = slices.Clone(next)
	for i := range next {
		if s.failed[next[i].Of.ID] {
			next[i] = node.Next{Of: next[i].Of}
		}
	}
	return s.Store.Settle(ctx, next)
}

// endedSeries tells endsSeries what is given up.
type endedSeries struct{ *endsSeries }

// Publish implements node.Sink.
func (s endedSeries) Publish(ctx context.Context, records []node.Record) []error {
	errs := s.sink.Publish(ctx, records)
	for i := range records {
		s.failed[valueOf(records[i].Headers, node.HeaderID)] = rejected(errs[i])
	}
	return errs
}

// calling100 has all messages come out as callbacks, of which many fail.
func calling100(o *Options) { o.Callbacks, o.Unhelpful, o.Reuse = 100, 40, 0 }

// callsTwice makes every callback twice.
type callsTwice struct{ node.Sink }

// Publish implements node.Sink.
func (s callsTwice) Publish(ctx context.Context, records []node.Record) []error {
	_ = s.Sink.Publish(ctx, records)
	return s.Sink.Publish(ctx, records)
}

// doubtsLane makes no callbacks on a lane for a while after one of its hosts has failed.
type doubtsLane struct {
	node.Sink

	clock node.Clock
	until map[string]time.Duration
}

// Publish implements node.Sink.
func (s *doubtsLane) Publish(ctx context.Context, records []node.Record) []error {
	lane := records[0].Topic
	if left := s.until[lane] - s.clock.Mono(); left > 0 {
		return []error{&node.PublishError{Kind: node.NotSent, After: left}}
	}
	errs := s.Sink.Publish(ctx, records)
	if errs[0] != nil {
		s.until[lane] = s.clock.Mono() + time.Second
	}
	return errs
}

// forgetsAttempts takes each claim for the first one that leads to a publish.
type forgetsAttempts struct{ node.Store }

// Claim implements node.Store.
func (s forgetsAttempts) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	result.Messages = slices.Clone(result.Messages)
	for i := range result.Messages {
		result.Messages[i].Attempts = 1
	}
	return result, err
}

// losesLetters does not store what the node itself gives to the store: the dead letters of callbacks.
type losesLetters struct{ node.Store }

// Take implements node.Store.
func (s losesLetters) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if len(request.Items) != 1 || request.Items[0].From != node.NoPlace {
		return s.Store.Take(ctx, request)
	}
	result, err := s.Store.Take(ctx, node.TakeRequest{Node: request.Node, Hold: request.Hold})
	result.Taken, result.Results = 1, []node.ItemResult{{Outcome: node.Scheduled}}
	return result, err
}
