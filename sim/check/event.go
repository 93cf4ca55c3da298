package check

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Kind says what happened in an Event. The comment of each says which fields it has, besides At and Node; what
// is in brackets may be missing.
type Kind string

// The application and the topics.
const (
	// Submit: a record was appended to an input topic: Message, ID, Topic (where it is to fire), Deadline, Payload,
	// [Key, Partition, Offset, Epoch, Written, Flaw, Action, NotAfter; Every and Limit, of a series]. The same
	// Message may be appended twice, by a producer that tries again.
	Submit Kind = "submit"

	// Fire: a record appeared on an output topic, or an answer on an outcome topic: Message, Payload, [Topic, Key,
	// Partition, Incarnation, Twice; of an answer Text (the outcome), Former].
	Fire Kind = "fire"

	// Copy: a record appeared on a dead-letter topic: Message, [Incarnation, Text: the reason].
	Copy Kind = "copy"

	// See: a consumer that reads only what was committed is handed a record of an output, dead-letter or outcome topic:
	// Message, [Topic]. It is recorded where the store is a journal, of which such a consumer is promised more.
	See Kind = "see"

	// Truncate: a partition of an input topic has lost its end, from Offset on: Partition, Offset.
	Truncate Kind = "truncate"

	// Retain: retention has deleted what lies before Offset: Partition, Offset.
	Retain Kind = "retain"

	// Drop: a topic was deleted, and this partition with it: Partition. Those of a topic that is created again under
	// its name are others, and need other names.
	Drop Kind = "drop"
)

// Processes.
const (
	// Start: a process begins: Owner (its node id), [Windows].
	Start Kind = "start"

	// Term: a process is asked to end. It counts as something that goes wrong: others take over.
	Term Kind = "term"

	// Stop: a process has ended cleanly.
	Stop Kind = "stop"

	// Crash: a process was killed.
	Crash Kind = "crash"

	// Jump: the wall clock of the process was set, or the store's where Node is empty: [Node, Stamp: what the store's
	// says from now on].
	Jump Kind = "jump"

	// Cut: the process reaches Port (store or broker) no more.
	Cut Kind = "cut"

	// Mend: the process reaches Port again.
	Mend Kind = "mend"
)

// The consumer group.
const (
	// Join: the process is a member of the consumer group.
	Join Kind = "join"

	// Leave: the process is a member no more, whether it knows or not.
	Leave Kind = "leave"

	// Poll: the process asks for records. The Deliver events that follow are what it gets.
	Poll Kind = "poll"

	// Deliver: one record: Message.
	Deliver Kind = "deliver"

	// Commit: the group's offset of Partition moves to Offset, [Epoch].
	Commit Kind = "commit"

	// Rewind: the group's offset of Partition was set back to Offset, [Node, Epoch]: by a commit of that node, which
	// came late or is the first since the topic was made again; or, without one, by a person, or because it has
	// expired.
	Rewind Kind = "rewind"

	// Reject: the node says that a submission is none: Message, [Text].
	Reject Kind = "reject"

	// Lost: the node says that retention took records, from Offset up to To, before they were taken in: Partition,
	// Offset, To.
	Lost Kind = "lost"
)

// Positions. What a take does comes before the moves of the positions by it, all at one time.
const (
	// Place: the store keeps a position for a partition from now on: Partition, Offset, [Epoch, Adopted].
	Place Kind = "place"

	// Upgrade: the store is one of an older deployment, which has kept no positions: it has rows, and no positions any
	// more, and waits for the adoption of what the group has committed by then.
	Upgrade Kind = "upgrade"

	// Take: a take has decided on a record: Partition, Offset, [Message, Epoch, Lineage, Skipped]. It is a part of the
	// same transaction as the Insert or the Duplicate that it leads to, which comes before it, and the Move after it.
	Take Kind = "take"

	// Move: a position was set: Partition, Offset, [Epoch].
	Move Kind = "move"

	// Lineage: a new lineage of the store begins, and the store catches up: Lineage. The Mark events that follow say
	// how far; the Move events that follow at once are positions that were lowered on purpose.
	Lineage Kind = "lineage"

	// Mark: a partition has to be taken in up to Offset before anything is claimed: Partition, Offset.
	Mark Kind = "mark"

	// CaughtUp: everything is taken in again, and messages may be claimed: [Lineage].
	CaughtUp Kind = "caught-up"
)

