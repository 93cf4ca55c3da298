package sim

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim/check"
)

// rowEvent returns an event about a row. It happens because of a request of l.
func rowEvent(kind check.Kind, l *life, ref node.Ref) check.Event {
	return check.Event{
		Kind: kind, Node: l.label, ID: ref.ID, Topic: ref.Lane, Incarnation: check.UUID(ref.Incarnation),
	}
}

// inserted tells of a new row. stamp is what the store's clock really is.
func (j *recorder) inserted(l *life, m *node.Message, claim node.Claim, stamp time.Time) {
	j.numbers[m.Incarnation] = j.numberOfMessage(m)
	if l.operator == nil && (l.member == nil || l.member.zombie) {
		j.world.count("zombie-insert")
	}
	e := rowEvent(check.Insert, l, m.Ref())
	e.Message, e.Deadline = j.numbers[m.Incarnation], sinceEpoch(m.Deadline)
	state := "waiting"
	if claim.ReadiedBy != uuid.Nil {
		j.hold(l, m, stamp)
		e.Owner, e.Stamp = check.UUID(claim.ReadiedBy), sinceEpoch(claim.ReadiedAt)
		e.Expires = sinceEpoch(claim.Expires)
		state = "ready"
	}
	j.rowStep(l, m.Ref(), state)
	j.add(e)
}

// hold takes note of a claim that a life is given, if it hears of it.
func (j *recorder) hold(l *life, m *node.Message, stamp time.Time) {
	j.stamps[m.Incarnation] = stamp.UnixNano()
	if key := replyKey(m.Headers); key != "" { // its number was known when it was inserted
		j.replies[key] = j.numbers[m.Incarnation]
	}
	if claims := j.held[l]; claims != nil {
		key := j.heldKeyOf(m.Headers)
		if m.Recurs() {
			key.number = j.numbers[m.Incarnation] // its record will have the sequence number
		}
		before, holds := claims[key]
		settings := j.world.store.settings
		claims[key] = held{
			m.Incarnation, l.host.clock.mono(j.world.now), j.world.store.truth.lineage(), l.said,
			holds && (before.other || before.incarnation != m.Incarnation || before.restores != j.restores ||
				before.settings != settings),
			j.restores, settings, 0,
		}
	}
}

// siblings returns the other incarnations of a submission, in order. They need not have its id: each dead letter of a
// callback has one of its own, and there are two when a record was taken in again before the first one was published.
func (j *recorder) siblings(of uuid.UUID) []uuid.UUID {
	byBytes := func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(j.numbers), byBytes), func(id uuid.UUID) bool {
		return id == of || j.numbers[id] != j.numbers[of]
	})
}

// rowStep shows what has become of a row.
func (j *recorder) rowStep(l *life, ref node.Ref, state string) {
	if w := j.world; w.observe != nil {
		w.step(&Step{
			Kind: StepRow, Node: l.host.number, Life: l.number, Messages: []int{j.numberOf(ref)},
			Text: ref.ID + " is " + state,
		})
	}
}

// duplicate tells that a submission was found to be a duplicate of what is stored.
func (j *recorder) duplicate(l *life, m *node.Message) {
	j.add(check.Event{
		Kind: check.Duplicate, Node: l.label, Message: numberIn(m.Headers), ID: m.ID, Topic: m.Lane,
	})
}

// asked tells what a node was given for what it has asked.
func (j *recorder) asked(l *life, request *node.ClaimRequest, messages []node.Ready) {
	nth := map[node.Part]int{}
	for i := range messages {
		m := &messages[i]
		part := m.Where()
		e := rowEvent(check.Ready, l, m.Ref())
		e.Part, e.Nth, e.Until = m.Part, nth[part], sinceEpoch(request.Until)
		nth[part]++
		for _, share := range request.Lanes {
			if share.Where() == part {
				e.Limit = share.Limit
			}
		}
		j.add(e)
	}
}

