package node_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// TestDecide goes through the table of docs/ALGORITHM.md: every state of a message, and every action on it.
func TestDecide(t *testing.T) {
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	kept := func(change func(k *node.Kept)) *node.Kept {
		k := &node.Kept{Incarnation: uuid.New(), Deadline: now.Add(time.Hour), Due: now.Add(time.Hour)}
		change(k)
		return k
	}
	states := []struct {
		name   string
		before *node.Kept
		want   string // of schedule, replace, reschedule, cancel and fire
	}{
		{"none", nil, "scheduled scheduled not_found not_found not_found"},
		{"waits", kept(func(*node.Kept) {}), "ignored replaced rescheduled cancelled fired"},
		{"overdue", kept(func(k *node.Kept) {
			k.Deadline, k.Due = now.Add(-time.Hour), now.Add(-time.Minute)
		}), "ignored replaced rescheduled cancelled fired"},
		{"former", kept(func(k *node.Kept) { k.Former = true }), "ignored+ replaced+ rescheduled+ cancelled+ fired+"},
		{
			"claimed", kept(func(k *node.Kept) { k.Claimed, k.Attempts = true, 1 }),
			"ignored replaced+ too_late too_late too_late",
		},
		{"attempted", kept(func(k *node.Kept) { k.Attempts = 1 }), "ignored replaced+ too_late too_late too_late"},
		{"bound", kept(func(k *node.Kept) { k.Bound = true }), "ignored replaced too_late too_late too_late"},
		{
			"put off", kept(func(k *node.Kept) { k.Deadline, k.Due = now.Add(-time.Hour), now.Add(time.Hour) }),
			"ignored replaced rescheduled cancelled fired",
		},
		{"recurs", kept(func(k *node.Kept) { k.Sequence = 3 }), "ignored replaced rescheduled cancelled fired"},
		{
			"recurs, claimed", kept(func(k *node.Kept) { k.Sequence, k.Claimed, k.Attempts = 1, true, 1 }),
			"ignored replaced+ too_late stopped too_late",
		},
		{
			"recurs, stopped", kept(func(k *node.Kept) { k.Sequence, k.Bound, k.Stopped = 1, true, true }),
			"ignored replaced too_late stopped too_late",
		},
	}
	actions := []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow}
	for _, s := range states {
		var got []string
		for _, action := range actions {
			item := node.Item{Action: action, Message: node.Message{
				ID: "x", Lane: "out", Incarnation: uuid.New(), Deadline: now,
				Recurrence: node.Recurrence{Sequence: 7},
			}}
			var was node.Kept
			if s.before != nil {
				was = *s.before
			}
			v := item.Decide(s.before)
			got = append(got, v.Outcome.String()+map[bool]string{true: "+"}[v.After != nil && v.After.Former ||
				v.Before != nil && v.Before.Former])
			if s.before != nil && *s.before != was {
				t.Errorf("%s, %v: what is kept was changed in place", s.name, action)
			}
			checkVerdict(t, s.name, &item, v)
		}
		if strings.Join(got, " ") != s.want {
			t.Errorf("%s: %s, want %s", s.name, strings.Join(got, " "), s.want)
		}
	}
}

