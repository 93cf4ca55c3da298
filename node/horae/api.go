package horae

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/listener"
	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// API answers requests.
type API struct {
	Desk *desk.Desk

	// Explain says in a sentence why the store has not answered; nil for the error as it is.
	Explain func(error) string

	// Observe is told of every request; nil for nobody. It must be quick.
	Observe func(Request)

	// Now is the clock that words such as "on saturday" count from; nil for the wall clock.
	Now func() time.Time
}

// Request is a request that was answered.
type Request struct {
	Operation string // such as put_queue, get_tasks or complete_task; "" for none of them
	Status    int
	Took      time.Duration
}

const (
	// maxBody is how large the body of a request may be: more than a message may be, with every byte escaped.
	maxBody = 8 << 20

	// maxSentence bounds the sentence of an error, in characters: there may be a part of the body in it.
	maxSentence = 1_000

	// page is how many rows are read at once for a list, which has no pages here.
	page = 500
)

// Handler returns the handler.
func (a *API) Handler() http.Handler {
	if a.Now == nil {
		a.Now = time.Now
	}
	if a.Observe == nil {
		a.Observe = func(Request) {}
	}
	mux := http.NewServeMux()
	serve := func(pattern, operation string, handle func(*answer, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			to := &answer{w: w, api: a}
			if r.Method == http.MethodHead { // a GET of net/http's, and none of horae's
				to.fail(http.StatusNotFound, http.StatusNotFound, "there is nothing for HEAD")
			} else {
				to.serve(r, handle)
			}
			a.Observe(Request{operation, to.status, time.Since(began)})
		})
	}
	a.register(serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if _, pattern := mux.Handler(r); pattern == "" {
			a.Observe(Request{"", http.StatusNotFound, 0})
			http.Error(w, "there is nothing for "+r.Method+" at that path: queues are at /v1/queues and "+
				"/v1/queue/UUID, and so are tasks and actions", http.StatusNotFound)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (a *API) register(serve func(pattern, operation string, handle func(*answer, *http.Request))) {
	serve("GET /v1/queues", "get_queues", a.getQueues)
	serve("GET /v1/queue/{uuid}", "get_queue", a.getQueue)
	serve("PUT /v1/queue", "put_queue", a.createQueue)
	serve("PUT /v1/queue/{uuid}", "put_queue", a.updateQueue)
	serve("DELETE /v1/queue/{uuid}", "delete_queue", a.deleteQueue)
	serve("GET /v1/tasks", "get_tasks", a.getTasks)
	serve("GET /v1/task/{uuid}", "get_task", a.getTask)
	serve("PUT /v1/task", "put_task", a.createTask)
	serve("PUT /v1/task/{uuid}", "put_task", a.updateTask)
	serve("DELETE /v1/task/{uuid}", "delete_task", a.deleteTask)
	serve("GET /v1/task/{uuid}/complete", "complete_task", a.completeTask)
	serve("POST /v1/task/{uuid}/complete", "complete_task", a.completeTask)
	serve("GET /v1/actions", "get_actions", a.getActions)
	serve("GET /v1/action/{uuid}", "get_action", a.getAction)
	serve("PUT /v1/action", "put_action", a.createAction)
	serve("PUT /v1/action/{uuid}", "put_action", a.updateAction)
	serve("DELETE /v1/action/{uuid}", "delete_action", a.deleteAction)
}

// answer is an answer on its way.
type answer struct {
	w      http.ResponseWriter
	api    *API
	status int
}

// serve has a request handled when its body has arrived, and answers it if that is refused.
func (to *answer) serve(r *http.Request, handle func(*answer, *http.Request)) {
	body, release, err := listener.ReadBody(to.w, r, maxBody)
	if err != nil {
		listener.RefuseBody(to.w, err, func(_ http.ResponseWriter, status int, sentence string) {
			to.fail(status, status, sentence)
		})
		return
	}
	defer release()
	if err := listener.CheckValues(body); err != nil {
		to.bad("Badly formed request: " + err.Error())
		return
	}
	handle(to, r)
}

// write answers with an object.
func (to *answer) write(status int, object any) {
	to.status = status
	to.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	to.w.WriteHeader(status)
	_ = json.NewEncoder(to.w).Encode(object) // whoever has gone gets no answer
}

// fail answers with an error. Whatever the code is, the status is 400, as there.
func (to *answer) fail(status, code int, sentence string) {
	to.write(status, failure{code, listener.Cut(sentence, maxSentence)})
}

// bad is the answer to a request that makes no sense.
func (to *answer) bad(sentence string) {
	to.fail(http.StatusBadRequest, http.StatusBadRequest, sentence)
}

// missing is the answer to a request for what is not there.
func (to *answer) missing(sentence string) {
	to.fail(http.StatusBadRequest, http.StatusNotFound, sentence)
}

// refuse is the answer where something was not done: 400, or 503 where that may be different in a moment.
func (to *answer) refuse(before string, err error) {
	refusal, is := errors.AsType[*queue.Refusal](err)
	switch {
	case is && refusal.Code != queue.Closed:
		to.bad(before + err.Error())
		return
	case !is && to.api.Explain != nil:
		before += "nobody knows whether that was done, so look, and do it again: " + to.api.Explain(err)
	default:
		before += err.Error()
	}
	to.w.Header().Set("Retry-After", "1")
	to.fail(http.StatusServiceUnavailable, http.StatusServiceUnavailable, before)
}

// unfound says that something is not there, or why it could not be looked for.
func (to *answer) unfound(err error, absent string) {
	if desk.IsAbsent(err) {
		to.missing(absent)
		return
	}
	to.refuse("", err)
}

// read reads the JSON of a body over an object: what it leaves out stays.
func read[O any](r *http.Request, object *O) error {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, object)
}

// idOf returns the id in the path; false if there can be nothing of that id.
func (to *answer) idOf(r *http.Request) (uuid.UUID, bool) {
	id, err := uuid.Parse(r.PathValue("uuid"))
	return id, err == nil && id != uuid.Nil
}

// update has a body change something, and answers. What is not in the body stays as find has it.
func update[T, O any](
	to *answer, r *http.Request, what string, find func(context.Context, uuid.UUID) (*T, error), show func(*T) O,
	read func(*http.Request, *O) error, save func(*http.Request, *T, *O) (*T, error),
) {
	failed := what + " not updated: "
	unknown := failed + "Unknown " + strings.ToLower(what)
	id, is := to.idOf(r)
	if !is {
		to.bad(unknown)
		return
	}
	found, err := find(r.Context(), id)
	switch {
	case desk.IsAbsent(err):
		to.bad(unknown)
		return
	case err != nil:
		to.refuse(failed, err)
		return
	}
	object := show(found)
	if err := read(r, &object); err != nil {
		to.bad("Badly formed request")
		return
	}
	if _, err := save(r, found, &object); err != nil {
		to.refuse(failed, err)
		return
	}
	to.write(http.StatusOK, message{what + " updated"})
}

// list answers with all that there is, page by page.
func list[T, O any](
	to *answer, r *http.Request, filter queue.Filter, read func(context.Context, queue.Filter) ([]T, error),
	show func(*T) O, after func(*queue.Filter, *T),
) {
	filter.Tag, filter.Limit = r.URL.Query().Get("tag"), page
	if _, why := node.CheckID(filter.Tag); filter.Tag != "" && why != "" {
		to.write(http.StatusOK, []O{}) // nothing has a tag that can be none
		return
	}
	for first := true; ; {
		rows, err := read(r.Context(), filter)
		if err != nil && first {
			to.refuse("", err)
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // half a list must not pass for a whole one
		}
		var text strings.Builder
		for i := range rows {
			object, err := json.Marshal(show(&rows[i]))
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			text.WriteString(map[bool]string{true: "[", false: ","}[first])
			text.Write(object)
			if first {
				to.begin()
			}
			first = false
		}
		last := len(rows) < page
		switch {
		case last && first:
			to.begin()
			text.WriteString("[]\n")
		case last:
			text.WriteString("]\n")
		}
		if _, err := io.WriteString(to.w, text.String()); err != nil || last {
			return
		}
		after(&filter, &rows[len(rows)-1])
	}
}

// begin begins a list.
func (to *answer) begin() {
	to.status = http.StatusOK
	to.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	to.w.WriteHeader(http.StatusOK)
}
