package node

import "sync"

// lineage is what a node knows of the history of its store, see State.
type lineage struct {
	mu      sync.Mutex
	highest int64 // the highest that was seen; 0 before the first look
	behind  bool  // the store has forgotten the highest
}

// known returns the highest lineage that was seen, to be handed to follow with the answer of a call that begins now,
// and whether the store has forgotten it.
func (l *lineage) known() (highest int64, behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest, l.behind
}

// follow takes note of the state that came with an answer of the store, to a call that began when asked was the
// highest lineage known.
//
// When the lineage changes, the node forgets what it holds: claims that the store may know nothing of, on messages
// whose cancel may be yet to come in again. It gives nothing back: whatever of that is still claimed expires, and
// nothing is claimed anew before that (CatchUpRequest.Hold). An answer may come late:
//
//	claimer   asks for claims
//	          the store is set back, and begins lineage 2
//	enqueuer  sees lineage 2: the schedule is emptied
//	claimer   is answered, with claims of lineage 1: they must not be scheduled, see hold
//
// But a lineage that is lower than the one known before the call means that the store was set back, and that nobody
// has told it so yet: the enqueue operation does. Not if a higher one has become known during the call:
//
//	         lineage 2; the store is set back to lineage 1
//	claimer  asks, and its answer is on the way: lineage 1
//	enqueuer has the store begin lineage 3
//	claimer  is answered: lineage 1, which is over
func (c *core) follow(asked int64, state State) {
	l := &c.lineage
	l.mu.Lock()
	from := l.highest
	changed := false
	switch {
	case state.Lineage > l.highest:
		l.highest, l.behind = state.Lineage, false
		changed = from != 0
	case state.Lineage < asked && asked == l.highest:
		changed = !l.behind
		l.behind = true
	}
	l.mu.Unlock()
	if changed {
		forgotten := c.schedule.clear()
		if c.calls != nil {
			forgotten = append(forgotten, c.calls.clear()...)
		}
		c.observe(LineageChanged{From: from, To: state.Lineage, Forgotten: claims(forgotten)})
	}
}

// hold schedules claims that came with an answer of the store, unless another lineage than that of the answer is known
// by now. It keeps follow from changing the lineage meanwhile: either it is changed before this, which is seen here, or
// after, and then follow empties the schedule.
func (c *core) hold(schedule *schedule, lineage int64, held []*holding) {
	l := &c.lineage
	l.mu.Lock()
	defer l.mu.Unlock()
	if lineage == l.highest && !l.behind {
		schedule.add(held)
	}
}
