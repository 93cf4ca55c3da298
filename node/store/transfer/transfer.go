// Package transfer moves everything that waits from one store into another, by way of a file that a person can read.
//
// The danger in it is two stores that both fire, or one that fires what the other has fired. So a store is sealed while
// it is not to be used:
//
//	source    open ──Seal──▶ sealed: exported ──▶ (its file is written, again and again if need be)
//	            ▲                  │
//	            └─────Unseal───────┘
//	target    never used ──first Receive──▶ sealed: importing ──last Receive──▶ open
//
// A sealed store claims nothing and takes nothing in, and begins no lineage: it is as if it stood before the gate of a
// catch-up (node.CatchUpRequest.Hold) that never opens. What was published before may still be settled. A source is
// read when all claims of before the seal are gone or have expired, since nothing is published under a claim that has
// expired: what is read then has not come out since, and does not come out of this store any more.
//
// A target takes a batch in with the number of the line that it ends at, in one transaction. So a batch that is
// received twice is taken in once, and an import that has died goes on behind the last line that was.
//
// docs/adr/0023-a-store-that-moves-is-sealed.md says what is moved, what is not, and why.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/inspect"
)

// Store is a store whose contents can be moved. Like those of node.Store, the calls may be repeated, and an error means
// that the outcome is unknown, except for a *RefusedError: then nothing has changed.
type Store interface {
	// Sealed returns what the store is sealed for, or was. It costs little, and locks nothing.
	Sealed(ctx context.Context) (Seal, error)

	// Contents returns what the store says of itself. To count the messages may take it long.
	Contents(ctx context.Context) (Contents, error)

	// Seal seals the store for an export of that ID, by somebody: a lineage begins, of which nothing is ever claimed
	// and in which nothing is taken in. A store that is sealed for an export already keeps its seal, which is returned.
	// See Contents.Refusal for those that are refused.
	Seal(ctx context.Context, id uuid.UUID, by string) (Seal, error)

	// Unseal opens a store that is sealed for an export, in a new lineage, in which nothing is claimed and nothing
	// taken in until every claim in the store has expired. One that is not sealed for an export is refused.
	Unseal(ctx context.Context) (node.State, error)

	// Held returns how many claims have not expired, and how long the last of them has to go.
	Held(ctx context.Context) (Held, error)

	Rows

	// Receive takes a batch of an import in, see Batch, and returns the seal after the call.
	Receive(ctx context.Context, batch Batch) (Seal, error)
}

// Rows are what is in a store, by pages.
type Rows interface {
	// Messages returns the next messages behind a name, in the order of ids, then lanes, both compared as bytes. It
	// returns at most limit, and stops behind the one with which their sizes reach bytes. None is left when it returns
	// none. Claims are left out: a message that is claimed is returned like one that waits.
	Messages(ctx context.Context, after node.MessageID, limit, bytes int) ([]Message, error)

	// Told returns at most limit of the answers that requests were given, those behind a request, in the order of the
	// ids of the requests.
	Told(ctx context.Context, after uuid.UUID, limit int) ([]Answer, error)

	// QueuesBehind returns at most limit of the queues, those behind a name, in the order of their names.
	QueuesBehind(ctx context.Context, name string, limit int) ([]queue.Queue, error)

	// TasksBehind and ActionsBehind return the next tasks and actions behind an id, in the order of their ids. They
	// return at most limit, and stop behind the one with which what there is to do reaches bytes, as
	// queue.Action.Content has it: that of a task counts if it is Inline. None is left when they return none.
	TasksBehind(ctx context.Context, id uuid.UUID, limit, bytes int) ([]queue.Task, error)
	ActionsBehind(ctx context.Context, id uuid.UUID, limit, bytes int) ([]queue.Action, error)
}

// Kind is what a store is sealed for, or was.
type Kind string

