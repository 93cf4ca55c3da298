// Package model goes through every state that the algorithm can get into, in a world that is small enough for that:
// two nodes, one partition, and one id that is submitted twice, as s0 and s1. The simulator of package sim runs the
// real engine and looks at some of what can happen in a large world; this is a model of the engine, and looks at all
// of what can happen in a small one. Read this first, then machine.go, and fire.go with node/fire.go beside it.
//
// The walk is breadth-first, so that what it finds is a shortest way to break a property. It is deterministic: each
// run meets the same states in the same order.
//
// # What is modelled
//
//   - The store: one row, with its incarnation and claim, and each statement as one atomic step (machine.go). With
//     a failover to a standby that lacks the last commits, after which the offsets are rewound (fault.go).
//   - The partition: its records, the committed offset, its owner, and consumers whose partition was taken away.
//   - Enqueue (enqueue.go): poll of one record or two, insert as waiting or as ready, the repeated insert with the same
//     incarnation, look and direct publish of what has lapsed, commit.
//   - Fire (fire.go): claim, the look at the age of the claim, publish, delete and its repetition, giving back.
//   - Recover (recover.go): read a claim that is too old, and reset it.
//   - Calls of unknown outcome: a call takes effect and its reply is lost, or its caller gives up (or dies) while it is
//     still on its way; then it takes effect at any later moment, or never.
//   - Crashes at any moment, and new processes in place of the dead.
//   - Pauses, and slow nodes, networks and servers: any number. Between any two steps of a node the rest of the world
//     may do as much as it likes.
//
// Time is not a number here. A claim may be found too old at any moment; from then on its holder knows it too. That
// covers every choice of the hold time, also wrong ones.
//
// # What is not
//
// Clocks and deadlines (whether a message is due, and early); values, keys and headers; dead letters; batches of
// different ids; several partitions; brokers that lose what they have acknowledged; a poll, look or search for stuck
// claims that fails, because it changes nothing; more than one call that is late at a time; commits that overtake
// each other. The engine's loops are taken to be less orderly than they are: a node may publish, delete and claim in
// any order.
//
// # Bounds
//
// A Scope says how many crashes, unknown outcomes, rebalances and false suspicions there are; a call that is on its
// way when its node crashes is one of the unknown outcomes. Claims and deliveries are not counted: names that can
// only be compared are forgotten when nothing can equal them any more, and a call that can have no effect any more
// is ended at once (canonical in state.go), so that any number of them makes finitely many states, and few.
// TestSimplification compares that with the walk that ends nothing.
//
// # What is checked
//
// The properties are in property.go. Safety is checked in each step. L2, that everything drains, is checked on the
// whole graph: from every state, a drained one must be reachable without another fault. In a finite graph that means
// that a world in which each possible step is taken sooner or later drains with certainty. A world in which
// publishing always takes longer than the hold time is not like that; what keeps it from firing for ever is S14.
//
// # Variants
//
// A Variant deviates from our algorithm by one field of Rules, and is expected to break certain properties in a
// scope. To add one: add a field to Rules, use it in the one place where it makes the difference, and add the
// variant with its scope to variant.go and the lengths of its counter-examples to the table in model_test.go; then
// write the page anew with "lab model --docs docs/COUNTEREXAMPLES.md". If it makes calls matter that have no
// effect in ours, simplify in state.go must leave them alone.
//
// U1 and U2 are what nobody can promise. Our algorithm breaks them, and the counter-examples show how.
package model
