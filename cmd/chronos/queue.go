package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"chronos/node/queue/desk"
)

// queueCommand is about queues.
type queueCommand struct {
	Put    queuePutCommand    `cmd:"" help:"Make a queue, or change one."`
	Get    queueGetCommand    `cmd:"" help:"Show a queue, and when it is open."`
	List   queueListCommand   `cmd:"" help:"List queues: what waits in them, and what runs."`
	Delete queueDeleteCommand `cmd:"" help:"Delete a queue."`
}

// queuePutCommand makes or changes a queue.
type queuePutCommand struct {
	Name      string   `arg:"" help:"Its name, or the id of one that there is."`
	Kind      string   `enum:"sync,async," default:"" placeholder:"KIND" help:"sync or async. A new one needs it."`
	Window    *string  `placeholder:"WORDS" help:"When it is open, see chronos window. Default always."`
	Path      []string `placeholder:"PATH" sep:"none" help:"Where it lies, such as /apps/mail."`
	Tag       []string `placeholder:"TAG" sep:"none" help:"A word to find it by."`
	Drain     *bool    `negatable:"" help:"Run what waits when it is deleted, and not delete that, too."`
	TimeLimit *string  `placeholder:"TIME" help:"How long a task may run that nobody completes. Default 1d."`
	Depth     *int     `placeholder:"N" help:"With more tasks than this waiting, call --relief; 0 for never."`
	Relief    *string  `placeholder:"ID" help:"The action that is called then."`
	Rename    *string  `placeholder:"NAME" help:"Give it that name."`

	askFlags
}

// Help says what is left as it is.
func (c *queuePutCommand) Help() string {
	return `What is not named stays as it is, and of a new queue it is the default. A window that changes counts at
once, for what waits already, too. A queue at a path is open only while all queues are that lie at a true prefix of it.`
}

// Run makes or changes it.
func (c *queuePutCommand) Run(ctx context.Context, w *world) error {
	change := desk.QueueChange{
		Name: c.Rename, Kind: given(c.Kind), Window: c.Window, Drain: c.Drain, TimeLimit: c.TimeLimit, Depth: c.Depth,
		Relief: c.Relief,
	}
	if c.Path != nil {
		change.Paths = &c.Path
	}
	if c.Tag != nil {
		change.Tags = &c.Tag
	}
	return tell(ctx, w, &c.askFlags, http.MethodPut, "/v1/queues/"+url.PathEscape(c.Name), change, printQueue)
}

// given returns a text that somebody has given; nil for none.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// tell asks, and prints the answer as JSON or as show does.
func tell[T any](
	ctx context.Context, w *world, f *askFlags, method, path string, body any, show func(*page, *T),
) (err error) {
	a, err := f.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	answer, err := ask[T](ctx, a, method, path, body)
	if err != nil {
		return err
	}
	if f.Output == "json" {
		return printJSON(w.stdout, answer)
	}
	page := &page{out: w.stdout}
	show(page, &answer)
	return page.err
}

// queueGetCommand shows a queue.
type queueGetCommand struct {
	Name string `arg:"" help:"Its name, or its id."`

	askFlags
}

// Run shows it.
func (c *queueGetCommand) Run(ctx context.Context, w *world) error {
	return tell(ctx, w, &c.askFlags, http.MethodGet, "/v1/queues/"+url.PathEscape(c.Name), nil, printQueue)
}

// printQueue prints all that is known of a queue.
func printQueue(page *page, q *desk.Queue) {
	now := time.Now()
	rows := [][]any{
		{"name", q.Name}, {"id", q.ID}, {"kind", q.Kind}, {"window", q.Window}, {"now", openText(q, now)},
	}
	list := func(name string, values []string) {
		if len(values) > 0 {
			rows = append(rows, []any{name, strings.Join(values, ", ")})
		}
	}
	list("paths", q.Paths)
	list("tags", q.Tags)
	rows = append(rows, []any{"pending", q.Pending}, []any{"running", q.Running}, []any{"arrivals", q.Arrivals},
		[]any{"time limit", q.TimeLimit}, []any{"when deleted", map[bool]string{
			true: "what waits is run first", false: "what waits is deleted with it",
		}[q.Drain]})
	if q.Depth > 0 {
		rows = append(rows, []any{"relief", fmt.Sprintf("action %s, with more than %d waiting", q.Relief, q.Depth)})
	}
	if q.Relieved != nil {
		rows = append(rows, []any{"relieved", q.Relieved.Format(time.RFC3339) + "  " + ago(*q.Relieved, now)})
	}
	page.table(rows...)
}

