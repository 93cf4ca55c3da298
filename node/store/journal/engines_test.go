package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	"chronos/sim/check"
)

// The engine on a journal, judged by sim/check, with S24 and all that can be judged of what a recorder sees: three
// nodes, engine and store and source of owners as in production, on a virtual clock, on a simulated ledger and a
// simulated consumer group. Messages, series and instructions with their outcomes come in, on two lanes, and records
// that are no submissions. Nodes are frozen between any two calls for longer than a session, crash and come back with
// their local copy, with an old one or with none; partitions change hands; transactions get lost, are aborted, or
// commit and nobody is told; a topic refuses what is too large, with all that shares its transaction; the journal is
// compacted, and tombstones go. Lanes and the intake are paused, and resumed. In half of the worlds nodes are standbys,
// too, in half there are two input topics, with a journal each, and in half there are callbacks to a receiver that is
// not always well, which may have to come out in order; in many some of what is asked for comes by HTTP. After a minute
// nothing goes wrong any more, and for two more the nodes go on.
//
// Each call takes effect at one instant: TestRandomOwners has what happens in the middle of one.
// CHRONOS_WORLDS=1000 simulates more of them, CHRONOS_SEED=7 from another one on, CHRONOS_WORLD=7 one of them, and
// CHRONOS_HISTORY=file keeps the history of the last one, for lab check.
//
// Nothing else runs beside it: Pebble keeps channels in a pool, and one that a world has made is of no use to others.
func TestEngines(t *testing.T) {
	first, count := 1, 6
	if n, err := strconv.Atoi(os.Getenv("CHRONOS_WORLDS")); err == nil {
		count = n
	}
	if n, err := strconv.Atoi(os.Getenv("CHRONOS_SEED")); err == nil {
		first = n
	}
	if n, err := strconv.Atoi(os.Getenv("CHRONOS_WORLD")); err == nil {
		first, count = n, 1
	}
	all := tally{outcomes: map[string]int{}}
	for seed := first; seed < first+count; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			dir := t.TempDir()
			defer forget() // whatever the world has shown: Test does not return where it fails
			synctest.Test(t, func(t *testing.T) { all.add(newEngines(t, dir, uint64(seed)).play()) })
		})
	}
	if t.Log(all); count > 1 && (all.takeovers == 0 || all.unknown == 0 || all.crashes == 0 || all.pauses == 0 ||
		all.claims == 0 || count > 5 && (all.givenUp == 0 || all.heard == 0 || all.repeats == 0 || all.lined == 0 ||
		all.several == 0) || count > 11 && all.fenced == 0) { // two worlds often have none, six have five and more
		t.Errorf("%+v: that shows nothing", all)
	}
	for _, outcome := range []string{
		"scheduled", "ignored", "replaced", "rescheduled", "cancelled", "fired", "too_late", "not_found", recurred,
		requested,
	} {
		if count > 5 && all.outcomes[outcome] == 0 {
			t.Errorf("nothing was ever %s: that shows nothing about it", outcome)
		}
	}
}

// forget empties all pools: they forget at the second collection what they had before the first.
func forget() {
	for range 2 {
		runtime.GC()
	}
}

// recurred counts with the outcomes how often a series has gone on.
const recurred = "the next occurrence"

// tally is what has happened.
type tally struct {
	takeovers, fenced, unknown, crashes, came int

	pauses  int // and resumptions
	givenUp int // callbacks
	held    int // requests on a paused lane, by claims from before
	claims  int // after the healing
	lined   int // others of the same key, when a callback was requested
	several int // worlds with two input topics
	heard   int // answers to requests by HTTP
	repeats int // records that have found an answer
	late    int // what came out of a paused lane, and was claimed before

	outcomes map[string]int // how often there was each
}

func (a *tally) add(b tally) {
	a.takeovers += b.takeovers
	a.fenced += b.fenced
	a.unknown += b.unknown
	a.crashes += b.crashes
	a.came += b.came
	a.pauses += b.pauses
	a.late += b.late
	a.givenUp += b.givenUp
	a.held += b.held
	a.claims += b.claims
	a.lined += b.lined
	a.several += b.several
	a.heard += b.heard
	a.repeats += b.repeats
	for outcome, n := range b.outcomes {
		a.outcomes[outcome] += n
	}
}

const (
	inputPartitions = 3
	groupSession    = 6 * time.Second
)

// engines is a world.
type engines struct {
	*testing.T

	dir      string
	cluster  *simulated.Cluster
	group    *consumers
	nodes    []*engine
	operator *operator
	must     map[string]bool // the values that have to come out
	recurs   map[string]bool // the values that come out more than once, as a series

	recorder *recorder
	number   int           // of the last submission
	recent   []*submission // the last messages
	maxAge   time.Duration // of the local copies; 0 for an hour
	standbys bool          // nodes keep copies of what others own
	inlets   inlets        // the input topics
	calls    bool          // there are callbacks
	ordered  bool          // those of one key come out one after the other
	http     bool          // there are requests by HTTP
	marks    []mark

	background sync.WaitGroup
	healed     atomic.Bool // nothing goes wrong any more

	mu       sync.Mutex
	random   *rand.Rand
	tally    tally
	receiver receiver
	dim      map[string]time.Time // until when nobody sees the journal of an input topic
}

