package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/memory"
)

// world is a store with a clock that a test sets.
type world struct {
	*memory.Store

	t   *testing.T
	now time.Time
}

// newWorld returns a store on a Monday at noon, with an action of the id 1.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	w.Store = memory.New(func() time.Time { return w.now })
	w.do(queue.PutAction{Action: request(1)})
	return w
}

func id(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-0000-0000-%012d", n)) }

func ids(numbers ...int) []uuid.UUID {
	var all []uuid.UUID
	for _, n := range numbers {
		all = append(all, id(n))
	}
	return all
}

func request(n int) queue.Action {
	return queue.Action{ID: id(n), URI: "http://work/<<HORAE_TASK_UUID>>", Method: "POST", Payload: []byte("x")}
}

func (w *world) do(command queue.Command) queue.Result {
	w.t.Helper()
	result, err := w.Apply(context.Background(), command)
	if err != nil {
		w.t.Fatalf("%#v: %v", command, err)
	}
	return result
}

// refused wants a command to be refused with a code, in words.
func (w *world) refused(command queue.Command, code queue.Code, words string) {
	w.t.Helper()
	before := w.dump()
	_, err := w.Apply(context.Background(), command)
	refusal, is := errors.AsType[*queue.Refusal](err)
	if !is || refusal.Code != code || !strings.Contains(refusal.Detail, words) {
		w.t.Errorf("%#v: %v, want a refusal %s with %q", command, err, code, words)
	}
	if after := w.dump(); after != before {
		w.t.Errorf("%#v was refused, and changed\n%sto\n%s", command, before, after)
	}
}

// dump returns all that the store has of queues, for comparison.
func (w *world) dump() string {
	all := queue.Filter{Limit: 1000}
	queues, _ := w.Queues(context.Background(), all)
	tasks, _ := w.Tasks(context.Background(), all)
	actions, _ := w.Actions(context.Background(), all)
	return fmt.Sprintf("%+v\n%+v\n%+v\n%d messages\n", queues, tasks, actions, w.Len())
}

func (w *world) queue(n int) *queue.Queue {
	w.t.Helper()
	queues, err := w.Queues(context.Background(), queue.Filter{ID: id(n), Limit: 1})
	if err != nil || len(queues) == 0 {
		return nil
	}
	return &queues[0]
}

// runs returns the statuses of tasks, in a row.
func (w *world) runs(tasks ...int) string {
	w.t.Helper()
	var all []string
	for _, n := range tasks {
		found, err := w.Tasks(context.Background(), queue.Filter{ID: id(n), Limit: 1})
		if err != nil || len(found) == 0 {
			all = append(all, "none")
			continue
		}
		all = append(all, string(found[0].Status))
	}
	return strings.Join(all, " ")
}

func (w *world) want(got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s, want %s", got, want)
	}
}

// messages returns the parts of the messages that wait, in the order of their names.
func (w *world) messages() string {
	var all []string
	for _, row := range w.Dump() {
		for _, h := range row.Headers {
			if h.Name == node.HeaderTaskPart {
				all = append(all, string(h.Value))
			}
		}
	}
	return strings.Join(all, " ")
}

// look does what is due, as a Keeper does, until nothing is.
func (w *world) look() {
	w.t.Helper()
	for range 1000 {
		due, _, _, err := w.Due(context.Background(), 100)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(due) == 0 {
			return
		}
		for _, one := range due {
			w.do(queue.Look{Queue: one})
		}
	}
	w.t.Fatal("something is due again and again")
}

func syncQueue(n int) queue.Queue {
	return queue.Queue{ID: id(n), Name: fmt.Sprint("q", n), Kind: queue.Sync}
}

func (w *world) arrive(n, in, priority int) queue.Result {
	w.t.Helper()
	of := id(in)
	if in == 0 {
		of = queue.Root
	}
	return w.do(queue.PutTask{Task: queue.Task{ID: id(n), Queue: of, Priority: priority, Execution: id(1)}})
}

