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

// open reports whether callers still meet.
func (m *meeting) open() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left > 0
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
			"a take reads positions first and moves them later", "concurrent/takes of the same records have one winner",
			false, breakIt(func(b *broken, _ *storetest.Clock) {
				race := &meeting{left: 1}
				var taking sync.Mutex
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					before, found := b.position(ctx, r.From[0])
					race.meet()
					taking.Lock()
					defer taking.Unlock()
					// What has been taken in meanwhile is taken in again, from where it is thought to be new.
					now, _ := b.position(ctx, r.From[0])
					if found && now != before {
						r.Items = slices.Clone(r.Items)
						for i := range r.Items {
							r.Items[i].Offset += now.Offset - before.Offset
							r.Items[i].ID += " again"
						}
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"a take looks first and writes later", "concurrent/takes of the same ids have one winner each", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var writing sync.Mutex
				race := &meeting{left: 1}
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					before := b.Dump()
					race.meet()
					writing.Lock()
					defer writing.Unlock()
					for _, item := range r.Items {
						if row, found := b.row(item.ID, item.Lane); found && !stores(before, row.Ref()) {
							b.must(b.Store.Settle(ctx, node.Removals(row.Ref())))
						}
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"two claimers choose the same", "concurrent/claimers share nothing and take all", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var choosing sync.Mutex
				race := &meeting{left: 1}
				b.claim = func(ctx context.Context, r node.ClaimRequest) (node.ClaimResult, error) {
					choosing.Lock()
					result, err := b.Store.Claim(ctx, r)
					if race.open() {
						for _, one := range result.Messages {
							b.must(b.Store.Reset(ctx, []node.Release{{Claim: one.Claim}}))
						}
					}
					choosing.Unlock()
					race.meet()
					return result, err
				}
			}),
		},
		{
			"concurrent takes deadlock", "concurrent/takes of the same ids have one winner each", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				var mu sync.Mutex
				inside := 0
				race := &meeting{left: 1}
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					if len(r.Items) < 2 {
						return b.Store.Take(ctx, r)
					}
					mu.Lock()
					inside++
					mu.Unlock()
					race.meet()
					mu.Lock()
					defer mu.Unlock()
					inside--
					if inside > 0 {
						return node.TakeResult{}, errors.New("deadlock detected")
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"two begin one lineage", "concurrent/new lineages have one winner each", false,
			breakIt(func(b *broken, _ *storetest.Clock) {
				race := &meeting{left: 1}
				var beginning sync.Mutex
				b.catchUp = func(ctx context.Context, r node.CatchUpRequest) (node.State, error) {
					_, before, err := b.Store.Positions(ctx, nil)
					race.meet()
					beginning.Lock()
					defer beginning.Unlock()
					_, now, nowErr := b.Store.Positions(ctx, nil)
					if before.Lineage == r.Lineage {
						r.Lineage = now.Lineage
					}
					state, beginErr := b.Store.CatchUp(ctx, r)
					return state, errors.Join(err, nowErr, beginErr)
				}
			}),
		},
	}
}

// unlocked is the locking store with one method that does not wait for locks.
type unlocked struct {
	*locking

	rows, positions, reset, claim bool
}

// Take waits for neither rows nor positions, or for one of the two.
func (u unlocked) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if !u.rows && !u.positions {
		return u.locking.Take(ctx, request)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, place := range request.From {
		if u.positions {
			break
		}
		if err := u.await(ctx, place.Partition); err != nil {
			return node.TakeResult{}, err
		}
	}
	return u.Store.Take(ctx, request)
}

// Reset decides before it waits, and answers what it decided.
func (u unlocked) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	if !u.reset {
		return u.locking.Reset(ctx, releases)
	}
	before := u.Dump()
	if _, err := u.locking.Reset(ctx, releases); err != nil {
		return nil, err
	}
	reset := make([]node.Settled, len(releases))
	for i, release := range releases {
		if slices.ContainsFunc(before, func(row memory.Row) bool {
			return row.Ref() == release.Ref && row.ReadiedAt.Equal(release.ReadiedAt)
		}) {
			reset[i] = node.Freed
		}
	}
	return reset, nil
}

func (u unlocked) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	if u.claim {
		return u.Store.Claim(ctx, request)
	}
	return u.locking.Claim(ctx, request)
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
			"take does not wait for a delete", "session/take waits for a delete and goes by its outcome", false,
			open(func(u *unlocked) { u.rows = true }),
		},
		{
			"cancel does not wait for a claim", "session/cancel waits for a claim and is too late", false,
			open(func(u *unlocked) { u.rows = true }),
		},
		{
			"replace does not wait for a row", "session/replace waits for a row and takes it over", false,
			open(func(u *unlocked) { u.rows = true }),
		},
		{
			"take does not wait for a position", "session/take waits for a position and goes by its outcome", false,
			open(func(u *unlocked) { u.positions = true }),
		},
		{
			"claim takes what others are claiming", "session/claim skips what others are claiming", false,
			open(func(u *unlocked) { u.claim = true }),
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