// The store. Node is who asked for it, where that is known.
const (
	// Insert: a row appears: Message, ID, Topic, Incarnation, Deadline, [Owner, Stamp, Expires: it is claimed from the
	// start].
	Insert Kind = "insert"

	// Decide: a take has decided on an instruction: Message (the record, or the number of one that came past Kafka),
	// ID, Topic, Action, Text (the outcome), Lineage, [Incarnation, of the row that it found; Next, of the row that
	// there is then; Deadline and Due of that; Past; Only; Request; Former, of a callback that is replaced, where
	// claims are not recorded: it is said that the former content may appear]. An Insert follows where it has brought
	// a message.
	Decide Kind = "decide"

	// Hear: whoever gave an instruction past Kafka is answered: Message, ID, Topic, Text (the outcome), Lineage.
	Hear Kind = "hear"

	// Answer: the same transaction stores a message that tells of an outcome, which is a submission from now on:
	// Message, Of (the record), ID, Topic, Deadline, Lineage, Text (the outcome). An Insert follows.
	Answer Kind = "answer"

	// Recur: the next occurrence of a series takes the place of a row: Message (the number of the occurrence), Of
	// (of the series), ID, Topic, Incarnation (of the row), Next (of the one that there is then), Deadline, Nth (its
	// sequence number).
	Recur Kind = "recur"

	// Duplicate: a take found another incarnation of its id: Message, [ID, Topic].
	Duplicate Kind = "duplicate"

	// Ready: a node was given a claim: ID, Topic, Incarnation, [Part, of the lane, on which it is parked], Nth (on that
	// part or on the lane, of this call, from 0), Limit (there), Until.
	Ready Kind = "ready"

	// Claim: a row is claimed: ID, Topic, Incarnation, Owner, [Stamp, Expires].
	Claim Kind = "claim"

	// Reset: a claim is taken off a row: ID, Topic, Incarnation, Owner (who had it), [Stamp, Age, Part (on which it is
	// parked from now on), Due, Unsent, Behind].
	Reset Kind = "reset"

	// Delete: a row is gone: ID, Topic, Incarnation, [Wall].
	Delete Kind = "delete"

	// DeleteDone: a node's delete was executed, whatever it found: ID, Topic, Incarnation.
	DeleteDone Kind = "delete-done"

	// Rollback: the store is set back, to a backup or to a standby that lacks its last commits: [Lineage, that it has
	// then, Text]. The Keep and KeepPlace events that follow are all that is left.
	Rollback Kind = "rollback"

	// Keep: a row that a rollback has left: ID, Topic, Incarnation, [Due, Owner, Stamp, Expires].
	Keep Kind = "keep"

	// Pause: somebody has paused a lane, on which nothing is claimed from now on, or the intake, by which nothing is
	// taken in: [Topic, which is none for the intake, Stamp]. After a rollback, that a pause is left.
	Pause Kind = "pause"

	// Resume: it is paused no more: [Topic].
	Resume Kind = "resume"

	// Lock: a session that is no node's has locked a row, and nobody changes it until it ends: ID, Topic.
	Lock Kind = "lock"

	// Unlock: that session has ended: ID, Topic.
	Unlock Kind = "unlock"

	// Taken: a take has told a node that a partition is taken in up to there: Node, Partition, Offset, [Epoch].
	Taken Kind = "taken"

	// KeepPlace: a position that a rollback has left: Partition, Offset, [Epoch].
	KeepPlace Kind = "keep-place"
)

