package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"chronos/node"
)

// publishMutants draw the wrong conclusions from a publish.
func publishMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "publish-error-is-success", About: "a publish that fails counts as done (H15)",
			Kills: []string{"S2", "S10"}, Ports: forgivingPublish(func(error) bool { return true }),
		},
		{
			Name: "publish-timeout-is-success", About: "a publish of unknown outcome counts as done (H15)",
			Kills: []string{"S2", "S10"},
			Ports: forgivingPublish(func(err error) bool { return !rejected(err) && !node.KindOf(err).Untried() }),
		},
		{
			Name:    "publish-unsent-is-success",
			About:   "what was not sent to a partition that hangs counts as done (3.4)",
			Kills:   []string{"S2", "S10"},
			Options: func(o *Options) { o.FaultRate, o.Mix = 300, []FaultKind{PartitionHangs, LaneHangs} },
			Ports:   forgivingPublish(func(err error) bool { return node.KindOf(err).Untried() }),
		},
		{
			Name: "publish-rejected-is-success", About: "what the broker rejects counts as done (D9)",
			Kills: []string{"S2", "S10"}, Options: func(o *Options) { o.Poison, o.DeadLetter = 20, false },
			Ports: forgivingPublish(rejected),
		},
		{
			Name: "publish-first-result", About: "the first result of a batch counts for all of it (H17)",
			Kills: []string{"S2", "S10"}, Options: func(o *Options) { o.Poison, o.Bursts = 20, 3 },
			Ports: func(p node.Ports) node.Ports { p.Sink = firstResult{p.Sink}; return p },
		},
		{
			Name: "publish-twice", About: "every record is sent twice", Kills: []string{"S5"},
			Ports: func(p node.Ports) node.Ports { p.Sink = publishesTwice{p.Sink}; return p },
		},
		{
			Name: "delete-before-ack", About: "the row is deleted before the publish is acknowledged (H16)",
			Kills: []string{"S2"}, Ports: hastyDelete,
		},
		{
			Name: "values-cut-off", About: "long values are cut off", Kills: []string{"S6"},
			Ports: changedPublish(func(r *node.Record) { r.Value = r.Value[:min(len(r.Value), 32)] }),
		},
		{
			Name: "keys-not-null", About: "a null key becomes an empty one (D6)", Kills: []string{"S6"},
			Ports: changedPublish(func(r *node.Record) { r.Key = append([]byte{}, r.Key...) }),
		},
		{
			Name: "headers-added", About: "the owner's name is added to the headers, as in the published original",
			Kills: []string{"S6"},
			Ports: changedPublish(func(r *node.Record) {
				r.Headers = append(slices.Clip(r.Headers), node.Header{Name: "readied_by", Value: []byte("me")})
			}),
		},
	}
}

// publishForgiver calls some failures success.
type publishForgiver struct {
	node.Sink

	forgiven func(error) bool
}

// Publish implements node.Sink.
func (s publishForgiver) Publish(ctx context.Context, records []node.Record) []error {
	return mapped(s.Sink.Publish(ctx, records), func(err error) error {
		if err != nil && s.forgiven(err) {
			return nil
		}
		return err
	})
}

func forgivingPublish(forgiven func(error) bool) func(node.Ports) node.Ports {
	return func(p node.Ports) node.Ports { p.Sink = publishForgiver{p.Sink, forgiven}; return p }
}

// firstResult takes the first result for that of all.
type firstResult struct{ node.Sink }

// Publish implements node.Sink.
func (s firstResult) Publish(ctx context.Context, records []node.Record) []error {
	errs := s.Sink.Publish(ctx, records)
	return mapped(errs, func(error) error { return errs[0] })
}

// publishesTwice sends everything twice.
type publishesTwice struct{ node.Sink }

// Publish implements node.Sink.
func (s publishesTwice) Publish(ctx context.Context, records []node.Record) []error {
	return s.Sink.Publish(ctx, append(slices.Clone(records), records...))[:len(records)]
}

// publishChanger changes what is published.
type publishChanger struct {
	node.Sink

	change func(*node.Record)
}

// Publish implements node.Sink.
func (s publishChanger) Publish(ctx context.Context, records []node.Record) []error {
	records = slices.Clone(records)
	for i := range records {
		s.change(&records[i])
	}
	return s.Sink.Publish(ctx, records)
}

