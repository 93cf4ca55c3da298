package service

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/metrics"
	"chronos/node/store/outlook"
)

// lateness is what the log tells of messages that are overdue, or came out late: one line when it begins, one a minute
// while it lasts, and one when it is over.
type lateness struct {
	self string // this node's id, once it is known

	// pace tells how long calls of ports take; nil if nobody knows.
	pace func() []metrics.Pace

	seen   outlook.Outlook
	seenAt time.Time // zero for never

	overdue story
	late    story

	throttled time.Time // when a broker had this node wait last; zero for never

	// firedOn counts what was fired on each lane since the last look at the store.
	firedOn map[string]int

	// failedOn is why messages could not be published on a lane of late, and when that was.
	failedOn map[string]failedLane

	// reasons are why messages of lanes are overdue, as they were found at the last look at the store.
	reasons map[string][]reason

	lockedAt time.Time // when a record waited for a row that another session had locked last; zero for never
	stood    stop      // when this process stood still last

	arrivals metrics.Arrivals
	minute   lateMinute

	catchingUp bool
	paused     map[string]node.Pause // by lane
	storeBack  time.Time             // when an outage of the store ended; zero for never
}

// stop is a time in which this process did not run: it was stopped, or its machine was.
type stop struct {
	until time.Time // zero for never
	took  time.Duration
}

// failing notes why messages could not be published on a lane.
func (l *lateness) failing(lane, cause string) {
	if l.failedOn == nil {
		l.failedOn = map[string]failedLane{}
	}
	now := time.Now()
	if len(l.failedOn) > maxFailedOn { // an application can make up lanes, where a target ends with a *
		maps.DeleteFunc(l.failedOn, func(_ string, failed failedLane) bool {
			return now.Sub(failed.at) >= deferredLasts
		})
	}
	l.failedOn[lane] = failedLane{cause, now}
}

// story is a thing that lasts, and is told.
type story struct {
	since, saidLast time.Time // zero while all is well

	// of are the partitions that it is about, where each node sees its own only.
	of []int32
}

// failedLane is a failure to publish.
type failedLane struct {
	cause string
	at    time.Time
}

// lateMinute is how late the messages came out that were fired since its beginning.
type lateMinute struct {
	began  time.Time
	steps  [64]int // by the length of the lateness in bits of milliseconds, finely: see step
	fired  int
	tooFar int // later than lateLimit
	worst  time.Duration
}

const (
	// storyInterval is how often a story is told again.
	storyInterval = time.Minute

	// lateLimit is what counts as late, and latePercent how many of a hundred messages may be.
	lateLimit   = 200 * time.Millisecond
	latePercent = 1

	// lateLeast is how many messages must be late at least: one of ten is no story.
	lateLeast = 10

	// causeLasts is how long a failure to publish explains that messages are overdue; beyond maxFailedOn lanes it is
	// forgotten then.
	causeLasts  = 2 * time.Minute
	maxFailedOn = 1000

	// deferredLasts is how long it does so for messages that wait for their next try, which is five minutes ahead at
	// most, give or take a fifth.
	deferredLasts = 7 * time.Minute
)

// Paused takes what is paused.
func (r *Reporter) Paused(pauses []node.Pause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lateness.paused = map[string]node.Pause{}
	for _, p := range pauses {
		r.lateness.paused[p.Lane] = p
	}
}

// Seen takes an outlook on what waits. The reporter tells what of it is overdue, for as long as anything is.
func (r *Reporter) Seen(seen outlook.Outlook, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return // the store is away, which is a story of its own
	}
	l := &r.lateness
	if seen.Partitions != nil && len(seen.Partitions) == 0 && r.kafkaUnsure() {
		return // this node has lost the partitions that it had: what is overdue there still is
	}
	now := time.Now()
	before := lookBefore{l.seen, l.firedOn, now.Sub(l.seenAt)}
	first := l.seenAt.IsZero()
	l.seen, l.seenAt, l.firedOn = seen, now, map[string]int{}
	var late []outlook.Lane
	for _, lane := range seen.Lanes {
		if lane.Overdue.Unknown {
			return
		}
		if lane.Overdue.N > 0 {
			late = append(late, lane)
		}
	}
	l.reasons = map[string][]reason{}
	if !first { // why something is late, the next look can tell better, when this node has worked for a while
		for i := range late {
			l.reasons[late[i].Name] = r.whyOverdue(&late[i], &before, now)
		}
	}
	if len(late) > 0 {
		l.overdue.of = seen.Partitions
	}
	switch {
	case len(late) > 0 && first:
		l.overdue.since = now
	case len(late) > 0:
		if l.overdue.due(now) {
			r.sayOverdue(late, now)
		}
	case !l.overdue.since.IsZero():
		r.overdueEnds(now)
	}
}

