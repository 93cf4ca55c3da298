package node_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// A claim takes longer than the time between two looks: the backlog of a lane comes out all the same, by the claims
// that follow the looks for what falls due lately. So it does beside a silent partition, whose messages are tried.
func TestBacklogOfASlowStore(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for poll, claim := range map[int]int{5: 12, 20: 25, 100: 100, 101: 200} {
			t.Run(fmt.Sprintf("%dms, claims of %dms, silent %v", poll, claim, silent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					fill(t, w.store, 4_000)
					w.beside(60)
					var silence *silence
					if silent {
						silence = w.silent()
					}
					c := config(0)
					c.PollInterval = time.Duration(poll) * time.Millisecond
					c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
					w.run(c, func(_ int, call string) (error, bool) {
						if call == "claim" {
							pass(time.Duration(claim) * time.Millisecond)
						}
						return nil, true
					})
					pass(30 * time.Second)
					if got := len(w.on("out")); !silent && got != 4_000 {
						t.Errorf("%d of 4000 came out", got)
					}
					if silent && silence.most(20*time.Second) == 0 {
						t.Error("nothing was tried any more")
					}
				})
			})
		}
	}
}

// A lane may be claimed on for one message at a time, by its pace, or since its messages are large. What waits for a
// silent partition is parked all the same, one after the other, and what lies behind it is found.
func TestSilentOneByOne(t *testing.T) {
	for _, large := range []bool{false, true} {
		t.Run(fmt.Sprintf("large %v", large), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const waiting = 10
				w := newWorld(t)
				silence := w.silent()
				value := []byte("silent")
				if large {
					value = append(value, make([]byte, 9<<20)...)
				}
				overdue := func(id string, value []byte, by time.Duration) {
					_, err := w.store.Take(t.Context(), node.TakeRequest{Items: []node.Item{{
						From: node.NoPlace, Action: node.Schedule, Message: node.Message{
							ID: id, Lane: "out", Value: value, Incarnation: uuid.New(), Deadline: time.Now().Add(-by),
						},
					}}})
					if err != nil {
						t.Fatal(err)
					}
				}
				for i := range waiting {
					overdue(id(i), value, time.Hour-time.Duration(i)*time.Second)
				}
				w.beside(60)
				c := config(0)
				c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
				if !large {
					c.Paces = []node.LanePace{{Lane: "out", PerSecond: 1}}
				}
				w.run(c, func(_ int, call string) (error, bool) {
					if call == "claim" {
						pass(30 * time.Millisecond)
					}
					return nil, true
				})
				pass(5 * time.Second)
				overdue("healthy", []byte("healthy"), 4*time.Second)
				pass(10 * time.Second)
				if got := w.values("out")["healthy"]; got != 1 {
					t.Errorf("what is overdue behind them came out %d times", got)
				}
				if all := silence.all(); all < waiting || all > waiting+4*probe {
					t.Errorf("%d tries of %d", all, waiting)
				}
			})
		})
	}
}

// Series that are half an hour behind catch up beside many messages for a silent partition, and in nobody's way: what
// falls due meanwhile comes out in time.
func TestSilentSeriesInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		const series = 20
		for i := range series {
			w.series(fmt.Sprint("x", i), "every 1s", time.Second, node.HeaderMissed, "all")
		}
		first := w.run(c, nil)
		pass(3 * time.Second)
		first.stop()
		pass(30 * time.Minute)
		w.began = time.Now()
		w.silent()
		fill(t, w.store, 30_000)
		w.beside(60)
		c.Seed[1] = 9
		w.run(c, busy)
		pass(10 * time.Second)
		before := len(w.on("out"))
		late := w.lateness(w.prompt(300, 100*time.Millisecond))
		if p50, most := late[len(late)/2], late[len(late)-1]; p50 > 300*time.Millisecond || most > time.Second {
			t.Errorf("late by %v, and by %v at most", p50, most)
		}
		if got := len(w.on("out")) - before - 300; got < 45*series {
			t.Errorf("%d occurrences came out in 30s, of %d series of one a second that are behind", got, series)
		}
	})
}
