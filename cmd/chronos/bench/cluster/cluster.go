// Package cluster is how package bench reaches a delay service through Kafka: it publishes on the input topics, and
// reads the output topics from where they end. It creates no topic, joins no group and commits no offset.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/cmd/chronos/bench"
)

// The headers by which a record asks for a delay. They are an interface between services, and not ours alone.
const (
	headerID       = "chronosMessageId"
	headerDeadline = "chronosDeadline"
)

// How the load is published. Acknowledgements are those of all replicas in sync, and batches are compressed with
// snappy: both are kgo's defaults.
const (
	linger          = 5 * time.Millisecond // so that a load costs Kafka some hundred requests a second, not thousands
	bufferedRecords = 20_000
	bufferedBytes   = 64 << 20
	fetchBytes      = 16 << 20
)

// Route is where messages go in and come out.
type Route struct{ Input, Output string }

// Config says where the service is.
type Config struct {
	// Connect returns a client of the cluster.
	Connect func(ctx context.Context, options ...kgo.Opt) (*kgo.Client, error)

	Routes []Route

	// Group is the consumer group of the service, whose committed offsets say how much it has taken in; "" for unknown.
	Group string

	// Largest is how many bytes a value has at most.
	Largest int
}

// Service is a delay service behind Kafka. It implements bench.Service.
type Service struct {
	config   Config
	producer *kgo.Client
	consumer *kgo.Client
	admin    *kadm.Client
	routes   map[string]int // by output topic
	inputs   []string
	began    kadm.ListedOffsets // where they ended

	mu       sync.Mutex
	tightest map[place]sample
}

var _ bench.Service = (*Service)(nil)

type place struct {
	topic     string
	partition int32
}

// sample is a record that was acknowledged fast. Its timestamp, if the broker has made it, lies between the two
// instants by the broker's clock.
type sample struct {
	offset      int64
	sent, acked time.Time
}

// Open connects, and looks where the output topics end, so that all that comes from now on is seen.
func Open(ctx context.Context, config Config) (*Service, error) {
	s := &Service{config: config, routes: map[string]int{}, tightest: map[place]sample{}}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) (err error) {
	var outputs []string
	for i, r := range s.config.Routes {
		s.inputs, outputs = append(s.inputs, r.Input), append(outputs, r.Output)
		s.routes[r.Output] = i
	}
	const overhead = 64 << 10                                         // of headers and of a batch
	batch := int32(max(1<<20, min(s.config.Largest, 1<<30)+overhead)) //nolint:gosec // it is at most that
	if s.producer, err = s.config.Connect(ctx,
		kgo.ProducerLinger(linger), kgo.MaxBufferedRecords(bufferedRecords), kgo.MaxBufferedBytes(bufferedBytes),
		kgo.ProducerBatchMaxBytes(batch), kgo.DisableClientMetrics(),
	); err != nil {
		return err
	}
	s.admin = kadm.NewClient(s.producer)
	if err := s.Begin(ctx); err != nil {
		return err
	}
	listed, err := ends(ctx, s.admin, outputs)
	if err != nil {
		return err
	}
	// What a service publishes in transactions has come out when they are committed.
	s.consumer, err = s.config.Connect(ctx, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(listed.KOffsets()), kgo.FetchMaxBytes(fetchBytes), kgo.DisableClientMetrics())
	return err
}

// Begin looks where the input topics end now: what is taken in from there on is of this run.
func (s *Service) Begin(ctx context.Context) (err error) {
	s.began, err = ends(ctx, s.admin, s.inputs)
	return err
}

// ends returns where topics end, all of which must be there.
func ends(ctx context.Context, admin *kadm.Client, topics []string) (kadm.ListedOffsets, error) {
	listed, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("look up where the topics end: %w", err)
	}
	for _, topic := range topics {
		partitions := listed[topic] // -1 is for all of them
		if len(partitions) == 0 || errors.Is(partitions[-1].Err, kerr.UnknownTopicOrPartition) {
			return nil, fmt.Errorf("topic %s does not exist: bench creates none", topic)
		}
	}
	if err := listed.Error(); err != nil {
		return nil, fmt.Errorf("look up where topics %s end: %w", strings.Join(topics, ", "), err)
	}
	return listed, nil
}

// Close leaves the cluster.
func (s *Service) Close() {
	for _, c := range []*kgo.Client{s.producer, s.consumer} {
		if c != nil {
			c.Close()
		}
	}
}

// Submit publishes a message.
func (s *Service) Submit(ctx context.Context, m *bench.Submission, done func(error)) {
	sent := time.Now()
	s.producer.Produce(ctx, &kgo.Record{
		Topic: s.config.Routes[m.Route].Input, Key: m.Key, Value: m.Value,
		Headers: []kgo.RecordHeader{
			{Key: headerID, Value: []byte(m.ID)},
			{Key: headerDeadline, Value: []byte(m.Deadline)},
			{Key: bench.MarkHeader, Value: m.Mark},
		},
	}, func(r *kgo.Record, err error) {
		if err == nil {
			s.acknowledged(r, sent, time.Now())
		}
		done(err)
	})
}

// acknowledged keeps the record of each partition whose acknowledgement took the shortest time, for Clocks.
func (s *Service) acknowledged(r *kgo.Record, sent, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{r.Topic, r.Partition}
	if best, found := s.tightest[at]; !found || now.Sub(sent) < best.acked.Sub(best.sent) {
		s.tightest[at] = sample{r.Offset, sent, now}
	}
}

