package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// search looks for the leader epoch of the record before a place. An epoch ends where the next one that has written
// something begins, so it is the lowest one that ends at the place or behind it. It lies above low, and not above high.
type search struct {
	place     *node.Place
	first     int64 // offset of the log
	low, high int32
	confirmed bool // high is known to end there or behind
}

// epoch is what to ask for next.
func (s *search) epoch() int32 {
	if !s.confirmed {
		return s.high
	}
	return s.low + (s.high-s.low)/2
}

// hears takes what Kafka says of where the epoch ends that was asked for; an end below 0 where it knows of none that is
// higher. It reports whether to ask once more.
func (s *search) hears(end int64) bool {
	asked := s.epoch()
	switch {
	case !s.confirmed && end < 0: // the leader keeps no epochs of this log
		return false
	case !s.confirmed:
		s.confirmed = true
		s.place.Offset = min(s.place.Offset, end)
		if s.place.Offset <= s.first {
			return false
		}
	case end < 0 || end >= s.place.Offset:
		s.high = asked
	default:
		s.low = asked
	}
	if s.high-s.low > 1 {
		return true
	}
	s.place.Epoch = s.high
	return false
}

// WithEpochs returns places, of partitions that differ, with the leader epoch of the record before each, so that
// whoever reads from there later hears of it if Kafka has lost what came before. It is node.UnknownEpoch where the log
// has no record before the place, or the brokers do not know. The epoch that a place comes with is the highest that it
// may get, node.UnknownEpoch for any: a place behind the end of that epoch becomes this end, because Kafka has lost
// what was there, and what takes its place begins at the end. It tries until ctx is done while no broker answers, or a
// partition has no leader.
func (a *Admin) WithEpochs(ctx context.Context, places []node.Place) ([]node.Place, error) {
	var located []node.Place
	err := a.try(ctx, func(client *kgo.Client) error {
		located = slices.Clone(places)
		searches, err := searchesFor(ctx, client, located)
		for err == nil && len(searches) > 0 {
			searches, err = askForEpochs(ctx, client, searches)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up the leader epochs of offsets: %w", err)
	}
	return located, nil
}

// searchesFor returns the searches for places that have a record before them.
func searchesFor(
	ctx context.Context, client *kgo.Client, places []node.Place,
) (map[topicPartition]*search, error) {
	wanted := make(map[topicPartition]bool)
	var topics []string
	for _, p := range places {
		wanted[topicPartition{p.Topic, p.Number}] = true
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	details, err := listTopics(ctx, client, topics...)
	if err != nil {
		return nil, err
	}
	extents, unknown, err := describe(ctx, client, topics, wanted)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedPartitions(unknown) {
		return nil, fmt.Errorf("topic %s partition %d: %w", name.topic, name.number, unknown[name])
	}
	firsts := make(map[node.Partition]int64)
	for _, e := range extents {
		firsts[e.Partition] = e.First
	}
	searches := make(map[topicPartition]*search)
	for i := range places {
		p := &places[i]
		high := p.Epoch
		if high == node.UnknownEpoch {
			high = details[p.Topic].Partitions[p.Number].LeaderEpoch
		}
		p.Epoch = node.UnknownEpoch
		if first, known := firsts[p.Partition]; known && p.Offset > first && high >= 0 {
			searches[topicPartition{p.Topic, p.Number}] = &search{place: p, first: first, low: -1, high: high}
		}
	}
	return searches, nil
}

// askForEpochs has all searches get one step on, and returns those that are not at their end.
func askForEpochs(
	ctx context.Context, client *kgo.Client, searches map[topicPartition]*search,
) (map[topicPartition]*search, error) {
	request := make(kadm.OffsetForLeaderEpochRequest)
	for name, s := range searches {
		request.Add(name.topic, name.number, s.epoch())
	}
	ends, err := kadm.NewClient(client).OffsetForLeaderEpoch(ctx, request)
	if err != nil {
		return nil, err
	}
	left := make(map[topicPartition]*search)
	for _, name := range sortedPartitions(searches) {
		end, answered := ends[name.topic][name.number]
		if !answered {
			end.Err = errNoResult
		}
		if end.Err != nil {
			return nil, fmt.Errorf("topic %s partition %d: %w", name.topic, name.number, end.Err)
		}
		if searches[name].hears(end.EndOffset) {
			left[name] = searches[name]
		}
	}
	return left, nil
}
