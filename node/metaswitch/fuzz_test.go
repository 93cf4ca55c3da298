package metaswitch_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chronos/node"
)

// FuzzRequests sends any body to any path: the answer is one that the interface has, none of which blames the store,
// and what was accepted is stored as a timer that pops, or is none.
func FuzzRequests(f *testing.F) {
	const timer = `{"timing":{"interval":1,"repeat-for":3},"callback":{"http":{"uri":"http://a/b","opaque":"x"}}}`
	for _, body := range []string{
		timer, `{}`, `[]`, ``, `{"timing":{"interval":0,"repeat-for":0},"callback":{"http":{"uri":"","opaque":""}}}`,
		strings.Replace(timer, `"repeat-for":3`, `"repeat-for":2147483647,"start-time-delta":-2147483648`, 1),
		strings.Replace(timer, `"repeat-for":3`, `"start-time":253370764800000,"sequence-number":2147483647`, 1),
		strings.Replace(timer, `}}}`, `}},"reliability":{"replication-factor":3,"sites":["a"]}}`, 1),
		strings.Replace(timer, `}}}`, `}},"statistics":{"tag-info":[{"type":"A","count":429496729},{"type":"A"}]}}`, 1),
	} {
		f.Add(http.MethodPut, "1234123412341234-2", body)
	}
	f.Add(http.MethodPost, "", timer)
	f.Add(http.MethodDelete, "ffffffffffffffff-99999999999999999999/more", "")
	f.Fuzz(func(t *testing.T, method, path, body string) {
		w := newWorld(t, nil)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", strings.NewReader(body))
		r.Method, r.URL.Path = method, "/timers/"+path
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		rows := w.store.Dump()
		switch recorder.Code {
		case http.StatusOK:
			for _, row := range rows {
				if reason, why := node.CheckID(row.ID); why != "" || !row.Recurs() {
					t.Errorf("stored %+v: %s %s", row.Message, reason, why)
				}
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
			if len(rows) > 0 || recorder.Body.Len() == 0 {
				t.Errorf("status %d, %q, and stored %+v", recorder.Code, recorder.Body, rows)
			}
		default:
			t.Errorf("status %d: %s", recorder.Code, recorder.Body)
		}
	})
}
