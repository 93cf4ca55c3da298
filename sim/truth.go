package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// truth stands in front of the rows and tells the recorder every change that really happens to them, whoever asked for
// it and however broken the way there was. It also knows what a store in one process does not: that the server shows
// another history, that it can never keep some messages, and that other transactions have locked rows.
type truth struct {
	server   *storeServer
	rows     node.Store
	caller   *life // whose request is being applied
	settings int   // how often the clock of the store had been set when the statement began
	muted    bool

	// stored are the messages in the store with the claims on them, those without one having a zero time and
	// owner. They tell a first insert from a repeated one, and mutants what they would know in SQL.
	stored map[node.MessageID]node.Claim

	// due tells when each of them falls due, and deadline what its deadline is.
	due, deadline map[node.MessageID]time.Time

	queues queueRows

	// places are the positions, and known the partitions that have one, in the order in which they got it.
	places map[node.Partition]node.Position
	known  []node.Partition

	catchingUp bool             // it was, when it was asked last
	suspect    bool             // the server has another history than when the lineage began
	only       []node.MessageID // while the journal is replayed: what a claim has claimed
	changes    int              // how many there have been: a call that changes nothing commits nothing

	holding bool
	held    []func()

	adopts bool // positions come from an adoption
}

var _ node.Store = (*truth)(nil)

func newTruth(s *storeServer) *truth {
	t := &truth{server: s}
	t.forget()
	return t
}

// forget is for a store that begins anew.
func (t *truth) forget() {
	t.stored, t.due = map[node.MessageID]node.Claim{}, map[node.MessageID]time.Time{}
	t.deadline = map[node.MessageID]time.Time{}
	t.places, t.known = map[node.Partition]node.Position{}, nil
	t.queues = newQueueRows()
}

// hold keeps the changes back until they are released: nobody sees them yet.
func (t *truth) hold() { t.holding, t.held = true, nil }

func (t *truth) release() []func() {
	held := t.held
	t.holding, t.held = false, nil
	return held
}

// tell hands a change to the recorder, now or once it is committed.
func (t *truth) tell(change func()) {
	switch {
	case t.muted:
	case t.holding:
		t.held = append(t.held, change)
	default:
		change()
	}
}

// follower returns whoever follows the proof, unless there is nobody, or what happens is a replay.
func (t *truth) follower() *follower {
	if t.muted {
		return nil
	}
	return t.server.world.follow
}

// state adds to what the store says of itself what only the server shows.
func (t *truth) state(s node.State) node.State {
	s.Suspect = s.Suspect || t.suspect
	if t.catchingUp && !s.CatchingUp && !t.muted {
		t.server.world.recorder.caughtUp(s.Lineage)
	}
	t.catchingUp = s.CatchingUp
	return s
}

// place notes a position.
func (t *truth) place(p node.Partition, to node.Position) {
	before, known := t.places[p]
	if known && before == to {
		return
	}
	if !known {
		t.known = append(t.known, p)
	}
	t.changes++
	t.places[p] = to
	caller, adopts := t.caller, t.adopts
	t.tell(func() { t.server.world.recorder.placed(caller, p, to, !known, adopts) })
}

// Bind implements node.Store.
func (t *truth) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	before := must(t.rows.Bind(ctx, node.BindRequest{}))
	bound, err := t.rows.Bind(ctx, request)
	t.changes++
	t.adopts = true
	for _, place := range request.Adopt {
		_, known := t.places[place.Partition]
		if err == nil && (known || before.Adopting && !bound.Adopting) {
			t.look(ctx, place.Partition)
		}
	}
	t.adopts = false
	t.followPlaces(mapped(request.Adopt, func(p node.Place) node.Partition { return p.Partition }))
	return bound, err
}

// followPlaces tells whoever follows the proof of positions that no take has set.
func (t *truth) followPlaces(partitions []node.Partition) {
	if f := t.follower(); f != nil {
		for _, p := range partitions {
			f.placed(p, t.places[p])
		}
	}
}

// look asks for a position that there is.
func (t *truth) look(ctx context.Context, p node.Partition) {
	to, _, err := t.rows.Positions(ctx, []node.Place{{Partition: p}})
	t.place(p, must(to, err)[0])
}

// Positions implements node.Store.
func (t *truth) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	result, state, err := t.rows.Positions(ctx, places)
	for i := range result {
		t.place(places[i].Partition, result[i])
	}
	t.followPlaces(mapped(places, func(p node.Place) node.Partition { return p.Partition }))
	return result, t.state(state), err
}

