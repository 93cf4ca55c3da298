package node_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// A record whose request would never be made is rejected when it is taken in, a year before its deadline, with the
// reason and a copy on the dead-letter topic of its route. What stores nothing names no request, and topics have none.
func TestCallbackRejectedAtIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.callable = func(lane string, headers []node.Header) error {
			for _, h := range headers {
				if h.Name == node.HeaderURL && string(h.Value) == "http://good" {
					return nil
				}
			}
			return fmt.Errorf("%s has no good URL", lane)
		}
		c := calls(0)
		c.Routes[0].DeadLetter, c.Routes[0].Outcomes = "dead", "outcomes"
		year := 365 * 24 * time.Hour
		url := func(to string) node.Header { return node.Header{Name: node.HeaderURL, Value: []byte(to)} }
		action := func(a node.Action) node.Header {
			return node.Header{Name: node.HeaderAction, Value: []byte(a.String())}
		}
		w.submit("good", year, url("http://good"))
		w.submit("bad", year, url("http://bad"))
		w.submit("good", year, url("http://bad"), action(node.Replace))
		w.submit("none", year, action(node.Replace))
		w.submit("topic", year, node.Header{Name: node.HeaderTopic, Value: []byte("out")})
		w.submit("good", 2*year, action(node.Reschedule))
		w.run(c, nil)
		pass(5 * time.Second)
		var got []string
		for _, e := range seen[node.Rejected](w) {
			got = append(got, header(e.Record, node.HeaderID)+" "+string(e.Reason)+" "+e.Detail)
		}
		const why = " invalid_request http:out has no good URL"
		if want := []string{"bad" + why, "good" + why, "none" + why}; !slices.Equal(got, want) {
			t.Errorf("rejected: %q, want %q", got, want)
		}
		if letters := w.on("dead"); len(letters) != 3 || header(letters[0].Record, node.HeaderURL) != "http://bad" {
			t.Errorf("dead letters: %v", letters)
		}
		var outcomes []string
		for _, o := range w.on("outcomes") {
			outcomes = append(outcomes, header(o.Record, node.HeaderOutcome))
		}
		slices.Sort(outcomes) // they are due at the same instant
		if want := []string{"rejected", "rejected", "rescheduled"}; !slices.Equal(outcomes, want) {
			t.Errorf("outcomes: %q, want %q", outcomes, want)
		}
		rows := w.store.Dump()
		if len(rows) != 2 {
			t.Errorf("stored: %v", rows)
		}
	})
}

// Messages for a host that is away are given back together, and not in a transaction for each of them: there may be any
// number, and the other messages of the lane wait behind them. What the store does not take is given back later, and
// what is left when the node stops goes back then. None is lost, and none waits for its claim to expire.
func TestCallbackPutOffTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := &node.PublishError{Kind: node.NotSent, Err: errors.New("away"), After: 5 * time.Second}
		var back atomic.Bool
		w.answer = func(node.Record) error {
			if back.Load() {
				return nil
			}
			return away
		}
		const messages = 1000
		for i := range messages {
			w.submit(id(i), time.Second)
		}
		var failed, done atomic.Int32
		began := time.Now()
		decide := func(_ int, call string) (error, bool) {
			if call != "reset" {
				return nil, true
			}
			if time.Since(began) < 2*time.Second {
				failed.Add(1)
				return errInjected, false
			}
			done.Add(1)
			return nil, true
		}
		n := w.run(calls(0), decide)
		pass(4 * time.Second)
		if failed.Load() == 0 || failed.Load()+done.Load() > 60 {
			t.Errorf("%d messages were put off in %d calls that failed and %d others", messages, failed.Load(),
				done.Load())
		}
		if got := len(seen[node.Unpublished](w)); got < messages {
			t.Errorf("%d were put off, want all %d", got, messages)
		}
		n.stop()
		for _, row := range w.store.Dump() {
			if row.ReadiedBy != uuid.Nil || row.Attempts > 0 {
				t.Fatalf("%+v is claimed still", row)
			}
		}
		back.Store(true)
		w.run(calls(1), nil)
		pass(15 * time.Second)
		if got := len(w.values("http:out")); got != messages {
			t.Errorf("%d of %d came out", got, messages)
		}
		w.empty()
	})
}

