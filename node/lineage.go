package node

import (
	"context"
	"sync"
	"time"
)

// lineage is what a node knows of the history of its store, see State.
type lineage struct {
	mu      sync.Mutex
	highest int64 // the highest that was seen; 0 before the first look
	behind  bool  // the store has forgotten the highest

	// confirmed is the monotonic instant before the last call that the store has answered in the highest lineage.
	confirmed time.Duration
}

// asking is what was known when a call of the store began.
type asking struct {
	lineage int64         // the highest that was seen
	at      time.Duration // monotonic
}

// known returns the highest lineage that was seen, to be handed to follow with the answer of a call that begins now,
// and whether the store has forgotten it.
func (c *core) known() (asked asking, behind bool) {
	now := c.clock.Mono()
	l := &c.lineage
	l.mu.Lock()
	defer l.mu.Unlock()
	return asking{l.highest, now}, l.behind
}

// confirmed reports whether the store was still in the lineage that this node knows, not long ago. A node that is cut
// off from the store does not hear that it was set back, and that another lineage has begun. It begins no callback
// then:
//
//	A claims x on a callback lane
//	A is cut off from the store, which is set back to before that; lineage 2 begins
//	                  the hold time of topics passes, and then the time limit of a request: whatever A has begun until
//	                  it missed the store is over; x is claimed or cancelled anew
//	A begins the callback of x
//
// Without it, callback lanes would have to wait for as long as a claim on them can be held. See Config.CallsAfter.
func (c *core) confirmed() bool {
	now := c.clock.Mono()
	l := &c.lineage
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.behind && now-l.confirmed <= c.config.HoldTime-c.config.Margin()
}

// confirm asks the store whether it is still in the lineage that this node knows, where nothing is claimed for want of
// room: callbacks begin only while that is known (confirmed).
func (f *firer) confirm(ctx context.Context) {
	asked, _ := f.known()
	f.lineage.mu.Lock()
	recent := asked.at-f.lineage.confirmed < f.config.HoldTime/4
	f.lineage.mu.Unlock()
	if !f.pace.calls || recent {
		return
	}
	_, state, err := f.store.Positions(context.WithoutCancel(ctx), nil)
	if err != nil {
		f.storeRetry = f.clock.Mono() + f.claims.failed("positions", err)
		return
	}
	f.claims.succeeded()
	f.follow(asked, state)
}

// follow takes note of the state that came with an answer of the store, to a call that began when asked was known.
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
func (c *core) follow(asked asking, state State) {
	l := &c.lineage
	l.mu.Lock()
	from := l.highest
	changed := false
	switch {
	case state.Lineage > l.highest:
		l.highest, l.behind = state.Lineage, false
		changed = from != 0
	case state.Lineage < asked.lineage && asked.lineage == l.highest:
		changed = !l.behind
		l.behind = true
	}
	if state.Lineage == l.highest && !state.Suspect {
		l.confirmed = max(l.confirmed, asked.at)
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
