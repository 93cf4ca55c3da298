// Package metaswitch is the HTTP interface of Metaswitch's Chronos, for applications that were written for that: POST
// /timers, PUT and DELETE /timers/ID, and GET /ping. A timer is a series on the callback lane Lane, with one occurrence
// if it does not repeat, since each callback has a number. What comes in goes to the store as everything that comes
// past Kafka does.
//
// Status codes, bodies and what is counted are those of the program, src/handlers.cpp and src/timer.cpp, and not of its
// documents where the two differ. docs/MOVING.md has a list of what is different here, on purpose.
//
// # Identity
//
// A name of a timer is 16 hexadecimal digits, a hyphen and the replication factor. The digits alone are the identity,
// there as here: they are the id of the message. The factor comes back in Location, and means nothing else: there are
// as many copies as the database keeps.
//
// # Deletes
//
// A series that has failed once cannot be cancelled, to whoever uses the API of package api: its occurrence may have
// come out, and it comes out until it is acknowledged. A client of Metaswitch's has a simpler wish: nothing more of
// that timer. So where a cancel comes too late, the timer is replaced by one of the far future, whatever has become of
// it, and that one is cancelled, in the same transaction (see API.end).
package metaswitch
