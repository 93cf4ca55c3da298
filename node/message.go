package node

import (
	"time"

	"github.com/google/uuid"
)

// Header is one Kafka record header. Headers are an ordered list in which names repeat; a nil Value is a null,
// which differs from an empty one. The name is kept as the bytes that came, whether they are UTF-8 or not.
type Header struct {
	Name  string
	Value []byte
}

// Record is a Kafka record as Source hands it over or Sink takes it. A nil Key or Value is a null, which
// differs from an empty one. Partition, Offset, LeaderEpoch and Timestamp describe a polled record (LeaderEpoch is
// UnknownEpoch where the broker does not tell it, Timestamp the zero value where the record has none); Publish ignores
// them. A polled record with Control set is none that an
// application wrote: it marks the end of a transaction, say. It has an offset, and nothing else.
type Record struct {
	Topic       string
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Timestamp   time.Time
	Control     bool
	Key         []byte
	Value       []byte
	Headers     []Header
}

// Message is a submission on its way through the store. ID and Lane together name it: while one waits or is
// ready, another submission of the same id for the same lane is a duplicate and is ignored.
type Message struct {
	// ID is the application's name for the message: 1 to 128 bytes of UTF-8 without NUL.
	ID string

	// Lane is the output topic that the message fires on.
	Lane string

	// Incarnation is drawn by the engine for every insert and never again. It tells this message from every
	// other that bears the same id before or after it, which is what makes a delete safe (deviation D2).
	Incarnation uuid.UUID

	// Deadline is when the message is to appear on its lane: UTC, whole microseconds, years 1 to 9999.
	Deadline time.Time

	// NotAfter is the last instant at which it may be published: UTC, whole microseconds; the zero value for no end.
	NotAfter time.Time

	// Line is the line that it stands in: messages of a lane with one Line come out one after the other, see Turn. The
	// zero value for none.
	Line uuid.UUID

	// Recurrence says which occurrence of a series it is.
	Recurrence

	// Origin is the record that the message was submitted by, for people who look for it; the zero value if it is
	// not known.
	Origin Origin

	// Key, Value and Headers are relayed byte for byte. The Chronos headers are already gone, except for those
	// that the configuration relays.
	Key     []byte
	Value   []byte
	Headers []Header
}

// Origin names a record of an input topic.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Size returns the number of payload bytes that m holds in memory or on the wire: key, value and headers.
func (m *Message) Size() int {
	size := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += len(h.Name) + len(h.Value)
	}
	return size
}

// Expired reports whether m is not to be published at an instant any more.
func (m *Message) Expired(at time.Time) bool { return !m.NotAfter.IsZero() && at.After(m.NotAfter) }

// Ref names one incarnation of a message. Nothing else justifies a delete.
type Ref struct {
	ID          string
	Lane        string
	Incarnation uuid.UUID
}

// Ref returns the reference that names m and no other message.
func (m *Message) Ref() Ref {
	return Ref{ID: m.ID, Lane: m.Lane, Incarnation: m.Incarnation}
}

// Claim is the responsibility of one node for one message: what the store wrote when the message became ready.
// A claim is still held as long as the stored ReadiedAt and ReadiedBy equal these.
type Claim struct {
	Ref

	// ReadiedAt is the store's clock when the claim was made: UTC, whole microseconds, exactly as stored.
	ReadiedAt time.Time

	// ReadiedBy is the node id of the claim's owner.
	ReadiedBy uuid.UUID

	// Expires is the store's clock from which on the claim counts as that of a failed node: ReadiedAt plus the hold
	// time of its owner, so that nodes with different settings do not suspect each other.
	Expires time.Time
}

// Reason says, as a stable code, why a record was rejected.
type Reason string

// The reasons for rejecting a record. Those of package calendar, for series, are reasons as well.
const (
	MissingID        Reason = "missing_id"
	RepeatedID       Reason = "repeated_id"
	EmptyID          Reason = "empty_id"
	IDTooLong        Reason = "id_too_long"
	InvalidID        Reason = "invalid_id"
	MissingDeadline  Reason = "missing_deadline"
	RepeatedDeadline Reason = "repeated_deadline"
	InvalidDeadline  Reason = "invalid_deadline"
	RepeatedHeader   Reason = "repeated_header"
	UnknownAction    Reason = "unknown_action"
	UnknownTopic     Reason = "unknown_topic"
	TooManyTargets   Reason = "too_many_targets"
	DeadlineAndDelay Reason = "deadline_and_delay"
	InvalidDelay     Reason = "invalid_delay"
	InvalidNotAfter  Reason = "invalid_not_after"
	InvalidConfirm   Reason = "invalid_confirm"
	InvalidRepeat    Reason = "invalid_repeat"
	InvalidUntil     Reason = "invalid_until"
	InvalidQueue     Reason = "invalid_queue"
	InvalidTask      Reason = "invalid_task"
	TooLarge         Reason = "too_large"
	TooFar           Reason = "too_far"
	TooManyHeaders   Reason = "too_many_headers"
	HeadersTooLarge  Reason = "headers_too_large"
	StoreRefused     Reason = "store_refused"
	PublishRejected  Reason = "publish_rejected"
	Expired          Reason = "expired"
	InvalidRequest   Reason = "invalid_request"
	CallbackFailed   Reason = "callback_failed"

	// Of records of other formats.
	MissingKey   Reason = "missing_key"
	MissingTopic Reason = "missing_topic"
	InvalidJSON  Reason = "invalid_json"
	MissingField Reason = "missing_field"
	InvalidField Reason = "invalid_field"
)

// noSooner returns when a message falls due that is to do so at an instant: nothing falls due before its deadline,
// since whoever looks for messages by their deadlines begins where these fall due (node/store/inspect). It would
// otherwise for an instant in the past, and by a wall clock that was set back.
func noSooner(m *Message, due time.Time) time.Time {
	if due.Before(m.Deadline) {
		return m.Deadline
	}
	return due.Truncate(time.Microsecond)
}
