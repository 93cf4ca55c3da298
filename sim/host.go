package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"chronos/node"
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

	calls [opCount]int     // over all lives
	plan  [opCount][]Fault // what is planned for the calls to come, in their order

	callsOf map[callOf]int   // where faults are keyed to submissions
	planOf  [opCount][]Fault // those faults

	faults *rand.Rand

	storeLink, brokerLink link

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

	tasks       []*task
	running     *task
	dead        bool // it has crashed or ended
	stopping    bool
	pausedUntil int64

	cancel, cancelRest func()

	// mono is the reading of the host's clock at the start.
	mono int64

	// sleeper is the parking of the fire operation in SleepUntilRung, 0 when it is not there.
	sleeper     uint64
	sleeperTask *task
	rung        bool
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
	l := &life{host: h, number: h.lives, mono: h.clock.mono(w.now)}
	l.label = fmt.Sprintf("%d.%d", h.number, l.number)
	h.life = l
	random := stream(w.options.Seed, forProcesses, h.number, h.lives)
	var seed [32]byte
	for i := 0; i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], random.Uint64())
	}
	config := w.options.config(seed)
	w.mutant.configure(&config)
	ctx, cancel := context.WithCancel(context.Background())
	rest, cancelRest := context.WithCancel(context.Background())
	l.cancel, l.cancelRest = cancel, cancelRest
	ports := w.mutant.ports(Ports{nodeClock{l}, &storePort{life: l}, &brokerPort{life: l}})
	n, err := node.New(config, ports.Clock, ports.Store, ports.Broker, l.observe)
	if err != nil {
		panic("sim: " + err.Error()) // Options.Validate has accepted it
	}
	l.node, l.name = n, n.ID().String()
	w.judge.started(l)
	w.count(string(StepStart))
	w.step(&Step{Kind: StepStart, Node: h.number, Life: l.number, Text: "starts as " + l.name})
	l.tasks = []*task{
		newTask(l, node.Enqueue, func() { n.Enqueue(ctx) }),
		newTask(l, node.Fire, func() { n.Fire(rest) }),
		newTask(l, node.Recover, func() { n.Recover(rest) }),
	}
	for _, t := range l.tasks {
		turn := t.parking()
		t.parked = true
		w.at(w.now, t, turn)
	}
}

// enter is the beginning of every call of a port: it returns the task that calls.
func (l *life) enter() *task {
	if l.dead || l.running == nil {
		panic(unwound{}) // S12: no effect of a dead process, not even of what it has deferred
	}
	return l.running
}

// taskEnded goes on with an orderly stop, as node.Run does it: fire and recover outlive enqueue.
func (l *life) taskEnded(t *task) {
	if t.operation == node.Enqueue {
		l.cancelRest()
		l.interrupt()
	}
	for _, other := range l.tasks {
		if !other.ended {
			return
		}
	}
	l.dead = true
	l.host.life = nil
	h := l.host
	h.world.broker.closed(l)
	h.world.judge.stopped(l)
	h.world.step(&Step{Kind: StepStop, Node: h.number, Life: l.number, Text: "has stopped in order"})
}

// interrupt wakes the tasks whose wait ends when the context is done.
func (l *life) interrupt() {
	w := l.host.world
	for _, t := range l.tasks {
		if t.parked && t.interruptible {
			w.at(w.now, t, t.turn)
		}
	}
}

// stop asks for an orderly stop.
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
	h.life = nil
	h.world.broker.vanished(l)
	h.world.judge.crashed(l)
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
	l.cancelRest()
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
	w.judge.stepped(h)
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
	for _, t := range l.tasks {
		if t.parked && t.late {
			w.at(w.now, t, t.turn)
		}
	}
	w.broker.audible(l)
}
