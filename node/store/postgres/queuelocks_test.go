package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
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

// More transactions about queues than the store has connections are to be made, and none of them comes to its end.
// Claims get connections all the same; and what waits for one of those transactions in vain says so.
func TestQueuesLeaveConnections(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	const most = 4 // of queues, at the same time
	store := postgres.Unhurried(open(t, address, postgres.Options{MaxConns: 2 * most}), patience)
	goOn, begun := make(chan struct{}), make(chan struct{}, 4*most)
	var under sync.WaitGroup
	for range 4 * most {
		under.Go(func() {
			_, err := store.Transact(t.Context(), func(context.Context, queue.Tx) (queue.Result, error) {
				begun <- struct{}{}
				<-goOn
				return queue.Result{}, nil
			})
			if err != nil {
				t.Errorf("a transaction: %v", err)
			}
		})
	}
	for range most {
		<-begun
	}
	claiming, over := context.WithTimeout(t.Context(), 20*time.Second)
	defer over()
	for range 2 * most {
		_, err := store.Claim(claiming, node.ClaimRequest{
			Node: uuid.New(), Hold: time.Minute, Until: time.Now(),
			Lanes: []node.Share{{Lane: "out", Limit: 1, Bytes: 1}},
		})
		if err != nil {
			t.Errorf("a claim beside transactions about queues: %v", err)
		}
	}
	if more := len(begun); more > 0 {
		t.Errorf("%d transactions about queues are under way, want %d", most+more, most)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := store.Transact(impatient, func(context.Context, queue.Tx) (queue.Result, error) {
		t.Error("it has begun beside the others")
		return queue.Result{}, nil
	})
	if err == nil {
		t.Error("it does not say that it has waited in vain")
	}
	close(goOn)
	under.Wait()
}
