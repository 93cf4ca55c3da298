package main_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkOperate measures what people who ask cost, and what a waiting message takes, with a million messages
// waiting, or as many as CHRONOS_TEST_ROWS says: each request to the listener of a node by itself, and then the
// lateness of 1,000 messages/s while nobody asks, and while everything is asked all the time.
//
//	CHRONOS_TEST_ROWS=10000000 scripts/with-servers go test -run '^$' -bench BenchmarkOperate -benchtime 1x \
//	  -timeout 60m -v ./cmd/chronos
func BenchmarkOperate(b *testing.B) {
	rows := 1_000_000
	if text := os.Getenv("CHRONOS_TEST_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil {
			b.Fatalf("CHRONOS_TEST_ROWS: %v", err)
		}
	}
	s := newService(b)
	node := s.start(b, "--admin-listen", "127.0.0.1:0")
	node.logged(b, `"msg":"started"`) // when the store has been migrated
	s.wait(b, rows)
	address := node.address(b)

	b.Run("size", func(b *testing.B) { s.sizes(b, rows) })
	requests := []struct{ name, path string }{
		{"metrics", "/metrics"},
		{"readyz", "/readyz?verbose"},
		{"lanes", "/v1/lanes"},
		{"message", fmt.Sprintf("/v1/messages/w-%d", rows/2)},
		{"no-message", "/v1/messages/nowhere"},
		{"page", "/v1/messages?state=waiting&limit=500"},
		{"overdue", "/v1/messages?state=overdue&limit=500"},
		{"put-off", "/v1/messages?state=put-off"},
		{"stuck", "/v1/messages?state=stuck"},
		{"key", fmt.Sprintf("/v1/messages?key=k-%d", rows)},
		{"header", "/v1/messages?header=trace=nowhere"},
		{"nodes", "/v1/nodes"},
		{"positions", "/v1/positions"},
	}
	for _, r := range requests {
		b.Run("ask/"+r.name, func(b *testing.B) {
			var took []time.Duration
			for range 50 {
				began := time.Now()
				if err := get(b.Context(), address+r.path); err != nil {
					b.Error(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[25].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(took[49].Microseconds())/1000, "worst-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("lateness/nobody-asks", func(b *testing.B) { s.ticking(b, 20_000, 3*time.Second) })
	b.Run("lateness/all-is-asked", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		asked, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for ; ctx.Err() == nil; asked++ {
				_ = get(ctx, address+requests[asked%len(requests)].path) // ends by ctx; errors were seen above
			}
		}()
		s.ticking(b, 20_000, 3*time.Second)
		cancel()
		<-done
		b.ReportMetric(float64(asked), "requests")
	})
	b.ReportMetric(node.memory(b, "VmHWM"), "peak-MB")
}

// get asks a node, and reads the answer.
func get(ctx context.Context, url string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK && err == nil {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return errors.Join(err, response.Body.Close())
}

// address returns the URL of the listener of a node, when it has one.
func (p *nodeProcess) address(b *testing.B) string {
	b.Helper()
	return p.logged(b, `"msg":"serving metrics and health","url":"(http[^"]*[0-9])/*"`)[1]
}

// logged waits until the log of a node matches, and returns the match with its groups.
func (p *nodeProcess) logged(b *testing.B, pattern string) []string {
	b.Helper()
	expression := regexp.MustCompile(pattern)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for tooLate := time.Now().Add(patience); time.Now().Before(tooLate); <-ticker.C {
		if found := expression.FindStringSubmatch(p.log.String()); found != nil {
			return found
		}
	}
	b.Fatalf("the node does not say %s:\n%s", pattern, p.log)
	return nil
}

// wait has messages of 200 bytes wait for a day and more, with a key of 9 bytes and one header, one in a hundred
// thousand of them put off.
func (s *service) wait(b *testing.B, rows int) {
	b.Helper()
	const step = 1_000_000 // A statement of all rows would hold its snapshot for minutes.
	for first := 1; first <= rows; first += step {
		s.execute(b, fmt.Sprintf(`INSERT INTO messages (id, lane, incarnation, deadline, due_at, message_size,
		    message_headers, message_key, message_value, source_topic, source_partition, source_offset)
		  SELECT 'w-' || i, '%s', gen_random_uuid(), at,
		    at + CASE WHEN i %% 100000 = 0 THEN interval '1 s' ELSE '0' END, 209,
		    '[{"trace": "0123456789abcdef"}]', convert_to('k-' || i, 'UTF8'),
		    convert_to(repeat(md5(i::text), 6) || 'vvvvvvvv', 'UTF8'), '%s', 0, i
		  FROM (SELECT i, now() + interval '1 day' + i * interval '1 ms' AS at FROM generate_series(%d, %d) AS i) AS m`,
			s.output, s.input, first, min(first+step-1, rows)))
	}
	s.execute(b, "VACUUM ANALYZE messages")
}

// sizes reports what a waiting message takes in the store.
func (s *service) sizes(b *testing.B, rows int) {
	b.Helper()
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	for _, of := range []struct{ name, expression string }{
		{"table-bytes/message", "pg_table_size('messages')"},
		{"primary-key-bytes/message", "pg_relation_size('messages_pkey')"},
		{"waiting-index-bytes/message", "pg_relation_size('messages_waiting')"},
	} {
		var size float64
		if err := db.QueryRowContext(b.Context(), "SELECT "+of.expression).Scan(&size); err != nil {
			b.Fatalf("%s: %v", strings.TrimSpace(of.expression), err)
		}
		b.ReportMetric(size/float64(rows), of.name)
	}
	b.ReportMetric(0, "ns/op")
}
