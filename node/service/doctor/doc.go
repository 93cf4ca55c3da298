// Package doctor looks at a deployment from outside, with the settings of its nodes: at the Kafka cluster, its topics
// and what this user may do there; at the store, its schema and its server; and at how the two fit together. It says
// what is wrong, what that means, and what to do. It changes nothing, and needs no node to run.
//
// What it can see depends on what its user may see. Where a right is missing that a node does not need, such as to look
// at the settings of a topic, that is a note, and the rest is looked at all the same.
//
// A check is one method that looks at one thing: it adds findings, and returns in a few words what it has seen. An
// error of it means that it could not look.
package doctor
