package node

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// recoverer is the operation "detect failures and recover": it looks for claims that have expired, this node's own
// included, and turns their messages back into waiting ones.
//
// The age of a claim is measured by the clock of the store, which is one for all (deviation D7): no node's
// clock can have a live claim suspected, or a dead one trusted. Each claim carries its own expiry, so that nodes
// that were given different hold times do not suspect each other. A suspicion can still be wrong, since a node
// may be slow rather than dead; that costs a message fired twice, never one lost.
type recoverer struct {
	*core

	random         *rand.ChaCha8
	expired, reset link
	parts          link
	otherHolds     map[time.Duration]bool // those of other nodes that were told of
	skipped        int                    // how many looks in a row were left out, see idle
}

// mostSkipped is how many looks are left out in a row at most: each time somebody is to see what a look costs.
const mostSkipped = 19

func newRecoverer(c *core, random *rand.ChaCha8) *recoverer {
	return &recoverer{
		core:       c,
		random:     random,
		expired:    c.link(Recover, PortStore, random),
		reset:      c.link(Recover, PortStore, random),
		parts:      c.link(Recover, PortStore, random),
		otherHolds: map[time.Duration]bool{},
	}
}

// run looks until ctx is done.
func (r *recoverer) run(ctx context.Context) {
	for ctx.Err() == nil {
		away := r.expired.attempts > 0
		if !away && r.idle() {
			r.clock.Sleep(ctx, jittered(r.random, r.config.DetectionInterval, 10))
			continue
		}
		expired, err := r.store.Expired(context.WithoutCancel(ctx), r.config.batch())
		if err != nil {
			r.clock.Sleep(ctx, r.expired.failed("expired", err))
			continue
		}
		r.expired.succeeded()
		if away && len(expired) > 0 {
			// The store comes back to all nodes at once. The owners of these claims may have published the
			// messages meanwhile: they get the time of one retry to delete them before anybody suspects them.
			r.clock.Sleep(ctx, 2*backoffMax)
			continue
		}
		r.compareHolds(expired)
		more := r.suspect(ctx, expired) && len(expired) == r.config.batch()
		r.find(ctx)
		if more {
			continue
		}
		r.clock.Sleep(ctx, jittered(r.random, r.config.DetectionInterval, 10))
	}
}

// idle reports whether this look can be left out: the claimers have just been told that there are no claims, and that
// nothing is parked. Lanes that nobody has named are found by looks only.
func (r *recoverer) idle() bool {
	if r.seeks || r.skipped >= mostSkipped || !r.calm.lately(r.clock.Mono(), r.schedule.serves(), r.calls.serves()) {
		r.skipped = 0
		return false
	}
	r.skipped++
	return true
}

// find looks for parts of lanes on which messages are parked, and for lanes that no route names and messages wait on:
// another node has put them there, or this one before it was started again. It changes nothing if the store does not
// answer: there is another look soon.
func (r *recoverer) find(ctx context.Context) {
	parts, err := r.store.Parts(context.WithoutCancel(ctx))
	if err != nil {
		r.clock.Sleep(ctx, r.parts.failed("parts", err))
		return
	}
	r.parts.succeeded()
	named := r.config.Lanes()
	parts = slices.DeleteFunc(parts, func(at Part) bool {
		return !r.config.Finds(at.Lane) && (at.Name == "" || !slices.Contains(named, at.Lane))
	})
	callbacks := slices.DeleteFunc(slices.Clone(parts), func(at Part) bool { return !IsCallback(at.Lane) })
	parts = slices.DeleteFunc(parts, func(at Part) bool { return IsCallback(at.Lane) })
	more := r.schedule.waiting(parts, r.clock.Mono())
	if r.calls != nil {
		more = r.calls.waiting(callbacks, r.clock.Mono()) || more
	}
	if more {
		r.changed() // nobody has looked there
	}
}

// compareHolds says, once for each, which other hold times there are: nodes that differ in their settings work
// together, but it is seldom what somebody wanted.
func (r *recoverer) compareHolds(expired []Claim) {
	for _, c := range expired {
		hold := c.Expires.Sub(c.ReadiedAt)
		if ours := r.config.HoldTimeOf(c.Lane); hold != ours && !r.otherHolds[hold] {
			r.otherHolds[hold] = true
			r.observe(SettingsDiffer{Setting: "HoldTime", Ours: ours, Theirs: hold, Node: c.ReadiedBy})
		}
	}
}

// suspect resets the claims that are still what they were when they were found: a claim that was deleted,
// released or made anew since is none of its business (hazard H18). It reports whether any reset took effect.
func (r *recoverer) suspect(ctx context.Context, expired []Claim) bool {
	if len(expired) == 0 {
		return false
	}
	releases := make([]Release, len(expired))
	for i, c := range expired {
		releases[i] = Release{Claim: c}
	}
	effects, err := r.store.Reset(context.WithoutCancel(ctx), releases)
	if err != nil {
		r.clock.Sleep(ctx, r.reset.failed("reset", err))
		return false
	}
	r.reset.succeeded()
	r.changed()
	assert(len(effects) == len(expired), "reset: %d effects of %d", len(effects), len(expired))
	var suspected []Claim
	for i, c := range expired {
		if effects[i] == Freed {
			suspected = append(suspected, c)
		}
	}
	if len(suspected) > 0 {
		r.observe(Suspected{Claims: suspected})
	}
	return len(suspected) > 0
}
