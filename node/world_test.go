package node_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// world is the smallest world that a node runs in: a memory store and a Kafka of a few slices, in the virtual
// time of a synctest bubble. Every call of a node to its store or broker goes through a gate, which
// can make it fail before or after its effect, or kill the node there.
type world struct {
	t     *testing.T
	began time.Time
	store *memory.Store

	mu        sync.Mutex
	input     map[string][]node.Record // by topic, each of one partition
	taken     map[string]int64         // by topic, up to where retention took its records
	committed map[string]int64
	epoch     int32 // of what was committed before the nodes run
	output    []delivery
	refuse    func(node.Record) error
	answer    func(node.Record) error // what becomes of a callback, which may take its time
	turn      func(node.Record)       // waits until a callback may begin; nil: at once
	callable  func(string, []node.Header) error
	hangs     func(node.Record) bool   // whether a publish runs into its time limit, and nothing appears
	tardy     func(node.Record) bool   // whether it takes as long, and appears
	refuses   func(*node.Message) bool // whether the store can never keep it
	watch     func(node.Event)         // is told of every event first, if it is not nil
	slow      int                      // how many bytes reach the store in a second; 0: as many as there are
	narrow    int                      // how many bytes of one publish reach the broker in its time limit; 0: all
	events    []node.Event
	settles   bool // whether what publishes settles as well

	hears *atomic.Bool           // what nodes are told of whether they hear others; nil for always
	asked atomic.Pointer[func()] // is called when a node has asked that, and before it is told
}

// delivery is a record on an output topic.
type delivery struct {
	node.Record
	at time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t:         t,
		began:     time.Now(),
		store:     memory.New(time.Now),
		input:     map[string][]node.Record{},
		taken:     map[string]int64{},
		committed: map[string]int64{},
		epoch:     node.UnknownEpoch,
		refuse:    func(node.Record) error { return nil },
		answer:    func(node.Record) error { return nil },
		hangs:     func(node.Record) bool { return false },
		tardy:     func(node.Record) bool { return false },
		refuses:   func(*node.Message) bool { return false },
	}
}

// gate is what happens to the calls of one node.
type gate struct {
	unread atomic.Bool  // the node cannot read series
	ahead  atomic.Int64 // how far its wall clock is ahead

	after atomic.Pointer[func(call string)]         // is told of each call to the store after its effect
	asks  atomic.Pointer[func(r node.ClaimRequest)] // is told of each claim before it is made
	takes atomic.Pointer[func(r node.TakeRequest)]  // is told of each take before it is made

	claimed atomic.Pointer[func(r node.ClaimResult) (node.ClaimResult, error)] // makes the answers to claims

	mu    sync.Mutex
	calls int
	// decide is told the number of a call, from 1, and its name. It returns an error with which the call fails,
	// and whether it takes effect first.
	decide func(n int, call string) (err error, effect bool)
	dead   bool
	died   chan struct{} // closed when the node dies: whoever sleeps has to notice
}

var (
	errInjected = errors.New("injected")
	errCrash    = errors.New("crash")
)

// pass decides about a call, runs its effect or not, and ends the goroutine if the node is dead. It holds no lock
// while it decides, which may take its time.
func (g *gate) pass(call string, effect func()) error {
	g.mu.Lock()
	g.calls++
	n, dead := g.calls, g.dead
	g.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
	var err error
	effective := true
	if g.decide != nil {
		err, effective = g.decide(n, call)
	}
	if effective {
		effect()
	}
	if errors.Is(err, errCrash) {
		g.mu.Lock()
		if !g.dead {
			g.dead = true
			close(g.died)
		}
		g.mu.Unlock()
		runtime.Goexit()
	}
	return err
}

// state returns how many calls there were, and whether the node is dead.
func (g *gate) state() (calls int, dead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls, g.dead
}

// clock is a node.Clock on the time of the bubble.
type clock struct {
	gate  *gate
	start time.Time
}

func (c *clock) Now() time.Time      { return time.Now().UTC().Add(time.Duration(c.gate.ahead.Load())) }
func (c *clock) Mono() time.Duration { return time.Since(c.start) }

func (c *clock) Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-c.gate.died:
	case <-time.After(d):
	}
	_ = c.gate.pass("sleep", func() {})
}

func (c *clock) Bell() node.Bell { return &bell{c, make(chan struct{}, 1)} }

type bell struct {
	clock *clock
	rung  chan struct{}
}

func (b *bell) Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-b.clock.gate.died:
	case <-b.rung:
	case <-time.After(d):
	}
	_ = b.clock.gate.pass("sleep", func() {})
}

