package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// host is one virtual machine, on which one life of a node runs after another. The number stays, the node id does not.
type host struct {
	world  *world
	number int // from 1; 0 is the application
	clock  clock
	skew   int64 // the offset of the wall clock that no time service corrects
	life   *life
	lives  int
	fate   byte

	unread int64 // until when it cannot read the series of messages that it claims

	stepped bool // somebody has set the wall clock, and it was not set right yet

	calls [opCount]int     // over all lives
	plan  [opCount][]Fault // what is planned for the calls to come, in their order

	callsOf map[callOf]int   // where faults are keyed to submissions
	planOf  [opCount][]Fault // those faults

	faults *rand.Rand

	storeLink, brokerLink, callLink link

	// restart numbers the planned restarts: a newer plan makes an older one void.
	restart uint64
}

// life is one process: from its start to its end or its crash.
type life struct {
	host   *host
	number int
	node   *node.Node
	name   string // the node id as text
	label  string // for people: the numbers of the host and the life
	member *member
	batch  bool // the last poll has returned records
	said   lineages
	told   told // what its consumer has yet to tell

	tasks       []*task // the first runs node.Run, the others the loops that it has started
	running     *task
	calling     int  // calls of the store that are under way, but for those about queues
	dead        bool // it has crashed or ended
	stopping    bool
	pausedUntil int64

	suspended bool  // its machine is
	since     int64 // when that began
	asleep    int64 // for how long it was so, in all

	cancel func()
	loops  *loops

	slow   map[*partition]int64 // partitions that did not answer a publish, and when another try is made
	silent map[*receiver]int64  // hosts that did not answer a callback, and when another try is made

	// windows are those that it goes by, of the edition that there was when it started.
	windows map[string]periodic
	edition int

	// begun are the publishes of the last second on lanes with a pace, by the host's monotonic clock.
	begun map[string][]time.Duration

	// mono is the reading of the host's clock at the start.
	mono int64

	// operator is who this is, if it is no node.
	operator *operator

	// ear is what a node hears others with; nil if it has none.
	ear *ear
}

// id returns the node id; that of an operator is none.
func (l *life) id() (id uuid.UUID) {
	if l.node != nil {
		id = l.node.ID()
	}
	return id
}

func newHost(w *world, number int) *host {
	h := &host{
		world:   w,
		number:  number,
		fate:    FateHealed,
		callsOf: map[callOf]int{},
		faults:  stream(w.options.Seed, forFaults, number, 0),
	}
	clocks := stream(w.options.Seed, forClocks, number, 0)
	h.clock.reading = clocks.Int64N(int64(time.Hour))
	h.clock.ppm = clocks.Int64N(int64(2*w.options.Drift)+1) - int64(w.options.Drift)
	h.skew = clocks.Int64N(2*int64(w.options.Skew)+1) - int64(w.options.Skew)
	h.correctWall()
	h.storeLink = newLink(w, forStoreLink, number, w.options.StoreLatency)
	h.brokerLink = newLink(w, forBrokerLink, number, w.options.BrokerLatency)
	h.callLink = newLink(w, forCallLink, number, w.options.BrokerLatency)
	return h
}

// correctWall sets the wall clock right, as far as it ever is.
func (h *host) correctWall() {
	h.clock.correct(h.world.now)
	h.clock.offset += h.skew
}

// start begins a life: a new process with a new node id and no memory of those before.
func (h *host) start() {
	w := h.world
	h.restart++
	h.lives++
	l := &life{
		host: h, number: h.lives, mono: h.clock.mono(w.now), slow: map[*partition]int64{},
		silent: map[*receiver]int64{}, edition: w.edition, windows: w.options.windows(w.edition),
		begun: map[string][]time.Duration{},
	}
	l.label = fmt.Sprintf("%d.%d", h.number, l.number)
	h.life = l
	random := stream(w.options.Seed, forProcesses, h.number, h.lives)
	var seed [32]byte
	for i := 0; i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], random.Uint64())
	}
	config := w.options.config(seed, w.edition)
	w.mutant.configure(&config)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.loops = cancel, newLoops(l)
	var hears func() bool
	if w.options.listens() {
		l.ear = &ear{life: l, random: stream(w.options.Seed, forHearing, h.number, h.lives)}
		hears = func() bool { return l.ear.hears }
	}
	ports := w.mutant.ports(node.Ports{
		Clock: nodeClock{l}, Store: &storePort{life: l}, Source: &sourcePort{life: l}, Sink: &sinkPort{life: l},
		Callback: &callPort{life: l}, Hears: hears,
	})
	if w.options.Queues > 0 {
		ports.Callback = queue.NewSink(queue.SinkConfig{
			Store: &storePort{l}, Next: &taskPort{l, ports.Callback}, URL: "http://" + l.label + ".example/",
		})
	}
	n, err := node.New(config, ports, l.observe)
	if err != nil {
		panic("sim: " + err.Error()) // Options.Validate has accepted it
	}
	l.node, l.name = n, n.ID().String()
	w.recorder.started(l)
	w.count(string(StepStart))
	w.step(&Step{Kind: StepStart, Node: h.number, Life: l.number, Text: "starts as " + l.name})
	l.begins(newTask(l, node.Enqueue, func() { l.run(ctx, ports) }))
}

