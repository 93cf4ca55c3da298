package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/calendar"
	"chronos/node/control"
	"chronos/node/store/inspect"
)

// put stores a message that waits, or one of a series, on lane out.
func (s *service) put(t *testing.T, id string, change func(*node.Message)) uuid.UUID {
	t.Helper()
	m := node.Message{
		ID: id, Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().UTC().Add(time.Hour).Truncate(time.Second),
	}
	if change != nil {
		change(&m)
	}
	outcomes, err := control.Instruct(t.Context(), s.Store, []node.Item{{Action: node.Schedule, Message: m}})
	if err != nil || outcomes[0] != node.Scheduled {
		t.Fatalf("schedule %s: %v, %v", id, outcomes, err)
	}
	return m.Incarnation
}

// every makes a message the third occurrence of a series.
func every(t *testing.T, interval, count string) func(*node.Message) {
	t.Helper()
	return func(m *node.Message) {
		first := m.Deadline.Add(-2 * time.Hour)
		series, err := calendar.New(calendar.Words{Repeat: "every " + interval, Count: count, First: first})
		if err != nil {
			t.Fatal(err)
		}
		m.Recurrence = node.Recurrence{Series: series.String(), Sequence: 3, At: m.Deadline}
	}
}

// claim claims all that waits on lane out.
func (s *service) claim(t *testing.T) {
	t.Helper()
	if _, err := s.Claim(t.Context(), node.ClaimRequest{
		Node: s.node, Hold: time.Hour, Until: time.Now().Add(100 * time.Hour),
		Lanes: []node.Share{{Lane: "out", Limit: 100, Bytes: 1 << 20}},
	}); err != nil {
		t.Fatal(err)
	}
}

// instruct gives an instruction about lane out, and returns the answer.
func (s *service) instruct(t *testing.T, action, id string, only uuid.UUID, more string) admin.Instructed {
	t.Helper()
	var got admin.Instructed
	s.ask(t, 200, "POST", "/v1/messages/"+url.PathEscape(id)+"/"+action,
		fmt.Sprintf(`{"lane": "out", "incarnation": "%s", "by": "me", "reason": "a test"%s}`, only, more), &got)
	if got.ID != id || got.Lane != "out" || got.Action != action || got.Says == "" {
		t.Errorf("%s %s: %+v", action, id, got)
	}
	return got
}

