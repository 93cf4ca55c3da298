package node_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// paceOf returns a configuration whose output has a pace.
func paceOf(seed byte, perSecond int) node.Config {
	c := config(seed)
	c.Paces = []node.LanePace{{Lane: "out", PerSecond: perSecond}}
	return c
}

// instants returns when something came out on a lane, in order.
func (w *world) instants(lane string) []time.Duration {
	var times []time.Duration
	for _, d := range w.on(lane) {
		times = append(times, d.at.Sub(w.began))
	}
	slices.Sort(times)
	return times
}

// crowded returns the largest number of instants within any second.
func crowded(times []time.Duration) int {
	most := 0
	for i := range times {
		for j := i; j < len(times) && times[j]-times[i] < time.Second; j++ {
			most = max(most, j-i+1)
		}
	}
	return most
}

// What falls due at one instant on a lane with a pace comes out at that pace, as much as that allows at once, the
// earliest deadlines first, and all of it in time. A lane without a pace does not notice.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := paceOf(0, 10)
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		w.run(c, nil)
		const messages = 47
		due := time.Now().UTC().Add(10 * time.Second).Format(time.RFC3339Nano)
		for i := range messages {
			w.submit(id(i), 10*time.Second+time.Duration(i)*time.Microsecond)
			w.submitRecord(node.Record{Topic: "in2", Value: []byte(id(i)), Headers: []node.Header{
				{Name: node.HeaderID, Value: []byte(id(i))},
				{Name: node.HeaderDeadline, Value: []byte(due)},
			}})
		}
		pass(30 * time.Second)
		times := w.instants("out")
		if len(times) != messages || len(w.on("out2")) != messages {
			t.Fatalf("%d of %d came out, and %d of the other lane", len(times), messages, len(w.on("out2")))
		}
		if most := crowded(times); most != 10 {
			t.Errorf("%d came out within a second, want 10: %v", most, times)
		}
		if first, last := times[0], times[messages-1]; first > 10*time.Second+50*time.Millisecond ||
			last > 14*time.Second+500*time.Millisecond {
			t.Errorf("they came out from %v to %v, want from 10s to 14s", first, last)
		}
		if late := w.instants("out2")[messages-1]; late > 10*time.Second+50*time.Millisecond {
			t.Errorf("the last one of the other lane came out after %v", late)
		}
		for n, d := range w.on("out") {
			if tens := string(d.Value)[len("value m0"):][:1]; tens != fmt.Sprint(n/10) {
				t.Errorf("%s comes out as number %d", d.Value, n)
			}
		}
		w.empty()
	})
}

// A message that is due while there is room in the pace of its lane is on time; and what waits for room is not held
// until a lookahead before that, so that another node could have it, and it can be cancelled.
func TestPaceHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.run(paceOf(0, 2), nil)
		for i := range 8 {
			w.submit(id(i), 10*time.Second+time.Duration(i)*500*time.Millisecond) // as many as the pace allows
		}
		for i := range 6 {
			w.submit(id(10+i), 30*time.Second)
		}
		pass(20 * time.Second)
		for i, at := range w.instants("out") {
			if late := at - 10*time.Second - time.Duration(i)*500*time.Millisecond; late > 50*time.Millisecond {
				t.Errorf("message %d is %v late", i, late)
			}
		}
		pass(10*time.Second + 500*time.Millisecond)
		if held := w.claimedBy(r.node.ID()); held != 0 {
			t.Errorf("%d are held half a second before there is room", held)
		}
		pass(10 * time.Second)
		if times := w.instants("out"); len(times) != 14 || crowded(times) != 2 {
			t.Errorf("they come out at %v", times)
		}
	})
}

// What is not published after all, since its time has passed, leaves its place in the pace to what can be.
func TestPaceSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := paceOf(0, 3)
		c.Windows = []node.LaneWindow{{Lane: "out", Window: window(t, "00:01 to 00:02 every day")}}
		w.run(c, nil)
		for i := range 9 {
			w.submit(id(i), 5*time.Second, node.Header{
				Name: node.HeaderNotAfter, Value: []byte(time.Now().UTC().Add(20 * time.Second).Format(time.RFC3339)),
			})
		}
		for i := range 3 {
			w.submit(id(10+i), 6*time.Second)
		}
		pass(90 * time.Second)
		times := w.instants("out")
		if len(times) != 3 || times[2] > time.Minute+600*time.Millisecond {
			t.Errorf("what may come out does so at %v, want three at the opening", times)
		}
		w.empty()
	})
}