// One after the other, the highest priority first, then by arrival; the next one when somebody has completed the one
// before. A completion that comes twice does nothing the second time.
func TestSync(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	first := w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	w.arrive(23, 10, 5)
	w.arrive(24, 10, 5)
	w.want(w.runs(21, 22, 23, 24), "Running Pending Pending Pending")
	w.want(w.messages(), "execution")

	end := queue.End{Task: id(21), Run: first.Task.Run}
	if got := w.do(end); !got.Changed || len(got.Started) != 1 || got.Started[0].ID != id(23) {
		t.Errorf("the completion has led to %+v", got)
	}
	before := w.dump()
	if got := w.do(end); got.Changed || got.Task.Status != queue.Complete || w.dump() != before {
		t.Errorf("the second completion has led to %+v", got)
	}
	w.want(w.runs(21, 22, 23, 24), "Complete Pending Running Pending")
	w.do(queue.End{Task: id(23)})
	w.want(w.runs(21, 22, 23, 24), "Complete Pending Complete Running")
	w.refused(queue.End{Task: id(22)}, queue.Conflict, "waits")
	w.do(queue.End{Task: id(24), Delivered: true})
	w.want(w.runs(24), "Running")
	w.do(queue.End{Task: id(24), Failed: true, Reason: "it was broken"})
	w.want(w.runs(22, 24), "Running Failure")
}

// A queue is open when its window is, and those of all that contain it. What waits starts at the opening.
func TestContainment(t *testing.T) {
	w := newWorld(t)
	outer, inner := syncQueue(10), syncQueue(11)
	outer.Paths, outer.Window = []string{"/apps"}, "2pm to 3pm every day"
	inner.Paths, inner.Window = []string{"/elsewhere", "/apps/mail"}, "1pm to 4pm every day"
	w.do(queue.PutQueue{Queue: outer})
	w.do(queue.PutQueue{Queue: inner})
	w.arrive(21, 11, 0)
	w.want(w.runs(21), "Pending")
	if at := w.queue(11).Look; !at.Equal(time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)) {
		t.Errorf("the queue is looked at at %v", at)
	}
	w.now = w.now.Add(time.Hour + time.Minute)
	w.look()
	w.want(w.runs(21), "Pending")
	w.now = w.now.Add(time.Hour)
	w.look()
	w.want(w.runs(21), "Running")

	// A change of what contains it is a change of it.
	w.do(queue.End{Task: id(21)})
	outer.Window = "never"
	w.do(queue.PutQueue{Queue: outer})
	w.arrive(22, 11, 0)
	w.want(w.runs(22), "Pending")
	if at := w.queue(11).Look; !at.IsZero() {
		t.Errorf("the queue, which never opens, is looked at at %v", at)
	}
	outer.Window = "always"
	w.do(queue.PutQueue{Queue: outer})
	w.look()
	w.want(w.runs(22), "Running")

	// So is its end.
	w.do(queue.End{Task: id(22)})
	outer.Window = "never"
	w.do(queue.PutQueue{Queue: outer})
	w.arrive(23, 11, 0)
	w.do(queue.DropQueue{ID: id(10)})
	w.look()
	w.want(w.runs(23), "Running")
}

// A task of an async queue runs at its time, or at the next opening.
func TestAsync(t *testing.T) {
	w := newWorld(t)
	q := queue.Queue{ID: id(10), Name: "q", Kind: queue.Async, Window: "2pm to 3pm every day"}
	w.do(queue.PutQueue{Queue: q})
	at := func(n int, when time.Time) {
		w.do(queue.PutTask{Task: queue.Task{ID: id(n), Queue: id(10), When: when, Execution: id(1)}})
	}
	at(21, w.now.Add(-time.Hour))
	at(22, w.now.Add(2*time.Hour+30*time.Minute))
	at(23, w.now.Add(4*time.Hour))
	w.look()
	w.want(w.runs(21, 22, 23), "Pending Pending Pending")
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	w.want(w.runs(21, 22, 23), "Running Pending Pending")
	w.now = w.now.Add(30 * time.Minute)
	w.look()
	w.want(w.runs(21, 22, 23), "Running Running Pending")
	w.now = w.now.Add(2 * time.Hour)
	w.look()
	w.want(w.runs(23), "Pending")
	w.now = w.now.Add(21*time.Hour + 30*time.Minute)
	w.do(queue.End{Task: id(21), Delivered: true})
	w.look()
	w.want(w.runs(21, 22, 23), "Complete Running Running")

	at(24, time.Time{})
	w.want(w.runs(24), "Running")
}

