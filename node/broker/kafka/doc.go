// Package kafka is node.Broker on a Kafka cluster, by way of franz-go.
//
// A Broker has separate clients for its two directions, so that neither slows the other down.
//
// # Consuming
//
// The consumer is a member of a group with cooperative-sticky balancing. From a Poll that returned records until
// the next Poll or Leave it blocks rebalances, and it commits nothing by itself. It reads committed records only:
// what was written in a transaction that was aborted has never been submitted. A group without offsets begins
// at the start of its topics, and where Kafka has lost records, consuming goes on where the logs part, or, if
// nobody knows where that is, from the start again: nothing is ever skipped.
//
// A member that the group gives up for dead learns of it late: from its next heartbeat, or from the commit that
// is refused. The danger is what comes after. franz-go then joins again as a new member, and goes on consuming
// from where it was in memory; a commit of what was polled before would be accepted now, and would take the
// group back behind what the new owner has committed. Therefore every commit is bound to the member id under
// which its records were polled, and a consumer whose member id has changed is thrown away: the next Poll makes
// a new one, which begins where the group is.
//
// # Producing
//
// Publish has two ways to the broker, because of how records fail. franz-go sends records of one partition in
// batches. A broker that rejects a batch does not say which record it does not like, and franz-go then fails
// everything that waits for that partition. Yet node.ErrRejected must be true of the one record that bears it: the
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
package kafka
