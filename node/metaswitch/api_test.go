package metaswitch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
	"chronos/node/metaswitch"
	"chronos/node/store/memory"
)

// world is a memory store with the interface over it. Its clock stands still.
type world struct {
	store    *memory.Store
	api      *metaswitch.API
	now      time.Time
	requests []metaswitch.Request
	handler  http.Handler
}

func newWorld(t *testing.T, change func(*metaswitch.API)) *world {
	t.Helper()
	w := &world{now: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)}
	w.store = memory.New(func() time.Time { return w.now })
	config := node.Default()
	config.Callbacks.Lanes = []node.CallbackLane{{Name: metaswitch.Lane}}
	w.api = &metaswitch.API{
		Node: &config, Taker: w.store, Now: func() time.Time { return w.now },
		Callback: func(_ string, headers []node.Header) error {
			for _, h := range headers {
				if h.Name == node.HeaderURL && !strings.HasPrefix(string(h.Value), "http://") {
					return errors.New("the URL is not one")
				}
			}
			return nil
		},
		Observe: func(r metaswitch.Request) { w.requests = append(w.requests, r) },
	}
	if change != nil {
		change(w.api)
	}
	w.handler = w.api.Handler()
	return w
}

// ask makes a request, and returns its status, Location and body.
func (w *world) ask(t *testing.T, method, path, body string) (status int, location, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Header().Get("Location"), recorder.Body.String()
}

// only returns the one message that is stored.
func (w *world) only(t *testing.T) *node.Message {
	t.Helper()
	rows := w.store.Dump()
	if len(rows) != 1 {
		t.Fatalf("%d messages are stored: %+v", len(rows), rows)
	}
	return &rows[0].Message
}

const (
	named  = "/timers/1234123412341234-2"
	digits = "1234123412341234"
)

// body returns one with its timing and anything that follows the callback.
func body(timing, rest string) string {
	const callback = `"callback": {"http": {"uri": "http://host/pop", "opaque": "stuff"}}`
	return `{"timing": {` + timing + `}, ` + callback + rest + `}`
}

// Goal: the requests of their tests of the HTTP handler (src/ut/test_handler.cpp, by the names that they have there)
// are answered with the status and the Location that their program gives.
func TestRequests(t *testing.T) {
	t.Parallel()
	good := body(`"interval": 100, "repeat-for": 200`, "")
	for _, c := range []struct {
		name, method, path, body string

		status   int
		location string // a pattern; "" for none
	}{
		{"ValidJSONDeleteTimerWithoutReplicas", "DELETE", named, "", 200, named},
		{"ValidJSONDeleteTimerWithExtendedTimerID", "DELETE", named + "RANDOMSTUFF!<>!!@123", "", 200, named},
		{"ValidJSONCreateTimerOnNode", "POST", "/timers", good, 200, "/timers/[0-9a-f]{16}-2"},
		{"with a slash", "POST", "/timers/", good, 200, "/timers/[0-9a-f]{16}-2"},
		{"a PUT to an unknown id", "PUT", named, good, 200, named},
		{"a PUT in capitals", "PUT", "/timers/ABCDEFABCDEFABCD-3", good, 200, "/timers/abcdefabcdefabcd-3"},
		{"a factor of 0 is none", "PUT", "/timers/1234123412341234-0", good, 200, named},
		{"a factor of 007", "PUT", "/timers/1234123412341234-007", good, 200, "/timers/1234123412341234-7"},
		{"InvalidNoTimerNoBody", "POST", "/timers/", "", 400, ""},
		{"a PUT without a body", "PUT", named, "", 400, ""},
		{"InvalidMethodNoTimer", "PUT", "/timers/", good, 405, ""},
		{"a DELETE of all", "DELETE", "/timers", "", 405, ""},
		{"InvalidMethodWithTimerWithoutReplicas", "POST", "/timers/1234123412341234-1", good, 405, ""},
		{"InvalidTimer", "PUT", "/timers/1234", good, 404, ""},
		{"no factor", "PUT", "/timers/" + digits, good, 404, ""},
		{"no hexadecimal digits", "DELETE", "/timers/123412341234123x-2", "", 404, ""},
		{"DELETE references", "DELETE", "/timers/references", `{"IDs": []}`, 404, ""},
		{"elsewhere", "GET", "/", "", 404, ""},
		{"a look elsewhere", "GET", "/timersome", "", 404, ""},
		{"ping", "GET", "/ping", "", 200, ""},
		{"a resync", "GET", "/timers?node-for-replicas=10.0.0.1:9999&cluster-view-id=x", "", 400, ""},
		{"a look at one", "GET", named, "", 400, ""},
		{"a factor beyond all numbers", "PUT", "/timers/1234123412341234-99999999999999999999", good, 400, ""},
		{"a body without end", "POST", "/timers", `{"timing":` + strings.Repeat(" ", 9<<20), 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			status, location, text := w.ask(t, c.method, c.path, c.body)
			if status != c.status || !regexp.MustCompile("^"+c.location+"$").MatchString(location) {
				t.Errorf("%d %q %s; want %d %q", status, location, text, c.status, c.location)
			}
			if stored := len(w.store.Dump()); (stored > 0) != (status == 200 && c.body != "") {
				t.Errorf("%d messages are stored after %d", stored, status)
			}
			if (text != "") != (status != 200 || c.path == "/ping") {
				t.Errorf("%d has the body %q", status, text)
			}
			if len(w.requests) != 1 || w.requests[0].Status != status {
				t.Errorf("observed %+v", w.requests)
			}
		})
	}
}

