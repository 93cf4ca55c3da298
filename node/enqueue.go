//go:build ignore

package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// enqueueState is what the enqueue operation remembers from one batch to the next.
type enqueueState struct {
	random *rand.ChaCha8
	poll   link
	commit link
	store  link // present and insert: a batch needs both
}

func (s *enqueueState) init(n *Node, random *rand.ChaCha8) {
	s.random = random
	s.poll = link{node: n, operation: Enqueue, port: PortBroker, random: random}
	s.commit = link{node: n, operation: Enqueue, port: PortBroker, random: random}
	s.store = link{node: n, operation: Enqueue, port: PortStore, random: random}
}

// submission is a decoded record on its way out of a batch: into the store, or at once to its topic.
type submission struct {
	Message
	record Record

	// done: nothing is left to do for it.
	done bool

	// stored: an insert was tried, and may have taken effect even if it failed. From then on only the store
	// can tell, and the submission is not published past it.
	stored bool

	// since is the monotonic clock before the first insert that asked for a claim; no claim on the message
	// can be older.
	since   time.Duration
	claimed bool
}

// Enqueue is the operation "consume and enqueue". It runs until ctx is done, then finishes the batch in hand.
//
// Offsets are committed last, when every record of the batch is in the store, published, ignored as a duplicate
// or rejected: a crash anywhere before means that the batch is delivered again. While a port fails, the loop
// keeps its batch and tries again; it polls nothing, and drops nothing.
func (n *Node) Enqueue(ctx context.Context) {
	for ctx.Err() == nil {
		records, err := n.broker.Poll(ctx)
		if err != nil {
			if ctx.Err() == nil {
				n.clock.Sleep(ctx, n.enqueue.poll.failed("poll", err))
			}
			continue
		}
		n.enqueue.poll.succeeded()
		if len(records) == 0 {
			continue
		}
		n.observe(Polled{Records: len(records)})
		if n.enqueueBatch(ctx, records) {
			n.commit(ctx, records)
		}
	}
}

// enqueueBatch deals with every record, and tells whether they may be committed. They may not when ctx was done
// first, or when the node gave its partitions up; the records will then be delivered again.
func (n *Node) enqueueBatch(ctx context.Context, records []Record) bool {
	for _, round := range n.rounds(n.decodeBatch(records)) {
		for {
			err := n.enqueueRound(ctx, round)
			if err == nil {
				n.enqueue.store.succeeded()
				break
			}
			wait := n.enqueue.store.failed(err.call, err.err)
			if n.enqueue.store.outage() >= n.config.LeaveAfter {
				n.leave(ctx, round)
				return false
			}
			n.clock.Sleep(ctx, wait)
			if ctx.Err() != nil {
				return false
			}
		}
	}
	return true
}

// commit stores the offsets of a batch that is dealt with. If ctx is done meanwhile, one try is all.
func (n *Node) commit(ctx context.Context, records []Record) {
	for {
		err := n.broker.Commit(context.WithoutCancel(ctx), records)
		if err == nil {
			n.enqueue.commit.succeeded()
			n.observe(Committed{Records: len(records)})
			return
		}
		n.clock.Sleep(ctx, n.enqueue.commit.failed("commit", err))
		if ctx.Err() != nil {
			return
		}
	}
}

// decodeBatch turns records into submissions, in order. A record that is not a valid one is replaced by its copy
// for the dead-letter topic, or left out when there is none: it stands in nobody's way.
func (n *Node) decodeBatch(records []Record) []*submission {
	submissions := make([]*submission, 0, len(records))
	for _, r := range records {
		route, known := n.routes[r.Topic]
		assert(known, "polled a record of topic %s, which has no route", r.Topic)
		message, rejected := n.config.decode(r, route)
		if rejected == nil {
			message.Incarnation = newUUID(n.enqueue.random)
			submissions = append(submissions, &submission{Message: message, record: r})
			continue
		}
		if copied := n.reject(r, rejected, route.DeadLetter); copied != nil {
			submissions = append(submissions, copied)
		}
	}
	return submissions
}

