// Package ledger is the port to the transactional half of Kafka: a compacted topic, of which each partition has one
// writer at a time, and transactions that append to that partition and to any other topic, all of it or nothing.
//
// A store that keeps what waits in Kafka needs no more of it than this (docs/adr/0025-a-journal.md). There are two
// adapters: broker/kafka on a real cluster, and ledger/simulated, whose faults are as sudden as the caller likes.
// Package ledgertest has the cases that both pass.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Ledger is a compacted topic with transactions. It is safe for concurrent use.
type Ledger interface {
	// Own makes the caller the writer of a partition. Who was it before is fenced: what that writer has begun and not
	// committed is aborted, and it never commits anything again, whatever it was doing when it was stopped:
	//
	//	A appends the output and the tombstone of x, and is stopped
	//	                  B owns the partition: A's transaction is aborted
	//	                  B reads the partition: x waits; B fires x
	//	A goes on, and commits: fenced
	//
	// The new writer has then committed an entry, the fence: whatever any writer before it has committed stands
	// before that entry, so that a reader who has come to it has seen all of it. An error means that the outcome is
	// unknown: the writer of before may be fenced.
	Own(ctx context.Context, number int32, fence Entry) (Writer, error)

	// Read hands over the entries of a partition that were committed, in their order, from a position on and up to the
	// offset until, not including it. What compaction has removed is not among them: of each key at least the last
	// one is. It ends early, with that error, when each returns one. The entries are the callee's to keep.
	//
	// ErrTruncated says that the log is not the one in which from was a position: it has another end, or another
	// beginning, or another identity. Any other error means that what was handed over was right so far.
	Read(ctx context.Context, from Place, until int64, each func(Committed) error) error

	// Begin returns where the log of a partition begins: the first entry that there can be, of the topic that has the
	// name now.
	Begin(ctx context.Context, number int32) (Place, error)

	// Extents returns of the partitions where their logs begin, and where what is decided ends: no transaction is open
	// before that offset, so that Read comes to it, whoever writes meanwhile. Partitions of which nobody can tell now
	// have node.UnknownEnd, or are missing. It asks Kafka once for all of them. With an error come those that are known
	// nevertheless: what they say is right, and nobody may take them for all there are.
	Extents(ctx context.Context) ([]node.Extent, error)

	// End returns where the log of a partition ends, as far as it is decided: whatever is appended after the call began
	// stands there or behind, and so does a transaction that is open. It is the End of Extents, of one partition. What
	// has just been committed may not be decided yet: brokers answer a commit before its marker is in the log.
	End(ctx context.Context, number int32) (Place, error)
}

// Writer is the right to append to a partition.
type Writer interface {
	// Fence is the offset of the entry that Own has committed.
	Fence() int64

	// Commit appends everything in a transaction, at the end of the log, and commits that. When it returns nil, all of
	// it is there, and the offset returned lies behind the last entry of it: whoever has applied the entries of the
	// transaction has come up to there. Calls come one at a time.
	//
	// An error that is ErrAborted says that nothing of it is there, nor ever will be. If a RefusedError is in it as
	// well, it says which outputs are to blame, and with ErrRefused an entry is. Any other error means that the outcome
	// is unknown: what the partition says, read up to the fence of a new writer, is the
	// truth.
	//
	// After ErrFenced, ErrSpent, and after an unknown outcome, the writer is spent: each further call is ErrFenced and
	// ErrAborted.
	Commit(ctx context.Context, transaction Transaction) (end int64, err error)

	// Close gives up what the writer holds. It does not fence it: what it has begun is aborted when its time is over,
	// or when another writer comes.
	Close()
}

// Place is a position in a partition of a topic that has that identity.
type Place struct {
	TopicID uuid.UUID
	Number  int32

	// Epoch is that of the entry before Offset, node.UnknownEpoch where there is none or nobody knows.
	node.Position
}

// Entry is what is said of a key.
type Entry struct {
	Key []byte

	// Value is nil if there is nothing left to say of the key: a tombstone, which compaction removes together with all
	// that was said before.
	Value []byte
}

// Committed is an entry where it stands in its partition.
type Committed struct {
	Entry

	Epoch  int32
	Offset int64

	// At is when it was appended, by the clock of its writer or of its broker; zero if nobody says.
	At time.Time
}

// Transaction is what is committed together.
type Transaction struct {
	// Entries are for the partition of the writer.
	Entries []Entry

	// Outputs are for other topics, each in the partition that a Java producer would choose for its key.
	Outputs []node.Record
}

var (
	// ErrAborted says that nothing of a transaction is visible, nor ever will be.
	ErrAborted = errors.New("nothing of the transaction was committed")

	// ErrFenced says that the partition has another writer by now, or that the outcome of an earlier transaction is
	// unknown, so that this one can't go on.
	ErrFenced = errors.New("the writer of the partition is no longer its owner")

	// ErrSpent says that the writer can't go on, though nobody is known to have fenced it: it could not end what it had
	// begun, or means a topic that was deleted. It comes with ErrAborted, since nobody has asked for a commit. Another
	// writer may be made at once.
	ErrSpent = errors.New("the writer can't go on")

	// ErrRefused says that the partition will never accept an entry of the transaction, for example because its batch
	// is too large. It comes with ErrAborted.
	ErrRefused = errors.New("an entry is refused")

	// ErrTruncated says that a log is not the one that it was.
	ErrTruncated = errors.New("the log does not go on from there")
)

// MaxEntryBytes is the largest entry, key and value together, that every Ledger takes: what a topic with default
// settings accepts, with some room for what Kafka adds.
const MaxEntryBytes = 900 << 10

// RefusedError says which outputs of a transaction their topics refuse. Kafka refuses batches: several outputs of one
// topic may be blamed for one of them.
type RefusedError struct {
	// Errs has an element for each output: node.RecordRejected, node.TopicMissing, a *node.PublishError where its
	// partition does not answer, or nil where it is not to blame.
	Errs []error
}

// Error says how many outputs are refused, and why the first of them is.
func (r *RefusedError) Error() string {
	var first error
	refused := 0
	for _, err := range r.Errs {
		if err != nil {
			refused++
			if first == nil {
				first = err
			}
		}
	}
	return fmt.Sprintf("%d of %d outputs are refused, the first one: %v", refused, len(r.Errs), first)
}
