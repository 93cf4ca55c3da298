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

func (a *API) getActions(to *answer, r *http.Request) {
	list(to, r, queue.Filter{}, a.Desk.Store.Actions, actionOf, func(f *queue.Filter, last *queue.Action) {
		f.AfterID = last.ID
	})
}

func (a *API) getAction(to *answer, r *http.Request) {
	const absent = "Action not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	found, err := a.Desk.FindAction(r.Context(), id)
	if err != nil {
		to.unfound(err, absent)
		return
	}
	to.write(http.StatusOK, actionOf(found))
}

// readAction reads the JSON of a body over an action, with the name that horae's own examples give it.
func readAction(r *http.Request, object *actionObject) error {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var named struct {
		Name *string `json:"name"`
	}
	if err := json.Unmarshal(content, &named); err != nil {
		return err
	}
	if named.Name != nil {
		object.Name = *named.Name
	}
	return json.Unmarshal(content, object)
}

func (a *API) createAction(to *answer, r *http.Request) {
	var object actionObject
	if err := readAction(r, &object); err != nil {
		to.bad("Badly formed request")
		return
	}
	if object.UUID != uuid.Nil {
		to.bad("Action not saved: cannot specify UUID on create")
		return
	}
	saved, err := a.saveAction(r, &queue.Action{ID: uuid.New()}, &object)
	if err != nil {
		to.refuse("Action not saved: ", err)
		return
	}
	to.write(http.StatusOK, actionOf(saved))
}

// saveAction makes an action what an object says, and returns it. What has a payload is JSON, as in horae, unless it
// has been said to be something else; horae knows of no headers, so those that there are stay.
func (a *API) saveAction(r *http.Request, was *queue.Action, object *actionObject) (*queue.Action, error) {
	if object.Operation == "" {
		return nil, &queue.Refusal{Code: queue.Invalid, Detail: "operation must be GET, POST, HEAD, PUT or DELETE"}
	}
	headers, typed := []desk.ActionHeader{}, false
	for _, h := range was.Headers {
		headers = append(headers, desk.ActionHeader{Name: h.Name, Value: string(h.Value)})
		typed = typed || strings.EqualFold(h.Name, "content-type")
	}
	if !typed && (object.Operation == http.MethodPost || object.Operation == http.MethodPut) {
		headers = append(headers, desk.ActionHeader{Name: "content-type", Value: "application/json"})
	}
	none := ""
	saved, _, err := a.Desk.PutAction(r.Context(), was.ID, desk.ActionChange{
		Name: &object.Name, Tags: &object.Tags, URI: &object.URI, Method: &object.Operation, Topic: &none,
		Headers: &headers, Payload: &object.Payload,
	})
	return &saved, err
}

func (a *API) updateAction(to *answer, r *http.Request) {
	update(to, r, "Action", a.Desk.FindAction, actionOf, readAction, a.saveAction)
}

func (a *API) deleteAction(to *answer, r *http.Request) {
	const absent = "Action not found"
	id, is := to.idOf(r)
	if !is {
		to.missing(absent)
		return
	}
	if _, err := a.Desk.FindAction(r.Context(), id); err != nil {
		to.unfound(err, absent)
		return
	}
	if err := a.Desk.DropAction(r.Context(), id); err != nil {
		to.refuse("Action not deleted: ", err)
		return
	}
	to.write(http.StatusOK, message{"Action deleted"})
}
