// Package node is the engine of Chronos: the algorithm of a delay service, and nothing else. Read this first,
// then enqueue.go, fire.go and publish.go.
//
// An application publishes a record on an input topic with two headers, chronosMessageId and chronosDeadline. It
// appears on the output topic at its deadline, byte for byte. All nodes are equal: they meet in a store, and any of
// them fires any message.
//
// # States
//
// A message is in one of four states:
//
//		              take              claim              publish, acknowledged
//		submitted ----------> waiting ----------> ready ------------------------> fired
//		    |                    ^                 | ^
//		    |                    +-----------------+ |
//		    |                  reset or released     |
//		    +----------------------------------------+
//		             taken as claimed: due soon
//
//	  - submitted: only on the input topic.
//	  - waiting: in the store, claimed by nobody.
//	  - ready: exactly one node has claimed it, and with that the responsibility to publish it. The claim is
//	    in the store (readied_at, readied_by), with the instant from which it is expired.
//	  - fired: on the output topic, and deleted from the store after the acknowledgement.
//
// # Operations
//
// Each is a type of its own, made of plain sequential loops over the ports Clock, Store, Source and Sink. What they
// share is in core (node.go): the schedule of claims that wait for their instant above all.
//
//   - enqueuer (enqueue.go): polls records from where the store's positions are, decodes them, and takes them into the
//     store, those of each partition and its position in one transaction.
//   - firer: its claimer (fire.go) claims what falls due soon, its publishers (publish.go) publish each message at its
//     instant, and its settler (settle.go) deletes what is acknowledged.
//   - recoverer (recover.go): resets claims that have expired.
//
// # Positions
//
// How far an input topic has been taken in is in the store, not in Kafka, and moves in the transaction that stores the
// messages. So a record is taken in once, however often it is delivered. The offsets that are committed to Kafka
// come after, and are for people who look at the lag; and they are evidence: a store that was set back to an
// earlier state has positions below them. It then begins a new lineage (lineage.go) and catches up: everything
// that Kafka still has is taken in again before anything is claimed.
//
// # Lanes
//
// A lane is where messages come out: an output topic, or a dead-letter topic. Each has its share of every claim and of
// the schedule, and a back-off of its own. What one lane's sink says, or does not say, puts off no message of
// another.
//
// # Pauses
//
// Somebody can pause a lane, on which nothing is claimed then, or the intake, by which nothing is taken in. The store
// keeps that and minds it in the statements themselves (pause.go), so that the engine has little to do: the claimer
// gets nothing on a paused lane, and while takes are refused the enqueuer polls on, skips what it reads, and reads it
// again when the intake is resumed. What is claimed when a lane is paused may still come out, while its claims are
// young enough.
//
// # Time
//
// Three clocks are used, each for one thing. The node's wall clock is compared with deadlines. The node's
// monotonic clock measures how long this node has held a claim, and all waits. The store's clock measures when
// a claim expires. No two readings of different clocks are ever compared.
//
// A message is due when its deadline <= now + timing advance. It is claimed up to the lookahead earlier than that,
// and kept on a schedule in memory until its instant, so that precision does not depend on the poll interval. A
// message that arrives closer to its deadline than the lookahead, or after it, is taken in as claimed already. Nothing
// is published that is not in the store.
//
// # Guarantees
//
//   - G1, at least once: a message whose submission Kafka has acknowledged is published, provided the store keeps
//     what it has committed or Kafka still has the record, some node reaches the store and Kafka for long enough, and
//     no other submission with its id waits or is ready when it is taken in (it is a duplicate of that one).
//   - G2, not early: it is not published before its deadline less the timing advance, by the clock of the
//     node that publishes it.
//   - G3, exactly once unless a failure is suspected: it is published once, if no claim expires, every call to a port
//     gets its reply, and the store is not set back. That a record is delivered again does not matter.
//   - G4, fidelity: key, value and the other headers are relayed byte for byte, nulls and order included.
//   - G5, isolation: a record or message that can't be processed delays no other by more than one turn of a loop.
//
// What makes G1 hold is that everything destructive is justified by something durable before it: a position moves
// with the messages before it, a delete follows an acknowledged publish and names the incarnation published. What
// makes G3 hold is the share-out of the hold time in Config.
//
// What no implementation can promise: an id is ignored while it waits or is ready and is free again once fired, but
// between the publish and the delete the two collide. A submission that reuses an id in that window can be swallowed.
// Use fresh ids.
//
// # Why it can be simulated
//
// The engine starts loops in Run only, on Tasks that it is given, uses no channel, draws randomness from one seed,
// asks Clock for the time, does not log, and ranges over no map. Given the same answers from its ports it makes the
// same calls. See docs/ALGORITHM.md for the deviations D1 to D10 from the original description that the comments name.
package node
