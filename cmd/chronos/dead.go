package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/deadletter"
)

// deadCommand is about dead-letter topics.
type deadCommand struct {
	List   deadListCommand   `cmd:"" help:"List what a dead-letter topic has, and why."`
	Show   deadShowCommand   `cmd:"" help:"Show dead letters whole."`
	Replay deadReplayCommand `cmd:"" help:"Put dead letters back on the topics that they came from."`
}

// nextTimeout is how long the next records of a topic may take to come.
const nextTimeout = 15 * time.Second

// deadFlags say which dead letters are meant.
type deadFlags struct {
	Topic   string   `arg:"" optional:"" help:"The dead-letter topic. Default that of the settings."`
	Reason  string   `placeholder:"REASON" help:"Only those with this reason, as list shows it."`
	ID      string   `name:"id" placeholder:"ID" help:"Only those of this message id."`
	Since   *text    `placeholder:"INSTANT" help:"Only those that were written from then on. No zone is UTC."`
	Until   *text    `placeholder:"INSTANT" help:"Only those that were written before."`
	After   []string `placeholder:"PARTITION:OFFSET" help:"Only those behind that offset, in that partition."`
	Limit   int      `default:"1000" placeholder:"N" help:"No more than that."`
	Output  string   `short:"o" enum:"table,json" default:"table" placeholder:"FORM" help:"table, for people, or json."`
	between [2]time.Time
	after   map[int32]int64 // by partition

	clientSettings
}

// deadLetter is a dead letter with its record.
type deadLetter struct {
	deadletter.Letter

	record *kgo.Record
}

// deadLetters are what a list of them is as JSON.
type deadLetters struct {
	DeadLetters []deadLetter `json:"dead_letters"`
	More        bool         `json:"more"` // than --limit
}

// bounds finds the topic, and reads the times.
func (f *deadFlags) bounds() (err error) {
	if f.Topic, err = f.values.DeadLetters(f.Topic); err != nil {
		return err
	}
	if f.Topic == "" {
		return usagef("TOPIC is not set, and the settings name no dead-letter topic: name it, such as %s, which is "+
			"that of \"chronos dev\"", devDead)
	}
	if f.Limit < 1 {
		return usagef("--limit is %d: it must be 1 or more", f.Limit)
	}
	for i, value := range []*text{f.Since, f.Until} {
		if value == nil {
			continue
		}
		at, err := node.ParseDeadline([]byte(*value), node.EpochRejected)
		if err != nil {
			return usagef("--%s is %s: %v", []string{"since", "until"}[i], shown(string(*value)), err)
		}
		f.between[i] = at
	}
	f.after = map[int32]int64{}
	for _, place := range f.After {
		partition, offset, both := strings.Cut(place, ":")
		p, wrong := strconv.ParseInt(partition, 10, 32)
		o, also := strconv.ParseInt(offset, 10, 64)
		if !both || wrong != nil || also != nil || p < 0 || o < 0 {
			return usagef("--after is %s: it must be PARTITION:OFFSET, such as 0:499, or several with commas between",
				shown(place))
		}
		f.after[int32(p)] = o
	}
	return nil
}

func (f *deadFlags) matches(d *deadLetter) bool {
	after, only := f.after[d.Partition]
	return (!only || d.Offset > after) && (f.Reason == "" || d.Reason == f.Reason) && (f.ID == "" || d.ID == f.ID) &&
		!d.Written.Before(f.between[0]) && (f.between[1].IsZero() || d.Written.Before(f.between[1]))
}

// letters returns the dead letters that are meant, of those that the topic has now, and whether there are more of them
// than the limit.
func (f *deadFlags) letters(ctx context.Context, client *kgo.Client) (found []deadLetter, more bool, err error) {
	ends, err := f.begin(ctx, client)
	if err != nil {
		return nil, false, err
	}
	for len(ends) > 0 {
		fetches, err := f.poll(ctx, client, ends)
		if err != nil {
			return nil, false, err
		}
		if failed := fetches.Errors(); len(failed) > 0 {
			return nil, false, fmt.Errorf("read topic %s: %s", f.Topic, oneLine(failed[0].Err))
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			end, wanted := ends[r.Partition]
			if !wanted {
				continue
			}
			if r.Offset+1 >= end {
				delete(ends, r.Partition)
			}
			if r.Offset >= end || r.Attrs.IsControl() {
				continue // The mark at the end of a transaction is no dead letter, but it can be the last one there is.
			}
			if d := (deadLetter{deadletter.Read(r), r}); f.matches(&d) {
				if len(found) == f.Limit {
					return found, true, nil
				}
				found = append(found, d)
			}
		}
	}
	slices.SortFunc(found, func(a, b deadLetter) int { return a.Written.Compare(b.Written) })
	return found, false, nil
}

