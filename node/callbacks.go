package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// CallbackPrefix begins the names of callback lanes: those whose messages come out as HTTP requests, through
// Ports.Callback. No topic is called so, since Kafka allows no colon in a name.
const CallbackPrefix = "http:"

// maxCallbackName is the greatest length of what comes after the prefix.
const maxCallbackName = 240

// IsCallback reports whether a lane is one of callbacks.
func IsCallback(lane string) bool { return strings.HasPrefix(lane, CallbackPrefix) }

// IsCallbackLane reports whether name can be that of a callback lane: the prefix, and 1 to 240 letters, digits, dots,
// underscores and hyphens.
func IsCallbackLane(name string) bool {
	rest, is := strings.CutPrefix(name, CallbackPrefix)
	return is && len(rest) <= maxCallbackName && IsTopic(rest)
}

// Callbacks is what the engine is told of callback lanes. How a request is made is the sink's business.
type Callbacks struct {
	// Lanes are the callback lanes of which there is something to say, and Others says it of all that are not among
	// them; it has no name.
	Lanes  []CallbackLane
	Others CallbackLane

	// Any says to serve each callback lane that messages wait on, whoever has put them there: with an HTTP API they
	// come by no route.
	Any bool

	// Timeout is the longest that Publish of the callback sink takes: the time limit of a request, and what it waits
	// for its turn. 100 ms to 15 min. The hold time of callbacks follows from it, see CallbackHoldTime.
	Timeout time.Duration
}

// CallbackLane is what the engine is told of one callback lane.
type CallbackLane struct {
	Name string

	// Concurrency is how many requests of the lane one node makes at the same time: 1 to MaxConcurrency; 0 for
	// DefaultConcurrency.
	Concurrency int

	// Ordered says that messages of one key come out one after the other, in the order of their deadlines: see Turn.
	// What has no key comes out for itself.
	Ordered bool

	// DeadLetter is the lane that gets a copy of what failed for good: a topic, or a callback lane of Lanes that has
	// no dead letters itself. Empty for that of the routes that have the lane as an output, if they have one.
	DeadLetter string
}

const (
	// callers is how many requests a node makes at the same time, on all callback lanes together.
	callers = 128

	// MaxConcurrency is the greatest number of requests of one lane at the same time: a lane that hangs leaves as many
	// callers as that to the others.
	MaxConcurrency = callers / 2

	// DefaultConcurrency is what a lane has that does not say otherwise.
	DefaultConcurrency = MaxConcurrency

	// defaultCallbackTimeout is enough for a request of 15 s and for waiting for its turn.
	defaultCallbackTimeout = 16 * time.Second
)

// Calls reports whether there are callback lanes, so that the node needs a sink for them.
func (c *Config) Calls() bool {
	callback := func(r Route) bool { return IsCallback(r.Output) || slices.ContainsFunc(r.Targets, IsCallback) }
	return c.Callbacks.Any || len(c.Callbacks.Lanes) > 0 || slices.ContainsFunc(c.Routes, callback)
}

// CallbackHoldTime is the hold time of claims on callback lanes. It is shared out as HoldTime is, and at least as long:
// four tenths are for the request.
func (c *Config) CallbackHoldTime() time.Duration { return max(c.HoldTime, c.Callbacks.Timeout*5/2) }

// CallsAfter returns for how long after the hold time of topics a callback of an earlier lineage may still be under
// way: the time limit of a request. A node begins none unless the store has confirmed the lineage within the hold time,
// less the margin. So when a new lineage has held for the hold time, whatever of an earlier one is under way has begun,
// and ends within this time.
func (c *Config) CallsAfter() time.Duration {
	if !c.Calls() {
		return 0
	}
	return callPace(c).publish
}

// HoldTimeOf returns the hold time of claims on a lane.
func (c *Config) HoldTimeOf(lane string) time.Duration {
	if IsCallback(lane) {
		return c.CallbackHoldTime()
	}
	return c.HoldTime
}

// finds reports whether a callback lane is served although nobody has named it.
func (c *Callbacks) finds(lane string) bool { return c.Any && IsCallbackLane(lane) }

// lane returns what is said of a lane.
func (c *Callbacks) lane(name string) *CallbackLane {
	for i := range c.Lanes {
		if c.Lanes[i].Name == name {
			return &c.Lanes[i]
		}
	}
	return &c.Others
}

// concurrency returns how many requests of a lane a node makes at the same time.
func (c *Callbacks) concurrency(lane string) int {
	if n := c.lane(lane).Concurrency; n > 0 {
		return n
	}
	return DefaultConcurrency
}

// line returns the line that a message with that key stands in; the zero value where it stands in none. A line that two
// keys have in common, by a hash, would only be longer.
func (c *Config) line(lane string, key []byte) uuid.UUID {
	if key == nil || !IsCallback(lane) || !c.Callbacks.lane(lane).Ordered {
		return uuid.Nil
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, key)
}

