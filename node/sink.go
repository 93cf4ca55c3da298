package node

import "context"

// Sink is where the messages of lanes come out: the producing half of Kafka. It is safe for concurrent use.
type Sink interface {
	// Publish appends records to their topics, each in the partition that a Java producer would choose for its
	// key, and returns when each has a result, at the latest after the publish timeout of Config. The results
	// are in order: nil says that all in-sync replicas have the record. What KindOf says of an error is what became of
	// the record; an error that says nothing means that the outcome is unknown.
	//
	// A partition that has let a record run into the time limit does not hold up the next publishes: its records fail
	// at once as PartUnavailable, except for some that are sent now and then to find out whether it is back.
	//
	// Records of one topic and key that are in one call are appended in the order of the call.
	Publish(ctx context.Context, records []Record) []error
}

// Settling is a Sink and a Store in one, as far as a fire is concerned: what it publishes is settled in the same step,
// so that neither happens without the other. It is safe for concurrent use.
type Settling interface {
	// Fire publishes records, as Sink.Publish does, and settles the messages that they are of, as Store.Settle
	// does: each together with its record, or not at all. The results are in order: how each was settled, and
	// the error of its publish; what has one is not settled. A message that the store does not have any more under that
	// incarnation is MessageGone: its record is not published. The results belong to the caller.
	Fire(ctx context.Context, records []Record, next []Next) ([]Settled, []error)
}

// Begins is for a callback sink that has let a request wait for its turn: it says that the request is about to begin,
// and reports whether it may. The pace of its lane counts it from then on, and not from when the engine has handed it
// over, or what has waited would go out beside what may begin by then. One that has waited for a second may not begin,
// and is NotSent: its place was given to another. A sink that begins at once need not ask.
func Begins(ctx context.Context) bool {
	begins, asked := ctx.Value(beginsKey{}).(func() bool)
	return !asked || begins()
}

// WithBegins returns a context for Publish with which Begins returns what begins says.
func WithBegins(ctx context.Context, begins func() bool) context.Context {
	return context.WithValue(ctx, beginsKey{}, begins)
}

type beginsKey struct{}
