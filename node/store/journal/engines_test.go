package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/clock/system"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// S24 with the engine: three nodes, engine and store and source of owners as in production, on a virtual clock, on a
// simulated ledger and a simulated consumer group. Nodes are frozen between any two calls for longer than a session,
// crash and come back with their local copy, with an old one or with none; partitions change hands; transactions get
// lost, are aborted, or commit and nobody is told; the journal is compacted. A consumer that reads what was committed
// sees each record of the input once at most, none before its deadline; and everything that nothing was to end has come
// out a minute after the last fault.
//
// Each call takes effect at one instant: TestRandomOwners has what happens in the middle of one.
// CHRONOS_WORLDS=1000 simulates more of them, and CHRONOS_WORLD=7 one of them.
//
// Nothing else runs beside it: Pebble keeps channels in a pool, and one that a world has made is of no use to others.
func TestEngines(t *testing.T) {
	first, count := 1, 6
	if n, err := strconv.Atoi(os.Getenv("CHRONOS_WORLDS")); err == nil {
		count = n
	}
	if n, err := strconv.Atoi(os.Getenv("CHRONOS_WORLD")); err == nil {
		first, count = n, 1
	}
	var all tally
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { all.add(newEngines(t, dir, uint64(seed)).play()) })
			for range 2 { // a pool forgets at the second collection what it had before the first
				runtime.GC()
			}
		})
	}
	if t.Log(all); count > 1 && (all.takeovers == 0 || all.fenced == 0 || all.unknown == 0 || all.crashes == 0) {
		t.Errorf("%+v: that shows nothing", all)
	}
}

// tally is what has happened.
type tally struct{ takeovers, fenced, unknown, crashes, came int }

func (a *tally) add(b tally) {
	a.takeovers += b.takeovers
	a.fenced += b.fenced
	a.unknown += b.unknown
	a.crashes += b.crashes
	a.came += b.came
}

const (
	inputPartitions = 3
	groupSession    = 6 * time.Second
)

// engines is a world.
type engines struct {
	*testing.T

	dir     string
	cluster *simulated.Cluster
	group   *consumers
	nodes   []*engine
	must    map[string]bool // the values that have to come out

	mu     sync.Mutex
	random *rand.Rand
	due    map[string]time.Time // by value
	tally  tally
}

// engine is a machine, on which one life of a node runs after another.
type engine struct {
	world  *engines
	number int
	gate   *gate
	member *member
	store  *journal.Store
	cancel context.CancelFunc
	ended  chan struct{}
	kept   bool // whether an old copy was put aside
}

func newEngines(t *testing.T, dir string, seed uint64) *engines {
	t.Helper()
	w := &engines{
		T: t, random: rand.New(rand.NewPCG(seed, 24)), dir: dir, cluster: simulated.New(),
		due: map[string]time.Time{}, must: map[string]bool{},
	}
	w.cluster.CreateTopic(topicName, inputPartitions, 0)
	w.cluster.CreateTopic(output, 2, 0)
	w.group = newConsumers(w)
	for i := range 3 {
		w.nodes = append(w.nodes, &engine{world: w, number: i})
	}
	return w
}

// play lets a minute of faults pass, and one without them.
func (w *engines) play() tally {
	for _, n := range w.nodes {
		n.start()
	}
	w.cluster.Strike(w.strike)
	stopped := false // whether a node was told to stop in the middle of firing
	for at := time.Duration(0); at < time.Minute; {
		d := w.between(50*time.Millisecond, time.Second)
		<-time.After(d)
		at += d
		for range w.intN(8) {
			w.submit()
		}
		w.trouble()
		w.group.expel()
		if n := w.nodes[w.intN(len(w.nodes))]; !stopped && at > 15*time.Second && n.store != nil {
			stopped = true
			n.gate.stopAtFire.Store(true) // and is fenced when it goes on
		}
	}
	w.cluster.Strike(nil)
	for _, n := range w.nodes {
		n.gate.thaw()
		if n.store == nil {
			n.start()
		}
	}
	for range 60 {
		<-time.After(time.Second)
		w.group.expel()
	}
	for _, n := range w.nodes {
		n.stop()
	}
	w.judge()
	return w.tally
}

func (w *engines) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.intN(int(high-low)))
}

// intN draws a number below n.
func (w *engines) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// submit appends a record to the input: a message, one with an id that has been used, or a cancellation.
func (w *engines) submit() {
	number := len(w.due) + 1
	id := fmt.Sprint("m", number)
	if again := w.intN(10); again == 0 && number > 1 {
		id = fmt.Sprint("m", 1+w.intN(number-1))
	}
	value := fmt.Sprintf("%s at %d", id, number)
	due := time.Now().Add(w.between(-time.Second, 20*time.Second)).UTC().Truncate(time.Millisecond)
	w.mu.Lock()
	w.due[value] = due
	w.mu.Unlock()
	w.must[value] = id == fmt.Sprint("m", number) // or it may be a duplicate
	headers := []node.Header{
		{Name: node.HeaderID, Value: []byte(id)},
		{Name: node.HeaderDeadline, Value: []byte(due.Format("2006-01-02T15:04:05.000Z"))},
	}
	w.group.append(node.Record{Key: []byte(id), Value: []byte(value), Headers: headers})
	if w.intN(8) == 0 {
		w.must[value], w.must[fmt.Sprintf("%s at %s", id, id[1:])] = false, false // or it may be too late for that
		headers = []node.Header{headers[0], {Name: node.HeaderAction, Value: []byte("cancel")}}
		w.group.append(node.Record{Key: []byte(id), Headers: headers})
	}
}