// mark is where the partitions of the journal ended at an instant.
type mark struct {
	at   time.Time
	ends [inputPartitions]int64
}

// retention is delete.retention.ms, where local copies are not to be older than less than that.
const retention = 8 * time.Second

// engine is a machine, on which one life of a node runs after another.
type engine struct {
	world  *engines
	number int
	gate   *gate
	member *member
	store  *journal.Store
	board  *journal.Switchboard

	counter *counter // nil where it can't be asked by HTTP; under the world's mu

	cancel context.CancelFunc
	ended  chan struct{}
	kept   bool // whether an old copy was put aside
	lives  int
}

func newEngines(t *testing.T, dir string, seed uint64) *engines {
	t.Helper()
	w := &engines{
		T: t, random: rand.New(rand.NewPCG(seed, 24)), dir: dir, cluster: simulated.New(),
		must: map[string]bool{}, recurs: map[string]bool{}, dim: map[string]time.Time{},
	}
	parts := rand.New(rand.NewPCG(seed, 25))
	w.calls, w.http = parts.IntN(2) == 0, parts.IntN(2) == 0
	parts = rand.New(rand.NewPCG(seed, 36))
	w.inlets, w.ordered = drawInlets(parts.IntN(2) == 0), parts.IntN(2) == 0 && w.calls
	w.http = w.http && !w.ordered // which belongs to the partition of its id, and not to that of its key
	w.receiver = receiver{world: w, done: map[string]int{}}
	for _, one := range w.inlets {
		w.cluster.CreateTopic(one.journal, int(one.partitions), 0)
	}
	for _, topic := range []string{output, deadLetters, outcomes} {
		w.cluster.CreateTopic(topic, 2, 0)
	}
	w.cluster.CreateTopic(second, 2, largest)
	w.recorder = newRecorder(w)
	if w.random.IntN(2) == 0 {
		w.maxAge = retention * 3 / 4
	}
	w.standbys = w.random.IntN(2) == 0
	w.group = newConsumers(w)
	for i := range 3 {
		w.nodes = append(w.nodes, &engine{world: w, number: i})
	}
	w.operator = newOperator(w)
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
		if w.intN(8) == 0 {
			w.operator.wish()
		}
		w.marked()
		w.trouble()
		w.group.expel()
		w.recorder.see()
		if n := w.nodes[w.intN(len(w.nodes))]; !stopped && at > 15*time.Second && n.store != nil {
			stopped = true
			w.wrong(fmt.Sprint("node ", n.number, " is stopped in the middle of firing"))
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
	w.healed.Store(true)
	w.mu.Lock()
	clear(w.dim)
	w.mu.Unlock()
	w.resumed()
	w.recorder.tell(&check.Event{Kind: check.Heal})
	for second := range 140 {
		<-time.After(time.Second)
		for range w.load(second) {
			w.submit()
		}
		w.group.expel()
		w.recorder.see()
	}
	w.background.Wait()
	w.recorder.end()
	for _, n := range w.nodes {
		n.stop()
	}
	w.operator.close()
	w.judge()
	return w.tally
}

// load returns how many records come in a second after the healing: some when all failures are forgotten, and then a
// heap of them.
func (w *engines) load(second int) int {
	switch {
	case second == 25:
		return 50
	case second > 15 && second < 30:
		return w.intN(8)
	}
	return 0
}

// resumed has everything be resumed, while the group goes on.
func (w *engines) resumed() {
	over := make(chan struct{})
	go w.operator.resume(over)
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Second):
			w.group.expel()
			w.recorder.see()
		}
	}
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

// trouble has something go wrong, now and then.
func (w *engines) trouble() {
	n := w.nodes[w.intN(len(w.nodes))]
	what := w.intN(40)
	if what < 5 {
		w.wrong(fmt.Sprint("trouble ", what, " of node ", n.number))
	}
	switch what {
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
	case 9:
		if len(w.inlets) > 1 {
			w.dims()
		}
	case 5, 6, 7, 8:
		w.compact(int32(w.intN(inputPartitions)))
	}
}

// marked notes where the journal ends.
func (w *engines) marked() {
	m := mark{at: time.Now()}
	for number := range m.ends {
		one, there := w.inlets.where(int32(number))
		end, err := w.cluster.Ledger(one.journal, one.journal).End(w.Context(), there)
		if err != nil {
			w.Error(err)
		}
		m.ends[number] = end.Offset
	}
	w.marks = append(w.marks, m)
}

// compact compacts a partition of the journal. What is a tombstone for longer than the retention goes, too, unless that
// is a day.
func (w *engines) compact(number int32) {
	before := int64(0)
	for _, m := range w.marks {
		if w.maxAge > 0 && time.Since(m.at) > retention {
			before = m.ends[number]
		}
	}
	one, there := w.inlets.where(number)
	w.cluster.CompactOld(one.journal, there, before)
}

