package node_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// A sink that hangs, and much more than fits into the schedule is overdue or falls due: what finds no room waits in the
// store.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var hangs atomic.Bool
		hangs.Store(true)
		w.hangs = func(node.Record) bool { return hangs.Load() }
		const messages = 6000
		for i := range messages {
			w.submit(fmt.Sprintf("m%04d", i), -time.Second)
		}
		n := w.run(config(0), nil)
		most := 0
		for range 40 {
			pass(50 * time.Millisecond)
			most = max(most, w.claimedBy(n.node.ID()))
		}
		// The lane has half of a schedule of 2,000; a batch is in the hands of each publisher, and a claim on its way.
		if most < 1000 || most > 3500 {
			t.Errorf("%d messages are claimed at once", most)
		}
		hangs.Store(false)
		pass(20 * time.Second)
		if got := len(w.values("out")); got != messages {
			t.Errorf("%d of %d came out", got, messages)
		}
	})
}

// What was given back makes room again: messages of a megabyte on a lane that fails for a while, which are claimed and
// given back more often than the schedule has room for.
func TestRoomComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var fails atomic.Bool
		fails.Store(true)
		w.hangs = func(node.Record) bool { return fails.Load() }
		const messages = 12
		value := make([]byte, 1<<20)
		for i := range messages {
			r := w.submit(id(i), 500*time.Millisecond)
			w.input["in"][i].Value = append([]byte(string(r.Value)), value...)
		}
		w.run(config(0), nil)
		pass(40 * time.Second)
		fails.Store(false)
		pass(10 * time.Second)
		if got := len(w.on("out")); got < messages {
			t.Errorf("%d of %d came out", got, messages)
		}
		w.empty()
	})
}

// A lane hangs for long, and another has a message now and then: it comes in time, whatever the first one's back-off.
func TestQuietLaneBesideOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}}
		w.hangs = func(r node.Record) bool { return r.Topic == "out" }
		start := time.Now()
		for i := range 100 {
			w.submit(id(i), time.Second+time.Duration(i)*200*time.Millisecond)
		}
		due := map[string]time.Time{}
		for i := range 8 {
			in := 6*time.Second + time.Duration(i)*1730*time.Millisecond
			r := w.submit(id(i), in)
			r.Topic = "in2"
			w.submitRecord(r)
			due[string(r.Value)] = start.Add(in)
		}
		w.run(c, nil)
		pass(20 * time.Second)
		got := w.on("out2")
		for _, d := range got {
			if late := d.at.Sub(due[string(d.Value)]); late > 50*time.Millisecond {
				t.Errorf("%s came %v late", d.Value, late)
			}
		}
		if len(got) != len(due) {
			t.Errorf("%d of %d came out", len(got), len(due))
		}
	})
}

// A lane begins to hang, and nobody knows it yet: what falls due on it one by one occupies publishers, but leaves one
// for the other lanes.
func TestLaneLeavesOnePublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}}
		w.hangs = func(r node.Record) bool { return r.Topic == "out" }
		start := time.Now()
		for i := range 50 {
			w.submit(id(i), 2*time.Second+time.Duration(i)*20*time.Millisecond)
		}
		r := w.submit("quiet", 2510*time.Millisecond)
		r.Topic = "in2"
		w.submitRecord(r)
		w.run(c, nil)
		pass(6 * time.Second)
		got := w.on("out2")
		if len(got) != 1 {
			t.Fatalf("%d came out", len(got))
		}
		if late := got[0].at.Sub(start.Add(2510 * time.Millisecond)); late > 50*time.Millisecond {
			t.Errorf("it came %v late", late)
		}
	})
}

