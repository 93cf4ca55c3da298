package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"chronos/migrations"
	"chronos/node/service"
)

// migrateCommand creates or updates the schema of a store.
type migrateCommand struct {
	Up     migrateUp     `cmd:"" help:"Create the schema, or bring it up to date; or create the topic of a journal."`
	Status migrateStatus `cmd:"" help:"List the migrations, and whether the store has them. Changes nothing."`
	Print  migratePrint  `cmd:"" help:"Print the SQL, for somebody who runs it by hand."`
}

// migrateUp is the command that migrates.
type migrateUp struct{ storeSettings }

// Run applies what is missing, and says what that was.
func (c *migrateUp) Run(ctx context.Context, w *world) (err error) {
	target, err := c.values.Target()
	if err != nil {
		return err
	}
	store, err := target.OpenNow(ctx, answerTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	applied, err := store.Migrate(ctx)
	if err == nil && len(applied) == 0 {
		_, err = fmt.Fprintln(w.stdout, "up to date already")
	}
	for _, m := range applied {
		_, printErr := fmt.Fprintf(w.stdout, "applied %d %s\n", m.Version, m.Name)
		err = errors.Join(err, printErr)
	}
	return err
}

// migrateStatus is the command that looks.
type migrateStatus struct{ storeSettings }

// Run prints a line for each migration. A schema that is not what this program needs is an error.
func (c *migrateStatus) Run(ctx context.Context, w *world) (err error) {
	target, err := c.values.Target()
	if err != nil {
		return err
	}
	store, err := target.OpenAny(ctx, answerTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	status, err := store.Status(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	for _, m := range status {
		name, since := m.Name, "not applied"
		if name == "" {
			name = "(of a newer release)"
		}
		if m.Applied {
			since = "applied " + m.AppliedAt.UTC().Format("2006-01-02T15:04:05Z")
		}
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\n", m.Version, name, since) // Flush tells of errors.
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if _, err = store.Check(ctx); err == nil && target.IsJournal() {
		if len(target.Journal().Topics()) == 1 {
			_, err = fmt.Fprintf(w.stdout, "the topic of %s is as it has to be\n", target.String())
		} else {
			_, err = fmt.Fprintf(w.stdout, "the topics of %s are as they have to be\n", target.String())
		}
	}
	return err
}

// migratePrint is the command that prints, and touches nothing.
type migratePrint struct{ storeSettings }

// Run prints the script for the kind of database that the store is, Postgres if there is none; of a journal, what its
// topics are created by.
func (c *migratePrint) Run(w *world) error {
	if target, err := c.values.Target(); err == nil && target.IsJournal() {
		for _, t := range target.Journal().Topics() {
			if _, err := fmt.Fprintf(w.stdout, "# with as many partitions as %s has\nkafka-topics.sh --create "+
				"--topic %s --partitions N --replication-factor 3 --config %s\n", t.Input, t.Topic,
				strings.Join(service.JournalSettings(3), " --config ")); err != nil {
				return err
			}
		}
		return nil
	}
	dialect, err := c.values.Dialect()
	if err != nil {
		return err
	}
	return migrations.Print(w.stdout, dialect)
}
