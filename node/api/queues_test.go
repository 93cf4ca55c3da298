package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node/api"
	"chronos/node/listener"
	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// newQueues returns a world whose API serves queues. 2030-01-31, 9:00, is a Thursday.
func newQueues(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(a *api.API) {
		a.Queues = &desk.Desk{Store: a.Taker.(queue.Store), Base: "http://here/", Callback: a.Callback, Now: a.Now}
	})
	return w
}

// has asks, and wants a status and each of some texts in the body of the answer.
func (w *world) has(t *testing.T, code int, method, path, body string, texts ...string) string {
	t.Helper()
	got := w.ask(t, method, path, body)
	for _, text := range texts {
		if got.code != code || !strings.Contains(got.text, text) {
			t.Fatalf("%s %s %s: %d %s\nwant %d with %s", method, path, body, got.code, got.text, code, text)
		}
	}
	return got.text
}

const (
	anAction = "aaaaaaaa-0000-4000-8000-000000000001"
	aTask    = "bbbbbbbb-0000-4000-8000-000000000001"
	another  = "bbbbbbbb-0000-4000-8000-000000000002"
)

// Goal: a sync queue by the API: it is made, changed and shown with its hours; its tasks run one at a time, as they are
// completed; a completion that comes twice changes nothing and says so; what is done is listed.
func TestSyncQueue(t *testing.T) {
	w := newQueues(t)
	w.has(t, 201, "PUT", "/v1/queues/night%20jobs", `{"kind":"sync","window":"10am to 11am every thursday"}`,
		`"name":"night jobs"`, `"window":"10:00 to 11:00 every thursday in UTC"`, `"open":false`,
		`"changes":"2030-01-31T10:00:00Z"`, `"closed_by":["night jobs"]`, `"time_limit":"1d"`)
	w.has(t, 201, "PUT", "/v1/actions/"+anAction, `{"uri":"http://x/","payload":"<<CHRONOS_TASK_UUID>>"}`,
		`"method":"POST"`, `"payload":{"text":"<<CHRONOS_TASK_UUID>>"}`)
	for i, id := range []string{aTask, another} {
		w.has(t, 201, "PUT", "/v1/tasks/"+id,
			fmt.Sprintf(`{"queue":"night jobs","execution":%q,"priority":%d,"tags":["mail"]}`, anAction, i),
			`"status":"Pending"`, `"arrival":`+fmt.Sprint(i+1))
	}
	w.has(t, 200, "PUT", "/v1/queues/night%20jobs", `{"window":"always","tags":["n"]}`,
		`"open":true`, `"pending":1`, `"running":1`, `"kind":"sync"`)
	w.has(t, 200, "GET", "/v1/tasks/"+another, "", `"status":"Running"`) // of the higher priority
	w.has(t, 409, "POST", "/v1/tasks/"+aTask+"/complete", "", `"code":"conflict"`)
	w.has(t, 200, "POST", "/v1/tasks/"+another+"/complete", `{"status":"failure","reason":"no disk"}`,
		`"status":"Failure"`, `"reason":"no disk"`, `"changed":true`)
	w.has(t, 200, "POST", "/v1/tasks/"+another+"/complete", "", `"status":"Failure"`, `"changed":false`)
	w.has(t, 200, "GET", "/v1/tasks?queue=night%20jobs&status=Running", "", `"id":"`+aTask)
	w.has(t, 409, "DELETE", "/v1/tasks/"+aTask, "", "runs already")
	w.has(t, 409, "DELETE", "/v1/actions/"+anAction, "", "still named")
	w.has(t, 200, "POST", "/v1/tasks/"+aTask+"/complete", "", `"status":"Complete"`)
	w.has(t, 200, "DELETE", "/v1/actions/"+anAction, "", anAction)
	w.has(t, 200, "DELETE", "/v1/queues/night%20jobs?drain=true", "", `"name":"night jobs"`)
	w.has(t, 404, "GET", "/v1/queues/night%20jobs", "", `"code":"not_found"`)
}