func changedPublish(change func(*node.Record)) func(node.Ports) node.Ports {
	return func(p node.Ports) node.Ports { p.Sink = publishChanger{p.Sink, change}; return p }
}

// hastyDelete deletes what it is about to publish.
func hastyDelete(p node.Ports) node.Ports {
	claimed := map[string]node.Ref{}
	p.Sink = deletesFirst{p.Sink, p.Store, claimed}
	p.Store = remembersClaims{p.Store, claimed}
	return p
}

// remembersClaims remembers what was claimed, by its headers.
type remembersClaims struct {
	node.Store

	claimed map[string]node.Ref
}

// Claim implements node.Store.
func (s remembersClaims) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	for _, m := range result.Messages {
		s.claimed[headersAsText(m.Headers)] = m.Claim.Ref
	}
	return result, err
}

// deletesFirst deletes before it publishes.
type deletesFirst struct {
	node.Sink

	store   node.Store
	claimed map[string]node.Ref
}

// Publish implements node.Sink.
func (s deletesFirst) Publish(ctx context.Context, records []node.Record) []error {
	var refs []node.Ref
	for i := range records {
		if ref, known := s.claimed[headersAsText(records[i].Headers)]; known {
			refs = append(refs, ref)
		}
	}
	if len(refs) > 0 {
		_, _ = s.store.Settle(ctx, node.Removals(refs...))
	}
	return s.Sink.Publish(ctx, records)
}

func headersAsText(headers []node.Header) string {
	var text []byte
	for _, h := range headers {
		text = append(append(append(text, h.Name...), 0), h.Value...)
	}
	return string(text)
}

// laneMutants let lanes hold each other up.
func laneMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "failure-of-all", About: "what fails on one lane puts off the messages of all (3.4)",
			Kills: []string{"S23", "L10"}, Options: hanging,
			Ports: func(p node.Ports) node.Ports { p.Sink = failsAll{p.Sink}; return p },
		},
		{
			Name: "stands-still", About: "a node publishes nothing for a while when one lane does not answer (3.4)",
			Kills: []string{"L10"},
			Options: func(o *Options) {
				hanging(o)
				o.HoldTime, o.Lookahead, o.PollInterval = 10*time.Second, 0, 50*time.Millisecond
				o.Callbacks, o.Windows, o.Paced, o.Ending, o.Bandwidth, o.Skew = 0, 0, 0, 0, 0, 0
			},
			Ports: func(p node.Ports) node.Ports {
				p.Sink = &standsStill{Sink: p.Sink, clock: p.Clock}
				return p
			},
		},
		{
			Name: "no-shares", About: "the lane with the oldest messages gets all of a claim (3.4)",
			Kills: []string{"L11"}, Options: backlogged,
			Rows: func(rows node.Store, _ Table) node.Store { return claimsFirstLane{rows} },
		},
		{
			Name:  "shares-oldest-first",
			About: "what has just fallen due on a lane waits for all that is overdue there",
			Kills: []string{"L20"}, Scenario: sharedLane,
			Rows: func(rows node.Store, _ Table) node.Store { return claimsOldest{rows} },
		},
		{
			Name:  "shares-newest-first",
			About: "what is overdue on a lane waits while anything else falls due there",
			Kills: []string{"L20"}, Scenario: floodedLane,
			Rows: func(rows node.Store, _ Table) node.Store { return claimsNewest{rows} },
		},
		{
			Name: "due-before", About: "a message that is given back falls due an hour before its deadline",
			Kills: []string{"S23"},
			Rows:  func(rows node.Store, _ Table) node.Store { return dueBefore{rows} },
		},
		{
			Name: "claims-put-off", About: "a message that can't be published is put off for good",
			Kills: []string{"L2"},
			Rows:  func(rows node.Store, _ Table) node.Store { return putsOffForGood{rows} },
		},
	}
}

// hanging lets output topics hang while others do not.
func hanging(o *Options) {
	o.Routes, o.FaultRate, o.Mix = 3, 100, []FaultKind{PartitionHangs, LaneHangs}
	o.Messages = 300
}

// backlogged makes a backlog on one lane.
func backlogged(o *Options) {
	o.Routes, o.Messages, o.Bursts, o.FaultRate = 3, 6000, 1, 0
	o.Lapsed, o.Horizon, o.Reuse = 0, 2*time.Second, 0
}

