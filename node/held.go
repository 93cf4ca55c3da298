package node

import "time"

// Held is what the schedule of a node holds of one lane, claims that wait for their instant, and how much the lane's
// part of the schedule has room for. It may hold a little more.
type Held struct {
	Lane                  string
	Messages, Bytes       int
	MaxMessages, MaxBytes int
}

// Held returns what this node's schedule holds of each lane, and the timing advance as it is now. It is for whoever
// watches the node, and safe to call at any time.
func (n *Node) Held() ([]Held, time.Duration) {
	held := n.core.schedule.all()
	if n.core.calls != nil {
		held = append(held, n.core.calls.all()...)
	}
	return held, n.core.advance.get()
}

func (s *schedule) all() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Held, len(s.lanes))
	for i, l := range s.lanes {
		messages, bytes := s.part(l)
		all[i] = Held{l.name, len(l.items), l.bytes, messages, bytes}
	}
	return all
}

func claims(held []*holding) []Claim {
	list := make([]Claim, len(held))
	for i, h := range held {
		list[i] = h.Claim
	}
	return list
}

func messages(held []*holding) []Message {
	list := make([]Message, len(held))
	for i, h := range held {
		list[i] = h.Message
	}
	return list
}
