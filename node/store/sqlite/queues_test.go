package sqlite_test

import (
	"testing"
	"time"

	"chronos/node/store/sqlite"
	"chronos/node/store/storetest"
)

// TestQueues runs the part of the conformance suite that is about queues.
func TestQueues(t *testing.T) {
	storetest.RunQueues(t, func(t *testing.T) storetest.QueueInstance {
		clock := storetest.NewClock()
		store := open(t, file(t), sqlite.Options{Now: clock.Now, Timeout: time.Minute})
		return storetest.QueueInstance{
			Store: store, Clock: clock, Switches: store,
			Messages: func(t testing.TB) (names []string) {
				for _, row := range dump(t, store.DB()) {
					names = append(names, row.ID+" "+row.Lane)
				}
				return names
			},
		}
	})
}
