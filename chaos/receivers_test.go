package chaos_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chronos/chaos"
)

// TestReceiver makes requests to a receiver of callbacks, each with something else that is wrong: it notices, and has
// done what is asked unless its mood says otherwise.
func TestReceiver(t *testing.T) {
	due := time.Now().UTC().Truncate(time.Millisecond)
	header := func(name, value string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set(name, value) }
	}
	body := func(text string) func(*http.Request) {
		return func(q *http.Request) { q.Body = io.NopCloser(strings.NewReader(text)) }
	}
	for name, c := range map[string]struct {
		spoil          func(*http.Request)
		mood           string
		status         int
		wrong          string // a part of what it complains of; "" for nothing
		fired, changed int
	}{
		"as it has to be":     {nil, "", 200, "", 1, 0},
		"it has no time":      {nil, chaos.Busy, 503, "", 0, 0},
		"it fails":            {nil, chaos.Failed, 500, "", 1, 0},
		"another id":          {header("Chronos-Message-Id", "m-2"), "", 200, `its id is "m-2"`, 1, 0},
		"another deadline":    {header("Chronos-Deadline", "2020-01-01T00:00:00Z"), "", 200, "its deadline is", 1, 0},
		"no attempt":          {header("Chronos-Attempt", "0"), "", 200, "it is attempt 0", 1, 0},
		"a wrong signature":   {header("Webhook-Signature", "v1,AAAA"), "", 200, "not as it has to be", 1, 0},
		"another header":      {header("X-Chaos-A", "2"), "", 200, "", 1, 1},
		"a header too much":   {header("X-Chaos-Bad", "one"), "", 200, "", 1, 1},
		"no content type":     {func(q *http.Request) { q.Header.Del("Content-Type") }, "", 200, "", 1, 1},
		"another method":      {func(q *http.Request) { q.Method = http.MethodPut }, "", 200, "", 1, 1},
		"another path":        {func(q *http.Request) { q.URL.Path = "/do/2" }, "", 200, "", 1, 1},
		"another body":        {body("v"), "", 200, "not as it has to be", 1, 1},
		"of nobody's message": {header("N", "2"), "", 200, "nobody has asked for it", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := chaos.NewReceiver(due)
			if err != nil {
				t.Fatal(err)
			}
			q, err := r.Request(t.Context(), due)
			if err != nil {
				t.Fatal(err)
			}
			if c.spoil != nil {
				c.spoil(q)
			}
			if c.mood != "" {
				r.Feel(c.mood)
			}
			w := httptest.NewRecorder()
			r.ServeHTTP(w, q)
			wrong, fired, changed := r.Seen()
			if w.Code != c.status || fired != c.fired || changed != c.changed {
				t.Errorf("status %d, fired %d times, %d of them changed", w.Code, fired, changed)
			}
			if all := strings.Join(wrong, "; "); (all == "") != (c.wrong == "") || !strings.Contains(all, c.wrong) {
				t.Errorf("it complains of %q", all)
			}
		})
	}
}
