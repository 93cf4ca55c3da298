package node_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// Who comes in before one that is out waits for that only, and not for as long as it is overdue.
func TestLineInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := serve(w, 10*time.Second, nil)
		w.line("a", "out", 0)
		w.run(ordered(0), nil)
		pass(5 * time.Second)
		w.line("a", "first", -time.Hour)
		pass(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		gap := s.ended["first"].Sub(s.ended["out"])
		if len(s.ended) != 2 || len(s.twice) > 0 || gap < 10*time.Second || gap > 10*time.Second+300*time.Millisecond {
			t.Errorf("the first came %v after what was out, at the same time: %v", gap, s.twice)
		}
	})
}

// What stands behind one that fails is looked at seldom, however many they are; and when the first one goes through,
// the others follow one after the other at once.
func TestLineOfThousands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, fails = 300, 30 * time.Minute
		w := newWorld(t)
		start := time.Now()
		s := serve(w, time.Millisecond, func(r node.Record) error {
			if string(r.Value) == "0000" && time.Since(start) < fails {
				return errInjected
			}
			return nil
		})
		for i := range many {
			w.line("a", fmt.Sprintf("%04d", i), time.Minute+time.Duration(i)*time.Microsecond)
		}
		var mu sync.Mutex
		looks := 0
		w.watch = func(e node.Event) {
			if e, is := e.(node.Released); is {
				mu.Lock()
				defer mu.Unlock()
				looks += len(e.Claims)
			}
		}
		for seed := range byte(3) {
			w.run(ordered(seed), nil)
		}
		pass(fails)
		mu.Lock()
		t.Logf("%d looks", looks)
		if most := 13 * many; looks < many || looks > most {
			t.Errorf("%d claims were for nothing within %v, want %d at most", looks, fails, most)
		}
		mu.Unlock()
		pass(6*time.Minute + many*200*time.Millisecond)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ended) != many || len(s.twice) > 0 {
			t.Errorf("%d of %d came, at the same time %v", len(s.ended), many, s.twice)
		}
		if took := s.ended[fmt.Sprintf("%04d", many-1)].Sub(s.ended["0000"]); took > many*120*time.Millisecond {
			t.Errorf("the others took %v", took)
		}
		w.empty()
	})
}

// When one is cancelled that holds up its line, the next one comes within 40 s, however many there are, and whoever has
// come out before: nobody brings it forward but who is looked at next.
func TestLineCancelled(t *testing.T) {
	for _, c := range []struct {
		many, cancelled int
		last            bool // the last of the line is cancelled too, a second before
	}{{3, 0, false}, {300, 0, false}, {300, 150, false}, {3, 0, true}, {300, 0, true}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			name := func(i int) string { return fmt.Sprintf("%03d", i) }
			s := serve(w, time.Millisecond, func(r node.Record) error {
				if string(r.Value) == name(c.cancelled) {
					return &node.PublishError{Kind: node.NotSent, After: time.Minute}
				}
				return nil
			})
			for i := range c.many {
				w.line("a", name(i), time.Minute+time.Duration(i)*time.Microsecond)
			}
			w.run(ordered(0), nil)
			if c.cancelled == 0 {
				pass(30 * time.Minute) // so that all the others are put off for long
			}
			for c.cancelled > 0 && s.when(name(c.cancelled-1)).IsZero() {
				pass(time.Second) // until it is the first, and nobody has been looked at since
			}
			if next := name(c.cancelled + 1); !s.when(next).IsZero() {
				t.Fatalf("%s came before the one that is first", next)
			}
			if c.last {
				c.many--
				w.instruct("cancel", name(c.many))
				pass(time.Second)
			}
			cancelled := time.Now()
			w.instruct("cancel", name(c.cancelled))
			pass(40*time.Second + time.Duration(c.many)*200*time.Millisecond)
			came := s.when(name(c.cancelled + 1))
			if came.IsZero() || came.Sub(cancelled) > 40*time.Second {
				t.Errorf("%+v: the next one came at %v, %v after the cancel", c, came, came.Sub(cancelled))
			}
			if s.when(name(c.many - 1)).IsZero() {
				t.Errorf("%+v: the last one has not come", c)
			}
		})
	}
}
