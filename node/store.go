package node

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Store keeps the messages that wait and the claims on those that are ready. It is shared by all nodes and is the
// only place where they meet.
//
// Every call is atomic per message: another caller sees a message before it or after it, never half-way. A
// batch as a whole need not be atomic. An error means that the outcome is unknown: any subset of the call's
// effects may have happened, or may still happen; every call may be repeated with the same arguments. A call
// returns within the store timeout of Config, whatever the server does, and ends early when ctx is done.
//
// The store has one clock (for a database, the server's) and uses it for one thing, the age of claims. Every
// other instant is an argument. It draws no randomness. All instants are UTC in whole microseconds.
//
// Arguments belong to the caller and are not kept or changed; results belong to the caller too, and share no
// memory with the store.
//
// Two messages of one batch that have the same id and topic act in the order of the batch. Adapters order rows
// by id within a statement, so that concurrent batches cannot deadlock.
type Store interface {
	// Insert stores messages, those with Readied set as already claimed by request.Node. It returns one result
	// for each message, in order. The store decides about each id by its committed state at the moment of the
	// insert: it waits for a concurrent insert or delete of that id and then goes by its outcome.
	Insert(ctx context.Context, request InsertRequest) ([]InsertResult, error)

	// Present tells for each of ids, in order, whether a message of that id and topic waits or is ready. It
	// reads the primary, never a replica that lags (a stale yes would swallow a message, hazard H12). It does
	// not wait for uncommitted inserts.
	Present(ctx context.Context, ids []MessageID) ([]bool, error)

	// Ready claims waiting messages that fall due at or before request.Until for request.Node, the earliest
	// first, skipping those that another caller is claiming at this moment, and returns them in the order
	// of their due times (ties by id, then topic). It claims at most request.Limit messages, and stops after
	// the one whose size reaches request.Bytes in total.
	Ready(ctx context.Context, request ReadyRequest) ([]Readied, error)

	// Delete removes each message whose id, topic and incarnation match, whoever holds its claim now, or nobody.
	// It returns for each ref, in order, whether there was one to remove.
	Delete(ctx context.Context, refs []Ref) ([]bool, error)

	// Stuck returns at most request.Limit claims that are at least request.Hold old by the store's clock, the
	// oldest first. It changes nothing and locks nothing.
	Stuck(ctx context.Context, request StuckRequest) ([]Claim, error)

	// Reset turns ready messages back into waiting ones, each only if it is still held by exactly the claim
	// given (id, topic, incarnation, ReadiedAt and ReadiedBy). It returns for each release, in order, whether
	// it took effect.
	Reset(ctx context.Context, releases []Release) ([]bool, error)
}

// MessageID names a message of any incarnation.
type MessageID struct {
	ID    string
	Topic string
}

// InsertRequest is the argument of Store.Insert.
type InsertRequest struct {
	// Node is the node id that the messages with Readied set are claimed by.
	Node uuid.UUID

	Messages []Insertion
}

// Insertion is a message to insert. Its due time is its deadline.
type Insertion struct {
	Message

	// Readied says that the message is stored as claimed by the inserting node from the start, the claim
	// being stamped by the store's clock.
	Readied bool
}

// InsertOutcome says what became of one message of an insert.
type InsertOutcome int

// The outcomes of an insert.
const (
	// Inserted: the message is stored, by this call or by an earlier one with the same incarnation.
	Inserted InsertOutcome = iota + 1

	// Duplicate: another incarnation of the same id and topic waits or is ready. Nothing was changed.
	Duplicate

	// Refused: this message can never be stored, now or later; others are not affected.
	Refused
)

// InsertResult is what became of one message of an insert.
type InsertResult struct {
	Outcome InsertOutcome

	// Claim is the claim that request.Node holds on this incarnation after the call, zero when it holds
	// none. So a repeated insert returns the claim that the first one made, if it is still held.
	Claim Claim

	// Reason says why, in one sentence, when Outcome is Refused.
	Reason string
}

// ReadyRequest is the argument of Store.Ready.
type ReadyRequest struct {
	// Node is the node id that takes the claims.
	Node uuid.UUID

	// Until is the latest due time that is claimed.
	Until time.Time

	// Limit is the largest number of messages to claim, at least 1.
	Limit int

	// Bytes bounds the sizes (Message.Size) of the claimed messages together: the message that reaches the
	// bound is the last. At least 1, so that one message is always claimed.
	Bytes int
}

// Readied is a message that has become ready, with the claim on it.
type Readied struct {
	Message

	Claim Claim
}

// StuckRequest is the argument of Store.Stuck.
type StuckRequest struct {
	// Hold is the age from which a claim counts as stuck.
	Hold time.Duration

	// Limit is the largest number of claims to return, at least 1.
	Limit int
}

// Release gives a claim up.
type Release struct {
	Claim

	// Due is when the message falls due next; the zero time leaves it as it is. A message that could not be
	// published is put off by it, so that it is not in the way of others. The deadline does not change.
	Due time.Time
}
