package desk

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"chronos/node/listener"
	"chronos/node/queue"
)

// Mount says how the operations on queues are served among others of a listener, whose middleware says who may ask.
type Mount struct {
	// Desk answers.
	Desk *Desk

	// Describe completes the description of an operation.
	Describe func(operation *huma.Operation, writes bool)

	// May returns why whoever asks may not have something come out on a topic; nil if that is all right. Owns is the
	// same for what does not come out there any more: the topic need not be one that is served.
	May, Owns func(ctx context.Context, topic string) error

	// Payload reports whether whoever asks may see payloads.
	Payload func(ctx context.Context) bool

	// Done is told what was changed.
	Done func(ctx context.Context, operation, what string)

	// Problem returns the answer for an error: a *queue.Refusal, or that the store has not answered.
	Problem func(err error) error

	// Name returns what an operation is called in the description of the listener.
	Name func(operation string) string
}

// The pages of lists.
type (
	// Queues is a page of queues.
	Queues struct {
		Queues []Queue `json:"queues"`
		Next   string  `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`
	}

	// Tasks is a page of tasks.
	Tasks struct {
		Tasks []Task `json:"tasks"`
		Next  string `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`
	}

	// Actions is a page of actions.
	Actions struct {
		Actions []Action `json:"actions"`
		Next    string   `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`
	}

	// Done says what was deleted.
	Done struct {
		ID string `json:"id"`
	}

	// Week is when a queue is open.
	Week struct {
		From     time.Time `json:"from"`
		Until    time.Time `json:"until"`
		Openings []Opening `json:"openings" doc:"Between the two, in order; a hundred at most."`
	}

	// Opening is a while in which a queue is open.
	Opening struct {
		Start time.Time `json:"start"`
		End   time.Time `json:"end"`
	}

	// Completion says how a task has ended.
	Completion struct {
		Status string `json:"status,omitempty" enum:"success,failure" default:"success"`
		Run    string `json:"run,omitempty" maxLength:"64" doc:"Of that run only: another one stays as it is."`
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why it failed, in a sentence."`
	}

	// Completed is a task that was completed.
	Completed struct {
		Task

		Changed bool `json:"changed" doc:"Whether this has ended it: otherwise it had ended before, as it says."`
	}
)

type (
	// RefInput is what requests have in common that are about a queue.
	RefInput struct {
		Queue string `path:"queue" maxLength:"512" doc:"The name or the id of a queue."`
	}

	// IDInput is what requests have in common that are about a task or an action.
	IDInput struct {
		ID string `path:"id" format:"uuid"`
	}

	// ListInput is what requests for lists have in common.
	ListInput struct {
		Tag    string `query:"tag" maxLength:"1000" doc:"Those that have this tag."`
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
		Cursor string `query:"cursor" maxLength:"512" doc:"Where the page before said to go on."`
	}

	tasksInput struct {
		ListInput

		Queue  string `query:"queue" maxLength:"128" doc:"Those of this queue: its name, or its id."`
		Status string `query:"status" enum:"Pending,Running,Complete,Failure,Partially Failed,Deleted"`
	}

	queuesInput struct {
		ListInput

		Days int `query:"days" minimum:"0" maximum:"31" doc:"Show when each is open in so many days."`
	}

	putQueueInput struct {
		RefInput

		Body QueueChange
	}

	postQueueInput struct{ Body QueueChange }

	dropQueueInput struct {
		RefInput

		Drain string `query:"drain" enum:"true,false" doc:"In place of what the queue itself says."`
	}

	weekInput struct {
		RefInput

		Days int `query:"days" minimum:"1" maximum:"31" default:"7"`
	}

	putTaskInput struct {
		IDInput

		Body TaskChange
	}

	postTaskInput struct{ Body TaskChange }

	completeInput struct {
		IDInput

		Body *Completion
	}

	putActionInput struct {
		IDInput

		Body ActionChange
	}

	postActionInput struct{ Body ActionChange }
)

// check refuses texts that nothing can have: to Postgres they are errors.
func (in *ListInput) check() error {
	for _, text := range []string{in.Tag, in.Cursor} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return invalid(quoted(text) + " is no tag, and no cursor that a page has given: it is not UTF-8, or " +
				"has a NUL")
		}
	}
	return nil
}

// answer is what huma wants an answer to be.
type answer[T any] struct {
	Status int
	Body   T
}

