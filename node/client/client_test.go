package client_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/node/client"
)

// flaky is an API whose first answers get lost, after what they are about has happened, or which refuses the first
// requests.
type flaky struct {
	http.Handler

	mu     sync.Mutex
	lose   int
	refuse int
	keys   []string
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
	if f.refuse > 0 {
		f.refuse--
		w.Header().Set("Retry-After", "0")
		http.Error(w, `a proxy says: try again`, http.StatusServiceUnavailable)
		return
	}
	recorder := httptest.NewRecorder()
	f.Handler.ServeHTTP(recorder, r)
	if f.lose > 0 {
		f.lose--
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), recorder.Header())
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

// newFlaky returns a client of such an API.
func newFlaky(t *testing.T) (*client.Client, *flaky) {
	t.Helper()
	inner := newNode()
	t.Cleanup(inner.Close)
	f := &flaky{Handler: inner.Config.Handler}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URL: server.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

// Goal: whatever happens to answers, an effect is there once, and the caller hears the first answer. Method: an API
// that loses answers, and one that refuses.
func TestRepeats(t *testing.T) {
	t.Parallel()
	c, f := newFlaky(t)
	message := client.Message{When: client.In(time.Hour)}
	f.lose = 2
	outcome, err := c.Post(t.Context(), "reminders", message)
	if err != nil || outcome.Outcome != "scheduled" || !outcome.Repeated {
		t.Errorf("post: %+v, %v", outcome, err)
	}
	f.lose = 1
	if outcome, err = c.Cancel(t.Context(), "reminders", outcome.ID); err != nil || outcome.Outcome != "cancelled" {
		t.Errorf("cancel: %+v, %v", outcome, err)
	}
	f.refuse = 2
	outcome, err = c.Put(t.Context(), "reminders", "x", message, client.WithKey("mine"))
	if err != nil || outcome.Repeated {
		t.Errorf("put: %+v, %v", outcome, err)
	}
	f.refuse = 100
	if _, err = c.Put(t.Context(), "reminders", "y", message); err == nil || !strings.Contains(err.Error(), "a proxy "+
		"says") {
		t.Errorf("an API that is away: %v", err)
	}
	count, err := func() (client.Count, error) { f.refuse = 0; return c.Count(t.Context(), "reminders") }()
	if err != nil || count.Waiting != 1 {
		t.Errorf("left: %+v, %v", count, err)
	}
	k := f.keys
	if k[0] == "" || k[0] != k[2] || k[3] == k[0] || k[5] != "mine" || k[7] != "mine" {
		t.Errorf("keys: %q", f.keys)
	}
}

// Goal: the caller is told that nobody knows where that is so, also when the last answer is that nothing was done: it
// is about the last try. Whatever a balancer answers in place of a node is no answer. Method: answers in a row, 0 for
// one that is lost.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers []string
		tries   int
		unknown bool
	}{
		{[]string{"201"}, 1, false},
		{[]string{"422 invalid"}, 1, false},
		{[]string{"503 busy"}, 3, false},
		{[]string{"503 not_taken"}, 3, false},
		{[]string{"429 too_many_waiting"}, 3, false},
		{[]string{"503 unknown"}, 3, true},
		{[]string{"502"}, 3, true},
		{[]string{"504", "201"}, 2, false},
		{[]string{"500 internal"}, 1, true},
		{[]string{"0"}, 3, true},
		{[]string{"0", "503 busy"}, 3, true},
		{[]string{"503 unknown", "503 busy"}, 3, true},
		{[]string{"502", "429 too_many_requests"}, 3, true},
		{[]string{"0", "401 unauthorized"}, 2, true},
		{[]string{"0", "422 invalid"}, 2, false},
		{[]string{"503 busy", "0", "409 too_late"}, 3, false},
	} {
		var tries atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			try := int(tries.Add(1))
			word, code, _ := strings.Cut(c.answers[min(try, len(c.answers))-1], " ")
			status, _ := strconv.Atoi(word)
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]any{"detail": "it is so", "code": code})
		}))
		t.Cleanup(server.Close)
		asker, err := client.New(client.Config{URL: server.URL, Tries: 3})
		if err != nil {
			t.Fatal(err)
		}
		_, err = asker.Put(t.Context(), "reminders", "x", client.Message{When: client.In(time.Hour)})
		fails := c.answers[len(c.answers)-1] != "201"
		if client.IsUnknown(err) != c.unknown || int(tries.Load()) != c.tries || (err != nil) != fails {
			t.Errorf("%q: %v, unknown: %v, after %d tries; want %v, %d", c.answers, err, client.IsUnknown(err),
				tries.Load(), c.unknown, c.tries)
		}
	}
}

// Goal: a message comes back as it was put, whatever its bytes are; and each option is heard.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c, _ := newFlaky(t)
	deadline := time.Date(2040, 2, 29, 12, 0, 0, 123456000, time.UTC)
	for i, bytesOf := range [][]byte{nil, {}, []byte("text"), {0, 0xff}, []byte(`{"a":1}`)} {
		id := fmt.Sprintf("../%d?#é", i)
		put, err := c.Put(t.Context(), "reminders", id, client.Message{
			When: client.At(deadline), NotAfter: deadline.Add(time.Hour), Key: bytesOf, Value: bytesOf,
			Headers: []client.Header{{"a", bytesOf}, {"a", nil}},
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Get(t.Context(), "reminders", id)
		if err != nil || got.ID != id || !got.Deadline.Equal(deadline) || got.Incarnation != put.Incarnation {
			t.Errorf("%+v, %v", got, err)
		}
		want, _ := json.Marshal(got.Key)
		for _, b := range []any{got.Value, got.Headers[0].Value} {
			text, _ := json.Marshal(b)
			if !bytes.Equal(text, want) || got.Headers[1].Value != nil || (got.Key == nil) != (bytesOf == nil) {
				t.Errorf("%q: %s, want %s", bytesOf, text, want)
			}
		}
		later := client.Message{When: client.In(time.Hour)}
		replaced, err := c.Put(t.Context(), "reminders", id, later, client.Replace())
		if err != nil || replaced.Outcome != "replaced" || !replaced.Former.Equal(deadline) {
			t.Errorf("%+v, %v", replaced, err)
		}
		if _, err := c.Cancel(t.Context(), "reminders", id, client.IfMatch(put.Incarnation)); !client.IsNotFound(err) {
			t.Errorf("cancel of another incarnation: %v", err)
		}
		this := client.IfMatch(replaced.Incarnation)
		moved, err := c.Reschedule(t.Context(), "reminders", id, client.At(deadline), this)
		if err != nil || moved.Outcome != "rescheduled" {
			t.Errorf("%+v, %v", moved, err)
		}
	}
	_, err := c.Put(t.Context(), "reminders", "x", client.Message{})
	if err == nil || !strings.Contains(err.Error(), "422") || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("without a deadline: %v", err)
	}
	n := 0
	for _, err := range c.List(t.Context(), "reminders", client.Query{State: "waiting", From: time.Now()}) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 5 {
		t.Errorf("%d messages are listed", n)
	}
	for _, wrong := range []string{"", "localhost:8081", "ftp://x", "http://"} {
		if _, err := client.New(client.Config{URL: wrong}); err == nil {
			t.Errorf("a client of %q", wrong)
		}
	}
}
