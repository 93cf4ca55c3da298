package journal_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/memory"
	"chronos/sim/check"
)

// watch takes a transaction.
func (j *recorder) watch(c simulated.Committed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := &transaction{
		recorder: j, puts: map[node.MessageID]*memory.Row{}, gone: map[node.Ref]bool{},
		fired: map[node.MessageID]*node.Record{}, moves: map[int32]int64{}, switched: map[string]bool{},
		answers: map[uuid.UUID]*journal.Said{},
	}
	for i := range c.Records {
		x.read(&c, &c.Records[i])
	}
	x.number = j.world.inlets.called(c.Topic, c.Number)
	x.unclaimed(x.number)
	x.take()
	x.settle()
	x.steer(x.number)
}

// transaction is what was committed together.
type transaction struct {
	*recorder

	number int32 // of the partition
	puts   map[node.MessageID]*memory.Row
	gone   map[node.Ref]bool
	fired  map[node.MessageID]*node.Record // what has come out, by the message that it is
	loose  []*node.Record                  // and what is no message that there is
	moves  map[int32]int64

	answers  map[uuid.UUID]*journal.Said // by the names of the records
	switched map[string]bool             // whether a lane, or the intake, is paused from now on
}

// read takes a record.
func (x *transaction) read(c *simulated.Committed, r *node.Record) {
	if r.Topic != c.Topic {
		if name, some := x.fires(r); some {
			x.fired[name] = r
		} else {
			x.loose = append(x.loose, r)
		}
		return
	}
	said, err := journal.ReadEntry(r.Key, r.Value)
	switch {
	case err != nil:
		x.world.Error(err)
	case said.Gone != nil:
		x.gone[*said.Gone] = true
	case said.Row != nil:
		x.puts[node.MessageID{ID: said.Row.ID, Lane: said.Row.Lane}] = said.Row
	case said.Request != uuid.Nil:
		for _, ask := range said.Asks {
			x.answers[ask] = &said
		}
	case said.Input != nil:
		x.moves[x.world.inlets.identified(said.Input)] = said.Position.Offset
	case said.Switched != nil:
		x.switched[*said.Switched] = said.Paused
	}
}

// fires returns the message that a record on a topic is of. The dead letter of a callback, and that of what is no
// submission, are messages of their own; that of what its topic refuses is not.
func (x *transaction) fires(r *node.Record) (found node.MessageID, some bool) {
	number := x.identify(r.Headers)
	for name, row := range x.rows {
		if occurrence(row.number, row.sequence) != number || x.fired[name] != nil {
			continue
		}
		if name.Lane == r.Topic {
			return name, true
		}
		if !calledLane(name.Lane) {
			found, some = name, true
		}
	}
	return found, some
}

// take tells what was taken in, and where the positions are now.
func (x *transaction) take() {
	for _, number := range slices.Sorted(maps.Keys(x.moves)) {
		from, known := x.positions[number]
		to := x.moves[number]
		x.positions[number] = to
		e := &check.Event{Kind: check.Move, Partition: x.world.inputName(number), Offset: to}
		if !known {
			e.Kind = check.Place
			x.add(e)
			continue
		}
		records := x.records[number]
		if to > int64(len(records)) {
			x.world.Errorf("%s is taken in up to %d, and ends at %d", x.world.inputName(number), to, len(records))
		}
		end := min(to, int64(len(records)))
		records = records[min(from, end):end]
		x.first(records)
		for i, s := range records {
			at := from + int64(i)
			x.taken(s, records[i+1:])
			x.add(&check.Event{
				Kind: check.Take, Message: s.number, Partition: e.Partition, Offset: at, Lineage: 1,
			})
		}
		x.add(e)
	}
}

// reply returns what tells of the outcome of a record; nil for nothing.
func (x *transaction) reply(s *submission) *memory.Row {
	for name, row := range x.puts {
		if name.Lane == outcomes && x.from(row) == s.origin {
			return row
		}
	}
	return nil
}

// from returns where the record stands that a message is from.
func (x *transaction) from(row *memory.Row) origin {
	return origin{x.world.inlets.called(row.Origin.Topic, row.Origin.Partition), row.Origin.Offset}
}

