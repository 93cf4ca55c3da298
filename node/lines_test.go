package node_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// ordered returns a configuration whose output is a callback lane of messages that come one after the other.
func ordered(seed byte) node.Config {
	c := calls(seed)
	c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", Ordered: true}}
	return c
}

// line submits a message of a key.
func (w *world) line(key, name string, in time.Duration) {
	deadline := time.Now().Add(in).UTC().Format("2006-01-02T15:04:05.000000")
	w.submitRecord(node.Record{
		Key: []byte(key), Value: []byte(name),
		Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte(name)}, {Name: node.HeaderDeadline, Value: []byte(deadline)},
		},
	})
}

// service answers each request of a key after a while, and notes what overlaps.
type service struct {
	mu    sync.Mutex
	takes time.Duration
	busy  map[string]string // by key
	twice []string
	ended map[string]time.Time // by message
	gap   time.Duration        // the longest that a key had to wait for its next request, in all
	last  map[string]time.Time // by key, when its last request ended
}

func serve(w *world, takes time.Duration, decide func(r node.Record) error) *service {
	s := &service{
		takes: takes, busy: map[string]string{}, ended: map[string]time.Time{}, last: map[string]time.Time{},
	}
	w.answer = func(r node.Record) error {
		key, name := string(r.Key), string(r.Value)
		s.mu.Lock()
		if other, busy := s.busy[key]; busy && key != "" {
			s.twice = append(s.twice, other+" and "+name)
		}
		if last, known := s.last[key]; known {
			s.gap = max(s.gap, time.Since(last))
		}
		s.busy[key] = name
		s.mu.Unlock()
		pass(s.takes)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
		s.last[key] = time.Now()
		if decide != nil {
			if err := decide(r); err != nil {
				return err
			}
		}
		s.ended[name] = time.Now()
		return nil
	}
	return s
}

// when returns when a message was served; the zero time if it was not.
func (s *service) when(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended[name]
}

// Messages of one key are requested one after the other in the order of their deadlines, by two nodes, from a backlog
// too; each as soon as the one before is done; and keys do not wait for each other.
func TestLinesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := serve(w, 50*time.Millisecond, nil)
		const keys, each = 5, 20
		for i := range each {
			for k := range keys {
				// All at once; and each when the one before is about to be done.
				in := time.Second
				if k%2 == 1 {
					in += time.Duration(i) * 40 * time.Millisecond
				}
				in += time.Duration(each-i) * time.Microsecond // the last first
				w.line(fmt.Sprint("k", k), fmt.Sprintf("k%d.%02d", k, i), in)
			}
		}
		w.run(ordered(0), nil)
		w.run(ordered(1), nil)
		pass(time.Second + each*60*time.Millisecond + 2*time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.twice) > 0 {
			t.Errorf("at the same time: %v", s.twice)
		}
		for k := range keys {
			var names []string
			for _, d := range w.on("http:out") {
				if strings.HasPrefix(string(d.Value), fmt.Sprint("k", k, ".")) {
					names = append(names, string(d.Value))
				}
			}
			sorted := slices.Sorted(slices.Values(names))
			if k%2 == 0 {
				slices.Reverse(sorted)
			}
			if !slices.Equal(names, sorted) || len(names) != each {
				t.Errorf("key %d: %v", k, names)
			}
		}
		if s.gap > 500*time.Millisecond {
			t.Errorf("a key has waited %v for its next request", s.gap)
		}
		w.empty()
	})
}

