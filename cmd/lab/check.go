package main

import (
	"fmt"
	"os"

	"chronos/sim/check"
)

// checkCommand judges a history that somebody has written down.
type checkCommand struct {
	File string `arg:"" help:"The history; - for standard input."`
}

// Help says what a history is.
func (c *checkCommand) Help() string {
	return `A history says what happened to a delay service, one event to a line: docs/HISTORY.md describes the
format, so that any implementation can be judged. The simulator writes one with "lab sim --history", and
the chaos suite leaves one when a scenario fails.

Invariants that need events which the history does not record are listed as not judged.

Exit codes: 0 all that was judged holds, 1 an invariant is broken, 2 the history can't be judged.`
}

// Run prints the verdict.
func (c *checkCommand) Run(w *world) error {
	in := w.stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return fmt.Errorf("open the history: %w", err)
		}
		defer file.Close() //nolint:errcheck // it is only read
		in = file
	}
	verdict, err := check.Check(in)
	if err != nil {
		return fmt.Errorf("judge %s: %w", c.File, err)
	}
	if _, err := verdict.WriteTo(w.stdout); err != nil {
		return err
	}
	if n := len(verdict.Violations); n > 0 {
		return brokenf("%s breaks %s", c.File, verdict.Violations[0].Invariant)
	}
	return nil
}