// unread tells that a node cannot read the series of what it was given.
func (j *recorder) unread(l *life, m *node.Ready) {
	j.add(check.Event{
		Kind: check.Fail, Node: l.label, Message: j.numberOf(m.Ref()), Topic: m.Lane,
		Incarnation: check.UUID(m.Incarnation), Text: check.Unread,
	})
}

// claimed tells of new claims.
func (j *recorder) claimed(l *life, messages []node.Ready, stamp time.Time) {
	for i := range messages {
		m := &messages[i]
		e := rowEvent(check.Claim, l, m.Ref())
		e.Owner, e.Stamp = check.UUID(m.Claim.ReadiedBy), sinceEpoch(m.Claim.ReadiedAt)
		e.Expires = sinceEpoch(m.Claim.Expires)
		j.numbers[m.Incarnation] = j.numberOfMessage(&m.Message)
		j.hold(l, &m.Message, stamp)
		j.rowStep(l, m.Ref(), "ready")
		j.add(e)
	}
}

// deleted tells that a row is gone.
func (j *recorder) deleted(l *life, ref node.Ref) {
	delete(j.stamps, ref.Incarnation)
	j.rowStep(l, ref, "deleted")
	e := rowEvent(check.Delete, l, ref)
	e.Wall = sinceEpoch(l.host.clock.wall(j.world.now))
	j.add(e)
}

// deleteDone tells that a delete was executed, whatever it found.
func (j *recorder) deleteDone(l *life, refs []node.Ref) {
	for _, ref := range refs {
		j.add(rowEvent(check.DeleteDone, l, ref))
	}
}

// reset tells that a claim was taken off a row.
func (j *recorder) reset(l *life, release node.Release) {
	e := rowEvent(check.Reset, l, release.Ref)
	e.Owner, e.Stamp = check.UUID(release.ReadiedBy), sinceEpoch(release.ReadiedAt)
	e.Age = time.Duration(j.world.store.instant().UnixNano() - j.stamps[release.Incarnation])
	e.Part, e.Due, e.Unsent, e.Behind = release.Part, sinceEpoch(release.Due), release.Unsent, release.Behind
	j.rowStep(l, release.Ref, "waiting again")
	j.add(e)
}

// rolledBack tells what is left of a store that was set back.
func (j *recorder) rolledBack(t *truth, lineage int64, confirmed bool) {
	j.restores++
	e := check.Event{Kind: check.Rollback, Lineage: lineage}
	if confirmed {
		e.Text = check.Confirmed
	}
	j.add(e)
	for _, c := range t.claims() {
		j.stamps[c.Incarnation] = c.ReadiedAt.UnixNano()
		j.add(check.Event{
			Kind: check.Keep, ID: c.ID, Topic: c.Lane, Incarnation: check.UUID(c.Incarnation),
			Owner: check.UUID(c.ReadiedBy), Stamp: sinceEpoch(c.ReadiedAt), Expires: sinceEpoch(c.Expires),
			Due:      sinceEpoch(t.due[node.MessageID{ID: c.ID, Lane: c.Lane}]),
			Deadline: sinceEpoch(t.deadline[node.MessageID{ID: c.ID, Lane: c.Lane}]),
		})
	}
	for _, p := range t.known {
		j.add(j.position(check.KeepPlace, p, t.places[p]))
	}
	for _, p := range t.pauses() {
		j.paused(p)
	}
	j.queuesKept(&t.queues)
}

// paused tells that a lane, or the intake, is paused, and resumed that it is so no more.
func (j *recorder) paused(p node.Pause) {
	j.add(check.Event{Kind: check.Pause, Topic: p.Lane, Stamp: sinceEpoch(p.Since)})
}

func (j *recorder) resumed(lane string) {
	j.add(check.Event{Kind: check.Resume, Topic: lane})
}

// locked tells that a session of somebody else has locked a row, and unlocked that it has ended.
func (j *recorder) locked(name node.MessageID) {
	j.add(check.Event{Kind: check.Lock, ID: name.ID, Topic: name.Lane})
}

