package kafka

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// Sink is node.Sink on a Kafka cluster. NewSink makes one; Close ends it.
type Sink struct {
	config  SinkConfig
	log     *slog.Logger
	repeats repeats

	slots   *slots
	admin   *producer
	missing missingTopics
	silent  silentPartitions
	proven  provenPartitions
	window  window

	// mu guards closed, which says whether Close has begun.
	mu         sync.Mutex
	closed     bool
	stop       chan struct{} // closed when Close begins
	background sync.WaitGroup
}

var _ node.Sink = (*Sink)(nil)

// NewSink returns a Sink for config. It connects to nothing yet, so that it succeeds while all brokers are away; a
// configuration that can never work is an error, a *node.ConfigError wherever one setting is to blame.
func NewSink(config SinkConfig) (*Sink, error) {
	config.Connection = connectionDefaults(config.Connection)
	if err := config.validate(); err != nil {
		return nil, err
	}
	for _, options := range [][]kgo.Opt{config.bulkOptions(), config.carefulOptions()} {
		if err := kgo.ValidateOpts(options...); err != nil {
			return nil, fmt.Errorf("configure Kafka client: %w", err)
		}
	}
	s := &Sink{
		config: config,
		log:    config.Logger,
		admin:  &producer{options: config.options()},
		stop:   make(chan struct{}),
	}
	s.slots = &slots{
		taken: make(chan struct{}, maxSlots),
		make: func() *slot {
			return &slot{
				knows:   make(map[string]bool),
				bulk:    &producer{options: append(config.bulkOptions(), s.silent.partitioner())},
				careful: &producer{options: append(config.carefulOptions(), s.silent.partitioner())},
			}
		},
	}
	return s, nil
}

// Close closes all connections. Records that are being published are given up: their outcome is unknown.
func (s *Sink) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.stop)
	s.mu.Unlock()
	s.slots.close()
	s.admin.close()
	s.background.Wait()
}

// inBackground runs work in a goroutine that Close waits for, and reports whether it does: not once Close has begun.
func (s *Sink) inBackground(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.background.Go(work)
	return true
}