// reject says that r is rejected and returns its copy for the dead-letter topic; nil when there is none.
func (n *Node) reject(r Record, rejected *rejection, deadLetter string) *submission {
	n.observe(Rejected{r, rejected.reason, rejected.detail, deadLetter})
	if deadLetter == "" {
		return nil
	}
	message := deadLetterOfRecord(r, rejected, deadLetter, n.clock.Now())
	message.Incarnation = newUUID(n.enqueue.random)
	return &submission{Message: message, record: r}
}

// rounds splits a batch so that no id comes twice in a round, and the submissions of one id follow each other in
// the order of their offsets. Otherwise a batch [x in an hour, x lapsed] would publish the second, which the
// first makes a duplicate, if all that has lapsed were looked at before anything is inserted (hazard H12).
func (n *Node) rounds(submissions []*submission) [][]*submission {
	var rounds [][]*submission
	seen := make(map[MessageID]int, len(submissions))
	for _, s := range submissions {
		id := MessageID{s.ID, s.Topic}
		round := seen[id]
		seen[id]++
		if round == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[round] = append(rounds[round], s)
	}
	return rounds
}

// callError says which call to the store failed.
type callError struct {
	call string
	err  error
}

// enqueueRound deals with the submissions that are not done yet. After an error it can be called again: what was
// published stays done, and an insert that may or may not have happened is repeated with the same incarnation.
func (n *Node) enqueueRound(ctx context.Context, round []*submission) *callError {
	var lapsed, waiting []*submission
	due := n.lapsed()
	for _, s := range round {
		switch {
		case s.done:
		case s.stored || s.Deadline.After(due):
			waiting = append(waiting, s)
		default:
			lapsed = append(lapsed, s)
		}
	}
	unpublished, err := n.fireLapsed(ctx, lapsed)
	if err != nil {
		return err
	}
	return n.insert(ctx, append(waiting, unpublished...))
}

// fireLapsed publishes at once what has lapsed and is not in the store, and returns what could not be published.
//
// The look and the publish are not atomic. Two copies of a lapsed message that are handled by two nodes both
// find the store empty, and both fire; likewise, one that is delivered again after it fired. At-least-once
// allows it (deviation D5), and a deadline that is not past is the remedy.
func (n *Node) fireLapsed(ctx context.Context, lapsed []*submission) ([]*submission, *callError) {
	if len(lapsed) == 0 {
		return nil, nil
	}
	ids := make([]MessageID, len(lapsed))
	for i, s := range lapsed {
		ids[i] = MessageID{s.ID, s.Topic}
	}
	present, err := n.store.Present(context.WithoutCancel(ctx), ids)
	if err != nil {
		return nil, &callError{"present", err}
	}
	assert(len(present) == len(ids), "present: %d answers for %d ids", len(present), len(ids))
	var ignored []MessageID
	var absent []*submission
	for i, s := range lapsed {
		if present[i] {
			s.done = true
			ignored = append(ignored, ids[i])
		} else {
			absent = append(absent, s)
		}
	}
	if len(ignored) > 0 {
		n.observe(Ignored{IDs: ignored})
	}
	if len(absent) == 0 {
		return nil, nil
	}
	return n.fireDirect(ctx, absent), nil
}

// fireDirect publishes submissions that are in no store, and returns those that were not acknowledged. They are
// enqueued like the others, so that the fire operation goes on with them and intake does not wait; if an
// unknown outcome was a success after all, they fire twice.
func (n *Node) fireDirect(ctx context.Context, absent []*submission) (unpublished []*submission) {
	records := make([]Record, len(absent))
	for i, s := range absent {
		records[i] = record(&s.Message)
	}
	errs := n.publish(ctx, records)
	var fired, failed []Message
	var cause error
	for i, s := range absent {
		if errs[i] == nil {
			s.done = true
			fired = append(fired, s.Message)
			continue
		}
		if cause == nil {
			cause = errs[i]
		}
		failed = append(failed, s.Message)
		unpublished = append(unpublished, s)
	}
	n.fired(fired, true)
	if len(failed) > 0 {
		n.observe(Unpublished{
			Messages: failed, Err: cause, Retry: n.clock.Now(), Direct: true, Permanent: permanent(cause),
		})
	}
	return unpublished
}

