package main_test

import (
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/embedded"
	"chronos/node/broker/kafka"
	"chronos/node/clock/system"
	"chronos/node/store/memory"
)

// sandbox is a node over a store in memory and a broker of its own, with all that a route may have.
type sandbox struct {
	address string
	store   *memory.Store
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := node.Default()
	config.Seed[0] = 1
	config.Routes = []node.Route{{
		Input: "chronos.in", Output: "chronos.out", Targets: []string{"mails"}, DeadLetter: "chronos.dead",
		Outcomes: "chronos.outcomes",
	}}
	broker, err := embedded.Start(embedded.Config{Listener: listener, Topics: config.Routes[0].Topics()})
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{address: broker.Address(), store: memory.New(time.Now)}
	connection := kafka.Connection{Brokers: []string{s.address}}
	source, err := kafka.NewSource(kafka.SourceConfig{
		Connection: connection, Group: "chronos", Inputs: []string{"chronos.in"},
	})
	if err != nil {
		t.Fatal(err)
	}
	sink, err := kafka.NewSink(kafka.SinkConfig{Connection: connection, PublishTimeout: config.PublishTimeout()})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(config, node.Ports{Clock: system.New(), Store: s.store, Source: source, Sink: sink},
		func(node.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx, node.Goroutines()) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := source.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
		sink.Close()
		broker.Close()
	})
	return s
}

// ask runs a command on the sandbox.
func (s *sandbox) ask(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, "", append(args, "--brokers", s.address)...)
}

