package node

import (
	"context"
	"slices"
	"strconv"
	"time"
)

const (
	// A callback that failed is tried again after callRetryMin, and after twice as long each time, up to callRetryMax,
	// give or take a fifth. The sink says when that is over.
	callRetryMin, callRetryMax = time.Second, 5 * time.Minute

	// One that was not tried, because its host has enough to do or does not answer, waits as long as it is overdue
	// already, from retryMin to this, and at least as long as the sink says. So does one of each line that has not its
	// turn (standBack).
	unsentRetryMax = 30 * time.Second
)

// lapsed returns the instant up to which a deadline counts as due. A callback has no timing advance: what that makes up
// for is the way to Kafka.
func (f *firer) lapsed() time.Time {
	if f.pace.calls {
		return f.clock.Now()
	}
	return f.core.lapsed()
}

// announced has the claimer look at once for messages that were stored, if they are due: on callback lanes enqueue
// claims none itself.
func (f *firer) announced(stored []Message) {
	until := f.lapsed().Add(f.config.Lookahead)
	var lanes []string
	for i := range stored {
		if IsCallback(stored[i].Lane) && !stored[i].Deadline.After(until) {
			lanes = append(lanes, stored[i].Lane)
		}
	}
	f.look(lanes)
}

// call hands messages to the sink of callbacks. What it says of one is about that one: nothing else is put off,
// doubted or given back for it, whatever it is. But what belongs to a host that does not answer is parked, so that it
// is not in the way of others: on a lane without lines, since there may be as many of these as there are messages.
func (p *publisher) call(ctx context.Context, held []*holding) {
	records := make([]Record, len(held))
	for i := range held {
		records[i] = called(&held[i].Ready)
	}
	assert(len(held) == 1, "%d callbacks at once", len(held))
	begins := func() bool { return p.schedule.begins(held[0]) }
	errs, _, took := p.publish(WithBegins(ctx, begins), records, nil)
	var fired []Message
	var settled []Next
	var again, over, parked []failure
	var unsent []*holding
	for i, h := range held {
		kind, failed := KindOf(errs[i]), failure{holding: h, err: errs[i], took: took}
		if kind.Untried() {
			unsent = append(unsent, h)
		}
		switch kind {
		case Acknowledged:
			fired = append(fired, h.Message)
			settled = append(settled, h.next)
		case RecordRejected:
			over = append(over, failed)
		case PartUnavailable:
			if p.config.Callbacks.lane(h.Lane).Ordered {
				again = append(again, failed)
			} else {
				parked = append(parked, failed)
			}
		case OutcomeUnknown, TopicMissing, NotSent, MessageGone:
			again = append(again, failed)
		}
		if h.Part != "" && !unavailable(errs[i]) && !kind.Untried() {
			p.partWorks(h.Where()) // it has answered, whatever it said
		}
	}
	p.spare(unsent)
	p.acknowledged(fired, took)
	p.settler.add(settled)
	left := p.park(ctx, parked)
	p.putAside(without(holdings(parked), holdings(left)), parked)
	p.callLater(append(again, left...))
	p.giveUp(over)
	p.probeBehind(holdings(over))
}

// putAside says which messages were parked, and why.
func (p *publisher) putAside(aside []*holding, parked []failure) {
	if len(aside) > 0 {
		p.observe(Unpublished{
			Messages: messages(aside), Err: parked[0].err, Retry: p.clock.Now(), Took: parked[0].took,
		})
	}
}

// called returns what the sink of callbacks is handed for a message: the record with what the request is to tell of it.
func called(m *Ready) Record {
	r := record(&m.Message)
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h Header) bool { return IsRequest(h.Name) })
	r.Headers = append(r.Headers,
		Header{HeaderID, []byte(m.ID)},
		Header{HeaderDeadline, []byte(headerTime(m.Deadline))},
		Header{HeaderAttempt, strconv.AppendInt(nil, int64(m.Attempts), 10)},
	)
	return r
}

// callLater puts messages off: each as long as its own attempts, or its own host, say.
func (p *publisher) callLater(failed []failure) {
	if len(failed) == 0 {
		return
	}
	now := p.clock.Now()
	earliest := time.Time{}
	var messages []Message
	var releases []Release
	var took time.Duration
	for _, f := range failed {
		wait := callBackoff(f.Attempts)
		if KindOf(f.err).Untried() {
			wait = min(max(now.Sub(f.Deadline), retryMin), unsentRetryMax)
		}
		wait = jittered(p.drawn, wait, 20)
		wait = max(wait, FailureOf(f.err).After)
		// It is claimed a lookahead before that, and tried at once, since its deadline has passed.
		retry := noSooner(&f.Message, now.Add(p.config.Lookahead+wait))
		if earliest.IsZero() || retry.Before(earliest) {
			earliest = retry
		}
		took = max(took, f.took)
		messages = append(messages, f.Message)
		releases = append(releases, Release{
			Claim: f.Claim, Part: p.partOf(&f), Due: retry, Unsent: KindOf(f.err).Untried(),
		})
	}
	p.observe(Unpublished{Messages: messages, Err: failed[0].err, Retry: earliest, Took: took})
	p.settler.putOff(releases)
}

// partOf returns the name of the part on which a callback waits that is put off: that of its host, if that has let it
// run into its time limit, and where it was before, if nothing was learned of its host.
func (p *publisher) partOf(f *failure) string {
	switch at := f.part(); {
	case KindOf(f.err).Untried() && !unavailable(f.err):
		return f.Part
	case unavailable(f.err) && !p.config.Callbacks.lane(f.Lane).Ordered && p.partFails(at, at == f.Where()):
		return at.Name
	}
	return ""
}

// callBackoff returns how long to wait after that many attempts.
func callBackoff(attempts int) time.Duration {
	const doublings = 9 // beyond which it is callRetryMax anyway
	return min(callRetryMax, callRetryMin<<min(max(attempts-1, 0), doublings))
}
