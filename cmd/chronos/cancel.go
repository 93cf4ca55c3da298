package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/control"
)

// cancelCommand has a message not appear, or many.
type cancelCommand struct {
	ID *text `arg:"" optional:"" name:"id" help:"The id of the message. Without it, --lane says which messages."`

	Key      *text  `group:"message" placeholder:"KEY" help:"Its key; of many, only those with this key."`
	Topic    string `group:"message" placeholder:"TOPIC" help:"Input topic. Default that of the settings."`
	TopicOut *text  `group:"message" placeholder:"TOPIC" help:"Output topic, out of --targets of the nodes."`

	partitionFlags
	bulkFlags
	outcomeFlags
	cancelSettings
}

// bulkFlags say which messages are meant where there is no id.
type bulkFlags struct {
	Lane         []string `group:"bulk" placeholder:"LANE" help:"Those on this lane. May be repeated."`
	Header       *text    `group:"bulk" placeholder:"NAME=VALUE" help:"Only those with this header, or NAME alone."`
	DeadlineFrom *text    `group:"bulk" aliases:"from" placeholder:"INSTANT" help:"Only deadlines from then on."`
	DeadlineTo   *text    `group:"bulk" aliases:"until" placeholder:"INSTANT" help:"Only deadlines before."`
	DryRun       bool     `group:"bulk" help:"Change nothing, and count what would become of them."`
	Yes          bool     `group:"bulk" help:"Do it. Without it, the same as --dry-run."`
}

// Help says what happens.
func (c *cancelCommand) Help() string {
	return `A message that was cancelled does not appear. If a node is about to publish it, it is too late.

With an id a record is sent to Kafka. ` + sameKey + `

Without an id, --lane names the lane, and the other flags those of its messages that are meant. They are
cancelled in the store, or by the node at --admin, some hundred in a transaction, while everything goes on.
A series ends: an occurrence that is under way is the last one. Kafka does not know of it: when the store is
set back to an older state, or the topic is rewound, they come out all the same. To begin anew is safe at any
time: what is cancelled is not there any more.

    chronos cancel order-1 --key customer-7
    chronos cancel --lane orders.out --header tenant=blue --store postgres://... --yes

Exit code 0: done; 3: too late for it, or for some; 4: not found; 1: anything else, such as that nobody has
told of an outcome within --timeout.`
}

// Run cancels one message, or many.
func (c *cancelCommand) Run(ctx context.Context, w *world) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.ID == nil {
		return c.many(ctx, w)
	}
	in := instruction{action: node.Cancel, id: string(*c.ID), told: true}
	place := placeFlags{Key: c.Key, Topic: c.Topic, TopicOut: c.TopicOut, partitionFlags: c.partitionFlags}
	in.record = place.record(in.headers(nil))
	if err := in.check("ID"); err != nil {
		return err
	}
	return c.instruct(ctx, w, c.values, &in, &place.partitionFlags)
}

// check returns an error for flags that do not go together.
func (c *cancelCommand) check() error {
	type flag struct {
		name string
		set  bool
	}
	first := func(flags ...flag) string {
		for _, f := range flags {
			if f.set {
				return "--" + f.name
			}
		}
		return ""
	}
	many := first(flag{"lane", len(c.Lane) > 0}, flag{"header", c.Header != nil},
		flag{"deadline-from", c.DeadlineFrom != nil}, flag{"deadline-to", c.DeadlineTo != nil},
		flag{"dry-run", c.DryRun}, flag{"yes", c.Yes}, flag{"admin", c.values.AdminFlag()})
	one := first(flag{"topic", c.Topic != ""}, flag{"topic-out", c.TopicOut != nil},
		flag{"no-wait", c.NoWait}, flag{"timeout", c.Timeout != "30s"},
		flag{"partition", c.Partition != nil}, flag{"partitioner", c.Partitioner != "murmur2"})
	switch {
	case c.ID != nil && many != "":
		return usagef("%s is one message, and %s is for many: give the id alone, or the flags alone",
			shown(string(*c.ID)), many)
	case c.ID == nil && len(c.Lane) == 0:
		return usagef("say which message is meant by its id, or which messages by --lane")
	case c.ID == nil && one != "":
		return usagef("%s is for one message, which is cancelled through Kafka: many are cancelled in the store", one)
	case c.DryRun && c.Yes:
		return usagef("--dry-run changes nothing and --yes does it: give one of them")
	}
	return nil
}

