package horae_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node/horae"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/memory"
)

// world is a memory store with the interface over it.
type world struct {
	t       *testing.T
	now     time.Time
	store   *memory.Store
	desk    *desk.Desk
	handler http.Handler
	seen    []horae.Request
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)} // a Thursday
	clock := func() time.Time { return w.now }
	w.store = memory.New(clock)
	w.desk = &desk.Desk{Store: w.store, Base: "http://horae.dev:8015/", Now: clock}
	api := horae.API{
		Desk: w.desk, Now: clock,
		Observe: func(r horae.Request) { w.seen = append(w.seen, r) },
	}
	w.handler = api.Handler()
	return w
}

// ask sends a request, and returns status and body of the answer.
func (w *world) ask(method, path, body string) (int, string) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, r)
	text, err := io.ReadAll(answer.Result().Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.Code, string(text)
}

// want asks, and compares the answer. What stands between two $ in what is wanted may be anything.
func (w *world) want(status int, want, method, path, body string) string {
	w.t.Helper()
	got, text := w.ask(method, path, body)
	rest, fits := text, true
	for i, part := range strings.Split(want, "$") {
		at := strings.Index(rest, part)
		if fits = fits && at >= 0 && (i > 0 || at == 0); fits {
			rest = rest[at+len(part):]
		}
	}
	if got != status || !fits {
		w.t.Fatalf("%s %s %s: %d %s\nwant %d %s", method, path, body, got, text, status, want)
	}
	return text
}

