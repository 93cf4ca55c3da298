// Package check judges histories: what happened to a delay service, as a sequence of events, and which of its
// promises that breaks. The simulator hands it every event at the moment at which it takes effect; the chaos suite
// writes down what it saw of real servers and has it judged afterwards; and anybody can write the same text about
// another implementation (docs/HISTORY.md) and give it to `lab check`. It knows nothing of the engine and imports
// nothing but the standard library, so that one judge serves all.
//
// # How to read it
//
//   - event.go: the kinds of events and their fields; history.go: the same as text.
//   - invariants.go: the promises, those of safety with an S and those of liveness with an L, each in words; safety.go,
//     exact.go, liveness.go and lanes.go: one function for each.
//   - state.go, apply.go and intake.go: what has become of everything so far. An invariant looks at the state before an
//     event, and at the event. Only apply changes the state.
//   - config.go: what the nodes are configured with, and the bounds that follow from it.
//   - judge.go and verdict.go: the judge, and what it has to say.
//
// # What can be judged
//
// No history has everything: who looks at real servers from outside sees no clock of a node and no look into the
// store. The Configure event says which kinds of events are recorded without gaps. An invariant that would need
// others is reported as not judged, with what is missing; it never counts as held. Where a rule is exact only if
// everything is recorded, such as what excuses a duplicate (S5), the function says what it takes instead.
//
// # To add an invariant
//
// Give it the next number and a statement in invariants.go, with the kinds of events that can break it and those that
// it can't do without; write its function; repeat the statement in docs/CORRECTNESS.md (a test compares them); and
// break it with a mutant of the simulator, because a check that nothing fails is not known to check anything.
package check
