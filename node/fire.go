//go:build ignore

package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// fireState is what the fire operation remembers from one turn of its loop to the next. All instants are monotonic.
type fireState struct {
	random                        *rand.ChaCha8
	ready, publish, delete, reset link

	// nextPoll is when to look for due messages next.
	nextPoll time.Duration

	// storeRetry and brokerRetry are when to call a port next that has failed.
	storeRetry, brokerRetry time.Duration

	// fired are the messages that Kafka has acknowledged and the store still has, at most undeletedMessages
	// and a batch. An acknowledged publish of an incarnation justifies its delete for ever.
	fired []Ref

	// repeated says that a delete of some of them was tried and may have happened.
	repeated bool
}

const (
	// undeletedMessages is how many fired messages may wait for their delete: with more, nothing is published,
	// because each of them fires again if this node dies.
	undeletedMessages = 4 * batchMessages

	// stopTries is how often a node that stops tries to delete what it has fired.
	stopTries = 3

	// The wait before a message that could not be published falls due again is as long as it is overdue
	// already, which doubles it each time without anything to remember, within these bounds. They are
	// the wider ones where somebody has to act first.
	retryMin, retryMax                   = 100 * time.Millisecond, time.Second
	permanentRetryMin, permanentRetryMax = time.Second, 5 * time.Minute
)

func (s *fireState) init(n *Node, random *rand.ChaCha8) {
	s.random = random
	s.ready = link{node: n, operation: Fire, port: PortStore, random: random}
	s.publish = link{node: n, operation: Fire, port: PortBroker, random: random}
	s.delete = link{node: n, operation: Fire, port: PortStore, random: random}
	s.reset = link{node: n, operation: Fire, port: PortStore, random: random}
}

// Fire is the operation "ready and fire": it claims what falls due soon, publishes each message at its instant,
// and deletes what Kafka has acknowledged. It runs until ctx is done; then it deletes what is left to
// delete, and gives back the claims that it has not used.
func (n *Node) Fire(ctx context.Context) {
	for ctx.Err() == nil {
		n.deleteFired(ctx)
		n.ready(ctx)
		n.publishDue(ctx)
		n.deleteFired(ctx)
		n.clock.SleepUntilRung(ctx, n.idle())
	}
	for range stopTries {
		n.fire.storeRetry = 0
		n.deleteFired(ctx)
	}
	n.release(ctx, n.schedule.clear())
}

// ready is phase 1: it claims a bounded batch of what falls due within the lookahead, if it is time to look and
// there is room, and puts it on the schedule. While there is more, the next look is at once.
func (n *Node) ready(ctx context.Context) {
	started := n.clock.Mono()
	if started < max(n.fire.nextPoll, n.fire.storeRetry) {
		return
	}
	n.fire.nextPoll = started + jittered(n.fire.random, n.config.PollInterval, 10)
	messages, bytes := n.schedule.room()
	if messages <= 0 || bytes <= 0 {
		return
	}
	request := ReadyRequest{
		Node:  n.id,
		Until: n.lapsed().Add(n.config.Lookahead),
		Limit: min(messages, batchMessages),
		Bytes: min(bytes, batchBytes),
	}
	claimed, err := n.store.Ready(context.WithoutCancel(ctx), request)
	if err != nil {
		// The claims may have been made. Nobody knows of them, so they are recovered after the hold time.
		n.fire.storeRetry = n.clock.Mono() + n.fire.ready.failed("ready", err)
		return
	}
	n.fire.ready.succeeded()
	if len(claimed) == 0 {
		return
	}
	n.observe(Claimed{Messages: claimed})
	size := 0
	holdings := make([]holding, len(claimed))
	for i, c := range claimed {
		size += c.Size()
		// The age of the claim counts from before it was requested: the store stamped it later, so no
		// detector can find it older than this node does, at equal rates of their clocks.
		holdings[i] = holding{c, started}
	}
	n.schedule.add(holdings)
	if len(claimed) == request.Limit || size >= request.Bytes {
		n.fire.nextPoll = started
	}
}

// publishDue publishes a batch of what is due on the schedule, and gives back what is too old for that. The old ones
// come second: giving them back takes as long as the store likes, and would make the young ones old.
func (n *Node) publishDue(ctx context.Context) {
	if n.clock.Mono() < n.fire.brokerRetry || len(n.fire.fired) >= undeletedMessages {
		return
	}
	young, old := n.byAge(n.schedule.due(n.lapsed()))
	if len(young) > 0 {
		n.publishBatch(ctx, young)
	}
	if len(old) > 0 {
		n.observe(Abandoned{Claims: claims(old)})
		n.release(ctx, old)
	}
}