// Goal: the bodies that their program rejects (FromJSONTests in src/ut/test_timer.cpp, all 20, and some more) are
// answered with 400 and a sentence that names what is wrong, and store nothing.
func TestRejectedBodies(t *testing.T) {
	t.Parallel()
	timing := `"timing": {"interval": 100, "repeat-for": 200}`
	callback := `"callback": {"http": {"uri": "http://h", "opaque": "x"}}`
	for _, c := range [][2]string{
		{`{}`, "timing"},
		{`{"timing"}`, "the body"},
		{`{"timing": []}`, "timing"},
		{`{"timing": [], "callback": []}`, "timing"},
		{`{"timing": [], "callback": [], "reliability": []}`, "timing"},
		{`{"timing": {}, "callback": [], "reliability": []}`, "timing.interval"},
		{`{"timing": {"interval": "hello"}, "callback": [], "reliability": []}`, "timing.interval"},
		{
			`{"timing": {"interval": "hello", "repeat-for": "hello"}, "callback": [], "reliability": []}`,
			"timing.interval",
		},
		{
			`{"timing": {"interval": 100, "repeat-for": "hello"}, "callback": [], "reliability": []}`,
			"timing.repeat-for",
		},
		{`{` + timing + `, "callback": [], "reliability": []}`, "callback"},
		{`{` + timing + `, "callback": {}, "reliability": []}`, "callback.http"},
		{`{` + timing + `, "callback": {"http": []}, "reliability": []}`, "callback.http"},
		{`{` + timing + `, "callback": {"http": {}}, "reliability": []}`, "callback.http.uri"},
		{`{` + timing + `, "callback": {"http": {"uri": []}}, "reliability": []}`, "callback.http.uri"},
		{`{` + timing + `, "callback": {"http": {"uri": [], "opaque": []}}, "reliability": []}`, "callback.http.uri"},
		{`{` + timing + `, "callback": {"http": {"uri": "http://h", "opaque": []}}}`, "callback.http.opaque"},
		{`{` + timing + `, ` + callback + `, "reliability": []}`, "reliability"},
		{`{` + timing + `, ` + callback + `, "reliability": {"replication-factor": "hello"}}`, "replication-factor"},
		{`{` + timing + `, ` + callback + `, "reliability": {"replicas": []}}`, "reliability.replicas"},
		{`{"timing": {"interval": 0, "repeat-for": 200}, ` + callback + `}`, "timing.interval is 0"},
		{`{` + timing + `, ` + callback + `, "reliability": {"replication-factor": 3}}`, "cannot be changed"},
		{`{` + timing + `, ` + callback + `, "reliability": {"sites": {}}}`, "reliability.sites"},
		{`{` + timing + `, ` + callback + `, "reliability": {"replicas": [1]}}`, "reliability.replicas[0]"},
		{`{` + timing + `, ` + callback + `, "reliability": {"cluster-view-id": 1}}`, "cluster-view-id"},
		{`{"Timing": {"interval": 1}, ` + callback + `}`, "there is no timing"},
		{`{"timing": {"interval": 1.0}, ` + callback + `}`, "timing.interval"},
		{`{"timing": {"interval": -1}, ` + callback + `}`, "timing.interval"},
		{`{"timing": {"interval": 1, "sequence-number": "1"}, ` + callback + `}`, "timing.sequence-number"},
		{`{"timing": {"interval": 2147483647, "sequence-number": 2147483647}, ` + callback + `}`, "290 years"},
		{`{"timing": {"interval": 1, "start-time-delta": "x"}, ` + callback + `}`, "timing.start-time-delta"},
		{`{` + timing + `, "callback": {"http": {"uri": "localhost", "opaque": "stuff"}}}`, "callback.http.uri is"},
		{`{` + timing + `, "callback": {"http": {"uri": "", "opaque": "stuff"}}}`, "callback.http.uri is empty"},
		{`{` + timing + `, "callback": {"http": {"uri": "http://h", "opaque": "` + "\xff" + `"}}}`, "UTF-8"},
		{`{` + timing + `, "callback": {"http": {"uri": "http://h", "opaque": "half \ud83d of it"}}}`, "surrogate"},
		{`{` + timing + `, "callback": {"http": {"uri": "http://h/\ude00", "opaque": ""}}}`, "surrogate"},
		{`{"timing": {"interval": 2147483647, "start-time": 253370764800000}, ` + callback + `}`, "the year 9999"},
		{`[]`, "the body"},
		{`null`, "the body"},
		{body(`"interval": 1`, "") + "x", "the body"},
	} {
		w := newWorld(t, nil)
		status, location, text := w.ask(t, "PUT", named, c[0])
		if status != 400 || location != "" || !strings.Contains(text, c[1]) || len(w.store.Dump()) > 0 {
			t.Errorf("%s: %d %s, want 400 and %q", c[0], status, text, c[1])
		}
	}
}

