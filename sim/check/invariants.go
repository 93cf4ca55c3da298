package check

import (
	"slices"
	"strings"
)

// Invariant is one promise, by its number. S1 to S16 are about safety and are checked at every event that can break
// them; L1 to L8 are about liveness, with bounds that Config computes. They were stated for Chronos first in the
// research that its design rests on; docs/CORRECTNESS.md has the same words.
type Invariant struct {
	Name, Title string

	// Statement is the promise, in one paragraph.
	Statement string

	// at are the kinds of events that can break it, and needs the others without which it can't be judged.
	at, needs []Kind

	// broken says how an event breaks it, before the event is applied; "" when it does not.
	broken func(s *state, e *Event) finding
}

// finding is how an invariant is broken, and by which submission, where there is one.
type finding struct {
	detail string
	about  *submission
}

// Invariants returns all of them, in their order.
func Invariants() []Invariant {
	all := append(safety(), liveness()...)
	for i := range all {
		all[i].Statement = strings.Join(strings.Fields(all[i].Statement), " ")
	}
	return all
}

func safety() []Invariant {
	return append(fates(), conduct()...)
}

// fates are the invariants about what becomes of a submission.
func fates() []Invariant {
	return []Invariant{
		{
			"S1", "No loss",
			`A submission that Kafka has acknowledged fires, or is rejected, or is covered: when it was enqueued, its
			id was stored for another submission. It is never gone from the store before that, neither by a delete
			nor by a failover.`,
			[]Kind{Reject, End},
			[]Kind{Submit, Fire, Copy},
			s1,
		},
		{
			"S2", "Justified delete",
			`A row is deleted only after a record of its own incarnation has appeared on the output topic, or on the
			dead-letter topic.`,
			[]Kind{Insert, Delete},
			[]Kind{Fire},
			s2,
		},
		{
			"S3", "Exclusive claim",
			`A claim is made only on a row that waits, so that there is at most one claim on a row; and a node
			publishes a stored message only under a claim that it was given.`,
			[]Kind{Claim, Publish},
			[]Kind{Insert, Reset, Delete},
			s3,
		},
		{
			"S4", "Justified reset",
			`A claim is taken off a row only if it is exactly the claim that was seen; and by another than its owner
			only if its age, by the clock of the store, is the hold time or more.`,
			[]Kind{Reset},
			[]Kind{Insert, Claim},
			s4,
		},
		{
			"S5", "Excused duplicates",
			`A submission is published under claims no more often than it was claimed; and it fires more than once
			only with an excuse: a claim was reset, a publish had no known outcome, its record was delivered or
			submitted again, or the store or the brokers have repeated something. Where a history records claims and
			no deliveries, it fires at most once for each claim, once for each fault since, once for each publish
			timeout since, and twice more.`,
			[]Kind{Publish, Fire},
			[]Kind{Submit},
			s5,
		},
		{
			"S6", "Fidelity",
			`What fires has the key, the value and the other headers of the submission, byte for byte and in order,
			without the Chronos headers; and what is stored has its id and deadline.`,
			[]Kind{Insert, Publish, Fire},
			[]Kind{Submit},
			s6,
		},
		{
			"S7", "Same key, same partition",
			`Records with the same key appear in the same partition of an output topic.`,
			[]Kind{Fire},
			nil, s7,
		},
		{
			"S8", "Not early",
			`A publish begins only when the deadline is not later than the clock of the node plus the timing advance;
			so nothing appears earlier, by true time, than the timing advance and the error of that clock.`,
			[]Kind{Publish, Fire},
			[]Kind{Submit},
			s8,
		},
	}
}

