package sim

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// intakeMutants lose or repeat what comes in.
func intakeMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "commit-first", About: "offsets are committed when records are polled (H8)",
			Kills: []string{"S10"},
			Ports: func(p node.Ports) node.Ports {
				p.Source = commitsFirst{p.Source, map[string]node.Partition{}}
				return p
			},
		},
		{
			Name: "take-error-swallowed", About: "a take that fails counts as done",
			Kills: []string{"S10", "S18", "L3", "S1"},
			Ports: func(p node.Ports) node.Ports { p.Store = &givesUp{Store: p.Store, most: 1}; return p },
		},
		{
			Name: "take-given-up", About: "a take that has failed three times counts as done, and is logged",
			Kills: []string{"S10", "S18", "L3", "S1"}, Options: func(o *Options) { o.FaultRate = 1000 },
			Ports: func(p node.Ports) node.Ports { p.Store = &givesUp{Store: p.Store, most: 3}; return p },
		},
		{
			Name: "take-last-forgotten", About: "the last message of a batch is not stored",
			Kills: []string{"S10", "S18"},
			Rows:  func(rows node.Store, _ Table) node.Store { return forgetsLast{rows} },
		},
		{
			Name: "repeats-last", About: "of the submissions of one id in a batch the last counts (D5, H12)",
			Kills: []string{"S2", "S9", "S10", "S18"}, Options: func(o *Options) { reusing(o); o.Bursts = 3 },
			Rows: func(rows node.Store, _ Table) node.Store { return lastOfRepeats{rows} },
		},
		{
			Name: "repeats-alone", About: "each repeat of an id in a batch is a call of its own (A11)",
			Kills: []string{"L5"},
			Options: func(o *Options) {
				o.FaultRate, o.Bursts, o.Messages, o.Reuse, o.Partitions = 0, 1, 1000, 90, 1
				o.StoreLatency, o.Horizon = 20*time.Millisecond, 10*time.Second
			},
			Ports: func(p node.Ports) node.Ports { p.Store = repeatsAlone{p.Store}; return p },
		},
		{
			Name: "poll-skips", About: "the first record of a batch is skipped",
			Kills: []string{"S10", "L3", "S18"},
			Ports: changedPoll(func(records []node.Record) []node.Record { return records[min(1, len(records)):] }),
		},
		{
			Name: "commit-beyond", About: "the offset that is committed is one too high",
			Kills: []string{"S10"},
			Ports: func(p node.Ports) node.Ports { p.Source = commitsBeyond{p.Source}; return p },
		},
		{
			Name: "commit-never", About: "offsets are never committed, and that is called success",
			Kills: []string{"L3"},
			Ports: func(p node.Ports) node.Ports { p.Source = commitsNever{p.Source}; return p },
		},
		{
			Name: "never-leaves", About: "a node without the store keeps its partitions",
			Kills: []string{"L7"},
			Options: func(o *Options) {
				o.Nodes, o.Fates, o.Partitions, o.Messages = 3, "shs", 6, 300
			},
			Config: func(c *node.Config) { c.LeaveAfter = time.Hour },
		},
		{
			Name: "refused-by-class", About: "an error of the connection counts as one of the message (A2)",
			Kills:   []string{"S1", "S10", "S18"},
			Options: func(o *Options) { o.FaultRate, o.Mix = 300, []FaultKind{StoreUnfit} },
			Ports:   func(p node.Ports) node.Ports { p.Store = refusesByClass{p.Store}; return p },
		},
		{
			Name: "copies-forgotten", About: "the dead-letter copy of what the store refuses is not stored (A8)",
			Kills:   []string{"S10", "S18", "L3"},
			Options: func(o *Options) { o.DeadLetter, o.Refused, o.Malformed = true, 10, 10 },
			Rows: func(rows node.Store, _ Table) node.Store {
				return itemChanger{rows, func(i *node.Item) {
					if len(i.Topic) > 4 && i.Topic[:4] == "dead" {
						i.Action, i.Message = node.Pass, node.Message{}
					}
				}}
			},
		},
	}
}

// commitsFirst commits what it polls.
type commitsFirst struct {
	node.Source

	ids map[string]node.Partition
}

// Poll implements node.Source.
func (s commitsFirst) Poll(ctx context.Context) (node.Batch, error) {
	b, err := s.Source.Poll(ctx)
	for _, a := range b.Assigned {
		s.ids[partitionOf(&node.Record{Topic: a.Topic, Partition: a.Number})] = a.Partition
	}
	var places []node.Place
	for i := range b.Records {
		r := &b.Records[i]
		places = append(places, node.Place{
			Partition: s.ids[partitionOf(r)], Position: node.Position{Epoch: r.LeaderEpoch, Offset: r.Offset + 1},
		})
	}
	if len(places) > 0 {
		_ = s.Source.Commit(ctx, places)
	}
	return b, err
}