// Publishing.
const (
	// Publish: a node begins to publish: Message, Topic, Wall, Incarnation and Age, of the claim,
	// [Mono; Nth, in this call].
	Publish Kind = "publish"

	// Unknown: a publish has ended without a known outcome: Message, [Topic, Incarnation].
	Unknown Kind = "unknown"

	// Fail: a publish has ended, and nothing was appended, for certain: Message, Text (rejected, missing or unsent),
	// [Topic, Incarnation]. Or it cannot begin, because the node cannot read the series of what it has claimed: unread.
	Fail Kind = "fail"

	// Hang: the sink of a lane, or of one of its partitions, takes records and answers none: Topic, Until, [Partition].
	Hang Kind = "hang"

	// Unreached: a node does not reach a partition of a lane from now on, for a while: Node, Topic, Partition,
	// Until.
	Unreached Kind = "unreached"

	// Work: it answers again: Topic, [Partition].
	Work Kind = "work"
)

// Queues and tasks. Stamp is the instant of the transaction, by the clock of the store. What one transaction does comes
// at one time, in the order of these kinds.
const (
	// PutQueue: a queue was made or changed: Queue, Stamp, Lasts (the time limit of its tasks), [Sync, Paths, Windows].
	PutQueue Kind = "queue"

	// DropQueue: a queue is being deleted: Queue, [Drain].
	DropQueue Kind = "drop-queue"

	// Arrive: a task has come, or one that waits was changed: Task, Queue, Stamp, Arrival, [Priority, Due, Limit: of
	// how many actions its promise is].
	Arrive Kind = "arrive"

	// Done: the run of a task has ended: Task, Run, Text (Complete or Failure), Stamp.
	Done Kind = "done"

	// Promise: an action of its promise was stored as a message: Task, Run, Nth.
	Promise Kind = "promise"

	// Withdraw: a task that waited was deleted: Task, [Text: asked, if somebody has asked for it].
	Withdraw Kind = "withdraw"

	// Begin: a task is started, and its execution stored as a message: Task, Run, Stamp.
	Begin Kind = "begin"

	// QueueGone: a queue is gone: Queue.
	QueueGone Kind = "queue-gone"

	// KeepQueue: a queue that a rollback has left: as PutQueue, [Deleting, Drain].
	KeepQueue Kind = "keep-queue"

	// KeepTask: a task that it has left: as Arrive, Text (its status), [Run].
	KeepTask Kind = "keep-task"

	// Call: a receiver was asked for something: Task, Run, Text (execution, promise/0 and so on, or relief).
	Call Kind = "call"

	// Accept: somebody is told that a task is kept: Task.
	Accept Kind = "accept"

	// Told: somebody who completes a task is told what became of it: Task, Run, Text (its status).
	Told Kind = "told"
)

// The run.
const (
	// Configure: the first event: Config.
	Configure Kind = "configure"

	// Fault: something goes wrong, other than a Hang: [Node, Text, Until]. Until then its node is stopped, or, without
	// a node, all claims are slow.
	Fault Kind = "fault"

	// Error: a call of a node has failed: Port, Text (the name of the call).
	Error Kind = "error"

	// Heal: nothing goes wrong from now on.
	Heal Kind = "heal"

	// End: the last event.
	End Kind = "end"
)

// The flaws of submissions.
const (
	// Invalid: the record is no valid submission, and has to be rejected.
	Invalid = "invalid"

	// Poison: the output topic will never accept it.
	Poison = "poison"

	// Unacknowledged: nobody has promised the application that it was appended. It may fire or not.
	Unacknowledged = "unacknowledged"
)

// Why a publish has appended nothing: the Text of Fail.
const (
	// Rejected: the topic never accepts the record.
	Rejected = "rejected"

	// Missing: there is no such topic, or the node may not write to it.
	Missing = "missing"

	// Unsent: it was not sent, because where it belongs does not answer.
	Unsent = "unsent"

	// Unread: the node cannot say which occurrence comes next. That says nothing about the topic.
	Unread = "unread"
)

