package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"chronos/node"
)

// Reporter turns the events of a node into log lines and counts. What a person has to know is said once: a port that
// is away is one line when it goes, one when it is back, and one every reminderInterval meanwhile, however many
// calls fail. No line has a key or a payload in it.
type Reporter struct {
	log *slog.Logger

	// settle is how long a port must answer before it counts as back. It covers a call that was under way
	// when another one got its answer, and fails later.
	settle time.Duration

	// quiet is how long after its last failure a port counts as back although no call says so: what failed
	// may have no reason to be called again.
	quiet time.Duration

	deadLetters map[string]bool // the dead-letter topics

	mu      sync.Mutex
	outages map[node.Port]*outage
	tallies map[string]*tally

	counts counts
}

// outage is a time for which a port fails.
type outage struct {
	since      time.Time
	failedLast time.Time
	saidLast   time.Time
	resumed    time.Time // the first success after the last failure; zero if there was none
}

// tally adds up what is said at most every reminderInterval.
type tally struct {
	count    int
	saidLast time.Time
	say      func(count int)
}

// counts are what a node has done since it started.
type counts struct {
	submitted, enqueued, fired, direct, duplicates, rejected, deadLettered, unpublished,
	suspected, abandoned, missing, outages int64
}

const (
	// reminderInterval is how often a thing that goes on is said again.
	reminderInterval = 30 * time.Second

	// maxSettle bounds how late a port is said to be back.
	maxSettle = 3 * time.Second

	// minQuiet is longer than any pause between two calls of a port that is away, the waits of the calls included.
	minQuiet = 30 * time.Second
)

// NewReporter returns a reporter for a node of that configuration.
func NewReporter(log *slog.Logger, config *node.Config) *Reporter {
	r := &Reporter{
		log:         log,
		settle:      min(config.PublishTimeout(), maxSettle),
		quiet:       max(3*config.HoldTime, minQuiet),
		deadLetters: map[string]bool{},
		outages:     map[node.Port]*outage{},
		tallies:     map[string]*tally{},
	}
	for _, route := range config.Routes {
		if route.DeadLetter != "" {
			r.deadLetters[route.DeadLetter] = true
		}
	}
	return r
}

// Watch says what is due to be said although no event comes, until ctx is done.
func (r *Reporter) Watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.tick()
		case <-ctx.Done():
			return
		}
	}
}

// Observe takes an event of the node.
func (r *Reporter) Observe(event node.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case node.Started:
		r.log.Info("started", slog.String("node_id", e.NodeID.String()))
	case node.Failed:
		r.failed(e.Port, string(e.Operation)+": "+e.Call, e.Err)
	case node.Resumed:
		r.resumed(e.Port)
	case node.LeftGroup:
		r.log.Warn("left the consumer group, because the store has been unavailable for too long; "+
			"this node consumes again when it is back", away(e.Outage))
	case node.Polled:
		r.counts.submitted += int64(e.Records)
	case node.Enqueued:
		r.counts.enqueued += int64(len(e.Messages))
		r.log.Debug("enqueued", slog.Int("messages", len(e.Messages)))
	case node.Ignored:
		r.counts.duplicates += int64(len(e.IDs))
		r.log.Debug("ignored duplicates", slog.Int("messages", len(e.IDs)))
	case node.Fired:
		r.fired(e)
	default:
		r.trouble(event)
	}
}

// trouble takes the events that are not as usual.
func (r *Reporter) trouble(event node.Event) {
	switch e := event.(type) {
	case node.Rejected:
		r.rejected(e)
	case node.DeadLettered:
		r.deadLettered(e)
	case node.Unpublished:
		r.unpublished(e)
	case node.Abandoned:
		r.counts.abandoned += int64(len(e.Claims))
		r.tally("abandoned", len(e.Claims), func(count int) {
			r.log.Warn("gave up messages that this node had held for too long to publish them safely",
				slog.Int("messages", count))
		})
	case node.Missing:
		if e.Repeated {
			return
		}
		r.counts.missing += int64(len(e.Refs))
		r.log.Warn("fired messages were gone from the store already: a peer has fired them as well",
			slog.Int("messages", len(e.Refs)), slog.String("first_id", e.Refs[0].ID))
	case node.Suspected:
		r.counts.suspected += int64(len(e.Claims))
		for _, claim := range e.Claims {
			r.say(slog.LevelWarn, fmt.Sprintf("suspected failure of %s for message %s", claim.ReadiedBy, claim.ID))
		}
	}
}

// fired counts messages that were published.
func (r *Reporter) fired(e node.Fired) {
	r.counts.fired += int64(len(e.Messages))
	if e.Direct {
		r.counts.direct += int64(len(e.Messages))
	}
	r.log.Debug("fired", slog.Int("messages", len(e.Messages)), slog.Bool("direct", e.Direct))
}

// rejected says which record was rejected and why: one line for each.
func (r *Reporter) rejected(e node.Rejected) {
	r.counts.rejected++
	to := e.DeadLetter
	if to == "" {
		to = "nowhere"
	}
	r.log.Warn("rejected a record",
		slog.String("topic", e.Record.Topic), slog.Int("partition", int(e.Record.Partition)),
		slog.Int64("offset", e.Record.Offset), slog.String("reason", string(e.Reason)),
		slog.String("detail", e.Detail), slog.String("copied_to", to))
}

