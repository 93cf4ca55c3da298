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
		const many, fails = 500, 2 * time.Hour
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
		if most := 40 * many; looks < many || looks > most {
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

// When the first one is cancelled, the next one comes within 40 s, however many there are: nobody brings it forward but
// who looks next.
func TestLineCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 300
		w := newWorld(t)
		s := serve(w, time.Millisecond, func(r node.Record) error {
			if string(r.Value) == "000" {
				return &node.DeferredError{Err: node.ErrUnsent, After: time.Minute}
			}
			return nil
		})
		for i := range many {
			w.line("a", fmt.Sprintf("%03d", i), time.Minute+time.Duration(i)*time.Microsecond)
		}
		w.run(ordered(0), nil)
		w.run(ordered(1), nil)
		pass(30 * time.Minute)
		if !s.when("001").IsZero() {
			t.Fatal("the second came before the first")
		}
		cancelled := time.Now()
		w.instruct("cancel", "000")
		pass(40*time.Second + many*200*time.Millisecond)
		if came := s.when("001"); came.IsZero() || came.Sub(cancelled) > 40*time.Second {
			t.Errorf("the next one came at %v, %v after the cancel", came, came.Sub(cancelled))
		}
		if s.when("299").IsZero() {
			t.Error("the last one has not come")
		}
	})
}
