package api_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/api"
	"chronos/node/control"
)

// peer is another node on the store of a world, with a clock of its own.
func (w *world) peer(now func() time.Time, change func(*api.API)) *api.API {
	config := *w.api.Node
	a := &api.API{
		Node: &config, Taker: w.store, Store: w.store, Outlook: w.store, Callback: w.api.Callback, Now: now,
		Through: w.api.Through,
	}
	if change != nil {
		change(a)
	}
	return a
}

// through has requests go another way than by the node's own intake, as with a journal.
func through(a *api.API) {
	a.Through = func(ctx context.Context, item node.Item, record node.Record) (node.ItemResult, error) {
		read, err := a.Node.Read(record, item.Lane, a.Now)
		if err != nil || read.ID != item.ID || read.Action != item.Action {
			return node.ItemResult{}, &control.RefusedError{ID: item.ID, Reason: "its record asks for something else"}
		}
		result, err := a.Taker.Take(ctx, node.TakeRequest{Items: []node.Item{item}})
		if err != nil {
			return node.ItemResult{}, err
		}
		return result.Results[0], nil
	}
}

// ways are those in which a request comes to the store.
func ways() map[string]func(*api.API) {
	return map[string]func(*api.API){"intake": nil, "through": through}
}

// late are requests that are carried out at 9 o'clock, and make no sense a while later.
func late() []struct{ method, path, body, code, field string } {
	const x, at = "/v1/lanes/out/messages/x", `"2030-01-31T09:10:05Z"`
	return []struct{ method, path, body, code, field string }{
		{"PUT", x, `{"delay":"10m","not_after":` + at + `}`, "invalid_not_after", "body.not_after"},
		{
			"PUT", x + "?on-duplicate=replace", `{"delay":"10m","not_after":` + at + `}`, "invalid_not_after",
			"body.not_after",
		},
		{
			"POST", "/v1/lanes/out/messages", `{"delay":"10m","not_after":` + at + `}`, "invalid_not_after",
			"body.not_after",
		},
		{
			"PUT", x, `{"delay":"10m","recurrence":{"repeat":"every 1h","until":` + at + `}}`, "until_before_first",
			"body.recurrence.until",
		},
		{
			"PUT", x, `{"recurrence":{"repeat":"every 10m","until":` + at + `}}`, "until_before_first",
			"body.recurrence.until",
		},
		{
			"POST", "/v1/lanes/out/messages", `{"recurrence":{"repeat":"5 9 * * *","until":` + at + `}}`,
			"until_before_first", "body.recurrence.until",
		},
	}
}

// Goal: a request that was carried out has the same answer when it is repeated, also when what it asks for makes no
// sense any more; without its key it is refused. Method: requests with a time that counts from when they are asked, and
// one that does not, repeated at another node when the first is behind the second.
func TestRepeatedLater(t *testing.T) {
	t.Parallel()
	for way, change := range ways() {
		for _, c := range late() {
			w := newWorld(t, change)
			const key = "Idempotency-Key"
			first := w.ask(t, c.method, c.path, c.body, key, "k").want(t, 201, "scheduled")
			rows := fmt.Sprint(w.store.Dump())
			w.now = w.now.Add(6 * time.Minute)
			peer := w.peer(w.api.Now, nil).Handler()
			again := ask(t, peer, c.method, c.path, c.body, key, "k").want(t, 201, "scheduled")
			if !again.Repeated || strings.Replace(again.text, `,"repeated":true`, "", 1) != first.text {
				t.Errorf("%s, %s %s: %s, then %s", way, c.method, c.body, first.text, again.text)
			}
			if got := w.instructions; len(got) != 1 || got[0].Again {
				t.Errorf("%s: the first node was told of %+v", way, got)
			}
			for _, headers := range [][]string{nil, {key, "other"}} {
				got := ask(t, peer, c.method, c.path, c.body, headers...).want(t, 422, "")
				if got.Code != c.code || got.field() != c.field {
					t.Errorf("%s, %s %s, %q: %s", way, c.method, c.body, headers, got.text)
				}
			}
			const other = "/v1/lanes/out/messages/y"
			if got := ask(t, peer, "PUT", other, c.body, key, "k").want(t, 422, ""); got.Code != c.code {
				t.Errorf("%s: another request under that key: %s", way, got.text)
			}
			if got := fmt.Sprint(w.store.Dump()); got != rows {
				t.Errorf("%s, %s %s: %s is stored, and was %s before", way, c.method, c.body, got, rows)
			}
		}
	}
}

