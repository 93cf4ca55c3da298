package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"chronos/node/queue/desk"
)

// Goal: who deletes a queue is told whether it is gone, and if it is not, what has to happen before it goes. Method: a
// node that gives each answer.
func TestQueueDeleteSaysWhen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		queue desk.Queue
		want  string
	}{
		{desk.Queue{}, `^Queue x is deleted\.\n$`},
		{desk.Queue{Drain: true}, `^Queue x is deleted\.\n$`},
		{desk.Queue{Running: 2}, `^Queue x takes no tasks any more, and goes when the 2 that run are done\.\n$`},
		{
			desk.Queue{Running: 1, Drain: true},
			`^Queue x takes no tasks any more, and goes when the one that runs is done\.\n$`,
		},
		{desk.Queue{Pending: 70}, `^Queue x takes no tasks any more, and goes when the 70 that wait are deleted\.\n$`},
		{desk.Queue{Pending: 3, Drain: true}, `and goes when the 3 that wait have run\.\n$`},
		{desk.Queue{Pending: 1, Drain: true}, `and goes when the one that waits has run\.\n$`},
		{desk.Queue{Pending: 1}, `and goes when the one that waits is deleted\.\n$`},
		{
			desk.Queue{Pending: 70, Running: 2},
			`and goes when the 70 that wait are deleted and the 2 that run are done\.\n$`,
		},
	} {
		c.queue.Name, c.queue.Deleting = "x", true
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodDelete || r.URL.Path != "/v1/queues/x" {
				t.Errorf("asked for %s %s", r.Method, r.URL)
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(c.queue)
		}))
		t.Cleanup(node.Close)
		says(t, 0, c.want, "queue", "delete", "x", "--admin", node.URL)
	}
}