// Take implements node.Store.
func (t *truth) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	t.watch(ctx)
	whole := request
	before := mapped(request.From, func(p node.Place) node.Position { return t.places[p.Partition] })
	partition := func(item *node.Item) node.Partition {
		if item.From == node.NoPlace {
			return node.Partition{}
		}
		return whole.From[item.From].Partition
	}
	at, unstorable := t.unstorable(&request)
	if unstorable {
		request.Items = request.Items[:at]
	}
	if t.suspect && !t.muted { // what is replayed was taken in
		return t.refuse(ctx, &request), nil
	}
	result := must(t.rows.Take(ctx, request))
	if unstorable && result.Taken == at {
		result.Refusal = "no row can hold it"
		t.server.world.count("refused-message")
	}
	caller := t.caller
	for i := range result.Results {
		item, outcome := &whole.Items[i], result.Results[i].Outcome
		t.took(partition(item), item, result.Results[i], result.State.Lineage)
		if outcome != node.Untaken && outcome != node.Blocked && item.From != node.NoPlace {
			skipped := !before[item.From].Takes(item.Epoch, item.Offset)
			t.tell(func() {
				t.server.world.recorder.taken(caller, partition(item), item, result.State.Lineage, skipped)
			})
		}
	}
	for i, from := range request.From {
		if !result.Refused[i] {
			t.place(from.Partition, result.Positions[i])
		}
	}
	result.State = t.state(result.State)
	if f := t.follower(); f != nil {
		f.took(caller, &whole, &result, before)
	}
	return result, nil
}

// refuse is what a store answers to a take while it is suspect: no partition is taken in.
func (t *truth) refuse(ctx context.Context, request *node.TakeRequest) node.TakeResult {
	_, state, err := t.rows.Positions(ctx, nil)
	result := node.TakeResult{
		State: t.state(must(state, err)), Refused: make([]bool, len(request.From)), Taken: len(request.Items),
		Results: make([]node.ItemResult, len(request.Items)),
	}
	for i, from := range request.From {
		result.Refused[i] = true
		result.Positions = append(result.Positions, t.places[from.Partition])
	}
	for i := range result.Results {
		result.Results[i].Outcome = node.Untaken
	}
	return result
}

// unstorable returns the place of the first message that the store can never keep, of those that are new to it.
func (t *truth) unstorable(request *node.TakeRequest) (int, bool) {
	recorder := t.server.world.recorder
	for i := range request.Items {
		item := &request.Items[i]
		if item.From == node.NoPlace {
			continue // an operator brings no message
		}
		from := request.From[item.From]
		position, known := t.places[from.Partition]
		taken := known && !from.Above(position) && position.Takes(item.Epoch, item.Offset)
		if taken && recorder.unstorable(&item.Message) {
			return i, true
		}
	}
	return 0, false
}

// decided is what a take has done with an instruction.
type decided struct {
	outcome       node.Outcome
	before, after uuid.UUID // the incarnations; the zero value for no message
	deadline, due time.Time // of the one after
	lineage       int64
}

// took notes what has become of one item.
func (t *truth) took(p node.Partition, item *node.Item, result node.ItemResult, lineage int64) {
	recorder, caller := t.server.world.recorder, t.caller
	m := &item.Message
	id := node.MessageID{ID: m.ID, Lane: m.Lane}
	stamp := t.server.instant()
	decides := item.Action != node.Pass &&
		(item.Action != node.Schedule || item.Answer != nil || item.Request != nil) &&
		(item.Answer == nil || !item.Answer.Rejected)
	if result.Outcome == node.Untaken || result.Outcome == node.Blocked || result.Outcome == node.Skipped {
		return
	}
	if result.Told != nil && result.Told.Again {
		t.tell(func() { t.server.world.count("past-again") })
		return // nothing was decided
	}
	if result.Told != nil {
		t.changes++ // the answer is stored, whatever it is
	}
	again := result.Outcome == node.Scheduled && t.stored[id].Incarnation == m.Incarnation
	if decides && !again {
		d := decided{outcome: result.Outcome, before: t.stored[id].Incarnation, lineage: lineage}
		t.decided(id, item, &d)
		t.tell(func() { recorder.decided(caller, p, item, d) })
	}
	switch {
	case result.Outcome == node.Duplicate:
		t.tell(func() { recorder.duplicate(caller, m) })
	case (result.Outcome == node.Scheduled || result.Outcome == node.Replaced) && !again:
		t.changes++
		t.stored[id], t.due[id], t.deadline[id] = node.Claim{Ref: m.Ref()}, m.Deadline, m.Deadline
		if claimed(result.Claim) {
			t.stored[id] = result.Claim
		}
		t.tell(func() { recorder.inserted(caller, m, result.Claim, stamp) })
	}
	if item.Answer != nil && !again {
		outcome := result.Outcome.String()
		if item.Answer.Rejected {
			outcome = node.OutcomeRejected
		}
		ref, due := item.Answer.Ref(lineage), item.Answer.Deadline
		reply := node.MessageID{ID: ref.ID, Lane: ref.Lane}
		t.changes++
		t.stored[reply], t.due[reply], t.deadline[reply] = node.Claim{Ref: ref}, due, due
		t.tell(func() { recorder.answered(caller, p, item, outcome, lineage, stamp) })
	}
}

