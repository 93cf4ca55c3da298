// Package queues goes through every state that two tasks of a sync queue can get into, in a world that is small enough
// for that: the queue lies inside another one, two nodes look after both, each task is completed twice, each may run
// into its time limit, the windows of both queues change, and nodes die. Package model does the same for messages.
//
// What a node does is a transaction: it locks the queue, reads, decides by the rules of package node/queue, and writes.
// Here a transaction is one step. A variant that does without the lock reads in one step and writes in another, so that
// the rest of the world may do as much as it likes in between. The message of an execution, or of a promise, is a bit
// that the transaction sets; a node that requests it clears it, at once or never.
//
// Time is not a number here. A window opens or closes at any moment, as often as the scope allows, and a task may have
// reached its time limit at any moment at which it runs.
//
// Safety is checked in each step, and the two liveness properties on the whole graph: from every state one must be
// reachable, without another fault, in which all tasks are done, unless a queue stays closed.
package queues

import "fmt"

// Property is something that must always hold.
type Property string

// The properties, by their numbers in docs/CORRECTNESS.md.
const (
	Closed  Property = "S31" // nothing of a closed queue starts
	Alone   Property = "S32" // at most one task is between start and completion, and each starts once
	Order   Property = "S33" // what starts is the first of what waits
	Promise Property = "S34" // a promise runs after its completion, once
	Stuck   Property = "L18" // what can start does
)

// Rules say how the algorithm deviates from ours. The zero value is ours.
type Rules struct {
	EndAny      bool // a completion does not look whether the task still runs
	NoLook      bool // an opening has nobody look after the queue
	OwnWindow   bool // the queue that contains it is not asked
	LastFirst   bool // the task of the lowest priority starts first
	UnlockStart bool // start reads and writes in two transactions
	UnlockEnd   bool // a completion, or the time limit, reads and writes in two transactions
	EarlyBird   bool // the promise is inserted when the task starts
	ApartBegin  bool // the message of the execution is inserted in a transaction of its own
}

const tasks = 2 // of which the second has the higher priority

// status of a task.
type status uint8

const (
	absent status = iota
	pending
	running
	done
)

// task is one task.
type task struct {
	status status

	execution   bool  // its message waits
	requested   bool  // its request was made: somebody will complete it
	promise     bool  // the message of its promise waits
	promises    uint8 // how many were inserted
	completions uint8 // how many are still to come
}

// memory is what a node has read in a transaction that is not locked.
type memory struct {
	at   uint8 // 0 for nothing, or what it is about to write
	task uint8
}

// What a node is about to write.
const (
	nothing uint8 = iota
	starting
	ending
	inserting
)

// state is a state of the world.
type state struct {
	outer, inner bool // whether the windows are open
	changes      uint8
	crashes      uint8
	look         bool // somebody has to look after the queue
	tasks        [tasks]task
	nodes        [2]memory
}

// Step is a step from one state to another.
type step struct {
	to     state
	name   string
	fault  bool // it need not happen
	broken Property
}

// machine makes the steps of one algorithm.
type machine struct {
	rules Rules
	steps []step
}

func (m *machine) add(to state, fault bool, broken Property, format string, args ...any) {
	m.steps = append(m.steps, step{to, fmt.Sprintf(format, args...), fault, broken})
}

// next returns all steps from a state.
func (m *machine) next(s *state) []step {
	m.steps = nil
	m.windows(s)
	for i := range s.tasks {
		m.arrive(s, i)
		m.request(s, i)
	}
	for n := range s.nodes {
		if s.nodes[n].at != nothing {
			m.write(s, n)
			continue
		}
		m.start(s, n)
		for i := range s.tasks {
			m.complete(s, n, i)
		}
	}
	return m.steps
}

// windows opens and closes the windows. That of the outer one is changed by a person, which touches what lies inside.
func (m *machine) windows(s *state) {
	if s.changes == 0 {
		return
	}
	for _, outer := range []bool{true, false} {
		t := *s
		t.changes--
		window, name := &t.inner, "inner"
		if outer {
			window, name = &t.outer, "outer"
		}
		*window = !*window
		t.look = t.look || *window && !m.rules.NoLook
		m.add(t, true, "", "the %s queue: open is %v", name, *window)
	}
}

// arrive has a task arrive, which makes the queue one to look after: a transaction with a start in it.
func (m *machine) arrive(s *state, i int) {
	if s.tasks[i].status != absent {
		return
	}
	t := *s
	t.tasks[i].status = pending
	if m.rules.UnlockStart {
		t.look = true
		m.add(t, false, "", "task %d arrives", i)
		return
	}
	broken := m.begin(&t)
	m.add(t, false, broken, "task %d arrives", i)
}

// open reports whether the queue is open, as far as the rules ask.
func (m *machine) open(s *state) bool { return s.inner && (s.outer || m.rules.OwnWindow) }

