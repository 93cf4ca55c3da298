package node_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// calls returns a configuration whose output is a callback lane.
func calls(seed byte) node.Config {
	c := config(seed)
	c.Routes = []node.Route{{Input: "in", Output: "http:out", Targets: []string{"out", "http:other"}}}
	return c
}

// A callback that fails is tried again after 1 s, 2 s, 4 s, give or take a fifth, and tells which attempt it is.
// Nothing was tried where the sink says so, and that is no attempt. What the sink asks to wait for is waited for.
func TestCallbackRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asked atomic.Int32
		w.answer = func(node.Record) error {
			switch asked.Add(1) {
			case 1, 2:
				return &node.PublishError{Err: errInjected}
			case 3:
				return &node.PublishError{Kind: node.NotSent, Err: errors.New("busy"), After: 10 * time.Second}
			case 4:
				return &node.PublishError{Err: errInjected, After: time.Minute}
			case 5:
				return errInjected // of no kind that is known
			}
			return nil
		}
		w.submit("x", time.Second)
		w.run(calls(0), nil)
		due := time.Now().Add(time.Second)
		pass(3 * time.Minute)
		got := w.on("http:out")
		least := []float64{0, 0.8, 1.6, 10, 60, 6.4} // seconds
		most := []float64{0.1, 1.5, 2.8, 11, 61, 10.1}
		if len(got) != len(least) {
			t.Fatalf("%d requests, want %d", len(got), len(least))
		}
		before := due
		for i, want := range []string{"1", "2", "3", "3", "4", "5"} {
			wait := got[i].at.Sub(before).Seconds()
			if wait < least[i] || wait > most[i] {
				t.Errorf("request %d came after %v s, want %v to %v", i, wait, least[i], most[i])
			}
			if attempt := header(got[i].Record, node.HeaderAttempt); attempt != want {
				t.Errorf("request %d is attempt %s, want %s", i, attempt, want)
			}
			if id := header(got[i].Record, node.HeaderID); id != "x" {
				t.Errorf("request %d is of message %q", i, id)
			}
			before = got[i].at
		}
		if failed := seen[node.Failed](w); len(failed) > 0 {
			t.Errorf("%v: a callback that fails is no failure of its lane", failed)
		}
		w.empty()
	})
}

// One of a hundred hosts hangs for as long as a request may take, 15 s, with half of all messages: only these are late.
// Neither are messages on topics, nor on another lane, nor is a claim suspected by the peer.
func TestCallbackHangsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(r node.Record) error {
			if strings.HasPrefix(string(r.Value), "hung") {
				pass(15 * time.Second)
				return &node.PublishError{Err: errInjected}
			}
			pass(10 * time.Millisecond)
			return nil
		}
		const messages = 99
		for i := range messages {
			var headers []node.Header
			switch i % 3 {
			case 1:
				headers = []node.Header{{Name: node.HeaderTopic, Value: []byte("out")}}
			case 2:
				headers = []node.Header{{Name: node.HeaderTopic, Value: []byte("http:other")}}
			}
			w.submit(id(i), time.Second+time.Duration(i)*50*time.Millisecond, headers...)
			if i%3 == 0 {
				r := w.submit("hung"+id(i), time.Second+time.Duration(i)*50*time.Millisecond)
				w.input["in"][r.Offset].Value = []byte("hung")
			}
		}
		w.run(calls(0), nil)
		w.run(calls(1), nil)
		start := time.Now()
		pass(25 * time.Second)
		came := 0
		for _, lane := range []string{"http:out", "out", "http:other"} {
			for _, d := range w.on(lane) {
				var i int
				if _, err := fmt.Sscanf(string(d.Value), "value m%03d", &i); err != nil {
					continue
				}
				came++
				late := d.at.Sub(start.Add(time.Second + time.Duration(i)*50*time.Millisecond))
				if late < 0 || late > 50*time.Millisecond {
					t.Errorf("%s on %s came %v after its deadline", d.Value, lane, late)
				}
			}
		}
		if came != messages {
			t.Errorf("%d of %d came", came, messages)
		}
		if suspected := seen[node.Suspected](w); len(suspected) > 0 {
			t.Errorf("%v: a request may take as long as that", suspected)
		}
	})
}