// A promise runs when the task ends, with its status, and what became of it counts once for each of its actions.
func TestPromise(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	w.do(queue.PutAction{Action: request(2)})
	w.do(queue.PutAction{Action: queue.Action{ID: id(3), Topic: "done", Payload: []byte("<<CHRONOS_TASK_STATUS>>")}})
	result := w.do(queue.PutTask{Task: queue.Task{
		ID: id(21), Queue: id(10), Execution: id(1), Promise: []uuid.UUID{id(1), id(2), id(3)},
	}})
	w.want(w.messages(), "execution")
	w.do(queue.End{Task: id(21), Failed: true, Reason: "no"})
	w.want(w.messages(), "execution promise/0 promise/1")
	for _, row := range w.Dump() {
		if row.Lane == "done" && string(row.Value) != "Failure" {
			t.Errorf("the record says %q", row.Value)
		}
	}
	fulfil := queue.Fulfil{Task: id(21), Run: result.Task.Run}
	for range 2 {
		w.do(fulfil)
	}
	if got := w.do(fulfil); got.Changed || got.Task.Promised() != 2 || got.Task.Status != queue.Failure {
		t.Errorf("%+v", got.Task)
	}
	fulfil.Action, fulfil.Broken = 1, true
	if got := w.do(fulfil); got.Task.Broken() != 1 || got.Task.Status != queue.PartiallyFailed {
		t.Errorf("%+v", got.Task)
	}
}

// A task that nobody completes fails, and the queue goes on. A completion that comes too late changes nothing.
func TestTimeLimit(t *testing.T) {
	w := newWorld(t)
	q := syncQueue(10)
	q.TimeLimit = time.Minute
	w.do(queue.PutQueue{Queue: q})
	w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	w.now = w.now.Add(time.Minute - time.Microsecond)
	w.look()
	w.want(w.runs(21, 22), "Running Pending")
	w.now = w.now.Add(time.Microsecond)
	w.look()
	w.want(w.runs(21, 22), "Failure Running")
	if got := w.do(queue.End{Task: id(21)}); got.Changed || got.Task.Status != queue.Failure {
		t.Errorf("the late completion has led to %+v", got)
	}
}

// What waits in a queue that is deleted is run first, or goes with it.
func TestDelete(t *testing.T) {
	for _, drain := range []bool{true, false} {
		w := newWorld(t)
		q := syncQueue(10)
		q.Drain = drain
		w.do(queue.PutQueue{Queue: q})
		w.arrive(21, 10, 0)
		for n := range 250 {
			w.arrive(22+n, 10, 0)
		}
		w.do(queue.DropQueue{ID: id(10)})
		w.look()
		late := queue.Task{ID: id(999), Queue: id(10), Execution: id(1)}
		w.refused(queue.PutTask{Task: late}, queue.Conflict, "deleted")
		w.refused(queue.PutQueue{Queue: q}, queue.Conflict, "deleted")
		if drain {
			for n := range 251 {
				w.want(w.runs(21+n), "Running")
				w.do(queue.End{Task: id(21 + n)})
			}
		} else {
			w.want(w.runs(21, 22, 271), "Running Deleted Deleted")
			w.do(queue.End{Task: id(21)})
		}
		if left := w.queue(10); left != nil {
			t.Errorf("with drain %v, %+v is left", drain, left)
		}
	}
}

