package metrics

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Arrivals knows which messages have come after their deadline, so that their lateness is not put down to the node. It
// is safe for concurrent use. The zero value knows none.
type Arrivals struct {
	// Opened returns when a lane opened last before an instant, or the zero time; nil if all are always open.
	Opened func(lane string, at time.Time) time.Time

	mu  sync.Mutex
	all map[uuid.UUID]time.Time // when they were stored, by incarnation
}

// maxArrivals bounds how many messages are known at a time. With more, those of before are forgotten: others have fired
// them, or they wait behind a backlog.
const maxArrivals = 10_000

// Stored notes a message that was stored at an instant, and reports whether it came after its deadline.
func (a *Arrivals) Stored(message *node.Message, at time.Time) (late bool) {
	if !message.Deadline.Before(at) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil || len(a.all) >= maxArrivals {
		a.all = map[uuid.UUID]time.Time{}
	}
	a.all[message.Incarnation] = at
	return true
}

// Lateness returns how late a message came out at an instant: after its deadline, after it was stored, or after its
// lane had opened, whichever was last. It forgets the message.
func (a *Arrivals) Lateness(message *node.Message, at time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := message.Deadline
	if stored, late := a.all[message.Incarnation]; late {
		delete(a.all, message.Incarnation)
		from = stored
	}
	if a.Opened != nil {
		if opened := a.Opened(message.Lane, at); opened.After(from) {
			from = opened
		}
	}
	return at.Sub(from)
}
