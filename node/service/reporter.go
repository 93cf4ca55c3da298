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

	"github.com/google/uuid"

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

	// process says which process this is, on which host; nil if nobody has said. storeInKafka says that the store is
	// a journal, which is away when Kafka is.
	process      []slog.Attr
	storeInKafka bool

	// behind returns how many records wait in Kafka to be taken in by this node; nil if nobody can tell.
	behind func() int64

	// observed tells how it goes with each call of the ports, and with the intake; nil if nobody measures.
	observed observed

	mu      sync.Mutex
	names   map[string]string  // of nodes, by their ids: their hosts and processes
	outages map[string]*outage // by what is out, see title
	tallies map[string]*tally
	bursts  map[string]*burst

	lateness lateness

	counts counts
}

// outage is a time for which a port fails.
type outage struct {
	since      time.Time
	failedLast time.Time
	saidLast   time.Time
	resumed    time.Time // the first success after the last failure; zero if there was none
	remedy     string    // what somebody has to do about it; "" if nothing is known
	cause      string    // why the last call failed, in words
}

// tally adds up what is said at most every reminderInterval.
type tally struct {
	count    int
	distinct map[uuid.UUID]bool // of messages that are counted each time that they fail; nil if nobody wants to know
	saidLast time.Time
	say      func(count int)
}

// burst is what is a line each, as long as there are few.
type burst struct {
	began  time.Time
	lines  int
	summed map[string]int // how many of each kind were beyond
	level  slog.Level
	more   string // what to say of those
}

// counts are what a node has done since it started.
type counts struct {
	submitted, enqueued, fired, duplicates, rejected, deadLettered, unpublished,
	suspected, abandoned, missing, outages, lost, skipped,
	instructed, tooLate, expired int64
}

const (
	// reminderInterval is how often a thing that goes on is said again.
	reminderInterval = 30 * time.Second

	// linesPerSecond is how many lines of one sort there are in a second at most. What is beyond is one more line, with
	// counts: a topic full of rubbish, or a large node that dies, must neither fill a disk nor hold the engine up.
	linesPerSecond = 5

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
		outages:     map[string]*outage{},
		tallies:     map[string]*tally{},
		bursts:      map[string]*burst{},
	}
	for _, lane := range config.Callbacks.DeadLetters() {
		r.deadLetters[lane] = true
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
	last := time.Now()
	for {
		select {
		case <-ticker.C:
			now := time.Now()
			r.lived(last, now)
			last = now
			r.tick()
		case <-ctx.Done():
			return
		}
	}
}

// longStop is how long a process has to have stood still for that to be reported.
const longStop = 3 * time.Second

