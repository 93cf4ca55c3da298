package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// receiver answers requests with what a test has set.
type receiver struct {
	err  error
	came []node.Record
}

func (r *receiver) Publish(_ context.Context, records []node.Record) []error {
	r.came = append(r.came, records...)
	return slices.Repeat([]error{r.err}, len(records))
}

// publish has a sink publish all that waits on the lane of tasks, as the engine does, and removes what was published or
// given up. It returns the last error.
func (w *world) publish(sink *queue.Sink) (last error) {
	w.t.Helper()
	for _, row := range w.Dump() {
		if row.Lane != queue.Lane {
			continue
		}
		record := node.Record{Topic: row.Lane, Key: row.Key, Value: row.Value, Headers: append(row.Headers,
			node.Header{Name: node.HeaderID, Value: []byte(row.ID)},
			node.Header{Name: node.HeaderAttempt, Value: []byte("1")})}
		last = sink.Publish(context.Background(), []node.Record{record})[0]
		if last != nil && node.KindOf(last) != node.RecordRejected {
			continue
		}
		if _, err := w.Settle(context.Background(), node.Removals(row.Ref())); err != nil {
			w.t.Fatal(err)
		}
	}
	return last
}

func newSink(w *world, next node.Sink) *queue.Sink {
	return queue.NewSink(queue.SinkConfig{Store: w, Next: next, URL: "http://here/"})
}

// A request has the tags replaced. Its answer ends a task of an async queue; one of a sync queue waits for a
// completion, unless its request is given up.
func TestSinkTells(t *testing.T) {
	w := newWorld(t)
	next := &receiver{}
	sink := newSink(w, next)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	w.do(queue.PutAction{Action: queue.Action{
		ID: id(2), Method: "POST", URI: "http://work/?back=<<HORAE_COMPLETION_URI>>",
		Payload: []byte("<<CHRONOS_TASK_UUID>> <<HORAE_TASK_STATUS>> <<HORAE_API_URI>> <<OTHER>>"),
	}})
	put := func(n int, q queue.Task) {
		q.ID, q.Execution = id(n), id(2)
		w.do(queue.PutTask{Task: q})
	}
	put(21, queue.Task{})
	if err := w.publish(sink); err != nil {
		t.Fatal(err)
	}
	w.want(w.runs(21), "Complete")
	w.want(string(next.came[0].Value), id(21).String()+" Running http://here/ <<OTHER>>")
	for _, h := range next.came[0].Headers {
		if h.Name == node.HeaderURL {
			w.want(string(h.Value), "http://work/?back=http://here/v1/task/"+id(21).String()+"/complete")
		}
	}

	put(22, queue.Task{Queue: id(10)})
	_ = w.publish(sink)
	w.want(w.runs(22), "Running")
	w.do(queue.End{Task: id(22)})

	put(23, queue.Task{Queue: id(10)})
	next.err = errors.New("the line is bad")
	if err := w.publish(sink); !errors.Is(err, next.err) {
		t.Errorf("%v", err)
	}
	w.want(w.runs(23), "Running")
	next.err = &node.PublishError{Kind: node.RecordRejected, Err: errors.New("it is gone"), Status: 410}
	_ = w.publish(sink)
	w.want(w.runs(23), "Failure")
	tasks, _ := w.Tasks(t.Context(), queue.Filter{ID: id(23), Limit: 1})
	w.want(tasks[0].Reason, "it is gone")
}

// What became of a promise is told, too, each action by itself.
func TestSinkPromise(t *testing.T) {
	w := newWorld(t)
	next := &receiver{}
	sink := newSink(w, next)
	w.do(queue.PutTask{Task: queue.Task{ID: id(21), Execution: id(1), Promise: ids(1, 1)}})
	_ = w.publish(sink) // the execution
	_ = w.publish(sink) // the promise
	tasks, _ := w.Tasks(t.Context(), queue.Filter{ID: id(21), Limit: 1})
	if tasks[0].Promised() != 2 || len(next.came) != 3 {
		t.Errorf("%d of %d requests: %+v", tasks[0].Promised(), len(next.came), tasks[0])
	}
}