// made creates something, and returns its uuid.
func (w *world) made(what, body string) string {
	w.t.Helper()
	text := w.want(200, `{"uuid":"`, "PUT", "/v1/"+what, body)
	var made struct{ UUID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.UUID
}

// Goal: the three examples of horae's README are answered as it prints them, with other uuids.
func TestExamplesOfTheREADME(t *testing.T) {
	w := newWorld(t)
	q := w.made("queue", `{"name":"My First Sync Queue","queueType":"sync","windowOfOperation":"always"}`)
	w.want(200, `{"uuid":"`+q+`","name":"My First Sync Queue","queueType":"sync","windowOfOperation":"always"}`+"\n",
		"GET", "/v1/queue/"+q, "")
	a := w.made("action", `{"name":"My First Action","operation":"GET","uri":"<<HORAE_COMPLETION_URI>>"}`)
	w.want(200, `{"uuid":"`+a+`","operation":"GET","uri":"\u003c\u003cHORAE_COMPLETION_URI\u003e\u003e"}`+"\n",
		"GET", "/v1/action/"+a, "")
	w.want(200, `{"uuid":"$","name":"My First Task","priority":10,"queue":"`+q+`","when":"1974-12-31T00:00:00Z",`+
		`"execution":"`+a+`","status":"Pending"}`+"\n", "PUT", "/v1/task",
		`{"name":"My First Task","queue":"`+q+`","execution":"`+a+`","priority":10}`)

	// "By this point horae will have started the queue hence this task will be immediately executed."
	messages := w.store.Dump()
	if len(messages) != 1 || messages[0].Lane != queue.Lane || !messages[0].Deadline.Equal(w.now) {
		t.Errorf("messages: %+v", messages)
	}
}

// Goal: every error is 400 with a code and a sentence, as horae says it.
func TestErrors(t *testing.T) {
	w := newWorld(t)
	const none, root = "22222222-2222-2222-2222-222222222222", "11111111-1111-1111-1111-111111111111"
	a := w.made("action", `{"operation":"GET","uri":"http://x/"}`)
	q := w.made("queue", `{"name":"q","queueType":"sync","windowOfOperation":"never"}`)
	task := w.made("task", `{"queue":"`+q+`","execution":"`+a+`"}`)
	code := func(code int, sentence string) string { return fmt.Sprintf(`{"code":%d,"message":"%s`, code, sentence) }
	queueOf := func(fields string) string {
		return `{"name":"x","queueType":"sync","windowOfOperation":"always"` + fields + `}`
	}
	for _, c := range []struct{ want, method, path, body string }{
		{code(400, `Badly formed request"`), "PUT", "queue", "{"},
		{code(400, `Badly formed request"`), "PUT", "queue", queueOf(`,"backpressureDefinition":"many"`)},
		{
			code(400, "Queue not saved: cannot specify UUID on create"), "PUT", "queue",
			queueOf(`,"uuid":"` + none + `"`),
		},
		{code(400, "Queue not saved: Invalid queue type"), "PUT", "queue", `{"name":"x","windowOfOperation":"always"}`},
		{
			code(400, "Queue not saved: Invalid window definition: "), "PUT", "queue",
			`{"name":"x","queueType":"sync","windowOfOperation":"sometimes"}`,
		},
		{code(400, "Queue not saved: Cannot define queue with root path"), "PUT", "queue", queueOf(`,"paths":["/"]`)},
		{
			code(400, "Queue not saved: Cannot define path with trailing slash"), "PUT", "queue",
			queueOf(`,"paths":["/a/"]`),
		},
		{
			code(400, "Queue not saved: There is another queue"), "PUT", "queue",
			strings.Replace(queueOf(""), `"x"`, `"q"`, 1),
		},
		{code(404, "Queue not found"), "GET", "queue/" + none, ""},
		{code(404, "Queue not found"), "GET", "queue/q", ""},
		{code(404, "Queue not found"), "DELETE", "queue/" + none, ""},
		{code(400, "Queue not updated: Unknown queue"), "PUT", "queue/" + none, "{}"},
		{code(400, "Cannot update root queue"), "PUT", "queue/" + root, "{}"},
		{code(400, "Queue not deleted: The queue root is always there"), "DELETE", "queue/" + root, ""},
		{code(400, "Badly formed request: "), "PUT", "queue/" + q, "{"},
		{code(400, "Task not saved: Unspecified execution action"), "PUT", "task", `{"queue":"` + q + `"}`},
		{code(400, "Task not saved: cannot specify UUID on create"), "PUT", "task", `{"uuid":"` + none + `"}`},
		{
			code(400, "Task not saved: Unknown queue"), "PUT", "task",
			`{"queue":"` + none + `","execution":"` + a + `"}`,
		},
		{code(400, "Task not saved: No timestamp set for async queue"), "PUT", "task", `{"execution":"` + a + `"}`},
		{
			code(400, "Task not saved: There is no action"), "PUT", "task",
			`{"queue":"` + q + `","execution":"` + none + `"}`,
		},
		{code(404, "Task not found"), "GET", "task/" + none, ""},
		{code(404, "Task not found"), "DELETE", "task/" + none, ""},
		{code(404, "Task not found"), "GET", "task/" + none + "/complete", ""},
		{code(400, "Task not completed: "), "GET", "task/" + task + "/complete", ""}, // it waits
		{code(400, "Task not completed: status must be"), "POST", "task/" + task + "/complete", `{"status":"perhaps"}`},
		{code(400, "Task not updated: Unknown task"), "PUT", "task/" + none, "{}"},
		{code(400, "Badly formed request"), "PUT", "task/" + task, "{"},
		{code(400, "Action not saved: cannot specify UUID on create"), "PUT", "action", `{"uuid":"` + none + `"}`},
		{code(400, "Action not saved: operation must be"), "PUT", "action", `{"uri":"http://x/"}`},
		{code(400, "Action not saved: The method"), "PUT", "action", `{"uri":"http://x/","operation":"MOVE"}`},
		{code(400, "Action not updated: Unknown action"), "PUT", "action/" + none, "{}"},
		{code(404, "Action not found"), "GET", "action/" + none, ""},
		{code(404, "Action not found"), "DELETE", "action/" + none, ""},
		{code(400, "Action not deleted: The action"), "DELETE", "action/" + a, ""}, // the task names it
	} {
		w.want(http.StatusBadRequest, c.want, c.method, "/v1/"+c.path, c.body)
	}
	for _, c := range [][2]string{{"POST", "/v1/queue"}, {"HEAD", "/v1/task/" + task + "/complete"}, {"GET", "/"}} {
		if got, text := w.ask(c[0], c[1], ""); got != http.StatusNotFound && got != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", c[0], c[1], got, text)
		}
	}
}