// strike loses a request, or an answer.
func (w *engines) strike(s simulated.Step) simulated.Fault {
	what := w.intN(60)
	if what < 2 {
		w.wrong(fmt.Sprint("a call is lost, or its answer, at step ", s.At))
	}
	switch what {
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

// wrong tells the judge that something goes wrong.
func (w *engines) wrong(what string) { w.recorder.tell(&check.Event{Kind: check.Fault, Text: what}) }

// counts counts something.
func (w *engines) counts(count func(*tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count(&w.tally)
}

// judge looks at what a consumer sees that reads what was committed.
func (w *engines) judge() {
	seen := map[string]int{}
	for _, r := range slices.Concat(w.cluster.Records(output, true), w.cluster.Records(second, true)) {
		value := string(r.Value)
		if seen[value]++; seen[value] > 1 && !w.recurs[value] {
			w.Errorf("S24: %q has come out %d times", value, seen[value])
		}
	}
	for value := range w.receiver.done {
		seen[value]++
	}
	for _, r := range w.cluster.Records(deadLetters, true) { // a callback that is given up comes out there
		if headerOf(r.Headers, node.HeaderReason) == string(node.CallbackFailed) {
			seen[string(r.Value)]++
		}
	}
	for value, must := range w.must {
		if must && seen[value] == 0 {
			w.Errorf("lost: %q has not come out, %s", value, w.group.where(value))
		}
	}
	w.tally.came, w.tally.outcomes = len(seen), w.recorder.outcomes
	w.tally.pauses, w.tally.late = w.recorder.pauses.count, w.recorder.pauses.fired
	w.tally.held, w.tally.heard = w.recorder.calls.pauses, w.recorder.http.heard
	w.tally.repeats, w.tally.lined = w.recorder.http.repeats, w.recorder.calls.lined
	w.tally.several, w.tally.claims = len(w.inlets)-1, w.recorder.waits.healed
}

// path returns a folder of a machine.
func (n *engine) path(kind string) string {
	return filepath.Join(n.world.dir, fmt.Sprint("node-", n.number)+kind)
}

// start begins a life.
func (n *engine) start() {
	w := n.world
	n.lives++
	n.gate = &gate{world: w, name: fmt.Sprintf("%d.%d", n.number, n.lives)}
	order := w.inlets.turned(len(w.inlets) > 1 && w.intN(2) == 0)
	names, ids := order.names()
	log := &gatedLedger{order.ledger(w), n.gate, order}
	store, err := journal.Open(journal.Config{
		Ledger: log, Inputs: names, Dir: n.path(""), Now: time.Now, Group: "group", MaxAge: w.maxAge,
	})
	if err != nil {
		w.Fatal(err)
	}
	store.Identify(ids)
	n.board = journal.NewSwitchboard(log, inletPoster{w.cluster, order}, journal.AskerLimits{})
	store.SwitchBy(n.board)
	config := node.Default()
	config.Seed = [32]byte{byte(n.number), byte(w.intN(256)), byte(w.intN(256)), byte(w.intN(256))}
	config.Routes = w.routes(order)
	ports := node.Ports{Clock: system.New()}
	if w.calls {
		config.Callbacks.Timeout, config.Callbacks.Others.Ordered = callTimeout, w.ordered
		held := node.Config{HoldTime: config.CallbackHoldTime()}
		ports.Callback = &caller{w, n.gate, held.PublishableAge()}
	}
	if w.http {
		config.Requests = marks()
		w.mu.Lock()
		n.counter = &counter{journal.NewAsker(log, sender{w, n.gate, order}, marks(), journal.AskerLimits{}), n.gate}
		w.mu.Unlock()
	}
	n.store, n.member = store, w.group.member(n.gate.name)
	source := journal.NewSource(&gatedSource{n.member, n.gate}, store, uuid.UUID{byte(n.number)}, groupSession,
		func(_ int32, err error) {
			if err == nil {
				w.counts(func(t *tally) { t.takeovers++ })
			}
		})
	gated, name := &gatedStore{Store: store, gate: n.gate}, n.member.name
	ports.Store, ports.Source, ports.Settling = gated, source, gated
	engine, err := node.New(config, ports, func(e node.Event) { w.recorder.said(name, e) })
	if err != nil {
		w.Fatal(err)
	}
	w.recorder.tell(&check.Event{Kind: check.Start, Node: name, Owner: check.UUID(engine.ID())})
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(w.Context()))
	ended, following := make(chan struct{}), ctx
	n.ended = ended
	go func() {
		defer close(ended)
		var follower sync.WaitGroup
		if w.standbys {
			follower.Go(func() { store.Follow(following, func([]journal.Standby) {}) })
		}
		follower.Go(func() { n.hear(following, store, gated.gate) })
		engine.Run(ctx, node.Goroutines())
		source.Close()
		follower.Wait()
	}()
}

// stop ends a life in order.
func (n *engine) stop() {
	n.cancel()
	<-n.ended
	n.world.group.leave(n.member)
	n.closeDesk()
	n.board.Close()
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
	w.recorder.tell(&check.Event{Kind: check.Crash, Node: n.member.name})
	n.cancel()
	<-n.ended
	n.closeDesk()
	n.board.Close()
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
	name  string // of the life

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
