package node_test

import (
	"testing"

	"github.com/google/uuid"

	"chronos/node"
)

// A position lies above another in its offset, or in its epoch if both are known: a take that starts there would leave
// a gap.
func TestPositionAbove(t *testing.T) {
	const unknown = node.UnknownEpoch
	for _, c := range []struct {
		p, q  node.Position
		above bool
	}{
		{node.Position{Epoch: 1, Offset: 5}, node.Position{Epoch: 1, Offset: 5}, false},
		{node.Position{Epoch: 1, Offset: 6}, node.Position{Epoch: 1, Offset: 5}, true},
		{node.Position{Epoch: 1, Offset: 4}, node.Position{Epoch: 1, Offset: 5}, false},
		{node.Position{Epoch: 2, Offset: 5}, node.Position{Epoch: 1, Offset: 5}, true},
		{node.Position{Epoch: 2, Offset: 4}, node.Position{Epoch: 1, Offset: 5}, true},
		{node.Position{Epoch: 1, Offset: 5}, node.Position{Epoch: 2, Offset: 5}, false},
		{node.Position{Epoch: 1, Offset: 6}, node.Position{Epoch: 2, Offset: 5}, true},
		{node.Position{Epoch: 2, Offset: 4}, node.Position{Epoch: unknown, Offset: 5}, false},
		{node.Position{Epoch: unknown, Offset: 4}, node.Position{Epoch: 2, Offset: 5}, false},
		{node.Position{Epoch: unknown, Offset: 6}, node.Position{Epoch: 2, Offset: 5}, true},
	} {
		if got := c.p.Above(c.q); got != c.above {
			t.Errorf("%v above %v: %v, want %v", c.p, c.q, got, c.above)
		}
	}
}

// A record is taken in once in its epoch, and never one of an end of the log that Kafka has lost, however high its
// offset is. Where an epoch is unknown the offsets decide.
func TestPositionTakes(t *testing.T) {
	const unknown = node.UnknownEpoch
	for _, c := range []struct {
		p     node.Position
		epoch int32
		at    int64
		takes bool
	}{
		{node.Position{Epoch: 1, Offset: 5}, 1, 4, false},
		{node.Position{Epoch: 1, Offset: 5}, 1, 5, true},
		{node.Position{Epoch: 1, Offset: 5}, 2, 4, true},
		{node.Position{Epoch: 2, Offset: 5}, 1, 4, false},
		{node.Position{Epoch: 2, Offset: 5}, 1, 5, false},
		{node.Position{Epoch: 2, Offset: 5}, 1, 9, false},
		{node.Position{Epoch: unknown, Offset: 5}, 1, 5, true},
		{node.Position{Epoch: unknown, Offset: 5}, 1, 4, false},
		{node.Position{Epoch: 2, Offset: 5}, unknown, 5, true},
		{node.Position{Epoch: 2, Offset: 5}, unknown, 4, false},
	} {
		if got := c.p.Takes(c.epoch, c.at); got != c.takes {
			t.Errorf("%v takes epoch %d, offset %d: %v, want %v", c.p, c.epoch, c.at, got, c.takes)
		}
	}
}

// What Chronos makes of a record has the same id at each redelivery, and what it makes of another record another one:
// also of one that stands at the same offset after Kafka has lost the end of a log, or in a topic that was created
// again.
func TestDerivedIDs(t *testing.T) {
	p := node.Partition{Topic: "in", TopicID: uuid.UUID{1}, Number: 2}
	r := node.Record{Offset: 7, LeaderEpoch: 3}
	id := node.DerivedID("copy", p, r)
	if again := node.DerivedID("copy", p, r); again != id {
		t.Errorf("a redelivery has id %s, and the first was %s", again, id)
	}
	anew, third := p, p
	anew.TopicID, third.Number = uuid.UUID{2}, 3
	for what, other := range map[string]string{
		"of another kind":                node.DerivedID("outcome", p, r),
		"of another partition":           node.DerivedID("copy", third, r),
		"of a topic of the same name":    node.DerivedID("copy", anew, r),
		"at another offset":              node.DerivedID("copy", p, node.Record{Offset: 8, LeaderEpoch: 3}),
		"at the offset in another epoch": node.DerivedID("copy", p, node.Record{Offset: 7, LeaderEpoch: 4}),
	} {
		if other == id {
			t.Errorf("a record %s has the same id", what)
		}
	}
}
