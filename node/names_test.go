package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/api"
	"chronos/node/horae"
	"chronos/node/metaswitch"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/memory"
	"chronos/node/store/transfer"
)

// doorsConfig returns settings under which every lane that is internal is one that a target with a * stands for, or
// would be served by the API.
func doorsConfig() node.Config {
	c := node.Default()
	c.Seed[0] = 1
	c.Routes = []node.Route{
		{Input: "in", Output: "out", Targets: []string{"http:*"}, DeadLetter: "dead", Outcomes: "outcomes"},
		{Input: "etf1", Output: "timers", Targets: []string{"http:*"}, DeadLetter: "dead", Format: node.FormatETF1},
		{Input: "amnesix", Output: "http:jobs", DeadLetter: "dead", Format: node.FormatAmnesix},
	}
	c.Callbacks.Any = true
	c.Callbacks.Lanes = []node.CallbackLane{
		{Name: "http:a", DeadLetter: "http:lost"},
		{Name: "http:lost"},
		{Name: "http:b", DeadLetter: "lost"},
		{Name: metaswitch.Lane},
		{Name: "http:rest"},
	}
	c.Callbacks.Others.DeadLetter = "http:rest"
	return c
}

// doors are all ways in for one store.
type doors struct {
	t      *testing.T
	config node.Config
	store  *memory.Store

	api, horae, metaswitch http.Handler
}

func newDoors(t *testing.T, config node.Config) *doors {
	t.Helper()
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	d := &doors{t: t, config: config, store: memory.New(time.Now)}
	topic := func(topic string) error {
		if why := config.CheckLane(topic); why != "" || !config.Serves(topic) {
			return &queue.Refusal{Code: queue.Invalid, Detail: "no output topic: " + why}
		}
		return nil
	}
	d.api = (&api.API{
		Node: &d.config, Taker: d.store, Store: d.store, Outlook: d.store,
		Queues: &desk.Desk{Store: d.store, Base: "http://here/", Topic: topic},
	}).Handler()
	d.horae = (&horae.API{Desk: &desk.Desk{Store: d.store, Base: "http://here/", Topic: topic}}).Handler()
	d.metaswitch = (&metaswitch.API{Node: &d.config, Taker: d.store}).Handler()
	return d
}

// ask makes a request of one of the listeners; "" where it was carried out, and otherwise the answer.
func (d *doors) ask(handler http.Handler, method, path, body string) string {
	r := httptest.NewRequestWithContext(d.t.Context(), method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:1"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code/100 == 2 || w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "No message of that id") {
		return ""
	}
	return fmt.Sprintf("%d %s", w.Code, w.Body)
}

// record reads a record; "" where it is a valid instruction.
func (d *doors) record(route int, r node.Record) string {
	r.Timestamp = time.Now()
	asked := d.config.Decode(r, d.config.Routes[route])
	if asked.Reason == "" {
		return ""
	}
	return string(asked.Reason) + ": " + asked.Detail
}

// imported imports a store with one message into another.
func imported(t *testing.T, id, lane string) string {
	t.Helper()
	line := fmt.Sprintf(`{"message":{"id":%q,"lane":%q,"incarnation":%q,"deadline":"2090-01-01T00:00:00Z"}}`+"\n",
		id, lane, uuid.NewString())
	head := fmt.Sprintf(`{"export":{"version":1,"id":%q,"store":"","release":"","by":"","sealed":`+
		`"2030-01-01T00:00:00Z","lineage":2,"messages":1}}`+"\n", uuid.NewString())
	sum := sha256.Sum256([]byte(head + line))
	file := head + line + fmt.Sprintf(`{"end":{"positions":0,"pauses":0,"answers":0,"messages":1,"sha256":"%x"}}`+"\n",
		sum)
	_, err := transfer.Import(context.Background(), memory.New(time.Now), bytes.NewReader([]byte(file)), "test",
		func(transfer.Progress) {})
	if err != nil {
		return err.Error()
	}
	return ""
}