// Goal: an async queue opens when its window and those of all that contain it are open, and the answer says who keeps
// it closed, when that changes, and the openings of the next days.
func TestContainment(t *testing.T) {
	w := newQueues(t)
	w.has(t, 201, "PUT", "/v1/queues/apps", `{"kind":"async","paths":["/apps"],"window":"9am to 12am every day"}`, "")
	w.has(t, 201, "PUT", "/v1/queues/mail", `{"kind":"async","paths":["/apps/mail"],"window":"8am to 10am every day"}`,
		`"open":true`, `"changes":"2030-01-31T10:00:00Z"`)
	w.has(t, 200, "PUT", "/v1/queues/apps", `{"window":"never"}`, `"open":false`)
	w.has(t, 200, "GET", "/v1/queues/mail", "", `"open":false`, `"closed_by":["apps"]`)
	w.has(t, 200, "PUT", "/v1/queues/apps", `{"window":"9:30 to 20:00 every day"}`, "")
	w.has(t, 200, "GET", "/v1/queues?limit=2", "",
		`"changes":"2030-01-31T09:30:00Z","closed_by":["apps"]`, `"next":"mail"`)
	w.has(t, 200, "GET", "/v1/queues?cursor=mail", "", `"name":"root"`)
	text := w.has(t, 200, "GET", "/v1/queues/mail/openings?days=2", "", `"from":"2030-01-31T09:00:00Z"`)
	var week desk.Week
	if err := json.Unmarshal([]byte(text), &week); err != nil || len(week.Openings) != 2 ||
		week.Openings[1].Start.Format(time.RFC3339) != "2030-02-01T09:30:00Z" ||
		week.Openings[1].End.Sub(week.Openings[1].Start) != 30*time.Minute {
		t.Errorf("%v: %+v", err, week)
	}
}

// Goal: what makes no sense is refused with a sentence that says what, and nothing is changed.
func TestQueueMistakes(t *testing.T) {
	w := newQueues(t)
	for _, c := range []struct {
		code                     int
		method, path, body, want string
	}{
		{404, "GET", "/v1/queues/none", "", "there is no queue"},
		{422, "PUT", "/v1/queues/none", `{}`, "a new one needs a kind"},
		{422, "PUT", "/v1/queues/q", `{"kind":"sync","window":"sometimes"}`, "window of a queue"},
		{422, "PUT", "/v1/queues/q", `{"kind":"sync","time_limit":"soon"}`, "time_limit is"},
		{422, "PUT", "/v1/queues/q", `{"kind":"sync","paths":["apps"]}`, "begin with /"},
		{422, "PUT", "/v1/queues/q", `{"kind":"both"}`, "expected value to be one of"},
		{422, "POST", "/v1/queues", `{"kind":"sync"}`, "name is missing"},
		{409, "PUT", "/v1/queues/root", `{"window":"never"}`, "is not changed"},
		{409, "DELETE", "/v1/queues/root", "", "is not deleted"},
		{422, "PUT", "/v1/tasks/" + aTask, `{}`, "execution is missing"},
		{422, "PUT", "/v1/tasks/mine", `{}`, "expected string to be RFC 4122 uuid"},
		{422, "PUT", "/v1/tasks/" + aTask, `{"execution":"` + anAction + `"}`, "There is no action"},
		{404, "PUT", "/v1/tasks/" + aTask, `{"execution":"` + anAction + `","queue":"none"}`, "there is no queue"},
		{422, "PUT", "/v1/tasks/" + aTask, `{"when":"2030-01-31T10:00:00Z","delay":"1h"}`, "both when and delay"},
		{404, "POST", "/v1/tasks/" + aTask + "/complete", "", "no task"},
		{422, "PUT", "/v1/actions/" + anAction, `{}`, "neither a uri nor a topic"},
		{422, "PUT", "/v1/actions/" + anAction, `{"uri":"ftp://x/"}`, "uri is refused"},
		{404, "PUT", "/v1/actions/" + anAction, `{"topic":"elsewhere"}`, "no node serves a lane"},
		{403, "PUT", "/v1/lanes/http:tasks/messages/x", `{"delay":"1s","url":"http://x/"}`, "that of tasks"},
	} {
		got := w.ask(t, c.method, c.path, c.body)
		if got.code != c.code || !strings.Contains(got.text, c.want) {
			t.Errorf("%s %s %s: %d %s\nwant %d with %q", c.method, c.path, c.body, got.code, got.text, c.code, c.want)
		}
	}
}

