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
	// [Key, Partition, Offset, Flaw]. The same Message may be appended twice, by a producer that tries again.
	Submit Kind = "submit"

	// Fire: a record appeared on an output topic: Message, Payload, [Topic, Key, Partition, Incarnation, Direct,
	// Twice].
	Fire Kind = "fire"

	// Copy: a record appeared on a dead-letter topic: Message, [Incarnation].
	Copy Kind = "copy"
)

// Processes.
const (
	// Start: a process begins: Owner (its node id).
	Start Kind = "start"

	// Term: a process is asked to end in order. It counts as something that goes wrong: others take over.
	Term Kind = "term"

	// Stop: a process has ended in order.
	Stop Kind = "stop"

	// Crash: a process was killed.
	Crash Kind = "crash"

	// Jump: the wall clock of the process was set, or the store's where Node is empty.
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

	// Poll: the process asks for records; it holds no batch any more. The Deliver events that follow are the next one.
	Poll Kind = "poll"

	// Deliver: one record of the batch: Message.
	Deliver Kind = "deliver"

	// Commit: the group's offset of Partition moves to Offset.
	Commit Kind = "commit"

	// Rewind: the group's offset of Partition was set back to Offset, by a person or by a commit that came late.
	Rewind Kind = "rewind"

	// Reject: the node says that a submission is none: Message, [Text].
	Reject Kind = "reject"
)

// The store. Node is who asked for it, where that is known.
const (
	// Insert: a row appears: Message, ID, Topic, Incarnation, Deadline, [Owner, Stamp: it is claimed from the start].
	Insert Kind = "insert"

	// Duplicate: an insert found another incarnation of its id: Message.
	Duplicate Kind = "duplicate"

	// Present: a node looked whether an id is stored: ID, Topic, [Absent].
	Present Kind = "present"

	// Ready: a node was given a claim: ID, Topic, Incarnation, Nth (of this call, from 0), Limit, Until.
	Ready Kind = "ready"

	// Claim: a row is claimed: ID, Topic, Incarnation, Owner, [Stamp].
	Claim Kind = "claim"

	// Reset: a claim is taken off a row: ID, Topic, Incarnation, Owner (who had it), [Stamp, Age, Due].
	Reset Kind = "reset"

	// Delete: a row is gone: ID, Topic, Incarnation.
	Delete Kind = "delete"

	// DeleteDone: a node's delete was executed, whatever it found: ID, Topic, Incarnation.
	DeleteDone Kind = "delete-done"

	// Rollback: the store has lost its last commits. The Keep events that follow are what is left.
	Rollback Kind = "rollback"

	// Keep: a row that a rollback has left: ID, Topic, Incarnation, [Owner, Stamp].
	Keep Kind = "keep"
)

// Publishing.
const (
	// Publish: a node begins to publish: Message, Topic, Wall, [Direct; or Incarnation and Age, of the claim].
	Publish Kind = "publish"

	// Unknown: a publish has ended without a known outcome: Message.
	Unknown Kind = "unknown"
)

// The run.
const (
	// Configure: the first event: Config.
	Configure Kind = "configure"

	// Fault: something goes wrong: [Node, Text].
	Fault Kind = "fault"

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
	Offset      int64         // of an input record, or the next one to be consumed
	Incarnation UUID          // of a row
	Owner       UUID          // the node id that holds the claim
	Stamp       time.Duration // the time of the claim as it is stored
	Age         time.Duration // of a claim: by the store's clock at Reset, by the node's monotonic one at Publish
	Deadline    time.Duration
	Due         time.Duration // when the row falls due next; zero for no change
	Until       time.Duration // the latest due time that was asked for
	Wall        time.Duration // what the clock of the node says
	Limit       int           // the largest number that was asked for
	Nth         int           // the place within a call
	Payload     uint64        // a digest of key, value and the headers to be relayed
	Key         uint64        // a digest of the key; 0 for none
	Flaw        string        // see above
	Absent      bool          // the id was not stored
	Direct      bool          // it had lapsed and was not stored
	Twice       bool          // the brokers have appended one publish twice
	Text        string        // for people

	Config *Config // of Configure
}

// row names the row that the event is about.
func (e *Event) row() rowKey { return rowKey{e.ID, e.Topic} }

// rowKey names a row of any incarnation.
type rowKey struct{ id, topic string }
