package sim

import (
	"time"
)

// Swarm draws the options of a run from a seed: the size of the cluster, its configuration, the workload and the mix of
// faults. Leaving some kinds of faults out of each run finds more than all of them together do in every run:
// a world in which everything fails all the time never comes as far as the rare states.
func Swarm(seed uint64) Options {
	const ms, s = time.Millisecond, time.Second
	r := stream(seed, forOptions, 0, 0)
	o := DefaultOptions()
	o.Seed = seed
	o.Nodes = 1 + r.IntN(5)
	o.Routes = pick(r, 1, 1, 2, 3, 5)
	o.Partitions = 1 + r.IntN(6)
	o.Messages = pick(r, 10, 30, 100, 300)
	o.HoldTime = pick(r, 2500*ms, 3*s, 5*s, 5*s, 10*s)
	o.PollInterval = pick(r, 20*ms, 50*ms, 100*ms, 100*ms, 250*ms, o.HoldTime/5)
	o.DetectionInterval = pick(r, 100*ms, 500*ms, 500*ms, 2*s)
	o.Lookahead = pick(r, 0, 50*ms, 250*ms, 250*ms, o.HoldTime/5-ms)
	o.TimingAdvance = pick(r, 0, 50*ms, 50*ms, 200*ms)
	o.AdaptiveAdvance = oneIn(r, 4)
	o.LeaveAfter = pick(r, 1*s, 3*s, 10*s)
	o.DeadLetter = oneIn(r, 2)
	o.Skew = pick(r, 0, 5*ms, 200*ms)
	o.StoreSkew = pick(r, 0, 0, 10*s, -10*s, time.Hour)
	o.Drift = pick(r, 0, 50, 500)
	o.StoreLatency = pick(r, 500*time.Microsecond, 2*ms, 2*ms, 20*ms)
	o.BrokerLatency = pick(r, ms, 4*ms, 4*ms, 30*ms)
	o.Session = pick(r, 6*s, 10*s)
	o.Rebalance = pick(r, 5*s, 30*s)
	o.Horizon = pick(r, 2*s, 10*s, 20*s)
	o.Reuse = pick(r, 0, 10, 40)
	o.Lapsed = pick(r, 0, 10, 50)
	o.Malformed = pick(r, 0, 0, 5)
	o.Poison = pick(r, 0, 0, 5)
	o.Refused = pick(r, 0, 0, 0, 5)
	o.Control = pick(r, 0, 0, 10)
	if oneIn(r, 8) {
		// Payloads that count: a full batch of them takes longer than a call may.
		o.Large, o.LargeBytes = pick(r, 10, 50), 64<<10
		o.Bandwidth = pick(r, 0, 500_000, 2_000_000)
	}
	o.Bursts = pick(r, 0, 0, 1, 3)
	o.FaultRate = pick(r, 0, 20, 100, 300, 1000)
	o.Instructed = pick(r, 0, 10, 40)
	o.Recurring = pick(r, 0, 0, 10, 30)
	o.Delayed = pick(r, 0, 10, 50)
	o.Ending = pick(r, 0, 0, 10, 30)
	o.Aimed = pick(r, 0, 0, 0, 30)
	o.Misinstructed = pick(r, 0, 0, 10)
	o.Operated = pick(stream(seed, forOperators, 0, 0), 0, 0, 5, 20)
	if calls := stream(seed, forReceivers, 0, 0); o.Bandwidth == 0 && oneIn(calls, 4) {
		o.Callbacks, o.Unhelpful = pick(calls, 10, 50, 100), pick(calls, 0, 10, 10, 40)
		o.Ordered = pick(calls, 0, 0, 1, 3)
		o.RetryFor = pick(calls, 0, 0, s, 5*s)
	}
	if windows := stream(seed, forWindows, 0, 0); o.Bandwidth == 0 && oneIn(windows, 3) {
		o.Windows = pick(windows, 30, 60, 100)
	}
	if paces := stream(seed, forPaces, 0, 0); o.Bandwidth == 0 && oneIn(paces, 4) {
		o.Paced = pick(paces, 30, 100)
	}
	if queues := stream(seed, forQueues, 0, 0); o.Bandwidth == 0 && oneIn(queues, 4) {
		o.Queues, o.Tasks = 1+queues.IntN(5), pick(queues, 5, 20, 20, 60)
		o.StoreSkew = drawStoreSkew(queues)
	}
	if idle := stream(seed, forIdle, 0, 0); oneIn(idle, 2) {
		o.IdleInterval = max(o.PollInterval, pick(idle, 300*ms, s, s, 3*s))
		o.Hearing = pick(idle, HearingWorks, HearingWorks, HearingNone, HearingBreaks)
	}
	o.Mix = drawMix(seed)
	if o.Windows > 0 && oneIn(stream(seed, forWindows, 0, 1), 2) {
		o.Mix = append(o.Mix, WindowChanged)
	}
	o.Fates = drawFates(seed, o.Nodes)
	o.Healed = max(o.Healed, o.drainBound())
	return o
}

// seriesSpan is how long the occurrences of series come after the first ones.
func (o *Options) seriesSpan() time.Duration {
	if o.Recurring == 0 {
		return 0
	}
	return longestSeries
}

// drainBound is how long it may take after the healing until everything is drained: the last messages fall due, and
// then what the judge allows.
func (o *Options) drainBound() time.Duration {
	c := o.judged()
	return o.Horizon + c.Drained() + o.seriesSpan()
}

// drawMix leaves out half of the kinds of faults, on average, and that which is for worlds with windows.
func drawMix(seed uint64) []FaultKind {
	r := stream(seed, forOptions, 1, 0)
	var mix []FaultKind
	for _, d := range faultKinds() {
		if oneIn(r, 2) && d.weight > 0 && d.kind != WindowChanged {
			mix = append(mix, d.kind)
		}
	}
	return mix
}

// drawFates draws what becomes of each node when the world heals. One at least is healed.
func drawFates(seed uint64, nodes int) string {
	r := stream(seed, forFates, 0, 0)
	fates := make([]byte, nodes)
	for i := range fates {
		fates[i] = pick[byte](r, FateHealed, FateHealed, FateHealed, FateHealed, FateDead, FateNoStore,
			FateNoBroker, FateNoNetwork)
	}
	fates[r.IntN(nodes)] = FateHealed
	return string(fates)
}
