// Package inspect is what a store shows of single messages, for people who ask: one by its id, or those of a lane, page
// by page. Package outlook has the counts.
//
// Everything is bounded, because people ask while messages fire, ten million of them perhaps. A store answers two
// questions only, both of which an index serves: Find, by id, and Slice, the next few messages of a lane in the order
// in which they fall due, or the next few claims in the order in which they expire. What no index serves, such as
// a search by key or by header, is a walk along slices (List): it ends after a budget of time, says how many messages
// it has looked at and where it has come to, and goes on from there when it is asked to.
package inspect

import (
	"context"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Source is a store that shows its messages. The calls change nothing, lock nothing, and use no connection that a call
// of the node needs, where there are several. They end within about a tenth of a second: what would take longer is an
// error that wraps ErrTooLong.
type Source interface {
	// Find returns the messages of an id, in the order of their lanes; at most MaxFound.
	Find(ctx context.Context, id string, parts Parts) ([]Message, error)

	// Slice returns the next messages of an order, see SliceRequest. Their values are left out.
	Slice(ctx context.Context, request SliceRequest) ([]Message, error)

	// Parts returns the parts of lanes on which something waits, as node.Store.Parts does.
	Parts(ctx context.Context) ([]node.Part, error)

	// Places returns the positions of all partitions, in the order of topics and numbers, and the state of the store.
	Places(ctx context.Context) ([]Place, node.State, error)
}

const (
	// MaxFound is how many messages of one id are shown.
	MaxFound = 100

	// MaxSlice is the largest slice.
	MaxSlice = 500
)

// tooLongError is the type of ErrTooLong.
type tooLongError struct{}

func (tooLongError) Error() string {
	return "the store took too long to look: its indexes are full of dead entries, or it is busy; try again"
}

// ErrTooLong says that a look was given up, so that it does not slow the store down.
var ErrTooLong error = tooLongError{}

// UnableError says that a store of this kind cannot do what it was asked, and what to do instead. Nothing has changed.
type UnableError struct{ Sentence string }

// Error returns the sentence.
func (e *UnableError) Error() string { return e.Sentence }

// PartlyError says that what was asked of a store with several owners is done by some of them, and that nobody knows
// of the others. To ask again is safe, and tells.
type PartlyError struct {
	Sentence string

	// Cause is why the others have not answered.
	Cause error
}

// Error returns the sentence for a person.
func (e *PartlyError) Error() string { return e.Sentence }

// Unwrap returns the cause.
func (e *PartlyError) Unwrap() error { return e.Cause }

// Parts says which parts of a message to read.
type Parts struct {
	// Payload reads the value, too.
	Payload bool
}

// Message is a message that is stored.
type Message struct {
	node.Message

	// Due is when it falls due: its deadline, unless it could not be published and was put off.
	Due time.Time

	// Part is the name of the part on which it is parked, since that does not answer: an output partition, or a host;
	// empty if it is not. See node.Part.
	Part string

	// Claim is the claim on it; the zero value while it waits.
	Claim node.Claim

	// Attempts is how many claims may have led to a publish.
	Attempts int

	// Bound says that somebody was told that it comes out, Former that content which it has replaced may still do so,
	// and Stopped, of a series, that no other occurrence follows: see node.Kept.
	Bound, Former, Stopped bool

	// Bytes is the size of its key, value and headers, which is known where the value is left out, too.
	Bytes int
}

// Waits reports whether nobody has claimed the message.
func (m *Message) Waits() bool { return m.Claim.ReadiedBy == uuid.Nil }

// SliceRequest asks for the next messages of an order: those that wait on a part of a lane, by due time and id; or,
// where Claimed, those of all lanes that are claimed, by expiry, id and lane.
type SliceRequest struct {
	Claimed bool
	Lane    string // of those that wait; of those that are claimed, "" for all lanes
	Part    string // of those that wait: "" for those that are not parked

	// After is the place to go on behind; the zero value begins with the first. Until is the last due time, or expiry,
	// that is asked for.
	After Mark
	Until time.Time

	// Limit is the largest number of messages, from 1 to MaxSlice.
	Limit int
}

// Mark is a place in the order of a slice: that of a message.
type Mark struct {
	At   time.Time // when it falls due, or when its claim expires
	ID   string
	Lane string
}

// Of returns the place of a message.
func Of(m *Message, claimed bool) Mark {
	if claimed {
		return Mark{m.Claim.Expires, m.ID, m.Lane}
	}
	return Mark{m.Due, m.ID, m.Lane}
}

// Place is how far a partition has been taken in.
type Place struct {
	node.Place

	// Mark is the offset up to which it has to be taken in before anything is claimed; -1 when it has been.
	Mark int64
}

// Roster is a store in which nodes say that they live, for people: nothing in the algorithm depends on it.
type Roster interface {
	// Beat writes what a node says of itself, under its id, and forgets nodes that have said nothing for Forgotten.
	// Seen is the store's clock, and so is Started, as long as Node.Since says.
	Beat(ctx context.Context, node Node) error

	// Gone forgets a node, which has ended.
	Gone(ctx context.Context, id uuid.UUID) error

	// Nodes returns the nodes that have been seen lately, in the order of hosts and ids, and the store's clock.
	Nodes(ctx context.Context) ([]Node, time.Time, error)
}

const (
	// BeatInterval is how often a node says that it lives.
	BeatInterval = 2 * time.Second

	// Silent is how long a node has said nothing when it is to be looked at.
	Silent = 10 * time.Second

	// Forgotten is how long it has said nothing when it is forgotten.
	Forgotten = 15 * time.Minute
)

// Node is what a node says of itself. Settings and Status are JSON.
type Node struct {
	ID               uuid.UUID
	Host, Version    string
	Started, Seen    time.Time
	Settings, Status []byte
}

// Store is everything that operators use of a store.
type Store interface {
	Source
	Roster
	node.Switches
}
