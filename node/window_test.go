package node_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/calendar"
)

// window reads a window. The time of a bubble begins at midnight.
func window(t *testing.T, text string) node.Window {
	t.Helper()
	w, err := calendar.ParseWindow(text, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// within returns a configuration whose output has a window.
func within(t *testing.T, seed byte, text string) node.Config {
	t.Helper()
	c := config(seed)
	c.Windows = []node.LaneWindow{{Lane: "out", Window: window(t, text)}}
	return c
}

// at returns when a value was delivered; nil for never.
func (w *world) at(lane, value string) []time.Duration {
	var times []time.Duration
	for _, d := range w.on(lane) {
		if string(d.Value) == value {
			times = append(times, d.at.Sub(w.began).Truncate(100*time.Millisecond))
		}
	}
	return times
}

// What falls due while a lane is closed waits in the store, whether it was there before or comes when it is due
// already, and comes out when the lane opens: at that instant, and not at the next poll. What is due while it is open
// is on time; another lane does not notice.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := within(t, 0, "00:01 to 00:02 and 00:04 to 00:05 every day")
		c.PollInterval, c.Lookahead = time.Second, 50*time.Millisecond // so that a poll would show
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		var asked atomic.Int64
		w.run(c, func(_ int, call string) (error, bool) { // one loop claims on topics
			if call == "claim" {
				asked.Add(1)
			}
			return nil, true
		})
		c.Seed[0]++
		w.run(c, nil)
		w.submit("night", 5*time.Second)
		w.submit("day", 90*time.Second)
		w.submit("evening", 2*time.Minute)
		pass(30 * time.Second)
		w.submit("lapsed", -time.Second)
		w.submitRecord(node.Record{Topic: "in2", Value: []byte("other"), Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte("other")},
			{Name: node.HeaderDeadline, Value: []byte(time.Now().UTC().Format("2006-01-02T15:04:05"))},
		}})
		pass(6 * time.Minute)
		for value, want := range map[string]time.Duration{
			"night": time.Minute, "lapsed": time.Minute, "day": 90 * time.Second, "evening": 4 * time.Minute,
		} {
			poll := time.Duration(0)
			if value == "day" {
				poll = 1200 * time.Millisecond
			}
			if got := w.at("out", "value "+value); len(got) != 1 || got[0] < want || got[0] > want+poll {
				t.Errorf("%s came out at %v, want %v", value, got, want)
			}
		}
		if got := w.at("out2", "other"); len(got) != 1 || got[0] > 31*time.Second {
			t.Errorf("on the other lane it came out at %v", got)
		}
		if n := len(seen[node.Claimed](w)); n > 8 {
			t.Errorf("there were %d claims with messages: they are not left alone while the lane is closed", n)
		}
		if n := asked.Load(); n > 500 { // in six minutes and a half, with a poll a second
			t.Errorf("a node has asked for claims %d times", n)
		}
		w.empty()
	})
}

// What is claimed and has not come out when its lane closes is given back as never tried, so that it can be cancelled
// in the hours until the lane opens.
func TestWindowCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := within(t, 0, "00:00 to 00:01 and 00:02 to 00:03 every day")
		c.HoldTime, c.Lookahead = 10*time.Second, 1900*time.Millisecond
		c.Routes[0].Outcomes = "said"
		r := w.run(c, nil)
		w.submit("x", time.Minute+time.Second)
		w.submit("y", time.Minute+time.Second)
		w.submit("just then", time.Minute) // when it is closed
		pass(time.Minute - 100*time.Millisecond)
		if n := w.claimedBy(r.node.ID()); n != 3 {
			t.Fatalf("%d messages are claimed shortly before", n)
		}
		pass(500 * time.Millisecond)
		if n := w.claimedBy(r.node.ID()); n != 0 {
			t.Fatalf("%d messages are claimed shortly after", n)
		}
		w.instruct("cancel", "x")
		pass(2 * time.Minute)
		if got := w.at("out", "value x"); len(got) != 0 {
			t.Errorf("it came out at %v, and was cancelled", got)
		}
		for _, value := range []string{"value y", "value just then"} {
			if got := w.at("out", value); len(got) != 1 || got[0] != 2*time.Minute {
				t.Errorf("%s came out at %v", value, got)
			}
		}
		w.empty()
	})
}

// beats is a window that is open for one second, and closed for 300 ms.
type beats struct{}

const beat = 1300 * time.Millisecond

func (beats) into(at time.Time) time.Duration { return time.Duration(at.UnixNano()) % beat }
func (b beats) Open(at time.Time) bool        { return b.into(at) < time.Second }

func (b beats) Next(after time.Time) (time.Time, bool) {
	if into := b.into(after); into < time.Second {
		return after.Add(time.Second - into), true
	}
	return after.Add(beat - b.into(after)), true
}

