// Package desk is where people and programs ask for something of queues: it finds what they name, reads what they
// wrote, checks it in their words, gives the command to the store, and shows what has become of it. The HTTP
// listeners and the commands share it, so that they all understand the same and refuse the same.
//
// A change says what is to be different: what it leaves out stays as it is, and of something new it is the default. A
// repeated change is the same change, since its caller names what it is about.
package desk
