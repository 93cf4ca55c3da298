package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"chronos/node/service/doctor"
)

// doctorCommand examines a deployment.
type doctorCommand struct {
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORM" help:"table or json. Default table."`

	examineSettings
}

// Help says what the exit codes mean, and what it needs.
func (c *doctorCommand) Help() string {
	return `It takes the settings of the nodes, changes nothing, and needs no node to run; it may run while nodes do.
(A SQLite file belongs to one process: stop its node first.)

The exit code is 0 if all is well, 1 if there are findings that somebody should act on (errors and warnings; notes
are for your information), and 2 if something could not be looked at, such as a server that does not answer.

It uses the rights of the nodes' user. With DescribeConfigs on the topics and pg_monitor in Postgres it sees more.`
}

// What ends the command where not all is well. The report has said it.
var (
	errFindings  = errors.New("there are findings")
	errNotLooked = errors.New("not all could be looked at")
)

// Run examines and reports.
func (c *doctorCommand) Run(ctx context.Context, w *world) error {
	config, err := c.values.Config()
	if err != nil {
		return err
	}
	report, err := doctor.Examine(ctx, config, doctor.Options{})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.Output == "json" {
		out := json.NewEncoder(w.stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(report)
	} else {
		err = printReport(&page{out: w.stdout}, report)
	}
	switch {
	case err != nil:
		return err
	case report.Verdict == doctor.NotLooked:
		return errNotLooked
	case report.Verdict == doctor.Found:
		return errFindings
	default:
		return nil
	}
}

// printReport writes a report for a person: what was looked at, then what was found, the worst first.
func printReport(page *page, report *doctor.Report) error {
	page.line("Kafka %s, store %s", harmless(report.Kafka), harmless(report.Store))
	page.line("")
	rows := [][]any{{"check", "result", "seen"}}
	for _, c := range report.Checks {
		rows = append(rows, []any{c.Name, strings.ReplaceAll(string(c.Result), "_", " "), harmless(c.Says)})
	}
	page.table(rows...)
	counts := map[doctor.Severity]int{}
	for _, severity := range []doctor.Severity{doctor.Error, doctor.Warning, doctor.Note} {
		for _, f := range doctor.Together(report.Findings) {
			if f.Severity != severity {
				continue
			}
			counts[severity]++
			page.line("")
			page.line("%s  %s: %s", strings.ToUpper(string(severity)), harmless(f.About), harmless(f.Says))
			page.line("  means  %s", harmless(f.Means))
			page.line("  do     %s", harmless(f.Do))
		}
	}
	page.line("")
	switch report.Verdict {
	case doctor.NotLooked:
		page.line("Not all could be looked at, see above.")
	case doctor.Found:
		page.line("Errors: %d, warnings: %d, notes: %d.", counts[doctor.Error], counts[doctor.Warning],
			counts[doctor.Note])
	case doctor.Well, doctor.Skipped: // a verdict is never Skipped
		page.line("All is well.")
	}
	return page.err
}
