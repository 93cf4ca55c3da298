package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// series puts a record on the input topic that recurs, first after a while, with further headers as name and value.
func (w *world) series(id, repeat string, first time.Duration, headers ...string) {
	r := node.Record{
		Key: []byte("key " + id), Value: []byte("value " + id), Timestamp: time.Now(),
		Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte(id)},
			{Name: node.HeaderRepeat, Value: []byte(repeat)},
			{Name: "other", Value: []byte("kept")},
		},
	}
	if first > 0 {
		headers = append(headers, node.HeaderDeadline, in(first))
	}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, node.Header{Name: headers[i], Value: []byte(headers[i+1])})
	}
	w.submitRecord(r)
}

// came returns what came out of an id: of each occurrence its sequence number, and how long after start it came, in
// tenths of a second.
func (w *world) came(id string, start time.Time) string {
	var all []string
	for _, d := range w.on("out") {
		if string(d.Key) != "key "+id {
			continue
		}
		sequence := "?"
		for _, h := range d.Headers {
			if h.Name == node.HeaderSequence {
				sequence = string(h.Value)
			}
		}
		all = append(all, fmt.Sprintf("%s@%.1f", sequence, d.at.Sub(start).Seconds()))
	}
	return strings.Join(all, " ")
}

// Occurrences come at the instants of their series, counted from the first one, with their numbers, until the series
// ends by count, by its end, or by a cancel.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		w.series("count", "every 2s", time.Second, node.HeaderRepeatCount, "3")
		w.series("until", "every 3s", time.Second, node.HeaderRepeatUntil, in(5*time.Second))
		w.series("cron", "*/4 * * * * *", 0, node.HeaderRepeatCount, "2")
		w.series("cancelled", "every 2s", time.Second)
		w.series("moved", "every 2s", time.Second, node.HeaderRepeatCount, "3")
		w.series("hurried", "every 4s", 4*time.Second, node.HeaderRepeatCount, "2")
		w.run(controlled(), nil)
		pass(2 * time.Second)
		w.instruct("reschedule", "moved", node.HeaderDelay, "2s") // occurrence 2, from the third second to the fourth
		w.instruct("fire", "hurried")
		pass(2 * time.Second)
		w.instruct("cancel", "cancelled")
		pass(20 * time.Second)
		for id, want := range map[string]string{
			"count": "1@1.0 2@3.0 3@5.0", "until": "1@1.0 2@4.0", "cron": "1@0.0 2@4.0", "cancelled": "1@1.0 2@3.0",
			"moved": "1@1.0 2@4.0 3@5.0", "hurried": "1@2.1 2@8.0",
		} {
			if got := w.came(id, start); got != want {
				t.Errorf("%s came %s, want %s", id, got, want)
			}
		}
		for _, d := range w.on("out") {
			if names := fmt.Sprint(d.Headers); len(d.Headers) != 2 || !strings.HasPrefix(names, "[{other [") ||
				!strings.HasPrefix(string(d.Value), "value ") {
				t.Errorf("it came out with the headers %v and the value %q", d.Headers, d.Value)
			}
		}
		want := "cancel cancelled: cancelled; fire hurried: fired; reschedule moved: rescheduled"
		if said := strings.Join(w.said(), "; "); said != want {
			t.Errorf("said  %s\nwant  %s", said, want)
		}
		w.empty()
	})
}

// A cancel that meets an occurrence in flight stops the series: that one comes out, and none after it, although its
// node does not know.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		c := controlled()
		c.Lookahead = 900 * time.Millisecond
		w.series("x", "every 2s", 2*time.Second)
		w.run(c, nil)
		pass(3500 * time.Millisecond) // occurrence 2 is claimed
		w.instruct("cancel", "x")
		w.instruct("cancel", "x")
		pass(20 * time.Second)
		if got := w.came("x", start); got != "1@2.0 2@4.0" {
			t.Errorf("came %s", got)
		}
		if said := strings.Join(w.said(), "; "); said != "cancel x: stopped; cancel x: stopped" {
			t.Errorf("said %s", said)
		}
		for _, d := range w.on("said") {
			if !slices.ContainsFunc(d.Headers, func(h node.Header) bool {
				return h.Name == node.HeaderSequence && string(h.Value) == "2"
			}) {
				t.Errorf("the last occurrence is not named: %v", d.Headers)
			}
		}
		w.empty()
	})
}

