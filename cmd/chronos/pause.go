package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"chronos/node/admin"
)

// pauseCommand pauses a lane, or the intake.
type pauseCommand struct {
	Lane   string `arg:"" optional:"" help:"The lane: an output topic."`
	Intake bool   `help:"Pause the intake instead: nothing is taken in from any input topic."`
	Reason string `placeholder:"TEXT" help:"What for: it is shown wherever the pause is."`

	askFlags
}

// Help says what a pause does.
func (c *pauseCommand) Help() string {
	return `From the answer on no node claims a message of the lane, whatever it knows: the store decides. What nodes
have claimed already may still come out, usually within the lookahead (250 ms), and within half the hold time and one
publish (4.5 s) at most. Everything else stays in the store until the lane is resumed; then what is overdue by then
comes out at once, as fast as it goes.

While the intake is paused nothing is taken in: records stay in Kafka, and the lag grows. What is stored comes
out. Mind the retention of the input topics. A store that was set back cannot catch up meanwhile, and fires nothing.`
}

// Run pauses.
func (c *pauseCommand) Run(ctx context.Context, w *world) (err error) {
	path, err := pausePath(c.Lane, c.Intake)
	if err != nil {
		return err
	}
	a, err := c.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	p, err := ask[admin.Pause](ctx, a, http.MethodPut, path, admin.PauseRequest{By: me(), Reason: c.Reason})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(w.stdout, p)
	}
	page := &page{out: w.stdout}
	page.line("Paused %s.", pausedText(&p, time.Now()))
	return page.err
}

// pausePath returns where to pause and resume something.
func pausePath(lane string, intake bool) (string, error) {
	switch {
	case intake && lane == "":
		return "/v1/pauses/intake", nil
	case !intake && lane != "":
		return "/v1/pauses/lanes/" + url.PathEscape(lane), nil
	}
	return "", usagef("either a lane or --intake must say what is meant")
}

// resumeCommand resumes a lane, or the intake.
type resumeCommand struct {
	Lane   string `arg:"" optional:"" help:"The lane: an output topic."`
	Intake bool   `help:"Resume the intake."`

	askFlags
}

// Run resumes.
func (c *resumeCommand) Run(ctx context.Context, w *world) (err error) {
	path, err := pausePath(c.Lane, c.Intake)
	if err != nil {
		return err
	}
	a, err := c.open(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	resumed, err := ask[admin.Resumed](ctx, a, http.MethodDelete, path+"?by="+url.QueryEscape(me()), nil)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(w.stdout, resumed)
	}
	page := &page{out: w.stdout}
	switch {
	case !resumed.Was:
		page.line("It was not paused.")
	case resumed.Opens != nil:
		page.line("Resumed. By its window the lane is closed %s.", untilText(resumed.Opens))
	default:
		page.line("Resumed: nodes go on within two seconds.")
	}
	return page.err
}
