package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/cmd/chronos/bench"
)

// What Kafka's Java and Postgres have written in one minute.
const (
	collectorLog = `[2026-11-24T20:04:43.204+0000] Using G1
[2026-11-24T20:04:49.129+0000] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 61M->25M(1024M) 176.901ms
[2026-11-24T20:05:09.931+0000] GC(1) Pause Young (Concurrent Start) (Metadata GC Threshold) 87M->48M(1024M) 20.500ms
[2026-11-24T20:05:09.932+0000] GC(2) Concurrent Mark Cycle
[2026-11-24T20:05:09.950+0000] GC(2) Pause Remark 48M->48M(1024M) 3.000ms
[2026-11-24T20:05:10.950+0000] GC(2) Concurrent Mark Cycle 1018.000ms
`
	postgresLog = `2026-11-24 20:04:40.001 UTC [9] LOG:  database system is ready to accept connections
2026-11-24 20:05:09.000 UTC [7] LOG:  checkpoint starting: time
2026-11-24 20:05:09.840 UTC [8] LOG:  automatic vacuum of table "bench-x.public.messages": index scans: 1
	pages: 0 removed, 321 remain, 321 scanned (100.00% of total)
	system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.25 s
2026-11-24 20:05:12.047 UTC [7] LOG:  checkpoint complete: wrote 5 buffers (0.0%); write=0.019 s, sync=0.003 s
2026-11-24 20:06:40.216 UTC [7] LOG:  checkpoint starting: immediate force wait
`
)

// TestInterruptions reads both logs, and tells what of them is in a time.
func TestInterruptions(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		instant, err := time.Parse("2006-01-02T15:04:05.000", "2026-11-24T"+clock)
		if err != nil {
			t.Fatal(err)
		}
		return instant
	}
	all := &interruptions{known: true, stops: collections(collectorLog)}
	all.checkpoints, all.vacuums = housekeeping(postgresLog)
	if len(all.stops) != 3 || !all.stops[0].to.Equal(at("20:04:49.129")) ||
		longest(all.stops) != 176901*time.Microsecond {
		t.Errorf("the stops are %v", all.stops)
	}
	if want := []span{{at("20:05:09.590"), at("20:05:09.840")}}; !slices.Equal(all.vacuums, want) {
		t.Errorf("the vacuums are %v, want %v", all.vacuums, want)
	}
	for _, c := range []struct {
		from, to    string
		cells, text string
	}{
		{"20:04:50.000", "20:05:08.000", "0|0|0", "none of these"},
		{"20:05:09.700", "20:05:09.920", "1, 20.5 ms|1|1", "a stop of 20.5 ms, a checkpoint, a vacuum"},
		{"20:05:09.935", "20:05:10.000", "1, 3.0 ms|1|0", "a stop of 3.0 ms, a checkpoint"},
		{"20:05:13.000", "20:06:00.000", "0|0|0", "none of these"},
		{"20:06:50.000", "20:07:00.000", "0|1|0", "a checkpoint"},
	} {
		part := all.in(span{at(c.from), at(c.to)})
		if got := strings.Join(part.cells(), "|"); got != c.cells || part.String() != c.text {
			t.Errorf("from %s to %s: %s, %s; want %s, %s", c.from, c.to, got, part, c.cells, c.text)
		}
	}
	none := new(interruptions)
	if got := strings.Join(none.cells(), "|"); got != "-|-|-" || none.String() != "-" {
		t.Errorf("of servers without logs it is said: %s, %s", got, none)
	}
}

// TestLatestTime finds when the latest message of a run was late, not one of the warm-up.
func TestLatestTime(t *testing.T) {
	t.Parallel()
	began := time.Unix(100, 0)
	r := &bench.Result{Began: began, Took: 9000, Load: bench.Load{WarmUp: 1500 * time.Millisecond}}
	for i, latest := range []bench.Millis{900, 40, 250, -1, 80} {
		s := bench.Second{At: bench.Millis(i+1) * 1000}
		if latest >= 0 {
			s.Max = &latest
		}
		r.Seconds = append(r.Seconds, s)
	}
	if got, want := latestTime(r), (span{began.Add(1750 * time.Millisecond), began.Add(3 * time.Second)}); got != want {
		t.Errorf("it is %v, want %v", got, want)
	}
	want := span{began.Add(1500 * time.Millisecond), began.Add(9 * time.Second)}
	if got := measuredTime(r); got != want {
		t.Errorf("%v is measured, want %v", got, want)
	}
	if row := interruptedRow("x", &bench.Result{}, new(interruptions)); len(row) != len(interruptedHead) {
		t.Errorf("%q has %d cells, and the head %d", row, len(row), len(interruptedHead))
	}
	r.Received = &bench.Lateness{AfterDue: new(bench.Quantiles)}
	if row := interruptedRow("x", r, new(interruptions)); len(row) != len(interruptedHead) {
		t.Errorf("%q has %d cells, and the head %d", row, len(row), len(interruptedHead))
	}
}