// run is what a process does: it binds the store, and then runs the node.
func (l *life) run(ctx context.Context, ports node.Ports) {
	for ctx.Err() == nil {
		if l.bind(ctx, ports.Store) {
			if l.host.world.options.Queues > 0 {
				keeper := queue.Keeper{Store: &storePort{l}, Clock: ports.Clock}
				l.loops.Go("keeper", keeper.Run)
			}
			if l.ear != nil {
				l.loops.Go("listener", l.ear.run)
			}
			l.node.Run(ctx, l.loops)
			return
		}
		ports.Clock.Sleep(ctx, 100*time.Millisecond)
	}
}

// begins lets a task run, from this instant on.
func (l *life) begins(t *task) {
	w := l.host.world
	l.tasks = append(l.tasks, t)
	t.parked = true
	w.at(w.now, t, t.parking())
}

// loops is the Tasks port of one life.
type loops struct {
	life   *life
	ctx    context.Context //nolint:containedctx // it is what Go hands to each loop
	cancel func()
	waits  *task // the task that waits in Stop until all loops have ended; nil for none
}

var _ node.Tasks = (*loops)(nil)

func newLoops(l *life) *loops {
	s := &loops{life: l}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Go implements node.Tasks.
func (s *loops) Go(operation node.Operation, loop func(context.Context)) {
	s.life.enter()
	s.life.begins(newTask(s.life, operation, func() { loop(s.ctx) }))
}

// Stop implements node.Tasks.
func (s *loops) Stop() {
	t := s.life.enter()
	s.cancel()
	s.life.interrupt()
	for s.life.others(t) {
		t.parking()
		s.waits = t
		t.park()
	}
	s.waits = nil
}

// others reports whether a task besides t has not ended.
func (l *life) others(t *task) bool {
	for _, other := range l.tasks {
		if other != t && !other.ended {
			return true
		}
	}
	return false
}

// enter is the beginning of every call of a port: it returns the task that calls.
func (l *life) enter() *task {
	if l.dead || l.running == nil {
		panic(unwound{}) // S12: no effect of a dead process, not even of what it has deferred
	}
	return l.running
}

// taskEnded notes that a task has returned. The process ends with the one that runs node.Run, which waits for the
// others.
func (l *life) taskEnded(t *task) {
	h := l.host
	w := h.world
	if l.operator != nil {
		l.dead = true
		l.operator.ended(0)
		return
	}
	if t != l.tasks[0] {
		if l.loops.waits != nil && !l.others(l.loops.waits) {
			w.at(w.now, l.loops.waits, l.loops.waits.turn)
		}
		return
	}
	if l.others(t) {
		w.broken("engine", fmt.Sprintf("node %d ends while its loops run", h.number))
	}
	l.dead = true
	h.life = nil
	w.broker.closed(l)
	w.recorder.stopped(l)
	w.step(&Step{Kind: StepStop, Node: h.number, Life: l.number, Text: "has stopped cleanly"})
}

// interrupt wakes the tasks whose wait ends because its context is done.
func (l *life) interrupt() {
	w := l.host.world
	for _, t := range l.tasks {
		if t.parked && t.cause != nil && t.cause() != nil {
			w.at(w.now, t, t.turn)
		}
	}
}

// stop asks for a clean stop.
func (l *life) stop() {
	if l.stopping || l.dead {
		return
	}
	l.stopping = true
	l.cancel()
	l.interrupt()
}

// crash ends the process at once. What it has sent is on its way; it sends nothing more and hears nothing more.
func (l *life) crash() {
	if l.dead {
		return
	}
	h := l.host
	l.dead = true
	if l.operator != nil {
		l.kill()
		return
	}
	h.life = nil
	h.world.broker.vanished(l)
	h.world.recorder.crashed(l)
	h.world.count(string(StepCrash))
	h.world.step(&Step{Kind: StepCrash, Node: h.number, Life: l.number, Text: "crashes"})
	l.kill()
}

// kill unwinds the coroutines. The one that is running unwinds itself, at its next parking.
func (l *life) kill() {
	l.dead = true
	for _, t := range l.tasks {
		if t.parked || t.yield == nil {
			t.parked = false
			t.halt()
		}
	}
	l.cancel()
	l.loops.cancel()
}

// pause stops the process for a while. Its monotonic clock goes on.
func (l *life) pause(d time.Duration) {
	h := l.host
	w := h.world
	until := w.now + int64(d)
	if until <= l.pausedUntil {
		return
	}
	l.pausedUntil = until
	w.step(&Step{Kind: StepPause, Node: h.number, Life: l.number, Text: fmt.Sprintf("is stopped for %v", d)})
	w.broker.silent(l)
	w.after(d, func() {
		if !l.dead && w.now >= l.pausedUntil {
			w.step(&Step{Kind: StepResume, Node: h.number, Life: l.number, Text: "goes on"})
			w.broker.audible(l)
		}
	})
}

// suspend stops the machine for a while, and its timers with it: a wait goes on for what is left of it when the machine
// is woken. The monotonic clock has counted that time, as package node/clock/system sees to.
func (l *life) suspend(d time.Duration) {
	w := l.host.world
	l.pause(d)
	l.suspended, l.since = true, w.now
	for _, t := range l.tasks {
		// A stop in the same instant has planned to wake the tasks whose contexts are done: that is to happen.
		if t.parked && t.rings > w.now && (t.cause == nil || t.cause() == nil) {
			t.parking() // so that the timer that was set wakes nobody
			t.left = t.rings - w.now
		}
	}
	began := w.now
	w.after(d, func() {
		if l.since == began {
			l.rouse()
		}
	})
}

// rouse ends a suspension, if there is one.
func (l *life) rouse() {
	w := l.host.world
	if !l.suspended || l.dead {
		return
	}
	l.suspended = false
	l.asleep += w.now - l.since
	for _, t := range l.tasks {
		if t.parked && t.left > 0 {
			t.rings, t.left = w.now+t.left, 0
			w.at(t.rings, t, t.turn)
		}
	}
}

// startIn plans the next start. A crash or stop without a time to start again lasts until the world heals.
func (h *host) startIn(d time.Duration) {
	if d <= 0 {
		return
	}
	h.restart++
	plan := h.restart
	h.world.after(d, func() {
		if h.restart == plan {
			h.startWhenDown()
		}
	})
}

// startWhenDown starts the node once the life before has ended.
func (h *host) startWhenDown() {
	if h.life == nil {
		h.start()
		return
	}
	plan := h.restart
	h.world.after(50*time.Millisecond, func() {
		if h.restart == plan {
			h.startWhenDown()
		}
	})
}

// heal gives the host its fate for the rest of the run.
func (h *host) heal(fate byte) {
	w := h.world
	h.fate = fate
	h.correctWall()
	w.recorder.stepped(h)
	h.stepped = false
	h.storeLink.heal(w.now)
	h.brokerLink.heal(w.now)
	if l := h.life; l != nil && w.now < l.pausedUntil {
		l.wake()
	}
	switch fate {
	case FateDead:
		h.restart++
		if h.life != nil {
			h.life.crash()
		}
		return
	case FateNoStore, FateNoNetwork:
		h.storeLink.cut(forever, true)
	}
	if fate == FateNoBroker || fate == FateNoNetwork {
		h.brokerLink.cut(forever, true)
	}
	w.broker.linkChanged(h)
	if h.life == nil || h.life.stopping {
		h.restart++
		h.startWhenDown()
	}
}

// wake ends a pause early.
func (l *life) wake() {
	w := l.host.world
	l.pausedUntil = w.now
	l.rouse()
	for _, t := range l.tasks {
		if t.parked && t.late {
			w.at(w.now, t, t.turn)
		}
	}
	w.broker.audible(l)
}
