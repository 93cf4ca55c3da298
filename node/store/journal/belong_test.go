package journal_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// A partition belongs to the first consumer group that has owned it: a store of another one does not get it, whether
// its local copy is new or not, and neither does compaction change that. The first one takes it back.
func TestGroup(t *testing.T) {
	t.Parallel()
	cluster := simulated.New()
	cluster.CreateTopic(topicName, 1, 0)
	of := func(group string) *journal.Store {
		return open(t, journal.Config{
			Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Group: group,
		})
	}
	ours, theirs := of("ours"), of("theirs")
	own(t, ours, 0)
	for range 2 {
		err := theirs.Own(t.Context(), 0, uuid.New())
		var other *journal.OtherGroupError
		if !errors.As(err, &other) || other.Group != "ours" || other.Ours != "theirs" {
			t.Fatalf("a store of another group owns the partition: %v", err)
		}
		cluster.Compact(topicName, 0, true)
		own(t, ours, 0)
	}
	own(t, of("ours"), 0)
	own(t, of(""), 0)
}

// Whoever looks on is told how a local copy is caught up: that it is made anew, and the second time that it is not, and
// that nothing is left in the end.
func TestReplayIsTold(t *testing.T) {
	t.Parallel()
	cluster := simulated.New()
	cluster.CreateTopic(topicName, 1, 0)
	cluster.CreateTopic(output, 1, 0)
	var told []journal.Replay
	store := open(t, journal.Config{
		Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(),
		Observe: func(r journal.Replay) { told = append(told, r) },
	})
	own(t, store, 0)
	from := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch}}
	if _, _, err := store.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !told[0].Anew || told[0].Left != 0 {
		t.Errorf("it was told %+v, want that a copy of nothing was made", told)
	}
	told = nil
	own(t, store, 0)
	if len(told) != 1 || told[0].Anew || told[0].Left != 0 || told[0].Read != 1 { // the fence
		t.Errorf("it was told %+v, want that the fence was read", told)
	}
}
