package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"chronos/node"
	"chronos/node/service"
)

// bindCommand shows whom a store belongs to, or changes that.
type bindCommand struct {
	Adopt        bool `help:"Partitions that have no position begin at the group's committed offsets."`
	FromEarliest bool `help:"Partitions that have no position begin at the first record that Kafka has."`
	Yes          bool `help:"Do it. Without it, say what would be done and change nothing."`

	operateSettings
}

// Help says what a person at night has to know.
func (c *bindCommand) Help() string {
	return `A store belongs to one Kafka cluster and one consumer group, those of the first node that used it,
and nodes of others refuse to start on it. Take the settings of the nodes: the store is bound to the cluster and
the group that they name. Stop the nodes of the former owner before; those that run do not notice.

Messages that wait in the store stay, and fire on the topics of the new owner. Positions stay as well.`
}

// Run shows what the store belongs to and what would change, and changes it if it was told to.
func (c *bindCommand) Run(ctx context.Context, w *world) (err error) {
	begin := service.BeginUnset
	switch {
	case c.Adopt && c.FromEarliest:
		return usagef("--adopt and --from-earliest exclude each other: only one of them may be set")
	case c.Adopt:
		begin = service.BeginCommitted
	case c.FromEarliest:
		begin = service.BeginEarliest
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
	plan, err := operator.PlanBind(ctx, begin)
	if err != nil {
		return err
	}
	page := &page{out: w.stdout}
	printBindPlan(page, config.Store.String(), &plan)
	if plan.Undecided() {
		return errors.Join(page.err, usagef("say where to begin: with --adopt or with --from-earliest"))
	}
	switch {
	case plan.Same() && plan.Begin == nil:
		page.line("There is nothing to change.")
	case !c.Yes:
		page.line("Nothing was changed. The same command with --yes does it.")
	default:
		bound, err := operator.Bind(ctx, plan)
		if err != nil {
			err = fmt.Errorf("bind: %w; it may have happened nevertheless: repeat without --yes to see", err)
			return errors.Join(page.err, err)
		}
		page.line("Done: the store belongs to %s, and has positions of %s.",
			owner(bound.Cluster, bound.Group), partitions(bound.Partitions))
	}
	return page.err
}

// printBindPlan says what a bind would do.
func printBindPlan(page *page, store string, plan *service.BindPlan) {
	if plan.Bound.Cluster == "" {
		page.line("The store %s belongs to nobody yet.", store)
	} else {
		page.line("The store %s belongs to %s, and has positions of %s.",
			store, owner(plan.Bound.Cluster, plan.Bound.Group), partitions(plan.Bound.Partitions))
	}
	if plan.Bound.Adopting {
		page.line("It comes from a release that kept no positions: the next node that starts adopts what is committed.")
	}
	if !plan.Same() {
		page.line("It would belong to %s.", owner(plan.Cluster, plan.Group))
	}
	switch {
	case plan.Begin != nil:
		page.line("Partitions that have a position keep it. Those that have none would begin here:")
		page.line("")
		page.places(plan.Begin)
		page.line("")
	case plan.Undecided():
		page.line("Consumer group %s has committed offsets on %s, and the store has never taken in anything.",
			plan.Group, partitions(plan.Committed))
	case !plan.Same():
		page.line("Partitions that have no position would begin at the first record that Kafka has; " +
			"--adopt has them begin at the committed offsets.")
	}
}

// owner names whom a store belongs to.
func owner(cluster, group string) string {
	return fmt.Sprintf("consumer group %s of Kafka cluster %s", group, cluster)
}

// partitions counts partitions.
func partitions(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// page is an output that keeps its first error, and writes nothing after it.
type page struct {
	out io.Writer
	err error
}

// line writes a line.
func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// table writes rows in columns, each indented. What cannot be printed in a cell is escaped.
func (p *page) table(rows ...[]any) {
	columns := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(fmt.Sprint(cell))
		}
		_, _ = fmt.Fprintln(columns, "  "+strings.Join(cells, "\t")) // Flush tells of errors.
	}
	if err := columns.Flush(); p.err == nil {
		p.err = err
	}
}

// places writes a table of places.
func (p *page) places(places []node.Place) {
	rows := [][]any{{"topic", "partition", "begins at"}}
	for _, place := range places {
		rows = append(rows, []any{place.Topic, place.Number, place.Offset})
	}
	p.table(rows...)
}
