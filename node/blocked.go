package node

import (
	"math/rand/v2"
	"slices"
	"time"
)

// undone is what waits to be handed to the store: in order, and apart from that what another session has locked (Busy),
// each item with a back-off of its own. So a lock delays what it locks, for as long as it is held, and nothing else.
// Whoever uses it guards it.
type undone[T any] struct {
	ready   []T
	blocked []blocked[T] // in the order in which they were found to be locked last
	calls   int          // how often next was called
}

// blocked is an item that another session has locked.
type blocked[T any] struct {
	item  T
	tries int           // how often it was found to be locked
	retry time.Duration // monotonic
	sent  bool          // next has returned it last
}

const (
	// blockedMax caps the wait before an item that is locked is tried again: what is unlocked is settled that soon.
	blockedMax = 5 * time.Second

	// mostBlocked is how many items may be blocked. A session can lock what this node has claimed, which is a few
	// thousand messages; only sessions that go on locking come to this. Beyond it those that were tried least lately
	// are dropped, and recovered as those of a dead node are: they may come out twice.
	mostBlocked = 10_000
)

// len returns how many items there are.
func (u *undone[T]) len() int { return len(u.ready) + len(u.blocked) }

// next returns what to hand to the store next, n at most: blocked items whose back-off is over, half of it at most
// where there are others, and then those in order. Only done takes them out. The caller does not change the result.
func (u *undone[T]) next(now time.Duration, n int) []T {
	var part []T
	most := n
	if u.calls++; len(u.ready) > 0 {
		most = (n + u.calls%2) / 2 // in calls for one item, each second one
	}
	for i := range u.blocked {
		b := &u.blocked[i]
		if b.sent = b.retry <= now && len(part) < most; b.sent {
			part = append(part, b.item)
		}
	}
	own := u.ready[:min(len(u.ready), n-len(part))]
	if len(part) == 0 {
		return own
	}
	return append(part, own...)
}

// done takes out the part that next has returned, except for what the store has answered to be locked. It returns how
// many items were dropped, since too many are.
func (u *undone[T]) done(part []T, answers []Settled, now time.Duration, random *rand.ChaCha8) (dropped int) {
	var again []blocked[T]
	block := func(item T, tries int) {
		again = append(again, blocked[T]{item: item, tries: tries, retry: now + backoff(tries, blockedMax, random)})
	}
	at := 0
	left := u.blocked[:0]
	for _, b := range u.blocked {
		switch {
		case !b.sent:
			left = append(left, b)
			continue
		case answers[at] == Busy:
			block(b.item, b.tries+1)
		}
		at++
	}
	u.ready = u.ready[len(part)-at:]
	if len(u.ready) == 0 {
		u.ready = nil
	}
	for ; at < len(part); at++ {
		if answers[at] == Busy {
			block(part[at], 1)
		}
	}
	u.blocked = append(left, again...)
	dropped = max(0, len(u.blocked)-mostBlocked)
	u.blocked = slices.Delete(u.blocked, 0, dropped)
	return dropped
}

// unblock has all items be tried at once.
func (u *undone[T]) unblock() {
	for i := range u.blocked {
		u.blocked[i].retry = 0
	}
}

// opens returns how long it takes until there is something to hand to the store.
func (u *undone[T]) opens(now time.Duration) time.Duration {
	if len(u.ready) > 0 {
		return 0
	}
	wait := time.Hour
	for i := range u.blocked {
		wait = min(wait, max(0, u.blocked[i].retry-now))
	}
	return wait
}