// Goal: an answer that quotes what was sent is cut. Method: a URI of 100,000 characters, and its refusal quotes it.
func TestAnswersAreShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *metaswitch.API) {
		a.Callback = func(_ string, headers []node.Header) error { return fmt.Errorf("the headers are %s", headers) }
	})
	status, _, text := w.ask(t, "PUT", named, `{"timing": {"interval": 1}, "callback": {"http": {"uri": "http://h/`+
		strings.Repeat("ü", 100_000)+`", "opaque": ""}}}`)
	if n := utf8.RuneCountInString(text); status != 400 || n != 1_001 || !strings.HasSuffix(text, "…") {
		t.Errorf("%d with %d characters: %.1000s", status, n, text)
	}
}

// Goal: the timing of a body becomes the series that pops as their program would: while (seq+1) times the interval is
// within repeat-for, and once in any case; from start-time-delta, or else start-time, or else now; and the numbers go
// on where another cluster has been.
func TestTiming(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		timing   string
		at       time.Duration // from start
		sequence int64
		series   string // a part of it
	}{
		{`"interval": 100, "repeat-for": 200`, 100 * time.Second, 1, "every 1m40s"},
		{`"interval": 100`, 100 * time.Second, 1, "1m40s"},
		{`"interval": 100, "repeat-for": 10`, 100 * time.Second, 1, ""},
		{`"interval": 0`, 0, 1, ""},
		{`"interval": 0, "repeat-for": 0`, 0, 1, ""},
		{`"interval": 2147483, "repeat-for": 2147483647`, 2147483 * time.Second, 1, ""},
		{`"start-time": 100, "start-time-delta": -200, "interval": 100`, 99800 * time.Millisecond, 1, ""},
		{fmt.Sprintf(`"start-time": %d, "interval": 100`, start.UnixMilli()-300), 99700 * time.Millisecond, 1, ""},
		{fmt.Sprintf(`"start-time": %d, "interval": 9`, uint32(start.UnixMilli()-300)), 8700 * time.Millisecond, 1, ""},
		{
			`"start-time-delta": -250000, "interval": 100, "repeat-for": 1000, "sequence-number": 2`,
			50 * time.Second, 3, "every 1m40s",
		},
	} {
		w := newWorld(t, nil)
		if status, _, text := w.ask(t, "PUT", named, body(c.timing, "")); status != 200 {
			t.Errorf("%s: %d %s", c.timing, status, text)
			continue
		}
		m := w.only(t)
		if m.ID != digits || m.Lane != metaswitch.Lane || string(m.Value) != "stuff" || m.Sequence != c.sequence ||
			!m.Deadline.Equal(start.Add(c.at)) || !m.At.Equal(m.Deadline) || !strings.Contains(m.Series, c.series) {
			t.Errorf("%s: %+v", c.timing, m)
		}
	}
}

