package admin_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/store/memory"
)

// tenant gives a message a header and a key.
func tenant(name string) func(*node.Message) {
	return func(m *node.Message) {
		m.Key, m.Headers = []byte(name), []node.Header{{Name: "tenant", Value: []byte(name)}}
	}
}

// Goal: those that are meant are cancelled, page by page, and nothing else. Method: 700 messages of one tenant and 10
// of another wait; the pages are asked for, first to see, and then for good.
func TestBulkCancel(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	others := len(s.Dump())
	for i := range 700 {
		s.put(t, fmt.Sprint("blue-", i), tenant("blue"))
	}
	for i := range 10 {
		s.put(t, fmt.Sprint("red-", i), tenant("red"))
	}
	for _, dry := range []bool{true, false} {
		cursor, pages, cancelled := "", 0, 0
		for more := true; more; more = cursor != "" {
			var page admin.BulkCancelled
			s.ask(t, 200, "POST", "/v1/bulk/cancel", fmt.Sprintf(
				`{"lane": "out", "header": "tenant=blue", "dry_run": %v, "cursor": %q, "by": "ann"}`, dry, cursor),
				&page)
			cursor, cancelled, pages = page.Next, cancelled+page.Tally.Cancelled, pages+1
			if page.Matched != page.Tally.Cancelled || page.Scanned < page.Matched {
				t.Errorf("a page: %+v", page)
			}
		}
		left := len(s.Dump()) - others
		if want := map[bool]int{true: 710, false: 10}[dry]; cancelled != 700 || pages < 2 || left != want {
			t.Errorf("dry %v: %d are cancelled on %d pages, and %d are left", dry, cancelled, pages, left)
		}
	}
	log := s.log.String()
	if strings.Count(log, "cancelled messages in bulk") != 2 || !strings.Contains(log, "claimed_by=ann") ||
		!strings.Contains(log, "header=\"tenant=blue\"") {
		t.Errorf("the audit says\n%s", log)
	}
}

// Goal: what nodes hold is asked for by itself, and told apart. Method: a message, a series and a stranger's are
// claimed.
func TestBulkCancelClaimed(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	s.put(t, "single", tenant("blue"))
	s.put(t, "series", func(m *node.Message) { every(t, "1h", "")(m); tenant("blue")(m) })
	s.put(t, "other", tenant("red"))
	s.claim(t)
	s.put(t, "waits", tenant("blue"))
	var page admin.BulkCancelled
	s.ask(t, 200, "POST", "/v1/bulk/cancel", `{"lane": "out", "key": "blue", "claimed": true}`, &page)
	if page.Stopped != 1 || page.TooLate != 1 || page.Matched != 2 || page.Tally.Cancelled != 0 {
		t.Errorf("of those that are claimed: %+v", page)
	}
	s.ask(t, 200, "POST", "/v1/bulk/cancel", `{"lane": "out", "key": "blue"}`, &page)
	if page.Tally.Cancelled != 1 {
		t.Errorf("of those that wait: %+v", page)
	}
}

// Goal: whoever may not, or asks for what may not be, is told so in a sentence, and nothing changes.
func TestBulkCancelRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{})
	s.put(t, "a", nil)
	var problem struct{ Detail string }
	refused := func(status int, body, want string) {
		t.Helper()
		s.ask(t, status, "POST", "/v1/bulk/cancel", body, &problem)
		if !strings.Contains(problem.Detail, want) || len(s.Dump()) == 0 {
			t.Errorf("%s: %s", body, problem.Detail)
		}
	}
	refused(403, `{"lane": "out"}`, "admin-allow would have to name control")
	s = newService(t, admin.Rights{Control: true})
	s.put(t, "a", nil)
	s.api.Own = []string{"dead"}
	refused(422, `{"lane": "dead"}`, "they always come out")
	refused(422, `{}`, "")
	refused(422, `{"lane": "out", "key": ""}`, "")
	refused(422, `{"lane": "out", "header": ""}`, "")
	refused(422, `{"lane": "out", "header": "=blue"}`, "header: \"=blue\" has no name")
	refused(422, `{"lane": "out", "cursor": "?"}`, "cursor")
	refused(422, `{"lane": "out", "key": "base64:?"}`, "base64")
	if _, err := s.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	refused(409, `{"lane": "out"}`, "the intake is paused, so nothing is changed")
	from := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	var page admin.BulkCancelled
	s.ask(t, 200, "POST", "/v1/bulk/cancel", fmt.Sprintf(`{"lane": "out", "from": %q}`, from), &page)
	if page.Matched != 0 {
		t.Errorf("nothing is meant, and the answer is %+v", page)
	}
}

