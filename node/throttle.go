package node

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LanePace bounds how fast messages come out on a lane: what waits for an opening, or has waited for a receiver that
// was away, does not all arrive at once.
type LanePace struct {
	// Lane names a lane, or many, by the same rule as LaneWindow.Lane. Each lane that a name with a * stands for has
	// this pace for itself.
	Lane string

	// PerSecond is how many messages a node begins to publish there in any second, at most: 1 to MaxPerSecond; 0 for no
	// bound. It is for each node: three nodes let out three times as many.
	PerSecond int
}

// MaxPerSecond is the greatest pace of a lane. What is faster than that needs none.
const MaxPerSecond = 1_000_000

// PaceOf returns how many messages a node lets out on a lane in any second; 0 for no bound.
func (c *Config) PaceOf(lane string) int {
	if at := c.saidOf(lane, len(c.Paces), func(i int) string { return c.Paces[i].Lane }); at >= 0 {
		return c.Paces[at].PerSecond
	}
	return 0
}

// validatePaces returns a *ConfigError for the first thing that is not allowed of the paces, or nil.
func (c *Config) validatePaces() error {
	wrong := func(value, allowed string) error { return &ConfigError{"Paces", value, allowed} }
	named := map[string]bool{}
	for i := range c.Paces {
		name, perSecond := c.Paces[i].Lane, c.Paces[i].PerSecond
		prefix, many := strings.CutSuffix(name, "*")
		switch {
		case named[name]:
			return wrong("two paces of lane "+name, "a lane has one")
		case strings.Contains(prefix, "*") || !many && !IsTopic(name) && !IsCallbackLane(name):
			return wrong("a pace of lane "+name, "it must be the name of a lane, or the beginning of one and a *")
		case perSecond < 0 || perSecond > MaxPerSecond:
			return wrong(fmt.Sprintf("a pace of %d on lane %s", perSecond, name),
				fmt.Sprintf("it must be from 1 to %d, or 0 for none", MaxPerSecond))
		case perSecond > 0 && slices.ContainsFunc(c.Routes, func(r Route) bool { return r.DeadLetter == name }):
			return wrong("a pace of the dead-letter topic "+name,
				"it has none, because what is rejected is copied there at once")
		}
		named[name] = true
	}
	return nil
}

// throttle counts what a node has begun to publish on a lane within the last second, by its monotonic clock, and lets
// no more begin than the pace of the lane allows. So a message that is due while there is room goes out at once,
// however many go with it, and no second that one may choose has more of them:
//
//	pace 3      |x x x . . . . . . .|x . x . . . x . . .|. . x
//	            0                   1 s                 2 s
//
// A count that begins anew with each second of the clock would let six out around 1 s. The nil throttle lets out
// everything. The schedule's mutex guards it.
type throttle struct {
	most  int
	begun []beginning // within the last second, in the order of time
	count int         // of all begun
}

// beginning is how many publishes began at a monotonic instant.
type beginning struct {
	at    time.Duration
	count int
}

// paceSecond is the time in which a pace is counted.
const paceSecond = time.Second

// newThrottle returns the throttle of a lane with that pace; nil for no bound.
func newThrottle(perSecond int) *throttle {
	if perSecond == 0 {
		return nil
	}
	return &throttle{most: perSecond}
}

// lets reports whether one more may begin at a monotonic instant.
func (t *throttle) lets(now time.Duration) bool { return t == nil || t.room(now) > 0 }

// room returns how many more may begin up to a monotonic instant, if none begins before it. The instant may lie in the
// future. t is not nil.
func (t *throttle) room(at time.Duration) int {
	room := t.most - t.count
	for _, b := range t.begun {
		if at-b.at < paceSecond {
			break
		}
		room += b.count
	}
	return room
}

// note counts one that begins now.
func (t *throttle) note(now time.Duration) {
	if t == nil {
		return
	}
	gone := 0
	for ; gone < len(t.begun) && now-t.begun[gone].at >= paceSecond; gone++ {
		t.count -= t.begun[gone].count
	}
	t.begun = slices.Delete(t.begun, 0, gone)
	if last := len(t.begun) - 1; last >= 0 && t.begun[last].at == now {
		t.begun[last].count++
	} else {
		t.begun = append(t.begun, beginning{now, 1})
	}
	t.count++
}

// spare takes one back that was counted at an instant, since it was not published after all.
func (t *throttle) spare(at time.Duration) {
	if t == nil {
		return
	}
	for i := range t.begun {
		if t.begun[i].at != at {
			continue
		}
		t.count--
		if t.begun[i].count--; t.begun[i].count == 0 {
			t.begun = slices.Delete(t.begun, i, i+1) // the first one says when there is room again
		}
		return
	}
}

// opens returns how long it takes until one more may begin.
func (t *throttle) opens(now time.Duration) time.Duration {
	if t.lets(now) {
		return 0
	}
	return t.begun[0].at + paceSecond - now
}

// spare says that messages that were taken out were not sent after all: they leave their places in the paces of their
// lanes to others. It reports whether there are such. The watch is kept anew, since a publisher may have found no room
// meanwhile.
func (s *schedule) spare(unsent []*holding) (spared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range unsent {
		if l := s.named[Part{Lane: h.Lane}]; l != nil && l.throttle != nil {
			l.throttle.spare(h.taken)
			spared = true
		}
	}
	if spared && s.keeper != nil {
		s.keeper.bell.Ring()
	}
	return spared
}

// begins says that a message that was taken out is to be sent only now, since it has waited for its turn, and reports
// whether it may be: not if its place in the pace of its lane is another one's by now.
func (s *schedule) begins(h *holding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.named[Part{Lane: h.Lane}]
	if l == nil || l.throttle == nil {
		return true
	}
	now := s.mono()
	if now-h.taken >= paceSecond {
		return false
	}
	l.throttle.spare(h.taken)
	h.taken = now
	l.throttle.note(now)
	return true
}

// owes notes whether a claim on a lane has left something in the store, as far as this node knows, and whether the
// claims on it are shared (backlog).
func (s *schedule) owes(name string, more, shared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.named[Part{Lane: name}]; l != nil {
		l.owing, l.shared = more, shared
	}
}

// jumps reports whether what is taken in now would come out before what waits in the store: on a lane with a pace, of
// which the last claim has left something there. Otherwise what is due when it comes would have all the room of such a
// lane, as long as no less of that comes than the pace allows:
//
//	enqueuer  x, which is due, is stored: there is no room
//	          a second later there is
//	enqueuer  y, which has just come, is stored as claimed; there is no room
//	claimer   looks: there is no room for x; ...
//
// On a lane whose claims are shared between what is overdue and what comes, what comes has its half there, and no more.
func (s *schedule) jumps(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.named[Part{Lane: name}]
	return l != nil && (l.throttle != nil && l.owing || l.shared)
}
