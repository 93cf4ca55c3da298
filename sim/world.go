package sim

import (
	"fmt"
	"time"

	"chronos/sim/check"
)

// epoch is the true time at which every world begins.
func epoch() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

// forever is an instant that never comes.
const forever = int64(1) << 62

// world is everything there is in one run: the true time, what happens next, the nodes and what they talk to. It
// runs on the goroutine of its caller. What it does depends on its setup alone.
type world struct {
	options Options
	plan    *Plan // nil: faults are drawn
	mutant  *Mutant
	observe func(*Step)
	history func(*check.Event)
	follow  *follower // nil: nobody follows the proof

	now    int64
	seq    uint64
	queue  agenda
	digest digest

	hosts  []*host // by number: the first is the application
	store  *storeServer
	broker *brokerServer
	app    *application

	windows   map[string]periodic // by lane, of the first edition
	paces     map[string]int      // by lane
	edition   int                 // of the windows that nodes are told when they start
	receivers *receivers
	calls     map[int]int // how many callbacks were made of each submission
	requests  int         // for tasks
	recorder  *recorder

	unspoilt   spoil // of all calls with which nothing goes wrong
	mix        [opCount][]faultDescription
	messages   []Submission
	faultsOver bool
	older      bool // the nodes stand in for a version that keeps no positions
	rekey      bool
	fired      []Fault
	violation  *Violation

	coverage Coverage
	stats    Stats
}

// at makes something happen at an instant, after all that was queued for that instant before.
func (w *world) at(instant int64, what doer, arg uint64) {
	w.seq++
	w.queue.push(occurrence{max(instant, w.now), w.seq, what, arg})
}

// after makes something happen in a while.
func (w *world) after(d time.Duration, what action) { w.at(w.now+int64(d), what, 0) }

// run lets things happen until an instant, or until an invariant is broken.
func (w *world) run(until int64) {
	for len(w.queue) > 0 && w.queue[0].at <= until && w.violation == nil {
		next := w.queue.pop()
		w.now = next.at
		w.stats.Events++
		w.digest.number(uint64(next.at))
		next.what.do(next.arg)
	}
	if w.violation == nil {
		w.now = max(w.now, until)
	}
}

// instant returns the true time as a time.
func (w *world) instant() time.Time { return epoch().Add(time.Duration(w.now)) }

// heal ends the faults. A random core of nodes is as good as new; the others stay dead or cut off.
func (w *world) heal() {
	w.faultsOver = true
	w.store.heal()
	w.broker.heal()
	for _, h := range w.hosts[1:] {
		h.heal(w.options.fate(h.number - 1))
	}
	w.app.heal()
	w.recorder.healed()
	w.step(&Step{Kind: StepWorld, Text: "the world heals"})
}

// close unwinds all coroutines, so that a finished world leaves nothing behind.
func (w *world) close() {
	for _, h := range w.hosts {
		if h.life != nil {
			h.life.kill()
		}
	}
	for _, l := range w.app.operators {
		l.kill()
	}
}

// broken notes the first invariant that was broken, which ends the run.
func (w *world) broken(invariant, detail string) {
	if w.violation == nil {
		w.violation = &Violation{Invariant: invariant, Detail: detail, At: time.Duration(w.now)}
	}
}

// enginePanicked notes that the engine broke one of its own assumptions. In production the process would end.
func (w *world) enginePanicked(t *task, reason string) {
	w.broken("engine", fmt.Sprintf("node %d, %s: %s", t.life.host.number, t.operation, reason))
}
