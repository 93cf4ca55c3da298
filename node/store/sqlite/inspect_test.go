package sqlite_test

import (
	"testing"

	"chronos/node/store/inspect/inspecttest"
	"chronos/node/store/sqlite"
)

// TestInspect checks what the store shows to people who ask.
func TestInspect(t *testing.T) {
	inspecttest.Run(t, func(t *testing.T) inspecttest.Store { return open(t, file(t), sqlite.Options{}) })
}
