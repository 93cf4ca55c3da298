package node

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// givenUp is a message that will not be delivered, and of which a copy is to be kept: its dead letter.
type givenUp struct {
	failure

	letters string // the lane of the copy
	cut     int    // how much the copy is cut, since the store refuses a longer one
}

// givenUpBytes is the size of the messages whose copies wait for the store, at which nothing more is published.
const givenUpBytes = 2 * batchBytes

// expireCalls ends messages whose time has passed.
func (p *publisher) expireCalls(ended []*holding) {
	failed := make([]failure, len(ended))
	for i, h := range ended {
		failed[i] = failure{holding: h, err: errExpired}
	}
	p.giveUp(failed)
}

// giveUp ends messages that will not be delivered. A copy of each goes to the dead letters of its lane, if there are
// any: through the store, like every other message, because they may be a lane of any kind, and away. Once the store
// has it, the message is settled; a series goes on. That is for the settler: a receiver that is away for long has as
// many messages given up as come, each by a request of its own, and a call of the store for each would leave no
// connection to claims.
func (p *publisher) giveUp(failed []failure) {
	for _, f := range failed {
		if letters := p.deadLettersOf(f.Lane); letters != "" {
			p.settler.addGivenUp(givenUp{failure: f, letters: letters})
		} else {
			p.settler.ended(&f, "")
		}
	}
}

// ended settles a message that was given up, whose copy is on a lane, or nowhere.
func (s *settler) ended(f *failure, letters string) {
	if errors.Is(f.err, errExpired) && letters == "" {
		s.observe(Lapsed{Messages: []Message{f.Message}})
	} else {
		s.observe(GaveUp{Message: f.Message, Err: f.err, DeadLetter: letters, Took: f.took})
	}
	s.add([]Next{f.next})
}

// addGivenUp takes over a message of which a copy is to be kept.
func (s *settler) addGivenUp(g givenUp) {
	s.mu.Lock()
	s.over = append(s.over, g)
	s.overBytes += g.Size()
	s.mu.Unlock()
	s.bell.Ring()
}

// toKeep returns the next messages of which copies are to be kept, as many as fit into bounds, and one at least. Only
// kept takes them out.
func (s *settler) toKeep(messages, bytes int) []givenUp {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < min(len(s.over), messages) && (n == 0 || size+s.over[n].Size() <= bytes) {
		size += s.over[n].Size()
		n++
	}
	return slices.Clone(s.over[:n])
}

// kept takes out the first n messages, except for those that are left: they are tried again.
func (s *settler) kept(n int, left []givenUp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		s.overBytes -= s.over[i].Size()
	}
	clear(s.over[:n]) // or what it holds would be held for as long as there is more
	s.over = s.over[n:]
	for _, g := range left {
		s.over, s.overBytes = append(s.over, g), s.overBytes+g.Size()
	}
	if len(s.over) == 0 {
		s.over = nil
	}
}

// keep stores copies of what was given up, in one call, and settles that. It reports whether the call went well. A node
// that dies between the two leaves the message to another, which may find it refused once more: the copy's id follows
// from its incarnation, so that the store covers the second copy while the first one waits.
//
// What the store does not answer about is put off, and its receiver is asked again: the copy may be stored, and come
// out at once, and each repeat of the call would store another one. So is a message whose claim has ended: another node
// may have given it up, and its copy may have come out. If the call before has failed as well, all that waits is put
// off: the store keeps nothing at present, and where too much waits, all other callbacks would wait with it.
//
// The next call has half as many messages if the store has not answered, or has refused one: that may be the fault of
// one of them, and with that one alone no other waits for it.
func (s *settler) keep(ctx context.Context) bool {
	if s.clock.Mono() < s.keepRetry {
		return false
	}
	part := s.toKeep(s.keeps, batchBytes)
	n := len(part)
	if n == 0 {
		return false
	}
	failedBefore := s.takes.attempts > 0
	left, err := s.keepPart(ctx, s.lasting(part))
	if err == nil && len(left) == 0 {
		s.keeps = min(2*s.keeps, s.config.batch())
	} else {
		s.keeps = max(1, n/2)
	}
	if err == nil {
		s.kept(n, left)
		return true
	}
	s.keepRetry = s.clock.Mono() + s.takes.failed("take", err)
	s.kept(n, nil)
	if failedBefore {
		rest := s.toKeep(math.MaxInt, math.MaxInt)
		left = append(left, rest...)
		s.kept(len(rest), nil)
	}
	for i := range left {
		s.keepLater(&left[i].failure)
	}
	return false
}

