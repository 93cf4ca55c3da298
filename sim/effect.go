package sim

import (
	"context"
	"slices"

	"chronos/node"
)

// effect is what one call does to the rows, with its result: a value that can be made at once, at the commit of a long
// transaction, or once more when the store goes back to an earlier state.
type effect interface {
	// needs returns what the call locks, and waits for where others have locked it.
	needs(t *truth) []lockable

	// see takes note of the rows that there are when a long transaction begins: a delete or a reset does nothing to one
	// that comes later.
	see(t *truth)

	// limit lets a fault of the call cut it off after some items.
	limit(c *call)

	// apply makes the effect. The store in this process has no reason to fail.
	apply(rows node.Store)

	// waits reports whether the answer rests on a commit, for which the standby is waited for.
	waits() bool

	// answerSize returns the bytes of the messages in the answer.
	answerSize() int
}

// simple is what most effects have in common: they lock nothing, wait for the standby and carry no messages. A take
// waits also when all is skipped, because of its lock on the positions.
type simple struct{}

func (simple) needs(*truth) []lockable { return nil }
func (simple) see(*truth)              {}
func (simple) limit(*call)             {}
func (simple) waits() bool             { return true }
func (simple) answerSize() int         { return 0 }

// skips is an effect that leaves alone what others have locked for longer than a moment, and says so.
type skips interface {
	skip(t *truth, locked func(lockable) bool)

	// again looks at what was left alone, when the effect is made: what is there no more is not busy.
	again(t *truth)
}

// take is a Store.Take. It locks the positions of its partitions and the rows of its ids, and those that it may insert:
// whoever inserts one of them waits.
type take struct {
	simple

	request node.TakeRequest
	result  node.TakeResult
	err     error // only a mutant fails

	// passes is for a mutant, see Mutant.PassesBlocked.
	passes bool

	// left says of each item that is left alone what is answered about it, and 0 of the others; nil if the take
	// has met nothing that others have locked for longer than a moment.
	left []node.Outcome

	// wants is what it locks then, and idle says that it changes nothing.
	wants []lockable
	idle  bool
}

// skip leaves alone what others have locked. An item that is behind such a one in its partition is not dealt with, and
// one that was taken in before changes nothing, whatever is locked.
func (e *take) skip(t *truth, locked func(lockable) bool) {
	m := t.server.world.mutant
	e.passes = m != nil && m.PassesBlocked
	e.left, e.idle = make([]node.Outcome, len(e.request.Items)), true
	for _, from := range e.request.From {
		if l := (lockable{Partition: from.Partition}); !locked(l) {
			e.wants = append(e.wants, l)
		}
	}
	halted := make([]bool, len(e.request.From))
	for i := range e.request.Items {
		item := &e.request.Items[i]
		placed, row := item.From != node.NoPlace, rowOf(item.ID, item.Lane)
		busy := item.Action != node.Pass && locked(row)
		switch {
		case placed && locked(lockable{Partition: e.request.From[item.From].Partition}):
			e.left[i] = node.Blocked
			continue
		case e.taken(t, item):
		case placed && halted[item.From]:
			e.left[i] = node.Untaken
		case busy:
			e.left[i] = node.Blocked
			if placed {
				halted[item.From] = !e.passes
			}
		default:
			e.idle = false
		}
		if item.Action != node.Pass && !busy && (t.has(row) || e.left[i] == 0 && !e.taken(t, item)) {
			e.wants = append(e.wants, row)
		}
	}
}

// taken reports whether an item was taken in before.
func (e *take) taken(t *truth, item *node.Item) bool {
	return item.From != node.NoPlace &&
		!t.places[e.request.From[item.From].Partition].Takes(item.Epoch, item.Offset)
}

// again implements skips. A take decides when it takes its locks.
func (e *take) again(*truth) {}

// free returns the request without what is left alone, and where the items are that it has.
func (e *take) free() (request node.TakeRequest, places []int) {
	request = e.request
	request.Items = nil
	for i := range e.request.Items {
		if e.left[i] == 0 {
			request.Items, places = append(request.Items, e.request.Items[i]), append(places, i)
		}
	}
	return request, places
}

func (e *take) needs(t *truth) []lockable {
	if e.left != nil {
		return e.wants
	}
	needs := make([]lockable, 0, len(e.request.From)+len(e.request.Items))
	for _, from := range e.request.From {
		needs = append(needs, lockable{Partition: from.Partition})
	}
	for i := range e.request.Items {
		item := &e.request.Items[i]
		if row := rowOf(item.ID, item.Lane); item.Action != node.Pass && (t.has(row) || !e.taken(t, item)) {
			needs = append(needs, row)
		}
	}
	return needs
}