// A lane that is closed for less than a poll interval opens on time as well, also if nobody has looked meanwhile; and
// what waits is claimed before that.
func TestWindowOfAShortNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.PollInterval, c.Lookahead = time.Second, 50*time.Millisecond
		c.Windows = []node.LaneWindow{{Lane: "out", Window: beats{}}}
		r := w.run(c, nil)
		opens := func() time.Time { // the opening after the next closing
			next, _ := beats{}.Next(time.Now())
			if !(beats{}).Open(time.Now()) {
				next, _ = beats{}.Next(next)
			}
			next, _ = beats{}.Next(next)
			return next
		}
		for i := range 8 {
			opening := opens()
			w.submit(id(i), time.Until(opening)-200*time.Millisecond)
			pass(time.Until(opening) - 20*time.Millisecond)
			if n := w.claimedBy(r.node.ID()); n != 1 {
				t.Errorf("%d: %d are claimed shortly before the opening", i, n)
			}
			pass(30 * time.Millisecond)
			if got := len(w.on("out")); got != i+1 {
				t.Fatalf("%d: %d are out right after the opening", i, got)
			}
		}
		w.empty()
	})
}

// closing is a window that is open whenever somebody asks, and closes on request before the last look at it: the one
// right before the publish. A process can be stopped between the two looks.
type closing struct{ closed *atomic.Bool }

func (c closing) Open(time.Time) bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, ".whileOpen") && c.closed.Load() {
			return false
		}
		if !more {
			return true
		}
	}
}

// Next has everybody ask anew each time.
func (closing) Next(after time.Time) (time.Time, bool) { return after, true }

// A lane that closes between the look of whoever takes a message from the schedule and the publish lets nothing out.
// The message is given back as never tried, so that it can be cancelled.
func TestWindowClosesBeforeThePublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var closed atomic.Bool
		closed.Store(true)
		c := config(0)
		c.Windows = []node.LaneWindow{{Lane: "out", Window: closing{&closed}}}
		c.Routes[0].Outcomes = "said"
		w.run(c, nil)
		w.submit("x", time.Second)
		w.submit("y", time.Second)
		pass(3 * time.Second)
		if got := w.values("out"); len(got) != 0 || len(seen[node.Released](w)) == 0 {
			t.Errorf("%v came out of a closed lane, and %d were given back", got, len(seen[node.Released](w)))
		}
		w.instruct("cancel", "x")
		pass(time.Second)
		if got := w.said(); !slices.Equal(got, []string{"cancel x: cancelled"}) {
			t.Errorf("it was never tried, and cannot be cancelled: %v", got)
		}
		closed.Store(false)
		pass(time.Second)
		if got := w.values("out"); len(got) != 1 {
			t.Errorf("%v came out when it was open again", got)
		}
	})
}

// A clock that is set back over an opening, or forward over a closing, is believed at once (H3, H4). So is one that
// comes back.
func TestWindowOfAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.run(within(t, 0, "00:01 to 00:02 every day"), nil)
		set := func(ahead time.Duration) { r.gate.ahead.Store(int64(ahead)) }
		pass(time.Minute + 10*time.Second)
		w.submit("open", 0)
		pass(time.Second)
		set(-30 * time.Second) // it shows 00:00:41
		pass(time.Second)
		w.submit("back", -time.Minute)
		pass(5 * time.Second) // 00:00:46
		w.submit("due soon", -20*time.Second)
		pass(5 * time.Second)
		if got := w.values("out"); len(got) != 1 {
			t.Errorf("at 00:00:51, %v are out", got)
		}
		pass(10 * time.Second) // 00:01:02
		if got := w.values("out"); len(got) != 3 {
			t.Errorf("at 00:01:02, %v are out", got)
		}
		w.submit("held", 200*time.Millisecond)
		pass(100 * time.Millisecond)
		set(40 * time.Second) // beyond 00:02
		pass(5 * time.Second)
		if got := w.values("out"); len(got) != 3 {
			t.Errorf("after 00:02, %v are out", got)
		}
		set(0)
		pass(time.Second)
		if got := w.values("out"); len(got) != 4 {
			t.Errorf("when the clock is right again, %v are out", got)
		}
		w.empty()
	})
}

// The timing advance is for messages: it opens no lane (H1), and what is due at the opening does not come before it.
func TestWindowHasNoAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := within(t, 0, "00:01 to 00:02 every day")
		c.TimingAdvance = 5 * time.Second
		w.run(c, nil)
		w.submit("x", time.Minute)
		w.submit("late", time.Minute+4*time.Second)
		pass(2 * time.Minute)
		for _, value := range []string{"x", "late"} {
			if got := w.at("out", "value "+value); len(got) != 1 || got[0] != time.Minute {
				t.Errorf("%s came out at %v", value, got)
			}
		}
	})
}

