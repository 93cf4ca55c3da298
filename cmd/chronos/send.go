package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/callback"
	"chronos/node/service"
)

// sendCommand sends one message.
type sendCommand struct {
	whenFlags

	ID *text `group:"message" name:"id" placeholder:"ID" help:"Its id, to 128 bytes. Default a random UUID."`

	messageFlags

	Confirm bool `group:"outcome" help:"Have the nodes tell what becomes of it, and wait for that."`

	outcomeFlags

	Value *text `arg:"" optional:"" help:"Its value. Without it, or with -, standard input, byte for byte."`

	submitSettings
}

// whenFlags say when a message is to appear.
type whenFlags struct {
	In    *text `group:"message" placeholder:"TIME" help:"In how long it is to appear, such as 5s, 1h30m or 7d."`
	At    *text `group:"message" placeholder:"INSTANT" help:"When it is to appear. Without a zone it is UTC."`
	Delay *text `group:"message" placeholder:"TIME" help:"As --in, but counted from the record's timestamp in Kafka."`
}

// placeFlags say where an instruction goes.
type placeFlags struct {
	Key      *text  `group:"message" placeholder:"KEY" help:"Its key. Default none, which is not an empty one."`
	Topic    string `group:"message" placeholder:"TOPIC" help:"Input topic. Default that of the settings."`
	TopicOut *text  `group:"message" placeholder:"TOPIC" help:"Output topic or callback lane, out of --targets."`

	partitionFlags
}

// messageFlags are what a message has besides its id and its value.
type messageFlags struct {
	placeFlags

	repeatFlags

	callFlags

	NotAfter  *text  `group:"message" placeholder:"INSTANT" help:"It is not to appear any more after that."`
	Header    []text `group:"message" sep:"none" placeholder:"NAME=VALUE" help:"One more header. May be repeated."`
	NullValue bool   `group:"message" help:"Send a null for a value: a tombstone."`
}

// callFlags make a message a callback.
type callFlags struct {
	URL    *text `group:"message" name:"url" placeholder:"URL" help:"Request it, on lane http:default or --topic-out."`
	Method *text `group:"message" placeholder:"NAME" help:"Method of that request. Default POST."`
}

// callHeaders returns the headers that make a message a callback, if it is one.
func (f *callFlags) callHeaders(topicOut *text) ([]kgo.RecordHeader, error) {
	if f.URL == nil {
		if f.Method != nil {
			return nil, usagef("--method is set, and --url is not: it must say what to request")
		}
		return nil, nil
	}
	u, err := url.Parse(string(*f.URL))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--url is %s: it must begin with http:// or https://", shown(string(*f.URL)))
	}
	headers := []kgo.RecordHeader{{Key: node.HeaderURL, Value: []byte(*f.URL)}}
	if f.Method != nil && !slices.Contains(callback.Methods(), string(*f.Method)) {
		return nil, usagef("--method is %s: it must be one of %s", shown(string(*f.Method)),
			strings.Join(callback.Methods(), ", "))
	}
	if f.Method != nil {
		headers = append(headers, kgo.RecordHeader{Key: node.HeaderMethod, Value: []byte(*f.Method)})
	}
	switch {
	case topicOut == nil:
		headers = append(headers, kgo.RecordHeader{Key: node.HeaderTopic, Value: []byte(anyCallback)})
	case !node.IsCallbackLane(string(*topicOut)):
		return nil, usagef("--topic-out is %s, and --url is set: a callback has a lane such as http:orders",
			shown(string(*topicOut)))
	}
	return headers, nil
}

// repeatFlags make a message a series.
type repeatFlags struct {
	Repeat      *text `group:"series" placeholder:"RULE" help:"How often: 'every 20s', '30 9 * * *', '@daily'."`
	RepeatZone  *text `group:"series" placeholder:"ZONE" help:"Time zone of a cron expression. Default UTC."`
	RepeatCount *text `group:"series" placeholder:"N" help:"How many times it comes."`
	RepeatUntil *text `group:"series" placeholder:"INSTANT" help:"The last instant at which it comes."`
	Missed      *text `group:"series" placeholder:"POLICY" help:"What becomes of what was missed: one, all or skip."`
}

