package sim

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// positionMutants keep positions wrongly.
func positionMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "skip-by-offset", About: "what was taken in before is told by the offset alone (3.1)",
			Kills: []string{"S18", "S10", "L3", "L2"}, Options: truncating,
			Rows: func(rows node.Store, _ Table) node.Store { return withoutEpochs{rows} },
		},
		{
			Name: "position-not-lowered", About: "a position never goes down, whatever Kafka has lost (3.1)",
			Kills: []string{"S18", "S10", "S17", "L3", "L2"}, Options: truncating,
			Rows: func(rows node.Store, _ Table) node.Store {
				return neverLowers{rows, map[node.Partition]int64{}}
			},
		},
		{
			Name: "take-creates-position", About: "a take creates a position that is missing (3.1)",
			Kills: []string{"S18", "L9", "L3", "L2"}, Options: settingBack,
			Rows: func(rows node.Store, _ Table) node.Store { return createsInTake{rows} },
		},
		{
			Name: "position-at-committed", About: "a missing position is created at the committed offset (3.1)",
			Kills: []string{"S18", "L9", "L3", "L2"},
			Options: func(o *Options) {
				settingBack(o)
				o.Mix = append(o.Mix, Recreated, PartitionAdded)
			},
			Ports: atCommitted,
		},
		{
			Name: "starts-at-committed", About: "reading starts at the committed offset instead of the position (3.1)",
			Kills: []string{"S18", "L9", "L3", "L2"}, Options: settingBack,
			Ports: func(p node.Ports) node.Ports {
				c := newCommits(p.Source)
				p.Source = startsAtCommitted{c, c.committed}
				return p
			},
		},
		{
			Name: "starts-without-epoch", About: "reading starts at an offset without its epoch (3.1)",
			Kills: []string{"S18", "L3", "L2"}, Options: truncating,
			Ports: func(p node.Ports) node.Ports { p.Source = startsWithoutEpoch{p.Source}; return p },
		},
		{
			Name: "start-of-batch", About: "a batch counts as starting at its first record (3.1)",
			Kills:   []string{"L3", "L9", "S18", "L2"},
			Options: func(o *Options) { o.FaultRate, o.Mix = 300, []FaultKind{Retention, Pause, Stopped} },
			Rows:    func(rows node.Store, _ Table) node.Store { return fromFirstRecord{rows} },
		},
		{
			Name: "refusal-ignored", About: "a partition that is refused counts as taken in (3.1)",
			Kills: []string{"S10", "S18", "L9", "L3", "L2"}, Options: settingBack,
			Ports: func(p node.Ports) node.Ports { p.Store = ignoresRefusal{p.Store}; return p },
		},
		{
			Name: "idle-unnoticed", About: "the positions of the store are never compared with the node's (3.1)",
			Kills: []string{"L9", "L3", "L2", "S18"},
			Options: func(o *Options) {
				settingBack(o)
				o.Nodes, o.Fates, o.Messages, o.Bursts = 1, "", 10, 1
			},
			Ports: func(p node.Ports) node.Ports {
				p.Store = &looksNever{Store: p.Store, known: map[node.Partition]node.Position{}}
				return p
			},
		},
		{
			Name: "topic-by-name", About: "a topic that was created again counts as the same (3.1)",
			Kills:   []string{"S18", "L3", "L9", "S10", "L2"},
			Options: func(o *Options) { o.FaultRate, o.Mix = 200, []FaultKind{Recreated} },
			Ports: func(p node.Ports) node.Ports {
				p.Store = sameTopic{p.Store, map[string]uuid.UUID{}}
				return p
			},
		},
		{
			Name: "no-catch-up", About: "messages are claimed as soon as a lineage begins (3.1)",
			Kills: []string{"S3"}, Options: settingBack,
			Rows: func(rows node.Store, _ Table) node.Store { return catchesUpAtOnce{rows} },
		},
		{
			Name: "marks-at-committed", About: "a lineage has caught up when it comes to the committed offsets (3.1)",
			Kills: []string{"S3"}, Options: settingBack,
			Ports: func(p node.Ports) node.Ports {
				c := newCommits(p.Source)
				p.Source = marksAtCommitted{c, c.committed}
				return p
			},
		},
		{
			Name: "rewind-keeps-epoch", About: "a rewind lowers the offset of a position, and keeps its epoch (3.1)",
			Kills: []string{"S18", "L9", "L3"},
			Options: func(o *Options) {
				o.FaultRate, o.Mix = 300, []FaultKind{TakenAgain, LeaderChange, Truncated}
			},
			Rows: func(rows node.Store, t Table) node.Store { return keepsEpoch{rows, t} },
		},
		{
			Name: "rewind-without-epoch", About: "a rewind says at which offset to go on, and not of which epoch (3.1)",
			Kills: []string{"S18", "L9", "L3"},
			Options: func(o *Options) {
				o.FaultRate, o.Mix = 1000, []FaultKind{TakenAgain, Truncated}
			},
			Rows: func(rows node.Store, _ Table) node.Store { return rewindsToOffset{rows} },
		},
		{
			Name:    "rewind-at-once",
			About:   "messages are claimed at once after a rewind, as if nothing had to be caught up",
			Kills:   []string{"S3"},
			Options: func(o *Options) { o.FaultRate, o.Mix = 300, []FaultKind{TakenAgain} },
			Rows:    func(rows node.Store, _ Table) node.Store { return rewindsAtOnce{rows} },
		},
		{
			Name: "lineage-unnoticed", About: "a node goes on with its claims when a lineage begins (3.1)",
			Kills: []string{"S3", "L2", "L9"}, Options: settingBack,
			Ports: func(p node.Ports) node.Ports { p.Store = &oneLineage{Store: p.Store}; return p },
		},
	}
}

