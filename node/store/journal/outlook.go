package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/outlook"
)

var _ outlook.Source = (*Store)(nil)

// Outlook implements outlook.Source, for the partitions that this node owns. It reads keys of the local copy, and up to
// where they are counted only.
func (s *Store) Outlook(ctx context.Context, request outlook.Request) (outlook.Outlook, error) {
	shards := s.owned()
	all := outlook.Outlook{Partitions: []int32{}}
	for _, owned := range shards {
		all.Partitions = append(all.Partitions, owned.number)
	}
	slices.Sort(all.Partitions)
	for _, name := range request.Lanes {
		lane := outlook.Lane{Name: name, Within: make([]outlook.Count, len(outlook.Horizons()))}
		for _, owned := range shards {
			if err := ctx.Err(); err != nil {
				return outlook.Outlook{}, err
			}
			part, err := owned.outlook(name, request.Now)
			if err != nil {
				return outlook.Outlook{}, err
			}
			add(&lane, &part)
		}
		slices.SortFunc(lane.Origins, func(a, b outlook.Origin) int {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Topic, b.Topic),
				cmp.Compare(a.Partition, b.Partition))
		})
		all.Lanes = append(all.Lanes, lane)
	}
	return all, nil
}

// add adds what waits in another partition to what waits on a lane.
func add(lane, part *outlook.Lane) {
	lane.Waiting.Add(part.Waiting)
	lane.Claimed.Add(part.Claimed)
	lane.Overdue.Add(part.Overdue)
	lane.Deferred.Add(part.Deferred)
	for i := range lane.Within {
		lane.Within[i].Add(part.Within[i])
	}
	for _, p := range part.Parked {
		i, known := slices.BinarySearchFunc(lane.Parked, p.Part, func(o outlook.Parked, name string) int {
			return cmp.Compare(o.Part, name)
		})
		if !known {
			lane.Parked = slices.Insert(lane.Parked, i, p)
			continue
		}
		lane.Parked[i].Waiting.Add(p.Waiting)
		lane.Parked[i].Oldest = earlier(lane.Parked[i].Oldest, p.Oldest)
	}
	lane.Parked = lane.Parked[:min(len(lane.Parked), outlook.MaxParked)]
	lane.Oldest, lane.Next = earlier(lane.Oldest, part.Oldest), earlier(lane.Next, part.Next)
	for _, o := range part.Origins {
		i := slices.IndexFunc(lane.Origins, func(known outlook.Origin) bool {
			return known.Topic == o.Topic && known.Partition == o.Partition
		})
		if i < 0 {
			lane.Origins = append(lane.Origins, o)
			continue
		}
		lane.Origins[i].Messages += o.Messages
	}
}

// earlier returns the earlier of two instants, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// outlook returns what waits on a lane of the partition.
func (s *shard) outlook(name string, now time.Time) (outlook.Lane, error) {
	claims := map[string]bool{}
	s.quick.Lock()
	for of := range s.claims {
		if of.Lane == name {
			claims[of.ID] = true
		}
	}
	s.quick.Unlock()
	lane := outlook.Lane{
		Name: name, Claimed: outlook.Count{N: len(claims)}, Within: make([]outlook.Count, len(outlook.Horizons())),
	}
	late := now.Add(-outlook.Grace)
	var overdue []node.MessageID
	parts, err := s.parkedOn(name)
	if err != nil {
		return lane, err
	}
	for _, part := range slices.Concat([]node.Part{{Lane: name}}, parts) {
		if lane.Waiting.N >= 2*outlook.Limit { // enough for an estimate
			break
		}
		parked := outlook.Parked{Part: part.Name}
		if err := s.until(part, time.Time{}, time.Time{}, func(due time.Time, id string) {
			switch {
			case due.Before(late):
				lane.Oldest = earlier(lane.Oldest, due)
				lane.Overdue.N++
				if len(overdue) < outlook.MaxOrigins {
					overdue = append(overdue, node.MessageID{ID: id, Lane: name})
				}
			case !claims[id]:
				lane.Next = earlier(lane.Next, due)
			}
			if !claims[id] {
				lane.Waiting.N++
				parked.Waiting.N++
				parked.Oldest = earlier(parked.Oldest, due)
			}
		}); err != nil {
			return lane, err
		}
		if part.Name != "" && parked.Waiting.N > 0 && len(lane.Parked) < outlook.MaxParked {
			parked.Waiting.Estimated = parked.Waiting.N >= outlook.Limit
			lane.Parked = append(lane.Parked, parked)
		}
	}
	lane.Waiting.Estimated = lane.Waiting.N+lane.Claimed.N >= outlook.Limit
	if lane.Overdue.Estimated = lane.Overdue.N >= outlook.Limit; lane.Overdue.Estimated && lane.Next.IsZero() {
		if err := s.next(&lane, late, claims); err != nil {
			return lane, err
		}
	}
	if err := s.deferred(&lane, parts, now); err != nil {
		return lane, err
	}
	for _, part := range slices.Concat([]node.Part{{Lane: name}}, parts) {
		if err := s.within(&lane, part, now, claims); err != nil {
			return lane, err
		}
	}
	return lane, s.origins(&lane, overdue)
}

