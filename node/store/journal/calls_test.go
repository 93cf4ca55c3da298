package journal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim/check"
)

const (
	// callTimeout is the time limit of a request, and retryFor how long after its deadline a callback is tried.
	callTimeout = 2 * time.Second
	retryFor    = 5 * time.Second

	// wellAnswered is the longest time that a receiver takes which is well.
	wellAnswered = 50 * time.Millisecond
)

// receiver is what callbacks are made to. It does what it is asked at once, unless it is in a mood not to.
type receiver struct {
	world *engines
	hangs time.Time      // until when it does nothing
	done  map[string]int // how often it has done what a value asks
}

// caller is the sink of callbacks of a life. What the real one does beside its requests, it does not: hosts that stand
// back, and turns, have tests of their own.
type caller struct {
	world *engines
	gate  *gate
	young time.Duration // the greatest age at which a claim may still be published
}

var _ node.Sink = (*caller)(nil)

var (
	errBusy   = errors.New("the receiver has no time")
	errLost   = errors.New("the connection is lost")
	errRefuse = errors.New("410 Gone")
)

// Publish implements node.Sink. A process that is frozen goes on before it looks how old its claim is, and not between
// that and its request: so what it has found to be young before it was frozen is looked at once more.
func (c *caller) Publish(_ context.Context, records []node.Record) []error {
	began := time.Now()
	if err := c.gate.pass(); err != nil {
		return []error{err}
	}
	r := &records[0]
	claim := c.world.recorder.claimOf(c.gate, r, c.young)
	if time.Since(began) > 0 && (claim == nil || time.Since(claim.ReadiedAt) >= c.young) {
		return []error{&node.PublishError{Kind: node.NotSent}}
	}
	request := c.world.recorder.requests(c.gate, r, claim, c.young)
	err := c.verdict(r, c.ask(r, request))
	if node.KindOf(err) == node.RecordRejected {
		c.world.counts(func(t *tally) { t.givenUp++ })
	}
	if dead := c.gate.pass(); dead != nil {
		return []error{dead}
	}
	c.world.recorder.answered(request, err)
	return []error{err}
}

// verdict gives a callback up that has failed when the time is over for which it is tried.
func (c *caller) verdict(r *node.Record, err error) error {
	deadline, none := node.ParseDeadline([]byte(headerOf(r.Headers, node.HeaderDeadline)), node.EpochRejected)
	again := err != nil && node.KindOf(err) != node.RecordRejected
	if again && none == nil && !time.Now().Before(deadline.Add(retryFor)) {
		return &node.PublishError{Kind: node.RecordRejected, Part: node.FailureOf(err).Part, Err: err}
	}
	return err
}

// ask makes a request.
func (c *caller) ask(r *node.Record, request *request) error {
	w := c.world
	to := &w.receiver
	mood := 99
	if !w.healed.Load() {
		mood = w.intN(20)
	}
	w.mu.Lock()
	hangs := time.Until(to.hangs)
	if w.healed.Load() {
		hangs = 0 // as nothing goes wrong any more: one request would be made again while it hangs, and both be done
	}
	w.mu.Unlock()
	switch {
	case hangs > 0:
		did := make(chan struct{})
		w.later(hangs, func() {
			to.does(r, request)
			close(did)
		})
		select {
		case <-did:
			return nil
		case <-time.After(callTimeout):
			return &node.PublishError{Err: errLost}
		}
	case len(r.Value) > largest:
		return &node.PublishError{Kind: node.RecordRejected, Err: errRefuse, Status: 410, Answer: []byte("gone")}
	case mood == 0:
		return &node.PublishError{Kind: node.NotSent, After: w.between(0, time.Second)}
	case mood == 1:
		return &node.PublishError{Err: errBusy, After: w.between(0, 3*time.Second)}
	case mood == 2: // it does what it is asked, and the answer is lost
		to.does(r, request)
		return &node.PublishError{Err: errLost}
	case mood == 3: // it does it when nobody waits any more
		w.later(callTimeout+w.between(0, 3*time.Second), func() { to.does(r, request) })
		<-time.After(callTimeout)
		return &node.PublishError{Err: errLost}
	case mood == 4:
		w.mu.Lock()
		to.hangs = time.Now().Add(time.Duration(w.random.IntN(int(5 * time.Second))))
		w.mu.Unlock()
		return &node.PublishError{Err: errLost}
	}
	<-time.After(w.between(time.Millisecond, wellAnswered/2))
	to.does(r, request)
	<-time.After(w.between(time.Millisecond, wellAnswered/2))
	return nil
}

// later does something after a while, before the world ends.
func (w *engines) later(after time.Duration, do func()) {
	w.background.Go(func() {
		<-time.After(after)
		do()
	})
}

// does does what a request asks.
func (to *receiver) does(r *node.Record, request *request) {
	to.world.mu.Lock()
	to.done[string(r.Value)]++
	to.world.mu.Unlock()
	to.world.recorder.called(r, request)
}

// calls is what the recorder knows of callbacks: what lives have claimed of them, what the claims are of, and the
// requests that were made. No transaction tells of a request.
type calls struct {
	claims map[*gate][]claimed
	known  map[uuid.UUID]known
	made   map[uuid.UUID][]*request // by the incarnation

	tenures map[int32]int // how often somebody has come to own a partition
	pauses  int           // requests on a paused lane, by a claim from before
	lined   int           // others of the same key, when one was requested
}

// claimed is a claim of a life on a callback.
type claimed struct {
	node.Claim

	deadline time.Time
	tenure   int
}

// known is what an incarnation is of: the number of the submission, or of the occurrence, and the partition.
type known struct {
	number    int
	partition int32
}