// Goal: the replication factor comes back in Location as their program has it, and is no part of the identity.
func TestFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, c := range [][2]string{
		{"", "2"},
		{`, "reliability": {}`, "2"},
		{`, "reliability": {"replication-factor": 3}`, "3"},
		{`, "reliability": {"cluster-view-id": "v", "replicas": ["10.0.0.1:9", "10.0.0.2:9", "10.0.0.3:9"]}`, "3"},
	} {
		_, location, text := w.ask(t, "POST", "/timers", body(`"interval": 100`, c[0]))
		if !strings.HasSuffix(location, "-"+c[1]) {
			t.Errorf("%s: %s %s", c[0], location, text)
		}
	}
	w = newWorld(t, nil)
	w.ask(t, "PUT", "/timers/ABCD123412341234-3", body(`"interval": 100`, ""))
	w.ask(t, "PUT", "/timers/abcd123412341234-2", body(`"interval": 200`, ""))
	if m := w.only(t); m.Deadline.Sub(w.now) != 200*time.Second {
		t.Errorf("%+v", m)
	}
	w.ask(t, "DELETE", "/timers/ABCD123412341234-9", "")
	if rows := w.store.Dump(); len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}

// Goal: a body with an empty URI and an empty opaque is a delete, as their replicas tell each other
// (AddTombstoneToExisting, TombstoneZeroIntervalAndRepeatForTimer).
func TestTombstone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(t, "PUT", named, body(`"interval": 100`, ""))
	status, location, _ := w.ask(t, "PUT", named,
		`{"timing": {"interval": 0, "repeat-for": 0}, "callback": {"http": {"uri": "", "opaque": ""}}}`)
	if status != 200 || location != named || len(w.store.Dump()) > 0 {
		t.Errorf("%d %s %+v", status, location, w.store.Dump())
	}
}

// Goal: a timer that a node has claimed, or has tried to call back, is gone with the answer to its DELETE, so that no
// other attempt follows, and none after a PUT either but those of the new one.
func TestDeleteOfClaimed(t *testing.T) {
	t.Parallel()
	for _, timing := range []string{`"interval": 100`, `"interval": 100, "repeat-for": 1000`} {
		w := newWorld(t, nil)
		w.ask(t, "PUT", named, body(timing, ""))
		request := node.ClaimRequest{
			Node: [16]byte{1}, Hold: time.Minute, Until: w.now.Add(time.Hour),
			Lanes: []node.Share{{Lane: metaswitch.Lane, Limit: 1, Bytes: 1 << 20}},
		}
		result, err := w.store.Claim(t.Context(), request)
		if err != nil || len(result.Messages) != 1 {
			t.Fatalf("%+v, %v", result, err)
		}
		if status, location, text := w.ask(t, "DELETE", named, ""); status != 200 || location != named {
			t.Errorf("%d %s", status, text)
		}
		if rows := w.store.Dump(); len(rows) > 0 {
			t.Errorf("after a DELETE there is %+v", rows)
		}
	}
}

// Goal: a DELETE also ends what has come to that lane by another way, is no timer, and was claimed.
func TestDeleteOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	item := node.Item{From: node.NoPlace, Action: node.Schedule, Message: node.Message{
		ID: digits, Lane: metaswitch.Lane, Deadline: w.now, Incarnation: [16]byte{1},
	}}
	if _, err := w.store.Take(t.Context(), node.TakeRequest{Items: []node.Item{item}}); err != nil {
		t.Fatal(err)
	}
	request := node.ClaimRequest{
		Node: [16]byte{1}, Hold: time.Minute, Until: w.now.Add(time.Hour),
		Lanes: []node.Share{{Lane: metaswitch.Lane, Limit: 1, Bytes: 1 << 20}},
	}
	if result, err := w.store.Claim(t.Context(), request); err != nil || len(result.Messages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if status, _, text := w.ask(t, "DELETE", named, ""); status != 200 || len(w.store.Dump()) > 0 {
		t.Errorf("%d %s, %d are left", status, text, len(w.store.Dump()))
	}
}

