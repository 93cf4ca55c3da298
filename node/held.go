package node

import "time"

// Held is what the schedule of a node holds of one lane, its parts included: claims that wait for their instant, and
// how much the lane's part of the schedule has room for. It may hold a little more.
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
	all := make([]Held, 0, len(s.lanes))
	at := map[string]int{}
	for _, l := range s.lanes {
		messages, bytes := s.share(l)
		i, some := at[l.Lane]
		if !some {
			i = len(all)
			at[l.Lane] = i
			all = append(all, Held{Lane: l.Lane})
		}
		h := &all[i]
		h.Messages, h.Bytes = h.Messages+len(l.items), h.Bytes+l.bytes
		h.MaxMessages, h.MaxBytes = h.MaxMessages+messages, h.MaxBytes+bytes
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
