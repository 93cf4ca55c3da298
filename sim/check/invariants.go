package check

import (
	"slices"
	"strings"
)

// Invariant is one promise, by its number. S1 and so on are about safety and are checked at every event that can break
// them; L1 and so on are about liveness, with bounds that Config computes. docs/CORRECTNESS.md has the same words.
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
	all := slices.Concat(safety(), liveness(), lanes(), queuedInTime(), shared())
	for i := range all {
		all[i].Statement = strings.Join(strings.Fields(all[i].Statement), " ")
	}
	return all
}

func safety() []Invariant {
	return slices.Concat(fates(), conduct(), exact(), queued())
}

// fates are the invariants about what becomes of a submission.
func fates() []Invariant { //nolint:funlen // a table
	return []Invariant{
		{
			"S1", "No loss",
			`A submission that Kafka has acknowledged fires, or is rejected, or is covered: when it was enqueued, its
			id was stored for another submission. It is never gone from the store before that, unless the store was set
			back and Kafka does not have it any more. The same goes for a message of which a client was told past Kafka
			that it is stored, unless the store was set back. What is no valid submission never fires; it is copied to
			the dead-letter topic, if there is one. Nothing else is copied there, except what an output topic rejects
			for good, what is not to be published any more, and callbacks that are given up (S27): that a topic is
			missing is no reason.`,
			[]Kind{Reject, Fire, Copy, End},
			[]Kind{Submit, Fire, Copy},
			s1,
		},
		{
			"S2", "Justified delete",
			`A row is deleted only after a record of its own incarnation has appeared on the output topic, or on the
			dead-letter topic; or if it is not to be published any more, and there is no dead-letter topic; or if it is
			a callback that its receiver refuses, or for which the time is over for which it is tried, and its dead
			letter is stored, or there are no dead letters.`,
			[]Kind{Insert, Delete},
			[]Kind{Fire},
			s2,
		},
		{
			"S3", "Exclusive claim",
			`A claim is made only on a row that waits, so that there is at most one claim on a row; not in a new lineage
			before the store has caught up; and a node publishes a message only under a claim that it was given.`,
			[]Kind{Insert, Claim, Publish},
			[]Kind{Insert, Reset, Delete},
			s3,
		},
		{
			"S4", "Justified reset",
			`A claim is taken off a row only if it is exactly the claim that was seen; and by another than its owner
			only if it has expired, by the clock of the store and the hold time that it was made with. Its owner gives
			it back as unsent exactly if no publish under it had an unknown outcome.`,
			[]Kind{Reset},
			[]Kind{Insert, Claim},
			s4,
		},
		{
			"S5", "Excused duplicates",
			`A submission is published under claims no more often than it was claimed; and it fires more than once
			only with an excuse: a claim was reset that may have led to a publish, a publish had no known
			outcome, it was
			submitted twice, the brokers have appended it twice, or a lineage began. That its record was delivered
			again is no excuse. Where a history records claims and no publishes, it fires at most once for each claim
			and each lineage, and once more.`,
			[]Kind{Publish, Fire},
			[]Kind{Submit},
			s5,
		},
		{
			"S6", "Fidelity",
			`What fires has the key, the value and the other headers of the submission, byte for byte and in order,
			without the Chronos headers; and what is stored has its id and its deadline, which is the instant that
			was written, in whatever zone, with what is finer than microseconds rounded up, or the delay that was
			written after the timestamp of its record, whenever that is delivered. A message that is rescheduled has
			the deadline of the instruction.`,
			[]Kind{Insert, Publish, Fire, Decide},
			[]Kind{Submit},
			s6,
		},
		{
			"S7", "Same key, same partition",
			`Records with the same key appear in the same partition of an output topic, and those that are published
			by one call in the order of the call.`,
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
			"S9", "Nothing past the store",
			`A node publishes only what is in the store; and of the records of one id in a partition, none is a
				duplicate
			of a later one.`,
			[]Kind{Publish, Duplicate},
			[]Kind{Submit, Insert, Delete},
			s9,
		},
		{
			"S10", "Offsets",
			`A committed offset is never ahead of the position in the store, or of the end of its partition; it leaves
			only records behind that are fired, stored, covered, or rejected with their copies stored; and it goes
			back only when it is set back. A synchronous standby that takes over has every position that a take has
			told a node.`,
			[]Kind{Commit, KeepPlace},
			[]Kind{Submit, Insert, Fire, Copy, Reject, Duplicate, Rewind},
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
			`One call claims no more messages on a lane, or on a part of it, than was asked for, none that falls due
			later than was asked for, and the earliest first. A parked message is claimed on its part only; one that
			was replaced, moved or rearmed since then is parked nowhere.`,
			[]Kind{Ready},
			[]Kind{Insert, Reset},
			s15,
		},
		{
			"S16", "Sound configuration",
			`The hold time is longer than the time limits of a claim and a publish together, and leaves a margin, and
			so is that of each claim; and a claim is not publishable for longer than the hold time less the publish
			timeout.`,
			[]Kind{Configure, Insert, Claim},
			nil, s16,
		},
	}
}

