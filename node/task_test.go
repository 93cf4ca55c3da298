package node_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"chronos/node"
)

// taskConfig is a configuration that serves queues, and its route.
func taskConfig() (node.Config, node.Route) {
	c := config(0)
	c.Callbacks.Lanes = []node.CallbackLane{{Name: node.TasksLane}}
	route := c.Routes[0]
	route.Targets = []string{"mails", "http:*"}
	c.Routes[0] = route
	return c, route
}

const someTask = "aaaaaaaa-0000-4000-8000-000000000001"

// Goal: a record that is a task becomes a message of the lane of tasks, due when the record was written: it has the
// record's own content, and says which task it is, where that comes out and when; nothing that the record says of
// itself passes for that.
func TestDecodeTask(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	c, route := taskConfig()
	written := time.Date(2030, 1, 31, 9, 0, 0, 123456789, time.UTC)
	own, in := h("own", "1"), h(node.HeaderQueue, "mail jobs")
	long := strings.Repeat("x", node.MaxIDLength)
	derived := "49e2f2f0"
	for name, tc := range map[string]struct {
		headers  []node.Header
		id, want string // the message's, and its headers; one that begins so is enough for the UUID that is derived
	}{
		"a UUID for an id": {
			[]node.Header{own, h(node.HeaderID, someTask), in},
			"chronos:arrive/" + someTask,
			"own=1 chronosQueue=mail jobs chronosTaskPart=arrive chronosTask=" + someTask + " chronosTaskTopic=out",
		},
		"another topic, a priority and a time": {
			[]node.Header{
				h(node.HeaderID, someTask), in, h(node.HeaderPriority, "-7"), h(node.HeaderTopic, "mails"),
				h(node.HeaderDeadline, "2031-01-01T00:00:00Z"),
			},
			"chronos:arrive/" + someTask,
			"chronosQueue=mail jobs chronosPriority=-7 chronosTaskWhen=2031-01-01T00:00:00.000000Z " +
				"chronosTaskPart=arrive chronosTask=" + someTask + " chronosTaskTopic=mails",
		},
		"a delay": {
			[]node.Header{h(node.HeaderID, someTask), in, h(node.HeaderDelay, "1h")},
			"chronos:arrive/" + someTask,
			"chronosQueue=mail jobs chronosTaskWhen=2030-01-31T10:00:00.123457Z chronosTaskPart=arrive chronosTask=" +
				someTask + " chronosTaskTopic=out",
		},
		"what it is not to say itself": {
			[]node.Header{
				h(node.HeaderID, someTask), in, h(node.HeaderTaskPart, "execution"), h(node.HeaderTaskTopic, "in"),
				h(node.HeaderTaskWhen, "x"), h(node.HeaderTask, "y"), h(node.HeaderTaskRun, "z"),
			},
			"chronos:arrive/" + someTask,
			"chronosQueue=mail jobs chronosTaskPart=arrive chronosTask=" + someTask + " chronosTaskTopic=out",
		},
		"a UUID in capitals, which is another id": {
			[]node.Header{h(node.HeaderID, strings.ToUpper(someTask)), in},
			"chronos:arrive/" + strings.ToUpper(someTask),
			"chronosQueue=mail jobs chronosTaskPart=arrive chronosTask=e47ddcaf-5398-5380-9b89-17bb483aea9b " +
				"chronosTaskTopic=out",
		},
		"a long id": {
			[]node.Header{h(node.HeaderID, long), in},
			"chronos:arrive/" + derived,
			"chronosQueue=mail jobs chronosTaskPart=arrive chronosTask=" + derived,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := node.Record{
				Topic: "in", Key: []byte("k"), Value: []byte("v"), Headers: tc.headers, Timestamp: written,
			}
			got := c.Decode(r, route)
			m := got.Message
			text := headersText(m.Headers)
			exact := !strings.HasSuffix(tc.id, derived)
			if got.Reason != "" || got.Action != node.Schedule || m.Lane != node.TasksLane ||
				exact && (m.ID != tc.id || text != tc.want) || string(m.Key) != "k" || string(m.Value) != "v" ||
				!m.Deadline.Equal(written.Truncate(time.Microsecond)) {
				t.Errorf("%+v\nheaders %s\nwant %s %s", got, text, tc.id, tc.want)
			}
			if !exact && (len(m.ID) > node.MaxIDLength || !strings.HasPrefix(text, "chronosQueue=mail jobs ")) {
				t.Errorf("%s: %s", m.ID, text)
			}
			again := c.Decode(r, route).Message
			if again.ID != m.ID || headersText(again.Headers) != text {
				t.Errorf("read again it is %+v", again)
			}
		})
	}
}

