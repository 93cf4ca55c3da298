package postgres_test

import (
	"testing"

	"chronos/node/store/postgres"
	"chronos/node/store/storetest"
)

// TestQueues runs the part of the conformance suite that is about queues, once as a node connects to a server and once
// as through a pooler.
func TestQueues(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := newSchema(t, newDatabase(t))
			exec(t, address, "CREATE TABLE fresh AS TABLE store")
			exec(t, address, "CREATE TABLE fresh_queues AS TABLE queues")
			storetest.RunQueues(t, func(t *testing.T) storetest.QueueInstance {
				exec(t, address, asNew)
				options := postgres.Options{PgBouncer: pooled}
				watch := connect(t, address)
				opened := func() *postgres.Store { return postgres.Unhurried(open(t, address, options), patience) }
				store := opened()
				return storetest.QueueInstance{
					Store: store, Peer: opened(), Switches: store,
					Messages: func(t testing.TB) (names []string) {
						for _, row := range dump(t, watch) {
							names = append(names, row.ID+" "+row.Lane)
						}
						return names
					},
				}
			})
		})
	}
}
