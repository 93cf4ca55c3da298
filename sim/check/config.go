package check

import "time"

// Config is what a history was recorded under. The bounds of the liveness invariants are computed from it. A zero
// duration counts as zero.
type Config struct {
	// Recorded are the kinds of events that the history has without gaps. An invariant that needs others is not
	// judged.
	Recorded []Kind

	// What the nodes are configured with, under the names of their configuration.
	HoldTime, TimingAdvance, PollInterval, DetectionInterval time.Duration
	Lookahead, LeaveAfter                                    time.Duration

	// Adaptive says that TimingAdvance is the most by which a message may be early: it is measured.
	Adaptive bool

	// StoreTimeout and PublishTimeout limit one call. A claim is not published when it is older than PublishableAge.
	StoreTimeout, PublishTimeout, PublishableAge time.Duration

	// Retry is the longest time that a node waits before it repeats a call that has failed.
	Retry time.Duration

	// StoreLatency and BrokerLatency bound the time of one call with which nothing goes wrong.
	StoreLatency, BrokerLatency time.Duration

	// ClockError bounds the error of the clocks of the nodes against true time, and of that against the times in
	// the history.
	ClockError time.Duration

	// Session and Rebalance bound the time in which the consumer group gives a silent member up, and the time for
	// which it waits for one that does not let go of its partitions. Settle is when a cluster that has just been
	// started is ready.
	Session, Rebalance, Settle time.Duration

	// Nodes is the number of nodes. Hops is how many of them keep from the store after the healing, and can
	// delay the input by holding partitions one after the other.
	Nodes, Hops int

	// Batch is the largest number of messages that one call moves; zero for no limit. Messages is how many
	// submissions there are at most, as far as known.
	Batch, Messages int
}

// Margin is the part of the hold time that is left when all time limits have been used up.
func (c *Config) Margin() time.Duration { return c.HoldTime - c.StoreTimeout - c.PublishTimeout }

// Backlog bounds the time in which everything there is can be moved once, batch by batch.
func (c *Config) Backlog() time.Duration {
	if c.Batch == 0 {
		return 0
	}
	one := 3*c.StoreLatency + c.BrokerLatency
	return one + one*time.Duration(c.Messages/c.Batch)
}

// Punctual bounds the lateness of a message while nothing goes wrong (L5): a poll with its jitter, the calls on
// the way, and the error of the clocks.
func (c *Config) Punctual() time.Duration {
	return c.PollInterval*11/10 + 2*(c.StoreLatency+c.BrokerLatency) + 2*c.ClockError
}

// Recovery bounds the time from the healing, or from its due time, to the fire of a message whose claim belongs to
// a dead process (L1): the claim reaches the hold time, a detector that may be waiting to try again looks, a
// fire operation that may be waiting to try again claims, and publishes.
func (c *Config) Recovery() time.Duration {
	return c.HoldTime + c.DetectionInterval*12/10 + c.PollInterval*11/10 + c.Lookahead + 3*c.Retry +
		4*c.StoreLatency + c.BrokerLatency + c.ClockError + c.Backlog()
}

// Consumed bounds the time from the healing until every record of the input topics has been consumed (L3): the group
// gives dead members up and moves their partitions, possibly from one node without the store to the next.
func (c *Config) Consumed() time.Duration {
	hop := c.LeaveAfter + 2*c.StoreTimeout + 3*time.Second
	return c.Session + c.Rebalance + time.Duration(c.Hops)*hop + 2*c.Retry + c.Backlog()
}

// Drained bounds the time from the healing, or from the last deadline, until nothing is left to fire (L2): all is
// consumed, and then one message is recovered, all of which a node that has lost the brokers may delay once.
func (c *Config) Drained() time.Duration {
	return c.Consumed() + c.Recovery() + c.PublishTimeout + 2*c.StoreTimeout
}

// Leaves bounds the time in which a node that has lost the store leaves the consumer group (L7): the calls that were
// under way end, the time to leave passes, the last try ends, and where its word of leaving is lost, its session ends.
func (c *Config) Leaves() time.Duration {
	return c.LeaveAfter + 3*c.StoreTimeout + c.PublishTimeout + c.Session + c.Retry + 2*c.BrokerLatency + c.ClockError
}