// headersText shows headers.
func headersText(headers []node.Header) string {
	words := make([]string, len(headers))
	for i, h := range headers {
		words[i] = fmt.Sprintf("%s=%s", h.Name, h.Value)
	}
	return strings.Join(words, " ")
}

// Goal: a record that completes a task becomes a message of the lane of tasks, with a name that two of the same share.
func TestDecodeCompletion(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	c, route := taskConfig()
	complete, task := h(node.HeaderAction, "complete"), h(node.HeaderTask, someTask)
	const run = "bbbbbbbb-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct {
		headers  []node.Header
		id, want string
	}{
		"success": {
			[]node.Header{complete, task},
			"chronos:" + someTask + "/any/end",
			"chronosTaskPart=end chronosTask=" + someTask + " chronosTaskStatus=success",
		},
		"failure of a run": {
			[]node.Header{complete, task, h(node.HeaderTaskRun, run), h(node.HeaderTaskStatus, "failure")},
			"chronos:" + someTask + "/" + run + "/end",
			"chronosTaskPart=end chronosTask=" + someTask + " chronosTaskStatus=failure chronosTaskRun=" + run,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.Decode(node.Record{Topic: "in", Value: []byte("no disk"), Headers: tc.headers}, route)
			if m := got.Message; got.Reason != "" || m.ID != tc.id || m.Lane != node.TasksLane || !got.Told ||
				headersText(m.Headers) != tc.want || string(m.Value) != "no disk" || got.ID != someTask {
				t.Errorf("%+v\nheaders %s\nwant %s %s", got, headersText(m.Headers), tc.id, tc.want)
			}
		})
	}
}

// Goal: a record whose timestamp is no instant that a store can have is a task, and a completion, as any other: a
// producer writes the timestamp, and one message that no store takes would hold up its partition.
func TestDecodeTaskOfNoInstant(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	c, route := taskConfig()
	for _, ms := range []int64{1 << 62, -1 << 62, -1} {
		for _, headers := range [][]node.Header{
			{h(node.HeaderID, "x"), h(node.HeaderQueue, "q")},
			{h(node.HeaderAction, "complete"), h(node.HeaderTask, someTask)},
		} {
			got := c.Decode(node.Record{Topic: "in", Headers: headers, Timestamp: time.UnixMilli(ms)}, route)
			if got.Reason != "" || got.Message.Refusal() != "" {
				t.Errorf("%d: %s, %s", ms, got.Detail, got.Message.Refusal())
			}
		}
	}
}

// Goal: the dead letter of a task, or of a completion, is the record that it was, so that one which is put back is read
// as before: the same task in the same queue, with its time and its topic, or the same completion.
func TestDeadLettersOfTasks(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	c, route := taskConfig()
	const run = "bbbbbbbb-0000-4000-8000-000000000001"
	long := strings.Repeat("x", node.MaxIDLength)
	for name, headers := range map[string][]node.Header{
		"a task": {h(node.HeaderID, someTask), h("own", "1"), h(node.HeaderQueue, "q"), h(node.HeaderPriority, "7")},
		"with a time and a topic": {
			h(node.HeaderID, "x"), h(node.HeaderQueue, "q"), h(node.HeaderTopic, "mails"),
			h(node.HeaderDeadline, "2031-01-01T00:00:00Z"),
		},
		"with a long id": {h(node.HeaderID, long), h(node.HeaderQueue, "q")},
		"a completion":   {h(node.HeaderAction, "complete"), h(node.HeaderTask, someTask)},
		"a failure of a run": {
			h(node.HeaderAction, "complete"), h(node.HeaderTask, someTask), h(node.HeaderTaskRun, run),
			h(node.HeaderTaskStatus, "failure"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := node.Record{Topic: "in", Value: []byte("v"), Headers: headers, Timestamp: time.Unix(1e9, 0)}
			first := c.Decode(r, route)
			if !node.GoesAnyway(&c, &first.Message) {
				t.Error("put back it would name the lane of tasks, which takes no records")
			}
			letter := node.DeadLetter(&first.Message, errors.New("there is no queue"), "dead")
			for _, one := range letter.Headers {
				switch one.Name {
				case node.HeaderReason, node.HeaderError, node.HeaderSourceTopic, node.HeaderSourcePartition,
					node.HeaderSourceOffset: // chronos dead replay leaves these out
				default:
					r.Headers = append(r.Headers, one)
				}
			}
			r.Headers, r.Timestamp = r.Headers[len(headers):], time.Unix(2e9, 0)
			again := c.Decode(r, route)
			if again.Reason != "" || again.Message.Lane != first.Message.Lane ||
				headersText(again.Message.Headers) != headersText(first.Message.Headers) {
				t.Errorf("%s: the record put back has %s, becomes %s, and was %s", again.Detail, headersText(r.Headers),
					headersText(again.Message.Headers), headersText(first.Message.Headers))
			}
		})
	}
}

