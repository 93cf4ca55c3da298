package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/deadletter"
	"chronos/node/service"
)

// deadReplayCommand puts dead letters back.
type deadReplayCommand struct {
	To  string `placeholder:"TOPIC" help:"Put all of them on this topic. Default the input topic that each came from."`
	Yes bool   `help:"Do it. Without it, say what would be done and change nothing."`

	NotAfter *text `placeholder:"INSTANT" help:"They are not to come out any more after that; none for no such limit."`

	deadFlags
}

// Help says what becomes of them.
func (c *deadReplayCommand) Help() string {
	return `After the cause is gone: each dead letter is written to the input topic that it came from, with its own key,
value and headers, and without those that Chronos has added. Its deadline is long past as a rule, so it fires at
once. It stays on the dead-letter topic: a second replay writes it again, and it fires again, unless its first copy
still waits. So name what you mean: --reason, --id, --since, --until. Nothing is written if these are more than --limit:
who went on with the same command would replay the same ones. A replay that ends half-way says which were written, and
with which --after to go on. Copies that were cut are left out: they have not all
of the record.

What had expired comes out late when it is put back, which its sender did not want: its copy has no limit any
more. Other records whose chronosNotAfter has passed meanwhile would expire again, and are left out. --not-after
gives both another limit, or none.`
}

// Run says what a replay would do, and does it if it was told to.
func (c *deadReplayCommand) Run(ctx context.Context, w *world) error {
	limit, err := c.asked()
	if err != nil {
		return err
	}
	client, found, more, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Yes && more {
		return fmt.Errorf("there are more than --limit %d dead letters of that kind, and nothing was written: another "+
			"replay would begin with the same ones; set --limit higher, or name fewer of them", c.Limit)
	}
	records, counts, skipped := c.records(found, limit)
	page := &page{out: w.stdout}
	counted(page, found, more)
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		page.line("%d are left out: %s.", skipped[reason], reason)
	}
	for _, topic := range slices.Sorted(maps.Keys(counts)) {
		page.line("%d go back to %s.", counts[topic], printable(topic))
	}
	if again := c.rejectedAgain(records); again > 0 {
		page.line("%d of them would be rejected again, since what is wrong with them has not changed; --reason, --id "+
			"and --since choose others.", again)
	}
	if late := expired(records); late > 0 && !limit.isSet() {
		page.line("%d of them had expired: they come out now, late as they are, and with no limit. --not-after sets "+
			"one; --reason chooses others.", late)
	}
	if !c.Yes || len(records) == 0 {
		if len(records) > 0 && page.err == nil {
			if err := existing(ctx, client, counts); err != nil {
				return err
			}
			page.line("Nothing was changed. The same command with --yes does it.")
		}
		return page.err
	}
	if err := c.write(ctx, client, page, records); err != nil {
		return err
	}
	page.line("Done: %d are written.", len(records))
	return page.err
}

// rejectedAgain counts those that nodes would reject once more, as far as that can be seen: by the settings of the
// nodes, if these are given, and by what holds for all nodes. Of a route that is not known only what was wrong before
// counts.
func (c *deadReplayCommand) rejectedAgain(records []replayed) (n int) {
	for i := range records {
		r := records[i].record
		in := instruction{record: r}
		unfit, err := c.values.Unfit(recordOf(r), in.header(node.HeaderTopic))
		if err == nil && unfit != nil && (string(unfit.Reason) == records[i].letter.Reason || c.values.Knows(r.Topic)) {
			n++
		}
	}
	return n
}

// existing returns an error for the first topic that is not there.
func existing(ctx context.Context, client *kgo.Client, counts map[string]int) error {
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(counts))
	topics, err := kadm.NewClient(client).ListTopics(limited, names...)
	if err != nil {
		return fmt.Errorf("look up the topics that they go back to: %s", service.CauseHere(err))
	}
	for _, name := range names {
		if found := topics[name]; found.Err != nil || len(found.Partitions) == 0 {
			return notFoundf("topic %s, which %d go back to, does not exist: create it, or name another one with --to",
				name, counts[name])
		}
	}
	return nil
}

// replayed is a dead letter on its way back.
type replayed struct {
	letter *deadLetter
	record *kgo.Record
}

// write writes records, and says after each chunk how far it has come: whoever ends it, or pulls the plug, knows what
// was written from then on.
func (c *deadReplayCommand) write(ctx context.Context, client *kgo.Client, page *page, all []replayed) error {
	written := offsets{}
	for n, chunk := range chunks(all) {
		records := make([]*kgo.Record, len(chunk))
		of := map[*kgo.Record]*deadLetter{}
		for i, r := range chunk {
			records[i], of[r.record] = r.record, r.letter
		}
		unknown := offsets{}
		var cause error
		for _, result := range client.ProduceSync(ctx, records...) {
			switch letter := of[result.Record]; {
			case result.Err == nil:
				written.add(letter)
			case cause == nil:
				cause = result.Err
				fallthrough
			default:
				unknown.add(letter)
			}
		}
		if cause != nil {
			return &replayError{
				topic: c.Topic, all: len(all), written: written, unknown: unknown, cause: cause, places: all,
			}
		}
		if last := chunk[len(chunk)-1].letter; n+len(chunk) < len(all) {
			page.line("%d of %d are written, up to offset %d of partition %d.", n+len(chunk), len(all),
				last.Offset, last.Partition)
		}
	}
	return nil
}