func truncating(o *Options) { o.FaultRate, o.Mix = 500, []FaultKind{Truncated, Rebalanced, Stopped} }

func settingBack(o *Options) {
	o.FaultRate, o.Mix = 200, []FaultKind{SetBack, SetBackUnseen, Rebalanced}
}

// withoutEpochs forgets the epochs of records and positions.
type withoutEpochs struct{ node.Store }

// Take implements node.Store.
func (s withoutEpochs) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.From, request.Items = slices.Clone(request.From), slices.Clone(request.Items)
	for i := range request.From {
		request.From[i].Epoch = node.UnknownEpoch
	}
	for i := range request.Items {
		request.Items[i].Epoch = node.UnknownEpoch
	}
	return s.Store.Take(ctx, request)
}

// createsInTake creates the positions of a take.
type createsInTake struct{ node.Store }

// Take implements node.Store.
func (s createsInTake) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	_, _, _ = s.Positions(ctx, request.From)
	return s.Store.Take(ctx, request)
}

// commits remembers what the group has committed.
type commits struct {
	node.Source

	committed map[node.Partition]node.Position
}

func newCommits(s node.Source) commits { return commits{s, map[node.Partition]node.Position{}} }

// Poll implements node.Source.
func (s commits) Poll(ctx context.Context) (node.Batch, error) {
	b, err := s.Source.Poll(ctx)
	for _, a := range b.Assigned {
		if a.Committed.Offset >= 0 {
			s.committed[a.Partition] = a.Committed
		}
	}
	return b, err
}

// Commit implements node.Source.
func (s commits) Commit(ctx context.Context, places []node.Place) error {
	for _, p := range places {
		s.committed[p.Partition] = p.Position
	}
	return s.Source.Commit(ctx, places)
}

// atCommitted creates positions at the committed offsets.
func atCommitted(p node.Ports) node.Ports {
	c := newCommits(p.Source)
	p.Source = c
	p.Store = createsAtCommitted{p.Store, c.committed}
	return p
}

type createsAtCommitted struct {
	node.Store

	committed map[node.Partition]node.Position
}

// Positions implements node.Store.
func (s createsAtCommitted) Positions(
	ctx context.Context, places []node.Place,
) ([]node.Position, node.State, error) {
	return s.Store.Positions(ctx, mapped(places, func(p node.Place) node.Place {
		if c, known := s.committed[p.Partition]; known {
			p.Position = c
		}
		return p
	}))
}

// startsAtCommitted reads from the committed offsets on.
type startsAtCommitted struct {
	node.Source

	committed map[node.Partition]node.Position
}

// Start implements node.Source.
func (s startsAtCommitted) Start(ctx context.Context, places []node.Place) error {
	return s.Source.Start(ctx, mapped(places, func(p node.Place) node.Place {
		if c, known := s.committed[p.Partition]; known {
			p.Position = c
		}
		return p
	}))
}

// neverLowers keeps the highest offset that a partition has had, under the epoch that was taken in last.
type neverLowers struct {
	node.Store

	highest map[node.Partition]int64
}