// What a publisher gives back untried, since the lane has just closed, goes back together: a call for each would be as
// many at the same time as there are publishers.
func TestCallbackGivenBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var closed atomic.Bool
		closed.Store(true)
		c := calls(0)
		c.Windows = []node.LaneWindow{{Lane: "http:out", Window: closing{&closed}}}
		const messages = 320
		for i := range messages {
			w.submit(id(i), 4*time.Second)
		}
		var under, most atomic.Int32
		w.run(c, func(_ int, call string) (error, bool) {
			if call == "reset" {
				most.Store(max(most.Load(), under.Add(1)))
				pass(50 * time.Millisecond)
				under.Add(-1)
			}
			return nil, true
		})
		pass(5 * time.Second)
		if got := most.Load(); got == 0 || got > 2 {
			t.Errorf("%d calls that give claims back at the same time, want one, or two with that of the claimer", got)
		}
		closed.Store(false)
		pass(5 * time.Second)
		if got := len(w.values("http:out")); got != messages {
			t.Errorf("%d of %d came out", got, messages)
		}
		w.empty()
	})
}

// A copy that the store can never keep, however much it is cut, is kept by nobody: the message ends all the same, and
// whoever is told does not hear of a copy that he would look for in vain. One that fits when it is cut is kept cut;
// what is given up beside it is kept whole.
func TestCallbackLetterRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error {
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
		}
		w.refuses = func(m *node.Message) bool {
			is := func(id string) bool {
				return slices.ContainsFunc(m.Headers, func(h node.Header) bool {
					return h.Name == node.HeaderID && string(h.Value) == id
				})
			}
			return m.Lane == "failed" && !is("whole") && (is("never") || len(m.Value) > 0)
		}
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
		for _, id := range []string{"never", "cut", "whole"} {
			w.submit(id, time.Second)
		}
		w.run(c, nil)
		pass(10 * time.Second)
		to := map[string]string{}
		for _, e := range seen[node.GaveUp](w) {
			to[e.Message.ID] += e.DeadLetter + "."
		}
		if to["never"] != "." || to["cut"] != "failed." || to["whole"] != "failed." {
			t.Errorf("copies are said to be on %v", to)
		}
		cut := map[string]bool{}
		for _, d := range w.on("failed") {
			cut[header(d.Record, node.HeaderID)] = header(d.Record, node.HeaderCut) != "" && len(d.Value) == 0
		}
		if len(cut) != 2 || !cut["cut"] || cut["whole"] {
			t.Errorf("dead letters, and whether they are cut: %v", cut)
		}
		w.empty()
	})
}

// A callback has no timing advance: what that makes up for is the way to Kafka. One that is due when it is stored does
// not wait for the next look.
func TestCallbackNotAdvanced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := calls(0)
		c.TimingAdvance = 100 * time.Millisecond
		began := time.Now()
		dues := map[string]time.Duration{
			"value waits": 2 * time.Second, "value soon": 200 * time.Millisecond, "value now": 0,
		}
		w.submit("waits", 2*time.Second)
		w.submit("soon", 200*time.Millisecond)
		w.submit("now", 0)
		w.submit("topic", 2*time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("out")})
		w.run(c, nil)
		pass(5 * time.Second)
		for _, d := range w.on("http:out") {
			if late := d.at.Sub(began.Add(dues[string(d.Value)])); late < 0 || late > 20*time.Millisecond {
				t.Errorf("%s came %v after its deadline", d.Value, late)
			}
		}
		topic := w.on("out")
		if len(w.on("http:out")) != 3 || len(topic) != 1 || !topic[0].at.Before(began.Add(2*time.Second)) {
			t.Errorf("on the topic: %v", topic)
		}
		w.empty()
	})
}

