// Package bench loads a delay service, and measures what it makes of the load: how much it takes in, how late it is,
// and whether everything comes out, once, not early and byte for byte. It knows a service by what goes in and what
// comes out (Service); Kafka is in the package cluster, and the processes of the machine are in the package machine.
//
//	Load ──> Plan ──> sender ──> Service ──> receiver
//	  what is     what message i is,     │                      │
//	  asked for   and when it goes       └──────> Ledger <──────┘   what became of message i
//	                                                │
//	                                              Result ──> text, JSON, page
//
// # What makes the figures honest
//
// The schedule is fixed beforehand. When message i is sent and when it is due follows from its number alone, before the
// first one goes. A service, a Kafka or a generator that stalls makes messages late, and they count as late: it does
// not make the generator wait with what it would have sent (coordinated omission). That the generator itself is late is
// measured, and said.
//
// A message is known by its number. Its id, key, size, bytes and deadline are functions of the seed and of that number.
// So one byte for each message is all the state there is (ten million messages take 10 MB), and each byte of what comes
// out can be compared without keeping what went in.
//
// Lateness is signed, and counted from the instant at which a message is due, which is its deadline less the timing
// advance of the service. Two clocks tell it: the receiver's, which is the one that has made the deadlines, and that of
// the broker or of the service, which is on the record. The second is never corrected. How far the broker's clock is
// from this machine's is measured where the broker tells (Clock), and what is early by the broker's clock counts as
// early only where the difference can't explain it. The clock of the service itself nobody sees: a service on another
// machine whose clock is ahead is early by that, and is said to be.
//
// The first seconds (the warm-up) count for what is lost, doubled, early and damaged, and not for any figure of speed.
//
// What is missing is what has not come when the patience is over: nobody can tell it from what comes later.
//
// # How to read it
//
//   - load.go, spread.go: what is asked for, and its bounds; plan.go: the schedule; message.go: bytes from a number.
//   - ledger.go, lateness.go, second.go: what is kept of what happens; result.go, judge.go: the figures, and what is
//     wrong with the service or with the measurement.
//   - run.go: a run, from the first message to the last; search.go: the highest rate that holds.
//   - text.go, page.go: for people.
package bench