// exact are the invariants about intake, and about what lanes do to each other.
func exact() []Invariant { //nolint:funlen // a table
	return []Invariant{
		{
			"S17", "Taken once",
			`In one lineage of the store a record, by its partition, offset and epoch, takes effect at most
				once; and none
			does that Kafka has lost, once the position is past its epoch. So does a request that came by HTTP, under
			its name, while its answer is kept; whoever repeats it is told what the first one was.`,
			[]Kind{Take, Insert, Decide},
			[]Kind{Submit},
			s17,
		},
		{
			"S18", "No gap",
			`Behind a position every record that Kafka still has was, in this lineage or in what the store kept of the
			ones before, stored, covered, or rejected with its copy stored; or it comes before the first position,
			which is the first record that there was, or what an older deployment had committed. What retention took
			first is reported. A position goes back in one lineage only where Kafka has lost the end of a log; and a
			node begins a lineage only when the store was set back since the last one began, or looks as if: the number
			of the last one is that of another that was undone, a position is below what was committed, or an input
			topic was deleted.`,
			[]Kind{Place, Take, Move, Lineage},
			[]Kind{Submit, Insert, Duplicate, Reject, Lineage},
			s18,
		},
		{
			"S19", "Cancelled stays cancelled",
			`What was answered cancelled, rescheduled, or replaced without a word of former content never comes out as
			it was in this lineage, before or after, except by a publish begun before the lineage, or before the store
			was set back; nor from then on by a claim that a store that was set back has forgotten. It does not matter
			whether a record asked for it or an operator past Kafka.`,
			[]Kind{Decide, Publish, Fire},
			[]Kind{Insert, Decide},
			s19,
		},
		{
			"S20", "Too late comes out",
			`What was answered too_late or fired comes out, or is copied to the dead-letter topic, within the bound
			of L2; nothing but a replace keeps it from that afterwards, or that its time has passed (S26), or that the
			receiver of a callback refuses it, or the time is over for which it is tried, where there are no dead
			letters.`,
			[]Kind{Decide, Recur, Delete},
			[]Kind{Insert},
			s20,
		},
		{
			"S21", "One outcome",
			`In one lineage each instruction has one outcome, the one that the table has for what is stored when it is
			taken in; it is told on the outcome topic at least once, under the key of the instruction, and always the
			same. An instruction past Kafka is decided by the same table whenever it comes, and not_found for another
			incarnation than the one that it names; and who gave it hears what was decided.`,
			[]Kind{Decide, Answer, Take, Fire, Hear},
			[]Kind{Submit, Insert, Decide, Answer},
			s21,
		},
		{
			"S22", "Occurrences",
			`The occurrences of a series appear for the first time in order, each at its instant, which is counted
			from the first one and never from a publish; none appears after the one that an outcome has named as the
			last. One is passed over only by the policy of the series, by the clock of the node that has claimed it,
			or as a callback that is given up (S27); and a series ends by its count, its end, or an outcome.`,
			[]Kind{Recur, Delete, Fire},
			[]Kind{Submit, Insert, Recur},
			s22,
		},
		{
			"S23", "Lanes keep to themselves",
			`No result of a lane's sink puts off or gives back another lane's message: a message is put off only by a
			node that has failed to publish it; and given back only where a publish on its lane has failed, its claim
			is too old, its lane closes (S29), or the node stops. What has not its turn (S28) may be given back and put
			off. Nothing of that has a message fall due before its deadline: who looks for messages by their deadlines
			begins where these fall due.`,
			[]Kind{Reset},
			[]Kind{Insert, Claim, Publish, Unknown, Fail, Term},
			s23,
		},
		{
			"S24", "Exactly once",
			`Where the store is a journal, a consumer that reads only what was committed sees a message, on its output
			topic or as its dead letter, no more often than it was stored, whatever goes wrong: there is no excuse. And
			when the world has healed, and the time of S1 has passed, it has seen what was stored and is gone, unless
			somebody was told that it does not come out, or it was passed over, or its time has passed. The same goes
			for an outcome, and of a callback, which is no record, for its dead letter.`,
			[]Kind{See, End},
			[]Kind{Submit, Insert, See},
			s24,
		},
		{
			"S25", "Paused",
			`While a lane is paused, no claim is made on it, and while the intake is paused, no record is taken in,
			and nothing done past Kafka, whatever the nodes know of it; except by a call that was decided on before the
			pause.`,
			[]Kind{Insert, Claim, Take, Decide},
			[]Kind{Pause, Resume},
			s25,
		},
		{
			"S26", "Not after",
			`A publish of a submission that is not to be published after an instant begins only when the clock of the
			node is not later than that; so nothing appears later, by true time, than the error of that clock and the
			time limit of a publish. Only when it is later is it copied to the dead-letter topic instead, with the
			reason expired, or, where there is none, deleted.`,
			[]Kind{Publish, Fire, Copy},
			[]Kind{Submit},
			s26,
		},
		{
			"S27", "Given up",
			`A callback that its receiver does not refuse is given up, so that its dead letter is stored, or, where
			there are none, it is deleted or its series goes on, only when the time is over for which it is tried
			after its deadline, by the clock of the node, or its own time has passed (S26).`,
			[]Kind{Insert, Delete, Recur},
			[]Kind{Submit, Insert, Claim, Reset},
			s27,
		},
		{
			"S28", "In line",
			`Where callbacks of one key come out one after the other, one begins only when none of its key that comes
			first, by its deadline and then by its id, was stored a store timeout before its claim and still is, and
			none is under way by a claim that is held. Claims that were lost with a store that was set back, or
			expired because its clock was set, hold nobody off.`,
			[]Kind{Publish},
			[]Kind{Submit, Insert, Claim, Reset, Delete},
			s28,
		},
		{
			"S29", "Closed",
			`A publish on a lane with a window, or a request, begins only while the window is open by the clock of the
			node; so by true time nothing comes out of a closed lane except by the error of that clock and the time
			limit of a publish.`,
			[]Kind{Publish, Fire},
			[]Kind{Submit},
			s29,
		},
		{
			"S30", "Paced",
			`On a lane with a pace a node begins no more publishes, or requests, within any second of its monotonic
			clock than the pace says, except for those of which it hears that nothing was sent.`,
			[]Kind{Publish},
			[]Kind{Submit},
			s30,
		},
	}
}