// checkVerdict checks what is kept after a verdict, all of it.
func checkVerdict(t *testing.T, state string, item *node.Item, v node.Verdict) {
	t.Helper()
	brings := v.Outcome == node.Scheduled || v.Outcome == node.Replaced
	var want *node.Kept
	if v.Before != nil {
		before := *v.Before
		want = &before
	}
	switch v.Outcome {
	case node.Scheduled, node.Replaced:
		want = &node.Kept{
			Incarnation: item.Incarnation, Deadline: item.Deadline, Due: item.Deadline, Sequence: item.Sequence,
			Former: v.Before != nil && (v.Before.Former || v.Before.Attempts > 0),
		}
	case node.Rescheduled:
		want.Incarnation, want.Deadline, want.Due = item.Moved(want.Incarnation), item.Deadline, item.Deadline
	case node.FiredNow:
		want.Incarnation, want.Bound = item.Moved(want.Incarnation), true
		want.Deadline, want.Due = earlier(want.Deadline, item.Deadline), earlier(want.Due, item.Deadline)
	case node.Cancelled:
		want = nil
	case node.TooLate:
		want.Bound = true
	case node.Stopped:
		want.Stopped, want.Bound = true, true
	default:
	}
	if v.Brings != brings || !reflect.DeepEqual(v.After, want) {
		t.Errorf("%s, %v: %+v is kept, want %+v", state, item.Action, v.After, want)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// TestDecideAgain has the message of a take that has taken effect meet itself, as after a rewind: nothing changes,
// whatever has become of it meanwhile, and the answer is that of the first time.
func TestDecideAgain(t *testing.T) {
	before := &node.Kept{Incarnation: uuid.New(), Deadline: time.Now(), Due: time.Now(), Claimed: true, Attempts: 1}
	for _, action := range []node.Action{node.Schedule, node.Replace} {
		item := node.Item{Action: action, Message: node.Message{Incarnation: before.Incarnation}}
		v := item.Decide(before)
		if v.Outcome != node.Scheduled || v.After != before || v.Brings {
			t.Errorf("%v: %+v", action, v)
		}
	}
}

// TestReply has all headers that an outcome gets from what the store has decided.
func TestReply(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2025, 1, 1, 0, minute, 0, 123456000, time.UTC) }
	message := func(deadline, due time.Time, change func(k *node.Kept)) *node.Kept {
		k := &node.Kept{Incarnation: uuid.New(), Deadline: deadline, Due: due}
		change(k)
		return k
	}
	plain := func(*node.Kept) {}
	waits := message(at(1), at(9), plain)
	replaced := message(at(1), at(1), func(k *node.Kept) { k.Former = true })
	occurs := message(at(1), at(1), func(k *node.Kept) { k.Sequence = 3 })
	const one, two = "2025-01-01T00:01:00.123456Z", "2025-01-01T00:02:00.123456Z"
	for _, c := range []struct {
		verdict  node.Verdict
		rejected bool
		want     string
	}{
		{node.Verdict{Outcome: node.NotFound}, false, "Outcome=not_found"},
		{node.Verdict{Outcome: node.Scheduled, After: waits}, false, "Outcome=scheduled Deadline=" + one},
		{node.Verdict{Outcome: node.Duplicate, Before: waits, After: waits}, false, "Outcome=ignored Deadline=" + one},
		{node.Verdict{Outcome: node.Cancelled, Before: waits}, false, "Outcome=cancelled FormerDeadline=" + one},
		{
			node.Verdict{Outcome: node.Rescheduled, Before: waits, After: message(at(2), at(2), plain)},
			false,
			"Outcome=rescheduled Deadline=" + two + " FormerDeadline=" + one,
		},
		{
			node.Verdict{
				Outcome: node.Replaced, Before: waits,
				After: message(at(2), at(2), func(k *node.Kept) { k.Former = true }),
			},
			false, "Outcome=replaced Deadline=" + two + " FormerDeadline=" + one + " Former=may appear",
		},
		{
			node.Verdict{Outcome: node.Cancelled, Before: replaced},
			false, "Outcome=cancelled FormerDeadline=" + one + " Former=may appear",
		},
		{
			node.Verdict{Outcome: node.Cancelled, Before: occurs},
			false,
			"Outcome=cancelled FormerDeadline=" + one + " Sequence=3",
		},
		{
			node.Verdict{Outcome: node.Stopped, Before: occurs, After: occurs},
			false,
			"Outcome=stopped Deadline=" + one + " Sequence=3",
		},
		{
			node.Verdict{Outcome: node.TooLate, Before: occurs, After: occurs},
			false,
			"Outcome=too_late Deadline=" + one,
		},
		{ // the message is the copy for the dead-letter topic
			node.Verdict{Outcome: node.Scheduled, After: waits}, true, "Outcome=rejected",
		},
	} {
		answer := node.Message{ID: "id", Lane: "said", Incarnation: uuid.New(), Key: []byte("k")}
		item := node.Item{Answer: &node.Answer{Message: answer, Rejected: c.rejected}}
		m, told := item.Reply(c.verdict, 5)
		var got []string
		for _, h := range m.Headers {
			got = append(got, strings.TrimPrefix(h.Name, "chronos")+"="+string(h.Value))
		}
		if want := c.want + " Lineage=5"; !told || strings.Join(got, " ") != want {
			t.Errorf("%v: told %q, want %q", c.verdict.Outcome, strings.Join(got, " "), want)
		}
		next, _ := item.Reply(c.verdict, 6)
		if m.ID == next.ID || m.Incarnation == next.Incarnation || string(m.Key) != "k" || m.Lane != "said" {
			t.Errorf("%v: the outcomes of two lineages are %+v and %+v", c.verdict.Outcome, m, next)
		}
	}
	if _, told := (&node.Item{}).Reply(node.Verdict{Outcome: node.NotFound}, 5); told {
		t.Error("somebody is told who has not asked")
	}
}

