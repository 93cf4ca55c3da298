package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// onFetched is called by franz-go before adjust, with what the group has committed for partitions that were assigned:
// adjust is not told the metadata. Brokers since Kafka 4.1 name topics by their ids; franz-go has added the names.
func (m *member) onFetched(_ context.Context, _ *kgo.Client, response *kmsg.OffsetFetchResponse) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, group := range response.Groups {
		for _, topic := range group.Topics {
			for _, p := range topic.Partitions {
				var said string
				if p.Metadata != nil {
					said = *p.Metadata
				}
				_, m.origins[topicPartition{topic.Topic, p.Partition}] = origin(said)
			}
		}
	}
	return nil
}

// disown forgets what the group has committed for a partition if that is of a topic that had the name before. Of which
// topic the partition is has to be known for that. It may be already when franz-go asks anew, after a rebalance:
//
//	adjust    900 is committed; of another topic, as describe finds out
//	          the group rebalances: adjust is over, and called again
//	adjust    900 is committed; describe has nothing to find out
//	Poll      tells of the partition
//
// The caller has mu.
func (m *member) disown(p *part) {
	if p.known && isOfAnother(m.origins[topicPartition{p.assigned.Topic, p.assigned.Number}], p.assigned.TopicID) {
		p.assigned.Committed = node.Position{Epoch: node.UnknownEpoch, Offset: -1}
	}
}

