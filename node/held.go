package node

import "time"

// Held is what the schedule of a node holds of one lane: claims that wait for their instant.
type Held struct {
	Lane     string
	Messages int

	// Fill is how much of the lane's part of the schedule is taken, by messages or by bytes, whichever is more. It may
	// exceed 1 a little.
	Fill float64
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
		messages := max(1, scheduleMessages/len(s.lanes))
		bytes := max(1, scheduleBytes/len(s.lanes))
		all[i] = Held{
			l.name, len(l.items), max(float64(len(l.items))/float64(messages), float64(l.bytes)/float64(bytes)),
		}
	}
	return all
}