// Goal: the audit says which messages were meant, and does not say that nothing was cancelled where nobody knows. What
// has asked nothing of the store is no line. Method: a store that does it and fails; one that takes nothing in; a
// cursor that is none.
func TestBulkCancelAudit(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	s.put(t, "a", nil)
	line := func(status int, body, want string) {
		t.Helper()
		s.log.Reset()
		s.ask(t, status, "POST", "/v1/bulk/cancel", body, nil)
		if log := s.log.String(); (want == "") != (log == "") || !strings.Contains(log, want) {
			t.Errorf("%s: the audit says %q, want %q", body, log, want)
		}
	}
	line(422, `{"lane": "out", "cursor": "?"}`, "")
	if _, err := s.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	line(409, `{"lane": "out"}`, `outcome="not taken" lane=out`)
	if _, err := s.Resume(t.Context(), node.Intake); err != nil {
		t.Fatal(err)
	}
	line(200, `{"lane": "out", "claimed": true, "header": "n"}`,
		"outcome=done lane=out claimed=true header=n matched=1 cancelled=0 stopped=0 too_late=1 changed=0")
	s.api.Taker = unsure{s.Store}
	line(503, `{"lane": "out", "from": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}`,
		"outcome=unknown lane=out claimed=false from=2020-01-01T00:00:00.000Z until=2100-01-01T00:00:00.000Z matched=2")
	if s.find(t, "a") != nil {
		t.Error("it is there")
	}
	s.api.Taker = s.Store
	s.put(t, "d", nil)
	line(200, `{"lane": "out", "until": "2100-01-01T00:00:00Z"}`,
		"outcome=done lane=out claimed=false until=2100-01-01T00:00:00.000Z matched=1 cancelled=1")
}

// leaving is a store whose clients have gone by the time that it is asked to do something.
type leaving struct {
	*memory.Store

	leave func()
}

func (l leaving) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	l.leave()
	return l.Store.Take(ctx, request)
}

// Goal: what was begun is done, written down and counted, whether the client still waits for it or not. Method: a
// client that hangs up while the store is asked.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	one, counted := s.put(t, "one", nil), map[string]int{}
	s.api.Count = func(lane, action, outcome string) { counted[lane+" "+action+" "+outcome]++ }
	for path, body := range map[string]string{
		"/v1/messages/one/cancel": fmt.Sprintf(`{"lane": "out", "incarnation": %q}`, one),
		"/v1/bulk/cancel":         `{"lane": "elsewhere"}`,
	} {
		ctx, leave := context.WithCancel(t.Context())
		s.api.Taker = leaving{s.Store, leave}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s.handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	log := s.log.String()
	if s.find(t, "one") != nil || s.find(t, "c") != nil || !strings.Contains(log, "outcome=cancelled id=one") ||
		!strings.Contains(log, "outcome=done lane=elsewhere claimed=false matched=1 cancelled=1") {
		t.Errorf("left are %v; the audit says\n%s", s.Dump(), log)
	}
	if want := map[string]int{"out cancel cancelled": 1, "elsewhere cancel cancelled": 1}; !maps.Equal(counted, want) {
		t.Errorf("counted are %v, want %v", counted, want)
	}
}
