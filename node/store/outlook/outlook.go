// Package outlook is what a store tells of what waits in it, for those who watch: how much, since when, and what comes.
//
// An Outlook must stay cheap whatever the store holds, because it is taken while messages fire, ten million of them
// perhaps, and while the indexes begin with the dead entries of an hour. So nothing is counted beyond Limit: a
// count that reaches it is what the statistics of the database expect, where it has any that expect more, and otherwise
// a floor. Each
// look has a time limit of its own, and a look that runs into it leaves its part of the outlook unknown.
package outlook

import (
	"context"
	"fmt"
	"time"
)

// Source is a store that tells.
type Source interface {
	// Outlook looks at what waits on the lanes of the request, and takes at most about a second. An error means that
	// nothing is known. It changes nothing and locks nothing.
	Outlook(ctx context.Context, request Request) (Outlook, error)
}

// Request says what to look at.
type Request struct {
	// Now is the instant that the horizons begin at, by the clock that deadlines are compared with.
	Now time.Time

	// Lanes are the lanes to look at.
	Lanes []string
}

const (
	// Limit is up to where messages are counted.
	Limit = 10_000

	// Grace is how long after it has fallen due a message counts as overdue.
	Grace = time.Second

	// MaxParked is the largest number of parts of a lane of which an outlook tells.
	MaxParked = 100

	// MaxOrigins is how many of the overdue messages are looked at for where they came from.
	MaxOrigins = 200
)

// Horizons are how far ahead an outlook looks, the nearest first.
func Horizons() []time.Duration {
	return []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
}

// Outlook is what waits in a store.
type Outlook struct {
	Lanes []Lane // in the order of the request

	// Clock is the store's clock, and At the middle between asking for it and the answer, by the caller's. Zero if the
	// store has no clock of its own.
	Clock, At time.Time

	// Partitions are those that the outlook is of, in order, where each node sees its own only; nil if it is of all.
	Partitions []int32

	// Incomplete says that some look ran into its time limit.
	Incomplete bool
}

// Lane is what waits on one lane.
type Lane struct {
	Name string

	// Claimed are the messages that some node holds, and Waiting the others, those that are parked among them.
	Waiting, Claimed Count

	// Parked are the parts of the lane on which messages are parked (node.Part), in the order of their names; those
	// that come first, if there are more than MaxParked.
	Parked []Parked

	// Overdue are the messages whose deadlines are more than Grace before Request.Now, wherever they wait: also those
	// that nodes hold, that are parked, and that were put off to a later try. Oldest is the first of these deadlines;
	// zero if there is none.
	Overdue Count
	Oldest  time.Time

	// Origins are the input partitions that the longest overdue messages came from, the most frequent first; up to
	// MaxOrigins messages are looked at.
	Origins []Origin

	// Deferred are those of the overdue messages that were put off, and wait for their next try.
	Deferred Count

	// Next is when the next message falls due, or is tried again; zero if there is none.
	Next time.Time

	// Within are the messages that fall due after Request.Now, by Horizons, each with those of the horizon before.
	Within []Count
}

// Estimated reports whether some count of the lane is an estimate.
func (l *Lane) Estimated() bool {
	for _, c := range append([]Count{l.Waiting, l.Claimed, l.Overdue}, l.Within...) {
		if c.Estimated {
			return true
		}
	}
	return false
}

// Count is a number of messages.
type Count struct {
	N int

	// Estimated says that there are more than Limit. N is how many were counted then, and there may be any number more,
	// unless ByStatistics says that it is what the statistics of the database expect, which is more than was counted.
	Estimated bool

	// Unknown says that the look at them took too long.
	Unknown bool

	ByStatistics bool
}

// String returns the count for a person: 17, or 10,000+ for what was counted while there is more, or ~12,500 for what
// the statistics of the database expect, or ? for what is unknown.
func (c *Count) String() string {
	text := fmt.Sprint(c.N)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	switch {
	case c.Unknown:
		return "?"
	case c.ByStatistics:
		return "~" + text
	case c.Estimated:
		return text + "+"
	}
	return text
}

// Add adds another number to c: what is estimated, or unknown, of one of them is so of both.
func (c *Count) Add(o Count) {
	c.N += o.N
	// A number that was counted, beside one that is about right, is no floor any more.
	c.Estimated, c.Unknown = c.Estimated || o.Estimated, c.Unknown || o.Unknown
	c.ByStatistics = c.ByStatistics || o.ByStatistics
}

// Parked is what waits on a part of a lane that does not answer.
type Parked struct {
	// Part is the name of the part: an output partition, or a host.
	Part string

	Waiting Count

	// Oldest is when the first of them fell due.
	Oldest time.Time
}

// Origin is an input partition, and how many of the messages that were looked at came from it.
type Origin struct {
	Topic     string
	Partition int32
	Messages  int
}
