package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// defaultBatch is Config.Batch where nobody says. Measured on Postgres: below 500 a call costs more for each
	// message, above 1,000 it takes so long that it delays others.
	defaultBatch = 500

	// batchBytes is the size of the messages in one call to a port, except for the last one taken.
	batchBytes = 8 << 20

	// MaxMessageBytes is the greatest Size of a message: what is larger is rejected, because one call that never
	// ends within its time limit would hold up its partition forever.
	MaxMessageBytes = 2 * batchBytes
)

// Node is one of the equal nodes of a delay service. Its operations, enqueue, fire and recover, are types of their
// own; each is made of plain sequential loops, which Run starts. They share what core has, and nothing else.
type Node struct {
	core *core

	enqueue *enqueuer
	fire    *firer // on topics
	call    *firer // on callback lanes; nil if there are none
	recover *recoverer
}

// Ports are what a node is given. They stay the caller's, to close after Run has returned.
type Ports struct {
	Clock  Clock
	Store  Store
	Source Source
	Sink   Sink

	// Settling takes the place of Sink where the store publishes by itself; nil if it does not.
	Settling Settling

	// Callback is the sink of callback lanes. Its Publish is handed one record at a time. It may be nil if there are
	// none (Config.Calls).
	Callback Sink

	// Callable returns why the request of a message on a callback lane would never be made, as far as its headers tell,
	// so that its record is rejected when it is taken in and not when it is due. It may be nil.
	Callable func(lane string, headers []Header) error

	// Hears reports whether the caller would hear now of what other processes store, and call Stir for it. While it
	// does not, the node looks once in each PollInterval, whatever IdleInterval says; who finds that it does no longer
	// has it say so first, and calls Stir then. It never blocks, and is safe for concurrent use. It may be nil where no
	// other process can store anything, or all that store have nodes that serve the same lanes.
	Hears func() bool
}

// core is what the operations of a node share: who they are, the ports that all of them use, the schedule of claims
// that wait for their instant, the timing advance, and the lineage.
type core struct {
	id          uuid.UUID
	config      Config
	routes      map[string]Route  // by input topic
	deadLetters map[string]string // dead-letter topic by output topic; none is absent
	isDead      map[string]bool   // whether a topic is a dead-letter topic
	seeks       bool              // there may be lanes to be found, see schedule.find
	callable    func(lane string, headers []Header) error
	hears       func() bool // see Ports.Hears; never nil

	clock   Clock
	store   Store
	observe func(Event)

	schedule *schedule // of topics
	calls    *schedule // of callback lanes; nil if there are none
	advance  advance
	lineage  lineage

	calm calm

	// changed tells all claimers that something in the store may have changed.
	changed func()

	// announce tells whoever claims on callback lanes of messages that were stored.
	announce func(stored []Message)
}

// New returns a node that is ready to run: it draws the node id and calls no port but the observer. A *ConfigError
// says what is wrong with config.
func New(config Config, ports Ports, observe func(Event)) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	// One stream of randomness for each loop: what one of them draws does not depend on how they are interleaved.
	root := rand.NewChaCha8(config.Seed)
	c := &core{
		id:          newUUID(root),
		config:      config,
		routes:      map[string]Route{},
		deadLetters: map[string]string{},
		isDead:      map[string]bool{},
		clock:       ports.Clock,
		store:       ports.Store,
		observe:     observe,
		schedule: newSchedule(&config, ports.Clock, slices.DeleteFunc(config.Lanes(), IsCallback), topicPace(&config),
			func(string) int { return publishers - 1 }),
		announce: func([]Message) {},
		callable: ports.Callable,
		hears:    ports.Hears,
		seeks:    config.Seeks(),
		advance: advance{
			adaptive: config.AdaptiveAdvance, most: config.Lookahead, current: config.TimingAdvance,
		},
	}
	if c.hears == nil {
		c.hears = func() bool { return true } // there is nothing to hear
	}
	for _, r := range config.Routes {
		c.routes[r.Input] = r
		if r.DeadLetter != "" {
			for _, output := range r.Outputs() {
				c.deadLetters[output] = r.DeadLetter
			}
			c.isDead[r.DeadLetter] = true
		}
	}
	for _, lane := range config.Callbacks.DeadLetters() {
		c.isDead[lane] = true
	}
	n := &Node{
		core:    c,
		enqueue: newEnqueuer(c, ports.Source, child(root)),
		fire:    newFirer(c, c.schedule, ports.Sink, child(root)),
		recover: newRecoverer(c, child(root)),
	}
	n.fire.settling = ports.Settling
	if config.Calls() {
		if ports.Callback == nil {
			return nil, &ConfigError{"Callbacks", "some lanes", "they need a sink, and there is none"}
		}
		topics := func(lane string) bool { return !IsCallback(lane) }
		c.calls = newSchedule(&config, ports.Clock, slices.DeleteFunc(config.Lanes(), topics), callPace(&config),
			config.Callbacks.concurrency)
		n.call = newFirer(c, c.calls, ports.Callback, child(root))
		c.announce = n.call.announced
	}
	c.changed = func() {
		n.fire.stir()
		if n.call != nil {
			n.call.stir()
		}
	}
	c.observe(Started{NodeID: c.id})
	return n, nil
}