// controlled is a configuration with an outcome topic and a second target.
func controlled() node.Config {
	c := config(0)
	c.Routes[0].Outcomes, c.Routes[0].Targets = "said", []string{"other"}
	return c
}

// instruct puts an instruction on the input topic, with further headers as name and value.
func (w *world) instruct(action, id string, headers ...string) node.Record {
	r := node.Record{Key: []byte("key " + id), Timestamp: time.Now(), Headers: []node.Header{
		{Name: node.HeaderAction, Value: []byte(action)}, {Name: node.HeaderID, Value: []byte(id)},
	}}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, node.Header{Name: headers[i], Value: []byte(headers[i+1])})
	}
	return w.submitRecord(r)
}

// said returns the outcomes that were told, sorted: of each the action, the id, the outcome and, with a plus, whether
// former content may appear.
func (w *world) said() []string {
	var said []string
	for _, d := range w.on("said") {
		h := map[string]string{}
		for _, one := range d.Headers {
			h[one.Name] = string(one.Value)
		}
		line := fmt.Sprintf("%s %s: %s", h[node.HeaderAction], h[node.HeaderID], h[node.HeaderOutcome])
		if h[node.HeaderFormer] != "" {
			line += "+"
		}
		if h[node.HeaderLineage] != "1" || h[node.HeaderSourceTopic] != "in" || h[node.HeaderSourceOffset] == "" ||
			h[node.HeaderSourcePartition] != "0" || h[node.HeaderOutcomeAt] == "" || d.Value != nil ||
			string(d.Key) != "key "+h[node.HeaderID] ||
			(h[node.HeaderOutcome] == "rejected") != (h[node.HeaderReason] != "" && h[node.HeaderError] != "") {
			w.t.Errorf("incomplete: %s, key %q: %v", line, d.Key, h)
		}
		said = append(said, line)
	}
	slices.Sort(said)
	return said
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }

// Each instruction acts on what waits, in the order of the records, also within one batch, and tells of it.
func TestInstructions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.submit("gone", time.Second)
		w.instruct("cancel", "gone")
		w.submit("gone", 2*time.Second)
		w.instruct("reschedule", "gone", node.HeaderDelay, "5s")
		w.submit("moved", time.Hour)
		w.instruct("reschedule", "moved", node.HeaderDeadline, in(3*time.Second))
		w.submit("hurried", time.Hour)
		w.instruct("fire", "hurried")
		w.instruct("cancel", "hurried")
		w.submit("new", time.Hour)
		w.instruct("replace", "new", node.HeaderDelay, "4s")
		w.instruct("replace", "newer", node.HeaderDelay, "4s")
		w.instruct("cancel", "nobody")
		w.submit("told", time.Second, node.Header{Name: node.HeaderConfirm, Value: []byte("true")})
		w.submit("told", time.Second, node.Header{Name: node.HeaderConfirm, Value: []byte("true")})
		w.submit("elsewhere", time.Second, node.Header{Name: node.HeaderTopic, Value: []byte("other")})
		w.instruct("cancel", "elsewhere")
		w.instruct("cancel", "elsewhere", node.HeaderTopic, "other")
		w.run(controlled(), nil)
		pass(2 * time.Second)
		if got := w.values("out"); len(got) != 2 || got["value hurried"] != 1 || got["value told"] != 1 {
			t.Errorf("delivered after two seconds: %v", got)
		}
		pass(4 * time.Second)
		got := w.values("out")
		if len(got) != 5 || got["value gone"] != 1 || got["value moved"] != 1 || got[""] != 2 {
			t.Errorf("delivered in the end: %v", got)
		}
		want := "cancel elsewhere: cancelled; cancel elsewhere: not_found; cancel gone: cancelled; " +
			"cancel hurried: too_late; cancel nobody: not_found; fire hurried: fired; " +
			"replace new: replaced; replace newer: scheduled; reschedule gone: rescheduled; " +
			"reschedule moved: rescheduled; schedule told: ignored; schedule told: scheduled"
		if said := strings.Join(w.said(), "; "); said != want {
			t.Errorf("said  %s\nwant  %s", said, want)
		}
		decided := 0
		for _, e := range seen[node.Decided](w) {
			decided += len(e.Decisions)
		}
		if decided != 12 {
			t.Errorf("%d decisions, want 12", decided)
		}
		w.empty()
	})
}

