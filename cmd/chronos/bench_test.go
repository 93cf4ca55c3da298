package main_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos/bench"
	kafkabench "chronos/cmd/chronos/bench/cluster"
)

// ticking measures 1,000 messages a second, which are due delay later and up to 3 s more, as `chronos bench` does, and
// reports their lateness. Whatever is wrong with them fails the benchmark.
func (s *service) ticking(b *testing.B, count int, delay time.Duration) {
	b.Helper()
	measured, err := kafkabench.Open(b.Context(), kafkabench.Config{
		Connect: func(_ context.Context, options ...kgo.Opt) (*kgo.Client, error) {
			return kgo.NewClient(append(options, kgo.SeedBrokers(s.brokers))...)
		},
		Routes: []kafkabench.Route{{Input: s.input, Output: s.output}}, Largest: 200,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer measured.Close()
	load := &bench.Load{
		Shape: bench.Steady, Rate: 1000, Duration: time.Duration(count) * time.Millisecond,
		Delay: bench.Spread{Low: float64(delay), High: float64(delay + 3*time.Second)},
		Size:  bench.One(200), Routes: 1, Run: "bench-" + strings.ToLower(rand.Text()[:8]), Seed: 1,
	}
	r, err := bench.Run(b.Context(), load, measured, bench.Options{
		Patience: patience, Limit: load.Duration + 4*patience,
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, fault := range r.Faults {
		b.Error(fault)
	}
	for name, late := range map[string]bench.Millis{
		"p50": r.Received.AfterDue.P50, "p99": r.Received.AfterDue.P99, "p99.9": r.Received.AfterDue.P999,
	} {
		b.ReportMetric(float64(late), name+"-after-due-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// execute runs a statement.
func (s *service) execute(b *testing.B, statement string) {
	b.Helper()
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the statement says what there is to say
	if _, err := db.ExecContext(b.Context(), statement); err != nil {
		b.Fatal(err)
	}
}

// memory returns a figure of the node's process in MB, as Linux counts it.
func (p *nodeProcess) memory(b *testing.B, figure string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, figure+":"); found {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	b.Fatalf("the kernel does not tell %s", figure)
	return 0
}
