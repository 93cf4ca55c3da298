package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// receivers are servers that take callbacks, each a host of its own, and remember when the first request of each
// message came.
type receivers struct {
	servers []*httptest.Server

	mu     sync.Mutex
	first  map[string]time.Time
	all    int
	change chan struct{} // closed and replaced with each request
}

// receive starts servers. answer is called in each request, after it was taken note of.
func receive(tb testing.TB, hosts int, answer func(host int, w http.ResponseWriter, r *http.Request)) *receivers {
	tb.Helper()
	all := &receivers{first: map[string]time.Time{}, change: make(chan struct{})}
	for host := range hosts {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id, now := r.Header.Get("Chronos-Message-Id"), time.Now()
			all.mu.Lock()
			if _, again := all.first[id]; !again {
				all.first[id] = now
			}
			all.all++
			close(all.change)
			all.change = make(chan struct{})
			all.mu.Unlock()
			answer(host, w, r)
		}))
		tb.Cleanup(server.Close)
		all.servers = append(all.servers, server)
	}
	return all
}

// await waits until that many messages have come, those aside whose id begins with but, and returns when each came.
func (r *receivers) await(tb testing.TB, want int, but string, limit time.Duration) map[string]time.Time {
	tb.Helper()
	tooLate := time.After(limit)
	for {
		r.mu.Lock()
		got := map[string]time.Time{}
		for id, at := range r.first {
			if but == "" || !strings.HasPrefix(id, but) {
				got[id] = at
			}
		}
		change := r.change
		r.mu.Unlock()
		if len(got) >= want {
			return got
		}
		select {
		case <-change:
		case <-tooLate:
			tb.Fatalf("%d of %d messages came in %v", len(got), want, limit)
		}
	}
}

// callback returns the record of a message that is a request.
func (s *service) callback(id string, deadline time.Time, url string) *kgo.Record {
	return s.record(id, deadline, []byte("value "+id), kgo.RecordHeader{Key: "chronosUrl", Value: []byte(url)})
}

// laneFile writes a configuration whose callback lanes may reach servers of this test.
func laneFile(tb testing.TB, timeout string) string {
	tb.Helper()
	lane := "\n    allowed: [127.0.0.1]\n    timeout: " + timeout
	return "lanes:\n  - name: http:*" + lane + "\n  - name: http:orders" + lane + "\n"
}

// reportLateness says how late messages were, and fails if one was early.
func reportLateness(tb testing.TB, came, deadlines map[string]time.Time) (p50, p99, most time.Duration) {
	tb.Helper()
	var late []time.Duration
	for id, at := range came {
		late = append(late, at.Sub(deadlines[id]))
		if at.Before(deadlines[id]) {
			tb.Errorf("%s came %v early", id, deadlines[id].Sub(at))
		}
	}
	slices.Sort(late)
	p50, p99, most = late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
	tb.Logf("lateness of %d callbacks: p50 %v, p99 %v, p99.9 %v, max %v", len(late), p50, p99,
		late[len(late)*999/1000], most)
	return p50, p99, most
}

// TestEndToEndCallbackHang has one of a hundred hosts hang, which has a tenth of all messages. Those of the others come
// while all requests to it still hang: they wait for none of these.
func TestEndToEndCallbackHang(t *testing.T) {
	t.Parallel()
	s := newService(t)
	release := make(chan struct{})
	var hanging, ended atomic.Int32
	r := receive(t, 100, func(host int, _ http.ResponseWriter, r *http.Request) {
		if host == 0 {
			hanging.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
			}
			ended.Add(1)
		}
	})
	defer close(release)
	s.start(t, "--output-topic", "http:orders", "--config", writeFile(t, "c.yaml", laneFile(t, "5m")))
	const messages = 2000
	deadlines := map[string]time.Time{}
	var batch []*kgo.Record
	begin := time.Now().Add(6 * time.Second)
	for i := range messages {
		id, host := fmt.Sprintf("m-%04d", i), 1+i%99
		if i%10 == 0 {
			id, host = "hung"+id, 0
		}
		deadlines[id] = begin.Add(time.Duration(i) * 2 * time.Millisecond).Truncate(time.Millisecond)
		batch = append(batch, s.callback(id, deadlines[id], r.servers[host].URL))
	}
	s.submit(t, batch...)
	came := r.await(t, messages*9/10, "hung", 2*patience)
	if hanging.Load() == 0 || ended.Load() > 0 {
		t.Errorf("%d requests to the host that hangs, of which %d have ended: want some, and that they hang",
			hanging.Load(), ended.Load())
	}
	if got := hanging.Load(); got > 16 {
		t.Errorf("%d requests to one host at the same time, want 16 at most", got)
	}
	reportLateness(t, came, deadlines)
}

// TestEndToEndCallbackKill kills a node with kill -9 while it makes callbacks, and has every tenth request fail: each
// message comes, none of them early, and the store is empty in the end.
func TestEndToEndCallbackKill(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var count atomic.Int32
	r := receive(t, 3, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if count.Add(1)%10 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	file := writeFile(t, "c.yaml", laneFile(t, "1s"))
	first := s.start(t, "--output-topic", "http:orders", "--config", file)
	s.start(t, "--output-topic", "http:orders", "--config", file)
	const messages = 2000
	deadlines := map[string]time.Time{}
	var batch []*kgo.Record
	begin := time.Now().Add(4 * time.Second)
	for i := range messages {
		id := fmt.Sprintf("m-%04d", i)
		deadlines[id] = begin.Add(time.Duration(i) * 2 * time.Millisecond).Truncate(time.Millisecond)
		batch = append(batch, s.callback(id, deadlines[id], r.servers[i%3].URL))
	}
	s.submit(t, batch...)
	r.await(t, messages/4, "", 2*patience)
	first.end(t, syscall.SIGKILL)
	came := r.await(t, messages, "", 2*patience)
	s.drained(t)
	reportLateness(t, came, deadlines)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d requests for %d messages", r.all, messages)
}

// BenchmarkCallbacks makes 1,000 callbacks a second, to eight local servers, with two nodes; -benchtime 60000x takes a
// minute.
func BenchmarkCallbacks(b *testing.B) {
	s := newService(b)
	r := receive(b, 8, func(int, http.ResponseWriter, *http.Request) {})
	file := writeFile(b, "c.yaml", laneFile(b, "5s"))
	for range 2 {
		s.start(b, "--output-topic", "http:orders", "--config", file)
	}
	deadlines := map[string]time.Time{}
	begin := time.Now().Add(5 * time.Second)
	for from := 0; from < b.N; from += 5000 {
		var batch []*kgo.Record
		for i := from; i < min(b.N, from+5000); i++ {
			id := fmt.Sprintf("m-%06d", i)
			deadlines[id] = begin.Add(time.Duration(i) * time.Millisecond).Truncate(time.Millisecond)
			batch = append(batch, s.callback(id, deadlines[id], r.servers[i%8].URL))
		}
		s.submit(b, batch...)
	}
	came := r.await(b, b.N, "", time.Duration(b.N)*time.Millisecond+2*patience)
	p50, p99, most := reportLateness(b, came, deadlines)
	b.ReportMetric(float64(p50)/1e6, "p50-ms")
	b.ReportMetric(float64(p99)/1e6, "p99-ms")
	b.ReportMetric(float64(most)/1e6, "max-ms")
	b.ReportMetric(float64(r.all)/float64(b.N), "requests/message")
}
