package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/sim/proof"
)

// refuses reports whether a receiver has refused a callback for good, or its time is over.
func refuses(err error) bool { return node.KindOf(err) == node.RecordRejected }

// says takes note of what the store says of itself.
func (f *follower) says(s node.State) {
	f.state.Set("taken", !s.CatchingUp, f.catching)
	f.state.Set("suspect", s.Suspect)
}

// took tells what a take has done, one record after the other.
func (f *follower) took(l *life, request *node.TakeRequest, result *node.TakeResult, before []node.Position) {
	f.says(result.State)
	now := f.world.store.instant()
	position := slices.Clone(before)
	for at := range result.Results {
		item, one := &request.Items[at], &result.Results[at]
		var from *node.Place
		if item.From != node.NoPlace {
			from = &request.From[item.From]
		}
		skipped := from != nil && !position[item.From].Takes(item.Epoch, item.Offset)
		again := one.Told != nil && one.Told.Again
		f.learnOf(item, one)
		if one.Outcome == node.Untaken || one.Outcome == node.Blocked || skipped || again {
			continue
		}
		f.take(l, item, one, from, result.State.Lineage, now)
		if from != nil {
			position[item.From] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
		}
	}
	for at := range result.Results {
		one := &result.Results[at]
		if claimed(one.Claim) && !f.state.Is("made", f.claimOf(one.Claim)) {
			f.claim(one.Claim, now, f.world.store.truth.settings)
		}
	}
}

// learnOf notes what kind of message an item brings.
func (f *follower) learnOf(item *node.Item, one *node.ItemResult) {
	if one.Outcome == node.Untaken || one.Outcome == node.Blocked || !item.Action.Stores() {
		return
	}
	i := f.incarnationOf(item.Ref())
	f.ends(i, !item.NotAfter.IsZero())
}

// ends notes whether there is an instant after which a message is not published any more. Callbacks may also be
// refused; that of each the follower hears by itself.
func (f *follower) ends(i *incarnation, timed bool) {
	i.timed = timed
	if timed {
		f.state.Set("may end", true, i.Element)
	}
}

// take makes the step that a record leads to.
func (f *follower) take(l *life, item *node.Item, one *node.ItemResult, from *node.Place, lineage int64,
	now time.Time,
) {
	m := &item.Message
	r := f.recordOf(item)
	of := f.nameOf(node.MessageID{ID: m.ID, Lane: m.Lane})
	f.state.Let("about", of.name, r)
	params := map[string]proof.Element{"r": r, "q": r, "l": r}
	records := []proof.Element{r}
	var partition proof.Element
	if from == nil {
		f.state.Set("past", true, r)
	} else {
		partition = f.partitionOf(from.Partition)
		place := recordPlace{from.Partition, int64(item.Epoch), item.Offset}
		params["l"], params["q"] = f.place(), f.state.Add(proof.Record)
		records = append(records, params["l"], params["q"])
		f.locate(r, place, f.at[partition].epoch)
		f.locate(params["l"], f.at[partition], place.epoch)
		f.locate(params["q"], recordPlace{from.Partition, int64(from.Epoch), from.Offset - 1}, f.at[partition].epoch)
		f.state.Set("read", true, r, params["q"])
	}
	f.clock(now, of)
	f.longHeld(now)
	stored := f.storedAs(of)
	if stored != nil {
		params["j"] = stored.Element
	}
	only := f.worldOf(of, records...)
	transition, comes := f.outcome(item, one, stored)
	if stored == nil && transition != "schedule" && transition != "nothing" {
		f.world.broken("proof", fmt.Sprintf("a take decides %s on %s, of which nothing is stored", one.Outcome, m.ID))
		return
	}
	if comes {
		ref := m.Ref()
		if !item.Action.Stores() {
			ref.Incarnation = item.Moved(stored.id)
		}
		i := f.incarnationOf(ref)
		params["i"] = i.Element
		f.state.Set("brings", true, i.Element, r)
		if !item.Action.Stores() { // what is moved stays what it is
			f.ends(i, stored.timed)
		}
	}
	f.state.Set("submits", item.Action.Stores(), r)
	params["a"] = r // nobody is told
	if item.Answer != nil && transition != "" {
		ref := item.Answer.Ref(lineage)
		told := f.incarnationOf(ref)
		params["a"] = told.Element
		if f.storedAs(told.of) == nil { // one that is stored already stays
			f.state.Set("wants", true, r)
			f.state.Set("tells", true, told.Element, r)
		}
		only[proof.Incarnation] = append(of.things(), told.of.things()...)
	}
	only[proof.Incarnation] = slices.Concat(of.things(), only[proof.Incarnation])
	slices.Sort(only[proof.Incarnation])
	only[proof.Incarnation] = slices.Compact(only[proof.Incarnation])
	f.step(transition, only, fmt.Sprintf("a take for node %s decides %s on %s", l.label, one.Outcome, m.ID), params)
	if from != nil {
		f.at[partition] = recordPlace{from.Partition, int64(item.Epoch), item.Offset}
		f.state.Set("at", false, r)
		f.state.Set("at", false, params["l"])
	}
}