// taker answers with an error.
type taker struct{ err error }

func (t taker) Take(context.Context, node.TakeRequest) (node.TakeResult, error) {
	return node.TakeResult{}, t.err
}

// closing is a store that takes nothing in any more after the first call.
type closing struct {
	node.Store

	calls int
}

func (c *closing) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if c.calls++; c.calls == 1 {
		return c.Store.Take(ctx, request)
	}
	result := node.TakeResult{Taken: len(request.Items), State: node.State{IntakePaused: true}}
	for range request.Items {
		result.Results = append(result.Results, node.ItemResult{Outcome: node.Untaken})
	}
	return result, nil
}

// Goal: where a store is closed, or the node has too much to do, the answer says so: nothing was done. That holds for
// both calls that a DELETE of what was claimed makes.
func TestNotDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(t, "PUT", named, body(`"interval": 100`, ""))
	request := node.ClaimRequest{
		Node: [16]byte{1}, Hold: time.Minute, Until: w.now.Add(time.Hour),
		Lanes: []node.Share{{Lane: metaswitch.Lane, Limit: 1, Bytes: 1 << 20}},
	}
	if _, err := w.store.Claim(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	store := &closing{Store: w.store}
	for _, c := range []struct {
		taker control.Taker
		want  string
	}{
		{store, "the intake is paused"},
		{store, "the intake is paused"},
		{taker{intake.ErrBusy}, "try again in a second"},
	} {
		other := newWorld(t, func(a *metaswitch.API) { a.Taker = c.taker })
		status, location, text := other.ask(t, "DELETE", named, "")
		unsure := strings.Contains(text, "nobody knows")
		if status != 503 || location != "" || !strings.Contains(text, c.want) || unsure {
			t.Errorf("%d %q %s; want that %s", status, location, text, c.want)
		}
	}
}

// Goal: where the store does not answer, nobody is told that a timer was set or deleted.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *metaswitch.API) { a.Taker = taker{errors.New("no connection")} })
	for _, method := range []string{"PUT", "DELETE"} {
		status, location, text := w.ask(t, method, named, body(`"interval": 100`, ""))
		if status != 503 || location != "" || !strings.Contains(text, "do it again") {
			t.Errorf("%s: %d %q %s", method, status, location, text)
		}
	}
}

// Goal: no timer pops before its time, by not even the fraction of a microsecond that a store does not keep.
func TestNotEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.now = w.now.Add(time.Nanosecond)
	w.ask(t, "PUT", named, body(`"interval": 100`, ""))
	if m, least := w.only(t), w.now.Add(100*time.Second); m.Deadline.Before(least) ||
		m.Deadline.After(least.Add(time.Microsecond)) {
		t.Errorf("the timer pops at %v, want %v or just after it", m.Deadline, least)
	}
}

// Goal: a body is not worth many times its size, whatever is in it, and neither is what is wrong with it. Method: what
// such requests allocate.
func TestBodiesAreCheap(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("x", 1<<20)
	for name, b := range map[string]string{
		"tags":        body(`"interval": 100`, `,"statistics":{"tag-info":[`+strings.Repeat("{},", 500_000)+`{}]}`),
		"ignored":     body(`"interval": 100`, `,"more":[`+strings.Repeat("[],", 500_000)+`[]]`),
		"replicas":    body(`"interval": 100`, `,"reliability":{"replicas":[`+strings.Repeat(`"",`, 500_000)+`""]}`),
		"a long URI":  `{"timing":{"interval":1},"callback":{"http":{"uri":"ftp://` + long + `","opaque":""}}}`,
		"a long name": `{"timing":{"interval":1},"` + long + `":{},"callback":{}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status, _, text := w.ask(t, "POST", "/timers", b)
		runtime.ReadMemStats(&after)
		if status != 400 || len(text) > 16<<10 {
			t.Errorf("%s: status %d, %d bytes: %.200s", name, status, len(text), text)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(1<<20+10*len(b)) {
			t.Errorf("%s: %d bytes are allocated for a body of %d", name, got, len(b))
		}
	}
}
