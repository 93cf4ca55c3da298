package node

import (
	"strings"
	"time"
)

// Window is when a lane is open: while it is closed, no publish begins on it, and no request is made. It does not
// change, and may be asked by several goroutines at once. A *calendar.Window is one; the engine reads no words.
type Window interface {
	// Open reports whether the lane is open at an instant.
	Open(at time.Time) bool

	// Next returns the first instant after another one at which Open says otherwise; false if it never does. What
	// combines several windows has to look for that one: of what is closed nothing is claimed before it is about to
	// open.
	Next(after time.Time) (time.Time, bool)
}

// LaneWindow says when a lane is open.
type LaneWindow struct {
	// Lane is the name of a lane, or ends with a * and stands for all whose names begin with what comes before it. A
	// name counts for more than what ends with a *, and among these the longest counts. What ends with a * is never
	// about dead letters, nor about the answers to instructions: nobody waits until the morning to hear that nothing
	// will come.
	Lane string

	// Window is when it is open; nil for always.
	Window Window
}

// WindowOf returns when a lane is open; nil for always.
func (c *Config) WindowOf(lane string) Window {
	if at := c.windowOf(lane); at >= 0 {
		return c.Windows[at].Window
	}
	return nil
}

// windowOf returns the place of what Windows says of a lane; -1 for nothing.
func (c *Config) windowOf(lane string) int {
	return c.saidOf(lane, len(c.Windows), func(i int) string { return c.Windows[i].Lane })
}

// saidOf returns the place of what a list says of a lane, by the rule of LaneWindow.Lane; -1 for nothing.
func (c *Config) saidOf(lane string, length int, nameAt func(i int) string) int {
	found, longest := -1, -1
	for i := range length {
		name := nameAt(i)
		prefix, many := strings.CutSuffix(name, "*")
		switch {
		case name == lane:
			return i
		case many && len(prefix) > longest && strings.HasPrefix(lane, prefix) &&
			IsCallback(lane) == IsCallback(prefix) && !c.tells(lane):
			found, longest = i, len(prefix)
		}
	}
	return found
}

// validateWindows returns a *ConfigError for the first thing that is not allowed of the windows, or nil.
func (c *Config) validateWindows() error {
	wrong := func(value, allowed string) error { return &ConfigError{"Windows", value, allowed} }
	named := map[string]bool{}
	for i := range c.Windows {
		name := c.Windows[i].Lane
		prefix, many := strings.CutSuffix(name, "*")
		switch {
		case named[name]:
			return wrong("two windows of lane "+name, "a lane has one")
		case strings.Contains(prefix, "*") || !many && !IsTopic(name) && !IsCallbackLane(name):
			return wrong("a window of lane "+name, "it must be the name of a lane, or the beginning of one and a *")
		}
		for _, r := range c.Routes {
			if name == r.DeadLetter && c.Windows[i].Window != nil {
				return wrong("a window of the dead-letter topic "+name,
					"it has none, because what is rejected is copied there at once")
			}
		}
		named[name] = true
	}
	return nil
}

// gate is what a node knows of a window: whether it is open, and for how long that holds. It asks the window seldom,
// since that can be slow, and never counts on a change that it has seen coming: the clock may be set over it, in either
// direction.
//
//	gate      07:59: closed, until 08:00
//	          08:00: open, until 20:00
//	          the clock is set back to 07:30
//	gate      "open until 20:00" was asked at 08:00: it says nothing of 07:30
//
// So what was asked holds from when it was asked on, and before the change. The caller sees to it that one goroutine
// asks at a time. The nil gate is always open.
type gate struct {
	window Window

	open  bool
	asked time.Time // zero for never
	until time.Time // zero forever
}

// gates returns what finds the gate of a lane. Lanes that share a window share a gate.
func (c *Config) gates() func(lane string) *gate {
	made := map[int]*gate{}
	return func(lane string) *gate {
		at := c.windowOf(lane)
		if at < 0 || c.Windows[at].Window == nil {
			return nil
		}
		if made[at] == nil {
			made[at] = &gate{window: c.Windows[at].Window}
		}
		return made[at]
	}
}

// at reports whether the gate is open at an instant, and until when; zero forever.
func (g *gate) at(now time.Time) (open bool, until time.Time) {
	if g == nil {
		return true, time.Time{}
	}
	if g.asked.IsZero() || now.Before(g.asked) || !g.until.IsZero() && !now.Before(g.until) {
		g.open, g.asked, g.until = g.window.Open(now), now, time.Time{}
		if until, changes := g.window.Next(now); changes {
			g.until = until
		}
	}
	return g.open, g.until
}

// opens returns how long it takes until the gate opens: 0 if it is open, and never for not at all.
func (g *gate) opens(now time.Time) time.Duration {
	switch open, until := g.at(now); {
	case open:
		return 0
	case until.IsZero():
		return never
	default:
		return max(until.Sub(now), 1)
	}
}

// never is longer than anybody waits.
const never = 1<<63 - 1

// claimable reports whether something may be claimed that comes out behind the gate: it is open, or opens within the
// lookahead, so that what waits behind it is on the schedule when it does. Nothing is said of when it closes: what was
// claimed too late is given back, and to claim nothing shortly before would leave nothing of an opening that is
// short.
func (g *gate) claimable(now time.Time, lookahead time.Duration) bool {
	return g.opens(now) <= lookahead
}

// claimable reports whether something may be claimed on a lane.
func (s *schedule) claimable(name string, lookahead time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateOf(name).claimable(s.now(), lookahead)
}

// gateOf returns the gate of a lane, whether the schedule has the lane or not. The caller holds mu.
func (s *schedule) gateOf(name string) *gate {
	if l := s.named[Part{Lane: name}]; l != nil {
		return l.gate
	}
	return s.gate(name)
}

// turns returns how long it takes until the claimer has to look after a lane because of its window: something may be
// claimed on it on which nothing may be now, or it closes. Whoever slept over a closing would sleep over the next
// opening as well.
func (s *schedule) turns(lookahead time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	soonest, now := time.Duration(never), s.now()
	for _, l := range s.lanes {
		open, until := l.gate.at(now)
		if !open {
			until = until.Add(-lookahead)
		}
		if left := until.Sub(now); !until.IsZero() && left > 0 {
			soonest = min(soonest, left)
		}
	}
	return soonest
}

// shut takes out what may not come out for longer than the lookahead, in a fixed order.
func (s *schedule) shut(lookahead time.Duration) []*holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	var shut []*holding
	now := s.now()
	for _, l := range s.lanes {
		if len(l.items) > 0 && !l.gate.claimable(now, lookahead) {
			shut = append(shut, l.clear()...)
		}
	}
	return shut
}

// whileOpen parts the holdings whose lanes are open from the others.
func (s *schedule) whileOpen(held []*holding) (open, shut []*holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, h := range held {
		if l := s.named[Part{Lane: h.Lane}]; l != nil && l.gate.opens(now) > 0 {
			shut = append(shut, h)
		} else {
			open = append(open, h)
		}
	}
	return open, shut
}

// opensAt returns when a lane opens that is closed when something falls due there, or now if that is later; zero for
// one that is open then, or never opens again.
func (s *schedule) opensAt(name string, due time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gateOf(name)
	open, until := g.at(s.now())
	if g != nil && !until.IsZero() && !due.Before(until) { // the gate is for what is now
		open, until = g.window.Open(due), time.Time{}
		if !open {
			until, _ = g.window.Next(due)
		}
	}
	if open {
		return time.Time{}
	}
	return until.UTC()
}