// overdueEnds ends the story of what is overdue, since the store has been looked at and nothing is.
func (r *Reporter) overdueEnds(now time.Time) {
	l := &r.lateness
	gone := slices.ContainsFunc(l.overdue.of, func(p int32) bool { return !slices.Contains(l.seen.Partitions, p) })
	if gone {
		r.say(slog.LevelInfo, "other nodes have the partitions now in which messages were overdue: they tell what "+
			"becomes of these", slog.Time("since", l.overdue.since))
	} else {
		r.say(slog.LevelInfo, "nothing is overdue any more", away(now.Sub(l.overdue.since)))
	}
	l.overdue = story{}
}

// lookBefore is the look before the last one: what it has seen, what was fired since, and how long ago it was.
type lookBefore struct {
	seen    outlook.Outlook
	fired   map[string]int
	elapsed time.Duration
}

// overdue returns how many messages of a lane were overdue then.
func (b *lookBefore) overdue(lane string) int {
	for i := range b.seen.Lanes {
		if one := &b.seen.Lanes[i]; one.Name == lane {
			return one.Overdue.N
		}
	}
	return 0
}

// due reports whether the story is to be told now.
func (s *story) due(now time.Time) bool {
	if s.since.IsZero() {
		s.since = now
	}
	if now.Sub(s.saidLast) < storyInterval {
		return false
	}
	s.saidLast = now
	return true
}

// farBehind is how many records that are not taken in yet are worth a word where messages are overdue. More of a
// backlog may lie there than in the store, because a node takes in no faster than it fires what is due already.
const farBehind = 1000

// sayOverdue says how much is overdue, since when, where, and why.
func (r *Reporter) sayOverdue(late []outlook.Lane, now time.Time) {
	var total outlook.Count
	oldest := now
	var lanes, partitions, why []string
	for i := range late {
		lane := &late[i]
		total.Add(lane.Overdue)
		if lane.Oldest.Before(oldest) {
			oldest = lane.Oldest
		}
		lanes = append(lanes, fmt.Sprintf("%s: %s, the oldest for %v",
			lane.Name, amount(lane.Overdue), now.Sub(lane.Oldest).Round(100*time.Millisecond)))
		for _, o := range lane.Origins {
			partitions = append(partitions, fmt.Sprintf("%s/%d: %d", o.Topic, o.Partition, o.Messages))
		}
		for _, reason := range r.lateness.reasons[lane.Name] {
			if !slices.Contains(why, reason.why) {
				why = append(why, reason.why)
			}
		}
	}
	attrs := []slog.Attr{
		slog.String("messages", amount(total)),
		slog.String("oldest", now.Sub(oldest).Round(100*time.Millisecond).String()),
		slog.String("lanes", firstOf(lanes, 8)),
	}
	if len(partitions) > 0 {
		attrs = append(attrs, slog.String("oldest_came_from", firstOf(partitions, 8)))
	}
	if r.behind != nil {
		if records := r.behind(); records >= farBehind {
			attrs = append(attrs, slog.Int64("still_in_kafka", records))
		}
	}
	r.say(slog.LevelWarn, "messages are overdue", append(attrs, slog.String("why", strings.Join(why, "; ")))...)
}

