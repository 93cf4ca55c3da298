package queue

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

const (
	// pollInterval is how often a Keeper looks for queues whose time has come, at least: what another node has made due
	// at once waits no longer.
	pollInterval = time.Second

	// forgetInterval is how often it has the store forget what ended long ago, and forgetBatch how much each time.
	forgetInterval = time.Minute
	forgetBatch    = 1000

	// lookBatch is how many queues it asks for at once.
	lookBatch = 100

	// DefaultRetention is how long tasks that are done are kept.
	DefaultRetention = 7 * 24 * time.Hour
)

// Keeper looks after queues whose time has come: each node has one. Several may look after one queue at once, or none
// for a while; the store sees to it that a task starts once. While nothing is due it costs the store one look at an
// index in each second.
type Keeper struct {
	Store Store
	Clock node.Clock

	// Retention is how long tasks that are done are kept; 0 for DefaultRetention.
	Retention time.Duration

	// Log is told what the store has answered when it did not do as it was asked; nil for nobody. It is tried again.
	Log func(err error)
}

// Run looks after queues until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	forgets := k.Clock.Mono() // the first time at once: nodes may live for less than the interval
	seen := map[uuid.UUID]bool{}
	for ctx.Err() == nil {
		wait := k.look(ctx, seen)
		if k.Clock.Mono() >= forgets {
			if !k.forget(ctx) {
				forgets = k.Clock.Mono() + forgetInterval
			}
		}
		if wait > 0 {
			clear(seen)
			k.Clock.Sleep(ctx, min(wait, pollInterval))
		}
	}
}

// look looks after what is due, and returns in how long to do so again. It notes in seen what it has looked after since
// it last waited.
func (k *Keeper) look(ctx context.Context, seen map[uuid.UUID]bool) time.Duration {
	due, next, some, err := k.Store.Due(ctx, lookBatch)
	if err != nil {
		k.failed(ctx, err)
		return pollInterval
	}
	if len(due) == 0 && some {
		return next
	}
	// More may be due by now, and is where this is all that was asked for: the change of a queue makes all that lie
	// inside it due, and others wait behind these. But a queue that is due again and again, without anything having
	// happened to it, must not keep this busy.
	again := pollInterval
	for _, id := range due {
		result, err := k.Store.Apply(ctx, Look{Queue: id})
		if err != nil {
			k.failed(ctx, err)
			if refusal, is := errors.AsType[*Refusal](err); ctx.Err() != nil || is && refusal.Code == Closed {
				return pollInterval
			}
		}
		if result.Changed || len(due) == lookBatch && !seen[id] {
			again = 0
		}
		seen[id] = true
	}
	return again
}

// forget has the store forget what ended long ago, and reports whether there is more of it.
func (k *Keeper) forget(ctx context.Context) bool {
	retention := k.Retention
	if retention == 0 {
		retention = DefaultRetention
	}
	result, err := k.Store.Apply(ctx, Forget{Age: retention, Limit: forgetBatch})
	if err != nil {
		k.failed(ctx, err)
		return false
	}
	return result.Forgotten == forgetBatch
}

func (k *Keeper) failed(ctx context.Context, err error) {
	if k.Log != nil && ctx.Err() == nil {
		k.Log(err)
	}
}