// Nobody is there for five minutes. What was missed comes out, or does not, by the policy of the series; its numbers
// count on.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		for _, policy := range []string{"one", "all", "skip"} {
			w.series(policy, "every 100s", 50*time.Second, node.HeaderMissed, policy, node.HeaderRepeatCount, "6")
		}
		n := w.run(config(0), nil)
		pass(60 * time.Second)
		n.stop()
		pass(320 * time.Second) // 150, 250 and 350 go by; the last of them half a minute ago
		w.run(config(1), nil)
		pass(200 * time.Second)
		for policy, want := range map[string]string{
			"one": "1@50.0 4@380.0 5@450.0 6@550.0", "all": "1@50.0 2@380.0 3@380.0 4@380.0 5@450.0 6@550.0",
			"skip": "1@50.0 4@380.0 5@450.0 6@550.0",
		} {
			if got := w.came(policy, start); got != want {
				t.Errorf("%s came %s, want %s", policy, got, want)
			}
		}
		w.empty()
	})
}

// Goal: one record does not make any number of messages, whatever it asks for (attack 11). Method: series begin an hour
// ago, and in the year 2, and all that was missed of them is to come out. Only the latest do, and then each on time.
// The rest is passed over, and counted.
func TestMissedAllIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		w := newWorld(t)
		start := time.Now()
		all := []string{node.HeaderMissed, "all", node.HeaderDeadline}
		w.series("hour", "every 1m", 0, append(all, in(-time.Hour))...)
		w.series("few", "every 1m", 0, append(all, in(-9*time.Minute))...)
		w.series("ends", "every 1m", 0, append(all, in(-time.Hour), node.HeaderRepeatCount, "55")...)
		w.series("ancient", "every 1m", 0, append(all, "0002-01-01T00:00:00Z")...)
		c := config(0)
		c.Limits.MaxMissed = most
		w.run(c, nil)
		pass(50 * time.Second)
		caughtUp := func(from, to int64) string {
			var all []string
			for number := from; number <= to; number++ {
				all = append(all, fmt.Sprintf("%d@0.0", number))
			}
			return strings.Join(all, " ")
		}
		now := start.Unix() - time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		last := now/60 + 1 // of those since the year 2
		passed := map[string]int64{}
		for _, e := range seen[node.PassedOver](w) {
			for _, next := range e.Next {
				passed[next.Of.ID] += next.Passed
			}
		}
		for id, want := range map[string]struct {
			came   string
			passed int64
		}{
			"hour": {caughtUp(52, 61), 51}, "few": {caughtUp(1, 10), 0}, "ends": {caughtUp(46, 55), 45},
			"ancient": {caughtUp(last-9, last), last - 10},
		} {
			if got := w.came(id, start); got != want.came {
				t.Errorf("%s came %s, want %s", id, got, want.came)
			}
			if passed[id] != want.passed {
				t.Errorf("%d of %s are passed over, want %d", passed[id], id, want.passed)
			}
		}
		pass(15 * time.Second)
		if got := w.came("hour", start); !strings.HasSuffix(got, " 62@60.0") {
			t.Errorf("hour came %s, want the next one on time", got)
		}
	})
}

// Somebody is told that an occurrence comes out, after a node has claimed it and decided to pass it over: it comes out,
// and soon; of a series that ends with it, too.
func TestMissedAndPromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, count := range []string{"1", "9"} {
			w := newWorld(t)
			start := time.Now()
			w.series("x", "every 100s", 50*time.Second, node.HeaderMissed, "skip", node.HeaderRepeatCount, count)
			n := w.run(config(0), nil)
			pass(10 * time.Second)
			n.stop()
			pass(190 * time.Second)
			told := 0
			w.run(config(1), func(_ int, call string) (error, bool) {
				if call == "delete" && told == 0 {
					told++
					item := node.Item{
						From: node.NoPlace, Action: node.FireNow, Message: node.Message{
							ID: "x", Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().UTC(),
						},
					}
					result, err := w.store.Take(t.Context(), node.TakeRequest{Items: []node.Item{item}})
					if err != nil || result.Results[0].Outcome != node.TooLate {
						t.Errorf("told %v, %v", result.Results, err)
					}
				}
				return nil, true
			})
			pass(2 * time.Second)
			if got := w.came("x", start); !strings.HasPrefix(got, "1@200.") || told == 0 {
				t.Errorf("of %s it came %s, told %d", count, got, told)
			}
			if suspected := seen[node.Suspected](w); len(suspected) > 0 {
				t.Errorf("suspected: %v", suspected)
			}
		}
	})
}