// seriesHeaders returns the headers that make a message a series, if it is one. They are checked as the nodes will.
func (f *repeatFlags) seriesHeaders() ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	words := calendar.Words{Asked: time.Now()}
	for _, flag := range []struct {
		name, header string
		value        *text
		word         *string
	}{
		{"repeat", node.HeaderRepeat, f.Repeat, &words.Repeat},
		{"repeat-zone", node.HeaderRepeatZone, f.RepeatZone, &words.Zone},
		{"repeat-count", node.HeaderRepeatCount, f.RepeatCount, &words.Count},
		{"missed", node.HeaderMissed, f.Missed, &words.Missed},
		{"repeat-until", node.HeaderRepeatUntil, f.RepeatUntil, nil},
	} {
		switch {
		case flag.value == nil:
			continue
		case f.Repeat == nil:
			return nil, usagef("--%s is set, and --repeat is not: it must say how often the message comes", flag.name)
		case flag.word != nil:
			if flag.header == node.HeaderRepeatZone {
				*flag.value = text(calendar.ZoneName(string(*flag.value)))
			}
			*flag.word = string(*flag.value)
		default:
			until, err := instant(flag.name, string(*flag.value))
			if err != nil {
				return nil, err
			}
			*flag.value = text(until.Format(deadlineForm))
		}
		headers = append(headers, kgo.RecordHeader{Key: flag.header, Value: []byte(*flag.value)})
	}
	if f.Repeat == nil {
		return nil, nil
	}
	if _, err := calendar.New(words); err != nil {
		return nil, usagef("the series can't be: %v", err)
	}
	return headers, nil
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
    chronos send --in 1d12h --id reminder-17 --key user-9 --null-value
    chronos send --repeat '30 9 * * mon-fri' --repeat-zone Europe/Berlin --id standup 'good morning'
    chronos send --in 10s --repeat 'every 20s' --repeat-count 3 'ping'
    chronos send --delay 10m --not-after 2030-01-31T10:00:00Z --topic-out mails --confirm 'hello'
    chronos send --in 5s --url https://example.com/hooks/17 --header content-type=application/json '{"order":1}'

