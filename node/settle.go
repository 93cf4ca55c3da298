package node

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// settler deletes from the store what the publishers have published. One of them serves all publishers: while one
// delete is under way the acknowledgements of the next batch add up, so that a node makes as few transactions as the
// store has time for.
type settler struct {
	*core

	pace    pace
	random  *rand.ChaCha8
	deletes link
	resets  link
	takes   link
	bell    Bell

	// due is told of occurrences that wait now, and moved of what is settled.
	due   func([]Next)
	moved func([]Ref)

	// deleteRetry, giveRetry and keepRetry are when to call the store next after it has failed, monotonic: to delete,
	// to give back, and to keep copies, of keeps messages at most. Each is of its own: a row that somebody has locked
	// makes deletes fail for as long, and what was put off is not to wait for that.
	deleteRetry, giveRetry, keepRetry time.Duration
	keeps                             int

	// sizes bounds a call that settles or gives back.
	sizes ration

	// mu guards what follows.
	mu sync.Mutex

	// fired are the messages that were acknowledged and the store still has, with what follows of those that recur. An
	// acknowledged publish of an incarnation justifies its delete forever.
	fired undone[Next]

	// off are claims on callbacks that were put off. They are given back together for the same reason as deletes: each
	// request fails by itself, and the messages for a host that is away are as many as there are. And they are claims
	// on topics whose rows another session had locked when they were given back.
	off undone[Release]

	// over are callbacks that were given up, and of which copies are to be kept (giveup.go), and overBytes their size.
	over      []givenUp
	overBytes int

	// repeated says that a delete of some of them was tried and may have happened.
	repeated bool

	// publishing is how many publishers may still add to fired.
	publishing int
}

const (
	// undeletedBatches is how many batches of fired messages may wait for their delete, of claims to be given back, and
	// of messages whose copies are to be kept: with more, nothing is published, because each message fires again if
	// this node dies. What is being published when there are that many comes on top.
	undeletedBatches = 4

	// stopTries is how often a settler that stops tries to delete what was fired.
	stopTries = 3
)

func newSettler(c *core, pace pace, random *rand.ChaCha8) *settler {
	return &settler{
		core: c, pace: pace, random: random, bell: c.clock.Bell(), publishing: pace.publishers,
		deletes: c.link(Settle, PortStore, random), resets: c.link(Settle, PortStore, random),
		takes: c.link(Settle, PortStore, random), keeps: c.config.batch(),
		sizes: ration{limit: c.config.StoreTimeout(), most: c.config.batch()},
	}
}

// run settles until ctx is done and the last publisher has returned, and then what is left.
func (s *settler) run(ctx context.Context) {
	for ctx.Err() == nil || s.awaits() {
		if s.round(ctx) {
			continue
		}
		waiting := ctx
		if ctx.Err() != nil {
			waiting = context.WithoutCancel(ctx) // for the last publisher
		}
		s.bell.Sleep(waiting, s.idle())
	}
	for range stopTries {
		s.deleteRetry, s.giveRetry, s.keepRetry = 0, 0, 0
		s.mu.Lock()
		s.fired.unblock()
		s.off.unblock()
		s.mu.Unlock()
		for s.round(ctx) {
		}
	}
	s.mu.Lock()
	fired, off := s.fired.len(), s.off.len()
	s.mu.Unlock()
	if fired+off+s.unkept() > 0 {
		s.observe(LeftBehind{Fired: fired, Claims: off + s.unkept()})
	}
}

// round makes one call of each kind, if there is something to do: as long as more comes during each call of one kind,
// the others would wait. It reports whether there may be more to do at once.
func (s *settler) round(ctx context.Context) bool {
	kept := s.keep(ctx)
	deleted := s.delete(ctx)
	given := s.giveBack(ctx)
	return kept || deleted || given
}

// add takes over messages that were acknowledged.
func (s *settler) add(fired []Next) {
	if len(fired) == 0 {
		return
	}
	s.mu.Lock()
	s.fired.ready = append(s.fired.ready, fired...)
	s.mu.Unlock()
	s.bell.Ring()
}

// putOff takes over claims on messages that were put off.
func (s *settler) putOff(releases []Release) {
	s.mu.Lock()
	s.off.ready = append(s.off.ready, releases...)
	s.mu.Unlock()
	s.bell.Ring()
}

// full reports whether so many messages wait for their delete, to be given back, or for their copies to be kept, that
// nothing more is to be published. What another session has locked does not count: it would stop everything else.
func (s *settler) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := len(s.fired.ready) + len(s.off.ready) + len(s.over)
	return waiting >= undeletedBatches*s.config.batch() || s.overBytes >= givenUpBytes
}

// unkept returns of how many messages copies are to be kept.
func (s *settler) unkept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.over)
}

// leave is for a publisher that returns.
func (s *settler) leave() {
	s.mu.Lock()
	s.publishing--
	s.mu.Unlock()
	s.bell.Ring()
}

// awaits reports whether some publisher has not returned yet.
func (s *settler) awaits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publishing > 0
}

