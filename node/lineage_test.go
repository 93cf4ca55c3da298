package node_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// The store is set back, by a backup or to a standby that lags: what it has lost is taken in again by itself, although
// no record comes and the consumer group has committed everything. What fired in between fires again; nothing else.
func TestSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		promoted bool          // the server has another timeline, and says so
		away     time.Duration // for how long the node is stopped meanwhile
	}{
		"while nodes run":          {false, 0},
		"a promotion, nodes run":   {true, 0},
		"while no node runs":       {false, time.Second},
		"a promotion, no node run": {true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("before", 20*time.Second)
				first := w.run(config(0), nil)
				pass(3 * time.Second)
				backup := w.store.Snapshot()
				w.submit("fired", time.Second)
				w.submit("waiting", 20*time.Second)
				w.submit("again", 20*time.Second)
				pass(3 * time.Second)
				if c.away > 0 {
					first.stop()
					pass(c.away)
				}
				w.store.Restore(backup)
				if c.promoted {
					w.store.Promote()
				}
				if c.away > 0 {
					w.run(config(1), nil)
				}
				pass(10 * time.Second)
				got := w.values("out")
				if len(got) != 1 || got["value fired"] != 2 {
					t.Errorf("delivered after the catch-up: %v", got)
				}
				pass(10 * time.Second)
				got = w.values("out")
				for _, id := range []string{"before", "waiting", "again"} {
					if got["value "+id] != 1 {
						t.Errorf("%s was delivered %d times", id, got["value "+id])
					}
				}
				if len(seen[node.CatchingUp](w)) != 1 || len(seen[node.CaughtUp](w)) != 1 {
					t.Errorf("catching up: %v, caught up: %v", seen[node.CatchingUp](w), seen[node.CaughtUp](w))
				}
				w.empty()
			})
		})
	}
}

// The store is set back to before its last lineage began. The one that begins then has a number that no node has seen:
// with the number that was forgotten, claims of both would look as if they were of one lineage.
func TestForgottenLineageKeepsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", 30*time.Second)
		w.run(config(0), nil)
		pass(2 * time.Second)
		backup := w.store.Snapshot()
		if _, err := w.store.CatchUp(t.Context(), node.CatchUpRequest{Lineage: 1, Begin: true}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		w.store.Restore(backup)
		pass(10 * time.Second)
		if begun := seen[node.CatchingUp](w); len(begun) != 1 || begun[0].From != 1 || begun[0].To != 3 {
			t.Errorf("lineages begun: %v, want one, 3 after 1", begun)
		}
	})
}

// A position that somebody lowers is noticed within a second, and what fired from there on fires again.
func TestRewind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 10 {
			w.submit(id(i), time.Second)
		}
		w.run(config(0), nil)
		pass(3 * time.Second)
		partition := node.Partition{Topic: "in", TopicID: uuid.NewSHA1(uuid.NameSpaceURL, []byte("in"))}
		state, err := w.store.CatchUp(t.Context(), node.CatchUpRequest{
			Lineage: 1, Begin: true, Hold: 5 * time.Second,
			Marks:  []node.Extent{{Partition: partition, End: 10}},
			Rewind: []node.Place{{Partition: partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: 4}}},
		})
		if err != nil || state.Lineage != 2 {
			t.Fatalf("lineage %d, %v", state.Lineage, err)
		}
		pass(10 * time.Second)
		got := w.values("out")
		for i := range 10 {
			want := 1
			if i >= 4 {
				want = 2
			}
			if got["value "+id(i)] != want {
				t.Errorf("%s fired %d times, want %d", id(i), got["value "+id(i)], want)
			}
		}
		w.empty()
	})
}

// A lane that hangs delays the others by one turn at most, and what was not acknowledged there comes out when it is
// back.
func TestLaneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}}
		var hangs atomic.Bool
		hangs.Store(true)
		w.hangs = func(r node.Record) bool { return hangs.Load() && r.Topic == "out" }
		start := time.Now()
		const messages = 300
		for i := range messages {
			w.submit(id(i), 2*time.Second+time.Duration(i)*20*time.Millisecond)
			r := w.submit(id(i), 2*time.Second+time.Duration(i)*20*time.Millisecond)
			r.Topic = "in2"
			w.submitRecord(r)
		}
		w.run(c, nil)
		pass(9 * time.Second)
		late := 0
		for _, d := range w.on("out2") {
			n := int(d.Value[7]-'0')*100 + int(d.Value[8]-'0')*10 + int(d.Value[9]-'0')
			due := start.Add(2*time.Second + time.Duration(n)*20*time.Millisecond)
			// Nobody knows at first that the lane hangs: the turn in which that shows may hold up all publishers.
			known := due.Sub(start) > 4*time.Second+50*time.Millisecond
			if limit := 2*time.Second + 50*time.Millisecond; d.at.Sub(due) > limit ||
				known && d.at.Sub(due) > 50*time.Millisecond {
				late++
			}
		}
		if got := len(w.on("out2")); got != messages || late > 0 {
			t.Errorf("%d of %d came out beside the lane that hangs, %d of them late", got, messages, late)
		}
		hangs.Store(false)
		pass(10 * time.Second)
		if got := w.values("out"); len(got) != messages {
			t.Errorf("%d of %d came out once it does not hang", len(got), messages)
		}
		w.empty()
	})
}

