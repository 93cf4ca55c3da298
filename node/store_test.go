package node_test

import (
	"testing"

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
