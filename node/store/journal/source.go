package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Source is a node.Source whose partitions are owned in the journal when the node hears of them. Of what the consumer
// group assigns it tells the node nothing until the journal partition is owned and its copy caught up; the node polls
// on meanwhile, and so hears of the others. A partition that the store has lost is one that the node has lost, and, as
// long as the group leaves it here, is assigned anew:
//
//   - after an unknown outcome at once;
//   - after a fence only when a session is over. Whoever has fenced us was assigned the partition, so that either we
//     hear of it by then, or it hears that we have it. Without the wait two nodes that both believe to be the owner
//     would fence each other in turn, and neither would get anything done.
//
// Its methods are called one at a time, as those of every Source.
type Source struct {
	node.Source

	store   *Store
	owner   uuid.UUID
	session time.Duration
	observe func(number int32, err error)

	// here are the partitions that the group has assigned to this node, by the number that they have in the journal.
	here map[int32]*tenure

	owning sync.WaitGroup

	// mu guards wake, which ends the poll that is under way.
	mu   sync.Mutex
	wake context.CancelFunc
}

// tenure is a partition that the group has assigned.
type tenure struct {
	node.Assignment

	number int32 // in the journal

	told bool // the node knows of it
	stop context.CancelFunc
	done chan error // of the attempt to own it
	next time.Time  // of the next attempt, if none is under way
}

// retryOwning is the wait after an attempt to own a partition that has failed.
const retryOwning = time.Second

var _ node.Source = (*Source)(nil)

// NewSource returns a Source over one that has the input topics of the store. Session is how long the consumer group
// waits for a silent member. Observe is told of each attempt to own a partition, by its number in the journal: nil says
// that it is owned, and context.Canceled that the group has taken it away before it was.
func NewSource(
	source node.Source, store *Store, owner uuid.UUID, session time.Duration, observe func(number int32, err error),
) *Source {
	return &Source{
		Source: source, store: store, owner: owner, session: session, observe: observe, here: map[int32]*tenure{},
		wake: func() {},
	}
}

// Poll implements node.Source. A poll that fails has brought nothing, and partitions are owned and given up
// nevertheless: each one fails in which nothing comes, for as long as one partition of the input has no leader, or one
// topic is forbidden.
func (s *Source) Poll(ctx context.Context) (node.Batch, error) {
	polling, stop := context.WithCancel(ctx)
	defer stop()
	s.mu.Lock()
	s.wake = stop
	s.mu.Unlock()
	for _, t := range s.here {
		if !t.told && len(t.done) > 0 {
			stop() // somebody was too early to wake this poll
		}
	}
	b, err := s.Source.Poll(polling)
	for _, p := range b.Revoked {
		s.giveUp(s.store.number(p))
	}
	for _, a := range b.Assigned {
		number := s.store.number(a.Partition)
		s.giveUp(number)
		s.here[number] = &tenure{Assignment: a, number: number}
	}
	b.Assigned = nil
	b.Revoked = append(b.Revoked, s.lose()...)
	b.Records = slices.DeleteFunc(b.Records, func(r node.Record) bool {
		t := s.here[s.store.number(node.Partition{Topic: r.Topic, Number: r.Partition})]
		return t == nil || !t.told
	})
	b.Assigned = s.own(ctx)
	if err != nil && len(b.Revoked)+len(b.Assigned) == 0 {
		return node.Batch{}, err //nolint:wrapcheck // it is the same port
	}
	return b, nil
}

// lose returns the partitions that the store has lost. They are to be owned anew.
func (s *Source) lose() []node.Partition {
	var lost []node.Partition
	for _, loss := range s.store.Lost() {
		t := s.here[loss.Number]
		if t == nil || !t.told {
			continue
		}
		s.store.Release(loss.Number)
		lost = append(lost, t.Partition)
		t.told = false
		if loss.Fenced {
			t.next = s.store.config.Now().Add(s.session)
		}
	}
	return lost
}

// own begins to own what is not yet owned, and returns what is by now, in order.
func (s *Source) own(ctx context.Context) []node.Assignment {
	var assigned []node.Assignment
	now := s.store.config.Now()
	for _, t := range s.here {
		switch {
		case t.told:
		case t.done == nil && !now.Before(t.next):
			s.begin(context.WithoutCancel(ctx), t)
		case len(t.done) > 0:
			err := <-t.done
			t.stop()
			t.done = nil
			s.observe(t.number, err)
			if err != nil {
				t.next = now.Add(retryOwning)
				if _, sealed := errors.AsType[*SealedError](err); sealed || IsUnreadable(err) {
					// Who moves the contents is not to be fenced all the time, and who skips an entry takes a while.
					t.next = now.Add(s.session)
				}
				continue
			}
			t.told = true
			assigned = append(assigned, t.Assignment)
		}
	}
	slices.SortFunc(assigned, func(a, b node.Assignment) int {
		return cmp.Compare(s.store.number(a.Partition), s.store.number(b.Partition))
	})
	return assigned
}

// begin begins to own a partition.
func (s *Source) begin(ctx context.Context, t *tenure) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	t.stop, t.done = stop, done
	s.owning.Go(func() {
		done <- s.store.Own(ctx, t.number, s.owner)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake()
	})
}

// giveUp releases a partition that is not this node's any more. An attempt to own it ends first: it would own it after
// the release.
func (s *Source) giveUp(number int32) {
	t := s.here[number]
	if t == nil {
		return
	}
	if t.done != nil {
		t.stop()
		if err := <-t.done; err != nil {
			s.observe(number, err)
		}
	}
	if !t.told {
		s.observe(number, context.Canceled)
	}
	s.store.Release(number)
	delete(s.here, number)
}

// Leave implements node.Source.
func (s *Source) Leave(ctx context.Context) error {
	s.Close()
	return s.Source.Leave(ctx) //nolint:wrapcheck // it is the same port
}

// Close gives up everything that is owned. It does not close the source beneath.
func (s *Source) Close() {
	for number := range s.here {
		s.giveUp(number)
	}
	s.owning.Wait()
}
