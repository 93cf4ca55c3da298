package queue

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Store keeps queues, tasks and actions, beside the messages. The rules of node.Store hold for it: an error other than
// a *Refusal means that the outcome is unknown, and every call may be repeated with the same arguments.
type Store interface {
	// Apply carries out a command in one transaction, by Run.
	Apply(ctx context.Context, command Command) (Result, error)

	// Transact does something in one transaction: all of it, or nothing if it returns an error. It may do it several
	// times, from the start, if others get in the way, or if it returns ErrAgain. Apply is Transact with Run.
	Transact(ctx context.Context, do func(ctx context.Context, tx Tx) (Result, error)) (Result, error)

	// Due returns queues that are to be looked after now, by the store's clock, the one that has waited longest first,
	// at most limit, and in how long the next one will be; false if there is none. It changes nothing and locks
	// nothing.
	Due(ctx context.Context, limit int) (queues []uuid.UUID, next time.Duration, some bool, err error)

	// Queues returns queues in the order of their names, Tasks tasks in the order of their ids, Actions actions in that
	// of theirs, those that fit the filter.
	Queues(ctx context.Context, filter Filter) ([]Queue, error)
	Tasks(ctx context.Context, filter Filter) ([]Task, error)
	Actions(ctx context.Context, filter Filter) ([]Action, error)
}

// Filter says what to list. The zero value of a field does not matter.
type Filter struct {
	ID     uuid.UUID
	Name   string    // of queues
	Tag    string    // it has this one
	Paths  []string  // of queues: they lie at one of these
	Queue  uuid.UUID // of tasks
	Status Status    // of tasks

	// AfterID and AfterName say where the page before has ended; Limit is at least 1.
	AfterID   uuid.UUID
	AfterName string
	Limit     int
}

// ErrAgain is what Run returns where it has found, in the middle of a transaction, that it has locked the wrong rows.
// The store undoes the transaction and carries the command out again.
var ErrAgain = errors.New("the rows have changed meanwhile")

// Tx is one transaction of a store, for Run. Reads see what writes before them have done, and what others have
// committed by then. An error of a call ends the transaction, and Run returns it. Arguments and results are the
// caller's.
//
// All locks are on queues. Whoever changes a task has locked its queue (or Root, if the queue is gone); whoever changes
// what a queue is, where it lies, or when it is open, has called Define, and locks all queues that lie inside it by
// Touch. So whoever has locked a queue may read what contains it without a lock:
//
//	a task of x is to start: x is locked, and what contains it is read: open
//	                                                    one of these is closed: Touch waits for x
//	the task starts, and that is committed
//	                                                    x is touched, and the change is committed: after the start
type Tx interface { //nolint:interfacebloat // each call is one statement
	// Now is the store's clock, in whole microseconds of UTC: when the transaction has locked a queue last, or began.
	Now() time.Time

	// Takes reports whether the store takes anything in, see node.State.Takes.
	Takes(ctx context.Context) (bool, error)

	// Define has transactions that call it come one after the other: before anything else is locked, where that is
	// known, so that they wait for each other in no circle.
	Define(ctx context.Context) error

	// Queue locks a queue and returns it; nil if there is none.
	Queue(ctx context.Context, id uuid.UUID) (*Queue, error)

	// Containing returns the queues that lie at a true prefix of one of the paths of q, except q itself, in the order
	// of their names.
	Containing(ctx context.Context, q *Queue) ([]Queue, error)

	// Named returns the queue of a name; nil for none.
	Named(ctx context.Context, name string) (*Queue, error)

	// Touch locks all queues that lie inside one of these paths, and makes the instant of the transaction the Look of
	// those in which something is Pending.
	Touch(ctx context.Context, paths []string) error

	// PutQueue and DropQueue write a queue that is locked, or is new. What it lies at changes only after Define.
	PutQueue(ctx context.Context, q *Queue) error
	DropQueue(ctx context.Context, id uuid.UUID) error

	// Task returns a task; nil for none. Its queue must be locked before anything rests on what it says.
	Task(ctx context.Context, id uuid.UUID) (*Task, error)

	// Next returns the tasks of a queue that are Pending, at most limit: of a sync queue by priority and arrival; of an
	// async one those whose When has come, by When and arrival.
	Next(ctx context.Context, q *Queue, limit int) ([]Task, error)

	// Soonest returns the earliest When of the tasks of a queue that are Pending, and Longest the earliest Started of
	// those that are Running; false for none.
	Soonest(ctx context.Context, queue uuid.UUID) (time.Time, bool, error)
	Longest(ctx context.Context, queue uuid.UUID) (time.Time, bool, error)

	// Overdue returns tasks of a queue that are Running and have started at or before an instant, by Started and
	// arrival, at most limit.
	Overdue(ctx context.Context, queue uuid.UUID, started time.Time, limit int) ([]Task, error)

	// AddTask writes a task that is not there; if it is by now, the transaction begins anew. PutTask writes one that
	// is. Forget deletes tasks that ended before an instant, at most limit, and returns how many.
	AddTask(ctx context.Context, t *Task) error
	PutTask(ctx context.Context, t *Task) error
	Forget(ctx context.Context, before time.Time, limit int) (int, error)

	// Action returns an action; nil for none. It is locked for share or, to change it, for this transaction alone.
	Action(ctx context.Context, id uuid.UUID, change bool) (*Action, error)

	// InUse reports whether a task that is not done names an action, or a queue does. The action is locked.
	InUse(ctx context.Context, action uuid.UUID) (bool, error)

	PutAction(ctx context.Context, a *Action) error
	DropAction(ctx context.Context, id uuid.UUID) error

	// Insert stores messages as waiting. One whose id and lane are taken is left alone.
	Insert(ctx context.Context, messages []node.Message) error
}
