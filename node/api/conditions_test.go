package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/api"
)

// Goal: no condition is passed over. What is no ETag of a message is none that any message has, and what the store
// cannot see to in one step is refused. Method: each of them, on a message that waits and one that does not.
func TestConditions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x = "/v1/lanes/out/messages/x"
	w.ask(t, "PUT", x, `{"delay":"1h"}`).want(t, 201, "scheduled")
	w.ask(t, "DELETE", x, "", "If-Match", `"`+uuid.Nil.String()+`"`).want(t, 412, "")
	w.ask(t, "PUT", x+"?on-duplicate=replace", `{"delay":"3h"}`, "If-None-Match", "*").want(t, 422, "")
	w.ask(t, "PUT", x+"?on-duplicate=replace", `{"delay":"3h"}`, "If-Match", "*").want(t, 422, "")
	w.ask(t, "PUT", "/v1/lanes/out/messages/y", `{"delay":"3h"}`, "If-Match", " * ").want(t, 422, "")
	w.ask(t, "PUT", x, `{"delay":"3h"}`, "If-None-Match", "*").want(t, 200, "ignored")
	w.ask(t, "PATCH", x, `{"delay":"2h"}`, "If-Match", "*").want(t, 200, "rescheduled")
	w.ask(t, "DELETE", "/v1/lanes/out/messages/y", "", "If-Match", "*").want(t, 404, "not_found")
}

// Goal: bytes are stored as they were sent, or refused: nothing puts U+FFFD in the place of what it cannot read. And
// there is one place for each thing that a message says. Method: one mistake each.
func TestNothingIsPutRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x = "/v1/lanes/out/messages/x"
	for _, c := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{
			"PUT", x, `{"delay":"1h","value":"` + strings.Repeat("x", 3000) + `","hours":1}`, 422, "invalid",
			"body.hours",
		},
		{"PUT", x, `{"delay":"1h","value":"` + "\xff" + `"}`, 400, "invalid", "body"},
		{"PUT", x, `{"delay":"1h","value":"\ud800"}`, 422, "invalid", "body"},
		{"PUT", x, `{"delay":"1h","key":{"text":"� \ufffd \uDC00"}}`, 422, "invalid", "body"},
		{
			"PUT", "/v1/lanes/http:a/messages/x", `{"delay":"1h","url":"http://a","headers":[{"name":"chronosUrl",
			"value":"http://b"}]}`, 422, "invalid", "body.headers[0].name",
		},
		{"PUT", "/v1/lanes/http:a/messages/x", `{"delay":"1h","url":"http://a","headers":[{"name":"chronosMethod",
			"value":"PUT"}]}`, 422, "invalid", "body.headers[0].name"},
	} {
		got := w.ask(t, c.method, c.path, c.body)
		if got.code != c.status || got.Code != c.code || got.field() != c.field || len(got.text) > 1500 {
			t.Errorf("%.60s: status %d, code %q, field %q: %s", c.body, got.code, got.Code, got.field(), got.text)
		}
	}
	w.ask(t, "PUT", x, `{"delay":"1h","key":"\ufffd","value":"�\uD83D\uDE00"}`).want(t, 201, "scheduled")
	if row := w.store.Dump()[0]; string(row.Key) != "�" || string(row.Value) != "�😀" {
		t.Errorf("stored: %q, %q", row.Key, row.Value)
	}
}

// Goal: a message is not moved to where it would expire, and be answered as one that comes out. Method: one that may
// come out for an hour, moved to the last instant and beyond, by deadline and by delay, and by requests that are
// repeated when the delay leads beyond.
func TestPatchBeyond(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x, y = "/v1/lanes/out/messages/x", "/v1/lanes/out/messages/y"
	const limited = `{"delay":"10m","not_after":"2030-01-31T10:00:00Z"}`
	first := w.ask(t, "PUT", x, limited).want(t, 201, "scheduled")
	w.ask(t, "PUT", "/v1/lanes/mails.a/messages/x", `{"delay":"10m"}`).want(t, 201, "scheduled")

	for _, body := range []string{`{"deadline":"2030-01-31T10:00:00.000001Z"}`, `{"delay":"61m"}`} {
		for _, headers := range [][]string{nil, {"Idempotency-Key", "beyond"}, {"If-Match", first.header.Get("ETag")}} {
			got := w.ask(t, "PATCH", x, body, headers...).want(t, 422, "")
			if got.Code == "idempotency_key_reused" {
				continue // the second body, under the key of the first
			}
			if got.Code != string(node.InvalidNotAfter) || got.field() != "body.deadline" {
				t.Errorf("%s: %s", body, got.text)
			}
		}
	}
	w.ask(t, "PATCH", x, `{"delay":"61m"}`, "If-Match", `"8a7c3c6e-0000-4000-8000-000000000000"`).want(t, 412, "")
	w.ask(t, "PATCH", "/v1/lanes/mails.a/messages/x", `{"delay":"61m"}`).want(t, 200, "rescheduled")
	w.ask(t, "PATCH", x, `{"deadline":"2030-01-31T10:00:00Z"}`).want(t, 200, "rescheduled")

	w.ask(t, "PUT", y, limited).want(t, 201, "scheduled")
	move := func() *reply { return w.ask(t, "PATCH", y, `{"delay":"50m"}`, "Idempotency-Key", "move") }
	moved := move().want(t, 200, "rescheduled")
	w.now = w.now.Add(20 * time.Minute)
	if again := move().want(t, 200, "rescheduled"); !again.Repeated || !again.Deadline.Equal(*moved.Deadline) {
		t.Errorf("repeated: %s", again.text)
	}
	w.ask(t, "POST", y+":fire", "").want(t, 200, "fired")
	w.ask(t, "PUT", "/v1/lanes/out/messages/z", limited).want(t, 201, "scheduled")
	w.now = w.now.Add(time.Hour)
	if got := w.ask(t, "POST", "/v1/lanes/out/messages/z:fire", "").want(t, 422, ""); got.Code != "invalid_not_after" {
		t.Errorf("fired when its time has passed: %s", got.text)
	}
}