// Goal: what is there is changed where the body says something and stays where it does not; tags and queues find
// things; what never worked there (the update of an action, tasks by queue) works.
func TestUpdatesAndLists(t *testing.T) {
	w := newWorld(t)
	q := w.made("queue", `{"name":"q","queueType":"sync","windowOfOperation":"2am - 4am every saturday",`+
		`"paths":["/apps/mail"],"tags":["night"],"shouldDrain":true,"backpressureDefinition":"5"}`)
	w.want(200, `{"message":"Queue updated"}`+"\n", "PUT", "/v1/queue/"+q, `{"windowOfOperation":"never"}`)
	w.want(200, `{"uuid":"`+q+`","name":"q","queueType":"sync","windowOfOperation":"never","shouldDrain":true,`+
		`"backpressureDefinition":5,"tags":["night"],"paths":["/apps/mail"]}`, "GET", "/v1/queue/"+q, "")
	w.want(200, `[{"uuid":"$"name":"q"$"name":"root"$}]`+"\n", "GET", "/v1/queues", "")
	w.want(200, `[{"uuid":"`+q, "GET", "/v1/queues?tag=night", "")
	w.want(200, "[]\n", "GET", "/v1/queues?tag=day", "")

	a := w.made("action", `{"operation":"POST","uri":"http://x/","payload":"{}","tags":["x"]}`)
	w.want(200, `{"message":"Action updated"}`, "PUT", "/v1/action/"+a, `{"uri":"http://y/"}`)
	w.want(200, `[{"uuid":"`+a+`","operation":"POST","payload":"{}","uri":"http://y/","tags":["x"]}]`+"\n",
		"GET", "/v1/actions?tag=x", "")

	task := w.made("task", `{"queue":"`+q+`","execution":"`+a+`","tags":["t"],"promise":"`+a+`"}`)
	w.want(200, `{"message":"Task updated"}`, "PUT", "/v1/task/"+task, `{"priority":7,"status":"Complete"}`)
	shown := `{"uuid":"` + task + `","priority":7,"queue":"` + q + `","when":"1974-12-31T00:00:00Z","promise":"` + a +
		`","execution":"` + a + `","status":"Pending","tags":["t"]}`
	for _, query := range []string{"", "?tag=t", "?queue=" + q} {
		w.want(200, "["+shown+"]\n", "GET", "/v1/tasks"+query, "")
	}
	w.want(200, "[]\n", "GET", "/v1/tasks?queue=11111111-1111-1111-1111-111111111111", "")
	w.want(200, `{"message":"Task deleted"}`, "DELETE", "/v1/task/"+task, "")
	w.want(200, `{"uuid":"`+task+`"$"status":"Deleted"`, "GET", "/v1/task/"+task, "")
	w.want(200, `{"message":"Action deleted"}`, "DELETE", "/v1/action/"+a, "")
	w.want(200, `{"message":"Queue deleted"}`, "DELETE", "/v1/queue/"+q, "")
	w.want(400, `{"code":404,"message":"Queue not found"}`, "GET", "/v1/queue/"+q, "")
	if first := w.seen[0]; first.Operation != "put_queue" || first.Status != http.StatusOK {
		t.Errorf("it was told of %+v", first)
	}
}

