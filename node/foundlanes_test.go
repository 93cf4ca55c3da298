package node_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// found is a configuration with a target that ends with a *.
func found() node.Config {
	c := controlled()
	c.Routes[0].Targets = []string{"to.*"}
	return c
}

// on is the header of a record for a topic.
func on(topic string) node.Header { return node.Header{Name: node.HeaderTopic, Value: []byte(topic)} }

// stored puts messages into the store past the input, as another node has.
func (w *world) stored(messages ...node.Message) {
	w.t.Helper()
	var items []node.Item
	for _, m := range messages {
		m.Incarnation, m.Value = uuid.New(), []byte("value "+m.ID)
		items = append(items, node.Item{From: node.NoPlace, Action: node.Schedule, Message: m})
	}
	if result, err := w.store.Take(w.t.Context(), node.TakeRequest{Items: items}); err != nil {
		w.t.Fatal(result, err)
	}
}

// punctual asks that a message came out once, and when it was due.
func (w *world) punctual(topic string, due time.Duration) {
	w.t.Helper()
	got := w.on(topic)
	if len(got) != 1 || got[0].at.Sub(w.began) < due || got[0].at.Sub(w.began) > due+200*time.Millisecond {
		w.t.Errorf("on %s came out %v, want one message %v after the beginning", topic, got, due)
	}
}

// Goal: a lane that was found is served for as long as something waits there, however long that is, also while the
// store does not say so; and again when it was forgotten. A lane of other routes is left to their nodes.
func TestFoundLanesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := func(id, lane string, in time.Duration) node.Message {
			return node.Message{ID: id, Lane: lane, Deadline: w.began.Add(in)}
		}
		w.stored(at("x", "to.a", 5*time.Minute), at("y", "to.b", 8*time.Minute), at("z", "theirs", time.Minute))
		silent := func(_ int, call string) (error, bool) {
			if since := time.Since(w.began); call == "parts" && since > 6*time.Minute && since < 10*time.Minute {
				return errInjected, false
			}
			return nil, true
		}
		n := w.run(found(), silent)
		for range 10 {
			pass(time.Second)
			if held, _ := n.node.Held(); len(held) != 3+2 {
				t.Fatalf("it serves %v, want the three that the route names and the two that wait", held)
			}
		}
		pass(9 * time.Minute)
		w.punctual("to.a", 5*time.Minute)
		w.punctual("to.b", 8*time.Minute)
		pass(3 * time.Minute)
		if held, _ := n.node.Held(); len(held) != 3 || len(w.on("theirs")) != 0 {
			t.Errorf("it serves %v, and %v came out for others", held, w.on("theirs"))
		}
		w.submit("again", -time.Second, on("to.a"))
		pass(time.Second)
		if got := w.values("to.a"); got["value again"] != 1 {
			t.Errorf("a lane that was forgotten has %v", got)
		}
	})
}

// Goal: a lane is not forgotten while this node holds something there. Method: a hold time of ten minutes, with claims
// that wait for longer than a lane without messages is remembered.
func TestFoundLanesAreKeptWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := found()
		c.HoldTime, c.Lookahead = 10*time.Minute, 110*time.Second
		w.submit("x", 100*time.Second, on("to.a"))
		w.run(c, nil)
		pass(2 * time.Minute)
		w.punctual("to.a", 100*time.Second)
		w.empty()
	})
}

// Goal: what a found lane rejects for good goes to the dead-letter topic of its route, and says where it was to come
// out.
func TestDeadLetterOfFoundLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(r node.Record) error {
			if r.Topic == "to.a" {
				return node.RecordRejected
			}
			return nil
		}
		w.submit("x", time.Second, on("to.a"))
		w.run(found(), nil)
		pass(3 * time.Second)
		dead := w.on("dead")
		if len(dead) != 1 || header(dead[0].Record, node.HeaderTopic) != "to.a" ||
			header(dead[0].Record, node.HeaderReason) != string(node.PublishRejected) {
			t.Errorf("dead letters: %v", dead)
		}
		w.empty()
	})
}

// Goal: instructions that bring no message are decided on, however many lanes there are already. Method: as many as may
// be, and a cancel for one more.
func TestInstructionsNeedNoRoomForTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 250 {
			w.submit(fmt.Sprint(i), time.Hour, on(fmt.Sprint("to.", i)))
		}
		w.stored(node.Message{ID: "x", Lane: "to.more", Deadline: w.began.Add(time.Hour)})
		w.run(found(), nil)
		pass(5 * time.Second)
		w.instruct("cancel", "x", node.HeaderTopic, "to.more")
		w.instruct("cancel", "y", node.HeaderTopic, "to.none")
		pass(time.Second)
		if said := fmt.Sprint(w.said()); !strings.Contains(said, "cancel x: cancelled") ||
			!strings.Contains(said, "cancel y: not_found") {
			t.Errorf("the outcomes are %v", said)
		}
	})
}

