package node

import "time"

// Held is what the schedule of a node holds of one lane: claims that wait for their instant.
type Held struct {
	Lane string

	// Messages and Bytes are what is held, and Room and RoomBytes how much may be; the last one taken may exceed that.
	Messages, Bytes int
	Room, RoomBytes int
}

// Held returns what this node's schedule holds of each lane, and the timing advance as it is now. It is for whoever
// watches the node, and safe to call at any time.
func (n *Node) Held() ([]Held, time.Duration) {
	return n.core.schedule.held(), n.core.advance.get()
}

func (s *schedule) held() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Held, len(s.lanes))
	for i, l := range s.lanes {
		all[i] = Held{
			Lane: l.name, Messages: len(l.items), Bytes: l.bytes,
			Room: max(1, scheduleMessages/len(s.lanes)), RoomBytes: max(1, scheduleBytes/len(s.lanes)),
		}
	}
	return all
}
