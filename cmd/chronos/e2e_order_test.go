package main_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// work takes the receiver some two milliseconds.
func work() { <-time.After(2 * time.Millisecond) }

// TestEndToEndCallbackOrder has messages of a few keys, all due at once, come out by three nodes, of which one is
// killed in the middle. Each seventh request fails at first. No two of a key overlap, and their first successes are in
// the order of their deadlines, whatever the order in which they were submitted.
func TestEndToEndCallbackOrder(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.checkOrder(t, func(more ...string) *nodeProcess { return s.start(t, more...) })
	s.drained(t)
}

// TestEndToEndCallbackOrderJournal is the same with a journal: the partitions of the node that is killed are taken over
// by others, which know of a line what the journal says.
func TestEndToEndCallbackOrderJournal(t *testing.T) {
	t.Parallel()
	s := newJournalService(t)
	if said, code := s.command(t, "migrate", "up"); code != 0 {
		t.Fatal(said)
	}
	s.checkOrder(t, func(more ...string) *nodeProcess { return s.node(t, more...) })
}

// checkOrder does it with nodes that start starts.
func (s *service) checkOrder(t *testing.T, start func(more ...string) *nodeProcess) {
	t.Helper()
	var mu sync.Mutex
	busy, done := map[string]string{}, map[string][]string{}
	var overlaps []string
	failed, requests := map[string]bool{}, 0
	r := receive(t, 1, func(_ int, w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Chronos-Message-Id")
		key, _, _ := strings.Cut(id, ".")
		mu.Lock()
		defer mu.Unlock()
		if other := busy[key]; other != "" {
			overlaps = append(overlaps, other+" and "+id)
		}
		busy[key] = id
		mu.Unlock()
		work()
		mu.Lock()
		delete(busy, key)
		if requests++; requests%7 == 0 && !failed[id] {
			failed[id] = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if !slices.Contains(done[key], id) {
			done[key] = append(done[key], id)
		}
	})
	file := writeFile(t, "c.yaml", laneFile(t, "1s")+"    order: key\n")
	first := start("--output-topic", "http:orders", "--config", file)
	for range 2 {
		start("--output-topic", "http:orders", "--config", file)
	}
	const keys, each = 10, 12
	// All must have been taken in by then: nothing promises an order for what comes late.
	begin := time.Now().Add(12 * time.Second)
	var batch []*kgo.Record
	for i := range each {
		for k := range keys {
			place := (i*5 + k) % each // 5 and 12 have no common divisor, so each place comes once
			deadline := begin.Add(time.Duration(place) * time.Millisecond)
			record := s.callback(fmt.Sprintf("k%d.%02d", k, place), deadline, r.servers[0].URL)
			record.Key = fmt.Append(nil, "k", k)
			batch = append(batch, record)
		}
	}
	s.submit(t, batch...)
	r.await(t, keys*each/4, "", 2*patience)
	first.end(t, syscall.SIGKILL)
	r.await(t, keys*each, "", 2*patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	all := func() (count int) {
		mu.Lock()
		defer mu.Unlock()
		for _, ids := range done {
			count += len(ids)
		}
		return count
	}
	for tooLate := time.Now().Add(2 * patience); all() < keys*each && time.Now().Before(tooLate); { // what failed first
		<-ticker.C
	}
	mu.Lock()
	defer mu.Unlock()
	for k := range keys {
		if ids := done[fmt.Sprint("k", k)]; !slices.IsSorted(ids) || len(ids) != each {
			t.Errorf("key %d: %v", k, ids)
		}
	}
	if len(overlaps) > 0 {
		t.Errorf("at the same time: %v", overlaps)
	}
	if len(failed) == 0 {
		t.Error("no request has failed")
	}
	t.Logf("%d requests for %d messages of %d keys, %d of which failed once", requests, keys*each, keys, len(failed))
}