// decided notes what an instruction has done to the message that was there, which a new one may follow.
func (t *truth) decided(id node.MessageID, item *node.Item, d *decided) {
	d.after, d.deadline = d.before, t.deadline[id]
	switch d.outcome {
	case node.Cancelled, node.Replaced:
		d.after = uuid.Nil
		delete(t.stored, id)
		delete(t.due, id)
		delete(t.deadline, id)
	case node.Rescheduled, node.FiredNow:
		ref := item.Ref()
		ref.Incarnation = item.Moved(d.before)
		d.after = ref.Incarnation
		if d.deadline = item.Deadline; d.outcome == node.FiredNow && t.deadline[id].Before(item.Deadline) {
			d.deadline = t.deadline[id]
		}
		due := item.Deadline
		if d.outcome == node.FiredNow && t.due[id].Before(due) {
			due = t.due[id]
		}
		t.stored[id], t.due[id], t.deadline[id], d.due = node.Claim{Ref: ref}, due, d.deadline, due
	case node.TooLate, node.Stopped: // the row is bound from now on
	default:
		return
	}
	t.changes++
}

// watch notes whether the store has caught up meanwhile, before a call that may claim something.
func (t *truth) watch(ctx context.Context) {
	if t.catchingUp {
		_, state, err := t.rows.Positions(ctx, nil)
		_ = t.state(must(state, err))
	}
}

// lineage asks for the number of the lineage.
func (t *truth) lineage() int64 {
	_, state, err := t.rows.Positions(context.Background(), nil)
	t.catchingUp = must(state, err).CatchingUp
	return state.Lineage
}

// CatchUp implements node.Store.
func (t *truth) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	before := t.lineage()
	state := must(t.rows.CatchUp(ctx, request))
	if state.Lineage > before {
		t.suspect = false
		t.changes++
		caller := t.caller
		t.tell(func() { t.server.world.recorder.began(caller, state.Lineage, request.Marks) })
	}
	for _, extent := range request.Marks {
		t.look(ctx, extent.Partition)
	}
	for _, place := range request.Rewind {
		t.look(ctx, place.Partition)
	}
	t.changes++
	if f := t.follower(); f != nil && state.Lineage > before {
		f.began(state)
		for _, place := range request.Rewind {
			f.rewound(place)
		}
	}
	t.followPlaces(t.known)
	return t.state(state), nil
}

// Claim implements node.Store.
func (t *truth) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	t.watch(ctx)
	if t.suspect && !t.muted {
		request.Lanes = nil
	}
	result := t.claim(ctx, request)
	result.State = t.state(result.State)
	if !result.State.Claims() {
		result.Idle = 0
	}
	t.changes += len(result.Messages)
	for i := range result.Messages {
		m := &result.Messages[i]
		t.stored[node.MessageID{ID: m.ID, Lane: m.Lane}] = m.Claim
	}
	recorder, caller := t.server.world.recorder, t.caller
	if len(result.Messages) > 0 {
		stamp, messages := t.server.instant(), result.Messages
		t.tell(func() { recorder.claimed(caller, messages, stamp) })
		if f := t.follower(); f != nil {
			settings := t.settings
			t.tell(func() {
				f.says(result.State)
				for i := range messages {
					f.claim(messages[i].Claim, stamp, settings)
				}
			})
		}
	}
	return result, nil
}

