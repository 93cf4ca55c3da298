package node_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// refusing returns a world in which the receivers of callbacks want nothing, and the settings of nodes that keep copies
// of what they give up. Messages of a lane fall due in it after a while.
func refusing(t *testing.T, messages int, due time.Duration) (*world, node.Config) {
	w := newWorld(t)
	w.answer = func(r node.Record) error {
		if r.Topic == "http:out" {
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
		}
		return nil
	}
	for i := range messages {
		w.submit(id(i), due)
	}
	c := calls(0)
	c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
	return w, c
}

// lettersOf returns for how many copies a take asks.
func lettersOf(r node.TakeRequest) (letters int) {
	for i := range r.Items {
		if r.Items[i].From == node.NoPlace {
			letters++
		}
	}
	return letters
}

// noTakes returns a gate that lets no take through while some are failing.
func noTakes(failing *atomic.Bool) func(int, string) (error, bool) {
	return func(_ int, call string) (error, bool) {
		if call == "take" && failing.Load() {
			return errInjected, false
		}
		return nil, true
	}
}

// TestGivenUpTogether has callbacks given up at one instant, as many as are made at the same time, and again, while the
// store takes its time. Their copies are kept together, in one call after the other: a call for each would leave no
// connection to claims, and no lane would get on.
func TestGivenUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 640
		w, c := refusing(t, messages, 5*time.Second)
		var under, most, all atomic.Int32
		n := w.run(c, func(_ int, call string) (error, bool) {
			if call == "take" {
				most.Store(max(most.Load(), under.Add(1)))
				pass(50 * time.Millisecond)
				under.Add(-1)
			}
			return nil, true
		})
		takes := func(r node.TakeRequest) { all.Add(int32(min(1, lettersOf(r)))) }
		n.gate.takes.Store(&takes)
		pass(10 * time.Second)
		if most.Load() > 2 {
			t.Errorf("%d takes at the same time, want one that takes records in and one for copies", most.Load())
		}
		if all.Load() == 0 || all.Load() > messages/20 {
			t.Errorf("copies of %d messages were kept in %d calls", messages, all.Load())
		}
		if got := len(w.on("failed")); got != messages {
			t.Errorf("%d dead letters, want %d", got, messages)
		}
		w.empty()
	})
}

// TestGivenUpInOutage has the store answer nothing about copies for a while. Its receiver, which has said that it wants
// none of it, is asked again after 1 s, 2 s, 4 s and so on. Claims do not wait for that, nor does what is given back.
func TestGivenUpInOutage(t *testing.T) {
	for name, test := range map[string]struct {
		lasts time.Duration
		asked int
	}{
		"short": {2 * time.Second, 3},
		"long":  {time.Minute, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const messages = 100
				w, c := refusing(t, messages, 5*time.Second)
				for i := range 10 {
					w.submit("other "+id(i), 5*time.Second+time.Duration(i)*100*time.Millisecond,
						node.Header{Name: node.HeaderTopic, Value: []byte("http:other")})
				}
				var failing atomic.Bool
				n := w.run(c, noTakes(&failing))
				pass(4900 * time.Millisecond)
				failing.Store(true)
				pass(test.lasts)
				if got := len(w.on("failed")); got > 0 {
					t.Errorf("%d dead letters while the store keeps none", got)
				}
				if got := len(w.on("http:other")); got != 10 {
					t.Errorf("%d of 10 others came out beside them", got)
				}
				failing.Store(false)
				pass(3 * time.Minute)
				if got := len(w.on("http:out")); got < messages || got > test.asked*messages {
					t.Errorf("the receiver was asked %d times for %d messages, want %d times for each at most", got,
						messages, test.asked)
				}
				if got := len(w.on("failed")); got != messages {
					t.Errorf("%d dead letters, want %d", got, messages)
				}
				w.empty()
				n.stop()
			})
		})
	}
}

// hang has takes of copies wait until the returned function is called. It counts for how many copies they ask.
func (r *running) hang() (under *atomic.Int32, goOn func()) {
	under, waits := &atomic.Int32{}, make(chan struct{})
	takes := func(request node.TakeRequest) {
		if letters := lettersOf(request); letters > 0 {
			under.Add(int32(letters))
			<-waits
		}
	}
	r.gate.takes.Store(&takes)
	return under, func() {
		r.gate.takes.Store(nil)
		close(waits)
	}
}

