package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/node"
)

// StepKind names a kind of step.
type StepKind string

// The kinds of steps.
const (
	StepSubmit   StepKind = "submit"   // the application appends to an input topic
	StepStart    StepKind = "start"    // a process starts
	StepStop     StepKind = "stop"     // a process has stopped cleanly
	StepCrash    StepKind = "crash"    // a process dies
	StepPause    StepKind = "pause"    // a process is stopped for a while
	StepResume   StepKind = "resume"   // and goes on
	StepFault    StepKind = "fault"    // a fault of the plan happens
	StepApplied  StepKind = "applied"  // a request takes effect at the store
	StepFailed   StepKind = "failed"   // a call returns an error
	StepRow      StepKind = "row"      // a row of the table changes
	StepAppend   StepKind = "append"   // a record appears on an output or dead-letter topic
	StepCommit   StepKind = "commit"   // the group's offset of a partition moves
	StepExpelled StepKind = "expelled" // the group gives a member up for dead
	StepEngine   StepKind = "engine"   // the engine reports an event
	StepWorld    StepKind = "world"    // something that happens to everybody
	StepBroken   StepKind = "broken"   // an invariant is broken
)

// Step is one thing that happens in a run, for traces and pictures. Only an observer makes steps cost anything.
type Step struct {
	Number   uint64
	At       time.Duration // true time since the start
	Kind     StepKind
	Node     int // 0 for none
	Life     int
	Op       Op
	Nth      int
	Messages []int // the submissions that it is about
	Text     string
}

// String returns the step as a line of a trace.
func (s *Step) String() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%6d %15s ", s.Number, s.At)
	who := ""
	if s.Node > 0 {
		who = fmt.Sprintf("node %d.%d", s.Node, s.Life)
	}
	fmt.Fprintf(&line, "%-10s %-8s ", who, s.Kind)
	if s.Op != "" {
		fmt.Fprintf(&line, "%s %d ", s.Op, s.Nth)
	}
	if len(s.Messages) > 0 {
		fmt.Fprintf(&line, "#%v ", strings.Trim(fmt.Sprint(s.Messages), "[]"))
	}
	line.WriteString(s.Text)
	return strings.TrimRight(line.String(), " ")
}

// step shows a step to the observer.
func (w *world) step(s *Step) {
	if w.observe == nil {
		return
	}
	s.Number, s.At = w.stats.Events, time.Duration(w.now)
	w.observe(s)
}

// Coverage counts what has occurred, by name: faults, events of the engine, and points of the world that must be
// come by sometimes.
type Coverage map[string]int

// Add adds the counts of another run.
func (c Coverage) Add(other Coverage) {
	for _, name := range other.Names() {
		c[name] += other[name]
	}
}

// Names returns the names in order.
func (c Coverage) Names() []string {
	return slices.Sorted(maps.Keys(c))
}

// Missing returns the names that must occur in a batch of swarm runs and have not.
func (c Coverage) Missing() []string {
	var missing []string
	for _, name := range Sometimes() {
		if c[name] == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// Sometimes returns everything that must occur sometimes: each kind of fault, each event of the engine, and each point
// of the world. What never occurs in a large batch is not tested by it.
func Sometimes() []string {
	var names []string
	for _, d := range faultKinds() {
		if d.weight > 0 {
			names = append(names, "fault:"+string(d.kind))
		}
	}
	for _, name := range []string{
		"Started", "Failed", "Resumed", "Polled", "Assigned", "StartedOver", "RecordsLost", "LineageChanged",
		"CatchingUp", "CaughtUp", "Committed", "SkippedTaken", "IntakePaused", "IntakeResumed",
		"LeftGroup", "Rejected", "Enqueued", "Ignored", "Decided",
		"Recurred", "GaveUp",
		"Claimed", "Fired", "Unpublished", "DeadLettered", "Deleted", "Missing", "Abandoned", "Released", "Suspected",
		"RowsLocked",
	} {
		names = append(names, "event:"+name)
	}
	return append(names, points()...)
}

// points returns the points of the world that a batch must come by.
func points() []string {
	return []string{
		"crash", "expelled", "rebalance", "commit-fenced", "lock-wait", "row-locked", "busy",
		"publish-retried", "fired-twice", "zombie-insert", "reused-id-fired", "rolled-back", "unconfirmed", "unsent",
		"queued", "slow-claim", "refused-message", "take-apart",
		"instruction-scheduled", "instruction-ignored", "instruction-replaced", "instruction-rescheduled",
		"instruction-cancelled", "instruction-stopped", "instruction-fired", "series-goes-on",
		"instruction-too-late", "instruction-not-found", "expired",
		"past-rescheduled", "past-cancelled", "past-stopped", "past-fired", "past-too-late", "past-not-found",
		"past-scheduled", "past-ignored", "past-replaced", "past-untaken", "past-again",
		"heard", "unheard", "deaf",
		"callback-busy", "callback-failed", "callback-gone", "callback-slow", "callback-hangs", "callback-unsent",
		"callback-exhausted", "window-opened", "window-passed", "window-called", "window-shut",
		"pace-reached", "taken-again",
		"task-started", "task-complete", "task-failure", "task-deleted", "completed-again",
		"queue-dropped", "queue-gone", "queue-closed", "queue-conflict",
		"task-call-execution", "task-call-promise", "task-call-relief",
	}
}

func (w *world) count(name string) { w.coverage[name]++ }

// struck notes that a fault happens.
func (w *world) struck(f Fault, l *life) {
	w.fired = append(w.fired, f)
	w.coverage["fault:"+string(f.Kind)]++
	w.digest.text(string(f.Kind))
	w.recorder.struck(f, l)
	if w.observe != nil {
		s := &Step{Kind: StepFault, Node: f.Node, Op: f.Op, Nth: f.Nth, Text: f.String()}
		if l != nil {
			s.Life = l.number
		}
		w.step(s)
	}
}

// observe takes an event of the engine.
func (l *life) observe(e node.Event) {
	w := l.host.world
	name := eventName(e)
	w.coverage[name]++
	w.digest.text(name)
	w.recorder.told(l, e)
	if w.observe != nil {
		w.step(&Step{
			Kind: StepEngine, Node: l.host.number, Life: l.number,
			Messages: eventMessages(w, e), Text: eventText(e),
		})
	}
}

// eventName returns what an event of the engine is called in a trace, among other things that are counted.
func eventName(e node.Event) string { return "event:" + e.Name() }
