package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"chronos/cmd/chronos/bench"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)

// TestSchedule counts the messages that are to be sent in each second, for each shape.
func TestSchedule(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		load  bench.Load
		count int
		want  []int // in the first, the second, ... second
	}{
		"steady":     {bench.Load{Shape: bench.Steady, Rate: 100, Duration: 3 * s}, 300, []int{100, 100, 100}},
		"slow":       {bench.Load{Shape: bench.Steady, Rate: 0.5, Duration: 4 * s}, 2, []int{1, 0, 1, 0}},
		"up":         {bench.Load{Shape: bench.Ramp, From: 0, Rate: 300, Duration: 3 * s}, 450, []int{50, 150, 250}},
		"down":       {bench.Load{Shape: bench.Ramp, From: 300, Rate: 0, Duration: 3 * s}, 450, []int{250, 150, 50}},
		"flat":       {bench.Load{Shape: bench.Ramp, From: 50, Rate: 50, Duration: 2 * s}, 100, []int{50, 50}},
		"burst":      {bench.Load{Shape: bench.Burst, Count: 70}, 70, []int{70}},
		"slow burst": {bench.Load{Shape: bench.Burst, Count: 70, Rate: 35}, 70, []int{35, 35}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := bench.NewPlan(&c.load, epoch)
			got, last := make([]int, len(c.want)), time.Duration(0)
			if plan.Messages() != c.count {
				t.Fatalf("%d messages, want %d", plan.Messages(), c.count)
			}
			for i := range c.count {
				at := plan.SendAt(i)
				if at < last {
					t.Fatalf("message %d is sent at %v, before the one before it", i, at)
				}
				last = at
				got[min(int((at+time.Microsecond)/time.Second), len(got)-1)]++
			}
			for i := range got {
				if d := got[i] - c.want[i]; d < -1 || d > 1 {
					t.Errorf("%v a second, want %v", got, c.want)
				}
			}
		})
	}
}

// TestPlanIsFixed asks for the messages twice, in different orders and from different copies: each is the same, and
// what is drawn is spread as was asked for.
func TestPlanIsFixed(t *testing.T) {
	t.Parallel()
	load := steady()
	load.Keys, load.Skew, load.Twice, load.Routes = 1000, 1.5, 0.25, 4
	load.Size = bench.Spread{Low: 100, High: 199}
	a := bench.NewPlan(load, epoch)
	b, n := a.Clone(), a.Messages()
	ids, keys, routes := map[string]bool{}, map[string]int{}, map[int]int{}
	twice, first := 0, make([]bench.Submission, n)
	sizes, delays := 0.0, 0.0
	for i := range n {
		first[i] = a.Message(i)
		ids[first[i].ID] = true
		keys[string(first[i].Key)]++
		routes[first[i].Route]++
		sizes += float64(len(first[i].Value)) / float64(n)
		delays += a.Deadline(i).Sub(epoch.Add(a.SendAt(i))).Seconds() / float64(n)
		if a.Twice(i) {
			twice++
		}
		if a.Due(i) != a.Deadline(i).Add(-50*time.Millisecond) || a.Due(i).After(a.Last()) {
			t.Errorf("message %d is due %v, its deadline %v, the last %v", i, a.Due(i), a.Deadline(i), a.Last())
		}
	}
	for i := n - 1; i >= 0; i-- {
		if got := b.Message(i); fmt.Sprint(got) != fmt.Sprint(first[i]) {
			t.Fatalf("message %d is %+v, was %+v", i, got, first[i])
		}
	}
	switch {
	case len(ids) != n:
		t.Errorf("%d ids for %d messages", len(ids), n)
	case keys["key-0"] < n/4 || len(keys) < 20:
		t.Errorf("key-0 is %d of %d, of %d: that is not skewed", keys["key-0"], n, len(keys))
	case math.Abs(sizes-149.5) > 5 || math.Abs(delays-2) > 0.1 || math.Abs(float64(twice)-250) > 60:
		t.Errorf("on average %.1f bytes and %.2f s, %d twice; want 149.5, 2 and 250", sizes, delays, twice)
	case len(routes) != 4 || routes[0] < 150 || routes[3] < 150:
		t.Errorf("routes %v, want four alike", routes)
	}
	load.Seed++
	if other := bench.NewPlan(load, epoch).Message(5); bytes.Equal(other.Value, first[5].Value) {
		t.Error("another seed has the same bytes")
	}
}

// TestLargeValue has a value that is longer than what it is filled from.
func TestLargeValue(t *testing.T) {
	t.Parallel()
	load := steady()
	load.Size, load.Rate, load.Routes = bench.One(5_000_000), 2, 1
	r := measure(t, load, &fake{}, bench.Options{})
	if !r.Passed() || r.Integrity.Came != 20 {
		t.Errorf("%+v, faults %q", r.Integrity, r.Faults)
	}
}

