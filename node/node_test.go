package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// Messages with mixed delays, two nodes, no failure: each fires once, not early, punctually, with every byte.
func TestFiresOnceAndOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := map[string]time.Time{}
		for i := range 200 {
			in := time.Duration(i*37%5000) * time.Millisecond
			want["value "+id(i)] = time.Now().Add(in)
			w.submit(id(i), in)
		}
		w.run(config(0), nil)
		pass(6 * time.Second)
		w.empty()
		got := w.on("out")
		if len(got) != len(want) {
			t.Errorf("%d deliveries of %d messages", len(got), len(want))
		}
		for _, d := range got {
			deadline := want[string(d.Value)]
			early := deadline.Sub(d.at)
			if early > 0 {
				t.Errorf("%s is early by %v", d.Value, early)
			}
			// The first messages come in faster than a node takes them, seven at a time.
			if late := -early; late > 300*time.Millisecond {
				t.Errorf("%s is late by %v", d.Value, late)
			}
			checkBytes(t, d)
		}
		if events := seen[node.Suspected](w); len(events) > 0 {
			t.Errorf("suspicions without a failure: %v", events)
		}
	})
}

func checkBytes(t *testing.T, d delivery) {
	t.Helper()
	if want := bytes.Replace(d.Value, []byte("value"), []byte("key"), 1); !bytes.Equal(d.Key, want) {
		t.Errorf("key of %s is %q", d.Value, d.Key)
	}
	want := []node.Header{{Name: "before"}, {Name: "after", Value: []byte{}}, {Name: "after", Value: []byte{0, 0xff}}}
	if !slices.EqualFunc(d.Headers, want, func(a, b node.Header) bool {
		return a.Name == b.Name && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
	}) {
		t.Errorf("headers of %s are %q", d.Value, d.Headers)
	}
}

// A message that waits in the store fires at its own instant, not at a poll's.
func TestPrecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		for i := range 50 {
			w.submit(id(i), 2*time.Second+time.Duration(i)*13*time.Millisecond)
		}
		w.run(config(0), nil)
		pass(4 * time.Second)
		got := w.on("out")
		if len(got) != 50 {
			t.Fatalf("%d deliveries", len(got))
		}
		for i, d := range got {
			due := start.Add(2*time.Second + time.Duration(i)*13*time.Millisecond)
			// One turn of the loop: a delete, a claim and a publish may be under way.
			if late := d.at.Sub(due); late < 0 || late > 10*time.Millisecond {
				t.Errorf("%s came %v after it was due", d.Value, late)
			}
		}
	})
}

// A message that arrives closer to its deadline than the poll interval is not late for that.
func TestShortDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(config(0), nil)
		pass(time.Second)
		due := time.Now().Add(130 * time.Millisecond)
		w.submit("x", 130*time.Millisecond)
		w.instruct("replace", "y", node.HeaderDelay, "130ms")
		pass(time.Second)
		for _, got := range w.on("out") {
			if got.at.Before(due) || got.at.After(due.Add(10*time.Millisecond)) {
				t.Errorf("delivery %v, due at %v", got, due)
			}
		}
		if got := w.on("out"); len(got) != 2 {
			t.Errorf("deliveries %v", got)
		}
		claimed := 0
		for _, e := range seen[node.Claimed](w) {
			claimed += len(e.Messages)
		}
		if claimed > 0 {
			t.Errorf("%d messages were claimed by a look, and not by the take that brought them", claimed)
		}
		w.empty()
	})
}

// The same id is ignored while it waits, whether the second one has lapsed or not and whichever batch it is in;
// after it fired it is a new message.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Hour)
		w.submit("x", time.Hour)
		w.submit("x", -time.Hour)
		w.submit("y", -time.Hour)  // fires at once
		w.submit("y", time.Second) // came before that
		w.run(config(0), nil)
		pass(500 * time.Millisecond)
		if got := w.values("out"); len(got) != 1 || got["value y"] != 1 {
			t.Errorf("delivered at first: %v", got)
		}
		pass(time.Second)
		w.submit("y", time.Second)
		pass(2 * time.Second)
		if got := w.values("out"); len(got) != 1 || got["value y"] != 2 {
			t.Errorf("delivered then: %v", got)
		}
		pass(time.Hour)
		if got := w.values("out"); got["value x"] != 1 {
			t.Errorf("delivered at last: %v", got)
		}
		ignored := 0
		for _, e := range seen[node.Ignored](w) {
			ignored += len(e.Messages)
		}
		if ignored != 3 {
			t.Errorf("%d ignored, want 3", ignored)
		}
		w.empty()
	})
}