// Goal: what was made by our own interface, and has more than horae knows of, keeps that when this one changes it.
func TestUpdateKeepsWhatHoraeHasNot(t *testing.T) {
	w := newWorld(t)
	a := w.made("action", `{"operation":"POST","uri":"http://x/","payload":"{}"}`)
	other := w.made("action", `{"operation":"GET","uri":"http://x/"}`)
	q := w.made("queue", `{"name":"q","queueType":"sync","windowOfOperation":"never"}`)
	id := uuid.MustParse(a)
	headers := []desk.ActionHeader{
		{Name: "Authorization", Value: "Bearer x"}, {Name: "content-type", Value: "text/plain"},
	}
	if _, _, err := w.desk.PutAction(t.Context(), id, desk.ActionChange{Headers: &headers}); err != nil {
		t.Fatal(err)
	}
	w.want(200, `{"message":"Action updated"}`, "PUT", "/v1/action/"+a, `{"uri":"http://y/"}`)
	changed, err := w.desk.FindAction(t.Context(), id)
	if err != nil || changed.URI != "http://y/" || len(changed.Headers) != 2 {
		t.Errorf("%+v, %v", changed, err)
	}

	task := uuid.New()
	priority, promise := -5, []string{a, other}
	if _, _, err := w.desk.PutTask(t.Context(), task, desk.TaskChange{
		Queue: &q, Execution: &a, Priority: &priority, Promise: &promise,
	}); err != nil {
		t.Fatal(err)
	}
	w.want(200, `{"message":"Task updated"}`, "PUT", "/v1/task/"+task.String(), `{"name":"mine"}`)
	kept, err := w.desk.FindTask(t.Context(), task)
	if err != nil || kept.Name != "mine" || kept.Priority != -5 || len(kept.Promise) != 2 {
		t.Errorf("%+v, %v", kept, err)
	}
	w.want(200, `{"message":"Task updated"}`, "PUT", "/v1/task/"+task.String(), `{"priority":3,"promise":"`+other+`"}`)
	kept, err = w.desk.FindTask(t.Context(), task)
	if err != nil || kept.Priority != 3 || len(kept.Promise) != 1 || kept.Promise[0].String() != other {
		t.Errorf("%+v, %v", kept, err)
	}
}

// Goal: shouldDrain of a DELETE counts, and not that of the queue.
func TestDeleteSaysHow(t *testing.T) {
	w := newWorld(t)
	a := w.made("action", `{"operation":"GET","uri":"http://x/"}`)
	for want, drain := range map[string]string{"Deleted": "false", "Pending": "true"} {
		q := w.made("queue", `{"name":"`+want+`","queueType":"sync","windowOfOperation":"never","shouldDrain":`+
			map[string]string{"false": "true", "true": "false"}[drain]+`}`)
		task := w.made("task", `{"queue":"`+q+`","execution":"`+a+`"}`)
		w.want(400, `{"code":400,"message":"Queue not deleted: shouldDrain`, "DELETE",
			"/v1/queue/"+q+"?shouldDrain=1", "")
		w.want(200, `{"message":"Queue deleted"}`, "DELETE", "/v1/queue/"+q+"?shouldDrain="+drain, "")
		w.want(200, `{"uuid":"`+task+`"$"status":"`+want+`"`, "GET", "/v1/task/"+task, "")
	}
}

// Goal: the UUID of zeros names nothing, and null is as if the field were not there.
func TestZeroAndNull(t *testing.T) {
	w := newWorld(t)
	const zero = "00000000-0000-0000-0000-000000000000"
	a := w.made("action", `{"operation":"GET","uri":"http://x/","payload":null,"tags":null}`)
	q := w.made("queue", `{"name":"q","queueType":"sync","windowOfOperation":"never","backpressureDefinition":null,`+
		`"backpressureAction":null,"paths":null}`)
	w.made("task", `{"queue":"`+q+`","execution":"`+a+`","promise":null,"priority":null}`)
	for what, name := range map[string]string{"queue": "Queue", "task": "Task", "action": "Action"} {
		w.want(400, `{"code":404,"message":"`+name+` not found"}`, "GET", "/v1/"+what+"/"+zero, "")
		w.want(400, `{"code":404,"message":"`+name+` not found"}`, "DELETE", "/v1/"+what+"/"+zero, "")
		w.want(400, `{"code":400,"message":"`+name+` not updated: Unknown `+what+`"}`, "PUT",
			"/v1/"+what+"/"+zero, "{}")
	}
	w.want(200, "[]\n", "GET", "/v1/tasks?queue="+zero, "")
	w.want(400, `{"code":404,"message":"Task not found"}`, "GET", "/v1/task/"+zero+"/complete", "")
}

// Goal: a list of more than a page is one JSON array, and has all.
func TestLongList(t *testing.T) {
	w := newWorld(t)
	const count = 1100
	for range count {
		w.made("action", `{"operation":"GET","uri":"http://x/"}`)
	}
	_, text := w.ask("GET", "/v1/actions", "")
	var list []struct{ UUID string }
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != count {
		t.Errorf("%d of %d: %v", len(list), count, err)
	}
}

