package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// What waits for a silent partition fell due over two hours, and claims are dear by what they wade through, or by what
// they return: so many run into their time limit that those that come through are many seconds apart. A round goes on
// behind what it has claimed all the same, and what is long overdue comes out.
func TestSilentFarApart(t *testing.T) {
	for _, c := range []struct {
		name      string
		waiting   int
		hour, row time.Duration
		within    time.Duration
	}{
		{"3s for an hour", 600, 3 * time.Second, 0, 2 * time.Minute},
		{"20s for an hour", 600, 20 * time.Second, 0, 4 * time.Minute},
		{"4ms for a message", 2_000, 0, 4 * time.Millisecond, 2 * time.Minute},
		{"20ms for a message", 2_000, 0, 20 * time.Millisecond, 4 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const long = 2 * time.Hour
				w := newWorld(t)
				w.silent()
				w.overdue(c.waiting, long/time.Duration(c.waiting))
				w.wade = &wade{
					rows: w.store, hour: c.hour, row: c.row, since: w.began.Add(-long), limit: 1500 * time.Millisecond,
				}
				w.run(config(0), nil)
				pass(time.Minute)
				w.stored(node.Message{ID: "z", Lane: "out", Deadline: time.Now().Add(-10 * time.Minute)})
				pass(c.within)
				t.Logf("%d claims, %d ran into their time limit", w.wade.claims.Load(), w.wade.late.Load())
				if got := w.values("out")["value z"]; got != 1 {
					t.Errorf("what is long overdue came out %d times", got)
				}
			})
		})
	}
}

// One message waits for a silent partition, and a round takes longer than a lane counts as one with such a partition
// after the last try: the round goes on all the same, and what falls due meanwhile comes out in time.
func TestSilentLongRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { silentWade(t, 1, time.Minute) })
}
