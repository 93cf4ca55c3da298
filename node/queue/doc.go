// Package queue runs tasks in queues that open and close by windows in words, lie inside one another, and run one task
// at a time or each at its time: what horae (github.com/KieranBroadfoot/horae, 2015) promised.
//
// A queue, its tasks and the actions that tasks name are rows of the store. Everything that happens to them is a
// Command, which is one transaction of Store.Apply: it locks the queue's row, and reads those of the queues that
// contain it so that they cannot change meanwhile. So no node owns a queue, and a node may die between any two
// transactions. All stores share the rules, which are Run: a store brings a Tx, the few reads and writes of one
// transaction.
//
// What a task asks for is done by messages like any other. To start a task is to insert the message of its execution,
// in the transaction that makes the task Running; to complete it is to insert those of its promise. Their lane is Lane,
// or a topic. So retries, signatures, paces and the promises about loss are those of the engine, which knows nothing of
// queues. A Sink stands between the engine and the callbacks, and tells the store what became of a request.
//
// Time is the store's: the windows of queues are asked at the instant of the transaction, by the one clock that all
// nodes share. Queue.Look is when something may next have to happen to a queue that no command brings about: it opens,
// a task's time comes, or one runs into its time limit. A Keeper in each node looks after those whose time has come.
// That is what "nothing is stuck" rests on.
//
// Two interleavings decided the shape:
//
//	two completions, or one and the time limit      both lock the queue; the second finds another run, or none,
//	                                                and is answered with what the first one did
//	a parent closes while a task starts             start has locked the parent's row for share: the change comes
//	                                                after the start, or start finds it closed
package queue