// idle returns how long there is nothing to do.
func (s *settler) idle() time.Duration {
	now := s.clock.Mono()
	s.mu.Lock()
	fired, off := s.fired.opens(now), s.off.opens(now)
	s.mu.Unlock()
	next := min(time.Hour, max(fired, s.deleteRetry-now), max(off, s.giveRetry-now))
	if s.unkept() > 0 {
		next = min(next, s.keepRetry-now)
	}
	return next
}

// delete deletes what was acknowledged, by incarnation, whoever holds the claim now (deviation D2). The two other ways
// are wrong:
//
//	by id:     A's delete of x takes effect and its reply is lost; the application, which has seen x, submits x
//	           again; A repeats the delete: the new x is gone.
//	by claim:  publishing x takes longer than the hold time; the claim is reset before each delete, which then
//	           finds nothing; x fires forever.
//
// A message that is missing was fired by a peer as well, or deleted by an earlier try.
//
// It deletes as many as fit into one call, and reports whether that went well.
func (s *settler) delete(ctx context.Context) bool {
	started := s.clock.Mono()
	if started < s.deleteRetry {
		return false
	}
	messages, _ := s.sizes.get()
	s.mu.Lock()
	part, repeated := s.fired.next(started, messages), s.repeated
	s.mu.Unlock()
	if len(part) == 0 {
		return false
	}
	settled, err := s.store.Settle(context.WithoutCancel(ctx), part)
	s.sizes.took(s.clock.Mono()-started, err == nil, len(part), 0)
	if err != nil {
		s.deleteRetry = s.clock.Mono() + s.deletes.failed("delete", err)
		s.mu.Lock()
		s.repeated = true
		s.mu.Unlock()
		return false
	}
	s.deletes.succeeded()
	assert(len(settled) == len(part), "settle: %d answers for %d", len(settled), len(part))
	promised := s.report(part, settled, repeated)
	// They come out: whoever claims one next is told so.
	if wait := s.release(ctx, &s.resets, promised, s.putOff); wait > 0 {
		s.giveRetry = s.clock.Mono() + wait
	}
	s.mu.Lock()
	dropped := s.fired.done(part, settled, s.clock.Mono(), s.random)
	s.repeated = s.repeated && s.fired.len() > 0
	s.mu.Unlock()
	if dropped > 0 {
		s.observe(LeftBehind{Fired: dropped})
	}
	return true
}

// report says what became of messages that were settled, and returns the claims on those that come out although they
// were to be passed over.
func (s *settler) report(part []Next, settled []Settled, repeated bool) (promised []Release) {
	var deleted, missing []Ref
	var recurred, passed []Next
	var locked []MessageID
	for i, next := range part {
		if next.PassesOver() && (settled[i] == Removed || settled[i] == Rearmed) {
			passed = append(passed, next)
		}
		switch settled[i] {
		case Removed:
			deleted = append(deleted, next.Of)
		case Rearmed:
			recurred = append(recurred, next)
		case Promised:
			promised = append(promised, Release{Claim: next.Missed, Unsent: true})
		case Busy: // it is settled later
			locked = append(locked, MessageID{next.Of.ID, next.Of.Lane})
		default:
			missing = append(missing, next.Of)
		}
	}
	if s.pace.calls { // nothing stands in a line elsewhere
		moved := slices.Clone(deleted)
		for i := range recurred {
			moved = append(moved, recurred[i].Of)
		}
		s.moved(moved)
	}
	if len(passed) > 0 {
		s.observe(PassedOver{Next: passed})
	}
	if len(deleted) > 0 {
		s.observe(Deleted{Refs: deleted})
	}
	if len(recurred) > 0 {
		s.observe(Recurred{Next: recurred})
		s.due(recurred)
	}
	if len(locked) > 0 {
		s.observe(RowsLocked{Messages: locked})
	}
	if len(missing) > 0 {
		s.observe(Missing{Refs: missing, Repeated: repeated})
	}
	return promised
}

// giveBack gives back what was put off, as much as fits into one call, and reports whether that went well. What the
// store does not take stays, and is tried again: a claim that has expired meanwhile is nobody's, and to give it back
// changes nothing.
func (s *settler) giveBack(ctx context.Context) bool {
	started := s.clock.Mono()
	if started < s.giveRetry {
		return false
	}
	messages, _ := s.sizes.get()
	s.mu.Lock()
	part := s.off.next(started, messages)
	s.mu.Unlock()
	if len(part) == 0 {
		return false
	}
	freed, err := s.store.Reset(context.WithoutCancel(ctx), part)
	s.sizes.took(s.clock.Mono()-started, err == nil, len(part), 0)
	if err != nil {
		s.giveRetry = s.clock.Mono() + s.resets.failed("reset", err)
		return false
	}
	s.resets.succeeded()
	s.released(part, freed)
	s.mu.Lock()
	dropped := s.off.done(part, freed, s.clock.Mono(), s.random)
	s.mu.Unlock()
	if dropped > 0 {
		s.observe(LeftBehind{Claims: dropped})
	}
	return true
}