// While the store takes nothing in, what is to be told is told later, and the request made again.
func TestSinkClosed(t *testing.T) {
	w := newWorld(t)
	sink := newSink(w, &receiver{})
	w.arrive(21, 0, 0)
	if _, err := w.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	deferred, is := errors.AsType[*node.PublishError](w.publish(sink))
	if !is || deferred.After == 0 {
		t.Errorf("%v", deferred)
	}
	arrival := node.Record{Topic: queue.Lane, Headers: []node.Header{
		{Name: node.HeaderTaskPart, Value: []byte(node.TaskArrives)},
		{Name: node.HeaderTask, Value: []byte(id(22).String())},
		{Name: node.HeaderTaskTopic, Value: []byte("out")},
	}}
	err := sink.Publish(t.Context(), []node.Record{arrival})[0]
	if node.KindOf(err) == node.RecordRejected || err == nil {
		t.Errorf("a task that arrives: %v", err)
	}
	if _, err := w.Resume(t.Context(), node.Intake); err != nil {
		t.Fatal(err)
	}
	_ = w.publish(sink)
	w.want(w.runs(21), "Complete")
	if err := sink.Publish(t.Context(), []node.Record{arrival})[0]; err != nil {
		t.Errorf("a task that arrives later: %v", err)
	}
}

// A record that is a task becomes one whose execution is that record, byte for byte, and one that completes it does.
func TestSinkRecords(t *testing.T) {
	w := newWorld(t)
	sink := newSink(w, &receiver{})
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	send := func(headers ...node.Header) error {
		return sink.Publish(t.Context(), []node.Record{{
			Topic: queue.Lane, Key: []byte{}, Value: []byte("<<HORAE_TASK_UUID>>"),
			Headers: append([]node.Header{h("own", "1"), {Name: "null"}}, headers...),
		}})[0]
	}
	arrives := func(n int, in string) error {
		return send(h(node.HeaderQueue, in), h(node.HeaderPriority, "3"), h(node.HeaderTaskPart, node.TaskArrives),
			h(node.HeaderTask, id(n).String()), h(node.HeaderTaskTopic, "out"), h(node.HeaderID, "x"))
	}
	for range 2 { // it is delivered twice
		if err := arrives(21, "q10"); err != nil {
			t.Fatal(err)
		}
	}
	w.want(w.runs(21), "Running")
	rows := w.Dump()
	run := string(rows[0].Headers[3].Value)
	w.want(fmt.Sprintf("%d %s %q %q %q", len(rows), rows[0].Lane, rows[0].Key, rows[0].Value, rows[0].Headers),
		fmt.Sprintf(`1 out "" "<<HORAE_TASK_UUID>>" [{"own" "1"} {"null" ""} {"chronosTask" %q} {"chronosTaskRun" %q}]`,
			id(21), run))
	if rows[0].Key == nil || rows[0].Headers[1].Value != nil {
		t.Error("null and empty were confused")
	}
	err := arrives(22, "nowhere")
	if node.KindOf(err) != node.RecordRejected || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a queue that is not there: %v", err)
	}
	if err := arrives(22, id(10).String()); err != nil {
		t.Errorf("a queue by its UUID: %v", err)
	}
	complete := func(n int, more ...node.Header) error {
		return send(append(more, h(node.HeaderTaskPart, node.TaskEnds), h(node.HeaderTask, id(n).String()))...)
	}
	if err := complete(21, h(node.HeaderTaskRun, run), h(node.HeaderTaskStatus, node.TaskSuccess)); err != nil {
		t.Fatal(err)
	}
	w.want(w.runs(21, 22), "Complete Running")
	if err := complete(22, h(node.HeaderTaskStatus, node.TaskFailure)); err != nil {
		t.Fatal(err)
	}
	w.want(w.runs(22), "Failure")
	if err := complete(99); node.KindOf(err) != node.RecordRejected {
		t.Errorf("a task that is not there: %v", err)
	}
}