// A lane that closes while it is in doubt keeps no other lane from being tried (H5).
func TestWindowOfADoubtfulLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := within(t, 0, "00:00 to 00:01 every day")
		c.Routes = append(c.Routes, node.Route{Input: "in2", Output: "out2"})
		var broken atomic.Bool
		broken.Store(true)
		w.hangs = func(r node.Record) bool { return broken.Load() && strings.HasPrefix(r.Topic, "out") }
		w.run(c, nil)
		for i := range 20 {
			w.submit(id(i), 50*time.Second)
		}
		w.submitRecord(node.Record{Topic: "in2", Value: []byte("other"), Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte("other")},
			{
				Name:  node.HeaderDeadline,
				Value: []byte(time.Now().Add(52 * time.Second).UTC().Format("2006-01-02T15:04:05")),
			},
		}})
		pass(65 * time.Second)
		broken.Store(false)
		pass(10 * time.Second)
		if got := w.at("out2", "other"); len(got) != 1 {
			t.Errorf("the other lane works again, and its message came out at %v", got)
		}
		if got := w.values("out"); len(got) != 0 {
			t.Errorf("%d came out of a closed lane", len(got))
		}
	})
}

// A pause and a window must both allow it (H12): what is resumed in the night goes on in the morning, and what is
// paused in the day stays.
func TestWindowAndPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(within(t, 0, "00:01 to 00:03 every day"), nil)
		w.submit("x", time.Second)
		w.pause("out")
		pass(30 * time.Second)
		w.resume("out")
		pass(20 * time.Second)
		if got := w.values("out"); len(got) != 0 {
			t.Fatalf("%v came out of a closed lane", got)
		}
		w.pause("out")
		pass(30 * time.Second)
		if got := w.values("out"); len(got) != 0 {
			t.Fatalf("%v came out of a paused lane", got)
		}
		w.resume("out")
		pass(time.Second)
		if got := w.values("out"); len(got) != 1 {
			t.Errorf("%v came out when both allow it", got)
		}
		w.empty()
	})
}

// Requests begin in the window only, in their lines and out of them, with what failed before it closed (H6, H8, H13).
func TestWindowOfCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := ordered(0)
		c.Windows = []node.LaneWindow{
			{Lane: "http:*", Window: window(t, "00:01 to 00:02 and 00:05 to 00:06 every day")},
		}
		tried := 0
		w.answer = func(r node.Record) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if string(r.Value) == "a2" {
				if tried++; tried == 1 {
					return &node.PublishError{Err: errors.New("busy"), After: 90 * time.Second}
				}
			}
			return nil
		}
		w.run(c, nil)
		w.line("a", "a1", time.Second)
		w.line("a", "a2", 2*time.Second)
		w.line("a", "a3", 3*time.Second)
		w.line("b", "b1", 90*time.Second)
		pass(10 * time.Minute)
		for value, want := range map[string][]time.Duration{
			"a1": {time.Minute}, "a2": {time.Minute, 5 * time.Minute}, "a3": {5 * time.Minute},
			"b1": {90 * time.Second},
		} {
			if got := w.at("http:out", value); !slices.Equal(got, want) {
				t.Errorf("%s was requested at %v, want %v", value, got, want)
			}
		}
		w.empty()
	})
}

// A message whose time passes in the night is not published in the morning; and a series that asks for the latest of
// what it has missed has one occurrence then.
func TestWindowAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(within(t, 0, "00:05 to 00:06 every day"), nil)
		w.submit("ends", time.Second, node.Header{
			Name: node.HeaderNotAfter, Value: []byte(time.Now().Add(time.Minute).UTC().Format(time.RFC3339)),
		})
		w.submit("series", 10*time.Second, node.Header{Name: node.HeaderRepeat, Value: []byte("every 1m")},
			node.Header{Name: node.HeaderMissed, Value: []byte("one")})
		pass(5*time.Minute + 5*time.Second)
		if got := w.at("out", "value ends"); len(got) != 0 || len(w.on("dead")) != 1 {
			t.Errorf("its time had passed, and it came out at %v, with %d dead letters", got, len(w.on("dead")))
		}
		if got := w.at("out", "value series"); len(got) != 1 || got[0] != 5*time.Minute {
			t.Errorf("occurrences came out at %v", got)
		}
	})
}