// outcome returns the transition that an outcome is, and whether it brings an incarnation.
func (f *follower) outcome(item *node.Item, one *node.ItemResult, stored *incarnation) (string, bool) {
	switch one.Outcome {
	case node.Scheduled:
		if stored != nil && stored == f.drawn[item.Incarnation] {
			return "cover", false // it is there already, by an earlier try
		}
		return "schedule", true
	case node.Duplicate:
		return "cover", false
	case node.Replaced:
		return "replace", true
	case node.Rescheduled:
		return "reschedule", true
	case node.FiredNow:
		return "fire", true
	case node.Cancelled:
		return "cancel", false
	case node.TooLate:
		return "too late", false
	case node.Stopped:
		return "stop", false
	default:
		return "nothing", false
	}
}

// storedAs returns what is stored under a name; nil for nothing.
func (f *follower) storedAs(of *followed) *incarnation {
	at := slices.IndexFunc(of.incarnations, func(i *incarnation) bool { return f.state.Is("stored", i.Element) })
	if at < 0 {
		return nil
	}
	return of.incarnations[at]
}

// recordOf returns the record that an item is of. A request past Kafka under a name is the same one each time; to
// records of Kafka their positions say what was taken in before.
func (f *follower) recordOf(item *node.Item) proof.Element {
	if item.Request == nil {
		return f.state.Add(proof.Record)
	}
	r, known := f.requests[item.Request.ID]
	if !known {
		r = f.state.Add(proof.Record)
		f.requests[item.Request.ID] = r
	}
	return r
}

// longHeld tells that the store takes records in: if a lineage has begun, its hold time is over, so that all claims
// from before it have expired. What the clock says of those that were held when somebody set it is not looked at.
func (f *follower) longHeld(now time.Time) {
	if !f.state.Is("holding") {
		return
	}
	for _, c := range f.state.Things(proof.Claim) {
		if f.state.Is("old", c) {
			if held := f.byClaim[c]; held.settings != f.world.store.settings {
				f.state.Set("reached", true, f.state.Value("expiry", c))
			} else {
				f.tick(now, f.state.Value("expiry", c))
			}
		}
	}
	f.step("held for long", nil, "the store takes records in", nil)
}

func (f *follower) partitionOf(p node.Partition) proof.Element {
	thing, known := f.places[p]
	if !known {
		thing = f.state.Add(proof.Partition)
		f.places[p] = thing
	}
	return thing
}

// place returns the record before a position.
func (f *follower) place() proof.Element {
	thing := f.state.Add(proof.Record)
	f.state.Set("at", true, thing)
	return thing
}

// locate says where a record is. Where nobody knows its epoch, it is taken for that of what it is compared with, so
// that the offset decides.
func (f *follower) locate(r proof.Element, p recordPlace, other int64) {
	epoch := p.epoch
	if epoch == node.UnknownEpoch {
		epoch = other
	}
	f.state.Let("partition", f.partitionOf(p.partition), r)
	f.state.Let("epoch", f.numeral(proof.Epoch, epoch), r)
	f.state.Let("offset", f.numeral(proof.Offset, p.offset), r)
}

