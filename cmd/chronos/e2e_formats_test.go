package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// TestEndToEndFormats sends records as the users of Amnesix and of etf1 do to a node with a route for each. Jobs and
// schedules come once, as they were written last and not early, those that were cancelled do not, and a bad one
// becomes a dead letter.
func TestEndToEndFormats(t *testing.T) {
	t.Parallel()
	s := newService(t)
	type asked struct {
		path, body, kind, id string
		at                   time.Time
	}
	came := make(chan asked, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- asked{
			r.URL.Path, string(body), r.Header.Get("Content-Type"), r.Header.Get("Chronos-Message-Id"), time.Now(),
		}
	}))
	t.Cleanup(receiver.Close)
	jobs := s.input + ".jobs"
	s.cluster.CreateTopic(t, jobs, 4)
	file := filepath.Join(t.TempDir(), "chronos.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `routes:
  - {input: %s, format: amnesix, output: http:jobs, dead-letter: %s}
  - {input: %s, format: etf1, output: %s, dead-letter: %s}
lanes:
  - {name: http:jobs, allowed: [127.0.0.1]}
`, jobs, s.dead, s.input, s.output, s.dead), 0o600); err != nil {
		t.Fatal(err)
	}
	s.launch(t, "--brokers", s.brokers, "--group", s.input, "--config", file).log.await(t, `"msg":"started"`, 1)
	// Longer than it takes to get partitions and to take all in.
	due := time.Now().Add(15 * time.Second).Truncate(time.Second)
	job := func(id, path string, at any) *kgo.Record {
		value, err := json.Marshal(map[string]any{"id": id, "time": at, "url": receiver.URL + path})
		if err != nil {
			t.Fatal(err)
		}
		return &kgo.Record{Topic: jobs, Key: []byte("subject"), Value: value}
	}
	schedule := func(id, value string) *kgo.Record {
		return &kgo.Record{Topic: s.input, Key: []byte(id), Value: []byte(value), Headers: []kgo.RecordHeader{
			{Key: "customer-header", Value: []byte("dummy")},
			{Key: node.HeaderETF1Epoch, Value: fmt.Append(nil, due.Unix())},
			{Key: node.HeaderETF1Topic, Value: []byte(s.output)},
			{Key: node.HeaderETF1Key, Value: []byte("vid1")},
		}}
	}
	second := job("a", "/second", fmt.Sprint(due.Unix()))
	s.submit(t,
		job("a", "/first", due.Unix()), job("b", "/never", due.Unix()), second,
		&kgo.Record{Topic: jobs, Key: []byte("subject"), Headers: []kgo.RecordHeader{
			{Key: node.HeaderID, Value: []byte("b")},
		}},
		&kgo.Record{Topic: jobs, Key: []byte("subject"), Value: []byte(`{"id":"c"}`)},
		schedule("online", "first"), schedule("offline", "never"), schedule("online", "second"),
		&kgo.Record{Topic: s.input, Key: []byte("offline")},
	)
	out := s.read(t, s.output, patience, func(all []arrived) bool { return len(all) >= 1 })
	select {
	case got := <-came:
		want := asked{"/second", string(second.Value), "application/json", "subject/a", got.at}
		if got != want || got.at.Before(due) {
			t.Errorf("the request %+v, want %+v, not before %v", got, want, due)
		}
	case <-time.After(patience):
		t.Fatal("no request came")
	}
	s.drained(t)
	if len(out) != 1 || string(out[0].Value) != "second" || string(out[0].Key) != "vid1" || out[0].at.Before(due) {
		t.Errorf("on %s came %+v", s.output, out)
	}
	headers := map[string]string{}
	for _, h := range out[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers["customer-header"] != "dummy" || headers["scheduler-key"] != "online" ||
		headers["scheduler-topic"] != s.input || headers["scheduler-timestamp"] == "" ||
		headers[node.HeaderETF1Epoch] != fmt.Sprint(due.Unix()) {
		t.Errorf("its headers are %v", headers)
	}
	if len(came) != 0 {
		t.Errorf("another request came: %+v", <-came)
	}
	dead := s.read(t, s.dead, patience, func(all []arrived) bool { return len(all) >= 1 })
	if len(dead) != 1 || string(dead[0].Value) != `{"id":"c"}` {
		t.Errorf("dead letters %+v", dead)
	}
}
