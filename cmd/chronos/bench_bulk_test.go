package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"chronos/node/control"
)

// BenchmarkBulk measures `chronos cancel --lane` on a lane on which a million messages wait, or as many as
// CHRONOS_TEST_ROWS says, and the lateness of 1,000 messages/s on the same lane: before it, and while it runs.
//
//	scripts/with-servers go test -run '^$' -bench BenchmarkBulk -benchtime 1x -timeout 30m -v ./cmd/chronos
func BenchmarkBulk(b *testing.B) {
	rows := 1_000_000
	if text := os.Getenv("CHRONOS_TEST_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatalf("CHRONOS_TEST_ROWS: %v", err)
		}
	}
	s := newService(b)
	s.start(b).logged(b, `"msg":"started"`)
	s.wait(b, rows/2)
	cancel := func(b *testing.B, args ...string) (cancelled int, took time.Duration) {
		b.Helper()
		command := exec.CommandContext(b.Context(), s.binary, append([]string{
			"cancel", "--lane", s.output, "--store", s.database.String(), "--yes", "-o", "json",
		}, args...)...)
		command.Stderr = os.Stderr
		began := time.Now()
		out, err := command.Output()
		if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == 3 {
			err = nil // too late for some of what ticks
		}
		var tally control.Tally
		if err == nil {
			err = json.Unmarshal(out, &tally)
		}
		if err != nil {
			b.Errorf("%v\n%s", err, out)
		}
		return tally.Cancelled, time.Since(began)
	}
	b.Run("alone", func(b *testing.B) {
		n, took := cancel(b)
		b.ReportMetric(float64(n)/took.Seconds(), "rows/s")
		b.ReportMetric(float64(n), "rows")
		b.ReportMetric(0, "ns/op")
	})
	s.execute(b, "VACUUM messages") // as autovacuum does, sooner or later
	s.wait(b, rows)
	b.Run("lateness/before", func(b *testing.B) { s.ticking(b, 15_000, 3*time.Second) })
	b.Run("lateness/while-it-runs", func(b *testing.B) {
		type done struct {
			n    int
			took time.Duration
		}
		ended := make(chan done)
		go func() {
			n, took := cancel(b, "--header", "trace=0123456789abcdef")
			ended <- done{n, took}
		}()
		began := time.Now()
		s.ticking(b, 15_000, 3*time.Second)
		ticked := time.Since(began)
		all := <-ended
		b.ReportMetric(float64(all.n)/all.took.Seconds(), "rows/s")
		b.ReportMetric(float64(all.n), "rows")
		b.ReportMetric(100*min(1, all.took.Seconds()/ticked.Seconds()), "%-of-the-time")
	})
}