// placed tells what position a partition has after a call that is no take. It may be its first one, where the log
// begins; otherwise nothing has moved it: what an operator has rewound is known by then.
func (f *follower) placed(p node.Partition, to node.Position) {
	thing := f.partitionOf(p)
	if before, known := f.at[thing]; known {
		if before.epoch != int64(to.Epoch) || before.offset != to.Offset-1 {
			f.world.broken("proof", fmt.Sprintf("the position of %s/%d is moved from %d to %d, and not by a take",
				p.Topic, p.Number, before.offset+1, to.Offset))
		}
		return
	}
	f.begins(p, to)
	f.steps["place"]++
}

// rewound tells that somebody has lowered a position, with which a lineage has begun. It is taken for a step of the
// proof if the position is lowered: that q was written says the end of a log, and what is taken in again is for S17.
func (f *follower) rewound(to node.Place) {
	if before, known := f.at[f.partitionOf(to.Partition)]; !known || to.Offset > before.offset {
		f.world.broken("proof", fmt.Sprintf("the position of %s/%d is moved to %d by a rewind, and was %d", to.Topic,
			to.Number, to.Offset, before.offset+1))
	}
	f.begins(to.Partition, to.Position)
	f.steps["rewind"]++
}

// begins notes where the position of a partition is.
func (f *follower) begins(p node.Partition, to node.Position) {
	f.at[f.partitionOf(p)] = recordPlace{p, int64(to.Epoch), to.Offset - 1}
}

// claim tells that the store has made a claim, by a statement that began when its clock had been set so often.
func (f *follower) claim(c node.Claim, now time.Time, settings int) {
	thing, i := f.claimOf(c), f.incarnationOf(c.Ref)
	f.clock(now, i.of)
	f.byClaim[thing].settings = settings
	f.step("claim", f.worldOf(i.of, f.catching), fmt.Sprintf("a claim of %s", c.ID),
		map[string]proof.Element{"c": thing})
}

// deleted tells that a delete was executed.
func (f *follower) deleted(ref node.Ref) {
	i := f.incarnationOf(ref)
	f.step("delete", f.worldOf(i.of), "a delete of "+ref.ID, map[string]proof.Element{"i": i.Element})
}

// rearmed tells that an occurrence was settled.
func (f *follower) rearmed(n *node.Next, settled node.Settled) {
	if settled == node.Gone || settled == node.Promised {
		return
	}
	i := f.incarnationOf(n.Of)
	params := map[string]proof.Element{"i": i.Element}
	transition := "delete"
	switch {
	case settled == node.Rearmed:
		j := f.incarnationOf(node.Ref{ID: n.Of.ID, Lane: n.Of.Lane, Incarnation: n.Incarnation})
		params["j"], transition = j.Element, "rearm"
		f.ends(j, i.timed)
		if n.PassesOver() {
			transition = "passed over"
		}
	case n.PassesOver():
		transition = "passed over at last"
	}
	f.step(transition, f.worldOf(i.of), "an occurrence of "+n.Of.ID, params)
}

// reset tells that a claim was taken off its row.
func (f *follower) reset(r *node.Release) {
	i := f.incarnationOf(r.Ref)
	transition := "reset"
	if r.Unsent {
		transition = "reset unsent"
	}
	f.step(transition, f.worldOf(i.of), "a reset of a claim on "+r.ID,
		map[string]proof.Element{"c": f.claimOf(r.Claim)})
}

// expired tells which claims the store says to have expired.
func (f *follower) expired(all []node.Claim, now time.Time) {
	for _, c := range all {
		f.tick(now, f.state.Value("expiry", f.claimOf(c)))
	}
}

// began tells that a lineage has begun.
func (f *follower) began(s node.State) {
	f.void()
	f.state.Set("holding", true)
	f.steps["begin"]++
	f.says(s)
}

// void makes what was before the store was set back, or the lineage began, a thing of the past.
func (f *follower) void() {
	for _, relation := range []string{"never", "promised", "last", "replaced", "committed"} {
		f.state.Clear(relation)
	}
	for _, c := range f.state.Things(proof.Claim) {
		f.state.Set("old", f.state.Is("made", c), c)
	}
}