// A partition that does not answer delays nobody else of its lane: neither while others of the lane come through, nor
// after a while in which nothing does, in which the node stands back from the lane.
func TestSilentPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var silent atomic.Bool
		silent.Store(true)
		w.refuse = func(r node.Record) error {
			if silent.Load() && strings.Contains(string(r.Value), "silent") {
				return errSilent
			}
			return nil
		}
		start := time.Now()
		const stuck, messages = 1200, 60 // the first are more than a claim takes
		for i := range stuck {
			w.submit(fmt.Sprint("silent-", i), time.Second)
		}
		due := map[string]time.Time{}
		for i := range messages {
			in := 300*time.Millisecond + time.Duration(i)*50*time.Millisecond
			if i == messages-1 {
				in = 30 * time.Second
			}
			due[string(w.submit(id(i), in).Value)] = start.Add(in)
		}
		w.run(config(0), nil)
		pass(35 * time.Second)
		for _, d := range w.on("out") {
			limit := 200 * time.Millisecond
			if due[string(d.Value)].Sub(start) == 30*time.Second {
				limit = 5 * time.Second // nothing has come through on the lane for long
			}
			if late := d.at.Sub(due[string(d.Value)]); late > limit {
				t.Errorf("%s came %v late", d.Value, late)
			}
		}
		if got := len(w.on("out")); got != messages {
			t.Errorf("%d of %d came out beside the silent partition", got, messages)
		}
		silent.Store(false)
		pass(5 * time.Second)
		if got := len(w.on("out")); got != messages+stuck {
			t.Errorf("%d of %d came out once it answers", got, messages+stuck)
		}
		w.empty()
	})
}

// A million overdue messages on one lane do not keep another lane's waiting.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}}
		const backlog = 20_000
		fill(t, w.store, backlog)
		start := time.Now()
		const messages = 50
		for i := range messages {
			r := w.submit(id(i), time.Duration(i)*10*time.Millisecond+300*time.Millisecond)
			r.Topic = "in2"
			w.submitRecord(r)
		}
		w.run(c, nil)
		pass(2 * time.Second)
		for _, d := range w.on("out2") {
			n := int(d.Value[8]-'0')*10 + int(d.Value[9]-'0')
			due := start.Add(time.Duration(n)*10*time.Millisecond + 300*time.Millisecond)
			if late := d.at.Sub(due); late > 150*time.Millisecond {
				t.Errorf("%s came %v late", d.Value, late)
			}
		}
		if got := len(w.on("out2")); got != messages {
			t.Errorf("%d of %d came out beside a backlog", got, messages)
		}
		pass(10 * time.Second)
		if got := len(w.on("out")); got != backlog+messages {
			t.Errorf("%d of the backlog came out", got)
		}
	})
}

// fill stores messages that are overdue on the lane out.
func fill(t *testing.T, store *memory.Store, n int) {
	t.Helper()
	place := node.Place{Partition: node.Partition{Topic: "old"}, Position: node.Position{Epoch: node.UnknownEpoch}}
	if _, _, err := store.Positions(t.Context(), []node.Place{place}); err != nil {
		t.Fatal(err)
	}
	request := node.TakeRequest{From: []node.Place{place}}
	for i := range n {
		request.Items = append(request.Items, node.Item{
			Offset: int64(i), Action: node.Schedule, Message: node.Message{
				ID: "old" + id(i), Lane: "out", Deadline: time.Now().Add(-time.Hour).UTC(), Incarnation: uuid.New(),
			},
		})
	}
	if result, err := store.Take(t.Context(), request); err != nil || result.Taken != n {
		t.Fatalf("took %d, %v", result.Taken, err)
	}
}

// The store is set back while records keep coming, so that a take meets it before any look does: the take is refused,
// and that alone must begin a new lineage.
func TestSetBackUnderTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(config(0), nil)
		n := 0
		traffic := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); n++ {
				w.submit(id(n), 20*time.Second)
				pass(20 * time.Millisecond)
			}
		}
		traffic(2 * time.Second)
		backup := w.store.Snapshot()
		traffic(2500 * time.Millisecond)
		w.store.Restore(backup)
		traffic(7 * time.Second) // longer than claims of before are held
		if got := seen[node.CatchingUp](w); len(got) != 1 || got[0].From != 1 || got[0].To != 2 {
			t.Errorf("new lineages: %v, want one", got)
		}
		if got := seen[node.StartedOver](w); len(got) != 1 {
			t.Errorf("reading was started over %d times, want once", len(got))
		}
		pass(30 * time.Second)
		if got := len(w.values("out")); got != n {
			t.Errorf("%d of %d came out", got, n)
		}
		w.empty()
	})
}

