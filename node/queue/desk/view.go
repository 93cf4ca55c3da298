package desk

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"chronos/node/calendar"
	"chronos/node/queue"
	"chronos/node/view"
)

// Queue is a queue as clients see it.
type Queue struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind" enum:"sync,async" doc:"sync: one task at a time. async: each at its time."`
	Window    string   `json:"window" doc:"When it is open by itself, in its normal form."`
	Paths     []string `json:"paths" doc:"Where it lies. A queue at a true prefix of a path contains it."`
	Tags      []string `json:"tags"`
	Drain     bool     `json:"drain" doc:"Whether what waits is run when the queue is deleted, or deleted with it."`
	TimeLimit string   `json:"time_limit" doc:"How long a task may run that nobody completes."`
	Depth     int      `json:"depth,omitempty" doc:"With more tasks waiting while it is open, relief is called."`
	Relief    string   `json:"relief,omitempty" doc:"The id of that action."`

	Open     bool       `json:"open" doc:"Whether its window is open now, and those of all that contain it."`
	Changes  *time.Time `json:"changes,omitempty" doc:"When that changes next, if nobody changes a window."`
	ClosedBy []string   `json:"closed_by,omitempty" doc:"The queues whose windows keep it closed: itself, or others."`
	Deleting bool       `json:"deleting,omitempty" doc:"It takes no tasks any more, and goes with the last of its own."`
	Arrivals int64      `json:"arrivals" doc:"How many tasks have ever come."`
	Pending  int        `json:"pending" doc:"How many tasks wait."`
	Running  int        `json:"running" doc:"How many tasks run."`
	Openings []Opening  `json:"openings,omitempty" doc:"Where they were asked for."`
	Relieved *time.Time `json:"relieved,omitempty" doc:"When relief was called for a depth that has not gone down yet."`
}

// Task is a task as clients see it.
type Task struct {
	ID        string     `json:"id"`
	Queue     string     `json:"queue" doc:"The id of its queue."`
	Name      string     `json:"name,omitempty"`
	Tags      []string   `json:"tags"`
	Priority  int        `json:"priority" doc:"The higher the sooner, in a sync queue."`
	When      *time.Time `json:"when,omitempty" doc:"Not before this instant, in an async queue."`
	Execution string     `json:"execution,omitempty" doc:"The id of the action that it is."`
	Topic     string     `json:"topic,omitempty" doc:"Of a task that came as a record: the topic it comes out on."`
	Promise   []string   `json:"promise" doc:"The ids of the actions that are done when it is completed."`

	Status   string     `json:"status" enum:"Pending,Running,Complete,Failure,Partially Failed,Deleted"`
	Reason   string     `json:"reason,omitempty" doc:"Why it failed."`
	Run      string     `json:"run,omitempty" doc:"Names the time that it has run."`
	Arrival  int64      `json:"arrival" doc:"Its place among all tasks of the queue, from 1."`
	Arrived  *time.Time `json:"arrived,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"`
	Promised int        `json:"promised,omitempty" doc:"How many actions of the promise were done."`
	Broken   int        `json:"broken,omitempty" doc:"How many of them were given up."`
}

// Action is an action as clients see it.
type Action struct {
	ID      string         `json:"id"`
	Name    string         `json:"name,omitempty"`
	Tags    []string       `json:"tags"`
	URI     string         `json:"uri,omitempty" doc:"What to request."`
	Method  string         `json:"method,omitempty"`
	Topic   string         `json:"topic,omitempty" doc:"The topic of a record, in place of a request."`
	Headers []ActionHeader `json:"headers,omitempty"`
	Payload *view.Bytes    `json:"payload,omitempty" doc:"Only to those who may see it."`
}

// ActionHeader is a header of an action.
type ActionHeader struct {
	Name  string `json:"name" minLength:"1" maxLength:"1024"`
	Value string `json:"value" maxLength:"65536"`
}

// ShowQueue returns a queue for a client.
func ShowQueue(q *queue.Queue, hours Hours) Queue {
	return Queue{
		ID: q.ID.String(), Name: q.Name, Kind: string(q.Kind), Window: q.Window, Paths: some(q.Paths),
		Tags: some(q.Tags), Drain: q.Drain, TimeLimit: Lasting(q.TimeLimit), Depth: q.Depth, Relief: idOf(q.Relief),
		Open: hours.Open, Changes: instantOf(hours.Changes), ClosedBy: hours.Closed, Deleting: q.Deleting,
		Arrivals: q.Arrivals, Pending: q.Pending, Running: q.Running, Relieved: instantOf(q.Relieved),
		Openings: openingsOf(hours.Openings),
	}
}

// openingsOf returns openings for a client.
func openingsOf(found []calendar.Opening) []Opening {
	shown := []Opening{}
	for _, o := range found {
		shown = append(shown, Opening(o))
	}
	return shown
}

// ShowTask returns a task for a client.
func ShowTask(t *queue.Task) Task {
	shown := Task{
		ID: t.ID.String(), Queue: t.Queue.String(), Name: t.Name, Tags: some(t.Tags), Priority: t.Priority,
		When: instantOf(t.When), Execution: idOf(t.Execution), Promise: []string{}, Status: string(t.Status),
		Reason: t.Reason, Run: idOf(t.Run), Arrival: t.Arrival, Arrived: instantOf(t.Arrived),
		Started: instantOf(t.Started), Ended: instantOf(t.Ended), Promised: t.Promised(), Broken: t.Broken(),
	}
	if t.Inline != nil {
		shown.Topic = t.Inline.Topic
	}
	for _, id := range t.Promise {
		shown.Promise = append(shown.Promise, id.String())
	}
	return shown
}

// ShowAction returns an action for a client, with its payload or without.
func ShowAction(a *queue.Action, payload bool) Action {
	shown := Action{
		ID: a.ID.String(), Name: a.Name, Tags: some(a.Tags), URI: a.URI, Method: a.Method, Topic: a.Topic,
	}
	for _, h := range a.Headers {
		shown.Headers = append(shown.Headers, ActionHeader{h.Name, string(h.Value)})
	}
	if payload {
		shown.Payload = view.BytesOf(a.Payload)
	}
	return shown
}

// Lasting shows a duration as it may be written: in days or hours where it is so many of them.
func Lasting(d time.Duration) string {
	switch {
	case d > 0 && d%(24*time.Hour) == 0:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	case d > 0 && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d > 0 && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return d.String()
}

// some returns a list that is not null in JSON.
func some(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func idOf(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