// Goal: to see queues takes the scope to read the lane of tasks, to change them that to write it, and an action with a
// topic, or a task that is one, that to write that topic.
func TestQueueScopes(t *testing.T) {
	w := newQueues(t)
	w.has(t, 201, "PUT", "/v1/actions/"+anAction, `{"topic":"mails.x","payload":"hello"}`, `"topic":"mails.x"`)
	task := `{"queue":"q","execution":"` + anAction + `"}`
	for _, c := range []struct {
		code                       int
		scopes, method, path, body string
	}{
		{200, "read:http:tasks", "GET", "/v1/queues", ""},
		{403, "read:out", "GET", "/v1/queues", ""},
		{403, "read:http:tasks", "PUT", "/v1/queues/q", `{"kind":"sync"}`},
		{201, "write:http:tasks", "PUT", "/v1/queues/q", `{"kind":"sync"}`},
		{403, "write:http:tasks", "PUT", "/v1/actions/" + another, `{"topic":"out"}`},
		{201, "write:http:tasks,write:out", "PUT", "/v1/actions/" + another, `{"topic":"out"}`},
		{403, "write:http:tasks,write:out", "PUT", "/v1/tasks/" + aTask, task},
		{201, "write:http:tasks,write:mails.*", "PUT", "/v1/tasks/" + aTask, task},
	} {
		scopes, err := api.ParseScopes(c.scopes)
		if err != nil {
			t.Fatal(err)
		}
		token := listener.Caller[api.Scopes]{Token: &listener.Token[api.Scopes]{Name: "t", Rights: scopes}}
		got := ask(t, http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
			w.handler.ServeHTTP(answer, r.WithContext(token.In(r.Context())))
		}), c.method, c.path, c.body)
		if got.code != c.code {
			t.Errorf("%s: %s %s: %d %s, want %d", c.scopes, c.method, c.path, got.code, got.text, c.code)
		}
	}
}

// Goal: who may not bring anything to a topic cannot do so by what others have made: not by another content of an
// action that has the topic, and not as the relief of a queue. Nor does he delete such an action; who may does, also
// when no node serves the topic any more.
func TestQueueScopesOfOthers(t *testing.T) {
	w := newQueues(t)
	w.has(t, 201, "PUT", "/v1/actions/"+anAction, `{"topic":"mails.x","payload":"hello"}`, `"topic":"mails.x"`)
	w.has(t, 201, "PUT", "/v1/queues/q", `{"kind":"sync","window":"never"}`, "")
	w.has(t, 201, "PUT", "/v1/tasks/"+aTask, `{"queue":"q","execution":"`+anAction+`"}`, "")
	relief := `{"depth":1,"relief":"` + anAction + `"}`
	w.has(t, 201, "PUT", "/v1/actions/"+another, `{"uri":"http://x/"}`, "")
	promise := `{"execution":"` + another + `","promise":["` + another + `","` + anAction + `"]}`
	const third, unserved = "aaaaaaaa-0000-4000-8000-000000000003", "aaaaaaaa-0000-4000-8000-000000000004"
	w.has(t, 201, "PUT", "/v1/actions/"+third, `{"topic":"out"}`, "")
	old := "old"
	_, _, err := w.api.Queues.PutAction(t.Context(), uuid.MustParse(unserved), desk.ActionChange{Topic: &old})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code                       int
		scopes, method, path, body string
	}{
		{403, "write:http:tasks", "PUT", "/v1/actions/" + anAction, `{"payload":"mine"}`},
		{403, "write:http:tasks", "PUT", "/v1/actions/" + anAction, `{"uri":"http://x/"}`},
		{403, "write:http:tasks,write:out", "PUT", "/v1/actions/" + anAction, `{"topic":"out"}`},
		{200, "write:http:tasks,write:mails.*", "PUT", "/v1/actions/" + anAction, `{"payload":"theirs"}`},
		{403, "write:http:tasks", "PUT", "/v1/queues/q", relief},
		{403, "write:http:tasks", "POST", "/v1/queues", `{"name":"r","kind":"sync",` + relief[1:]},
		{403, "write:http:tasks", "PUT", "/v1/tasks/" + another, promise},
		{201, "write:http:tasks,write:mails.*", "PUT", "/v1/tasks/" + another, promise},
		{200, "write:http:tasks", "PUT", "/v1/tasks/" + aTask, `{"priority":1}`}, // it is to run as it is
		{200, "write:http:tasks,write:mails.*", "PUT", "/v1/queues/q", relief},
		{403, "write:http:tasks,write:mails.*", "DELETE", "/v1/actions/" + third, ""},
		{200, "write:http:tasks,write:out", "DELETE", "/v1/actions/" + third, ""},
		{404, "write:http:tasks", "DELETE", "/v1/actions/" + third, ""},
		{403, "write:http:tasks", "DELETE", "/v1/actions/" + unserved, ""},
		{200, "write:http:tasks,write:old", "DELETE", "/v1/actions/" + unserved, ""},
	} {
		scopes, err := api.ParseScopes(c.scopes)
		if err != nil {
			t.Fatal(err)
		}
		token := listener.Caller[api.Scopes]{Token: &listener.Token[api.Scopes]{Name: "t", Rights: scopes}}
		got := ask(t, http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
			w.handler.ServeHTTP(answer, r.WithContext(token.In(r.Context())))
		}), c.method, c.path, c.body)
		if got.code != c.code {
			t.Errorf("%s: %s %s %s: %d %s, want %d", c.scopes, c.method, c.path, c.body, got.code, got.text, c.code)
		}
	}
}

