package desk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/queue"
)

// Desk answers for one store. It is safe for concurrent use.
type Desk struct {
	Store queue.Store

	// Base is the URL at which nodes are reached for a completion; empty if nobody knows one. Tags of actions that
	// stand for such a URL are refused then.
	Base string

	// Callback returns why a request on a lane would never be made, as far as its headers tell; nil where nobody knows.
	Callback func(lane string, headers []node.Header) error

	// Topic returns why nothing may come out on a topic; nil where everything may.
	Topic func(topic string) error

	// Now is the clock that delays count from, and that windows are shown by; nil for the wall clock. What happens goes
	// by the store's clock.
	Now func() time.Time

	mu      sync.Mutex
	windows map[string]*calendar.Window
}

const (
	// tries is how often a command is given whose outcome is not known, and wait the time before the second try, which
	// doubles. Every command may be repeated.
	tries = 3
	wait  = 100 * time.Millisecond

	// page is how many queues are read at once where all of some paths are.
	page = 1000
)

func (d *Desk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// apply gives a command to the store. A *queue.Refusal is an answer; after any other error nobody knows what has
// happened.
func (d *Desk) apply(ctx context.Context, command queue.Command) (result queue.Result, err error) {
	pause := wait
	var lost error
	for try := 1; ; try++ {
		result, err = d.Store.Apply(ctx, command)
		switch {
		case try > 1 && deletes(command) && IsAbsent(err):
			return result, nil // a try before has deleted it, and its answer was lost
		case try > 1 && isRefusal(err, queue.Closed):
			return result, lost // a try before may have done it
		}
		lost = err
		if _, refused := errors.AsType[*queue.Refusal](err); err == nil || refused || try == tries {
			return result, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return result, err
		case <-timer.C:
		}
		pause *= 2
	}
}

// deletes reports whether a command leaves nothing of what it is about.
func deletes(command queue.Command) bool {
	switch command.(type) {
	case queue.DropQueue, queue.DropAction:
		return true
	}
	return false
}

// invalid is the refusal of something that can never be done.
func invalid(detail string) error { return &queue.Refusal{Code: queue.Invalid, Detail: detail} }

// absent is the refusal of something that is about what is not there.
func absent(detail string) error { return &queue.Refusal{Code: queue.NotFound, Detail: detail} }

// FindQueue returns the queue of a name or a UUID.
func (d *Desk) FindQueue(ctx context.Context, ref string) (*queue.Queue, error) {
	q, err := d.lookUp(ctx, ref)
	if err == nil && q == nil {
		return nil, absent("there is no queue " + quoted(ref))
	}
	return q, err
}

// lookUp is FindQueue; nil for none. What can be no name is not asked for: to a filter, neither an empty one nor the
// UUID of zeros is a condition, so that any queue would do.
func (d *Desk) lookUp(ctx context.Context, ref string) (*queue.Queue, error) {
	var filters []queue.Filter
	if id, err := uuid.Parse(ref); err == nil && id != uuid.Nil {
		filters = append(filters, queue.Filter{ID: id, Limit: 1})
	}
	if _, why := node.CheckID(ref); why == "" {
		filters = append(filters, queue.Filter{Name: ref, Limit: 1})
	}
	for _, filter := range filters {
		found, err := d.Store.Queues(ctx, filter)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return &found[0], nil
		}
	}
	return nil, nil
}

// FindTask returns a task.
func (d *Desk) FindTask(ctx context.Context, id uuid.UUID) (*queue.Task, error) {
	var found []queue.Task
	var err error
	if id != uuid.Nil { // that is no condition
		found, err = d.Store.Tasks(ctx, queue.Filter{ID: id, Limit: 1})
	}
	if err == nil && len(found) == 0 {
		return nil, absent("there is no task " + id.String() + ": it has never come, or was forgotten after a while")
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// FindAction returns an action.
func (d *Desk) FindAction(ctx context.Context, id uuid.UUID) (*queue.Action, error) {
	var found []queue.Action
	var err error
	if id != uuid.Nil { // that is no condition
		found, err = d.Store.Actions(ctx, queue.Filter{ID: id, Limit: 1})
	}
	if err == nil && len(found) == 0 {
		return nil, absent("there is no action " + id.String())
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// IsAbsent reports whether an error says that there is nothing of that name.
func IsAbsent(err error) bool { return isRefusal(err, queue.NotFound) }

func isConflict(err error) bool { return isRefusal(err, queue.Conflict) }

// isChanged reports whether somebody else was faster: what was read has to be read again.
func isChanged(err error) bool { return isRefusal(err, queue.Changed) }

func isRefusal(err error, code queue.Code) bool {
	refusal, is := errors.AsType[*queue.Refusal](err)
	return is && refusal.Code == code
}
