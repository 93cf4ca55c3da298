package sim

import (
	"slices"
	"time"

	"chronos/node"
	"chronos/sim/check"
)

// Setup is what Run needs.
type Setup struct {
	Options Options

	// Plan is what happens. Without one, the submissions and the faults are drawn from the seed.
	Plan *Plan

	// Break is the mutant to run instead of the engine as it is; nil for none.
	Break *Mutant

	// Observe is shown every step; nil for nobody.
	Observe func(*Step)

	// History is shown every event that the judge sees, in order; nil for nobody. The event is not to be kept.
	History func(*check.Event)

	// Proof has each step checked to be one of the transition system that package proof proves. It takes a memory
	// store.
	Proof bool

	// rekey lets the plan of the result key its faults to submissions, where it can.
	rekey bool

	// Store opens the store that keeps the rows; nil for the memory store. It must need no time and no luck.
	Store func(now func() time.Time) node.Store
}

// Result is what a run has shown.
type Result struct {
	// Hash is the digest of all that has happened. Equal setups give equal hashes, on every machine.
	Hash uint64

	// Violation is the invariant that was broken; nil if none was.
	Violation *Violation

	// Plan is what has happened: the submissions, and the faults that have struck. Run with it, the same options
	// give the same hash.
	Plan *Plan

	// Followed is how often each step of the proof was made; nil if it was not followed.
	Followed map[string]int

	Coverage Coverage
	Stats    Stats
}

// Stats are the figures of a run.
type Stats struct {
	Events    uint64        // occurrences in the queue
	Calls     uint64        // calls of ports
	Submitted int           // records on input topics
	Appended  int           // records on output and dead-letter topics
	Virtual   time.Duration // true time in the world
	Drained   time.Duration // how long after the healing everything was drained; -1 if it was not
}

// Run runs a world from its beginning to its end. It panics if the options are not valid.
func Run(setup Setup) Result {
	if err := setup.Options.Validate(); err != nil {
		panic("sim: " + err.Error())
	}
	w := newWorld(setup)
	defer w.close()
	o := &w.options
	for _, h := range w.hosts[1:] {
		// Machines do not boot all at the same instant.
		boot := stream(o.Seed, forProcesses, h.number, 0)
		w.after(between(boot, 0, 2*o.PollInterval), h.startWhenDown)
	}
	w.run(int64(o.Faulty))
	if w.violation == nil {
		w.heal()
		w.finish()
	}
	if w.violation == nil {
		w.recorder.finish()
	}
	if v := w.violation; v != nil {
		w.step(&Step{Kind: StepBroken, Messages: v.Messages, Text: v.Invariant + ": " + v.Detail})
	}
	w.stats.Virtual = time.Duration(w.now)
	return Result{
		Followed:  w.follow.followed(),
		Hash:      uint64(w.digest),
		Violation: w.violation,
		Plan:      &Plan{Messages: w.messages, Faults: w.fired},
		Coverage:  w.coverage,
		Stats:     w.stats,
	}
}

// newWorld builds the world of a setup, at its first instant.
func newWorld(setup Setup) *world {
	w := &world{
		options:  setup.Options,
		plan:     setup.Plan,
		mutant:   setup.Break,
		observe:  setup.Observe,
		history:  setup.History,
		rekey:    setup.rekey,
		coverage: Coverage{},
	}
	w.windows = w.options.windows(0)
	w.paces = w.options.paces()
	w.stats.Drained = -1
	w.unspoilt.partial = -1
	w.recorder = newRecorder(w)
	w.older = w.upgrades()
	if setup.Proof && w.options.Queues == 0 && !w.older { // the proof knows nothing of queues, and of adoption
		w.follow = newFollower(w)
	}
	for number := range w.options.Nodes + 1 {
		w.hosts = append(w.hosts, newHost(w, number))
	}
	w.store = newStoreServer(w, setup.Store)
	w.broker = newBrokerServer(w)
	if w.plan == nil {
		w.messages = Workload(w.options)
		w.mixFaults()
	} else {
		w.messages = w.plan.Messages
		w.planFaults()
	}
	w.receivers, w.calls = &receivers{}, map[int]int{}
	w.app = newApplication(w, w.messages)
	return w
}

// mixFaults sorts the kinds of faults that are drawn by the calls that they can strike.
func (w *world) mixFaults() {
	for _, d := range faultKinds() {
		if len(w.options.Mix) == 0 && d.weight == 0 || !w.options.mixes(d.kind) {
			continue
		}
		for op := range opCount {
			if d.at(op) {
				w.mix[op] = append(w.mix[op], d)
			}
		}
	}
}

// possible reports whether faults of that kind can occur in the run.
func (w *world) possible(kind FaultKind) bool {
	if w.plan != nil {
		return slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.Kind == kind })
	}
	return w.options.FaultRate > 0 && w.options.mixes(kind)
}

// mixes reports whether faults of that kind are drawn.
func (o *Options) mixes(kind FaultKind) bool {
	return len(o.Mix) == 0 || slices.Contains(o.Mix, kind)
}

// planFaults gives each host the faults that are planned for its calls, in their order.
func (w *world) planFaults() {
	for _, f := range w.plan.Faults {
		op, known := numberOf(f.Op)
		if !known || f.Node >= len(w.hosts) {
			continue // a plan that was made for more nodes
		}
		if f.Of > 0 {
			w.hosts[f.Node].planOf[op] = append(w.hosts[f.Node].planOf[op], f)
			continue
		}
		plan := &w.hosts[f.Node].plan[op]
		i := len(*plan)
		for i > 0 && (*plan)[i-1].Nth > f.Nth {
			i--
		}
		*plan = append(*plan, Fault{})
		copy((*plan)[i+1:], (*plan)[i:])
		(*plan)[i] = f
	}
}

// finish lets the healed world run until everything is drained, or time is up.
func (w *world) finish() {
	const look = 250 * time.Millisecond
	healed := w.now
	end := healed + int64(max(w.options.Healed, w.options.drainBound()))
	for w.now < end && w.violation == nil {
		w.run(min(w.now+int64(look), end))
		if w.stats.Drained < 0 && w.drained() {
			w.stats.Drained = time.Duration(w.now - healed)
			if w.options.Drain {
				return
			}
		}
	}
}

// drained reports whether nothing is left to do: all is submitted and taken in, and the store is empty.
func (w *world) drained() bool {
	if w.app.left+w.app.busy > 0 || !w.app.clients.quiet() || len(w.store.truth.stored) > 0 {
		return false
	}
	for _, p := range w.broker.group.partitions {
		if w.store.truth.places[p.id()].Offset < p.end() {
			return false
		}
	}
	return true
}