// restored tells that the store was set back: the state begins anew with what it has. Of a row one knows how many
// claims count, and not which: some of those that are known.
func (f *follower) restored(t *truth) {
	f.void()
	f.state.Clear("executed")
	for _, symbol := range f.system.Symbols {
		if symbol.Kept {
			f.state.Clear(symbol.Name)
		}
	}
	rows, plain := t.rows.(*memory.Store)
	if !plain {
		return
	}
	for _, row := range rows.Dump() {
		i := f.incarnationOf(row.Ref())
		f.state.Set("stored", true, i.Element)
		f.state.Set("brought", true, i.Element)
		f.state.Set("bound", row.Bound, i.Element)
		f.state.Set("former", row.Former, i.Element)
		f.state.Set("stopped", row.Stopped, i.Element)
		f.ends(i, !row.NotAfter.IsZero())
		left := row.Attempts
		if row.ReadiedBy != uuid.Nil {
			c := f.claimOf(node.Claim{
				Ref: row.Ref(), ReadiedAt: row.ReadiedAt, ReadiedBy: row.ReadiedBy, Expires: row.Expires,
			})
			f.state.Set("made", true, c)
			f.state.Set("old", true, c)
			f.state.Set("claimed", true, c)
			f.state.Set("counted", true, c)
			left--
		}
		for _, c := range i.claims {
			if left > 0 && !f.state.Is("counted", c.Element) {
				f.state.Set("counted", true, c.Element)
				left--
			}
		}
	}
	f.state.Set("holding", false)
	f.at, f.requests = map[proof.Element]recordPlace{}, map[uuid.UUID]proof.Element{}
	for _, p := range t.known {
		f.begins(p, t.places[p])
	}
}

// compare compares the state with the store, after a transaction: all that is there, and nothing else. What has not
// been committed nobody has been told of.
func (f *follower) compare(t *truth) {
	rows, plain := t.rows.(*memory.Store)
	if !plain || f.world.violation != nil || len(t.server.unseen) > 0 {
		return
	}
	wrong := func(row *memory.Row, what string) {
		f.world.broken("proof", fmt.Sprintf("%s on %s: the store has changed what no step of the proof changes: %s",
			row.ID, row.Lane, what))
	}
	all := rows.Dump()
	for at := range all {
		row := &all[at]
		i := f.drawn[row.Incarnation]
		if i == nil || !f.state.Is("stored", i.Element) {
			wrong(row, "that it is stored")
			continue
		}
		counted, stands := 0, proof.Element(0)
		for _, c := range i.claims {
			if f.state.Is("counted", c.Element) {
				counted++
			}
			if f.state.Is("claimed", c.Element) {
				stands = c.Element
			}
		}
		var claim proof.Element
		if row.ReadiedBy != uuid.Nil {
			claim = f.claims[claimKey{row.Incarnation, row.ReadiedBy, row.ReadiedAt.UnixMicro()}]
		}
		switch {
		case claim != stands:
			wrong(row, "the claim on it")
		case counted != row.Attempts:
			wrong(row, fmt.Sprintf("that it has %d attempts, and not %d", row.Attempts, counted))
		case row.Bound != f.state.Is("bound", i.Element):
			wrong(row, "whether it is bound")
		case row.Former != f.state.Is("former", i.Element):
			wrong(row, "whether it has replaced content that may come out")
		case row.Stopped != f.state.Is("stopped", i.Element):
			wrong(row, "whether it is stopped")
		}
	}
	if stored := f.state.Count("stored"); stored != len(all) && f.world.violation == nil {
		f.world.broken("proof", fmt.Sprintf("the store has %d messages, and by the steps of the proof %d", len(all),
			stored))
	}
	for _, p := range t.known {
		at, to := f.at[f.partitionOf(p)], t.places[p]
		if at.offset != to.Offset-1 || at.epoch != int64(to.Epoch) {
			f.world.broken("proof", fmt.Sprintf("the position of %s is moved to %d, by no step of the proof", p.Topic,
				to.Offset))
		}
	}
}
