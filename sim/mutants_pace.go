package sim

import (
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
	}
}

// pacing gives every lane a pace, has many messages fall due at a few instants, and leaves faults out.
func pacing(o *Options) {
	o.Paced, o.Pace, o.Windows, o.Callbacks, o.Bandwidth, o.Ordered = 100, 10, 0, 0, 0, 0
	o.FaultRate, o.Mix, o.Skew, o.Drift, o.Bursts = 0, nil, 0, 0, 3
	o.PollInterval, o.Lookahead = 50*time.Millisecond, 250*time.Millisecond
	o.StoreLatency, o.BrokerLatency = time.Millisecond, 2*time.Millisecond
	o.Messages, o.Nodes, o.Fates, o.AdaptiveAdvance = max(o.Messages, 200), 1, "", false
}