// lasting returns the messages whose claims last, and puts the others off.
func (s *settler) lasting(part []givenUp) []givenUp {
	now := s.clock.Mono()
	return slices.DeleteFunc(part, func(g givenUp) bool {
		over := now-g.since >= s.pace.hold
		if over {
			s.keepLater(&g.failure)
		}
		return over
	})
}

// keepPart stores copies of what was given up, in one call, and returns what it has not settled. A copy that the store
// can never keep is cut, more and more; what is refused even then is kept by nobody, as if there were no dead letters.
func (s *settler) keepPart(ctx context.Context, part []givenUp) (left []givenUp, err error) {
	request := TakeRequest{Node: s.id, Hold: s.config.HoldTime}
	fitting := part[:0:0]
	for _, g := range part {
		m, fits := s.letter(&g)
		if !fits {
			s.ended(&g.failure, "")
			continue
		}
		fitting = append(fitting, g)
		request.Items = append(request.Items, Item{From: NoPlace, Action: Schedule, Message: m, Beside: g.Ref()})
	}
	if len(fitting) == 0 {
		return nil, nil
	}
	asked, _ := s.known()
	result, err := s.store.Take(context.WithoutCancel(ctx), request)
	s.changed()
	if err != nil {
		return fitting, err //nolint:wrapcheck // the caller says what it was
	}
	s.takes.succeeded()
	s.follow(asked, result.State)
	assert(len(result.Results) == result.Taken, "take: %d results for %d messages", len(result.Results), result.Taken)
	var kept []Message
	for i := range result.Results {
		switch result.Results[i].Outcome {
		case Scheduled:
			kept = append(kept, request.Items[i].Message)
			s.ended(&fitting[i].failure, fitting[i].letters)
		case Duplicate:
			s.ended(&fitting[i].failure, fitting[i].letters)
		default: // nothing is taken in at present
			s.keepLater(&fitting[i].failure)
		}
	}
	if len(kept) > 0 {
		s.observe(Enqueued{Messages: kept})
		s.announce(kept)
	}
	if left = fitting[result.Taken:]; len(left) > 0 {
		assert(result.Refusal != "", "take: %d of %d taken, and no refusal", result.Taken, len(fitting))
		left[0].cut++
	}
	return left, nil
}

// keepLater puts a message off of which no copy is kept at present: for as long as it is overdue, since its receiver is
// asked again, which has said that it wants none of it.
func (s *settler) keepLater(f *failure) {
	now := s.clock.Now()
	wait := min(max(now.Sub(f.Deadline), permanentRetryMin), permanentRetryMax)
	retry := noSooner(&f.Message, now.Add(s.config.Lookahead+jittered(s.random, wait, 20)))
	s.observe(Unpublished{Messages: []Message{f.Message}, Err: f.err, Retry: retry, Took: f.took, Permanent: true})
	s.putOff([]Release{{Claim: f.Claim, Due: retry, Unsent: errors.Is(f.err, errExpired)}})
}

// letter returns the copy of a message that is to be kept, cut until it is no larger than a message may be. It reports
// whether there is one.
func (s *settler) letter(g *givenUp) (Message, bool) {
	copied := s.wholeLetter(&g.failure, g.letters)
	for ; g.cut <= cuts; g.cut++ {
		m := copied
		short := cutRecord(record(&copied), g.cut, max(0, copied.Size()-MaxMessageBytes))
		if m.Key, m.Value, m.Headers = short.Key, short.Value, short.Headers; m.Size() <= MaxMessageBytes {
			return m, true
		}
	}
	return Message{}, false
}

// wholeLetter returns the copy of a message for a lane of dead letters, whatever its size.
func (s *settler) wholeLetter(f *failure, letters string) Message {
	r := deadLetterOfMessage(&f.Message, f.err, letters)
	if !s.goesAnyway(&f.Message) && !IsCallback(letters) {
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
		ID:          internalID("callback/" + f.Incarnation.String()),
		Lane:        letters,
		Incarnation: newUUID(s.random),
		Deadline:    s.clock.Now().UTC().Truncate(time.Microsecond),
		Line:        s.config.line(letters, r.Key),
		Origin:      f.Origin,
		Key:         r.Key, Value: r.Value, Headers: r.Headers,
	}
}
