package node

import (
	"slices"
	"time"
)

const (
	// mostFound is how many lanes a node takes messages in for that no route names. Each has a part of every claim, and
	// of the schedule while it holds something: an application that makes up topic names must not leave nothing to the
	// others.
	mostFound = 250

	// foundFor is how long such a lane is served after the last message: it may be on its way back to the store, and
	// what is known of the sink is not to be forgotten meanwhile.
	foundFor = time.Minute
)

// find serves a lane that no route names, as this node has heard of it now (monotonic). It reports whether the lane is
// served: not if there are too many already.
func (s *schedule) find(name string, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hear(Part{Lane: name}, mostFound, now)
}

// findPart serves a part of a lane, as this node has heard of it now (monotonic). It reports whether the part is
// served: not if there are too many already.
func (s *schedule) findPart(at Part, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hear(at, mostParts, now)
}

// hear serves a lane, or a part of one, if it serves fewer of these that were found than most. The caller holds mu.
func (s *schedule) hear(at Part, most int, now time.Duration) bool {
	l := s.named[at]
	if l == nil {
		found := 0
		for _, other := range s.lanes {
			if other.found && (other.Name == "") == (at.Name == "") {
				found++
			}
		}
		if found >= most {
			return false
		}
		l = s.serve(at)
	}
	l.heard = max(l.heard, now)
	return true
}

// serve adds a lane that no route names, or a part of a lane, and the lane with it. The caller holds mu.
func (s *schedule) serve(at Part) *lane {
	l := &lane{Part: at, found: true, most: s.most(at.Lane)}
	if at.Name == "" {
		l.whole, l.gate, l.throttle = l, s.gate(at.Lane), newThrottle(s.perSecond(at.Lane))
	} else {
		if l.whole = s.named[Part{Lane: at.Lane}]; l.whole == nil {
			l.whole = s.serve(Part{Lane: at.Lane})
		}
		l.gate, l.throttle, l.doubtful = l.whole.gate, l.whole.throttle, true
	}
	s.lanes = append(s.lanes, l)
	s.named[at] = l
	return l
}

// waiting is told where messages wait now (monotonic): on which lanes that no route names, and on which parts. It
// serves them, and forgets those that nothing was heard of for long. It reports whether it serves any that it has not
// served before.
func (s *schedule) waiting(parts []Part, now time.Duration) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range parts {
		served := s.named[at] != nil
		more = s.hear(at, MaxParts, now) && !served || more
	}
	whole := map[string]bool{} // lanes of which parts are served
	for _, l := range s.lanes {
		if l.Name != "" && !l.forgotten(now) {
			whole[l.Lane] = true
		}
	}
	s.lanes = slices.DeleteFunc(s.lanes, func(l *lane) bool {
		forgotten := l.forgotten(now) && (l.Name != "" || !whole[l.Lane])
		if forgotten {
			delete(s.named, l.Part)
		}
		return forgotten
	})
	s.first %= max(1, len(s.lanes))
	return more
}
