package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/chaos/servers"
	"chronos/cmd/chronos/bench"
)

// TestReplace puts a table between its marks, twice, and touches nothing else.
func TestReplace(t *testing.T) {
	t.Parallel()
	one := &table{
		name: "speed", head: []string{"what", "measured"}, rows: [][]string{{"intake", "1"}}, machine: "a machine",
		scale:    1,
		commands: []string{"chronos bench"}, faults: []string{"chronos bench: 1 lost"}, began: time.Unix(0, 0).UTC(),
	}
	one.explain("Run by run:", "run", "p99.9").add("1", "12")
	before, after := "# Benchmarks\n<!-- make bench: speed -->\n", "<!-- end of speed -->\n\nMore.\n"
	text, err := replace(before+"old\n"+after, one)
	if err != nil {
		t.Fatal(err)
	}
	again, err := replace(text, one)
	if err != nil || again != text {
		t.Errorf("%v; the second time it is\n%s\nand was\n%s", err, again, text)
	}
	for _, want := range []string{
		before, after, "| intake | 1 |\n", "**Wrong:** chronos bench: 1 lost.", "    chronos bench\n",
		"Run by run:\n\n| run | p99.9 |\n|---|--:|\n| 1 | 12 |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "old") || strings.Contains(text, "works") {
		t.Errorf("the former table is still there, or a scale that was none:\n%s", text)
	}
	_, err = replace("# Benchmarks\n", one)
	if err == nil || !strings.Contains(err.Error(), "no place for the table speed") {
		t.Errorf("without marks the error is %v", err)
	}
}

// TestPlot plots columns, and rows, and nothing where a cell is no number.
func TestPlot(t *testing.T) {
	t.Parallel()
	one := &table{
		name: "backlog", head: []string{"waiting", "p50", "p99", "p99.9 (range)", "max"},
		rows: [][]string{{"10,000", "1.5", "9", "15.25 (1 to 20)", "-"}, {"1,000,000", "1.6", "10", "16,000", "-"}},
	}
	one.plotLateness("waiting")
	one.plotColumns(plot{title: "max"}, "max")
	one.plotRows(plot{title: "a row", unit: "ms", over: "quantile"}, "10,000")
	if len(one.plots) != 1 {
		t.Fatalf("%d plots, want one: the others have cells that are no numbers", len(one.plots))
	}
	want := "xychart-beta\n" + `  title "p50, p99 and p99.9, from below"
  x-axis "waiting" ["10,000", "1,000,000"]
  y-axis "ms after the deadline" 0 --> 17600
  line [1.5, 1.6]
  line [9, 10]
  line [15.25, 16000]
` + "```\n"
	if got := one.markdown(); !strings.Contains(got, want) {
		t.Errorf("it is\n%s\nand lacks\n%s", got, want)
	}
	two := &table{
		head: []string{"", "1 node", "2 nodes"},
		rows: [][]string{{"firing", "1,000", "0.5"}, {"other", "-", "-"}},
	}
	two.plotRows(plot{title: "firing", unit: "messages/s", over: "nodes"}, "firing")
	if got := two.markdown(); !strings.Contains(got, "  line [1000, 0.5]\n") || strings.Count(got, "line [") != 1 {
		t.Errorf("it is\n%s", got)
	}
}

// TestPlaces asks that BENCHMARKS.md has a place for each table, so that a measurement of an hour is not in vain.
func TestPlaces(t *testing.T) {
	t.Parallel()
	if err := hasPlaces("../../BENCHMARKS.md", allCases()); err != nil {
		t.Error(err)
	}
}

