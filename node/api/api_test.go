package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/api"
	"chronos/node/store/memory"
)

// world is a memory store with the API over it.
type world struct {
	store *memory.Store
	api   *api.API
	now   time.Time

	mu           sync.Mutex
	requests     []api.Request
	instructions []api.Instruction

	handler http.Handler
}

// newWorld returns one whose clock stands still. change changes the API before it is served.
func newWorld(t *testing.T, change func(*api.API)) *world {
	t.Helper()
	w := &world{now: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)}
	w.store = memory.New(func() time.Time { return w.now })
	config := node.Default()
	config.Routes = []node.Route{{
		Input: "in", Output: "out", Targets: []string{"mails.*"}, DeadLetter: "dead", Outcomes: "outcomes",
	}}
	config.Callbacks.Any = true
	config.Limits.MaxDelay = 24 * 365 * time.Hour
	w.api = &api.API{
		Node: &config, Taker: w.store, Store: w.store, Outlook: w.store, Now: func() time.Time { return w.now },
		Callback: func(_ string, headers []node.Header) error {
			if !slices.ContainsFunc(headers, func(h node.Header) bool {
				return h.Name == node.HeaderURL && strings.HasPrefix(string(h.Value), "http://")
			}) {
				return errors.New("there is no header " + node.HeaderURL)
			}
			return nil
		},
		Observe: func(event api.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			switch e := event.(type) {
			case api.Request:
				w.requests = append(w.requests, e)
			case api.Instruction:
				w.instructions = append(w.instructions, e)
			}
		},
	}
	if change != nil {
		change(w.api)
	}
	w.handler = w.api.Handler()
	return w
}

// reply is the answer to a request.
type reply struct {
	code   int
	header http.Header
	text   string

	// What is in the body, be it an outcome, a message or a problem.
	api.Outcome
	Code   string
	Detail string
	Errors []struct{ Location, Message string }
}

// field returns where the field is that a problem names.
func (r *reply) field() string {
	if len(r.Errors) == 0 {
		return ""
	}
	return r.Errors[0].Location
}

// ask makes a request; headers are names and values in turn.
func (w *world) ask(t *testing.T, method, path, body string, headers ...string) *reply {
	t.Helper()
	return ask(t, w.handler, method, path, body, headers...)
}

func ask(t *testing.T, handler http.Handler, method, path, body string, headers ...string) *reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:1"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	got := &reply{code: recorder.Code, header: recorder.Header(), text: recorder.Body.String()}
	if strings.Contains(got.header.Get("Content-Type"), "json") {
		_ = json.Unmarshal(recorder.Body.Bytes(), got) // the outcome of a problem is an object
	}
	if isProblem := strings.HasPrefix(got.header.Get("Content-Type"), "application/problem+json"); isProblem !=
		(got.code >= 400) && method != http.MethodHead {
		t.Errorf("%s %s: status %d with a body of type %q: %s", method, path, got.code,
			got.header.Get("Content-Type"), got.text)
	}
	documented(t, r, got.code)
	return got
}

// want checks the status and the outcome of an answer.
func (r *reply) want(t *testing.T, code int, outcome string) *reply {
	t.Helper()
	if r.code != code || !strings.Contains(r.text, `"outcome":"`+outcome+`"`) && outcome != "" {
		t.Fatalf("status %d, want %d with %q: %s", r.code, code, outcome, r.text)
	}
	return r
}