// The claims of a node that dies during a request are taken over after the hold time of callbacks, not before.
func TestCallbackTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		first := w.run(calls(0), func(_ int, call string) (error, bool) {
			if call == "call" {
				return errCrash, true
			}
			return nil, true
		})
		pass(2 * time.Second)
		if _, dead := first.gate.state(); !dead {
			t.Fatal("the first node lives")
		}
		c := calls(1)
		w.run(c, nil)
		pass(c.CallbackHoldTime() + 5*time.Second)
		got := w.on("http:out")
		if len(got) != 2 {
			t.Fatalf("%d requests, want 2: that of the dead node, and another", len(got))
		}
		if wait := got[1].at.Sub(got[0].at); wait < c.CallbackHoldTime()-c.Lookahead {
			t.Errorf("it was taken over after %v, within the hold time of %v", wait, c.CallbackHoldTime())
		}
		w.empty()
	})
}

// What a receiver refuses for good ends: a copy of it goes to the dead letters of the lane, with what the receiver has
// said, and a series goes on. Without dead letters it is told of.
func TestCallbackGivenUp(t *testing.T) {
	for _, letters := range []string{"failed", "http:failed", ""} {
		t.Run("to "+letters, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.answer = func(r node.Record) error {
					if r.Topic == "http:out" && header(r, node.HeaderSequence) != "2" {
						return &node.PublishError{
							Kind: node.RecordRejected, Err: errInjected, Status: 410, Answer: []byte("gone"),
						}
					}
					return nil
				}
				c := calls(0)
				c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: letters}}
				if node.IsCallback(letters) {
					c.Callbacks.Lanes = append(c.Callbacks.Lanes, node.CallbackLane{Name: letters})
				}
				w.submit("x", time.Second, node.Header{Name: node.HeaderURL, Value: []byte("https://example.com")},
					node.Header{Name: node.HeaderRepeat, Value: []byte("every 2s")},
					node.Header{Name: node.HeaderRepeatCount, Value: []byte("3")})
				w.run(c, nil)
				pass(20 * time.Second)
				if got := len(w.on("http:out")); got != 3 {
					t.Errorf("%d requests, want 3: no occurrence is tried again", got)
				}
				if got := len(seen[node.GaveUp](w)); got != 2 {
					t.Errorf("told of %d that were given up, want 2", got)
				}
				w.empty()
				if letters == "" {
					return
				}
				copies := w.on(letters)
				if len(copies) != 2 {
					t.Fatalf("%d dead letters, want 2", len(copies))
				}
				wants := map[string]string{
					node.HeaderStatus: "410", node.HeaderAnswer: "gone", node.HeaderReason: string(node.CallbackFailed),
					node.HeaderError: errInjected.Error(), node.HeaderSequence: "1",
					node.HeaderURL: "https://example.com",
				}
				if node.IsCallback(letters) {
					delete(wants, node.HeaderURL)
					wants[node.HeaderSourceURL] = "https://example.com"
				} else {
					wants[node.HeaderID] = "x"
				}
				for name, want := range wants {
					if got := header(copies[0].Record, name); got != want {
						t.Errorf("%s of the dead letter is %q, want %q", name, got, want)
					}
				}
			})
		})
	}
}

// While the store takes nothing in, the copy of what a receiver refuses waits, and so does the message. The receiver is
// not asked every second until then: it has said that it wants none of it.
func TestCallbackLetterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error {
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
		}
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
		w.submit("x", 2*time.Second)
		w.submit("passed", 2*time.Second, node.Header{
			Name: node.HeaderNotAfter, Value: []byte(time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)),
		})
		w.run(c, nil)
		pass(time.Second)
		w.pause(node.Intake)
		pass(10 * time.Minute)
		if got := len(w.on("http:out")); got < 8 || got > 12 {
			t.Errorf("the receiver was asked %d times in ten minutes, want after 1 s, 2 s, 4 s and so on", got)
		}
		if got := len(seen[node.Unpublished](w)); got > 24 {
			t.Errorf("two messages were put off %d times in ten minutes", got)
		}
		for _, row := range w.store.Dump() {
			if row.ID == "passed" && row.ReadiedBy == uuid.Nil && row.Attempts > 1 { // once, at its deadline
				t.Errorf("what was sent once has %d attempts", row.Attempts)
			}
		}
		w.resume(node.Intake)
		pass(10 * time.Minute)
		if got := len(w.on("failed")); got != 2 {
			t.Errorf("%d dead letters, want 2", got)
		}
		w.empty()
	})
}

