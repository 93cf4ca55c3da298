package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node/service"
	"chronos/node/store/inspect"
	"chronos/node/store/transfer"
)

// exportCommand writes everything that is in a store to a file, from where chronos import takes it.
type exportCommand struct {
	To   text `placeholder:"FILE" help:"Write there; .zst and .gz are compressed, - is the standard output."`
	Undo bool `help:"Open the store again, because the export is not going to be imported anywhere."`
	Yes  bool `help:"Do it. Without it, say what would be done and change nothing."`

	ForJournal bool `help:"Refuse, before anything is sealed, what a journal in Kafka cannot hold."`

	storeSettings
}

// moveTimeout is how long one call of a store may take whose contents are moved: some of them count all messages.
const moveTimeout = time.Minute

// Help says what a person at night has to know.
func (c *exportCommand) Help() string {
	return `All that waits goes to another store in two steps: chronos export, and chronos import there.

The export seals the store: from then on nothing is taken in and nothing fires from it, so that no message comes
out twice. Nodes that run on it end within seconds. Then it waits until nothing is out any more, for the hold time at
most, and writes the file. If that fails, do it again: the store stays sealed, and what it has does not change.

If you think better of it, and nobody has imported the file, --undo opens the store again. If somebody has, both
stores would fire the same messages.

    chronos export --store sqlite:chronos.db --to waiting.zst
    chronos export --store sqlite:chronos.db --to waiting.zst --yes
    chronos migrate up --store postgres://chronos@db/chronos
    chronos import waiting.zst --store postgres://chronos@db/chronos --yes`
}

// Run says what an export would do, and does it if it was told to.
func (c *exportCommand) Run(ctx context.Context, w *world) (err error) {
	switch {
	case c.Undo && c.To != "":
		return usagef("--undo and --to exclude each other: only one of them may be set")
	case !c.Undo && c.To == "":
		return usagef(
			"--to is not set: it must be the name of a file, such as waiting.zst, or - for the standard output")
	}
	m, err := openMove(ctx, c.values, w, service.MoveOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.store.Close()) }()
	m.page = &page{out: w.stdout}
	if c.To == "-" {
		m.page.out = w.stderr
	}
	contents, err := m.mover.Contents(ctx)
	if err != nil {
		return err
	}
	m.describe(&contents)
	if c.ForJournal {
		err = m.survey(ctx)
	}
	switch {
	case err != nil:
	case c.Undo:
		err = m.undo(ctx, &contents, c.Yes)
	default:
		err = m.export(ctx, &contents, string(c.To), c.Yes)
	}
	return errors.Join(m.page.err, m.explain(err))
}

// move is one export or import.
type move struct {
	*world

	store      *service.Store
	mover      transfer.Store
	name       string // of the store, for a person
	journal    bool   // it is one in Kafka
	otherInput bool   // see importCommand
	page       *page
	ticker     ticker
}

// openMove opens a store whose contents are to be moved. It creates none.
func openMove(
	ctx context.Context, settings *service.Settings, w *world, options service.MoveOptions,
) (*move, error) {
	target, err := settings.Target()
	if err != nil {
		return nil, err
	}
	m := &move{world: w, name: target.String(), journal: target.IsJournal()}
	m.store, m.mover, err = target.OpenMove(ctx, moveTimeout, options)
	return m, err
}

// survey looks whether a journal could hold what is in the store.
func (m *move) survey(ctx context.Context) error {
	fits := service.FitsJournal()
	if err := transfer.Survey(ctx, m.mover, m.tell("looked at"), fits); err != nil {
		return err
	}
	return fits.Refusal()
}

// describe says what is in a store.
func (m *move) describe(c *transfer.Contents) {
	whose := "belongs to nobody"
	if c.Bound.Cluster != "" {
		whose = "belongs to " + owner(c.Bound.Cluster, c.Bound.Group)
	}
	m.page.line("The store %s %s, and has %s, positions of %s, %s and %s.", m.name, whose,
		number(c.Messages, "message"), partitions(len(c.Places)), number(int64(len(c.Pauses)), "pause"),
		number(c.Answers, "remembered answer"))
}

