package node

import (
	"context"
	"math"
)

// Source is the consuming half of Kafka: one consumer in a consumer group. Its methods are called by the enqueue
// operation only, one at a time.
//
// The source does not know where to read: the positions are in the store. It tells in Poll which partitions it has
// been assigned, and reads them once Start has told it where.
type Source interface {
	// Poll returns what has come: partitions that were assigned or given up, and the next records of the partitions
	// that were started, in offset order within each; nothing when nothing came within a short time of the
	// adapter's choice, or when ctx is done. It joins the group when the node is not in it. The result belongs
	// to the caller.
	//
	// From a Poll that returned records until the next Poll or Leave, their partitions are not given up
	// voluntarily: a rebalance waits. They can still be lost, when the group has given the node up for dead.
	//
	// An error means that nothing was returned and nothing was skipped.
	Poll(ctx context.Context) (Batch, error)

	// Start has the partitions of places be read from there on, those that were just assigned and those that are
	// read already, which go on from another place. Records of these partitions that were polled before are the
	// caller's to forget. Partitions that the node has lost meanwhile are left out silently.
	//
	// The log of a partition may have no record at its place any more. Where retention took it, Poll tells of a
	// Loss, and goes on with the first record there is; where the epochs show that Kafka has lost the end of the log
	// and other records have taken its place, Poll tells of it as Moved.
	Start(ctx context.Context, places []Place) error

	// Pause has partitions not be read any more until Start names them again; they stay the node's. Records of them
	// that were polled before are the caller's to forget. It waits for nobody. Partitions that the node has lost
	// meanwhile are left out silently.
	Pause(partitions []Partition)

	// Commit tells the consumer group how far partitions have been taken in. Nothing depends on it but what others
	// see: tools that show a lag, and evidence that the store was set back. Partitions that the node has lost are
	// left out silently. An error means that some or all of it may not be stored.
	Commit(ctx context.Context, places []Place) error

	// Extents returns what each partition of each input topic holds, whether it is assigned to this node or not. The
	// End of a partition that nobody can tell about now, because it has no leader, is UnknownEnd, and its First 0.
	// A topic that does not exist has no partitions. An error means that no broker answers.
	Extents(ctx context.Context) ([]Extent, error)

	// Leave gives up all partitions and leaves the consumer group, without committing anything. The next Poll
	// joins it again. It is for a node that can read but not store, so that a peer that can takes over.
	Leave(ctx context.Context) error
}

// Batch is what one call of Source.Poll returned.
type Batch struct {
	// Revoked are partitions that are not this node's any more. They come before Assigned: a partition in both was
	// lost and assigned again.
	Revoked []Partition

	// Assigned are partitions that have become this node's, and wait for Start.
	Assigned []Assignment

	// Moved are partitions whose reading goes on from another place, where the log has ended: Kafka has lost what
	// came after it, and its records are followed by those of a higher epoch.
	Moved []Place

	// Lost are records that retention took before they were read.
	Lost []Loss

	// Records are the next records.
	Records []Record
}

// Extent is what a partition holds: the offset of its first record, and the end of its log, behind the last record
// that a consumer can see.
type Extent struct {
	Partition

	First, End int64
}

// UnknownEnd is the End of an Extent that nobody can tell.
const UnknownEnd = math.MaxInt64

// Assignment is a partition that has become this node's.
type Assignment struct {
	Extent

	// Committed is what the consumer group has committed for it; its Offset is -1 if that is nothing, or is known to be
	// of another topic, which had the name before.
	Committed Position
}

// Loss is records that a partition does not have any more: those with offsets from From up to, not including, To. How
// many there were nobody can tell, except that there were not more than To - From.
type Loss struct {
	Partition

	From, To int64
}