// The time of a callback can pass as that of any message.
func TestCallbackExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error { return &node.PublishError{Err: errInjected} }
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
		for _, lane := range []string{"http:out", "http:other"} {
			w.submit(lane[5:], time.Second, node.Header{Name: node.HeaderTopic, Value: []byte(lane)}, node.Header{
				Name: node.HeaderNotAfter, Value: []byte(time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)),
			})
		}
		w.run(c, nil)
		pass(10 * time.Second)
		if got := w.on("failed"); len(got) != 1 || header(got[0].Record, node.HeaderReason) != string(node.Expired) {
			t.Errorf("dead letters: %v, want one that says that its time has passed", got)
		}
		if got := seen[node.Lapsed](w); len(got) != 1 || got[0].Messages[0].ID != "other" {
			t.Errorf("lapsed: %v, want the one without dead letters", got)
		}
		w.empty()
	})
}

// A node serves every callback lane that messages wait on, if it is told to, without a route and without a topic.
func TestCallbackFoundLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := node.Default()
		c.Seed[0] = 1
		c.Callbacks.Any = true
		w.run(c, nil)
		pass(time.Second)
		_, err := w.store.Take(t.Context(), node.TakeRequest{Node: uuid.New(), Hold: time.Minute, Items: []node.Item{{
			From: node.NoPlace, Action: node.Schedule, Message: node.Message{
				ID: "x", Lane: "http:found", Incarnation: uuid.New(), Deadline: time.Now().Add(time.Second).UTC(),
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if got := len(w.on("http:found")); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
		w.empty()
	})
}

// A lane makes as many requests at the same time as it is allowed, and the others wait for their turn.
func TestCallbackConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var running, most atomic.Int32
		w.answer = func(node.Record) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			pass(100 * time.Millisecond)
			return nil
		}
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", Concurrency: 3}}
		for i := range 100 {
			w.submit(id(i), time.Second)
		}
		w.run(c, nil)
		pass(time.Second + 40*110*time.Millisecond)
		if most.Load() != 3 {
			t.Errorf("%d requests at the same time, want 3", most.Load())
		}
		if got := len(w.values("http:out")); got != 100 {
			t.Errorf("%d of 100 came out", got)
		}
		if again := seen[node.Unpublished](w); len(again) > 0 {
			t.Errorf("%d were put off: they can wait on the schedule", len(again))
		}
	})
}

// A node dies at any of its first calls, before or after it takes effect, while it gives one message up and delivers
// another. Its peer does what is left: both are requested, the copy comes out, nothing is early, nothing stays.
func TestCallbackCrashAnywhere(t *testing.T) {
	const calls = 45
	died := map[string]bool{} // at which calls
	for n := 1; n <= calls && !t.Failed(); n++ {
		for _, effect := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { crashDuringCallbacks(t, n, effect, died) })
		}
	}
	for _, call := range []string{"take", "claim", "call", "delete"} {
		if !died[call] {
			t.Errorf("no node has died at %s: %v", call, died)
		}
	}
}

func crashDuringCallbacks(t *testing.T, at int, effect bool, died map[string]bool) {
	t.Helper()
	w := newWorld(t)
	w.answer = func(r node.Record) error {
		if strings.HasSuffix(string(r.Value), "bad") {
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 400}
		}
		return nil
	}
	c := calls(0)
	c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
	w.submit("good", 100*time.Millisecond)
	w.submit("bad", 100*time.Millisecond)
	due := time.Now().Add(100 * time.Millisecond)
	var mu sync.Mutex
	made := 0
	w.run(c, func(_ int, call string) (error, bool) {
		mu.Lock()
		defer mu.Unlock()
		if call == "sleep" {
			return nil, true
		}
		if made++; made == at {
			died[call] = true
			return errCrash, effect
		}
		return nil, true
	})
	pass(time.Second)
	c.Seed[0]++
	w.run(c, nil)
	pass(c.CallbackHoldTime() + 10*time.Second)
	for _, d := range w.on("http:out") {
		if d.at.Before(due) {
			t.Errorf("call %d: %s was requested %v early", at, d.Value, due.Sub(d.at))
		}
	}
	if got := w.values("http:out"); got["value good"] == 0 || got["value bad"] == 0 {
		t.Errorf("call %d: requests %v", at, got)
	}
	if got := w.values("failed"); got["value bad"] == 0 || len(got) != 1 {
		t.Errorf("call %d: dead letters %v", at, got)
	}
	w.empty()
}