// lived takes note of two instants of this process that should be a second apart. If much more lies between them, it
// stood still: by its own clock, if it was stopped or had no CPU; by the clock of the wall alone, if its machine was
// suspended.
func (r *Reporter) lived(last, now time.Time) {
	took := max(now.Sub(last), now.Round(0).Sub(last.Round(0))) - time.Second
	if took < longStop {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lateness.stood = stop{until: now, took: took}
	r.say(slog.LevelWarn, "this process stood still: it was stopped, had no CPU, or its machine was suspended; others "+
		"take over meanwhile what it held, and some of that may come twice",
		slog.String("for", took.Round(100*time.Millisecond).String()))
}

// Observe takes an event of the node.
func (r *Reporter) Observe(event node.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.debug(event)
	switch e := event.(type) {
	case node.Started:
		r.lateness.self = e.NodeID.String()
		id := slog.String("node_id", e.NodeID.String())
		r.say(slog.LevelInfo, "started", append([]slog.Attr{id}, r.process...)...)
	case node.Failed:
		if e.Call == "commit" { // nothing depends on it but what others see
			r.tally("commit", 1, func(count int) {
				r.say(slog.LevelInfo, "could not tell the consumer group how far this node has come; nothing but "+
					"the lag that Kafka's tools show depends on it",
					slog.Int("commits", count), slog.String("error", oneLine(e.Err)))
			})
			return
		}
		if e.Call == "parts" { // a look that is given up soon, while the store answers all others
			r.tally("lanes", 1, func(count int) {
				r.say(slog.LevelWarn, "could not look for lanes that no route names; what other nodes have taken in "+
					"for them waits until this node can, or they publish it",
					slog.Int("looks", count), slog.String("error", oneLine(e.Err)))
			})
			return
		}
		r.failed(title(e.Port, e.Lane), string(e.Operation)+": "+e.Call, e.Err)
	case node.Resumed:
		r.resumed(title(e.Port, e.Lane))
	case node.LeftGroup:
		r.log.Warn("left the consumer group, because the store has been unavailable for too long; "+
			"this node consumes again when it is back", away(e.Outage))
	case node.Polled:
		r.counts.submitted += int64(e.Records)
	case node.Enqueued:
		r.counts.enqueued += int64(len(e.Messages))
		now := time.Now()
		for i := range e.Messages {
			r.lateness.arrivals.Stored(&e.Messages[i], now)
		}
	case node.Ignored:
		r.counts.duplicates += int64(len(e.Messages))
	case node.Decided:
		r.decided(e)
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
	case node.GaveUp:
		r.gaveUp(&e)
	case node.Lapsed:
		for i := range e.Messages {
			r.expired(&e.Messages[i], "nowhere")
		}
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
		r.suspected(e)
	case node.RowsLocked:
		r.rowsLocked(e)
	case node.LeftBehind:
		r.log.Warn("the store could not be told what this node leaves behind; others take the claims over after the "+
			"hold time, and fire again what has fired", slog.Int("claims", e.Claims), slog.Int("fired", e.Fired))
	default:
		r.intake(event)
	}
}

// rowsLocked says what waits for a lock of another session.
func (r *Reporter) rowsLocked(e node.RowsLocked) {
	const how = "another session of the database has locked rows: what they say is settled when it ends " +
		"(SELECT * FROM pg_locks JOIN pg_stat_activity USING (pid) shows it)"
	if len(e.Messages) > 0 {
		first := e.Messages[0]
		r.tally("locked", len(e.Messages), func(count int) {
			r.log.Warn(how, slog.Int("messages", count), slog.String("first_id", first.ID),
				slog.String("lane", first.Lane))
		})
	}
	for _, place := range e.Blocked {
		r.lateness.lockedAt = time.Now()
		r.tally("locked "+place.Topic, 1, func(int) {
			r.log.Warn("a record waits in Kafka, with those of its partition behind it: its message is locked: "+how,
				slog.String("topic", place.Topic), slog.Int("partition", int(place.Number)),
				slog.Int64("offset", place.Offset))
		})
	}
}

// decided counts instructions. None of them has a line: an application that uses them sends many.
func (r *Reporter) decided(e node.Decided) {
	r.counts.instructed += int64(len(e.Decisions))
	for _, d := range e.Decisions {
		if d.Outcome == node.TooLate {
			r.counts.tooLate++
		}
	}
}

// fired counts messages that were published.
func (r *Reporter) fired(e node.Fired) {
	r.counts.fired += int64(len(e.Messages))
	r.lateness.measure(e)
}

// debug logs any event, as it describes itself.
func (r *Reporter) debug(event node.Event) {
	if !r.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	fields := event.Fields()
	attrs := make([]slog.Attr, len(fields))
	for i, f := range fields {
		attrs[i] = slog.Any(f.Name, f.Value)
		if err, ok := f.Value.(error); ok {
			attrs[i] = slog.String(f.Name, oneLine(err))
		}
	}
	r.say(slog.LevelDebug, event.Name(), attrs...)
}

// burst reports whether n things of some sort get a line of their own, of which there are so many in a second. If not,
// they are counted by their kind, for one line that says how many more there were.
func (r *Reporter) burst(sort, kind string, n, lines int, level slog.Level, more string) bool {
	now := time.Now()
	b := r.bursts[sort]
	if b == nil {
		b = &burst{began: now, summed: map[string]int{}}
		r.bursts[sort] = b
	}
	if now.Sub(b.began) >= time.Second {
		r.sumUp(b)
		b.began, b.lines = now, 0
	}
	if b.lines < lines {
		b.lines++
		return true
	}
	b.level, b.more = level, more
	b.summed[kind] += n
	return false
}

// sumUp says what had no line of its own.
func (r *Reporter) sumUp(b *burst) {
	if len(b.summed) == 0 {
		return
	}
	total := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(b.summed)) {
		total += b.summed[kind]
		kinds = append(kinds, fmt.Sprintf("%s: %d", kind, b.summed[kind]))
	}
	clear(b.summed)
	r.say(b.level, b.more, slog.Int("count", total), slog.String("of_which", strings.Join(kinds, ", ")))
}

