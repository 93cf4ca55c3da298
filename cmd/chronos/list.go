package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/store/inspect"
	"chronos/node/store/outlook"
)

// listCommand lists messages.
type listCommand struct {
	State  state    `placeholder:"STATE" help:"Only those: waiting, parked, claimed, overdue, put-off or stuck."`
	Lane   []string `placeholder:"LANE" help:"Only on these lanes."`
	From   *text    `placeholder:"INSTANT" help:"Deadlines from then on. No zone is UTC."`
	Until  *text    `placeholder:"INSTANT" help:"Deadlines before."`
	Key    string   `placeholder:"KEY" help:"Those with this key. No index serves it."`
	Header string   `placeholder:"NAME=VALUE" help:"Those with this header, or NAME alone. No index serves it."`
	Limit  int      `default:"50" placeholder:"N" help:"How many to show at most."`
	Cursor string   `placeholder:"CURSOR" help:"Go on where another list ended."`

	askFlags
}

// state is one of the states that can be asked for.
type state string

// Validate returns an error for another one.
func (s state) Validate() error {
	if s != "" && !slices.Contains(inspect.States(), inspect.State(s)) {
		return fmt.Errorf("it must be one of waiting, parked, claimed, overdue, put-off and stuck")
	}
	return nil
}

// Help says how it goes on.
func (c *listCommand) Help() string {
	return `Lists messages that are stored, lane by lane, the first to fall due first. Those that are parked wait for an
output partition that does not answer; they come behind the others of their lane. Those that are put off
could not be published; those that are stuck have a claim that has expired. It asks for page after page, each of which
takes the store a tenth of a second at most, until --limit are found or nothing is left. A search by key or header
looks at every message of the lanes, some hundreds of them in a page: Ctrl-C ends it, and it says how to go on
from there.`
}

// Run lists.
func (c *listCommand) Run(ctx context.Context, w *world) (err error) {
	if c.Limit < 1 {
		return usagef("--limit is %d: it must be 1 or more", c.Limit)
	}
	query, err := c.query()
	if err != nil {
		return err
	}
	a, err := c.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	found, scanned, next, err := c.pages(ctx, a, query)
	if err != nil {
		return err
	}
	if scanned == 0 {
		if err := a.known(ctx, c.Lane); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return printJSON(w.stdout, admin.Messages{Messages: found, Next: next, Scanned: scanned})
	}
	page := &page{out: w.stdout}
	rows := [][]any{{"id", "lane", "state", "deadline", "", "tries", "bytes"}}
	now := time.Now()
	for i := range found {
		m := &found[i]
		rows = append(rows, []any{
			m.ID, m.Lane, m.State, m.Deadline.UTC().Format("2006-01-02T15:04:05.000Z"), ago(m.Deadline, now),
			m.Attempts, m.Bytes,
		})
	}
	if len(found) > 0 {
		page.table(rows...)
		page.line("")
	}
	if scanned == 0 && next == "" {
		page.line("There are none.")
		return page.err
	}
	page.line("%d shown, %d looked at.", len(found), scanned)
	if next != "" {
		page.line("There may be more: the same command with --cursor %s goes on.", next)
	}
	return page.err
}

// query returns what to ask for.
func (c *listCommand) query() (url.Values, error) {
	query := url.Values{}
	for name, value := range map[string]string{"state": string(c.State), "key": c.Key, "header": c.Header} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]*text{"from": c.From, "until": c.Until} {
		if value == nil {
			continue
		}
		at, err := node.ParseDeadline([]byte(*value), node.EpochRejected)
		if err != nil {
			return nil, usagef("--%s is %s: %v", name, shown(string(*value)), err)
		}
		query.Set(name, at.Format(time.RFC3339Nano))
	}
	for _, lane := range c.Lane {
		query.Add("lane", lane)
	}
	return query, nil
}

// pages asks for pages until there are enough messages, or no more, or ctx is done.
func (c *listCommand) pages(
	ctx context.Context, a *asker, query url.Values,
) (found []admin.Message, scanned int, next string, err error) {
	found = []admin.Message{}
	for next = c.Cursor; ; {
		query.Set("limit", fmt.Sprint(min(c.Limit-len(found), 500)))
		if next != "" {
			query.Set("cursor", next)
		}
		page, err := ask[admin.Messages](ctx, a, http.MethodGet, "/v1/messages?"+query.Encode(), nil)
		if err != nil {
			if ctx.Err() != nil && scanned > 0 {
				return found, scanned, next, nil
			}
			return found, scanned, next, err
		}
		found, scanned, next = append(found, page.Messages...), scanned+page.Scanned, page.Next
		if next == "" || len(found) >= c.Limit {
			return found, scanned, next, nil
		}
	}
}