// first returns the task that starts next.
func (m *machine) first(s *state) (first int, found bool) {
	for k := range s.tasks {
		i := tasks - 1 - k
		if m.rules.LastFirst {
			i = k
		}
		if s.tasks[i].status == pending {
			return i, true
		}
	}
	return 0, false
}

func (s *state) runs() bool { return s.tasks[0].status == running || s.tasks[1].status == running }

// begin starts what can start, in the transaction that has changed something.
func (m *machine) begin(s *state) Property {
	i, found := m.first(s)
	s.look = false
	if !found || s.runs() || !m.open(s) {
		return ""
	}
	return m.run(s, i)
}

// run starts a task, whatever else is so.
func (m *machine) run(s *state, i int) (broken Property) {
	switch {
	case !s.inner || !s.outer:
		broken = Closed
	case s.runs() || s.tasks[i].status != pending:
		broken = Alone
	case i == 0 && s.tasks[1].status == pending:
		broken = Order
	}
	t := &s.tasks[i]
	t.status, t.completions = running, 2
	t.execution = !m.rules.ApartBegin
	if m.rules.EarlyBird {
		t.promise = true
		t.promises++
	}
	return broken
}

// start has a node look after the queue.
func (m *machine) start(s *state, n int) {
	if !s.look {
		return
	}
	t := *s
	switch i, found := m.first(s); {
	case m.rules.UnlockStart:
		if t.look = false; found && !s.runs() && m.open(s) {
			t.nodes[n] = memory{starting, uint8(i)}
		}
		m.add(t, false, "", "node %d reads that task %d is the first", n, i)
	case m.rules.ApartBegin && found && !s.runs() && m.open(s):
		broken := m.begin(&t)
		t.nodes[n] = memory{inserting, uint8(i)}
		m.add(t, false, broken, "node %d starts task %d", n, i)
	default:
		broken := m.begin(&t)
		m.add(t, false, broken, "node %d looks after the queue", n)
	}
}

// request has the message of a task requested.
func (m *machine) request(s *state, i int) {
	if s.tasks[i].execution {
		t := *s
		t.tasks[i].execution, t.tasks[i].requested = false, true
		m.add(t, false, "", "task %d is requested", i)
	}
	if s.tasks[i].promise {
		t := *s
		t.tasks[i].promise = false
		broken := Property("")
		if s.tasks[i].status != done {
			broken = Promise
		}
		m.add(t, false, broken, "the promise of task %d is requested", i)
	}
}

// complete has a completion of a task come, or its time limit.
func (m *machine) complete(s *state, n, i int) {
	if s.tasks[i].requested && s.tasks[i].completions > 0 {
		t := *s
		t.tasks[i].completions--
		m.end(&t, n, i, "a completion")
	}
	if s.tasks[i].status == running {
		t := *s
		m.end(&t, n, i, "the time limit")
	}
}

// end ends a task, if it runs: in the state given, which becomes the next one.
func (m *machine) end(t *state, n, i int, what string) {
	switch {
	case t.tasks[i].status != running && !m.rules.EndAny:
		m.add(*t, false, "", "%s of task %d, which is over, changes nothing", what, i)
	case m.rules.UnlockEnd:
		t.nodes[n] = memory{ending, uint8(i)}
		m.add(*t, false, "", "node %d reads that task %d runs, for %s", n, i, what)
	default:
		broken := m.over(t, i)
		m.add(*t, false, broken, "%s of task %d", what, i)
	}
}

// over ends a task, whatever is so, and starts the next one.
func (m *machine) over(t *state, i int) (broken Property) {
	one := &t.tasks[i]
	one.status, one.execution = done, false
	if !m.rules.EarlyBird {
		one.promise = true
		if one.promises++; one.promises > 1 {
			broken = Promise
		}
	}
	if m.rules.UnlockStart || m.rules.ApartBegin {
		t.look = true
		return broken
	}
	if b := m.begin(t); broken == "" {
		broken = b
	}
	return broken
}

// write has a node write what it has read for before, or die.
func (m *machine) write(s *state, n int) {
	t := *s
	what := t.nodes[n]
	t.nodes[n] = memory{}
	if s.crashes > 0 {
		died := t
		died.crashes--
		m.add(died, true, "", "node %d dies", n)
	}
	i := int(what.task)
	switch what.at {
	case starting:
		broken := m.run(&t, i)
		m.add(t, false, broken, "node %d starts task %d", n, i)
	case ending:
		broken := m.over(&t, i)
		m.add(t, false, broken, "node %d ends task %d", n, i)
	case inserting:
		t.tasks[i].execution = t.tasks[i].status == running
		m.add(t, false, "", "node %d inserts the message of task %d", n, i)
	}
}
