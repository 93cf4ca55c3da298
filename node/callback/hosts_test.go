package callback_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/callback"
)

// These tests say to the millisecond when a request has its turn: in a bubble, where nothing takes time.

// street is a lane and its hosts.
type street struct {
	callback.Hosts

	t    *testing.T
	lane callback.Lane
}

func newStreet(t *testing.T, perHost int) *street {
	t.Helper()
	s := &street{t: t, lane: callback.Default("http:test")}
	s.lane.PerHost = perHost
	return s
}

// ask begins a request that must have its turn at once.
func (s *street) ask(host string) (leave func(unanswered, good bool)) {
	s.t.Helper()
	began := time.Now()
	leave, err := s.Enter(s.lane, host, 0)
	if err != nil || time.Since(began) != 0 {
		s.t.Fatalf("%s: after %v: %v", host, time.Since(began), err)
	}
	return leave
}

// fails makes a request that has no answer.
func (s *street) fails(host string) {
	s.t.Helper()
	s.ask(host)(true, false)
}

// away checks that a host stands back, and returns for how long a message is to wait.
func (s *street) away(host string, overdue time.Duration) time.Duration {
	s.t.Helper()
	_, err := s.Enter(s.lane, host, overdue)
	_, after, away := callback.Away(err)
	if !away {
		s.t.Fatalf("%s: %v, want that it stands back", host, err)
	}
	return after
}

// As many requests to a host as may be are under way; each that ends makes room for one that waits.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 2)
		began := time.Now()
		first, second := s.ask("a"), s.ask("a")
		s.ask("b")(false, true)
		var mu sync.Mutex
		var came []time.Duration
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				leave, err := s.Enter(s.lane, "a", 0)
				mu.Lock()
				defer mu.Unlock()
				if came = append(came, time.Since(began)); err != nil {
					t.Error(err)
				}
				if len(came) < 3 {
					time.AfterFunc(time.Duration(len(came))*200*time.Millisecond, func() { leave(false, true) })
				}
			})
		}
		wait(t.Context(), 100*time.Millisecond)
		first(false, true)
		wait(t.Context(), 100*time.Millisecond)
		second(false, true)
		waiting.Wait()
		if got := fmt.Sprint(came); got != "[100ms 200ms 300ms]" {
			t.Errorf("turns came after %v", got)
		}
	})
}

// Who waits for a host that ends nothing is put off after a quarter of a second, for one that goes on after a second.
// Who has been put off has no turn any more.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 1)
		hangs := s.ask("hangs")
		wait(t.Context(), 100*time.Millisecond)
		began := time.Now()
		if _, err := s.Enter(s.lane, "hangs", 0); !callback.Busy(err) || time.Since(began) != 150*time.Millisecond {
			t.Errorf("a host that hangs: %v after %v", err, time.Since(began))
		}
		if _, err := s.Enter(s.lane, "hangs", 0); !callback.Busy(err) || time.Since(began) != 150*time.Millisecond {
			t.Errorf("a host that is known to hang: %v after %v", err, time.Since(began))
		}
		hangs(false, true)
		s.ask("hangs")(false, true)

		leave := s.ask("moves")
		began = time.Now()
		var waiting sync.WaitGroup
		var late atomic.Int32
		for range 12 { // of whom four or five have their turn within a second
			waiting.Go(func() {
				next, err := s.Enter(s.lane, "moves", 0)
				if err == nil {
					wait(t.Context(), 200*time.Millisecond)
					next(false, true)
				} else if late.Add(1); !callback.Busy(err) || time.Since(began) != callback.MaxWait {
					t.Errorf("a host that moves: %v after %v", err, time.Since(began))
				}
			})
		}
		wait(t.Context(), 200*time.Millisecond)
		leave(false, true)
		waiting.Wait()
		if got := late.Load(); got != 7 && got != 8 {
			t.Errorf("%d of 12 are put off, want 7 or 8", got)
		}
	})
}

// A host without an answer stands back: it is asked once after 1 s, 2 s, 3.5 s and so on, by one request alone. One
// answer brings it back at once. Who waited for its turn meanwhile hears of it, and is not sent.
func TestStandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 1)
		s.lane.Concurrency = 4 // one probe at a time
		first := s.ask("a")
		var waiting sync.WaitGroup
		waiting.Go(func() { s.away("a", 0) })
		synctest.Wait()
		wait(t.Context(), 100*time.Millisecond)
		first(true, false)
		waiting.Wait()
		began := time.Now()
		const longest = 3500 * time.Millisecond
		for _, after := range []time.Duration{time.Second, 2 * time.Second, longest, longest, longest} {
			wait(t.Context(), after-time.Millisecond)
			s.away("a", 0)
			wait(t.Context(), time.Millisecond)
			probe := s.ask("a")
			s.away("a", 0)
			probe(true, false)
		}
		_, err := s.Enter(s.lane, "a", 0)
		if since, _, _ := callback.Away(err); since != time.Since(began) {
			t.Errorf("it stands back for %v, want %v", since, time.Since(began))
		}
		s.ask("b")(false, true)
		wait(t.Context(), 30*time.Second)
		s.ask("a")(false, true)
		s.ask("a")(false, true)
		s.fails("a")
		wait(t.Context(), time.Second)
		s.ask("a")(false, true)
	})
}