// The kinds.
const (
	// Open: the store is not sealed, and was not filled by an import.
	Open Kind = ""

	// Exported: it is sealed, since its contents go elsewhere.
	Exported Kind = "exported"

	// Importing: it is sealed until an import has filled it.
	Importing Kind = "importing"

	// Imported: it is not sealed. An import has filled it.
	Imported Kind = "imported"
)

// Seal says what a store is sealed for, or was.
type Seal struct {
	Kind Kind

	// ID is that of the export which it is sealed for, or filled from; By who has begun that, and Since when, by the
	// store's clock.
	ID    uuid.UUID
	By    string
	Since time.Time

	// Lineage is the one that has begun with the seal, or with the end of the import.
	Lineage int64

	// Lines is how many lines of the export have been received.
	Lines int64

	// Way says how an import that has begun places messages, in a store that has several places for them; "" in others.
	// To go on in another way would be to lose some, and to double others.
	Way string
}

// Sealed reports whether the store is not to be used.
func (s *Seal) Sealed() bool { return s.Kind == Exported || s.Kind == Importing }

// Name is the request under which a store remembers its seal among its answers (node.Request): an import is a request,
// which is done once.
func Name() uuid.UUID {
	return uuid.UUID{0: 'c', 1: 'h', 2: 'r', 3: 'o', 4: 'n', 5: 'o', 6: 0x80, 8: 0x80, 15: 1}
}

// Forever is until when a seal is remembered.
func Forever() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC) }

// Contents are what a store says of itself.
type Contents struct {
	Bound node.Bound
	State node.State
	Seal  Seal

	// Messages is how many are stored, and Answers how many answers; -1 if it takes too long to count them.
	Messages, Answers int64

	// Queues says whether there are queues beside root, or tasks, or actions.
	Queues bool

	// Unmovable is why the store cannot be exported as it is; "" if it can.
	Unmovable string

	// Places are the positions of all partitions, in the order of topics, numbers and topic ids, and Pauses what is
	// paused.
	Places []inspect.Place
	Pauses []node.Pause
}

// Unused returns why an import cannot begin in the store for an owner; "" if it can. Whatever is in a store that has
// been used could be older or younger than what the import brings, and nobody could tell.
func (c *Contents) Unused(cluster, group string) string {
	switch {
	case c.Messages != 0:
		return "it has messages"
	case c.Queues:
		return "it has queues, tasks or actions"
	case c.Bound.Partitions > 0:
		return "it has taken records in"
	case c.Bound.Adopting:
		return "it is the database of an older release"
	case c.State.Lineage != 1:
		return fmt.Sprintf("it was in use before: it is in lineage %d", c.State.Lineage)
	case c.Bound.Cluster != "" && (c.Bound.Cluster != cluster || c.Bound.Group != group):
		return fmt.Sprintf("it belongs to consumer group %s of Kafka cluster %s", c.Bound.Group, c.Bound.Cluster)
	}
	return ""
}

// Held is what is claimed.
type Held struct {
	Claims int
	For    time.Duration
}

// Message is a message on its way from store to store.
type Message struct {
	node.Message

	// Due, Attempts, Bound, Former, Stopped and Behind are as memory.Row has them.
	Due      time.Time
	Attempts int
	Bound    bool
	Former   bool
	Stopped  bool
	Behind   bool
}

// Answer is what a request was told, on its way from store to store. Told.Again is not set.
type Answer struct {
	Request uuid.UUID
	Told    node.Told
	Expires time.Time
}

// Batch is a part of an import: its lines behind From, up to To.
//
// The first one, of a store that has never been used, seals it and binds it to Cluster and Group, unless these are
// empty. Each takes its contents in, if the store has received as many lines as From says, and else does nothing. The
// last one opens the store, in a lineage above that of the export and all before it. So of a batch that is repeated,
// be it after a long time and by another process, nothing happens twice.
type Batch struct {
	// ID is that of the export, and By who imports it.
	ID uuid.UUID
	By string

	// Cluster and Group are whom the source belonged to, and Lineage is the one it was sealed in.
	Cluster, Group string
	Lineage        int64

	From, To int64
	Last     bool

	Places   []inspect.Place
	Pauses   []node.Pause
	Answers  []Answer
	Messages []Message

	// Queues are as they were, root among them.
	Queues  []queue.Queue
	Actions []queue.Action
	Tasks   []queue.Task
}

