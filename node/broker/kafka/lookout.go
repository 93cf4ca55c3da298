package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// lookInterval is how often a member looks whether its inputs can be read. franz-go waits without a word for a
	// topic that does not exist, and for a partition that has no leader.
	lookInterval = time.Second

	// doubtful is how many looks in a row must see another id of a topic: brokers learn at different times that one
	// was deleted and created again.
	doubtful = 2

	// holdInterval is how often partitions are looked for that an open transaction holds up, and holdAllowed is how
	// long one may take. Transactions of other software end after a minute by default, when it dies.
	holdInterval = 5 * time.Second
	holdAllowed  = 15 * time.Second
)

// hold is what the look-out knows of a transaction that may hold a partition up: where consumers have to stop, and
// since when.
type hold struct {
	at    int64
	since time.Time
}

// lookOut looks after the inputs until ctx is done.
func (m *member) lookOut(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		m.prod()
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		m.look(look)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// prod has franz-go fetch from all brokers, should it have gone to sleep.
//
// SetOffsets ends one session of fetching and begins the next. The loop that fetches from a broker, if it was woken
// just before, loads the old session (1); that session ends, without waiting for a loop that has not signed in with
// it yet, and the call that wakes the loop for the new one finds it awake (2); it sees that its session is over and
// lies down, which forgets the call (3). See loopFetch and hardFinish in package kgo of franz-go 1.22.2. Nothing is
// fetched from that broker from then on, until the group or the topics change. seek calls SetOffsets twice in a
// row, which is when it happens: once in about a thousand seeks on a busy machine. To resume partitions wakes all
// loops, also if none was paused, and costs nothing where a loop is awake.
func (m *member) prod() { m.client.ResumeFetchPartitions(nil) }

// look finds out what is wrong with the inputs, and says so.
func (m *member) look(ctx context.Context) {
	details, err := listTopics(ctx, m.client, m.config.Inputs...)
	if err != nil {
		if _, permanent := Permanent(err); permanent {
			m.see(err)
		}
		return // or else pulse knows what is wrong
	}
	var trouble error
	for _, topic := range m.config.Inputs {
		if err := m.lookAt(topic, details); err != nil && trouble == nil {
			trouble = err
		}
	}
	m.see(trouble)
	m.describeRest(ctx)
	m.lookPastStuck(ctx)
	if now := time.Now(); !now.Before(m.nextHold) {
		m.nextHold = now.Add(holdInterval)
		m.lookForHolds(ctx)
	}
}

// see takes note of the trouble that a look has found, nil if there is none.
func (m *member) see(trouble error) {
	m.mu.Lock()
	m.trouble = trouble
	m.mu.Unlock()
	said := m.said
	m.said = trouble != nil
	switch {
	case trouble != nil:
		m.say("input "+trouble.Error(), trouble)
	case said:
		m.log.LogAttrs(context.Background(), slog.LevelInfo, "all input partitions can be read again")
	}
}

// lookAt returns what is wrong with a topic.
func (m *member) lookAt(topic string, details kadm.TopicDetails) error {
	id, err := topicID(topic, details)
	if err != nil {
		if kerr.IsRetriable(err) && !errors.Is(err, kerr.LeaderNotAvailable) {
			return nil
		}
		return err
	}
	m.compareID(topic, id)
	m.count(topic, len(details[topic].Partitions))
	for _, p := range details[topic].Partitions.Sorted() {
		if p.Leader < 0 || errors.Is(p.Err, kerr.LeaderNotAvailable) {
			return fmt.Errorf("input topic %s partition %d has no leader: its messages wait until a broker is back",
				topic, p.Partition)
		}
	}
	return nil
}

// count has franz-go look for partitions that were added to a topic, which it does once a minute by itself. It does
// so at the first look too: they may have been added between that and the moment when franz-go looked.
func (m *member) count(topic string, partitions int) {
	m.mu.Lock()
	before := m.counts[topic]
	m.counts[topic] = partitions
	m.mu.Unlock()
	if partitions > before {
		m.client.ForceMetadataRefresh()
	}
}

// compareID fouls the member when a topic is not the one any more of which partitions were assigned.
func (m *member) compareID(topic string, id uuid.UUID) {
	m.mu.Lock()
	other := false
	for name, p := range m.parts {
		other = other || name.topic == topic && p.known && p.assigned.TopicID != id
	}
	if other {
		m.others[topic]++
	} else {
		delete(m.others, topic)
	}
	sure := m.others[topic] >= doubtful
	m.mu.Unlock()
	if sure {
		m.foul("an input topic was deleted and created again")
	}
}

// describeRest finds out what those partitions hold that had no leader when they were assigned.
func (m *member) describeRest(ctx context.Context) {
	names := make(map[topicPartition]bool)
	m.mu.Lock()
	for name, p := range m.parts {
		if !p.known {
			names[name] = true
		}
	}
	m.mu.Unlock()
	if len(names) > 0 {
		m.describe(ctx, names)
	}
}

// lookPastStuck has reading go on where somebody has deleted the batch that franz-go has given a partition up for: it
// does not look there again.
func (m *member) lookPastStuck(ctx context.Context) {
	stuck := make(map[topicPartition]bool)
	m.mu.Lock()
	for name, p := range m.parts {
		if p.stuck != nil {
			stuck[name] = true
		}
	}
	m.mu.Unlock()
	if len(stuck) == 0 {
		return
	}
	firsts := listOffsets(ctx, m.client, sortedPartitions(stuck), timestampFirst, false)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range stuck {
		p, first := m.parts[name], firsts[name]
		if p != nil && p.stuck != nil && first.err == nil && first.offset > p.at.Offset {
			p.stuck, p.outOfRange = nil, true
			m.wake()
		}
	}
}

// lookForHolds says which partitions have been read up to a transaction that stays open: what comes behind it waits.
func (m *member) lookForHolds(ctx context.Context) {
	places := make(map[topicPartition]int64)
	m.mu.Lock()
	for name, p := range m.parts {
		if p.phase == reading {
			places[name] = p.at.Offset
		}
	}
	m.mu.Unlock()
	names := sortedPartitions(places)
	stable := listOffsets(ctx, m.client, names, timestampEnd, true)
	ends := listOffsets(ctx, m.client, names, timestampEnd, false)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		p, stop, end := m.parts[name], stable[name], ends[name]
		if p == nil || stop.err != nil || end.err != nil {
			continue
		}
		if end.offset <= stop.offset || places[name] < stop.offset || p.held.at != stop.offset {
			p.held = hold{at: stop.offset, since: now}
			continue
		}
		if now.Sub(p.held.since) > holdAllowed && m.repeats.due("held "+name.String()) {
			m.log.LogAttrs(ctx, slog.LevelWarn,
				"an open transaction holds up an input partition: what comes behind it waits",
				slog.String("topic", name.topic), slog.Int("partition", int(name.number)),
				slog.Int64("offset", stop.offset), slog.Int64("waiting_at_most", end.offset-stop.offset),
				slog.Duration("for", now.Sub(p.held.since).Round(time.Second)))
		}
	}
}