// failsAll fails a whole publish when all records of one lane have failed.
type failsAll struct{ node.Sink }

// Publish implements node.Sink.
func (s failsAll) Publish(ctx context.Context, records []node.Record) []error {
	errs := s.Sink.Publish(ctx, records)
	for i, err := range errs {
		if err != nil && !rejected(err) {
			return mapped(errs, func(error) error { return errs[i] })
		}
	}
	return errs
}

// standsStill waits before it publishes anything when a publish has had no answer. What it has claimed may be published
// for 5 s, and no lane may keep another one waiting for more than a publish, which is 4 s.
type standsStill struct {
	node.Sink

	clock node.Clock
	until time.Duration
}

// Publish implements node.Sink.
func (s *standsStill) Publish(ctx context.Context, records []node.Record) []error {
	s.clock.Sleep(ctx, s.until-s.clock.Mono())
	errs := s.Sink.Publish(ctx, records)
	if slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, errTimeout) }) {
		s.until = s.clock.Mono() + 4800*time.Millisecond
	}
	return errs
}

// claimsFirstLane claims on the first lane that has something, and on no other.
type claimsFirstLane struct{ node.Store }

// Claim implements node.Store.
func (s claimsFirstLane) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	lanes := request.Lanes
	for i := range lanes {
		request.Lanes = lanes[i : i+1]
		result, err := s.Store.Claim(ctx, request)
		if err != nil || len(result.Messages) > 0 || i == len(lanes)-1 {
			return result, err
		}
	}
	return s.Store.Claim(ctx, request)
}

// sharedLane is the scenario in which more is overdue on a lane than comes out at once, while more falls due there, and
// floodedLane that in which the latter is more than comes out.
const sharedLane, floodedLane = "shared-lane", "flooded-lane"

// claimsOldest claims from the oldest on, whatever it is asked for.
type claimsOldest struct{ node.Store }

// Claim implements node.Store.
func (s claimsOldest) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	request.Lanes = mapped(request.Lanes, func(share node.Share) node.Share {
		share.From = time.Time{}
		return share
	})
	return s.Store.Claim(ctx, request)
}

// claimsNewest claims what fell due lately, and older messages only where there is nothing of that.
type claimsNewest struct{ node.Store }

// Claim implements node.Store.
func (s claimsNewest) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	late := request
	late.Lanes = mapped(request.Lanes, func(share node.Share) node.Share {
		share.From = request.Until.Add(-time.Second)
		return share
	})
	result, err := s.Store.Claim(ctx, late)
	if err != nil || len(result.Messages) > 0 {
		return result, err
	}
	return s.Store.Claim(ctx, request)
}

// putsOffForGood puts messages off for a day.
type putsOffForGood struct{ node.Store }

// Reset implements node.Store.
func (s putsOffForGood) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	return s.Store.Reset(ctx, mapped(releases, func(r node.Release) node.Release {
		if !r.Due.IsZero() {
			r.Due = r.Due.Add(24 * time.Hour)
		}
		return r
	}))
}

// dueBefore has what is put off fall due before its deadline.
type dueBefore struct{ node.Store }

// Reset implements node.Store.
func (s dueBefore) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	return s.Store.Reset(ctx, mapped(releases, func(r node.Release) node.Release {
		if !r.Due.IsZero() {
			r.Due = r.Due.Add(-time.Hour)
		}
		return r
	}))
}

// clockMutants read clocks wrongly.
func clockMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "early", About: "the wall clock is read a second ahead", Kills: []string{"S8"},
			Ports: func(p node.Ports) node.Ports { p.Clock = shiftedClock{p.Clock, time.Second}; return p },
		},
		{
			Name: "late", About: "the timing advance is subtracted (D1, H26)", Kills: []string{"L5", "L11"},
			Options: func(o *Options) {
				o.FaultRate, o.TimingAdvance, o.AdaptiveAdvance, o.Skew = 0, 200*time.Millisecond, false, 0
				o.PollInterval = 50 * time.Millisecond
				o.StoreLatency, o.BrokerLatency = time.Millisecond, time.Millisecond
			},
			Ports: func(p node.Ports) node.Ports {
				p.Clock = shiftedClock{p.Clock, -400 * time.Millisecond}
				return p
			},
		},
		{
			Name: "no-age-check", About: "claims do not age, so that old ones are published (D3)",
			Kills: []string{"S13"},
			Ports: func(p node.Ports) node.Ports { p.Clock = slowClock{p.Clock}; return p },
		},
		{
			Name: "suspension-unseen", About: "the monotonic clock stands still while the machine is suspended (A10)",
			Kills:   []string{"S13"},
			Options: func(o *Options) { o.FaultRate, o.Mix = 300, []FaultKind{Suspended} },
			Ports: func(p node.Ports) node.Ports {
				if c, is := p.Clock.(nodeClock); is {
					p.Clock = stoppedClock{c}
				}
				return p
			},
		},
	}
}

