// Package api is the HTTP API for applications: it takes messages in, and instructions on them, past Kafka, and answers
// with the outcome. docs/HTTP.md shows it to its users, docs/openapi.json describes it.
//
// Every node serves the same, and none is special: what a request asks for is decided by the store, in one transaction
// (node.NoPlace), by the rules that records follow (node.Config.Read, node.Item.Decide). What has been answered is
// durable, as far as the store is.
//
// # A request may be repeated
//
// An answer can get lost on its way: between the store and the node, or between the node and the client. So each
// request has an id under which the store remembers the answer, in the transaction that has the effect (node.Request).
// A client that sends an Idempotency-Key has chosen the id; then it may repeat the request for a day, to any node, and
// gets the same answer. Without one the node draws an id, and repeats what the store has not answered by itself.
//
//	client             node A             store              node B
//	  DELETE x, key k    cancel x as k      x is gone; k: cancelled
//	                     dies
//	  DELETE x, key k                       k: cancelled       cancel x as k
//	  200 cancelled
//
// # Who may do what
//
// Package listener lets those in who have a token; its scopes say on which lanes it may read and write (Scopes). A
// token is bounded by a rate, and by how much may wait on the lanes that it may write to.
//
// # Many at once
//
// Requests that come at the same time share transactions (intake): the store writes its log once for up to a hundred of
// them. So it is not slow, and however many come, they never take more than a few connections, which the node that
// fires needs as well.
package api