// claim claims what a database would claim: it goes past the rows that an open transaction has locked, to delete them,
// say, and the delete may yet be undone. Such claims are taken back.
func (t *truth) claim(ctx context.Context, request node.ClaimRequest) (result node.ClaimResult) {
	var skipped []node.Release
	request.Lanes = slices.Clone(request.Lanes)
	first := true
	for first || len(request.Lanes) > 0 {
		more := must(t.rows.Claim(ctx, request))
		result.State = more.State
		before := len(skipped)
		if first && !t.skipsAny(more.Messages) {
			return more
		}
		first = false
		for i := range more.Messages {
			m := &more.Messages[i]
			if t.skips(m) {
				skipped = append(skipped, node.Release{Claim: m.Claim, Part: m.Part, Unsent: true})
				continue
			}
			result.Messages = append(result.Messages, *m)
			at := slices.IndexFunc(request.Lanes, func(s node.Share) bool { return s.Where() == m.Where() })
			request.Lanes[at].Limit--
			request.Lanes[at].Bytes -= m.Size()
		}
		if len(skipped) == before {
			break
		}
		request.Lanes = slices.DeleteFunc(request.Lanes, func(s node.Share) bool {
			return s.Limit <= 0 || s.Bytes <= 0
		})
	}
	if len(skipped) > 0 {
		_ = must(t.rows.Reset(ctx, skipped))
	}
	slices.SortFunc(result.Messages, func(a, b node.Ready) int {
		return cmp.Or(t.dueOf(&a).Compare(t.dueOf(&b)), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return result
}

func (t *truth) skipsAny(messages []node.Ready) bool {
	for i := range messages {
		if t.skips(&messages[i]) {
			return true
		}
	}
	return false
}

func (t *truth) dueOf(m *node.Ready) time.Time {
	return t.due[node.MessageID{ID: m.ID, Lane: m.Lane}]
}

// skips reports whether a claim goes past a message.
func (t *truth) skips(m *node.Ready) bool {
	if t.muted {
		return !slices.Contains(t.only, node.MessageID{ID: m.ID, Lane: m.Lane})
	}
	return t.server.locked(&m.Message)
}

// Settle implements node.Store.
func (t *truth) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	settled := must(t.rows.Settle(ctx, next))
	recorder, caller := t.server.world.recorder, t.caller
	for i, n := range next {
		if f := t.follower(); f != nil {
			if n.Removes() {
				f.deleted(n.Of)
			} else {
				f.rearmed(&n, settled[i])
			}
		}
		id := node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}
		switch settled[i] {
		case node.Removed:
			t.changes++
			delete(t.stored, id)
			delete(t.due, id)
			delete(t.deadline, id)
			t.tell(func() { recorder.deleted(caller, n.Of) })
		case node.Rearmed:
			t.changes++
			ref := node.Ref{ID: id.ID, Lane: id.Lane, Incarnation: n.Incarnation}
			t.stored[id], t.due[id], t.deadline[id] = node.Claim{Ref: ref}, n.At, n.At
			t.tell(func() { recorder.rearmed(caller, n) })
		case node.Gone, node.Promised, node.Freed, node.Busy:
		}
	}
	return settled, nil
}

// Parts implements node.Store.
func (t *truth) Parts(ctx context.Context) ([]node.Part, error) { return must(t.rows.Parts(ctx)), nil }

// Expired implements node.Store.
func (t *truth) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	expired := must(t.rows.Expired(ctx, limit))
	if f := t.follower(); f != nil {
		f.expired(expired, t.server.instant())
	}
	return expired, nil
}

// Reset implements node.Store.
func (t *truth) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	reset := must(t.rows.Reset(ctx, releases))
	recorder, caller := t.server.world.recorder, t.caller
	for i, release := range releases {
		if reset[i] == node.Freed {
			t.changes++
			id := node.MessageID{ID: release.ID, Lane: release.Lane}
			t.stored[id] = node.Claim{Ref: release.Ref}
			if !release.Due.IsZero() {
				t.due[id] = release.Due
			}
			t.tell(func() { recorder.reset(caller, release) })
			if f := t.follower(); f != nil {
				t.tell(func() { f.reset(&release) })
			}
		}
	}
	return reset, nil
}

// has reports whether a row is there.
func (t *truth) has(row lockable) bool {
	_, has := t.stored[row.MessageID]
	return has
}

// claims returns what is in the store, in the order of ids and topics.
func (t *truth) claims() []node.Claim {
	return slices.SortedFunc(maps.Values(t.stored), func(a, b node.Claim) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
}

// claimed reports whether somebody holds a claim.
func claimed(c node.Claim) bool { return c.ReadiedBy != uuid.Nil }