// What is not allowed of callback lanes, and what to do about it.
func TestCallbackConfig(t *testing.T) {
	lane := func(lanes ...node.CallbackLane) func(*node.Config) {
		return func(c *node.Config) { c.Callbacks.Lanes = lanes }
	}
	for _, c := range []struct {
		change func(*node.Config)
		want   string // "" for nothing
	}{
		{func(*node.Config) {}, ""},
		{func(c *node.Config) { c.Routes, c.Callbacks.Any = nil, true }, ""},
		{func(c *node.Config) { c.Routes = nil }, "at least one route"},
		{func(c *node.Config) { c.Routes[0].Input = "http:in" }, "http:in in place of a topic"},
		{func(c *node.Config) { c.Routes[0].DeadLetter = "http:dead" }, "http:dead in place of a topic"},
		{func(c *node.Config) { c.Callbacks.Timeout = 0 }, "100ms to 15m"},
		{lane(node.CallbackLane{Name: "http:"}), "1 to 240 letters"},
		{lane(node.CallbackLane{Name: "orders"}), "1 to 240 letters"},
		{lane(node.CallbackLane{Name: "http:a"}, node.CallbackLane{Name: "http:a"}), "listed once"},
		{lane(node.CallbackLane{Name: "http:a", Concurrency: 65}), "from 1 to 64"},
		{lane(node.CallbackLane{Name: "http:a", DeadLetter: "http:a"}), "the same way again"},
		{lane(node.CallbackLane{Name: "http:a", DeadLetter: "http:b"}), "must be listed"},
		{lane(node.CallbackLane{Name: "http:a", DeadLetter: "b c"}), "a topic or a callback lane"},
		{lane(node.CallbackLane{Name: "http:a", DeadLetter: "in"}), "a topic of their own"},
		{lane(node.CallbackLane{Name: "http:a", DeadLetter: "out"}), "a topic of their own"},
		{lane(
			node.CallbackLane{Name: "http:a", DeadLetter: "http:b"}, node.CallbackLane{Name: "http:b", DeadLetter: "x"},
		), "has none itself"},
		{lane(node.CallbackLane{Name: "http:a", DeadLetter: "http:b"}, node.CallbackLane{Name: "http:b"}), ""},
	} {
		config := calls(0)
		c.change(&config)
		err := config.Validate()
		var wrong *node.ConfigError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v", err)
		case c.want != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want something about %q", err, c.want)
		}
	}
	for name, want := range map[string]bool{
		"http:a": true, "http:A.b_c-9": true, "http:": false, "http:a/b": false, "https:a": false, "a": false,
		"http:" + strings.Repeat("a", 241): false,
	} {
		if got := node.IsCallbackLane(name); got != want {
			t.Errorf("%q is a callback lane: %v", name, got)
		}
	}
	for _, targets := range [][]string{{"*"}, {"h*"}, {"http:x"}} {
		if (&node.Route{Input: "in", Output: "out", Targets: targets}).Finds("http:orders") {
			t.Errorf("targets %v stand for a callback lane", targets)
		}
	}
	r := node.Route{Input: "in", Output: "http:out", Targets: []string{"http:*"}, DeadLetter: "dead"}
	if !r.Finds("http:orders") || r.Finds("orders") {
		t.Error("target http:* stands for callback lanes, and for nothing else")
	}
	if got := r.Topics(); !slices.Equal(got, []string{"in", "dead"}) {
		t.Errorf("the topics of the route are %v", got)
	}
}

// What is said of all other callback lanes holds for those that nobody lists.
func TestCallbackOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error { return &node.PublishError{Kind: node.RecordRejected, Err: errInjected} }
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out"}}
		c.Callbacks.Others.DeadLetter = "failed"
		w.submit("x", time.Second)
		w.submit("y", time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("http:other")})
		w.run(c, nil)
		pass(5 * time.Second)
		if got := w.values("failed"); len(got) != 1 || got["value y"] != 1 {
			t.Errorf("dead letters: %v, want one of the lane that is not listed", got)
		}
		w.empty()
	})
}