// Begin returns the seal with which an import of the batch begins.
func (b *Batch) Begin() Seal { return Seal{Kind: Importing, ID: b.ID, By: b.By} }

// Goes reports whether the contents of a batch are to be taken in where a store has that seal.
func (b *Batch) Goes(seal *Seal) bool {
	return seal.Kind == Importing && seal.ID == b.ID && seal.Lines == b.From
}

// Refuse returns the error for a batch that comes to a store which is in another's hands; nil if it may go on there.
func (b *Batch) Refuse(seal *Seal) error {
	switch {
	case seal.ID == b.ID && (seal.Kind == Importing || seal.Kind == Imported):
		return nil
	case seal.Kind == Importing:
		return &RefusedError{Reason: fmt.Sprintf("another import has begun to fill it, of export %s, and is not done",
			seal.ID)}
	case seal.Kind == Imported:
		return &RefusedError{Reason: fmt.Sprintf("it was filled already, from export %s", seal.ID)}
	case seal.Kind == Exported:
		return &RefusedError{Reason: fmt.Sprintf("it was exported itself, as %s", seal.ID)}
	}
	return nil
}

// Unfit returns the error for a batch that comes to a store which no import has begun to fill; nil if it may begin.
func (b *Batch) Unfit(contents *Contents) error {
	reason := contents.Unused(b.Cluster, b.Group)
	switch {
	case reason != "":
		return &RefusedError{Reason: reason + ", and only a store that has never been used can be filled"}
	case b.From > 0:
		return &RefusedError{Reason: "the beginning of this import is not in it: somebody has emptied it meanwhile"}
	}
	return nil
}

// Taken returns the error for a batch that has a message which is in the store already. No import brings one twice, so
// somebody else has put it there.
func (b *Batch) Taken(id string) error {
	return &RefusedError{Reason: fmt.Sprintf(
		"message %q of the lines behind %d is in it already: empty it, and begin anew", id, b.From)}
}

// RefusedError says that a store is not to be exported, opened or filled. Nothing has changed.
type RefusedError struct{ Reason string }

// Error returns the reason, of which the subject is the store.
func (e *RefusedError) Error() string { return e.Reason }

// IsRefused reports whether an error says that a store is not to be exported, opened or filled.
func IsRefused(err error) bool {
	_, is := errors.AsType[*RefusedError](err)
	return is
}

// Refusal returns why a store is not to be sealed for an export; nil if it may be.
func (c *Contents) Refusal() error {
	switch {
	case c.Seal.Kind == Importing:
		return &RefusedError{Reason: "an import is filling it: it is complete when that is done"}
	case c.State.Holding:
		return &RefusedError{Reason: "a lineage began a moment ago, and nodes may still publish what they had " +
			"claimed before: try again in some seconds"}
	case c.Bound.Adopting:
		return &RefusedError{Reason: "it comes from an older release and has yet to adopt the committed offsets: " +
			"start a node on it first, which does that"}
	case c.State.Suspect:
		return &RefusedError{Reason: "its server has another history than before, a failover perhaps: start a node " +
			"on it first, which finds out what that has lost"}
	case c.Unmovable != "":
		return &RefusedError{Reason: c.Unmovable}
	}
	return nil
}

// NotExported is the error of an Unseal of a store that is not sealed for an export.
func NotExported(seal *Seal) error {
	if seal.Kind == Importing {
		return &RefusedError{Reason: "an import is filling it: import the same file again, which goes on where that " +
			"ended"}
	}
	return &RefusedError{Reason: "it is not sealed"}
}
