package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// sendCommand sends one message.
type sendCommand struct {
	In *text `group:"message" placeholder:"TIME" help:"In how long it is to appear, such as 5s, 1h30m or 7d."`
	At *text `group:"message" placeholder:"INSTANT" help:"When it is to appear. Without a zone it is UTC."`

	ID        *text  `group:"message" name:"id" placeholder:"ID" help:"Its id, to 128 bytes. Default a random UUID."`
	Key       *text  `group:"message" placeholder:"KEY" help:"Its key. Default none, which is not an empty one."`
	Header    []text `group:"message" sep:"none" placeholder:"NAME=VALUE" help:"One more header. May be repeated."`
	NullValue bool   `group:"message" help:"Send a null for a value: a tombstone."`
	Topic     string `group:"message" default:"chronos.in" help:"Input topic."`

	Value *text `arg:"" optional:"" help:"Its value. Without it, or with -, standard input, byte for byte."`

	clientSettings
}

// text is an argument, byte for byte: kong itself would replace what is not UTF-8.
type text string

// Decode takes the argument.
func (t *text) Decode(line *kong.DecodeContext) error {
	value, err := popValue(line)
	*t = text(value)
	return err
}

// Help shows what a command line looks like.
func (c *sendCommand) Help() string {
	return `Examples:

    chronos send --in 5s 'hello'
    chronos send --at 2030-01-31T09:00:00Z --key order-1 --header kind=reminder <message.json
    chronos send --in 1d12h --id reminder-17 --key user-9 --null-value`
}

// deadlineForm is how a deadline is written: UTC, in microseconds, which is what a store keeps.
const deadlineForm = "2006-01-02T15:04:05.000000Z"

// Run sends the message and prints its id and deadline.
func (c *sendCommand) Run(ctx context.Context, w *world) error {
	record, id, deadline, err := c.record(ctx, w.stdin)
	if err != nil {
		return err
	}
	options := append(kafka.ProducerOptions(),
		kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(2*answerTimeout), kgo.ProducerBatchMaxBytes(64<<20))
	client, err := connect(ctx, c.values, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	switch err := client.ProduceSync(ctx, record).FirstErr(); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist; --topic names another one, and "+
			"\"chronos run --create-topics\" creates those that it uses", c.Topic)
	case err != nil:
		return fmt.Errorf("send to topic %s: %w; it may have arrived nevertheless", c.Topic, err)
	}
	_, err = fmt.Fprintf(w.stdout, "id        %s\ndeadline  %s\n", readable([]byte(id)), deadline.Format(deadlineForm))
	return err
}

// record returns the record to send, its id and its deadline.
func (c *sendCommand) record(ctx context.Context, stdin io.Reader) (*kgo.Record, string, time.Time, error) {
	deadline, err := c.deadline(time.Now())
	if err != nil {
		return nil, "", deadline, err
	}
	id := uuid.NewString()
	if c.ID != nil {
		id = string(*c.ID)
		if id == "" || len(id) > node.MaxIDLength || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
			return nil, "", deadline, usagef(
				"--id is %s: it must be 1 to %d bytes of UTF-8 without NUL", shown(id), node.MaxIDLength)
		}
	}
	record := &kgo.Record{Topic: c.Topic, Headers: []kgo.RecordHeader{
		{Key: node.HeaderID, Value: []byte(id)},
		{Key: node.HeaderDeadline, Value: []byte(deadline.Format(deadlineForm))},
	}}
	if c.Key != nil {
		record.Key = []byte(*c.Key)
	}
	for _, header := range c.Header {
		name, value, ok := strings.Cut(string(header), "=")
		switch {
		case !ok || name == "":
			return nil, "", deadline, usagef("--header is %s: it must be NAME=VALUE", shown(string(header)))
		case name == node.HeaderID || name == node.HeaderDeadline:
			return nil, "", deadline, usagef(
				"--header is %s: use --id, and --in or --at, for the headers of Chronos", shown(string(header)))
		}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	record.Value, err = c.value(ctx, stdin)
	return record, id, deadline, err
}

// deadline returns when the message is to appear.
func (c *sendCommand) deadline(now time.Time) (time.Time, error) {
	switch {
	case c.In != nil && c.At != nil:
		return time.Time{}, usagef("--in and --at exclude each other: only one of them may be set")
	case c.In != nil:
		in := service.FlagValue("in", string(*c.In))
		var d time.Duration
		err := in.Duration(&d)
		return now.Add(d).UTC(), err
	case c.At != nil:
		at, err := node.ParseDeadline([]byte(*c.At), node.EpochRejected)
		if err != nil {
			return time.Time{}, usagef("--at is %s: %v", shown(string(*c.At)), err)
		}
		return at, nil
	default:
		return time.Time{}, usagef("neither --in nor --at is set: one of them must say when the message is to appear")
	}
}

// value returns the value, nil for a null.
func (c *sendCommand) value(ctx context.Context, stdin io.Reader) ([]byte, error) {
	switch {
	case c.NullValue && c.Value != nil:
		return nil, usagef("--null-value is set, but there is a value as well: %s", shown(string(*c.Value)))
	case c.NullValue:
		return nil, nil
	case c.Value != nil && *c.Value != "-":
		return []byte(*c.Value), nil
	case c.Value == nil && isTerminal(stdin):
		return nil, usagef("there is no value: give it as an argument, on standard input, or say --null-value")
	}
	type result struct {
		value []byte
		err   error
	}
	read := make(chan result, 1)
	go func() { // A read cannot be interrupted. This one is left behind when the process is told to end.
		value, err := io.ReadAll(stdin)
		read <- result{value, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return nil, fmt.Errorf("read the value: %w", r.err)
		}
		return r.value, nil // ReadAll returns no nil: an empty value is not a null.
	case <-ctx.Done():
		return nil, errors.New("interrupted before there was a value: nothing was sent")
	}
}
