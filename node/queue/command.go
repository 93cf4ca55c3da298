package queue

import (
	"time"

	"github.com/google/uuid"
)

// Command is one thing that happens, in one transaction. What may be repeated because its answer was lost carries ids
// that its caller has drawn, so that a repeat changes nothing and gets the same answer.
type Command interface{ command() }

// PutQueue makes a queue, or changes one that has the ID. The State of Queue is not looked at. Its Window may be in any
// words, and is read at the store's clock; none is always, and no TimeLimit is DefaultTimeLimit. Tasks that wait are
// under the new window at once. A queue that is being deleted is not changed, nor is the Kind of one in which something
// runs.
type PutQueue struct {
	Queue Queue

	// Before is what the queue was when the caller read it, who has chosen Queue by that; nil for whatever there is. If
	// it is another one by now, the command is refused (Changed). Without that:
	//
	//	somebody reads x, to give it a tag
	//	                                      somebody else closes x: window never
	//	x gets the tag, and is open again
	//
	// The State does not matter.
	Before *Queue
}

// DropQueue deletes a queue, as its Drain says. What runs goes on.
type DropQueue struct{ ID uuid.UUID }

// PutAction makes an action, or changes one that has the ID. What runs already keeps what it was. Before is as in
// PutQueue.
type PutAction struct {
	Action Action
	Before *Action
}

// DropAction deletes an action, unless a task that is not done names it, or a queue.
type DropAction struct{ ID uuid.UUID }

// PutTask has a task arrive, or changes one that has the ID and is Pending. If Task.Queue is zero it is Root; otherwise
// it must exist and not be deleted. One that says what the task says already changes nothing, whatever has become of it
// since then: it may be a repeat. Before is as in PutQueue.
type PutTask struct {
	Task   Task
	Before *Task

	// New has the task arrive only if there is none of its ID: one that waits stays as it is, whoever has brought it,
	// as a message does whose id comes again. One that runs, or is done, is a Conflict, as without New.
	New bool
}

// DropTask makes a task that waits Deleted. One that runs is not to be had back.
type DropTask struct{ ID uuid.UUID }

// End ends the run of a task: somebody has completed it, or its request was given up.
type End struct {
	Task uuid.UUID

	// Run is the run that is meant; zero for the one there is. A completion of another run changes nothing.
	Run uuid.UUID

	// Failed says that it was no success, and Reason why, in a sentence.
	Failed bool
	Reason string

	// Delivered says that nobody has completed the task: the request of its execution was answered. That ends a task of
	// an async queue; one of a sync queue goes on.
	Delivered bool
}

// Fulfil takes note of what became of one action of a promise.
type Fulfil struct {
	Task   uuid.UUID
	Run    uuid.UUID
	Action int // its place in Task.Promise
	Broken bool
}

// Look does for a queue what has fallen due, see Queue.Look.
type Look struct{ Queue uuid.UUID }

// Forget deletes what ended longer ago than Age by the store's clock, at most Limit tasks. By the clock of a node that
// is far ahead, a task would be gone that has just ended, and would run once more if the request that made it came
// again.
type Forget struct {
	Age   time.Duration
	Limit int
}

func (PutQueue) command()   {}
func (DropQueue) command()  {}
func (PutAction) command()  {}
func (DropAction) command() {}
func (PutTask) command()    {}
func (DropTask) command()   {}
func (End) command()        {}
func (Fulfil) command()     {}
func (Look) command()       {}
func (Forget) command()     {}

// Result is what a command has led to: the rows that it is about, as they are after it.
type Result struct {
	Queue  *Queue
	Task   *Task
	Action *Action

	// Changed says that the command has changed anything. A completion that comes twice has not, the second time.
	Changed bool

	// Started are the tasks that it has started.
	Started []Task

	// Forgotten is how many tasks were deleted.
	Forgotten int
}

// Refusal is the error of a command that is not carried out, for certain. Nothing was changed.
type Refusal struct { //nolint:errname // an answer: it is no failure
	Code   Code
	Detail string // a sentence: what, where, what to do
}

// Error returns the sentence.
func (r *Refusal) Error() string { return r.Detail }

// Code says why a command was refused.
type Code string

// The codes.
const (
	NotFound Code = "not_found" // what it is about is not there
	Invalid  Code = "invalid"   // it can never be carried out
	Conflict Code = "conflict"  // the state of what it is about is in the way
	Changed  Code = "changed"   // what it is about is not what the caller has read any more: read it again
	Closed   Code = "closed"    // the store takes nothing in at the moment, see node.State.Takes: try again later
)