// insert stores submissions. Those that fall due within the lookahead are stored as claimed by this node from
// the start and go straight to the schedule, if there is room: the next poll of any node would be too late
// for them, and it saves the claim.
func (n *Node) insert(ctx context.Context, submissions []*submission) *callError {
	if len(submissions) == 0 {
		return nil
	}
	request := n.insertRequest(submissions)
	results, err := n.store.Insert(context.WithoutCancel(ctx), request)
	for _, s := range submissions {
		s.stored = true
	}
	if err != nil {
		return &callError{"insert", err}
	}
	assert(len(results) == len(submissions),
		"insert: %d results for %d messages", len(results), len(submissions))
	var inserted []Insertion
	var ignored []MessageID
	var claims []holding
	var refused []*submission
	for i, s := range submissions {
		s.done = true
		switch results[i].Outcome {
		case Inserted:
			inserted = append(inserted, request.Messages[i])
			if claim := results[i].Claim; claim.ReadiedBy != uuid.Nil && n.ours(s) {
				claims = append(claims, holding{Readied{s.Message, claim}, s.since})
			}
		case Duplicate:
			ignored = append(ignored, MessageID{s.ID, s.Topic})
		case Refused:
			refused = append(refused, n.refused(s, results[i].Reason)...)
		}
	}
	if len(inserted) > 0 {
		n.observe(Enqueued{Messages: inserted})
	}
	if len(ignored) > 0 {
		n.observe(Ignored{IDs: ignored})
	}
	if len(claims) > 0 {
		n.schedule.add(claims)
		n.clock.Ring()
	}
	if len(refused) > 0 {
		n.fireDirect(ctx, refused)
	}
	return nil
}

// insertRequest decides which submissions are inserted as ready. Whether one is, is decided at its first insert.
// When that is repeated, because its outcome is unknown, the claim is asked for again only while it could still be
// published: after that a fresh row would wait for the hold time, where a waiting one is claimed at the next poll.
func (n *Node) insertRequest(submissions []*submission) InsertRequest {
	request := InsertRequest{Node: n.id, Messages: make([]Insertion, len(submissions))}
	messages, bytes := n.schedule.room()
	now := n.clock.Mono()
	soon := n.lapsed().Add(n.config.Lookahead)
	for i, s := range submissions {
		readied := n.ours(s)
		if !s.stored && !s.Deadline.After(soon) && messages > 0 && bytes > 0 {
			readied, s.claimed, s.since = true, true, now
			messages--
			bytes -= s.Size()
		}
		request.Messages[i] = Insertion{Message: s.Message, Readied: readied}
	}
	return request
}

// ours says whether a claim of this node on s can only be the one that enqueue has asked for. It cannot when
// enqueue never asked:
//
//	enqueue inserts x as waiting, the reply is lost
//	                              fire claims x, and puts it on the schedule
//	enqueue inserts x again, and is told of the claim of fire: x would be published twice
//
// nor when it asked so long ago that the claim may have been reset, and the row claimed again by fire, since.
func (n *Node) ours(s *submission) bool {
	return s.claimed && n.clock.Mono()-s.since < n.config.PublishableAge()
}

// refused rejects a submission that the store can never keep, and returns the copy for its dead-letter topic, to be
// published without the store. What is refused as such a copy is given up: it has been reported.
func (n *Node) refused(s *submission, reason string) []*submission {
	deadLetter := n.routes[s.record.Topic].DeadLetter
	if s.Topic == deadLetter {
		deadLetter = ""
	}
	copied := n.reject(s.record, &rejection{StoreRefused, reason}, deadLetter)
	if copied == nil {
		return nil
	}
	return []*submission{copied}
}

// leave gives the partitions up, because the store has been out of this node's reach for too long while it may be
// in a peer's, and waits until the store answers again. The batch in hand was not committed: whoever gets the
// partitions gets it.
func (n *Node) leave(ctx context.Context, round []*submission) {
	n.observe(LeftGroup{Outage: n.enqueue.store.outage()})
	if err := n.broker.Leave(context.WithoutCancel(ctx)); err != nil {
		n.enqueue.poll.failed("leave", err)
	}
	probe := []MessageID{{round[0].ID, round[0].Topic}}
	for ctx.Err() == nil {
		_, err := n.store.Present(ctx, probe)
		if err == nil {
			n.enqueue.store.succeeded()
			return
		}
		n.clock.Sleep(ctx, n.enqueue.store.failed("present", err))
	}
}
