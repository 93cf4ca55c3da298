package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// publisher publishes batches of what is due on the schedule, and hands what was acknowledged to the settler. A node
// has several, which work side by side.
type publisher struct {
	*firer

	releases link
	bell     Bell
	drawn    *rand.ChaCha8 // for the incarnations of next occurrences
}

const (
	// The wait before a message that could not be published falls due again is as long as it is overdue
	// already, which doubles it each time without anything to remember, within these bounds. They are
	// the wider ones where a topic rejects the message, so that somebody has to act first. A topic that is missing is
	// looked for by the lane's own back-off: its messages come out soon after it is back.
	retryMin, retryMax                   = 100 * time.Millisecond, time.Second
	permanentRetryMin, permanentRetryMax = time.Second, 5 * time.Minute
)

func newPublisher(f *firer, random *rand.ChaCha8) *publisher {
	return &publisher{
		firer:    f,
		releases: f.link(Fire, PortStore, random),
		bell:     f.clock.Bell(),
		drawn:    child(random),
	}
}

// run publishes until ctx is done.
func (p *publisher) run(ctx context.Context) {
	for ctx.Err() == nil {
		if p.publishDue(ctx) {
			continue
		}
		p.bell.Sleep(ctx, p.idle())
		p.schedule.awake(p)
	}
	p.settler.leave()
}

// publishDue publishes a batch of what is due on the schedule, and reports whether there was any. What is too old for
// that is given back second: it takes as long as the store likes, which would make the rest old.
func (p *publisher) publishDue(ctx context.Context) bool {
	if p.settler.full() || p.pace.calls && !p.confirmed() {
		return false
	}
	messages, bytes := p.batches.get()
	b := p.schedule.take(p.lapsed(), min(messages, p.pace.batch), bytes)
	if len(b.holdings) == 0 {
		return false
	}
	p.schedule.busy(p)
	p.fed()
	young, old := p.byAge(b.holdings)
	young, unread := p.settlements(young)
	young, ended := p.inTime(young)
	young, shut := p.schedule.whileOpen(young) // nothing comes between this look and the publish
	p.spare(without(b.holdings, young))
	verdicts := map[Part]error{}
	switch {
	case len(young) == 0:
	case p.pace.calls:
		p.call(ctx, young) // what becomes of it is no verdict on its lane
	default:
		verdicts = p.publishBatch(ctx, young)
	}
	p.schedule.done(b, func(at Part) (failed, known bool) {
		err, known := verdicts[at]
		// What is parked is in nobody's way any more.
		return err != nil, known && !KindOf(err).Untried() && !unavailable(err)
	})
	p.expire(ctx, ended)
	p.probeBehind(ended)
	p.putOff(ctx, unread)
	if len(shut) > 0 {
		p.putBack(ctx, shut, true)
	}
	if len(old) > 0 {
		p.observe(Abandoned{Claims: claims(old)})
		p.putBack(ctx, old, true)
	}
	return true
}

// spare has messages that were not sent leave their places in the paces of their lanes to others, which may wait in the
// store.
func (p *publisher) spare(unsent []*holding) {
	if p.schedule.spare(unsent) {
		p.fed()
	}
}

// without returns those of some holdings that are not among others, which are in the same order.
func without(held, others []*holding) (rest []*holding) {
	for _, h := range held {
		if len(others) > 0 && others[0] == h {
			others = others[1:]
		} else {
			rest = append(rest, h)
		}
	}
	return rest
}

// inTime parts the holdings that may still be published, by this node's clock, from those whose time has passed.
func (p *publisher) inTime(young []*holding) (due, ended []*holding) {
	now := p.clock.Now()
	for _, h := range young {
		if h.Expired(now) {
			ended = append(ended, h)
		} else {
			due = append(due, h)
		}
	}
	return due, ended
}

// errExpired is the cause of a message that was not published since its time has passed.
var errExpired = fmt.Errorf("%w: it was not to be published any more", RecordRejected)

// expire ends messages whose time has passed: each is deleted, once its copy is on the dead-letter topic, if there is
// one.
func (p *publisher) expire(ctx context.Context, ended []*holding) {
	if len(ended) == 0 {
		return
	}
	if p.pace.calls {
		p.expireCalls(ended)
		return
	}
	var failed []failure
	var gone []Message
	var settled []Next
	for _, h := range ended {
		if p.deadLettersOf(h.Lane) != "" {
			failed = append(failed, failure{holding: h, err: errExpired})
			continue
		}
		gone = append(gone, h.Message)
		settled = append(settled, h.next)
	}
	if len(gone) > 0 {
		p.observe(Lapsed{Messages: gone})
	}
	p.settler.add(settled)
	failed, old := p.uncopied(p.deadLetter(ctx, failed))
	p.leave(ctx, failed, p.unreached(failed))
	if len(old) > 0 {
		p.observe(Abandoned{Claims: claims(old)})
		p.putBack(ctx, old, true)
	}
}