// rejected says which record was rejected and why.
func (r *Reporter) rejected(e node.Rejected) {
	r.counts.rejected++
	if !r.burst("rejected", string(e.Reason), 1, linesPerSecond, slog.LevelWarn, "rejected more records") {
		return
	}
	to := e.DeadLetter
	if to == "" {
		to = "nowhere"
	}
	r.log.Warn("rejected a record",
		slog.String("topic", e.Record.Topic), slog.Int("partition", int(e.Record.Partition)),
		slog.Int64("offset", e.Record.Offset), slog.String("reason", string(e.Reason)),
		slog.String("detail", e.Detail), slog.String("copied_to", to))
}

// deadLettered says which messages their topic rejects for good. The copies of records that
// were rejected as submissions have had their line.
func (r *Reporter) deadLettered(e node.DeadLettered) {
	r.counts.deadLettered += int64(len(e.Messages))
	now := time.Now()
	for i := range e.Messages {
		m := &e.Messages[i]
		if m.Expired(now) {
			r.expired(m, "the dead-letter topic")
			continue
		}
		if !r.deadLetters[m.Lane] && r.burst("dead-lettered", m.Lane, 1, linesPerSecond, slog.LevelError,
			"more messages went to the dead-letter topic, because Kafka rejects them") {
			r.log.Error("a message went to the dead-letter topic, because Kafka rejects it",
				slog.String("id", m.ID), slog.String("topic", m.Lane), slog.Time("deadline", m.Deadline))
		}
	}
}

// expired says that a message was not published, because its time has passed.
func (r *Reporter) expired(m *node.Message, to string) {
	r.counts.expired++
	if r.burst("expired", m.Lane, 1, linesPerSecond, slog.LevelWarn,
		"did not publish more messages, because the instants of their headers chronosNotAfter had passed") {
		r.log.Warn("did not publish a message, because the instant of its header chronosNotAfter has passed",
			slog.String("id", m.ID), slog.String("topic", m.Lane), slog.Time("deadline", m.Deadline),
			slog.Time("not_after", m.NotAfter), slog.String("copied_to", to))
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
	r.failed(title(port, ""), call, err)
}

// Available says that a call to a port that may have failed before went well.
func (r *Reporter) Available(port node.Port) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed(title(port, ""))
}

// failed takes note of a call that failed.
func (r *Reporter) failed(what, call string, err error) {
	now := time.Now()
	o := r.outages[what]
	remedy := remedy(err)
	switch {
	case remedy != "" && (o == nil || o.remedy != remedy || now.Sub(o.saidLast) >= reminderInterval):
		if o == nil {
			r.counts.outages++
			o = &outage{since: now}
			r.outages[what] = o
		}
		o.saidLast, o.remedy = now, remedy
		r.say(slog.LevelError, remedy, slog.String("call", call), slog.String("error", oneLine(err)))
	case o == nil:
		r.counts.outages++
		o = &outage{since: now, saidLast: now}
		r.outages[what] = o
		r.say(slog.LevelWarn, what+" unavailable; retrying", append([]slog.Attr{
			slog.String("call", call), slog.String("error", oneLine(err)),
		}, r.waits(laneOf(what))...)...)
	case now.Sub(o.saidLast) >= reminderInterval:
		o.saidLast = now
		r.say(slog.LevelWarn, what+" still unavailable; retrying", append([]slog.Attr{
			slog.Time("since", o.since), away(now.Sub(o.since)), slog.String("call", call),
			slog.String("error", oneLine(err)),
		}, r.waits(laneOf(what))...)...)
	}
	o.failedLast, o.resumed, o.cause = now, time.Time{}, cause(err)
}