// Two routes with the same id do not disturb each other.
func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Routes = []node.Route{{Input: "in", Output: "out"}, {Input: "in2", Output: "out2"}}
		r := w.submit("x", time.Second)
		r.Topic = "in2"
		w.submitRecord(r)
		w.run(c, nil)
		pass(2 * time.Second)
		if len(w.on("out")) != 1 || len(w.on("out2")) != 1 {
			t.Errorf("delivered %v and %v", w.on("out"), w.on("out2"))
		}
	})
}

// Every port call fails once, in turn, before it takes effect and after: nothing is lost or early, and everything
// is cleared up. The first line of a failure says which.
func TestEveryCallFails(t *testing.T) {
	everyCall(t, func(fail int, effect bool) (decide func(int, string) (error, bool)) {
		return func(n int, _ string) (error, bool) {
			if n == fail {
				return errInjected, effect
			}
			return nil, true
		}
	})
}

// The node is killed at every port call, in turn, before it takes effect and after, and another starts.
func TestEveryCallCrashes(t *testing.T) {
	everyCall(t, func(fail int, effect bool) (decide func(int, string) (error, bool)) {
		return func(n int, _ string) (error, bool) {
			if n == fail {
				return errCrash, effect
			}
			return nil, true
		}
	})
}

func everyCall(t *testing.T, decide func(fail int, effect bool) func(int, string) (error, bool)) {
	const messages = 12
	for _, effect := range []bool{false, true} {
		for fail := 1; ; fail++ {
			last := false
			name := fmt.Sprintf("call %d, effect %v", fail, effect)
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				start := time.Now()
				for i := range messages {
					w.submit(id(i), time.Duration(i)*100*time.Millisecond)
				}
				first := w.run(config(0), decide(fail, effect))
				pass(2 * time.Second)
				calls, dead := first.gate.state()
				last = calls < fail
				if dead {
					w.run(config(1), nil)
				}
				pass(10 * time.Second)
				w.empty()
				counts := w.values("out")
				for i := range messages {
					if counts["value "+id(i)] == 0 {
						t.Errorf("%s: message %d is lost", name, i)
					}
				}
				for _, d := range w.on("out") {
					var i int
					if _, err := fmt.Sscanf(string(d.Value), "value m%d", &i); err != nil {
						t.Fatal(err)
					}
					due := start.Add(time.Duration(i) * 100 * time.Millisecond)
					if d.at.Before(due) {
						t.Errorf("%s: message %d is early", name, i)
					}
				}
				if t.Failed() {
					t.Fatalf("%s: %v", name, w.events)
				}
			})
			if last || t.Failed() {
				break
			}
		}
	}
}

// SIGTERM: a node that stops gives back the claims that it has not used, so that a peer fires them in time.
func TestStopGivesClaimsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			w.submit(id(i), 1200*time.Millisecond)
		}
		first := w.run(config(0), nil)
		pass(1050 * time.Millisecond)
		if w.claimedBy(first.node.ID()) == 0 {
			t.Fatal("the node has claimed nothing yet: this tests nothing")
		}
		first.stop()
		if left := w.claimedBy(first.node.ID()); left != 0 {
			t.Errorf("%d claims are left behind", left)
		}
		w.run(config(1), nil)
		pass(time.Second)
		if got := w.on("out"); len(got) != 20 {
			t.Errorf("%d deliveries within a second", len(got))
		}
		w.empty()
	})
}

// A claim that was held for longer than is safe is not published, but given back.
func TestAbandonsOldClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		var slow atomic.Bool
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "claim" && !slow.Load() {
				// The reply to the claim that takes x comes after 3 s: too late to publish it.
				for _, row := range w.store.Dump() {
					// A call takes a millisecond to get here.
					slow.Store(time.Until(row.Due)+time.Millisecond <= 250*time.Millisecond)
				}
				if slow.Load() {
					<-time.After(3 * time.Second)
				}
			}
			return nil, true
		})
		pass(5 * time.Second)
		if len(w.on("out")) != 1 {
			t.Errorf("deliveries: %v", w.on("out"))
		}
		if !slow.Load() || len(seen[node.Abandoned](w)) != 1 {
			t.Errorf("slow %v, abandoned %v", slow.Load(), seen[node.Abandoned](w))
		}
		w.empty()
	})
}

// A claim of a node that died is suspected after the hold time, and its message fires within a detection interval.
func TestRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second)
		var died atomic.Int64
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "publish" {
				died.Store(time.Now().UnixNano())
				return errCrash, false
			}
			return nil, true
		})
		w.run(config(1), nil)
		pass(10 * time.Second)
		got := w.on("out")
		bound := 5*time.Second + 550*time.Millisecond + 150*time.Millisecond // hold, detection, poll
		if len(got) != 1 || got[0].at.Sub(time.Unix(0, died.Load())) > bound {
			t.Errorf("died at %v, delivered %v", time.Unix(0, died.Load()), got)
		}
		if s := seen[node.Suspected](w); len(s) != 1 || s[0].Claims[0].ID != "x" {
			t.Errorf("suspected: %v", s)
		}
		w.empty()
	})
}

