package horae_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// base is where the interface is reached, for completions.
const base = "http://horae.dev:8015/"

// live is a world with a node at work, whose clock is moved: it makes requests, which arrive here, and looks after
// queues.
type live struct {
	*world

	sink   *queue.Sink
	calls  []string // method, URL and body of each request to others
	refuse map[string]error
}

// begin begins on Saturday 2000-01-01 at midnight in UTC.
func begin(t *testing.T) *live {
	t.Helper()
	w := &live{world: newWorld(t), refuse: map[string]error{}}
	w.now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	w.sink = queue.NewSink(queue.SinkConfig{Store: w.store, Next: w, URL: base})
	return w
}

// pass lets time pass, and what happens then happen: what is due is looked after at the instant that the store names.
func (w *live) pass(d time.Duration) {
	w.t.Helper()
	until := w.now.Add(d)
	for {
		w.work()
		_, next, some, err := w.store.Due(w.t.Context(), 100)
		if err != nil {
			w.t.Fatal(err)
		}
		if !some || w.now.Add(next).After(until) {
			w.now = until
			return
		}
		w.now = w.now.Add(next)
	}
}

// work looks after the queues that are due, and makes the requests that are, until nothing is left to do now.
func (w *live) work() {
	w.t.Helper()
	ctx := w.t.Context()
	for {
		due, _, _, err := w.store.Due(ctx, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, id := range due {
			if _, err := w.store.Apply(ctx, queue.Look{Queue: id}); err != nil {
				w.t.Fatal(err)
			}
		}
		claimed, err := w.store.Claim(ctx, node.ClaimRequest{
			Node: uuid.New(), Hold: time.Minute, Until: w.now,
			Lanes: []node.Share{{Lane: queue.Lane, Limit: 100, Bytes: 1 << 20}},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range claimed.Messages {
			w.send(&claimed.Messages[i].Message)
		}
		if len(due)+len(claimed.Messages) == 0 {
			return
		}
	}
}

// send makes the request of a message. What is deferred is lost here: the engine tries it again, and has tests for
// that.
func (w *live) send(m *node.Message) {
	w.t.Helper()
	record := node.Record{Topic: m.Lane, Key: m.Key, Value: m.Value, Headers: m.Headers}
	err := w.sink.Publish(w.t.Context(), []node.Record{record})[0]
	if err != nil && node.KindOf(err) != node.RecordRejected {
		w.t.Fatal(err)
	}
	ref := node.Ref{ID: m.ID, Lane: m.Lane, Incarnation: m.Incarnation}
	if _, err := w.store.Settle(w.t.Context(), node.Removals(ref)); err != nil {
		w.t.Fatal(err)
	}
}

// Publish implements node.Sink: it is the network.
func (w *live) Publish(_ context.Context, records []node.Record) []error {
	errs := make([]error, len(records))
	for i := range records {
		url, method := "", ""
		for _, h := range records[i].Headers {
			switch h.Name {
			case node.HeaderURL:
				url = string(h.Value)
			case node.HeaderMethod:
				method = string(h.Value)
			}
		}
		if path, own := strings.CutPrefix(url, base); own {
			if status, text := w.ask(method, "/"+path, string(records[i].Value)); status != http.StatusOK {
				errs[i] = &node.PublishError{Err: fmt.Errorf("answered %d %s", status, text)}
			}
			continue
		}
		w.calls = append(w.calls, strings.TrimSpace(method+" "+url+" "+string(records[i].Value)))
		errs[i] = w.refuse[url]
	}
	return errs
}

// called asks what requests there were since the last time, in order.
func (w *live) called(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.calls, want) {
		w.t.Fatalf("at %s the requests are\n%s\nwant\n%s", w.now.Format(time.DateTime),
			strings.Join(w.calls, "\n"), strings.Join(want, "\n"))
	}
	w.calls = nil
}

// queue, action and task make one each, and return its uuid.
func (w *live) queue(name, kind, window, more string) string {
	return w.made("queue", fmt.Sprintf(`{"name":%q,"queueType":%q,"windowOfOperation":%q%s}`, name, kind, window, more))
}

func (w *live) action(url string) string {
	return w.made("action", fmt.Sprintf(`{"operation":"GET","uri":%q}`, url))
}

func (w *live) task(queue, action, more string) string {
	return w.made("task", fmt.Sprintf(`{"queue":%q,"execution":%q%s}`, queue, action, more))
}

// complete completes a task by the call of horae.
func (w *live) complete(task string) {
	w.t.Helper()
	w.want(200, `{"message":"Task completed"}`, "GET", "/v1/task/"+task+"/complete", "")
	w.pass(time.Second)
}

// is asks for the status of a task.
func (w *live) is(task, status string) {
	w.t.Helper()
	_, text := w.ask("GET", "/v1/task/"+task, "")
	var got struct{ Status string }
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Status != status {
		w.t.Fatalf("task %s: %s, want %s", task, text, status)
	}
}

// "Tasks may define an execution time when executed within the context of an async queue", and "horae will execute
// tasks at a specific point in time (as defined by the task) during the queues open window". One whose time comes
// while the queue is closed runs when it opens next, and is not lost as it was there.
func TestReadmeExecutionTime(t *testing.T) {
	w := begin(t)
	q := w.queue("q", "async", "2am - 4am every day", "")
	for _, at := range []string{"03", "01", "05"} {
		w.task(q, w.action("http://x/"+at), `,"when":"2000-01-01T`+at+`:00:00Z"`)
	}
	w.pass(2*time.Hour - 10*time.Second)
	w.called()
	w.pass(20 * time.Second)
	w.called("GET http://x/01")
	w.pass(time.Hour)
	w.called("GET http://x/03")
	w.pass(4 * time.Hour)
	w.called()
	w.pass(19 * time.Hour)
	w.called("GET http://x/05")
}

// "otherwise they are executed in a FIFO manner when a sync queue is open", "tasks placed in a synchronous queue will
// be executed in order when the queue is open", and "Tasks when operating within a synchronous context MUST signal
// their completion before the next task may be executed. Hence the completion API call must be called".
func TestReadmeFIFO(t *testing.T) {
	w := begin(t)
	q := w.queue("q", "sync", "1am to 11pm every day", "")
	var tasks []string
	for i := range 3 {
		tasks = append(tasks, w.task(q, w.action(fmt.Sprint("http://x/", i)), ""))
	}
	w.pass(30 * time.Minute)
	w.called()
	w.pass(31 * time.Minute)
	for i, task := range tasks {
		w.called(fmt.Sprint("GET http://x/", i))
		w.is(task, "Running")
		w.pass(time.Hour)
		w.called()
		w.complete(task)
		w.is(task, "Complete")
	}
}

// "If no queue is specified the task is assigned to the root queue which is defined as async", and "horae will enable a
// default queue named "root" which is always available, configured in async operation and cannot be modified".
func TestReadmeRoot(t *testing.T) {
	w := begin(t)
	const root = "11111111-1111-1111-1111-111111111111"
	task := w.made("task", `{"execution":"`+w.action("http://x/")+`","when":"2000-01-01T00:00:05Z"}`)
	w.want(200, `{"uuid":"`+task+`","queue":"`+root+`"`, "GET", "/v1/task/"+task, "")
	w.pass(10 * time.Second)
	w.called("GET http://x/")
	w.is(task, "Complete")
	w.want(200, `{"uuid":"`+root+`","name":"root","queueType":"async","windowOfOperation":"always"}`,
		"GET", "/v1/queue/"+root, "")
	w.want(400, `{"code":400,"message":"Cannot update root queue"}`, "PUT", "/v1/queue/"+root, `{"name":"x"}`)
	w.want(400, `{"code":400,"message":"Queue not deleted`, "DELETE", "/v1/queue/"+root, "")
}

// "The promise is optional and provides a mechanism by which a callback to the originating service (or something else)
// may be executed on completion of the task": also of one that has failed, and it is told the status.
func TestReadmePromise(t *testing.T) {
	w := begin(t)
	promise := w.made("action", `{"operation":"POST","uri":"http://x/done",`+
		`"payload":"{\"taskUuid\":\"<<HORAE_TASK_UUID>>\",\"status\":\"<<HORAE_TASK_STATUS>>\"}"}`)
	q := w.queue("q", "sync", "always", "")
	task := w.task(q, w.action("http://x/"), `,"promise":"`+promise+`"`)
	w.pass(time.Minute)
	w.called("GET http://x/")
	w.complete(task)
	w.called(`POST http://x/done {"taskUuid":"` + task + `","status":"Complete"}`)

	failed := w.task(q, w.action("http://y/"), `,"promise":"`+promise+`"`)
	w.pass(time.Second)
	w.want(200, `{"message":"Task completed"}`, "POST", "/v1/task/"+failed+"/complete", `{"status":"failure"}`)
	w.pass(time.Second)
	w.called("GET http://y/", `POST http://x/done {"taskUuid":"`+failed+`","status":"Failure"}`)
	w.is(failed, "Failure")
}

// "Actions are re-usable objects which describe a remote activity", and "horae will resolve these tags before POSTing
// to the action URI": in the payload and in the URI.
func TestReadmeTags(t *testing.T) {
	w := begin(t)
	action := w.made("action", `{"operation":"POST","uri":"http://x/<<HORAE_TASK_UUID>>",`+
		`"payload":"<<HORAE_API_URI>> <<HORAE_COMPLETION_URI>> <<HORAE_TASK_STATUS>> <<HORAE_OTHER>>"}`)
	q := w.queue("q", "sync", "always", "")
	for range 2 {
		task := w.task(q, action, "")
		w.pass(time.Second)
		w.called("POST http://x/" + task + " " + base + " " + base + "v1/task/" + task + "/complete Running " +
			"<<HORAE_OTHER>>")
		w.complete(task)
	}
}

// "Tasks executing within a sync context may specify an optional priority value. The default is 0. Choosing a higher
// value will re-order the FIFO queue with priorities ordered accordingly".
func TestReadmePriority(t *testing.T) {
	w := begin(t)
	q := w.queue("q", "sync", "never", "")
	tasks := map[string]string{}
	for _, c := range [][2]string{{"a", ""}, {"b", `,"priority":1`}, {"c", `,"priority":10`}, {"d", ""}} {
		tasks[c[0]] = w.task(q, w.action("http://x/"+c[0]), c[1])
	}
	w.want(200, "{", "PUT", "/v1/queue/"+q, `{"windowOfOperation":"always"}`)
	w.pass(time.Second)
	for _, name := range []string{"c", "b", "a", "d"} {
		w.called("GET http://x/" + name)
		w.complete(tasks[name])
	}
}

// "when horae attempts to open a queue for operation it will determine if all queues within its path are also open. If
// *any* queue within the path is closed the queue will not open until these conditions are met", with the three levels
// of its example, and "Adding a queue with the path /apps which is defined as "always on except 00:00 - 11:59 on
// saturday" disables all scheduled tasks across all business applications on this coming saturday".
func TestReadmeContainment(t *testing.T) {
	w := begin(t)
	q := w.queue("middle_tier", "async", "2am - 4am every saturday", `,"paths":["/apps/my_application/middle_tier"]`)
	w.queue("my_application", "async", "always", `,"paths":["/apps/my_application"]`)
	w.task(q, w.action("http://x/1"), `,"when":"2000-01-01T01:00:00Z"`)
	w.task(q, w.action("http://x/2"), `,"when":"2000-01-08T01:00:00Z"`)
	w.pass(3 * time.Hour)
	w.called("GET http://x/1")
	w.pass(3 * 24 * time.Hour) // it is Tuesday
	apps := w.queue("apps", "async", "always on except 00:00 - 11:59 on saturday", `,"paths":["/apps"]`)
	w.pass(7 * 24 * time.Hour) // the Tuesday after
	w.called()
	w.pass(4*24*time.Hour + time.Hour) // 4am on the next saturday
	w.called("GET http://x/2")

	w.task(q, w.action("http://x/3"), `,"when":"2000-01-22T02:00:00Z"`)
	w.want(200, "{", "PUT", "/v1/queue/"+apps, `{"windowOfOperation":"never"}`)
	w.pass(14 * 24 * time.Hour)
	w.called()
	w.want(200, "{", "DELETE", "/v1/queue/"+apps, "") // a prefix without a queue counts as open
	w.pass(7 * 24 * time.Hour)
	w.called("GET http://x/3")
}

// "These queues may define a callback action which is executed when the queue depth reaches a given number. At this
// point these callbacks only occur when the queue is open".
func TestReadmeBackpressure(t *testing.T) {
	w := begin(t)
	more := `,"backpressureDefinition":3,"backpressureAction":"` + w.action("http://more/") + `"`
	q := w.queue("q", "sync", "1am to 11pm every day", more)
	action := w.action("http://x/")
	for range 5 {
		w.task(q, action, "")
	}
	w.pass(10 * time.Minute)
	w.called()
	w.pass(time.Hour)
	slices.Sort(w.calls) // the two go out at once
	w.called("GET http://more/", "GET http://x/")
}

// "By this point horae will have started the queue hence this task will be immediately executed", where the action
// calls "it's own completion URI hence it's NO-OP".
func TestReadmeNoOperation(t *testing.T) {
	w := begin(t)
	q := w.queue("My First Sync Queue", "sync", "always", "")
	action := w.made("action", `{"name":"My First Action","operation":"GET","uri":"<<HORAE_COMPLETION_URI>>"}`)
	first, second := w.task(q, action, `,"priority":10`), w.task(q, action, "")
	w.pass(5 * time.Second)
	w.is(first, "Complete")
	w.is(second, "Complete")
}

// What horae's own comments promise and its code did not do: a call that fails for good is a failure of its task and
// not the end of the queue; a promise that mixes both is Partially Failed; a queue that drains takes nothing more, runs
// what waits, and goes.
func TestReadmeFailuresAndDraining(t *testing.T) {
	w := begin(t)
	w.refuse["http://gone/"] = &node.PublishError{Kind: node.RecordRejected, Err: fmt.Errorf("gone answered 410 Gone")}
	q := w.queue("q", "sync", "always", `,"shouldDrain":true`)
	first := w.task(q, w.action("http://gone/"), "")
	second := w.task(q, w.action("http://x/"), "")
	third := w.task(q, w.action("http://y/"), "")
	w.pass(5 * time.Second)
	w.is(first, "Failure")
	w.called("GET http://gone/", "GET http://x/")
	w.want(200, `{"message":"Queue deleted"}`, "DELETE", "/v1/queue/"+q, "")
	w.want(400, `{"code":400,"message":"Task not saved: Queue has been deleted`, "PUT", "/v1/task",
		`{"queue":"`+q+`","execution":"`+w.action("http://z/")+`"}`)
	w.complete(second)
	w.called("GET http://y/")
	w.complete(third)
	w.want(400, `{"code":404,"message":"Queue not found"}`, "GET", "/v1/queue/"+q, "")
	w.is(third, "Complete")
}
