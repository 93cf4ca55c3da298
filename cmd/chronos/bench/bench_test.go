package bench_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/cmd/chronos/bench"
)

// TestWell measures a service that does as it should, and is 1 ms late: every figure is known beforehand.
func TestWell(t *testing.T) {
	t.Parallel()
	clocks := []bench.Clock{{Broker: "1", Low: -1, High: 1}}
	r := measure(t, steady(), &fake{answer: 3 * time.Millisecond, clocks: clocks}, bench.Options{})
	if !r.Passed() {
		t.Errorf("a service without a fault has faults: %q", r.Faults)
	}
	if in := r.Integrity; in.Came != 1000 || len(in.Samples) > 0 {
		t.Errorf("%+v, want 1000 that came", in)
	}
	for _, l := range []*bench.Lateness{r.Received, r.Stamped} {
		if q := l.AfterDue; q.Count != 800 || q.Min != 1 || q.P50 != 1 || q.P9999 != 1 || q.Max != 1 {
			t.Errorf("lateness by the %s is %+v, want 1 ms for each of 800", l.Clock, *q)
		}
		if q := l.AfterDeadline; q.Min != -49 || q.Max != -49 {
			t.Errorf("after the deadline by the %s is %+v, want -49 ms for all", l.Clock, *q)
		}
	}
	s := &r.Sent
	if s.Messages != 1000 || s.Acknowledged != 1000 || math.Abs(s.PerSecond-100) > 1 || s.Late.Max > 2 ||
		s.Acknowledge.P50 != 3 {
		t.Errorf("%+v, want 1000 messages at 100/s, acknowledged in 3 ms", s)
	}
	if math.Abs(r.Fired.PerSecondStamped-100) > 30 || r.Fired.Messages != 800 {
		t.Errorf("%+v, want 800 at some 100/s", r.Fired)
	}
	if r.Intake == nil || r.Intake.Taken != 1000 || math.Abs(r.Intake.PerSecond-100) > 2 {
		t.Errorf("%+v, want 1000 taken in at 100/s", r.Intake)
	}
}

