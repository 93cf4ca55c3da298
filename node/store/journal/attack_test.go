package journal_test

import (
	"slices"
	"testing"
	"time"
)

// A clock that was ahead, and is put right, does not make an old local copy young: such a copy may have missed
// tombstones that compaction has removed since. Method: the first node takes messages in while its clock is ahead; the
// second one fires some of them, and their tombstones go. The first one is then back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	items := w.records()
	own(t, w.stores[0], 0)
	w.clock.Advance(24 * time.Hour)
	w.take(w.stores[0], 0, items)
	w.clock.Advance(-24 * time.Hour)
	own(t, w.stores[1], 0)
	w.clock.Advance(time.Hour) // what was taken in is due
	w.fire(w.stores[1], 5)
	w.clock.Advance(3 * time.Hour)
	w.cluster.Compact(topicName, 0, true)
	want := w.ids(w.stores[1])
	own(t, w.stores[0], 0)
	if got := w.ids(w.stores[0]); !slices.Equal(got, want) {
		t.Fatalf("the first node has %q again, and the journal says %q", got, want)
	}
}