// serve registers an operation.
func serve[I, O any](
	m *Mount, api huma.API, method, path, id, summary string, handle func(context.Context, *I) (O, int, error),
) {
	operation := huma.Operation{
		OperationID: m.Name(id), Method: method, Path: path, Summary: summary, DefaultStatus: http.StatusOK,
		Tags: []string{"queues"},
	}
	writes := method != http.MethodGet
	m.Describe(&operation, writes)
	huma.Register(api, operation, func(ctx context.Context, in *I) (*answer[O], error) {
		if m.Desk == nil {
			return nil, m.Problem(absent("this store keeps no queues: it is a journal in Kafka, and queues need a " +
				"database"))
		}
		out, status, err := handle(ctx, in)
		if err != nil {
			return nil, m.Problem(err)
		}
		return &answer[O]{status, out}, nil
	})
	if method == http.MethodPut || method == http.MethodPost && !strings.HasSuffix(path, "/complete") {
		listener.DescribeCreated(api, method, path)
	}
}

// Register registers all operations on queues, tasks and actions.
func (m *Mount) Register(api huma.API) {
	m.queues(api)
	m.tasks(api)
	m.actions(api)
}

func made(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (m *Mount) queues(api huma.API) {
	serve(m, api, http.MethodGet, "/v1/queues", "queues", "A page of the queues, by their names", m.listQueues)
	serve(m, api, http.MethodGet, "/v1/queues/{queue}", "queue", "A queue, and how it is now",
		func(ctx context.Context, in *RefInput) (Queue, int, error) {
			q, err := m.Desk.FindQueue(ctx, in.Queue)
			if err != nil {
				return Queue{}, 0, err
			}
			return m.shown(ctx, q, http.StatusOK)
		})
	serve(m, api, http.MethodGet, "/v1/queues/{queue}/openings", "openings", "When a queue is open in the next days",
		m.openings)
	put := func(ctx context.Context, ref string, change QueueChange) (Queue, int, error) {
		if change.Relief != nil {
			if err := m.mayUse(ctx, *change.Relief); err != nil {
				return Queue{}, 0, err
			}
		}
		q, isNew, err := m.Desk.PutQueue(ctx, ref, change)
		if err != nil {
			return Queue{}, 0, err
		}
		m.Done(ctx, "put queue", q.Name)
		return m.shown(ctx, &q, made(isNew))
	}
	serve(m, api, http.MethodPut, "/v1/queues/{queue}", "putQueue", "Make a queue, or change it: what is left out "+
		"stays as it is", func(ctx context.Context, in *putQueueInput) (Queue, int, error) {
		return put(ctx, in.Queue, in.Body)
	})
	serve(m, api, http.MethodPost, "/v1/queues", "postQueue", "Make a queue under an id that is made here",
		func(ctx context.Context, in *postQueueInput) (Queue, int, error) {
			if in.Body.Name == nil {
				return Queue{}, 0, invalid("name is missing: a queue has one")
			}
			return put(ctx, uuid.NewString(), in.Body)
		})
	serve(m, api, http.MethodDelete, "/v1/queues/{queue}", "deleteQueue", "Delete a queue, with what waits or when "+
		"that has run: see drain", func(ctx context.Context, in *dropQueueInput) (Queue, int, error) {
		var drain *bool
		if in.Drain != "" {
			drain = new(bool)
			*drain = in.Drain == "true"
		}
		q, err := m.Desk.DropQueue(ctx, in.Queue, drain)
		if err != nil {
			return Queue{}, 0, err
		}
		m.Done(ctx, "delete queue", q.Name)
		return m.shown(ctx, &q, http.StatusOK)
	})
}

// shown returns a queue as an answer.
func (m *Mount) shown(ctx context.Context, q *queue.Queue, status int) (Queue, int, error) {
	hours, err := m.Desk.Hours(ctx, *q)
	if err != nil {
		return Queue{}, 0, err
	}
	return ShowQueue(q, hours[0]), status, nil
}

func (m *Mount) listQueues(ctx context.Context, in *queuesInput) (Queues, int, error) {
	all := Queues{Queues: []Queue{}}
	if err := in.check(); err != nil {
		return all, 0, err
	}
	found, err := m.Desk.Store.Queues(ctx, queue.Filter{Tag: in.Tag, AfterName: in.Cursor, Limit: in.Limit})
	if err != nil {
		return all, 0, err
	}
	hours, err := m.Desk.hours(ctx, time.Duration(in.Days)*day, found)
	for i := range hours {
		all.Queues = append(all.Queues, ShowQueue(&found[i], hours[i]))
	}
	if len(found) == in.Limit {
		all.Next = found[len(found)-1].Name
	}
	return all, http.StatusOK, err
}

const day = 24 * time.Hour

func (m *Mount) openings(ctx context.Context, in *weekInput) (Week, int, error) {
	q, err := m.Desk.FindQueue(ctx, in.Queue)
	if err != nil {
		return Week{}, 0, err
	}
	hours, err := m.Desk.hours(ctx, time.Duration(in.Days)*day, []queue.Queue{*q})
	if err != nil {
		return Week{}, 0, err
	}
	return Week{hours[0].From, hours[0].Until, openingsOf(hours[0].Openings)}, http.StatusOK, nil
}

func (m *Mount) tasks(api huma.API) {
	serve(m, api, http.MethodGet, "/v1/tasks", "tasks", "A page of the tasks, by their ids", m.listTasks)
	serve(m, api, http.MethodGet, "/v1/tasks/{id}", "task", "A task, until it is forgotten",
		func(ctx context.Context, in *IDInput) (Task, int, error) {
			t, err := m.Desk.FindTask(ctx, idIn(in.ID))
			if err != nil {
				return Task{}, 0, err
			}
			return ShowTask(t), http.StatusOK, nil
		})
	put := func(ctx context.Context, id uuid.UUID, change TaskChange) (Task, int, error) {
		var actions []string
		if change.Execution != nil {
			actions = append(actions, *change.Execution)
		}
		if change.Promise != nil {
			actions = append(actions, *change.Promise...)
		}
		if err := m.mayUse(ctx, actions...); err != nil {
			return Task{}, 0, err
		}
		t, isNew, err := m.Desk.PutTask(ctx, id, change)
		if err == nil {
			m.Done(ctx, "put task", t.ID.String())
		}
		return ShowTask(&t), made(isNew), err
	}
	serve(m, api, http.MethodPut, "/v1/tasks/{id}", "putTask", "Bring a task under an id of your own, or change one "+
		"that waits: what is left out stays as it is",
		func(ctx context.Context, in *putTaskInput) (Task, int, error) { return put(ctx, idIn(in.ID), in.Body) })
	serve(m, api, http.MethodPost, "/v1/tasks", "postTask", "Bring a task under an id that is made here",
		func(ctx context.Context, in *postTaskInput) (Task, int, error) { return put(ctx, uuid.New(), in.Body) })
	serve(m, api, http.MethodDelete, "/v1/tasks/{id}", "deleteTask", "Delete a task that waits",
		func(ctx context.Context, in *IDInput) (Task, int, error) {
			t, err := m.Desk.DropTask(ctx, idIn(in.ID))
			if err == nil {
				m.Done(ctx, "delete task", t.ID.String())
			}
			return ShowTask(&t), http.StatusOK, err
		})
	serve(m, api, http.MethodPost, "/v1/tasks/{id}/complete", "completeTask", "Say that a task is done, so that the "+
		"next one of its queue may start", m.complete)
}

func (m *Mount) listTasks(ctx context.Context, in *tasksInput) (Tasks, int, error) {
	all := Tasks{Tasks: []Task{}}
	if err := in.check(); err != nil {
		return all, 0, err
	}
	filter := queue.Filter{Tag: in.Tag, Status: queue.Status(in.Status), Limit: in.Limit}
	if in.Cursor != "" {
		after, err := uuid.Parse(in.Cursor)
		if err != nil {
			return all, 0, invalid("cursor is none that a page has given")
		}
		filter.AfterID = after
	}
	if in.Queue != "" {
		q, err := m.Desk.FindQueue(ctx, in.Queue)
		if err != nil {
			return all, 0, err
		}
		filter.Queue = q.ID
	}
	found, err := m.Desk.Store.Tasks(ctx, filter)
	for i := range found {
		all.Tasks = append(all.Tasks, ShowTask(&found[i]))
	}
	if len(found) == in.Limit {
		all.Next = found[len(found)-1].ID.String()
	}
	return all, http.StatusOK, err
}

// mayUse returns why whoever asks may neither have some actions done nor change them: one of them has a topic where
// they may bring nothing. Somebody else has made it, who may.
func (m *Mount) mayUse(ctx context.Context, ids ...string) error {
	for _, text := range ids {
		id, err := uuid.Parse(text)
		if err != nil {
			continue // it is refused in a moment, with a sentence of its own
		}
		if err := m.checkTopic(ctx, id, m.May); err != nil {
			return err
		}
	}
	return nil
}

// checkTopic checks the topic of an action, if it has one.
func (m *Mount) checkTopic(ctx context.Context, id uuid.UUID, check func(context.Context, string) error) error {
	a, err := m.Desk.FindAction(ctx, id)
	switch {
	case IsAbsent(err):
		return nil
	case err != nil:
		return err
	case a.Topic == "":
		return nil
	}
	return check(ctx, a.Topic)
}

func (m *Mount) complete(ctx context.Context, in *completeInput) (Completed, int, error) {
	end := queue.End{Task: idIn(in.ID)}
	if c := in.Body; c != nil {
		end.Failed, end.Reason = c.Status == "failure", c.Reason
		if c.Run != "" {
			run, err := uuid.Parse(c.Run)
			if err != nil {
				return Completed{}, 0, invalid("run is " + quoted(c.Run) + ": it must be the UUID of a run")
			}
			end.Run = run
		}
	}
	t, changed, err := m.Desk.Complete(ctx, end)
	if err == nil && changed {
		m.Done(ctx, "complete task", t.ID.String())
	}
	return Completed{ShowTask(&t), changed}, http.StatusOK, err
}

func (m *Mount) actions(api huma.API) {
	serve(m, api, http.MethodGet, "/v1/actions", "actions", "A page of the actions, by their ids", m.listActions)
	serve(m, api, http.MethodGet, "/v1/actions/{id}", "action", "An action",
		func(ctx context.Context, in *IDInput) (Action, int, error) {
			a, err := m.Desk.FindAction(ctx, idIn(in.ID))
			if err != nil {
				return Action{}, 0, err
			}
			return ShowAction(a, m.Payload(ctx)), http.StatusOK, nil
		})
	put := func(ctx context.Context, id uuid.UUID, change ActionChange) (Action, int, error) {
		if err := m.mayUse(ctx, id.String()); err != nil {
			return Action{}, 0, err
		}
		if change.Topic != nil && *change.Topic != "" {
			if err := m.May(ctx, *change.Topic); err != nil {
				return Action{}, 0, err
			}
		}
		a, isNew, err := m.Desk.PutAction(ctx, id, change)
		if err == nil {
			m.Done(ctx, "put action", a.ID.String())
		}
		return ShowAction(&a, m.Payload(ctx)), made(isNew), err
	}
	serve(m, api, http.MethodPut, "/v1/actions/{id}", "putAction", "Make an action under an id of your own, or change "+
		"it: what is left out stays as it is",
		func(ctx context.Context, in *putActionInput) (Action, int, error) {
			return put(ctx, idIn(in.ID), in.Body)
		})
	serve(m, api, http.MethodPost, "/v1/actions", "postAction", "Make an action under an id that is made here",
		func(ctx context.Context, in *postActionInput) (Action, int, error) {
			return put(ctx, uuid.New(), in.Body)
		})
	serve(m, api, http.MethodDelete, "/v1/actions/{id}", "deleteAction", "Delete an action that nothing needs any more",
		func(ctx context.Context, in *IDInput) (Done, int, error) {
			id := idIn(in.ID)
			if err := m.checkTopic(ctx, id, m.Owns); err != nil {
				return Done{}, 0, err
			}
			if err := m.Desk.DropAction(ctx, id); err != nil {
				return Done{}, 0, err
			}
			m.Done(ctx, "delete action", in.ID)
			return Done{in.ID}, http.StatusOK, nil
		})
}

func (m *Mount) listActions(ctx context.Context, in *ListInput) (Actions, int, error) {
	all, filter := Actions{Actions: []Action{}}, queue.Filter{Tag: in.Tag, Limit: in.Limit}
	if err := in.check(); err != nil {
		return all, 0, err
	}
	if in.Cursor != "" {
		after, err := uuid.Parse(in.Cursor)
		if err != nil {
			return all, 0, invalid("cursor is none that a page has given")
		}
		filter.AfterID = after
	}
	found, err := m.Desk.Store.Actions(ctx, filter)
	for i := range found {
		all.Actions = append(all.Actions, ShowAction(&found[i], m.Payload(ctx)))
	}
	if len(found) == in.Limit {
		all.Next = found[len(found)-1].ID.String()
	}
	return all, http.StatusOK, err
}

// idIn reads an id that huma has seen to be one.
func idIn(text string) uuid.UUID {
	id, _ := uuid.Parse(text)
	return id
}
