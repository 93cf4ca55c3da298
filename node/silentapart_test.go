package node_test

import (
	"fmt"
	"slices"
	"strings"
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
		{"20s for an hour", 600, 20 * time.Second, 0, 5 * time.Minute},
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

// Many lanes have a silent partition each, and are gone through in parts, which take a while each. On a lane beside
// them, on which nothing is wrong, messages come out in time.
func TestSilentBesideParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, waiting, n = 12, 60, 300
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if strings.HasPrefix(r.Topic, "out") {
				return node.ErrUnavailable
			}
			return nil
		}
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "healthy", DeadLetter: "dead"}}
		for i := range lanes {
			lane := fmt.Sprint("out", i)
			c.Routes[0].Targets = append(c.Routes[0].Targets, lane)
			for j := range waiting {
				at := time.Now().Add(-time.Hour + time.Duration(j)*time.Minute)
				w.stored(node.Message{ID: fmt.Sprint("silent-", j), Lane: lane, Deadline: at})
			}
		}
		w.wade = &wade{
			rows: w.store, hour: 2 * time.Second, since: w.began.Add(-time.Hour), limit: 1500 * time.Millisecond,
		}
		w.run(c, nil)
		pass(2 * time.Minute)
		due := map[string]time.Time{}
		for i := range n {
			w.now("healthy", fmt.Sprint(i), 1)
			due[fmt.Sprint(i, "-0")] = time.Now()
			pass(100 * time.Millisecond)
		}
		pass(5 * time.Second)
		var late []time.Duration
		for _, d := range w.on("healthy") {
			late = append(late, d.at.Sub(due[d.id()]))
		}
		slices.Sort(late)
		if len(late) != n || late[n*9/10] > 400*time.Millisecond || late[n-1] > time.Second {
			t.Fatalf("%d of %d came out, late by %v", len(late), n, late[max(0, len(late)-30):])
		}
		t.Logf("late by %v, %v for nine of ten, %v at most", late[n/2], late[n*9/10], late[n-1])
	})
}
