package storetest_test

import (
	"context"
	"math"
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
	model *memory.Store

	mu      sync.Mutex
	changed *sync.Cond
	locks   map[node.MessageID]*session
}

var _ node.Store = (*locking)(nil)

func newLocking(clock *storetest.Clock) *locking {
	s := &locking{model: memory.New(clock.Now), locks: map[node.MessageID]*session{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// await waits until nobody has locked the message. The caller holds the mutex.
func (s *locking) await(ctx context.Context, id, topic string) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	for ctx.Err() == nil {
		holder := s.locks[node.MessageID{ID: id, Topic: topic}]
		if holder == nil {
			return nil
		}
		holder.waiters++
		s.changed.Wait()
		holder.waiters--
	}
	return ctx.Err()
}

func (s *locking) Insert(
	ctx context.Context, request node.InsertRequest,
) ([]node.InsertResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range request.Messages {
		if err := s.await(ctx, m.ID, m.Topic); err != nil {
			return nil, err
		}
		one := node.InsertRequest{Node: request.Node, Messages: []node.Insertion{m}}
		if _, err := s.model.Insert(ctx, one); err != nil {
			return nil, err
		}
	}
	return s.model.Insert(ctx, request) // repeated for the results
}

func (s *locking) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	return s.model.Present(ctx, ids)
}

func (s *locking) Ready(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := request
	all.Limit, all.Bytes = math.MaxInt, math.MaxInt
	due, err := s.model.Ready(ctx, all)
	if err != nil {
		return nil, err
	}
	var claimed []node.Readied
	var skipped []node.Release
	size := 0
	for _, r := range due {
		locked := s.locks[node.MessageID{ID: r.ID, Topic: r.Topic}] != nil
		if locked || len(claimed) >= request.Limit || size >= request.Bytes {
			skipped = append(skipped, node.Release{Claim: r.Claim})
			continue
		}
		size += r.Size()
		claimed = append(claimed, r)
	}
	_, err = s.model.Reset(ctx, skipped)
	return claimed, err
}

func (s *locking) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deleted := make([]bool, len(refs))
	for i, ref := range refs {
		if err := s.await(ctx, ref.ID, ref.Topic); err != nil {
			return nil, err
		}
		one, err := s.model.Delete(ctx, refs[i:i+1])
		if err != nil {
			return nil, err
		}
		deleted[i] = one[0]
	}
	return deleted, ctx.Err()
}

func (s *locking) Stuck(ctx context.Context, request node.StuckRequest) ([]node.Claim, error) {
	return s.model.Stuck(ctx, request)
}

func (s *locking) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reset := make([]bool, len(releases))
	for i, release := range releases {
		if err := s.await(ctx, release.ID, release.Topic); err != nil {
			return nil, err
		}
		one, err := s.model.Reset(ctx, releases[i:i+1])
		if err != nil {
			return nil, err
		}
		reset[i] = one[0]
	}
	return reset, ctx.Err()
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
	locked  []node.MessageID
	waiters int
}

func (s *session) Insert(m node.Message) {
	s.do(m.Ref(), func(ctx context.Context) error {
		_, err := s.store.model.Insert(ctx, node.InsertRequest{
			Messages: []node.Insertion{{Message: m}},
		})
		return err
	})
}

func (s *session) Delete(ref node.Ref) {
	s.do(ref, func(ctx context.Context) error {
		_, err := s.store.model.Delete(ctx, []node.Ref{ref})
		return err
	})
}

func (s *session) Claim(ref node.Ref, owner uuid.UUID) {
	s.do(ref, func(ctx context.Context) error {
		for _, row := range s.store.model.Dump() {
			if row.Ref() != ref {
				continue
			}
			if _, err := s.store.model.Delete(ctx, []node.Ref{ref}); err != nil {
				return err
			}
			_, err := s.store.model.Insert(ctx, node.InsertRequest{
				Node: owner, Messages: []node.Insertion{{Message: row.Message, Readied: true}},
			})
			return err
		}
		s.t.Fatalf("nothing to claim: %+v", ref)
		return nil
	})
}

func (s *session) do(ref node.Ref, effect func(context.Context) error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	id := node.MessageID{ID: ref.ID, Topic: ref.Topic}
	s.store.locks[id] = s
	s.locked = append(s.locked, id)
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