// Goal: a request that was refused because of when it was asked is not carried out any more: what somebody was told is
// refused does not come out. Method: each comes to one node when it is too late, and then, as it was sent first, from a
// node that was frozen meanwhile. To move a message behind its limit is refused for as long as that is remembered,
// whatever becomes of the message; and a request that never made sense leaves its key as it was.
func TestRefusedStays(t *testing.T) {
	t.Parallel()
	const x, key = "/v1/lanes/out/messages/x", "Idempotency-Key"
	for way, change := range ways() {
		for _, c := range late() {
			w := newWorld(t, change)
			started := w.now
			frozen := w.peer(func() time.Time { return started }, nil).Handler()
			w.now = w.now.Add(6 * time.Minute)
			for _, handler := range []http.Handler{w.handler, frozen, w.handler} {
				got := ask(t, handler, c.method, c.path, c.body, key, "k").want(t, 422, "")
				if got.Code != c.code || len(w.store.Dump()) > 0 {
					t.Errorf("%s, %s %s: %s, and %v", way, c.method, c.body, got.text, w.store.Dump())
				}
			}
			if got := ask(t, frozen, "PUT", x, `{"delay":"1h"}`, key, "k").want(t, 422, ""); got.Code !=
				"idempotency_key_reused" {
				t.Errorf("%s: another request under that key: %s", way, got.text)
			}
			ask(t, frozen, c.method, c.path, c.body).want(t, 201, "scheduled")
		}
		w := newWorld(t, change)
		w.ask(t, "PUT", x, `{"delay":"10m","not_after":"2030-01-31T10:00:00Z"}`).want(t, 201, "scheduled")
		for _, c := range [][2]string{{"PATCH", `{"delay":"61m"}`}, {"POST", ""}} {
			path := x + map[string]string{"POST": ":fire"}[c[0]]
			if c[0] == "POST" {
				w.now = w.now.Add(2 * time.Hour)
			}
			refused := w.ask(t, c[0], path, c[1], key, c[0]).want(t, 422, "")
			w.ask(t, "PUT", x+"?on-duplicate=replace", `{"delay":"10m"}`).want(t, 200, "replaced")
			again := w.ask(t, c[0], path, c[1], key, c[0]).want(t, 422, "")
			if refused.Code != "invalid_not_after" || again.Code != refused.Code {
				t.Errorf("%s, %s: %s, then %s", way, c[0], refused.text, again.text)
			}
			w.ask(t, c[0], path, c[1], key, "another "+c[0]).want(t, 200, "")
			w.ask(t, "PUT", x+"?on-duplicate=replace", fmt.Sprintf(`{"delay":"10m","not_after":%q}`,
				w.now.Add(time.Hour).Format(time.RFC3339))).want(t, 200, "replaced")
		}
		for _, body := range []string{`{"delay":"soon"}`, `{"delay":"1h","not_after":"2029-12-31T08:00:00Z"}`, `{}`} {
			w.ask(t, "PUT", "/v1/lanes/out/messages/y", body, key, "mine").want(t, 422, "")
		}
		w.ask(t, "PUT", "/v1/lanes/out/messages/y", `{"delay":"1h"}`, key, "mine").want(t, 201, "scheduled")
	}
}