// A callback that was not sent, because its host has enough to do, is tried again after as long as it is overdue: soon
// at first, and never more than half a minute later, give or take a fifth. What its sink is handed has each header once
// that tells of the message, also where the message keeps its own.
func TestCallbackUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error { return &node.PublishError{Kind: node.NotSent, Err: errors.New("busy")} }
		c := calls(0)
		c.RelayHeaders = []string{node.HeaderID, node.HeaderDeadline}
		w.submit("x", time.Second)
		w.run(c, nil)
		pass(3 * time.Second)
		if got := len(w.on("http:out")); got < 4 || got > 7 {
			t.Errorf("%d tries within two seconds, want them after about 0, 0.1, 0.2, 0.4, 0.8 and 1.6 s", got)
		}
		pass(10 * time.Minute)
		before := len(w.on("http:out"))
		pass(10 * time.Minute)
		got := w.on("http:out")
		if n := len(got) - before; n < 16 || n > 26 {
			t.Errorf("%d tries in ten minutes, want one every half a minute", n)
		}
		for name, want := range map[string]int{node.HeaderID: 1, node.HeaderDeadline: 1, node.HeaderAttempt: 1} {
			n := 0
			for _, h := range got[0].Headers {
				if h.Name == name {
					n++
				}
			}
			if n != want {
				t.Errorf("%d headers %s", n, name)
			}
		}
	})
}

// However often a callback has failed, it is tried again every five minutes, give or take a fifth.
func TestCallbackRetriesForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error { return &node.PublishError{Err: errInjected} }
		w.submit("x", time.Second)
		w.run(calls(0), nil)
		pass(30 * time.Minute)
		before := len(w.on("http:out"))
		pass(time.Hour)
		if n := len(w.on("http:out")) - before; n < 9 || n > 16 {
			t.Errorf("%d tries in an hour, want one every five minutes", n)
		}
	})
}

// A dead letter on a callback lane comes as soon as the message is given up, and does not wait for the next look. One
// on a topic names the lane that it was for, if whoever sends it again has to.
func TestCallbackLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(r node.Record) error {
			if r.Topic == "http:letters" {
				return nil
			}
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
		}
		c := calls(0)
		c.Routes[0].Targets = append(c.Routes[0].Targets, "http:third")
		c.Callbacks.Lanes = []node.CallbackLane{
			{Name: "http:out", DeadLetter: "failed"},
			{Name: "http:other", DeadLetter: "failed"},
			{Name: "http:third", DeadLetter: "http:letters"},
			{Name: "http:letters"},
		}
		topic := func(lane string) node.Header { return node.Header{Name: node.HeaderTopic, Value: []byte(lane)} }
		w.submit("out", time.Second)
		w.submit("other", time.Second, topic("http:other"))
		for i := range 8 {
			w.submit(id(i), time.Second+time.Duration(i)*130*time.Millisecond, topic("http:third"))
		}
		w.run(c, nil)
		pass(5 * time.Second)
		asked, letters := w.on("http:third"), w.on("http:letters")
		if len(asked) != 8 || len(letters) != 8 {
			t.Fatalf("%d requests, %d dead letters", len(asked), len(letters))
		}
		for i := range letters {
			if late := letters[i].at.Sub(asked[i].at); late > 20*time.Millisecond {
				t.Errorf("a dead letter came %v after the refusal", late)
			}
		}
		for _, letter := range w.on("failed") {
			want := map[string]string{"out": "", "other": "http:other"}[header(letter.Record, node.HeaderID)]
			if got := header(letter.Record, node.HeaderTopic); got != want {
				t.Errorf("the dead letter of %s names %q, want %q", header(letter.Record, node.HeaderID), got, want)
			}
		}
		w.empty()
	})
}

