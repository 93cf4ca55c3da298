package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// A record of nothing but the largest key that there can be has an outcome, which leaves the key out.
func TestOutcomeOfLargestKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		headers := []node.Header{
			{Name: node.HeaderID, Value: []byte("x")}, {Name: node.HeaderAction, Value: []byte("cancel")},
		}
		w.submitRecord(node.Record{Key: bytes.Repeat([]byte{'k'}, node.MaxMessageBytes), Headers: headers})
		w.submitRecord(node.Record{Key: bytes.Repeat([]byte{'k'}, node.MaxMessageBytes/2), Headers: headers})
		w.run(controlled(), nil)
		pass(2 * time.Second)
		keys := map[int]int{}
		for _, d := range w.on("said") {
			keys[len(d.Key)]++
		}
		if len(keys) != 2 || keys[0] != 1 || keys[node.MaxMessageBytes/2] != 1 {
			t.Errorf("there are outcomes with keys of so many bytes: %v", keys)
		}
	})
}

// Where a route has no outcome topic, nobody is told, and an instruction acts all the same.
func TestNobodyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", 2*time.Second, node.Header{Name: node.HeaderConfirm, Value: []byte("true")})
		w.submit("y", 2*time.Second, node.Header{Name: node.HeaderConfirm, Value: []byte("false")})
		w.instruct("cancel", "x")
		w.run(config(0), nil)
		pass(3 * time.Second)
		if got := w.values("out"); len(got) != 1 || got["value y"] != 1 || len(w.output) != 1 {
			t.Errorf("delivered %v, of %d records in all", got, len(w.output))
		}
		w.empty()
	})
}

// chronosConfirm: false asks for nothing.
func TestConfirmFalse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Second, node.Header{Name: node.HeaderConfirm, Value: []byte("false")})
		w.run(controlled(), nil)
		pass(2 * time.Second)
		if got := w.values("out"); len(got) != 1 || len(w.said()) != 0 {
			t.Errorf("delivered %v, and said %v", got, w.said())
		}
	})
}

// A take whose reply was lost is repeated, and what it has decided is not decided once more.
func TestDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("x", time.Hour)
		w.instruct("cancel", "x")
		lost := false
		w.run(controlled(), func(_ int, call string) (error, bool) {
			if call != "take" || lost {
				return nil, true
			}
			lost = true
			return errInjected, true
		})
		pass(2 * time.Second)
		for _, e := range seen[node.Decided](w) {
			for _, d := range e.Decisions {
				if d.Outcome.String() == "" {
					t.Errorf("decided: %+v", d)
				}
			}
		}
		if said := w.said(); !lost || len(said) != 1 || said[0] != "cancel x: cancelled" {
			t.Errorf("said %v", said)
		}
		w.empty()
	})
}

// A delay needs a timestamp to count from, and ends in a year that a store can keep; and so does a series that has no
// deadline.
func TestBadDelays(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for name, c := range map[string]struct {
		header, value string
		timestamp     time.Time
		want          node.Reason
	}{
		"no timestamp":            {node.HeaderDelay, "1s", time.Time{}, node.InvalidDelay},
		"seconds for millis":      {node.HeaderDelay, "1h", time.UnixMilli(1795900401), node.InvalidDelay},
		"a timestamp of 0":        {node.HeaderDelay, "1h", time.UnixMilli(0), node.InvalidDelay},
		"a series from 1970":      {node.HeaderRepeat, "@daily", time.UnixMilli(0), node.InvalidRepeat},
		"too far":                 {node.HeaderDelay, "1h", last, node.InvalidDelay},
		"a series, from when":     {node.HeaderRepeat, "every 1h", time.Time{}, node.InvalidRepeat},
		"a series, by the clock":  {node.HeaderRepeat, "@daily", time.Time{}, node.InvalidRepeat},
		"an empty zone":           {node.HeaderRepeatZone, "", time.Now(), node.InvalidRepeat},
		"a series without a rule": {node.HeaderRepeatUntil, "2200-01-01T00:00", time.Now(), node.InvalidRepeat},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("good", time.Second)
				headers := []node.Header{
					{Name: node.HeaderID, Value: []byte("x")}, {Name: c.header, Value: []byte(c.value)},
				}
				if c.want == node.InvalidRepeat && c.header != node.HeaderRepeat {
					headers = append(headers, node.Header{Name: node.HeaderDelay, Value: []byte("1s")})
				}
				bad := w.submitRecord(node.Record{Value: []byte{0, 0xff}, Headers: headers, Timestamp: c.timestamp})
				w.run(config(0), nil)
				pass(2 * time.Second)
				checkDeadLetter(t, w.on("dead"), bad, c.want)
				if got := w.values("out"); len(got) != 1 || got["value good"] != 1 {
					t.Errorf("delivered %v", got)
				}
			})
		})
	}
}

