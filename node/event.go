package node

import (
	"time"

	"github.com/google/uuid"
)

// Event is something that happened in the engine, as data: one of the types below. The engine does not log or
// count; whoever runs it gets every event, in the order of each operation, and decides what a person should
// see. An observer is called in the middle of an operation: it must be quick, safe for concurrent use, and
// must neither keep nor change what an event holds.
type Event interface {
	event()

	// Name is what the event is called wherever it is shown or counted: that of its type.
	Name() string

	// Fields are what is to be known of the event, for people and for counts: sizes in place of messages, and never
	// a key, a header or a value.
	Fields() []Field
}

// Field is one fact about an event. Its Value is a string, an int, a bool, a time.Time, a time.Duration or an error.
type Field struct {
	Name  string // words joined by underscores
	Value any
}

// Operation names one of the three operations of a node.
type Operation string

// The operations of a node.
const (
	Enqueue Operation = "enqueue"
	Fire    Operation = "fire"
	Recover Operation = "recover"
)

// Port names one of the two ports that can fail.
type Port string

// The ports that can fail.
const (
	PortStore  Port = "store"
	PortBroker Port = "broker"
)

// Started is the first event of a node.
type Started struct {
	NodeID uuid.UUID
}

// Failed says that a call to a port failed and will be tried again. Attempt counts the failures in a row of
// this operation on this port, from 1.
type Failed struct {
	Operation Operation
	Port      Port
	Call      string
	Err       error
	Attempt   int
}

// Resumed says that an operation's call to a port succeeded after it had failed, and how long that took.
type Resumed struct {
	Operation Operation
	Port      Port
	Attempts  int
	Outage    time.Duration
}

// Polled says that records came from the input topics.
type Polled struct {
	Records int
}

// Committed says that the offsets of a batch are stored.
type Committed struct {
	Records int
}

// LeftGroup says that the node could not reach the store for Outage and gave its partitions up.
type LeftGroup struct {
	Outage time.Duration
}

// Rejected says that a record is not a valid submission, or that the store can never keep it.
type Rejected struct {
	Record Record
	Reason Reason
	Detail string // one sentence

	// DeadLetter is the topic that a copy goes to; empty when the route has none. The copy is on its way:
	// DeadLettered tells when it has arrived.
	DeadLetter string
}

// Enqueued says that messages were stored. Those with Readied set were stored as claimed by this node.
type Enqueued struct {
	Messages []Insertion
}

// Ignored says that submissions were duplicates of messages that wait or are ready.
type Ignored struct {
	IDs []MessageID
}

// Claimed says that messages became ready for this node.
type Claimed struct {
	Messages []Readied
}

// Fired says that messages were published on their output topics and acknowledged. At is the node's wall clock
// after the acknowledgement. Direct messages had lapsed when they arrived and were never stored.
type Fired struct {
	Messages []Message
	At       time.Time
	Direct   bool
}

// Unpublished says that messages could not be published. They have been given back to the store, or are given
// back as soon as it answers, to fall due again at Retry.
type Unpublished struct {
	Messages []Message
	Err      error // the first one's
	Retry    time.Time
	Direct   bool

	// Permanent says that trying again soon is of little use, because the broker rejects the record or the
	// topic is missing: somebody has to act.
	Permanent bool
}

// DeadLettered says that messages were copied to their dead-letter topics and acknowledged: submissions that
// were rejected, whose Topic is the dead-letter topic, and messages that their output Topic rejects for good.
type DeadLettered struct {
	Messages []Message
}

// Deleted says that fired messages are gone from the store.
type Deleted struct {
	Refs []Ref
}

// Missing says that fired messages were gone from the store already. After a Repeated delete that is
// normal; otherwise a peer took over in the meantime and has fired them too.
type Missing struct {
	Refs     []Ref
	Repeated bool
}

// Abandoned says that claims had become too old to be published safely; they are given back.
type Abandoned struct {
	Claims []Claim
}

// Released says that claims were given back to the store.
type Released struct {
	Claims []Claim
}

// Suspected says that claims of a node that seems to have failed were reset, one event for each look.
type Suspected struct {
	Claims []Claim
}

// LeftBehind says, at the end of a run, what the store could not be told any more: claims that were not given back,
// which others take over after the hold time, and fired messages that were not deleted, which they fire again.
type LeftBehind struct {
	Claims int
	Fired  int
}

func (Started) event()      {}
func (Failed) event()       {}
func (Resumed) event()      {}
func (Polled) event()       {}
func (Committed) event()    {}
func (LeftGroup) event()    {}
func (Rejected) event()     {}
func (Enqueued) event()     {}
func (Ignored) event()      {}
func (Claimed) event()      {}
func (Fired) event()        {}
func (Unpublished) event()  {}
func (DeadLettered) event() {}
func (Deleted) event()      {}
func (Missing) event()      {}
func (Abandoned) event()    {}
func (Released) event()     {}
func (Suspected) event()    {}
func (LeftBehind) event()   {}

