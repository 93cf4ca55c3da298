package node

import (
	"sync"
	"time"
)

// rest is how a claimer comes to look less often than once in each poll interval (Config.IdleInterval): while the store
// says that nobody holds a claim and when the next message falls due, and as long as nothing is heard of a change.
//
// Each change that can make something due before that is one of these, and each wakes a claimer that rests:
//
//   - This node takes something in, or stores it otherwise: it stirs its own claimers, whatever became of the call.
//   - Another node does: it stirs its own. It serves the lanes that it takes in for.
//   - A claim is given back, put off, reset or rearmed: claimers do not rest while there are any. A claim that was made
//     since the last look is that of a claimer that was stirred, or woke by itself, and does not rest either.
//   - A process without a claimer, such as a command, brings something in or makes it due, or a node does so on a lane
//     that it does not serve: it tells the nodes through the store, where that can be done, and claimers rest only
//     while the way is shown to work (Ports.Hears). If the process dies before it has told them, or the node that was
//     stirred does, the next look finds it: that is what the interval is the price of.
//
// A change that comes while a look is under way is not lost, since what was heard of is forgotten before the look:
//
//	claimer   asks the store
//	enqueuer                  takes x in; stirs: the claimer does not rest after this look
//	claimer   is told that nothing is due for a second
//
// Nor is one that comes while the way to hear of it breaks. Whoever finds it broken has Hears say so first, and stirs
// then; a claimer forgets first, and asks Hears then. So it meets the one or the other:
//
//	claimer   forgets what it was stirred for
//	listener                                   Hears is false from now on
//	claimer   asks Hears: it does not rest after this look
//	listener                                   stirs: a claimer that has asked before does not rest, or wakes
type rest struct {
	// quiet says that the last look at all lanes has found nothing, and whole that this one is at all of them that are
	// not closed. Only the claimer uses them.
	quiet, whole bool

	// soon is when the claimer would look next if it did not rest, monotonic. Only the claimer uses it.
	soon time.Duration

	// resting says that the claimer rests, and stirred that something has changed since it looked last. The mu of the
	// firer guards them.
	resting, stirred bool
}

// wakes returns when to look next on all lanes, monotonic.
func (f *firer) wakes() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rest.resting && f.rest.stirred {
		f.rest.resting = false
		f.nextLook = min(f.nextLook, f.rest.soon)
	}
	return f.nextLook
}

// asksIdle returns for how long a claim on so many lanes may say that there is nothing to do. That costs the store a
// look, so a claimer asks only where the look before has found nothing. What is heard of from now on is new.
func (f *firer) asksIdle(all bool, lanes int) time.Duration {
	if !all || lanes == 0 {
		return 0
	}
	f.mu.Lock()
	f.rest.resting, f.rest.stirred = false, false
	f.mu.Unlock()
	if !f.rest.quiet || !f.rest.whole || f.config.IdleInterval <= f.config.PollInterval || !f.hears() {
		return 0
	}
	return f.config.IdleInterval
}

// rests has the claimer rest, if the store has said for how long after a look that began at a monotonic instant. What
// falls due next is then claimed as late as ever: up to a poll interval after it may be.
func (f *firer) rests(started time.Duration, all bool, result *ClaimResult) {
	if !all {
		return
	}
	f.rest.quiet = len(result.Messages) == 0
	if result.Idle <= 0 || !result.State.Claims() {
		return
	}
	f.calm.note(f.pace.calls, started)
	wait := min(jittered(f.random, f.config.IdleInterval, 10),
		result.Idle+jittered(f.random, f.config.PollInterval/2, 100))
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.rest.stirred && started+wait > f.nextLook {
		f.rest.soon, f.nextLook, f.rest.resting = f.nextLook, started+wait, true
	}
}

// stir says that something may have changed in the store. It has a claimer that rests look as if it had not.
func (f *firer) stir() {
	f.mu.Lock()
	wake := f.rest.resting && !f.rest.stirred
	f.rest.stirred = true
	f.mu.Unlock()
	if wake {
		f.bell.Ring()
	}
}

// Stir says that somebody has stored messages, or made some due, past the node: somebody else in this process, or
// another process that was heard of; or that it is not heard any more (Ports.Hears). Nothing depends on it but how soon
// these are found, while the node rests (Config.IdleInterval). It never blocks, and is safe for concurrent use.
func (n *Node) Stir() { n.core.changed() }

// calm is when nobody held a claim, and nothing was parked, as the claimers of a node have last been told: that of
// topics and that of callbacks, each of its own lanes.
type calm struct {
	mu            sync.Mutex
	topics, calls told
}

// told is when one claimer has been told so, monotonic, before the call that found it.
type told struct {
	at    time.Duration
	known bool
}

func (c *calm) note(calls bool, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.topics
	if calls {
		t = &c.calls
	}
	t.at, t.known = max(t.at, at), true
}

// lately reports whether each claimer was told so short a time ago that no claim made since can have expired: none is
// held for less than MinHoldTime. Half of that is for clocks that run at different rates. Topics and calls say which of
// the two have lanes to look at.
func (c *calm) lately(now time.Duration, topics, calls bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (topics || calls) && (!topics || c.topics.lately(now)) && (!calls || c.calls.lately(now))
}

func (t told) lately(now time.Duration) bool { return t.known && now-t.at < MinHoldTime/2 }
