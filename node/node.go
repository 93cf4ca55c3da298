//go:build ignore

package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// batchMessages is the greatest number of messages in one call to a port. Measured on Postgres: below 500
	// a call costs more for each message, above 1,000 it takes so long that it delays others.
	batchMessages = 500

	// batchBytes is the size of the messages in one call to a port, but for the last one taken.
	batchBytes = 8 << 20
)

// Node is one of the equal nodes of a delay service. Its three operations, Enqueue, Fire and Recover, are
// plain sequential loops: Run runs each as a goroutine, the simulator as a coroutine. They share nothing but the
// schedule of claims that wait for their instant, and the timing advance.
type Node struct {
	id          uuid.UUID
	config      Config
	routes      map[string]Route  // by input topic
	deadLetters map[string]string // dead-letter topic by output topic; none is absent
	isDead      map[string]bool   // whether a topic is a dead-letter topic

	clock   Clock
	store   Store
	broker  Broker
	observe func(Event)

	schedule schedule
	advance  advance

	enqueue  enqueueState
	fire     fireState
	recovery recoverState
}

// New returns a node that is ready to run: it draws the node id and calls no port but the observer. The
// ports stay the caller's, to close after Run has returned. A *ConfigError says what is wrong with config.
func New(
	config Config, clock Clock, store Store, broker Broker, observe func(Event),
) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	n := &Node{
		config:      config,
		routes:      map[string]Route{},
		deadLetters: map[string]string{},
		isDead:      map[string]bool{},
		clock:       clock,
		store:       store,
		broker:      broker,
		observe:     observe,
		advance: advance{
			adaptive: config.AdaptiveAdvance, most: config.Lookahead, current: config.TimingAdvance,
		},
	}
	for _, r := range config.Routes {
		n.routes[r.Input] = r
		if r.DeadLetter != "" {
			n.deadLetters[r.Output] = r.DeadLetter
			n.isDead[r.DeadLetter] = true
		}
	}
	// One stream of randomness for each operation: what one of them draws does not depend on how they
	// are interleaved.
	root := rand.NewChaCha8(config.Seed)
	n.id = newUUID(root)
	n.enqueue.init(n, child(root))
	n.fire.init(n, child(root))
	n.recovery.init(n, child(root))
	n.observe(Started{NodeID: n.id})
	return n, nil
}

// ID returns the node id.
func (n *Node) ID() uuid.UUID { return n.id }

// Run runs the three operations until ctx is done, and then stops in order (deviation D8): no more polls; the
// batch in hand is enqueued and committed; what is being published is finished and deleted; claims that
// wait for their instant are given back. It returns when all of that is done, within two store timeouts and
// a publish timeout or so even when a port is away.
func (n *Node) Run(ctx context.Context) {
	// Fire outlives Enqueue, which may hand it messages up to its end.
	rest, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { n.Fire(rest) })
	running.Go(func() { n.Recover(rest) })
	n.Enqueue(ctx)
	stop()
	running.Wait()
}

// lapsed returns the instant up to which a deadline counts as due now (deviation D1).
func (n *Node) lapsed() time.Time { return n.clock.Now().Add(n.advance.get()) }

// child derives a stream of its own from root.
func child(root *rand.ChaCha8) *rand.ChaCha8 {
	var seed [32]byte
	_, err := root.Read(seed[:])
	assert(err == nil, "a random stream has no end")
	return rand.NewChaCha8(seed)
}

// newUUID draws a UUID v4.
func newUUID(random *rand.ChaCha8) uuid.UUID {
	id, err := uuid.NewRandomFromReader(random)
	assert(err == nil, "a random stream has no end")
	return id
}

// assert panics when condition, which only a mistake of ours can break, is false. It is on in production: to stop
// is better than to go on with a state that nobody has thought of, and what is in the store survives.
func assert(condition bool, format string, args ...any) {
	if !condition {
		panic("chronos: broken assumption: " + fmt.Sprintf(format, args...))
	}
}