// TestFaults gives the service one fault at a time, and demands that exactly this one is counted and reported, with a
// message that shows it.
func TestFaults(t *testing.T) {
	t.Parallel()
	once := func(m *bench.Submission) bool { return m.Number == 500 }
	change := func(how func(a *bench.Arrival)) func(*bench.Submission, bench.Arrival) []bench.Arrival {
		return func(m *bench.Submission, a bench.Arrival) []bench.Arrival {
			if once(m) {
				a.Key, a.Value, a.Mark = bytes.Clone(a.Key), bytes.Clone(a.Value), bytes.Clone(a.Mark)
				how(&a)
			}
			return []bench.Arrival{a}
		}
	}
	times := func(n int) func(*bench.Submission, bench.Arrival) []bench.Arrival {
		return func(m *bench.Submission, a bench.Arrival) []bench.Arrival {
			if once(m) {
				return slices.Repeat([]bench.Arrival{a}, n)
			}
			return []bench.Arrival{a}
		}
	}
	synchronous := []bench.Clock{{Broker: "1", Low: -0.5, High: 0.5}}
	for name, c := range map[string]struct {
		fake *fake
		load func(*bench.Load)
		want bench.Integrity
		says string
		more int // faults beside
	}{
		"lost":       {&fake{change: times(0)}, nil, bench.Integrity{Came: 999, Missing: 1}, "1 had not come", 0},
		"doubled":    {&fake{change: times(2)}, nil, bench.Integrity{Came: 1000, Doubled: 1}, "1 came again", 0},
		"four times": {&fake{change: times(4)}, nil, bench.Integrity{Came: 1000, Doubled: 3}, "3 came again", 0},
		"repeated": {
			&fake{change: times(2)},
			func(l *bench.Load) { l.Twice = 1 },
			bench.Integrity{Came: 1000, Repeated: 1},
			"1 came again that were submitted twice", 0,
		},
		"early": {
			&fake{late: func(m *bench.Submission) time.Duration {
				if once(m) {
					return -2 * time.Millisecond
				}
				return 0
			}}, nil, bench.Integrity{Came: 1000, Early: 1}, "1 were received before they were due", 0,
		},
		"early in the log": {
			&fake{ahead: -5 * time.Millisecond, clocks: synchronous},
			nil,
			bench.Integrity{Came: 1000, Sooner: 800},
			"800 were appended before they were due", 0,
		},
		"a bit": {
			&fake{change: change(func(a *bench.Arrival) { a.Value[60] ^= 1 })},
			nil,
			bench.Integrity{Came: 1000, Value: 1},
			"1 came with another value", 0,
		},
		"a byte less": {
			&fake{change: change(func(a *bench.Arrival) { a.Value = a.Value[:len(a.Value)-1] })},
			nil,
			bench.Integrity{Came: 1000, Value: 1},
			"1 came with another value", 0,
		},
		"a null": {
			&fake{change: change(func(a *bench.Arrival) { a.Value = nil })},
			nil,
			bench.Integrity{Came: 1000, Value: 1},
			"1 came with another value", 0,
		},
		"another key": {
			&fake{change: change(func(a *bench.Arrival) { a.Key = []byte("k") })},
			nil,
			bench.Integrity{Came: 1000, Key: 1},
			"1 came with another key", 0,
		},
		"no header": {
			&fake{change: change(func(a *bench.Arrival) { a.Mark = nil })},
			nil,
			bench.Integrity{Came: 1000, Header: 1},
			"1 came with another header", 0,
		},
		"another topic": {
			&fake{change: change(func(a *bench.Arrival) { a.Route = 1 - a.Route })},
			func(l *bench.Load) { l.Routes = 2 },
			bench.Integrity{Came: 1000, Route: 1},
			"1 came on the topic of another route", 0,
		},
		"nothing of it is left": {
			&fake{change: change(func(a *bench.Arrival) { a.Mark, a.Value = nil, []byte("?") })},
			nil,
			bench.Integrity{Came: 999, Missing: 1, Foreign: 1},
			"1 had not come", 0,
		},
		"the value of another": {
			&fake{change: change(func(a *bench.Arrival) { copy(a.Value, "run.501 ") })},
			nil,
			bench.Integrity{Came: 1000, Value: 1},
			"1 came with another value", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			load := steady()
			if c.load != nil {
				c.load(load)
			}
			r := measure(t, load, c.fake, bench.Options{})
			got := r.Integrity
			got.Samples = nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if len(r.Faults) != 1+c.more || !strings.Contains(strings.Join(r.Faults, "; "), c.says) {
				t.Errorf("the faults are %q, want one that says %q", r.Faults, c.says)
			}
			shown := len(r.Integrity.Samples) > 0 && r.Integrity.Samples[0].ID == "run-500"
			if !shown && c.want.Early+c.want.Sooner+c.want.Repeated == 0 {
				t.Errorf("%+v does not show message 500", r.Integrity.Samples)
			}
		})
	}
}

// TestLate has a quarter of the messages come 20 ms late, one in fifty 500 ms, and one 4 s: the quantiles are those.
func TestLate(t *testing.T) {
	t.Parallel()
	r := measure(t, steady(), &fake{late: func(m *bench.Submission) time.Duration {
		switch {
		case m.Number == 500:
			return 4*time.Second - time.Millisecond
		case m.Number%50 == 1:
			return 499 * time.Millisecond
		case m.Number%4 == 3:
			return 19 * time.Millisecond
		}
		return 0
	}}, bench.Options{})
	q := r.Received.AfterDue
	for _, f := range []struct {
		name      string
		got, want bench.Millis
	}{{"p50", q.P50, 1}, {"p90", q.P90, 20}, {"p99", q.P99, 500}, {"p99.9", q.P999, 4000}, {"max", q.Max, 4000}} {
		if math.Abs(float64(f.got-f.want)) > float64(f.want)/500 {
			t.Errorf("%s is %v ms, want %v", f.name, f.got, f.want)
		}
	}
	if !r.Passed() {
		t.Errorf("late is not wrong: %q", r.Faults)
	}
	if c := r.Received.Curve; c[len(c)-1].Late < 4000 || c[0].Share != 0 {
		t.Errorf("the curve is from %v to %v, want it to reach the latest", c[0], c[len(c)-1])
	}
}