// Who fires a message in the night is told when its lane opens, and so is whoever is told of a submission; in the day
// nobody is. It comes out at the opening, and from the moment of the outcome on nothing changes that (S20).
func TestWindowIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := within(t, 0, "00:01 to 00:03 every day")
		c.Routes[0].Outcomes = "said"
		w.run(c, nil)
		w.submit("x", time.Hour)
		w.submit("y", time.Hour)
		pass(10 * time.Second)
		w.instruct("fire", "x")
		w.instruct("fire", "nobody")
		pass(time.Second)
		w.instruct("cancel", "x")
		pass(time.Minute)
		w.instruct("fire", "y")
		pass(time.Second)
		told := map[string]string{}
		for _, d := range w.on("said") {
			told[header(d.Record, node.HeaderAction)+" "+header(d.Record, node.HeaderID)+" "+
				header(d.Record, node.HeaderOutcome)] = header(d.Record, node.HeaderOpens)
		}
		opens := w.began.Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z")
		if want := (map[string]string{
			"fire x fired": opens, "fire nobody not_found": "", "cancel x too_late": opens, "fire y fired": "",
		}); !maps.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		if got := w.at("out", "value x"); len(got) != 1 || got[0] != time.Minute {
			t.Errorf("it came out at %v", got)
		}
	})
}

// Who asks in the day for what falls due in the night is told of the morning, and who asks in the night for what falls
// due in the day is told of nothing: it is the deadline that counts, and not when somebody has asked.
func TestWindowIsToldOfTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := within(t, 0, "00:00 to 00:01 and 00:03 to 00:04 every day")
		c.Routes[0].Outcomes, c.Routes[0].Targets = "said", []string{"out.*"}
		c.Windows[0].Lane = "out*"
		w.run(c, nil)
		confirm := node.Header{Name: node.HeaderConfirm, Value: []byte("true")}
		w.submit("night", 90*time.Second, confirm)
		w.submit("day", 30*time.Second, confirm)
		w.submit("moved", time.Hour)
		pass(10 * time.Second)
		w.instruct("reschedule", "moved", node.HeaderDeadline, w.began.Add(2*time.Minute).UTC().Format(time.RFC3339))
		pass(100 * time.Second)
		w.submit("next day", 80*time.Second, confirm)
		w.submit("found", time.Second, confirm, node.Header{Name: node.HeaderTopic, Value: []byte("out.new")})
		pass(10 * time.Second)
		told := map[string]string{}
		for _, d := range w.on("said") {
			told[header(d.Record, node.HeaderID)] = header(d.Record, node.HeaderOpens)
		}
		opens := w.began.Add(3 * time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z")
		want := map[string]string{"night": opens, "day": "", "moved": opens, "next day": "", "found": opens}
		if !maps.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// Nodes with two windows each go by their own (H11): that is a rolling change.
func TestWindowsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(within(t, 0, "never"), nil)
		w.run(within(t, 1, "00:01 to 00:02 every day"), nil)
		w.submit("x", time.Second)
		pass(90 * time.Second)
		if got := w.at("out", "value x"); len(got) != 1 || got[0] != time.Minute {
			t.Errorf("it came out at %v", got)
		}
		w.empty()
	})
}

func TestWindowOf(t *testing.T) {
	c := config(0)
	c.Routes[0].Outcomes = "out.said"
	named := func(lane string) node.LaneWindow { return node.LaneWindow{Lane: lane, Window: named(lane)} }
	c.Windows = []node.LaneWindow{
		named("out.a.*"), named("*"), named("out.*"), named("out.a.b"), named("http:*"), {Lane: "out.open"},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for lane, want := range map[string]string{
		"other": "*", "out": "*", "out.b": "out.*", "out.a.c": "out.a.*", "out.a.b": "out.a.b",
		"http:x": "http:*", "out.open": "", "dead": "", "out.said": "",
	} {
		got, _ := c.WindowOf(lane).(interface{ String() string })
		if text := fmt.Sprint(got); want == "" && got != nil || want != "" && text != want {
			t.Errorf("%s has the window %s, want %q", lane, text, want)
		}
	}
	c.Windows = []node.LaneWindow{named("*")}
	c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:y", DeadLetter: "late"}}
	for _, lane := range []string{"http:x", "http:y", "late", "dead"} {
		if got := c.WindowOf(lane); got != nil {
			t.Errorf("%s has the window %v of a * that is about topics of messages", lane, got)
		}
	}
	for _, wrong := range [][]node.LaneWindow{
		{named("out"), named("out")}, {named("")}, {named("a*b")}, {named("dead")}, {named("a b")},
	} {
		c.Windows = wrong
		if err := c.Validate(); err == nil {
			t.Errorf("%v is allowed", wrong)
		}
	}
}

// named is a window that is always open, and has a name.
type named string

func (n named) String() string                 { return string(n) }
func (named) Open(time.Time) bool              { return true }
func (named) Next(time.Time) (time.Time, bool) { return time.Time{}, false }