// limit leaves partitions out: each is atomic by itself, and a store may make several transactions of a take, of which
// some are lost. What stands in no partition is all or nothing.
func (e *take) limit(c *call) {
	if c.partial < 0 || len(e.request.From) == 0 {
		return
	}
	first := c.partial % len(e.request.From)
	if first == 0 && len(e.request.From) > 1 {
		first = 1 // seldom does a take have two partitions, and part of it is to be seen
	}
	var items []node.Item // what was handed in is in other hands as well
	var left []node.Outcome
	for i := range e.request.Items {
		if item := &e.request.Items[i]; item.From < first {
			items = append(items, *item)
			if e.left != nil {
				left = append(left, e.left[i])
			}
		}
	}
	if first > 0 {
		c.task.life.host.world.count("take-apart")
	}
	e.request.Items, e.left = items, left
}

func (e *take) apply(rows node.Store) {
	if e.left == nil {
		e.result, e.err = rows.Take(context.Background(), e.request)
		return
	}
	request, places := e.free()
	if e.result, e.err = rows.Take(context.Background(), request); e.err != nil {
		return
	}
	results := make([]node.ItemResult, len(e.request.Items))
	for i := range results {
		results[i].Outcome = e.left[i]
		from := e.request.Items[i].From
		if from == node.NoPlace && !e.result.State.Takes() || from != node.NoPlace && e.result.Refused[from] {
			results[i].Outcome = node.Untaken
		}
	}
	for at, i := range places[:e.result.Taken] {
		results[i] = e.result.Results[at]
	}
	taken := len(results)
	if e.result.Taken < len(places) { // it was refused: what stands behind it is not dealt with
		taken = places[e.result.Taken]
	}
	e.result.Taken, e.result.Results = taken, results[:taken]
}

// claim is a Store.Claim. It skips what others have locked.
type claim struct {
	simple

	request node.ClaimRequest
	result  node.ClaimResult
	most    int  // of all lanes together; -1 for no limit
	waded   bool // through the dead entries of the index
}

func (e *claim) limit(c *call) { e.most = c.partial }

func (e *claim) apply(rows node.Store) {
	request := e.request
	if e.most >= 0 && len(request.Lanes) > 0 {
		first := request.Lanes[0]
		first.Limit = max(min(first.Limit, e.most), 1)
		request.Lanes = []node.Share{first}
	}
	e.result = must(rows.Claim(context.Background(), request))
}

func (e *claim) waits() bool { return len(e.result.Messages) > 0 }

func (e *claim) answerSize() (size int) {
	for i := range e.result.Messages {
		size += e.result.Messages[i].Size()
	}
	return size
}

// undo takes the claims back.
func (e *claim) undo(rows node.Store) {
	releases := make([]node.Release, len(e.result.Messages))
	for i := range e.result.Messages {
		m := &e.result.Messages[i]
		releases[i] = node.Release{Claim: m.Claim, Part: m.Part, Unsent: true}
	}
	_ = must(rows.Reset(context.Background(), releases))
}

// found is what a delete and a reset have in common: they lock only the rows that they find.
type found struct {
	simple

	seen  []bool // which rows a transaction that stays open has found when it began; nil for all
	items int    // how many of them take effect
	done  []node.Settled

	busy []bool // what others have locked, and is left alone; nil for nothing
}

// isBusy reports whether an item is left alone.
func (f *found) isBusy(i int) bool { return f.busy != nil && f.busy[i] }

func (f *found) limit(c *call) { f.items = c.items(f.items) }

// places returns the places of what may be changed.
func (f *found) places() (places []int) {
	for i := range f.items {
		if (f.seen == nil || f.seen[i]) && !f.isBusy(i) {
			places = append(places, i)
		}
	}
	return places
}

// settle notes the results of what was changed, of n items.
func (f *found) settle(n int, places []int, done []node.Settled) {
	f.done = make([]node.Settled, n)
	for at, i := range places {
		f.done[i] = done[at]
	}
	for i := range f.busy {
		if f.busy[i] {
			f.done[i] = node.Busy
		}
	}
}

// at returns what is at places.
func at[E any](list []E, places []int) []E {
	there := make([]E, len(places))
	for n, i := range places {
		there[n] = list[i]
	}
	return there
}

// settle is a Store.Settle.
type settle struct {
	found

	next []node.Next
}

func (e *settle) finds(t *truth, i int) bool {
	of := e.next[i].Of
	return t.stored[node.MessageID{ID: of.ID, Lane: of.Lane}].Incarnation == of.Incarnation
}

func (e *settle) needs(t *truth) (needs []lockable) {
	for i := range e.next {
		if e.finds(t, i) && !e.isBusy(i) {
			needs = append(needs, rowOf(e.next[i].Of.ID, e.next[i].Of.Lane))
		}
	}
	return needs
}

func (e *settle) skip(t *truth, locked func(lockable) bool) {
	e.busy = make([]bool, len(e.next))
	for i := range e.next {
		e.busy[i] = e.finds(t, i) && locked(rowOf(e.next[i].Of.ID, e.next[i].Of.Lane))
	}
}