// A record that its topic rejects goes to the dead-letter topic, in the way of nobody, and can be submitted again
// from there.
func TestDeadLettersWhatIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" && string(r.Key) == "key poison" {
				return fmt.Errorf("too large: %w", node.RecordRejected)
			}
			return nil
		}
		last := in(time.Hour)
		w.submit("poison", time.Second, node.Header{Name: node.HeaderNotAfter, Value: []byte(last)})
		w.submit("lapsed", -time.Second)
		w.submit("good", time.Second)
		w.run(config(0), nil)
		pass(2 * time.Second)
		if got := w.values("out"); len(got) != 2 {
			t.Errorf("delivered %v", got)
		}
		dead := w.on("dead")
		if len(dead) != 1 || string(dead[0].Value) != "value poison" {
			t.Fatalf("dead letters: %v", dead)
		}
		if got := header(dead[0].Record, node.HeaderID); got != "poison" {
			t.Errorf("its id is %q", got)
		}
		if _, err := node.ParseDeadline([]byte(header(dead[0].Record, node.HeaderDeadline)), 0); err != nil {
			t.Errorf("its deadline: %v", err)
		}
		got, err := node.ParseDeadline([]byte(header(dead[0].Record, node.HeaderNotAfter)), 0)
		if err != nil || got.Format(time.RFC3339Nano) != last {
			t.Errorf("it may be published until %v, error %v, want %s", got, err, last)
		}
		if got := header(dead[0].Record, node.HeaderReason); got != string(node.PublishRejected) {
			t.Errorf("its reason is %q", got)
		}
		for name, want := range map[string]string{
			node.HeaderSourceTopic: "in", node.HeaderSourcePartition: "0", node.HeaderSourceOffset: "0",
		} {
			if got := header(dead[0].Record, name); got != want {
				t.Errorf("its %s is %q, want %q", name, got, want)
			}
		}
		w.empty()
	})
}

// Without a dead-letter topic it is kept and tried again, less and less often, and does not delay others, however
// many there are of it.
func TestPutsOffWhatIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tries := 0
		w.refuse = func(r node.Record) error {
			if bytes.HasPrefix(r.Value, []byte("value p")) {
				if string(r.Value) == "value p1" {
					tries++
				}
				return node.RecordRejected
			}
			return nil
		}
		c := config(0)
		c.Routes[0].DeadLetter = ""
		for i := range 1500 {
			w.submit(fmt.Sprintf("p%d", i), time.Second)
		}
		w.run(c, nil)
		pass(time.Minute)
		due := time.Now().Add(time.Second)
		w.submit("good", time.Second)
		pass(10 * time.Minute)
		got := w.on("out")
		if len(got) != 1 || got[0].at.After(due.Add(100*time.Millisecond)) {
			t.Errorf("due at %v, delivered %v", due, got)
		}
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries in eleven minutes", tries)
		}
		if w.store.Len() != 1500 {
			t.Errorf("%d are kept", w.store.Len())
		}
		if e := seen[node.Unpublished](w); len(e) == 0 || !e[0].Permanent {
			t.Error("nobody was told")
		}
	})
}

// A topic that is missing is looked for every few seconds, a few messages at a time; all of them come out soon after
// it is there, however long it was away.
func TestTopicMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var tried atomic.Int64
		var missing atomic.Bool
		missing.Store(true)
		w.refuse = func(node.Record) error {
			if missing.Load() {
				tried.Add(1)
				return node.TopicMissing
			}
			return nil
		}
		for i := range 300 {
			w.submit(id(i), time.Second)
		}
		w.run(config(0), nil)
		pass(10 * time.Minute)
		if tried.Load() > 50*10*60 {
			t.Errorf("%d messages were tried in ten minutes", tried.Load())
		}
		missing.Store(false)
		pass(4 * time.Second)
		if got := w.values("out"); len(got) != 300 {
			t.Errorf("%d of 300 within four seconds", len(got))
		}
		w.empty()
	})
}

