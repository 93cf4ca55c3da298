//go:build ignore

package node

import (
	"context"
	"math/rand/v2"
)

// recoverState is what the recover operation remembers from one look to the next.
type recoverState struct {
	random       *rand.ChaCha8
	stuck, reset link
}

func (s *recoverState) init(n *Node, random *rand.ChaCha8) {
	s.random = random
	s.stuck = link{node: n, operation: Recover, port: PortStore, random: random}
	s.reset = link{node: n, operation: Recover, port: PortStore, random: random}
}

// Recover is the operation "detect failures and recover": it looks for claims that are older than the hold time,
// this node's own included, and turns their messages back into waiting ones. It runs until ctx is done.
//
// The age of a claim is measured by the clock of the store, which is one for all (deviation D7): no node's
// clock can have a live claim suspected, or a dead one trusted. A suspicion can still be wrong, since a node
// may be slow rather than dead; that costs a message fired twice, never one lost.
func (n *Node) Recover(ctx context.Context) {
	for ctx.Err() == nil {
		away := n.recovery.stuck.attempts > 0
		stuck, err := n.store.Stuck(
			context.WithoutCancel(ctx), StuckRequest{Hold: n.config.HoldTime, Limit: batchMessages})
		if err != nil {
			n.clock.Sleep(ctx, n.recovery.stuck.failed("stuck", err))
			continue
		}
		n.recovery.stuck.succeeded()
		if away && len(stuck) > 0 {
			// The store comes back to all nodes at once. The owners of these claims may have published the
			// messages meanwhile: they get the time of one retry to delete them before anybody suspects them.
			n.clock.Sleep(ctx, 2*backoffMax)
			continue
		}
		if n.suspect(ctx, stuck) && len(stuck) == batchMessages {
			continue
		}
		n.clock.Sleep(ctx, jittered(n.recovery.random, n.config.DetectionInterval, 10))
	}
}

// suspect resets the claims that are still what they were when they were found: a claim that was deleted,
// released or taken anew since is none of its business (hazard H18). It tells whether any reset took effect.
func (n *Node) suspect(ctx context.Context, stuck []Claim) bool {
	if len(stuck) == 0 {
		return false
	}
	releases := make([]Release, len(stuck))
	for i, c := range stuck {
		releases[i] = Release{Claim: c}
	}
	effects, err := n.store.Reset(context.WithoutCancel(ctx), releases)
	if err != nil {
		n.clock.Sleep(ctx, n.recovery.reset.failed("reset", err))
		return false
	}
	n.recovery.reset.succeeded()
	assert(len(effects) == len(stuck), "reset: %d effects of %d", len(effects), len(stuck))
	var suspected []Claim
	for i, c := range stuck {
		if effects[i] {
			suspected = append(suspected, c)
		}
	}
	if len(suspected) > 0 {
		n.observe(Suspected{Claims: suspected})
	}
	return len(suspected) > 0
}