// Goal: a key names one request, and no other one that is like it. Method: another lane, another id, another action and
// another condition, under the key of the first.
func TestKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x = "/v1/lanes/out/messages/x"
	key := []string{"Idempotency-Key", "k"}
	first := w.ask(t, "PUT", x, `{"delay":"1h"}`, key...).want(t, 201, "scheduled")
	w.ask(t, "PUT", "/v1/lanes/mails.a/messages/x", `{"delay":"1h"}`, key...).want(t, 422, "")
	w.ask(t, "PUT", "/v1/lanes/out/messages/y", `{"delay":"1h"}`, key...).want(t, 422, "")
	w.ask(t, "PUT", x+"?on-duplicate=replace", `{"delay":"1h"}`, key...).want(t, 422, "")
	w.ask(t, "PATCH", x, `{"delay":"1h"}`, key...).want(t, 422, "")
	w.ask(t, "PUT", x, `{"delay":"1h"}`, append(key, "If-Match", first.header.Get("ETag"))...).want(t, 422, "")
	w.ask(t, "PUT", x, `{"delay":"1h"}`, key...).want(t, 201, "scheduled")
}

// Goal: a lane is a name space of its own. Method: one id on two lanes; what is asked of the one tells and changes
// nothing of the other.
func TestOneIDOnTwoLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(t, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h","value":"out"}`).want(t, 201, "scheduled")
	w.ask(t, "GET", "/v1/lanes/mails.a/messages/x", "").want(t, 404, "")
	w.ask(t, "PUT", "/v1/lanes/mails.a/messages/x", `{"delay":"2h","value":"mails"}`).want(t, 201, "scheduled")
	got := w.ask(t, "GET", "/v1/lanes/mails.a/messages/x", "").want(t, 200, "")
	if !strings.Contains(got.text, `"value":{"text":"mails"}`) {
		t.Errorf("shown: %s", got.text)
	}
	w.ask(t, "PUT", "/v1/lanes/mails.b/messages/x", `{"delay":"10m","not_after":"2030-01-31T09:20:00Z"}`).
		want(t, 201, "scheduled")
	w.ask(t, "PATCH", "/v1/lanes/out/messages/x", `{"delay":"3h"}`).want(t, 200, "rescheduled")
}

// Dead letters of callbacks are nobody's either.
func TestOwnLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *api.API) {
		a.Node.Callbacks.Lanes = []node.CallbackLane{{Name: "http:a", DeadLetter: "http:failed"}, {Name: "http:failed"}}
	})
	w.ask(t, "PUT", "/v1/lanes/http:failed/messages/x", `{"delay":"1h","url":"http://a"}`).want(t, 403, "")
	w.ask(t, "DELETE", "/v1/lanes/http:failed/messages/x", "").want(t, 403, "")
	w.ask(t, "PUT", "/v1/lanes/http:a/messages/x", `{"delay":"1h","url":"http://a"}`).want(t, 201, "scheduled")
}

// A value in JSON has its content type, unless the message says another one.
func TestContentType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(t, "PUT", "/v1/lanes/http:a/messages/x", `{"delay":"1h","url":"http://a","value":{"json":1},
		"headers":[{"name":"content-TYPE","value":"application/ld+json"}]}`).want(t, 201, "scheduled")
	if got := fmt.Sprintf("%s", w.store.Dump()[0].Headers); got !=
		"[{chronosUrl http://a} {content-TYPE application/ld+json}]" {
		t.Errorf("headers: %s", got)
	}
}

// A series ends after as many occurrences as were asked for.
func TestSeriesEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(t, "PUT", "/v1/lanes/out/messages/s", `{"recurrence":{"repeat":"every 1h","count":7,"missed":"all"}}`).
		want(t, 201, "scheduled")
	if got := w.store.Dump()[0].Series; !strings.Contains(got, "7") {
		t.Errorf("the series is %q", got)
	}
}
