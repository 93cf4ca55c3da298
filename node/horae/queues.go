package horae

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"chronos/node/calendar"
	"chronos/node/queue"
	"chronos/node/queue/desk"
)

func (a *API) getQueues(to *answer, r *http.Request) {
	list(to, r, queue.Filter{}, a.Desk.Store.Queues, queueOf, func(f *queue.Filter, last *queue.Queue) {
		f.AfterName = last.Name
	})
}

func (a *API) getQueue(to *answer, r *http.Request) {
	const absent = "Queue not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	q, err := a.queue(r, id)
	if err != nil {
		to.unfound(err, absent)
		return
	}
	to.write(http.StatusOK, queueOf(q))
}

// queue returns the queue of an id. A name that looks like one is none.
func (a *API) queue(r *http.Request, id uuid.UUID) (*queue.Queue, error) {
	found, err := a.Desk.Store.Queues(r.Context(), queue.Filter{ID: id, Limit: 1})
	if err == nil && len(found) == 0 {
		return nil, &queue.Refusal{Code: queue.NotFound, Detail: "Unknown queue"}
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

func (a *API) createQueue(to *answer, r *http.Request) {
	var object queueObject
	if err := read(r, &object); err != nil {
		to.bad("Badly formed request")
		return
	}
	if object.UUID != uuid.Nil {
		to.bad("Queue not saved: cannot specify UUID on create")
		return
	}
	q, err := a.saveQueue(r, uuid.New(), &object)
	if err != nil {
		to.refuse("Queue not saved: ", err)
		return
	}
	to.write(http.StatusOK, queueOf(q))
}

// saveQueue makes a queue what an object says, and returns it.
func (a *API) saveQueue(r *http.Request, id uuid.UUID, object *queueObject) (*queue.Queue, error) {
	if err := a.checkQueue(object); err != nil {
		return nil, err
	}
	number, relief := int(object.Depth), ""
	if action := value(object.Backpressure); action != uuid.Nil {
		relief = action.String()
	}
	q, _, err := a.Desk.PutQueue(r.Context(), id.String(), desk.QueueChange{
		Name: &object.Name, Kind: &object.Type, Window: &object.Window, Paths: &object.Paths, Tags: &object.Tags,
		Drain: &object.Drain, Depth: &number, Relief: &relief,
	})
	return &q, err
}

// checkQueue refuses what horae refuses, in its words.
func (a *API) checkQueue(object *queueObject) error {
	refused := func(why string) error { return &queue.Refusal{Code: queue.Invalid, Detail: why} }
	if object.Type != string(queue.Sync) && object.Type != string(queue.Async) {
		return refused("Invalid queue type")
	}
	if _, err := calendar.ParseWindow(object.Window, a.Now()); err != nil {
		return refused("Invalid window definition: " + err.Error())
	}
	switch {
	case slices.Contains(object.Paths, "/"):
		return refused("Cannot define queue with root path")
	case slices.ContainsFunc(object.Paths, func(path string) bool { return strings.HasSuffix(path, "/") }):
		return refused("Cannot define path with trailing slash")
	}
	return nil
}

func (a *API) updateQueue(to *answer, r *http.Request) {
	id, is := to.idOf(r)
	if id == queue.Root {
		to.bad("Cannot update root queue")
		return
	}
	var q *queue.Queue
	err := errors.New("Unknown queue") //nolint:staticcheck // it is horae's
	if is {
		q, err = a.queue(r, id)
	}
	switch {
	case !is || desk.IsAbsent(err):
		to.bad("Queue not updated: Unknown queue")
		return
	case err != nil:
		to.refuse("Queue not updated: ", err)
		return
	case q.Deleting:
		to.bad("Queue not updated: Not Active")
		return
	}
	object := queueOf(q)
	if err := read(r, &object); err != nil {
		to.bad("Badly formed request: " + err.Error())
		return
	}
	if _, err := a.saveQueue(r, id, &object); err != nil {
		to.refuse("Queue not updated: ", err)
		return
	}
	to.write(http.StatusOK, message{"Queue updated"})
}

// deleteQueue deletes a queue, as the query says, or else as the queue does: its documents have the first, its program
// has the second.
func (a *API) deleteQueue(to *answer, r *http.Request) {
	const absent = "Queue not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	if _, err := a.queue(r, id); err != nil {
		to.unfound(err, absent)
		return
	}
	var drain *bool
	switch text := r.URL.Query().Get("shouldDrain"); text {
	case "":
	case "true", "false":
		drain = new(bool)
		*drain = text == "true"
	default:
		to.bad("Queue not deleted: shouldDrain must be true or false")
		return
	}
	if _, err := a.Desk.DropQueue(r.Context(), id.String(), drain); err != nil {
		to.refuse("Queue not deleted: ", err)
		return
	}
	to.write(http.StatusOK, message{"Queue deleted"})
}
