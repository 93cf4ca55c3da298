package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"chronos/node"
)

// mark is a place among what has an order in time, such as the messages on a lane of a partition by when they fall due:
// an instant, as order has it, and an id, as keys have them. The bytes of two marks compare as their places do.
type mark string

// markEnd is behind everything: no instant is as late.
const markEnd mark = "\xff\xff\xff\xff\xff\xff\xff\xff\xff"

// markOf returns the place of a message.
func markOf(r *row) mark {
	return mark(binary.BigEndian.AppendUint64(nil, order(r.due))) + mark(r.ID)
}

// sink lowers the mark of a part of a lane, and that of a line, to a message that is in the local copy from now on, or
// that nobody has claimed any more. It is called under quick, in the same moment:
//
//	claimer  finds nothing on the lane: its mark is at the end
//	intake   stores x: x is in the copy, and the mark is lowered to it, before anybody else has quick
//	claimer  begins at the mark, and finds x
//
// Whoever lowers it too far costs a step; whoever does not lower it has a message wait until the partition is owned
// anew.
func (s *shard) sink(r *row) {
	if before, known := s.free[r.where()]; known {
		s.free[r.where()] = min(before, markOf(r))
	}
	if before, known := s.heads[lineOf(&r.Message)]; known {
		s.heads[lineOf(&r.Message)] = min(before, standOf(r))
	}
}

// waiting is what nobody has claimed on a part of a lane, in a partition between two instants, in the order in which it
// falls due. It begins at the mark of the part, and raises that when it is closed: so what is claimed, and what has
// been fired since the last compaction of the local copy, is stepped over once, and not by each claim anew. One that
// begins above the mark steps over it each time, and leaves the mark where it is: something may wait below.
//
// Quick is held from the beginning to close. So nothing is stored, claimed or given back meanwhile by anybody else, and
// all before the first message that is left is claimed, or is not there.
type waiting struct {
	shard    *shard
	part     node.Part
	prefix   []byte
	last     uint64
	above    bool // it begins above the mark
	iterator *pebble.Iterator

	// due and name are of the first message that is left, if there is one.
	due   uint64
	name  node.MessageID
	ended bool
}

// open returns what waits on a part of a lane between two instants, which its caller closes. The local copy must stay
// open as long: see disk.read.
func (s *shard) open(part node.Part, from, last uint64) (*waiting, error) {
	q := &waiting{shard: s, part: part, prefix: s.partPrefix(part), last: last}
	begin := s.free[part]
	if place := mark(binary.BigEndian.AppendUint64(nil, from)); from > 0 && begin < place {
		begin, q.above = place, true
	}
	upper := s.partPrefix(part)
	upper[len(upper)-1]++
	var err error
	q.iterator, err = s.db.NewIter(&pebble.IterOptions{
		LowerBound: append(s.partPrefix(part), begin...), UpperBound: upper,
	})
	if err != nil {
		return nil, fmt.Errorf("read the local copy: %w", err)
	}
	q.find(q.iterator.First())
	return q, nil
}

// next goes on behind the first message that is left.
func (q *waiting) next() { q.find(q.iterator.Next()) }

// find looks for the first message from where the iterator is.
func (q *waiting) find(some bool) {
	for ; some; some = q.iterator.Next() {
		place := q.iterator.Key()[len(q.prefix):]
		if q.due = binary.BigEndian.Uint64(place); q.due > q.last {
			break
		}
		q.name = node.MessageID{Lane: q.part.Lane, ID: string(place[8:])}
		if _, claimed := q.shard.claims[q.name]; !claimed {
			return
		}
	}
	q.ended = true
}

// close raises the mark of the part to the first message that is left.
func (q *waiting) close() error {
	reached := markEnd
	if q.iterator.Valid() {
		reached = mark(q.iterator.Key()[len(q.prefix):])
	}
	q.shard.db.steps.Add(int64(q.iterator.Stats().ForwardStepCount[pebble.InternalIterCall]))
	err := q.iterator.Error()
	if err == nil && !q.above {
		q.shard.free[q.part] = reached
	}
	return errors.Join(err, q.iterator.Close())
}

// first calls each with messages that nobody has claimed, of a part of a lane in partitions between two instants, in
// the order in which they fall due, then by id, as long as that reports true. Each has to claim what it is called with.
// The caller has quick of all of them.
func (s *Store) first(
	shards []*shard, part node.Part, from, last uint64, each func(owned *shard, r *row) bool,
) error {
	return s.db.read(func() (err error) {
		var lists []*waiting
		defer func() {
			for _, q := range lists {
				err = errors.Join(err, q.close())
			}
		}()
		for _, owned := range shards {
			q, err := owned.open(part, from, last)
			if err != nil {
				return err
			}
			lists = append(lists, q)
		}
		for more := true; more; {
			q := foremost(lists)
			if q == nil {
				return nil
			}
			content, err := q.iterator.ValueAndErr()
			if err != nil {
				return fmt.Errorf("read the local copy: %w", err)
			}
			r, err := q.shard.at(s.db, q.iterator.Key(), content)
			if err != nil {
				return err
			}
			more = each(q.shard, r)
			q.next()
		}
		return nil
	})
}

// foremost returns where the first message of all is; nil if nothing is left.
func foremost(lists []*waiting) (first *waiting) {
	for _, q := range lists {
		if !q.ended && (first == nil ||
			cmp.Or(cmp.Compare(q.due, first.due), cmp.Compare(q.name.ID, first.name.ID)) < 0) {
			first = q
		}
	}
	return first
}

// unclaimedOn reports whether there is a message on a part of a lane that nobody has claimed. The caller has quick.
func (s *shard) unclaimedOn(part node.Part) (some bool, err error) {
	err = s.db.read(func() error {
		q, err := s.open(part, 0, math.MaxUint64)
		if err != nil {
			return err
		}
		some = !q.ended
		return q.close()
	})
	return some, err
}
