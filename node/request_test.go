package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Goal: a record says by its mark what somebody waits for, whatever that is: one without a mark that can be read is
// carried out for any message of the id. Method: records of requests whose answers are kept for a day, a minute, and no
// time at all.
func TestRequesting(t *testing.T) {
	for _, keep := range []time.Duration{node.AnswerKept, time.Minute, 0} {
		item := node.Item{From: node.NoPlace, Action: node.Reschedule, Only: uuid.New(), Message: node.Message{
			ID: "x", Lane: "out", Incarnation: uuid.New(), Deadline: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC),
		}}
		item.Request = &node.Request{ID: uuid.New(), Print: uuid.New(), Keep: keep}
		marks := node.NewMarks([]byte("one"))
		r := marks.Requesting(node.Record{Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte("x")}, {Name: node.HeaderDelay, Value: []byte("1h")},
		}}, &item)
		request, only, _ := marks.RequestOf(r)
		if request == nil || only != item.Only {
			t.Fatalf("kept for %v: %v, of %v, want one of %v: %s", keep, request, only, item.Only, r.Headers)
		}
		if request.ID != item.Request.ID || request.Print != item.Request.Print || request.Ask != item.Incarnation ||
			request.Keep < keep || request.Keep > max(keep, time.Microsecond) {
			t.Errorf("%+v, and was %+v, of the record %v", request, item.Request, item.Incarnation)
		}
		var names []string
		for _, h := range r.Headers {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != "chronosMessageId chronosDeadline chronosTopic chronosRequest" {
			t.Errorf("the record has the headers %s", got)
		}
	}
}

// Goal: a mark is believed if a node has made it for that record, and a record with any other mark is rejected, not
// carried out without its condition. Method: a signed record that is changed in each of its parts, and marks as they
// were before they were signed.
func TestRequestForged(t *testing.T) {
	first, second := []byte("the first secret"), []byte("the second secret")
	item := node.Item{From: node.NoPlace, Action: node.Cancel, Only: uuid.New(), Message: node.Message{
		ID: "x", Lane: "out", Incarnation: uuid.New(),
	}}
	item.Request = &node.Request{ID: uuid.New(), Print: uuid.New(), Keep: time.Hour}
	signed := func() node.Record {
		return node.NewMarks(first).Requesting(node.Record{Key: []byte("k"), Value: []byte("v"), Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte("x")}, {Name: node.HeaderAction, Value: []byte("cancel")},
		}}, &item)
	}
	one := [][]byte{first}
	header := func(at int, change func([]byte) []byte) func(r *node.Record) {
		return func(r *node.Record) { r.Headers[at].Value = change(r.Headers[at].Value) }
	}
	to := func(value string) func([]byte) []byte { return func([]byte) []byte { return []byte(value) } }
	flip := func(at int) func([]byte) []byte {
		return func(mark []byte) []byte { mark[at] ^= 1; return mark }
	}
	for name, c := range map[string]struct {
		secrets  [][]byte
		change   func(r *node.Record)
		accepted bool
	}{
		"as it was sent":               {one, func(*node.Record) {}, true},
		"the secret is being replaced": {[][]byte{second, first}, func(*node.Record) {}, true},
		"another secret":               {[][]byte{second}, func(*node.Record) {}, false},
		"no secret":                    {nil, func(*node.Record) {}, false},
		"an empty secret":              {[][]byte{{}}, func(*node.Record) {}, false},
		"another id":                   {one, header(0, to("y")), false},
		"another action":               {one, header(1, to("fire")), false},
		"another lane":                 {one, header(2, to("in")), false},
		"another value":                {one, func(r *node.Record) { r.Value = []byte("w") }, false},
		"no value":                     {one, func(r *node.Record) { r.Value = nil }, false},
		"another key":                  {one, func(r *node.Record) { r.Key = nil }, false},
		"a header more": {one, func(r *node.Record) {
			r.Headers = append(r.Headers, node.Header{Name: node.HeaderTopic})
		}, false},
		"the values of two headers swapped": {one, func(r *node.Record) {
			r.Headers[0].Value, r.Headers[1].Value = r.Headers[1].Value, r.Headers[0].Value
		}, false},
		"the names of two headers swapped": {one, func(r *node.Record) {
			r.Headers[0].Name, r.Headers[1].Name = r.Headers[1].Name, r.Headers[0].Name
		}, false},
		"a header less":   {one, func(r *node.Record) { r.Headers = r.Headers[1:] }, false},
		"another request": {one, header(3, flip(70)), false},
		"another MAC":     {one, header(3, flip(0)), false},
		"no MAC, as in earlier releases": {
			one, header(3, func(mark []byte) []byte { return mark[65:] }), false,
		},
		"nothing": {one, header(3, to("")), false},
	} {
		r := signed()
		c.change(&r)
		request, only, rejected := node.NewMarks(c.secrets...).RequestOf(r)
		if accepted := request != nil && only == item.Only; accepted != c.accepted || rejected == c.accepted {
			t.Errorf("%s: accepted %v, rejected %v, want accepted %v", name, accepted, rejected, c.accepted)
		}
	}
	if request, _, rejected := node.NewMarks(first).RequestOf(node.Record{}); request != nil || rejected {
		t.Errorf("without a mark: %v, rejected %v", request, rejected)
	}
}
