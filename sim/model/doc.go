// Package model goes through every state that the algorithm can get into, in a world that is small enough for that:
// two nodes, one partition, and one id that is used by two to four records. The simulator of package sim runs the
// real engine and looks at some of what can happen in a large world; this is a model of the engine, and looks at all
// of what can happen in a small one. Read this first, then machine.go, log.go and take.go, and fire.go with
// node/fire.go beside it.
//
// The walk is breadth-first, so that what it finds is a shortest way to break a property. It is deterministic: each
// run meets the same states in the same order.
//
// # What is modelled
//
//   - The store: one row, with its incarnation and claim; a position for each topic id; and each transaction as one
//     atomic step. It can be set back, by a failover to a standby that lacks the last commits or by a restore, which
//     are the same thing here, and an operator can rewind it (lineage.go).
//   - The partition (log.go): its records with their leader epochs, its owner, and consumers that do not know that it
//     was taken from them. Kafka can lose the tail of the log and write another one at the same offsets, and
//     somebody can delete the topic and create it again.
//   - Intake (take.go): assignment, poll of one record or two, the take of a batch, as waiting or as claimed, the
//     repeated take, which returns its claim, and the comparison of positions that each node makes every second.
//   - Instructions (control.go): schedule, cancel, replace, reschedule and fire, each with its outcome.
//   - Fire (fire.go): claim, the look at the age of the claim, publish, delete and its repetition, giving back.
//   - Recover (recover.go): read a claim that is too old, and reset it.
//   - Calls of unknown outcome: a call takes effect and its reply is lost, or its caller gives up (or dies) while it is
//     still on its way; then it takes effect at any later moment, or never.
//   - Crashes at any moment, and new processes in place of the dead.
//   - Pauses, and slow nodes, networks and servers: any number. Between any two steps of a node the rest of the world
//     may do as much as it likes.
//
// Time is not a number here. A claim may be found too old at any moment; from then on its holder knows it too. That
// covers every choice of the hold time, also wrong ones. Waiting for one hold time makes all claims old.
//
// # Exact intake
//
// The rules of a take are few, and each of them is the answer to a counter-example in docs/COUNTEREXAMPLES.md:
//
//   - A position is a pair: an offset, and the epoch of the record before it. With an epoch unknown, offsets count.
//   - A take locks the position, and is refused where there is none, or where its batch begins above it in either part
//     of the pair. The node begins again at the position then.
//   - It skips what lies behind the position: what is of a lower epoch, or of the same and a lower offset.
//   - If it takes anything, the position becomes the end of the batch, with the epoch of its last record: also where
//     that is a lower offset. If it skips all, the position stays.
//   - Only an assignment makes a position, at the earliest record; at the committed offset once, if that was committed
//     by a deployment that kept no positions.
//   - After a set back or a rewind the log end is marked. Nothing is taken in for one hold time, and nothing is
//     claimed, also not by a take, until the position has passed the mark, or a node stands at the log end with it.
//
// # What is not
//
// Clocks and deadlines (whether a message is due, and early); values, keys and headers; dead letters; batches of
// different ids; several partitions, so that a mark for each is not more than one mark; HTTP and its answers;
// retention, and gaps between offsets; a poll or search for stuck claims that fails, because it changes nothing;
// more than one call that is late at a time; calls that reach a store that has been set back since they were sent, as
// a proxy between node and server could bring about. The engine's loops are taken to be less orderly than they are: a
// node may publish, delete and claim in any order. Outcomes are stored by the transaction that
// decides them, so that S21 can be broken by a variant only.
//
// # What does not hold
//
// Catching up ends at the log end, also where Kafka has lost its tail in the meantime. A node that was given up for
// dead may still hold a batch of that tail, with a submission and its cancel, and take it in later: after a rewind,
// the cancel may then be answered with success although the submission came out before. It takes a rewind, a truncation
// and a rebalance within the time of one poll, and no scope has all three. Where the mark stays instead, one
// truncation stops all claims (variant strict-mark).
//
// # Bounds
//
// A Scope says how many crashes, unknown outcomes, rebalances, rewinds and false suspicions there are; a call that is
// on its way when its node crashes is one of the unknown outcomes. Claims and deliveries are not counted: names that
// can only be compared are forgotten when nothing can equal them any more, and a call that can have no effect any
// more is ended at once (canonical.go), so that any number of them makes finitely many states, and few.
// TestSimplification compares that with the walk that ends nothing.
//
// # What is checked
//
// The properties are in property.go. Safety is checked in each step. L2, that everything drains, is checked on the
// whole graph: from every state, a drained one must be reachable without another fault. L9 is the same where the store
// was set back or rewound: everything that Kafka still has is taken in and comes out. In a finite graph that means
// that a world in which each possible step is taken sooner or later drains with certainty. A world in which
// publishing always takes longer than the hold time is not like that; what keeps it from firing forever is S14.
//
// # Variants
//
// A Variant deviates from our algorithm by one field of Rules, and is expected to break certain properties in a
// scope. To add one: add a field to Rules, use it in the one place where it makes the difference, and add the
// variant with its scope to one of the files variant_*.go and the lengths of its counter-examples to the table in
// model_test.go; then write the page anew, with the model command of the laboratory and --docs
// docs/COUNTEREXAMPLES.md. If it makes calls matter that have no effect in ours, simplify in canonical.go must leave
// them alone. An instruction is a letter in log.go and a case in control.go.
//
// U1 is what nobody can promise. Our algorithm breaks it, and the counter-example shows how.
package model
