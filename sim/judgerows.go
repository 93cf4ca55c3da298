package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// inserted checks a new row.
func (j *judge) inserted(l *life, m *node.Message, claim node.Claim, stamp time.Time) {
	s := j.submissions[numberIn(m.Headers)]
	id := node.MessageID{ID: m.ID, Topic: m.Topic}
	if m.Topic == s.output && (m.ID != s.ID || !m.Deadline.Equal(s.deadline)) {
		j.broken("S6", s, "it is stored as %s with the deadline %v instead of %v", m.ID, m.Deadline, s.deadline)
	}
	if j.rows[id] != nil {
		j.broken("S11", s, "there are two rows of its id")
	}
	i := j.incarnations[m.Incarnation]
	switch {
	case i == nil:
		i = &incarnation{submitted: s, id: m.Incarnation}
		j.incarnations[i.id] = i
	case i.submitted != s:
		j.broken("S2", s, "it has the incarnation of another")
	default:
		j.excuse(s, "inserted again, after it was deleted") // a repeated insert whose reply was lost
	}
	s.inserts++
	if l.member == nil || l.member.zombie {
		j.world.count("zombie-insert")
	}
	r := &row{incarnation: i, due: m.Deadline}
	j.rows[id] = r
	if claim.ReadiedBy != uuid.Nil {
		j.claim(l, r, m, claim, stamp)
	} else {
		j.rowStep(l, r, "waiting")
	}
}

// rowStep shows what has become of a row.
func (j *judge) rowStep(l *life, r *row, state string) {
	if w := j.world; w.observe != nil {
		w.step(&Step{
			Kind: StepRow, Node: l.host.number, Life: l.number, Messages: []int{r.Number}, Text: r.ID + " is " + state,
		})
	}
}

// duplicate notes that a submission was found to be a duplicate of what is stored.
func (j *judge) duplicate(_ *life, m *node.Message) {
	j.submissions[numberIn(m.Headers)].covered = true
}

// present notes that a node has looked for an id.
func (j *judge) present(l *life, id node.MessageID, present bool) {
	p := j.process(l)
	p.checked[id] = !present
	if present {
		for _, n := range p.batch[id] {
			j.submissions[n].covered = true
		}
	}
}

// readied checks S15: what is claimed is not more than was asked for, and in its turn.
func (j *judge) readied(in node.ReadyRequest, claimed []node.Readied) {
	if len(claimed) > in.Limit {
		j.broken("S15", nil, "%d messages were claimed for a limit of %d", len(claimed), in.Limit)
	}
	var last time.Time
	for i := range claimed {
		m := &claimed[i]
		r := j.rows[node.MessageID{ID: m.ID, Topic: m.Topic}]
		if r != nil && (r.due.Before(last) || r.due.After(in.Until)) {
			j.broken("S15", r.submitted, "it was not its turn to be claimed")
		}
		if r != nil {
			last = r.due
		}
	}
}

// claimed checks S3.
func (j *judge) claimed(l *life, claimed []node.Readied, stamp time.Time) {
	for i := range claimed {
		m := &claimed[i]
		r := j.rows[node.MessageID{ID: m.ID, Topic: m.Topic}]
		if r == nil || r.id != m.Incarnation {
			j.broken("S3", nil, "a claim was made on %s, which is not stored", m.ID)
			return
		}
		j.claim(l, r, &m.Message, m.Claim, stamp)
	}
}

func (j *judge) claim(l *life, r *row, m *node.Message, claim node.Claim, stamp time.Time) {
	if r.owner != uuid.Nil {
		j.broken("S3", r.submitted, "it is claimed by %v, and %v has a claim on it", claim.ReadiedBy, r.owner)
	}
	r.owner, r.readiedAt, r.stamp = claim.ReadiedBy, claim.ReadiedAt, stamp
	r.claims++
	j.rowStep(l, r, "ready")
	if p := j.lives[l]; p != nil {
		p.held[keyOf(r.submitted, m.Headers)] = holding{r.incarnation, l.host.clock.mono(j.world.now)}
	}
}

// deleted checks S2: a delete is justified by a publish of what it removes.
func (j *judge) deleted(l *life, ref node.Ref) {
	id := node.MessageID{ID: ref.ID, Topic: ref.Topic}
	r := j.rows[id]
	if r == nil || r.id != ref.Incarnation {
		j.broken("S2", nil, "%s was deleted, which was not stored", ref.ID)
		return
	}
	if r.published == 0 {
		j.broken("S2", r.submitted, "it is deleted and has not been published")
	}
	delete(j.rows, id)
	j.rowStep(l, r, "deleted")
}

