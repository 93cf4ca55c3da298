package kafka

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// Sender puts records on partitions of a topic that its caller chooses. NewSender makes one; Close ends it. It is safe
// for concurrent use.
type Sender struct {
	topic      string
	ledger     *Ledger
	through    *producer
	partitions atomic.Int32 // 0 until Kafka was asked
}

// NewSender returns a Sender on a topic of the cluster of a ledger. The topic must not get more partitions.
func (l *Ledger) NewSender(topic string) (*Sender, error) {
	options := append(l.config.options(), ProducerOptions()...)
	options = append(options,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(bulkBytes),
		kgo.ProduceRequestTimeout(l.config.CommitTimeout),
		// Or a record that nobody waits for any more would be sent whenever its partition has a leader again.
		kgo.AllowIdempotentProduceCancellation(),
	)
	if err := kgo.ValidateOpts(options...); err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	return &Sender{topic: topic, ledger: l, through: &producer{options: options}}, nil
}

// Close closes the connections. What is on its way may be there or not.
func (s *Sender) Close() { s.through.close() }

// Partition returns the partition that a key belongs to, as Java producers choose it.
func (s *Sender) Partition(ctx context.Context, key []byte) (int32, error) {
	partitions := s.partitions.Load()
	if partitions == 0 {
		var err error
		if partitions, err = s.ledger.Partitions(ctx, s.topic); err != nil {
			return 0, err
		}
		if partitions == 0 {
			return 0, fmt.Errorf("there is no topic %s", s.topic)
		}
		s.partitions.Store(partitions)
	}
	record := &kgo.Record{Topic: s.topic, Key: key}
	// For a record with a key this one does as javaPartitioner does, which can be asked by the client alone.
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic(s.topic).Partition(record, int(partitions))), nil
}

// Send puts a record on a partition of the topic, and returns when Kafka has acknowledged it, or ctx is done. After an
// error nobody knows whether the record is there, nor whether it will be.
func (s *Sender) Send(ctx context.Context, number int32, r node.Record) error {
	client, _, err := s.through.get()
	if err != nil {
		return fmt.Errorf("topic %s, partition %d: %w", s.topic, number, err)
	}
	record := &kgo.Record{Topic: s.topic, Partition: number, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	sent := make(chan error, 1)
	client.Produce(ctx, record, func(_ *kgo.Record, err error) { sent <- err })
	select {
	case err = <-sent:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		return nil
	}
	if spoils(err) || isUnknownTopic(err) {
		s.through.discard(client) // as draw does. What others are sending is of the same topic, and fails as well
	}
	return fmt.Errorf("topic %s, partition %d: %w", s.topic, number, err)
}
