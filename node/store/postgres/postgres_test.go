package postgres_test

import (
	"testing"

	"chronos/node/store/memory"
	"chronos/node/store/postgres"
	"chronos/node/store/storetest"
)

// TestStore runs the conformance suite on a real server, once as a node connects to it and once as through a pooler.
func TestStore(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			database := newDatabase(t)
			storetest.Run(t, func(t *testing.T) storetest.Instance {
				address := newSchema(t, database)
				options := postgres.Options{PgBouncer: pooled}
				watch := connect(t, address)
				return storetest.Instance{
					Store: open(t, address, options),
					Peer:  open(t, address, options),
					Dump:  func(t testing.TB) []memory.Row { return dump(t, watch) },
					Begin: func(t testing.TB) storetest.Session { return begin(t, address) },
				}
			})
		})
	}
}