// whyOverdue returns why messages of a lane are overdue, as far as this node can tell, and which system that is about.
func (r *Reporter) whyOverdue(lane *outlook.Lane, before *lookBefore, now time.Time) (all []reason) {
	l := &r.lateness
	add := func(fault, format string, args ...any) {
		all = append(all, reason{fault, fmt.Sprintf(format, args...)})
	}
	destination := admin.FaultKafka
	if node.IsCallback(lane.Name) {
		destination = admin.FaultReceiver
	}
	if p, is := l.paused[lane.Name]; is && p.Lane != node.Intake {
		add("", "%s is paused, by %s (%s)", lane.Name, p.By, p.Why)
	}
	if l.catchingUp {
		add(admin.FaultStore, "the store was set back, and nothing fires until it has caught up")
	}
	if o := r.outages[title(node.PortStore, "")]; o != nil && r.holdsUp() {
		add(admin.FaultStore, "the store was out of reach %s", ago(now.Sub(o.since)))
	}
	if o := r.outages[title(node.PortSink, lane.Name)]; o != nil {
		add(destination, "topic %s has been unavailable for %v", lane.Name, rounded(now.Sub(o.since)))
	}
	if len(lane.Parked) > 0 {
		add(destination, "%s", whyParked(lane))
	}
	if failed, is := l.failedOn[lane.Name]; is && now.Sub(failed.at) < failureLasts(lane) {
		add(destination, "messages could not be published on %s: %s", lane.Name, failed.cause)
	}
	if throttled := l.whyThrottled(now); throttled != "" && !node.IsCallback(lane.Name) {
		add(admin.FaultKafka, "%s", throttled)
	}
	if stood := l.stood; !stood.until.IsZero() && now.Sub(stood.until) < causeLasts {
		add(admin.FaultNode, "this process stood still for %v, until %v ago", rounded(stood.took),
			rounded(now.Sub(stood.until)))
	}
	fired := before.fired[lane.Name]
	switch less := before.overdue(lane.Name) - lane.Overdue.N; {
	case len(all) > 0:
	case fired > 0:
		add(admin.FaultNode, "a backlog on %s: this node fires %.0f messages/s there",
			lane.Name, float64(fired)/before.elapsed.Seconds())
	case less > 0:
		add(admin.FaultNode, "a backlog on %s, which other nodes fire: it is %d less than %v ago",
			lane.Name, less, rounded(before.elapsed))
	case lane.Claimed.N > 0:
		add(admin.FaultNode, "%s of %s are held by nodes; what a node held that has died is taken "+
			"over after the hold time", messagesOf(lane.Claimed), lane.Name)
	case lane.Deferred.N > 0:
		add(destination, "%s of %s failed before, and wait for their next try; the log of the node that tried has the "+
			"error", messagesOf(lane.Deferred), lane.Name)
	default:
		add(admin.FaultUnknown, "this node knows no reason, and fires nothing on %s", lane.Name)
	}
	return all
}

// failureLasts returns how long a failure to publish explains that messages of a lane are overdue: where all of them
// wait for their next try, until that.
func failureLasts(lane *outlook.Lane) time.Duration {
	if lane.Deferred.N > 0 {
		return deferredLasts
	}
	return causeLasts
}

// messagesOf is a number of messages for a person.
func messagesOf(c outlook.Count) string {
	if c.N == 1 && !c.Estimated && !c.Unknown {
		return "1 message"
	}
	return amount(c) + " messages"
}

// whyParked says for which parts of a lane messages are parked.
func whyParked(lane *outlook.Lane) string {
	kind, all := "partition", outlook.Count{}
	if node.IsCallback(lane.Name) {
		kind = "host"
	}
	var names []string
	for _, p := range lane.Parked {
		all.Add(p.Waiting)
		names = append(names, p.Part)
	}
	parked := fmt.Sprintf("%s messages of %s are parked: %s", amount(all), lane.Name, kind)
	if len(names) == 1 {
		return fmt.Sprintf("%s %s does not answer", parked, names[0])
	}
	return fmt.Sprintf("%ss %s do not answer", parked, firstOf(names, 5))
}

// measure takes up how late messages came out.
func (l *lateness) measure(e node.Fired) {
	if l.minute.began.IsZero() {
		l.minute.began = time.Now()
	}
	for i := range e.Messages {
		message := &e.Messages[i]
		if l.firedOn == nil {
			l.firedOn = map[string]int{}
		}
		l.firedOn[message.Lane]++
		late := l.arrivals.Lateness(message, e.At)
		m := &l.minute
		m.fired++
		m.steps[step(late)]++
		if late > lateLimit {
			m.tooFar++
		}
		m.worst = max(m.worst, late)
	}
}

// step returns where a lateness counts: steps are of a fifth, from 10 ms on.
func step(late time.Duration) int {
	bound, i := 10*time.Millisecond, 0
	for ; late > bound && i < 63; i++ {
		bound = bound * 6 / 5
	}
	return i
}

// percentile returns about how late 99 of 100 messages were at most.
func (m *lateMinute) percentile() time.Duration {
	bound, sum := 10*time.Millisecond, 0
	for _, n := range m.steps {
		if sum += n; sum*100 >= m.fired*99 {
			break
		}
		bound = bound * 6 / 5
	}
	return min(bound, m.worst)
}

// tickLate tells how late messages came out in the last minute, if too many were late.
func (r *Reporter) tickLate(now time.Time) {
	l := &r.lateness
	if l.minute.began.IsZero() || now.Sub(l.minute.began) < storyInterval {
		return
	}
	m := l.minute
	l.minute = lateMinute{}
	var pace []metrics.Pace
	if l.pace != nil {
		pace = l.pace()
	}
	if m.tooFar >= lateLeast && m.tooFar*100 > m.fired*latePercent {
		if l.late.since.IsZero() {
			l.late.since = m.began
		}
		r.say(slog.LevelWarn, "messages come out late",
			slog.Int("fired", m.fired), slog.Int("late", m.tooFar), slog.String("later_than", lateLimit.String()),
			slog.String("p99", m.percentile().Round(time.Millisecond).String()),
			slog.String("worst", m.worst.Round(time.Millisecond).String()), slog.String("slowest_calls", slowest(pace)))
		return
	}
	if !l.late.since.IsZero() {
		r.say(slog.LevelInfo, "messages come out on time again", away(m.began.Sub(l.late.since)))
		l.late = story{}
	}
}