// away is a store that does not answer.
type away struct{ queue.Store }

func (away) Apply(context.Context, queue.Command) (queue.Result, error) {
	return queue.Result{}, errors.New("it is away")
}

// Goal: what is not known to be done, or not now, is 503, and worth another try.
func TestAway(t *testing.T) {
	w := newWorld(t)
	api := horae.API{Desk: &desk.Desk{Store: away{w.store}, Base: "http://x/"}}
	w.handler = api.Handler()
	w.want(http.StatusServiceUnavailable, `{"code":503,"message":"Queue not saved: $it is away`, "PUT", "/v1/queue",
		`{"name":"q","queueType":"sync","windowOfOperation":"always"}`)
}

// Goal: every window of horae's README, and of the commit that brought its parser, is one; the answer has its normal
// form.
func TestWindows(t *testing.T) {
	w := newWorld(t)
	for i, c := range [][2]string{
		{"always", "always"},
		{"always on except 2 - 4am every sunday", "always except 02:00 to 04:00 every sunday in UTC"},
		{"never", "never"},
		{"4.34am - 17:00 every day", "04:34 to 17:00 every day in UTC"},
		{"1am to 11pm every thursday", "01:00 to 23:00 every thursday in UTC"},
		{"1am to 2am every 1st of the month", "01:00 to 02:00 on the 1st of the month in UTC"},
		{"4am to 6am every 01/01 yearly", "04:00 to 06:00 every 1 january in UTC"},
		{"10pm to 4am every saturday where timezone = GMT", "22:00 to 04:00 every saturday in GMT"},
		{"2am - 4am every saturday", "02:00 to 04:00 every saturday in UTC"},
		{"always on except 00:00 - 11:59 on saturday", "always except 00:00 to 11:59 on 2 february 2030 in UTC"},
		{"2pm to 4pm every day", "14:00 to 16:00 every day in UTC"},
		{"10pm - 1am every weekday", "22:00 to 01:00 every weekday in UTC"},
		{"4pm - 4:30 every 1st of January", "16:00 to 16:30 every 1 january in UTC"},
		{"10:01 to 11:00 on 1st of the month", "10:01 to 11:00 on the 1st of the month in UTC"},
		{"00:00 to 1:00 every 13th of the month", "00:00 to 01:00 on the 13th of the month in UTC"},
		{
			"any time except 5pm to 6pm every weekend",
			"always except 17:00 to 18:00 every saturday and sunday in UTC",
		},
		{"2am - 4am on 06/03/2015", "02:00 to 04:00 on 6 march 2015 in UTC"},
		{"2:00 to 4:00 every weekday where timezone = GMT", "02:00 to 04:00 every weekday in GMT"},
	} {
		w.want(200, `{"uuid":"$","windowOfOperation":"`+c[1]+`"}`, "PUT", "/v1/queue",
			fmt.Sprintf(`{"name":"q%d","queueType":"async","windowOfOperation":%q}`, i, c[0]))
	}
}

// Goal: a body is not worth many times its size, whatever is in it, and neither is what is wrong with it. Method: what
// such requests allocate.
func TestBodiesAreCheap(t *testing.T) {
	w := newWorld(t)
	for name, body := range map[string]string{
		"tags":     `{"name":"a","queueType":"async","tags":[` + strings.Repeat(`"",`, 500_000) + `""]}`,
		"ignored":  `{"name":"a","queueType":"async","more":[` + strings.Repeat("{},", 500_000) + `{}]}`,
		"a window": `{"name":"a","queueType":"async","windowOfOperation":"` + strings.Repeat("<", 1<<20) + `"}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status, text := w.ask(http.MethodPut, "/v1/queue", body)
		runtime.ReadMemStats(&after)
		if status != http.StatusBadRequest || len(text) > 16<<10 {
			t.Errorf("%s: status %d, %d bytes: %.200s", name, status, len(text), text)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(1<<20+10*len(body)) {
			t.Errorf("%s: %d bytes are allocated for a body of %d", name, got, len(body))
		}
	}
}
