package node

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
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
// doubted or given back for it, whatever it is.
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
	var again, over []failure
	var unsent []*holding
	for i, h := range held {
		if silent(errs[i]) && !errors.Is(errs[i], ErrRejected) {
			unsent = append(unsent, h)
		}
		switch {
		case errs[i] == nil:
			fired = append(fired, h.Message)
			settled = append(settled, h.next)
		case errors.Is(errs[i], ErrRejected):
			over = append(over, failure{h, errs[i], took})
		default:
			again = append(again, failure{h, errs[i], took})
		}
	}
	p.spare(unsent)
	p.acknowledged(fired, took)
	p.settler.add(settled)
	p.callLater(again)
	p.giveUp(ctx, over)
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
		if silent(f.err) {
			wait = min(max(now.Sub(f.Deadline), retryMin), unsentRetryMax)
		}
		wait = jittered(p.drawn, wait, 20)
		if deferred, ok := errors.AsType[*DeferredError](f.err); ok {
			wait = max(wait, deferred.After)
		}
		// It is claimed a lookahead before that, and tried at once, since its deadline has passed.
		retry := noSooner(&f.Message, now.Add(p.config.Lookahead+wait))
		if earliest.IsZero() || retry.Before(earliest) {
			earliest = retry
		}
		took = max(took, f.took)
		messages = append(messages, f.Message)
		releases = append(releases, Release{Claim: f.Claim, Due: retry, Unsent: silent(f.err)})
	}
	p.observe(Unpublished{Messages: messages, Err: failed[0].err, Retry: earliest, Took: took})
	p.settler.putOff(releases)
}

// callBackoff returns how long to wait after that many attempts.
func callBackoff(attempts int) time.Duration {
	const doublings = 9 // beyond which it is callRetryMax anyway
	return min(callRetryMax, callRetryMin<<min(max(attempts-1, 0), doublings))
}

// expireCalls ends messages whose time has passed.
func (p *publisher) expireCalls(ctx context.Context, ended []*holding) {
	failed := make([]failure, len(ended))
	for i, h := range ended {
		failed[i] = failure{h, errExpired, 0}
	}
	p.giveUp(ctx, failed)
}

// giveUp ends messages that will not be delivered. A copy of each goes to the dead letters of its lane, if there are
// any: through the store, like every other message, because they may be a lane of any kind, and away. Once the store
// has it, the message is settled; a series goes on. A node that dies between the two leaves the message to another,
// which may find it refused once more: the copy's id follows from its incarnation, so that the store covers the
// second copy while the first one waits. If the store does not take it, the message is put off, and tried once more:
// for as long as it is overdue, since its receiver is asked again, which has said that it wants none of it.
func (p *publisher) giveUp(ctx context.Context, failed []failure) {
	var later []failure
	for _, f := range failed {
		letters := p.deadLettersOf(f.Lane)
		if letters != "" {
			kept, decided := p.keep(ctx, &f, letters)
			switch {
			case !decided:
				later = append(later, f)
				continue
			case !kept:
				letters = "" // as if there were none: nobody will find a copy there
			}
		}
		if errors.Is(f.err, errExpired) && letters == "" {
			p.observe(Lapsed{Messages: []Message{f.Message}})
		} else {
			p.observe(GaveUp{Message: f.Message, Err: f.err, DeadLetter: letters, Took: f.took})
		}
		p.settler.add([]Next{f.next})
	}
	for _, f := range later {
		now := p.clock.Now()
		wait := min(max(now.Sub(f.Deadline), permanentRetryMin), permanentRetryMax)
		retry := noSooner(&f.Message, now.Add(p.config.Lookahead+jittered(p.drawn, wait, 20)))
		p.observe(Unpublished{Messages: []Message{f.Message}, Err: f.err, Retry: retry, Took: f.took, Permanent: true})
		p.settler.putOff([]Release{{Claim: f.Claim, Due: retry, Unsent: errors.Is(f.err, errExpired)}})
	}
}

// keep stores the copy of a message as one that is due on the lane of dead letters, and reports whether the store has
// it; not decided where it has not answered, or takes nothing in. A copy that the store can never keep is cut, more and
// more; what is refused even then is kept by nobody.
func (p *publisher) keep(ctx context.Context, f *failure, letters string) (kept, decided bool) {
	copied := p.letter(f, letters)
	for cut := range cuts + 1 {
		short := cutRecord(record(&copied), cut, max(0, copied.Size()-MaxMessageBytes))
		m := copied
		m.Key, m.Value, m.Headers = short.Key, short.Value, short.Headers
		if m.Size() > MaxMessageBytes {
			continue
		}
		asked, _ := p.lineage.known()
		result, err := p.store.Take(context.WithoutCancel(ctx), TakeRequest{
			Node: p.id, Hold: p.config.HoldTime,
			Items: []Item{{From: NoPlace, Action: Schedule, Message: m, Beside: f.Ref()}},
		})
		p.changed()
		if err != nil {
			p.releases.failed("take", err)
			return false, false
		}
		p.releases.succeeded()
		p.follow(asked, result.State)
		if result.Refusal != "" {
			continue
		}
		assert(len(result.Results) == 1, "take: %d results for one message", len(result.Results))
		switch result.Results[0].Outcome {
		case Scheduled:
			p.observe(Enqueued{Messages: []Message{m}})
			p.announce([]Message{m})
			return true, true
		case Duplicate:
			return true, true
		default:
			return false, false // nothing is taken in at present
		}
	}
	return false, true
}

// letter returns the copy of a message that is to be kept on a lane of dead letters.
func (p *publisher) letter(f *failure, letters string) Message {
	r := deadLetterOfMessage(&f.Message, f.err, letters)
	if !p.goesAnyway(&f.Message) && !IsCallback(letters) {
		r.Headers = append(r.Headers, Header{HeaderTopic, []byte(f.Lane)})
	}
	if IsCallback(letters) { // which has a URL of its own
		for i, h := range r.Headers {
			if h.Name == HeaderURL {
				r.Headers[i].Name = HeaderSourceURL
			}
		}
		r.Headers = slices.DeleteFunc(r.Headers, func(h Header) bool { return h.Name == HeaderMethod })
	}
	return Message{
		ID:          uuid.NewSHA1(uuid.NameSpaceURL, []byte("chronos:callback/"+f.Incarnation.String())).String(),
		Lane:        letters,
		Incarnation: newUUID(p.drawn),
		Deadline:    p.clock.Now().UTC().Truncate(time.Microsecond),
		Line:        p.config.line(letters, r.Key),
		Origin:      f.Origin,
		Key:         r.Key, Value: r.Value, Headers: r.Headers,
	}
}