// slowest names the calls that took longest.
func slowest(pace []metrics.Pace) string {
	var names []string
	for _, p := range pace[:min(len(pace), 3)] {
		names = append(names, fmt.Sprintf("%s %s: %v", p.Port, p.Call, p.Mean.Round(100*time.Microsecond)))
	}
	return strings.Join(names, ", ")
}

// suspected says whose claims were reset, one line for each node: the first at once, and what follows within a second
// as one more.
func (r *Reporter) suspected(e node.Suspected) {
	r.counts.suspected += int64(len(e.Claims))
	byOwner := map[string][]node.Claim{}
	for _, claim := range e.Claims {
		owner := claim.ReadiedBy.String()
		byOwner[owner] = append(byOwner[owner], claim)
	}
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		claims := byOwner[owner]
		if !r.burst("suspected "+owner, owner, len(claims), 1, slog.LevelWarn, "suspected failures for more messages") {
			continue
		}
		of := "message " + claims[0].ID
		if len(claims) > 1 {
			of = fmt.Sprintf("%d messages", len(claims))
		}
		lanes := map[string]int{}
		first := claims[0].ReadiedAt
		for _, c := range claims {
			lanes[c.Lane]++
			if c.ReadiedAt.Before(first) {
				first = c.ReadiedAt
			}
		}
		var names []string
		for _, lane := range slices.Sorted(maps.Keys(lanes)) {
			names = append(names, fmt.Sprintf("%s: %d", lane, lanes[lane]))
		}
		attrs := []slog.Attr{slog.String("lanes", firstOf(names, 8)), slog.Time("claimed_at", first)}
		if len(claims) > 1 {
			attrs = append(attrs, slog.String("first_id", claims[0].ID))
		}
		r.say(slog.LevelWarn, fmt.Sprintf("suspected failure of %s for %s", r.nameOf(owner), of),
			append(attrs, slog.String("cause", r.whySuspected(owner)))...)
	}
}

// Names takes the names of nodes for people, by their ids.
func (r *Reporter) Names(names map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = names
}

// nameOf returns what a person calls a node.
func (r *Reporter) nameOf(id string) string {
	if name := r.names[id]; name != "" {
		return id + " on " + name
	}
	return id
}

// whySuspected returns why claims have expired, as far as this node can tell.
func (r *Reporter) whySuspected(owner string) string {
	store := r.outages[title(node.PortStore, "")]
	switch {
	case store != nil:
		return "the store was out of reach " + ago(time.Since(store.since)) + ", so that no node could tell it what " +
			"it had fired"
	case time.Since(r.lateness.storeBack) < r.quiet:
		return "the store was out of reach until " + rounded(time.Since(r.lateness.storeBack)).String() +
			" ago, so that no node could tell it what it had fired"
	case owner == r.lateness.self:
		return "this node itself was too slow, or stopped: it did not publish them within the hold time"
	default:
		return "that node has died, was stopped for longer than the hold time, or cannot reach the store"
	}
}

// waits returns what waits while something is out, by the last look at the store: on one lane, or on all if lane is "".
func (r *Reporter) waits(lane string) []slog.Attr {
	l := &r.lateness
	if l.seenAt.IsZero() {
		return nil
	}
	var overdue, minute, hour outlook.Count
	for i := range l.seen.Lanes {
		one := &l.seen.Lanes[i]
		if lane != "" && one.Name != lane {
			continue
		}
		for _, add := range []struct{ to, of *outlook.Count }{
			{&overdue, &one.Overdue},
			{&minute, &one.Within[0]},
			{&hour, &one.Within[2]},
		} {
			add.to.Add(*add.of)
		}
	}
	text := fmt.Sprintf("%s overdue, %s due within a minute, %s within an hour (as seen %v ago)",
		amount(overdue), amount(minute), amount(hour), rounded(time.Since(l.seenAt)))
	return []slog.Attr{slog.String("waits", text)}
}

// amount is a count for a person.
func amount(c outlook.Count) string {
	switch {
	case c.Unknown:
		return "an unknown number of"
	default:
		return c.String()
	}
}

// ago says since when something has been so.
func ago(d time.Duration) string { return fmt.Sprintf("since %v ago", rounded(d)) }

// rounded is a time as exact as a person wants it.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// firstOf joins the first few of a list.
func firstOf(list []string, most int) string {
	if more := len(list) - most; more > 0 {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}