func (b *bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// gatedStore is the store as one node sees it: each call takes a millisecond.
type gatedStore struct {
	gate  *gate
	inner node.Store
	slow  int // see world
}

func (s gatedStore) Bind(ctx context.Context, r node.BindRequest) (node.Bound, error) {
	return through(s.gate, "bind", func() (node.Bound, error) { return s.inner.Bind(ctx, r) })
}

func (s gatedStore) Positions(
	ctx context.Context, places []node.Place,
) (positions []node.Position, state node.State, err error) {
	state, err = through(s.gate, "positions", func() (node.State, error) {
		positions, state, err = s.inner.Positions(ctx, places)
		return state, err
	})
	return positions, state, err
}

func (s gatedStore) Take(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
	if takes := s.gate.takes.Load(); takes != nil {
		(*takes)(r)
	}
	bytes := 0
	for i := range r.Items {
		bytes += r.Items[i].Size()
	}
	if err := s.carry(bytes); err != nil {
		return node.TakeResult{}, err
	}
	return through(s.gate, "take", func() (node.TakeResult, error) { return s.inner.Take(ctx, r) })
}

// carry takes as long as that many bytes need to the store or from there, at most the time limit of a call.
func (s gatedStore) carry(bytes int) error {
	if s.slow == 0 {
		return nil
	}
	const limit = 1500 * time.Millisecond
	took := time.Duration(bytes) * time.Second / time.Duration(s.slow)
	<-time.After(min(took, limit))
	if took > limit {
		return errInjected
	}
	return nil
}

func (s gatedStore) CatchUp(ctx context.Context, r node.CatchUpRequest) (node.State, error) {
	return through(s.gate, "catch up", func() (node.State, error) { return s.inner.CatchUp(ctx, r) })
}

func (s gatedStore) Claim(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
	if asks := s.gate.asks.Load(); asks != nil {
		(*asks)(r)
	}
	result, err := through(s.gate, "claim", func() (node.ClaimResult, error) { return s.inner.Claim(ctx, r) })
	bytes := 0
	for i := range result.Messages {
		bytes += result.Messages[i].Size()
	}
	if late := s.carry(bytes); late != nil {
		return node.ClaimResult{}, late
	}
	for i := range result.Messages {
		if m := &result.Messages[i]; m.Recurs() && s.gate.unread.Load() {
			m.Series = "of a later release"
		}
	}
	if claimed := s.gate.claimed.Load(); claimed != nil && err == nil {
		return (*claimed)(result)
	}
	return result, err
}

func (s gatedStore) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	return through(s.gate, "delete", func() ([]node.Settled, error) { return s.inner.Settle(ctx, next) })
}

func (s gatedStore) Parts(ctx context.Context) ([]node.Part, error) {
	return through(s.gate, "parts", func() ([]node.Part, error) { return s.inner.Parts(ctx) })
}

func (s gatedStore) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	return through(s.gate, "expired", func() ([]node.Claim, error) { return s.inner.Expired(ctx, limit) })
}

func (s gatedStore) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	return through(s.gate, "reset", func() ([]node.Settled, error) { return s.inner.Reset(ctx, releases) })
}

func through[T any](g *gate, call string, effect func() (T, error)) (result T, err error) {
	<-time.After(time.Millisecond)
	var inner error
	err = g.pass(call, func() { result, inner = effect() })
	if after := g.after.Load(); after != nil {
		(*after)(call)
	}
	if err != nil {
		var none T
		return none, err
	}
	return result, inner
}

// gatedSource is the input topics as one node sees them. All nodes are given all of them: what keeps a record from
// being taken in twice is the store.
type gatedSource struct {
	gate   *gate
	world  *world
	topics []string
	joined bool
	next   map[string]int64 // of the topics that were started
	limit  int
}

func (s *gatedSource) Poll(ctx context.Context) (b node.Batch, err error) {
	err = s.gate.pass("poll", func() {
		s.world.mu.Lock()
		defer s.world.mu.Unlock()
		if !s.joined {
			for _, e := range s.extents() {
				committed, some := s.world.committed[e.Topic]
				if !some {
					committed = -1
				}
				b.Assigned = append(b.Assigned, node.Assignment{
					Extent: e, Committed: node.Position{Epoch: s.world.epoch, Offset: committed},
				})
			}
			return
		}
		for _, topic := range s.topics {
			next, started := s.next[topic]
			if !started {
				continue
			}
			if first := s.world.taken[topic]; next < first {
				b.Lost = append(b.Lost, node.Loss{Partition: partition(topic), From: next, To: first})
				s.next[topic], next = first, first
			}
			rest := s.world.input[topic][next:]
			rest = rest[:min(len(rest), s.limit-len(b.Records))]
			b.Records = append(b.Records, rest...)
		}
	})
	if err != nil {
		return node.Batch{}, err
	}
	s.joined = true
	for _, r := range b.Records {
		s.next[r.Topic] = r.Offset + 1
	}
	if len(b.Records)+len(b.Assigned) == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return b, nil
}

func (s *gatedSource) Start(_ context.Context, places []node.Place) error {
	return s.gate.pass("start", func() {
		for _, p := range places {
			s.next[p.Topic] = p.Offset
		}
	})
}

func (s *gatedSource) Pause(partitions []node.Partition) {
	for _, p := range partitions {
		delete(s.next, p.Topic)
	}
}

func (s *gatedSource) Commit(_ context.Context, places []node.Place) error {
	return s.gate.pass("commit", func() {
		s.world.mu.Lock()
		defer s.world.mu.Unlock()
		for _, p := range places {
			s.world.committed[p.Topic] = max(s.world.committed[p.Topic], p.Offset)
		}
	})
}

