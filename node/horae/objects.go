package horae

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
)

// queueObject is a queue as horae has it. The order of the fields is that of its answers.
type queueObject struct {
	UUID         uuid.UUID  `json:"uuid"`
	Name         string     `json:"name,omitempty"`
	Type         string     `json:"queueType,omitempty"`
	Window       string     `json:"windowOfOperation,omitempty"`
	Drain        bool       `json:"shouldDrain,omitempty"`
	Backpressure *uuid.UUID `json:"backpressureAction,omitempty"`
	Depth        depth      `json:"backpressureDefinition,omitempty"`
	Tags         []string   `json:"tags,omitempty"`
	Paths        []string   `json:"paths,omitempty"`
}

// depth is a number. Its documents say that it is a text, and its program that it is none: both are read.
type depth uint32

// UnmarshalJSON reads a number, or a text that is one. null leaves it as it is, as everywhere.
func (d *depth) UnmarshalJSON(raw []byte) error {
	var text string
	if string(raw) == "null" {
		return nil
	}
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("backpressureDefinition must be a number of tasks")
	}
	*d = depth(n)
	return nil
}

// taskObject is a task as horae has it.
type taskObject struct {
	UUID      uuid.UUID  `json:"uuid"`
	Name      string     `json:"name,omitempty"`
	Priority  uint32     `json:"priority,omitempty"`
	Queue     *uuid.UUID `json:"queue,omitempty"`
	When      time.Time  `json:"when"`
	Promise   *uuid.UUID `json:"promise,omitempty"`
	Execution *uuid.UUID `json:"execution"`
	Status    string     `json:"status"`
	Tags      []string   `json:"tags,omitempty"`
}

// actionObject is an action as horae has it.
type actionObject struct {
	UUID      uuid.UUID `json:"uuid"`
	Operation string    `json:"operation,omitempty"`
	Payload   string    `json:"payload,omitempty"`
	URI       string    `json:"uri,omitempty"`
	Tags      []string  `json:"tags,omitempty"`

	// Name is read, as its documents write it, and shown by everything but this: horae has none.
	Name string `json:"-"`
}

// message and failure are its other answers.
type (
	message struct {
		Message string `json:"message"`
	}

	failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
)

// never is the when of a task that has none: what horae stores then, and prints.
func never() time.Time { return time.Date(1974, time.December, 31, 0, 0, 0, 0, time.UTC) }

func queueOf(q *queue.Queue) queueObject {
	return queueObject{
		UUID: q.ID, Name: q.Name, Type: string(q.Kind), Window: q.Window, Drain: q.Drain,
		Backpressure: given(q.Relief), Depth: depth(q.Depth), Tags: q.Tags, Paths: q.Paths,
	}
}

func taskOf(t *queue.Task) taskObject {
	shown := taskObject{
		UUID: t.ID, Name: t.Name, Priority: uint32(max(t.Priority, 0)), Queue: given(t.Queue), When: t.When.UTC(),
		Execution: given(t.Execution), Status: string(t.Status), Tags: t.Tags,
	}
	if t.When.IsZero() {
		shown.When = never()
	}
	if len(t.Promise) > 0 {
		shown.Promise = given(t.Promise[0])
	}
	return shown
}

func actionOf(a *queue.Action) actionObject {
	return actionObject{
		UUID: a.ID, Operation: a.Method, Payload: string(a.Payload), URI: a.URI, Tags: a.Tags, Name: a.Name,
	}
}

// given returns an id; nil for none.
func given(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

// value returns an id, zero for none.
func value(id *uuid.UUID) uuid.UUID {
	if id == nil {
		return uuid.Nil
	}
	return *id
}