func (e *settle) again(t *truth) {
	for i, busy := range e.busy {
		e.busy[i] = busy && e.finds(t, i)
	}
}

func (e *settle) see(t *truth) {
	e.seen = make([]bool, len(e.next))
	for i := range e.next {
		e.seen[i] = e.finds(t, i)
	}
}

func (e *settle) apply(rows node.Store) {
	places := e.places()
	e.settle(len(e.next), places, must(rows.Settle(context.Background(), at(e.next, places))))
}

// removals returns what it has asked to be removed, whatever its rows say.
func (e *settle) removals() (refs []node.Ref) {
	for _, i := range e.places() {
		if e.next[i].Removes() {
			refs = append(refs, e.next[i].Of)
		}
	}
	return refs
}

// giveBack is a Store.Reset.
type giveBack struct {
	found

	releases []node.Release
}

func (e *giveBack) finds(t *truth, i int) bool {
	c := e.releases[i].Claim
	stored := t.stored[node.MessageID{ID: c.ID, Lane: c.Lane}]
	return stored.Ref == c.Ref && stored.ReadiedBy == c.ReadiedBy && stored.ReadiedAt.Equal(c.ReadiedAt)
}

func (e *giveBack) needs(t *truth) (needs []lockable) {
	for i := range e.releases {
		if e.finds(t, i) && !e.isBusy(i) {
			needs = append(needs, rowOf(e.releases[i].ID, e.releases[i].Lane))
		}
	}
	return needs
}

func (e *giveBack) skip(t *truth, locked func(lockable) bool) {
	e.busy = make([]bool, len(e.releases))
	for i := range e.releases {
		e.busy[i] = e.finds(t, i) && locked(rowOf(e.releases[i].ID, e.releases[i].Lane))
	}
}

func (e *giveBack) again(t *truth) {
	for i, busy := range e.busy {
		e.busy[i] = busy && e.finds(t, i)
	}
}

func (e *giveBack) see(t *truth) {
	e.seen = make([]bool, len(e.releases))
	for i := range e.releases {
		e.seen[i] = e.finds(t, i)
	}
}

func (e *giveBack) apply(rows node.Store) {
	places := e.places()
	e.settle(len(e.releases), places, must(rows.Reset(context.Background(), at(e.releases, places))))
}

// expired is a Store.Expired, which passes over what others have locked and sees nothing that is not committed.
type expired struct {
	simple

	most   int
	server *storeServer
	claims []node.Claim
}

func (e *expired) apply(rows node.Store) {
	locked := len(e.server.locks) + len(e.server.foreign)
	e.claims = slices.DeleteFunc(must(rows.Expired(context.Background(), e.most+locked)), func(c node.Claim) bool {
		return e.server.unseen[node.MessageID{ID: c.ID, Lane: c.Lane}] || e.server.isLocked(rowOf(c.ID, c.Lane))
	})
	e.claims = e.claims[:min(len(e.claims), e.most)]
}

func (e *expired) waits() bool { return false }

// parts is a Store.Parts, which locks nothing.
type parts struct {
	simple

	result []node.Part
}

func (e *parts) apply(rows node.Store) { e.result = must(rows.Parts(context.Background())) }

func (e *parts) waits() bool { return false }

// positions is a Store.Positions. It writes only where a position is missing.
type positions struct {
	simple

	places []node.Place
	result []node.Position
	state  node.State
}

func (e *positions) apply(rows node.Store) {
	var err error
	e.result, e.state, err = rows.Positions(context.Background(), e.places)
	_ = must(true, err)
}

func (e *positions) waits() bool { return false }

// catchUp is a Store.CatchUp. It locks the positions that it moves, and those that it looks at.
type catchUp struct {
	simple

	request node.CatchUpRequest
	state   node.State
}

func (e *catchUp) needs(*truth) (needs []lockable) {
	for _, extent := range e.request.Marks {
		needs = append(needs, lockable{Partition: extent.Partition})
	}
	for _, place := range e.request.Rewind {
		needs = append(needs, lockable{Partition: place.Partition})
	}
	return needs
}

func (e *catchUp) apply(rows node.Store) {
	e.state = must(rows.CatchUp(context.Background(), e.request))
}

// bind is a Store.Bind.
type bind struct {
	simple

	request node.BindRequest
	bound   node.Bound
}

func (e *bind) apply(rows node.Store) {
	e.bound = must(rows.Bind(context.Background(), e.request))
}

// pause is a Pause or a Resume of node.Switches, by a person.
type pause struct {
	simple

	lane   string
	paused bool
	server *storeServer
}

// apply makes the effect. It concerns no mutant of the engine's calls, and so passes them by.
func (e *pause) apply(node.Store) { e.server.truth.switches(e.lane, e.paused) }

// must panics on an error of a store in this process: it has no reason to fail.
func must[R any](result R, err error) R {
	if err != nil {
		panic("sim: the store of the simulation fails: " + err.Error())
	}
	return result
}
