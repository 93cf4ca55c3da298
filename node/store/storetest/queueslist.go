package storetest

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"chronos/node/queue"
)

// Lists have what fits the filter, in their order, and go on behind what came last.
func queuesLists(s *queues) {
	action := s.action()
	var made []queue.Queue
	for i := range 6 {
		made = append(made, s.queue(func(q *queue.Queue) {
			q.Tags, q.Paths = []string{"all", fmt.Sprint("tag", i%2)}, []string{fmt.Sprint("/p", i%3)}
		}))
		s.task(made[i].ID, action)
		s.do(queue.PutTask{Task: queue.Task{
			ID: s.id(), Queue: made[i].ID, Execution: action, Tags: []string{"odd", "it's"},
		}})
	}
	count := func(filter queue.Filter, queues, tasks int) {
		s.Helper()
		filter.Limit = 100
		q, err := s.Store.Queues(s.Context(), filter)
		t, err2 := s.Store.Tasks(s.Context(), filter)
		if err != nil || err2 != nil || queues >= 0 && len(q) != queues || tasks >= 0 && len(t) != tasks {
			s.Errorf("%+v: %d queues and %d tasks, want %d and %d; errors %v, %v", filter, len(q), len(t),
				queues, tasks, err, err2)
		}
	}
	count(queue.Filter{}, 7, 12)
	count(queue.Filter{Tag: "tag1"}, 3, 0)
	count(queue.Filter{Tag: "it's"}, 0, 6)
	count(queue.Filter{Paths: []string{"/p1", "/p2"}}, 4, -1)
	count(queue.Filter{Paths: []string{"/p1"}, Tag: "tag1"}, 1, -1)
	count(queue.Filter{Name: made[2].Name}, 1, -1)
	count(queue.Filter{Name: made[2].Name, Tag: "tag1"}, 0, -1)
	count(queue.Filter{ID: made[2].ID}, 1, 0)
	count(queue.Filter{Queue: made[2].ID}, -1, 2)
	count(queue.Filter{Status: queue.Running}, -1, 6)
	count(queue.Filter{Queue: made[2].ID, Status: queue.Running}, -1, 1)
	count(queue.Filter{Queue: made[2].ID, Status: queue.Running, Tag: "odd"}, -1, 0)
	count(queue.Filter{Tag: "a\x00b", Name: "\xff"}, 0, 0)

	var names []string
	for after := ""; ; after = names[len(names)-1] {
		page, err := s.Store.Queues(s.Context(), queue.Filter{AfterName: after, Limit: 2})
		if err != nil {
			s.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			names = append(names, page[i].Name)
		}
	}
	if len(names) != 7 || !slices.IsSorted(names) {
		s.Errorf("the names, by pages: %q", names)
	}
	var ids []string
	for after := uuid.Nil; ; {
		page, err := s.Store.Tasks(s.Context(), queue.Filter{AfterID: after, Limit: 5})
		if err != nil {
			s.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			after = page[i].ID
			ids = append(ids, after.String())
		}
	}
	if len(ids) != 12 || !slices.IsSorted(ids) {
		s.Errorf("the ids, by pages: %q", ids)
	}
}
