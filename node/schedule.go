//go:build ignore

package node

import (
	"cmp"
	"container/heap"
	"sync"
	"time"
)

// schedule holds the claims of this node that wait for their instant, the earliest first. It is where enqueue,
// which inserts messages that are due soon as ready, meets fire, which publishes them. It is bounded, in
// messages and in bytes: what finds no room waits in the store.
//
// The mutex is held for the length of a method only, never over a call to a port, so that the simulator, which
// runs one operation at a time, never finds it taken.
type schedule struct {
	mu    sync.Mutex
	items scheduled
	bytes int
}

// holding is a ready message of this node.
type holding struct {
	Readied

	// since is the node's monotonic clock before the claim was requested: the claim is not older than that.
	since time.Duration
}

const (
	// scheduleMessages is the greatest number of messages in the schedule.
	scheduleMessages = 4 * batchMessages

	// scheduleBytes is the greatest size of the messages in the schedule, but for the last one taken.
	scheduleBytes = 4 * batchBytes
)

// room returns how many messages and bytes fit in; zero or less for none.
func (s *schedule) room() (messages, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return scheduleMessages - len(s.items), scheduleBytes - s.bytes
}

// add takes up claims. It does so even when there is no room: they have been made already.
func (s *schedule) add(holdings []holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range holdings {
		s.bytes += h.Size()
		heap.Push(&s.items, h)
	}
}

// due takes out what is due at or before until, the earliest first: a batch at most.
func (s *schedule) due(until time.Time) []holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken []holding
	bytes := 0
	for len(s.items) > 0 && len(taken) < batchMessages && bytes < batchBytes &&
		!s.items[0].Deadline.After(until) {
		h := heap.Pop(&s.items).(holding)
		bytes += h.Size()
		taken = append(taken, h)
	}
	s.bytes -= bytes
	return taken
}

// next returns the earliest deadline in the schedule, and whether there is one.
func (s *schedule) next() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) == 0 {
		return time.Time{}, false
	}
	return s.items[0].Deadline, true
}

// clear takes out everything, in no particular but always the same order.
func (s *schedule) clear() []holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.items
	s.items, s.bytes = nil, 0
	return all
}

// scheduled is a heap by deadline; ties by id and topic, so that one seed gives one order.
type scheduled []holding

func (s *scheduled) Len() int      { return len(*s) }
func (s *scheduled) Swap(i, j int) { (*s)[i], (*s)[j] = (*s)[j], (*s)[i] }

func (s *scheduled) Less(i, j int) bool {
	a, b := &(*s)[i].Message, &(*s)[j].Message
	return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Topic, b.Topic)) < 0
}

func (s *scheduled) Push(x any) { *s = append(*s, x.(holding)) }

func (s *scheduled) Pop() any {
	old := *s
	last := old[len(old)-1]
	old[len(old)-1] = holding{} // lets go of the payload
	*s = old[:len(old)-1]
	return last
}
