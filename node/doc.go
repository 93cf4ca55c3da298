// Package node is the engine of Chronos: the algorithm of a delay service, and nothing else. Read this first,
// then fire.go.
//
// An application publishes a record on an input topic with two headers, chronosMessageId and chronosDeadline. It
// appears on the output topic at its deadline, byte for byte. All nodes are equal: they meet in a store, and any of
// them fires any message.
//
// # States
//
// A message is in one of four states:
//
//		            insert               ready               publish, acknowledged
//		submitted ----------> waiting ----------> ready ------------------------> fired
//		    |                    ^                  |                               ^
//		    |                    +------------------+                               |
//		    |                        reset (hold time passed, or given back)        |
//		    +-----------------------------------------------------------------------+
//		                          lapsed on arrival, and not in the store
//
//	  - submitted: only on the input topic.
//	  - waiting: in the store, claimed by nobody.
//	  - ready: exactly one node has claimed it, and with that the responsibility to publish it. The claim is
//	    the pair (readied_at, readied_by) in the store.
//	  - fired: on the output topic, and deleted from the store after Kafka's acknowledgement.
//
// # Operations
//
// Each is a plain sequential loop over the three ports Clock, Store and Broker.
//
//   - Enqueue (enqueue.go): poll, decode, insert what is in the future, publish what has lapsed, commit last.
//   - Fire (fire.go): claim what falls due soon, publish each at its instant, delete what is acknowledged.
//   - Recover (recover.go): reset claims that are older than the hold time.
//
// # Time
//
// Three clocks are used, each for one thing. The node's wall clock is compared with deadlines. The node's
// monotonic clock measures how long this node has held a claim, and all waits. The store's clock measures how
// long a claim has been held by whomever. No two readings of different clocks are ever compared.
//
// A message is due when its deadline <= now + timing advance. It is claimed up to the lookahead earlier than that,
// and kept on a schedule in memory until its instant, so that precision does not depend on the poll interval. A
// message that arrives closer to its deadline than the lookahead is inserted as claimed already.
//
// # Guarantees
//
//   - G1, at least once: a message whose submission Kafka has acknowledged is published, provided the store keeps
//     what it has committed, some node reaches the store and Kafka for long enough, and no other submission with
//     its id waits or is ready when it arrives (it is a duplicate of that one).
//   - G2, not early: it is not published before its deadline less the timing advance, by the clock of the
//     node that publishes it.
//   - G3, exactly once unless a failure is suspected: it is published once, if no claim outlives the hold
//     time, every call to a port gets its reply, and no record is delivered to the node twice.
//   - G4, fidelity: key, value and the other headers are relayed byte for byte, nulls and order included.
//   - G5, isolation: a record or message that can't be processed delays no other by more than one turn of a loop.
//
// What makes G1 hold is that everything destructive is justified by something durable before it: offsets are
// committed after the insert, a delete follows an acknowledged publish and names the incarnation published. What
// makes G3 hold is the share-out of the hold time in Config.
//
// What no implementation can promise: an id is ignored while it waits or is ready and is free again once fired, but
// between the publish and the delete, and when a record is delivered again after it fired, the two collide. A
// submission that reuses an id in that window can be swallowed. Use fresh ids.
//
// # Why it can be simulated
//
// The engine starts goroutines in Run only, uses no channel, draws randomness from one seed, asks Clock for
// the time, does not log, and ranges over no map. Given the same answers from its ports it makes the same
// calls. See docs/ALGORITHM.md for the deviations D1 to D10 from the original description that the comments name.
package node