// A transaction begins with no further task once the tasks and messages that it has moved are too large, and the next
// one goes on at once. The calls are counted: small tasks take one.
func TestBytes(t *testing.T) {
	for _, size := range []int{1, 1 << 20} {
		w := newWorld(t)
		large := request(1)
		large.Payload = make([]byte, size)
		w.do(queue.PutAction{Action: large})
		q := queue.Queue{ID: id(10), Name: "q", Kind: queue.Async, TimeLimit: time.Hour}
		w.do(queue.PutQueue{Queue: q})
		const tasks = 40
		due := w.now.Add(time.Minute)
		for n := range tasks {
			w.do(queue.PutTask{Task: queue.Task{
				ID: id(21 + n), Queue: id(10), When: due, Execution: id(1), Promise: ids(1),
			}})
		}
		most := max(1, tasks*size/(8<<20)) // transactions
		transactions := func(of string) {
			t.Helper()
			calls := 0
			for due, _, _, err := w.Due(t.Context(), 1); len(due) > 0; due, _, _, err = w.Due(t.Context(), 1) {
				if err != nil {
					t.Fatal(err)
				}
				before := w.Len()
				w.do(queue.Look{Queue: due[0]})
				if moved := (w.Len() - before) * size; moved > 9<<20 {
					t.Errorf("one transaction that %s tasks has inserted %d bytes", of, moved)
				}
				calls++
			}
			if calls < most || calls > most+1 {
				t.Errorf("%d transactions have %s %d tasks of %d bytes, want %d", calls, of, tasks, size, most)
			}
		}
		w.now = due
		transactions("started")
		w.want(w.runs(21, 20+tasks), "Running Running")
		w.now = due.Add(time.Hour)
		transactions("failed")
		w.want(w.runs(21, 20+tasks), "Failure Failure")
	}
}

// The relief of a queue is called once for each crossing, and again after an hour.
func TestRelief(t *testing.T) {
	w := newWorld(t)
	q := syncQueue(10)
	q.Depth, q.Relief = 5, id(1)
	w.do(queue.PutQueue{Queue: q})
	for n := range 8 {
		w.arrive(21+n, 10, 0)
	}
	count := func() int { return strings.Count(w.messages(), "relief") }
	if count() != 1 {
		t.Errorf("it was called %d times at the first crossing", count())
	}
	w.now = w.now.Add(time.Hour)
	if w.look(); count() != 2 {
		t.Errorf("it was called %d times after an hour", count())
	}
	for n := range 4 {
		w.do(queue.End{Task: id(21 + n)})
	}
	w.arrive(31, 10, 0)
	if w.arrive(32, 10, 0); count() != 2 {
		t.Errorf("it was called %d times before the depth was passed once more: %d", count(), w.queue(10).Pending)
	}
	w.now = w.now.Add(time.Minute)
	if w.arrive(33, 10, 0); count() != 3 {
		t.Errorf("it was called %d times when the depth was passed once more: %d", count(), w.queue(10).Pending)
	}
}

// The relief of a queue that is too deep when it opens is called then, though nothing in it can start yet: what waits
// has its own time, or as many run as may.
func TestReliefAtOpening(t *testing.T) {
	w := newWorld(t)
	q := syncQueue(10)
	q.Kind, q.Depth, q.Relief, q.Window = queue.Async, 5, id(1), "1pm to 2pm every day"
	w.do(queue.PutQueue{Queue: q})
	for n := range 8 {
		task := queue.Task{ID: id(21 + n), Queue: q.ID, When: w.now.Add(100 * time.Hour), Execution: id(1)}
		w.do(queue.PutTask{Task: task})
	}
	if w.look(); w.messages() != "" {
		t.Errorf("while it was closed it had %s done", w.messages())
	}
	w.now = w.now.Add(time.Hour)
	w.look()
	w.want(w.messages(), "relief")
}

// A repeat changes nothing, whatever has become of the task since then.
func TestRepeat(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	for _, n := range []int{21, 22} {
		if got := w.arrive(n, 10, 0); got.Changed {
			t.Errorf("%+v", got)
		}
	}
	w.do(queue.End{Task: id(21)})
	w.arrive(21, 10, 0)
	w.want(w.runs(21, 22), "Complete Running")
	w.refused(queue.PutTask{Task: queue.Task{ID: id(21), Queue: id(10), Execution: id(1), Name: "other"}},
		queue.Conflict, "Complete")
	if got := w.do(queue.PutQueue{Queue: syncQueue(10)}); got.Changed {
		t.Errorf("%+v", got)
	}
	if got := w.do(queue.PutAction{Action: request(1)}); got.Changed {
		t.Errorf("%+v", got)
	}
}