// TestSpread reads distributions, and refuses what is none.
func TestSpread(t *testing.T) {
	t.Parallel()
	parse := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	for text, want := range map[string]bench.Spread{
		"5": {Low: 5, High: 5}, "3..6": {Low: 3, High: 6}, "exp:2": {Low: 0, High: 20, Mean: 2}, "0..0": {},
	} {
		if got, err := bench.ParseSpread(text, parse); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "6..3", "-1..3", "3..", "..3", "exp:0", "exp:-1", "exp:", "1..2..3"} {
		if got, err := bench.ParseSpread(text, parse); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
}

// TestValidate spoils a load in one way after the other.
func TestValidate(t *testing.T) {
	t.Parallel()
	if err := steady().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*bench.Load){
		"above 0":       func(l *bench.Load) { l.Rate = 0 },
		"from 0 to":     func(l *bench.Load) { l.Rate = math.NaN() },
		"--duration":    func(l *bench.Load) { l.Duration = 0 },
		"--warm-up":     func(l *bench.Load) { l.WarmUp = l.Duration },
		"--size":        func(l *bench.Load) { l.Size = bench.One(39) },
		"--keys":        func(l *bench.Load) { l.Keys = -1 },
		"--key-skew":    func(l *bench.Load) { l.Skew = 1.5 },
		"--twice":       func(l *bench.Load) { l.Twice = math.NaN() },
		"--advance":     func(l *bench.Load) { l.Advance = -1 },
		"route":         func(l *bench.Load) { l.Routes = 0 },
		"no message":    func(l *bench.Load) { l.Rate, l.Duration, l.WarmUp = 0.01, time.Second, 0 },
		"--in":          func(l *bench.Load) { l.Shape, l.Count, l.WarmUp = bench.Burst, 1, 0 },
		"a burst has":   func(l *bench.Load) { l.Shape, l.Count, l.Lead = bench.Burst, 1, 1 },
		"0 to 10000000": func(l *bench.Load) { l.Rate = 1e9 },
	} {
		load := steady()
		spoil(load)
		if err := load.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that says %q", err, want)
		}
	}
}

// TestMemory has a hundred thousand messages sent and acknowledged: one byte for each is all that a run allocates for
// them, beside what does not grow. It runs alone, because the figure is of the whole process.
func TestMemory(t *testing.T) {
	few, many := allocated(1000), allocated(101_000)
	if perMessage := (many - few) / 100_000; perMessage > 2 {
		t.Errorf("a run allocates %.1f bytes for each message", perMessage)
	}
	load := steady()
	load.Rate, load.Duration = 100_000, 100*time.Second
	if got := bench.StateBytes(load); got != 10_000_000 {
		t.Errorf("the state of 10,000,000 messages has %d bytes", got)
	}
}

// allocated returns how many bytes the ledger of a run of count messages allocates.
func allocated(count int) float64 {
	load := steady()
	load.Rate, load.Duration, load.WarmUp = float64(count)/10, 10*time.Second, 0
	plan := bench.NewPlan(load, epoch)
	m := plan.Message(0)
	arrival := bench.Arrival{Key: m.Key, Value: m.Value, Mark: m.Mark, At: plan.Due(0)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	bench.FillLedger(plan, &arrival)
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// TestSearch looks for limits of services that hold up to a rate, all the time or most of the time.
func TestSearch(t *testing.T) {
	t.Parallel()
	for _, limit := range []float64{0, 1, 7, 990, 1000, 1001, 12_345, 99_999} {
		tries := 0
		s := bench.Search{From: 1000, To: 50_000, Within: 0.05, Tries: 2}
		found, err := s.Find(t.Context(), func(_ context.Context, rate float64) (bench.Step, error) {
			tries++
			// Every third try of a rate that holds fails, as on a machine with hiccups, but never twice in a row.
			return bench.Step{Rate: rate, Held: rate <= limit && tries%3 != 0}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case limit == 0 && found.Rate != 0, limit > 50_000 && (found.Rate != 50_000 || !found.Open),
			limit > 0 && limit <= 50_000 && (found.Rate > limit || found.Rate < limit/1.06-1):
			t.Errorf("found %+v, want a rate within 5%% below %v", found.Rate, limit)
		}
		if len(found.Steps) != tries || tries > 40 {
			t.Errorf("%d steps, of which %d are told", tries, len(found.Steps))
		}
	}
	s := bench.Search{From: 10, To: 100}
	if _, err := s.Find(t.Context(), func(context.Context, float64) (bench.Step, error) {
		return bench.Step{}, errors.New("no Kafka")
	}); err == nil {
		t.Error("the search hides an error")
	}
}

// TestHolds judges results by a bound.
func TestHolds(t *testing.T) {
	t.Parallel()
	r := measure(t, steady(), &fake{}, bench.Options{})
	if held, why := r.Holds(2); !held {
		t.Errorf("1 ms is not under 2: %s", why)
	}
	if held, why := r.Holds(1); held || why != "p99.9 was 1.0 ms" {
		t.Errorf("held is %v (%s), though 1 ms is not under 1", held, why)
	}
	r.Faults = []string{"1 lost"}
	if held, why := r.Holds(2); held || why != "1 lost" {
		t.Errorf("held is %v (%s), though something is wrong", held, why)
	}
}

// BenchmarkMessage makes messages, and BenchmarkArrive notes and compares them: what the load itself costs beside
// Kafka.
func BenchmarkMessage(b *testing.B) {
	plan, i := bench.NewPlan(steady(), epoch), 0
	b.ReportAllocs()
	for b.Loop() {
		plan.Message(i % 1000)
		i++
	}
}

func BenchmarkArrive(b *testing.B) {
	plan := bench.NewPlan(steady(), epoch)
	note := bench.Arriving(plan)
	var arrivals []bench.Arrival
	for i := range 1000 {
		m := plan.Message(i)
		arrivals = append(arrivals, bench.Arrival{
			Key: m.Key, Value: m.Value, Mark: m.Mark, At: plan.Due(i), Stamp: plan.Due(i),
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		note(arrivals) // a thousand
	}
}