// deferral is how far ahead messages are looked at for whether they were put off: further than nodes put them off.
const deferral = 10 * time.Minute

// deferred counts what was put off, on the lane and on its parts, and adds that to what is overdue. That it was, the
// messages themselves tell: those are read that are tried soon, up to as many as are counted.
func (s *shard) deferred(lane *outlook.Lane, parts []node.Part, now time.Time) error {
	late := now.Add(-outlook.Grace)
	looked := 0
	for _, part := range slices.Concat([]node.Part{{Lane: lane.Name}}, parts) {
		prefix := s.partPrefix(part)
		err := s.scan(prefix, prefix, func(key, value []byte) (bool, error) {
			due := time.UnixMicro(int64(binary.BigEndian.Uint64(key[len(prefix):]) ^ 1<<63)).UTC()
			if due.After(now.Add(deferral)) || looked >= outlook.Limit {
				return false, nil
			}
			looked++
			head, err := s.headUnder(part, string(key[len(prefix)+8:]), value)
			if err != nil || head == nil || !head.Deadline.Before(late) {
				return err == nil, err
			}
			lane.Oldest = earlier(lane.Oldest, head.Deadline)
			if !due.Before(late) {
				lane.Deferred.N++
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	lane.Deferred.Estimated = looked >= outlook.Limit
	lane.Overdue.Add(lane.Deferred)
	return nil
}

// headUnder returns the head of a message, of what is under the key under which it falls due; nil if it has just gone.
func (s *shard) headUnder(part node.Part, id string, value []byte) (*row, error) {
	if len(value) > 0 {
		return decodeHead(value)
	}
	return s.headOf(node.MessageID{ID: id, Lane: part.Lane})
}

// parkedOn returns the parts of a lane on which something is parked, in order, at most node.MaxParts.
func (s *shard) parkedOn(lane string) ([]node.Part, error) {
	from := s.key(parkedKind, []byte(lane), []byte{0})
	to := s.key(parkedKind, []byte(lane), []byte{1})
	left := node.MaxParts
	return s.partsBetween(from, to, func(node.MessageID) bool {
		left--
		return left >= 0
	})
}

// until calls each with the messages of a part of a lane that fall due from an instant to another one, in order, up to
// as many as are counted. The zero time is no bound.
func (s *shard) until(part node.Part, from, to time.Time, each func(due time.Time, id string)) error {
	prefix := s.partPrefix(part)
	start, counted := prefix, 0
	if !from.IsZero() {
		start = binary.BigEndian.AppendUint64(slices.Clone(prefix), order(from))
	}
	return s.scan(prefix, start, func(key, _ []byte) (bool, error) {
		due := time.UnixMicro(int64(binary.BigEndian.Uint64(key[len(prefix):]) ^ 1<<63)).UTC()
		if !to.IsZero() && due.After(to) {
			return false, nil
		}
		each(due, string(key[len(prefix)+8:]))
		counted++
		return counted < outlook.Limit, nil
	})
}

// next finds what falls due first of what is not overdue.
func (s *shard) next(lane *outlook.Lane, late time.Time, claims map[string]bool) error {
	return s.until(node.Part{Lane: lane.Name}, late, time.Time{}, func(due time.Time, id string) {
		if lane.Next.IsZero() && !claims[id] {
			lane.Next = due
		}
	})
}

// within counts what falls due soon on a part of a lane.
func (s *shard) within(lane *outlook.Lane, part node.Part, now time.Time, claims map[string]bool) error {
	horizons := outlook.Horizons()
	seen, last := 0, time.Time{}
	err := s.until(part, now.Add(time.Microsecond), now.Add(horizons[len(horizons)-1]),
		func(due time.Time, id string) {
			seen, last = seen+1, due
			for i, horizon := range horizons {
				if !claims[id] && !due.After(now.Add(horizon)) {
					lane.Within[i].N++
				}
			}
		})
	for i, horizon := range horizons {
		lane.Within[i].Estimated = lane.Within[i].Estimated || seen >= outlook.Limit && last.Before(now.Add(horizon))
	}
	return err
}

// origins counts where overdue messages came from.
func (s *shard) origins(lane *outlook.Lane, overdue []node.MessageID) error {
	for _, name := range overdue {
		r, err := s.headOf(name)
		if err != nil {
			return err
		}
		if r != nil && r.Origin.Topic != "" {
			add(lane, &outlook.Lane{
				Within:  make([]outlook.Count, len(lane.Within)),
				Origins: []outlook.Origin{{Topic: r.Origin.Topic, Partition: r.Origin.Partition, Messages: 1}},
			})
		}
	}
	return nil
}