// countCommand counts messages by lane.
type countCommand struct {
	Lane []string `placeholder:"LANE" help:"Only on these lanes."`

	askFlags
}

// Help says what the figures mean.
func (c *countCommand) Help() string {
	return `Counts what waits, is claimed and is overdue on each lane, and what falls due within the next minute, ten
minutes, hour and day. Up to 10,000 are counted. Beyond, 10,000+ says that there are more, ~ marks what the
statistics of the database expect, and ? what took too long to find out.`
}

// Run counts.
func (c *countCommand) Run(ctx context.Context, w *world) (err error) {
	a, err := c.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	all, err := ask[admin.Lanes](ctx, a, http.MethodGet, "/v1/lanes", nil)
	if err != nil {
		return err
	}
	if len(c.Lane) > 0 {
		if all.Lanes, err = lanesOf(all.Lanes, c.Lane); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return printJSON(w.stdout, all)
	}
	page := &page{out: w.stdout}
	printLanes(page, &all)
	return page.err
}

// lanesOf returns some of the lanes, and an error for a name that none of them has.
func lanesOf(lanes []admin.Lane, names []string) (some []admin.Lane, err error) {
	all := make([]string, len(lanes))
	for i := range lanes {
		all[i] = lanes[i].Name
	}
	for _, name := range names {
		at := slices.Index(all, name)
		if at < 0 {
			return nil, unknownLane(name, all)
		}
		some = append(some, lanes[at])
	}
	return some, nil
}

// printLanes prints a row for each lane, and what is paused.
func printLanes(page *page, all *admin.Lanes) {
	rows := [][]any{{"lane", "waiting", "claimed", "overdue", "oldest", "1 min", "10 min", "1 h", "24 h", ""}}
	for i := range all.Lanes {
		l := &all.Lanes[i]
		row := []any{l.Name, l.Waiting, l.Claimed, l.Overdue}
		oldest := "-"
		if l.Oldest != nil {
			oldest = ago(*l.Oldest, all.At)
		}
		row = append(row, oldest)
		for _, within := range l.Within {
			row = append(row, within.Count)
		}
		note := ""
		switch {
		case l.Paused != nil:
			note = "PAUSED " + pausedText(l.Paused, all.At)
		case l.Closed:
			note = "closed " + untilText(l.Changes)
		case len(l.Parked) > 0:
			note = parkedText(l)
		case l.Trouble != nil:
			note = "cannot publish: " + cmp.Or(l.Trouble.Cause, l.Trouble.Error)
		case !l.Served:
			note = "no route of the node that was asked"
		}
		rows = append(rows, append(row, note))
	}
	if len(all.Lanes) == 0 {
		page.line("Nothing waits.")
	} else {
		page.table(rows...)
	}
	if p := all.Intake.Paused; p != nil {
		page.line("The intake is PAUSED %s: nothing is taken in from any topic.", pausedText(p, all.At))
	}
	if all.Intake.CatchingUp {
		page.line("The store was set back and catches up: nothing fires until that is done.")
		if all.Intake.Paused != nil {
			page.line("It cannot get on while the intake is paused.")
		}
	}
}

// parkedText says how many messages of a lane are parked, and for which of its parts.
func parkedText(l *admin.Lane) string {
	const most = 5
	var all outlook.Count
	var names []string
	for _, p := range l.Parked {
		all.Add(outlook.Count(p.Waiting))
		names = append(names, p.Part)
	}
	what := partKind(l.Name)
	if len(names) == 1 {
		return fmt.Sprintf("%s parked: %s %s does not answer", &all, what, names[0])
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Sprintf("%s parked: %ss %s do not answer", &all, what, text)
}

// partKind returns what the parts of a lane are.
func partKind(lane string) string {
	if node.IsCallback(lane) {
		return "host"
	}
	return "partition"
}

// untilText says until when something lasts.
func untilText(t *time.Time) string {
	if t == nil {
		return "forever"
	}
	return "until " + t.UTC().Format("Mon 2006-01-02 15:04 UTC")
}

func pausedText(p *admin.Pause, now time.Time) string {
	text := ago(p.Since, now)
	if p.By != "" {
		text += " by " + printable(p.By)
	}
	if p.Reason != "" {
		text += " (" + printable(p.Reason) + ")"
	}
	return text
}