// Goal: each instruction has the effect and the answer that the table in docs/HTTP.md says. Method: a life of messages,
// step by step.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x = "/v1/lanes/out/messages/x"
	w.ask(t, "GET", x, "").want(t, 404, "")
	w.ask(t, "DELETE", x, "").want(t, 404, "not_found")
	w.ask(t, "PATCH", x, `{"delay":"1h"}`).want(t, 404, "not_found")
	w.ask(t, "POST", x+":fire", "").want(t, 404, "not_found")

	created := w.ask(t, "PUT", x, `{"delay":"1h","key":"k","value":{"json":{"a": 1}},
		"headers":[{"name":"a","value":"b"},{"name":"null"},{"name":"bytes","value":{"base64":"AP8="}},
		{"name":"empty","value":{"base64":""}}]}`).
		want(t, 201, "scheduled")
	if created.header.Get("Location") != x || !created.Deadline.Equal(w.now.Add(time.Hour)) ||
		created.header.Get("ETag") != `"`+created.Incarnation+`"` {
		t.Errorf("created: %+v", created)
	}
	row := w.store.Dump()[0]
	if string(row.Key) != "k" || string(row.Value) != `{"a": 1}` || len(row.Headers) != 4 ||
		row.Headers[1].Value != nil || !bytes.Equal(row.Headers[2].Value, []byte{0, 0xff}) ||
		row.Headers[3].Value == nil || len(row.Headers[3].Value) > 0 {
		t.Errorf("stored: %+v", row)
	}
	seen := w.ask(t, "GET", x, "").want(t, 200, "")
	if seen.header.Get("ETag") != created.header.Get("ETag") || !strings.Contains(seen.text, `{\"a\": 1}`) {
		t.Errorf("seen: %s", seen.text)
	}
	ignored := w.ask(t, "PUT", x, `{"delay":"2h"}`).want(t, 200, "ignored")
	if ignored.Incarnation != created.Incarnation || !ignored.Deadline.Equal(*created.Deadline) {
		t.Errorf("ignored: %+v", ignored)
	}
	replaced := w.ask(t, "PUT", x+"?on-duplicate=replace", `{"deadline":"2030-02-01T00:00:00Z"}`).
		want(t, 200, "replaced")
	if replaced.Incarnation == created.Incarnation || !replaced.Former.Equal(*created.Deadline) {
		t.Errorf("replaced: %+v", replaced)
	}
	w.ask(t, "DELETE", x, "", "If-Match", created.header.Get("ETag")).want(t, 412, "not_found")
	w.ask(t, "DELETE", x, "", "If-Match", `"nonsense"`).want(t, 412, "")
	moved := w.ask(t, "PATCH", x, `{"delay":"PT90M"}`, "If-Match", replaced.header.Get("ETag")).
		want(t, 200, "rescheduled")
	if !moved.Deadline.Equal(w.now.Add(90 * time.Minute)) {
		t.Errorf("moved: %+v", moved)
	}
	w.ask(t, "DELETE", x, "").want(t, 200, "cancelled")
	w.ask(t, "PUT", x, `{"delay":"1h"}`).want(t, 201, "scheduled")
	w.ask(t, "POST", x+":fire", "").want(t, 200, "fired")
	late := w.ask(t, "DELETE", x, "").want(t, 409, "too_late")
	if late.Code != "too_late" || late.header.Get("ETag") == "" {
		t.Errorf("late: %+v", late)
	}
	made := w.ask(t, "POST", "/v1/lanes/out/messages", `{"delay":"1h"}`).want(t, 201, "scheduled")
	if _, err := uuid.Parse(made.ID); err != nil || made.header.Get("Location") != "/v1/lanes/out/messages/"+made.ID {
		t.Errorf("made: %+v", made)
	}
	series := w.ask(t, "PUT", "/v1/lanes/mails.a/messages/s", `{"recurrence":{"repeat":"30 9 * * *",
		"zone":"Europe/Berlin","count":3,"until":"2031-01-01T00:00Z","missed":"skip"}}`).want(t, 201, "scheduled")
	if series.Sequence != 1 || !series.Deadline.Equal(time.Date(2030, 2, 1, 8, 30, 0, 0, time.UTC)) {
		t.Errorf("series: %+v", series)
	}
	w.ask(t, "DELETE", "/v1/lanes/mails.a/messages/s", "").want(t, 200, "cancelled")
	w.ask(t, "PUT", "/v1/lanes/http:a/messages/c",
		`{"delay":"1h","url":"http://a","method":"PUT","value":{"json":[1]}}`).want(t, 201, "scheduled")
	rows := w.store.Dump()
	call := rows[slices.IndexFunc(rows, func(row memory.Row) bool { return row.ID == "c" })]
	if fmt.Sprintf("%s", call.Headers) != "[{chronosUrl http://a} {chronosMethod PUT} {Content-Type "+
		"application/json}]" {
		t.Errorf("a callback has the headers %s", call.Headers)
	}
	if len(w.requests) < 18 || len(w.instructions) < 14 || w.requests[1].Operation != "cancel" ||
		w.requests[1].Status != 404 || w.instructions[0].Outcome != node.NotFound {
		t.Errorf("observed: %+v, %+v", w.requests, w.instructions)
	}
}

