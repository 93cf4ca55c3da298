package memory_test

import (
	"testing"
	"time"

	"chronos/node/store/memory"
	"chronos/node/store/outlook/outlooktest"
)

// The outlook is that of every store.
func TestOutlook(t *testing.T) { outlooktest.Run(t, memory.New(time.Now)) }
