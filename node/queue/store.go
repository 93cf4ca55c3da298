package queue

import (
	"context"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Store keeps queues, tasks and actions, beside the messages. The rules of node.Store hold for it: an error other than a
// *Refusal means that the outcome is unknown, and every call may be repeated with the same arguments.
type Store interface {
	// Apply carries out a command in one transaction, by Run.
	Apply(ctx context.Context, command Command) (Result, error)

	// Due returns queues that are to be looked after now, by the store's clock, the one that has waited longest first,
	// at most limit, and in how long the next one will be; false if there is none. It changes nothing and locks nothing.
	Due(ctx context.Context, limit int) (queues []uuid.UUID, next time.Duration, any bool, err error)

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
	Queue  uuid.UUID // of tasks
	Status Status    // of tasks

	// AfterID and AfterName say where the page before has ended; Limit is at least 1.
	AfterID   uuid.UUID
	AfterName string
	Limit     int
}

// Tx is one transaction of a store, for Run. Reads see what writes before them have done. Errors other than of the
// context end the transaction, and Run returns them.
type Tx interface {
	// Now is the store's clock, the same all through the transaction, in whole microseconds.
	Now() time.Time

	// Takes reports whether the store takes anything in, see node.State.Takes.
	Takes(ctx context.Context) (bool, error)

	// Queue locks a queue for this transaction, and for share all queues at the paths given and at all true prefixes of
	// these and of its own paths, in the order of their names. It returns it, nil if there is none, and those.
	Queue(ctx context.Context, id uuid.UUID, paths []string) (queue *Queue, containing []Queue, err error)

	// Named returns the queue of a name, without a lock; nil for none.
	Named(ctx context.Context, name string) (*Queue, error)

	// Touch makes Look the instant of the transaction for all queues that lie inside one of these paths.
	Touch(ctx context.Context, paths []string) error

	// PutQueue and DropQueue write a queue that is locked.
	PutQueue(ctx context.Context, q *Queue) error
	DropQueue(ctx context.Context, id uuid.UUID) error

	// Task returns a task; nil for none. Its queue must be locked before anything rests on what it says.
	Task(ctx context.Context, id uuid.UUID) (*Task, error)

	// Next returns the tasks of a queue that are Pending, at most limit: of a sync queue by priority and arrival; of an
	// async one those whose When has come, by When and arrival.
	Next(ctx context.Context, q *Queue, limit int) ([]Task, error)

	// Soonest returns the earliest When of the tasks of an async queue that are Pending, and Longest the earliest
	// Started of those that are Running; zero for none.
	Soonest(ctx context.Context, queue uuid.UUID) (time.Time, error)
	Longest(ctx context.Context, queue uuid.UUID) (time.Time, error)

	// Overdue returns tasks of a queue that are Running and have started at or before an instant, at most limit.
	Overdue(ctx context.Context, queue uuid.UUID, started time.Time, limit int) ([]Task, error)

	// Waiting returns tasks of a queue that are Pending, at most limit, in no special order.
	Waiting(ctx context.Context, queue uuid.UUID, limit int) ([]Task, error)

	// PutTask writes a task, and Forget deletes those that ended before an instant, at most limit, and returns how many.
	PutTask(ctx context.Context, t *Task) error
	Forget(ctx context.Context, before time.Time, limit int) (int, error)

	// Action returns an action, locked for share; nil for none. Named reports whether anything that is not done names it.
	Action(ctx context.Context, id uuid.UUID) (*Action, error)
	InUse(ctx context.Context, action uuid.UUID) (bool, error)
	PutAction(ctx context.Context, a *Action) error
	DropAction(ctx context.Context, id uuid.UUID) error

	// Insert stores messages as waiting. One whose id and lane are taken by the same incarnation is left alone.
	Insert(ctx context.Context, messages []node.Message) error
}

// Run carries out a command in a transaction: the rules of queues, which all stores share. After an error the
// transaction is to be undone. It keeps nothing between calls.
func Run(ctx context.Context, tx Tx, command Command) (Result, error) {
	return Result{}, &Refusal{Closed, "queues are not built yet"}
}