// uncopied parts the messages whose time has passed and whose copies were not published from those of which nothing
// was tried, because their claims are too old by now.
func (p *publisher) uncopied(left []failure) (failed []failure, old []*holding) {
	for _, f := range left {
		if f.letter == nil && !p.publishable(f.since) {
			old = append(old, f.holding)
		} else {
			failed = append(failed, f)
		}
	}
	return failed, old
}

// unreached returns the lanes that this node stands back from because it could not publish the copies of messages
// whose time has passed. That a dead-letter topic does not answer says nothing of the lanes whose copies it takes; but
// a node that reaches no broker must leave these messages to its peers. It would claim each of them again as soon as it
// falls due, and they might never come by it.
func (p *publisher) unreached(failed []failure) map[string]bool {
	back := map[string]bool{}
	if p.reaches() {
		return back
	}
	for _, f := range failed {
		if _, settled := back[f.Lane]; !settled && !f.reached() {
			back[f.Lane] = p.laneFails(f.Lane, f.cause())
		}
	}
	return back
}

// settlements says of each message what is settled once it is published, and settles occurrences of series that were
// missed and are not to be published by the policies of their series. It returns the others. Those that nobody can tell
// about are unread, and to be put off: their series was written by a later release, or names a time zone that this
// machine does not have, and another node may know better. That waits until the others are published: it takes as long
// as the store likes, which would make them old.
func (p *publisher) settlements(young []*holding) (due []*holding, unread []failure) {
	var missed []Next
	for _, h := range young {
		h.next = Next{Of: h.Ref()}
		if !h.Recurs() {
			due = append(due, h)
			continue
		}
		next, over, err := recur(&h.Ready, p.clock.Now(), p.config.Limits.MaxMissed, newUUID(p.drawn))
		switch h.next = next; {
		case err != nil:
			unread = append(unread, failure{holding: h, err: err})
		case over:
			missed = append(missed, next)
		default:
			due = append(due, h)
		}
	}
	p.settler.add(missed)
	return due, unread
}

// byAge parts the holdings that are young enough to be published from the others (deviation D3).
//
//	A claims x, and is stopped            (a pause, a slow store)
//	                  hold time passes; B resets A's claim, claims x, publishes x
//	A goes on, and must not publish x
//
// The age is measured by the node's own monotonic clock, which no step of a wall clock moves. A stop between
// this look and the publish cannot be excluded: then x fires twice.
func (p *publisher) byAge(due []*holding) (young, old []*holding) {
	now := p.clock.Mono() // one look for all: nothing happens in between
	for _, h := range due {
		if p.youngAt(now, h.since) {
			young = append(young, h)
		} else {
			old = append(old, h)
		}
	}
	return young, old
}

// publishBatch publishes messages. What is acknowledged is to be deleted; what is not is given back. It returns, for
// each lane and each part of which it has learned something, whether it works: nil, or why all of its messages failed.
func (p *publisher) publishBatch(ctx context.Context, held []*holding) map[Part]error {
	records, next := make([]Record, len(held)), make([]Next, len(held))
	for i := range held {
		records[i], next[i] = record(&held[i].Message), held[i].next
	}
	errs, how, took := p.publish(ctx, records, next)
	fired := make([]Message, 0, len(held))
	settled := make([]Next, 0, len(held))
	var failed []failure
	var unsent []*holding
	verdicts := map[Part]error{}
	for i, h := range held {
		kind := KindOf(errs[i])
		if kind.Untried() {
			unsent = append(unsent, h)
		}
		switch kind {
		case MessageGone:
			continue // there is nothing to give back, and nothing is learned of the lane
		case Acknowledged:
			fired = append(fired, h.Message)
			settled = append(settled, h.next)
			how[len(settled)-1] = how[i] // as settle wants them: of those that were published
			verdicts[h.Where()], verdicts[Part{Lane: h.Lane}] = nil, nil
			continue
		case RecordRejected:
			verdicts[h.Where()], verdicts[Part{Lane: h.Lane}] = nil, nil // they have answered
		case OutcomeUnknown, TopicMissing, PartUnavailable, NotSent:
			if before, known := verdicts[h.Where()]; !known || KindOf(before).Untried() {
				verdicts[h.Where()] = errs[i] // of a partition that was tried, if there is one
			}
		}
		failed = append(failed, failure{holding: h, err: errs[i], took: took})
	}
	p.spare(unsent)
	p.acknowledged(fired, took)
	p.settle(settled, how)
	p.settleLanes(ctx, held, p.deadLetter(ctx, failed), verdicts)
	return verdicts
}