What nodes would reject is refused before it is sent, as far as that can be seen: by what holds for all nodes, and by
the routes and limits in the settings, such as those of --config. Beyond that nodes decide when they read the
record. With --confirm the command waits for that: the exit code is 0 if the message is scheduled, and 1 if it is not,
since it was rejected, or a message with its id waits already.`
}

// deadlineForm is how a deadline is written: UTC, in microseconds, which is what a store keeps.
const deadlineForm = "2006-01-02T15:04:05.000000Z"

// Run sends the message and prints its id and deadline, or what has become of it.
func (c *sendCommand) Run(ctx context.Context, w *world) error {
	id := text(uuid.NewString())
	if c.ID != nil {
		id = *c.ID
	}
	in := instruction{action: node.Schedule, id: string(id), told: c.Confirm}
	when, err := c.when(time.Now(), c.Repeat != nil)
	if err != nil {
		return err
	}
	if c.Confirm {
		when = append(when, kgo.RecordHeader{Key: node.HeaderConfirm, Value: []byte("true")})
	}
	if in.record, err = c.record(in.headers(when)); err != nil {
		return err
	}
	if err := in.check("--id"); err != nil {
		return err
	}
	if in.record.Value, err = c.value(ctx, c.Value, w.stdin); err != nil {
		return err
	}
	return c.instruct(ctx, w, c.values, &in, &c.partitionFlags)
}

// when returns the header that says when a message is to appear, which a series need not have.
func (f *whenFlags) when(now time.Time, series bool) ([]kgo.RecordHeader, error) {
	var set []string
	var name, value string
	for _, flag := range []struct {
		name  string
		value *text
	}{{"in", f.In}, {"at", f.At}, {"delay", f.Delay}} {
		if flag.value != nil {
			set, name, value = append(set, "--"+flag.name), flag.name, string(*flag.value)
		}
	}
	switch len(set) {
	case 0:
		if series {
			return nil, nil
		}
		return nil, usagef("none of --in, --at and --delay is set: one of them must say when the message is to appear")
	case 1:
	default:
		return nil, usagef("%s and %s exclude each other: only one of them may be set", set[0], set[1])
	}
	deadline := func(at time.Time) []kgo.RecordHeader {
		return []kgo.RecordHeader{{Key: node.HeaderDeadline, Value: []byte(at.UTC().Format(deadlineForm))}}
	}
	switch name {
	case "in":
		in := service.FlagValue("in", value)
		var d time.Duration
		err := in.Duration(&d)
		return deadline(now.Add(d)), err
	case "at":
		at, err := instant("at", value)
		return deadline(at), err
	default:
		if _, err := calendar.ParseDelay(value); err != nil {
			return nil, usagef("--delay is %s: %v", shown(value), err)
		}
		return []kgo.RecordHeader{{Key: node.HeaderDelay, Value: []byte(value)}}, nil
	}
}

// instant reads the value of a flag.
func instant(flag, value string) (time.Time, error) {
	at, err := node.ParseDeadline([]byte(value), node.EpochRejected)
	if err != nil {
		return at, usagef("--%s is %s: %v", flag, shown(value), err)
	}
	return at, nil
}

// record returns a record with these headers and those that the flags ask for, without a value.
func (f *placeFlags) record(headers []kgo.RecordHeader) *kgo.Record {
	record := &kgo.Record{Topic: f.Topic, Headers: headers}
	if f.TopicOut != nil {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: node.HeaderTopic, Value: []byte(*f.TopicOut)})
	}
	if f.Key != nil {
		record.Key = []byte(*f.Key)
	}
	return record
}

// record returns a record with these headers and those that the flags ask for, without a value.
func (f *messageFlags) record(headers []kgo.RecordHeader) (*kgo.Record, error) {
	if f.NotAfter != nil {
		if f.Repeat != nil {
			return nil, usagef("--not-after and --repeat exclude each other: a series ends by --repeat-until")
		}
		last, err := instant("not-after", string(*f.NotAfter))
		if err != nil {
			return nil, err
		}
		headers = append(headers,
			kgo.RecordHeader{Key: node.HeaderNotAfter, Value: []byte(last.Format(deadlineForm))})
	}
	series, err := f.seriesHeaders()
	if err != nil {
		return nil, err
	}
	callback, err := f.callHeaders(f.TopicOut)
	if err != nil {
		return nil, err
	}
	record := f.placeFlags.record(slices.Concat(headers, series, callback))
	for _, header := range f.Header {
		name, value, ok := strings.Cut(string(header), "=")
		switch {
		case !ok || name == "":
			return nil, usagef("--header is %s: it must be NAME=VALUE", shown(string(header)))
		case node.IsRequest(name):
			return nil, usagef("--header is %s: the headers of Chronos have flags of their own", shown(string(header)))
		}
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return record, nil
}

// value returns the value, nil for a null.
func (f *messageFlags) value(ctx context.Context, argument *text, stdin io.Reader) ([]byte, error) {
	switch {
	case f.NullValue && argument != nil:
		return nil, usagef("--null-value is set, but there is a value as well: %s", shown(string(*argument)))
	case f.NullValue:
		return nil, nil
	case argument != nil && *argument != "-":
		return []byte(*argument), nil
	case argument == nil && isTerminal(stdin):
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
