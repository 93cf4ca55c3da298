// Package callback makes the messages of callback lanes come out: each is one HTTP request. It is the node.Sink of
// lanes whose names begin with http:.
//
// The URL and the method are in the message's headers chronosUrl and chronosMethod, the body is its value, and its
// other headers are sent along. An answer of 2xx acknowledges the message. Everything else is a failure: the engine
// tries again, later and later, until the lane's RetryFor is over; what then is left, and what is answered with 410,
// is refused, which makes the engine end it with a dead letter.
//
// A lane may have a Function instead, in a program that embeds a node: the messages are handed to it, and everything
// else is the same.
//
// # Hosts
//
// A host that hangs must hold up its own messages and no others. At most PerHost requests to it are under way; the
// next ones wait for their turn while it moves, that is as long as some request to it has ended within the last
// quarter of a second, and are put off at once when it does not. A host that can't be reached, or of which a request
// runs into its time limit while it has answered nothing else, stands back: one request is sent now and then to find
// out whether it is back, and all others are put off without being tried. That is no attempt, nor is a connection that
// could not be made: nothing was sent.
//
// # Where requests may go
//
// Whoever may submit a message chooses its URL, so the network that the node stands in must be out of their reach.
// Every address is looked at when it is dialled, after all look-ups, so that no name can change its address in
// between. Only public addresses and the ports 80 and 443 are dialled, unless the lane allows others. Redirects are
// not followed, no proxy is used, and what is read of an answer is bounded. Names and values that are no valid HTTP
// fields are not sent.
package callback
