package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// Broker is node.Broker on a Kafka cluster. New makes one; Close ends it.
type Broker struct {
	config  Config
	log     *slog.Logger
	repeats repeats

	// turn is held by Poll, Commit, Leave and Close: one at a time. It guards consumer, which is nil while
	// the node is not in the group.
	turn     sync.Mutex
	consumer *consumer

	slots   *slots
	admin   *producer
	missing missingTopics

	// mu guards what follows: whether Close has begun, and how to end a Poll that waits.
	mu         sync.Mutex
	closed     bool
	interrupt  context.CancelFunc
	stop       chan struct{} // closed when Close begins
	background sync.WaitGroup
}

var _ node.Broker = (*Broker)(nil)

// errClosed is the error of every call after Close.
var errClosed = errors.New("the connection to Kafka is closed")

// New returns a Broker for config. It connects to nothing yet, so that it succeeds while all brokers are away; a
// configuration that can never work is an error, a *node.ConfigError wherever one setting is to blame.
func New(config Config) (*Broker, error) {
	config = withDefaults(config)
	if err := config.validate(); err != nil {
		return nil, err
	}
	for _, options := range [][]kgo.Opt{
		config.consumerOptions(), config.bulkOptions(), config.carefulOptions(),
	} {
		if err := kgo.ValidateOpts(options...); err != nil {
			return nil, fmt.Errorf("configure Kafka client: %w", err)
		}
	}
	return &Broker{
		config: config,
		log:    config.Logger,
		slots: &slots{
			taken: make(chan struct{}, maxSlots),
			make: func() *slot {
				return &slot{
					bulk:    &producer{options: config.bulkOptions()},
					careful: &producer{options: config.carefulOptions()},
				}
			},
		},
		admin: &producer{options: config.connectionOptions()},
		stop:  make(chan struct{}),
	}, nil
}

// Close leaves the group, without committing anything, and closes all connections. Records that are being published
// are given up: their outcome is unknown. It returns within seconds even if no broker answers, sooner if
// ctx is done; its error says that the group was not left, and has to find out by itself.
func (b *Broker) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.stop)
	if b.interrupt != nil {
		b.interrupt()
	}
	b.mu.Unlock()

	b.turn.Lock()
	defer b.turn.Unlock()
	err := b.leave(ctx)
	b.slots.close()
	b.admin.close()
	b.background.Wait()
	return err
}

// interruptible has Close call cancel, and reports whether it is not too late for that.
func (b *Broker) interruptible(cancel context.CancelFunc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.interrupt = cancel
	return !b.closed
}

// inBackground runs work in a goroutine that Close waits for, and reports whether it does: not once Close has begun.
func (b *Broker) inBackground(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.background.Go(work)
	return true
}
