package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

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
//	a copy of another log              (another topic, an end that Kafka has lost) has what nobody has committed; one
//	                                   that ends behind our fence, which it can't have, is such a one
//
// The first of these is asked again when everything has been read: a process can be stopped in between for any time.
func (s *shard) catchUp(ctx context.Context, log ledger.Ledger, maxAge time.Duration) error {
	until := s.writer.Fence() + 1
	begin, err := log.Begin(ctx, s.number)
	if err != nil {
		return err
	}
	young := func(at, now time.Time) bool { return !now.Before(at) && now.Sub(at) < maxAge }
	began := s.now()
	place, at, some := s.local()
	if some && place.TopicID == begin.TopicID && place.Offset < until && young(at, began) {
		s.place, s.asOf = place, at
		err := s.replay(ctx, log, until, false)
		switch {
		case err == nil && young(at, s.now()):
			return s.caughtUp(began)
		case err != nil && !errors.Is(err, ledger.ErrTruncated):
			return err
		}
	}
	if err := s.wipe(); err != nil {
		return err
	}
	s.place, s.asOf = begin, began
	if err := s.replay(ctx, log, until, true); err != nil {
		return err
	}
	if !young(began, s.now()) {
		return fmt.Errorf("reading it took %v, in which Kafka may have removed tombstones that were still to be read",
			s.now().Sub(began).Round(time.Second))
	}
	return s.caughtUp(began)
}

// caughtUp has the local copy be one that lacked nothing at an instant, and reads from it what is held in memory.
func (s *shard) caughtUp(asOf time.Time) error {
	s.asOf = asOf
	if err := s.apply(s.db.NewBatch()); err != nil {
		return err
	}
	if err := s.loadGroup(); err != nil {
		return err
	}
	return s.loadPositions()
}

// replay applies what the journal says from the place of the local copy on.
func (s *shard) replay(ctx context.Context, log ledger.Ledger, until int64, anew bool) error {
	batch, size, read := s.db.NewIndexedBatch(), 0, int64(0)
	flush := func() error {
		err := s.apply(batch)
		batch, size, read = s.db.NewIndexedBatch(), 0, read+int64(size)
		if s.observe != nil {
			s.observe(Replay{Number: s.number, Anew: anew, Read: read, Left: until - s.place.Offset})
		}
		return err
	}
	err := log.Read(ctx, s.place, until, func(e ledger.Committed) error {
		if err := s.replayEntry(batch, e.Entry); err != nil {
			return err
		}
		s.place.Position = node.Position{Epoch: e.Epoch, Offset: e.Offset + 1}
		if size++; size < replayBatch && batch.Len() < replayBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	s.place.Offset = max(s.place.Offset, until)
	return flush()
}

// replayEntry applies an entry to a batch, which is read through: the entries of one message may follow each other.
func (s *shard) replayEntry(batch *pebble.Batch, e ledger.Entry) error {
	if len(e.Key) == 0 {
		return errForeign
	}
	switch e.Key[0] {
	case fenceKey:
		return nil
	case groupKey:
		return batch.Set(s.key(groupKind), e.Value, nil)
	case positionKey:
		return batch.Set(s.key(positionKind, e.Key[1:]), e.Value, nil)
	case answerKey:
		return s.replayAnswer(batch, e)
	case rowKey:
	default:
		return errForeign
	}
	ref, err := readJournalKey(e.Key)
	if err != nil {
		return err
	}
	name := node.MessageID{ID: ref.ID, Lane: ref.Lane}
	before, err := s.storedIn(batch, name)
	if err != nil {
		return err
	}
	if e.Value != nil {
		after, err := decode(e.Value)
		if err != nil {
			return err
		}
		return s.put(batch, before, after, name, e.Value)
	}
	if before != nil && before.Incarnation == ref.Incarnation {
		return s.put(batch, before, nil, name, nil)
	}
	return nil
}

func (s *shard) storedIn(batch *pebble.Batch, name node.MessageID) (*row, error) {
	data, closer, err := batch.Get(s.rowKey(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, and nothing went wrong
	}
	if err != nil {
		return nil, fmt.Errorf("read the local copy: %w", err)
	}
	defer closer.Close() //nolint:errcheck // it has no errors
	return decode(data)
}