// deleteDone checks S14: what a node has deleted after its acknowledgement is gone.
func (j *judge) deleteDone(refs []node.Ref) {
	for _, ref := range refs {
		r := j.rows[node.MessageID{ID: ref.ID, Topic: ref.Topic}]
		if r != nil && r.id == ref.Incarnation {
			j.broken("S14", r.submitted, "it was published and deleted, and is still stored")
		}
	}
}

// reset checks S4: a claim is reset by its owner, or when it is as old as the hold time.
func (j *judge) reset(l *life, release node.Release) {
	r := j.rows[node.MessageID{ID: release.ID, Topic: release.Topic}]
	w := j.world
	if r == nil || r.id != release.Incarnation || r.owner != release.ReadiedBy ||
		!r.readiedAt.Equal(release.ReadiedAt) {
		j.broken("S4", nil, "a claim on %s was reset that was not held", release.ID)
		return
	}
	if r.owner.String() != l.name {
		age := w.store.instant().Sub(r.stamp)
		made := w.now - int64(age)
		if age < w.options.HoldTime && made > j.storeJump {
			j.broken("S4", r.submitted, "a claim of another node was reset that is %v old", age)
		}
		j.excuse(r.submitted, "suspected")
	} else {
		j.excuse(r.submitted, "reset by its owner")
	}
	r.owner, r.readiedAt = uuid.Nil, time.Time{}
	j.rowStep(l, r, "waiting again")
	if !release.Due.IsZero() {
		r.due = release.Due
		r.lasting = r.due.Sub(w.instant())-w.options.Skew > 1500*time.Millisecond
	}
}

// rolledBack takes over what a failover has left.
func (j *judge) rolledBack(kept []node.Claim) {
	for _, s := range j.submissionsInOrder() {
		j.excuse(s, "the store was rolled back")
	}
	rows := map[node.MessageID]*row{}
	for _, c := range kept {
		i := j.incarnations[c.Incarnation]
		rows[node.MessageID{ID: c.ID, Topic: c.Topic}] = &row{
			incarnation: i, due: i.deadline, owner: c.ReadiedBy, readiedAt: c.ReadiedAt, stamp: c.ReadiedAt,
		}
	}
	j.rows = rows
}

func (j *judge) submissionsInOrder() []*submitted {
	return slices.SortedFunc(maps.Values(j.submissions), func(a, b *submitted) int {
		return cmp.Compare(a.Number, b.Number)
	})
}

// finish checks what must hold in the end: nothing is lost, and nothing is left.
func (j *judge) finish() {
	w := j.world
	for _, s := range j.submissionsInOrder() {
		switch {
		case s.fires > 0 || s.copies > 0 || s.rejected || s.covered:
		case s.Flaw == Poison:
		case s.inserts > 0 && j.stored(s) && j.putOff(s):
		case s.inserts > 0 && j.stored(s):
			j.broken("L2", s, "it is still stored %v after its deadline", w.instant().Sub(s.deadline))
		case s.inserts > 0:
			j.broken("S1", s, "it was stored, has not fired, and is gone")
		case s.polled > 0:
			j.broken("L3", s, "it was consumed, and is neither stored nor fired")
		default:
			j.broken("L3", s, "it was never consumed")
		}
	}
	if w.stats.Drained >= 0 {
		return
	}
	for _, p := range w.broker.group.partitions {
		if p.reached < p.end {
			j.broken("L3", nil, "%v is committed up to %d, and ends at %d", p, p.reached, p.end)
		}
	}
	left := slices.SortedFunc(maps.Values(j.rows), func(a, b *row) int {
		return cmp.Or(a.deadline.Compare(b.deadline), strings.Compare(a.ID, b.ID))
	})
	for _, r := range left {
		if r.Flaw != Poison && !j.putOff(r.submitted) {
			j.broken("L2", r.submitted, "it is still stored %v after its deadline", w.instant().Sub(r.deadline))
		}
	}
}

// putOff tells whether the message waits for longer than a failure of the brokers has it wait: its topic was
// missing, and it is tried again after twice the time.
func (j *judge) putOff(s *submitted) bool {
	w := j.world
	r := j.rows[node.MessageID{ID: s.ID, Topic: s.output}]
	turn := 2*w.options.PollInterval + time.Second
	return r.owner == uuid.Nil && r.lasting && r.due.After(w.instant().Add(-turn))
}

func (j *judge) stored(s *submitted) bool {
	r := j.rows[node.MessageID{ID: s.ID, Topic: s.output}]
	return r != nil && r.submitted == s
}

// numberOf returns the submission that a row belongs to; 0 if there is no such row.
func (j *judge) numberOf(ref node.Ref) int {
	if i := j.incarnations[ref.Incarnation]; i != nil {
		return i.Number
	}
	return 0
}
