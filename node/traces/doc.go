// Package traces tells OpenTelemetry what becomes of each message: one span when it is taken in, and one for each
// time it is published. It watches the events of the engine, and changes nothing that the engine does.
//
//	application           a node                                  a node, hours later
//
//	send orders.in  --->  take orders.in              ...         publish orders.out
//	(its trace)           a child of the sender's span            a trace of its own, linked to the sender's span
//
// A trace is looked at, sampled and thrown away as something that lasts seconds. A publish that is days after its
// submission would be the child of a trace that no backend holds open any more, so it begins a trace of its own, and a
// link leads to the submission. That is also what OpenTelemetry's conventions for messaging say: a send links to the
// creation context of its message, which is the one that the application has put into the headers. That context is the
// application's: it goes on to the consumer as it came, and is never replaced by one of ours.
//
// A message without a context has none to link to. Then the span that takes it in begins a trace whose ids are made
// from the message's incarnation (identity.go), which is stored with it: whichever node publishes it knows them too,
// and nothing has to be added to a row or a header.
//
// The two are sampled together (sampler): what is decided for the submission holds for its publishes, on any node.
//
// Spans never hold up the engine. They are put into a queue of bounded length, from which a goroutine of the SDK sends
// them; what does not fit is dropped, and counted (exporter.go). The spans have the message's id and its topics, and
// no key, no header and no value.
package traces