// byAge parts the holdings that are young enough to be published from the others (deviation D3).
//
//	A claims x, and is stopped            (a pause, a slow store)
//	                  hold time passes; B resets A's claim, claims x, publishes x
//	A goes on, and must not publish x
//
// The age is measured by the node's own monotonic clock, which no step of a wall clock moves. A stop between
// this look and the publish cannot be excluded: then x fires twice.
func (n *Node) byAge(due []holding) (young, old []holding) {
	now := n.clock.Mono()
	for _, h := range due {
		if now-h.since <= n.config.PublishableAge() {
			young = append(young, h)
		} else {
			old = append(old, h)
		}
	}
	return young, old
}

// publishBatch publishes messages. What Kafka acknowledges is to be deleted; what it does not is given back.
func (n *Node) publishBatch(ctx context.Context, batch []holding) {
	records := make([]Record, len(batch))
	for i := range batch {
		records[i] = record(&batch[i].Message)
	}
	errs := n.publish(ctx, records)
	var fired []Message
	var failed []failure
	unknown := 0
	for i, h := range batch {
		if errs[i] == nil {
			fired = append(fired, h.Message)
			n.fire.fired = append(n.fire.fired, h.Ref())
			continue
		}
		failed = append(failed, failure{h, errs[i]})
		if !permanent(errs[i]) {
			unknown++
		}
	}
	n.fired(fired, false)
	failed = n.deadLetter(ctx, failed)
	if unknown == len(batch) {
		n.standBack(ctx, batch, failed)
		return
	}
	n.putOff(ctx, failed)
	n.fire.publish.succeeded()
}

// standBack is for a node that cannot publish at all. It gives back all that it holds, and for a while claims
// nothing: for longer than it has put its messages off, so that a peer that reaches Kafka comes first.
// Otherwise it could claim the same messages each time they fall due, and keep them from its peers for ever.
//
// From the second failure in a row on, it does not put them off at all. How long a message is put off is told by this
// node's clock, and compared with that of whoever claims it next: nodes that are cut off, and whose clocks are
// ahead, would otherwise pass it to each other, and a healthy one that is behind come too late each time.
func (n *Node) standBack(ctx context.Context, batch []holding, failed []failure) {
	if n.fire.publish.attempts == 0 {
		n.putOff(ctx, failed)
	} else {
		n.observe(Unpublished{Messages: messages(batch), Err: failed[0].err, Retry: n.clock.Now()})
		n.release(ctx, batch)
	}
	wait := retryMax + n.fire.publish.failed("publish", failed[0].err)
	n.release(ctx, n.schedule.clear())
	n.fire.brokerRetry = n.clock.Mono() + wait
	n.fire.nextPoll = n.fire.brokerRetry
}

// failure is a claimed message that could not be published, and why.
type failure struct {
	holding

	err error
}

// deadLetter publishes a copy of each message that its topic rejects for good on the dead-letter topic, if there is
// one (deviation D9). Once the copy is acknowledged, the message counts as fired. It returns what is left.
func (n *Node) deadLetter(ctx context.Context, failed []failure) []failure {
	var left, dead []failure
	var records []Record
	for _, f := range failed {
		topic := n.deadLetters[f.Topic]
		if topic == "" || !errors.Is(f.err, ErrRejected) {
			left = append(left, f)
			continue
		}
		dead = append(dead, f)
		records = append(records, deadLetterOfMessage(&f.Message, f.err, topic))
	}
	if len(dead) == 0 {
		return left
	}
	errs := n.publish(ctx, records)
	var copied []Message
	for i, f := range dead {
		if errs[i] != nil {
			left = append(left, f)
			continue
		}
		copied = append(copied, f.Message)
		n.fire.fired = append(n.fire.fired, f.Ref())
	}
	if len(copied) > 0 {
		n.observe(DeadLettered{Messages: copied})
	}
	return left
}

// putOff gives messages back to the store that could not be published, to fall due again later, so that they are
// not in the way of others that can.
func (n *Node) putOff(ctx context.Context, failed []failure) {
	now := n.clock.Now()
	for _, lasting := range []bool{false, true} {
		var messages []Message
		var releases []Release
		var cause error
		least, most := retryMin, retryMax
		if lasting {
			least, most = permanentRetryMin, permanentRetryMax
		}
		earliest := now.Add(most)
		for _, f := range failed {
			if permanent(f.err) != lasting {
				continue
			}
			if cause == nil {
				cause = f.err
			}
			retry := now.Add(min(max(now.Sub(f.Deadline), least), most)).Truncate(time.Microsecond)
			if retry.Before(earliest) {
				earliest = retry
			}
			messages = append(messages, f.Message)
			releases = append(releases, Release{f.Claim, retry})
		}
		if len(messages) > 0 {
			n.observe(Unpublished{Messages: messages, Err: cause, Retry: earliest, Permanent: lasting})
			n.reset(ctx, releases)
		}
	}
}

// release gives claims back to the store as they are.
func (n *Node) release(ctx context.Context, held []holding) {
	releases := make([]Release, len(held))
	for i, h := range held {
		releases[i] = Release{Claim: h.Claim}
	}
	n.reset(ctx, releases)
}