// outcome returns what became of a record by what tells of it, "" for nothing that is told.
func (x *transaction) outcome(s *submission) string {
	if s.request != uuid.Nil {
		if said := x.answers[s.ask]; said != nil && !s.again {
			return said.Told.Outcome.String()
		}
		return ""
	}
	if r := x.reply(s); r != nil {
		return headerOf(r.Headers, node.HeaderOutcome)
	}
	return ""
}

// changed reports whether a message that one record has brought, or moved, is another one by what comes after it in the
// same transaction: so that nothing is left to see of its incarnation.
func (x *transaction) changed(name node.MessageID, later []*submission) bool {
	return slices.ContainsFunc(later, func(s *submission) bool {
		return s.id == name.ID && s.lane == name.Lane && changes(x.outcome(s))
	})
}

// changes reports whether an outcome leaves another incarnation than it has found, or none.
func changes(outcome string) bool {
	return slices.Contains([]string{"cancelled", "replaced", "rescheduled", "fired"}, outcome)
}

// taken tells what was decided on a record, before those that come later in the same transaction.
func (x *transaction) taken(s *submission, later []*submission) {
	name := node.MessageID{ID: s.id, Lane: s.lane}
	if s.again {
		x.repeated(s)
		return
	}
	reply, outcome := x.reply(s), x.outcome(s)
	if s.invalid {
		x.letter(s)
		x.told(s, reply, outcome)
		return
	}
	put := x.puts[name]
	if outcome == "" && s.request != uuid.Nil {
		x.world.Errorf("S21: the request about %s is taken in, and not answered", s.id)
		return
	}
	if outcome == "" {
		outcome = x.unsaid(s, name, later)
	}
	// What has come out in this transaction was settled before the record was decided on if the outcome is none that it
	// could have with a message that is about to come out.
	if x.fired[name] != nil && (changes(outcome) || outcome == "scheduled" || outcome == "not_found") {
		x.settled(name, changes(outcome))
	}
	if x.settledBefore(name, outcome) {
		x.over(name, changes(outcome))
	}
	row := x.rows[name]
	e := &check.Event{
		Kind: check.Decide, Message: s.number, ID: s.id, Topic: s.lane, Action: cmp.Or(s.action, "schedule"),
		Text: outcome, Lineage: 1, Request: check.UUID(s.request),
	}
	if s.request != uuid.Nil {
		x.http.told[s.request] = x.answers[s.ask].Told
	}
	if row != nil {
		e.Incarnation, e.Next = check.UUID(row.ref.Incarnation), check.UUID(row.ref.Incarnation)
	}
	next := x.next(name, put, later)
	e.Former = outcome == "replaced" && calledLane(s.lane) && x.saysFormer(s, put, next)
	switch {
	case outcome == "cancelled" || outcome == "replaced":
		e.Next = check.UUID{}
		x.removed(name)
	case (outcome == "rescheduled" || outcome == "fired") && row != nil:
		e.Next, e.Deadline = check.UUID(next), x.instant(s.deadline)
		if put != nil && put.Incarnation == next {
			e.Deadline, e.Due = x.instant(put.Deadline), x.instant(put.Due)
		}
		e.Due = cmp.Or(e.Due, e.Deadline)
		row.stands(x.began.Add(e.Deadline))
		delete(x.gone, row.ref)
		row.ref.Incarnation = next
		x.calls.known[next] = known{occurrence(row.number, row.sequence), x.number}
		x.last[occurrence(row.number, row.sequence)] = next
	}
	if s.confirmed || s.action != "" || s.request != uuid.Nil {
		x.outcomes[outcome]++
		x.add(e)
	}
	switch {
	case outcome == "ignored":
		x.add(&check.Event{Kind: check.Duplicate, Message: s.number, ID: s.id, Topic: s.lane})
	case (outcome == "scheduled" || outcome == "replaced") && next != uuid.Nil:
		deadline := s.deadline
		if put != nil && put.Incarnation == next {
			deadline = put.Deadline
		}
		x.inserted(&recorded{
			ref:    node.Ref{ID: s.id, Lane: s.lane, Incarnation: next},
			number: s.number, sequence: min(s.times, 1), of: s,
		}, deadline)
	}
	x.told(s, reply, outcome)
}

