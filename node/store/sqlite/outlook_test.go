package sqlite_test

import (
	"path/filepath"
	"testing"

	"chronos/node/store/outlook/outlooktest"
	"chronos/node/store/sqlite"
)

// The outlook is that of every store.
func TestOutlook(t *testing.T) {
	outlooktest.Run(t, open(t, filepath.Join(t.TempDir(), "chronos.db"), sqlite.Options{}))
}
