package node

import (
	"errors"
	"fmt"
	"time"
)

// PublishKind is what became of a record that was given to a sink. It is an error by itself, like a syscall.Errno, for
// where there is no more to say; see KindOf.
type PublishKind int

const (
	// OutcomeUnknown says that nobody knows: the record may be there, or may still appear later. On callback lanes the
	// request may have been made.
	OutcomeUnknown PublishKind = iota

	// Acknowledged says that all in-sync replicas have the record, or that the receiver has taken it.
	Acknowledged

	// RecordRejected says that the topic or the receiver will never accept this record, for example because it is too
	// large. It was not appended; a callback is not to be tried again.
	RecordRejected

	// TopicMissing says that the topic does not exist, or that the node may not write to it. The record was not
	// appended. Somebody has to act; trying again soon is of little use.
	TopicMissing

	// PartUnavailable says that the record was not sent, since the part of its lane that it belongs to does not answer.
	// That says nothing about the other parts.
	PartUnavailable

	// NotSent says that the record was not sent, for want of time or of a connection. That is not the fault of where it
	// belongs.
	NotSent

	// MessageGone says that the record was not sent, since the store does not have its message any more: it was
	// replaced or settled meanwhile (Settling.Fire). It says nothing about the lane.
	MessageGone
)

// sent reports whether a record may have come out: that is known of no other kind but Acknowledged.
func (k PublishKind) sent() bool { return k == OutcomeUnknown || k == Acknowledged }

// Untried reports whether a publish was not tried, for whatever reason: what was not keeps its place in the order of
// its lane, and it does not count as an attempt.
func (k PublishKind) Untried() bool { return k == PartUnavailable || k == NotSent || k == MessageGone }

// Permanent reports whether a publish will fail again until somebody acts.
func (k PublishKind) Permanent() bool { return k == RecordRejected || k == TopicMissing }

// PublishError is an error of a sink that says what became of a record.
type PublishError struct {
	Kind PublishKind

	// Part is the name of the part that does not answer, see Part: of a record that is PartUnavailable, that was sent
	// and not answered, or that was given up after that. Empty where that is not known.
	Part string

	// After is how long to wait at least before a callback is tried again. The back-off of the engine applies as well.
	After time.Duration

	// Status is that of the answer of a receiver that has rejected a callback, 0 if there was none, and Answer how its
	// body begins: both are told to those who look into the dead letter.
	Status int
	Answer []byte

	// Err says why, in a sentence; nil where nothing is known but the kind.
	Err error
}

// Error returns the sentence.
func (p *PublishError) Error() string {
	switch {
	case p.Err != nil:
		return p.Err.Error()
	case p.Kind == PartUnavailable:
		return "not sent: " + p.Part + " does not answer"
	case p.Part != "":
		return p.Part + " does not answer"
	}
	return p.Kind.Error()
}

// Unwrap returns the cause.
func (p *PublishError) Unwrap() error { return p.Err }

// Is reports whether target is the kind.
func (p *PublishError) Is(target error) bool { return target == p.Kind }

// Error returns a phrase.
func (k PublishKind) Error() string {
	switch k {
	case OutcomeUnknown:
		return "outcome unknown"
	case Acknowledged:
		return "acknowledged"
	case RecordRejected:
		return "rejected by the broker"
	case TopicMissing:
		return "topic missing or forbidden"
	case PartUnavailable, NotSent:
		return "not sent"
	case MessageGone:
		return "not sent: the store does not have the message any more"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// FailureOf returns what an error of a sink says: that the outcome is unknown, of one that says nothing.
func FailureOf(err error) PublishError {
	if p, is := errors.AsType[*PublishError](err); is {
		return *p
	}
	kind, _ := errors.AsType[PublishKind](err)
	return PublishError{Kind: kind, Err: err}
}

// KindOf returns what became of a record whose publish ended with err, which may be nil.
func KindOf(err error) PublishKind {
	if err == nil {
		return Acknowledged
	}
	return FailureOf(err).Kind
}

// failure is a claimed message that could not be published, and why.
type failure struct {
	*holding

	err  error
	took time.Duration // how long the call to the sink took

	// letter is why its copy could not be published on the dead-letter topic; nil if it was not tried.
	letter error
}

// part returns the part that has not answered.
func (f *failure) part() Part {
	if name := FailureOf(f.err).Part; name != "" {
		return Part{f.Lane, name}
	}
	return f.Where()
}

// parks reports whether the message waits for a part that does not answer: it was not tried for that reason, or it was
// a probe.
func (f *failure) parks() bool {
	kind := KindOf(f.err)
	return unavailable(f.err) || f.Part != "" && !kind.Untried() && kind != RecordRejected
}

// cause returns why, for people: with what became of the copy.
func (f *failure) cause() error {
	if f.letter == nil || KindOf(f.letter) == RecordRejected {
		return f.err
	}
	why := fmt.Errorf("%w; and its dead letter: %w", f.err, f.letter)
	return &PublishError{Kind: KindOf(f.err), Err: why}
}

// unsent reports whether surely neither the message nor its copy was appended.
func (f *failure) unsent() bool {
	return !KindOf(f.err).sent() && (f.letter == nil || !KindOf(f.letter).sent())
}

// reached reports whether a broker has answered about the message, or about its copy if that was tried.
func (f *failure) reached() bool {
	if f.letter != nil {
		return KindOf(f.letter) == RecordRejected
	}
	return KindOf(f.err) == RecordRejected
}

// unavailable reports whether a publish failed with err because a part of its lane does not answer, whether the record
// was sent or not.
func unavailable(err error) bool { return err != nil && FailureOf(err).Part != "" }