// commitsBeyond commits one record too many.
type commitsBeyond struct{ node.Source }

// Commit implements node.Source.
func (s commitsBeyond) Commit(ctx context.Context, places []node.Place) error {
	return s.Source.Commit(ctx, mapped(places, func(p node.Place) node.Place { p.Offset++; return p }))
}

// commitsNever calls everything committed.
type commitsNever struct{ node.Source }

// Commit implements node.Source.
func (commitsNever) Commit(context.Context, []node.Place) error { return nil }

// givesUp calls a take done that has failed so often in a row.
type givesUp struct {
	node.Store

	failures, most int
}

// Take implements node.Store.
func (s *givesUp) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	if err == nil {
		s.failures = 0
		return result, nil
	}
	if s.failures++; s.failures < s.most {
		return result, err
	}
	s.failures = 0
	return pretended(ctx, s.Store, &request), nil
}

// pretended returns the result of a take that has gone well.
func pretended(ctx context.Context, store node.Store, request *node.TakeRequest) node.TakeResult {
	_, state, _ := store.Positions(ctx, nil)
	result := node.TakeResult{
		State: state, Taken: len(request.Items), Refused: make([]bool, len(request.From)),
		Positions: mapped(request.From, func(p node.Place) node.Position { return p.Position }),
	}
	for i := range request.Items {
		item := &request.Items[i]
		result.Positions[item.From] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
		result.Results = append(result.Results, node.ItemResult{Outcome: node.Passed})
	}
	return result
}

// forgetsLast passes over the last message of a batch.
type forgetsLast struct{ node.Store }

// Take implements node.Store.
func (s forgetsLast) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if n := len(request.Items); n > 1 {
		request.Items = slices.Clone(request.Items)
		request.Items[n-1].Action, request.Items[n-1].Message = node.Pass, node.Message{}
	}
	return s.Store.Take(ctx, request)
}

// lastOfRepeats passes over all but the last message of an id.
type lastOfRepeats struct{ node.Store }

// Take implements node.Store.
func (s lastOfRepeats) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.Items = slices.Clone(request.Items)
	last := map[node.MessageID]int{}
	for i := range request.Items {
		item := &request.Items[i]
		if item.Action != node.Schedule {
			continue
		}
		id := node.MessageID{ID: item.ID, Topic: item.Topic}
		if before, repeated := last[id]; repeated {
			request.Items[before].Action, request.Items[before].Message = node.Pass, node.Message{}
		}
		last[id] = i
	}
	return s.Store.Take(ctx, request)
}

// repeatsAlone makes a call for each repeat of an id.
type repeatsAlone struct{ node.Store }

// Take implements node.Store.
func (s repeatsAlone) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	seen := map[node.MessageID]bool{}
	for i := range request.Items {
		id := node.MessageID{ID: request.Items[i].ID, Topic: request.Items[i].Topic}
		if seen[id] {
			request.Items = request.Items[:i]
			break
		}
		seen[id] = true
	}
	return s.Store.Take(ctx, request)
}

// refusesByClass takes an error that some messages cause for one of the first message.
type refusesByClass struct{ node.Store }

// Take implements node.Store.
func (s refusesByClass) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	if !errors.Is(err, errUnfit) || len(request.Items) == 0 {
		return result, err
	}
	return node.TakeResult{
		Positions: mapped(request.From, func(p node.Place) node.Position { return p.Position }),
		Refused:   make([]bool, len(request.From)), Refusal: err.Error(), State: node.State{Lineage: 1},
	}, nil
}

// itemChanger changes items of a take.
type itemChanger struct {
	node.Store

	change func(*node.Item)
}

// Take implements node.Store.
func (s itemChanger) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.Items = slices.Clone(request.Items)
	for i := range request.Items {
		s.change(&request.Items[i])
	}
	return s.Store.Take(ctx, request)
}

// pollChanger changes what a poll returns.
type pollChanger struct {
	node.Source

	change func([]node.Record) []node.Record
}

// Poll implements node.Source.
func (s pollChanger) Poll(ctx context.Context) (node.Batch, error) {
	b, err := s.Source.Poll(ctx)
	b.Records = s.change(b.Records)
	return b, err
}

func changedPoll(change func([]node.Record) []node.Record) func(node.Ports) node.Ports {
	return func(p node.Ports) node.Ports { p.Source = pollChanger{p.Source, change}; return p }
}