// Goal: what a submission may name is one rule, and no way in forgets it. Method: every door that can name an id or a
// lane is asked for every name that is internal, and for one that is not; then nothing of the former is stored.
func TestNamesThroughAllDoors(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	d := newDoors(t, doorsConfig())
	const url = "http://receiver.example/"
	path := func(id, lane string) string { return "/v1/lanes/" + lane + "/messages/" + id }
	bodyOn := func(lane string) string {
		if node.IsCallback(lane) {
			return `{"delay":"1h","url":"` + url + `"}`
		}
		return `{"delay":"1h"}`
	}
	instruct := func(action string, more ...node.Header) func(id, lane string) string {
		return func(id, lane string) string {
			return d.record(0, node.Record{Topic: "in", Headers: append([]node.Header{
				h(node.HeaderAction, action), h(node.HeaderID, id), h(node.HeaderTopic, lane), h(node.HeaderURL, url),
			}, more...)})
		}
	}
	etf1 := func(value []byte) func(id, lane string) string {
		return func(id, lane string) string {
			return d.record(1, node.Record{Topic: "etf1", Key: []byte(id), Value: value, Headers: []node.Header{
				h(node.HeaderETF1Topic, lane), h(node.HeaderETF1Epoch, "3000000000"),
			}})
		}
	}
	actions, mine := 0, 0
	for name, door := range map[string]struct {
		through    func(id, lane string) string
		ids, lanes bool // what of a name its submitters choose
		good       string
	}{
		"a record: schedule":   {instruct("schedule", h(node.HeaderDelay, "1h")), true, true, "http:a"},
		"a record: replace":    {instruct("replace", h(node.HeaderDelay, "1h")), true, true, "http:a"},
		"a record: reschedule": {instruct("reschedule", h(node.HeaderDelay, "1h")), true, true, "http:a"},
		"a record: cancel":     {instruct("cancel"), true, true, "http:a"},
		"a record: fire":       {instruct("fire"), true, true, "http:a"},
		"a record: a task": {func(id, lane string) string {
			return d.record(0, node.Record{Topic: "in", Headers: []node.Header{
				h(node.HeaderQueue, "q"), h(node.HeaderID, id), h(node.HeaderTopic, lane),
			}})
		}, true, true, "out"},
		"a record of etf1":       {etf1([]byte("v")), true, true, "http:a"},
		"a record of etf1: none": {etf1(nil), true, true, "http:a"},
		"a record of amnesix: none": {func(id, _ string) string {
			return d.record(2, node.Record{Topic: "amnesix", Key: []byte(id), Headers: []node.Header{
				h(node.HeaderID, "job"),
			}})
		}, true, false, "http:jobs"},
		"a record of amnesix": {func(id, _ string) string {
			return d.record(2, node.Record{Topic: "amnesix", Key: []byte(id), Value: []byte(
				`{"id":"job","time":3000000000,"url":"` + url + `"}`)})
		}, true, false, "http:jobs"},
		"the API: PUT": {func(id, lane string) string {
			return d.ask(d.api, http.MethodPut, path(id, lane), bodyOn(lane))
		}, true, true, "http:a"},
		"the API: replace": {func(id, lane string) string {
			return d.ask(d.api, http.MethodPut, path(id, lane)+"?on-duplicate=replace", bodyOn(lane))
		}, true, true, "http:a"},
		"the API: POST": {func(_, lane string) string {
			return d.ask(d.api, http.MethodPost, "/v1/lanes/"+lane+"/messages", bodyOn(lane))
		}, false, true, "http:a"},
		"the API: PATCH": {func(id, lane string) string {
			return d.ask(d.api, http.MethodPatch, path(id, lane), `{"delay":"1h"}`)
		}, true, true, "http:a"},
		"the API: DELETE": {func(id, lane string) string {
			return d.ask(d.api, http.MethodDelete, path(id, lane), "")
		}, true, true, "http:a"},
		"the API: fire": {func(id, lane string) string {
			return d.ask(d.api, http.MethodPost, path(id, lane)+":fire", "")
		}, true, true, "http:a"},
		"the API: an action": {func(_, lane string) string {
			actions++
			return d.ask(d.api, http.MethodPut, fmt.Sprintf("/v1/actions/aaaaaaaa-0000-4000-8000-%012d", actions),
				fmt.Sprintf(`{"topic":%q}`, lane))
		}, false, true, "out"},
		"horae: an action": {func(_, lane string) string { // it knows requests alone, which have no lane to name
			text := d.ask(d.horae, http.MethodPut, "/v1/action", fmt.Sprintf(`{"operation":"GET","uri":"","topic":%q}`,
				lane))
			if lane == "out" {
				return "" // it is refused for want of a uri
			}
			return text
		}, false, true, "out"},
		"metaswitch": {func(id, _ string) string {
			return d.ask(d.metaswitch, http.MethodPut, "/timers/"+id, `{"timing":{"interval":3600},"callback":{"http":`+
				`{"uri":"`+url+`","opaque":""}}}`)
		}, true, false, "0123456789abcdef-1"},
	} {
		t.Run(name, func(t *testing.T) {
			mine++
			id := fmt.Sprint("mine-", mine)
			if name == "metaswitch" {
				id = door.good
			}
			if got := door.through(id, door.good); got != "" {
				t.Errorf("message %s on %s: %s", id, door.good, got)
			}
			for _, id := range []string{"chronos:", "chronos:" + uuid.NewString(), "chronos:arrive/x"} {
				if got := door.through(strings.ReplaceAll(id, "/", "-"), door.good); door.ids && got == "" {
					t.Errorf("message %s on %s is accepted", id, door.good)
				}
			}
			for _, lane := range []string{"dead", "outcomes", "lost", "http:lost", "http:rest", "http:tasks"} {
				if got := door.through("x", lane); door.lanes && got == "" {
					t.Errorf("message x on %s is accepted", lane)
				}
			}
		})
	}
	for _, row := range d.store.Dump() {
		if strings.HasPrefix(row.ID, node.InternalPrefix) || d.config.CheckLane(row.Lane) != "" {
			t.Errorf("message %s on %s is stored", row.ID, row.Lane)
		}
	}
}

