package journal

import (
	"context"
	"time"
)

// A partition is quiet while nothing of it is taken in or fired. Millions of messages may wait in one, overnight and
// for weeks, and two things grow old meanwhile that transactions keep young:
//
//	the local copy         one that is older than maxAge is made anew when the partition is owned next, though it may
//	                       lack nothing: nothing comes out for that long
//	the transactional id   its coordinator forgets it after a week (transactional.id.expiration.ms), and refuses what
//	                       comes next as it refuses what a former owner sends
//
// So the copy is as young as a look that finds nothing which this node has not written or heard. A former owner finds
// the fence of the next one:
//
//	A owns, is stopped     B owns, fires x; compaction removes the tombstone of x
//	A goes on, looks       reads a fence: the partition is lost, and its copy as old as it was
//
// A look says nothing of any later moment than that in which Kafka was asked:
//
//	A asks, and is stopped        B owns, fires x; compaction removes the tombstone of x
//	A goes on, has the answer of before: its copy is as old as the question
//
// And it is the word of a leader, which may be cut off from all other brokers, and not know that another one leads. A
// node that is cut off with it would hear the same forever. A commit is more than that: it needs the other replicas.
// So looks count for some time after one, and then the owner commits something.
const (
	// refreshes is how often a copy is made younger within the age that it may have. Each time its place is written.
	refreshes = 12

	// quietAges is for how many of these ages after a commit looks count: half a day, where the topic keeps tombstones
	// for a day. Commits that come more often would keep no copy younger, and each that comes more than segment.ms
	// after the one before begins another file of the log. Where much waits and nothing happens, Kafka does not compact
	// such files for long, because little of the log is new.
	quietAges = 12

	// quietSteps is at how many instants within the last of these ages partitions commit, by their numbers: a node has
	// come to own many of them together.
	quietSteps = 60
)

// keepYoung keeps young what grows old in a quiet partition, after a look that was asked at an instant and has found
// nothing.
func (s *shard) keepYoung(ctx context.Context, asked time.Time) error {
	due, err := s.refresh(asked.Round(0))
	if err != nil || !due {
		return err
	}
	return s.do(ctx, func(c *change) error {
		c.group = s.group // is said once more, which changes nothing
		return nil
	})
}

// refresh has the local copy be as young as a look, unless it is nearly so; a copy from the future is corrected. If the
// last commit was too long ago, it reports that, and the look counts for nothing.
func (s *shard) refresh(asked time.Time) (due bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quick.Lock()
	defer s.quick.Unlock()
	if s.lost {
		return false, nil // and the copy may be another shard's by now, or a follower's
	}
	limit := quietAges*s.maxAge - time.Duration(s.number%quietSteps)*s.maxAge/quietSteps
	switch age := asked.Sub(s.asOf); {
	case asked.Sub(s.committed).Abs() >= limit:
		return true, nil
	case 0 <= age && age < s.maxAge/refreshes:
		return false, nil
	}
	s.asOf = asked
	return false, s.apply(s.db.NewBatch())
}
