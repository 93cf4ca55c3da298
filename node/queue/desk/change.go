package desk

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/queue"
)

// QueueChange says what is to be different about a queue.
type QueueChange struct {
	Name      *string   `json:"name,omitempty" maxLength:"128" doc:"Default the one in the path."`
	Kind      *string   `json:"kind,omitempty" enum:"sync,async" doc:"A new queue needs it. It cannot be changed."`
	Window    *string   `json:"window,omitempty" maxLength:"1000" doc:"Such as 10pm to 4am every saturday."`
	Paths     *[]string `json:"paths,omitempty" maxItems:"100" doc:"Such as /apps/mail."`
	Tags      *[]string `json:"tags,omitempty" maxItems:"100"`
	Drain     *bool     `json:"drain,omitempty" doc:"Run what waits when the queue is deleted. Default false."`
	TimeLimit *string   `json:"time_limit,omitempty" maxLength:"64" doc:"Such as 90m, PT90M or 2d. Default 1d."`
	Depth     *int      `json:"depth,omitempty" minimum:"0" maximum:"1000000000" doc:"0 for none."`
	Relief    *string   `json:"relief,omitempty" maxLength:"64" doc:"The id of an action; empty for none."`
}

// TaskChange says what is to be different about a task that waits.
type TaskChange struct {
	Queue     *string    `json:"queue,omitempty" maxLength:"128" doc:"The name or the id of its queue. Default root."`
	Name      *string    `json:"name,omitempty" maxLength:"1000"`
	Tags      *[]string  `json:"tags,omitempty" maxItems:"100"`
	Priority  *int       `json:"priority,omitempty" minimum:"-2147483648" maximum:"2147483647"`
	When      *time.Time `json:"when,omitempty" doc:"In an async queue: not before this instant. Default at once."`
	Delay     *string    `json:"delay,omitempty" maxLength:"64" doc:"The same as a time from now on, such as 90m."`
	Execution *string    `json:"execution,omitempty" maxLength:"64" doc:"The id of an action. A new task needs it."`
	Promise   *[]string  `json:"promise,omitempty" maxItems:"100" doc:"The ids of actions."`
}

// ActionChange says what is to be different about an action.
type ActionChange struct {
	Name    *string         `json:"name,omitempty" maxLength:"1000"`
	Tags    *[]string       `json:"tags,omitempty" maxItems:"100"`
	URI     *string         `json:"uri,omitempty" maxLength:"4096" doc:"What to request. It may have tags."`
	Method  *string         `json:"method,omitempty" enum:"GET,POST,HEAD,PUT,DELETE" doc:"Default POST."`
	Topic   *string         `json:"topic,omitempty" maxLength:"249" doc:"The topic of a record, in place of a request."`
	Headers *[]ActionHeader `json:"headers,omitempty" maxItems:"1000"`
	Payload *string         `json:"payload,omitempty" doc:"The body, or the value."`
}

// PutQueue makes a queue, or changes the one that a name or a UUID names. It reports whether it was made.
func (d *Desk) PutQueue(ctx context.Context, ref string, change QueueChange) (queue.Queue, bool, error) {
	for {
		old, err := d.lookUp(ctx, ref)
		if err != nil {
			return queue.Queue{}, false, err
		}
		q := queue.Queue{Name: ref, ID: uuid.New()}
		if id, err := uuid.Parse(ref); err == nil {
			q.ID, q.Name = id, ""
		}
		if old != nil {
			q = *old
		}
		if err := change.on(&q); err != nil {
			return q, false, err
		}
		if old == nil && change.Kind == nil {
			return q, false, invalid("there is no queue " + quoted(ref) + ", and a new one needs a kind: sync runs " +
				"one task at a time, async each at its time")
		}
		result, err := d.apply(ctx, queue.PutQueue{Queue: q, Before: old})
		if isChanged(err) {
			continue // whoever was faster has got on
		}
		if old == nil && isConflict(err) {
			// Somebody else has made one of that name since: this changes that one, and cannot come here again.
			if other, lookErr := d.lookUp(ctx, ref); lookErr == nil && other != nil {
				continue
			}
		}
		if err == nil && result.Queue != nil {
			q = *result.Queue
		}
		return q, old == nil, err
	}
}

