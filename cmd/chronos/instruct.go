package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// instruction is a record that asks for something.
type instruction struct {
	action node.Action
	id     string
	record *kgo.Record

	// told says that nodes tell of its outcome.
	told bool
}

// headers returns the headers of the record: what it is about, and then the others.
func (in *instruction) headers(others []kgo.RecordHeader) []kgo.RecordHeader {
	headers := []kgo.RecordHeader{{Key: node.HeaderID, Value: node.AsHeader(in.id)}}
	if in.action != node.Schedule {
		headers = append(headers, kgo.RecordHeader{Key: node.HeaderAction, Value: []byte(in.action.String())})
	}
	return append(headers, others...)
}

// check returns an error if the id, which is called what, is none.
func (in *instruction) check(what string) error {
	if in.id == "" || len(in.id) > node.MaxIDLength || !utf8.ValidString(in.id) || strings.ContainsRune(in.id, 0) {
		return usagef("%s is %s: it must be 1 to %d bytes of UTF-8 without NUL", what, shown(in.id), node.MaxIDLength)
	}
	return nil
}

// header returns a header of the record; "" if there is none.
func (in *instruction) header(name string) string {
	for _, h := range in.record.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// What the help of each command that changes a message says.
const (
	sameKey = `A message is named by its id and its output topic. Give the --key that it was sent with: the same key and
the same partitioner are the same partition, where records act in the order in which they were sent. In
another one this one may act before the message has come in, and find nothing; with a journal it never
finds it. Say --partitioner crc32 for what was sent by librdkafka (kcat, confluent-kafka, rdkafka and
others), fnv1a for sarama and segmentio, or --partition if you know it.`

	exitCodes = `Exit code 0: done; 3: too late, it comes out as it is; 4: not found; 1: anything else, such as that
nobody has told of an outcome within --timeout.`
)

// fireCommand has a message appear now.
type fireCommand struct {
	ID text `arg:"" name:"id" help:"The id of the message."`

	placeFlags
	outcomeFlags
	submitSettings
}

// Help says what happens.
func (c *fireCommand) Help() string {
	return `The message appears now in place of its deadline, and can be neither cancelled nor rescheduled from then on.

` + sameKey + `

` + exitCodes
}

// Run sends the instruction, and prints its outcome.
func (c *fireCommand) Run(ctx context.Context, w *world) error {
	in := instruction{action: node.FireNow, id: string(c.ID), told: true}
	in.record = c.record(in.headers(nil))
	if err := in.check("ID"); err != nil {
		return err
	}
	return c.instruct(ctx, w, c.values, &in, &c.partitionFlags)
}

// rescheduleCommand has a message appear at another time.
type rescheduleCommand struct {
	ID text `arg:"" name:"id" help:"The id of the message."`

	whenFlags
	placeFlags
	outcomeFlags
	submitSettings
}

// Help says what happens.
func (c *rescheduleCommand) Help() string {
	return `The message keeps its key, its value and its headers, and appears at the new time.

` + sameKey + `

` + exitCodes
}

// Run sends the instruction, and prints its outcome.
func (c *rescheduleCommand) Run(ctx context.Context, w *world) error {
	in := instruction{action: node.Reschedule, id: string(c.ID), told: true}
	when, err := c.when(time.Now(), false)
	if err != nil {
		return err
	}
	in.record = c.record(in.headers(when))
	if err := in.check("ID"); err != nil {
		return err
	}
	return c.instruct(ctx, w, c.values, &in, &c.partitionFlags)
}

// replaceCommand puts a message in the place of another one.
type replaceCommand struct {
	ID    text  `arg:"" name:"id" help:"The id of the message."`
	Value *text `arg:"" optional:"" help:"Its new value. Without it, or with -, standard input, byte for byte."`

	whenFlags
	messageFlags
	outcomeFlags
	submitSettings
}

// Help says what happens.
func (c *replaceCommand) Help() string {
	return `The new message takes the place of the one with that id, whatever has become of that: there is no too
late. If the former one may have come out, or may still, the outcome says so. If there is none, the new
one is scheduled.

` + sameKey + `

Exit code 0: done; 1: anything else, such as that nobody has told of an outcome within --timeout.`
}

// Run sends the instruction, and prints its outcome.
func (c *replaceCommand) Run(ctx context.Context, w *world) error {
	in := instruction{action: node.Replace, id: string(c.ID), told: true}
	when, err := c.when(time.Now(), c.Repeat != nil)
	if err != nil {
		return err
	}
	if in.record, err = c.record(in.headers(when)); err != nil {
		return err
	}
	if err := in.check("ID"); err != nil {
		return err
	}
	if in.record.Value, err = c.value(ctx, c.Value, w.stdin); err != nil {
		return err
	}
	return c.instruct(ctx, w, c.values, &in, &c.partitionFlags)
}

// outcomeFlags say what to do about the outcome of an instruction.
type outcomeFlags struct {
	NoWait  bool   `group:"outcome" help:"Do not wait for the outcome: end when Kafka has the record."`
	Timeout text   `group:"outcome" default:"30s" help:"How long to wait for the outcome."`
	Output  string `group:"outcome" short:"o" enum:"line,json" default:"line" help:"line, for people, or json."`
}

// instruct sends the record of an instruction, waits for its outcome, if there is to be one, and prints that.
func (f *outcomeFlags) instruct(
	ctx context.Context, w *world, settings *service.Settings, in *instruction, to *partitionFlags,
) error {
	timeout, err := f.timeout()
	if err != nil {
		return err
	}
	if in.record.Topic, err = settings.Input(in.record.Topic, in.header(node.HeaderTopic)); err != nil {
		return err
	}
	if err := settings.Refusal(recordOf(in.record), in.header(node.HeaderTopic)); err != nil {
		return err
	}
	topic := ""
	if in.told && !f.NoWait {
		if topic, err = settings.Outcomes(in.record.Topic); err != nil {
			return err
		}
	}
	options := append(kafka.ProducerOptions(), to.option(),
		kgo.UnknownTopicRetries(1), kgo.RecordDeliveryTimeout(2*answerTimeout), kgo.ProducerBatchMaxBytes(64<<20))
	client, err := connect(ctx, settings, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if topic != "" {
		// Where the topic ends is looked up before the record is sent, so that its outcome cannot be missed.
		ends, err := endsOf(ctx, client, topic)
		if err != nil {
			return err
		}
		client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: ends})
	}
	if err := to.choose(ctx, client, in.record); err != nil {
		return err
	}
	switch err := client.ProduceSync(ctx, in.record).FirstErr(); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist; --topic names another one, and "+
			"\"chronos run --create-topics\" creates those that it uses", in.record.Topic)
	case err != nil:
		return fmt.Errorf("send to topic %s: %w; it may have arrived nevertheless", in.record.Topic, err)
	}
	if topic == "" {
		return f.printSent(w, in)
	}
	o, err := awaitOutcome(ctx, client, topic, in.record, timeout)
	if err != nil {
		return err
	}
	return f.print(w, o)
}

