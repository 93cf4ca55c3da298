package node_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
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
	store *memory.Store

	mu        sync.Mutex
	input     []node.Record
	committed int64
	output    []delivery
	refuse    func(node.Record) error
	events    []node.Event
}

// delivery is a record on an output topic.
type delivery struct {
	node.Record
	at time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t:      t,
		store:  memory.New(time.Now),
		refuse: func(node.Record) error { return nil },
	}
}

// gate is what happens to the calls of one node.
type gate struct {
	mu    sync.Mutex
	calls int
	// decide is told the number of a call, from 1, and its name. It returns an error with which the call fails,
	// and whether it takes effect first.
	decide func(n int, call string) (err error, effect bool)
	dead   bool
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
		g.dead = true
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
	rung  chan struct{}
}

func (c *clock) Now() time.Time      { return time.Now().UTC() }
func (c *clock) Mono() time.Duration { return time.Since(c.start) }

func (c *clock) Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	_ = c.gate.pass("sleep", func() {})
}

func (c *clock) SleepUntilRung(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-c.rung:
	case <-time.After(d):
	}
	_ = c.gate.pass("sleep", func() {})
}

func (c *clock) Ring() {
	select {
	case c.rung <- struct{}{}:
	default:
	}
}

// gatedStore is the store as one node sees it: each call takes a millisecond.
type gatedStore struct {
	gate  *gate
	inner node.Store
}

func (s gatedStore) Insert(
	ctx context.Context, r node.InsertRequest,
) (results []node.InsertResult, err error) {
	return through(s.gate, "insert", func() ([]node.InsertResult, error) { return s.inner.Insert(ctx, r) })
}

func (s gatedStore) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	return through(s.gate, "present", func() ([]bool, error) { return s.inner.Present(ctx, ids) })
}

func (s gatedStore) Ready(ctx context.Context, r node.ReadyRequest) ([]node.Readied, error) {
	return through(s.gate, "ready", func() ([]node.Readied, error) { return s.inner.Ready(ctx, r) })
}

func (s gatedStore) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	return through(s.gate, "delete", func() ([]bool, error) { return s.inner.Delete(ctx, refs) })
}

func (s gatedStore) Stuck(ctx context.Context, r node.StuckRequest) ([]node.Claim, error) {
	return through(s.gate, "stuck", func() ([]node.Claim, error) { return s.inner.Stuck(ctx, r) })
}

func (s gatedStore) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	return through(s.gate, "reset", func() ([]bool, error) { return s.inner.Reset(ctx, releases) })
}

func through[T any](g *gate, call string, effect func() (T, error)) (result T, err error) {
	<-time.After(time.Millisecond)
	var inner error
	err = g.pass(call, func() { result, inner = effect() })
	if err != nil {
		var none T
		return none, err
	}
	return result, inner
}

// gatedBroker is the broker as one node sees it. All nodes are given all of the input topic.
type gatedBroker struct {
	gate  *gate
	world *world
	next  int64
	limit int
	left  bool
}

func (b *gatedBroker) Poll(ctx context.Context) (records []node.Record, err error) {
	err = b.gate.pass("poll", func() {
		b.world.mu.Lock()
		defer b.world.mu.Unlock()
		if b.left {
			b.left, b.next = false, b.world.committed
		}
		rest := b.world.input[b.next:]
		records = slices.Clone(rest[:min(len(rest), b.limit)])
	})
	if err != nil {
		return nil, err
	}
	b.next += int64(len(records))
	if len(records) == 0 {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return records, nil
}

func (b *gatedBroker) Commit(_ context.Context, records []node.Record) error {
	return b.gate.pass("commit", func() {
		b.world.mu.Lock()
		defer b.world.mu.Unlock()
		b.world.committed = max(b.world.committed, records[len(records)-1].Offset+1)
	})
}

func (b *gatedBroker) Leave(context.Context) error {
	return b.gate.pass("leave", func() { b.left = true })
}

func (b *gatedBroker) Publish(_ context.Context, records []node.Record) []error {
	<-time.After(2 * time.Millisecond)
	errs := make([]error, len(records))
	err := b.gate.pass("publish", func() {
		b.world.mu.Lock()
		defer b.world.mu.Unlock()
		for i, r := range records {
			if errs[i] = b.world.refuse(r); errs[i] == nil {
				b.world.output = append(b.world.output, delivery{r, time.Now()})
			}
		}
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// config returns the default configuration with one route and a dead-letter topic.
func config(seed byte) node.Config {
	c := node.Default()
	c.Routes = []node.Route{{Input: "in", Output: "out", DeadLetter: "dead"}}
	c.Seed[0] = seed + 1
	return c
}

// running is a node at work.
type running struct {
	node *node.Node
	gate *gate
	stop func() // gracefully; returns when the node has stopped
}

// run starts a node.
func (w *world) run(c node.Config, decide func(n int, call string) (error, bool)) *running {
	w.t.Helper()
	g := &gate{decide: decide}
	w.mu.Lock()
	broker := &gatedBroker{gate: g, world: w, next: w.committed, limit: 7}
	w.mu.Unlock()
	n, err := node.New(c,
		&clock{gate: g, start: time.Now(), rung: make(chan struct{}, 1)},
		gatedStore{g, w.store}, broker,
		func(e node.Event) {
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
		n.Run(ctx)
	}()
	stop := func() {
		cancel()
		<-done
	}
	w.t.Cleanup(stop)
	return &running{n, g, stop}
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
	r.Topic, r.Offset = "in", int64(len(w.input))
	w.input = append(w.input, r)
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
	return w.committed
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
			row.ID, row.Topic, row.Due, row.ReadiedBy, row.ReadiedAt)
	}
	if w.committed != int64(len(w.input)) {
		w.t.Errorf("committed %d of %d records", w.committed, len(w.input))
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