func (s *gatedSource) Extents(context.Context) (extents []node.Extent, err error) {
	err = s.gate.pass("extents", func() {
		s.world.mu.Lock()
		defer s.world.mu.Unlock()
		extents = s.extents()
	})
	return extents, err
}

func (s *gatedSource) extents() (extents []node.Extent) {
	for _, topic := range s.topics {
		extents = append(extents, node.Extent{
			Partition: partition(topic),
			First:     s.world.taken[topic],
			End:       int64(len(s.world.input[topic])),
		})
	}
	return extents
}

// partition returns the only partition of a topic.
func partition(topic string) node.Partition {
	return node.Partition{Topic: topic, TopicID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(topic))}
}

func (s *gatedSource) Leave(context.Context) error {
	return s.gate.pass("leave", func() {
		s.joined = false
		clear(s.next)
	})
}

// config returns the default configuration with one route and a dead-letter topic.
func config(seed byte) node.Config {
	c := node.Default()
	c.IdleInterval = 0 // or nobody would tell the node of what tests store past it: rest_test.go has it
	c.Routes = []node.Route{{Input: "in", Output: "out", DeadLetter: "dead"}}
	c.Seed[0] = seed + 1
	return c
}

// running is a node at work.
type running struct {
	node *node.Node
	gate *gate
	sink *gatedSink
	stop func() // gracefully; returns when the node has stopped
}

// run starts a node.
func (w *world) run(c node.Config, decide func(n int, call string) (error, bool)) *running {
	w.t.Helper()
	g := &gate{decide: decide, died: make(chan struct{})}
	source := &gatedSource{gate: g, world: w, next: map[string]int64{}, limit: 7}
	for _, r := range c.Routes {
		source.topics = append(source.topics, r.Input)
	}
	sink := &gatedSink{gate: g, world: w}
	ports := node.Ports{
		Clock: &clock{gate: g, start: time.Now()}, Source: source, Sink: sink,
		Store: gatedStore{g, refusingStore{w.store, w.refuses}, w.slow}, Callback: &gatedCalls{g, w},
		Callable: w.callable,
	}
	if w.hears != nil {
		ports.Hears = func() bool {
			hears := w.hears.Load()
			if asked := w.asked.Load(); asked != nil {
				(*asked)()
			}
			return hears
		}
	}
	if w.settles {
		ports.Sink, ports.Settling = nil, &settling{sink}
	}
	n, err := node.New(c, ports,
		func(e node.Event) {
			if w.watch != nil {
				w.watch(e)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, node.Goroutines())
	}()
	stop := func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return &running{n, g, sink, stop}
}

// submit puts a record with a valid submission on the input topic.
func (w *world) submit(id string, in time.Duration, headers ...node.Header) node.Record {
	return w.submitRecord(node.Record{
		Key:   []byte("key " + id),
		Value: []byte("value " + id),
		Headers: append([]node.Header{
			{Name: "before", Value: nil},
			{Name: node.HeaderID, Value: []byte(id)},
			{Name: node.HeaderDeadline, Value: []byte(
				time.Now().Add(in).UTC().Format("2006-01-02T15:04:05.000000"))},
			{Name: "after", Value: []byte{}},
			{Name: "after", Value: []byte{0, 0xff}},
		}, headers...),
	})
}

// submitRecord puts a record on the input topic.
func (w *world) submitRecord(r node.Record) node.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Topic == "" {
		r.Topic = "in"
	}
	r.Offset = int64(len(w.input[r.Topic]))
	w.input[r.Topic] = append(w.input[r.Topic], r)
	return r
}

// on returns what was delivered on a topic.
func (w *world) on(topic string) []delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []delivery
	for _, d := range w.output {
		if d.Topic == topic {
			found = append(found, d)
		}
	}
	return found
}

// values counts what was delivered on a topic, by value.
func (w *world) values(topic string) map[string]int {
	counts := map[string]int{}
	for _, d := range w.on(topic) {
		counts[string(d.Value)]++
	}
	return counts
}

// commits returns the offset that is committed.
func (w *world) commits() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed["in"]
}

// seen returns the events of the type of example.
func seen[E node.Event](w *world) (found []E) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// empty fails the test unless the store is empty and all input is committed.
func (w *world) empty() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range w.store.Dump() {
		w.t.Errorf("left in the store: %s of %s, due %v, readied by %v at %v",
			row.ID, row.Lane, row.Due, row.ReadiedBy, row.ReadiedAt)
	}
	for topic, records := range w.input {
		if w.committed[topic] != int64(len(records)) {
			w.t.Errorf("committed %d of %d records of %s", w.committed[topic], len(records), topic)
		}
	}
}

// claimedBy returns how many rows of the store a node has claimed.
func (w *world) claimedBy(id uuid.UUID) int {
	count := 0
	for _, row := range w.store.Dump() {
		if row.ReadiedBy == id {
			count++
		}
	}
	return count
}

func id(i int) string { return fmt.Sprintf("m%03d", i) }