func (s *service) find(t *testing.T, id string) *inspect.Message {
	t.Helper()
	found, err := s.Find(t.Context(), id, inspect.Parts{Payload: true})
	if err != nil || len(found) > 1 {
		t.Fatalf("%s: %v, %v", id, found, err)
	}
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// Goal: each instruction does what its outcome says, to the message that somebody has seen and to no other; each is in
// the log and counted. Method: messages in all states, on a store that is the specification of the others.
func TestAPIInstructs(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	var counted []string
	s.api.Count = func(lane, action, outcome string) {
		counted = append(counted, lane+" "+action+" "+outcome)
	}
	check := func(got admin.Instructed, outcome, says string) {
		t.Helper()
		if got.Outcome != outcome || !strings.Contains(got.Says, says) {
			t.Errorf("the outcome is %+v, want %s that says %q", got, outcome, says)
		}
	}

	gone := s.put(t, "x/1 ü", nil)
	check(s.instruct(t, "cancel", "x/1 ü", uuid.New(), ""), "not_found", "Nothing has changed")
	got := s.instruct(t, "cancel", "x/1 ü", gone, "")
	check(got, "cancelled", "It does not come out. It was due at ")
	if s.find(t, "x/1 ü") != nil || got.Former == nil {
		t.Errorf("it is cancelled, and there: %+v", got)
	}
	check(s.instruct(t, "cancel", "x/1 ü", gone, ""), "not_found", "Look again")

	moved := s.put(t, "moved", func(m *node.Message) { m.Value = []byte("kept") })
	got = s.instruct(t, "reschedule", "moved", moved, `, "delay": "3h"`)
	check(got, "rescheduled", ", and no longer at ")
	m := s.find(t, "moved")
	if m.Incarnation.String() != got.Incarnation || !m.Deadline.Equal(*got.Deadline) || string(m.Value) != "kept" ||
		m.Deadline.Before(time.Now().Add(179*time.Minute)) {
		t.Errorf("it is %+v, and was told to be %+v", m, got)
	}
	got = s.instruct(t, "reschedule", "moved", m.Incarnation, `, "deadline": "2030-01-31T09:00:00+01:00"`)
	check(got, "rescheduled", "It comes out at 2030-01-31 08:00:00.000 UTC, and no longer at ")
	check(s.instruct(t, "cancel", "moved", moved, ""), "not_found", "")
	if s.find(t, "moved") == nil {
		t.Error("a message was cancelled that nobody has seen")
	}

	fired := s.put(t, "fired", nil)
	got = s.instruct(t, "fire", "fired", fired, "")
	check(got, "fired", "It comes out now. It was due at ")
	if m = s.find(t, "fired"); m.Due.After(time.Now()) || !m.Bound || m.Incarnation.String() != got.Incarnation {
		t.Errorf("it is %+v", m)
	}
	check(s.instruct(t, "cancel", "fired", m.Incarnation, ""), "too_late", "comes out as it is")
	if _, err := s.Pause(t.Context(), node.Pause{Lane: "out"}); err != nil {
		t.Fatal(err)
	}
	check(s.instruct(t, "fire", "held", s.put(t, "held", nil), ""), "fired", "as soon as its lane is resumed")
	if _, err := s.Resume(t.Context(), "out"); err != nil {
		t.Fatal(err)
	}

	ended := s.put(t, "ended", every(t, "1h", ""))
	got = s.instruct(t, "cancel", "ended", ended, "")
	if check(got, "cancelled", "The series has ended: occurrence 3, which was due at "); got.Sequence != 3 {
		t.Errorf("the sequence is %d", got.Sequence)
	}
	check(s.instruct(t, "fire", "on", s.put(t, "on", every(t, "1h", "")), ""), "fired",
		"The series goes on as before, with occurrence 4 at ")
	last := s.instruct(t, "fire", "last", s.put(t, "last", every(t, "1h", "3")), "")
	if check(last, "fired", "now"); strings.Contains(last.Says, "goes on") {
		t.Errorf("the last occurrence says %q", last.Says)
	}
	stopped, late := s.put(t, "stopped", every(t, "1h", "")), s.put(t, "late", nil)
	s.claim(t)
	got = s.instruct(t, "cancel", "stopped", stopped, "")
	if check(got, "stopped", "no occurrence comes after 3"); got.Sequence != 3 || !s.find(t, "stopped").Stopped {
		t.Errorf("the series is %+v", got)
	}
	for _, action := range []string{"cancel", "fire", "reschedule"} {
		more := map[string]string{"reschedule": `, "delay": "PT1H"`}[action]
		check(s.instruct(t, action, "late", late, more), "too_late", "if it has not come out just now")
	}

	want := strings.Count(s.log.String(), "audit: somebody has given an instruction")
	if len(counted) != want || want < 15 ||
		!slices.Contains(counted, "out cancel too_late") || !slices.Contains(counted, "out reschedule rescheduled") {
		t.Errorf("%d lines, counted %q", want, counted)
	}
	for _, line := range []string{
		`action=cancel outcome=cancelled id="x/1 ü" lane=out incarnation=` + gone.String() +
			` claimed_by=me authenticated="no: this listener asks for no token" remote=192.0.2.1:1234 reason="a test"`,
		`action=reschedule outcome=rescheduled id=moved lane=out incarnation=` + moved.String() + ` deadline=`,
	} {
		if !strings.Contains(s.log.String(), line) {
			t.Errorf("no audit of %s in\n%s", line, &s.log)
		}
	}
}

// unsure is a store whose takes take effect, and whose answers are lost.
type unsure struct{ control.Taker }

// Take implements control.Taker.
func (u unsure) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if _, err := u.Taker.Take(ctx, request); err != nil {
		return node.TakeResult{}, err
	}
	return node.TakeResult{}, errors.New("dial tcp 10.0.0.5: connection reset")
}

