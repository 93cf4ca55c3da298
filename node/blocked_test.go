package node_test

import (
	"testing"

	"chronos/node"
)

// What is locked is kept apart, up to a bound, and everything else is settled, whatever is locked.
func TestUndone(t *testing.T) {
	t.Parallel()
	items := make([]int, 30_000)
	for i := range items {
		items[i] = i
	}
	third := func(i int) bool { return i%3 == 0 }
	all := func(int) bool { return true }
	none := func(int) bool { return false }
	for _, c := range []struct {
		locked              func(int) bool
		n, left, andDropped int
	}{{none, 30_000, 0, 0}, {third, 30_000, 10_000, 0}, {all, 10_000, 10_000, 0}, {all, 30_000, 10_000, 20_000}} {
		for _, most := range []int{1, 7, 500} {
			if most == 1 && c.n > 10_000 {
				continue // it takes long
			}
			left, dropped := node.Undone(items[:c.n:c.n], most, c.locked, 1)
			if left != c.left || dropped != c.andDropped {
				t.Errorf("%d items, %d at once: %d left and %d dropped, want %d and %d", c.n, most, left, dropped,
					c.left, c.andDropped)
			}
		}
	}
}
