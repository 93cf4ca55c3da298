package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/node/service"
	"chronos/node/store/journal"
	"chronos/node/store/transfer"
)

// importCommand fills a store from a file that chronos export has written.
type importCommand struct {
	File string `arg:"" help:"The file that chronos export has written."`
	Yes  bool   `help:"Do it. Without it, say what would be done and change nothing."`

	OtherInput bool   `help:"Into a journal of another input topic, cluster or group: leave other positions behind."`
	Place      string `placeholder:"HOW" help:"How messages are placed whose keys lead elsewhere now: key, origin."`

	storeSettings
}

// Help says what a person at night has to know.
func (c *importCommand) Help() string {
	return `The store must never have been used; "chronos migrate up" makes one. It is sealed until all is in it: no
node starts on it before, so that none sees half of it. If the import fails, do it again with the same file: it goes on
where it ended. When it is done, the same command again changes nothing.

The store then belongs to the Kafka cluster and the consumer group that the exported one belonged to, and its
positions are those of that one: start nodes on it with the same settings, except for --store. For another cluster,
"chronos bind" follows.`
}

// Run says what an import would do, and does it if it was told to.
func (c *importCommand) Run(ctx context.Context, w *world) (err error) {
	placing := journal.Placing(c.Place)
	switch placing {
	case journal.PlaceSame, journal.PlaceByKey, journal.PlaceByOrigin:
	default:
		return usagef("--place is %s: it must be key or origin", service.Shown(c.Place))
	}
	m, err := openMove(ctx, c.values, w, service.MoveOptions{
		Fill: true, OtherInput: c.OtherInput, Placing: placing,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.store.Close()) }()
	m.page = &page{out: w.stdout}
	m.otherInput = c.OtherInput
	return errors.Join(m.fill(ctx, c.File, c.Yes), m.page.err)
}

func (m *move) fill(ctx context.Context, file string, yes bool) error {
	header, counts, fits, err := m.check(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	m.page.line("%s is complete. It is export %s of the store %s, sealed at %s by %s: %s, %s, %s and %s.", file,
		header.ID, harmless(header.Store), header.Sealed.Format(time.RFC3339), harmless(header.By),
		number(counts.Messages, "message"),
		number(counts.Positions, "position"), number(counts.Pauses, "pause"), number(counts.Answers, "answer"))
	if queued := countQueues(&counts); queued != "" {
		m.page.line("There are queues as well: %s.", queued)
	}
	contents, err := m.mover.Contents(ctx)
	if err != nil {
		return err
	}
	// The store decides again. This is so that a person sees it before.
	first := transfer.Batch{ID: header.ID, Cluster: header.Cluster, Group: header.Group}
	err = first.Refuse(&contents.Seal)
	switch {
	case err != nil:
	case contents.Seal.Kind == transfer.Imported:
		m.page.line("It was imported into the store %s, which has begun lineage %d with it: there is nothing to do.",
			m.name, contents.Seal.Lineage)
		return nil
	case contents.Seal.Kind == transfer.Importing:
		m.page.line("The store %s has %d of its %d lines, from an import that was not done.", m.name,
			contents.Seal.Lines, counts.Lines())
	default:
		err = first.Unfit(&contents)
	}
	if err == nil && fits != nil {
		err = fits.Refusal()
	}
	if err != nil {
		return m.explain(err)
	}
	switch {
	case m.otherInput:
		m.page.line("Positions of other topics stay behind, and whom they belonged to: the store %s would belong to "+
			"the first group whose nodes use it, which read its input from the beginning where it has no position.",
			m.name)
	case header.Cluster != "":
		m.page.line("The store %s would belong to %s.", m.name, owner(harmless(header.Cluster), harmless(header.Group)))
	}
	if !yes {
		m.page.line("Nothing was changed. The same command with --yes does it.")
		return nil
	}
	in, err := openArchive(file)
	if err != nil {
		return err
	}
	defer in.close()
	seal, err := transfer.Import(ctx, m.mover, in, person(), m.tell("read"))
	if err != nil {
		return fmt.Errorf("%w; do it again with the same file, which goes on where this ended", m.explain(err))
	}
	m.page.line("Done: lineage %d of the store %s has begun. Nodes may start on it, with the settings of before "+
		"except for --store.", seal.Lineage, m.name)
	return nil
}

// check reads the file to its end. It returns what judges whether the store can hold all of it; nil if any store can.
func (m *move) check(file string) (
	header transfer.Header, counts transfer.Counts, fits transfer.Fits, err error,
) {
	in, err := openArchive(file)
	if err != nil {
		return header, counts, nil, err
	}
	defer in.close()
	if picky, is := m.mover.(transfer.Picky); is {
		fits = picky.Fits()
	}
	header, counts, err = transfer.CheckFor(in, m.tell("checked"), fits)
	return header, counts, fits, err
}
