package journal_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim/check"
)

// waited are the invariants that the second judge has the say on.
const waited = "L1 L4 L11 L20"

// waits is a second judge, of how long what waits has to wait for its claim, and of what is tried again. It hears all
// that the first one does, and of claims besides. What else it could say of them does not count: a claim here is memory
// of an owner, and ends when the partition has another one, long before its hold time (S4); and a lane is paused in one
// partition after the other (S25).
type waits struct {
	judge  *check.Judge
	broken []check.Violation
	held   map[uuid.UUID]node.Claim // by incarnation
	healed int                      // claims since the world has healed
}

func newWaits() waits { return waits{judge: check.New(), held: map[uuid.UUID]node.Claim{}} }

// begin tells the second judge under what the history is recorded.
func (j *waits) begin(first *check.Config) {
	c := *first
	c.Recorded = append(slices.Clone(c.Recorded), check.Claim, check.Reset, check.Cut, check.Error)
	c.Batch = 500 // which is the most that the engine claims in one call
	j.add(&check.Event{Kind: check.Configure, Config: &c})
}

func (j *waits) add(e *check.Event) {
	for _, v := range j.judge.Add(e) {
		if slices.Contains(strings.Fields(waited), v.Invariant) {
			j.broken = append(j.broken, v)
		}
	}
}

// aside tells the second judge of something that the first one does not hear. The caller has mu.
func (j *recorder) aside(e *check.Event) {
	if !j.ended {
		e.At = time.Since(j.began)
		j.waits.add(e)
	}
}

// holds tells of claims of a life. What it has claimed of something that is not there any more does not count: the
// other call that has settled it was at the same instant.
func (j *recorder) holds(claims []node.Claim, life *gate) {
	for i := range claims {
		c := &claims[i]
		if c.ReadiedBy == uuid.Nil {
			continue
		}
		j.waits.held[c.Incarnation] = *c
		if j.world.healed.Load() {
			j.waits.healed++
		}
		e := claimEvent(check.Claim, c)
		e.Node, e.Stamp, e.Expires = life.name, j.instant(c.ReadiedAt), j.instant(c.Expires)
		j.aside(e)
	}
}

// released tells that a life has given a claim back.
func (j *recorder) released(r *node.Release, life *gate) {
	delete(j.waits.held, r.Incarnation)
	e := claimEvent(check.Reset, &r.Claim)
	e.Node, e.Stamp = life.name, j.instant(r.ReadiedAt)
	e.Due, e.Unsent, e.Behind = j.instant(r.Due), r.Unsent, r.Behind
	j.aside(e)
}

// lapses tells that the claims of a former owner of a partition are gone with it.
func (j *recorder) lapses(number int32) {
	byID := func(a, b *recorded) int {
		return cmp.Or(cmp.Compare(a.ref.ID, b.ref.ID), cmp.Compare(a.ref.Lane, b.ref.Lane))
	}
	for _, row := range slices.SortedFunc(maps.Values(j.rows), byID) {
		c, some := j.waits.held[row.ref.Incarnation]
		if !some || j.calls.known[row.ref.Incarnation].partition != number {
			continue
		}
		delete(j.waits.held, row.ref.Incarnation)
		e := claimEvent(check.Reset, &c)
		e.Stamp = j.instant(c.ReadiedAt)
		j.aside(e)
	}
}

// claimEvent returns an event about a claim.
func claimEvent(kind check.Kind, c *node.Claim) *check.Event {
	return &check.Event{
		Kind: kind, ID: c.ID, Topic: c.Lane, Incarnation: check.UUID(c.Incarnation), Owner: check.UUID(c.ReadiedBy),
	}
}

// failed tells that a call of the engine has failed.
func (j *recorder) failed(name string, f node.Failed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.aside(&check.Event{Kind: check.Error, Node: name, Port: string(f.Port), Text: f.Call})
}
