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

// Operation names an operation of a node, or the part of one that is a loop of its own.
type Operation string

// The operations of a node.
const (
	Enqueue  Operation = "enqueue"
	Claiming Operation = "claim" // the part of fire that claims
	Fire     Operation = "fire"
	Settle   Operation = "settle" // the part of fire that deletes
	Call     Operation = "call"   // the part of fire that makes callbacks
	Recover  Operation = "recover"
)

// Port names one of the ports that can fail.
type Port string

// The ports that can fail.
const (
	PortStore    Port = "store"
	PortSource   Port = "source"
	PortSink     Port = "sink"
	PortCallback Port = "callback" // the sink of callback lanes
)

// Started is the first event of a node.
type Started struct {
	NodeID uuid.UUID
}

// Failed says that a call to a port failed and will be tried again. Attempt counts the failures in a row of
// this operation on this port, from 1. Where the sink fails, Lane says on which lane.
type Failed struct {
	Operation Operation
	Port      Port
	Lane      string
	Call      string
	Err       error
	Attempt   int
}

// Resumed says that an operation's call to a port succeeded after it had failed, and how long that took.
type Resumed struct {
	Operation Operation
	Port      Port
	Lane      string
	Attempts  int
	Outage    time.Duration
}

// Polled says that records came from the input topics.
type Polled struct {
	Records int
}

// Assigned says that partitions have become this node's, and where it starts to read each: from Starts[i] to the end
// of Assignments[i] there are records waiting.
type Assigned struct {
	Assignments []Assignment
	Starts      []Place
}

// Waiting returns how many records wait to be read, at most.
func (e Assigned) Waiting() (records int64) {
	for i, a := range e.Assignments {
		records += max(0, a.End-max(a.First, e.Starts[i].Offset))
	}
	return records
}

// StartedOver says that partitions are read from other places than where this node had come to, because the store's
// positions are these.
type StartedOver struct {
	Places []Place
}

// RecordsLost says that Kafka has deleted records before they were consumed: retention is shorter than the delay.
type RecordsLost struct {
	Losses []Loss
}

// AtMost returns how many records were lost, at most.
func (e RecordsLost) AtMost() (records int64) {
	for _, l := range e.Losses {
		records += l.To - l.From
	}
	return records
}

// LineageChanged says that the store has begun another history, because it was set back or a position was lowered; To
// is lower than From where it was set back and does not know it yet. The node has forgotten its claims.
type LineageChanged struct {
	From, To  int64
	Forgotten []Claim
}

// CatchingUp says that this node has had the store begin a new lineage: nothing is claimed until all that is in the
// input topics now is taken in again.
type CatchingUp struct {
	From, To int64
	Marks    []Extent
}

// CaughtUp says that the store has caught up: messages are claimed again.
type CaughtUp struct {
	Lineage int64
}

// Committed says that the consumer group was told of positions.
type Committed struct {
	Places []Place
}

// SkippedTaken says that records came again that had been taken in before. Nothing was done for them.
type SkippedTaken struct {
	Records int
}

// SettingsDiffer says that another node works with another setting. Each value is told once.
type SettingsDiffer struct {
	Setting      string
	Ours, Theirs time.Duration
	Node         uuid.UUID
}

// IntakePaused says that this node takes nothing in, because somebody has paused the intake. Claims are made, and
// messages come out, all the same.
type IntakePaused struct{}

// IntakeResumed says that somebody has resumed the intake, and this node goes on.
type IntakeResumed struct{}

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

// Enqueued says that messages were stored.
type Enqueued struct {
	Messages []Message
}

// Ignored says that submissions were duplicates of messages that wait or are ready.
type Ignored struct {
	Messages []Message
}

// Decision is what became of one instruction.
type Decision struct {
	MessageID

	Action  Action
	Outcome Outcome
}

// Decided says what became of instructions that ask for more than to be scheduled, or want to be told. One that is no
// valid instruction is Rejected instead; one that was taken in before, by a call whose reply was lost, is not told of
// here: its outcome is in the store.
type Decided struct {
	Decisions []Decision
}