// chunks cuts what is to be written, in the order of partitions and offsets. It yields where each chunk begins.
func chunks(all []replayed) iter.Seq2[int, []replayed] {
	const most = 500
	return func(yield func(int, []replayed) bool) {
		for n := 0; n < len(all); n += most {
			if !yield(n, all[n:min(len(all), n+most)]) {
				return
			}
		}
	}
}

// offsets are those of dead letters, by partition.
type offsets map[int32][]int64

func (o offsets) add(letter *deadLetter) {
	o[letter.Partition] = append(o[letter.Partition], letter.Offset)
}

func (o offsets) count() (n int) {
	for _, list := range o {
		n += len(list)
	}
	return n
}

// String names them for a person: "partition 0: 3, 5 to 9".
func (o offsets) String() string {
	var partitions []string
	for _, partition := range slices.Sorted(maps.Keys(o)) {
		list := slices.Sorted(slices.Values(o[partition]))
		var parts []string
		for i := 0; i < len(list); {
			last := i
			for last+1 < len(list) && list[last+1] == list[last]+1 {
				last++
			}
			part := strconv.FormatInt(list[i], 10)
			if last > i {
				part += fmt.Sprintf(" to %d", list[last])
			}
			parts = append(parts, part)
			i = last + 1
		}
		partitions = append(partitions, fmt.Sprintf("partition %d: %s", partition, strings.Join(parts, ", ")))
	}
	return strings.Join(partitions, "; ")
}

// replayError says which dead letters were written when a replay ended too early.
type replayError struct {
	topic            string
	all              int
	written, unknown offsets
	places           []replayed
	cause            error
}

// Error returns the sentences.
func (e *replayError) Error() string {
	text := fmt.Sprintf("put dead letters of %s back: %s: %d of %d are written", e.topic, oneLine(e.cause),
		e.written.count(), e.all)
	if len(e.written) > 0 {
		text += " (" + e.written.String() + ")"
	}
	text += fmt.Sprintf("; these %d may be or may not (%s); all behind them are not", e.unknown.count(), e.unknown)
	if after := e.after(); after != "" {
		text += ": go on with the same command and --after " + after
	}
	return text
}

// Unwrap returns the cause.
func (e *replayError) Unwrap() error { return e.cause }

// after returns where to go on: in each partition, behind the last dead letter before which, and which itself, was
// surely written.
func (e *replayError) after() string {
	last := map[int32]int64{}
	ended := map[int32]bool{}
	for _, r := range e.places {
		partition, offset := r.letter.Partition, r.letter.Offset
		ended[partition] = ended[partition] || !slices.Contains(e.written[partition], offset)
		if !ended[partition] {
			last[partition] = offset
		}
	}
	var places []string
	for _, partition := range slices.Sorted(maps.Keys(last)) {
		places = append(places, fmt.Sprintf("%d:%d", partition, last[partition]))
	}
	return strings.Join(places, ",")
}

// records returns what to write, how many of them go where, and how many cannot, and why.
func (c *deadReplayCommand) records(
	found []deadLetter, limit limit,
) (records []replayed, counts, skipped map[string]int) {
	counts, skipped = map[string]int{}, map[string]int{}
	slices.SortFunc(found, func(a, b deadLetter) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for i := range found {
		d := &found[i]
		topic := c.To
		if topic == "" {
			topic = d.Source
		}
		switch {
		case d.Reason == "":
			skipped["they are no dead letters of Chronos"]++
			continue
		case d.Cut != "":
			skipped["they were cut, and have not all of the record"]++
			continue
		case topic == "":
			skipped["nobody knows which topic they came from: --to names one"]++
			continue
		case overdue(d.record.Headers) && !limit.isSet():
			skipped["their chronosNotAfter has passed, so that they would expire: --not-after gives them another one, "+
				"or none"]++
			continue
		}
		counts[topic]++
		records = append(records, replayed{d, &kgo.Record{
			Topic: topic, Key: d.record.Key, Value: d.record.Value,
			Headers: limit.limited(deadletter.Original(d.record.Headers)),
		}})
	}
	return records, counts, skipped
}

// expired counts those that were not published because it was too late.
func expired(records []replayed) (n int) {
	for _, r := range records {
		if r.letter.Reason == string(node.Expired) {
			n++
		}
	}
	return n
}
