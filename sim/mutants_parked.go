package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

const silentPartition, cutPartition, parkedPartitions = "silent-partition", "cut-partition", "parked-partitions"

// parkedMutants go wrong about what is parked on a partition that does not answer.
func parkedMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "silent-topic", About: "a partition that does not answer silences its whole topic (3.4)",
			Kills: []string{"L23", "L21"}, Scenario: silentPartition, Silences: true,
		},
		{
			Name: "parks-nothing", About: "what belongs to a partition that does not answer waits on its lane",
			Kills: []string{"L4", "L11", "L20", "L21"}, Scenario: silentPartition,
			Rows: func(rows node.Store, _ Table) node.Store { return parksOn{rows, ""} },
		},
		{
			Name: "parks-together", About: "what belongs to one partition or another is parked on the same part",
			Kills: []string{"L23", "L24"}, Scenario: parkedPartitions,
			Rows: func(rows node.Store, _ Table) node.Store { return parksOn{rows, "0"} },
		},
		{
			Name: "stays-parked", About: "a parked message stays so when it is replaced or moved",
			Kills: []string{"S15"}, Scenario: parkedPartitions, Broken: memory.Broken{StaysParked: true},
		},
		{
			Name: "claims-parked", About: "claims on a lane find what is parked on its parts",
			Kills: []string{"S15"}, Scenario: cutPartition,
			Rows: func(rows node.Store, _ Table) node.Store { return claimsParked{rows} },
		},
	}
}

// probeMutants go wrong about when what is parked is tried.
func probeMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "no-probe", About: "no node claims what is parked",
			Kills: []string{"L24", "L22", "L2"}, Scenario: "partition-hangs",
			Ports: func(p node.Ports) node.Ports {
				p.Store = probing{p.Store, func(node.Share) (node.Share, bool) { return node.Share{}, false }}
				return p
			},
		},
		{
			Name: "probes-seldom", About: "a node probes a part once in a minute",
			Kills: []string{"L24"}, Scenario: parkedPartitions,
			Ports: func(p node.Ports) node.Ports {
				clock, next := p.Clock, time.Duration(0)
				p.Store = probing{p.Store, func(s node.Share) (node.Share, bool) {
					due := clock.Mono() >= next
					if due {
						next = clock.Mono() + time.Minute
					}
					return s, due
				}}
				return p
			},
		},
		{
			Name: "waits-for-silent", About: "a publish takes as long as it may while a partition does not answer",
			Kills: []string{"L21"}, Scenario: silentPartition,
			Ports: func(p node.Ports) node.Ports { p.Sink = waitsForSilent{p.Sink, p.Clock}; return p },
		},
		{
			Name: "probes-all", About: "a probe claims everything that is parked on a part",
			Kills: []string{"L23"}, Scenario: silentPartition,
			Ports: func(p node.Ports) node.Ports {
				p.Store = probing{p.Store, func(s node.Share) (node.Share, bool) {
					s.Limit, s.Bytes = math.MaxInt, math.MaxInt
					return s, true
				}}
				return p
			},
		},
		{
			Name: "part-unseen", About: "a node does not hear of parts on which another one has parked messages",
			Kills: []string{"L22"}, Scenario: cutPartition,
			Ports: func(p node.Ports) node.Ports { p.Store = unseenParts{p.Store}; return p },
		},
		{
			Name: "sleeps-while-parked", About: "a node with nothing else to do does not look for what is parked",
			Kills: []string{"L22"}, Scenario: cutPartition,
			Rows: func(rows node.Store, _ Table) node.Store { return sleepsParked{rows} },
		},
	}
}

// waitsForSilent does not return before its time is over if a partition does not answer.
type waitsForSilent struct {
	node.Sink

	clock node.Clock
}

// Publish implements node.Sink.
func (s waitsForSilent) Publish(ctx context.Context, records []node.Record) []error {
	began := s.clock.Mono()
	errs := s.Sink.Publish(ctx, records)
	if slices.ContainsFunc(errs, unavailable) {
		s.clock.Sleep(ctx, 1900*time.Millisecond-(s.clock.Mono()-began))
	}
	return errs
}

// parksOn parks all messages on one part, whichever it is asked for.
type parksOn struct {
	node.Store

	part string
}

// Reset implements node.Store.
func (s parksOn) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	return s.Store.Reset(ctx, mapped(releases, func(r node.Release) node.Release {
		if r.Part != "" {
			r.Part = s.part
		}
		return r
	}))
}

// claimsParked claims on a lane what is parked on its parts, too.
type claimsParked struct{ node.Store }

// Claim implements node.Store.
func (s claimsParked) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	parts, err := s.Parts(ctx)
	if err != nil {
		return node.ClaimResult{}, err
	}
	asked := request.Lanes
	for _, share := range asked {
		for _, at := range parts {
			more := share
			more.Part = at.Name
			known := slices.ContainsFunc(request.Lanes, func(s node.Share) bool { return s.Where() == at })
			if share.Part == "" && share.Lane == at.Lane && !known {
				request.Lanes = append(slices.Clip(request.Lanes), more)
			}
		}
	}
	result, err := s.Store.Claim(ctx, request)
	for i := range result.Messages {
		m := &result.Messages[i]
		if !slices.ContainsFunc(asked, func(s node.Share) bool { return s.Where() == m.Where() }) {
			m.Part = ""
		}
	}
	return result, err
}

// probing asks for other shares of parts than the node does, or for none.
type probing struct {
	node.Store

	probe func(node.Share) (node.Share, bool)
}

// Claim implements node.Store.
func (s probing) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	var shares []node.Share
	for _, share := range request.Lanes {
		asks := true
		if share.Part != "" {
			share, asks = s.probe(share)
		}
		if asks {
			shares = append(shares, share)
		}
	}
	request.Lanes = shares
	return s.Store.Claim(ctx, request)
}

// unseenParts says of no part that messages are parked there.
type unseenParts struct{ node.Store }

// Parts implements node.Store.
func (s unseenParts) Parts(ctx context.Context) ([]node.Part, error) {
	parts, err := s.Store.Parts(ctx)
	return slices.DeleteFunc(parts, func(at node.Part) bool { return at.Name != "" }), err
}

// sleepsParked says that nothing is to be done for as long as it is asked, whatever is parked.
type sleepsParked struct{ node.Store }

// Claim implements node.Store.
func (s sleepsParked) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	parts, _ := s.Parts(ctx)
	parked := slices.ContainsFunc(parts, func(at node.Part) bool { return at.Name != "" })
	if err == nil && len(result.Messages) == 0 && parked {
		result.Idle = max(result.Idle, request.Ahead, time.Second)
	}
	return result, err
}
