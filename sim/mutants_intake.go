package sim

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

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
				o.FaultRate, o.Bursts, o.Messages, o.Reuse, o.Partitions = 0, 1, 600, 90, 1
				o.StoreLatency, o.Horizon, o.Large, o.Bandwidth = 20*time.Millisecond, 4*time.Second, 0, 0
			},
			Ports: func(p node.Ports) node.Ports { p.Store = repeatsAlone{p.Store}; return p },
		},
		{
			Name:  "publishes-past-the-store",
			About: "what is due on arrival is published at once, and never stored (3.1)",
			Kills: []string{"S9"}, Options: func(o *Options) { o.Lapsed = 50 },
			Ports: func(p node.Ports) node.Ports { p.Store = publishesPast{p.Store, p.Sink, p.Clock}; return p },
		},
		{
			Name:  "answers-unconfirmed",
			About: "a take that finds everything there does not wait for the standby to confirm it (A1)",
			Kills: []string{"S10"}, Unconfirmed: true,
			Options: func(o *Options) {
				o.FaultRate, o.Mix, o.Lossy = 500, []FaultKind{StandbyStalls, Failover}, false
			},
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
					if len(i.Lane) > 4 && i.Lane[:4] == "dead" {
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
		_ = s.Commit(ctx, places)
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
		if item.From != node.NoPlace {
			result.Positions[item.From] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
		}
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
		id := node.MessageID{ID: item.ID, Lane: item.Lane}
		if before, repeated := last[id]; repeated {
			request.Items[before].Action, request.Items[before].Message = node.Pass, node.Message{}
		}
		last[id] = i
	}
	return s.Store.Take(ctx, request)
}

// publishesPast publishes what is due already, and passes it over when the rest of its batch is taken in.
type publishesPast struct {
	node.Store

	sink  node.Sink
	clock node.Clock
}

// Take implements node.Store.
func (s publishesPast) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.Items = slices.Clone(request.Items)
	for i := range request.Items {
		item := &request.Items[i]
		due := item.Action == node.Schedule && !item.Deadline.After(s.clock.Now())
		if !due || item.From == node.NoPlace || item.Recurs() {
			continue
		}
		record := node.Record{Topic: item.Lane, Key: item.Key, Value: item.Value, Headers: item.Headers}
		if s.sink.Publish(ctx, []node.Record{record})[0] == nil {
			item.Action, item.Message = node.Pass, node.Message{}
		}
	}
	return s.Store.Take(ctx, request)
}

// repeatsAlone makes a call for each repeat of an id.
type repeatsAlone struct{ node.Store }

// Take implements node.Store.
func (s repeatsAlone) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	seen := map[node.MessageID]bool{}
	for i := range request.Items {
		id := node.MessageID{ID: request.Items[i].ID, Lane: request.Items[i].Lane}
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
