package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// How nodes hear of what processes without a claimer, and other nodes, store past Kafka (Options.Hearing): as by LISTEN
// and NOTIFY in Postgres.
const (
	// HearingWorks: each notification arrives, after the way to the store and the way back.
	HearingWorks = ""

	// HearingNone: none arrives, as behind a pooler that shares connections, and each node has found that out.
	HearingNone = "none"

	// HearingBreaks: it works and breaks by turns, and it takes a node up to six seconds to find that out. Some are
	// lost, or late, even while it works.
	HearingBreaks = "breaks"
)

// ear is what a life hears with: the listener of package postgres.
type ear struct {
	life    *life
	random  *rand.Rand
	hears   bool  // what the node is told
	deaf    bool  // nothing arrives
	came    bool  // something has arrived that the node was not stirred for yet
	sleeper *task // nil when nobody sleeps
}

// listens reports whether nodes have ears: where they rest, and somebody else may give something back or bring it.
func (o *Options) listens() bool {
	return o.IdleInterval > o.PollInterval && (o.Nodes > 1 || o.Operated+o.Queues > 0 || o.Hearing != HearingWorks)
}

// checkHearing returns an error if Hearing is none of its values.
func (o *Options) checkHearing() error {
	switch o.Hearing {
	case HearingWorks, HearingNone, HearingBreaks:
		return nil
	}
	return fmt.Errorf("hearing is %q: it must be empty, %s or %s", o.Hearing, HearingNone, HearingBreaks)
}

// run is the listener of a life.
func (e *ear) run(ctx context.Context) {
	w := e.life.host.world
	if w.options.Hearing == HearingNone {
		return
	}
	for ctx.Err() == nil {
		e.deaf = false
		e.rest(ctx, between(e.random, 0, time.Second)) // until the first proof
		e.hears = true
		if w.options.Hearing == HearingWorks || w.faultsOver {
			e.rest(ctx, time.Hour)
			continue
		}
		e.rest(ctx, between(e.random, 2*time.Second, 20*time.Second))
		if w.faultsOver {
			continue
		}
		w.count("deaf")
		e.deaf = true
		e.rest(ctx, between(e.random, 0, 6*time.Second)) // until the next proof
		e.hears = false
		e.life.node.Stir()
		e.rest(ctx, between(e.random, time.Second, 10*time.Second))
	}
}

// rest stirs the node for what comes, for so long.
func (e *ear) rest(ctx context.Context, long time.Duration) {
	clock := nodeClock{e.life}
	for end := clock.Mono() + long; ctx.Err() == nil && clock.Mono() < end; {
		if t := e.life.enter(); !e.came {
			e.sleeper = t
			clock.park(ctx, t, end-clock.Mono())
			e.sleeper = nil
		}
		if e.came {
			e.came = false
			e.life.node.Stir()
		}
	}
}

// arrives is a notification that comes to the host of a life.
func (e *ear) arrives() {
	w := e.life.host.world
	if e.life.dead {
		return
	}
	if e.deaf || w.options.Hearing == HearingNone {
		w.count("unheard")
		return
	}
	w.count("heard")
	e.came = true
	if e.sleeper != nil {
		w.at(w.now, e.sleeper, e.sleeper.turn)
	}
}

// tells is a process that notifies all nodes of what it has stored. What is sent while the way is cut arrives later: it
// is tried again.
func (l *life) tells() {
	w := l.host.world
	if !w.options.listens() || w.mutant != nil && w.mutant.Mute {
		return
	}
	there := max(w.now, l.host.storeLink.requestsCut) + l.host.storeLink.latency()
	for _, h := range w.hosts[1:] {
		to := h.life
		if to == nil || to.dead || to.ear == nil {
			continue
		}
		at := max(there, h.storeLink.repliesCut) + h.storeLink.latency()
		if w.options.Hearing == HearingBreaks && !w.faultsOver {
			switch to.ear.random.IntN(10) {
			case 0:
				w.count("unheard")
				continue
			case 1:
				at += int64(between(to.ear.random, 0, 3*time.Second))
			}
		}
		w.at(at, action(to.ear.arrives), 0)
	}
}
