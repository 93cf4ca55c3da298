package postgres_test

import (
	"testing"

	"github.com/google/uuid"

	"chronos/node/queue"
	"chronos/node/store/postgres"
)

// What happens to tasks does not wait for somebody who changes a queue elsewhere, and so cannot wait for one in a
// circle:
//
//	a queue is changed: whoever defines queues waits for it now
//	                                                    a task of x ends: x is locked
//	it touches x: it waits for the end of the task
//	                                                    the row of x is written, and its paths are not: it is done
func TestTasksDoNotWaitForDefinitions(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	store := open(t, address, postgres.Options{})
	action := queue.Action{ID: uuid.New(), URI: "http://x", Method: "GET"}
	q := queue.Queue{ID: uuid.New(), Name: "x", Kind: queue.Sync, Paths: []string{"/a/x"}}
	do := func(command queue.Command) {
		t.Helper()
		if _, err := store.Apply(t.Context(), command); err != nil {
			t.Fatalf("%T: %v", command, err)
		}
	}
	do(queue.PutAction{Action: action})
	do(queue.PutQueue{Queue: q})

	definer, err := connect(t, address).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := definer.Exec(t.Context(), postgres.DefineStatement); err != nil {
		t.Fatal(err)
	}
	task := queue.Task{ID: uuid.New(), Queue: q.ID, Execution: action.ID}
	do(queue.PutTask{Task: task})
	do(queue.End{Task: task.ID})
	do(queue.Look{Queue: q.ID})
	if err := definer.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}