// Goal: what is no valid request is refused with the field that is to blame, by the rules that records follow, and
// changes nothing. Method: one mistake each.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *api.API) { a.Limits.Bytes = 10_000 })
	const x = "/v1/lanes/out/messages/x"
	for _, c := range []struct {
		method, path, body string
		status             int
		code, field        string
	}{
		{"PUT", x, `{}`, 422, "missing_deadline", "body.deadline"},
		{"PUT", x, `{"deadline":"tomorrow"}`, 422, "invalid_deadline", "body.deadline"},
		{"PUT", x, `{"deadline":"1893456000"}`, 422, "invalid_deadline", "body.deadline"},
		{"PUT", x, `{"deadline":"2030-01-31T10:00Z","delay":"1h"}`, 422, "deadline_and_delay", "body.delay"},
		{"PUT", x, `{"delay":"soon"}`, 422, "invalid_delay", "body.delay"},
		{"PUT", x, `{"delay":"-1h"}`, 422, "invalid_delay", "body.delay"},
		{"PUT", x, `{"delay":"10000h"}`, 422, "too_far", "body.deadline"},
		{"PUT", x, `{"delay":"1h","not_after":"2030-01-31T09:30Z"}`, 422, "invalid_not_after", "body.not_after"},
		{"PUT", x, `{"recurrence":{"repeat":"sometimes"}}`, 422, "", "body.recurrence.repeat"},
		{"PUT", x, `{"recurrence":{"repeat":"@daily","zone":"Mars/Base"}}`, 422, "", "body.recurrence.zone"},
		{"PUT", x, `{"recurrence":{"repeat":"@daily","count":0}}`, 422, "", "body.recurrence.count"},
		{"PUT", x, `{"recurrence":{"repeat":""},"delay":"1h"}`, 422, "invalid_repeat", "body.recurrence.repeat"},
		{
			"PUT", x, `{"recurrence":{"repeat":"@daily"},"not_after":"2031-01-01T00:00Z"}`, 422, "invalid_not_after",
			"body.not_after",
		},
		{"PUT", x, `{"delay":"1h","value":7}`, 422, "", "body.value"},
		{"PUT", x, `{"delay":"1h","value":{"base64":"%%"}}`, 422, "", ""},
		{"PUT", x, `{"delay":"1h","value":{"text":"a","json":1}}`, 422, "", "body.value"},
		{
			"PUT", x, `{"delay":"1h","headers":[{"name":"chronosAction","value":"cancel"}]}`, 422, "invalid",
			"body.headers[0].name",
		},
		{"PUT", x, `{"delay":"1h","hours":1}`, 422, "", "body.hours"},
		{"PUT", x, `{"delay":`, 400, "", "body"},
		{"PUT", x, ``, 400, "", ""},
		{"PUT", x, `[]`, 422, "", "body"},
		{"PUT", x, `{"delay":"1h","url":"http://a"}`, 422, "invalid", "body.url"},
		{"PUT", "/v1/lanes/http:a/messages/x", `{"delay":"1h"}`, 422, "invalid", "body.url"},
		{"PUT", "/v1/lanes/http:a/messages/x", `{"delay":"1h","url":"ftp://a"}`, 422, "invalid", "body.url"},
		{"PUT", "/v1/lanes/out/messages/x", `{"delay":"1h","method":"PUT"}`, 422, "invalid", "body.url"},
		{"PUT", x, `{"delay":"1h","value":"` + strings.Repeat("x", 10_000) + `"}`, 413, "", ""},
		{"PUT", x + "?on-duplicate=maybe", `{"delay":"1h"}`, 422, "", "query.on-duplicate"},
		{"PUT", "/v1/lanes/out/messages/" + strings.Repeat("x", 129), `{"delay":"1h"}`, 422, "id_too_long", "path.id"},
		{"PUT", "/v1/lanes/out/messages/a%00b", `{"delay":"1h"}`, 422, "invalid_id", "path.id"},
		{"PUT", "/v1/lanes/out/messages/%FF", `{"delay":"1h"}`, 422, "", "path.id"},
		{"PUT", "/v1/lanes/other/messages/x", `{"delay":"1h"}`, 404, "unknown_lane", "path.lane"},
		{"PUT", "/v1/lanes/in/messages/x", `{"delay":"1h"}`, 404, "unknown_lane", "path.lane"},
		{"PUT", "/v1/lanes/dead/messages/x", `{"delay":"1h"}`, 403, "unknown_lane", "path.lane"},
		{"PUT", "/v1/lanes/outcomes/messages/x", `{"delay":"1h"}`, 403, "unknown_lane", "path.lane"},
		{"DELETE", "/v1/lanes/outcomes/messages/x", ``, 403, "unknown_lane", "path.lane"},
		{"PUT", "/v1/lanes/http:/messages/x", `{"delay":"1h"}`, 404, "unknown_lane", "path.lane"},
		{"PATCH", x, `{}`, 422, "missing_deadline", "body.deadline"},
		{"PATCH", x, `{"delay":"1h","value":"x"}`, 422, "", "body.value"},
		{"POST", x, ``, 405, "", ""},
		{"POST", "/v1/lanes/out/messages/x:explode", ``, 405, "", ""},
		{"GET", "/v1/lanes", ``, 404, "not_found", ""},
		{"PUT", "/v1/lanes/out/messages", `{}`, 405, "", ""},
		{"GET", "/v1/lanes/out/messages?cursor=nonsense", ``, 422, "", "query.cursor"},
		{"GET", "/v1/lanes/out/messages?state=dead", ``, 422, "", "query.state"},
		{"GET", "/v1/lanes/out/messages?key=base64:%25", ``, 422, "", "query"},
	} {
		got := w.ask(t, c.method, c.path, c.body)
		if got.code != c.status || c.code != "" && got.Code != c.code || c.field != "" && got.field() != c.field ||
			strings.Contains(got.text, "chronosDeadline") || got.Code == "" || len(got.text) > 1500 {
			t.Errorf("%s %s %.60s: status %d, code %q, field %q, want %d, %q, %q: "+
				"%s", c.method, c.path, c.body, got.code,
				got.Code, got.field(), c.status, c.code, c.field, got.text)
		}
	}
	if rows := w.store.Dump(); len(rows) != 0 {
		t.Errorf("stored: %v", rows)
	}
}

