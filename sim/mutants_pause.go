package sim

import (
	"context"
	"slices"
	"time"

	"chronos/node"
)

// pauseMutants do not mind what somebody has paused, or mind it for too long.
func pauseMutants() []*Mutant {
	lanes := func(lane string) bool { return lane != node.Intake }
	intake := func(lane string) bool { return lane == node.Intake }
	return []*Mutant{
		{
			Name:  "claims-on-paused",
			About: "claims do not look at pauses: it is left to the nodes, which ask once a second",
			Kills: []string{"S25"}, Options: steered,
			Rows: func(rows node.Store, t Table) node.Store { return blindClaims{rows, t, lanes} },
		},
		{
			Name:  "claims-as-before-the-pause",
			About: "claims are made in a transaction that began before the pause, and have the time of its beginning",
			Kills: []string{"L12"},
			Options: func(o *Options) {
				steered(o)
				o.HoldTime, o.IdleInterval = 2500*time.Millisecond, 0
				o.Lookahead, o.PollInterval = 50*time.Millisecond, 50*time.Millisecond
			},
			Rows: func(rows node.Store, t Table) node.Store { return claimsInThePast{rows, t} },
		},
		{
			Name: "takes-claim-on-paused", About: "a take claims on a paused lane",
			Kills: []string{"S25"}, Options: steered,
			Rows: func(rows node.Store, t Table) node.Store { return blindTakes{rows, t, lanes} },
		},
		{
			Name: "takes-while-paused", About: "takes do not look whether the intake is paused",
			Kills: []string{"S25"}, Options: steered,
			Rows: func(rows node.Store, t Table) node.Store { return blindTakes{rows, t, intake} },
		},
		{
			Name: "never-resumes", About: "a node that has seen the intake paused never hears that it is resumed",
			Kills: []string{"L3"}, Options: steered,
			Ports: func(p node.Ports) node.Ports { p.Store = &paralysed{Store: p.Store}; return p },
		},
		{
			Name:  "goes-on-behind-the-gap",
			About: "after a pause of the intake, reading goes on behind what was skipped",
			Kills: []string{"S18", "L3", "S10", "S1"}, Options: steered,
			Ports: func(p node.Ports) node.Ports {
				p.Source = &leaps{p.Source, map[stretch]int64{}}
				return p
			},
		},
	}
}

// steered pauses and resumes a lot, and submits what falls due meanwhile.
func steered(o *Options) {
	o.FaultRate, o.Mix = 300, []FaultKind{LanePaused, IntakePaused}
	o.Messages, o.Horizon, o.Fates = max(o.Messages, 100), 5*time.Second, ""
}

// blindClaims claims whatever is paused.
type blindClaims struct {
	node.Store

	table   Table
	ignores func(lane string) bool
}

// Claim implements node.Store.
func (s blindClaims) Claim(ctx context.Context, request node.ClaimRequest) (result node.ClaimResult, err error) {
	s.table.truth.blind(s.ignores, func() { result, err = s.Store.Claim(ctx, request) })
	return result, err
}

// claimsInThePast claims on lanes that are paused, with the stamp of the instant of the pause. The claims hold from now
// on, as long as all others.
type claimsInThePast struct {
	node.Store

	table Table
}

// Claim implements node.Store.
func (s claimsInThePast) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	truth := s.table.truth
	for _, p := range truth.pauses() {
		at := slices.IndexFunc(request.Lanes, func(share node.Share) bool { return share.Lane == p.Lane })
		if at < 0 || err != nil {
			continue
		}
		one := request
		one.Lanes, one.Hold = request.Lanes[at:at+1], request.Hold+truth.server.instant().Sub(p.Since)
		var more node.ClaimResult
		truth.server.frozen = &p.Since
		truth.blind(func(lane string) bool { return lane == p.Lane }, func() { more, err = s.Store.Claim(ctx, one) })
		truth.server.frozen = nil
		result.Messages = append(result.Messages, more.Messages...)
	}
	return result, err
}

// blindTakes takes in whatever is paused.
type blindTakes struct {
	node.Store

	table   Table
	ignores func(lane string) bool
}

// Take implements node.Store.
func (s blindTakes) Take(ctx context.Context, request node.TakeRequest) (result node.TakeResult, err error) {
	s.table.truth.blind(s.ignores, func() { result, err = s.Store.Take(ctx, request) })
	return result, err
}

// paralysed goes on saying that the intake is paused.
type paralysed struct {
	node.Store

	paused bool
}

// Positions implements node.Store.
func (s *paralysed) Positions(
	ctx context.Context, places []node.Place,
) ([]node.Position, node.State, error) {
	positions, state, err := s.Store.Positions(ctx, places)
	s.paused = s.paused || state.IntakePaused
	state.IntakePaused = s.paused
	return positions, state, err
}

// leaps starts a partition again behind what it has returned, wherever it is told to start.
type leaps struct {
	node.Source

	ends map[stretch]int64
}

// stretch names a partition by topic and number.
type stretch struct {
	topic  string
	number int32
}

// Poll implements node.Source.
func (s *leaps) Poll(ctx context.Context) (node.Batch, error) {
	batch, err := s.Source.Poll(ctx)
	for _, r := range batch.Records {
		s.ends[stretch{r.Topic, r.Partition}] = r.Offset + 1
	}
	return batch, err
}

// Start implements node.Source.
func (s *leaps) Start(ctx context.Context, places []node.Place) error {
	return s.Source.Start(ctx, mapped(places, func(p node.Place) node.Place {
		p.Offset = max(p.Offset, s.ends[stretch{p.Topic, p.Number}])
		return p
	}))
}
