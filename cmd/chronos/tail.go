package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// tailCommand prints what arrives on a topic.
type tailCommand struct {
	Topic     string `placeholder:"TOPIC" help:"Topic to follow. Default the output topic of the settings."`
	FromStart bool   `help:"Begin with what is there already. Without it, with what comes from now on."`
	Count     *int   `placeholder:"N" help:"Stop after that many messages."`
	Whole     bool   `help:"Print long values whole. Without it, what is beyond 4 KiB is left out."`

	clientSettings
}

// Help says what the output means.
func (c *tailCommand) Help() string {
	return `Each message is one line: its timestamp, how much later than its deadline that is, key, headers and
value. What is not printable is quoted and escaped; a null is <null>. Of what is longer than 4 KiB the
rest is counted, unless --whole is given.

The lateness can be told only of messages that carry their deadline. A node takes the header
chronosDeadline off unless it is told --relay-headers chronosDeadline; "chronos dev" is.`
}

// Run prints messages until there have been enough, or ctx is done.
func (c *tailCommand) Run(ctx context.Context, w *world) error {
	if c.Count != nil && *c.Count < 1 {
		return usagef("--count is %d: it must be 1 or more", *c.Count)
	}
	var err error
	if c.Topic, err = c.values.Output(c.Topic); err != nil {
		return err
	}
	client, err := connect(ctx, c.values)
	if err != nil {
		return err
	}
	defer client.Close()
	offsets, err := c.offsets(ctx, client)
	if err != nil {
		return err
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: offsets})
	where := "from now on"
	if c.FromStart {
		where = "from its start"
	}
	w.note("following %s %s; Ctrl-C stops", c.Topic, where)
	return c.follow(ctx, client, w)
}

// offsets returns where to begin in each partition. They are looked up before anything is said to be followed, so that
// whatever is sent from then on is seen.
func (c *tailCommand) offsets(ctx context.Context, client *kgo.Client) (map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	list := kadm.NewClient(client).ListEndOffsets
	if c.FromStart {
		list = kadm.NewClient(client).ListStartOffsets
	}
	listed, err := list(ctx, c.Topic)
	if err == nil {
		err = listed.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && len(listed[c.Topic]) == 0:
		return nil, notFoundf("topic %s does not exist; --topic names another one, and "+
			"\"chronos run --create-topics\" creates those that it uses", c.Topic)
	case err != nil:
		return nil, fmt.Errorf("look up where topic %s ends: %w", c.Topic, err)
	}
	offsets := map[int32]kgo.Offset{}
	for partition, offset := range listed[c.Topic] {
		offsets[partition] = kgo.NewOffset().At(offset.Offset)
	}
	return offsets, nil
}

// follow prints messages.
func (c *tailCommand) follow(ctx context.Context, client *kgo.Client, w *world) error {
	printed, limit := 0, longestField
	if c.Whole {
		limit = math.MaxInt
	}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if ctx.Err() == nil {
				w.note("topic %s: %s", c.Topic, oneLine(failed.Err))
			}
		}
		for records := fetches.RecordIter(); !records.Done(); {
			if err := printRecord(w.stdout, records.Next(), limit); err != nil {
				return err
			}
			if printed++; c.Count != nil && printed == *c.Count {
				return nil
			}
		}
	}
	return nil
}

// longestField is how many bytes of a key, a header or a value are printed: more is no longer read by anybody, and a
// terminal is busy with 20 MB for a minute.
const longestField = 4 << 10

// printRecord prints a record as one line, with at most limit bytes of each of its fields.
func printRecord(out io.Writer, r *kgo.Record, limit int) error {
	headers := make([]string, len(r.Headers))
	late := "-"
	for i, h := range r.Headers {
		headers[i] = cut([]byte(h.Key), limit, readableWord) + "=" + cut(h.Value, limit, readableWord)
		if h.Key != node.HeaderDeadline {
			continue
		}
		if deadline, err := node.ParseDeadline(node.HeaderText(h.Value), node.EpochRejected); err == nil {
			late = lateness(since(r.Timestamp, deadline))
		}
	}
	if isAbout(r) {
		late = "-"
	}
	_, err := fmt.Fprintf(out, "%s  %s  key=%s  headers=[%s]  %s\n",
		r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z"), late,
		cut(r.Key, limit, readableWord), strings.Join(headers, " "), cut(r.Value, limit, readable))
	return err
}

// since returns how long after a deadline a timestamp of Kafka is. It has milliseconds only, and the deadline may have
// more: what is earlier by less than one came at its deadline.
func since(timestamp, deadline time.Time) time.Duration {
	if d := timestamp.Sub(deadline); d >= 0 || d <= -time.Millisecond {
		return d
	}
	return 0
}

// isAbout reports whether a record tells of a message, as an outcome and a dead letter do: the deadline in it is that
// of the message, and not of the record.
func isAbout(r *kgo.Record) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool {
		return h.Key == node.HeaderOutcome || h.Key == node.HeaderReason
	})
}

// cut shows bytes to a person, and says what it leaves out beyond limit of them. It does not cut a letter in two.
func cut(b []byte, limit int, show func([]byte) string) string {
	if len(b) <= limit {
		return show(b)
	}
	end := limit
	for end > limit-utf8.UTFMax && end > 0 && !utf8.RuneStart(b[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes more)", show(b[:end]), len(b)-end)
}

// lateness says how late something was.
func lateness(d time.Duration) string {
	word := "late"
	if d < 0 {
		d, word = -d, "early"
	}
	if d >= 10*time.Second {
		return fmt.Sprintf("%v %s", d.Round(time.Second), word)
	}
	return fmt.Sprintf("%.1f ms %s", float64(d)/float64(time.Millisecond), word)
}