// The store is set back behind what retention has taken from an input topic on which nothing comes any more: what is
// gone cannot be waited for, and what waits in the store comes out.
func TestSetBackBehindRetention(t *testing.T) {
	for name, early := range map[string]bool{"before": true, "during the catch-up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				take := func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.taken["in"] = int64(len(w.input["in"]))
				}
				w.submit("before", 20*time.Second)
				w.run(config(0), func(_ int, call string) (error, bool) {
					if call == "poll" && len(seen[node.CatchingUp](w)) > 0 {
						take()
					}
					return nil, true
				})
				pass(3 * time.Second)
				backup := w.store.Snapshot()
				w.submit("lost", 20*time.Second)
				pass(3 * time.Second)
				if early {
					take()
				}
				w.store.Restore(backup)
				pass(30 * time.Second)
				if got := w.values("out"); len(got) != 1 || got["value before"] != 1 {
					t.Errorf("delivered: %v", got)
				}
			})
		})
	}
}

// A lane is in doubt, and something comes through on it while nothing of what is held there is due yet: whoever keeps
// the watch has to hear of it, or that waits until something else happens.
func TestLaneInDoubtClears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hangs = func(r node.Record) bool {
			return string(r.Value) == "value fails" && time.Since(w.began) < 4*time.Second
		}
		w.tardy = func(r node.Record) bool { return string(r.Value) == "value succeeds" }
		w.submit("fails", 2*time.Second)
		w.submit("succeeds", 2200*time.Millisecond)
		w.submit("next", 4300*time.Millisecond)
		w.run(config(0), nil)
		pass(10 * time.Second)
		for _, d := range w.on("out") {
			late := d.at.Sub(w.began.Add(4300 * time.Millisecond))
			if string(d.Value) == "value next" && late > 50*time.Millisecond {
				t.Errorf("it came %v late", late)
			}
		}
		w.empty()
	})
}

// Kafka has lost the end of a log, and other records have taken its place: the position has moved to a lower offset
// of a higher epoch, and the node stops before it has committed that. The store was not set back, and nothing has to
// wait.
func TestCommitOfLostEnd(t *testing.T) {
	for name, c := range map[string]struct {
		offset int64
		epoch  int32
	}{
		"the epoch is known":                    {6, 1},
		"it is not, and the log ends before it": {9, node.UnknownEpoch},
	} {
		t.Run(name, func(t *testing.T) { commitOfLostEnd(t, c.offset, c.epoch) })
	}
}

func commitOfLostEnd(t *testing.T, offset int64, epoch int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 7 {
			w.submit(id(i), time.Second)
			w.input["in"][i].LeaderEpoch = 2
		}
		w.committed["in"], w.epoch = offset, epoch
		place := node.Place{
			Partition: node.Partition{Topic: "in", TopicID: uuid.NewSHA1(uuid.NameSpaceURL, []byte("in"))},
			Position:  node.Position{Epoch: 2, Offset: 3},
		}
		if _, _, err := w.store.Positions(t.Context(), []node.Place{place}); err != nil {
			t.Fatal(err)
		}
		w.run(config(0), nil)
		pass(3 * time.Second)
		if got := len(w.on("out")); got != 4 || len(seen[node.CatchingUp](w)) > 0 {
			t.Errorf("%d of 4 came out, new lineages: %v", got, seen[node.CatchingUp](w))
		}
		w.committed["in"] = min(w.committed["in"], 7)
		w.empty()
	})
}

// A new lineage begins between the answer to a claim and the moment at which its messages are scheduled: what the store
// may know nothing of is not scheduled.
func TestLineageBeginsBeforeScheduling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		backup := w.store.Snapshot()
		var once sync.Once
		w.watch = func(e node.Event) {
			if _, claimed := e.(node.Claimed); claimed {
				once.Do(func() {
					w.store.Restore(backup)
					pass(1500 * time.Millisecond)
				})
			}
		}
		w.submit("x", 3*time.Second)
		w.run(config(0), nil)
		pass(15 * time.Second)
		if got := w.values("out"); got["value x"] != 1 || len(seen[node.CatchingUp](w)) != 1 {
			t.Errorf("delivered %v, new lineages: %v", got, seen[node.CatchingUp](w))
		}
		w.empty()
	})
}