// What a node has claimed comes out, and is not cancelled; what replaces it comes out too, and says so.
func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := controlled()
		c.Lookahead = 900 * time.Millisecond
		w.submit("x", 2*time.Second)
		w.submit("y", 2*time.Second)
		w.run(c, nil)
		pass(1500 * time.Millisecond)
		w.instruct("cancel", "x")
		w.instruct("reschedule", "x", node.HeaderDelay, "1h")
		w.instruct("fire", "x")
		w.instruct("replace", "y", node.HeaderDelay, "10s")
		pass(time.Second)
		w.instruct("cancel", "y")
		pass(20 * time.Second)
		if got := w.values("out"); len(got) != 2 || got["value x"] != 1 || got["value y"] != 1 {
			t.Errorf("delivered %v", got)
		}
		want := "cancel x: too_late; cancel y: cancelled+; fire x: too_late; replace y: replaced+; " +
			"reschedule x: too_late"
		if said := strings.Join(w.said(), "; "); said != want {
			t.Errorf("said  %s\nwant  %s", said, want)
		}
		w.empty()
	})
}

// What is no valid instruction is rejected, with a reason of its own, and changes nothing; whoever asked is told.
func TestBadInstructions(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	id, soon := h(node.HeaderID, "x"), h(node.HeaderDelay, "1s")
	action := func(word string) node.Header { return h(node.HeaderAction, word) }
	for name, c := range map[string]struct {
		headers []node.Header
		want    node.Reason
		told    bool
	}{
		"unknown action":     {[]node.Header{id, action("delete")}, node.UnknownAction, true},
		"empty action":       {[]node.Header{id, action("")}, node.UnknownAction, true},
		"no word for it":     {[]node.Header{id, action("pass")}, node.UnknownAction, true},
		"capital action":     {[]node.Header{id, action("Cancel")}, node.UnknownAction, true},
		"two actions":        {[]node.Header{id, action("cancel"), action("cancel")}, node.RepeatedHeader, true},
		"no id":              {[]node.Header{action("cancel")}, node.MissingID, false},
		"reschedule to when": {[]node.Header{id, action("reschedule")}, node.MissingDeadline, true},
		"replace when":       {[]node.Header{id, action("replace")}, node.MissingDeadline, true},
		"deadline and delay": {
			[]node.Header{id, soon, h(node.HeaderDeadline, "2030-01-01T00:00")},
			node.DeadlineAndDelay, false,
		},
		"negative delay":   {[]node.Header{id, h(node.HeaderDelay, "-1s")}, node.InvalidDelay, false},
		"delay of a month": {[]node.Header{id, h(node.HeaderDelay, "P1M")}, node.InvalidDelay, false},
		"endless delay":    {[]node.Header{id, h(node.HeaderDelay, "99999999999h")}, node.InvalidDelay, false},
		"confirm perhaps":  {[]node.Header{id, soon, h(node.HeaderConfirm, "perhaps")}, node.InvalidConfirm, false},
		"confirm nothing":  {[]node.Header{id, soon, h(node.HeaderConfirm, "")}, node.InvalidConfirm, false},
		"another topic":    {[]node.Header{id, soon, h(node.HeaderTopic, "elsewhere")}, node.UnknownTopic, false},
		"the dead letters": {[]node.Header{id, action("cancel"), h(node.HeaderTopic, "dead")}, node.UnknownTopic, true},
		"ends before it does": {
			[]node.Header{id, soon, h(node.HeaderNotAfter, "1999-01-01T00:00")},
			node.InvalidNotAfter, false,
		},
		"ends never": {[]node.Header{id, soon, h(node.HeaderNotAfter, "never")}, node.InvalidNotAfter, false},
		"another end": {
			[]node.Header{id, action("reschedule"), soon, h(node.HeaderNotAfter, "2030-01-01T00:00")},
			node.InvalidNotAfter, true,
		},
		"two topics and an action": {
			[]node.Header{id, action("cancel"), h(node.HeaderTopic, "out"), h(node.HeaderTopic, "out")},
			node.RepeatedHeader, true,
		},
		"two deadlines, to be confirmed": {
			[]node.Header{
				id, h(node.HeaderDeadline, "2030-01-01T00:00"), h(node.HeaderDeadline, "2030-01-01T00:00"),
				h(node.HeaderConfirm, "true"),
			}, node.RepeatedDeadline, true,
		},
		"confirmed twice": {
			[]node.Header{id, soon, h(node.HeaderConfirm, "true"), h(node.HeaderConfirm, "true")},
			node.RepeatedHeader, true,
		},
		"unknown topic, to be confirmed": {
			[]node.Header{id, soon, h(node.HeaderTopic, "elsewhere"), h(node.HeaderConfirm, "true")},
			node.UnknownTopic, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("x", 2*time.Second)
				bad := w.submitRecord(node.Record{
					Key: []byte("key x"), Value: []byte{0, 0xff}, Headers: c.headers, Timestamp: time.Now(),
				})
				w.run(controlled(), nil)
				pass(3 * time.Second)
				if got := w.values("out"); len(got) != 1 || got["value x"] != 1 {
					t.Errorf("delivered %v", got)
				}
				if rejected := seen[node.Rejected](w); len(rejected) != 1 || rejected[0].Reason != c.want {
					t.Fatalf("rejected: %+v, want %s", rejected, c.want)
				}
				checkDeadLetter(t, w.on("dead"), bad, c.want)
				if decided := seen[node.Decided](w); len(decided) > 0 {
					t.Errorf("decided: %v", decided)
				}
				var want []string
				if c.told {
					want = []string{toldAction(c.headers) + " x: rejected"}
				}
				if said := w.said(); !slices.Equal(said, want) {
					t.Errorf("said %v, want %v", said, want)
				}
				w.empty()
			})
		})
	}
}