// Goal: an import brings what another store had, messages of Chronos itself among it; and none on the lane of tasks
// that is not, and none on a lane that there can't be.
func TestNamesOfImport(t *testing.T) {
	for _, c := range []struct {
		id, lane, want string
	}{
		{"x", "out", ""},
		{"chronos:x", "out", ""},
		{"chronos:x", node.TasksLane, ""},
		{"x", node.TasksLane, "does not begin with chronos:"},
		{"arrive/x", node.TasksLane, "does not begin with chronos:"},
		{"chronos:", "out", "nothing else"},
		{"x", "a/b", "there can be no lane"},
		{"x", "http:", "there can be no lane"},
	} {
		got := imported(t, c.id, c.lane)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("message %s on %s: %q, want %q", c.id, c.lane, got, c.want)
		}
	}
}

// Goal: no route, and no lane of dead letters, is configured so that what is submitted comes out where internal
// messages wait, or dead letters where tasks do. A target that stands for many lanes may: these are left out of it.
func TestNamesOfConfiguration(t *testing.T) {
	for name, change := range map[string]func(*node.Config){
		"dead letters for an output": func(c *node.Config) { c.Routes[0].Output = "http:lost" },
		"dead letters for a target":  func(c *node.Config) { c.Routes[1].Targets = []string{"http:lost"} },
		"a topic of dead letters for a target": func(c *node.Config) {
			c.Routes[0].Targets = append(c.Routes[0].Targets, "lost")
		},
		"topics of dead letters": func(c *node.Config) { c.Routes[0].Targets = append(c.Routes[0].Targets, "los*") },
		"tasks for an output":    func(c *node.Config) { c.Routes[2].Output = node.TasksLane },
		"tasks for a target": func(c *node.Config) {
			c.Routes[0].Targets = []string{node.TasksLane, "http:*"}
		},
		"dead letters among tasks": func(c *node.Config) {
			c.Callbacks.Lanes = append(c.Callbacks.Lanes, node.CallbackLane{Name: node.TasksLane})
			c.Callbacks.Lanes[0].DeadLetter = node.TasksLane
		},
	} {
		c := doorsConfig()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&c); c.Validate() == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
}

// Goal: a submission can't keep a dead letter from being stored (attack 5). Method: whoever knows the incarnation of a
// message has a record wait on the lane of its dead letters, under every id that the dead letter could have by that.
// Then the message is given up.
func TestDeadLetterIsNotSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(r node.Record) error {
			if r.Topic == "http:out" {
				return &node.PublishError{Kind: node.RecordRejected, Err: errInjected, Status: http.StatusGone}
			}
			return nil
		}
		c := calls(0)
		c.Routes[0].Targets = []string{"http:*"}
		c.Callbacks.Lanes = []node.CallbackLane{{Name: "http:out", DeadLetter: "http:lost"}, {Name: "http:lost"}}
		w.submit("victim", 5*time.Second)
		w.run(c, nil)
		pass(time.Second)
		rows := w.store.Dump()
		if len(rows) != 1 {
			t.Fatalf("stored: %+v", rows)
		}
		for _, name := range []string{"chronos:callback/", "callback/"} {
			id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(name+rows[0].Incarnation.String())).String()
			for _, id := range []string{id, "chronos:" + id} {
				w.submit(id, time.Hour, node.Header{Name: node.HeaderTopic, Value: []byte("http:lost")})
			}
		}
		pass(10 * time.Second)
		lost := w.on("http:lost")
		if len(lost) != 1 || string(lost[0].Value) != "value victim" {
			t.Errorf("dead letters: %v", lost)
		}
		if rejected := seen[node.Rejected](w); len(rejected) != 4 {
			t.Errorf("%d of 4 records for a lane of dead letters are rejected: %v", len(rejected), rejected)
		}
	})
}