// recordOf returns a record as nodes will read it.
func recordOf(r *kgo.Record) node.Record {
	record := node.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Timestamp: time.Now()}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, node.Header{Name: h.Key, Value: h.Value})
	}
	return record
}

// timeout reads how long to wait.
func (f *outcomeFlags) timeout() (time.Duration, error) {
	timeout := time.Duration(0)
	value := service.FlagValue("timeout", string(f.Timeout))
	if err := value.Duration(&timeout); err != nil {
		return 0, err
	}
	if timeout <= 0 {
		return 0, value.Wrong("it must be more than 0s; to wait for nothing there is --no-wait")
	}
	return timeout, nil
}

// printSent says what was sent.
func (f *outcomeFlags) printSent(w *world, in *instruction) error {
	if f.Output == "json" {
		return printJSON(w.stdout, &outcome{
			ID: in.id, Action: in.action.String(), Topic: in.record.Topic, Partition: in.record.Partition,
			Offset: in.record.Offset, Deadline: in.header(node.HeaderDeadline), Delay: in.header(node.HeaderDelay),
		})
	}
	deadline := in.header(node.HeaderDeadline)
	if at, err := node.ParseDeadline([]byte(deadline), node.EpochRejected); err == nil && at.Before(time.Now()) {
		deadline += ", which has passed"
	}
	lines := []struct{ name, value string }{
		{"id", readable([]byte(in.id))},
		{"action", in.header(node.HeaderAction)},
		{"deadline", deadline},
		{"delay", in.header(node.HeaderDelay)},
		{"state", map[bool]string{
			false: "sent: nodes decide when they read it, and --confirm waits for that",
			true:  "sent: nodes decide when they read it",
		}[f.NoWait]},
	}
	for _, line := range lines {
		if line.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(w.stdout, "%-8s  %s\n", line.name, line.value); err != nil {
			return err
		}
	}
	return nil
}