// openText says whether a queue is open, and for how long.
func openText(q *desk.Queue, now time.Time) string {
	text := "open"
	switch {
	case q.Deleting:
		text = "being deleted"
	case !q.Open && len(q.ClosedBy) == 1 && q.ClosedBy[0] == q.Name:
		text = "closed"
	case !q.Open:
		text = "closed by " + strings.Join(q.ClosedBy, ", ")
	}
	if q.Changes != nil {
		text += map[bool]string{true: ", closes ", false: ", opens "}[q.Open] + ago(*q.Changes, now)
	}
	return text
}

// queueListCommand lists queues.
type queueListCommand struct {
	Tag    string `placeholder:"TAG" help:"Only those that have it."`
	Limit  int    `default:"100" placeholder:"N" help:"How many to show at most."`
	Cursor string `placeholder:"CURSOR" help:"Go on where another list ended."`

	askFlags
}

// Run lists.
func (c *queueListCommand) Run(ctx context.Context, w *world) error {
	query, err := pageQuery(c.Limit, map[string]string{"tag": c.Tag, "cursor": c.Cursor})
	if err != nil {
		return err
	}
	return tell(ctx, w, &c.askFlags, http.MethodGet, "/v1/queues?"+query, nil,
		func(page *page, found *desk.Queues) {
			now := time.Now()
			rows := [][]any{{"name", "kind", "now", "pending", "running", "window", "paths"}}
			for i := range found.Queues {
				q := &found.Queues[i]
				rows = append(rows, []any{
					q.Name, q.Kind, openText(q, now), q.Pending, q.Running, q.Window, strings.Join(q.Paths, ", "),
				})
			}
			page.list(rows, found.Next)
		})
}

// maxPage is how many rows a page may have.
const maxPage = 500

// pageQuery returns the query for a page of a list.
func pageQuery(limit int, filters map[string]string) (string, error) {
	if limit < 1 || limit > maxPage {
		return "", usagef("--limit is %d: it must be from 1 to %d", limit, maxPage)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range filters {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode(), nil
}

// list writes a page of a list.
func (p *page) list(rows [][]any, next string) {
	if len(rows) > 1 {
		p.table(rows...)
	} else {
		p.line("There are none.")
	}
	if next != "" {
		p.line("")
		p.line("There may be more: the same command with --cursor %s goes on.", shown(next))
	}
}

// queueDeleteCommand deletes a queue.
type queueDeleteCommand struct {
	Name  string `arg:"" help:"Its name, or its id."`
	Drain *bool  `negatable:"" help:"Run what waits first, or delete that, too, whatever the queue says."`

	askFlags
}

// Run deletes it.
func (c *queueDeleteCommand) Run(ctx context.Context, w *world) error {
	path := "/v1/queues/" + url.PathEscape(c.Name)
	if c.Drain != nil {
		path += "?drain=" + strconv.FormatBool(*c.Drain)
	}
	return tell(ctx, w, &c.askFlags, http.MethodDelete, path, nil, func(page *page, q *desk.Queue) {
		if until := goes(q); until != "" {
			page.line("Queue %s takes no tasks any more, and goes when %s.", q.Name, until)
			return
		}
		page.line("Queue %s is deleted.", q.Name)
	})
}

// goes says what has to happen before a queue goes that is being deleted; empty where it is gone.
func goes(q *desk.Queue) string {
	var until []string
	add := func(n int, one, several string) {
		switch {
		case n == 1:
			until = append(until, one)
		case n > 1:
			until = append(until, fmt.Sprintf(several, n))
		}
	}
	if q.Drain {
		add(q.Pending, "the one that waits has run", "the %d that wait have run")
	} else {
		add(q.Pending, "the one that waits is deleted", "the %d that wait are deleted")
	}
	add(q.Running, "the one that runs is done", "the %d that run are done")
	return strings.Join(until, " and ")
}
