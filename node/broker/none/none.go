// Package none is the broker of a node without Kafka: nothing comes from it, and there is no topic where something
// could come out. What such a node takes in comes by its HTTP API, and comes out on callback lanes.
//
// It is a broker like any other to the engine, which therefore needs no other way of working: the loop that polls goes
// on, compares the state of the store with its own once a second, and so hears that the store was set back.
package none

import (
	"context"
	"time"

	"chronos/node"
)

// pollWait is how long a poll waits in which nothing comes, as long as a poll of Kafka does.
const pollWait = 250 * time.Millisecond

// Source is a node.Source of no topics. It has no partitions, now or ever.
type Source struct{ clock node.Clock }

// Sink is a node.Sink for no topics.
type Sink struct{}

var (
	_ node.Source = (*Source)(nil)
	_ node.Sink   = (*Sink)(nil)
)

// NewSource returns a source whose polls wait on a clock.
func NewSource(clock node.Clock) *Source { return &Source{clock} }

// Poll implements node.Source: nothing comes.
func (s *Source) Poll(ctx context.Context) (node.Batch, error) {
	s.clock.Sleep(ctx, pollWait)
	return node.Batch{}, nil
}

// Start implements node.Source. No partition was assigned that could be started.
func (*Source) Start(context.Context, []node.Place) error { return nil }

// Pause implements node.Source.
func (*Source) Pause([]node.Partition) {}

// Commit implements node.Source.
func (*Source) Commit(context.Context, []node.Place) error { return nil }

// Extents implements node.Source: there are no partitions, and so nothing that a store which was set back would have to
// take in again.
func (*Source) Extents(context.Context) ([]node.Extent, error) { return nil, nil }

// Leave implements node.Source. There is no group.
func (*Source) Leave(context.Context) error { return nil }

// Joined reports whether the node is in its consumer group, which is all that a node without one needs.
func (*Source) Joined() bool { return true }

// Close has nothing to close.
func (*Source) Close(context.Context) error { return nil }

// Publish implements node.Sink: no topic exists. Messages for topics are there if the node once had a Kafka; they wait
// in the store until one has it again.
func (*Sink) Publish(_ context.Context, records []node.Record) []error {
	errs := make([]error, len(records))
	for i := range errs {
		errs[i] = node.TopicMissing
	}
	return errs
}

// Close has nothing to close.
func (*Sink) Close() {}
