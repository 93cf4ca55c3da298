package main_test

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkService measures one node of the built binary on a real Kafka and a real Postgres that share the machine
// with it and with this load generator: `make bench`. Each part does its work once, whatever b.N.
func BenchmarkService(b *testing.B) {
	b.Run("intake", benchmarkIntake)
	b.Run("firing", benchmarkFiring)
	b.Run("lateness", benchmarkLateness)
	b.Run("million", benchmarkMillion)
}

const benchMessages = 100_000

// load returns count submissions that are due at an instant, of 200 bytes each.
func (s *service) load(name string, count int, due time.Time) []*kgo.Record {
	value := []byte(strings.Repeat("v", 200))
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = s.record(fmt.Sprintf("%s-%07d", name, i), due, value)
	}
	return records
}

// benchmarkIntake measures how fast submissions that are on the input topic get into the store.
func benchmarkIntake(b *testing.B) {
	s := newService(b)
	s.submit(b, s.load("i", benchMessages, time.Now().Add(time.Hour))...)
	s.start(b)
	s.until(b, func(stored int) bool { return stored > 0 })
	first, started := s.stored(b), time.Now()
	s.until(b, func(stored int) bool { return stored == benchMessages })
	b.ReportMetric(float64(benchMessages-first)/time.Since(started).Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
}

// benchmarkFiring measures how fast messages that are due at one instant get from the store to the output topic.
func benchmarkFiring(b *testing.B) {
	s := newService(b)
	s.submit(b, s.load("f", benchMessages, time.Now().Add(time.Hour))...)
	s.start(b)
	s.until(b, func(stored int) bool { return stored == benchMessages })
	s.execute(b, "VACUUM ANALYZE messages")
	s.execute(b, "UPDATE messages SET due_at = now(), deadline = now()")
	got := s.read(b, s.output, 3*patience, distinct(benchMessages))
	if len(got) != benchMessages {
		b.Errorf("%d records for %d messages", len(got), benchMessages)
	}
	first, last := got[0].Timestamp, got[0].Timestamp
	for _, g := range got {
		if g.Timestamp.After(last) {
			last = g.Timestamp
		}
	}
	b.ReportMetric(float64(len(got))/last.Sub(first).Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
}

// benchmarkLateness measures when messages arrive at a consumer, at 1,000 a second and delays of 3 to 6 seconds:
// against the deadline, and against the instant at which they are due, which is the timing advance earlier.
func benchmarkLateness(b *testing.B) {
	s := newService(b)
	node := s.start(b)
	s.ticking(b, "l", 20_000, 3*time.Second)
	b.ReportMetric(node.memory(b, "VmHWM"), "peak-MB")
}

// ticking submits count messages at 1,000 a second, due delay later and up to 3 s more, and reports their lateness.
func (s *service) ticking(b *testing.B, name string, count int, delay time.Duration) {
	b.Helper()
	deadlines := make(map[string]time.Time, count)
	began := time.Now()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	read := make(chan []arrived)
	ours := func(all []arrived) []arrived {
		return slices.DeleteFunc(slices.Clone(all), func(a arrived) bool {
			return !strings.HasPrefix(string(a.Key), name)
		})
	}
	enough := distinct(count)
	go func() {
		all := s.read(b, s.output, 4*patience, func(all []arrived) bool { return enough(ours(all)) })
		read <- ours(all)
	}()
	for i := 0; i < count; {
		<-ticker.C
		var batch []*kgo.Record
		for ; i < count && time.Since(began) > time.Duration(i)*time.Millisecond; i++ {
			due := time.Now().Add(delay + time.Duration(i*37%3000)*time.Millisecond).Truncate(time.Millisecond)
			id := fmt.Sprintf("%s-%07d", name, i)
			deadlines[id] = due
			batch = append(batch, s.record(id, due, []byte(strings.Repeat("v", 200))))
		}
		if len(batch) > 0 {
			s.submit(b, batch...)
		}
	}
	histogram := hdrhistogram.New(1, 60_000_000, 3) // µs
	got := <-read
	for _, g := range got {
		since := max(g.at.Sub(deadlines[string(g.Key)].Add(-s.advance)), time.Microsecond)
		if err := histogram.RecordValue(since.Microseconds()); err != nil {
			b.Fatal(err)
		}
	}
	ms := func(quantile float64) float64 { return float64(histogram.ValueAtQuantile(quantile)) / 1000 }
	advance := float64(s.advance.Milliseconds())
	for _, q := range []float64{50, 99, 99.9} {
		label := "p" + strconv.FormatFloat(q, 'g', -1, 64)
		b.ReportMetric(ms(q), label+"-after-due-ms")
		b.ReportMetric(ms(q)-advance, label+"-after-deadline-ms")
	}
	b.ReportMetric(float64(len(got)-count), "duplicates")
	b.ReportMetric(0, "ns/op")
}

// benchmarkMillion measures memory and lateness with a million messages waiting.
func benchmarkMillion(b *testing.B) {
	s := newService(b)
	node := s.start(b)
	node.log.await(b, `"started"`, 1) // when the store has been migrated
	s.execute(b, `INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size, message_headers,
	    message_key, message_value)
	  SELECT 'w-' || i, '`+s.output+`', gen_random_uuid(), now() + interval '1 day' + i * interval '1 ms',
	    now() + interval '1 day' + i * interval '1 ms', 200, '[]', NULL, convert_to(repeat('v', 200), 'UTF8')
	  FROM generate_series(1, 1000000) AS i`)
	s.execute(b, "VACUUM ANALYZE messages")
	s.ticking(b, "m", 10_000, 3*time.Second)
	b.ReportMetric(node.memory(b, "VmHWM"), "peak-MB")
}

// until waits for a condition on how many messages the store has; the table may not be there yet.
func (s *service) until(b *testing.B, enough func(stored int) bool) {
	b.Helper()
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for tooLate := time.Now().Add(4 * patience); time.Now().Before(tooLate); <-ticker.C {
		var count int
		err := db.QueryRowContext(b.Context(), "SELECT count(*) FROM messages").Scan(&count)
		if err == nil && enough(count) {
			return
		}
	}
	b.Fatal("the store has not taken up what it should")
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
