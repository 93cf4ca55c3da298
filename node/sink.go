package node

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sink is where the messages of lanes come out: the producing half of Kafka. It is safe for concurrent use.
type Sink interface {
	// Publish appends records to their topics, each in the partition that a Java producer would choose for its
	// key, and returns when each has a result, at the latest after the publish timeout of Config. The results
	// are in order: nil says that all in-sync replicas have the record. ErrRejected, ErrNoTopic and ErrUnsent say that
	// it was not appended and never will be by this call. Any other error says that the outcome is unknown: the record
	// may be there, or may still appear later.
	//
	// A record that runs into the time limit since its partition does not answer has an UnavailableError. Such a
	// partition does not hold up the next publishes: its records fail at once, unsent, except for some that are sent
	// now and then to find out whether it is back.
	//
	// Records of one topic and key that are in one call are appended in the order of the call.
	Publish(ctx context.Context, records []Record) []error
}

// Settling is a Sink and a Store in one, as far as a fire is concerned: what it publishes is settled in the same step,
// so that neither happens without the other. It is safe for concurrent use.
type Settling interface {
	// Fire publishes records, as Sink.Publish does, and settles the messages that they are of, as Store.Settle
	// does: each together with its record, or not at all. The results are in order: how each was settled, and
	// the error of its publish; what has one is not settled. ErrGone is the error of a message that the store does not
	// have any more under that incarnation: its record is not published. The results belong to the caller.
	Fire(ctx context.Context, records []Record, next []Next) ([]Settled, []error)
}

// ErrRejected marks an error of Sink.Publish: the topic will never accept this record, for example because it
// is too large. It was not appended.
var ErrRejected = errors.New("rejected by the broker")

// ErrNoTopic marks an error of Sink.Publish: the topic does not exist, or the node may not write to it.
// The record was not appended. Somebody has to act; trying again soon is of little use.
var ErrNoTopic = errors.New("topic missing or forbidden")

// ErrUnsent marks an error of Sink.Publish: the record was not sent, for want of time or of a connection. That is not
// the fault of where it belongs, unless the error is an UnavailableError as well.
var ErrUnsent = errors.New("not sent")

// UnavailableError is an error of Sink.Publish: the part of its lane that the record belongs to does not answer. It
// says nothing about the other parts of the lane.
type UnavailableError struct {
	// Part is the name of the part, see Part.
	Part string

	// Sent says that the record was sent, so that the outcome is unknown. Otherwise the error is ErrUnsent.
	Sent bool

	// Err says why; nil where nothing is known but that.
	Err error
}

// Error returns a sentence.
func (u *UnavailableError) Error() string {
	text := u.Part + " does not answer"
	if !u.Sent {
		text = "not sent: " + text
	}
	if u.Err != nil {
		text += ": " + u.Err.Error()
	}
	return text
}

// Unwrap returns the cause, and ErrUnsent if the record was not sent.
func (u *UnavailableError) Unwrap() []error {
	if u.Sent {
		return []error{u.Err}
	}
	return []error{ErrUnsent, u.Err}
}

// ErrGone marks an error of Settling.Fire: the store does not have the message any more, since it was replaced or
// settled meanwhile. It is ErrUnsent, and says nothing about the lane.
var ErrGone = fmt.Errorf("%w: the store does not have the message any more", ErrUnsent)

// Begins is for a callback sink that has let a request wait for its turn: it says that the request is about to begin,
// and reports whether it may. The pace of its lane counts it from then on, and not from when the engine has handed it
// over, or what has waited would go out beside what may begin by then. One that has waited for a second may not begin,
// and is ErrUnsent: its place was given to another. A sink that begins at once need not ask.
func Begins(ctx context.Context) bool {
	begins, asked := ctx.Value(beginsKey{}).(func() bool)
	return !asked || begins()
}

// WithBegins returns a context for Publish with which Begins returns what begins says.
func WithBegins(ctx context.Context, begins func() bool) context.Context {
	return context.WithValue(ctx, beginsKey{}, begins)
}

type beginsKey struct{}

// DeferredError is an error of Sink.Publish on callback lanes: the message was not delivered as far as anybody knows,
// and is to be tried again. It says nothing about other messages. An Err that is ErrUnsent says that nothing was
// tried, so that it does not count as an attempt.
type DeferredError struct {
	Err error

	// After is how long to wait at least. The back-off of the engine applies as well.
	After time.Duration
}

// Error returns the sentence of the cause.
func (d *DeferredError) Error() string { return d.Err.Error() }

// Unwrap returns the cause.
func (d *DeferredError) Unwrap() error { return d.Err }

// RefusedError is an error of Sink.Publish on callback lanes: the message will not be delivered, and is not to be tried
// again. It is ErrRejected, and tells those who look into the dead letter what the receiver has answered.
type RefusedError struct {
	Err error

	// Status is that of the answer, 0 if there was none, and Answer how its body begins.
	Status int
	Answer []byte
}

// Error returns the sentence of the cause.
func (r *RefusedError) Error() string { return r.Err.Error() }

// Unwrap returns the cause, and that it is ErrRejected.
func (r *RefusedError) Unwrap() []error { return []error{r.Err, ErrRejected} }