// Goal: ids may be whatever ids of records may be. Method: strange ones, through all operations.
func TestIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for id, escaped := range map[string]string{
		"..": "%2E%2E", ".": "%2E", "a/b": "a%2Fb", "//": "%2F%2F", "a b": "a%20b", "x:fire": "x:fire", "é": "%C3%A9",
		"?": "%3F", "#": "%23", "%": "%25", ":fire": ":fire", "a\r\nb": "a%0D%0Ab", "+": "+", "{id}": "%7Bid%7D",
	} {
		path := "/v1/lanes/out/messages/" + escaped
		created := w.ask(t, "PUT", path, `{"delay":"1h"}`).want(t, 201, "scheduled")
		if created.ID != id {
			t.Errorf("%q: created %q", id, created.ID)
		}
		at := created.header.Get("Location")
		if w.ask(t, "GET", at, "").code != 200 || strings.ContainsAny(at, "\r\n") {
			t.Errorf("%q is at %q", id, at)
		}
		w.ask(t, "POST", path+":fire", "").want(t, 200, "fired")
	}
}

// Goal: a request that is repeated under its Idempotency-Key has the same answer and no second effect, whatever has
// become of the message; one that asks for something else is refused; and clients do not meet. Method: each operation
// twice, by two nodes on one store.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	second := *w.api.Node
	peer := (&api.API{Node: &second, Taker: w.store, Store: w.store, Outlook: w.store, Now: w.api.Now}).Handler()
	w.ask(t, "PUT", "/v1/lanes/out/messages/moved", `{"delay":"1h"}`)
	w.ask(t, "PUT", "/v1/lanes/out/messages/gone", `{"delay":"1h"}`)
	for i, c := range []struct {
		method, path, body, other string
		status                    int
	}{
		{"PUT", "/v1/lanes/out/messages/a", `{"delay":"1h"}`, `{"delay":"2h"}`, 201},
		{"PUT", "/v1/lanes/out/messages/a?on-duplicate=replace", `{"delay":"1h"}`, `{"delay":"2h"}`, 200},
		{"POST", "/v1/lanes/out/messages", `{"delay":"1h"}`, `{"delay":"2h"}`, 201},
		{"PATCH", "/v1/lanes/out/messages/moved", `{"delay":"3h"}`, `{"delay":"4h"}`, 200},
		{"DELETE", "/v1/lanes/out/messages/gone", ``, ``, 200},
		{"DELETE", "/v1/lanes/out/messages/never", ``, ``, 404},
	} {
		key := fmt.Sprint("key ", i)
		first := w.ask(t, c.method, c.path, c.body, "Idempotency-Key", key)
		rows := w.store.Dump()
		again := ask(t, peer, c.method, c.path, c.body, "Idempotency-Key", key)
		if first.code != c.status || again.code != c.status || strings.Contains(first.text, "repeated") ||
			strings.Replace(again.text, `,"repeated":true`, "", 1) != first.text || again.text == first.text {
			t.Errorf("%s %s: status %d, then %d: %s, then "+
				"%s", c.method, c.path, first.code, again.code, first.text, again.text)
		}
		after := w.store.Dump()
		if len(after) != len(rows) || first.header.Get("Location") != again.header.Get("Location") {
			t.Errorf("%s %s: %d rows, then %d", c.method, c.path, len(rows), len(after))
		}
		if c.other != "" {
			other := ask(t, peer, c.method, c.path, c.other, "Idempotency-Key", key)
			if other.code != 422 || other.Code != "idempotency_key_reused" ||
				other.field() != "header.Idempotency-Key" {
				t.Errorf("%s %s, another question: %s", c.method, c.path, other.text)
			}
		}
	}
	w.now = w.now.Add(node.AnswerKept)
	if got := w.ask(t, "DELETE", "/v1/lanes/out/messages/gone", ``, "Idempotency-Key", "key 4"); got.code != 404 {
		t.Errorf("a day later: %s", got.text)
	}
}