// resumed takes note of a call that went well after it had failed.
func (r *Reporter) resumed(what string) {
	if o := r.outages[what]; o != nil && o.resumed.IsZero() {
		o.resumed = time.Now()
	}
}

// tick says which ports are back, and what has been added up for reminderInterval.
func (r *Reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, what := range slices.Sorted(maps.Keys(r.outages)) {
		o := r.outages[what]
		well := !o.resumed.IsZero() && now.Sub(o.resumed) >= r.settle
		if !well && now.Sub(o.failedLast) < r.quiet || r.stillOut(what) {
			continue
		}
		delete(r.outages, what)
		if lane := laneOf(what); lane != "" { // What could not be published is not said after it could be again.
			delete(r.tallies, unpublishedOn(lane, true))
			delete(r.tallies, unpublishedOn(lane, false))
		}
		if !well { // That nothing fails where nothing is tried is no sign that it would go well.
			r.say(slog.LevelInfo, what+" is not tried any more, because nothing here waits for it: whether it is "+
				"available is not known", slog.Time("failed_last", o.failedLast), away(o.failedLast.Sub(o.since)))
			continue
		}
		if what == title(node.PortStore, "") {
			r.lateness.storeBack = o.resumed
		}
		r.say(slog.LevelInfo, what+" available again", slog.Time("since", o.resumed), away(o.resumed.Sub(o.since)))
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
	r.sumUpAll(now)
	r.tickLate(now)
}

// sumUpAll sums up the bursts whose second is over, or all if now is zero.
func (r *Reporter) sumUpAll(now time.Time) {
	for _, sort := range slices.Sorted(maps.Keys(r.bursts)) {
		if b := r.bursts[sort]; now.IsZero() || now.Sub(b.began) >= time.Second {
			r.sumUp(b)
			delete(r.bursts, sort)
		}
	}
}

// Summary says what the node has done, as its last line.
func (r *Reporter) Summary() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sumUpAll(time.Time{})
	c := &r.counts
	r.say(slog.LevelInfo, "stopped",
		slog.Int64("submitted", c.submitted), slog.Int64("enqueued", c.enqueued),
		slog.Int64("fired", c.fired),
		slog.Int64("duplicates_ignored", c.duplicates), slog.Int64("rejected", c.rejected),
		slog.Int64("dead_lettered", c.deadLettered), slog.Int64("tries_failed", c.unpublished),
		slog.Int64("suspected", c.suspected), slog.Int64("given_up_as_too_old", c.abandoned),
		slog.Int64("gone_already", c.missing), slog.Int64("outages", c.outages),
		slog.Int64("instructions", c.instructed), slog.Int64("too_late", c.tooLate),
		slog.Int64("expired", c.expired),
		slog.Int64("taken_in_before", c.skipped), slog.Int64("lost_to_retention_at_most", c.lost))
}

// say logs a sentence that names what it is about.
func (r *Reporter) say(level slog.Level, sentence string, attrs ...slog.Attr) {
	r.log.LogAttrs(context.Background(), level, sentence, attrs...) //nolint:sloglint // Some begin with the port.
}

// title names what is out to a person: a port, or a topic that can't be published on.
func title(port node.Port, lane string) string {
	switch {
	case port == node.PortStore:
		return "store"
	case lane != "":
		return "topic " + lane
	default:
		return "Kafka"
	}
}

// laneOf returns the lane that is out, if it is one that title names; "" for all.
func laneOf(what string) string {
	lane, is := strings.CutPrefix(what, "topic ")
	if !is {
		return ""
	}
	return lane
}

// away is how long something was away.
func away(d time.Duration) slog.Attr { return slog.String("away", d.Round(time.Millisecond).String()) }

// oneLine returns what err says, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