// Goal: a request that was carried out has the same answer where other limits are in force by now, and where no
// callback may be made to its URL any more; a new one is refused there.
func TestRepeatedElsewhere(t *testing.T) {
	t.Parallel()
	for way, change := range ways() {
		w := newWorld(t, change)
		strict := w.peer(w.api.Now, func(a *api.API) {
			a.Node.Limits = node.Limits{MaxDelay: time.Hour, MaxBytes: 1000, MaxHeaders: 5, MaxHeaderBytes: 300}
			a.Callback = func(string, []node.Header) error { return errors.New("nothing may be called") }
		}).Handler()
		headers := `"headers":[` + strings.Repeat(`{"name":"a"},`, 4) + `{"name":"b"}]`
		for i, c := range []struct{ lane, body, code string }{
			{"out", `{"delay":"2h"}`, "too_far"},
			{"out", `{"delay":"10m","value":"` + strings.Repeat("x", 1001) + `"}`, "too_large"},
			{"out", `{"delay":"10m",` + headers + `}`, "too_many_headers"},
			{"out", `{"delay":"10m","headers":[{"name":"` + strings.Repeat("n", 300) + `"}]}`, "headers_too_large"},
			{"http:a", `{"delay":"10m","url":"http://a"}`, "invalid"},
		} {
			path := fmt.Sprintf("/v1/lanes/%s/messages/m%d", c.lane, i)
			w.ask(t, "PUT", path, c.body, "Idempotency-Key", path).want(t, 201, "scheduled")
			if got := ask(t, strict, "PUT", path, c.body, "Idempotency-Key", path); !got.Repeated {
				t.Errorf("%s, %.60s: %s", way, c.body, got.text)
			}
			if got := ask(t, strict, "PUT", path, c.body, "Idempotency-Key", "new").want(t, 422, ""); got.Code !=
				c.code {
				t.Errorf("%s, %.60s, a new one: %s", way, c.body, got.text)
			}
		}
	}
}

// Goal: where nobody hears what a request was told before, it is not said to be refused: it may have been carried out.
// One that the store can never take was not, and without a key nothing was told before. Method: requests that are too
// late by now, and a way to the store that fails.
func TestRepeatedUnheard(t *testing.T) {
	t.Parallel()
	var fails error
	w := newWorld(t, func(a *api.API) {
		a.Through = func(context.Context, node.Item, node.Record) (node.ItemResult, error) {
			return node.ItemResult{}, fails
		}
	})
	w.now = w.now.Add(6 * time.Minute)
	for _, c := range late() {
		for _, told := range []struct {
			fails  error
			key    string
			status int
			code   string
		}{
			{errors.New("the answer is lost"), "k", 503, "unknown"},
			{errors.New("the answer is lost"), "", 422, c.code},
			{&control.ClosedError{}, "k", 503, "not_taken"},
			{&control.BusyError{ID: "a"}, "k", 503, "busy"},
			{&control.RefusedError{ID: "x", Reason: "it is never taken"}, "k", 422, c.code},
		} {
			fails = told.fails
			var headers []string
			if told.key != "" {
				headers = []string{"Idempotency-Key", told.key}
			}
			got := w.ask(t, c.method, c.path, c.body, headers...)
			if got.code != told.status || got.Code != told.code {
				t.Errorf("%s %s, %q, %v: %d %s, want %d %s", c.method, c.body, told.key, fails, got.code, got.text,
					told.status, told.code)
			}
		}
	}
}