// lossy is a store whose answers get lost: what it is asked for happens.
type lossy struct {
	*memory.Store

	mu   sync.Mutex
	lost int
}

func (l *lossy) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := l.Store.Take(ctx, request)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		l.lost--
		return node.TakeResult{}, errors.New("the connection was lost")
	}
	return result, err
}

// Goal: an answer of the store that is lost is asked for again by the node, and the client is told what has become of
// the request; if it stays away, the client is told that nobody knows, and hears by repeating the request.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	var store *lossy
	w := newWorld(t, func(a *api.API) {
		store = &lossy{Store: a.Taker.(*memory.Store)} // newWorld has made it
		a.Taker = store
	})
	w.ask(t, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h"}`).want(t, 201, "scheduled")
	store.lost = 2
	w.ask(t, "DELETE", "/v1/lanes/out/messages/x", "").want(t, 200, "cancelled")
	w.ask(t, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h"}`).want(t, 201, "scheduled")
	store.lost = 100
	unknown := w.ask(t, "DELETE", "/v1/lanes/out/messages/x", "", "Idempotency-Key", "k")
	if unknown.code != 503 || unknown.Code != "unknown" || unknown.header.Get("Retry-After") == "" ||
		!strings.Contains(unknown.Detail, "Nobody knows") {
		t.Errorf("%d %s", unknown.code, unknown.text)
	}
	store.lost = 0
	if heard := w.ask(t, "DELETE", "/v1/lanes/out/messages/x", "", "Idempotency-Key", "k").want(t, 200,
		"cancelled"); !heard.Repeated {
		t.Errorf("%s", heard.text)
	}
}

// Goal: while nothing is taken in, a client is told when to come again, and nothing has happened.
func TestClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if _, err := w.store.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	closed := w.ask(t, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h"}`, "Idempotency-Key", "k")
	if closed.code != 503 || closed.Code != "not_taken" || closed.header.Get("Retry-After") != "5" {
		t.Errorf("%d %s", closed.code, closed.text)
	}
	if _, err := w.store.Resume(t.Context(), node.Intake); err != nil {
		t.Fatal(err)
	}
	w.ask(t, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h"}`, "Idempotency-Key", "k").want(t, 201, "scheduled")
}

// Goal: requests that come at the same time share transactions, each has its own answer, and one that the store refuses
// for good spoils no other. Method: hundreds at once, of a store that counts its transactions.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	counting := &counting{}
	w := newWorld(t, func(a *api.API) {
		counting.Store = a.Taker.(*memory.Store) // newWorld has made it
		a.Taker = counting
	})
	const n = 400
	codes := make([]int, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			id := fmt.Sprintf("m-%03d", i)
			if i%50 == 7 {
				id = "poison-" + id
			}
			codes[i] = w.ask(t, "PUT", "/v1/lanes/out/messages/"+id, `{"delay":"1h"}`).code
		})
	}
	group.Wait()
	for i, code := range codes {
		if want := map[bool]int{false: 201, true: 422}[i%50 == 7]; code != want {
			t.Errorf("request %d: status %d, want %d", i, code, want)
		}
	}
	if rows := len(w.store.Dump()); rows != n-n/50 {
		t.Errorf("%d messages are stored, want %d", rows, n-n/50)
	}
	if counting.most > 3 || counting.takes > n {
		t.Errorf("%d transactions, %d at once", counting.takes, counting.most)
	}
	t.Logf("%d transactions for %d requests, %d at once", counting.takes, n, counting.most)
}

