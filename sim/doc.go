// Package sim runs the production engine in a simulated world and judges what it does. It shows that the algorithm
// keeps its promise under crashes, pauses, partitions, lost replies and wrong clocks, thousands of times a minute,
// and replays any failure from its seed. Read this first, then world.go, call.go and run.go.
//
// # One thread
//
// A world runs on one goroutine. It has a true time, and an agenda of what happens at which instant (agenda.go). The
// engine's loops run unchanged as coroutines (task.go), each of which is parked in every call of a port until the
// world wakes it. Nothing else is concurrent; no map is ranged over, no wall clock is read, and nothing is computed
// in floating point. So everything depends on the Setup alone, and the digest of all that has happened is the same
// on every machine. Randomness comes from one stream for each purpose and node (random.go): taking one fault or one
// message away leaves the other draws as they were.
//
// # A call
//
// Each call of the store or the brokers is three points in time (call.go):
//
//	node     sent ------.                         .------> reply, or a timeout
//	                     \                       /
//	server                `--> applied ---------'
//
// Each of the two ways can be lost, or take long; the server can be away; the node can die or be stopped before, within
// and after. That is all there is to an unknown outcome. What has been sent may be applied long after the node has
// given up or died.
//
// # What there is
//
//   - Nodes (host.go): a machine with a number, on which one process after another lives; each process has a new node
//     id. Clocks (clock.go): an offset, a rate, jumps; a monotonic reading that goes on while the process is stopped.
//   - The store (store.go): a real node.Store of one process that applies each call at one instant, with outages,
//     failovers, a standby that stalls, a clock of its own, and a past that it can be set back to. Each call is a
//     transaction (transaction.go), which may hold its locks for long, with an effect on the rows (effect.go).
//     truth.go sits right in front of the rows and tells the recorder what really changes.
//   - The brokers (broker.go, group.go, consume.go, publish.go): logs that lose their end or their beginning, topics
//     that are created again, a consumer group that gives members up for dead that are not, commits without
//     effect, leaders
//     that answer nobody, records that appear long after their producer has given up.
//   - The application (workload.go): submissions with fresh, waiting and fired ids, lapsed ones, malformed ones, and
//     ones that the output topic rejects.
//
// # Faults
//
// A fault is keyed to a call: "node 3 delete 2: reply-lost", or "node 3 delete 1 of 17: reply-lost" for the first
// delete by node 3 that is about submission 17. Faults are drawn from the seed and recorded as they strike; the
// Plan of a Result replays the run without drawing, and Shrink makes it smaller. fault.go lists all kinds.
//
// # A run
//
// Run has three phases: faults strike; the world heals: a core of nodes is as good as new, and the others stay dead
// or cut off (Options.Fates); everything drains. The recorder (recorder.go, recorderrows.go) tells what happens to the
// judge (package check), which checks the safety
// invariants at the event that can break them, and in the end that nothing is left. A run ends at the first
// violation.
//
// Swarm draws Options from a seed. Scenarios returns the runs with a name, one for each hazard and class of faults.
// Mutants returns broken variants of nodes and stores; Hunt looks for the seed that catches one. Coverage counts
// what has occurred, so that a batch in which something never did can fail.
package sim
