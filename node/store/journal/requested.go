package journal

import (
	"time"

	"chronos/node"
)

// claimedLate is for how long after it has lost a partition an owner may claim that does not know of that yet
// (surelyOurs). The rest is for the clocks of machines that differ.
const claimedLate = 10 * time.Second

// claimableUntil returns up to when a message falls due that may have been claimed at an instant, or soon after it.
func (s *shard) claimableUntil(at time.Time) time.Time { return at.Add(s.ahead + claimedLate) }

// mayBeOut reports whether somebody who owned the partition before may have claimed a message of a callback lane, as
// this node did, if it did. A claim is memory of an owner, and a request is no part of a transaction, so that nothing
// refuses it when the owner is another one, or owns the partition anew:
//
//	A claims x, which is due in a moment        the end of a transaction is unknown, and A owns anew; or B does
//	                                            cancel x: nobody has a claim on it, and it is cancelled
//	A, whose engine still has its claim, makes the request
//
// Nor does the journal have how often a request was tried. So what was due when the partition changed hands, or soon
// after that, counts as tried once: to cancel it is too late, and it comes out. What this node has stored itself since
// then nobody else can have claimed, nor what has fallen due while its lane was paused.
func (s *shard) mayBeOut(r *row) bool {
	return node.IsCallback(r.Lane) && !r.due.After(s.claimableUntil(s.since)) && !s.isFresh(r) && !s.waits(r)
}

func (s *shard) isFresh(r *row) bool {
	s.quick.Lock()
	defer s.quick.Unlock()
	return s.fresh[r.Incarnation]
}

// waits reports whether the lane of a message has been paused since before anybody could have claimed it.
func (s *shard) waits(r *row) bool {
	s.quick.Lock()
	defer s.quick.Unlock()
	is := s.switches[r.Lane]
	return is != nil && is.Pause != nil && !is.Pause.Minded.IsZero() &&
		s.claimableUntil(is.Pause.Minded).Before(r.due)
}

// maxFresh is how many messages of a partition are known to be fresh. After a rewind, or an import, all that was ever
// submitted may be overdue when it is stored, and a local copy is on disk because that does not fit in memory. What is
// beyond counts as tried once.
const maxFresh = 100_000

// freshen notes what a change does to a message. The caller has quick.
func (c *change) freshen(before, after *row) {
	if before != nil && (after == nil || after.Incarnation != before.Incarnation) {
		delete(c.fresh, before.Incarnation)
	}
	stored := len(c.fresh) < maxFresh && after != nil && (before == nil || after.Incarnation != before.Incarnation)
	if stored && node.IsCallback(after.Lane) && !after.due.After(c.claimableUntil(c.since)) {
		c.fresh[after.Incarnation] = true
	}
}