// A message that fails holds up its own key, until it goes through or is given up, and nobody else. What has no key
// stands in no line.
func TestLineFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		s := serve(w, time.Millisecond, func(r node.Record) error {
			switch string(r.Value) {
			case "a1":
				if time.Since(start) < time.Minute {
					return errInjected
				}
			case "c1":
				return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
			case "none1":
				return errInjected
			}
			return nil
		})
		for _, key := range []string{"a", "b", "c", ""} {
			for i := range 3 {
				name := fmt.Sprint(key, i+1)
				if key == "" {
					name = fmt.Sprint("none", i+1)
				}
				w.line(key, name, time.Second+time.Duration(i)*time.Millisecond)
			}
		}
		for i := range w.input["in"] {
			if r := &w.input["in"][i]; len(r.Key) == 0 {
				r.Key = nil
			}
		}
		w.run(ordered(0), nil)
		pass(10 * time.Second)
		for _, want := range []struct {
			name string
			came bool
		}{
			{"a1", false},
			{"a2", false},
			{"a3", false},
			{"b1", true},
			{"b2", true},
			{"b3", true},
			{"c1", false},
			{"c2", true},
			{"c3", true},
			{"none1", false},
			{"none2", true},
			{"none3", true},
		} {
			if came := !s.when(want.name).IsZero(); came != want.came {
				t.Errorf("%s: came out %v, want %v", want.name, came, want.came)
			}
		}
		if late := s.when("b3").Sub(start); late > 1500*time.Millisecond {
			t.Errorf("b3 came after %v", late)
		}
		pass(3 * time.Minute) // the last try before the minute is over may be followed by 77 seconds of rest
		first, second, third := s.when("a1"), s.when("a2"), s.when("a3")
		if first.IsZero() || second.Before(first) || third.Before(second) || third.Sub(first) > time.Second {
			t.Errorf("a1 at %v, a2 %v later, a3 %v", first, second.Sub(first), third.Sub(first))
		}
		if n := strings.Count(fmt.Sprint(w.values("http:out")), "a2:1"); n != 1 {
			t.Errorf("%v: a2 was requested before its turn", w.values("http:out"))
		}
	})
}

// A node dies at any of its first calls while a line is served; its peer goes on with it, in order.
func TestLineCrashAnywhere(t *testing.T) {
	for n := 1; n <= 30 && !t.Failed(); n++ {
		for _, effect := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := serve(w, 10*time.Millisecond, nil)
				for i := range 4 {
					w.line("a", fmt.Sprint("a", i+1), 100*time.Millisecond+time.Duration(i)*time.Millisecond)
				}
				made := 0
				var mu sync.Mutex
				w.run(ordered(0), func(_ int, call string) (error, bool) {
					mu.Lock()
					defer mu.Unlock()
					if call == "sleep" {
						return nil, true
					}
					if made++; made == n {
						return errCrash, effect
					}
					return nil, true
				})
				pass(time.Second)
				c := ordered(1)
				w.run(c, nil)
				pass(c.CallbackHoldTime() + 40*time.Second)
				s.mu.Lock()
				defer s.mu.Unlock()
				var names []string
				for _, d := range w.on("http:out") {
					if name := string(d.Value); len(names) == 0 || names[len(names)-1] != name {
						names = append(names, name)
					}
				}
				if !slices.Equal(names, []string{"a1", "a2", "a3", "a4"}) || len(s.twice) > 0 {
					t.Errorf("call %d: %v, at the same time %v", n, names, s.twice)
				}
				w.empty()
			})
		}
	}
}

// Who comes forward is requested at once, and not at the next look.
func TestLineNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := ordered(0)
		c.PollInterval = time.Second
		s := serve(w, 10*time.Millisecond, nil)
		for i := range 5 {
			w.line("a", fmt.Sprint("a", i+1), time.Second+time.Duration(i)*time.Millisecond)
		}
		w.run(c, nil)
		pass(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ended) != 5 || s.gap > 10*time.Millisecond {
			t.Errorf("%d of 5 came, and one waited %v for its turn", len(s.ended), s.gap)
		}
	})
}

// Dead letters that go to a lane with order stand in lines there, too.
func TestLineOfDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{
			{Name: "http:out", DeadLetter: "http:failed"}, {Name: "http:failed", Ordered: true},
		}
		s := serve(w, 10*time.Millisecond, nil)
		answer := w.answer
		w.answer = func(r node.Record) error {
			if r.Topic == "http:out" {
				return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
			}
			return answer(r)
		}
		for i := range 5 {
			w.line("a", fmt.Sprint("a", i+1), time.Second)
		}
		w.run(c, nil)
		pass(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ended) != 5 || len(s.twice) > 0 {
			t.Errorf("%d of 5 came, at the same time %v", len(s.ended), s.twice)
		}
	})
}
