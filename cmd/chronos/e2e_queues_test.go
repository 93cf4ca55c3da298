package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// receiver is an application that is asked to do things.
type receiver struct {
	url string

	mu    sync.Mutex
	asked []string
}

// newReceiver starts one. It answers 200, or 410 below /gone.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		r.asked = append(r.asked, strings.TrimSpace(request.URL.Path+" "+string(body)))
		r.mu.Unlock()
		if strings.HasPrefix(request.URL.Path, "/gone") {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// awaits waits until so many requests have come, and returns them.
func (r *receiver) awaits(t *testing.T, count int) []string {
	t.Helper()
	var asked []string
	within(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		asked = slices.Clone(r.asked)
		return len(asked) >= count
	}, func() string { return fmt.Sprintf("%d requests, want %d: %q", len(asked), count, asked) })
	return asked
}

// within waits until something is so.
func within(t *testing.T, so func() bool, what func() string) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatal(what())
		}
	}
}

// asks makes a request of the API or of horae's interface, and returns the answer.
func asks(t *testing.T, method, url, body string) map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	text, err := io.ReadAll(response.Body)
	answer := map[string]any{}
	if err != nil || response.StatusCode >= 300 || json.Unmarshal(text, &answer) != nil {
		t.Fatalf("%s %s %s: %d %s %v", method, url, body, response.StatusCode, text, err)
	}
	return answer
}

// Goal: tasks of a sync queue come to their receiver one at a time, in order, each after the one before was completed;
// one whose request is refused fails, and the queue goes on; promises tell how each has ended; and an async queue runs
// what has waited when its window opens.
func TestQueuesEndToEnd(t *testing.T) {
	t.Parallel()
	p, _ := dev(t)
	api := p.stdout.await(t, `curl -X PUT (http://[^/]+)/v1/`, 1)[1]
	horae := p.stdout.await(t, `Queues as horae has them: (http://[^,]+),`, 1)[1]
	r := newReceiver(t)
	id := func(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }
	put := func(path, body string) { t.Helper(); asks(t, "PUT", api+"/v1/"+path, body) }
	put("actions/"+id(1, 1), `{"uri":"`+r.url+`/job/<<CHRONOS_TASK_UUID>>"}`)
	put("actions/"+id(1, 2), `{"uri":"`+r.url+`/gone"}`)
	put("actions/"+id(1, 3), `{"uri":"`+r.url+`/done","payload":"<<CHRONOS_TASK_UUID>> <<CHRONOS_TASK_STATUS>>"}`)
	put("queues/one", `{"kind":"sync"}`)
	for n := 1; n <= 3; n++ {
		action := id(1, 1)
		if n == 2 {
			action = id(1, 2)
		}
		put("tasks/"+id(2, n), `{"queue":"one","execution":"`+action+`","promise":["`+id(1, 3)+`"]}`)
	}
	want := []string{"/job/" + id(2, 1)}
	if got := r.awaits(t, 1); !slices.Equal(got, want) {
		t.Fatalf("asked %q, want %q", got, want)
	}
	asks(t, "GET", horae+"/v1/task/"+id(2, 1)+"/complete", "")
	got := r.awaits(t, 5) // the promise of the first, the second, its promise, the third
	slices.Sort(got)
	want = []string{
		"/done " + id(2, 1) + " Complete", "/done " + id(2, 2) + " Failure", "/gone",
		"/job/" + id(2, 1), "/job/" + id(2, 3),
	}
	if !slices.Equal(got, want) {
		t.Fatalf("asked %q, want %q", got, want)
	}
	done := asks(t, "POST", api+"/v1/tasks/"+id(2, 3)+"/complete", `{"status":"failure","reason":"no disk"}`)
	if done["status"] != "Failure" || done["changed"] != true {
		t.Errorf("it says %v", done)
	}
	r.awaits(t, 6)

	put("queues/night", `{"kind":"async","window":"never"}`)
	put("tasks/"+id(2, 4), `{"queue":"night","execution":"`+id(1, 1)+`"}`)
	if q := asks(t, "GET", api+"/v1/queues/night", ""); q["open"] != false || q["pending"] != float64(1) {
		t.Errorf("it says %v", q)
	}
	put("queues/night", `{"window":"always"}`)
	if got := r.awaits(t, 7); got[6] != "/job/"+id(2, 4) {
		t.Errorf("asked %q", got)
	}
	within(t, func() bool { return asks(t, "GET", api+"/v1/tasks/"+id(2, 4), "")["status"] == "Complete" },
		func() string { return "the async task is not complete" })
}

// Goal: a record with a queue in its headers is a task, which comes out as a record with the task in its headers, and a
// record completes it, so that the next one comes.
func TestQueuesByKafka(t *testing.T) {
	t.Parallel()
	p, address := dev(t)
	api := p.stdout.await(t, `curl -X PUT (http://[^/]+)/v1/`, 1)[1]
	asks(t, "PUT", api+"/v1/queues/jobs", `{"kind":"sync"}`)
	const first = "aaaaaaaa-0000-4000-8000-000000000001"
	send := func(id, value string) {
		t.Helper()
		got := run(t, "", "send", "--brokers", address, "--in", "0s", "--id", id, "--key", "k",
			"--header", "chronosQueue=jobs", value)
		if got.code != 0 {
			t.Fatalf("send: %s", got.stderr)
		}
	}
	send(first, "one")
	records := consume(t, address, "chronos.out", 1)
	send("second", "two")
	headers := map[string]string{}
	for _, h := range records[0].Headers {
		headers[h.Key] = string(h.Value)
	}
	if headers["chronosTask"] != first || headers["chronosTaskRun"] == "" || string(records[0].Value) != "one" ||
		string(records[0].Key) != "k" || headers["chronosQueue"] != "" {
		t.Fatalf("it came out as %q with %v", records[0].Value, headers)
	}
	c := client(t, address)
	defer c.Close()
	completion := &kgo.Record{Topic: "chronos.in", Headers: []kgo.RecordHeader{
		{Key: "chronosAction", Value: []byte("complete")},
		{Key: "chronosTask", Value: []byte(first)},
		{Key: "chronosTaskRun", Value: []byte(headers["chronosTaskRun"])},
	}}
	if err := c.ProduceSync(t.Context(), completion).FirstErr(); err != nil {
		t.Fatal(err)
	}
	records = consume(t, address, "chronos.out", 2)
	if string(records[1].Value) != "two" {
		t.Errorf("then came %q", records[1].Value)
	}
}
