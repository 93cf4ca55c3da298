package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"chronos/node/admin"
)

// Goal: what a request costs that is refused is in proportion to its size, and its answer is short. Method: bodies with
// very many errors. What they allocate stands for their work.
func TestRefusedIsCheap(t *testing.T) {
	s := newService(t, admin.Rights{Control: true})
	unknown := func(members int, name string) string {
		var b strings.Builder
		for i := range members {
			fmt.Fprintf(&b, `,"%s%d":1`, name, i)
		}
		return "{" + strings.TrimPrefix(b.String(), ",") + "}"
	}
	for name, body := range map[string]string{
		"unknown members": unknown(2_000, "m"), "more of them": unknown(60_000, "m"),
		"with a dot": unknown(60_000, "a."), "a long text": `{"by":"` + strings.Repeat("<", 900_000) + `"}`,
	} {
		for _, c := range []struct{ method, path string }{
			{"PUT", "/v1/pauses/intake"}, {"POST", "/v1/bulk/cancel"}, {"PUT", "/v1/queues/q"},
		} {
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s.handler.ServeHTTP(recorder, r)
			runtime.ReadMemStats(&after)
			if recorder.Code != 422 || recorder.Body.Len() > 16<<10 ||
				!strings.HasPrefix(recorder.Header().Get("Content-Type"), "application/problem+json") {
				t.Errorf("%s, %s: status %d, %d bytes: %.200s", name, c.path, recorder.Code, recorder.Body.Len(),
					recorder.Body)
			}
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(4<<20+30*len(body)); got > most {
				t.Errorf("%s, %s: %d bytes are allocated for a body of %d", name, c.path, got, len(body))
			}
		}
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// Goal: whoever may change nothing is told so before anything of the request is read.
func TestRightsBeforeBodies(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	for _, c := range []struct{ method, path string }{
		{"PUT", "/v1/pauses/intake"},
		{"PUT", "/v1/pauses/lanes/out"},
		{"POST", "/v1/bulk/cancel"},
		{"POST", "/v1/messages/b/cancel"},
		{"PUT", "/v1/queues/q"},
		{"POST", "/v1/tasks"},
		{"PUT", "/v1/actions/x"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, unread{t})
		r.ContentLength = 1 << 19
		recorder := httptest.NewRecorder()
		if s.handler.ServeHTTP(recorder, r); recorder.Code != http.StatusForbidden {
			t.Errorf("%s %s: status %d, %s", c.method, c.path, recorder.Code, recorder.Body)
		}
	}
}

// Goal: a filter that cannot be read is refused, and no list is of everything in its place.
func TestMalformedFilters(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	server := newServer(t, admin.Config{Listen: "127.0.0.1:0"})
	server.Mount(s.api)
	for _, query := range []string{
		"key=base64:%%%", "key=base64:!!", "header=t=base64:%%%", "header=t=base64:!!", "header=%zz", "key=a;header=b",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/messages", nil)
		r.URL.RawQuery, r.Host = query, "127.0.0.1"
		recorder := httptest.NewRecorder()
		if server.ServeHTTP(recorder, r); recorder.Code != 422 {
			t.Errorf("%s: status %d, %s", query, recorder.Code, recorder.Body)
		}
	}
}
