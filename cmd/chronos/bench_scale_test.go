package main_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkScale has one, two and four nodes take 100,000 messages in, fire them, and rest, on one Kafka and one
// Postgres that share the machine with them. How many a second there are depends on the machine. What a message costs
// the nodes and Postgres in CPU time and write-ahead log does so much less, and is what a cluster is sized by.
//
//	scripts/with-servers go test -run '^$' -bench BenchmarkScale -benchtime 1x -timeout 15m -v ./cmd/chronos
func BenchmarkScale(b *testing.B) {
	for _, count := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) { benchmarkNodes(b, count) })
	}
}

func benchmarkNodes(b *testing.B, count int) {
	s := newService(b)
	s.submit(b, s.load("s", benchMessages, time.Now().Add(time.Hour))...)
	begun := s.spent(b, nil)
	first := s.start(b) // It migrates, so the others need not wait for each other.
	s.until(b, func(int) bool { return true })
	nodes := []*nodeProcess{first}
	for len(nodes) < count {
		nodes = append(nodes, s.start(b))
	}
	s.taken(b, benchMessages)
	intake := s.spent(b, nodes)
	s.execute(b, "VACUUM ANALYZE messages")
	b.ReportMetric(intake.nodes/benchMessages*1e6, "intake-node-cpu-µs/message")
	b.ReportMetric((intake.postgres-begun.postgres)/benchMessages*1e6, "intake-postgres-cpu-µs/message")
	b.ReportMetric((intake.log-begun.log)/benchMessages, "intake-log-bytes/message")
	s.execute(b, "UPDATE messages SET due_at = now() + interval '3 s', deadline = now() + interval '3 s'")
	s.execute(b, "CHECKPOINT") // What the update has dirtied is not a part of what firing costs.

	before := s.spent(b, nodes)
	got := s.read(b, s.output, 3*patience, distinct(benchMessages))
	s.until(b, func(stored int) bool { return stored == 0 })
	after := s.spent(b, nodes)
	begin, end := got[0].Timestamp, got[0].Timestamp
	for _, g := range got {
		if g.Timestamp.Before(begin) {
			begin = g.Timestamp
		}
		if g.Timestamp.After(end) {
			end = g.Timestamp
		}
	}
	b.ReportMetric(benchMessages/end.Sub(begin).Seconds(), "fired/s")
	b.ReportMetric((after.nodes-before.nodes)/benchMessages*1e6, "firing-node-cpu-µs/message")
	b.ReportMetric((after.postgres-before.postgres)/benchMessages*1e6, "firing-postgres-cpu-µs/message")
	b.ReportMetric((after.log-before.log)/benchMessages, "firing-log-bytes/message")

	const idle = 15 * time.Second // Nothing waits: what nodes cost that look whether something does.
	<-time.After(idle)
	rest := s.spent(b, nodes)
	perNode := 1000 / idle.Seconds() / float64(count)
	b.ReportMetric((rest.nodes-after.nodes)*perNode, "idle-node-cpu-ms/s")
	b.ReportMetric((rest.postgres-after.postgres)*perNode, "idle-postgres-cpu-ms/s/node")
	b.ReportMetric(nodes[0].memory(b, "VmHWM"), "peak-MB")
	b.ReportMetric(0, "ns/op")
}

// taken waits until so many records have been taken in. It looks at the positions: to count the messages would cost the
// store more than to take them in.
func (s *service) taken(b *testing.B, records int) {
	b.Helper()
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for tooLate := time.Now().Add(4 * patience); time.Now().Before(tooLate); <-ticker.C {
		var sum int
		err := db.QueryRowContext(b.Context(), "SELECT coalesce(sum(next_offset), 0) FROM positions").Scan(&sum)
		if err != nil {
			b.Fatal(err)
		}
		if sum == records {
			return
		}
	}
	b.Fatal("the store has not taken up what it should")
}

// spent is what was used up so far: seconds of CPU, and bytes of write-ahead log.
type spent struct{ nodes, postgres, log float64 }

func (s *service) spent(b *testing.B, nodes []*nodeProcess) (all spent) {
	b.Helper()
	for _, n := range nodes {
		all.nodes += seconds(b, n.command.Process.Pid, false)
	}
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	var backend int
	if err := db.QueryRowContext(b.Context(), "SELECT pg_backend_pid(), pg_current_wal_lsn() - '0/0'::pg_lsn").
		Scan(&backend, &all.log); err != nil {
		b.Fatal(err)
	}
	server := parent(b, backend)
	all.postgres = seconds(b, server, true)
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range processes {
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if fields := stat(name); err == nil && fields != nil && fields[1] == strconv.Itoa(server) {
			all.postgres += seconds(b, pid, false)
		}
	}
	return all
}

// stat returns the fields of a process from its state on, as proc(5) counts them from the third; nil if it has ended.
func stat(name string) []string {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// parent returns the parent of a process.
func parent(b *testing.B, pid int) int {
	b.Helper()
	fields := stat(fmt.Sprintf("/proc/%d/stat", pid))
	if fields == nil {
		b.Fatal("Postgres does not run on this machine, so what it costs is not known")
	}
	of, err := strconv.Atoi(fields[1])
	if err != nil {
		b.Fatal(err)
	}
	return of
}

// seconds returns how long a process was on a CPU, with the children that it has waited for if they count too.
func seconds(b *testing.B, pid int, children bool) (sum float64) {
	b.Helper()
	fields := stat(fmt.Sprintf("/proc/%d/stat", pid))
	if fields == nil {
		return 0 // It has ended, and its parent has its time.
	}
	counted := fields[11:13] // user and system time
	if children {
		counted = fields[11:15]
	}
	for _, field := range counted {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += ticks / 100 // of which Linux has a hundred a second
	}
	return sum
}