// Name returns the name.
func (Started) Name() string { return "Started" }

// Name returns the name.
func (Failed) Name() string { return "Failed" }

// Name returns the name.
func (Resumed) Name() string { return "Resumed" }

// Name returns the name.
func (Polled) Name() string { return "Polled" }

// Name returns the name.
func (Committed) Name() string { return "Committed" }

// Name returns the name.
func (LeftGroup) Name() string { return "LeftGroup" }

// Name returns the name.
func (Rejected) Name() string { return "Rejected" }

// Name returns the name.
func (Enqueued) Name() string { return "Enqueued" }

// Name returns the name.
func (Ignored) Name() string { return "Ignored" }

// Name returns the name.
func (Claimed) Name() string { return "Claimed" }

// Name returns the name.
func (Fired) Name() string { return "Fired" }

// Name returns the name.
func (Unpublished) Name() string { return "Unpublished" }

// Name returns the name.
func (DeadLettered) Name() string { return "DeadLettered" }

// Name returns the name.
func (Deleted) Name() string { return "Deleted" }

// Name returns the name.
func (Missing) Name() string { return "Missing" }

// Name returns the name.
func (Abandoned) Name() string { return "Abandoned" }

// Name returns the name.
func (Released) Name() string { return "Released" }

// Name returns the name.
func (Suspected) Name() string { return "Suspected" }

// Name returns the name.
func (LeftBehind) Name() string { return "LeftBehind" }

// Fields returns what is to be known.
func (e LeftBehind) Fields() []Field {
	return []Field{{"claims", e.Claims}, {"fired", e.Fired}}
}

// Fields returns what is to be known.
func (e Started) Fields() []Field {
	return []Field{{"node_id", e.NodeID.String()}}
}

// Fields returns what is to be known.
func (e Failed) Fields() []Field {
	return []Field{
		{"operation", string(e.Operation)},
		{"port", string(e.Port)},
		{"call", e.Call},
		{"error", e.Err},
		{"attempt", e.Attempt},
	}
}

// Fields returns what is to be known.
func (e Resumed) Fields() []Field {
	return []Field{
		{"operation", string(e.Operation)},
		{"port", string(e.Port)},
		{"attempts", e.Attempts},
		{"outage", e.Outage},
	}
}

// Fields returns what is to be known.
func (e Polled) Fields() []Field {
	return []Field{{"records", e.Records}}
}

// Fields returns what is to be known.
func (e Committed) Fields() []Field {
	return []Field{{"records", e.Records}}
}

// Fields returns what is to be known.
func (e LeftGroup) Fields() []Field {
	return []Field{{"outage", e.Outage}}
}

// Fields returns what is to be known.
func (e Rejected) Fields() []Field {
	return []Field{
		{"topic", e.Record.Topic},
		{"partition", int(e.Record.Partition)},
		{"offset", int(e.Record.Offset)},
		{"reason", string(e.Reason)},
		{"detail", e.Detail},
		{"copied_to", e.DeadLetter},
	}
}

// Fields returns what is to be known.
func (e Enqueued) Fields() []Field {
	return []Field{{"messages", len(e.Messages)}}
}

// Fields returns what is to be known.
func (e Ignored) Fields() []Field {
	return []Field{{"messages", len(e.IDs)}}
}

// Fields returns what is to be known.
func (e Claimed) Fields() []Field {
	return []Field{{"messages", len(e.Messages)}}
}

// Fields returns what is to be known.
func (e Fired) Fields() []Field {
	return []Field{{"messages", len(e.Messages)}, {"at", e.At}, {"direct", e.Direct}}
}

// Fields returns what is to be known.
func (e Unpublished) Fields() []Field {
	return []Field{
		{"messages", len(e.Messages)},
		{"error", e.Err},
		{"retry", e.Retry},
		{"direct", e.Direct},
		{"permanent", e.Permanent},
	}
}

// Fields returns what is to be known.
func (e DeadLettered) Fields() []Field {
	return []Field{{"messages", len(e.Messages)}}
}

// Fields returns what is to be known.
func (e Deleted) Fields() []Field {
	return []Field{{"messages", len(e.Refs)}}
}

// Fields returns what is to be known.
func (e Missing) Fields() []Field {
	return []Field{{"messages", len(e.Refs)}, {"repeated", e.Repeated}}
}

// Fields returns what is to be known.
func (e Abandoned) Fields() []Field {
	return []Field{{"messages", len(e.Claims)}}
}

// Fields returns what is to be known.
func (e Released) Fields() []Field {
	return []Field{{"messages", len(e.Claims)}}
}

// Fields returns what is to be known.
func (e Suspected) Fields() []Field {
	return []Field{{"messages", len(e.Claims)}}
}
