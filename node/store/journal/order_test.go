package journal_test

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// stands has a message have its place among those of its key from now on.
func (r *recorded) stands(deadline time.Time) { r.deadline, r.joined = deadline, time.Now() }

// comesBefore reports whether a message comes before another one of its key.
func (r *recorded) comesBefore(other *recorded) bool {
	return cmp.Or(r.deadline.Compare(other.deadline), cmp.Compare(r.ref.ID, other.ref.ID)) < 0
}

// inLine looks whether a callback has its turn when it is requested (S28): none of its key that comes first was there
// before it was claimed, and still is, and none is under way by a claim of the same owner. Who owned the partition
// before holds nobody up, whatever it has claimed (docs/adr/0030). The caller has mu.
func (j *recorder) inLine(x *request) {
	own := j.rows[node.MessageID{ID: x.claim.ID, Lane: x.claim.Lane}]
	owned := x.claim.tenure == j.calls.tenures[x.of.partition]
	if !j.world.ordered || own == nil || own.ref.Incarnation != x.claim.Incarnation || !owned {
		return
	}
	key := j.world.keyOf(x.claim.ID)
	for name, other := range j.rows {
		if other == own || name.Lane != x.claim.Lane || j.world.keyOf(name.ID) != key {
			continue
		}
		j.calls.lined++
		if other.comesBefore(own) && other.joined.Before(x.claim.ReadiedAt) {
			j.world.Errorf("S28: %s, due at %v and claimed at %v, is requested before %s, of the same key, due at %v",
				x.claim.ID, own.deadline, x.claim.ReadiedAt, name.ID, other.deadline)
		}
		if before := j.underWay(other.ref.Incarnation, x); before != nil {
			j.world.Errorf("S28: %s is requested while %s, of the same key, is under way, claimed at %v",
				x.claim.ID, name.ID, before.claim.ReadiedAt)
		}
	}
}

// underWay returns a request about another incarnation whose claim is still held by who makes a request now.
func (j *recorder) underWay(incarnation uuid.UUID, x *request) *request {
	for _, before := range j.calls.made[incarnation] {
		held := !before.back && time.Now().Before(before.claim.Expires)
		if held && before.life == x.life && before.claim.tenure == x.claim.tenure {
			return before
		}
	}
	return nil
}
