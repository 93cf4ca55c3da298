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

// TestEndToEndCallbackGivenUp has the first message of each second key fail until its retry-for is over, while a node
// is killed. It ends as a dead letter that says why, not before its time; what stands behind it comes out after that,
// in order; the other keys do not wait for it; and nothing is lost.
func TestEndToEndCallbackGivenUp(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const keys, each, retryFor = 6, 5, 2 * time.Second
	fails := func(id string) bool { return id[1]%2 == 1 && strings.HasSuffix(id, ".0") }
	var mu sync.Mutex
	done := map[string][]string{}
	r := receive(t, 1, func(_ int, w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Chronos-Message-Id")
		if fails(id) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if key, _, _ := strings.Cut(id, "."); !slices.Contains(done[key], id) {
			done[key] = append(done[key], id)
		}
	})
	file := writeFile(t, "c.yaml", laneFile(t, "1s")+"    order: key\n    retry-for: "+retryFor.String()+"\n")
	first := s.start(t, "--output-topic", "http:orders", "--config", file)
	s.start(t, "--output-topic", "http:orders", "--config", file)
	deadlines := map[string]time.Time{}
	var batch []*kgo.Record
	begin := time.Now().Add(4 * time.Second).Truncate(time.Millisecond)
	for i := range each {
		for k := range keys {
			id := fmt.Sprintf("k%d.%d", k, i)
			deadlines[id] = begin.Add(time.Duration(i) * time.Millisecond)
			record := s.callback(id, deadlines[id], r.servers[0].URL)
			record.Key = fmt.Append(nil, "k", k)
			batch = append(batch, record)
		}
	}
	s.submit(t, batch...)
	r.await(t, keys/2*each+keys/2, "", 2*patience) // all of the keys that are well, and the first of the others
	first.end(t, syscall.SIGKILL)
	given := map[string]time.Time{}
	letters := s.read(t, s.dead, 2*patience, func(all []arrived) bool {
		for _, letter := range all {
			if id := header(letter.Record, "chronosMessageId"); given[id].IsZero() {
				given[id] = letter.Timestamp
			}
		}
		return len(given) >= keys/2
	})
	for _, letter := range letters {
		id := header(letter.Record, "chronosMessageId")
		if !fails(id) || header(letter.Record, "chronosReason") != "callback_failed" ||
			header(letter.Record, "chronosStatus") != "503" || string(letter.Value) != "value "+id {
			t.Errorf("the dead letter %s: %q, %v", id, letter.Value, letter.Headers)
		}
	}
	came := r.await(t, keys*each, "", 2*patience)
	s.drained(t)
	mu.Lock()
	defer mu.Unlock()
	for k := range keys {
		key := fmt.Sprint("k", k)
		ids, want := done[key], each
		if k%2 == 1 {
			want = each - 1
			if over := deadlines[key+".0"].Add(retryFor); came[key+".1"].Before(over) || given[key+".0"].Before(over) {
				t.Errorf("%s.0 was given up before its time", key)
			}
		}
		if !slices.IsSorted(ids) || len(ids) != want {
			t.Errorf("key %d: %v", k, ids)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d requests, %d dead letters", r.all, len(letters))
}