// conduct are the invariants about what nodes do on the way.
func conduct() []Invariant {
	return []Invariant{
		{
			"S9", "Look before you publish",
			`A message that has lapsed is published at once only after a look into the store has not found its id; and
			records of one id that come in one batch from one partition act in the order of their offsets.`,
			[]Kind{Publish},
			[]Kind{Present, Poll},
			s9,
		},
		{
			"S10", "Offsets",
			`A committed offset leaves only records behind that are fired, stored, covered or rejected, never passes
			the end of its partition, and goes back only when it is set back.`,
			[]Kind{Commit},
			[]Kind{Submit, Insert, Fire, Copy, Reject, Duplicate, Present, Rewind},
			s10,
		},
		{
			"S11", "One row",
			`There is at most one row of an id and output topic.`,
			[]Kind{Insert},
			[]Kind{Delete},
			s11,
		},
		{
			"S12", "Dead is dead",
			`A process that has ended begins nothing; every life of a node has an id of its own; and claims belong to
			nodes that have started.`,
			[]Kind{Start, Poll, Publish, Claim},
			[]Kind{Start, Crash, Stop},
			s12,
		},
		{
			"S13", "Self-suspicion",
			`A node publishes to the output topic under a claim only while it is young enough by its own monotonic
			clock, counted from before the claim was made: hold time less publish timeout less margin.`,
			[]Kind{Publish},
			nil, s13,
		},
		{
			"S14", "Acknowledged and deleted is gone",
			`When a node's delete of an incarnation has been executed, that incarnation is not in the store, whoever
			holds a claim on it.`,
			[]Kind{DeleteDone},
			[]Kind{Insert, Delete},
			s14,
		},
		{
			"S15", "Bounded claims in order",
			`One call claims no more messages than was asked for, none that falls due later than was asked for, and
			the earliest first.`,
			[]Kind{Ready},
			[]Kind{Insert},
			s15,
		},
		{
			"S16", "Sound configuration",
			`The hold time is longer than the time limits of a claim and a publish together, and leaves a margin; and
			a claim is not publishable for longer than the hold time less the publish timeout.`,
			[]Kind{Configure},
			nil, s16,
		},
	}
}

func liveness() []Invariant {
	return []Invariant{
		{
			"L1", "Recovery",
			`When the world has healed, a message whose claim belongs to a dead process fires within hold time +
			detection interval + poll interval + lookahead + three retries + the calls on the way, counted from the
			healing or from its deadline; as long as every node that reaches the store reaches the brokers, and
			unless the clock of the store was set since the claim was made.`,
			[]Kind{Fire, End},
			[]Kind{Insert, Claim, Reset, Delete, Start, Crash, Stop, Heal, Cut},
			l1,
		},
		{
			"L2", "Drain",
			`When the world has healed, no message is stored for longer than the drain bound after its deadline,
			except one that the output topic rejects or that was put off because its topic was missing.`,
			[]Kind{End},
			[]Kind{Submit, Insert, Delete, Heal},
			l2,
		},
		{
			"L3", "Consumed",
			`When the world has healed, every record of the input topics is consumed and committed within the drain
			bound.`,
			[]Kind{End},
			[]Kind{Submit, Deliver, Commit, Heal},
			l3,
		},
		{
			"L4", "No livelock",
			`After the healing an incarnation fires at most once for each time that it was inserted, and once more
			for each claim that was made on it before.`,
			[]Kind{Fire},
			[]Kind{Insert, Claim, Heal},
			l4,
		},
		{
			"L5", "Punctual",
			`As long as nothing has gone wrong, a message fires at the latest a poll interval with its jitter, the
			calls on the way and the error of the clocks after it is due or submitted.`,
			[]Kind{Fire},
			[]Kind{Submit, Fault},
			l5,
		},
		{
			"L6", "Poison delays nobody",
			`Records that are no submissions, and messages that the output topic rejects, delay others by no more
			than one poll interval.`,
			[]Kind{Fire},
			[]Kind{Submit, Fault},
			l6,
		},
		{
			"L7", "Cut off and gone",
			`A node that holds a batch and has lost the store, but not the brokers, leaves the consumer group within
			the time to leave, the time limit of a publish, and three of the store; and a session more when its word of
			leaving is lost.`,
			[]Kind{Deliver, Leave, Mend, End},
			[]Kind{Cut, Join},
			l7,
		},
		{
			"L8", "Orderly stop",
			`As long as nothing else has gone wrong, a process that was asked to end leaves no claim behind.`,
			[]Kind{Stop},
			[]Kind{Term, Insert, Claim, Reset, Delete, Start, Fault},
			l8,
		},
	}
}

// judged tells whether a history that records these kinds can break the invariant, and if not, what is missing.
func (i *Invariant) judged(recorded map[Kind]bool) (bool, []Kind) {
	var missing []Kind
	for _, k := range i.needs {
		if !recorded[k] {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		return false, missing
	}
	if slices.ContainsFunc(i.at, func(k Kind) bool { return k == End || k == Configure || recorded[k] }) {
		return true, nil
	}
	return false, i.at
}
