package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// lockedBeside is what another session has locked of a store that does not see it.
type lockedBeside struct {
	mu       sync.Mutex
	released *sync.Cond
	locks    []memory.Locks
}

// breakLocks returns an instance whose locks change is told of; the model has them as well if passed on.
func breakLocks(
	passedOn bool, change func(b *broken, beside *lockedBeside),
) func(*storetest.Clock) storetest.Instance {
	return func(clock *storetest.Clock) storetest.Instance {
		beside := &lockedBeside{}
		beside.released = sync.NewCond(&beside.mu)
		instance := breakIt(func(b *broken, _ *storetest.Clock) { change(b, beside) })(clock)
		inner := instance.Lock
		instance.Lock = func(t testing.TB, locks memory.Locks) func() {
			t.Helper()
			unlock := func() {}
			if passedOn {
				unlock = inner(t, locks)
			}
			beside.mu.Lock()
			defer beside.mu.Unlock()
			beside.locks = append(beside.locks, locks)
			return func() {
				unlock()
				beside.mu.Lock()
				defer beside.mu.Unlock()
				beside.locks = nil
				beside.released.Broadcast()
			}
		}
		return instance
	}
}

// has reports whether a message is locked.
func (l *lockedBeside) has(id, lane string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.locks, func(locks memory.Locks) bool {
		return slices.Contains(locks.Messages, node.MessageID{ID: id, Lane: lane})
	})
}

// any reports whether anything of a take is locked.
func (l *lockedBeside) any(r *node.TakeRequest) bool {
	return slices.ContainsFunc(r.Items, func(i node.Item) bool { return i.Action != node.Pass && l.has(i.ID, i.Lane) })
}

var errLocked = errors.New("canceling statement due to lock timeout")

// takeBeside breaks a take beside locks that the model has: change is given what the model would answer.
func takeBeside(change func(ctx context.Context, b *broken, r node.TakeRequest, result *node.TakeResult) error) func(
	*storetest.Clock) storetest.Instance {
	return breakLocks(true, func(b *broken, beside *lockedBeside) {
		b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
			busy := beside.any(&r)
			result, err := b.Store.Take(ctx, r)
			if err == nil && busy {
				err = change(ctx, b, r, &result)
			}
			return result, err
		}
	})
}

// move takes in nothing, and sets the position of a partition to that behind an item.
func (b *broken) move(ctx context.Context, r node.TakeRequest, item *node.Item) {
	from := r.From[item.From]
	from.Position = node.Position{Epoch: node.UnknownEpoch, Offset: 0}
	b.must(b.Store.Take(ctx, node.TakeRequest{
		From: []node.Place{from}, Items: []node.Item{{Epoch: item.Epoch, Offset: item.Offset}},
	}))
}