// A wrong configuration names the setting.
func TestConfigErrors(t *testing.T) {
	for want, change := range map[string]func(*node.Config){
		"Routes":            func(c *node.Config) { c.Routes = nil },
		"HoldTime":          func(c *node.Config) { c.HoldTime = 2 * time.Second },
		"TimingAdvance":     func(c *node.Config) { c.TimingAdvance = -1 },
		"PollInterval":      func(c *node.Config) { c.PollInterval = 0 },
		"DetectionInterval": func(c *node.Config) { c.DetectionInterval = 0 },
		"Lookahead":         func(c *node.Config) { c.Lookahead = time.Second },
		"LeaveAfter":        func(c *node.Config) { c.LeaveAfter = 0 },
		"EpochDeadlines":    func(c *node.Config) { c.EpochDeadlines = 7 },
		"Batch":             func(c *node.Config) { c.Batch = -1 },
		"Seed":              func(c *node.Config) { c.Seed = [32]byte{} },
	} {
		c := config(0)
		change(&c)
		var wrong *node.ConfigError
		if err := c.Validate(); !errors.As(err, &wrong) || wrong.Setting != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	for name, routes := range map[string][]node.Route{
		"no input":            {{Output: "a"}},
		"no output":           {{Input: "a"}},
		"input twice":         {{Input: "a", Output: "b"}, {Input: "a", Output: "c"}},
		"loop":                {{Input: "a", Output: "a"}},
		"loop by dead letter": {{Input: "a", Output: "b", DeadLetter: "a"}},
		"two dead letters":    {{Input: "a", Output: "b", DeadLetter: "c"}, {Input: "d", Output: "b"}},
		"dead letter output":  {{Input: "a", Output: "b", DeadLetter: "b"}},
		"loop by outcomes":    {{Input: "a", Output: "b", Outcomes: "a"}},
		"outcomes output":     {{Input: "a", Output: "b", DeadLetter: "c", Outcomes: "b"}},
		"outcomes target":     {{Input: "a", Output: "b", Targets: []string{"c"}, Outcomes: "c"}},
		"outcomes dead":       {{Input: "a", Output: "b", DeadLetter: "c", Outcomes: "c"}},
		"outcomes dead there": {{Input: "a", Output: "b", Outcomes: "c"}, {Input: "d", Output: "e", DeadLetter: "c"}},
		"loop by target":      {{Input: "a", Output: "b", Targets: []string{"a"}}},
		"empty target":        {{Input: "a", Output: "b", Targets: []string{""}}},
		"target, two dead": {
			{Input: "a", Output: "b", DeadLetter: "c", Targets: []string{"e"}}, {Input: "d", Output: "e"},
		},
	} {
		c := config(0)
		c.Routes = routes
		if c.Validate() == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	c := config(0)
	if err := c.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	c.Routes = []node.Route{{Input: "a", Output: "b", Outcomes: "c"}, {Input: "d", Output: "e"}}
	if err := c.Validate(); err != nil {
		t.Errorf("with outcomes of one route: %v", err)
	}
}

func header(r node.Record, name string) string {
	for _, h := range r.Headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// Over a slow connection a call with many bytes never gets through, however few messages they are: it is halved in
// bytes, too, until it does, before the node gives up and leaves its group.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const messages = 40
		for i := range messages {
			r := w.submit(id(i), time.Hour)
			w.mu.Lock()
			w.input["in"][r.Offset].Value = make([]byte, 1<<20)
			w.mu.Unlock()
		}
		w.slow = 2 << 20
		w.run(config(0), nil)
		pass(80 * time.Second)
		if left := seen[node.LeftGroup](w); len(left) > 0 {
			t.Errorf("the node left its group %d times", len(left))
		}
		stored := 0
		for _, e := range seen[node.Enqueued](w) {
			stored += len(e.Messages)
		}
		if stored != messages {
			t.Errorf("%d of %d messages of 1 MiB were stored within 80 s at 2 MiB/s", stored, messages)
		}
	})
}

// A topic rejects a message at once, but another lane in the same batch hangs until the time limit of a publish. A copy
// for the dead-letter topic that was begun then could still be under way when the claim expires: a peer would make
// another one.
func TestDeadLetterBesideLaneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.Lookahead = 900 * time.Millisecond
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		w.hangs = func(r node.Record) bool { return r.Topic == "out2" && time.Since(w.began) < 4*time.Second }
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" {
				return node.RecordRejected
			}
			return nil
		}
		w.submit("bad", 2*time.Second)
		r := w.submit("hangs", 2*time.Second)
		w.mu.Lock()
		w.input["in"] = w.input["in"][:1]
		w.mu.Unlock()
		r.Topic = "in2"
		w.submitRecord(r)
		w.run(c, nil)
		pass(15 * time.Second)
		copies := w.on("dead")
		if len(copies) != 1 {
			t.Fatalf("%d copies", len(copies))
		}
		var claimed time.Time
		for _, e := range seen[node.Claimed](w) {
			for _, m := range e.Messages {
				if m.ID == "bad" && m.Claim.ReadiedAt.Before(copies[0].at) {
					claimed = m.Claim.ReadiedAt
				}
			}
		}
		if age := copies[0].at.Sub(claimed); age > c.PublishableAge()+10*time.Millisecond {
			t.Errorf("the copy was made %v after the claim, want %v at most", age, c.PublishableAge())
		}
		w.empty()
	})
}