func (j *recorder) unlocked(name node.MessageID) {
	j.add(check.Event{Kind: check.Unlock, ID: name.ID, Topic: name.Lane})
}

// position returns an event about a position.
func (j *recorder) position(kind check.Kind, p node.Partition, to node.Position) check.Event {
	return check.Event{Kind: kind, Partition: j.shard(p), Offset: to.Offset, Epoch: int(to.Epoch)}
}

// placed tells that a position was created, by an adoption or not, or moved.
func (j *recorder) placed(l *life, p node.Partition, to node.Position, created, adopted bool) {
	kind := check.Move
	if created {
		kind = check.Place
	}
	e := j.position(kind, p, to)
	e.Node, e.Adopted = labelOf(l), created && adopted
	j.add(e)
}

// labelOf names a life for people; that of somebody who is no process is none.
func labelOf(l *life) string {
	if l == nil {
		return ""
	}
	return l.label
}

// taken tells that a take has decided on a record.
func (j *recorder) taken(l *life, p node.Partition, item *node.Item, lineage int64, skipped bool) {
	e := j.position(check.Take, p, node.Position{Epoch: item.Epoch, Offset: item.Offset})
	e.Node, e.Message, e.Lineage, e.Skipped = l.label, j.records[j.recordOf(p, item)], lineage, skipped
	j.add(e)
}

// answeredTake tells what positions the answer to a take has told a node.
func (j *recorder) answeredTake(l *life, request *node.TakeRequest, result *node.TakeResult) {
	for i, to := range result.Positions {
		if from := request.From[i]; !result.Refused[i] {
			e := j.position(check.Taken, from.Partition, to)
			e.Node = l.label
			j.add(e)
		}
	}
}

// began tells that a lineage begins, and caughtUp that it has caught up.
func (j *recorder) began(l *life, lineage int64, marks []node.Extent) {
	j.add(check.Event{Kind: check.Lineage, Node: labelOf(l), Lineage: lineage})
	for _, extent := range marks {
		j.add(check.Event{Kind: check.Mark, Partition: j.shard(extent.Partition), Offset: extent.End})
	}
}

func (j *recorder) caughtUp(lineage int64) {
	j.add(check.Event{Kind: check.CaughtUp, Lineage: lineage})
}

// numberOf returns the submission that a row belongs to; 0 if there is no such row.
func (j *recorder) numberOf(ref node.Ref) int { return j.numbers[ref.Incarnation] }

// numberOfMessage returns the submission, or the answer, that a message is.
func (j *recorder) numberOfMessage(m *node.Message) int {
	if n := j.number(m.Headers); n > 0 {
		return occurrenceNumber(n, int(m.Sequence))
	}
	return j.numbers[m.Incarnation] // an answer, which got its number when it was stored
}

// rearmed tells that the next occurrence of a series has taken the place of one.
func (j *recorder) rearmed(l *life, n node.Next) {
	before := j.numbers[n.Of.Incarnation]
	root := before
	if before >= firstOccurrence {
		root = (before - firstOccurrence) / maxOccurrences
	}
	number := occurrenceNumber(root, int(n.Sequence))
	j.numbers[n.Incarnation] = number
	e := rowEvent(check.Recur, l, n.Of)
	e.Message, e.Of, e.Nth = number, root, int(n.Sequence)
	e.Next, e.Deadline = check.UUID(n.Incarnation), sinceEpoch(n.At)
	j.world.count("series-goes-on")
	j.rowStep(l, node.Ref{ID: n.Of.ID, Lane: n.Of.Lane, Incarnation: n.Incarnation}, "waiting once more")
	j.add(e)
}

// recordOf names the record of an item.
func (j *recorder) recordOf(p node.Partition, item *node.Item) recordKey {
	return recordKey{j.shard(p), item.Offset, item.Epoch}
}