// counting is a store that counts its takes, and refuses messages whose ids begin with poison.
type counting struct {
	*memory.Store

	mu               sync.Mutex
	takes, now, most int
}

func (c *counting) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	c.mu.Lock()
	c.takes++
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	good := slices.IndexFunc(request.Items, func(i node.Item) bool { return strings.HasPrefix(i.ID, "poison") })
	if good < 0 {
		return c.Store.Take(ctx, request)
	}
	request.Items = request.Items[:good]
	result, err := c.Store.Take(ctx, request)
	result.Refusal = "it is poison"
	return result, err
}

// Goal: a page shows the messages of its lane and no other, by what is asked for, and goes on where it has ended; and
// they are counted.
func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i := range 25 {
		body := fmt.Sprintf(`{"delay":"%dm","key":"k%d","value":"secret","headers":[{"name":"tenant","value":"t%d"}]}`,
			i+1, i%5, i%2)
		w.ask(t, "PUT", fmt.Sprintf("/v1/lanes/out/messages/m-%02d", i), body).want(t, 201, "scheduled")
		w.ask(t, "PUT", fmt.Sprintf("/v1/lanes/mails.x/messages/m-%02d", i), body).want(t, 201, "scheduled")
	}
	list := func(query string) (ids []string) {
		for cursor := ""; ; {
			got := w.ask(t, "GET", "/v1/lanes/out/messages?limit=10&cursor="+cursor+query, "").want(t, 200, "")
			var page api.Messages
			if err := json.Unmarshal([]byte(got.text), &page); err != nil {
				t.Fatal(err)
			}
			for _, m := range page.Messages {
				if m.Lane != "out" || m.Value != nil {
					t.Errorf("listed: %+v", m)
				}
				ids = append(ids, m.ID)
			}
			if cursor = page.Next; cursor == "" {
				return ids
			}
		}
	}
	for query, want := range map[string]int{
		"": 25, "&key=k1": 5, "&header=tenant=t0": 13, "&header=tenant": 25, "&header=other": 0, "&state=claimed": 0,
		"&from=2030-01-31T09:10:00Z&until=2030-01-31T09:20:00Z": 10, "&state=waiting&key=k1&header=tenant=t1": 3,
	} {
		ids := list(query)
		if slices.Sort(ids); len(slices.Compact(ids)) != want {
			t.Errorf("%s: %d messages, want %d", query, len(ids), want)
		}
	}
	var count api.Count
	got := w.ask(t, "GET", "/v1/lanes/out/count", "").want(t, 200, "")
	if err := json.Unmarshal([]byte(got.text), &count); err != nil || count.Waiting != 25 || count.Lane != "out" {
		t.Errorf("count: %s, %v", got.text, err)
	}
}

