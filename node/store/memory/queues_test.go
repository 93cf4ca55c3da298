package memory_test

import (
	"testing"

	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// TestQueues runs the part of the conformance suite that is about queues.
func TestQueues(t *testing.T) {
	storetest.RunQueues(t, func(*testing.T) storetest.QueueInstance {
		clock := storetest.NewClock()
		store := memory.New(clock.Now)
		return storetest.QueueInstance{
			Store: store, Clock: clock, Switches: store,
			Messages: func(testing.TB) (names []string) {
				for _, row := range store.Dump() {
					names = append(names, row.ID+" "+row.Lane)
				}
				return names
			},
		}
	})
}
