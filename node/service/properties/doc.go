// Package properties reads the configuration of a Kafka client as Java's clients and librdkafka have it, and says what
// it means for this one. There are three kinds of keys:
//
//   - Those that say how to reach a cluster and who we are. They become settings. A value of theirs that this client
//     cannot honour is an error that says what to do instead, such as a key store in Java's own format.
//   - Those that tune a producer, a consumer or an admin client. This client has its own reasons for how it produces
//
// and
//
//	  consumes, so they change nothing. They are accepted, because such files are shared, and listed in Ignored.
//	- All others. They are errors, by name: a key misspelt must not pass for a default, least of all one about
//
// security.
//
// The two dialects share most keys, and differ in how a value is written: in a file of Java a backslash escapes what
// follows it and continues lines; librdkafka takes it as it is. A file is of librdkafka if it has a key that only that
// knows, and must have none then that only Java knows.
//
// No error shows a value, except for those of keys that hold no secret.
package properties