// Goal: lanes that were found do not fill the memory of a node, and none of them is left without room. Method: a
// lookahead of minutes, so that one lane after the other has more to be claimed than there is room for, and keeps it.
func TestFoundLanesShareTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := found()
		c.HoldTime, c.Lookahead = 10*time.Minute, 110*time.Second
		const lanes, each = 60, 200
		for lane := range lanes {
			due := w.began.Add(c.Lookahead + time.Duration(lane+2)*time.Second)
			var messages []node.Message
			for i := range each {
				messages = append(messages, node.Message{
					ID: fmt.Sprint(i), Lane: fmt.Sprintf("to.%02d", lane), Deadline: due,
				})
			}
			w.stored(messages...)
		}
		n := w.run(c, nil)
		pass((lanes + 5) * time.Second)
		sum := 0
		held, _ := n.node.Held()
		for _, one := range held {
			sum += one.Messages
			if strings.HasPrefix(one.Lane, "to.") && one.Messages < 10 {
				t.Errorf("%s holds %d messages, and may hold %d", one.Lane, one.Messages, one.MaxMessages)
			}
		}
		if sum < 2000 || sum > 4500 {
			t.Errorf("%d messages are held, want 2,000, and as many again at most", sum)
		}
	})
}

// Goal: a target with a * stands for no topic that is anything else, and all that it stands for has one dead-letter
// topic.
func TestBadTargets(t *testing.T) {
	route := func(input, output, dead, outcomes string, targets ...string) node.Route {
		return node.Route{Input: input, Output: output, DeadLetter: dead, Outcomes: outcomes, Targets: targets}
	}
	for name, c := range map[string]struct {
		routes []node.Route
		want   string // in the error; "" for none
	}{
		"an input":     {[]node.Route{route("to.in", "out", "dead", "", "to.*")}, "stands for to.in"},
		"dead letters": {[]node.Route{route("in", "out", "to.dead", "", "to.*")}, "stands for to.dead"},
		"outcomes":     {[]node.Route{route("in", "out", "dead", "to.said", "to.*")}, "stands for to.said"},
		"another route's outcomes": {
			[]node.Route{route("in", "out", "dead", "", "to.*"), route("in2", "out", "dead", "to.said")},
			"stands for to.said",
		},
		"everything":     {[]node.Route{route("in", "out", "", "", "*")}, "stands for in"},
		"a * inside":     {[]node.Route{route("in", "out", "", "", "to.*.x")}, "a * stands at the end"},
		"its own output": {[]node.Route{route("in", "to.out", "dead", "", "to.*", "to.x")}, ""},
		"an output with other dead letters": {
			[]node.Route{route("in", "out", "dead", "", "to.*"), route("in2", "to.x", "dead2", "")},
			"to.x with two dead",
		},
		"a target with other dead letters": {
			[]node.Route{route("in", "out", "dead", "", "to.*"), route("in2", "out2", "", "", "to.x")},
			"to.x with two dead",
		},
		"a longer * with other dead letters": {
			[]node.Route{route("in", "out", "dead", "", "to.*"), route("in2", "out2", "dead2", "", "to.x.*")},
			"with two dead-letter topics",
		},
		"a shorter * with other dead letters": {
			[]node.Route{route("in", "out", "dead", "", "to.x.*"), route("in2", "out2", "dead2", "", "to.*")},
			"with two dead-letter topics",
		},
		"another * with other dead letters": {
			[]node.Route{route("in", "out", "dead", "", "to.*"), route("in2", "out2", "dead2", "", "from.*")}, "",
		},
		"the same dead letters": {
			[]node.Route{route("in", "out", "dead", "", "to.*"), route("in2", "to.x", "dead", "", "to.y.*")}, "",
		},
	} {
		config := node.Default()
		config.Seed[0], config.Routes = 1, c.routes
		err := config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	config := found()
	for lane, want := range map[string]bool{
		"out": true, "dead": true, "said": true, "to.a": true, "to.": true, "in": false, "to": false, "x.to.a": false,
		"to.*": false, "to.a b": false,
	} {
		if got := config.Serves(lane); got != want {
			t.Errorf("it serves %s: %v, want %v", lane, got, want)
		}
	}
}
