package memory_test

import (
	"testing"
	"time"

	"chronos/node/store/inspect/inspecttest"
	"chronos/node/store/memory"
)

// TestInspect checks what the store shows to people who ask.
func TestInspect(t *testing.T) {
	inspecttest.Run(t, func(*testing.T) inspecttest.Store { return memory.New(time.Now) })
}