// deadLettersOf returns where dead letters of a lane go: to a topic, or those of a callback lane to another one; empty
// for nowhere. What fails on a lane of dead letters goes nowhere, unless that lane says otherwise.
func (c *core) deadLettersOf(lane string) string {
	if IsCallback(lane) {
		if own := c.config.Callbacks.lane(lane).DeadLetter; own != "" {
			return own
		}
	}
	topic, named := c.deadLetters[lane]
	if !named {
		for _, r := range c.config.Routes {
			if r.Finds(lane) {
				return r.DeadLetter
			}
		}
	}
	return topic
}

// scheduleOf returns the schedule that has the claims on a lane.
func (c *core) scheduleOf(lane string) *schedule {
	if c.calls != nil && IsCallback(lane) {
		return c.calls
	}
	return c.schedule
}

// ID returns the node id.
func (n *Node) ID() uuid.UUID { return n.core.id }

// Tasks starts the loops of a node, and ends them: goroutines in production, coroutines in the simulator.
type Tasks interface {
	// Go starts a loop of an operation. Its context is done when Stop is called.
	Go(operation Operation, loop func(ctx context.Context))

	// Stop has the contexts of all loops done, and returns when all loops have returned.
	Stop()
}

// Run runs the node on tasks until ctx is done, and then stops cleanly (deviation D8): no more polls; the call in
// hand is finished; what is being published is finished and deleted; claims that wait for their instant are given
// back. A stop takes as long as the calls that are under way: a few store timeouts and a publish timeout at
// most, if a port is away. What could not be done by then is left to the peers: they find the claims expired.
func (n *Node) Run(ctx context.Context, tasks Tasks) {
	n.fire.start(tasks)
	if n.call != nil {
		n.call.start(tasks)
	}
	tasks.Go(Recover, n.recover.run)
	// Fire outlives enqueue, which may hand it messages up to its end.
	n.enqueue.run(ctx)
	tasks.Stop()
}

// Goroutines returns the Tasks of production.
func Goroutines() Tasks {
	ctx, stop := context.WithCancel(context.Background())
	return &goroutines{start: func() context.Context { return ctx }, stop: stop}
}

type goroutines struct {
	start   func() context.Context
	stop    func()
	running sync.WaitGroup
}

func (g *goroutines) Go(_ Operation, loop func(context.Context)) {
	ctx := g.start()
	g.running.Go(func() { loop(ctx) })
}

func (g *goroutines) Stop() {
	g.stop()
	g.running.Wait()
}

// lapsed returns the instant up to which a deadline counts as due now (deviation D1).
func (c *core) lapsed() time.Time { return c.clock.Now().Add(c.advance.get()) }

// release gives claims back, in batches. Claims on rows that another session has locked go to busy, to be given back
// later. If the store does not take them, they are recovered after the hold time; the result is how long to wait then
// before the store is called again.
func (c *core) release(
	ctx context.Context, l *link, releases []Release, busy func([]Release),
) (wait time.Duration) {
	for len(releases) > 0 {
		part := releases[:min(len(releases), c.config.batch())]
		releases = releases[len(part):]
		freed, err := c.store.Reset(context.WithoutCancel(ctx), part)
		if err != nil {
			return l.failed("reset", err)
		}
		l.succeeded()
		if locked := c.released(part, freed); len(locked) > 0 {
			busy(locked)
		}
	}
	return 0
}

// released reports what became of claims that were given back, and returns those whose rows another session has locked.
func (c *core) released(part []Release, freed []Settled) (busy []Release) {
	assert(len(freed) == len(part), "reset: %d answers for %d", len(freed), len(part))
	var released []Claim
	for i, r := range part {
		switch freed[i] {
		case Freed:
			released = append(released, r.Claim)
		case Busy:
			busy = append(busy, r)
		default:
		}
	}
	if len(released) > 0 {
		c.observe(Released{Claims: released})
	}
	if len(busy) > 0 {
		locked := make([]MessageID, len(busy))
		for i := range busy {
			locked[i] = MessageID{busy[i].ID, busy[i].Lane}
		}
		c.observe(RowsLocked{Messages: locked})
	}
	return busy
}

// link returns how one loop sees its calls to a port.
func (c *core) link(operation Operation, port Port, random *rand.ChaCha8) link {
	return link{core: c, operation: operation, port: port, random: random}
}

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