// DeadLetters returns the lanes that get dead letters of callback lanes, each once.
func (c *Callbacks) DeadLetters() []string {
	var lanes []string
	for _, l := range append(slices.Clone(c.Lanes), c.Others) {
		if l.DeadLetter != "" && !slices.Contains(lanes, l.DeadLetter) {
			lanes = append(lanes, l.DeadLetter)
		}
	}
	return lanes
}

// validate returns a *ConfigError for the first thing that is not allowed, or nil.
func (c *Callbacks) validate(routes []Route) error {
	wrong := func(value, allowed string) error { return &ConfigError{"Callbacks", value, allowed} }
	if c.Timeout < 100*time.Millisecond || c.Timeout > 15*time.Minute {
		return wrong("a time limit of "+c.Timeout.String(), "it must be from 100ms to 15m")
	}
	named := map[string]CallbackLane{}
	others := c.Others
	others.Name = CallbackPrefix + "*"
	all := append(slices.Clone(c.Lanes), others)
	for i, l := range all {
		switch _, twice := named[l.Name]; {
		case !IsCallbackLane(l.Name) && i < len(c.Lanes):
			return wrong("lane "+l.Name, fmt.Sprintf("it must be %s and 1 to %d letters, digits, dots, underscores "+
				"and hyphens", CallbackPrefix, maxCallbackName))
		case twice:
			return wrong("lane "+l.Name+" twice", "a lane is listed once")
		case l.Concurrency < 0 || l.Concurrency > MaxConcurrency:
			return wrong(fmt.Sprintf("lane %s with a concurrency of %d", l.Name, l.Concurrency),
				fmt.Sprintf("it must be from 1 to %d, or 0 for the default", MaxConcurrency))
		}
		named[l.Name] = l
	}
	for _, l := range all {
		if err := l.checkDeadLetter(named, routes); err != nil {
			return err
		}
	}
	return nil
}

func (l *CallbackLane) checkDeadLetter(named map[string]CallbackLane, routes []Route) error {
	wrong := func(allowed string) error {
		return &ConfigError{"Callbacks", "dead letters of lane " + l.Name + " to " + l.DeadLetter, allowed}
	}
	if l.DeadLetter == "" {
		return nil
	}
	if IsCallback(l.DeadLetter) {
		other, listed := named[l.DeadLetter]
		switch {
		case l.DeadLetter == TasksLane:
			return wrong("that lane is for tasks, and takes nothing else: dead letters need a lane of their own")
		case slices.ContainsFunc(routes, func(r Route) bool { return slices.Contains(r.Outputs(), l.DeadLetter) }):
			return wrong("a route has that lane as an output or a target: dead letters need a lane of their own")
		case l.DeadLetter == l.Name:
			return wrong("what fails must not be sent the same way again")
		case !listed:
			return wrong("a callback lane for dead letters must be listed too")
		case other.DeadLetter != "":
			return wrong("a lane for dead letters has none itself")
		}
		return nil
	}
	if !IsTopic(l.DeadLetter) {
		return wrong("it must be a topic or a callback lane")
	}
	for _, r := range routes {
		if r.Input == l.DeadLetter || r.Outcomes == l.DeadLetter || r.serves(l.DeadLetter) {
			return wrong("dead letters need a topic of their own")
		}
	}
	return nil
}

// pace is how the firer of one sink goes about it: that of topics sends large batches, which last as long as the
// slowest partition; that of callbacks sends each message alone, so that a host that hangs holds up nobody else's.
type pace struct {
	// calls says that the sink makes callbacks: what it answers is about one message, and not about its lane.
	calls bool

	// publishers is how many publishes are under way at the same time, and probes how many of them are of lanes or
	// parts in doubt, at most.
	publishers, probes int

	// batch is how many messages there are in one publish, and held how many wait on the schedule, at most: of one lane
	// deep times as many as are published at the same time, if that is not 0.
	batch, held, deep int

	// hold is the hold time, publish the time limit of a publish, and young the greatest age at which a claim may
	// still be published.
	hold, publish, young time.Duration
}

// topicPace is the pace of topics.
func topicPace(c *Config) pace {
	return pace{
		publishers: publishers, probes: 1, batch: c.batch(), held: scheduleBatches * c.batch(),
		hold: c.HoldTime, publish: c.PublishTimeout(), young: c.PublishableAge(),
	}
}

// callPace is the pace of callbacks: that of topics with the hold time of callbacks, one message at a time.
func callPace(c *Config) pace {
	like := Config{HoldTime: c.CallbackHoldTime()}
	return pace{
		calls: true, publishers: callers, probes: callers / 4, batch: 1, held: 8 * callers, deep: 8,
		hold: like.HoldTime, publish: like.PublishTimeout(), young: like.PublishableAge(),
	}
}