// Claimed says that messages became ready for this node.
type Claimed struct {
	Messages []Ready
}

// Fired says that messages were published on their output topics and acknowledged. At is the node's wall clock
// after the acknowledgement, and Took how long the call to the sink took.
type Fired struct {
	Messages []Message
	At       time.Time
	Took     time.Duration
}

// Unpublished says that messages could not be published. They have been given back to the store, or are given
// back as soon as it answers, to fall due again at Retry.
type Unpublished struct {
	Messages []Message
	Err      error // the first one's
	Retry    time.Time
	Took     time.Duration // how long the call to the sink took, at most

	// Permanent says that trying again soon is of little use, because the broker rejects the record or the
	// topic is missing: somebody has to act.
	Permanent bool
}

// Lapsed says that messages were not published, and are to be deleted: the instant after which they were not to be
// published has passed, and there is no dead-letter topic for a copy. If there is one, they are DeadLettered.
type Lapsed struct {
	Messages []Message
}

// GaveUp says that a message on a callback lane will not be delivered: its receiver refuses it, or it has failed for as
// long as its lane tries again, or its time has passed. It is to be deleted; a series goes on. DeadLetter is the lane
// for which a copy is stored, empty for none: DeadLettered tells when that has arrived. Took is how long the last call
// took.
type GaveUp struct {
	Message    Message
	Err        error
	DeadLetter string
	Took       time.Duration
}

// DeadLettered says that messages were copied to their dead-letter topics and acknowledged: submissions that
// were rejected, whose Lane is the dead-letter topic, and messages that their output topic rejects for good. Took is
// how long the call to the sink took.
type DeadLettered struct {
	Messages []Message
	Took     time.Duration
}

// Deleted says that fired messages are gone from the store.
type Deleted struct {
	Refs []Ref
}

// Recurred says that occurrences of series are settled, and the next ones of them wait.
type Recurred struct {
	Next []Next
}

// PassedOver says that occurrences of series were missed, and are not published, by the policies of their series:
// others take their place, or none.
type PassedOver struct {
	Next []Next
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

// RowsLocked says that another session has locked rows of the store, for longer than a moment. Messages are those that
// are settled or given back later for it, and Blocked the partitions of input topics whose next record is about a
// locked row: they are read on later. Everything else goes on.
type RowsLocked struct {
	Messages []MessageID
	Blocked  []Place
}

// LeftBehind says what the store could not be told: claims that were not given back, which others take over after the
// hold time, and fired messages that were not deleted, which they fire again. That is so at the end of a run, and where
// too many rows are locked for long.
type LeftBehind struct {
	Claims int
	Fired  int
}

func (Started) event()        {}
func (Failed) event()         {}
func (Resumed) event()        {}
func (Polled) event()         {}
func (Assigned) event()       {}
func (StartedOver) event()    {}
func (RecordsLost) event()    {}
func (LineageChanged) event() {}
func (CatchingUp) event()     {}
func (CaughtUp) event()       {}
func (Committed) event()      {}
func (SkippedTaken) event()   {}
func (SettingsDiffer) event() {}
func (IntakePaused) event()   {}
func (IntakeResumed) event()  {}
func (LeftGroup) event()      {}
func (Rejected) event()       {}
func (Enqueued) event()       {}
func (Ignored) event()        {}
func (Decided) event()        {}
func (Claimed) event()        {}
func (Fired) event()          {}
func (Unpublished) event()    {}
func (Lapsed) event()         {}
func (DeadLettered) event()   {}
func (GaveUp) event()         {}
func (Deleted) event()        {}
func (Recurred) event()       {}
func (PassedOver) event()     {}
func (Missing) event()        {}
func (Abandoned) event()      {}
func (Released) event()       {}
func (Suspected) event()      {}
func (RowsLocked) event()     {}
func (LeftBehind) event()     {}