// TestGivenUpByTwo has a call of a node about a copy hang, until another node has taken over what the first one has
// given up, and ended it. What waits behind that call is too old by then: a second copy of each would come out.
func TestGivenUpByTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 10
		w, c := refusing(t, messages, 5*time.Second)
		first := w.run(c, func(_ int, call string) (error, bool) {
			if call == "claim" && time.Since(w.began) > 5200*time.Millisecond {
				return errInjected, false // or it might be the one that claims them again
			}
			return nil, true
		})
		under, goOn := first.hang()
		pass(5200 * time.Millisecond)
		c.Seed[0]++
		w.run(c, nil)
		pass(c.CallbackHoldTime() + 10*time.Second)
		if got := len(w.on("failed")); got != messages {
			t.Errorf("%d dead letters when the other node has taken over, want %d", got, messages)
		}
		goOn()
		pass(20 * time.Second)
		if got, most := len(w.on("failed")), messages+int(under.Load()); got > most || under.Load() == messages {
			t.Errorf("%d dead letters in the end, want %d at most", got, most)
		}
		w.empty()
	})
}

// TestGivenUpBounded has a call about copies hang. What waits behind it is bounded, in messages and in bytes: nothing
// more is asked of receivers then.
func TestGivenUpBounded(t *testing.T) {
	const callers = 64
	for name, test := range map[string]struct{ messages, most, size int }{
		"in messages": {4000, 2000 + callers, 0},
		"in bytes":    {200, 32 + callers, 512 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := refusing(t, 0, 0)
				for i := range test.messages {
					r := w.submit(id(i), 5*time.Second)
					w.input["in"][i].Value = append(r.Value, make([]byte, test.size)...)
				}
				c.HoldTime = time.Minute
				n := w.run(c, nil)
				_, goOn := n.hang()
				pass(25 * time.Second)
				if got := len(w.on("http:out")); got < test.most/3 || got > test.most {
					t.Errorf("receivers were asked for %d messages while the store does not answer, want %d at most",
						got, test.most)
				}
				goOn()
				largest := 0
				takes := func(r node.TakeRequest) {
					size := 0
					for i := range r.Items {
						size += r.Items[i].Size()
					}
					largest = max(largest, size*min(1, lettersOf(r)))
				}
				n.gate.takes.Store(&takes)
				pass(10 * time.Minute)
				if largest > 9<<20 {
					t.Errorf("%d bytes of copies are in one call", largest)
				}
				if got := len(w.on("failed")); got != test.messages {
					t.Errorf("%d dead letters, want %d", got, test.messages)
				}
				w.empty()
			})
		})
	}
}

// TestGivenUpInTurn has copies come to the settler during each of its calls, and messages of another lane that come
// out. These are deleted all the same.
func TestGivenUpInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := refusing(t, 0, 0)
		const messages = 400
		for i := range messages {
			due := 20*time.Second + time.Duration(i)*25*time.Millisecond
			w.submit(id(i), due)
			w.submit("other "+id(i), due, node.Header{Name: node.HeaderTopic, Value: []byte("http:other")})
		}
		n := w.run(c, nil)
		takes := func(r node.TakeRequest) {
			if lettersOf(r) > 0 {
				pass(30 * time.Millisecond)
			}
		}
		n.gate.takes.Store(&takes)
		pass(20 * time.Second)
		for range 10 {
			pass(time.Second)
			if out, rows := len(w.on("http:other")), w.store.Dump(); len(rows) > 2*messages-2*out+20 {
				t.Fatalf("%d messages of another lane came out, and as many were given up: %d of %d are still stored",
					out, len(rows), 2*messages)
			}
		}
		pass(5 * time.Second)
		w.empty()
	})
}

