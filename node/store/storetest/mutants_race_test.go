package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// meeting lets the first few callers of meet go on together, so that a race happens for sure. A caller that stays
// alone goes on after a while, because not every call has a rival.
type meeting struct {
	mu   sync.Mutex
	next chan struct{}
	left int
}

func (m *meeting) meet() {
	m.mu.Lock()
	if m.left == 0 {
		m.mu.Unlock()
		return
	}
	if m.next != nil {
		close(m.next)
		m.next = nil
		m.left--
		m.mu.Unlock()
		return
	}
	next := make(chan struct{})
	m.next = next
	m.mu.Unlock()
	select {
	case <-next:
	case <-time.After(10 * time.Second):
		panic("nobody came")
	}
}

func concurrentMutants() []mutant {
	return []mutant{
		{
			"insert looks first and writes later", "concurrent/inserts of the same ids have one winner each", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var writing sync.Mutex
				race := &meeting{left: 1}
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					before := b.Dump()
					race.meet()
					writing.Lock()
					defer writing.Unlock()
					for _, m := range r.Messages {
						row, found := b.row(m.ID, m.Topic)
						if found && !slices.ContainsFunc(before, func(o memory.Row) bool {
							return o.Ref() == row.Ref()
						}) {
							if _, err := b.Store.Delete(ctx, []node.Ref{row.Ref()}); err != nil {
								return nil, err
							}
						}
					}
					return b.Store.Insert(ctx, r)
				}
			}),
		},
		{
			"two claimers choose the same", "concurrent/claimers share nothing and take all", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var choosing, writing sync.Mutex
				race := &meeting{left: 1}
				choose := func(ctx context.Context, r node.ReadyRequest) ([]node.Readied, error) {
					choosing.Lock()
					defer choosing.Unlock()
					readied, err := b.Store.Ready(ctx, r)
					for _, one := range readied {
						if _, err := b.Store.Reset(ctx, []node.Release{{Claim: one.Claim}}); err != nil {
							return nil, err
						}
					}
					return readied, err
				}
				b.ready = func(ctx context.Context, r node.ReadyRequest) ([]node.Readied, error) {
					readied, err := choose(ctx, r)
					race.meet()
					writing.Lock()
					defer writing.Unlock()
					for i := range readied {
						m := readied[i].Message
						if _, err := b.Store.Delete(ctx, []node.Ref{m.Ref()}); err != nil {
							return nil, err
						}
						results, err := b.Store.Insert(ctx, node.InsertRequest{
							Node: r.Node, Messages: []node.Insertion{{Message: m, Readied: true}},
						})
						if err != nil {
							return nil, err
						}
						readied[i].Claim = results[0].Claim
					}
					return readied, err
				}
			}),
		},
		{
			"concurrent inserts deadlock", "concurrent/inserts of the same ids have one winner each", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var mu sync.Mutex
				inside := 0
				race := &meeting{left: 1}
				b.insert = func(ctx context.Context, r node.InsertRequest) ([]node.InsertResult, error) {
					if len(r.Messages) < 2 {
						return b.Store.Insert(ctx, r)
					}
					mu.Lock()
					inside++
					mu.Unlock()
					race.meet()
					mu.Lock()
					defer mu.Unlock()
					inside--
					if inside > 0 {
						return nil, errors.New("deadlock detected")
					}
					return b.Store.Insert(ctx, r)
				}
			}),
		},
	}
}

// unlocked is the locking store with one method that does not wait for locks.
type unlocked struct {
	*locking

	insert, reset, ready bool
}

func (u unlocked) Insert(
	ctx context.Context, request node.InsertRequest,
) ([]node.InsertResult, error) {
	if u.insert {
		return u.model.Insert(ctx, request)
	}
	return u.locking.Insert(ctx, request)
}

// Reset decides before it waits, and answers what it decided.
func (u unlocked) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	if !u.reset {
		return u.locking.Reset(ctx, releases)
	}
	before := u.model.Dump()
	if _, err := u.locking.Reset(ctx, releases); err != nil {
		return nil, err
	}
	reset := make([]bool, len(releases))
	for i, release := range releases {
		reset[i] = slices.ContainsFunc(before, func(row memory.Row) bool {
			return row.Ref() == release.Ref && row.ReadiedAt.Equal(release.ReadiedAt)
		})
	}
	return reset, nil
}

func (u unlocked) Ready(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
	if u.ready {
		return u.model.Ready(ctx, request)
	}
	return u.locking.Ready(ctx, request)
}

func sessionMutants() []mutant {
	open := func(change func(*unlocked)) func(*storetest.Clock) storetest.Instance {
		return func(clock *storetest.Clock) storetest.Instance {
			store := unlocked{locking: newLocking(clock)}
			change(&store)
			return storetest.Instance{Store: store, Clock: clock, Begin: store.begin}
		}
	}
	return []mutant{
		{
			"insert does not wait for a delete", "session/insert waits for a delete and goes by its outcome", false,
			open(func(u *unlocked) { u.insert = true }),
		},
		{
			"ready takes what others are claiming", "session/ready skips what others are claiming", false,
			open(func(u *unlocked) { u.ready = true }),
		},
		{
			"reset does not look again", "session/reset waits for a claim and then sees it", false,
			open(func(u *unlocked) { u.reset = true }),
		},
		{
			"reset of a deleted message is confirmed", "session/reset waits for a delete", false,
			open(func(u *unlocked) { u.reset = true }),
		},
	}
}
