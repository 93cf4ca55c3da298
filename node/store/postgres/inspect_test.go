package postgres_test

import (
	"testing"

	"chronos/node/store/inspect/inspecttest"
	"chronos/node/store/postgres"
)

// TestInspect checks what the store shows to people who ask.
func TestInspect(t *testing.T) {
	database := newDatabase(t)
	inspecttest.Run(t, func(t *testing.T) inspecttest.Store {
		return open(t, newSchema(t, database), postgres.Options{})
	})
}