func busyMutants() []mutant {
	return []mutant{
		{
			"a settlement ignores locks", "busy/what is settled", false,
			breakLocks(false, func(*broken, *lockedBeside) {}),
		},
		{
			"a settlement fails by a lock", "busy/what is settled", false,
			breakLocks(true, func(b *broken, beside *lockedBeside) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					for i := range next {
						if beside.has(next[i].Of.ID, next[i].Of.Lane) {
							return nil, errLocked
						}
					}
					return b.Store.Settle(ctx, next)
				}
			}),
		},
		{
			"a settlement passes over in silence", "busy/what is settled", false,
			breakLocks(true, func(b *broken, _ *lockedBeside) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					settled, err := b.Store.Settle(ctx, next)
					for i := range settled {
						if settled[i] == node.Busy {
							settled[i] = node.Gone
						}
					}
					return settled, err
				}
			}),
		},
		{
			"a settlement says busy of what is gone", "busy/what is settled", false,
			breakLocks(true, func(b *broken, beside *lockedBeside) {
				b.settle = func(ctx context.Context, next []node.Next) ([]node.Settled, error) {
					settled, err := b.Store.Settle(ctx, next)
					for i := range settled {
						if settled[i] == node.Gone && beside.has(next[i].Of.ID, next[i].Of.Lane) {
							settled[i] = node.Busy
						}
					}
					return settled, err
				}
			}),
		},
		{
			"a reset passes over in silence", "busy/what is reset", false,
			breakLocks(true, func(b *broken, _ *lockedBeside) {
				b.reset = func(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
					reset, err := b.Store.Reset(ctx, releases)
					for i := range reset {
						if reset[i] == node.Busy {
							reset[i] = node.Gone
						}
					}
					return reset, err
				}
			}),
		},
		{
			"a reset fails by a lock", "busy/what is reset", false,
			breakLocks(true, func(b *broken, beside *lockedBeside) {
				b.reset = func(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
					for i := range releases {
						if beside.has(releases[i].ID, releases[i].Lane) {
							return nil, errLocked
						}
					}
					return b.Store.Reset(ctx, releases)
				}
			}),
		},
		{
			"a take fails by a lock", "busy/a partition goes up to it", false,
			takeBeside(func(context.Context, *broken, node.TakeRequest, *node.TakeResult) error { return errLocked }),
		},
		{
			"a take waits for a lock", "busy/a partition goes up to it", false,
			breakLocks(true, func(b *broken, beside *lockedBeside) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					waiting, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					defer context.AfterFunc(waiting, beside.released.Broadcast)()
					for waiting.Err() == nil && beside.any(&r) {
						beside.mu.Lock()
						beside.released.Wait()
						beside.mu.Unlock()
					}
					if waiting.Err() != nil {
						return node.TakeResult{}, errLocked
					}
					return b.Store.Take(ctx, r)
				}
			}),
		},
		{
			"a position moves past a busy item", "busy/a partition goes up to it", false,
			takeBeside(func(ctx context.Context, b *broken, r node.TakeRequest, result *node.TakeResult) error {
				for i := range result.Results {
					if result.Results[i].Outcome == node.Blocked && r.Items[i].From != node.NoPlace {
						b.move(ctx, r, &r.Items[i])
						result.Positions[r.Items[i].From].Offset++
					}
				}
				return nil
			}),
		},
		{
			"what is behind a busy item is taken in", "busy/a partition goes up to it", false,
			takeBeside(func(ctx context.Context, b *broken, r node.TakeRequest, result *node.TakeResult) error {
				for i := range result.Results {
					if result.Results[i].Outcome == node.Untaken {
						result.Results[i] = b.aside(ctx, node.TakeRequest{}, r.Items[i]).Results[0]
					}
				}
				return nil
			}),
		},
		{
			"a lock stops the other partitions", "busy/a partition goes up to it", false,
			breakLocks(true, func(b *broken, beside *lockedBeside) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					items := slices.Clone(r.Items)
					at := slices.IndexFunc(items, func(i node.Item) bool { return beside.has(i.ID, i.Lane) })
					if at >= 0 {
						r.Items = items[:at]
					}
					result, err := b.Store.Take(ctx, r)
					for range len(items) - len(r.Items) {
						result.Results = append(result.Results, node.ItemResult{Outcome: node.Untaken})
					}
					result.Taken = len(items)
					return result, err
				}
			}),
		},
		{
			"a partition that is locked is refused", "busy/a partition whose row is locked", false,
			breakLocks(true, func(b *broken, beside *lockedBeside) {
				b.take = func(ctx context.Context, r node.TakeRequest) (node.TakeResult, error) {
					result, err := b.Store.Take(ctx, r)
					for i := range result.Results {
						if from := r.Items[i].From; from != node.NoPlace && result.Results[i].Outcome == node.Blocked {
							result.Refused[from], result.Results[i].Outcome = true, node.Untaken
						}
					}
					return result, err
				}
			}),
		},
		{
			"what was answered is busy", "busy/a request that was answered before", false,
			takeBeside(func(_ context.Context, _ *broken, _ node.TakeRequest, result *node.TakeResult) error {
				for i := range result.Results {
					if result.Results[i].Told != nil {
						result.Results[i] = node.ItemResult{Outcome: node.Blocked}
					}
				}
				return nil
			}),
		},
		{
			"what was taken in before is busy", "busy/what was taken in before", false,
			takeBeside(func(_ context.Context, _ *broken, _ node.TakeRequest, result *node.TakeResult) error {
				for i := range result.Results {
					result.Results[i] = node.ItemResult{Outcome: node.Blocked}
				}
				return nil
			}),
		},
		{
			"expired claims that are locked hide the others", "busy/thousands of expired claims do not hide the others",
			false,
			breakLocks(false, func(b *broken, beside *lockedBeside) {
				b.expired = func(ctx context.Context, limit int) ([]node.Claim, error) {
					expired, err := b.Store.Expired(ctx, limit)
					return slices.DeleteFunc(expired, func(c node.Claim) bool { return beside.has(c.ID, c.Lane) }), err
				}
			}),
		},
	}
}