// Goal: what is no task, and no completion, is rejected with a reason; and so is what would pass for one of the
// messages by which nodes tell each other of tasks, also past Kafka.
func TestBadTasks(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	c, route := taskConfig()
	end := h(node.HeaderNotAfter, "2030-01-01T00:00:00Z")
	id, in, complete := h(node.HeaderID, "x"), h(node.HeaderQueue, "q"), h(node.HeaderAction, "complete")
	task := h(node.HeaderTask, someTask)
	for name, tc := range map[string]struct {
		headers []node.Header
		want    node.Reason
	}{
		"no id":            {[]node.Header{in}, node.MissingID},
		"two queues":       {[]node.Header{id, in, in}, node.RepeatedHeader},
		"no name":          {[]node.Header{id, h(node.HeaderQueue, "")}, node.InvalidQueue},
		"to be cancelled":  {[]node.Header{id, in, h(node.HeaderAction, "cancel")}, node.InvalidQueue},
		"a request":        {[]node.Header{id, in, h(node.HeaderTopic, "http:x")}, node.InvalidQueue},
		"an end":           {[]node.Header{id, in, end}, node.InvalidQueue},
		"a series":         {[]node.Header{id, in, h(node.HeaderRepeat, "every 1h")}, node.InvalidQueue},
		"a wrong priority": {[]node.Header{id, in, h(node.HeaderPriority, "high")}, node.InvalidQueue},
		"too great a priority": {
			[]node.Header{id, in, h(node.HeaderPriority, "3000000000")}, node.InvalidQueue,
		},
		"a wrong time":        {[]node.Header{id, in, h(node.HeaderDeadline, "soon")}, node.InvalidDeadline},
		"another topic":       {[]node.Header{id, in, h(node.HeaderTopic, "elsewhere")}, node.UnknownTopic},
		"no task":             {[]node.Header{complete}, node.InvalidTask},
		"a task with no UUID": {[]node.Header{complete, h(node.HeaderTask, "mine")}, node.InvalidTask},
		"a run with no UUID":  {[]node.Header{complete, task, h(node.HeaderTaskRun, "1")}, node.InvalidTask},
		"a wrong status":      {[]node.Header{complete, task, h(node.HeaderTaskStatus, "done")}, node.InvalidTask},
		"two tasks":           {[]node.Header{complete, task, task}, node.RepeatedHeader},
		"a message that says so": {
			[]node.Header{id, h(node.HeaderDelay, "1s"), h(node.HeaderTopic, node.TasksLane)}, node.UnknownTopic,
		},
		"a cancel of what waits there": {
			[]node.Header{id, h(node.HeaderAction, "cancel"), h(node.HeaderTopic, node.TasksLane)}, node.UnknownTopic,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := node.Record{Topic: "in", Headers: tc.headers, Timestamp: time.Unix(1e9, 0)}
			if got := c.Decode(r, route); got.Reason != tc.want || got.Detail == "" {
				t.Errorf("%q: %s, want %s", got.Reason, got.Detail, tc.want)
			}
		})
	}
	none := config(0)
	for _, headers := range [][]node.Header{{id, in}, {complete, task}} {
		got := none.Decode(node.Record{Topic: "in", Headers: headers}, none.Routes[0])
		if got.Reason != node.InvalidQueue {
			t.Errorf("without queues: %q: %s", got.Reason, got.Detail)
		}
	}
	foreign := route
	foreign.Output, foreign.Format = node.TasksLane, node.FormatAmnesix
	job := node.Record{
		Topic: "in", Key: []byte("k"), Value: []byte(`{"id":"x","time":"1900000000","url":"http://x/"}`),
		Headers: []node.Header{h(node.HeaderTaskPart, "end"), task},
	}
	if got := c.Decode(job, foreign); got.Reason != node.UnknownTopic {
		t.Errorf("of another format: %q: %s", got.Reason, got.Detail)
	}
	for _, action := range []string{"", "cancel", "fire"} {
		r := node.Record{Headers: []node.Header{id, h(node.HeaderDelay, "1s"), h(node.HeaderTaskPart, "end"), task}}
		if action != "" {
			r.Headers = []node.Header{id, h(node.HeaderAction, action)}
		}
		r.Timestamp = time.Now()
		if _, err := c.Read(r, node.TasksLane, time.Now); err == nil {
			t.Errorf("past Kafka, on lane %s, %q is taken", node.TasksLane, action)
		}
	}
	for _, lane := range []string{"out", node.TasksLane} {
		_, err := c.Read(node.Record{Headers: []node.Header{id, in}, Timestamp: time.Now()}, lane, time.Now)
		if err == nil {
			t.Errorf("past Kafka, on lane %s, it is taken", lane)
		}
	}
}
