package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/cmd/chronos/bench"
)

// TestOverridden gives a flag twice: the command line has it once, with its last value, where it was first.
func TestOverridden(t *testing.T) {
	t.Parallel()
	got := overridden([]string{"--rate", "1000", "--delay", "3s", "--rate", "200", "--size", "9"})
	if want := []string{"--rate", "200", "--delay", "3s", "--size", "9"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNamed has two rows with one command line, of which the second one has lost something: that is said of it.
func TestNamed(t *testing.T) {
	t.Parallel()
	one := &table{head: []string{""}}
	one.on("empty, run %d", 1)
	one.measured("chronos bench", &bench.Result{})
	one.on("full")
	one.measured("chronos bench", &bench.Result{
		Faults: []string{"1 lost"}, Notes: []string{"Kafka acknowledged late", "All notes are alike"},
	})
	text := one.markdown()
	for _, want := range []string{
		"**Wrong:** full (`chronos bench`): 1 lost.\n", "\nfull (`chronos bench`): Kafka acknowledged late\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "empty") || strings.Contains(text, "alike") {
		t.Errorf("it says more than that:\n%s", text)
	}
}

// late makes a result of a run.
func late(p999 bench.Millis, cpus float64, peak int64) *bench.Result {
	return &bench.Result{
		Received: &bench.Lateness{AfterDue: &bench.Quantiles{
			P50: p999 / 10, P99: p999 / 2, P999: p999, P9999: p999 * 2, Max: p999 * 3,
		}},
		Processes: []bench.Process{{Name: "nodes", CPUs: cpus, Peak: peak}},
	}
}

// TestMedians sums several runs up in one row: medians, the range of the p99.9, and the worst of what few messages
// decide.
func TestMedians(t *testing.T) {
	t.Parallel()
	row := mediansRow("x", []*bench.Result{late(10, 0.2, 50e6), late(90, 0.4, 70e6), late(20, 0.3, 60e6)})
	if got := strings.Join(row, "|"); got != "x|3|2.0|10.0|20.0 (10.0 to 90.0)|180|270|0.30|-|-|70" {
		t.Errorf("the row is %q", got)
	}
	one := mediansRow("x", []*bench.Result{late(10, 0.2, 50e6)})
	if got := strings.Join(one, "|"); got != "x|1|1.0|5.0|10.0|20.0|30.0|0.20|-|-|50" {
		t.Errorf("the row of one run is %q", got)
	}
	none := mediansRow("x", []*bench.Result{late(10, 0.2, 50e6), {}})
	if head := mediansHead(""); len(row) != len(head) || len(none) != len(head) {
		t.Errorf("%d and %d cells, and the head has %d", len(row), len(none), len(head))
	}
}

// TestFailedRate looks for what bounds the highest rate: the last try of the next one, and not one that was held at its
// second try, or a higher one.
func TestFailedRate(t *testing.T) {
	t.Parallel()
	next := late(120, 1, 1)
	found := &bench.Found{Rate: 200, Steps: []bench.Step{
		{Rate: 100, Held: true},
		{Rate: 400},
		{Rate: 400},
		{Rate: 200},
		{Rate: 200, Held: true},
		{Rate: 300},
		{Rate: 300, Result: next},
	}}
	if got := failed(found); got.Rate != 300 || got.Result != next {
		t.Errorf("it is %+v", got)
	}
	if got := failed(&bench.Found{Rate: 200, Steps: []bench.Step{{Rate: 200, Held: true}}}); got.Rate != 0 {
		t.Errorf("none failed, and it is %+v", got)
	}
	if got := lateOf(failed(&bench.Found{}).Result); got != "-, -, -" {
		t.Errorf("what nobody measured is %q", got)
	}
}

// TestBusy averages what a part uses while as much comes out as goes in, and not before or after.
func TestBusy(t *testing.T) {
	t.Parallel()
	r := &bench.Result{
		Load: bench.Load{Duration: 12 * time.Second, WarmUp: 5 * time.Second, Delay: bench.Spread{High: 3e9}},
		Processes: []bench.Process{
			{Name: "nodes", CPUs: 0.1},
		},
	}
	for at, cpus := range map[int]float64{9: 9, 10: 0.4, 12: 0.6, 13: 9} {
		r.Seconds = append(r.Seconds, bench.Second{
			At: bench.Millis(at * 1000), Use: []bench.Use{{Name: "nodes", CPUs: cpus}, {Name: "Kafka", CPUs: 7}},
		})
	}
	if got, known := busy(r, "nodes"); got != 0.5 || !known {
		t.Errorf("%v CPUs, %t; want 0.5", got, known)
	}
	if got, want := cpusOf(r), "0.50, -, 7.00, -"; got != want {
		t.Errorf("the cell of a table is %q, want %q", got, want)
	}
	r.Seconds = nil
	if got, known := busy(r, "nodes"); got != 0.1 || !known {
		t.Errorf("without seconds %v CPUs, %t; want those of the run", got, known)
	}
	if _, known := busy(r, "Kafka"); known {
		t.Error("nobody has measured Kafka")
	}
}
