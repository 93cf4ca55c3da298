// Package kafka is node.Source and node.Sink on a Kafka cluster, by way of franz-go, and answers what commands ask
// of one (Admin).
//
// # Source
//
// The source is a member of a group with cooperative-sticky balancing. From a Poll that returned records until
// the next Poll or Leave it blocks rebalances. It reads committed records only: what was written in a transaction
// that was aborted has never been submitted. The markers that end transactions come as records of control, because
// positions are to pass them.
//
// Where to read is not the group's to say, nor franz-go's: positions are in the store. So franz-go is stopped at the
// one point where it asks (adjust) until Start has said it, and never resets an offset by itself. Three things can
// be in the way when a partition is read from a place:
//
//   - Kafka has lost the end of the log, and other records have taken its place. The epoch of the place tells: franz-go
//     asks Kafka where that epoch has ended before it reads, and so do we where reading goes on from another place
//     (validate). The caller is told by Batch.Moved.
//   - Retention has taken the place. Kafka answers that the offset is out of range; we look up the first record
//     there is (recover), and the caller is told by Batch.Lost.
//   - The partition has no leader. It is told by its name, and holds up no other: see parked.
//
// What is asked of Kafka is asked in the background, and the answers are used by a later Poll (settle): neither Start
// nor Poll waits for a broker that does not answer.
//
// A member that the group gives up for dead learns of it late, and franz-go then joins again as a new member, and goes
// on from where it was in memory. The positions in the store would stop it; it is simpler to have one way into a
// partition, by an assignment. So a member whose id has changed is thrown away: the next Poll makes a new one.
//
// Memory is bounded where records are decompressed, see memory.
//
// # Sink
//
// Publish has two ways to the broker, because of how records fail. franz-go sends records of one partition in
// batches. A broker that rejects a batch does not say which record it does not like, and franz-go then fails
// everything that waits for that partition. Yet node.RecordRejected must be true of the one record that bears it: the
// engine moves it to the dead-letter topic.
//
//   - The bulk client takes nearly everything, in batches that every topic with default settings accepts.
//   - The careful client takes records that alone are larger than such a batch, and all records of a batch that
//     was rejected. It sends few at a time, and in halves what is rejected, until the culprits are alone.
//
// A call of Publish has a pair of these for itself, from a few that take turns. Shared clients would make a call fail
// for the records of another, and take records of one key out of order, when some of them were refused for that
// and others were not handed over yet. For the same reason a client sends nothing before it has the whole call.
//
// A call of Publish is over when its time limit is, whatever the network does. The clients give the records up
// shortly before, which closes the connection that a request hangs on, and send none of them later. What Kafka
// has received by then, a frozen broker for example, may still appear: the outcome is unknown.
//
// From a call that ran into its time limit the sink learns two things. Partitions that have acknowledged nothing are
// silent (silentPartitions): their records are not sent until the partition answers again. And many bytes may have
// been too many for a slow connection: the next calls send fewer at a time (window).
package kafka
