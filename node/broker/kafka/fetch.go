package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// sizeOf returns the number of payload bytes of a record.
func sizeOf(r *kgo.Record) int {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

// examine takes note of what is wrong with consuming, of what came with fetches, and returns what the caller should
// know.
func (m *member) examine(fetches kgo.Fetches) error {
	var problem error
	fetches.EachError(func(topic string, number int32, err error) {
		if trouble := m.classify(topicPartition{topic, number}, err); trouble != nil {
			problem = trouble
		}
	})
	return problem
}

// classify deals with one error of franz-go, and returns it if that is not the end of it.
func (m *member) classify(name topicPartition, err error) error {
	var loss *kgo.ErrDataLoss
	var session *kgo.ErrGroupSession
	var tooLarge *kgo.ErrDecompressTooLarge
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil // the end of the poll
	case errors.Is(err, errNoRoom):
		return nil // the batch is fetched again
	case errors.As(err, &session):
		return m.notJoined(session.Err)
	case errors.As(err, &loss):
		m.move(name, node.Position{Epoch: loss.ResetToEpoch, Offset: loss.ResetTo})
		return nil
	case errors.Is(err, kerr.UnknownTopicID):
		m.foul("an input topic was deleted, and perhaps created again")
		return nil
	case errors.Is(err, kerr.OffsetOutOfRange):
		m.park(name, func(p *part) { p.outOfRange = true })
		return nil
	case errors.As(err, &tooLarge):
		err = fmt.Errorf("topic %s partition %d: the batch at offset %d takes more than %d bytes when it is "+
			"decompressed, the partition is not read any further: raise batch-memory, or do without the "+
			"records before offset %d, by kafka-delete-records.sh", name.topic, name.number, tooLarge.Offset,
			m.config.BatchMemory, tooLarge.NextOffset)
		m.mu.Lock()
		if p := m.parts[name]; p != nil {
			p.stuck = err
		}
		m.mu.Unlock()
	case kerr.IsRetriable(err):
		return nil // franz-go is at it
	default:
		err = fmt.Errorf("fetch topic %s partition %d: %w", name.topic, name.number, err)
	}
	m.say("fetch "+name.String(), err)
	return err
}

// notJoined takes note that the group does not let us in.
func (m *member) notJoined(err error) error {
	if isEvicted(err) {
		return nil // onLost has said so, and we are joining again
	}
	err = fmt.Errorf("join group: %w", err)
	m.mu.Lock()
	// franz-go queues the error for a poll, and goes on. What a poll finds may be over:
	//
	//	franz-go  loses touch with the group: calls onLost, queues the error
	//	franz-go  joins: calls onAssigned
	//	Poll                                     finds the error
	joined := m.id != ""
	if !joined {
		m.joining = err
	}
	m.mu.Unlock()
	if joined {
		return nil
	}
	// That no broker answers is not said here: Poll does.
	if refusal := new(kerr.Error); errors.As(err, &refusal) && m.repeats.due("group") {
		m.log.LogAttrs(context.Background(), slog.LevelError, "cannot join the consumer group", slog.Any("error", err))
	}
	return err
}

// say logs that an input cannot be consumed, once a minute.
func (m *member) say(key string, err error) {
	if m.repeats.due(key) {
		m.log.LogAttrs(context.Background(), slog.LevelError, "cannot consume", slog.Any("error", err))
	}
}

// move takes note that reading of a partition goes on from an earlier place, since Kafka has lost the end of its log.
func (m *member) move(name topicPartition, to node.Position) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.parts[name]
	if p == nil || p.phase != reading || p.want != nil {
		return
	}
	m.log.LogAttrs(context.Background(), slog.LevelError,
		"Kafka has lost records at the end of an input partition, reading goes on where its log has ended",
		slog.String("topic", name.topic), slog.Int("partition", int(name.number)),
		slog.Int64("from", p.at.Offset), slog.Int64("to", to.Offset))
	p.at = to
	m.moved = append(m.moved, node.Place{Partition: p.assigned.Partition, Position: to})
}

// park keeps franz-go from fetching a partition.
func (m *member) park(name topicPartition, also func(*part)) {
	m.client.PauseFetchPartitions(map[string][]int32{name.topic: {name.number}})
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.parts[name]; p != nil && p.phase == reading {
		also(p)
	}
}

// take adds the records of fetches to the rest, except those of partitions that are not ours, or not read from there.
func (m *member) take(fetches kgo.Fetches) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range fetches {
		for j := range fetches[i].Topics {
			topic := &fetches[i].Topics[j]
			for _, partition := range topic.Partitions {
				if len(partition.Records) > 0 {
					m.takePartition(topic, partition)
				}
			}
		}
	}
}

// takePartition takes the records of one partition. The caller has mu.
func (m *member) takePartition(topic *kgo.FetchTopic, fetch kgo.FetchPartition) {
	p := m.parts[topicPartition{topic.Topic, fetch.Partition}]
	if p == nil || p.phase != reading || p.want != nil || p.outOfRange {
		return
	}
	if id := uuid.UUID(topic.TopicID); id != (uuid.UUID{}) && id != p.assigned.TopicID {
		m.condemn("an input topic was deleted and created again")
		return
	}
	for _, r := range fetch.Records {
		if r.Offset < p.at.Offset && (r.LeaderEpoch <= p.at.Epoch || p.at.Epoch == node.UnknownEpoch) {
			// franz-go reads from elsewhere: we tell it again.
			place := p.at
			p.want = &place
			return
		}
		p.at = node.Position{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		p.rest, p.restBytes = append(p.rest, r), p.restBytes+sizeOf(r)
	}
}

// copyRecord returns a copy of what was fetched, in one piece of memory of its own: franz-go hands out slices of a
// whole response, which a single message that waits for its deadline would keep.
func copyRecord(r *kgo.Record) node.Record {
	record := node.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Control: r.Attrs.IsControl(),
	}
	if record.Control {
		return record
	}
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Value)
	}
	memory := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil // a null; an empty slice is an empty value
		}
		start := len(memory)
		memory = append(memory, b...)
		return memory[start:len(memory):len(memory)]
	}
	if r.Timestamp.UnixMilli() >= 0 { // -1 stands for none
		record.Timestamp = r.Timestamp.UTC()
	}
	record.Key, record.Value = keep(r.Key), keep(r.Value)
	if len(r.Headers) > 0 {
		record.Headers = make([]node.Header, len(r.Headers))
		for i, h := range r.Headers {
			record.Headers[i] = node.Header{Name: h.Key, Value: keep(h.Value)}
		}
	}
	return record
}
