package sim

import (
	"context"
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