// positionMutants keep positions wrongly.
func positionMutants() []*Mutant { //nolint:funlen // a table
	return []*Mutant{
		{
			Name: "skip-by-offset", About: "what was taken in before is told by the offset alone (3.1)",
			Kills: []string{"S18", "S10", "L3", "L2"}, Options: truncating,
			Rows: func(rows node.Store, _ Table) node.Store { return withoutEpochs{rows} },
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
			Kills: []string{"S18", "L9", "L3", "L2"}, Options: settingBack,
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
			Name: "compared-by-offset", About: "positions are compared by their offsets alone (3.1)",
			Kills: []string{"L9", "L3", "L2", "S18"},
			Options: func(o *Options) {
				truncating(o)
				o.Mix = append(o.Mix, SetBack, SetBackUnseen)
				o.Nodes, o.Fates, o.Partitions, o.FaultRate = 1, "", 1, 1000
			},
			Ports: func(p node.Ports) node.Ports {
				p.Store = &comparesOffsets{Store: p.Store, known: map[node.Partition]node.Position{}}
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
			Kills: []string{"S19", "S18", "S17"}, Options: settingBack,
			Rows: func(rows node.Store, _ Table) node.Store { return catchesUpAtOnce{rows} },
		},
		{
			Name: "marks-at-committed", About: "a lineage has caught up when it comes to the committed offsets (3.1)",
			Kills: []string{"S19", "S18", "S17"}, Options: settingBack,
			Ports: func(p node.Ports) node.Ports {
				c := newCommits(p.Source)
				p.Source = marksAtCommitted{c, c.committed}
				return p
			},
		},
		{
			Name: "lineage-unnoticed", About: "a node goes on with its claims when a lineage begins (3.1)",
			Kills: []string{"S3", "S17", "S18", "S13"}, Options: settingBack,
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
	_, _, _ = s.Store.Positions(ctx, request.From)
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
	for i := len(request.Items) - 1; i >= 0; i-- {
		from := &request.From[request.Items[i].From]
		from.Epoch, from.Offset = node.UnknownEpoch, request.Items[i].Offset
	}
	return s.Store.Take(ctx, request)
}

// ignoresRefusal takes what was refused for taken in.
type ignoresRefusal struct{ node.Store }

// Take implements node.Store.
func (s ignoresRefusal) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, request)
	for i, r := range result.Results {
		if item := &request.Items[i]; r.Outcome == node.Untaken {
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

// comparesOffsets does not see that a position with an equal offset has another epoch.
type comparesOffsets struct {
	node.Store

	known map[node.Partition]node.Position
}

// Positions implements node.Store.
func (s *comparesOffsets) Positions(
	ctx context.Context, places []node.Place,
) ([]node.Position, node.State, error) {
	positions, state, err := s.Store.Positions(ctx, places)
	for i := range positions {
		if known, is := s.known[places[i].Partition]; is && known.Offset == positions[i].Offset {
			positions[i] = known
		}
		s.known[places[i].Partition] = positions[i]
	}
	return positions, state, err
}

// Take implements node.Store.
func (s *comparesOffsets) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
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

// oneLineage shows the first lineage for ever.
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

// originalMutants are bugs of the published original that the others do not have.
func originalMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "node-id-fixed", About: "the node id does not change with the process",
			Kills: []string{"S12"}, Config: func(c *node.Config) { c.Seed = [32]byte{1} },
		},
		{
			Name: "bad-deadline-ignored", About: "a deadline that can't be read is skipped without a word (H27)",
			Kills: []string{"S10", "L3", "S18"}, Options: func(o *Options) { o.Malformed = 20 },
			Ports: changedPoll(func(records []node.Record) []node.Record {
				return slices.DeleteFunc(records, func(r node.Record) bool {
					for _, h := range r.Headers {
						if h.Name == node.HeaderDeadline && len(h.Value) >= 10 {
							_, err := time.Parse(time.DateOnly, string(h.Value[:10]))
							return err != nil
						}
					}
					return false
				})
			}),
		},
		{
			Name: "zone-required", About: "a deadline without a zone is rejected, as by a strict parser (H27)",
			Kills: []string{"S1"},
			Ports: changedPoll(func(records []node.Record) []node.Record {
				for i := range records {
					headers := slices.Clone(records[i].Headers)
					for j, h := range headers {
						if h.Name == node.HeaderDeadline && len(h.Value) == len("2006-01-02T15:04:05.000000") &&
							!bytes.ContainsAny(h.Value, "Z+") {
							headers[j].Value = []byte("rejected")
						}
					}
					records[i].Headers = headers
				}
				return records
			}),
		},
		{
			Name: "lossy-text", About: "keys and values are made valid UTF-8",
			Kills: []string{"S6"}, Ports: changedPublish(func(r *node.Record) {
				r.Key = bytes.ToValidUTF8(r.Key, []byte("\ufffd"))
				r.Value = bytes.ToValidUTF8(r.Value, []byte("\ufffd"))
			}),
		},
		{
			Name: "headers-relayed", About: "the Chronos headers stay on the message",
			Kills:  []string{"S6"},
			Config: func(c *node.Config) { c.RelayHeaders = []string{node.HeaderID, node.HeaderDeadline} },
		},
	}
}
