package horae

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// getTasks lists tasks: all, or those of a tag, or those of a queue.
func (a *API) getTasks(to *answer, r *http.Request) {
	var filter queue.Filter
	if text := r.URL.Query().Get("queue"); text != "" {
		id, err := uuid.Parse(text)
		if err != nil || id == uuid.Nil {
			to.write(http.StatusOK, []taskObject{}) // as of a queue that there is not
			return
		}
		filter.Queue = id
	}
	list(to, r, filter, a.Desk.Store.Tasks, taskOf, func(f *queue.Filter, last *queue.Task) { f.AfterID = last.ID })
}

func (a *API) getTask(to *answer, r *http.Request) {
	const absent = "Task not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	t, err := a.Desk.FindTask(r.Context(), id)
	if err != nil {
		to.unfound(err, absent)
		return
	}
	to.write(http.StatusOK, taskOf(t))
}

func (a *API) createTask(to *answer, r *http.Request) {
	var object taskObject
	if err := read(r, &object); err != nil {
		to.bad("Badly formed request")
		return
	}
	if object.UUID != uuid.Nil {
		to.bad("Task not saved: cannot specify UUID on create")
		return
	}
	t, err := a.saveTask(r, &queue.Task{ID: uuid.New()}, &object)
	if err != nil {
		to.refuse("Task not saved: ", err)
		return
	}
	shown := taskOf(t)
	shown.Status = string(queue.Pending) // as it came: it may run by now
	to.write(http.StatusOK, shown)
}

// saveTask makes a task what an object says, and returns it. What the object shows of the task as it was stays so:
// there may be more of it than an object can show.
func (a *API) saveTask(r *http.Request, was *queue.Task, object *taskObject) (*queue.Task, error) {
	refused := func(why string) error { return &queue.Refusal{Code: queue.Invalid, Detail: why} }
	if value(object.Execution) == uuid.Nil && was.Inline == nil {
		return nil, refused("Unspecified execution action")
	}
	in := value(object.Queue)
	if in == uuid.Nil {
		in = queue.Root
	}
	q, err := a.queue(r, in)
	switch {
	case err != nil:
		return nil, err
	case q.Deleting:
		return nil, refused("Queue has been deleted (no tasks can be created or updated)")
	case object.When.IsZero() && q.Kind == queue.Async:
		return nil, refused("No timestamp set for async queue")
	}
	name, when := in.String(), object.When
	change := desk.TaskChange{Queue: &name, Name: &object.Name, Tags: &object.Tags}
	before := taskOf(was)
	if object.Priority != before.Priority {
		priority := int(object.Priority)
		change.Priority = &priority
	}
	if id := value(object.Execution); id != value(before.Execution) {
		execution := id.String()
		change.Execution = &execution
	}
	if id := value(object.Promise); id != value(before.Promise) {
		change.Promise = &[]string{}
		if id != uuid.Nil {
			change.Promise = &[]string{id.String()}
		}
	}
	if q.Kind == queue.Async || !when.Equal(never()) && !when.IsZero() {
		change.When = &when
	}
	t, _, err := a.Desk.PutTask(r.Context(), was.ID, change)
	return &t, err
}

func (a *API) updateTask(to *answer, r *http.Request) {
	update(to, r, "Task", a.Desk.FindTask, taskOf, read, a.saveTask)
}

func (a *API) deleteTask(to *answer, r *http.Request) {
	const absent = "Task not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	_, err := a.Desk.DropTask(r.Context(), id)
	switch {
	case desk.IsAbsent(err):
		to.missing(absent)
	case err != nil:
		to.refuse("Task not deleted: ", err)
	default:
		to.write(http.StatusOK, message{"Task deleted"})
	}
}

// completion is the body of a POST that completes a task. There is none in horae, where a task cannot fail by itself.
type completion struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// completeTask completes a task: by a GET, as in horae, or by a POST, with success or failure.
func (a *API) completeTask(to *answer, r *http.Request) {
	const absent = "Task not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	said := completion{Status: r.URL.Query().Get("status")}
	if r.Method == http.MethodPost {
		content, err := io.ReadAll(r.Body)
		if err == nil && len(content) > 0 {
			err = json.Unmarshal(content, &said)
		}
		if err != nil {
			to.bad("Badly formed request")
			return
		}
	}
	end := queue.End{Task: id, Reason: said.Reason}
	switch strings.ToLower(said.Status) {
	case "", "success", "complete":
	case "failure", "failed":
		end.Failed = true
	default:
		to.bad("Task not completed: status must be success or failure")
		return
	}
	_, _, err := a.Desk.Complete(r.Context(), end)
	switch {
	case desk.IsAbsent(err):
		to.missing(absent)
	case err != nil:
		to.refuse("Task not completed: ", err)
	default:
		to.write(http.StatusOK, message{"Task completed"})
	}
}
