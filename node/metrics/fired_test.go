package metrics_test

import (
	"math"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/metrics"
)

// Goal: what a node has fired is counted over all lanes, and by how late it was. Method: messages of two lanes that
// were 3 ms, 40 ms and two hours late.
func TestFired(t *testing.T) {
	t.Parallel()
	m := metrics.New(aConfig(), "v")
	deadline := time.Unix(1_000_000, 0)
	for i, late := range []time.Duration{3 * time.Millisecond, 40 * time.Millisecond, 2 * time.Hour} {
		m.Observe(node.Fired{At: deadline.Add(late), Messages: []node.Message{
			{ID: "a", Lane: []string{"out", "dead", "out"}[i], Deadline: deadline},
		}})
	}
	fired, lateness := m.Fired()
	if fired != 3 {
		t.Errorf("%d were fired", fired)
	}
	want := map[float64]uint64{0: 0, 0.002: 0, 0.005: 1, 0.02: 1, 0.05: 2, 3600: 2, math.Inf(1): 3}
	last := math.Inf(-1)
	for _, b := range lateness {
		if n, asked := want[b.Seconds]; asked && b.Count != n {
			t.Errorf("%d were at most %v s late, want %d", b.Count, b.Seconds, n)
		}
		if b.Seconds <= last {
			t.Errorf("the bound %v comes after %v", b.Seconds, last)
		}
		last = b.Seconds
	}
	if len(lateness) != 22 || !math.IsInf(last, 1) {
		t.Errorf("the bounds are %v", lateness)
	}
}