// Instants may be bare numbers wherever a deadline may, and a reschedule minds no chronosNotAfter: that belongs to the
// message.
func TestLimitsInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		seconds := func(d time.Duration) []byte { return fmt.Append(nil, time.Now().Add(d).Unix()) }
		start := time.Now()
		w.submit("x", time.Second, node.Header{Name: node.HeaderNotAfter, Value: seconds(time.Hour)})
		w.instruct("reschedule", "x", node.HeaderDelay, "5s")
		w.series("s", "every 2s", time.Second, node.HeaderRepeatUntil, string(seconds(4*time.Second)))
		c := controlled()
		c.EpochDeadlines = node.EpochSeconds
		w.run(c, nil)
		pass(10 * time.Second)
		if got := w.values("out"); got["value x"] != 1 {
			t.Errorf("delivered %v", got)
		}
		if got := w.came("s", start); got != "1@1.0 2@3.0" {
			t.Errorf("the series came %s", got)
		}
		if said := w.said(); len(said) != 1 || said[0] != "reschedule x: rescheduled" {
			t.Errorf("said %v", said)
		}
		w.empty()
	})
}

// An occurrence relays its own deadline: that of its instant, or the one that somebody has moved it to.
func TestDeadlineOfOccurrence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		w.series("s", "every 2s", time.Second, node.HeaderRepeatCount, "3")
		c := controlled()
		c.RelayHeaders = []string{node.HeaderDeadline}
		w.run(c, nil)
		pass(2 * time.Second)
		w.instruct("reschedule", "s", node.HeaderDelay, "2s") // occurrence 2, from the third second to the fourth
		pass(8 * time.Second)
		var got []string
		for _, d := range w.on("out") {
			at, err := time.Parse(time.RFC3339, header(d.Record, node.HeaderDeadline))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, at.Sub(start).String())
		}
		if strings.Join(got, " ") != "1s 4s 5s" {
			t.Errorf("the deadlines are %v after the start", got)
		}
		w.empty()
	})
}

// A dead letter has all headers of its message, however often it could not be published.
func TestCopyTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := 3
		w.refuse = func(r node.Record) error {
			switch {
			case r.Topic == "out":
				return node.RecordRejected
			case r.Topic == "dead" && fails > 0:
				fails--
				return errors.New("no reply")
			}
			return nil
		}
		w.submit("x", time.Second, node.Header{Name: "last", Value: []byte("kept")})
		c := config(0)
		c.RelayHeaders = []string{node.HeaderID}
		w.run(c, nil)
		pass(30 * time.Second)
		dead := w.on("dead")
		if len(dead) != 1 || header(dead[0].Record, "last") != "kept" ||
			header(dead[0].Record, node.HeaderID) != "x" || header(dead[0].Record, node.HeaderDeadline) == "" {
			t.Fatalf("the dead letters are %v", dead)
		}
		for _, h := range dead[0].Headers {
			if h.Name == "" {
				t.Errorf("a header has no name: %v", dead[0].Headers)
			}
		}
		w.empty()
	})
}

