// Package horae is the HTTP interface of horae (github.com/KieranBroadfoot/horae, 2015), for applications that were
// written for that: queues, tasks and actions under /v1, with its verbs, bodies and sentences. To create is PUT without
// an id, every error is 400 with a code in the body, and a task is completed by a GET. What is asked goes to the queues
// of package queue, which any node serves: the one endpoint of theirs is all of ours.
//
// Bodies and sentences are those of the program, eirene/*.go and types/*.go, and not of its documents where the two
// differ; what never worked there works here. docs/MOVING.md has a list of what is different on purpose.
package horae