// Goal: whatever Chronos makes itself bears an id that no submission may use, also where it comes out on a lane that
// others submit to. Method: a rejected record, an outcome, a message that is given up, and tasks.
func TestInternalIDs(t *testing.T) {
	p := node.Partition{Topic: "in"}
	for _, kind := range []string{"rejected", "outcome"} {
		if id := node.DerivedID(kind, p, node.Record{}); !strings.HasPrefix(id, node.InternalPrefix) {
			t.Errorf("%s: %s", kind, id)
		}
	}
	d := newDoors(t, doorsConfig())
	for _, request := range [][2]string{
		{"/v1/actions/aaaaaaaa-0000-4000-8000-000000000001", `{"topic":"out"}`},
		{"/v1/actions/aaaaaaaa-0000-4000-8000-000000000002", `{"uri":"http://receiver.example/"}`},
		{"/v1/queues/q", `{"kind":"async"}`},
		{"/v1/tasks/bbbbbbbb-0000-4000-8000-000000000001", `{"queue":"q","execution":` +
			`"aaaaaaaa-0000-4000-8000-000000000001","promise":["aaaaaaaa-0000-4000-8000-000000000002"]}`},
		{"/v1/tasks/bbbbbbbb-0000-4000-8000-000000000002", `{"queue":"q","execution":` +
			`"aaaaaaaa-0000-4000-8000-000000000002"}`},
	} {
		if got := d.ask(d.api, http.MethodPut, request[0], request[1]); got != "" {
			t.Fatalf("%s: %s", request[0], got)
		}
	}
	rows := d.store.Dump()
	lanes := map[string]int{}
	for _, row := range rows {
		lanes[row.Lane]++
		if _, why := d.config.CheckName(row.ID, row.Lane); why == "" {
			t.Errorf("message %s on %s could be submitted", row.ID, row.Lane)
		}
	}
	if lanes["out"] != 1 || lanes[node.TasksLane] != 2 {
		t.Errorf("messages by lane: %v", lanes)
	}
}

// Goal: a record that a task was, and that Kafka refuses, can be put back: its dead letter has an id that may be
// submitted, which no other message has.
func TestDeadLetterOfInternalMessage(t *testing.T) {
	c := doorsConfig()
	m := node.Message{ID: "chronos:t/r/execution", Lane: "out"}
	letter := node.DeadLetter(&m, errInjected, "dead")
	id := header(letter, node.HeaderID)
	if _, why := c.CheckName(id, "out"); id != "t/r/execution" || why != "" {
		t.Errorf("the dead letter has the id %q: %s", id, why)
	}
}

// Goal: a timer of Metaswitch is not put where dead letters wait, if somebody has them wait on its lane.
func TestTimersOnLaneOfDeadLetters(t *testing.T) {
	c := doorsConfig()
	c.Callbacks.Lanes[2].DeadLetter = metaswitch.Lane
	d := newDoors(t, c)
	for _, got := range []string{
		d.ask(d.metaswitch, http.MethodPost, "/timers", `{"timing":{"interval":3600},"callback":{"http":{"uri":`+
			`"http://receiver.example/","opaque":""}}}`),
		d.ask(d.metaswitch, http.MethodDelete, "/timers/0123456789abcdef-1", ""),
	} {
		if !strings.Contains(got, "dead letters") || len(d.store.Dump()) > 0 {
			t.Errorf("%q, and %d are stored", got, len(d.store.Dump()))
		}
	}
	if !slices.Contains(c.InternalLanes(), metaswitch.Lane) {
		t.Errorf("internal lanes: %v", c.InternalLanes())
	}
}
