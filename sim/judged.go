package sim

import (
	"slices"
	"time"

	"chronos/node"
	"chronos/sim/check"
)

// standBack bounds the time for which a node leaves a lane alone that has failed twice.
const standBack = 2500 * time.Millisecond

// rateError returns by how much more than by their drift clocks may be wrong in the end, where a fault may change their
// rates.
func (w *world) rateError() time.Duration {
	o := w.options
	changes := o.FaultRate > 0 && (len(o.Mix) == 0 || slices.Contains(o.Mix, RateChange))
	if w.plan != nil {
		changes = slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.Kind == RateChange })
	}
	if !changes {
		return 0
	}
	return (o.Faulty + o.Healed) / 1_000_000 * time.Duration(max(mostRate-o.Drift, 0))
}

// judged is what the judge is told of the options. The judge knows the usual time of a call at its worst.
func (o *Options) judged() check.Config {
	engine := node.Config{HoldTime: o.HoldTime}
	c := check.Config{
		// No consumer is promised more than the others, since no store of these worlds is a journal.
		Recorded: slices.DeleteFunc(check.Kinds(), func(k check.Kind) bool { return k == check.See }),
		HoldTime: o.HoldTime, TimingAdvance: o.TimingAdvance, PollInterval: o.PollInterval,
		DetectionInterval: o.DetectionInterval, Lookahead: o.Lookahead, LeaveAfter: o.LeaveAfter,
		StoreTimeout: engine.StoreTimeout(), PublishTimeout: engine.PublishTimeout(),
		PublishableAge: engine.PublishableAge(), Retry: 1500 * time.Millisecond,
		StoreLatency: 10 * o.StoreLatency, BrokerLatency: 10 * o.BrokerLatency,
		ClockError: o.Skew + (o.Faulty+o.Healed)/1_000_000*time.Duration(o.Drift),
		Session:    o.Session, Rebalance: o.Rebalance, Settle: 6 * time.Second,
		Nodes: o.Nodes, Batch: pollRecords, Messages: o.Messages + o.Messages*min(o.Instructed, 1),
		Begin:      time.Duration(epoch().UnixNano()),
		DeadLetter: o.DeadLetter, StandBack: standBack,
	}
	if o.Operated+o.Queues > 0 {
		// Those who bring messages past Kafka, or make them due, are processes of their own, without a node. What they
		// tell nodes is on its way twice, each at three quarters of ten times the usual time of a call at worst.
		c.IdleInterval = min(o.IdleInterval, 2*c.StoreLatency)
		if o.Hearing == HearingBreaks {
			c.IdleInterval = o.IdleInterval
		}
	}
	c.Lanes = len(o.lanes())
	c.Windows = o.judgedWindows(0)
	c.Paces = o.judgedPaces()
	c.Messages += o.Tasks * (2 + mostPromised)
	if o.Callbacks+o.Queues > 0 {
		// What has failed since the beginning waits as long once more, and a fifth; or as long as a receiver has asked.
		c.CallWait = (o.Faulty+5*time.Second)*6/5 + 2*engine.PublishTimeout()
		c.RetryFor = o.RetryFor
		c.Calls, c.LaneCalls = 2*node.MaxConcurrency, node.DefaultConcurrency
	}
	if o.Callbacks > 0 && o.Ordered > 0 {
		// And then one after the other.
		c.Ordered = true
		c.CallWait += time.Duration(o.Messages) * (2*c.StoreLatency + c.BrokerLatency)
	}
	if o.Callbacks > 0 && o.Windows > 0 {
		c.CallWait *= 3 // in which a lane is open for half of the time at least
	}
	if o.Bandwidth > 0 {
		// Batches that are too large for the way are tried once, and what they have claimed is recovered; and then
		// everything has to pass, several times.
		all := time.Duration(o.Messages) * time.Duration(o.LargeBytes) * time.Second / time.Duration(o.Bandwidth)
		c.StoreLatency, c.BrokerLatency = 10*c.StoreTimeout+c.HoldTime+all*time.Duration(o.Large)/100, c.PublishTimeout
	}
	if o.AdaptiveAdvance {
		c.Adaptive = true
		c.TimingAdvance = max(c.TimingAdvance, c.Lookahead)
	}
	for i := range o.Nodes {
		c.Hops += number(o.fate(i) == FateNoStore)
	}
	return c
}