// Flush waits until all that was submitted is answered.
func (s *Service) Flush(ctx context.Context) error { return s.producer.Flush(ctx) }

// Receive returns what has come on the output topics.
func (s *Service) Receive(ctx context.Context) ([]bench.Arrival, error) {
	fetches := s.consumer.PollFetches(ctx)
	at := time.Now()
	for _, failed := range fetches.Errors() {
		if ctx.Err() == nil {
			return nil, fmt.Errorf("topic %s, partition %d: %w", failed.Topic, failed.Partition, failed.Err)
		}
	}
	arrivals := make([]bench.Arrival, 0, fetches.NumRecords())
	for records := fetches.RecordIter(); !records.Done(); {
		r := records.Next()
		arrivals = append(arrivals, bench.Arrival{
			Route: s.routes[r.Topic], Key: r.Key, Value: r.Value, Mark: mark(r), At: at,
			Stamp: r.Timestamp, ByBroker: byBroker(r),
		})
	}
	return arrivals, nil
}

// mark returns the value of the header that says which message a record is; nil unless it has exactly one.
func mark(r *kgo.Record) (value []byte) {
	found := 0
	for _, h := range r.Headers {
		if h.Key == bench.MarkHeader {
			value = h.Value
			found++
		}
	}
	if found != 1 {
		return nil
	}
	return value
}

// byBroker reports whether the broker has made the timestamp of a record, when it appended it.
func byBroker(r *kgo.Record) bool { return r.Attrs.TimestampType() == 1 }

// Taken returns how many records the group has committed on the input topics since Begin. If others publish there,
// their records count as well.
func (s *Service) Taken(ctx context.Context) (int64, error) {
	if s.config.Group == "" {
		return -1, nil
	}
	committed, err := s.admin.FetchOffsetsForTopics(ctx, s.config.Group, s.inputs...)
	if err == nil {
		err = committed.Error()
	}
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return 0, nil // It has not committed anything yet.
	case err != nil:
		return 0, fmt.Errorf("look up the offsets of group %s: %w", s.config.Group, err)
	}
	var taken int64
	committed.Each(func(o kadm.OffsetResponse) {
		if began, found := s.began.Lookup(o.Topic, o.Partition); found && o.At > began.Offset {
			taken += o.At - began.Offset
		}
	})
	return taken, nil
}

// Clocks reads, for each broker, the record whose acknowledgement took the shortest time. If the broker has made its
// timestamp, its clock showed that at some instant between when the record was sent and when it was acknowledged.
func (s *Service) Clocks(ctx context.Context) ([]bench.Clock, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	metadata, err := s.admin.Metadata(ctx, s.inputs...)
	if err != nil {
		return nil, fmt.Errorf("look up who leads the input topics: %w", err)
	}
	samples := s.best(metadata)
	if len(samples) == 0 {
		return nil, nil
	}
	offsets := map[string]map[int32]kgo.Offset{}
	for at, one := range samples {
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.Offset{}
		}
		offsets[at.topic][at.partition] = kgo.NewOffset().At(one.offset)
	}
	reader, err := s.config.Connect(ctx, kgo.ConsumePartitions(offsets), kgo.FetchMaxPartitionBytes(1),
		kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var clocks []bench.Clock
	for len(samples) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := errors.Join(fetches.Err0(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("read what was sent: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at := place{r.Topic, r.Partition}
			one, wanted := samples[at]
			if !wanted || one.offset != r.Offset {
				return
			}
			delete(samples, at)
			if byBroker(r) {
				clocks = append(clocks, clock(leader(metadata, at), r.Timestamp, one))
			}
		})
	}
	slices.SortFunc(clocks, func(a, b bench.Clock) int { return strings.Compare(a.Broker, b.Broker) })
	return clocks, nil
}

// clock returns by how much a broker's clock, which showed stamp or up to a millisecond more, is ahead.
func clock(broker string, stamp time.Time, s sample) bench.Clock {
	ms := func(d time.Duration) bench.Millis { return bench.Millis(d.Microseconds()) / 1000 }
	return bench.Clock{Broker: broker, Low: ms(stamp.Sub(s.acked)), High: ms(stamp.Add(time.Millisecond).Sub(s.sent))}
}

// best returns the tightest sample of each broker.
func (s *Service) best(metadata kadm.Metadata) map[place]sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[string]place{}
	for at, one := range s.tightest {
		broker := leader(metadata, at)
		other, found := of[broker]
		if best := s.tightest[other]; broker != "" && (!found || one.acked.Sub(one.sent) < best.acked.Sub(best.sent)) {
			of[broker] = at
		}
	}
	samples := map[place]sample{}
	for _, at := range of {
		samples[at] = s.tightest[at]
	}
	return samples
}

// leader names the broker that leads a partition; "" if none does.
func leader(metadata kadm.Metadata, at place) string {
	partition, found := metadata.Topics[at.topic].Partitions[at.partition]
	if !found || partition.Leader < 0 {
		return ""
	}
	for _, b := range metadata.Brokers {
		if b.NodeID == partition.Leader {
			return fmt.Sprintf("broker %d (%s:%d)", b.NodeID, b.Host, b.Port)
		}
	}
	return ""
}