// Confirmed is the Text of a Rollback to a synchronous standby: it lacks nothing that anybody was told is stored.
const Confirmed = "confirmed"

// Unknowable is the Epoch of a record or position where nobody knows it; then offsets alone count.
const Unknowable = -1

// UUID is the identity of an incarnation or of a node.
type UUID [16]byte

// String returns the usual form, in lower case.
func (u UUID) String() string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseUUID reads the usual form. It returns an error for anything else.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	n, err := hex.Decode(u[:], []byte(strings.ReplaceAll(s, "-", "")))
	if err != nil || n != len(u) || len(s) != 36 {
		return UUID{}, fmt.Errorf("%q is no UUID", s)
	}
	return u, nil
}

// Event is one thing that happened. Instants are durations since the beginning of the history. A field that a kind
// does not have is zero.
type Event struct {
	At   time.Duration // true time
	Kind Kind

	Node        string        // the process, by a name that no other life of a node has
	Port        string        // of Cut and Mend: "store" or "broker"
	Message     int           // the number of a submission, from 1
	ID          string        // the message id
	Topic       string        // the output topic; ids are unique within one
	Partition   string        // of a topic, as topic/number
	Part        string        // of the output topic, on which a row is parked: the number of a partition
	Offset      int64         // of an input record, or of the next one
	To          int64         // the offset behind the last of several records
	Epoch       int           // the leader epoch of an input record, or of the one before a position
	Lineage     int64         // of the store, from 1
	Incarnation UUID          // of a row
	Owner       UUID          // the node id that holds the claim
	Stamp       time.Duration // the time of the claim as it is stored
	Age         time.Duration // of a claim: by the store's clock at Reset, by the node's monotonic one at Publish
	Expires     time.Duration // when the claim does, by the clock of the store; zero for the hold time later
	Deadline    time.Duration
	Action      string        // what a record asks for; "" to be scheduled
	Of          int           // the number of the submission that another one is about
	Next        UUID          // of a row, from now on
	Only        UUID          // the one incarnation that an instruction acts on; none for whichever there is
	Request     UUID          // names the request that asks for it, which may be repeated; none for no name
	Written     string        // the deadline as the application has written it
	Every       time.Duration // the interval of a series
	NotAfter    time.Duration // the last instant at which it may be published; zero for no end
	Due         time.Duration // when the row falls due next; zero for no change
	Until       time.Duration // the latest due time that was asked for; the end of a hang; for faults see Fault
	Wall        time.Duration // what the clock of the node says
	Mono        time.Duration // what its monotonic clock says
	Limit       int           // the largest number that was asked for
	Nth         int           // the place within a call
	Payload     uint64        // a digest of key, value and the headers to be relayed
	Key         uint64        // a digest of the key; 0 for none
	Flaw        string        // see above
	Skipped     bool          // it was taken in before
	Adopted     bool          // it is where an older deployment had come to
	Unsent      bool          // whoever resets the claim knows that nothing was appended under it
	Behind      bool          // it has not its turn: Due is for one that is not the first of its line
	Former      bool          // content that was replaced may appear
	Past        bool          // an instruction came past Kafka, from an operator
	Twice       bool          // the brokers have appended one publish twice
	Text        string        // for people
	Windows     []Window      // of a process that goes by others than the configuration says, or of a queue
	Queue       UUID          // of tasks
	Task        UUID          // of a queue
	Run         UUID          // the one time that a task has run
	Priority    int           // of a task: the higher the sooner
	Arrival     int64         // its place among all tasks of its queue
	Paths       string        // where a queue lies, with commas between them
	Lasts       time.Duration // for how long a task may run
	Sync        bool          // its tasks run one at a time
	Drain       bool          // what waits in a queue is run before it is gone
	Deleting    bool          // it is being deleted

	Config *Config // of Configure
}

// row names the row that the event is about.
func (e *Event) row() rowKey { return rowKey{e.ID, e.Topic} }

// rowKey names a row of any incarnation.
type rowKey struct{ id, topic string }