// request returns what to ask for.
func (c *cancelCommand) request() (admin.BulkCancelRequest, error) {
	request := admin.BulkCancelRequest{DryRun: !c.Yes, By: me()}
	if c.Key != nil {
		if request.Key = string(*c.Key); request.Key == "" {
			return request, usagef("--key is empty: leave it out for any key, or give base64: for one that is empty")
		}
	}
	if c.Header != nil {
		if request.Header = string(*c.Header); request.Header == "" || request.Header[0] == '=' {
			return request, usagef("--header is %s: it needs the name of a header; leave it out for any",
				shown(request.Header))
		}
	}
	for _, flag := range []struct {
		name  string
		value *text
		to    *time.Time
	}{{"deadline-from", c.DeadlineFrom, &request.From}, {"deadline-to", c.DeadlineTo, &request.Until}} {
		if flag.value == nil {
			continue
		}
		var err error
		if *flag.to, err = node.ParseDeadline([]byte(*flag.value), node.EpochRejected); err != nil {
			return request, usagef("--%s is %s: %v", flag.name, shown(string(*flag.value)), err)
		}
	}
	if c.DeadlineFrom != nil && c.DeadlineTo != nil && !request.From.Before(request.Until) {
		return request, usagef("--deadline-to is %s: it must be later than --deadline-from",
			shown(string(*c.DeadlineTo)))
	}
	return request, nil
}

// bulk is a bulk cancel under way. What it holds does not grow with the number of messages.
type bulk struct {
	*cancelCommand

	asker   *asker
	request admin.BulkCancelRequest
	all     control.Tally      // so far
	met     map[uuid.UUID]bool // what is counted as stopped or too late, up to maxMet
	pass    control.Tally      // in this pass

	quiet bool // nobody is shown how it gets on
	world *world
	began time.Time
	shown time.Time // when somebody was
}

// many cancels what the flags choose.
func (c *cancelCommand) many(ctx context.Context, w *world) (err error) {
	b := &bulk{
		cancelCommand: c, world: w, quiet: c.Output == "json" || !isTerminal(w.stderr), began: time.Now(),
		met: map[uuid.UUID]bool{},
	}
	if b.request, err = c.request(); err != nil {
		return err
	}
	if b.asker, err = openAsker(ctx, w, c.values); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.asker.close()) }()
	failed := b.passes(ctx)
	if err := b.print(failed); err != nil {
		return err
	}
	switch all := &b.all; {
	case failed != nil && ctx.Err() != nil:
		return errors.New("interrupted: what is counted above is done. The same command goes on, since what is " +
			"cancelled is not there any more")
	case failed != nil && b.refused(failed):
		return fmt.Errorf("%w. What is counted above is done, and nothing else", failed)
	case failed != nil:
		return fmt.Errorf("%w. What is counted above is done, and of one page more nobody knows: the same command "+
			"goes on, since what is cancelled is not there any more", failed)
	case all.Scanned == 0:
		if err := b.asker.known(ctx, c.Lane); err != nil {
			return err
		}
		return &outcomeError{node.NotFound.String(), exitNotFound}
	case all.Matched == all.Left:
		return &outcomeError{node.NotFound.String(), exitNotFound}
	case all.Busy > 0:
		return errors.New("another session of the database holds locks on some of them, so nothing is done to those: " +
			"run the same command again, or end that session (the view pg_stat_activity shows it)")
	case !b.request.DryRun && all.TooLate+all.Changed > 0:
		return &outcomeError{node.TooLate.String(), exitTooLate}
	}
	return nil
}

// refused reports whether a request that has failed has changed nothing, for certain.
func (b *bulk) refused(err error) bool {
	answer, is := errors.AsType[*answerError](err)
	return b.request.DryRun || is && answer.status < http.StatusInternalServerError
}

// maxPasses bounds how often the lanes are walked along. Whoever goes on finding something has company who goes on
// submitting it.
const maxPasses = 3