// A file that is not there, or has no place for a table, is found before anything is measured.
func TestNoPlaces(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "tables.md")
	for range 2 {
		err := run(t.Context(), []string{"--curve", "journal", "--write", empty}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), empty) {
			t.Errorf("the error is %v", err)
		}
		if err := os.WriteFile(empty, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRows writes rows of results that lack one thing or the other: all have as many cells as the head.
func TestRows(t *testing.T) {
	t.Parallel()
	some := &bench.Lateness{AfterDue: &bench.Quantiles{P50: -1.25, Max: 12_345}}
	for _, r := range []*bench.Result{
		{},
		{Received: some},
		{Received: some, Processes: []bench.Process{{Name: "nodes", CPUs: 0.5, Peak: 61e6}, {Name: "Postgres"}}},
	} {
		if row := lateRow("x", r); len(row) != len(lateHead("")) {
			t.Errorf("%q has %d cells, and the head %d", row, len(row), len(lateHead("")))
		}
	}
	node := []bench.Process{{Name: "nodes", CPUs: 0.5, Peak: 61e6}}
	row := strings.Join(lateRow("x", &bench.Result{Received: some, Processes: node}), " ")
	if row != "x -1.2 0.0 0.0 0.0 12,345 0.50 - 61" {
		t.Errorf("the row is %q", row)
	}
}

// TestAgainst compares two commits of which one has measured less.
func TestAgainst(t *testing.T) {
	t.Parallel()
	var a against
	for _, of := range [][2]float64{{100, 200}, {200, 300}, {4, 2}} {
		a.note("intake", "more", 0, of[0])
		a.note("intake", "more", 1, of[1])
	}
	a.note("memory", "less", 1, 3)
	for i, want := range []string{"intake 100 200 1.50 (0.50 to 2.00) more", "memory - - - less"} {
		if got := strings.Join(a.rows[i].cells(), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := chosen(&options{scale: 1, against: "HEAD", curve: "size"}); err == nil {
		t.Error("a curve is not compared")
	}
	if cases, err := chosen(&options{scale: 1, against: "HEAD"}); err != nil || len(cases) != 1 {
		t.Errorf("%d cases, %v", len(cases), err)
	}
}

// TestChosen chooses what to measure by its name.
func TestChosen(t *testing.T) {
	t.Parallel()
	for curve, want := range map[string]int{"": 2, "all": 11, "backlog": 1, "size,nodes": 2, "nothing": -1} {
		cases, err := chosen(&options{curve: curve, scale: 1})
		if (err != nil) != (want < 0) || err == nil && len(cases) != want {
			t.Errorf("--curve %q is %d, %v; want %d", curve, len(cases), err, want)
		}
	}
	if _, err := chosen(&options{scale: 0}); err == nil {
		t.Error("a scale of 0 measures nothing")
	}
}

// TestCurveOnServers measures two curves on the servers of the test run, on the smallest scale, and has them written.
func TestCurveOnServers(t *testing.T) {
	t.Parallel()
	if os.Getenv("CHRONOS_TEST_KAFKA") == "" || os.Getenv("CHRONOS_TEST_POSTGRES") == "" {
		if testing.Short() {
			t.Skip("without CHRONOS_TEST_KAFKA and CHRONOS_TEST_POSTGRES there are no servers to test on")
		}
		t.Fatal("set CHRONOS_TEST_KAFKA and CHRONOS_TEST_POSTGRES or run make test")
	}
	for curve, want := range map[string]string{
		"overdue": "\n| 1,000 | ", "takeover-journal": "\n| with --standby | 1,000 | ",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "tables.md")
		begin, end := marks(curve)
		if err := os.WriteFile(file, []byte(begin+end), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), []string{"--curve", curve, "--scale", "0.001", "--dir", dir, "--write", file},
			&stdout, &stderr); err != nil {
			t.Fatalf("%v\n%s", err, &stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), "**Wrong:**") || !strings.Contains(string(text), want) {
			t.Errorf("%v\n%s\n%s", err, text, &stderr)
		}
	}
}

// TestFloorOnServers makes transactions and nothing else, and finds on the topics what it is to have appended.
func TestFloorOnServers(t *testing.T) {
	t.Parallel()
	brokers := os.Getenv("CHRONOS_TEST_KAFKA")
	if brokers == "" {
		if testing.Short() {
			t.Skip("without CHRONOS_TEST_KAFKA there is no Kafka to test on")
		}
		t.Fatal("set CHRONOS_TEST_KAFKA or run make test")
	}
	s := &site{ground: &ground{kafka: servers.GivenKafka(brokers)}, name: "bench-" + strings.ToLower(rand.Text()[:8])}
	for _, out := range []bool{false, true} {
		b, err := s.bare(t.Context(), 100, 30, out)
		if err != nil {
			t.Fatal(err)
		}
		if b.perSecond <= 0 || b.messages != 100 {
			t.Errorf("%v messages, %v/s", b.messages, b.perSecond)
		}
		// A hundred, one for each producer at first, and four and four that end transactions.
		name := fmt.Sprintf("%s.bare.%t", s.name, out)
		for topic, want := range map[string]float64{name: 112, name + ".out": 0} {
			if out {
				want = 112
			}
			// A transaction is committed before what ends it is on every partition.
			if err := servers.Await(t.Context(), time.Minute, func(ctx context.Context) error {
				got, err := s.end(ctx, topic)
				if err == nil && got != want {
					err = fmt.Errorf("there are %v records, not %v", got, want)
				}
				return err
			}); err != nil {
				t.Errorf("%s: %v", topic, err)
			}
		}
		if err := s.kafka.Remove(s.name, name, name+".out"); err != nil {
			t.Error(err)
		}
	}
}