// adjust is called by franz-go in a goroutine of its own, once it knows what the group has committed for partitions
// that were assigned. It waits until start says from where to read them. Heartbeats go on meanwhile; ctx is done when
// the group rebalances again, and then franz-go repeats the call in the next session.
//
// The places go to franz-go with their epochs, so that it asks Kafka first whether the log still has what came before.
//
// A partition without a leader says nothing about what it holds, and so cannot be told to the caller yet. It must not
// hold up the others: franz-go is told to read it from the start, but not to fetch. It is settled later.
func (m *member) adjust(
	ctx context.Context, committed map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	names := make(map[topicPartition]bool)
	m.mu.Lock()
	for topic, partitions := range committed {
		for number, offset := range partitions {
			name := topicPartition{topic, number}
			names[name] = true
			p := m.parts[name]
			if p == nil {
				p = new(part)
				m.parts[name] = p
			}
			p.phase = waiting
			p.assigned.Committed = node.Position{Epoch: node.UnknownEpoch, Offset: -1}
			if at := offset.EpochOffset(); at.Offset >= 0 {
				p.assigned.Committed = node.Position{Epoch: at.Epoch, Offset: at.Offset}
			}
			m.disown(p)
		}
	}
	m.mu.Unlock()
	m.describe(ctx, names)
	for {
		m.mu.Lock()
		if m.startable(names) {
			result := m.begin(names)
			m.mu.Unlock()
			return result, nil
		}
		started := m.started
		m.wake()
		m.mu.Unlock()
		select {
		case <-started:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// describe finds out what partitions of ours hold, as far as it is not known.
func (m *member) describe(ctx context.Context, names map[topicPartition]bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	extents, unknown, err := describe(ctx, m.client, m.config.Inputs, names)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.trouble = err
		return
	}
	for _, e := range extents {
		if p := m.parts[topicPartition{e.Topic, e.Number}]; p != nil && !p.known {
			p.assigned.Extent, p.known = e, true
			m.disown(p)
		}
	}
	for _, name := range sortedPartitions(unknown) {
		m.trouble = fmt.Errorf("input topic %s partition %d: %w", name.topic, name.number, unknown[name])
	}
	m.wake()
}

// startable reports whether start was called for one of the partitions that wait, or could not be. The caller has mu.
func (m *member) startable(names map[topicPartition]bool) bool {
	anyKnown := false
	for name := range names {
		p := m.parts[name]
		if p == nil {
			continue
		}
		if p.want != nil {
			return true
		}
		anyKnown = anyKnown || p.known
	}
	return !anyKnown
}

// begin has franz-go read the partitions for which start was called, and takes it as done that the others are read
// without being fetched. The caller has mu.
func (m *member) begin(names map[topicPartition]bool) map[string]map[int32]kgo.Offset {
	result := make(map[string]map[int32]kgo.Offset)
	held := make(map[string][]int32)
	for name := range names {
		p := m.parts[name]
		if p == nil {
			continue
		}
		from := node.Position{Epoch: node.UnknownEpoch}
		if p.want != nil {
			from = *p.want
			p.phase, p.at, p.want = reading, from, nil
		} else {
			p.phase = parked
			held[name.topic] = append(held[name.topic], name.number)
		}
		if result[name.topic] == nil {
			result[name.topic] = make(map[int32]kgo.Offset)
		}
		result[name.topic][name.number] = kgo.NewOffset().At(from.Offset).WithEpoch(from.Epoch)
	}
	m.client.PauseFetchPartitions(held)
	return result
}

// start takes note from where partitions are to be read, those that wait for it and those that are read already.
func (m *member) start(places []node.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make(map[string][]int32)
	for _, place := range places {
		p := m.parts[topicPartition{place.Topic, place.Number}]
		if p == nil || !p.told || p.assigned.TopicID != place.TopicID {
			continue // lost, or assigned anew in the meantime
		}
		position := place.Position
		p.want, p.outOfRange, p.stuck = &position, false, nil
		if p.phase != waiting {
			held[place.Topic] = append(held[place.Topic], place.Number)
		}
		for i := range m.moved {
			if m.moved[i].Partition == place.Partition {
				m.moved = append(m.moved[:i:i], m.moved[i+1:]...)
				break
			}
		}
		p.rest, p.restBytes = nil, 0
	}
	m.client.PauseFetchPartitions(held)
	close(m.started)
	m.started = make(chan struct{})
}

// pauseReading has partitions not be read until somebody says from where.
func (m *member) pauseReading(partitions []node.Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make(map[string][]int32)
	for _, name := range partitions {
		p := m.parts[topicPartition{name.Topic, name.Number}]
		if p == nil || !p.told || p.assigned.TopicID != name.TopicID {
			continue // lost, or assigned anew in the meantime
		}
		p.want, p.outOfRange, p.stuck = nil, false, nil
		p.rest, p.restBytes = nil, 0
		if p.phase == reading {
			p.phase = parked
			held[name.Topic] = append(held[name.Topic], name.Number)
		}
	}
	m.client.PauseFetchPartitions(held)
}

// settle has franz-go go to the places that are wanted by now, and finds places for partitions whose log has no
// record where they are read. It waits for nobody: what has to be asked for is asked in the background, and the answers
// are used by a later call. What fails is asked again.
func (m *member) settle(ctx context.Context) {
	seeks := make(map[topicPartition]*node.Position)
	astray := make(map[topicPartition]bool)
	m.mu.Lock()
	targets := m.answers
	m.answers = nil
	for name, t := range targets {
		if p := m.parts[name]; p == nil || p.want != t.want || t.want == nil && !p.outOfRange {
			delete(targets, name) // something else is wanted by now
		}
	}
	for name, p := range m.parts {
		if _, answered := targets[name]; answered || p.phase == waiting {
			continue
		}
		if p.want != nil {
			seeks[name] = p.want
		} else if p.outOfRange {
			astray[name] = true
		}
	}
	for name, want := range seeks {
		if want.Epoch == node.UnknownEpoch { // there is nothing to ask
			if targets == nil {
				targets = make(map[topicPartition]target)
			}
			targets[name] = target{want: want, position: *want, lostFrom: -1}
			delete(seeks, name)
		}
	}
	ask := len(seeks)+len(astray) > 0 && !m.asking
	m.asking = m.asking || ask
	m.mu.Unlock()
	m.seek(targets)
	if ask {
		asking := context.WithoutCancel(ctx) // which ends with the poll
		m.lookouts.Go(func() { m.ask(asking, seeks, astray) })
	}
}

// ask finds targets for settle.
func (m *member) ask(ctx context.Context, seeks map[topicPartition]*node.Position, astray map[topicPartition]bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	targets := m.validate(ctx, seeks)
	if len(astray) > 0 {
		m.recover(ctx, astray, targets)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asking, m.answers = false, targets
	m.wake()
}

// target is where a partition is to be read from, and what the caller is told about that.
type target struct {
	want     *node.Position // what it answers; nil if the partition was out of range
	position node.Position
	moved    bool
	lostFrom int64 // -1 if nothing was lost
}

// validate returns where partitions are to be read from: the place that is wanted, or where Kafka says that the epoch
// of that place has ended, if that comes before. Those for which Kafka does not answer are left out. (franz-go
// asks by itself when reading begins, but not when it goes on from another place.)
func (m *member) validate(ctx context.Context, seeks map[topicPartition]*node.Position) map[topicPartition]target {
	targets := make(map[topicPartition]target)
	if len(seeks) == 0 {
		return targets
	}
	request := make(kadm.OffsetForLeaderEpochRequest)
	for name, want := range seeks {
		request.Add(name.topic, name.number, want.Epoch)
	}
	ends, err := kadm.NewClient(m.client).OffsetForLeaderEpoch(ctx, request)
	for name, want := range seeks {
		end, answered := ends[name.topic][name.number]
		switch {
		case !answered:
			m.doubt(name, err)
		case end.Err != nil:
			m.doubt(name, end.Err)
		case end.EndOffset >= 0 && end.EndOffset < want.Offset:
			targets[name] = target{
				want:     want,
				position: node.Position{Epoch: end.LeaderEpoch, Offset: end.EndOffset}, moved: true, lostFrom: -1,
			}
		default:
			targets[name] = target{want: want, position: *want, lostFrom: -1}
		}
	}
	return targets
}

// doubt takes note that Kafka does not say whether a partition can be read from a place.
func (m *member) doubt(name topicPartition, err error) {
	if err == nil {
		err = errNoResult
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble = fmt.Errorf("input topic %s partition %d: look where its log has ended: %w",
		name.topic, name.number, err)
}

// recover adds targets for partitions whose log does not have the place where they are read: behind what retention
// took, or where the log ends. Those for which Kafka does not answer are left out.
func (m *member) recover(ctx context.Context, astray map[topicPartition]bool, targets map[topicPartition]target) {
	extents, unknown, err := describe(ctx, m.client, m.config.Inputs, astray)
	for name := range unknown {
		m.doubt(name, unknown[name])
	}
	if err != nil {
		for name := range astray {
			m.doubt(name, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range extents {
		name := topicPartition{e.Topic, e.Number}
		p := m.parts[name]
		if p == nil || !p.outOfRange || p.assigned.TopicID != e.TopicID {
			continue
		}
		t := target{position: p.at, lostFrom: -1}
		switch {
		case p.at.Offset < e.First:
			t.position, t.lostFrom = node.Position{Epoch: node.UnknownEpoch, Offset: e.First}, p.at.Offset
		case p.at.Offset > e.End:
			t.position, t.moved = node.Position{Epoch: node.UnknownEpoch, Offset: e.End}, true
		}
		targets[name] = t
	}
}

// seek has franz-go read partitions from targets, and forgets what it has fetched of them before.
func (m *member) seek(targets map[topicPartition]target) {
	if len(targets) == 0 {
		return
	}
	// franz-go leaves a partition alone that it believes to be at that very place, which need not be true of what
	// it has fetched ahead. So it is sent elsewhere first; nothing is fetched meanwhile.
	aside, offsets := make(map[string]map[int32]kgo.EpochOffset), make(map[string]map[int32]kgo.EpochOffset)
	resumed := make(map[string][]int32)
	for name, t := range targets {
		if offsets[name.topic] == nil {
			aside[name.topic], offsets[name.topic] = make(map[int32]kgo.EpochOffset), make(map[int32]kgo.EpochOffset)
		}
		aside[name.topic][name.number] = kgo.EpochOffset{Epoch: t.position.Epoch, Offset: t.position.Offset + 1}
		offsets[name.topic][name.number] = kgo.EpochOffset{Epoch: t.position.Epoch, Offset: t.position.Offset}
		resumed[name.topic] = append(resumed[name.topic], name.number)
	}
	m.client.SetOffsets(aside)
	m.client.SetOffsets(offsets)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, t := range targets {
		p := m.parts[name]
		if p == nil {
			continue
		}
		if t.lostFrom >= 0 {
			m.log.LogAttrs(context.Background(), slog.LevelError,
				"retention took records of an input partition before they were read, reading goes on with the first",
				slog.String("topic", name.topic), slog.Int("partition", int(name.number)),
				slog.Int64("from", t.lostFrom), slog.Int64("to", t.position.Offset),
				slog.Int64("at_most", t.position.Offset-t.lostFrom))
			m.lost = append(m.lost, node.Loss{
				Partition: p.assigned.Partition, From: t.lostFrom, To: t.position.Offset,
			})
		}
		if t.moved {
			m.log.LogAttrs(context.Background(), slog.LevelError,
				"Kafka has lost records at the end of an input partition, reading goes on where its log has ended",
				slog.String("topic", name.topic), slog.Int("partition", int(name.number)),
				slog.Int64("to", t.position.Offset))
			m.moved = append(m.moved, node.Place{Partition: p.assigned.Partition, Position: t.position})
		}
		p.phase, p.at, p.want, p.outOfRange = reading, t.position, nil, false
	}
	m.client.ResumeFetchPartitions(resumed)
}
