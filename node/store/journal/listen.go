package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/ledger"
)

// Listen does what is wished in the partitions that this node owns, until ctx is done: it looks for wishes whenever an
// interval is over, and when somebody of this process has sent one. A look asks Kafka once where the partitions end,
// and reads nothing where only this node has written. What can't be read or done is tried again at the next look.
//
// No partition waits for another one for longer than an interval. One whose leader goes away is read until that is
// back, which may be never, and meanwhile wishes of the others are done:
//
//	looks    there is a wish in 1: read it       the leader of 1 dies
//	operator pauses the lane, just because of that
//	looks    there is a wish in 0: it is done; 1 is still being read
func (s *Store) Listen(ctx context.Context, interval time.Duration) {
	var under sync.WaitGroup
	defer under.Wait()
	for ctx.Err() == nil {
		looks, _ := s.looks(ctx) // whoever waits is told that nobody has answered
		over := make(chan struct{})
		under.Go(func() {
			defer close(over)
			_ = atOnce(len(looks), func(i int) error { return looks[i]() })
		})
		select {
		case <-over:
		case <-ctx.Done():
		case <-time.After(interval):
		}
		select {
		case <-ctx.Done():
		case <-s.called:
		case <-time.After(interval):
		}
	}
}

// call has Listen look now.
func (s *Store) call() {
	select {
	case s.called <- struct{}{}:
	default: // it is about to
	}
}

// Hear is one look of Listen. An error says of which partitions wishes were not done; they will be.
func (s *Store) Hear(ctx context.Context) error {
	looks, err := s.looks(ctx)
	return errors.Join(err, atOnce(len(looks), func(i int) error { return looks[i]() }))
}

// looks asks Kafka where the partitions end, and returns the looks at those that this node owns. Where Kafka can't tell
// of all of them, they are those at the others: nobody waits for the journal of another input topic.
func (s *Store) looks(ctx context.Context) (looks []func() error, err error) {
	working := s.working()
	if len(working) == 0 {
		return nil, nil
	}
	asked := s.config.Now()
	looking, done := context.WithTimeout(ctx, lookLimit)
	defer done()
	extents, err := s.config.Ledger.Extents(looking)
	for _, owned := range working {
		at := slices.IndexFunc(extents, func(e node.Extent) bool { return e.Number == owned.number })
		if at >= 0 && extents[at].End != node.UnknownEnd {
			looks = append(looks, func() error { return owned.hear(ctx, s.config.Ledger, extents[at].End, asked) })
		}
	}
	return looks, err
}

// hear does what is wished in the partition before an offset, where everything is decided. It is told that there may be
// a wish by the offsets: what a transaction of this node appends stands behind the marker of the one before, without a
// gap, so where there is none, and where the log does not go on behind the last transaction, nobody else has written.
//
//	owner   commits x, y: offsets 10 and 11, and the marker is 12
//	asker   appends a wish: 13
//	owner   commits z: 14, and not 13. So there is something between
//
// A look that finds no fence of somebody else shows that nobody else did anything in the partition before Kafka was
// asked; one that finds a fence shows that the partition is another node's.
//
// While another look at the partition is under way this one does nothing: the next one does.
func (s *shard) hear(ctx context.Context, log ledger.Ledger, end int64, asked time.Time) error {
	if !s.hearing.TryLock() {
		return nil
	}
	defer s.hearing.Unlock()
	from, some := s.unheard(end)
	if !some {
		s.proved(asked)
		return s.keepYoung(ctx, asked)
	}
	var wishes []*wish
	fenced := false
	if err := log.Read(ctx, from, end, func(e ledger.Committed) error {
		var p parsed
		if !fenced { // the rest is for its owner: if that is a newer release, this node has passed nothing
			var err error
			if p, err = s.spot(&e); err != nil {
				return err
			}
		}
		fenced = fenced || p.fence
		if p.wish != nil {
			wishes = append(wishes, p.wish)
		}
		return nil
	}); err != nil {
		return err
	}
	if fenced {
		s.lose(true)
		return nil
	}
	if err := s.obey(ctx, wishes); err != nil {
		return err
	}
	s.proved(asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = end
	return nil
}

// surelyOurs is for how long a look or a transaction that has shown that a partition is this node's is enough to make
// requests by it. Somebody else owns it a session (6 s) after the last beat of this node at the earliest, and what was
// claimed is published within 4.5 s or not at all. Nodes look twice a second.
const surelyOurs = 3 * time.Second

// proved takes note that the partition was this node's at an instant.
func (s *shard) proved(at time.Time) {
	s.quick.Lock()
	defer s.quick.Unlock()
	s.ours = at
}

// calls reports whether requests may be made of the partition at an instant. A request is no part of a transaction, and
// so nothing refuses that of a node that was stopped meanwhile, and does not know that the partition is another node's:
//
//	A is stopped       B owns; the lane is paused, by B, and whoever asked is answered
//	A goes on, claims on the lane, and calls
//
// The caller has quick. An age is what either clock says: one goes on while the machine is suspended, the other one
// can't be set.
func (s *shard) calls(now time.Time) bool {
	age := now.Round(0).Sub(s.ours.Round(0))
	return max(age, -age, now.Sub(s.ours)) <= surelyOurs
}

// unheard returns from where on wishes are to be looked for before an offset, and whether there can be any.
func (s *shard) unheard(end int64) (from ledger.Place, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end <= s.place.Offset+1 && s.foreign <= s.heard {
		s.heard = s.place.Offset // all before that is ours
		return ledger.Place{}, false
	}
	from = s.place
	from.Position = node.Position{Epoch: node.UnknownEpoch, Offset: s.heard}
	return from, s.heard < end
}

// overhear takes note of whether somebody else may have written before the end of a transaction of so many entries. The
// caller has mu, and the place is still that of the transaction before.
func (s *shard) overhear(end int64, entries int) {
	if end != s.place.Offset+1+int64(entries) {
		s.foreign = end
	}
}

// obey does what is wished, in one transaction, which is also the answer. A pause is minded before the transaction
// begins, since whoever waits for it may hear of it before its owner does:
//
//	owner   commits the pause                 is stopped                      claims on the lane, fires
//	asker                       reads it, and tells somebody that it is paused
//
// If nothing comes of the transaction, the lane is as it was. If nobody knows, the partition is lost, and its next
// owner reads what holds.
func (s *shard) obey(ctx context.Context, wishes []*wish) error {
	if len(wishes) == 0 {
		return nil
	}
	s.close(wishes, 1)
	defer s.close(wishes, -1)
	return s.do(ctx, func(c *change) error {
		for _, w := range wishes {
			c.obey(w)
		}
		return nil
	})
}

// close has pauses be minded that are about to be committed, or no more than what was.
func (s *shard) close(wishes []*wish, by int) {
	s.quick.Lock()
	defer s.quick.Unlock()
	if s.closing == nil {
		s.closing = map[string]int{}
	}
	for _, w := range wishes {
		if w.Pause != nil {
			s.closing[w.Lane] += by
		}
	}
}

// obeyed does what was wished before this node came to own the partition, and nobody has done. What is wished from then
// on stands behind the place of the copy.
func (s *shard) obeyed(ctx context.Context) error {
	wishes, err := s.pending()
	if err != nil {
		return err
	}
	return s.obey(ctx, wishes)
}
