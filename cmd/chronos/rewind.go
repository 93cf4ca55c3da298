package main

import (
	"context"
	"errors"

	"chronos/node"
	"chronos/node/service"
)

// rewindCommand has records be taken in again.
type rewindCommand struct {
	Topic     string `required:"" placeholder:"TOPIC" help:"The input topic."`
	Partition *int32 `placeholder:"N" help:"One partition of it. Default all of them."`
	Yes       bool   `help:"Do it. Without it, say what would be done and change nothing."`

	ToOffset   *int64 `group:"target" placeholder:"N" help:"To this offset."`
	ToTime     *text  `group:"target" placeholder:"INSTANT" help:"To the first record as young. No zone is UTC."`
	ToEarliest bool   `group:"target" help:"To the first record that Kafka has."`

	operateSettings
}

// Help says what a person at night has to know.
func (c *rewindCommand) Help() string {
	return `A position only goes back, never forward: nothing is skipped. Nodes may run, and do it: within a second
they forget what they have claimed and read from there. Until all input topics are taken in again as far as they
reach now, and for the hold time at least, nothing fires. A message that still waits is not doubled. One that has
fired already fires again, at once: consumers tell such duplicates by their id.

Take the settings of the nodes, --hold-time included. Examples:

    chronos rewind --topic orders.in --to-time 2026-11-22T03:00:00Z --config chronos.yaml
    chronos rewind --topic orders.in --partition 3 --to-offset 120000 --config chronos.yaml --yes`
}

// Run says what a rewind would do, and does it if it was told to.
func (c *rewindCommand) Run(ctx context.Context, w *world) (err error) {
	target, err := c.target()
	if err != nil {
		return err
	}
	config, err := c.values.Config()
	if err != nil {
		return err
	}
	operator, err := service.OpenOperator(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Close()) }()
	plan, err := operator.PlanRewind(ctx, target)
	if err != nil {
		return err
	}
	page := &page{out: w.stdout}
	if len(plan.Moves) == 0 {
		page.line("There is nothing to rewind: no partition has been taken in beyond that.")
		return page.err
	}
	printRewindPlan(page, &plan)
	if !c.Yes {
		page.line("Nothing was changed. The same command with --yes does it.")
		return page.err
	}
	state, err := operator.Rewind(ctx, plan)
	if err == nil {
		page.line("Done: lineage %d of the store has begun.", state.Lineage)
	}
	return errors.Join(page.err, err)
}

// target returns where to go back to.
func (c *rewindCommand) target() (service.RewindTarget, error) {
	target := service.RewindTarget{
		Topic: c.Topic, Partition: c.Partition, Offset: c.ToOffset, Earliest: c.ToEarliest,
	}
	given := 0
	for _, is := range []bool{c.ToOffset != nil, c.ToTime != nil, c.ToEarliest} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return target, usagef("one of --to-offset, --to-time and --to-earliest must say where to go back to")
	case c.ToOffset != nil && *c.ToOffset < 0:
		return target, usagef("--to-offset is %d: it must be 0 or more", *c.ToOffset)
	case c.ToTime != nil:
		var err error
		if target.Time, err = node.ParseDeadline([]byte(*c.ToTime), node.EpochRejected); err != nil {
			return target, usagef("--to-time is %s: %v", shown(string(*c.ToTime)), err)
		}
	}
	return target, nil
}

// printRewindPlan says what a rewind would do.
func printRewindPlan(page *page, plan *service.RewindPlan) {
	rows := [][]any{{"topic", "partition", "position now", "goes to", "records again, at most"}}
	for i := range plan.Moves {
		m := &plan.Moves[i]
		rows = append(rows, []any{m.Topic, m.Number, m.From.Offset, m.To.Offset, m.Again()})
	}
	page.table(rows...)
	page.line("")
	page.line("Up to %d records are taken in again. Those of messages that still wait change nothing; those of "+
		"messages that have fired fire again, as duplicates.", plan.Again())
	page.line("Nothing fires, on any topic, for %v and until all input topics are taken in as far as they reach now.",
		plan.Hold)
	if plan.CallsAfter > 0 {
		page.line("Callbacks begin %v after that, when those that are under way now have ended.", plan.CallsAfter)
	}
}