// reset gives claims back, in batches. If the store does not take them, they are recovered after the hold time.
func (n *Node) reset(ctx context.Context, releases []Release) {
	for len(releases) > 0 {
		batch := releases[:min(len(releases), batchMessages)]
		releases = releases[len(batch):]
		effects, err := n.store.Reset(context.WithoutCancel(ctx), batch)
		if err != nil {
			n.fire.storeRetry = n.clock.Mono() + n.fire.reset.failed("reset", err)
			return
		}
		n.fire.reset.succeeded()
		assert(len(effects) == len(batch), "reset: %d effects of %d", len(effects), len(batch))
		var released []Claim
		for i, r := range batch {
			if effects[i] {
				released = append(released, r.Claim)
			}
		}
		if len(released) > 0 {
			n.observe(Released{Claims: released})
		}
	}
}

// deleteFired is phase 2: it deletes what Kafka has acknowledged, by incarnation, whoever holds the claim now
// (deviation D2). The two other ways are wrong:
//
//	by id:     A's delete of x takes effect and its reply is lost; the application, which has seen x, submits x
//	           again; A repeats the delete: the new x is gone.
//	by claim:  publishing x takes longer than the hold time; the claim is reset before each delete, which then
//	           finds nothing; x fires for ever.
//
// A message that is missing was fired by a peer as well, or deleted by an earlier try.
func (n *Node) deleteFired(ctx context.Context) {
	for len(n.fire.fired) > 0 && n.clock.Mono() >= n.fire.storeRetry {
		batch := n.fire.fired[:min(len(n.fire.fired), batchMessages)]
		found, err := n.store.Delete(context.WithoutCancel(ctx), batch)
		if err != nil {
			n.fire.repeated = true
			n.fire.storeRetry = n.clock.Mono() + n.fire.delete.failed("delete", err)
			return
		}
		n.fire.delete.succeeded()
		assert(len(found) == len(batch), "delete: %d answers for %d refs", len(found), len(batch))
		var deleted, missing []Ref
		for i, ref := range batch {
			if found[i] {
				deleted = append(deleted, ref)
			} else {
				missing = append(missing, ref)
			}
		}
		if len(deleted) > 0 {
			n.observe(Deleted{Refs: deleted})
		}
		if len(missing) > 0 {
			n.observe(Missing{Refs: missing, Repeated: n.fire.repeated})
		}
		n.fire.fired = n.fire.fired[len(batch):]
	}
	if len(n.fire.fired) == 0 {
		n.fire.fired, n.fire.repeated = nil, false
	}
}

// idle returns how long there is nothing to do: until the next poll, the next deadline on the schedule, or the next
// try of a port that failed.
func (n *Node) idle() time.Duration {
	now := n.clock.Mono()
	wake := max(n.fire.nextPoll, n.fire.storeRetry)
	if len(n.fire.fired) > 0 {
		wake = min(wake, n.fire.storeRetry)
	}
	if next, some := n.schedule.next(); some && len(n.fire.fired) < undeletedMessages {
		due := now + next.Sub(n.lapsed())
		wake = min(wake, max(due, n.fire.brokerRetry))
	}
	return wake - now
}

// publish calls the broker and measures how long an acknowledgement takes.
func (n *Node) publish(ctx context.Context, records []Record) []error {
	started := n.clock.Mono()
	errs := n.broker.Publish(context.WithoutCancel(ctx), records)
	assert(len(errs) == len(records), "publish: %d results for %d records", len(errs), len(records))
	for _, err := range errs {
		if err == nil {
			n.advance.measured(n.clock.Mono() - started)
			break
		}
	}
	return errs
}

// fired says that messages were published: those that are copies of rejected records by another name.
func (n *Node) fired(messages []Message, direct bool) {
	var fired, dead []Message
	for _, m := range messages {
		if n.isDead[m.Topic] {
			dead = append(dead, m)
		} else {
			fired = append(fired, m)
		}
	}
	if len(fired) > 0 {
		n.observe(Fired{Messages: fired, At: n.clock.Now(), Direct: direct})
	}
	if len(dead) > 0 {
		n.observe(DeadLettered{Messages: dead})
	}
}

// record returns what is published for m.
func record(m *Message) Record {
	return Record{Topic: m.Topic, Key: m.Key, Value: m.Value, Headers: m.Headers}
}

// permanent says whether a publish that failed with err will fail again until somebody acts.
func permanent(err error) bool {
	return errors.Is(err, ErrRejected) || errors.Is(err, ErrNoTopic)
}

func claims(held []holding) []Claim {
	list := make([]Claim, len(held))
	for i, h := range held {
		list[i] = h.Claim
	}
	return list
}

func messages(held []holding) []Message {
	list := make([]Message, len(held))
	for i, h := range held {
		list[i] = h.Message
	}
	return list
}
