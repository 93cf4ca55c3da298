package sim

import (
	"context"
	"time"

	"chronos/node"
)

// paceMutants let messages out too fast, or too slowly.
func paceMutants() []*Mutant {
	paces := func(change func(pace int) int) func(*node.Config) {
		return func(c *node.Config) {
			for i := range c.Paces {
				c.Paces[i].PerSecond = change(c.Paces[i].PerSecond)
			}
		}
	}
	return []*Mutant{
		{
			Name: "paces-ignored", About: "messages come out as fast as their lane takes them, whatever its pace is",
			Kills: []string{"S30"}, Options: pacing,
			Config: func(c *node.Config) { c.Paces = nil },
		},
		{
			Name:  "paces-one-more",
			About: "a node lets one message more out in a second than the pace of the lane says",
			Kills: []string{"S30"}, Options: pacing,
			Config: paces(func(pace int) int { return pace + 1 }),
		},
		{
			Name: "paces-too-slow", About: "a node lets a fifth of the messages out that the pace of the lane allows",
			Kills: []string{"L5", "L6", "L11"}, Options: pacing,
			Config: paces(func(pace int) int { return max(1, pace/5) }),
		},
		{
			Name:  "paces-jumped",
			About: "what comes on a lane with a pace goes before what waits there: no claim seems to leave anything",
			Kills: []string{"L5", "L6", "L11"}, Options: jumping,
			Ports: func(p node.Ports) node.Ports { p.Store = sated{p.Store}; return p },
		},
	}
}

// sated is a store of which each claim gives less than was asked for. Whoever claims thinks that nothing is left there,
// and stores what comes next as claimed.
type sated struct{ node.Store }

// Claim implements node.Store.
func (s sated) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	lanes := make([]node.Share, 0, len(request.Lanes))
	for _, share := range request.Lanes {
		if share.Limit--; share.Limit > 0 {
			lanes = append(lanes, share)
		}
	}
	request.Lanes = lanes
	return s.Store.Claim(ctx, request)
}

// jumping has messages come all the time, twice as many as the pace of their lane lets out, and some of them are due
// when they come.
func jumping(o *Options) {
	pacing(o)
	o.Pace, o.Routes, o.Messages, o.Bursts, o.Horizon, o.Lapsed = 5, 1, 300, 0, 3*time.Second, 0
	o.Aimed, o.Queues, o.Tasks, o.Operated, o.Instructed, o.Recurring = 0, 0, 0, 0, 0, 0
	o.Reuse, o.Malformed, o.Poison, o.Refused, o.Ending = 0, 0, 0, 0, 0
}

// pacing gives every lane a pace, has many messages fall due at a few instants, and leaves faults out.
func pacing(o *Options) {
	o.Paced, o.Pace, o.Windows, o.Callbacks, o.Bandwidth, o.Ordered = 100, 10, 0, 0, 0, 0
	o.FaultRate, o.Mix, o.Skew, o.Drift, o.Bursts = 0, nil, 0, 0, 3
	o.PollInterval, o.Lookahead = 50*time.Millisecond, 250*time.Millisecond
	o.StoreLatency, o.BrokerLatency = time.Millisecond, 2*time.Millisecond
	o.Messages, o.Nodes, o.Fates, o.AdaptiveAdvance = max(o.Messages, 200), 1, "", false
}