// TestGivenUpHoldsUpNobody has the store keep no copies for minutes, while more is given up than may wait for that.
// What is for another receiver comes out in time.
func TestGivenUpHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, others = 3000, 100
		w, c := refusing(t, messages, 30*time.Second)
		for i := range others {
			w.submit("other "+id(i), 30*time.Second+time.Duration(i)*time.Second,
				node.Header{Name: node.HeaderTopic, Value: []byte("http:other")})
		}
		var failing atomic.Bool
		w.run(c, noTakes(&failing))
		pass(29 * time.Second)
		failing.Store(true)
		pass((others + 3) * time.Second)
		if got := len(w.on("http:other")); got != others {
			t.Errorf("%d of %d messages for another receiver came out", got, others)
		}
		failing.Store(false)
		pass(10 * time.Minute)
		if got := len(w.on("failed")); got != messages {
			t.Errorf("%d dead letters, want %d", got, messages)
		}
		w.empty()
	})
}

// TestGivenUpBesideOne has calls fail in which the copy of one message is. The copies of all others are kept soon.
func TestGivenUpBesideOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 200
		w, c := refusing(t, messages, 30*time.Second)
		var poisoned atomic.Bool
		n := w.run(c, noTakes(&poisoned))
		takes := func(r node.TakeRequest) {
			poisoned.Store(slices.ContainsFunc(r.Items, func(item node.Item) bool {
				return item.From == node.NoPlace && slices.ContainsFunc(item.Headers, func(h node.Header) bool {
					return h.Name == node.HeaderID && string(h.Value) == id(100)
				})
			}))
		}
		n.gate.takes.Store(&takes)
		pass(40 * time.Second)
		if got := len(w.on("failed")); got != messages-1 {
			t.Errorf("%d copies are kept ten seconds later, want all but one of %d", got, messages)
		}
	})
}

// TestGivenUpAfterASlowCall has receivers take long to refuse, so that calls end later than their claims could have
// been published. Each receiver is asked once all the same, and each copy is kept.
func TestGivenUpAfterASlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 16
		w, c := refusing(t, messages, 5*time.Second)
		w.answer = func(r node.Record) error {
			if r.Topic != "http:out" {
				return nil
			}
			pass(12 * time.Second)
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
		}
		c.Callbacks.Lanes[0].Concurrency = 2
		w.run(c, nil)
		pass(3 * time.Minute)
		if asked, kept := len(w.on("http:out")), len(w.on("failed")); asked != messages || kept != messages {
			t.Errorf("receivers were asked %d times, and %d copies are kept, want %d of each", asked, kept, messages)
		}
		w.empty()
	})
}

// TestGivenUpAndRefused has the store refuse all copies, however much they are cut. What that costs grows as their
// number: a call in which one is refused is not repeated with all others each time.
func TestGivenUpAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 300
		w, c := refusing(t, messages, 5*time.Second)
		w.refuses = func(m *node.Message) bool { return m.Lane == "failed" }
		n := w.run(c, nil)
		var copies atomic.Int32
		takes := func(r node.TakeRequest) { copies.Add(int32(lettersOf(r))) }
		n.gate.takes.Store(&takes)
		pass(time.Minute)
		if got := len(seen[node.GaveUp](w)); got != messages {
			t.Errorf("told of %d that were given up, want %d", got, messages)
		}
		if got := copies.Load(); got < 4*messages || got > 10*messages {
			t.Errorf("%d copies are in calls, of %d messages that are cut four times", got, messages)
		}
		w.empty()
	})
}

// TestStopWithoutCopies has a node stop while the store keeps no copies. It gives back all that waits for them: another
// node asks their receivers soon.
func TestStopWithoutCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 600
		w, c := refusing(t, messages, 5*time.Second)
		var failing, hanging atomic.Bool
		gate := noTakes(&failing)
		n := w.run(c, func(number int, call string) (error, bool) {
			for call == "take" && hanging.Load() {
				pass(50 * time.Millisecond)
			}
			return gate(number, call)
		})
		pass(4 * time.Second)
		failing.Store(true)
		hanging.Store(true) // all that is given up waits behind one call
		pass(3 * time.Second)
		go n.stop()
		pass(time.Second)
		hanging.Store(false)
		n.stop()
		if got := len(w.on("http:out")); got != messages {
			t.Errorf("%d of %d receivers were asked before the node stopped", got, messages)
		}
		for _, left := range seen[node.LeftBehind](w) {
			t.Errorf("left behind: %+v", left)
		}
	})
}