// number returns a number of things.
func number(n int64, thing string) string {
	switch n {
	case -1:
		return "too many " + thing + "s to count"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (m *move) export(ctx context.Context, c *transfer.Contents, file string, yes bool) error {
	if err := c.Refusal(); err != nil && c.Seal.Kind != transfer.Exported {
		return err
	}
	if c.Seal.Kind == transfer.Exported {
		m.page.line("It was sealed for export %s at %s, by %s. It stays sealed, and is written once more.", c.Seal.ID,
			c.Seal.Since.Format(time.RFC3339), c.Seal.By)
	} else if !yes {
		m.page.line("It would be sealed: nothing is taken in or fires from then on, until \"chronos export --undo\".")
	}
	if err := m.roster(ctx); err != nil {
		return err
	}
	if err := creatable(file); err != nil {
		return err
	}
	if !yes {
		m.page.line("Nothing was changed. The same command with --yes does it.")
		return nil
	}
	out, err := create(file, m.stdout)
	if err != nil {
		return err
	}
	defer out.discard()
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("draw the name of the export: %w", err)
	}
	seal, err := m.mover.Seal(ctx, id, person())
	if err != nil {
		return err
	}
	m.page.line("Sealed, as export %s, in lineage %d.", seal.ID, seal.Lineage)
	err = transfer.Drain(ctx, m.mover, sleep, func(h transfer.Held) {
		m.note("waiting for %s to be settled or to expire, %s at most", number(int64(h.Claims), "claim"),
			h.For.Round(time.Second))
	})
	if err != nil {
		return err
	}
	header := transfer.Header{Store: m.name, Release: currentVersion()}
	counts, sum, err := transfer.Export(ctx, m.mover, header, out, m.tell("written"))
	if err == nil {
		err = out.keep()
	}
	if err != nil {
		return fmt.Errorf("%w; the store stays sealed: do it again, or undo it", err)
	}
	m.page.line("Done: %s has %s, %s, %s and %s. SHA-256 of the lines: %s", cmp.Or(file, "-"),
		number(counts.Messages, "message"), number(counts.Positions, "position"), number(counts.Pauses, "pause"),
		number(counts.Answers, "answer"), sum)
	if queued := countQueues(&counts); queued != "" {
		m.page.line("There are queues as well: %s.", queued)
	}
	m.page.line("Next: \"chronos import\" into another store, and nodes there, of the same group. None starts here.")
	return nil
}

// roster says which nodes have run on the store of late.
func (m *move) roster(ctx context.Context) error {
	if m.journal {
		m.page.line("Nodes that run on it end when they next take something in or fire. A callback that they are " +
			"making then is made again: stop them first to avoid that.")
		return nil
	}
	roster, is := m.store.Store.(inspect.Roster)
	if !is {
		return nil
	}
	nodes, now, err := roster.Nodes(ctx)
	if errors.Is(err, inspect.ErrTooLong) {
		m.page.line("Nodes that run on it end within seconds; which ones there are, the store is too busy to say. " +
			"Those of a release before this one do not: stop them first.")
		return nil
	}
	if err != nil {
		return err
	}
	var alive []string
	for i := range nodes {
		if now.Sub(nodes[i].Seen) < inspect.Silent {
			alive = append(alive, nodes[i].Host+" ("+nodes[i].Version+")")
		}
	}
	if len(alive) > 0 {
		m.page.line("Nodes that run on it, and end within seconds: %s. Those of a release before this one do not: "+
			"stop them first.", strings.Join(alive, ", "))
	}
	return nil
}

func (m *move) undo(ctx context.Context, c *transfer.Contents, yes bool) error {
	if c.Seal.Kind != transfer.Exported {
		return transfer.NotExported(&c.Seal)
	}
	m.page.line("It was sealed for export %s at %s, by %s.", c.Seal.ID, c.Seal.Since.Format(time.RFC3339), c.Seal.By)
	m.page.line("It would be opened again. If that export was imported anywhere, or is going to be, its messages " +
		"come out twice.")
	if !yes {
		m.page.line("Nothing was changed. The same command with --yes does it.")
		return nil
	}
	state, err := m.mover.Unseal(ctx)
	if err == nil {
		m.page.line("Done: lineage %d of the store has begun. Nodes may start on it.", state.Lineage)
	}
	return err
}

// explain makes a sentence of a refusal, of which the subject is the store.
func (m *move) explain(err error) error {
	refused, is := errors.AsType[*transfer.RefusedError](err)
	if !is {
		return err
	}
	return fmt.Errorf("nothing was changed in the store %s: %s", m.name, refused.Reason)
}

// tell returns what tells a person how far it is, once a second.
func (m *move) tell(what string) func(transfer.Progress) {
	began := time.Now()
	return func(p transfer.Progress) {
		if !m.ticker.due(time.Second) {
			return
		}
		rate := float64(p.Messages) / time.Since(began).Seconds()
		of := ""
		if p.Of >= 0 {
			of = fmt.Sprintf(" of %d", p.Of)
		}
		m.note("%d%s messages %s, %.0f a second", p.Messages, of, what, rate)
	}
}

// ticker says when to say something again.
type ticker struct{ last time.Time }

func (t *ticker) due(interval time.Duration) bool {
	now := time.Now()
	if t.last.IsZero() {
		t.last = now
	}
	if now.Sub(t.last) < interval {
		return false
	}
	t.last = now
	return true
}

// sleep waits, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// person returns who runs this command, for people who look at a seal.
func person() string {
	name := "somebody"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return strings.ToValidUTF8(name, "?")
}

// countQueues says in words what an export has of queues; "" for nothing.
func countQueues(counts *transfer.Counts) string {
	if counts.Queues+counts.Tasks+counts.Actions == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s and %s", number(counts.Queues, "queue"), number(counts.Tasks, "task"),
		number(counts.Actions, "action"))
}