// Goal: a path, a tag or a cursor that is no text that a store can have finds nothing, and is no failure of the store.
func TestQueueNamesThatAreNone(t *testing.T) {
	w := newQueues(t)
	zero := "00000000-0000-0000-0000-000000000000"
	for _, c := range []struct {
		code         int
		method, path string
	}{
		{404, "GET", "/v1/queues/" + zero},
		{404, "DELETE", "/v1/queues/" + zero},
		{404, "GET", "/v1/tasks/" + zero},
		{404, "GET", "/v1/actions/" + zero},
		{404, "GET", "/v1/tasks?queue=" + zero},
		{404, "GET", "/v1/queues/a%00b"},
		{404, "GET", "/v1/queues/a%ffb"},
		{404, "DELETE", "/v1/queues/a%00b"},
		{422, "GET", "/v1/queues?tag=%00"},
		{422, "GET", "/v1/tasks?tag=%ff"},
		{422, "GET", "/v1/queues?cursor=%00"},
		{422, "GET", "/v1/actions?tag=a%00"},
	} {
		if got := w.ask(t, c.method, c.path, ""); got.code != c.code {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, got.code, got.text, c.code)
		}
	}
}

// queueOperations are the operations on queues, as OpenAPI has them.
func queueOperations() []string {
	return []string{
		"DELETE /v1/actions/{id} deleteAction",
		"DELETE /v1/queues/{queue} deleteQueue",
		"DELETE /v1/tasks/{id} deleteTask",
		"GET /v1/actions actions",
		"GET /v1/actions/{id} action",
		"GET /v1/queues queues",
		"GET /v1/queues/{queue} queue",
		"GET /v1/queues/{queue}/openings openings",
		"GET /v1/tasks tasks",
		"GET /v1/tasks/{id} task",
		"POST /v1/actions postAction",
		"POST /v1/queues postQueue",
		"POST /v1/tasks postTask",
		"POST /v1/tasks/{id}/complete completeTask",
		"PUT /v1/actions/{id} putAction",
		"PUT /v1/queues/{queue} putQueue",
		"PUT /v1/tasks/{id} putTask",
	}
}

// Goal: pages of tasks have each task once; a completion of another run changes nothing; a hundred openings are shown.
func TestQueueAnswers(t *testing.T) {
	w := newQueues(t)
	const span = "%d:00 to %d:30 every day"
	spans := fmt.Sprintf(strings.Join([]string{span, span, span, span}, " and "), 1, 1, 3, 3, 5, 5, 7, 7)
	w.has(t, 201, "PUT", "/v1/queues/q", `{"kind":"sync","window":"`+spans+`"}`, "")
	text := w.has(t, 200, "GET", "/v1/queues/q/openings?days=31", "", "openings")
	var week desk.Week
	if err := json.Unmarshal([]byte(text), &week); err != nil || len(week.Openings) != 100 {
		t.Errorf("%v: %d openings", err, len(week.Openings))
	}
	w.has(t, 201, "PUT", "/v1/actions/"+anAction, `{"uri":"http://x/"}`, "")
	for i := range 5 {
		w.has(t, 201, "PUT", fmt.Sprintf("/v1/tasks/bbbbbbbb-0000-4000-8000-00000000000%d", i),
			`{"queue":"q","execution":"`+anAction+`"}`, "")
	}
	var seen []string
	for cursor := ""; len(seen) < 10; {
		var page desk.Tasks
		text := w.has(t, 200, "GET", "/v1/tasks?queue=q&limit=2&cursor="+cursor, "", "tasks")
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for _, task := range page.Tasks {
			seen = append(seen, task.ID[len(task.ID)-1:])
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if got := strings.Join(seen, ""); got != "01234" {
		t.Errorf("the pages have %s", got)
	}
	w.has(t, 200, "PUT", "/v1/queues/q", `{"window":"always"}`, `"running":1`)
	first := "/v1/tasks/bbbbbbbb-0000-4000-8000-000000000000"
	w.has(t, 200, "POST", first+"/complete", `{"run":"`+another+`"}`, `"status":"Running"`, `"changed":false`)
	w.has(t, 422, "POST", first+"/complete", `{"run":"this"}`, "run is")
}
