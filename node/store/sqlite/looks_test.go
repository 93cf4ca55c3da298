package sqlite_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/node/store/sqlite"
)

// TestLooksLetTheNodePass has 200 people look at a store while a call of the node waits for its connection, ten times.
// The call comes after the look that was there first, and before nearly all others: database/sql alone would let half
// of them pass.
func TestLooksLetTheNodePass(t *testing.T) {
	store := open(t, file(t), sqlite.Options{})
	const people, times = 200, 10
	if _, _, err := store.Positions(t.Context(), nil); err != nil { // which prepares its statements
		t.Fatal(err)
	}
	var before int64
	for range times {
		held, err := store.DB().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		var looked atomic.Int64
		waits := store.DB().Stats().WaitCount
		for range people {
			group.Go(func() {
				if _, err := store.Parts(t.Context()); err != nil {
					t.Error(err)
				}
				looked.Add(1)
			})
		}
		group.Go(func() {
			if _, _, err := store.Positions(t.Context(), nil); err != nil {
				t.Error(err)
			}
			atomic.AddInt64(&before, looked.Load())
		})
		for store.DB().Stats().WaitCount < waits+2 { // until the call waits for the connection, beside a look
			<-time.After(time.Millisecond)
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
		group.Wait()
	}
	if before > people*times/10 {
		t.Errorf("%d looks came before %d calls of the node, of %d looks", before, times, people*times)
	}
}

// TestLooksComeThrough looks at a store whose node is never idle.
func TestLooksComeThrough(t *testing.T) {
	store := open(t, file(t), sqlite.Options{})
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				if _, _, err := store.Positions(t.Context(), nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		if _, err := store.Parts(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	group.Wait()
	// Who does not want to wait for a turn need not.
	held, err := store.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, cancel := context.WithCancel(t.Context())
	group.Go(func() { _, _ = store.Parts(first) })
	second, give := context.WithCancel(t.Context())
	give()
	if _, err := store.Parts(second); err == nil {
		t.Error("a look that was given up has seen something")
	}
	cancel()
	group.Wait()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
}
