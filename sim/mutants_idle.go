package sim

import (
	"context"
	"time"

	"chronos/node"
)

// idleMutants say wrongly for how long there is nothing to do.
func idleMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "idle-always", About: "the store says that nothing falls due, whatever waits there",
			Kills: []string{"L5", "L6", "L11"}, Options: idling,
			Rows: func(rows node.Store, _ Table) node.Store {
				return idleStore{rows, func(_ node.ClaimResult, ahead time.Duration) time.Duration { return ahead }}
			},
		},
		{
			Name: "idle-too-long", About: "the store says that what waits falls due half a second later",
			Kills: []string{"L5", "L6", "L11"}, Options: idling,
			Rows: func(rows node.Store, _ Table) node.Store {
				return idleStore{rows, func(r node.ClaimResult, ahead time.Duration) time.Duration {
					if r.Idle == 0 {
						return 0
					}
					return min(ahead, r.Idle+500*time.Millisecond)
				}}
			},
		},
		{
			Name: "told-nobody", About: "an operator tells no node of what it has stored",
			Kills: []string{"L5", "L6", "L11"}, Options: operatedIdling, Mute: true,
		},
		{
			Name: "rests-deaf", About: "a node rests though it does not hear what others store",
			Kills: []string{"L5", "L6", "L11"}, Options: func(o *Options) {
				operatedIdling(o)
				o.Hearing = HearingNone
			},
			Ports: func(p node.Ports) node.Ports {
				p.Hears = nil
				return p
			},
		},
	}
}

// operatedIdling has operators store things while nodes rest.
func operatedIdling(o *Options) {
	idling(o)
	o.Operated, o.Messages = 60, 60
}

// idling leaves faults out, has few messages, and lets nodes rest for long.
func idling(o *Options) {
	o.FaultRate, o.Mix, o.Skew, o.Drift, o.Callbacks, o.Operated, o.Queues, o.Tasks = 0, nil, 0, 0, 0, 0, 0, 0
	o.PollInterval, o.IdleInterval, o.Lookahead = 50*time.Millisecond, 2*time.Second, 100*time.Millisecond
	o.StoreLatency, o.BrokerLatency = time.Millisecond, 2*time.Millisecond
	o.Messages, o.Bursts, o.Bandwidth, o.AdaptiveAdvance, o.Paced, o.Windows = 30, 0, 0, false, 0, 0
	o.Hearing = HearingWorks
}

// idleStore says something else of how long there is nothing to do.
type idleStore struct {
	node.Store

	idle func(result node.ClaimResult, ahead time.Duration) time.Duration
}

// Claim implements node.Store.
func (s idleStore) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	if request.Ahead > 0 {
		result.Idle = s.idle(result, request.Ahead)
	}
	return result, err
}