// TestStall has the way to Kafka block for 5 s. The messages that were to be sent meanwhile are due when they are due:
// they are late, as a user would see it, and the report says whose fault that is. A generator that made deadlines when
// it sends would report nothing.
func TestStall(t *testing.T) {
	t.Parallel()
	r := measure(t, steady(), &fake{block: func(m *bench.Submission) time.Duration {
		if m.Number == 400 {
			return 5 * time.Second
		}
		return 0
	}}, bench.Options{})
	if late := r.Received.AfterDue; late.Max < 3000 || late.P99 < 1000 {
		t.Errorf("lateness is %+v, want what waited for the stall to be late", *late)
	}
	if r.Sent.Late.Max < 4900 || r.Sent.Overdue < 100 || r.KeptUp() {
		t.Errorf("%+v, want 500 that were sent late, and many that were due by then", r.Sent)
	}
	if notes := strings.Join(r.Notes, " "); !strings.Contains(notes, "not the service's alone") ||
		!strings.Contains(notes, "not what was asked for") {
		t.Errorf("the notes are %q, want them to say that the load was late", r.Notes)
	}
	if held, why := r.Holds(1e9); held || !strings.Contains(why, "generator") {
		t.Errorf("held is %v, %q: a load that was not put on says nothing about the service", held, why)
	}
	if !r.Passed() {
		t.Errorf("the service has done nothing wrong: %q", r.Faults)
	}
}

// TestRefused has Kafka refuse a message: it is not missing, and it is said.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := measure(t, steady(), &fake{refuse: func(m *bench.Submission) error {
		if m.Number == 500 {
			return errors.New("no room")
		}
		return nil
	}}, bench.Options{})
	if r.Integrity.Missing != 0 || r.Sent.Refused != 1 || !r.Passed() {
		t.Errorf("missing %d, refused %d, faults %q; want 0, 1 and none", r.Integrity.Missing, r.Sent.Refused, r.Faults)
	}
	if !strings.Contains(strings.Join(r.Notes, " "), "no room") {
		t.Errorf("the notes are %q, want why it was refused", r.Notes)
	}
	if held, _ := r.Holds(1e9); held {
		t.Error("a load of which a part was refused was held")
	}
}

// TestClocks has a broker whose clock is off: nothing counts as early that the difference can explain.
func TestClocks(t *testing.T) {
	t.Parallel()
	behind := &fake{ahead: -20 * time.Millisecond, clocks: []bench.Clock{{Broker: "1", Low: -20.4, High: -19.8}}}
	r := measure(t, steady(), behind, bench.Options{})
	if !r.Passed() || r.Stamped.AfterDue.P50 != -19 || r.Received.AfterDue.P50 != 1 {
		t.Errorf("by the broker %v ms, received %v ms, faults %q; want -19, 1 and none",
			r.Stamped.AfterDue.P50, r.Received.AfterDue.P50, r.Faults)
	}
	unknown := &fake{ahead: -20 * time.Millisecond}
	r = measure(t, steady(), unknown, bench.Options{})
	if !r.Passed() || !strings.Contains(fmt.Sprint(r.Notes), "not known") {
		t.Errorf("faults %q, notes %q; want none, and that the clock is not known", r.Faults, r.Notes)
	}
	own := &fake{stamps: true, clocks: []bench.Clock{{Broker: "1"}}}
	if r = measure(t, steady(), own, bench.Options{}); r.Stamped.Clock != "service" {
		t.Errorf("the timestamps are those of the %s, want the service's", r.Stamped.Clock)
	}
}

// TestBurst has all messages due at once, and the service let 10 of them out in a millisecond.
func TestBurst(t *testing.T) {
	t.Parallel()
	load := steady()
	load.Shape, load.Count, load.Lead = bench.Burst, 5000, 10*time.Second
	load.Rate, load.Duration, load.WarmUp = 0, 0, 0
	r := measure(t, load, &fake{late: func(m *bench.Submission) time.Duration {
		return time.Duration(m.Number) * time.Millisecond / 10
	}}, bench.Options{})
	if !r.Passed() || math.Abs(r.Fired.PerSecondStamped-10_000) > 100 || math.Abs(r.Fired.PerSecond-10_000) > 100 {
		t.Errorf("%+v, faults %q; want 10,000/s and none", r.Fired, r.Faults)
	}
	load.Lead = time.Millisecond * 60 // less than it takes to look whether all is taken in
	if r = measure(t, load, &fake{}, bench.Options{}); !strings.Contains(fmt.Sprint(r.Notes), "Raise --in") {
		t.Errorf("the notes are %q, want that the burst was due too early", r.Notes)
	}
}

