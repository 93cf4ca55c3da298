// Package chaos shows on real servers what the simulator shows of the algorithm: that adapters, drivers, servers and
// processes keep the same promise. It starts Apache Kafka and Postgres, runs nodes of the built binary against them,
// each through proxies of its own, lets faults strike after a schedule that is drawn from a seed, submits messages all
// the while, writes down what an outsider can see as a history, and has it judged by package check.
//
//	client ----------------------------------------------> brokers ----> consumer, into the history
//	                                                        ^   |
//	node 1 --- proxy 1.1, 1.2, 1.3 --- listener P1 ---------+   |
//	       \-- proxy 1.p --- cutter 1 --------------------------|--> Postgres ----> replication slot, into the history
//	node 2 --- proxies 2.1 ... and so on                        |
//	nemesis: toxics, cuts, signals to nodes, brokers and Postgres
//
// # How to read it
//
//   - servers: a package of its own: Kafka and Postgres as processes or containers, which can be killed, frozen, copied
//     and set back. cluster.go, database.go: what one scenario runs on.
//   - link.go, stall.go, cutter.go: the ways of a node, and what can be done to them. A broker tells each node
//     the address of that node's proxy, by a listener for each node: nobody can go around.
//   - node.go: node processes.
//   - workload.go, history.go, rows.go: the client, and what is written down. Row changes come from a logical
//     replication slot, in commit order: what really happened, whatever a node was told.
//     blame.go finds in the nodes' logs who has taken a claim off, which the slot does not tell. probe.go tells a
//     machine that is too busy from nodes that are slow.
//   - nemesis.go, disk.go, scenarios.go: faults, and when they strike. run.go: one scenario from beginning to end.
//   - copies.go: a standby that takes over, and an old state that comes back. truncated.go: a Kafka that loses what it
//     has acknowledged. lanes.go: outputs that must not hold each other up. snapshot.go: dead rows. strangers.go: nodes
//     that have no business with this database.
//   - callbacks.go: messages that come out as HTTP requests. receivers.go: what they are made to, which looks whether
//     they are as asked, and has moods. requests.go: messages and instructions that come in by the HTTP API.
//   - journal.go, journalscenarios.go: messages that wait in a journal in Kafka, with no Postgres. once.go: that they
//     come out once. answers.go: loses commits, and the answers to them.
//   - mutants.go: the broken nodes that the suite has to notice, and where.
//   - report.go: tables and pages for people. `lab chaos` is the command behind `make chaos`.
//
// Servers listen on 127.0.0.1, are started by the suite itself, and end with it: also when it is killed, where
// testcontainers' reaper sees to the containers.
package chaos