func liveness() []Invariant { //nolint:funlen // a table
	return []Invariant{
		{
			"L1", "Recovery",
			`When the world has healed, a message whose claim belongs to a dead process fires within hold time +
			detection interval + poll interval + lookahead + three retries + the time for which a lane is left alone +
			the calls on the way, counted from the healing, from its deadline, or from when the store has caught up; as
			long as every node that reaches the store reaches the brokers, and unless the clock of the store was set
			since the claim was made.`,
			[]Kind{Fire, End},
			[]Kind{Insert, Claim, Reset, Delete, Start, Crash, Stop, Heal, Cut},
			l1,
		},
		{
			"L2", "Drain",
			`When the world has healed, no message is stored for longer than the drain bound after its deadline,
			except one that the output topic rejects where there is no dead-letter topic. That its topic was missing is
			no exception.`,
			[]Kind{End},
			[]Kind{Submit, Insert, Delete, Heal},
			l2,
		},
		{
			"L3", "Consumed",
			`When the world has healed, every record of the input topics that Kafka still has is taken in and committed
			within the drain bound; and no position stays before what retention has taken.`,
			[]Kind{End},
			[]Kind{Submit, Deliver, Commit, Heal},
			l3,
		},
		{
			"L4", "No livelock",
			`After the healing an incarnation fires at most once for each time that it was inserted, and once more
			for each claim that was made on it before. What fails is repeated with a back-off: a message that can't be
			published is tried no more than 12 times, and, for each node, twice and once more in each second, or where
			its topic rejects it, once, and once more in each minute; and a call that fails is repeated no more than
			50 times a second, or 250 times where several publishers make it.`,
			[]Kind{Fire, Fail, Unknown, Error},
			[]Kind{Insert, Claim, Heal},
			l4,
		},
		{
			"L5", "Punctual",
			`As long as nothing has gone wrong, a message fires at the latest a poll interval with its
			jitter, the calls on the way and the error of the clocks after it is due or submitted; and where nothing has
			gone wrong since a recovery bound before a claim was made, it does not expire. On a lane with a pace this
			bound, and those of L6, L10, L11, L15 and L16, are longer by a beat, which is a second, a poll interval and
			the calls on the way; and by one more beat each time that as many others of the lane as its pace allows in a
			second were begun meanwhile, which were due no later, or claimed before a look could find it. Where nodes
			rest for an idle interval, and processes without a node bring messages in or make them due, the way of what
			tells the nodes takes the place of the poll interval in all bounds, if it is longer; and where that is lost
			or late, the idle interval does. A callback is not late for the time in which the node that makes it had as
			many others under way as it makes at the same time, until it begins one of that lane that comes later.`,
			[]Kind{Fire, Reset},
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
			`A node that has lost the store, but not the brokers, leaves the consumer group within the time between two
			looks at the positions, the time to leave, the time limit of a publish, and three of the store; and a
			session more when its word of leaving is lost.`,
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

// lanes are the invariants about what a store that is set back, and lanes that hang, do to the rest.
func lanes() []Invariant { //nolint:funlen // a table
	return []Invariant{
		{
			"L9", "Restored",
			`When the store was set back to a state with positions, or one was rewound, and the world has healed,
			everything that Kafka retains from there on is taken in again, and comes out within the time between two
			looks at the positions + that between two looks at the marks + hold time + drain bound.`,
			[]Kind{End},
			[]Kind{Submit, Take, Place, Move, Rollback, KeepPlace, Lineage, Heal},
			l9,
		},
		{
			"L10", "Alone",
			`As long as nothing else has gone wrong than that the sinks of some lanes hang, a message of another lane
			is late by at most one turn more than L5 and L6 allow: the time limit of a publish, and a call to the
			store.`,
			[]Kind{Fire},
			[]Kind{Submit, Fault, Hang},
			l10,
		},
		{
			"L11", "Fair",
			`As long as some node is well, with a wall clock that nobody has set, and nothing has gone wrong for a
			while, a message that may be claimed is claimed within a poll interval and three calls, whatever backlog
			other lanes have; and a poll interval and the calls on the way later for each share of a claim that its own
			lane has before it, and once more where a node makes as many callbacks of the lane as it makes at the same
			time.`,
			[]Kind{Claim, End},
			[]Kind{Insert, Reset, Delete, Fault, Start, Crash, Stop, Cut},
			l11,
		},
		{
			"L12", "Still",
			`As long as nothing has gone wrong, nothing comes out of a paused lane later than the age at which a claim
			may still be published and the time limit of a publish after the pause; of a callback the request counts,
			which may be on its way for longer. When it is resumed, what waits there comes out within the bounds of the
			others.`,
			[]Kind{Fire},
			[]Kind{Pause, Resume, Fault, Hang},
			l12,
		},
		{
			"L13", "Patient",
			`As long as nothing else has gone wrong, a callback that was not answered well is made again no sooner than
			1 s later, less a fifth, and after each further one no sooner than after twice as long, up to 5 min.`,
			[]Kind{Publish},
			[]Kind{Insert, Unknown, Fault},
			l13,
		},
		{
			"L14", "Let go",
			`As long as nothing else has gone wrong, a callback is not made again that has failed when the time was
			over for which it is tried after its deadline.`,
			[]Kind{Publish},
			[]Kind{Insert, Unknown, Fail, Fault, Pause},
			l14,
		},
		{
			"L15", "Next",
			`As long as nothing has gone wrong, a callback that has become the first of its key, because the one
			before it is settled, or that has fallen due as the first, is made within a poll interval, 200 ms, and the
			calls that it takes; 37 s and the lookahead later at most where the one before it was removed, moved or
			replaced.`,
			[]Kind{Publish},
			[]Kind{Submit, Insert, Decide, Delete, Unknown, Fault},
			l15,
		},
		{
			"L16", "Opens",
			`As long as nothing has gone wrong, a message of a lane with a window comes out within the bound of L5, and
			the time that it takes to move all that there is, after its deadline, or after the next opening if the lane
			is closed then or closes sooner than that; and without waiting for a poll if it was stored in good time
			before that opening. An opening that is shorter than the bound promises nothing.`,
			[]Kind{Fire},
			[]Kind{Submit, Fault, Hang},
			l16,
		},
		{
			"L17", "Idle by night",
			`As long as nothing has gone wrong, no message of a closed lane is claimed sooner than the lookahead before
			it opens; and what is claimed when it closes, and not being published, is given back within a poll interval,
			the calls on the way and the time that it takes to move all that there is.`,
			[]Kind{Insert, Claim, Reset, Publish, End},
			[]Kind{Submit, Insert, Claim, Reset, Delete, Fault},
			l17,
		},
	}
}

// judged reports whether a history that records these kinds can break the invariant, and if not, what is missing.
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
