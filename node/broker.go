package node

import (
	"context"
	"errors"
)

// Broker is Kafka as the engine sees it: one consumer in a consumer group, and one producer.
//
// Poll, Commit and Leave are called by the enqueue operation only, one at a time; Publish may be called
// concurrently with them and with itself.
type Broker interface {
	// Poll returns the next records of the partitions that this node owns, in offset order within each
	// partition; none when nothing came within a short time of the adapter's choice, or when ctx is done. It
	// joins the group when the node is not in it. The records belong to the caller.
	//
	// From a Poll that returned records until the next Poll or Leave, their partitions are not given up
	// voluntarily: a rebalance waits. They can still be lost, when the group has given the node up for dead.
	//
	// An error means that nothing was returned and nothing was skipped.
	Poll(ctx context.Context) ([]Record, error)

	// Commit stores, for each partition in records, the offset after the highest one there. The records are
	// those of the last Poll. Partitions that the node has lost since that Poll are left out silently: their
	// new owner has begun at the last commit. An error means that some or all of it may not be stored.
	Commit(ctx context.Context, records []Record) error

	// Leave gives up all partitions and leaves the consumer group, without committing anything. The next Poll
	// joins it again. It is for a node that can read but not store, so that a peer that can takes over.
	Leave(ctx context.Context) error

	// Publish appends records to their topics, each in the partition that a Java producer would choose for its
	// key, and returns when each has a result, at the latest after the publish timeout of Config. The results
	// are in order: nil says that all in-sync replicas have the record. ErrRejected and ErrNoTopic say that it
	// was not appended. Any other error says that the outcome is unknown: the record may be there, or may
	// still appear later.
	//
	// Records of one topic and key that are in one call are appended in the order of the call.
	Publish(ctx context.Context, records []Record) []error
}

// ErrRejected marks an error of Broker.Publish: the topic will never accept this record, for example because it
// is too large. It was not appended.
var ErrRejected = errors.New("rejected by the broker")

// ErrNoTopic marks an error of Broker.Publish: the topic does not exist, or the node may not write to it.
// The record was not appended. Somebody has to act; trying again soon is of little use.
var ErrNoTopic = errors.New("topic missing or forbidden")
