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
		r := node.Requesting(node.Record{Headers: []node.Header{
			{Name: node.HeaderID, Value: []byte("x")}, {Name: node.HeaderDelay, Value: []byte("1h")},
		}}, &item)
		request, only := node.RequestOf(r.Headers)
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
