package metaswitch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/broker/none"
	"chronos/node/callback"
	"chronos/node/clock/system"
	"chronos/node/metaswitch"
	"chronos/node/store/memory"
)

// patience is how long is waited for something that comes in a few seconds.
const patience = time.Minute

// pop is a callback that came.
type pop struct {
	*http.Request

	body   string
	number string
}

// client is a server as clients of Metaswitch's Chronos have them: it takes note of what pops.
type client struct {
	*httptest.Server

	answer func(p pop, before int) int // the status, and how often that body has come before

	mu    sync.Mutex
	came  map[string][]pop // by body
	comes chan struct{}
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{came: map[string][]pop{}, comes: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p := pop{r, string(body), strings.Join(r.Header["X-Sequence-Number"], ",")}
		c.mu.Lock()
		before := len(c.came[p.body])
		c.came[p.body] = append(c.came[p.body], p)
		c.mu.Unlock()
		if c.answer != nil {
			w.WriteHeader(c.answer(p, before))
		}
		select {
		case c.comes <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// numbers returns the sequence numbers that came with a body, in the order in which they came.
func (c *client) numbers(body string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var numbers []string
	for _, p := range c.came[body] {
		numbers = append(numbers, p.number)
	}
	return strings.Join(numbers, " ")
}

// await waits until something is true, and looks whenever a timer has popped.
func (c *client) await(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(patience)
	for !is() {
		select {
		case <-c.comes:
		case <-late:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// cluster runs nodes over one memory store, and returns the handler of each.
func cluster(t *testing.T, nodes int) []http.Handler {
	t.Helper()
	store := memory.New(time.Now)
	handlers := make([]http.Handler, nodes)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for i := range nodes {
		lane := callback.Default(metaswitch.Lane)
		lane.Allowed = []string{"127.0.0.1"}
		sink, err := callback.New(callback.Config{Lanes: []callback.Lane{lane}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sink.Close)
		config := node.Default()
		config.Seed[0] = byte(i + 1)
		config.Callbacks.Lanes = []node.CallbackLane{{Name: metaswitch.Lane}}
		clock := system.New()
		n, err := node.New(config, node.Ports{
			Clock: clock, Store: store, Source: none.NewSource(clock), Sink: &none.Sink{}, Callback: sink,
		}, func(node.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { n.Run(ctx, node.Goroutines()) })
		handlers[i] = (&metaswitch.API{Node: &config, Taker: store, Callback: sink.Check}).Handler()
	}
	return handlers
}

// send makes a request, and returns the Location of the answer, which is to be 200.
func send(t *testing.T, handler http.Handler, method, path, body string) string {
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusOK {
		t.Errorf("%s %s: %d %s", method, path, recorder.Code, recorder.Body)
	}
	return recorder.Header().Get("Location")
}

// Goal: a URI that leads where no callback may go is refused with a sentence that says where that is decided; one that
// is allowed is not.
func TestAllowed(t *testing.T) {
	t.Parallel()
	handler := cluster(t, 1)[0]
	for uri, refused := range map[string]bool{
		"http://127.0.0.1:8000/pop": false, "https://example.com/pop": false, "http://10.0.0.5/pop": true,
		"http://169.254.169.254/": true, "http://app.internal:8080/pop": false,
	} {
		body := fmt.Sprintf(`{"timing": {"interval": 1000}, "callback": {"http": {"uri": %q, "opaque": ""}}}`, uri)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/timers", strings.NewReader(body))
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		says := strings.Contains(recorder.Body.String(), "The lane is http:metaswitch, in the list lanes")
		if refused != (recorder.Code == http.StatusBadRequest) || refused != says {
			t.Errorf("%s: %d %s", uri, recorder.Code, recorder.Body)
		}
	}
}

// Goal: the behaviour that their tests of the timer handler ask for (src/ut/test_timer_handler.cpp, by the names that
// they have there), of three nodes over one store, each asked in turn; and what is better here: a callback that fails
// is made again and its timer goes on, and a timer that was deleted while it failed is left alone.
//
// The last timer to pop says that there is nothing more: it is set when the others have done what they are to do, and
// pops after all that they could do wrong.
func TestPops(t *testing.T) {
	t.Parallel()
	c, nodes := newClient(t), cluster(t, 3)
	at := 0
	ask := func(method, path, body string) string {
		at++
		return send(t, nodes[at%len(nodes)], method, path, body)
	}
	timed := func(timing, opaque string) string {
		const form = `{"timing": {%s}, "callback": {"http": {"uri": "%s/pop", "opaque": %q}}}`
		return fmt.Sprintf(form, timing, c.URL, opaque)
	}
	updated := "/timers/00000000000000aa-2"
	c.answer = func(p pop, before int) int {
		switch {
		case p.body == "to be updated from its callback" && before == 0:
			send(t, nodes[0], "PUT", updated, timed(`"interval": 1, "repeat-for": 2`, "updated from the callback"))
		case p.body == "fails once" && before == 0, p.body == "fails and is deleted":
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	const text = "opaque: \"quoted\" \u00e4\u4e16 \x00 \n"
	quoted := `opaque: \"quoted\" ä世 \u0000 \n`
	ask("POST", "/timers", strings.Replace(timed(`"interval": 1`, "x"), `"x"`, `"`+quoted+`"`, 1))
	ask("POST", "/timers", timed(`"interval": 1, "repeat-for": 3`, "PopRepeatedTimer"))
	ask("POST", "/timers", timed(`"interval": 0, "repeat-for": 0`, "at once"))
	ask("POST", "/timers", timed(`"interval": 1, "repeat-for": 0`, "shorter than its interval"))
	ask("POST", "/timers", timed(`"interval": 1`, ""))
	ask("POST", "/timers", timed(`"interval": 1, "repeat-for": 2`, "fails once"))
	ask("PUT", updated, timed(`"interval": 1, "repeat-for": 1000`, "to be updated from its callback"))
	location := ask("POST", "/timers", timed(`"interval": 1`, "replaced"))
	ask("PUT", location, timed(`"interval": 1`, "UpdateTimer"))
	location = ask("POST", "/timers", timed(`"interval": 1`, "deleted"))
	ask("DELETE", location, "")
	location = ask("POST", "/timers", timed(`"interval": 1`, "AddTombstoneToExisting"))
	ask("PUT", location, `{"timing": {"interval": 1}, "callback": {"http": {"uri": "", "opaque": ""}}}`)
	brought := `"interval": 1, "repeat-for": 4, "sequence-number": 2, "start-time-delta": -2000`
	ask("POST", "/timers", timed(brought, "brought along"))
	failing := ask("POST", "/timers", timed(`"interval": 1, "repeat-for": 5`, "fails and is deleted"))
	c.await(t, "the first callback that is to fail", func() bool { return c.numbers("fails and is deleted") != "" })
	ask("DELETE", failing, "")

	want := map[string]string{
		text: "1", "PopRepeatedTimer": "1 2 3", "at once": "1", "shorter than its interval": "1", "": "1",
		"fails once": "1 1 2", "to be updated from its callback": "1", "updated from the callback": "1 2",
		"UpdateTimer": "1", "fails and is deleted": "1", "brought along": "3 4",
		"replaced": "", "deleted": "", "AddTombstoneToExisting": "",
	}
	for body, numbers := range want {
		c.await(t, body, func() bool { return len(c.numbers(body)) >= len(numbers) })
	}
	ask("POST", "/timers", timed(`"interval": 3`, "the last"))
	c.await(t, "the last", func() bool { return c.numbers("the last") != "" })
	for body, numbers := range want {
		if got := c.numbers(body); got != numbers {
			t.Errorf("%q: %q, want %q", body, got, numbers)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for body, came := range c.came {
		for _, p := range came {
			contentType := strings.Join(p.Header["Content-Type"], ",")
			if p.Method != http.MethodPost || p.URL.Path != "/pop" || contentType != "application/octet-stream" ||
				p.ContentLength != int64(len(body)) {
				t.Errorf("%q: %s %s, Content-Type %s, %d bytes", body, p.Method, p.URL, contentType, p.ContentLength)
			}
		}
	}
}