// passes walks along the lanes, and once more while that finds something to cancel: a message that was claimed when its
// place among those that wait was passed, and came back to one behind that, is met by the next pass.
func (b *bulk) passes(ctx context.Context) error {
	for pass := 1; pass <= maxPasses; pass++ {
		b.pass = control.Tally{}
		err := b.walk(ctx)
		p, all := &b.pass, &b.all
		all.Cancelled += p.Cancelled
		all.Changed += p.Changed
		all.Busy = p.Busy // the next pass meets them again
		if pass == 1 {
			all.Scanned, all.Matched, all.Left = p.Scanned, p.Matched, p.Left
		} else {
			all.Matched += p.Cancelled
		}
		still := p.Stopped+p.TooLate+p.Changed == 0
		if err != nil || b.request.DryRun || pass == 1 && still || pass > 1 && p.Cancelled == 0 {
			return err
		}
	}
	return nil
}

// maxMet bounds how many messages are remembered that were stopped or too late. What is beyond may be counted once for
// each time that it is met.
const maxMet = 100_000

// again returns how many of these have been met before: what is claimed while the walk is between its two halves is met
// in both, and what comes out late in each pass.
func (b *bulk) again(incarnations []uuid.UUID) (n int) {
	for _, one := range incarnations {
		if b.met[one] {
			n++
		} else if len(b.met) < maxMet {
			b.met[one] = true
		}
	}
	return n
}

// walk walks along all lanes: what waits, and what is claimed.
func (b *bulk) walk(ctx context.Context) error {
	for _, b.request.Lane = range slices.Compact(slices.Sorted(slices.Values(b.Lane))) {
		for _, b.request.Claimed = range []bool{false, true} {
			for b.request.Cursor = ""; ; {
				if err := ctx.Err(); err != nil {
					return err
				}
				// A page that is begun is finished: it is short, and its count is worth more than a moment.
				page, err := ask[admin.BulkCancelled](context.WithoutCancel(ctx), b.asker, http.MethodPost,
					"/v1/bulk/cancel", &b.request)
				if err != nil {
					return err
				}
				b.pass.Add(page.Tally)
				b.all.Stopped += page.Stopped - b.again(page.Stops)
				b.all.TooLate += page.TooLate - b.again(page.Stays)
				b.progress()
				if b.request.Cursor = page.Next; page.Next == "" {
					break
				}
			}
		}
	}
	return nil
}

// progress shows once a second how far it has come.
func (b *bulk) progress() {
	if now := time.Now(); !b.quiet && now.Sub(b.shown) >= time.Second {
		b.shown = now
		done, word := b.all.Cancelled+b.pass.Cancelled, "cancelled"
		if b.request.DryRun {
			word = "found"
		}
		b.world.note("%s %s of %s looked at, in %s", thousands(done), word,
			thousands(max(b.all.Scanned, b.pass.Scanned)), roughly(now.Sub(b.began)))
	}
}

// bulkResult is what is printed as JSON.
type bulkResult struct {
	control.Tally

	DryRun   bool `json:"dry_run"`
	Complete bool `json:"complete"`
}

// print prints what has become of them.
func (b *bulk) print(failed error) error {
	all := &b.all
	if b.Output == "json" {
		return printJSON(b.world.stdout, bulkResult{*all, b.request.DryRun, failed == nil})
	}
	page := &page{out: b.world.stdout}
	would := ""
	if b.request.DryRun {
		would = "would be "
	}
	rows := [][]any{}
	for _, row := range []struct {
		n         int
		word, say string
	}{
		{all.Cancelled, would + node.Cancelled.String(), "they do not come out"},
		{all.Stopped, would + node.Stopped.String(), "series: nothing comes after the occurrence that is under way"},
		{all.TooLate, would + node.TooLate.String(), "they come out as they are, if they have not just now"},
		{all.Changed, "changed", "had come out, or been changed by somebody, before it was their turn"},
		{all.Busy, "busy", "another session of the database has locked them: nothing is done"},
		{all.Left, "left alone", "outcomes and dead letters, which Chronos has made: they always come out"},
	} {
		if row.n > 0 {
			rows = append(rows, []any{row.word, thousands(row.n), row.say})
		}
	}
	if len(rows) > 0 {
		page.table(rows...)
		page.line("")
	}
	page.line("%s of %s messages matched, in %s.", thousands(all.Matched), thousands(all.Scanned),
		roughly(time.Since(b.began)))
	if b.request.DryRun && failed == nil && all.Cancelled+all.Stopped > 0 {
		page.line("Nothing was changed. The same command with --yes does it.")
	}
	return page.err
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