// settledBefore reports whether a callback was settled in this transaction before a record about it was decided on: the
// outcome is none that it could have while the callback was there; or its series has gone on, since its receiver has
// said that it was done.
func (x *transaction) settledBefore(name node.MessageID, outcome string) bool {
	row := x.rows[name]
	if row == nil || !calledLane(name.Lane) || !x.gone[row.ref] {
		return false
	}
	done := slices.ContainsFunc(x.calls.made[row.ref.Incarnation], func(r *request) bool { return r.good })
	return outcome == "scheduled" || outcome == "not_found" || changes(outcome) && row.sequence > 0 && done
}

// saysFormer reports whether it is said that what a record has replaced may come out, or nobody can tell.
func (x *transaction) saysFormer(s *submission, put *memory.Row, next uuid.UUID) bool {
	switch reply := x.reply(s); {
	case s.request != uuid.Nil:
		return x.answers[s.ask].Told.MayAppear
	case reply != nil:
		return headerOf(reply.Headers, node.HeaderFormer) != ""
	case put != nil && put.Incarnation == next:
		return put.Former
	}
	return true
}

// unsaid returns what became of a message of which nobody is told: "" if nothing shows it.
func (x *transaction) unsaid(s *submission, name node.MessageID, later []*submission) string {
	put, row := x.puts[name], x.rows[name]
	switch brought := put != nil && numberOf(headerOf(put.Headers, headerNumber)) == s.number; {
	case brought && (row == nil || row.ref.Incarnation != put.Incarnation):
		return "scheduled"
	case row != nil && (row.of == nil || row.of.number != s.number):
		return "ignored"
	case x.changed(name, later):
		return "scheduled"
	}
	return ""
}

// next returns the incarnation that there is of a message now: that which the transaction has stored, or one that
// nobody will ever see, if the transaction has another one in the end. None if it has stored none.
func (x *transaction) next(name node.MessageID, put *memory.Row, later []*submission) uuid.UUID {
	switch {
	case x.changed(name, later):
		return x.make()
	case put != nil:
		return put.Incarnation
	}
	return uuid.Nil
}

// make returns an incarnation that is no other.
func (j *recorder) make() uuid.UUID {
	j.made++
	return uuid.UUID{0: 0xff, 14: byte(j.made >> 8), 15: byte(j.made)}
}

// removed takes a message away, whose tombstone is accounted for.
func (x *transaction) removed(name node.MessageID) {
	if row := x.rows[name]; row != nil {
		delete(x.gone, row.ref)
		delete(x.rows, name)
	}
}

// inserted tells of a message that there is from now on.
func (x *transaction) inserted(row *recorded, deadline time.Time) {
	x.calls.known[row.ref.Incarnation] = known{occurrence(row.number, row.sequence), x.number}
	row.stands(deadline)
	x.rows[node.MessageID{ID: row.ref.ID, Lane: row.ref.Lane}] = row
	x.last[row.number] = row.ref.Incarnation
	x.add(&check.Event{
		Kind: check.Insert, Message: row.number, ID: row.ref.ID, Topic: row.ref.Lane,
		Incarnation: check.UUID(row.ref.Incarnation), Deadline: x.instant(deadline),
	})
}

// letter tells of the copy of a record that is no submission.
func (x *transaction) letter(s *submission) {
	for name, put := range x.puts {
		if name.Lane == deadLetters && x.from(put) == s.origin {
			x.inserted(&recorded{ref: put.Ref(), number: s.number}, put.Deadline)
			return
		}
	}
}

// told tells of what tells of an outcome.
func (x *transaction) told(s *submission, reply *memory.Row, outcome string) {
	if reply == nil {
		return
	}
	number := firstReply + len(x.replies)
	x.replies[s.origin] = number
	x.add(&check.Event{
		Kind: check.Answer, Message: number, Of: s.number, ID: reply.ID, Topic: reply.Lane,
		Deadline: x.instant(reply.Deadline), Lineage: 1, Text: outcome,
	})
	x.inserted(&recorded{ref: reply.Ref(), number: number}, reply.Deadline)
}