// poll returns what comes next. Partitions whose ends do not come although a broker answers have lost them meanwhile,
// to retention or compaction: nobody can tell that from a slow broker, so it is an error and no short list.
func (f *deadFlags) poll(ctx context.Context, client *kgo.Client, ends map[int32]int64) (kgo.Fetches, error) {
	limited, cancel := context.WithTimeout(ctx, nextTimeout)
	defer cancel()
	fetches := client.PollFetches(limited)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil && fetches.NumRecords() == 0:
		var rest []string
		for _, partition := range slices.Sorted(maps.Keys(ends)) {
			rest = append(rest, fmt.Sprintf("%d up to offset %d", partition, ends[partition]-1))
		}
		return nil, fmt.Errorf("read topic %s: nothing has come for %v of partition %s; try again",
			f.Topic, nextTimeout, strings.Join(rest, ", "))
	}
	return fetches, nil
}

// begin has the client read all partitions from the first wanted record on, and returns where to end.
func (f *deadFlags) begin(ctx context.Context, client *kgo.Client) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	cluster := kadm.NewClient(client)
	last, err := cluster.ListEndOffsets(ctx, f.Topic)
	if err == nil {
		err = last.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, notFoundf("topic %s does not exist; TOPIC is the name of a dead-letter topic", f.Topic)
	}
	if err != nil {
		return nil, fmt.Errorf("look up where topic %s ends: %w", f.Topic, err)
	}
	list := func(ctx context.Context) (kadm.ListedOffsets, error) { return cluster.ListStartOffsets(ctx, f.Topic) }
	if !f.between[0].IsZero() {
		list = func(ctx context.Context) (kadm.ListedOffsets, error) {
			return cluster.ListOffsetsAfterMilli(ctx, f.between[0].UnixMilli(), f.Topic)
		}
	}
	first, err := list(ctx)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("look up where topic %s begins: %w", f.Topic, err)
	}
	ends, from := map[int32]int64{}, map[int32]kgo.Offset{}
	for partition, end := range last[f.Topic] {
		if begin := first[f.Topic][partition].Offset; begin < end.Offset {
			ends[partition], from[partition] = end.Offset, kgo.NewOffset().At(begin)
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{f.Topic: from})
	return ends, nil
}

// open connects, and returns the dead letters that are meant.
func (f *deadFlags) open(ctx context.Context) (client *kgo.Client, found []deadLetter, more bool, err error) {
	if err := f.bounds(); err != nil {
		return nil, nil, false, err
	}
	if client, err = connect(ctx, f.values, kgo.KeepControlRecords(),
		kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(2*answerTimeout)); err != nil {
		return nil, nil, false, err
	}
	if found, more, err = f.letters(ctx, client); err != nil {
		client.Close()
		return nil, nil, false, err
	}
	return client, found, more, nil
}

// deadListCommand lists dead letters.
type deadListCommand struct{ deadFlags }

// Run lists them.
func (c *deadListCommand) Run(ctx context.Context, w *world) error {
	client, found, more, err := c.open(ctx)
	if err != nil {
		return err
	}
	client.Close()
	if c.Output == "json" {
		return printJSON(w.stdout, deadLetters{slices.Concat([]deadLetter{}, found), more})
	}
	page := &page{out: w.stdout}
	rows := [][]any{{"written", "partition", "offset", "id", "reason", "came from", "error"}}
	for i := range found {
		d := &found[i]
		rows = append(rows, []any{
			d.Written.Format("2006-01-02T15:04:05.000Z"), d.Partition, d.Offset, cut([]byte(d.ID), 128, readable),
			d.Reason,
			d.Source, cut([]byte(d.Error), 100, readable),
		})
	}
	if len(found) > 0 {
		page.table(rows...)
	}
	counted(page, found, more)
	return page.err
}

// counted says how many there are, by reason.
func counted(page *page, found []deadLetter, more bool) {
	reasons := map[string]int{}
	for i := range found {
		reasons[found[i].Reason]++
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%s %d", printable(reason), reasons[reason]))
	}
	sentence := number(int64(len(found)), "dead letter")
	if len(parts) > 0 {
		sentence += ": " + strings.Join(parts, ", ")
	}
	if more {
		sentence += "; there are more, see --limit"
	}
	page.line("%s.", sentence)
}

// deadShowCommand shows dead letters whole.
type deadShowCommand struct{ deadFlags }

// Run shows them.
func (c *deadShowCommand) Run(ctx context.Context, w *world) error {
	client, found, more, err := c.open(ctx)
	if err != nil {
		return err
	}
	client.Close()
	page := &page{out: w.stdout}
	for i := range found {
		r := found[i].record
		rows := [][]any{
			{"partition", r.Partition},
			{"offset", r.Offset},
			{"written", found[i].Written.Format(time.RFC3339Nano)},
			{"key", cut(r.Key, longestField, readable)},
		}
		for _, h := range r.Headers {
			value := cut(h.Value, longestField, readable)
			rows = append(rows, []any{"header", readableWord([]byte(h.Key)) + " = " + value})
		}
		page.table(append(rows, []any{"value", cut(r.Value, longestField, readable)})...)
		page.line("")
	}
	counted(page, found, more)
	return page.err
}
