package storetest_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// locking is the memory model with transactions beside it, which lock the messages that they change, as a
// database does. It is there to run the session cases without a database.
type locking struct {
	*memory.Store

	mu      sync.Mutex
	changed *sync.Cond

	// locks are the sessions that have locked something, by the node.MessageID or the node.Partition.
	locks map[any]*session
}

var _ node.Store = (*locking)(nil)

func newLocking(clock *storetest.Clock) *locking {
	s := &locking{Store: memory.New(clock.Now), locks: map[any]*session{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// await waits until nobody has locked what has that key. The caller holds the mutex.
func (s *locking) await(ctx context.Context, key any) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	for ctx.Err() == nil {
		holder := s.locks[key]
		if holder == nil {
			return nil
		}
		holder.waiters++
		s.changed.Wait()
		holder.waiters--
	}
	return ctx.Err()
}

func (s *locking) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, place := range request.From {
		if err := s.await(ctx, place.Partition); err != nil {
			return node.TakeResult{}, err
		}
	}
	for i := 0; i < len(request.Items); i++ {
		m := request.Items[i].Message
		key := node.MessageID{ID: m.ID, Lane: m.Lane}
		if s.locks[key] != nil {
			if err := s.await(ctx, key); err != nil {
				return node.TakeResult{}, err
			}
			i = -1 // others may have been locked meanwhile
		}
	}
	return s.Store.Take(ctx, request)
}

func (s *locking) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What is locked is claimed by somebody else meanwhile, so that the model does not see it.
	var hidden []node.Ready
	all := node.ClaimRequest{Until: request.Until}
	for _, share := range request.Lanes {
		all.Lanes = append(all.Lanes, node.Share{
			Lane: share.Lane, Part: share.Part, Limit: math.MaxInt, Bytes: math.MaxInt,
		})
	}
	due, err := s.Store.Claim(ctx, all)
	if err != nil {
		return node.ClaimResult{}, err
	}
	var free []node.Release
	for _, r := range due.Messages {
		if s.locks[node.MessageID{ID: r.ID, Lane: r.Lane}] != nil {
			hidden = append(hidden, r)
		} else {
			free = append(free, node.Release{Claim: r.Claim, Part: r.Part, Unsent: true})
		}
	}
	if _, err := s.Store.Reset(ctx, free); err != nil {
		return node.ClaimResult{}, err
	}
	result, err := s.Store.Claim(ctx, request)
	if err != nil {
		return node.ClaimResult{}, err
	}
	var back []node.Release
	for _, r := range hidden {
		back = append(back, node.Release{Claim: r.Claim, Part: r.Part, Unsent: true})
	}
	_, err = s.Store.Reset(ctx, back)
	return result, err
}

func (s *locking) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := make([]node.Settled, len(next))
	for i, n := range next {
		if err := s.await(ctx, node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}); err != nil {
			return nil, err
		}
		one, err := s.Store.Settle(ctx, next[i:i+1])
		if err != nil {
			return nil, err
		}
		settled[i] = one[0]
	}
	return settled, ctx.Err()
}

func (s *locking) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reset := make([]node.Settled, len(releases))
	for i, release := range releases {
		if err := s.await(ctx, node.MessageID{ID: release.ID, Lane: release.Lane}); err != nil {
			return nil, err
		}
		one, err := s.Store.Reset(ctx, releases[i:i+1])
		if err != nil {
			return nil, err
		}
		reset[i] = one[0]
	}
	return reset, ctx.Err()
}

// Expired passes over what is locked.
func (s *locking) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.Store.Expired(ctx, math.MaxInt)
	free := slices.DeleteFunc(all, func(c node.Claim) bool {
		return s.locks[node.MessageID{ID: c.ID, Lane: c.Lane}] != nil
	})
	return free[:min(len(free), limit)], err
}

func (s *locking) begin(t testing.TB) storetest.Session {
	t.Helper()
	return &session{t: t, store: s}
}

// session is a transaction: what it is going to do, and how many calls wait for it.
type session struct {
	t       testing.TB
	store   *locking
	effects []func(ctx context.Context) error
	locked  []any
	waiters int
}

func (s *session) Insert(m node.Message) {
	s.do(m.Ref(), func(ctx context.Context) error { return s.insert(ctx, node.TakeRequest{}, m, false) })
}

// insert takes m in from a partition of its own.
func (s *session) insert(ctx context.Context, request node.TakeRequest, m node.Message, claim bool) error {
	place := node.Place{Partition: node.Partition{Topic: "session"}}
	positions, _, err := s.store.Positions(ctx, []node.Place{place})
	if err != nil {
		return err
	}
	place.Position = positions[0]
	request.From = []node.Place{place}
	request.Items = []node.Item{{Offset: place.Offset, Action: node.Schedule, Message: m, Claim: claim}}
	_, err = s.store.Store.Take(ctx, request)
	return err
}

func (s *session) Move(place node.Place) {
	s.lock(place.Partition, func(ctx context.Context) error {
		_, err := s.store.Store.Take(ctx, node.TakeRequest{
			From: []node.Place{{Partition: place.Partition}}, Items: []node.Item{{
				Epoch: place.Epoch, Offset: place.Offset - 1,
			}},
		})
		return err
	})
}

func (s *session) Delete(ref node.Ref) {
	s.do(ref, func(ctx context.Context) error {
		_, err := s.store.Store.Settle(ctx, node.Removals(ref))
		return err
	})
}

func (s *session) Claim(ref node.Ref, owner uuid.UUID) {
	s.do(ref, func(ctx context.Context) error {
		for _, row := range s.store.Dump() {
			if row.Ref() != ref {
				continue
			}
			if _, err := s.store.Store.Settle(ctx, node.Removals(ref)); err != nil {
				return err
			}
			return s.insert(ctx, node.TakeRequest{Node: owner}, row.Message, true)
		}
		s.t.Fatalf("nothing to claim: %+v", ref)
		return nil
	})
}

func (s *session) do(ref node.Ref, effect func(context.Context) error) {
	s.lock(node.MessageID{ID: ref.ID, Lane: ref.Lane}, effect)
}

func (s *session) lock(key any, effect func(context.Context) error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.locks[key] = s
	s.locked = append(s.locked, key)
	s.effects = append(s.effects, effect)
}

func (s *session) Waiting() bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.waiters > 0
}

func (s *session) Commit() { s.end(s.effects) }

func (s *session) Rollback() { s.end(nil) }

func (s *session) end(effects []func(context.Context) error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, effect := range effects {
		if err := effect(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, id := range s.locked {
		delete(s.store.locks, id)
	}
	s.store.changed.Broadcast()
}