// A copy that has to be cut down keeps the headers of Chronos, and no cut takes anything off the message itself: the
// next copy is made of all that it has.
func TestCopyCutDown(t *testing.T) {
	for name, refused := range map[string]func(r node.Record) bool{
		"the value": func(r node.Record) bool { return len(r.Value) > 5000 },
		"all":       func(r node.Record) bool { return r.Key != nil || header(r, "last") != "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.refuse = func(r node.Record) error {
					if r.Topic == "out" || refused(r) {
						return node.RecordRejected
					}
					return nil
				}
				r := w.submit("small", 5*time.Second, node.Header{Name: "last", Value: []byte("kept")})
				r.Value, r.Headers = make([]byte, 9000), append([]node.Header(nil), r.Headers...)
				r.Headers[1].Value = []byte("large")
				w.submitRecord(r)
				c := config(0)
				c.RelayHeaders = []string{node.HeaderID}
				w.run(c, nil)
				pass(10 * time.Second)
				ours := []string{node.HeaderID, node.HeaderDeadline, node.HeaderReason, node.HeaderError}
				for _, d := range w.on("dead") {
					for _, name := range ours {
						if header(d.Record, name) == "" {
							t.Errorf("a copy has no header %s: %v", name, d.Headers)
						}
					}
					for _, h := range d.Headers {
						if h.Name == "" {
							t.Errorf("a header has no name: %v", d.Headers)
						}
					}
				}
				if got := len(w.on("dead")); got != 2 {
					t.Errorf("%d dead letters", got)
				}
			})
		})
	}
}

// What is rejected once more, because the store cannot keep its copy either, is told with the reason of the first time.
func TestRejectedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuses = func(m *node.Message) bool { return m.Lane == "dead" }
		w.instruct("remove", "x")
		w.run(controlled(), nil)
		pass(2 * time.Second)
		var reasons []string
		for _, d := range w.on("said") {
			for _, h := range d.Headers {
				if h.Name == node.HeaderReason {
					reasons = append(reasons, string(h.Value))
				}
			}
		}
		if len(reasons) != 1 || reasons[0] != string(node.UnknownAction) {
			t.Errorf("the reasons are %v", reasons)
		}
	})
}

// A message whose time has passed is copied again soon after its copy could not be published.
func TestExpiredTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		failed := false
		w.refuse = func(r node.Record) error {
			if r.Topic == "dead" && !failed {
				failed = true
				return errors.New("no reply")
			}
			return nil
		}
		w.submit("x", -time.Second, node.Header{Name: node.HeaderNotAfter, Value: []byte(in(-time.Millisecond))})
		w.run(config(0), nil)
		pass(2 * time.Second)
		if got := w.on("dead"); !failed || len(got) != 1 || header(got[0].Record, node.HeaderReason) != "expired" {
			t.Errorf("the dead letters are %v", got)
		}
		w.empty()
	})
}

// A dead-letter topic that does not answer holds up nothing on the lane whose copies it takes, where that works.
func TestDeadLettersHeldUpAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if r.Topic == "dead" {
				return errors.New("no reply")
			}
			return nil
		}
		for i := range 8 {
			w.submit(fmt.Sprint("y", i), time.Duration(500+700*i)*time.Millisecond)
		}
		start := time.Now()
		w.run(config(0), nil)
		pass(time.Second)
		for i := range 3 { // they are put off for longer each time: from a tenth of a second on
			ended := node.Header{Name: node.HeaderNotAfter, Value: []byte(in(-time.Millisecond))}
			w.submit(fmt.Sprint("x", i), -time.Millisecond, ended)
			pass(150 * time.Millisecond)
		}
		pass(6 * time.Second)
		got := w.on("out")
		for i, d := range got {
			if late := d.at.Sub(start) - time.Duration(500+700*i)*time.Millisecond; late > 50*time.Millisecond {
				t.Errorf("message %d came %v late", i, late)
			}
		}
		if tried := len(seen[node.Unpublished](w)); len(got) != 8 || tried < 3 {
			t.Errorf("%d messages came, and the copy was tried %d times", len(got), tried)
		}
	})
}
