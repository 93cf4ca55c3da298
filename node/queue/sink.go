package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Sink stands before the sink of callbacks. Of the messages of Lane it replaces the tags and passes the request on, and
// tells the store what became of it; those that are tasks, or their completions, it brings to the store, and nowhere
// else. What the store does not take is tried again, as a request is that fails.
//
// So a request may be made twice, and its outcome told twice:
//
//	the request is answered with 200
//	the node dies, or the store does not answer
//	                                                another node makes the request once more, and tells the store
//	the first call comes through after all: the run is over, and nothing changes
type Sink struct{ config SinkConfig }

// SinkConfig is what a Sink needs.
type SinkConfig struct {
	Store Store
	Next  node.Sink // where requests are made

	// URL is the address that others reach this node at, with a / at its end.
	URL string
}

var _ node.Sink = (*Sink)(nil)

// NewSink returns a sink.
func NewSink(config SinkConfig) *Sink { return &Sink{config} }

// Publish implements node.Sink.
func (s *Sink) Publish(ctx context.Context, records []node.Record) []error {
	errs := make([]error, len(records))
	var passed []node.Record
	var places []int
	for i := range records {
		r := &records[i]
		switch header(r, node.HeaderTaskPart) {
		case node.TaskArrives:
			if r.Topic == Lane {
				errs[i] = s.arrive(ctx, r)
				continue
			}
		case node.TaskEnds:
			if r.Topic == Lane {
				errs[i] = s.complete(ctx, r)
				continue
			}
		}
		places = append(places, i)
		passed = append(passed, s.expanded(r))
	}
	if len(passed) > 0 {
		for k, err := range s.config.Next.Publish(ctx, passed) {
			errs[places[k]] = s.tell(ctx, &records[places[k]], err)
		}
	}
	return errs
}