// A node that dies after the dead letter is stored, and before the message has ended, leaves it to its peer, which
// gives it up once more: the second copy is covered by the first one, as long as that waits.
func TestCallbackLetterOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error {
			return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: 410}
		}
		c := calls(0)
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "failed"}}
		w.pause("failed")
		w.submit("x", time.Second)
		first := w.run(c, func(_ int, call string) (error, bool) {
			if call == "delete" {
				return errCrash, false
			}
			return nil, true
		})
		pass(5 * time.Second)
		if _, dead := first.gate.state(); !dead {
			t.Fatal("the first node lives")
		}
		c.Seed[0]++
		w.run(c, nil)
		pass(c.CallbackHoldTime() + 5*time.Second)
		asked, rows := len(w.on("http:out")), w.store.Dump()
		if asked != 2 || len(rows) != 1 || rows[0].Lane != "failed" {
			t.Errorf("asked %d times; stored: %v", asked, rows)
		}
		w.resume("failed")
		pass(5 * time.Second)
		if got := len(w.on("failed")); got != 1 {
			t.Errorf("%d dead letters", got)
		}
		w.empty()
	})
}

// While the store takes no claims back, as many callbacks are put off as may be, and no more; when it answers again
// they go back without waiting for anything else, and those of a node that stops do, too.
func TestCallbackPutOffInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error { return &node.PublishError{Kind: node.NotSent, Err: errors.New("away")} }
		var out atomic.Bool
		out.Store(true)
		claimed := func() (n int) {
			for _, row := range w.store.Dump() {
				if row.ReadiedBy != uuid.Nil {
					n++
				}
			}
			return n
		}
		const messages, most = 2600, 2000 + 64
		for i := range messages {
			w.submit(fmt.Sprintf("n%04d", i), 10*time.Second)
		}
		w.submit("alone", 2*time.Second)
		n := w.run(calls(0), func(_ int, call string) (error, bool) {
			if call == "reset" && out.Load() {
				return errInjected, false
			}
			return nil, true
		})
		pass(4 * time.Second)
		if got := claimed(); got != 1 {
			t.Fatalf("%d claims, want the one that the store does not take back", got)
		}
		out.Store(false)
		pass(2 * time.Second)
		if got := claimed(); got != 0 {
			t.Errorf("%d claims, want none: the store answers again", got)
		}
		out.Store(true)
		pass(9 * time.Second)
		off := 0
		for _, e := range seen[node.Unpublished](w) {
			off += len(e.Messages)
		}
		if off < most/2 || off > most+20 {
			t.Errorf("%d were put off while the store takes none back, want %d at most", off, most)
		}
		out.Store(false)
		n.stop()
		if got := claimed(); got != 0 {
			t.Errorf("%d claims are left by a node that has stopped", got)
		}
	})
}

// A callback that is due when it is taken in has as much time as any other: no claim of its take, which is held for as
// long as one on a topic, is made on it.
func TestCallbackDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error {
			pass(15 * time.Second)
			return nil
		}
		w.submit("x", 0)
		w.run(calls(0), nil)
		w.run(calls(1), nil)
		pass(30 * time.Second)
		if got := len(w.on("http:out")); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
		if suspected := seen[node.Suspected](w); len(suspected) > 0 {
			t.Errorf("%v: a request may take as long as that", suspected)
		}
		w.empty()
	})
}

// How long receivers take is no reason to send messages on topics earlier. After a failover, callback lanes wait for
// what a request may take, and not for as long as a claim on it is held.
func TestCallbackTimes(t *testing.T) {
	c := calls(0)
	c.AdaptiveAdvance, c.TimingAdvance = true, 0
	if got := c.CallsAfter(); got != c.Callbacks.Timeout {
		t.Errorf("callbacks of an earlier lineage are waited for for %v, want %v", got, c.Callbacks.Timeout)
	}
	if d := config(0); d.CallsAfter() != 0 {
		t.Errorf("without callbacks they are waited for for %v", d.CallsAfter())
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(node.Record) error {
			pass(200 * time.Millisecond)
			return nil
		}
		began := time.Now()
		for i := range 300 {
			w.submit(id(i), time.Second)
		}
		w.submit("topic", 10*time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("out")})
		w.run(c, nil)
		pass(15 * time.Second)
		got := w.on("out")
		if len(got) != 1 || len(w.on("http:out")) != 300 {
			t.Fatalf("%d on the topic, %d requests", len(got), len(w.on("http:out")))
		}
		if early := 10*time.Second - got[0].at.Sub(began); early > 20*time.Millisecond {
			t.Errorf("a message on a topic came %v early", early)
		}
	})
}
