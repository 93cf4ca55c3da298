package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue/desk"
)

// taskCommand is about tasks.
type taskCommand struct {
	Put      taskPutCommand      `cmd:"" help:"Bring a task, or change one that waits."`
	Get      taskGetCommand      `cmd:"" help:"Show a task."`
	List     taskListCommand     `cmd:"" help:"List tasks."`
	Complete taskCompleteCommand `cmd:"" help:"Say that a task is done."`
	Delete   taskDeleteCommand   `cmd:"" help:"Delete a task that waits."`
}

// taskPutCommand brings or changes a task.
type taskPutCommand struct {
	ID string `arg:"" optional:"" name:"id" help:"The id of one that there is, or a UUID of your own. Default new."`

	Queue     *string  `placeholder:"NAME" help:"Its queue. Default root."`
	Execution *string  `placeholder:"ID" help:"The action that it is. A new task needs it."`
	Promise   []string `placeholder:"ID" sep:"none" help:"An action to do when it is completed."`
	Priority  *int     `placeholder:"N" help:"The higher the sooner, in a sync queue."`
	At        *text    `placeholder:"INSTANT" help:"Not before then, in an async queue. No zone is UTC."`
	In        *string  `placeholder:"TIME" help:"Not before so long from now."`
	Name      *string  `placeholder:"TEXT" help:"What to call it."`
	Tag       []string `placeholder:"TAG" sep:"none" help:"A word to find it by."`

	askFlags
}

// Run brings or changes it.
func (c *taskPutCommand) Run(ctx context.Context, w *world) error {
	change := desk.TaskChange{
		Queue: c.Queue, Name: c.Name, Priority: c.Priority, Delay: c.In, Execution: c.Execution,
	}
	if c.At != nil {
		at, err := node.ParseDeadline([]byte(*c.At), node.EpochRejected)
		if err != nil {
			return usagef("--at is %s: %v", shown(string(*c.At)), err)
		}
		change.When = &at
	}
	if c.Promise != nil {
		change.Promise = &c.Promise
	}
	if c.Tag != nil {
		change.Tags = &c.Tag
	}
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodPut, "/v1/tasks/"+id, change, printTask)
}

// idGiven returns an id that somebody has given, or a new one.
func idGiven(text string) (string, error) {
	if text == "" {
		return uuid.NewString(), nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return "", usagef("the id is %s: it must be a UUID", shown(text))
	}
	return id.String(), nil
}

// taskGetCommand shows a task.
type taskGetCommand struct {
	ID string `arg:"" name:"id" help:"Its id."`

	askFlags
}

// Run shows it.
func (c *taskGetCommand) Run(ctx context.Context, w *world) error {
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodGet, "/v1/tasks/"+id, nil, printTask)
}

// printTask prints all that is known of a task.
func printTask(page *page, t *desk.Task) {
	rows := [][]any{{"id", t.ID}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []any{name, value})
		}
	}
	at := func(name string, t *time.Time) {
		if t != nil {
			add(name, t.UTC().Format("2006-01-02T15:04:05.000Z")+"  "+ago(*t, time.Now()))
		}
	}
	add("name", t.Name)
	add("queue", t.Queue)
	add("status", t.Status)
	add("reason", t.Reason)
	add("execution", t.Execution)
	add("comes out on", t.Topic)
	add("promise", strings.Join(t.Promise, ", "))
	if t.Promised+t.Broken > 0 {
		add("promise kept", fmt.Sprintf("%d done, %d given up, of %d", t.Promised, t.Broken, len(t.Promise)))
	}
	if t.Priority != 0 {
		add("priority", fmt.Sprint(t.Priority))
	}
	add("tags", strings.Join(t.Tags, ", "))
	at("when", t.When)
	at("arrived", t.Arrived)
	at("started", t.Started)
	at("ended", t.Ended)
	page.table(rows...)
}

// taskListCommand lists tasks.
type taskListCommand struct {
	Queue  string     `placeholder:"NAME" help:"Only those of this queue."`
	Status taskStatus `placeholder:"STATUS" help:"Only those, such as Pending or \"Partially Failed\"."`
	Tag    string     `placeholder:"TAG" help:"Only those that have it."`
	Limit  int        `default:"100" placeholder:"N" help:"How many to show at most."`
	Cursor string     `placeholder:"CURSOR" help:"Go on where another list ended."`

	askFlags
}

// taskStatus is one of the statuses that can be asked for.
type taskStatus string

// Validate returns an error for another one.
func (s taskStatus) Validate() error {
	switch s {
	case "", "Pending", "Running", "Complete", "Failure", "Partially Failed", "Deleted":
		return nil
	}
	return fmt.Errorf("it must be Pending, Running, Complete, Failure, \"Partially Failed\" or Deleted")
}

// Run lists.
func (c *taskListCommand) Run(ctx context.Context, w *world) error {
	query, err := pageQuery(c.Limit, map[string]string{
		"queue": c.Queue, "status": string(c.Status), "tag": c.Tag, "cursor": c.Cursor,
	})
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodGet, "/v1/tasks?"+query, nil, func(page *page, found *desk.Tasks) {
		now := time.Now()
		rows := [][]any{{"id", "name", "status", "priority", "arrived", "reason"}}
		for i := range found.Tasks {
			t := &found.Tasks[i]
			arrived := ""
			if t.Arrived != nil {
				arrived = ago(*t.Arrived, now)
			}
			rows = append(rows, []any{t.ID, t.Name, t.Status, t.Priority, arrived, t.Reason})
		}
		page.list(rows, found.Next)
	})
}

// taskCompleteCommand completes a task.
type taskCompleteCommand struct {
	ID      string `arg:"" name:"id" help:"Its id."`
	Failure bool   `help:"It has failed."`
	Reason  string `placeholder:"TEXT" help:"Why, with --failure."`
	OfRun   string `name:"run" placeholder:"ID" help:"Only if it is this run of it."`

	askFlags
}

// Run completes it.
func (c *taskCompleteCommand) Run(ctx context.Context, w *world) error {
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	if c.Reason != "" && !c.Failure {
		return usagef("--reason says why a task has failed: it needs --failure")
	}
	said := desk.Completion{Status: "success", Reason: c.Reason, Run: c.OfRun}
	if c.Failure {
		said.Status = "failure"
	}
	return tell(ctx, w, &c.askFlags, http.MethodPost, "/v1/tasks/"+id+"/complete", said,
		func(page *page, done *desk.Completed) {
			if !done.Changed {
				page.line("Nothing was changed: task %s had ended before, or another run of it is meant. "+
					"Its status is %s.", done.ID, done.Status)
				return
			}
			page.line("Task %s has ended: %s.", done.ID, done.Status)
		})
}

// taskDeleteCommand deletes a task.
type taskDeleteCommand struct {
	ID string `arg:"" name:"id" help:"Its id."`

	askFlags
}

// Run deletes it.
func (c *taskDeleteCommand) Run(ctx context.Context, w *world) error {
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodDelete, "/v1/tasks/"+id, nil, func(page *page, t *desk.Task) {
		page.line("Task %s is deleted: it does not run.", t.ID)
	})
}