// toldAction returns how an outcome names the action of a record: as the record has it.
func toldAction(headers []node.Header) string {
	for _, h := range headers {
		if h.Name == node.HeaderAction {
			actions := []string{"schedule", "replace", "reschedule", "cancel", "fire"}
			if !slices.Contains(actions, string(h.Value)) {
				return strconv.Quote(string(h.Value))
			}
			return string(h.Value)
		}
	}
	return "schedule"
}

// A delay counts from the timestamp of its record, however late the record is taken in.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pass(time.Minute) // a bubble begins with the year 2000, before which no timestamp counts
		w.submitRecord(node.Record{
			Value: []byte("x"), Timestamp: time.Now().Add(-3 * time.Second),
			Headers: []node.Header{
				{Name: node.HeaderID, Value: []byte("x")}, {Name: node.HeaderDelay, Value: []byte("5s")},
			},
		})
		w.run(controlled(), nil)
		pass(1900 * time.Millisecond)
		early := len(w.on("out"))
		pass(200 * time.Millisecond)
		if late := len(w.on("out")); early != 0 || late != 1 {
			t.Errorf("%d came out before its time, and %d then", early, late)
		}
		w.empty()
	})
}

// A message that could not be published in time is not published any more: its copy goes to the dead-letter topic, if
// there is one.
func TestNotAfter(t *testing.T) {
	for name, dead := range map[string]string{"with a dead-letter topic": "dead", "without": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := controlled()
				c.Routes[0].DeadLetter = dead
				until := func(d time.Duration) node.Header {
					return node.Header{Name: node.HeaderNotAfter, Value: []byte(in(d))}
				}
				w.submit("late", 2*time.Second, until(4*time.Second))
				w.submit("good", 2*time.Second, until(time.Hour))
				w.submit("sharp", 500*time.Millisecond, until(500*time.Millisecond))
				n := w.run(c, nil)
				pass(time.Second)
				w.pause("out")
				pass(4 * time.Second)
				w.resume("out")
				pass(3 * time.Second)
				n.stop()
				if got := w.values("out"); len(got) != 2 || got["value good"] != 1 || got["value sharp"] != 1 {
					t.Errorf("delivered %v", got)
				}
				if copies := w.on("dead"); dead != "" {
					if len(copies) != 1 || string(copies[0].Value) != "value late" ||
						header(copies[0].Record, node.HeaderReason) != string(node.Expired) {
						t.Errorf("copies: %v", copies)
					}
				}
				if lapsed := seen[node.Lapsed](w); len(lapsed) != map[string]int{"": 1}[dead] {
					t.Errorf("lapsed: %v", lapsed)
				}
				w.empty()
			})
		})
	}
}