// request is one that a life has made.
type request struct {
	life   *gate
	claim  claimed
	of     known
	number int
	good   bool // it was answered well, and the life has heard so
	back   bool // its claim was given back
}

func newCalls() calls {
	return calls{
		claims: map[*gate][]claimed{}, known: map[uuid.UUID]known{}, made: map[uuid.UUID][]*request{},
		tenures: map[int32]int{},
	}
}

// calledLane reports whether a lane is one of callbacks.
func calledLane(lane string) bool { return strings.HasPrefix(lane, node.CallbackPrefix) }

// noted notes what a life has claimed of callbacks. The caller has mu.
func (c *calls) noted(messages []node.Ready, life *gate) {
	for i := range messages {
		if m := &messages[i]; calledLane(m.Lane) {
			c.claims[life] = append(c.claims[life], claimed{
				m.Claim, m.Deadline, c.tenures[c.known[m.Incarnation].partition],
			})
		}
	}
}

// gaveBack notes that a life has given claims back.
func (j *recorder) gaveBack(releases []node.Release, done []node.Settled, life *gate) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range releases {
		for _, x := range j.calls.made[releases[i].Incarnation] {
			x.back = x.back || done[i] == node.Freed && x.claim.Claim == releases[i].Claim
		}
		if done[i] == node.Freed {
			j.released(&releases[i], life)
			j.calls.claims[life] = slices.DeleteFunc(j.calls.claims[life], func(c claimed) bool {
				return c.Claim == releases[i].Claim
			})
		}
	}
}

// claimOf returns the claim by which a life makes a request, of which it has made none yet; nil for none. A request
// names its message, and has the number of its submission and its deadline. A life may have two claims on it, since it
// forgets none when it loses the partition, and claims anew when it owns that again: they are used in their order.
func (j *recorder) claimOf(life *gate, r *node.Record, young time.Duration) *claimed {
	j.mu.Lock()
	defer j.mu.Unlock()
	number := j.identify(r.Headers)
	deadline, _ := node.ParseDeadline([]byte(headerOf(r.Headers, node.HeaderDeadline)), node.EpochRejected)
	found := -1
	for i, c := range j.calls.claims[life] {
		if c.ID != headerOf(r.Headers, node.HeaderID) || c.Lane != r.Topic ||
			j.calls.known[c.Incarnation].number != number || !c.deadline.Equal(deadline) {
			continue
		}
		if found = i; time.Since(c.ReadiedAt) <= young {
			break
		}
	}
	if found < 0 {
		return nil
	}
	c := j.calls.claims[life][found]
	j.calls.claims[life] = slices.Delete(j.calls.claims[life], found, found+1)
	return &c
}

// requests tells that a life makes a request, and looks whether it may: under a claim of its own (S3), which is young
// (S13) and was made before the lane was paused (S25); and not while the claim holds by which it was made before, by
// the same owner, who has heard that it was done (S5).
func (j *recorder) requests(life *gate, r *node.Record, claim *claimed, young time.Duration) *request {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := &request{life: life, number: j.identify(r.Headers)}
	if claim == nil {
		j.world.Errorf("S3: %s is requested, and %s has no claim on it", headerOf(r.Headers, node.HeaderID), life.name)
		return x
	}
	x.claim, x.of = *claim, j.calls.known[claim.Incarnation]
	if age := time.Since(claim.ReadiedAt); age > young {
		j.world.Errorf("S13: %s is requested by %s under a claim that is %v old", claim.ID, life.name, age)
	}
	since := j.pauses.since[r.Topic]
	if since != nil && !since[x.of.partition].IsZero() {
		if j.calls.pauses++; claim.ReadiedAt.After(since[x.of.partition]) {
			j.world.Errorf("S25: %s is requested by %s, %s is paused in partition %d since %v, claimed at %v",
				claim.ID, life.name, r.Topic, x.of.partition, since[x.of.partition], claim.ReadiedAt)
		}
	}
	for _, before := range j.calls.made[claim.Incarnation] {
		if before.life == life && before.good && before.claim.tenure == claim.tenure &&
			claim.ReadiedAt.Before(before.claim.Expires) {
			j.world.Errorf("S5: %s is requested again by %s, which owns its partition all the time and has heard that "+
				"it was done", claim.ID, life.name)
		}
	}
	j.inLine(x)
	j.calls.made[claim.Incarnation] = append(j.calls.made[claim.Incarnation], x)
	return x
}

// answered tells what a life hears of its request.
func (j *recorder) answered(x *request, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x.good = err == nil
	failed := node.FailureOf(err)
	if last, is := errors.AsType[*node.PublishError](failed.Err); is { // it is given up after one more failure
		failed = *last
	}
	if err == nil || failed.Kind != node.OutcomeUnknown {
		return
	}
	j.add(&check.Event{
		Kind: check.Unknown, Node: x.life.name, Message: x.number, Topic: x.claim.Lane,
		Incarnation: check.UUID(x.claim.Incarnation),
	})
}

// called tells that a receiver has done what it was asked for.
func (j *recorder) called(r *node.Record, x *request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	plain := *r
	plain.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h node.Header) bool {
		return h.Name == node.HeaderID || h.Name == node.HeaderDeadline || h.Name == node.HeaderAttempt
	})
	j.outcomes[requested]++
	j.add(&check.Event{
		Kind: check.Fire, Node: x.life.name, Message: x.number, Topic: r.Topic, Payload: content(&plain),
		Key: digest(r.Key), Incarnation: check.UUID(x.claim.Incarnation),
	})
}

// requested counts with the outcomes how often a receiver has done what it was asked.
const requested = "a callback"
