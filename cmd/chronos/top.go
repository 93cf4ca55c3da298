package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"chronos/node/admin"
)

// topCommand watches lanes and nodes.
type topCommand struct {
	Every time.Duration `default:"2s" placeholder:"TIME" help:"How often to look."`
	Once  bool          `help:"Look once."`

	askFlags
}

// overview is what top shows.
type overview struct {
	Lanes admin.Lanes `json:"lanes"`
	Nodes admin.Nodes `json:"nodes"`
}

// Run looks again and again until ctx is done, or once if nobody sits there.
func (c *topCommand) Run(ctx context.Context, w *world) (err error) {
	if c.Every < 500*time.Millisecond {
		return usagef("--every is %v: it must be 500ms or more", c.Every)
	}
	a, err := c.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	once := c.Once || !isTerminal(w.stdout)
	ticker := time.NewTicker(c.Every)
	defer ticker.Stop()
	for {
		var seen overview
		seen.Lanes, err = ask[admin.Lanes](ctx, a, http.MethodGet, "/v1/lanes", nil)
		if err == nil {
			seen.Nodes, err = ask[admin.Nodes](ctx, a, http.MethodGet, "/v1/nodes", nil)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil // Ctrl-C ends it
			}
			return err
		}
		if c.Output == "json" {
			err = printJSON(w.stdout, seen)
		} else {
			err = c.show(w, &seen, once)
		}
		if once || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// show prints one look, in one write, over the one before.
func (c *topCommand) show(w *world, seen *overview, once bool) error {
	var text bytes.Buffer
	if !once {
		text.WriteString("\x1b[H\x1b[2J")
	}
	page := &page{out: &text}
	page.line("%s", seen.Lanes.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	page.line("")
	printLanes(page, &seen.Lanes)
	page.line("")
	printNodes(page, &seen.Nodes)
	if page.err != nil {
		return page.err
	}
	_, err := w.stdout.Write(text.Bytes())
	return err
}

// valuesOf returns what nodes have for a setting that they do not share, and on how many of them.
func valuesOf(d *admin.Difference) string {
	var values []string
	for _, value := range slices.Sorted(maps.Keys(d.Values)) {
		values = append(values, fmt.Sprintf("%q on %d of them", value, len(d.Values[value])))
	}
	if len(values) == 1 {
		values = append(values, "not set on the others")
	}
	return strings.Join(values, ", ")
}

// whyUnready returns why a node is not ready.
func whyUnready(n *admin.Node, now time.Time) string {
	for i := range n.Status.Problems {
		if p := &n.Status.Problems[i]; p.Unready {
			return p.Sentence(now)
		}
	}
	return "its /readyz?verbose says why"
}

// printNodes prints a row for each node, and what differs among them.
func printNodes(page *page, all *admin.Nodes) {
	if len(all.Nodes) == 0 {
		page.line("No node says that it runs. One that is stopped is forgotten at once, one that has died after a " +
			"quarter of an hour; one that starts says so when the store and its topics are there.")
		return
	}
	rows := [][]any{{"node", "host", "version", "runs for", "seen", ""}}
	for i := range all.Nodes {
		n := &all.Nodes[i]
		note := "ready"
		switch {
		case n.Silent:
			note = "SILENT: it has died, or does not reach the store"
		case !n.Status.Ready:
			note = "NOT READY: " + whyUnready(n, all.At)
		case len(n.Status.Problems) > 0:
			note = n.Status.Problems[0].Sentence(all.At)
		case len(n.Status.Troubles) > 0:
			note = "cannot publish on " + strings.Join(slices.Sorted(maps.Keys(n.Status.Troubles)), ", ")
		}
		rows = append(rows, []any{
			n.ID, n.Host, n.Version, roughly(n.Seen.Sub(n.Started)), ago(n.Seen, all.At), note,
		})
	}
	page.table(rows...)
	for _, d := range all.Differences {
		page.line("Nodes differ in %s: %s.", d.Setting, valuesOf(&d))
	}
}