// trouble has something go wrong, now and then.
func (w *engines) trouble() {
	n := w.nodes[w.intN(len(w.nodes))]
	switch w.intN(40) {
	case 0:
		n.gate.freeze(w.between(time.Second, 2*groupSession))
	case 1:
		n.crash()
	case 2, 3:
		if n.store == nil {
			n.start()
		}
	case 4:
		w.group.rebalance()
	case 5:
		w.cluster.Compact(topicName, int32(w.intN(inputPartitions)), false) // tombstones stay for a day
	}
}

// strike loses a request, or an answer.
func (w *engines) strike(s simulated.Step) simulated.Fault {
	switch w.intN(60) {
	case 0:
		return simulated.Lost
	case 1:
		if s.At == simulated.Ending {
			w.counts(func(t *tally) { t.unknown++ })
		}
		return simulated.Unanswered
	}
	return simulated.None
}

// counts counts something.
func (w *engines) counts(count func(*tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count(&w.tally)
}

// early returns for how long a value is not yet due.
func (w *engines) early(value string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.due[value])
}

// judge looks at what a consumer sees that reads what was committed.
func (w *engines) judge() {
	seen := map[string]int{}
	for _, r := range w.cluster.Records(output, true) {
		value := string(r.Value)
		if seen[value]++; seen[value] > 1 {
			w.Errorf("S24: %q has come out %d times", value, seen[value])
		}
	}
	for value, must := range w.must {
		if must && seen[value] == 0 {
			w.Errorf("lost: %q has not come out, %s", value, w.group.where(value))
		}
	}
	w.tally.came = len(seen)
}

// path returns a folder of a machine.
func (n *engine) path(kind string) string {
	return filepath.Join(n.world.dir, fmt.Sprint("node-", n.number)+kind)
}

// start begins a life.
func (n *engine) start() {
	w := n.world
	n.gate = &gate{world: w}
	store, err := journal.Open(journal.Config{
		Ledger: &gatedLedger{w.cluster.Ledger(topicName, "chronos"), n.gate}, Dir: n.path(""), Now: time.Now,
		Group: "group",
	})
	if err != nil {
		w.Fatal(err)
	}
	config := node.Default()
	config.Seed = [32]byte{byte(n.number), byte(w.intN(256)), byte(w.intN(256)), byte(w.intN(256))}
	config.Routes = []node.Route{{Input: "input", Output: output}}
	n.store, n.member = store, w.group.member()
	source := journal.NewSource(&gatedSource{n.member, n.gate}, store, uuid.UUID{byte(n.number)}, groupSession,
		func(_ int32, err error) {
			if err == nil {
				w.counts(func(t *tally) { t.takeovers++ })
			}
		})
	gated := &gatedStore{Store: store, gate: n.gate}
	engine, err := node.New(config, node.Ports{
		Clock: system.New(), Store: gated, Source: source, Settling: gated,
	}, func(node.Event) {})
	if err != nil {
		w.Fatal(err)
	}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan struct{})
	n.ended = ended
	go func() {
		defer close(ended)
		engine.Run(ctx, node.Goroutines())
		source.Close()
	}()
}

// stop ends a life in order.
func (n *engine) stop() {
	n.cancel()
	<-n.ended
	n.world.group.leave(n.member)
	if err := n.store.Close(); err != nil {
		n.world.Error(err)
	}
	n.store = nil
}

// crash ends a life at once: no call of it reaches anything any more. The group hears of that when the session is over.
// The machine is left with the local copy that there is, with one that was put aside before, or with none.
func (n *engine) crash() {
	w := n.world
	if n.store == nil {
		return
	}
	w.counts(func(t *tally) { t.crashes++ })
	n.gate.kill()
	n.cancel()
	<-n.ended
	if err := n.store.Close(); err != nil {
		w.Error(err)
	}
	n.store = nil
	switch w.intN(4) {
	case 0:
		removeCopy(w, n.path(""))
	case 1:
		if n.kept {
			removeCopy(w, n.path(""))
			duplicate(w, n.path("-old"), n.path(""))
		}
	case 2:
		removeCopy(w, n.path("-old"))
		duplicate(w, n.path(""), n.path("-old"))
		n.kept = true
	}
}

// gate is what all calls of a life pass on their way, there and back: it takes time, and is shut while the process is
// frozen, and for good when it is dead.
type gate struct {
	world *engines

	// stopAtFire has the process be stopped when it fires next, for two sessions.
	stopAtFire atomic.Bool

	mu    sync.Mutex
	until time.Time
	dead  bool
}

var errDead = errors.New("the process is dead")

// pass waits until the process runs.
func (g *gate) pass() error {
	for {
		g.mu.Lock()
		wait, dead := time.Until(g.until), g.dead
		g.mu.Unlock()
		switch {
		case dead:
			return errDead
		case wait <= 0:
			return nil
		}
		<-time.After(min(wait, 100*time.Millisecond))
	}
}

// through makes a call: on the way there and back a process may be stopped, or die.
func (g *gate) through(call func() error) error {
	<-time.After(time.Millisecond)
	if err := g.pass(); err != nil {
		return err
	}
	err := call()
	<-time.After(time.Millisecond)
	return errors.Join(err, g.pass())
}

func (g *gate) set(until time.Time, dead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until, g.dead = until, g.dead || dead
}

func (g *gate) freeze(d time.Duration) { g.set(time.Now().Add(d), false) }
func (g *gate) thaw()                  { g.set(time.Time{}, false) }
func (g *gate) kill()                  { g.set(time.Time{}, true) }