// One publish of unknown outcome does not hold up what falls due on its lane after it.
func TestOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		for i := range 20 {
			w.submit(id(i), time.Second+time.Duration(i)*100*time.Millisecond)
		}
		failures := 0
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "publish" {
				if failures++; failures == 1 {
					return errInjected, false
				}
			}
			return nil, true
		})
		pass(5 * time.Second)
		for _, d := range w.on("out") {
			n := int(d.Value[8]-'0')*10 + int(d.Value[9]-'0')
			due := start.Add(time.Second + time.Duration(n)*100*time.Millisecond)
			if late := d.at.Sub(due); n > 0 && late > 50*time.Millisecond {
				t.Errorf("%s came %v late", d.Value, late)
			}
		}
		if got := len(w.values("out")); got != 20 {
			t.Errorf("%d of 20 came out", got)
		}
		w.empty()
	})
}

// A dead-letter topic that takes no large records gets a copy that is cut, and says so.
func TestCopyCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" || len(r.Value) > 5000 {
				return node.RecordRejected
			}
			return nil
		}
		r := w.submit("small", time.Second)
		r.Value, r.Headers = make([]byte, 9000), slices.Clone(r.Headers)
		r.Headers[1].Value = []byte("large")
		w.submitRecord(r)
		w.run(config(0), nil)
		pass(3 * time.Second)
		cut := 0
		for _, d := range w.on("dead") {
			if slices.ContainsFunc(d.Headers, func(h node.Header) bool { return h.Name == node.HeaderCut }) {
				cut++
			}
		}
		if got := len(w.on("dead")); got != 2 || cut != 1 {
			t.Errorf("%d dead letters, %d of them cut", got, cut)
		}
		w.empty()
	})
}

// A store can keep neither a record nor its dead-letter copy: both are passed over, and what comes behind them fires.
func TestCopyRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		asked := 0
		w.refuses = func(m *node.Message) bool {
			asked++
			return string(m.Value) == "value x" && asked < 100
		}
		w.submit("x", time.Second)
		w.submit("y", time.Second)
		w.run(config(0), nil)
		pass(3 * time.Second)
		if got := w.values("out"); len(got) != 1 || got["value y"] != 1 || len(w.on("dead")) > 0 {
			t.Errorf("delivered %v, and %d dead letters", got, len(w.on("dead")))
		}
		if got := len(seen[node.Rejected](w)); got != 2 {
			t.Errorf("it was rejected %d times, want 2: the record, and its copy", got)
		}
		w.empty()
	})
}

// refusingStore can never keep some messages.
type refusingStore struct {
	node.Store

	refuses func(*node.Message) bool
}

// Take implements node.Store.
func (s refusingStore) Take(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
	for i := range r.Items {
		if r.Items[i].Action != node.Schedule || !s.refuses(&r.Items[i].Message) {
			continue
		}
		r.Items = r.Items[:i]
		result, err := s.Store.Take(ctx, r)
		result.Refusal = "no row can hold it"
		return result, err
	}
	return s.Store.Take(ctx, r)
}

// TestClaimAhead has nodes claim ahead by a fixed advance, and by one that follows how long publishes take: they claim
// as far ahead as is said, which is what the next owner of a partition of a journal goes by, and no further.
func TestClaimAhead(t *testing.T) {
	for name, c := range map[string]struct {
		advance  time.Duration
		adaptive bool
		publish  time.Duration
	}{
		"no advance": {0, false, 50 * time.Millisecond}, "advance": {7 * time.Second, false, 50 * time.Millisecond},
		"adaptive": {0, true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				config := config(0)
				config.TimingAdvance, config.AdaptiveAdvance = c.advance, c.adaptive
				for i := range 20 {
					w.submit(fmt.Sprint(i), time.Duration(i)*time.Second)
				}
				r := w.run(config, func(_ int, call string) (error, bool) {
					if call == "publish" {
						pass(c.publish)
					}
					return nil, true
				})
				var most atomic.Int64
				asks := func(r node.ClaimRequest) { most.Store(max(most.Load(), int64(time.Until(r.Until)))) }
				r.gate.asks.Store(&asks)
				pass(30 * time.Second)
				r.stop()
				if got, want := time.Duration(most.Load()), config.ClaimAhead(); got != want {
					t.Errorf("it claims %v ahead, and says %v", got, want)
				}
			})
		})
	}
}