// Goal: who repeats the request that has used a quota up is told what it has brought, and not that there is no room for
// it; a new one is, and is carried out under the same key when there is.
func TestRepeatedWhenFull(t *testing.T) {
	t.Parallel()
	config := func(waiting int) api.Config {
		tokens := fmt.Sprintf("a write:out,waiting=%d %s\n", waiting, s1)
		return api.Config{Listen: "0.0.0.0:0", TokenFile: write(t, "tokens", tokens)}
	}
	_, w := newServer(t, config(1), nil)
	put := func(handler http.Handler, id string) *reply {
		return ask(t, handler, "PUT", "/v1/lanes/out/messages/"+id, `{"delay":"1h"}`, "Authorization", "Bearer "+s1,
			"Idempotency-Key", id)
	}
	put(w.handler, "x").want(t, 201, "scheduled")
	for range 3 {
		if got := put(w.handler, "x").want(t, 201, "scheduled"); !got.Repeated {
			t.Errorf("repeated: %s", got.text)
		}
		got := put(w.handler, "y").want(t, 429, "")
		if got.Code != "too_many_waiting" || got.header.Get("Retry-After") == "" {
			t.Errorf("a new one: %s", got.text)
		}
	}
	roomy, err := api.New(config(2))
	if err == nil {
		err = roomy.Mount(w.peer(w.api.Now, nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	put(roomy, "y").want(t, 201, "scheduled")
}

// Goal: whatever happens, requests under one key have one answer. Method: worlds that are drawn, with two nodes whose
// clocks differ by minutes; requests of every kind, each under a key of its own, are repeated while time goes by, and
// others without a key come in between.
func TestOneAnswerForEachKey(t *testing.T) {
	t.Parallel()
	const x, y = "/v1/lanes/out/messages/x", "/v1/lanes/out/messages/y"
	type request struct{ method, path, body string }
	for seed := range uint64(120) {
		random := rand.New(rand.NewPCG(seed, 1))
		change := ways()[[]string{"intake", "through"}[seed%2]]
		w := newWorld(t, change)
		ahead := func() time.Time { return w.now.Add(5 * time.Minute) }
		nodes := []http.Handler{w.handler, w.peer(ahead, change).Handler()}
		limit := func() string { return w.now.Add(time.Duration(random.IntN(40)) * time.Minute).Format(time.RFC3339) }
		draw := func() request {
			path, delay := []string{x, y}[random.IntN(2)], fmt.Sprintf(`"delay":"%dm"`, random.IntN(30))
			return []request{
				{"PUT", path, `{` + delay + `}`},
				{"PUT", path, `{` + delay + `,"not_after":"` + limit() + `"}`},
				{"PUT", path + "?on-duplicate=replace", `{` + delay + `}`},
				{"PUT", path + "?on-duplicate=replace", `{` + delay + `,"not_after":"` + limit() + `"}`},
				{"PUT", path, `{"recurrence":{"repeat":"every 5m","until":"` + limit() + `"}}`},
				{"POST", "/v1/lanes/out/messages", `{` + delay + `,"not_after":"` + limit() + `"}`},
				{"PATCH", path, `{` + delay + `}`},
				{"PATCH", path, `{` + delay + `}`},
				{"DELETE", path, ""},
				{"POST", path + ":fire", ""},
			}[random.IntN(10)]
		}
		var requests []request
		told := map[int]string{}
		for range 60 {
			w.now = w.now.Add(time.Duration(random.IntN(5*60)) * time.Second)
			handler := nodes[random.IntN(2)]
			if random.IntN(3) == 0 {
				r := draw()
				ask(t, handler, r.method, r.path, r.body)
				continue
			}
			at := random.IntN(8)
			for at >= len(requests) {
				requests = append(requests, draw())
			}
			r := requests[at]
			got := ask(t, handler, r.method, r.path, r.body, "Idempotency-Key", fmt.Sprint(at))
			answer := fmt.Sprint(got.code, got.Code, strings.Replace(got.text, `,"repeated":true`, "", 1))
			if got.code == http.StatusUnprocessableEntity {
				answer = fmt.Sprint(got.code, got.Code) // its sentence tells the time
			}
			if first, before := told[at]; before && first != answer {
				t.Fatalf("seed %d: %v: %s, and first %s", seed, r, answer, first)
			}
			told[at] = answer
		}
	}
}

// Goal: an answer is believed that is about the lane and the id of the request, and no other. Method: a way to the
// store that answers about another message, under the print of the request.
func TestAnswerAboutAnother(t *testing.T) {
	t.Parallel()
	var about node.MessageID
	w := newWorld(t, func(a *api.API) {
		a.Through = func(_ context.Context, item node.Item, _ node.Record) (node.ItemResult, error) {
			told := item.Tell(node.Verdict{Outcome: node.Cancelled}, 1)
			told.Message = about
			return node.ItemResult{Outcome: told.Outcome, Told: &told}, nil
		}
	})
	for _, c := range []struct {
		about  node.MessageID
		status int
	}{
		{node.MessageID{ID: "x", Lane: "out"}, 200},
		{node.MessageID{ID: "decoy", Lane: "out"}, 503},
		{node.MessageID{ID: "x", Lane: "elsewhere"}, 503},
	} {
		about = c.about
		if got := w.ask(t, "DELETE", "/v1/lanes/out/messages/x", "", "Idempotency-Key", "k"); got.code != c.status {
			t.Errorf("an answer about %v: %d %s, want %d", c.about, got.code, got.text, c.status)
		}
	}
}
