package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"chronos/node/service"
)

// journalCommand is what operators do to a journal in Kafka.
type journalCommand struct {
	Skip journalSkip `cmd:"" help:"Get past entries of the journal that nodes cannot read."`
}

// journalSkip is the command that skips entries.
type journalSkip struct {
	Journal   text   `placeholder:"TOPIC" help:"The topic of the journal that the entry is in, of several."`
	Partition *int32 `placeholder:"N" help:"The partition that the entry is in."`
	Offset    *int64 `placeholder:"N" help:"The offset of the entry."`
	All       bool   `help:"Skip everything that is found, 1000 entries of each partition at most."`
	Yes       bool   `help:"Do it. Without it, show what would be skipped and change nothing."`

	storeSettings
}

// Help says what a person at night has to know.
func (c *journalSkip) Help() string {
	return `A node that reads an entry of the journal which it does not know cannot take the partition over: a newer
release may have written it. If so, run that release. If something else wrote it, such as a producer with the wrong
topic, skip it: what it says is then nothing to nodes, and they own the partition within seconds.

Without --offset it looks for all such entries, and shows them. It takes the settings of the nodes, needs no node to
run, and may run while nodes do. It deletes nothing: the entry stays in the topic, and a skip of it is appended.

    chronos journal skip --config chronos.yaml
    chronos journal skip --config chronos.yaml --partition 3 --offset 4711
    chronos journal skip --config chronos.yaml --partition 3 --offset 4711 --yes`
}

// Run shows what cannot be read, and skips it if it was told to.
func (c *journalSkip) Run(ctx context.Context, w *world) error {
	if (c.Partition == nil) != (c.Offset == nil) {
		return usagef("--partition and --offset belong together: set both, or none to see all entries")
	}
	if c.All && c.Offset != nil {
		return usagef("--all and --offset exclude each other: only one of them may be set")
	}
	target, err := c.values.Target()
	if err != nil {
		return err
	}
	if !target.IsJournal() {
		return usagef("--store is %s, which is no journal in Kafka: only a journal has entries to skip",
			target.String())
	}
	found, err := target.Journal().SearchUnreadable(ctx, maxSkips, math.MaxInt64)
	if err != nil {
		return err
	}
	page := &page{out: w.stdout}
	chosen := slices.DeleteFunc(slices.Clone(found.Entries), func(u service.UnreadableEntry) bool {
		return !c.chooses(&u)
	})
	if len(chosen) == 0 {
		page.line("%s searched: there is nothing to skip.", partitions(len(found.Partitions)))
		return cmp.Or(page.err, c.nothing(found.Partitions))
	}
	for i := range chosen {
		page.line("%s, %s", chosen[i].Topic, chosen[i].String())
	}
	page.line("")
	switch {
	case c.Yes && (c.All || c.Offset != nil):
		if err := target.Journal().Skip(ctx, chosen, person()); err != nil {
			return err
		}
		page.line("Done: skipped. Nodes take the partition over within seconds.")
	case c.Offset == nil && !c.All:
		page.line("Nothing was changed. --partition and --offset choose one entry, --all takes all, and --yes does it.")
	default:
		page.line("Nothing was changed. The same command with --yes does it.")
	}
	return page.err
}

// maxSkips is how many entries of a partition are shown and skipped at a time.
const maxSkips = 1000

// chooses reports whether the command is about an entry.
func (c *journalSkip) chooses(u *service.UnreadableEntry) bool {
	return (c.Journal == "" || u.Topic == string(c.Journal)) &&
		(c.Offset == nil || u.Number == *c.Partition && u.Offset == *c.Offset)
}

// nothing returns an error if there is no entry where one was named. It says whether there is such a partition, and
// such an offset.
func (c *journalSkip) nothing(searched []service.JournalExtent) error {
	if c.Offset == nil {
		return nil
	}
	var named []service.JournalExtent
	for _, part := range searched {
		if (c.Journal == "" || part.Topic == string(c.Journal)) && part.Number == *c.Partition {
			named = append(named, part)
		}
	}
	if len(named) == 0 {
		return fmt.Errorf("the journal %shas no partition %d: \"chronos journal skip\" without --offset shows all "+
			"entries that cannot be read", c.prefix(), *c.Partition)
	}
	if !slices.ContainsFunc(named, func(part service.JournalExtent) bool {
		return *c.Offset >= part.First && *c.Offset < part.End
	}) {
		return fmt.Errorf("partition %d of the journal %s has no offset %d: it begins at %d, and ends before %d",
			*c.Partition, named[0].Topic, *c.Offset, named[0].First, named[0].End)
	}
	return fmt.Errorf("at offset %d of partition %d nothing is to be skipped: the entry can be read, or was skipped "+
		"before", *c.Offset, *c.Partition)
}

// prefix is the name of the journal that was chosen, and a space; empty if none was.
func (c *journalSkip) prefix() string {
	if c.Journal == "" {
		return ""
	}
	return string(c.Journal) + " "
}
