package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// looks has those who only look at the store wait for the node. Both use the one connection: as long as it holds the
// file exclusively, SQLite lets no other connection read it, be it one of this process, and to hold it otherwise would
// need shared memory, which not all file systems have, and would let other programs write to it.
//
// Package sql gives a connection that is free to anyone of those who wait for it. So there is one look among these at
// most, however many people ask, and it begins when no call of the node waits, or after patience: a call of the node
// waits for one look, which takes milliseconds, and a look does not wait forever for a node that is busy.
type looks struct {
	turn chan struct{} // holds one value while somebody looks

	waiting *atomic.Int64 // calls of the node that wait for the connection
	free    chan struct{} // gets a value when there is none any more
}

// patience is how long a look waits for a moment at which no call of the node does.
const patience = 100 * time.Millisecond

func newLooks() looks {
	return looks{turn: make(chan struct{}, 1), waiting: new(atomic.Int64), free: make(chan struct{}, 1)}
}

// called takes note of a call of the node that waits for the connection. The caller calls what it returns when it waits
// no more; more than once does nothing.
func (l *looks) called() (got func()) {
	l.waiting.Add(1)
	return sync.OnceFunc(func() {
		if l.waiting.Add(-1) > 0 {
			return
		}
		select {
		case l.free <- struct{}{}:
		default:
		}
	})
}

// begin waits for the turn of a look. The caller calls done when it has looked.
func (l *looks) begin(ctx context.Context) (done func(), err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for l.waiting.Load() > 0 {
		select {
		case <-l.free: // of now or of earlier: what counts is asked again
			continue
		case <-limit.C:
		case <-ctx.Done(): // the look itself says so
		}
		break
	}
	return func() { <-l.turn }, nil
}

// lookAt is transact for those who only look: in their turn.
func (s *Store) lookAt(ctx context.Context, work func(ctx context.Context, t *transaction) error) error {
	done, err := s.looks.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.inTurn(ctx, func() {}, work)
}