// Take implements node.Store.
func (s neverLowers) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	asked := len(request.Items)
	request.Items = slices.Clone(request.Items)
	for from := range request.From {
		var last *node.Item
		for i := range request.Items {
			if request.Items[i].From == from {
				last = &request.Items[i]
			}
		}
		if highest := s.highest[request.From[from].Partition]; last != nil && last.Offset+1 < highest {
			request.Items = append(request.Items, node.Item{From: from, Epoch: last.Epoch, Offset: highest - 1})
		}
	}
	result, err := s.Store.Take(ctx, request)
	result.Taken = min(result.Taken, asked)
	result.Results = result.Results[:result.Taken]
	for i, p := range result.Positions {
		partition := request.From[i].Partition
		s.highest[partition] = max(s.highest[partition], p.Offset)
	}
	return result, err
}

// startsWithoutEpoch reads from offsets on, whatever was before them.
type startsWithoutEpoch struct{ node.Source }

// Start implements node.Source.
func (s startsWithoutEpoch) Start(ctx context.Context, places []node.Place) error {
	return s.Source.Start(ctx, mapped(places, func(p node.Place) node.Place { p.Epoch = node.UnknownEpoch; return p }))
}

// marksAtCommitted takes the committed offsets for the ends of the logs.
type marksAtCommitted struct {
	node.Source

	committed map[node.Partition]node.Position
}

// Extents implements node.Source.
func (s marksAtCommitted) Extents(ctx context.Context) ([]node.Extent, error) {
	extents, err := s.Source.Extents(ctx)
	return mapped(extents, func(e node.Extent) node.Extent {
		e.End = min(e.End, max(s.committed[e.Partition].Offset, e.First))
		return e
	}), err
}

// fromFirstRecord has each partition of a take start at its first record.
type fromFirstRecord struct{ node.Store }

// Take implements node.Store.
func (s fromFirstRecord) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.From = slices.Clone(request.From)
	for _, item := range slices.Backward(request.Items) {
		if item.From == node.NoPlace {
			continue
		}
		from := &request.From[item.From]
		from.Epoch, from.Offset = node.UnknownEpoch, item.Offset
	}
	return s.Store.Take(ctx, request)
}

// ignoresRefusal takes what was refused for taken in.
type ignoresRefusal struct{ node.Store }

// Take implements node.Store.
func (s ignoresRefusal) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	for i, r := range result.Results {
		if item := &request.Items[i]; r.Outcome == node.Untaken && item.From != node.NoPlace {
			result.Results[i].Outcome = node.Passed
			result.Positions[item.From] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
			result.Refused[item.From] = false
		}
	}
	return result, err
}

// looksNever answers the look at positions from memory.
type looksNever struct {
	node.Store

	known map[node.Partition]node.Position
}

// Positions implements node.Store.
func (s *looksNever) Positions(
	ctx context.Context, places []node.Place,
) ([]node.Position, node.State, error) {
	positions, state, err := s.Store.Positions(ctx, places)
	state.Suspect = false
	for i := range positions {
		if known, is := s.known[places[i].Partition]; is {
			positions[i] = known
		}
		s.known[places[i].Partition] = positions[i]
	}
	return positions, state, err
}

// Take implements node.Store.
func (s *looksNever) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	for i := range result.Positions {
		s.known[request.From[i].Partition] = result.Positions[i]
	}
	return result, err
}

// sameTopic takes a topic for the one that had its name first.
type sameTopic struct {
	node.Store

	ids map[string]uuid.UUID
}

func (s sameTopic) same(p node.Place) node.Place {
	if id, known := s.ids[p.Topic]; known {
		p.TopicID = id
	}
	s.ids[p.Topic] = p.TopicID
	return p
}

// Positions implements node.Store.
func (s sameTopic) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	return s.Store.Positions(ctx, mapped(places, s.same))
}

// Take implements node.Store.
func (s sameTopic) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.From = mapped(request.From, s.same)
	return s.Store.Take(ctx, request)
}

// catchesUpAtOnce begins a lineage without marks, and without waiting for the claims of before.
type catchesUpAtOnce struct{ node.Store }

// CatchUp implements node.Store.
func (s catchesUpAtOnce) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	request.Marks, request.Hold = nil, 0
	return s.Store.CatchUp(ctx, request)
}

// oneLineage shows the first lineage forever.
type oneLineage struct {
	node.Store

	first int64
}

func (s *oneLineage) state(state node.State) node.State {
	if s.first == 0 {
		s.first = state.Lineage
	}
	state.Lineage = s.first
	return state
}

// Positions implements node.Store.
func (s *oneLineage) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	positions, state, err := s.Store.Positions(ctx, places)
	return positions, s.state(state), err
}

// Take implements node.Store.
func (s *oneLineage) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	result.State = s.state(result.State)
	return result, err
}

// Claim implements node.Store.
func (s *oneLineage) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	result, err := s.Store.Claim(ctx, request)
	result.State = s.state(result.State)
	return result, err
}
