package kafka

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// Sink is node.Sink on a Kafka cluster. NewSink makes one; Close ends it.
type Sink struct {
	config SinkConfig
	log    *slog.Logger

	slots   [compressions]*slots // by the compression of the topic
	admin   *producer
	missing missingTopics
	silent  silentWatch
	proven  provenPartitions
	window  window

	// tooLarge is the size of the smallest record that each topic has refused for it.
	tooLarge topicCounts

	work *background
}

var _ node.Sink = (*Sink)(nil)

// NewSink returns a Sink for config. It connects to nothing yet, so that it succeeds while all brokers are away; a
// configuration that can never work is an error, a *node.ConfigError wherever one setting is to blame.
func NewSink(config SinkConfig) (*Sink, error) {
	config.Connection = connectionDefaults(config.Connection)
	if err := config.validate(); err != nil {
		return nil, err
	}
	for codec := range Compression(compressions) {
		for _, options := range [][]kgo.Opt{config.bulkOptions(codec), config.carefulOptions(codec)} {
			if err := kgo.ValidateOpts(options...); err != nil {
				return nil, fmt.Errorf("configure Kafka client: %w", err)
			}
		}
	}
	s := &Sink{
		config: config,
		log:    config.Logger,
		admin:  &producer{options: config.options()},
		work:   newBackground(),
	}
	s.silent.admin, s.silent.log, s.silent.work = s.admin, s.log, s.work
	for codec := range s.slots {
		s.slots[codec] = &slots{
			taken: make(chan struct{}, maxSlots), make: func() *slot { return s.newSlot(Compression(codec)) },
		}
	}
	return s, nil
}

// newSlot returns a slot for topics of that compression.
func (s *Sink) newSlot(codec Compression) *slot {
	with := func(options []kgo.Opt) *producer { return &producer{options: append(options, s.silent.partitioner())} }
	made := &slot{
		knows: make(map[string]bool),
		bulk:  with(s.config.bulkOptions(codec)), careful: with(s.config.carefulOptions(codec)),
	}
	if densest := codec.densest(); densest != codec {
		made.dense = with(s.config.carefulOptions(densest))
	}
	return made
}

// compression returns how what goes on a topic is compressed.
func (s *Sink) compression(topic string) Compression {
	if s.config.Compression == nil {
		return Uncompressed
	}
	return s.config.Compression(topic)
}

// byCompression parts the records at these indexes by the compression of their topics. It keeps their order.
func (s *Sink) byCompression(records []node.Record, indexes []int) (parts [compressions][]int) {
	for _, i := range indexes {
		codec := s.compression(records[i].Topic)
		parts[codec] = append(parts[codec], i)
	}
	return parts
}

// alike reports whether the topics of all records have one compression.
func (s *Sink) alike(records []node.Record) bool {
	if s.config.Compression == nil {
		return true
	}
	first := s.compression(records[0].Topic)
	return !slices.ContainsFunc(records, func(r node.Record) bool { return s.compression(r.Topic) != first })
}

// Close closes all connections. Records that are being published are given up: their outcome is unknown.
func (s *Sink) Close() {
	if !s.work.end() {
		return
	}
	for _, slots := range s.slots {
		slots.close()
	}
	s.admin.close()
	s.work.wait()
}
