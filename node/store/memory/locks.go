package memory

import (
	"maps"
	"slices"

	"chronos/node"
)

// Locks are what another session has locked: rows, by their names, and partitions. A name without a row stands for a
// row that the session is inserting, and has not committed.
type Locks struct {
	Messages   []node.MessageID
	Partitions []node.Partition
}

// Lock has another session lock something, in addition to what is locked already, until unlock is called. The session
// changes nothing.
func (s *Store) Lock(locks Locks) (unlock func()) {
	locks = Locks{slices.Clone(locks.Messages), slices.Clone(locks.Partitions)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks.add(locks, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.locks.add(locks, -1)
	}
}

// locked counts the sessions that have something locked.
type locked struct {
	messages   map[node.MessageID]int
	partitions map[node.Partition]int
}

func (l *locked) add(locks Locks, n int) {
	for _, name := range locks.Messages {
		l.messages[name] += n
	}
	for _, partition := range locks.Partitions {
		l.partitions[partition] += n
	}
	maps.DeleteFunc(l.messages, func(_ node.MessageID, n int) bool { return n == 0 })
	maps.DeleteFunc(l.partitions, func(_ node.Partition, n int) bool { return n == 0 })
}

func (l *locked) message(id, lane string) bool {
	return l.messages[node.MessageID{ID: id, Lane: lane}] > 0
}

func (l *locked) partition(p node.Partition) bool { return l.partitions[p] > 0 }

// has reports whether an item is about a message that is locked.
func (l *locked) has(item *node.Item) bool {
	return item.Action != node.Pass && l.message(item.ID, item.Lane)
}