// Hosts that hang do not have all callers of a lane find out whether they are back, however many there are.
func TestManyProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 4)
		s.lane.Concurrency = 20
		for i := range 50 {
			s.fails(strconv.Itoa(i))
		}
		wait(t.Context(), time.Second)
		probes := 0
		for i := range 50 {
			leave, err := s.Enter(s.lane, strconv.Itoa(i), 0)
			if err == nil {
				probes++
				defer leave(true, false)
			}
		}
		if probes != 20/4 {
			t.Errorf("%d hosts are asked at the same time whether they are back, want 5", probes)
		}
		s.ask("good")(false, true)
	})
}

// Who asks a host that stands back is to come again when it has been asked, and not together with all others: the
// later the longer the message is overdue, up to a few minutes.
func TestComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 1)
		s.fails("a")
		for overdue, least := range map[time.Duration]time.Duration{
			0: time.Second, 4 * time.Second: time.Second, time.Minute: 15 * time.Second, time.Hour: 3 * time.Minute,
		} {
			seen := map[time.Duration]bool{}
			for range 100 {
				after := s.away("a", overdue)
				if seen[after] = true; after < least || after >= 2*least {
					t.Fatalf("a message that is %v overdue comes again after %v", overdue, after)
				}
			}
			if len(seen) < 50 {
				t.Errorf("100 messages that are %v overdue come again at %d instants", overdue, len(seen))
			}
		}
		wait(t.Context(), time.Second)
		defer s.ask("a")(true, false)
		s.away("a", 0) // one request alone asks whether it is back, however many callers there are
	})
}

// A host that stands back is a part of its lane for the engine, and what was not sent to it no attempt.
func TestStandsBackIsAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 1)
		s.fails("a")
		_, err := s.Enter(s.lane, "a", 0)
		u, is := errors.AsType[*node.PublishError](err)
		if !is || u.Part != "a" || !node.KindOf(err).Untried() {
			t.Errorf("%v, want that part a does not answer, and that nothing was sent", err)
		}
	})
}

// A host that has answered another request meanwhile does not stand back, nor does the same host on another lane, or
// one whose connection was lost.
func TestNoReasonToStandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 3)
		slow, quick := s.ask("a"), s.ask("a")
		wait(t.Context(), time.Second)
		quick(false, true)
		wait(t.Context(), time.Second)
		slow(true, false)
		s.ask("a")(false, false)
		wait(t.Context(), time.Millisecond)
		s.fails("a")
		s.away("a", 0)
		other := s.lane
		other.Name = "http:other"
		if leave, err := s.Enter(other, "a", 0); err != nil {
			t.Errorf("another lane: %v", err)
		} else {
			leave(false, true)
		}
	})
}

// When a quarter of a lane's callers have had no answer within a minute, the last quarter is for hosts that have given
// one; a lost connection is none. A minute later all is as before.
func TestTroubledLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 8)
		s.lane.Concurrency = 8
		s.ask("good")(false, true)
		s.ask("reset")(false, false)
		s.fails("away 0")
		for i := range 7 {
			defer s.ask("slow "+strconv.Itoa(i))(false, true)
		}
		s.ask("new")(false, false)
		s.fails("away 1")
		for _, host := range []string{"new", "reset", "slow 1"} {
			if _, err := s.Enter(s.lane, host, 0); !callback.Busy(err) {
				t.Errorf("%s: %v, want that it is put off", host, err)
			}
		}
		wait(t.Context(), 2*time.Second)
		s.away("away 1", 0)
		s.ask("good")(false, true)
		wait(t.Context(), time.Minute)
		s.ask("new")(false, true)
	})
}

// Whoever submits chooses how many hosts there are. What is known of those that do not answer is bounded, and what is
// known of one that is talked to is kept.
func TestKnownHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t, 1)
		defer s.ask("busy")(false, true)
		s.lane.Name = "http:other" // the callers of that lane are its own
		for i := range callback.MostHosts + 500 {
			if leave, err := s.Enter(s.lane, strconv.Itoa(i), 0); err == nil {
				leave(true, false)
			}
		}
		if got := s.Known(); got > callback.MostHosts+1 || got < callback.MostHosts/2 {
			t.Errorf("%d hosts are known, want %d", got, callback.MostHosts)
		}
		s.lane.Name = "http:test"
		if _, err := s.Enter(s.lane, "busy", 0); !callback.Busy(err) {
			t.Errorf("a host that is talked to was forgotten: %v", err)
		}
		wait(t.Context(), 2*time.Minute)
		s.ask("new")(false, true)
		if got := s.Known(); got > 2 {
			t.Errorf("%d hosts are known when nobody has asked for them in two minutes", got)
		}
	})
}