// settleLanes puts off the messages that could not be published, and stands back from the lanes that have failed
// repeatedly: everything that this node holds there is given back. See laneFails for why.
//
// From the second failure in a row on, their messages are not put off at all. How long a message is put off is told by
// this node's clock, and compared with that of whoever claims it next: nodes that are cut off, and whose clocks are
// ahead, would otherwise pass it to each other, and a healthy one that is behind come too late each time.
//
// What belongs to a part that does not answer is parked there (park). What was not sent for want of time or of a
// connection is given back as it is: it keeps its place in the order of its lane.
func (p *publisher) settleLanes(
	ctx context.Context, held []*holding, failed []failure, verdicts map[Part]error,
) {
	settled := map[Part]bool{}
	back := map[string]bool{} // lanes that this node stands back from
	settle := func(at Part) {
		err, known := verdicts[at]
		switch {
		case !known || settled[at]: // its messages were gone, or no verdict is about it
		case err == nil && at.Name != "":
			p.partWorks(at)
		case err == nil:
			p.laneWorks(at.Lane)
		case at.Name != "" && KindOf(err).Untried() && !unavailable(err):
			p.partUnsent(at)
		case at.Name == "":
			back[at.Lane] = p.laneFails(at.Lane, err)
		}
		settled[at] = true
	}
	for _, h := range held {
		settle(Part{Lane: h.Lane})
		settle(h.Where())
	}
	p.leave(ctx, failed, back)
}

// leave puts off messages that could not be published, except for those that it parks, and for those of the lanes that
// this node stands back from: these are given back, with everything that it holds there. But where some part does not
// answer, what is held is tried first: it costs nobody time, and may belong to another part.
func (p *publisher) leave(ctx context.Context, failed []failure, back map[string]bool) {
	var off, parked []failure
	var idle, unknown []*holding
	var cause error
	var took time.Duration
	mute := map[string]bool{} // lanes with parts that do not answer
	for _, f := range failed {
		mute[f.Lane] = mute[f.Lane] || unavailable(f.err)
		switch {
		case f.parks():
			parked = append(parked, f)
		case KindOf(f.err).Untried():
			idle = append(idle, f.holding)
		case !back[f.Lane]:
			off = append(off, f)
			continue
		case f.unsent():
			idle = append(idle, f.holding)
		default:
			unknown = append(unknown, f.holding)
		}
		cause, took = f.cause(), max(took, f.took)
	}
	left := p.park(ctx, parked)
	p.putOff(ctx, append(off, left...))
	aside := without(holdings(parked), holdings(left))
	if len(aside)+len(unknown)+len(idle) == 0 {
		return
	}
	p.observe(Unpublished{
		Messages: slices.Concat(messages(aside), messages(unknown), messages(idle)), Err: cause,
		Retry: p.clock.Now(), Took: took, Permanent: KindOf(cause).Permanent(),
	})
	p.putBack(ctx, unknown, false)
	for _, l := range p.schedule.names() {
		if back[l] && !mute[l] {
			idle = append(idle, p.schedule.clearLane(l)...)
		}
	}
	p.putBack(ctx, idle, true)
}

// holdings returns what failed.
func holdings(failed []failure) []*holding {
	held := make([]*holding, len(failed))
	for i := range failed {
		held[i] = failed[i].holding
	}
	return held
}