// settle tells what has come out, and what has become of that and of everything else that the transaction has settled.
func (x *transaction) settle() {
	byName := func(a, b node.MessageID) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane)) }
	for _, name := range slices.SortedFunc(maps.Keys(x.fired), byName) {
		x.settled(name, false)
	}
	for _, r := range x.loose {
		x.came(r, x.last[x.identify(r.Headers)])
	}
	for _, name := range slices.SortedFunc(maps.Keys(x.rows), byName) {
		x.over(name, false)
	}
	byID := func(a, b node.Ref) int { return cmp.Compare(a.ID, b.ID) }
	for _, ref := range slices.SortedFunc(maps.Keys(x.gone), byID) {
		x.add(deleted(ref)) // which was not there
	}
	for _, name := range slices.SortedFunc(maps.Keys(x.puts), byName) {
		put := x.puts[name]
		if row := x.rows[name]; row == nil || row.ref.Incarnation != put.Incarnation { // nothing has brought it
			x.inserted(&recorded{ref: put.Ref(), number: x.identify(put.Headers)}, put.Deadline)
		}
	}
}

// settled tells that a message has come out, and what has become of it. on says that its series must have gone on, by
// what was decided afterwards.
func (x *transaction) settled(name node.MessageID, on bool) {
	x.came(x.fired[name], x.rows[name].ref.Incarnation)
	delete(x.fired, name)
	x.over(name, on)
}

// came tells of a record on a topic.
func (x *transaction) came(r *node.Record, of uuid.UUID) {
	e := &check.Event{
		Kind: check.Fire, Message: x.identify(r.Headers), Topic: r.Topic, Payload: content(r), Key: digest(r.Key),
		Partition: r.Topic + "/" + strconv.Itoa(int(r.Partition)), Incarnation: check.UUID(of),
	}
	switch r.Topic {
	case deadLetters:
		e.Kind, e.Text = check.Copy, headerOf(r.Headers, node.HeaderReason)
	case outcomes:
		e.Text, e.Former = headerOf(r.Headers, node.HeaderOutcome), headerOf(r.Headers, node.HeaderFormer) != ""
	}
	x.add(e)
}

// over tells of a message that is settled: that it is gone, or that the next occurrence has taken its place.
func (x *transaction) over(name node.MessageID, on bool) {
	row, put := x.rows[name], x.puts[name]
	if !x.gone[row.ref] {
		return
	}
	delete(x.gone, row.ref)
	recurs := row.sequence > 0 && put != nil && put.Sequence > int64(row.sequence) &&
		numberOf(headerOf(put.Headers, headerNumber)) == row.number
	if row.sequence == 0 || !recurs && !on {
		delete(x.rows, name)
		x.add(deleted(row.ref))
		return
	}
	e := deleted(row.ref)
	e.Kind, e.Of, e.Nth, e.Next = check.Recur, row.number, row.sequence+1, check.UUID(x.make())
	e.Deadline = x.instant(row.of.deadline.Add(time.Duration(row.sequence) * row.of.every))
	if recurs && !on {
		e.Nth, e.Next, e.Deadline = int(put.Sequence), check.UUID(put.Incarnation), x.instant(put.Deadline)
	}
	e.Message = occurrence(row.number, e.Nth)
	x.outcomes[recurred]++
	row.sequence, row.ref.Incarnation = e.Nth, uuid.UUID(e.Next)
	row.stands(x.began.Add(e.Deadline))
	x.last[e.Message] = row.ref.Incarnation
	x.calls.known[row.ref.Incarnation] = known{e.Message, x.number}
	x.add(e)
}

// deleted returns the event that a message is gone.
func deleted(ref node.Ref) *check.Event {
	return &check.Event{
		Kind: check.Delete, ID: ref.ID, Topic: ref.Lane, Incarnation: check.UUID(ref.Incarnation),
	}
}
