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

	// IdleInterval is the longest time from when a process that has no node has brought something in, or made it due,
	// until a node with nothing to do looks: the time in which it hears of that, or, where it may hear nothing and rest
	// on, that for which it rests. 0 where nobody does so, or nodes do not rest.
	IdleInterval time.Duration

	// Adaptive says that TimingAdvance is the most by which a message may be early: it is measured.
	Adaptive bool

	// StoreTimeout and PublishTimeout limit one call. A claim is not published when it is older than PublishableAge.
	StoreTimeout, PublishTimeout, PublishableAge time.Duration

	// Retry is the longest time that a node waits before it repeats a call that has failed, and StandBack the longest
	// for which it leaves a lane alone that has failed twice.
	Retry, StandBack time.Duration

	// CallWait is the longest time for which a callback that has failed is put off, or waits for a host that did not
	// answer; 0 where there are no callbacks.
	CallWait time.Duration

	// Ordered says that callbacks of one key come out one after the other.
	Ordered bool

	// RetryFor is how long after its deadline a callback that has failed is made again; 0 forever.
	RetryFor time.Duration

	// StoreLatency and BrokerLatency bound the time of one call with which nothing goes wrong.
	StoreLatency, BrokerLatency time.Duration

	// ClockError bounds the error of the clocks of the nodes against true time, and of that against the times in
	// the history.
	ClockError time.Duration

	// Session and Rebalance bound the time in which the consumer group gives a silent member up, and the time for
	// which it waits for one that does not let go of its partitions. Settle is when a cluster that has just been
	// started is ready.
	Session, Rebalance, Settle time.Duration

	// Begin is the instant of time 0, counted from 1970-01-01T00:00:00Z. It is needed to read deadlines as they were
	// written.
	Begin time.Duration

	// Windows say when lanes are open, where a process does not go by others. What they do not name is always open.
	Windows []Window

	// Paces bound how many messages a node begins to publish on a lane in any second. What they do not name has none.
	Paces []Pace

	// DeadLetter says that every input topic and every output topic has a dead-letter topic.
	DeadLetter bool

	// Nodes is the number of nodes, and Lanes that of the lanes that each of them serves. Hops is how many of them
	// keep from the store after the healing, and can delay the input by holding partitions one after the other.
	Nodes, Lanes, Hops int

	// Calls is how many callbacks a node makes at the same time, and LaneCalls how many of one lane; zero where nobody
	// knows.
	Calls, LaneCalls int

	// Batch is the largest number of messages that one call moves; zero for no limit. Messages is how many
	// submissions there are at most, as far as known.
	Batch, Messages int
}

// Look is the longest time between two looks of a node, without the jitter, at what it was not told of.
func (c *Config) Look() time.Duration { return max(c.PollInterval, c.IdleInterval) }

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
	return c.Look()*11/10 + 2*(c.StoreLatency+c.BrokerLatency) + 2*c.ClockError
}

// Turn bounds the lateness of a message while the sinks of other lanes hang (L10): all that could take it is waiting
// for an answer that does not come, up to the time limit of a publish, and gives back what it could not publish.
func (c *Config) Turn() time.Duration { return c.PublishTimeout + c.Punctual() + c.StoreLatency }

// Next bounds the time after which a callback is made that has become the first of its key (L15): it may have stood
// back for a moment for one that had claimed it, too.
func (c *Config) Next() time.Duration { return c.Punctual() + 2*c.StoreLatency + 200*time.Millisecond }

// Behind bounds the time for which a callback that is not the first of its key stands back: 30 s, give or take a fifth,
// to the next full second, and the lookahead.
func (c *Config) Behind() time.Duration { return 37*time.Second + c.Lookahead }

// Fair bounds the time that a message of a lane without a backlog waits for its claim once it may be claimed (L11): all
// lanes are looked at once in each poll interval, by a call that may have to wait for the one under way.
func (c *Config) Fair() time.Duration {
	return c.Look()*11/10 + 3*c.StoreLatency + 2*c.ClockError
}

// Still bounds the time after a pause in which something may still come out of its lane (L12): a claim that was decided
// on before, as long as it may be published, and that publish.
func (c *Config) Still() time.Duration { return c.PublishableAge + c.PublishTimeout + c.ClockError }

// Share is how many messages of one lane a claim takes at least, if there are so many.
func (c *Config) Share() int { return max(1, c.Batch/max(1, c.Lanes)) }

// Recovery bounds the time from the healing, or from its due time, to the fire of a message whose claim belongs to
// a dead process (L1): the claim reaches the hold time; a detector that may be waiting to try again looks, and spares
// the claims that it finds by its first look; a claimer that may be waiting to try again, or stand back from the lane,
// claims; and a publisher publishes. Each of them may have to wait for the lane to open, or for its pace.
func (c *Config) Recovery() time.Duration {
	return c.HoldTime + c.DetectionInterval*12/10 + c.Look()*11/10 + c.Lookahead + 3*c.Retry + c.StandBack +
		4*c.StoreLatency + c.BrokerLatency + c.ClockError + c.Backlog() + c.CallWait + c.shut() + c.paced()
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

const (
	// lookInterval is the time between two comparisons of a node's positions with those of the store, with its jitter.
	lookInterval = 1100 * time.Millisecond

	// marksInterval is the time after which the marks of a catch-up are brought up to date, with its jitter.
	marksInterval = 5500 * time.Millisecond
)

// Restored bounds the time until nothing is left to fire where the store was set back (L9): somebody notices, the store
// catches up, in which a topic may be deleted or cut off below its mark, claims of before expire, and all drains.
func (c *Config) Restored() time.Duration {
	return lookInterval + marksInterval + c.HoldTime + c.Drained()
}

// Leaves bounds the time in which a node that has lost the store leaves the consumer group (L7): it looks, the calls
// that were under way end, the time to leave passes, the last try ends, and where its word of leaving is lost, its
// session ends.
func (c *Config) Leaves() time.Duration {
	return lookInterval + c.LeaveAfter + 3*c.StoreTimeout + c.PublishTimeout + c.Session + c.Retry + 2*c.BrokerLatency +
		c.ClockError
}

// Tries bounds how often a message fails to be published in a time (L4). One that its topic rejects is put off for as
// long as it is overdue already, at least a second and at most five minutes. Any other failure puts it off by up to a
// second, or has its node leave the lane alone for longer than that, while other nodes may try.
func (c *Config) Tries(rejected bool, in time.Duration) int {
	if rejected {
		return 12 + c.Nodes + int(in/time.Minute)
	}
	return 12 + max(1, c.Nodes)*(2+int(in/time.Second))
}

// failures bounds how often one call of a node fails within a second (L4). A loop waits 50 ms, give or take a fifth,
// before it repeats a call that has failed; four publishers make some calls side by side, and the claimer too. Where
// there are callbacks, "take" is one of these: each request that is given up stores its own dead letter, and a hundred
// may run into their time limits at the same instant.
func (c *Config) failures(call string) int {
	const once, many = 50, 250
	switch {
	case call == "delete", call == "reset", call == "publish", call == "take" && c.Calls > 0:
		return many
	default:
		return once
	}
}