// What waits on a lane with a pace comes before what is due when it is submitted, however much of that there is: as
// soon as there is room, the oldest have it. When nothing waits any more, what is due when it is submitted is on time.
func TestPaceKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(paceOf(0, 5), nil)
		for i := range 50 {
			w.submit(id(i), 2*time.Second)
		}
		pass(3 * time.Second)
		for i := range 1000 {
			w.submit(id(100+i), 0)
			pass(20 * time.Millisecond)
		}
		for i := range 50 {
			if came := w.at("out", "value "+id(i)); len(came) != 1 || came[0] > 13*time.Second {
				t.Errorf("%s came at %v, want within 13s", id(i), came)
			}
		}
		pass(5 * time.Minute) // nothing waits any more
		for i := range 20 {
			now := time.Since(w.began)
			w.submit(id(2000+i), 0)
			pass(time.Second)
			if came := w.at("out", "value "+id(2000+i)); len(came) != 1 || came[0] > now+60*time.Millisecond {
				t.Errorf("%s came at %v, want at %v", id(2000+i), came, now)
			}
		}
	})
}

// A request that has failed counts: its receiver has had it.
func TestPaceCountsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		failing := time.Now().Add(8 * time.Second)
		w.answer = func(node.Record) error {
			if time.Now().Before(failing) {
				return &node.PublishError{Err: errors.New("503")}
			}
			return nil
		}
		c := calls(0)
		c.Paces = []node.LanePace{{Lane: "http:out", PerSecond: 10}}
		w.run(c, nil)
		for i := range 40 {
			w.submit(id(i), 5*time.Second)
		}
		pass(30 * time.Second)
		if times := w.instants("http:out"); len(w.values("http:out")) != 40 || crowded(times) != 10 {
			t.Errorf("%d of 40 came out, and there were %d tries within a second", len(w.values("http:out")),
				crowded(times))
		}
		w.empty()
	})
}

// What is not sent leaves its place in the pace of its lane to others: neither a host that is away, nor a partition
// that does not answer, slows down the rest.
func TestPaceSparesUnsent(t *testing.T) {
	away := func(r node.Record) error {
		if strings.HasPrefix(string(r.Value), "value away") {
			return &node.PublishError{Kind: node.PartUnavailable, Part: "3", After: 5 * time.Second}
		}
		return nil
	}
	for lane, c := range map[string]node.Config{"http:out": calls(0), "out": config(0)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.answer, w.refuse = away, away
			c.Paces = []node.LanePace{{Lane: lane, PerSecond: 10}}
			w.run(c, nil)
			for i := range 200 {
				w.submit(fmt.Sprint("away", i), 5*time.Second)
			}
			for i := range 60 {
				w.submit(id(i), time.Duration(i+1)*time.Second)
			}
			pass(65 * time.Second)
			for i := range 60 {
				due := time.Duration(i+1) * time.Second
				if came := w.at(lane, "value "+id(i)); len(came) != 1 || came[0] > due+200*time.Millisecond {
					t.Errorf("%s came on %s at %v, want at %v", id(i), lane, came, due)
				}
			}
		})
	}
}

// A request that has waited for its turn is counted when it begins: what waits for a host that is busy does not go out
// beside what may begin by then. One that has waited for a second has lost its place, and comes later.
func TestPaceCountsWhatWaits(t *testing.T) {
	for _, wait := range []time.Duration{900 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			until := time.Now().Add(5*time.Second + wait)
			w.turn = func(node.Record) { <-time.After(time.Until(until)) }
			c := calls(0)
			c.Paces = []node.LanePace{{Lane: "http:out", PerSecond: 10}}
			w.run(c, nil)
			for i := range 40 {
				w.submit(id(i), 5*time.Second)
			}
			pass(20 * time.Second)
			if times := w.instants("http:out"); len(times) != 40 || crowded(times) != 10 {
				t.Errorf("after a wait of %v, %d of 40 came out, %d within a second: %v", wait, len(times),
					crowded(times), times)
			}
			w.empty()
		})
	}
}

func TestPaceConfig(t *testing.T) {
	for _, c := range []struct {
		paces []node.LanePace
		want  string
	}{
		{[]node.LanePace{{"out", 1}, {"out", 2}}, "Paces is two paces of lane out: a lane has one"},
		{
			[]node.LanePace{{"o*t", 1}},
			"Paces is a pace of lane o*t: it must be the name of a lane, or the beginning of one and a *",
		},
		{
			[]node.LanePace{{"out", -1}},
			"Paces is a pace of -1 on lane out: it must be from 1 to 1000000, or 0 for none",
		},
		{
			[]node.LanePace{{"dead", 1}},
			"Paces is a pace of the dead-letter topic dead: it has none, because what is rejected is copied there at " +
				"once",
		},
	} {
		config := config(0)
		config.Routes[0].DeadLetter = "dead"
		config.Paces = c.paces
		err := config.Validate()
		if _, is := errors.AsType[*node.ConfigError](err); !is || fmt.Sprint(err) != c.want {
			t.Errorf("%v gives %v, want %s", c.paces, err, c.want)
		}
	}
	c := config(0)
	c.Routes[0].DeadLetter = "o.dead"
	c.Paces = []node.LanePace{{"o*", 5}, {"out", 7}, {"out.2", 0}}
	for lane, want := range map[string]int{"out": 7, "out.2": 0, "o.3": 5, "o.dead": 0, "in": 0} {
		if got := c.PaceOf(lane); got != want {
			t.Errorf("the pace of %s is %d, want %d", lane, got, want)
		}
	}
}