// A task that waits can be changed, also to another queue.
func TestMove(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	w.do(queue.PutQueue{Queue: syncQueue(11)})
	w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	w.arrive(22, 11, 0)
	w.want(w.runs(21, 22), "Running Running")
	if a, b := w.queue(10), w.queue(11); a.Pending != 0 || b.Pending != 0 || b.Running != 1 || b.Arrivals != 1 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// What is refused says why, and has changed nothing.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	changed := func(change func(q *queue.Queue)) queue.PutQueue {
		q := syncQueue(12)
		change(&q)
		return queue.PutQueue{Queue: q}
	}
	for _, c := range []struct {
		command queue.Command
		code    queue.Code
		words   string
	}{
		{changed(func(q *queue.Queue) { q.Name = "q10" }), queue.Conflict, "another queue"},
		{changed(func(q *queue.Queue) { q.ID = queue.Root }), queue.Conflict, "root"},
		{changed(func(q *queue.Queue) { q.Name = "root" }), queue.Conflict, "another queue"},
		{changed(func(q *queue.Queue) { q.Name = "a\tb" }), queue.Invalid, "control"},
		{changed(func(q *queue.Queue) { q.Window = "sometimes" }), queue.Invalid, "window"},
		{changed(func(q *queue.Queue) { q.Paths = []string{"/"} }), queue.Invalid, "path"},
		{changed(func(q *queue.Queue) { q.Paths = []string{"/a/"} }), queue.Invalid, "path"},
		{changed(func(q *queue.Queue) { q.Kind = "both" }), queue.Invalid, "kind"},
		{changed(func(q *queue.Queue) { q.TimeLimit = -1 }), queue.Invalid, "time limit"},
		{changed(func(q *queue.Queue) { q.Relief, q.Depth = id(77), 3 }), queue.Invalid, "no action"},
		{changed(func(q *queue.Queue) { q.ID, q.Name, q.Kind = id(10), "q10", queue.Async }), queue.Conflict, "run"},
		{queue.DropQueue{ID: queue.Root}, queue.Conflict, "root"},
		{queue.DropQueue{ID: id(77)}, queue.NotFound, "no queue"},
		{queue.DropAction{ID: id(1)}, queue.Conflict, "named"},
		{queue.DropAction{ID: id(77)}, queue.NotFound, "no action"},
		{queue.DropTask{ID: id(21)}, queue.Conflict, "runs"},
		{queue.DropTask{ID: id(77)}, queue.NotFound, "no task"},
		{queue.End{Task: id(77)}, queue.NotFound, "no task"},
		{queue.PutTask{Task: queue.Task{ID: id(23), Queue: id(77), Execution: id(1)}}, queue.NotFound, "no queue"},
		{queue.PutTask{Task: queue.Task{ID: id(23), Execution: id(77)}}, queue.Invalid, "no action"},
		{queue.PutTask{Task: queue.Task{ID: id(23)}}, queue.Invalid, "execution"},
		{queue.PutAction{Action: queue.Action{ID: id(2), URI: "ftp://x", Method: "GET"}}, queue.Invalid, "http"},
		{queue.PutAction{Action: queue.Action{ID: id(2), URI: "http://x", Method: "GIVE"}}, queue.Invalid, "method"},
		{
			queue.PutAction{Action: queue.Action{ID: id(2), Topic: "t", Payload: []byte("<<HORAE_API_URI>>")}},
			queue.Invalid, "addresses",
		},
	} {
		w.refused(c.command, c.code, c.words)
	}
	if _, err := w.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	w.refused(queue.End{Task: id(21)}, queue.Closed, "Try again")
}

// What ended long ago is forgotten.
func TestForget(t *testing.T) {
	w := newWorld(t)
	w.do(queue.PutQueue{Queue: syncQueue(10)})
	w.arrive(21, 10, 0)
	w.arrive(22, 10, 0)
	w.do(queue.End{Task: id(21)})
	w.now = w.now.Add(time.Hour)
	if got := w.do(queue.Forget{Age: time.Hour - 1, Limit: 10}); got.Forgotten != 1 {
		t.Errorf("%d were forgotten", got.Forgotten)
	}
	w.want(w.runs(21, 22), "none Running")
	w.refused(queue.End{Task: id(21)}, queue.NotFound, "forgotten")
}
