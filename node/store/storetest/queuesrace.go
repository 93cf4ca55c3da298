package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
)

// race has callers, racers of them, do something at once, in the store and its peer, and returns their errors.
func (s *queues) race(do func(i int, store queue.Store) error) []error {
	errs := make([]error, racers)
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range racers {
		store := s.Store
		if i%2 == 1 && s.Peer != nil {
			store = s.Peer
		}
		group.Go(func() {
			<-begin
			errs[i] = do(i, store)
		})
	}
	close(begin)
	group.Wait()
	return errs
}

const (
	racers = 8
	rounds = 10
)

// Of completions that come at once one counts: the promise runs once, and one task starts.
func queuesRaceEnd(s *queues) {
	s.raceEnds(func(task uuid.UUID, _ int) queue.Command { return queue.End{Task: task} })
}

// Of a completion and the time limit one counts.
func queuesRaceLimit(s *queues) {
	s.raceEnds(func(task uuid.UUID, i int) queue.Command {
		if i%3 == 0 {
			return queue.Look{Queue: s.find(task).Queue}
		}
		return queue.End{Task: task}
	})
}

func (s *queues) raceEnds(command func(task uuid.UUID, i int) queue.Command) {
	action := s.action()
	for range rounds {
		q := s.queue(func(q *queue.Queue) { q.TimeLimit = time.Millisecond })
		first := s.id()
		s.do(queue.PutTask{Task: queue.Task{ID: first, Queue: q.ID, Execution: action, Promise: []uuid.UUID{action}}})
		for range 3 {
			s.task(q.ID, action)
		}
		if s.Clock != nil {
			s.Clock.Advance(time.Millisecond)
		}
		run := s.find(first).Run
		var won, limits atomic.Int32
		errs := s.race(func(i int, store queue.Store) error {
			c := command(first, i)
			end, ends := c.(queue.End)
			if ends {
				end.Run = run
				c = end
			}
			result, err := store.Apply(context.Background(), c)
			if ends && result.Changed {
				won.Add(1)
			}
			if !ends && result.Changed {
				limits.Add(1)
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			s.Fatal(err)
		}
		// Who was told that his completion counts was told the truth, and nobody else was told it.
		complete := s.find(first).Status == queue.Complete
		if won := won.Load(); won > 1 || (won == 1) != complete {
			s.Fatalf("%d completions count, and the task is %s", won, s.find(first).Status)
		}
		// Where the clock stands still, no other task has reached its limit.
		if s.Clock != nil && won.Load()+limits.Load() != 1 {
			s.Fatalf("%d completions and %d time limits count", won.Load(), limits.Load())
		}
		_, tasks, _ := s.all(s.Store)
		running, done := 0, 0
		for i := range tasks {
			if tasks[i].Queue == q.ID && tasks[i].Status == queue.Running {
				running++
			}
			if tasks[i].Queue == q.ID && tasks[i].Status.Done() {
				done++
			}
		}
		found, err := s.Store.Queues(s.Context(), queue.Filter{ID: q.ID, Limit: 1})
		if err != nil {
			s.Fatal(err)
		}
		if got := found[0]; running > 1 || got.Running != running || got.Pending != 4-running-done || done == 0 {
			s.Fatalf("%d tasks run, %d are done: %+v", running, done, got)
		}
		promises := 0
		for _, name := range s.Messages(s) {
			if strings.Contains(name, first.String()) && strings.Contains(name, "promise") {
				promises++
			}
		}
		if promises != 1 {
			s.Fatalf("the promise has %d messages", promises)
		}
	}
}

// Of queues of one name that are made at once there is one, and the others are refused.
func queuesRaceName(s *queues) {
	for round := range rounds {
		ids := []uuid.UUID{}
		for range racers {
			ids = append(ids, s.id())
		}
		made := 0
		for _, err := range s.race(func(i int, store queue.Store) error {
			_, err := store.Apply(context.Background(), queue.PutQueue{Queue: queue.Queue{
				ID: ids[i], Name: fmt.Sprint("one", round), Kind: queue.Sync,
			}})
			return err
		}) {
			_, refused := errors.AsType[*queue.Refusal](err)
			switch {
			case err == nil:
				made++
			case !refused:
				s.Fatal(err)
			}
		}
		if made != 1 {
			s.Fatalf("%d queues have one name", made)
		}
	}
}

// A task that is brought several times at once, even to several queues, is one task.
func queuesRaceTask(s *queues) {
	action := s.action()
	a, b := s.queue(nil), s.queue(nil)
	for range rounds {
		id := s.id()
		for _, err := range s.race(func(i int, store queue.Store) error {
			in := []uuid.UUID{a.ID, b.ID}[i/2%2]
			_, err := store.Apply(context.Background(), queue.PutTask{Task: queue.Task{
				ID: id, Queue: in, Execution: action,
			}})
			return err
		}) {
			if _, refused := errors.AsType[*queue.Refusal](err); err != nil && !refused {
				s.Fatal(err)
			}
		}
		s.counted()
	}
}

// counted fails the test if what queues count is not what there is.
func (s *queues) counted() {
	s.Helper()
	list, tasks, _ := s.all(s.Store)
	for i := range list {
		pending, running := 0, 0
		for k := range tasks {
			switch {
			case tasks[k].Queue != list[i].ID:
			case tasks[k].Status == queue.Pending:
				pending++
			case tasks[k].Status == queue.Running:
				running++
			}
		}
		if list[i].Pending != pending || list[i].Running != running || list[i].Kind == queue.Sync && running > 1 {
			s.Fatalf("%d wait and %d run: %+v", pending, running, list[i])
		}
	}
}

// Of starts that race one wins: by arrivals, looks and completions.
func queuesRaceStart(s *queues) {
	action := s.action()
	for range rounds {
		q := s.queue(nil)
		ids := make([]uuid.UUID, racers)
		for i := range ids {
			ids[i] = s.id()
		}
		if err := errors.Join(s.race(func(i int, store queue.Store) error {
			if i%4 == 3 {
				_, err := store.Apply(context.Background(), queue.Look{Queue: q.ID})
				return err
			}
			_, err := store.Apply(context.Background(), queue.PutTask{Task: queue.Task{
				ID: ids[i], Queue: q.ID, Execution: action, Priority: i,
			}})
			return err
		})...); err != nil {
			s.Fatal(err)
		}
		s.counted()
	}
}

// Nothing starts in a queue after the transaction that has closed what contains it, and nothing that waits is left
// alone when that opens.
func queuesRaceParent(s *queues) {
	action := s.action()
	outer := s.queue(func(q *queue.Queue) { q.Paths = []string{"/outer"} })
	inner := s.queue(func(q *queue.Queue) {
		q.Kind, q.Paths = queue.Async, []string{"/outer/inner"}
	})
	for range rounds {
		ids := make([]uuid.UUID, racers)
		for i := range ids {
			ids[i] = s.id()
		}
		var mu sync.Mutex
		closed := map[uuid.UUID]bool{} // those that were brought when the queue was certainly closed
		shut := false
		errs := s.race(func(i int, store queue.Store) error {
			if i == 0 {
				q := outer
				q.Window = "never"
				_, err := store.Apply(context.Background(), queue.PutQueue{Queue: q})
				mu.Lock()
				defer mu.Unlock()
				shut = true
				return err
			}
			mu.Lock()
			closed[ids[i]] = shut
			mu.Unlock()
			_, err := store.Apply(context.Background(), queue.PutTask{Task: queue.Task{
				ID: ids[i], Queue: inner.ID, Execution: action,
			}})
			return err
		})
		if err := errors.Join(errs...); err != nil {
			s.Fatal(err)
		}
		for _, id := range ids[1:] {
			if closed[id] && s.find(id).Status != queue.Pending {
				s.Fatal("a task has started although what contains its queue was closed before it came")
			}
		}
		s.do(queue.PutQueue{Queue: outer})
		due, _, _, err := s.Store.Due(s.Context(), 10)
		if err != nil {
			s.Fatal(err)
		}
		for _, id := range due {
			s.do(queue.Look{Queue: id})
		}
		for _, id := range ids[1:] {
			if got := s.find(id).Status; got != queue.Running {
				s.Fatalf("a task is %s after what contains its queue has opened", got)
			}
			s.do(queue.End{Task: id})
		}
		s.counted()
	}
}