// putOff gives messages back to the store that could not be published, to fall due again later, so that they are
// not in the way of others that can.
func (p *publisher) putOff(ctx context.Context, failed []failure) {
	now, lapsed := p.clock.Now(), p.lapsed()
	for _, rejected := range []bool{false, true} {
		var messages []Message
		var releases []Release
		var cause error
		var took time.Duration
		least, most := retryMin, retryMax
		if rejected {
			least, most = permanentRetryMin, permanentRetryMax
		}
		earliest := lapsed.Add(p.config.Lookahead + most)
		for _, f := range failed {
			if (KindOf(f.err) == RecordRejected) != rejected {
				continue
			}
			if cause == nil {
				cause = f.cause()
			}
			// It is claimed a lookahead and the timing advance before that, and published at once, since its deadline
			// has passed.
			longest := most
			if unavailable(f.err) { // there are too many parts to park it
				longest = unsentRetryMax
			}
			wait := p.config.Lookahead + min(max(now.Sub(f.Deadline), least), longest)
			retry := noSooner(&f.Message, lapsed.Add(wait))
			if retry.Before(earliest) {
				earliest = retry
			}
			took = max(took, f.took)
			messages = append(messages, f.Message)
			releases = append(releases, Release{Claim: f.Claim, Due: retry, Unsent: f.unsent()})
		}
		if len(messages) > 0 {
			p.observe(Unpublished{
				Messages: messages, Err: cause, Retry: earliest, Took: took, Permanent: KindOf(cause).Permanent(),
			})
			p.reset(ctx, releases)
		}
	}
}

// putBack gives claims back to the store as they are.
func (p *publisher) putBack(ctx context.Context, held []*holding, unsent bool) {
	releases := make([]Release, len(held))
	for i, h := range held {
		releases[i] = Release{Claim: h.Claim, Part: h.Part, Unsent: unsent}
	}
	p.reset(ctx, releases)
}

// reset gives claims back. Where each message is a publish of its own it leaves that to the settler: a call of the
// store for each would be as many at the same time as there are publishers.
func (p *publisher) reset(ctx context.Context, releases []Release) {
	if p.pace.calls {
		p.settler.putOff(releases)
		return
	}
	p.release(ctx, &p.releases, releases, p.settler.putOff)
}

// idle returns how long there is nothing to do: until something on the schedule falls due, or until there may be room
// for more fired messages.
func (p *publisher) idle() time.Duration {
	if p.settler.full() || p.pace.calls && !p.confirmed() {
		return p.config.PollInterval
	}
	return p.schedule.idle(p, p.lapsed(), p.config.PollInterval)
}

// settle ends messages that were published: in the store, unless they were settled together with that.
func (p *publisher) settle(fired []Next, how []Settled) {
	if p.settling == nil {
		p.settler.add(fired)
	} else if len(fired) > 0 {
		p.settler.report(fired, how[:len(fired)], false)
	}
}

// publish calls the sink and measures how long an acknowledgement takes. It returns how each message was settled, which
// is for settle.
func (p *publisher) publish(ctx context.Context, records []Record, next []Next) ([]error, []Settled, time.Duration) {
	started := p.clock.Mono()
	var errs []error
	how := make([]Settled, len(records))
	if p.settling == nil {
		errs = p.sink.Publish(context.WithoutCancel(ctx), records)
	} else {
		how, errs = p.settling.Fire(context.WithoutCancel(ctx), records, next)
	}
	assert(len(errs) == len(records), "publish: %d results for %d records", len(errs), len(records))
	assert(len(how) == len(records), "publish: %d settled of %d records", len(how), len(records))
	took := p.clock.Mono() - started
	well := true
	acknowledged := false
	for _, err := range errs {
		acknowledged = acknowledged || err == nil
		well = well && (err == nil || KindOf(err).Permanent())
	}
	if acknowledged && !p.pace.calls {
		p.advance.measured(took)
	}
	size := 0
	for i := range records {
		size += len(records[i].Key) + len(records[i].Value)
	}
	p.batches.took(took, well, len(records), size)
	return errs, how, took
}

// acknowledged says that messages were published: those that are copies of rejected records by another name.
func (p *publisher) acknowledged(messages []Message, took time.Duration) {
	fired, dead := messages, []Message(nil)
	if isDead := func(m Message) bool { return p.isDead[m.Lane] }; slices.ContainsFunc(messages, isDead) {
		fired = nil
		for i := range messages {
			if isDead(messages[i]) {
				dead = append(dead, messages[i])
			} else {
				fired = append(fired, messages[i])
			}
		}
	}
	if len(fired) > 0 {
		p.observe(Fired{Messages: fired, At: p.clock.Now(), Took: took})
	}
	if len(dead) > 0 {
		p.observe(DeadLettered{Messages: dead, Took: took})
	}
}

// record returns what is published for m.
func record(m *Message) Record {
	headers := m.Headers
	if m.Recurs() {
		headers = recurring(m)
	}
	return Record{Topic: m.Lane, Key: m.Key, Value: m.Value, Headers: headers}
}