// Whether an occurrence was missed is told by the deadline that somebody has given it, and one that somebody wants now
// comes out however late that is.
func TestMovedAndMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		w.refuse = func(r node.Record) error {
			if string(r.Key) == "key now" && time.Since(start) < 300*time.Second {
				return errInjected
			}
			return nil
		}
		w.run(controlled(), nil)
		w.series("later", "every 100s", 50*time.Second, node.HeaderMissed, "skip", node.HeaderRepeatCount, "5")
		w.series("now", "every 1000s", 900*time.Second, node.HeaderMissed, "skip", node.HeaderRepeatCount, "2")
		pass(10 * time.Second)
		w.instruct("reschedule", "later", node.HeaderDelay, "330s") // from the 50th second to the 340th
		w.instruct("fire", "now")
		pass(2000 * time.Second)
		if got := w.came("later", start); got != "1@340.0 4@350.0 5@450.0" {
			t.Errorf("later came %s", got)
		}
		if got := w.came("now", start); !strings.HasPrefix(got, "1@300.") || !strings.HasSuffix(got, " 2@1900.0") {
			t.Errorf("now came %s", got) // at the first try of many
		}
		w.empty()
	})
}

// A node that cannot read a series, because its machine lacks the time zone, leaves the occurrence to one that can, and
// neither ends the series nor publishes what it could not settle. What does not recur is none of its concern.
func TestUnreadSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		w.run(config(0), nil).gate.unread.Store(true)
		w.series("x", "every 100s", 50*time.Second, node.HeaderRepeatCount, "3")
		w.series("missed", "every 100s", 55*time.Second, node.HeaderMissed, "skip", node.HeaderRepeatCount, "4")
		w.submit("plain", 60*time.Second)
		pass(200 * time.Second)
		if got := w.came("x", start) + w.came("missed", start); got != "" {
			t.Errorf("a node that cannot read the series publishes %s", got)
		}
		if w.values("out")["value plain"] != 1 {
			t.Error("what does not recur was held up")
		}
		unpublished := seen[node.Unpublished](w)
		if len(unpublished) == 0 || !strings.Contains(unpublished[0].Err.Error(), "the series cannot be read") {
			t.Fatalf("nothing says that a series cannot be read: %v", unpublished)
		}
		if n := len(unpublished); n > 1000 {
			t.Errorf("it is tried %d times in 150 s", n)
		}
		w.run(config(1), nil)
		pass(300 * time.Second)
		// Of those that were missed, the latest. While the first node keeps trying, they may be some seconds late.
		for id, want := range map[string][]float64{"x": {2, 203, 3, 250}, "missed": {2, 203, 3, 255, 4, 355}} {
			came := strings.Fields(w.came(id, start))
			for i := range len(want) / 2 {
				var sequence, at float64
				if i < len(came) {
					_, _ = fmt.Sscanf(came[i], "%g@%g", &sequence, &at)
				}
				if sequence != want[2*i] || at < want[2*i+1]-3 || at > want[2*i+1]+4 {
					t.Errorf("%s came %s, want %v", id, came, want)
				}
			}
			if len(came) > len(want)/2 {
				t.Errorf("%s came %s, want %v", id, came, want)
			}
		}
		w.empty()
	})
}