// stoppedClock is the monotonic clock that Go reads, which does not count for how long the machine was suspended.
type stoppedClock struct{ nodeClock }

// Mono implements node.Clock.
func (c stoppedClock) Mono() time.Duration { return c.nodeClock.Mono() - time.Duration(c.life.asleep) }

// shiftedClock has a wall clock that is wrong.
type shiftedClock struct {
	node.Clock

	shift time.Duration
}

// Now implements node.Clock.
func (c shiftedClock) Now() time.Time { return c.Clock.Now().Add(c.shift) }

// slowClock has a monotonic clock at a tenth of its rate: waits and back-off still work, after a fashion.
type slowClock struct{ node.Clock }

// Mono implements node.Clock.
func (c slowClock) Mono() time.Duration { return c.Clock.Mono() / 10 }

// delayMutants are right in the end, but too late, in the wrong order, or again and again.
func delayMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "partitions-at-random", About: "records of one key go to any partition",
			Kills: []string{"S7"}, Scatters: true,
		},
		{
			Name: "slow-detector", About: "nobody looks for stuck claims for half a minute",
			Kills:  []string{"L1"},
			Config: func(c *node.Config) { c.DetectionInterval = 30 * time.Second },
			Options: func(o *Options) {
				o.Nodes, o.Fates, o.Messages, o.Lookahead = 2, "dh", 300, o.HoldTime/5-time.Millisecond
			},
		},
		{
			Name: "deletes-fail", About: "no delete ever reaches the store, so that everything fires forever (H4)",
			Kills: []string{"L4"},
			Ports: func(p node.Ports) node.Ports { p.Store = deletesFail{p.Store}; return p },
		},
		{
			Name: "poison-blocks", About: "a record that is rejected keeps the others waiting (D9, H29)",
			Kills:   []string{"L6"},
			Options: func(o *Options) { o.Poison, o.FaultRate, o.DeadLetter = 20, 0, false },
			Ports:   func(p node.Ports) node.Ports { p.Sink = blocksOnPoison{p.Sink, p.Clock}; return p },
		},
		{
			Name: "release-ignored", About: "a node that stops, or can't publish, keeps its claims (D8, H32)",
			Kills: []string{"L8"},
			Options: func(o *Options) {
				o.Mix, o.FaultRate, o.Bursts = []FaultKind{Stopped}, 1000, 3
				o.Lookahead = o.HoldTime/5 - time.Millisecond
			},
			Rows: func(rows node.Store, t Table) node.Store { return keepsClaims{rows, t} },
		},
	}
}

// deletesFail fails every call that deletes something.
type deletesFail struct{ node.Store }

// Settle implements node.Store.
func (s deletesFail) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	if slices.ContainsFunc(next, func(n node.Next) bool { return n.Removes() }) {
		return nil, errors.New("the delete is lost")
	}
	return s.Store.Settle(ctx, next)
}

// blocksOnPoison waits when a record was rejected.
type blocksOnPoison struct {
	node.Sink

	clock node.Clock
}

// Publish implements node.Sink.
func (s blocksOnPoison) Publish(ctx context.Context, records []node.Record) []error {
	errs := s.Sink.Publish(ctx, records)
	if slices.ContainsFunc(errs, rejected) {
		s.clock.Sleep(ctx, 3*time.Second)
	}
	return errs
}

// keepsClaims ignores that a node gives its own claims back.
type keepsClaims struct {
	node.Store

	table Table
}

// Reset implements node.Store.
func (s keepsClaims) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	if slices.ContainsFunc(releases, func(r node.Release) bool { return r.ReadiedBy == s.table.Caller() }) {
		return make([]node.Settled, len(releases)), nil
	}
	return s.Store.Reset(ctx, releases)
}