// on makes a change.
func (c *QueueChange) on(q *queue.Queue) error {
	set(&q.Name, c.Name)
	set(&q.Drain, c.Drain)
	set(&q.Depth, c.Depth)
	set(&q.Window, c.Window) // the store reads it, and keeps its normal form
	if c.Kind != nil {
		q.Kind = queue.Kind(*c.Kind)
	}
	if c.Paths != nil {
		q.Paths = slices.Clone(*c.Paths)
	}
	if c.Tags != nil {
		q.Tags = slices.Clone(*c.Tags)
	}
	if c.TimeLimit != nil {
		limit, err := calendar.ParseDelay(*c.TimeLimit)
		if err != nil {
			return invalid("time_limit is " + quoted(*c.TimeLimit) + ": " + err.Error())
		}
		q.TimeLimit = limit
	}
	if c.Relief != nil {
		return setID(&q.Relief, "relief", *c.Relief)
	}
	return nil
}

// DropQueue deletes a queue, and runs first what waits, or deletes that, as drain says; nil for as the queue itself
// says.
func (d *Desk) DropQueue(ctx context.Context, ref string, drain *bool) (queue.Queue, error) {
	q, err := d.FindQueue(ctx, ref)
	if err != nil {
		return queue.Queue{}, err
	}
	if drain != nil && *drain != q.Drain && q.Deleting {
		return *q, &queue.Refusal{Code: queue.Conflict, Detail: fmt.Sprintf("The queue %q is being deleted already, "+
			"with drain %v, which stays so. Delete those of its tasks that are not to run.", q.Name, q.Drain)}
	}
	if drain != nil && *drain != q.Drain && q.ID != queue.Root {
		changed := *q
		changed.Drain = *drain
		_, err := d.apply(ctx, queue.PutQueue{Queue: changed, Before: q})
		if isChanged(err) {
			return d.DropQueue(ctx, ref, drain)
		}
		if err != nil {
			return *q, err
		}
	}
	result, err := d.apply(ctx, queue.DropQueue{ID: q.ID})
	switch {
	case err != nil:
	case result.Queue != nil:
		q = result.Queue
	default: // it is gone, and with it what was in it when it was looked at
		q.State = queue.State{Deleting: true, Arrivals: q.Arrivals}
	}
	return *q, err
}

// PutTask has a task arrive, or changes the one of a UUID that waits. It reports whether it has come now.
func (d *Desk) PutTask(ctx context.Context, id uuid.UUID, change TaskChange) (queue.Task, bool, error) {
	old, err := d.FindTask(ctx, id)
	if err != nil && !IsAbsent(err) {
		return queue.Task{}, false, err
	}
	t := queue.Task{ID: id, Queue: queue.Root}
	if old != nil {
		t = *old
	}
	if err := d.changeTask(ctx, &t, change); err != nil {
		return t, false, err
	}
	if t.Execution == uuid.Nil && t.Inline == nil {
		return t, false, invalid("execution is missing: the id of the action that the task is")
	}
	result, err := d.apply(ctx, queue.PutTask{Task: t, Before: old})
	if isChanged(err) {
		return d.PutTask(ctx, id, change)
	}
	if err == nil && result.Task != nil {
		t = *result.Task
	}
	return t, old == nil, err
}

// changeTask makes a change.
func (d *Desk) changeTask(ctx context.Context, t *queue.Task, c TaskChange) error {
	set(&t.Name, c.Name)
	set(&t.Priority, c.Priority)
	if c.Tags != nil {
		t.Tags = slices.Clone(*c.Tags)
	}
	if c.Queue != nil {
		q, err := d.FindQueue(ctx, *c.Queue)
		if err != nil {
			return err
		}
		t.Queue = q.ID
	}
	switch {
	case c.When != nil && c.Delay != nil:
		return invalid("there are both when and delay: one of them says when")
	case c.When != nil:
		t.When = c.When.UTC().Truncate(time.Microsecond)
	case c.Delay != nil:
		delay, err := calendar.ParseDelay(*c.Delay)
		if err != nil {
			return invalid("delay is " + quoted(*c.Delay) + ": " + err.Error())
		}
		t.When = d.now().Add(delay).UTC().Truncate(time.Microsecond)
	}
	if c.Execution != nil {
		if err := setID(&t.Execution, "execution", *c.Execution); err != nil {
			return err
		}
		t.Inline = nil
	}
	if c.Promise != nil {
		t.Promise = nil
		for i, text := range *c.Promise {
			var id uuid.UUID
			if err := setID(&id, fmt.Sprintf("promise %d", i+1), text); err != nil {
				return err
			}
			t.Promise = append(t.Promise, id)
		}
	}
	return nil
}

// DropTask makes a task that waits Deleted.
func (d *Desk) DropTask(ctx context.Context, id uuid.UUID) (queue.Task, error) {
	result, err := d.apply(ctx, queue.DropTask{ID: id})
	if err != nil || result.Task == nil {
		return queue.Task{ID: id}, err
	}
	return *result.Task, nil
}