// What is none of ours is passed on as it came.
func TestSinkPasses(t *testing.T) {
	w := newWorld(t)
	next := &receiver{}
	sink := newSink(w, next)
	sink.Publish(t.Context(), []node.Record{
		{Topic: "http:other", Value: []byte("<<HORAE_API_URI>>")},
		{Topic: queue.Lane, Value: []byte("<<HORAE_API_URI>>")},
	})
	for _, r := range next.came {
		w.want(string(r.Value), "<<HORAE_API_URI>>")
	}
	if len(next.came) != 2 {
		t.Errorf("%d records", len(next.came))
	}
}

// ticking is a clock that is moved by those who sleep.
type ticking struct {
	node.Clock

	w     *world
	slept func(d time.Duration)
}

// Now is a year ahead of the store: nothing rests on it.
func (c *ticking) Now() time.Time      { return c.w.now.AddDate(1, 0, 0) }
func (c *ticking) Mono() time.Duration { return c.w.now.Sub(time.Unix(0, 0)) }
func (c *ticking) Sleep(_ context.Context, d time.Duration) {
	c.w.now = c.w.now.Add(d)
	c.slept(d)
}

// A Keeper starts what opens, at the instant that the store knows of, fails what is overdue, and has forgotten what
// ended long ago. It sleeps for a second at most, and while there is something to do not at all.
func TestKeeper(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	q := syncQueue(10)
	q.Window, q.TimeLimit = "12:01 to 12:30 every day", time.Minute
	w.do(queue.PutQueue{Queue: q})
	soon := w.now.Add(90500 * time.Millisecond)
	for n := range 250 {
		w.do(queue.PutTask{Task: queue.Task{ID: id(100 + n), When: soon, Execution: id(1)}})
	}
	w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	begun := w.now
	var log []string
	seen := ""
	clock := &ticking{w: w, slept: func(d time.Duration) {
		if d <= 0 || d > time.Second {
			t.Errorf("it sleeps for %v", d)
		}
		if now := w.runs(21, 22, 100, 349); now != seen {
			seen = now
			log = append(log, fmt.Sprint(w.now.Add(-d).Sub(begun), " ", now))
		}
		if w.now.Sub(begun) > 5*time.Minute {
			cancel()
		}
	}}
	(&queue.Keeper{Store: w, Clock: clock, Retention: 90 * time.Second}).Run(ctx)
	want := "0s Pending Pending Pending Pending\n1m0s Running Pending Pending Pending\n" +
		"1m30.5s Running Pending Running Running\n2m0s Failure Running Running Running\n" +
		"3m0s Failure Failure Running Running\n4m0s none Failure Running Running\n5m0s none none Running Running"
	w.want(strings.Join(log, "\n"), want)
}