// Goal: docs/openapi.json is what a node serves. CHRONOS_UPDATE=1 writes it anew.
func TestDescription(t *testing.T) {
	const file = "../../docs/openapi.json"
	described, err := api.Describe()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, described, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	if os.Getenv("CHRONOS_UPDATE") != "" {
		if err := os.WriteFile(file, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(file); err != nil || !bytes.Equal(written, indented.Bytes()) {
		t.Errorf("docs/openapi.json is not what a node serves (%v): look whether that is right, and run "+
			"CHRONOS_UPDATE=1 go test ./node/api -run TestDescription", err)
	}
	var description struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Responses   map[string]any
		}
	}
	if err := json.Unmarshal(described, &description); err != nil {
		t.Fatal(err)
	}
	var operations []string
	for path, methods := range description.Paths {
		for method, operation := range methods {
			operations = append(operations, strings.ToUpper(method)+" "+path+" "+operation.OperationID)
			if operation.Responses["503"] == nil || operation.Responses["200"] == nil {
				t.Errorf("%s %s: answers %v", method, path, operation.Responses)
			}
		}
	}
	slices.Sort(operations)
	want := append(queueOperations(),
		"DELETE /v1/lanes/{lane}/messages/{id} cancel",
		"GET /v1/lanes/{lane}/count count",
		"GET /v1/lanes/{lane}/messages list",
		"GET /v1/lanes/{lane}/messages/{id} get",
		"PATCH /v1/lanes/{lane}/messages/{id} reschedule",
		"POST /v1/lanes/{lane}/messages post",
		"POST /v1/lanes/{lane}/messages/{id}:fire fire",
		"PUT /v1/lanes/{lane}/messages/{id} put",
	)
	slices.Sort(want)
	if !slices.Equal(operations, want) || !strings.HasPrefix(description.OpenAPI, "3.1") {
		t.Errorf("OpenAPI %s "+
			"has\n%s\nwant\n%s", description.OpenAPI, strings.Join(operations, "\n"), strings.Join(want, "\n"))
	}
}

// write writes a file.
func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