// TestEnds has runs that end otherwise than with the last message: by their limit, filled, and by patience.
func TestEnds(t *testing.T) {
	t.Parallel()
	r := measure(t, steady(), &fake{}, bench.Options{Limit: 5 * time.Second})
	if r.Took > 5100 || r.Sent.Messages > 510 || !strings.Contains(fmt.Sprint(r.Notes), "--max-time") {
		t.Errorf("took %v ms, sent %d, notes %q; want an end after 5 s, and a word about it",
			r.Took, r.Sent.Messages, r.Notes)
	}
	held, why := r.Holds(1e9)
	if held || !strings.Contains(why, "cut short") || !r.Passed() || r.Integrity.Waiting < 50 {
		t.Errorf("held is %v (%s), faults %q, waiting %d; want none of it to be the service's fault",
			held, why, r.Faults, r.Integrity.Waiting)
	}
	load := steady()
	load.Delay = bench.One(float64(time.Hour))
	r = measure(t, load, &fake{}, bench.Options{Fill: true})
	if r.Took > 13_000 || r.Integrity.Missing != 0 || !r.Passed() {
		t.Errorf("took %v ms, missing %d; want an end when all is taken in, and nothing missing",
			r.Took, r.Integrity.Missing)
	}
	r = measure(t, steady(), &fake{late: func(*bench.Submission) time.Duration { return time.Hour }}, bench.Options{
		Patience: 20 * time.Second, Limit: time.Hour,
	})
	if r.Integrity.Missing != 1000 || r.Took < 30_000 || r.Took > 40_000 || r.Received != nil {
		t.Errorf("took %v ms, missing %d; want 1000 after 33 s or so", r.Took, r.Integrity.Missing)
	}
}

// TestPages writes what results look like to people, for all that may be absent.
func TestPages(t *testing.T) {
	t.Parallel()
	well := measure(t, steady(), &fake{}, bench.Options{})
	late := &fake{late: func(*bench.Submission) time.Duration { return time.Hour }}
	nothing := measure(t, steady(), late, bench.Options{})
	found := &bench.Found{Rate: 100, Bound: "p99.9 under 100 ms", Best: well, Steps: []bench.Step{
		{Rate: 100, Held: true, Result: well}, {Rate: 200, Why: "</script>nothing came", Result: nothing},
	}}
	none := &bench.Found{Bound: "p99.9 under 1 ms", Steps: []bench.Step{{Rate: 1, Why: "nothing came"}}}
	for _, of := range []interface {
		WriteText(w *bytes.Buffer) error
		WriteHTML(w *bytes.Buffer) error
	}{result{well}, result{nothing}, search{found}, search{none}} {
		var text, page bytes.Buffer
		if err := errors.Join(of.WriteText(&text), of.WriteHTML(&page)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "%!") || text.Len() == 0 {
			t.Errorf("the text is wrong:\n%s", &text)
		}
		for _, sign := range []string{"http://", "https://", "<link", "src="} {
			html := strings.ReplaceAll(page.String(), "https://github.com/leeoniya/uPlot", "") // in a comment
			if strings.Contains(html, sign) {
				t.Errorf("the page is not self-contained: it has %s", sign)
			}
		}
		if !strings.Contains(page.String(), "Copyright (c) 2022 Leon Sorokin") {
			t.Error("the page does not have the licence of what draws its plots")
		}
		if strings.Count(page.String(), "</script>") != 3 {
			t.Errorf("the page has %d ends of scripts, want 3", strings.Count(page.String(), "</script>"))
		}
		t.Logf("\n%s", &text)
	}
}

type (
	result struct{ *bench.Result }
	search struct{ *bench.Found }
)

func (r result) WriteText(w *bytes.Buffer) error { return r.Result.WriteText(w) }
func (r result) WriteHTML(w *bytes.Buffer) error { return r.Result.WriteHTML(w) }
func (s search) WriteText(w *bytes.Buffer) error { return s.Found.WriteText(w) }
func (s search) WriteHTML(w *bytes.Buffer) error { return s.Found.WriteHTML(w) }