// submissionOf returns the submission that an item of a take is.
func (j *recorder) submissionOf(p node.Partition, item *node.Item) int {
	if item.From == node.NoPlace {
		return j.past[item.Incarnation]
	}
	return j.records[j.recordOf(p, item)]
}

// heard tells that an operator is told of an outcome.
func (j *recorder) heard(item *node.Item, outcome node.Outcome, lineage int64) {
	j.add(check.Event{
		Kind: check.Hear, Message: j.past[item.Incarnation], ID: item.ID, Topic: item.Lane, Text: outcome.String(),
		Lineage: lineage,
	})
}

// decided tells what has become of an instruction that the message kept as before, if there was one, and what it is
// kept as now.
func (j *recorder) decided(l *life, p node.Partition, item *node.Item, d decided) {
	ref := item.Ref()
	ref.Incarnation = d.before
	e := rowEvent(check.Decide, l, ref)
	e.Message, e.Action, e.Text = j.submissionOf(p, item), item.Action.String(), d.outcome.String()
	e.Past, e.Only = item.From == node.NoPlace, check.UUID(item.Only)
	if item.Request != nil {
		e.Request = check.UUID(item.Request.ID)
	}
	e.Next, e.Deadline, e.Due, e.Lineage = check.UUID(d.after), sinceEpoch(d.deadline), sinceEpoch(d.due), d.lineage
	if d.after != d.before {
		j.numbers[d.after] = j.numbers[d.before]
	}
	from := "instruction-"
	if e.Past {
		from = "past-"
	}
	j.world.count(from + strings.ReplaceAll(e.Text, "_", "-"))
	if w := j.world; w.observe != nil {
		w.step(&Step{
			Kind: StepRow, Node: l.host.number, Life: l.number, Messages: []int{e.Message, j.numbers[d.before]},
			Text: e.Action + " " + item.ID + ": " + e.Text,
		})
	}
	j.add(e)
}

// answered tells of an answer that is stored with its decision. It becomes a submission of its own.
func (j *recorder) answered(
	l *life, p node.Partition, item *node.Item, outcome string, lineage int64, stamp time.Time,
) {
	m := item.Answer.Message
	ref := item.Answer.Ref(lineage)
	m.ID, m.Incarnation = ref.ID, ref.Incarnation
	number := j.numbers[m.Incarnation] // it has one, if it was lost with a store that was set back
	if number == 0 {
		j.answers++
		number = firstAnswer + j.answers
		j.numbers[m.Incarnation] = number
	}
	j.add(check.Event{
		Kind: check.Answer, Node: l.label, Message: number, Of: j.records[j.recordOf(p, item)], ID: m.ID, Topic: m.Lane,
		Deadline: sinceEpoch(m.Deadline), Lineage: lineage, Text: outcome,
	})
	j.inserted(l, &m, node.Claim{}, stamp)
}

// truncated, retained and dropped tell what happens to the log of an input partition.
func (j *recorder) truncated(p *partition) {
	j.add(check.Event{Kind: check.Truncate, Partition: p.String(), Offset: p.end()})
}

func (j *recorder) retained(p *partition) {
	j.add(check.Event{Kind: check.Retain, Partition: p.String(), Offset: p.base})
}

func (j *recorder) dropped(p *partition) {
	j.add(check.Event{Kind: check.Drop, Partition: p.String()})
}

// hangs tells that the sink of a lane, or one partition of it, answers nobody, or again.
func (j *recorder) unreached(p *partition, h *host, until int64) {
	e := check.Event{
		Kind: check.Unreached, Topic: p.topic.name, Partition: p.String(), Until: time.Duration(until),
	}
	if h.life != nil {
		e.Node = h.life.label
	}
	j.add(e)
}

func (j *recorder) hangs(kind check.Kind, p *partition, whole bool, until int64) {
	e := check.Event{Kind: kind, Topic: p.topic.name, Until: time.Duration(until)}
	if !whole {
		e.Partition = p.String()
	}
	j.add(e)
}
