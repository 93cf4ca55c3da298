package storetest_test

import (
	"testing"
	"time"

	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// TestMemory runs the suite on the model itself: as it is, as a store that shows nothing but its port and keeps its
// clock to itself, and with transactions beside it.
func TestMemory(t *testing.T) {
	t.Run("with clock and dump", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Instance {
			clock := storetest.NewClock()
			store := memory.New(clock.Now)
			return storetest.Instance{
				Store: store, Clock: clock,
				Dump:    func(testing.TB) []memory.Row { return store.Dump() },
				Answers: func(testing.TB) int { return store.Answers() },
				Promote: func(testing.TB) { store.Promote() },
				Upgrade: func(testing.TB) { store.Upgrade() },
				Lock:    func(_ testing.TB, locks memory.Locks) func() { return store.Lock(locks) },
			}
		})
	})
	t.Run("through the port only", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Instance {
			return storetest.Instance{Store: memory.New(time.Now)}
		})
	})
	t.Run("with sessions", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Instance {
			clock := storetest.NewClock()
			store := newLocking(clock)
			return storetest.Instance{Store: store, Clock: clock, Begin: store.begin}
		})
	})
}