// Complete ends the run of a task: run names it, zero for the one there is. It reports whether this has ended it: a
// second completion has not, and is told what the first one did.
func (d *Desk) Complete(ctx context.Context, end queue.End) (queue.Task, bool, error) {
	result, err := d.apply(ctx, end)
	if err != nil || result.Task == nil {
		return queue.Task{ID: end.Task}, false, err
	}
	return *result.Task, result.Changed, nil
}

// PutAction makes an action, or changes the one of a UUID. It reports whether it was made.
func (d *Desk) PutAction(ctx context.Context, id uuid.UUID, change ActionChange) (queue.Action, bool, error) {
	old, err := d.FindAction(ctx, id)
	if err != nil && !IsAbsent(err) {
		return queue.Action{}, false, err
	}
	a := queue.Action{ID: id}
	if old != nil {
		a = *old
	}
	change.on(&a)
	if err := d.checkAction(&a); err != nil {
		return a, false, err
	}
	result, err := d.apply(ctx, queue.PutAction{Action: a, Before: old})
	if isChanged(err) {
		return d.PutAction(ctx, id, change)
	}
	if err == nil && result.Action != nil {
		a = *result.Action
	}
	return a, old == nil, err
}

// on makes a change.
func (c *ActionChange) on(a *queue.Action) {
	set(&a.Name, c.Name)
	if c.Tags != nil {
		a.Tags = slices.Clone(*c.Tags)
	}
	if c.URI != nil && *c.URI != "" && c.Topic == nil {
		a.Topic = ""
	}
	if c.Topic != nil && *c.Topic != "" && c.URI == nil {
		a.URI, a.Method = "", ""
	}
	set(&a.URI, c.URI)
	set(&a.Method, c.Method)
	set(&a.Topic, c.Topic)
	if c.Headers != nil {
		a.Headers = nil
		for _, h := range *c.Headers {
			a.Headers = append(a.Headers, node.Header{Name: h.Name, Value: []byte(h.Value)})
		}
	}
	if c.Payload != nil {
		a.Payload = []byte(*c.Payload)
	}
	if a.Topic == "" && a.Method == "" {
		a.Method = "POST"
	}
}

// checkAction refuses what would never be done. What depends on a tag is only known when it is.
func (d *Desk) checkAction(a *queue.Action) error {
	switch {
	case a.URI == "" && a.Topic == "":
		return invalid("the action has neither a uri nor a topic: one of them says what to do")
	case a.URI != "" && a.Topic != "":
		return invalid("the action has both a uri and a topic: it is either a request or a record")
	case a.Topic != "" && d.Topic != nil:
		if err := d.Topic(a.Topic); err != nil {
			return err
		}
	case a.URI != "" && d.Callback != nil && !strings.Contains(a.URI, "<<"):
		headers := []node.Header{{Name: node.HeaderURL, Value: []byte(a.URI)}}
		headers = append(headers, node.Header{Name: node.HeaderMethod, Value: []byte(a.Method)})
		if err := d.Callback(queue.Lane, headers); err != nil {
			return invalid("uri is refused: " + strings.NewReplacer("header "+node.HeaderURL, "uri", node.HeaderURL,
				"uri", "header "+node.HeaderMethod, "method", node.HeaderMethod, "method").Replace(err.Error()))
		}
	}
	if d.Base == "" {
		for _, text := range []string{a.URI, string(a.Payload)} {
			for _, tag := range []string{"API_URI>>", "COMPLETION_URI>>"} {
				if strings.Contains(text, "<<HORAE_"+tag) || strings.Contains(text, "<<CHRONOS_"+tag) {
					return invalid("the action has a tag " + tag[:len(tag)-2] + ", and no node has said where it is " +
						"reached: set horae-listen, or horae-url")
				}
			}
		}
	}
	return nil
}

// DropAction deletes an action.
func (d *Desk) DropAction(ctx context.Context, id uuid.UUID) error {
	_, err := d.apply(ctx, queue.DropAction{ID: id})
	return err
}

func set[T any](target, value *T) {
	if value != nil {
		*target = *value
	}
}

// setID sets an id that somebody has written; empty for none.
func setID(target *uuid.UUID, name, text string) error {
	if text == "" {
		*target = uuid.Nil
		return nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return invalid(name + " is " + quoted(text) + ": it must be the UUID of an action")
	}
	*target = id
	return nil
}

// quoted shows at most 60 bytes of what somebody has written.
func quoted(text string) string {
	const limit = 60
	if len(text) > limit {
		return strconv.Quote(strings.ToValidUTF8(text[:limit], "")) + " and more"
	}
	return strconv.Quote(text)
}