// What is no series is rejected, with a reason of its own.
func TestBadSeries(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"never":        {[]string{node.HeaderRepeat, "0 0 30 2 *"}, "repeat_never"},
		"words":        {[]string{node.HeaderRepeat, "sometimes"}, "invalid_repeat"},
		"empty":        {[]string{node.HeaderRepeat, ""}, "invalid_repeat"},
		"empty zone":   {[]string{node.HeaderRepeat, "0 9 * * *", node.HeaderRepeatZone, ""}, "invalid_repeat"},
		"empty count":  {[]string{node.HeaderRepeat, "every 2s", node.HeaderRepeatCount, ""}, "invalid_repeat"},
		"empty policy": {[]string{node.HeaderRepeat, "every 2s", node.HeaderMissed, ""}, "invalid_repeat"},
		"too often":    {[]string{node.HeaderRepeat, "every 1ms"}, "repeat_too_often"},
		"minute 60":    {[]string{node.HeaderRepeat, "60 * * * *"}, "repeat_out_of_range"},
		"no such zone": {[]string{node.HeaderRepeat, "0 9 * * *", node.HeaderRepeatZone, "Mars/Base"}, "unknown_zone"},
		"count 0":      {[]string{node.HeaderRepeat, "every 2s", node.HeaderRepeatCount, "0"}, "invalid_count"},
		"some policy":  {[]string{node.HeaderRepeat, "every 2s", node.HeaderMissed, "some"}, "invalid_missed"},
		"until when":   {[]string{node.HeaderRepeat, "every 2s", node.HeaderRepeatUntil, "dawn"}, "invalid_until"},
		"until before": {
			[]string{node.HeaderRepeat, "every 2s", node.HeaderRepeatUntil, "1999-01-01T00:00"},
			"until_before_first",
		},
		"until the year 1": {
			[]string{node.HeaderRepeat, "every 2s", node.HeaderRepeatUntil, "0001-01-01T00:00:00"}, "invalid_until",
		},
		"count alone": {[]string{node.HeaderRepeatCount, "2", node.HeaderDelay, "1s"}, "invalid_repeat"},
		"with an end": {
			[]string{node.HeaderRepeat, "every 2s", node.HeaderNotAfter, "2200-01-01T00:00"},
			"invalid_not_after",
		},
		"of a cancel":   {[]string{node.HeaderRepeat, "every 2s", node.HeaderAction, "cancel"}, "invalid_repeat"},
		"two intervals": {[]string{node.HeaderRepeat, "every 2s", node.HeaderRepeat, "every 3s"}, "repeated_header"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("good", time.Second)
				r := node.Record{
					Value: []byte{0, 0xff}, Timestamp: time.Now(),
					Headers: []node.Header{{Name: node.HeaderID, Value: []byte("x")}},
				}
				for i := 0; i < len(c.headers); i += 2 {
					r.Headers = append(r.Headers, node.Header{Name: c.headers[i], Value: []byte(c.headers[i+1])})
				}
				bad := w.submitRecord(r)
				w.run(controlled(), nil)
				pass(3 * time.Second)
				if rejected := seen[node.Rejected](w); len(rejected) != 1 || string(rejected[0].Reason) != c.want {
					t.Fatalf("rejected: %+v, want %s", rejected, c.want)
				}
				wrong := c.headers[len(c.headers)-2]
				series := strings.HasPrefix(wrong, node.HeaderRepeat) || wrong == node.HeaderMissed
				if detail := seen[node.Rejected](w)[0].Detail; series && !strings.Contains(detail+" ", wrong+" ") {
					t.Errorf("the header %s is wrong, and the sentence is: %s", wrong, detail)
				}
				checkDeadLetter(t, w.on("dead"), bad, node.Reason(c.want))
				if got := w.values("out"); len(got) != 1 || got["value good"] != 1 {
					t.Errorf("delivered %v", got)
				}
				w.empty()
			})
		})
	}
}

// A series that catches up comes out as fast as its lane takes it, and one whose interval is shorter than the poll
// interval is not taken for missed.
func TestSeriesOutrunsThePolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.series("late", "every 1s", 0, node.HeaderDeadline, in(-100*time.Second), node.HeaderMissed, "all",
			node.HeaderRepeatCount, "90")
		w.series("short", "every 1s", 2*time.Second, node.HeaderRepeatCount, "200")
		c := controlled()
		c.HoldTime, c.PollInterval = 30*time.Second, 5*time.Second
		w.run(c, nil)
		pass(11 * time.Second)
		if came := strings.Fields(w.came("late", time.Now())); len(came) != 90 {
			t.Errorf("%d of 90 that were missed have come", len(came))
		}
		pass(200 * time.Second)
		if came := strings.Fields(w.came("short", time.Now())); len(came) != 200 {
			t.Errorf("%d of 200 have come", len(came))
		}
	})
}