// instantForm is how an instant is written in what the commands print.
const instantForm = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z`

// TestInstruct changes messages that wait in each way that there is, in an order in which each outcome comes at least
// once, and compares what the commands print and their exit codes. What fires now is held by a pause of its lane, so
// that it is still there to be too late for.
func TestInstruct(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, step := range []struct {
		command string // words
		code    int
		want    string // of the output; @ stands for an instant
	}{
		{"send --in 1h --id a --key k --confirm one", 0, `scheduled  a  it comes out at @`},
		{
			"send --in 2h --id a --key k --confirm two", 1,
			`ignored  a  a message with this id waits already, and comes out at @; this one does not`,
		},
		{"reschedule a --key k --delay 90m", 0, `rescheduled  a  it comes out at @, and no longer at @`},
		{"replace a --key k --in 3h three", 0, `replaced  a  the new message comes out at @`},
		{"cancel a --key k", 0, `cancelled  a  it does not come out; it was due at @`},
		{"cancel a --key k", 4, `not_found  a  no message with this id waits: it has come out, never came ` +
			`in, or is in another ` +
			`partition than 0 of chronos.in (see --partitioner)`},
		{"reschedule a --at 2999-01-01T00:00:00Z", 4, `not_found  a  no message .*`},
		{"fire a", 4, `not_found  a  no message .*`},
		{"replace a --key k --in 1h four", 0, `scheduled  a  there was nothing to replace; it comes out at @`},
		{"fire a --key k", 0, `fired  a  it comes out now; it was due at @`},
		{
			"cancel a --key k", 3,
			`too_late  a  it comes out as it is, if it has not come out just now; it is due at @`,
		},
		{"reschedule a --key k --in 1h", 3, `too_late  a  .*`},
		{"fire a --key k", 3, `too_late  a  .*`},
		{"cancel a --topic-out mails", 4, `not_found  a  .*`}, // another message: an id is one's on its output topic
		{
			"cancel a --topic-out nowhere", 1, `rejected  a  unknown_topic: the header chronosTopic is "nowhere", ` +
				`which is no target of input topic chronos.in`,
		},
		{
			"send --in 1h --id b --topic-out nowhere --confirm x", 1,
			`rejected  b  unknown_topic: the header chronosTopic is "nowhere", which is no target of input topic ` +
				`chronos.in`,
		},
		{"send --delay 1h --id c --topic-out mails --confirm five", 0, `scheduled  c  it comes out at @`},
		{"fire c --topic-out mails", 0, `fired  c  it comes out now; it was due at @`},
		{"send --delay 1h --id d six", 0, "id        d\ndelay     1h\nstate     sent: nodes decide when they " +
			"read it, and --confirm waits for that"},
		{"fire d --no-wait", 0, "id        d\naction    fire\nstate     sent: nodes decide when they read it"},
		{"reschedule d --at 2999-01-01 --no-wait", 2, ``},
	} {
		if step.command == "fire a --key k" {
			if _, err := s.store.Pause(t.Context(), node.Pause{Lane: "chronos.out"}); err != nil {
				t.Fatal(err)
			}
		}
		got := s.ask(t, strings.Fields(step.command)...)
		want := `^` + strings.ReplaceAll(regexp.QuoteMeta(step.want), "@", instantForm) + "\n$"
		want = strings.ReplaceAll(want, `\.\*`, ".*")
		well := step.code == 2 || got.stderr == "" && regexp.MustCompile(want).MatchString(got.stdout)
		if got.code != step.code || !well {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d, %q",
				step.command, got.code, got.stdout, got.stderr, step.code, step.want)
		}
	}
	if _, err := s.store.Resume(t.Context(), "chronos.out"); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, r := range consume(t, s.address, "chronos.out", 2) {
		out[string(r.Value)] = true
	}
	if !out["four"] || !out["six"] {
		t.Errorf("the output topic has %v, want four, which was too late to be cancelled, and six", out)
	}
	if got := consume(t, s.address, "mails", 1)[0]; string(got.Value) != "five" {
		t.Errorf("the target has %q", got.Value)
	}
}

// TestOutcomeAsJSON compares all fields.
func TestOutcomeAsJSON(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, step := range []struct {
		args []string
		want map[string]any // "T" stands for an instant
	}{
		{
			[]string{"send", "--delay", "1h", "--id", "a", "x"},
			map[string]any{"id": "a", "action": "schedule", "delay": "1h", "offset": 0.0},
		},
		{
			[]string{"reschedule", "a", "--at", "2999-01-01T00:00"},
			map[string]any{
				"id": "a", "action": "reschedule", "outcome": "rescheduled", "at": "T", "offset": 1.0, "lineage": 1.0,
				"deadline": "2999-01-01T00:00:00.000000Z", "former_deadline": "T",
			},
		},
		{
			[]string{"cancel", "a", "--topic-out", "nowhere"},
			map[string]any{
				"id": "a", "action": "cancel", "outcome": "rejected", "at": "T", "offset": 2.0, "lineage": 1.0,
				"reason": "unknown_topic",
				"error":  `the header chronosTopic is "nowhere", which is no target of input topic chronos.in`,
			},
		},
	} {
		var got map[string]any
		if err := json.Unmarshal([]byte(s.ask(t, append(step.args, "-o", "json")...).stdout), &got); err != nil {
			t.Fatal(err)
		}
		step.want["topic"], step.want["partition"] = "chronos.in", 0.0
		for name, want := range step.want {
			text, _ := got[name].(string)
			if got[name] != want && (want != "T" || !regexp.MustCompile(`^`+instantForm+`$`).MatchString(text)) {
				t.Errorf("%v: %s is %v, want %v", step.args, name, got[name], want)
			}
		}
		if len(got) != len(step.want) {
			t.Errorf("%v: there are the fields %v, want those of %v", step.args, got, step.want)
		}
	}
}

// TestOutcomeOfOthers asks that a command is told of its own record and of no other, and believes the highest lineage.
// Its outcomes come from the test: nobody reads the input topic.
func TestOutcomeOfOthers(t *testing.T) {
	t.Parallel()
	broker := newEmpty(t, "chronos.in", "other.in", "chronos.outcomes")
	tell := func(topic, offset, lineage, outcome string) *kgo.Record {
		return &kgo.Record{Topic: "chronos.outcomes", Headers: []kgo.RecordHeader{
			{Key: node.HeaderID, Value: []byte("a")},
			{Key: node.HeaderOutcome, Value: []byte(outcome)},
			{Key: node.HeaderSourceTopic, Value: []byte(topic)},
			{Key: node.HeaderSourcePartition, Value: []byte("0")},
			{Key: node.HeaderSourceOffset, Value: []byte(offset)},
			{Key: node.HeaderLineage, Value: []byte(lineage)},
		}}
	}
	// What was told before the record was sent is about another record, of a topic that was there before perhaps.
	produce(t, broker.Address(), tell("chronos.in", "0", "9", "cancelled"))
	p := start(t, "cancel", "a", "--brokers", broker.Address())
	consume(t, broker.Address(), "chronos.in", 1)
	teller := client(t, broker.Address(), kgo.ManualFlushing()) // they come in one batch
	defer teller.Close()
	elsewhere := tell("chronos.in", "0", "9", "cancelled")
	elsewhere.Headers[3].Value = []byte("1")
	for _, r := range []*kgo.Record{
		tell("other.in", "0", "9", "cancelled"), tell("chronos.in", "1", "9", "cancelled"),
		tell("chronos.in", "none", "9", "cancelled"), elsewhere,
		{Topic: "chronos.outcomes", Value: []byte("of somebody else")},
		tell("chronos.in", "0", "1", "cancelled"), tell("chronos.in", "0", "3", "not_found"),
		tell("chronos.in", "0", "2", "cancelled"),
	} {
		teller.Produce(t.Context(), r, nil)
	}
	if err := teller.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := p.code(t); code != 4 || !strings.HasPrefix(p.stdout.String(), "not_found  a  ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, p.stdout, p.stderr)
	}
	got := run(t, "", "cancel", "a", "--brokers", broker.Address(), "--timeout", "1ms")
	want := "chronos: no outcome came on topic chronos.outcomes within 1ms: no node has taken the record in, or " +
		"their --outcome-topic is another one; the record is in topic chronos.in, partition 0, offset 1, and acts " +
		"when it is taken in\n"
	if got.code != 1 || got.stdout != "" || got.stderr != want {
		t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
}

// TestOutcomeExitCodes has each outcome told, and compares what the command says of it, and its exit code.
func TestOutcomeExitCodes(t *testing.T) {
	t.Parallel()
	broker := newEmpty(t, "chronos.in", "chronos.outcomes")
	for i, c := range []struct {
		action, outcome string
		headers         []string // names and values
		code            int
		want            string
	}{
		{"cancel", "cancelled", []string{node.HeaderFormerDeadline, "T"}, 0, "it does not come out; it was due at T"},
		{
			"cancel", "cancelled",
			[]string{node.HeaderFormerDeadline, "T", node.HeaderSequence, "4"},
			0,
			"occurrence 4, which was due at T, does not come out, nor does any after it",
		},
		{
			"cancel", "cancelled",
			[]string{node.HeaderFormerDeadline, "T", node.HeaderFormer, "may appear"},
			0,
			"it does not come out; it was due at T; what it has replaced may have come out, or may yet",
		},
		{
			"cancel", "stopped",
			[]string{node.HeaderSequence, "3"},
			0,
			"no occurrence comes after 3, which may have come out, or may yet",
		},
		{"reschedule", "rescheduled", []string{node.HeaderDeadline, "T"}, 0, "it comes out at T"},
		{
			"reschedule", "rescheduled",
			[]string{node.HeaderDeadline, "T", node.HeaderFormerDeadline, "F"},
			0,
			"it comes out at T, and no longer at F",
		},
		{"fire", "fired", nil, 0, "it comes out now"},
		{"fire", "too_late", []string{node.HeaderDeadline, "T"}, 3, "it comes out as it is, .*; it is due at T"},
		{"fire", "not_found", nil, 4, "no message with this id waits: .*"},
		{"fire", "rejected", []string{node.HeaderReason, "why", node.HeaderError, "so"}, 1, "why: so"},
		{"fire", "unheard_of", nil, 1, "unheard_of"},
	} {
		args := []string{c.action, "a", "--brokers", broker.Address()}
		if c.action == "reschedule" {
			args = append(args, "--in", "1h")
		}
		p := start(t, args...)
		consume(t, broker.Address(), "chronos.in", i+1)
		told := &kgo.Record{Topic: "chronos.outcomes"}
		for name, value := range map[string]string{
			node.HeaderID: "a", node.HeaderAction: c.action, node.HeaderOutcome: c.outcome,
			node.HeaderSourceTopic: "chronos.in", node.HeaderSourcePartition: "0",
			node.HeaderSourceOffset: strconv.Itoa(i), node.HeaderLineage: "1",
		} {
			told.Headers = append(told.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		for n := 0; n < len(c.headers); n += 2 {
			told.Headers = append(told.Headers, kgo.RecordHeader{Key: c.headers[n], Value: []byte(c.headers[n+1])})
		}
		produce(t, broker.Address(), told)
		want := regexp.MustCompile("^" + c.outcome + "  a  " + c.want + "\n$")
		if code := p.code(t); code != c.code || !want.MatchString(p.stdout.String()) {
			t.Errorf("%s, %s: exit code %d, stdout %q, stderr %q; want %d, %q",
				c.action, c.outcome, code, p.stdout, p.stderr, c.code, want)
		}
	}
}

// newEmpty starts a broker with topics that nobody reads.
func newEmpty(t *testing.T, topics ...string) *embedded.Broker {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broker, err := embedded.Start(embedded.Config{Listener: listener, Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker
}

// TestInstructSends compares the records that commands send, byte for byte, and what they print of them.
func TestInstructSends(t *testing.T) {
	t.Parallel()
	broker := newEmpty(t, "chronos.in")
	const far = "2999-01-01T00:00:00.500000Z"
	cases := []struct {
		args []string
		want string // key, value and headers, with - for a null
		said string // except for the id
	}{
		{[]string{"cancel", "a", "--key", "k"}, "k - Action=cancel", "action    cancel\n"},
		{[]string{"cancel", "a"}, "- - Action=cancel", "action    cancel\n"},
		{[]string{"cancel", "a", "--key", ""}, " - Action=cancel", "action    cancel\n"},
		{[]string{"fire", "a", "--topic-out", "mails"}, "- - Action=fire Topic=mails", "action    fire\n"},
		{
			[]string{"reschedule", "a", "--delay", "90m"},
			"- - Action=reschedule Delay=90m",
			"action    reschedule\ndelay     90m\n",
		},
		{
			[]string{"reschedule", "a", "--at", "2999-01-01T00:00:00.5"},
			"- - Action=reschedule Deadline=" + far,
			"action    reschedule\ndeadline  " + far + "\n",
		},
		{
			[]string{
				"replace", "a", "--repeat", "every 20s", "--repeat-count", "3", "--missed", "skip", "--key=k", "two",
			},
			"k two Action=replace Repeat=every 20s RepeatCount=3 Missed=skip", "action    replace\n",
		},
		{
			[]string{
				"send", "--id=a", "--repeat", "30 9 * * *", "--repeat-zone", "Europe/Berlin",
				"--repeat-until", "2999-01-01T01:00:00.5+01:00", "x",
			},
			"- x Repeat=30 9 * * * RepeatZone=Europe/Berlin RepeatUntil=" + far, "",
		},
		{
			[]string{
				"send", "--id=a", "--delay", "PT1H", "--not-after", "2999-01-01T00:00:00.5Z", "--confirm",
				"--header", "n=v", "x",
			},
			"- x Delay=PT1H Confirm=true NotAfter=" + far + " n=v", "delay     PT1H\n",
		},
	}
	for _, c := range cases {
		got := run(t, "", append(c.args, "--no-wait", "--brokers", broker.Address())...)
		want := "id        a\n" + c.said + "state     sent: nodes decide when they read it\n"
		if got.code != 0 || got.stdout != want || got.stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q, want %q", c.args, got.code, got.stdout, got.stderr, want)
		}
	}
	for i, r := range consume(t, broker.Address(), "chronos.in", len(cases)) {
		shown := func(b []byte) string {
			if b == nil {
				return "-"
			}
			return string(b)
		}
		text := shown(r.Key) + " " + shown(r.Value)
		for _, h := range r.Headers[1:] {
			text += " " + strings.TrimPrefix(h.Key, "chronos") + "=" + string(h.Value)
		}
		if id := r.Headers[0]; text != cases[i].want || id.Key != node.HeaderID || string(id.Value) != "a" {
			t.Errorf("%v sends %q, want %q", cases[i].args, text, cases[i].want)
		}
	}
}

// TestInstructSentences makes the mistakes that can be made.
func TestInstructSentences(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	routes := writeFile(t, "c.yaml", "routes:\n- {input: a, output: b}\n- {input: c, output: d, outcomes: e}\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cancel", ""}, 2, `ID is "": it must be 1 to 128 bytes of UTF-8 without NUL`},
		{[]string{"fire", ""}, 2, `ID is "": it must be 1 to 128 bytes of UTF-8 without NUL`},
		{[]string{"replace", "", "--in", "1s", "x"}, 2, `ID is "": it must be 1 to 128 bytes of UTF-8 without NUL`},
		{
			[]string{"reschedule", strings.Repeat("x", 129), "--in", "1s"},
			2,
			`ID is ` + strings.Repeat("x", 129) + `: it must be 1 to 128 bytes of UTF-8 without NUL`,
		},
		{
			[]string{"reschedule", "a", "--delay=-1s"},
			2,
			`--delay is -1s: it must not be negative`,
		},
		{
			[]string{"reschedule", "a", "--in", "1s", "--at", "2999-01-01T00:00"},
			2,
			`--in and --at exclude each other: only one of them may be set`,
		},
		{
			[]string{"send", "--in", "1s", "--not-after", "dawn", "x"},
			2,
			`--not-after is dawn: write an instant such as 2099-12-31T23:59:59Z, or with an offset, ` +
				`2099-12-31T23:59:59+01:00`,
		},
		{
			[]string{"reschedule", "a"},
			2,
			`none of --in, --at and --delay is set: one of them must say when the message is to appear`,
		},
		{
			[]string{"replace", "a", "--in", "1s", "--delay", "1s", "x"},
			2,
			`--in and --delay exclude each other: only one of them may be set`,
		},
		{
			[]string{"send", "--repeat", "60 * * * *", "x"},
			2,
			`the series can't be: minute 60 is not between 0 and 59`,
		},
		{
			[]string{"replace", "a", "--in", "1s", "--repeat-count", "2", "x"},
			2,
			`--repeat-count is set, and --repeat is not: it must say how often the message comes`,
		},
		{
			[]string{"send", "--repeat", "@daily", "--repeat-until", "dawn", "x"},
			2,
			`--repeat-until is dawn: write an instant such as 2099-12-31T23:59:59Z, or with an offset, ` +
				`2099-12-31T23:59:59+01:00`,
		},
		{
			[]string{"send", "--repeat", "@daily", "--not-after", "2099-01-01T00:00Z", "x"},
			2,
			`--not-after and --repeat exclude each other: a series ends by --repeat-until`,
		},
		{
			[]string{"cancel", "a", "--timeout", "0s"},
			2,
			`--timeout is 0s: it must be more than 0s; to wait for nothing there is --no-wait`,
		},
		{
			[]string{"cancel", "a", "--outcome-topic", "none"},
			1,
			`topic none, where the outcome is looked for, does not exist, and nothing was sent; --outcome-topic ` +
				`names another one, and --no-wait does without`,
		},
		{
			[]string{"cancel", "a", "--config", routes, "--topic", "a"},
			2,
			routes + ":2: outcomes is not set: there are no outcomes of what is sent to a, and nothing to wait for",
		},
		{
			[]string{"cancel", "a", "--config", routes, "--topic", "c"},
			1,
			`topic e, where the outcome is looked for, does not exist, and nothing was sent; --outcome-topic names ` +
				`another one, and --no-wait does without`,
		},
		{
			[]string{"send", "--in", "1s", "--header", "chronosTopic=x", "y"},
			2,
			`--header is "chronosTopic=x": the headers of Chronos have flags of their own`,
		},
	} {
		got := s.ask(t, c.args...)
		if got.code != c.code || got.stdout != "" || got.stderr != "chronos: "+c.want+"\n" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want %d, %q",
				c.args, got.code, got.stdout, got.stderr, c.code, c.want)
		}
	}
}
