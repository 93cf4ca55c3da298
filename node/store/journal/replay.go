package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// replayBatch is how many entries are applied to the local copy at a time, and replayBytes about how many bytes. An
// entry has up to 900 kB, and partitions are caught up at the same time.
const (
	replayBatch = 1000
	replayBytes = 4 << 20
)

// catchUp has the local copy say what the journal says, up to and with the fence. The copy goes on from where it was,
// unless it can't be trusted: then it is made anew.
//
//	a copy that is older than maxAge   may have missed tombstones that compaction has removed since: what they have
//	                                   ended would come out once more
//	a copy from the future             was written while the clock was ahead: nobody knows how old it is
//	a copy that is older than it says  the clock was set back since, and the journal goes on with what was appended,
//	                                   by the clock of whoever did, more than maxAge after the copy
//	a copy of another log              (another topic, an end that Kafka has lost) has what nobody has committed; one
//	                                   that ends behind our fence, which it can't have, is such a one
//
// The first of these is asked again when everything has been read: a process can be stopped in between for any time.
func (s *shard) catchUp(ctx context.Context, log ledger.Ledger) error {
	until := s.writer.Fence() + 1
	begin, err := log.Begin(ctx, s.number)
	if err != nil {
		return err
	}
	if err := s.bring(ctx, log, goal{
		begin: begin, until: until, last: until - 1, began: s.now(),
	}); err != nil {
		return err
	}
	if err := s.loadGroup(); err != nil {
		return err
	}
	if err := s.loadSeal(); err != nil {
		return err
	}
	if err := s.loadSwitches(); err != nil {
		return err
	}
	s.heard = s.place.Offset
	if err := s.loadPositions(); err != nil {
		return err
	}
	if err := s.reread(ctx, log, begin); err != nil {
		return err
	}
	if err := s.loadSpotted(); err != nil {
		return err
	}
	return s.unread()
}

// goal is up to where a local copy is brought.
type goal struct {
	begin ledger.Place // where the log begins
	until int64        // nothing before that offset is open
	last  int64        // where a copy of this log ends at the latest

	// began is an instant at which the journal ended at until, as far as anything was decided.
	began time.Time

	// known is where the journal ended at least at the instant that the copy names, if somebody knows: what stands
	// before that says nothing of how old the copy is. 0 if nobody does.
	known int64
}

// bring has the local copy say what the journal says up to a place: the comment of catchUp says which copies go on from
// where they are. What owners and followers have is told apart by nothing: a follower's copy is an owner's later.
func (s *shard) bring(ctx context.Context, log ledger.Ledger, to goal) error {
	young := func(at, now time.Time) bool { return !now.Before(at) && now.Sub(at) < s.maxAge }
	place, at, some, err := s.local()
	if err != nil {
		return err
	}
	if some && place.TopicID == to.begin.TopicID && place.Offset <= to.last && young(at, to.began) {
		s.place, s.asOf, s.known = place, at, to.known
		err := s.replay(ctx, log, to.until, false)
		switch {
		case err == nil && young(at, s.now()):
			return s.caughtUp(to.began)
		case err != nil && !errors.Is(err, ledger.ErrTruncated):
			return err
		}
	}
	if err := s.wipe(); err != nil {
		return err
	}
	s.place, s.asOf = to.begin, to.began
	if err := s.replay(ctx, log, to.until, true); err != nil {
		return err
	}
	if !young(to.began, s.now()) {
		return fmt.Errorf("reading it took %v, in which Kafka may have removed tombstones that were still to be read",
			s.now().Sub(to.began).Round(time.Second))
	}
	return s.caughtUp(to.began)
}

// caughtUp has the local copy be one that lacked nothing at an instant.
func (s *shard) caughtUp(asOf time.Time) error {
	s.asOf = asOf
	return s.apply(s.db.NewBatch())
}

// errMissed says that a local copy is older than it says. Such a copy can't go on, like one of another log.
var errMissed = fmt.Errorf("%w: the local copy is older than it says", ledger.ErrTruncated)

// errTurn is what a reader's turn ends with: there is more, and others come first.
var errTurn = errors.New("the turn is over")