// A Keeper whose store takes nothing in, or answers nothing, waits, and says so.
func TestKeeperWaits(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.do(queue.PutTask{Task: queue.Task{ID: id(21), When: w.now.Add(time.Second), Execution: id(1)}})
	if _, err := w.Pause(ctx, node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	sleeps, told := 0, 0
	clock := &ticking{w: w, slept: func(time.Duration) {
		if sleeps++; sleeps == 10 {
			if _, err := w.Resume(ctx, node.Intake); err != nil {
				t.Error(err)
			}
		}
		if sleeps == 12 {
			cancel()
		}
	}}
	(&queue.Keeper{Store: w, Clock: clock, Log: func(error) { told++ }}).Run(ctx)
	w.want(w.runs(21), "Running")
	if told < 5 {
		t.Errorf("it was told of %d times", told)
	}
}

// What an action says in its headers cannot stand for what the store says in the same ones: neither another URL and
// method than the ones that it shows, nor another status or task.
func TestActionsSpeakForNobody(t *testing.T) {
	for _, c := range []struct {
		action queue.Action
		header string
		taken  bool
	}{
		{queue.Action{URI: "http://x/", Method: "GET"}, node.HeaderURL, false},
		{queue.Action{URI: "http://x/", Method: "GET"}, node.HeaderMethod, false},
		{queue.Action{URI: "http://x/", Method: "GET"}, node.HeaderTaskStatus, false},
		{queue.Action{URI: "http://x/", Method: "GET"}, node.HeaderAttempt, false},
		{queue.Action{URI: "http://x/", Method: "GET"}, "x-own", true},
		{queue.Action{Topic: "out"}, node.HeaderTask, false},
		{queue.Action{Topic: "out"}, node.HeaderTaskRun, false},
		{queue.Action{Topic: "out"}, node.HeaderTaskStatus, false},
		{queue.Action{Topic: "out"}, node.HeaderDeadline, true}, // somebody else's Chronos may read it
	} {
		w := newWorld(t)
		c.action.ID = id(7)
		c.action.Headers = []node.Header{{Name: c.header, Value: []byte("http://elsewhere/")}}
		_, err := w.Apply(context.Background(), queue.PutAction{Action: c.action})
		if refusal, is := errors.AsType[*queue.Refusal](err); (err == nil) != c.taken || !c.taken && !is {
			t.Errorf("%+v: %v, %v", c.action, err, refusal)
		}
	}
}

// A record names a queue as everybody does: a UUID is that of a queue first, and a name only if there is none, so that
// nobody takes the tasks of a queue by calling another one so. The UUID of zeros is no queue's.
func TestRecordsNameQueues(t *testing.T) {
	w := newWorld(t)
	sink := newSink(w, &receiver{})
	q := syncQueue(10)
	other := queue.Queue{ID: uuid.New(), Name: q.ID.String(), Kind: queue.Sync}
	w.do(queue.PutQueue{Queue: q})
	w.do(queue.PutQueue{Queue: other})
	arrive := func(name string) (uuid.UUID, error) {
		id := uuid.New()
		return id, sink.Publish(context.Background(), []node.Record{{Topic: queue.Lane, Headers: []node.Header{
			{Name: node.HeaderQueue, Value: []byte(name)},
			{Name: node.HeaderTaskPart, Value: []byte(node.TaskArrives)},
			{Name: node.HeaderTask, Value: []byte(id.String())},
			{Name: node.HeaderTaskTopic, Value: []byte("out")},
		}}})[0]
	}
	arrived, err := arrive(q.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.Tasks(context.Background(), queue.Filter{ID: arrived, Limit: 1})
	if err != nil || len(found) != 1 || found[0].Queue != q.ID {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := arrive(uuid.Nil.String()); node.KindOf(err) != node.RecordRejected {
		t.Errorf("the UUID of zeros: %v", err)
	}
}

// A refusal shows what it is about, and not megabytes of it.
func TestRefusalsAreSentences(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 1<<20)
	for _, command := range []queue.Command{
		queue.PutQueue{Queue: queue.Queue{ID: id(1), Name: "q", Kind: queue.Kind(long)}},
		queue.PutQueue{Queue: queue.Queue{ID: id(1), Name: "q", Kind: queue.Sync, Paths: []string{"/" + long}}},
		queue.PutQueue{Queue: queue.Queue{ID: id(1), Name: "q", Kind: queue.Sync, Tags: []string{long}}},
		queue.PutAction{Action: queue.Action{ID: id(1), URI: "http://x/", Method: long}},
		queue.PutAction{Action: queue.Action{ID: id(1), URI: "x" + long, Method: "GET"}},
		queue.PutAction{Action: queue.Action{ID: id(1), URI: "http://x/ " + long, Method: "GET"}},
		queue.PutAction{Action: queue.Action{ID: id(1), Topic: long}},
	} {
		_, err := w.Apply(context.Background(), command)
		if refusal, is := errors.AsType[*queue.Refusal](err); !is || len(refusal.Detail) > 500 {
			t.Errorf("%.100v", err)
		}
	}
}

// A change of a queue makes all that lie inside it due, and a Keeper looks after them without a wait in between, so
// that what falls due after them is not late. But it waits if all that is due was due before, and nothing has happened
// to it.
func TestKeeperOfMany(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	parent := syncQueue(10)
	parent.Window, parent.Paths = "never", []string{"/a"}
	w.do(queue.PutQueue{Queue: parent})
	for n := range 250 {
		q := syncQueue(1000 + n)
		q.Paths = []string{"/a/" + q.Name}
		w.do(queue.PutQueue{Queue: q})
		w.arrive(2000+n, 1000+n, 0)
	}
	parent.Window = "1am to 2am every day"
	w.do(queue.PutQueue{Queue: parent})
	w.do(queue.PutTask{Task: queue.Task{ID: id(21), When: w.now.Add(time.Second), Execution: id(1)}})
	clock := &ticking{w: w, slept: func(time.Duration) {
		if w.now.Second() == 2 {
			cancel()
		}
	}}
	(&queue.Keeper{Store: w, Clock: clock}).Run(ctx)
	w.want(w.runs(21), "Running")

	looks := 0
	restless := &restless{Store: w, looked: func() { looks++ }}
	ctx, cancel = context.WithCancel(t.Context())
	waits := 0
	clock.slept = func(time.Duration) {
		if waits++; waits == 2 {
			cancel()
		}
	}
	(&queue.Keeper{Store: restless, Clock: clock}).Run(ctx)
	if looks != 400 {
		t.Errorf("before it had waited twice it looked %d times after 100 queues that are always due", looks)
	}
}

// restless is a store in which a hundred queues are due whatever is done.
type restless struct {
	queue.Store

	looked func()
}

func (r *restless) Due(context.Context, int) ([]uuid.UUID, time.Duration, bool, error) {
	var due []uuid.UUID
	for n := range 100 {
		due = append(due, id(n))
	}
	return due, 0, false, nil
}

func (r *restless) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	if _, is := command.(queue.Look); !is {
		return r.Store.Apply(ctx, command)
	}
	r.looked()
	return queue.Result{}, nil
}

// Goal: a record that is a task does not replace one of the same UUID that waits, be it of the API or of a record
// before: it is ignored, as a message whose id waits. One that runs is not changed either, and the record is given up.
func TestSinkRecordOfTaskThatWaits(t *testing.T) {
	w := newWorld(t)
	sink := newSink(w, &receiver{})
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	record := func(n int, value string) error {
		return sink.Publish(t.Context(), []node.Record{{
			Topic: queue.Lane, Value: []byte(value), Headers: []node.Header{
				h(node.HeaderQueue, "q10"), h(node.HeaderTaskPart, node.TaskArrives), h(node.HeaderPriority, "7"),
				h(node.HeaderTask, id(n).String()), h(node.HeaderTaskTopic, "out"),
			},
		}})[0]
	}
	task := func(n int) *queue.Task {
		found, err := w.Tasks(t.Context(), queue.Filter{ID: id(n), Limit: 1})
		if err != nil || len(found) != 1 {
			t.Fatalf("task %d: %v %v", n, found, err)
		}
		return &found[0]
	}
	w.arrive(21, 10, 0) // it runs, so that the others wait
	w.arrive(22, 10, 5)
	before := *task(22)
	if err := record(22, "other"); err != nil {
		t.Errorf("a record of a task of the API that waits: %v", err)
	}
	if got := task(22); got.Inline != nil || got.Execution != before.Execution || got.Priority != 5 {
		t.Errorf("the task of the API was replaced: %+v", got)
	}
	for _, value := range []string{"first", "first", "second"} {
		if err := record(23, value); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	if got := task(23); got.Inline == nil || string(got.Inline.Payload) != "first" {
		t.Errorf("the task of the first record was replaced: %+v", got)
	}
	w.want(w.runs(21, 22, 23), "Running Pending Pending")
	if got := w.queue(10).Pending; got != 2 {
		t.Errorf("%d tasks wait, want 2", got)
	}
	err := record(21, "other")
	if node.KindOf(err) != node.RecordRejected || !strings.Contains(err.Error(), "Running") {
		t.Errorf("a record of a task that runs: %v", err)
	}
}