// header returns the value of the last header of a name, empty for none: ours come after those of an application.
func header(r *node.Record, name string) string {
	for i := range slices.Backward(r.Headers) {
		if r.Headers[i].Name == name {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// expanded returns a record with its tags replaced, if it is of a task.
func (s *Sink) expanded(r *node.Record) node.Record {
	if r.Topic != Lane || header(r, node.HeaderTaskPart) == "" {
		return *r
	}
	task, status := header(r, node.HeaderTask), header(r, node.HeaderTaskStatus)
	if status == "" {
		status = string(Running)
	}
	tags := Tags{
		API: s.config.URL, Completion: s.config.URL + "v1/task/" + task + "/complete", Task: task, Status: status,
	}
	e := *r
	e.Value = Expand(r.Value, tags)
	e.Headers = slices.Clone(r.Headers)
	for i := range e.Headers {
		e.Headers[i].Value = Expand(e.Headers[i].Value, tags)
	}
	return e
}

// tell tells the store what became of a request, and returns what the engine is to hear of it.
func (s *Sink) tell(ctx context.Context, r *node.Record, published error) error {
	refused := node.KindOf(published) == node.RecordRejected
	if r.Topic != Lane || published != nil && !refused {
		return published
	}
	command := outcome(r, published)
	if command == nil {
		return published
	}
	_, err := s.config.Store.Apply(ctx, command)
	refusal, is := errors.AsType[*Refusal](err)
	switch {
	case err == nil, is && refusal.Code != Closed: // the task is not there any more, or somebody else has told it
		return published
	case is:
		return closed(refusal)
	default:
		return &node.PublishError{Err: fmt.Errorf("tell the store what became of a task: %w", err)}
	}
}

// closed has a message tried again a while later, because the store takes nothing in.
func closed(refusal *Refusal) error { return &node.PublishError{Err: refusal, After: time.Second} }

// outcome returns the command that tells the store what became of a request; nil for one that does not matter to it.
func outcome(r *node.Record, published error) Command {
	task, err := uuid.Parse(header(r, node.HeaderTask))
	if err != nil {
		return nil
	}
	run, err := uuid.Parse(header(r, node.HeaderTaskRun))
	if err != nil {
		return nil
	}
	part := header(r, node.HeaderTaskPart)
	if place, is := strings.CutPrefix(part, partPromisePrefix); is {
		action, err := strconv.Atoi(place)
		if err != nil {
			return nil
		}
		return Fulfil{Task: task, Run: run, Action: action, Broken: published != nil}
	}
	switch {
	case part != partExecution:
		return nil
	case published != nil:
		return End{Task: task, Run: run, Failed: true, Reason: published.Error()}
	default:
		return End{Task: task, Run: run, Delivered: true}
	}
}

// brought carries out what a message asks for, and returns what the engine is to hear of it.
func (s *Sink) brought(ctx context.Context, command Command) error {
	_, err := s.config.Store.Apply(ctx, command)
	return answered(err)
}

// answered returns what the engine is to hear of a message that the store has answered.
func answered(err error) error {
	refusal, is := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		return nil
	case is && refusal.Code == Closed:
		return closed(refusal)
	case is:
		return rejected("%w", refusal)
	default:
		return &node.PublishError{Err: err}
	}
}

// rejected says that a message is not to be tried again, and why.
func rejected(format string, arguments ...any) error {
	return &node.PublishError{Kind: node.RecordRejected, Err: fmt.Errorf(format, arguments...)}
}

// arrive brings a task to the store: its execution is the record that it is.
func (s *Sink) arrive(ctx context.Context, r *node.Record) error {
	name := header(r, node.HeaderQueue)
	t := Task{Inline: &Action{Topic: header(r, node.HeaderTaskTopic), Key: r.Key, Payload: r.Value}}
	wrong := func(what, value string, err error) error {
		return rejected("the %s %q of a task: %w", what, value, err)
	}
	var err error
	if t.ID, err = uuid.Parse(header(r, node.HeaderTask)); err != nil {
		return wrong("UUID", header(r, node.HeaderTask), err)
	}
	if priority := header(r, node.HeaderPriority); priority != "" {
		if t.Priority, err = strconv.Atoi(priority); err != nil {
			return wrong("priority", priority, err)
		}
	}
	if when := header(r, node.HeaderTaskWhen); when != "" {
		if t.When, err = time.Parse(time.RFC3339, when); err != nil {
			return wrong("time", when, err)
		}
	}
	for _, h := range r.Headers {
		switch h.Name {
		case node.HeaderQueue, node.HeaderPriority, node.HeaderTask, node.HeaderTaskPart, node.HeaderTaskTopic,
			node.HeaderTaskWhen, node.HeaderID, node.HeaderDeadline, node.HeaderAttempt:
		default:
			t.Inline.Headers = append(t.Inline.Headers, h)
		}
	}
	if t.Queue, err = s.named(ctx, name); err != nil {
		return answered(err)
	}
	return s.brought(ctx, PutTask{Task: t, New: true})
}

// named returns the id of the queue that a record names, by its UUID or its name. A name that looks like the UUID of a
// queue does not stand before that.
func (s *Sink) named(ctx context.Context, name string) (uuid.UUID, error) {
	if name == "" {
		return Root, nil
	}
	filters := []Filter{{Name: name, Limit: 1}}
	if id, err := uuid.Parse(name); err == nil && id != uuid.Nil {
		filters = []Filter{{ID: id, Limit: 1}, filters[0]}
	}
	for _, filter := range filters {
		found, err := s.config.Store.Queues(ctx, filter)
		if err != nil {
			return uuid.Nil, err
		}
		if len(found) > 0 {
			return found[0].ID, nil
		}
	}
	return uuid.Nil, refuse(NotFound, "There is no queue %q. Make it, and send the record again.", name)
}

// complete brings the completion of a task to the store.
func (s *Sink) complete(ctx context.Context, r *node.Record) error {
	task, err := uuid.Parse(header(r, node.HeaderTask))
	if err != nil {
		return rejected("the UUID of a task that is complete: %w", err)
	}
	end := End{Task: task, Failed: header(r, node.HeaderTaskStatus) == node.TaskFailure}
	if run := header(r, node.HeaderTaskRun); run != "" {
		if end.Run, err = uuid.Parse(run); err != nil {
			return rejected("the run of a task that is complete: %w", err)
		}
	}
	if end.Failed {
		end.Reason = cut(string(r.Value))
		if end.Reason == "" {
			end.Reason = "It was completed as failed."
		}
	}
	return s.brought(ctx, end)
}