// Goal: what may not be done, or cannot, changes nothing and says why; and where nobody knows what has happened, that
// is what is said. Method: one obstacle each.
func TestAPIDoesNotInstruct(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	s.api.Own, s.api.MaxDelay = []string{"", "dead"}, 10*time.Hour
	waits := s.put(t, "waits", nil)
	soon := s.put(t, "soon", func(m *node.Message) { m.NotAfter = m.Deadline.Add(time.Minute) })
	refuses := func(status int, says, action, id, body string) {
		t.Helper()
		var problem struct{ Detail string }
		s.ask(t, status, "POST", "/v1/messages/"+id+"/"+action, body, &problem)
		if !strings.Contains(problem.Detail, says) {
			t.Errorf("%s %s %s: %q, want one with %q", action, id, body, problem.Detail, says)
		}
	}
	about := func(only uuid.UUID, more string) string {
		return fmt.Sprintf(`{"lane": "out", "incarnation": "%s"%s}`, only, more)
	}
	refuses(422, "", "cancel", "waits", `{"lane": "out"}`)
	refuses(422, "", "cancel", "waits", fmt.Sprintf(`{"incarnation": "%s"}`, waits))
	refuses(422, "the incarnation must be the one", "cancel", "waits", about(uuid.Nil, ""))
	refuses(422, "", "cancel", "waits", about(waits, `, "delay": "1h"`))
	refuses(422, "by deadline or by delay", "reschedule", "waits", about(waits, ""))
	refuses(422, "by deadline or by delay", "reschedule", "waits",
		about(waits, `, "delay": "1h", "deadline": "2030-01-01"`))
	refuses(422, "the delay is \"soon\"", "reschedule", "waits", about(waits, `, "delay": "soon"`))
	refuses(422, "the deadline is \"soon\"", "reschedule", "waits", about(waits, `, "deadline": "soon"`))
	refuses(422, "(max-delay)", "reschedule", "waits", about(waits, `, "delay": "11h"`))
	refuses(422, "chronosNotAfter", "reschedule", "soon", about(soon, `, "delay": "2h"`))
	refuses(422, "where Chronos puts dead letters", "cancel", "waits",
		fmt.Sprintf(`{"lane": "dead", "incarnation": "%s"}`, waits))
	refuses(422, "the id ", "cancel", strings.Repeat("x", 129), about(waits, ""))
	if _, err := s.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	refuses(409, "the intake is paused, so nothing is changed", "cancel", "waits", about(waits, ""))
	if _, err := s.Resume(t.Context(), node.Intake); err != nil {
		t.Fatal(err)
	}
	reader := newService(t, admin.Rights{Payload: true})
	for _, action := range []string{"cancel", "fire", "reschedule"} {
		reader.ask(t, 403, "POST", "/v1/messages/b/"+action, about(waits, ""), nil)
	}
	if m := s.find(t, "waits"); m == nil || m.Incarnation != waits || s.find(t, "soon").Incarnation != soon {
		t.Errorf("it was refused, and done: %+v", m)
	}
	s.api.Taker = unsure{s.Store}
	s.api.Explain = func(error) string { return "The store is asleep." }
	refuses(503, "Nobody knows whether that was done: look at the message again before you repeat it. "+
		"The store is asleep.", "cancel", "waits", about(waits, ""))
	if s.find(t, "waits") != nil || !strings.Contains(s.log.String(), "action=cancel outcome=unknown id=waits") {
		t.Errorf("what nobody knows is not in the log:\n%s", &s.log)
	}
	if !strings.Contains(s.log.String(), `outcome="not taken" id=waits`) {
		t.Errorf("what was not taken is not in the log:\n%s", &s.log)
	}
}

// Goal: what is overdue and fired is said to come out in its old place, which is where it does.
func TestAPIFiresOverdue(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	long := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	only := s.put(t, "overdue", func(m *node.Message) { m.Deadline = long })
	got := s.instruct(t, "fire", "overdue", only, "")
	if m := s.find(t, "overdue"); got.Outcome != "fired" || got.Deadline == nil || !got.Deadline.Equal(long) ||
		!m.Deadline.Equal(long) || !m.Due.Equal(long) || m.Incarnation.String() != got.Incarnation {
		t.Errorf("the answer is %+v, and the message %+v", got, m)
	}
}

// Goal: a message of a series shows which occurrence it is, and when the next one comes.
func TestAPIShowsSeries(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	s.put(t, "series", every(t, "1h", ""))
	s.put(t, "last", every(t, "1h", "3"))
	only := s.put(t, "stopped", every(t, "1h", ""))
	until := s.put(t, "until", func(m *node.Message) { m.NotAfter = m.Deadline })
	s.claim(t)
	s.instruct(t, "cancel", "stopped", only, "")
	s.instruct(t, "cancel", "until", until, "")
	for id, want := range map[string]admin.Series{
		"series": {Sequence: 3}, "last": {Sequence: 3}, "stopped": {Sequence: 3, Stopped: true},
	} {
		var found admin.Messages
		s.ask(t, http.StatusOK, "GET", "/v1/messages/"+id, "", &found)
		m := found.Messages[0]
		if m.Series == nil || m.Series.Sequence != want.Sequence || m.Series.Stopped != want.Stopped ||
			!strings.HasPrefix(m.Series.Rule, "every 1h0m0s from ") || (m.Series.Next != nil) != (id == "series") {
			t.Fatalf("%s is %+v", id, m.Series)
		}
		if id == "series" && !m.Series.Next.Equal(m.Deadline.Add(time.Hour)) {
			t.Errorf("the next after %v comes at %v", m.Deadline, m.Series.Next)
		}
	}
	var found admin.Messages
	s.ask(t, http.StatusOK, "GET", "/v1/messages/until", "", &found)
	if m := found.Messages[0]; m.Series != nil || m.NotAfter == nil || !m.NotAfter.Equal(m.Deadline) || !m.Bound {
		t.Errorf("it is %+v", m)
	}
}