// deadLettered says which messages their topic rejects for good: one line for each. The copies of records that
// were rejected as submissions have had their line.
func (r *Reporter) deadLettered(e node.DeadLettered) {
	r.counts.deadLettered += int64(len(e.Messages))
	for i := range e.Messages {
		if m := &e.Messages[i]; !r.deadLetters[m.Topic] {
			r.log.Error("a message went to the dead-letter topic, because Kafka rejects it",
				slog.String("id", m.ID), slog.String("topic", m.Topic), slog.Time("deadline", m.Deadline))
		}
	}
}

// unpublished says which topic messages could not be published on: one line for each topic and kind of failure, and
// a reminder while it goes on.
func (r *Reporter) unpublished(e node.Unpublished) {
	r.counts.unpublished += int64(len(e.Messages))
	topics := map[string]int{}
	for _, m := range e.Messages {
		topics[m.Topic]++
	}
	level, sentence := slog.LevelWarn, "could not publish messages; they wait in the store"
	if e.Permanent {
		level = slog.LevelError
		sentence = "could not publish messages, and cannot until somebody acts; they wait in the store"
	}
	cause := oneLine(e.Err)
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		// What is said later must not hold on to the event, which has all the payloads.
		r.tally(fmt.Sprint("unpublished ", topic, e.Permanent), topics[topic], func(count int) {
			r.say(level, sentence,
				slog.String("topic", topic), slog.Int("messages", count), slog.String("error", cause))
		})
	}
}

// unreadable says that a row of the store cannot be read.
func (r *Reporter) unreadable(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally("unreadable", 1, func(count int) {
		r.log.Error("messages in the store cannot be read: somebody has changed them by hand",
			slog.Int("messages", count), slog.String("error", oneLine(err)))
	})
}

// Unavailable says that a call to a port failed, if that is news. It is for what is done before the node runs.
func (r *Reporter) Unavailable(port node.Port, call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed(port, call, err)
}

// Available says that a call to a port that may have failed before went well.
func (r *Reporter) Available(port node.Port) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed(port)
}

// failed takes note of a call that failed.
func (r *Reporter) failed(port node.Port, call string, err error) {
	now := time.Now()
	o := r.outages[port]
	switch {
	case o == nil:
		r.counts.outages++
		o = &outage{since: now, saidLast: now}
		r.outages[port] = o
		r.say(slog.LevelWarn, title(port)+" unavailable; retrying",
			slog.String("call", call), slog.String("error", oneLine(err)))
	case now.Sub(o.saidLast) >= reminderInterval:
		o.saidLast = now
		r.say(slog.LevelWarn, title(port)+" still unavailable; retrying", away(now.Sub(o.since)),
			slog.String("call", call), slog.String("error", oneLine(err)))
	}
	o.failedLast, o.resumed = now, time.Time{}
}

// resumed takes note of a call that went well after it had failed.
func (r *Reporter) resumed(port node.Port) {
	if o := r.outages[port]; o != nil && o.resumed.IsZero() {
		o.resumed = time.Now()
	}
}

// tick says which ports are back, and what has been added up for reminderInterval.
func (r *Reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, port := range slices.Sorted(maps.Keys(r.outages)) {
		o := r.outages[port]
		end := o.resumed
		switch {
		case !o.resumed.IsZero() && now.Sub(o.resumed) >= r.settle:
		case now.Sub(o.failedLast) >= r.quiet:
			end = o.failedLast
		default:
			continue
		}
		delete(r.outages, port)
		r.say(slog.LevelInfo, title(port)+" available again", away(end.Sub(o.since)))
	}
	for _, key := range slices.Sorted(maps.Keys(r.tallies)) {
		switch t := r.tallies[key]; {
		case now.Sub(t.saidLast) < reminderInterval:
		case t.count == 0:
			delete(r.tallies, key)
		default:
			t.say(t.count)
			t.count, t.saidLast = 0, now
		}
	}
}

// tally adds count to what say is to be called with: now, if it was not within the last reminderInterval.
func (r *Reporter) tally(key string, count int, say func(count int)) {
	now := time.Now()
	t := r.tallies[key]
	if t == nil {
		t = &tally{}
		r.tallies[key] = t
	}
	t.count += count
	t.say = say
	if now.Sub(t.saidLast) >= reminderInterval {
		say(t.count)
		t.count, t.saidLast = 0, now
	}
}

// Summary says what the node has done, as its last line.
func (r *Reporter) Summary() {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counts
	r.say(slog.LevelInfo, "stopped",
		slog.Int64("submitted", c.submitted), slog.Int64("enqueued", c.enqueued),
		slog.Int64("fired", c.fired), slog.Int64("fired_on_arrival", c.direct),
		slog.Int64("duplicates_ignored", c.duplicates), slog.Int64("rejected", c.rejected),
		slog.Int64("dead_lettered", c.deadLettered), slog.Int64("not_published", c.unpublished),
		slog.Int64("suspected", c.suspected), slog.Int64("given_up_as_too_old", c.abandoned),
		slog.Int64("gone_already", c.missing), slog.Int64("outages", c.outages))
}

// say logs a sentence that names what it is about.
func (r *Reporter) say(level slog.Level, sentence string, attrs ...slog.Attr) {
	r.log.LogAttrs(context.Background(), level, sentence, attrs...) //nolint:sloglint // Some begin with the port.
}

// title names a port to a person.
func title(port node.Port) string {
	if port == node.PortBroker {
		return "Kafka"
	}
	return "store"
}

// away is how long something was away.
func away(d time.Duration) slog.Attr { return slog.String("away", d.Round(time.Millisecond).String()) }

// oneLine returns what err says, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
