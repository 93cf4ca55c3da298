package main

import (
	"context"
	"net/http"
	"strings"

	"chronos/node/queue/desk"
)

// actionCommand is about actions.
type actionCommand struct {
	Put    actionPutCommand    `cmd:"" help:"Make an action, or change one."`
	Get    actionGetCommand    `cmd:"" help:"Show an action."`
	List   actionListCommand   `cmd:"" help:"List actions."`
	Delete actionDeleteCommand `cmd:"" help:"Delete an action that nothing needs any more."`
}

// actionPutCommand makes or changes an action.
type actionPutCommand struct {
	ID string `arg:"" optional:"" name:"id" help:"The id of one that there is, or a UUID of your own. Default new."`

	URI     *string  `name:"uri" placeholder:"URL" help:"What to request. It may have tags: see QUEUES.md."`
	Method  *string  `placeholder:"METHOD" help:"GET, POST, HEAD, PUT or DELETE. Default POST."`
	Topic   *string  `placeholder:"TOPIC" help:"The topic of a record, in place of a request."`
	Payload *string  `placeholder:"TEXT" help:"The body, or the value."`
	Header  []string `placeholder:"NAME=VALUE" sep:"none" help:"A header of it."`
	Name    *string  `placeholder:"TEXT" help:"What to call it."`
	Tag     []string `placeholder:"TAG" sep:"none" help:"A word to find it by."`

	askFlags
}

// Run makes or changes it.
func (c *actionPutCommand) Run(ctx context.Context, w *world) error {
	change := desk.ActionChange{Name: c.Name, URI: c.URI, Method: c.Method, Topic: c.Topic, Payload: c.Payload}
	if c.Tag != nil {
		change.Tags = &c.Tag
	}
	if c.Header != nil {
		headers := make([]desk.ActionHeader, len(c.Header))
		for i, text := range c.Header {
			name, value, is := strings.Cut(text, "=")
			if !is || name == "" {
				return usagef("--header is %s: it must be NAME=VALUE", shown(text))
			}
			headers[i] = desk.ActionHeader{Name: name, Value: value}
		}
		change.Headers = &headers
	}
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodPut, "/v1/actions/"+id, change, printAction)
}

// actionGetCommand shows an action.
type actionGetCommand struct {
	ID string `arg:"" name:"id" help:"Its id."`

	askFlags
}

// Run shows it.
func (c *actionGetCommand) Run(ctx context.Context, w *world) error {
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodGet, "/v1/actions/"+id, nil, printAction)
}

// printAction prints all that is known of an action.
func printAction(page *page, a *desk.Action) {
	rows := [][]any{{"id", a.ID}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []any{name, value})
		}
	}
	add("name", a.Name)
	add("method", a.Method)
	add("uri", a.URI)
	add("topic", a.Topic)
	for _, h := range a.Headers {
		add("header", h.Name+" = "+h.Value)
	}
	if a.Payload != nil {
		add("payload", a.Payload.String())
	}
	add("tags", strings.Join(a.Tags, ", "))
	page.table(rows...)
}

// actionListCommand lists actions.
type actionListCommand struct {
	Tag    string `placeholder:"TAG" help:"Only those that have it."`
	Limit  int    `default:"100" placeholder:"N" help:"How many to show at most."`
	Cursor string `placeholder:"CURSOR" help:"Go on where another list ended."`

	askFlags
}

// Run lists.
func (c *actionListCommand) Run(ctx context.Context, w *world) error {
	query, err := pageQuery(c.Limit, map[string]string{"tag": c.Tag, "cursor": c.Cursor})
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodGet, "/v1/actions?"+query, nil, func(page *page, found *desk.Actions) {
		rows := [][]any{{"id", "name", "does"}}
		for i := range found.Actions {
			a := &found.Actions[i]
			does := a.Method + " " + a.URI
			if a.Topic != "" {
				does = "a record on " + a.Topic
			}
			rows = append(rows, []any{a.ID, a.Name, does})
		}
		page.list(rows, found.Next)
	})
}

// actionDeleteCommand deletes an action.
type actionDeleteCommand struct {
	ID string `arg:"" name:"id" help:"Its id."`

	askFlags
}

// Run deletes it.
func (c *actionDeleteCommand) Run(ctx context.Context, w *world) error {
	id, err := idGiven(c.ID)
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodDelete, "/v1/actions/"+id, nil, func(page *page, done *desk.Done) {
		page.line("Action %s is deleted.", done.ID)
	})
}