// replay applies what the journal says from the place of the local copy on. The place is behind an entry, whose epoch
// it has: an offset further on, where a marker ends a transaction, may be of another one. A copy that is made anew must
// be empty.
func (s *shard) replay(ctx context.Context, log ledger.Ledger, until int64, anew bool) error {
	r := &replaying{shard: s}
	if anew {
		r.seen = newSeen(until - s.place.Offset)
	}
	r.begin()
	size, read := 0, int64(0)
	flush := func() error {
		err := s.apply(r.batch)
		r.begin()
		size, read = 0, read+int64(size)
		if s.observe != nil {
			s.observe(Replay{Number: s.number, Anew: anew, Read: read, Left: until - s.place.Offset})
		}
		return err
	}
	err := log.Read(ctx, s.place, until, func(e ledger.Committed) error {
		if !anew && e.Offset >= s.known && e.At.Sub(s.asOf) >= s.maxAge {
			return errMissed
		}
		if err := r.entry(&e); err != nil {
			return err
		}
		s.place.Position = node.Position{Epoch: e.Epoch, Offset: e.Offset + 1}
		if size++; size < replayBatch && r.batch.Len() < replayBytes {
			return nil
		}
		return flush()
	})
	if err != nil && !errors.Is(err, errTurn) {
		return err
	}
	return errors.Join(flush(), err)
}

// replaying is how a local copy is caught up: a batch of entries at a time.
type replaying struct {
	*shard

	batch *pebble.Batch

	// rows and answers are what the batch leaves of messages and answers that it is about: heads, and nil for nothing.
	rows    map[node.MessageID]*row
	answers map[uuid.UUID]*answer

	// seen has the messages that have been stored in a copy that is made anew; nil while one is caught up.
	seen *seen
}

// begin begins a batch.
func (r *replaying) begin() {
	r.batch = r.db.NewBatch()
	r.rows, r.answers = map[node.MessageID]*row{}, map[uuid.UUID]*answer{}
}

// entry adds an entry to the batch: the entries of one message may follow each other.
func (r *replaying) entry(e *ledger.Committed) error {
	p, err := parse(e)
	if err != nil {
		return r.note(r.batch, &note{Unreadable: *unreadable(r.number, e, err)})
	}
	switch e.Key[0] {
	case fenceKey:
		return nil
	case groupKey:
		return r.batch.Set(r.key(groupKind), e.Value, nil)
	case sealKey:
		return r.batch.Set(r.key(sealKind), e.Value, nil)
	case positionKey:
		return r.batch.Set(r.key(positionKind, e.Key[1:]), e.Value, nil)
	case answerKey:
		return r.answer(e.Entry, p.answer)
	case switchKey, wishKey:
		return r.replaySwitch(r.batch, e)
	case skipKey:
		return r.batch.Delete(r.unreadableKey(p.skip.Offset, p.skip.Digest), nil)
	}
	return r.message(e, p.ref, p.head)
}

// message adds the entry of a message to the batch, of which after is the head; nil for none.
func (r *replaying) message(e *ledger.Committed, ref node.Ref, after *row) error {
	name := node.MessageID{ID: ref.ID, Lane: ref.Lane}
	before, err := r.former(name, e.Value != nil)
	if err != nil {
		return err
	}
	if after == nil && (before == nil || before.Incarnation != ref.Incarnation) {
		return nil
	}
	r.rows[name] = after
	return r.put(r.batch, before, after, name, e.Value)
}

// former returns the head of what is stored of a message, as the batch leaves it; nil for nothing. Of a copy that is
// made anew most of it is known without a look: nothing is there of what has not been seen. Stores says that something
// of the message is stored from now on.
func (r *replaying) former(name node.MessageID, stores bool) (*row, error) {
	if before, known := r.rows[name]; known {
		return before, nil
	}
	key := r.rowKey(name)
	if r.seen != nil && !r.seen.has(key, stores) {
		return nil, nil //nolint:nilnil // there is nothing
	}
	before, _, err := get(r.db, r.db, key, decodeHead)
	return before, err
}
