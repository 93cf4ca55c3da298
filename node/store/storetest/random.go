package storetest

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"chronos/node"
	"chronos/node/store/memory"
)

// runRandom makes random calls on the store and on the memory model at once, and compares what they return and what
// they hold. A failure prints the calls and how to repeat them, made as few as rapid can.
func runRandom(t *testing.T, instance Instance) {
	t.Helper()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		m := newMachine(t, rt, instance, run)
		m.begin(rt)
		rt.Repeat(rapid.StateMachineActions(m))
		m.drain(rt)
	})
}

// machine is the store under test beside the model.
//
// A store with a clock of its own stamps its claims with instants that the model cannot know. So the model keeps
// another clock, which moves between any two calls, and the machine remembers which of the store's claims is
// which of the model's. All else is compared as it is.
type machine struct {
	t        *testing.T
	instance Instance
	model    *memory.Store
	clock    *Clock // the model's

	run      uint32
	drawn    uint32
	messages []node.Message // every one ever taken in
	refs     []node.Ref     // every one that was ever stored, under each of its incarnations; replies, too

	// places are the partitions of the run, and last is the latest take.
	places []node.Place
	last   *node.TakeRequest

	// claims are those ever returned: the model's and, in the same places, the store's.
	claims, actual []node.Claim

	// placed are the partitions that have a position, and strange is how many positions the store had before.
	placed  map[node.Partition]bool
	strange int
}

func newMachine(t *testing.T, rt *rapid.T, instance Instance, run int) *machine {
	t.Helper()
	rt.Helper()
	clock := instance.Clock
	if clock == nil {
		clock = NewClock()
	}
	m := &machine{
		t: t, instance: instance, clock: clock, model: memory.New(clock.Now), placed: map[node.Partition]bool{},
		run: uint32(run),
	}
	for i := range 3 {
		place := node.Place{Position: node.Position{Epoch: 3, Offset: 10}}
		place.Topic, place.Number = "input", int32(i)
		binary.BigEndian.PutUint32(place.TopicID[:], uint32(run))
		m.places = append(m.places, place)
	}
	return m
}

// begin brings the store and the model to one state: in a new lineage, bound to the same, without messages.
func (m *machine) begin(t *rapid.T) {
	s := newSubject(m.t, m.instance)
	lineage := s.state().Lineage
	request := node.CatchUpRequest{Lineage: lineage, Begin: true}
	s.catchUp(request)
	request.Lineage, request.Floor = 1, lineage
	if _, err := m.model.CatchUp(m.t.Context(), request); err != nil {
		t.Fatal(err)
	}
	m.empty(t, s)
	binding := node.BindRequest{Cluster: "cluster", Group: "group", Force: true}
	m.strange = s.bind(binding).Partitions
	if _, err := m.model.Bind(m.t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// Take takes a few records in, around the positions: new messages, more incarnations of old ones, old ones again, and
// instructions on all of them.
func (m *machine) Take(t *rapid.T) {
	request := node.TakeRequest{Node: drawOwner(t), Hold: m.drawHold(t)}
	known := rapid.SliceOfNDistinct(rapid.IntRange(0, len(m.places)-1), 1, 2, rapid.ID).Draw(t, "partitions")
	next := make([]int64, len(known))
	for i, at := range known {
		place := m.places[at]
		if position, found := m.position(place); found {
			place.Position = position
		}
		next[i] = place.Offset - int64(rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "below"))
		place.Offset += int64(rapid.SampledFrom([]int{0, 0, 0, 0, -1, -2, 1}).Draw(t, "from"))
		place.Epoch = max(place.Epoch+int32(rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(t, "epoch")), -1)
		request.From = append(request.From, place)
	}
	for range rapid.IntRange(0, 5).Draw(t, "records") {
		item := node.Item{From: rapid.IntRange(0, len(known)-1).Draw(t, "of")}
		from := request.From[item.From]
		item.Epoch = max(from.Epoch+int32(rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(t, "epoch")), -1)
		item.Offset = next[item.From] + int64(rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "gap"))
		next[item.From] = item.Offset + 1
		m.drawAction(t, &item, request.Items)
		request.Items = append(request.Items, item)
		if rapid.IntRange(0, 4).Draw(t, "past") == 0 {
			other := node.Item{From: node.NoPlace}
			m.drawAction(t, &other, request.Items)
			m.drawRequest(t, &other)
			request.Items = append(request.Items, other)
		}
	}
	m.last = &request
	m.take(t, request)
}

// Control gives instructions on what is there, in a take that is taken in unless claims of before may be held.
func (m *machine) Control(t *rapid.T) {
	past := rapid.IntRange(0, 2).Draw(t, "past") == 0
	place := m.places[0]
	if position, found := m.position(place); found {
		place.Position = position
	} else {
		m.positions(t, []node.Place{place})
	}
	request := node.TakeRequest{Node: drawOwner(t), Hold: m.drawHold(t), From: []node.Place{place}}
	if past {
		request.From = nil
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "records") {
		item := node.Item{Epoch: place.Epoch, Offset: place.Offset + int64(i)}
		if past {
			item = node.Item{From: node.NoPlace}
		}
		m.drawAction(t, &item, request.Items)
		if rows := m.model.Dump(); len(rows) > 0 && item.Action != node.Pass && item.Action != node.Schedule {
			row := rapid.SampledFrom(rows).Draw(t, "row")
			if row.Lane != lanes()[2] {
				item.ID, item.Lane, item.Incarnation = row.ID, row.Lane, m.incarnation()
			}
			if rapid.Bool().Draw(t, "only") {
				item.Only = row.Incarnation
			}
		}
		m.drawRequest(t, &item)
		request.Items = append(request.Items, item)
	}
	m.last = &request
	m.take(t, request)
}

// TakeAgain repeats the last take, by the same node or another.
func (m *machine) TakeAgain(t *rapid.T) {
	if m.last == nil {
		t.Skip("nothing was taken in yet")
	}
	request := *m.last
	request.Node = drawOwner(t)
	m.take(t, request)
}

func (m *machine) take(t *rapid.T, request node.TakeRequest) {
	m.tick()
	got, err := m.instance.Store.Take(m.t.Context(), request)
	m.checkCall(t, "Take", err, len(got.Results), got.Taken)
	want, err := m.model.Take(m.t.Context(), request)
	m.checkCall(t, "the model's Take", err, 0, 0)
	for i := range min(len(got.Results), len(want.Results)) {
		mine, theirs := got.Results[i].Claim, want.Results[i].Claim
		if mine != (node.Claim{}) || theirs != (node.Claim{}) {
			m.pair(t, theirs, mine)
			want.Results[i].Claim = mine
		}
	}
	if !sameTake(got, want) {
		t.Fatalf("taking %+v: got %s, want %s", request, brief(got), brief(want))
	}
	m.remember()
}

// position returns what the model has for a partition.
func (m *machine) position(place node.Place) (node.Position, bool) {
	if !m.placed[place.Partition] {
		return node.Position{}, false
	}
	positions, _, err := m.model.Positions(m.t.Context(), []node.Place{place})
	if err != nil {
		m.t.Fatal(err)
	}
	return positions[0], true
}

// Positions asks for some, and creates what is missing.
func (m *machine) Positions(t *rapid.T) {
	places := []node.Place{}
	known := rapid.SliceOfNDistinct(rapid.IntRange(0, len(m.places)-1), 0, 3, rapid.ID)
	for _, at := range known.Draw(t, "partitions") {
		places = append(places, m.drawPlace(t, at))
	}
	m.positions(t, places)
}

func (m *machine) positions(t *rapid.T, places []node.Place) {
	got, gotState, err := m.instance.Store.Positions(m.t.Context(), places)
	m.checkCall(t, "Positions", err, len(got), len(places))
	want, wantState, err := m.model.Positions(m.t.Context(), places)
	m.checkCall(t, "the model's Positions", err, len(want), len(places))
	if !slices.Equal(got, want) || gotState != wantState {
		t.Fatalf("positions of %+v: got %+v and %+v, want %+v and %+v", places, got, gotState, want, wantState)
	}
	for _, place := range places {
		m.placed[place.Partition] = true
	}
}

// CatchUp begins a lineage, or updates the marks of one, or does nothing because it knows of another.
func (m *machine) CatchUp(t *rapid.T) {
	request := node.CatchUpRequest{
		Lineage: m.lineage(t) - int64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "ago")),
		Begin:   rapid.IntRange(0, 4).Draw(t, "begin") == 0,
	}
	if rapid.IntRange(0, 4).Draw(t, "floor") == 0 {
		request.Floor = request.Lineage + 5
	}
	if m.instance.Clock != nil && rapid.IntRange(0, 3).Draw(t, "gate") == 0 {
		request.Hold = time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "hold")) * time.Microsecond
	}
	effective := request.Lineage == m.lineage(t)
	for at := range m.places {
		if rapid.IntRange(0, 2).Draw(t, "mark") == 0 {
			place := m.drawPlace(t, at)
			end := place.Offset + int64(rapid.IntRange(0, 5).Draw(t, "end"))
			mark := node.Extent{Partition: place.Partition, First: place.Offset, End: end}
			request.Marks = append(request.Marks, mark)
			m.placed[place.Partition] = m.placed[place.Partition] || effective
		}
		if request.Begin && rapid.IntRange(0, 5).Draw(t, "rewind") == 0 {
			place := m.drawPlace(t, at)
			request.Rewind = append(request.Rewind, place)
			m.placed[place.Partition] = m.placed[place.Partition] || effective
		}
	}
	m.catchUp(t, request)
}

func (m *machine) catchUp(t *rapid.T, request node.CatchUpRequest) {
	got, err := m.instance.Store.CatchUp(m.t.Context(), request)
	m.checkCall(t, "CatchUp", err, 0, 0)
	want, err := m.model.CatchUp(m.t.Context(), request)
	m.checkCall(t, "the model's CatchUp", err, 0, 0)
	if got != want {
		t.Fatalf("catching up (%+v): got %+v, want %+v", request, got, want)
	}
}

// lineage returns the model's.
func (m *machine) lineage(t *rapid.T) int64 {
	_, state, err := m.model.Positions(m.t.Context(), nil)
	m.checkCall(t, "the model's Positions", err, 0, 0)
	return state.Lineage
}

// Bind asks what the store belongs to.
func (m *machine) Bind(t *rapid.T) {
	request := node.BindRequest{
		Cluster: rapid.SampledFrom([]string{"cluster", "other"}).Draw(t, "cluster"), Group: "group",
		Force: rapid.IntRange(0, 4).Draw(t, "force") == 0,
	}
	got, err := m.instance.Store.Bind(m.t.Context(), request)
	m.checkCall(t, "Bind", err, 0, 0)
	want, err := m.model.Bind(m.t.Context(), request)
	m.checkCall(t, "the model's Bind", err, 0, 0)
	if got.Partitions -= m.strange; got != want {
		t.Fatalf("binding (%+v): got %+v, want %+v", request, got, want)
	}
}

// Claim claims what falls due.
func (m *machine) Claim(t *rapid.T) {
	request := node.ClaimRequest{Node: drawOwner(t), Hold: m.drawHold(t), Until: drawInstant().Draw(t, "until")}
	for _, part := range drawParts(t) {
		var from time.Time
		if rapid.IntRange(0, 3).Draw(t, "late") == 0 {
			from = drawInstant().Draw(t, "from")
		}
		request.Lanes = append(request.Lanes, node.Share{
			Lane:  part.Lane,
			Part:  part.Name,
			Limit: rapid.OneOf(rapid.IntRange(1, 4), rapid.Just(math.MaxInt)).Draw(t, "limit"),
			Bytes: rapid.OneOf(rapid.IntRange(1, 20), rapid.Just(math.MaxInt)).Draw(t, "bytes"),
			From:  from,
		})
	}
	m.claim(t, request)
}

func (m *machine) claim(t *rapid.T, request node.ClaimRequest) {
	m.tick()
	got, err := m.instance.Store.Claim(m.t.Context(), request)
	m.checkCall(t, "Claim", err, 0, 0)
	want, err := m.model.Claim(m.t.Context(), request)
	m.checkCall(t, "the model's Claim", err, 0, 0)
	for i := range min(len(got.Messages), len(want.Messages)) {
		mine, theirs := got.Messages[i], want.Messages[i]
		if why := diffMessage(mine.Message, theirs.Message); why != "" {
			t.Fatalf("claimed message %d: %s", i, why)
		}
		if mine.Due != theirs.Due || mine.Part != theirs.Part {
			t.Fatalf("claimed message %d: it fell due at %v on part %q, want %v, %q", i, mine.Due, mine.Part,
				theirs.Due, theirs.Part)
		}
		if mine.Attempts != theirs.Attempts || mine.Turn != theirs.Turn {
			t.Fatalf("claimed message %d: got attempt %d, turn %d, want %d, %d", i, mine.Attempts, mine.Turn,
				theirs.Attempts, theirs.Turn)
		}
		m.pair(t, theirs.Claim, mine.Claim)
	}
	if len(got.Messages) != len(want.Messages) || got.State != want.State {
		t.Fatalf("claimed %q in %+v, want %q in %+v", idsOf(got.Messages), got.State, idsOf(want.Messages), want.State)
	}
}

// Delete removes a few messages, present or not.
func (m *machine) Delete(t *rapid.T) {
	refs := []node.Ref{}
	for range rapid.IntRange(0, 4).Draw(t, "refs") {
		ref := node.Ref{ID: drawID().Draw(t, "id"), Lane: drawLane(t), Incarnation: m.incarnation()}
		if len(m.refs) > 0 && rapid.IntRange(0, 9).Draw(t, "kind") > 0 {
			ref = rapid.SampledFrom(m.refs).Draw(t, "ref")
		}
		if _, why := node.CheckID(ref.ID); why == "" {
			refs = append(refs, ref)
		}
	}
	m.delete(t, refs)
}

func (m *machine) delete(t *rapid.T, refs []node.Ref) {
	got, err := m.instance.Store.Settle(m.t.Context(), node.Removals(refs...))
	m.checkCall(t, "Settle", err, len(got), len(refs))
	want, err := m.model.Settle(m.t.Context(), node.Removals(refs...))
	m.checkCall(t, "the model's Settle", err, len(want), len(refs))
	if !slices.Equal(got, want) {
		t.Fatalf("deleting %+v: got %v, want %v", refs, got, want)
	}
}

// Rearm settles a few occurrences, present or not, with others that follow or none.
func (m *machine) Rearm(t *rapid.T) {
	next := []node.Next{}
	for range rapid.IntRange(0, 3).Draw(t, "occurrences") {
		if len(m.refs) == 0 {
			break
		}
		n := node.Next{Of: rapid.SampledFrom(m.refs).Draw(t, "ref")}
		if rows := m.model.Dump(); len(rows) > 0 && rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
			row := rapid.SampledFrom(rows).Draw(t, "row")
			n.Of = row.Ref()
		}
		if rapid.IntRange(0, 3).Draw(t, "ends") > 0 {
			n.Incarnation, n.Sequence = m.incarnation(), int64(rapid.IntRange(2, 5).Draw(t, "sequence"))
			n.At = drawInstant().Draw(t, "at")
		}
		if rapid.IntRange(0, 7).Draw(t, "missed") == 0 {
			n.Missed = node.Claim{Ref: n.Of, ReadiedBy: drawOwner(t)}
		}
		// Only what recurs is settled; what is gone may have been anything.
		of := slices.IndexFunc(m.model.Dump(), func(row memory.Row) bool { return row.Ref() == n.Of })
		if of < 0 || m.model.Dump()[of].Recurs() {
			next = append(next, n)
		}
	}
	got, err := m.instance.Store.Settle(m.t.Context(), next)
	m.checkCall(t, "Settle", err, len(got), len(next))
	want, err := m.model.Settle(m.t.Context(), next)
	m.checkCall(t, "the model's Settle", err, len(want), len(next))
	if !slices.Equal(got, want) {
		t.Fatalf("settling %+v: got %v, want %v", next, got, want)
	}
	m.remember()
}

// remember notes all that the model stores by now.
func (m *machine) remember() {
	for _, row := range m.model.Dump() {
		if !slices.Contains(m.refs, row.Ref()) {
			m.refs = append(m.refs, row.Ref())
		}
	}
}

// Expired asks for expired claims.
func (m *machine) Expired(t *rapid.T) {
	m.expired(t, rapid.OneOf(rapid.IntRange(1, 4), rapid.Just(math.MaxInt)).Draw(t, "limit"))
}

func (m *machine) expired(t *rapid.T, limit int) {
	got, err := m.instance.Store.Expired(m.t.Context(), limit)
	m.checkCall(t, "Expired", err, 0, 0)
	asked := limit
	if m.instance.Clock == nil {
		asked = math.MaxInt // which ones the limit leaves is for the store's instants to say
	}
	want, err := m.model.Expired(m.t.Context(), asked)
	m.checkCall(t, "the model's Expired", err, 0, 0)
	if m.instance.Clock != nil {
		if !slices.Equal(got, want) {
			t.Fatalf("expired claims, at most %d: got %+v, want %+v", limit, got, want)
		}
		return
	}
	for i := range want {
		want[i] = m.translate(want[i])
	}
	byExpiry := func(a, b node.Claim) int { return a.Expires.Compare(b.Expires) }
	slices.SortStableFunc(want, byExpiry)
	if len(got) != min(len(want), limit) || !slices.IsSortedFunc(got, byExpiry) {
		t.Fatalf("expired claims, at most %d: got %+v, want of these %+v", limit, got, want)
	}
	for i, claim := range got {
		if !slices.Contains(want, claim) || slices.Contains(got[:i], claim) || !claim.Expires.Equal(want[i].Expires) {
			t.Fatalf("expired claim %d, of at most %d: got %+v, want of these %+v", i, limit, got, want)
		}
	}
}

// Reset gives claims up: held ones, former ones, and such as were never made.
func (m *machine) Reset(t *rapid.T) {
	asked, releases := []node.Release{}, []node.Release{}
	for range rapid.IntRange(0, 4).Draw(t, "releases") {
		if len(m.claims) == 0 {
			break
		}
		// Later claims are more often held still.
		back := rapid.IntRange(0, len(m.claims)-1).Draw(t, "back")
		at := len(m.claims) - 1 - back
		var due time.Time
		if rapid.Bool().Draw(t, "put off") {
			due = drawInstant().Draw(t, "due")
		}
		unsent := rapid.Bool().Draw(t, "unsent")
		behind := rapid.Bool().Draw(t, "behind")
		part := drawPart(t)
		ask := node.Release{Claim: m.claims[at], Part: part, Due: due, Unsent: unsent, Behind: behind}
		release := node.Release{Claim: m.actual[at], Part: part, Due: due, Unsent: unsent, Behind: behind}
		change := rapid.IntRange(-5, 3).Draw(t, "change")
		changeClaim(&ask.Claim, change)
		changeClaim(&release.Claim, change)
		asked, releases = append(asked, ask), append(releases, release)
	}
	got, err := m.instance.Store.Reset(m.t.Context(), releases)
	m.checkCall(t, "Reset", err, len(got), len(releases))
	want, err := m.model.Reset(m.t.Context(), asked)
	m.checkCall(t, "the model's Reset", err, len(want), len(releases))
	if !slices.Equal(got, want) {
		t.Fatalf("resetting %+v: got %v, want %v", releases, got, want)
	}
}

// Wait lets time pass, or puts the clock back, where that is possible.
func (m *machine) Wait(t *rapid.T) {
	if m.instance.Clock == nil {
		t.Skip("the store has a clock of its own")
	}
	passed := rapid.IntRange(-1_000_000, 3_000_000).Draw(t, "microseconds")
	m.instance.Clock.Advance(time.Duration(passed) * time.Microsecond)
}

// Check compares the rows, and the positions that there are, after every call.
func (m *machine) Check(t *rapid.T) {
	var places []node.Place
	for _, place := range m.places {
		if m.placed[place.Partition] {
			place.Position = node.Position{}
			places = append(places, place)
		}
	}
	m.positions(t, places)
	if m.instance.Dump == nil {
		return
	}
	want := m.model.Dump()
	for i, row := range want {
		if row.ReadiedBy != uuid.Nil && m.instance.Clock == nil {
			claim := m.translate(node.Claim{
				Ref: row.Ref(), ReadiedAt: row.ReadiedAt, ReadiedBy: row.ReadiedBy, Expires: row.Expires,
			})
			want[i].ReadiedAt, want[i].Expires = claim.ReadiedAt, claim.Expires
		}
	}
	if why := diffRows(m.instance.Dump(m.t), want); why != "" {
		t.Fatalf("the rows differ: %s", why)
	}
}

// drain compares what is left with the port's own means, and removes it.
func (m *machine) drain(t *rapid.T) {
	m.catchUp(t, node.CatchUpRequest{Lineage: m.lineage(t), Begin: true})
	m.claim(t, node.ClaimRequest{Node: alice(), Until: latest(), Lanes: everywhere()})
	if m.instance.Clock != nil {
		m.instance.Clock.Advance(24 * time.Hour) // no claim of this test expires later, however the clock was put back
	}
	m.expired(t, math.MaxInt)
	var refs []node.Ref
	for _, row := range m.model.Dump() {
		refs = append(refs, row.Ref())
	}
	m.delete(t, refs)
}

// empty removes what a failed run has left in the store.
func (m *machine) empty(t *rapid.T, s *subject) {
	for range 3 {
		var refs []node.Ref
		for _, row := range s.rows() {
			refs = append(refs, row.Ref()) // claims that expire in an hour are seen in no other way
		}
		s.delete(refs...)
		refs = nil
		for _, r := range s.claimWithin(alice(), latest(), everywhere()...) {
			refs = append(refs, r.Ref())
		}
		if m.instance.Clock != nil {
			m.instance.Clock.Advance(24 * time.Hour)
		}
		for _, claim := range s.expired() {
			refs = append(refs, claim.Ref)
		}
		if len(refs) == 0 {
			return
		}
		s.delete(refs...)
	}
	t.Fatal("what a failed run has left in the store cannot be removed")
}

// tick makes the model's claims of two calls differ where the store's clock differs by itself.
func (m *machine) tick() {
	if m.instance.Clock == nil {
		m.clock.Advance(time.Millisecond)
	}
}

// pair remembers that the model's claim is the store's.
func (m *machine) pair(t *rapid.T, model, actual node.Claim) {
	same := model
	same.ReadiedAt = actual.ReadiedAt
	same.Expires = actual.ReadiedAt.Add(model.Expires.Sub(model.ReadiedAt))
	if actual != same || actual.ReadiedAt.Location() != time.UTC ||
		m.instance.Clock != nil && actual != model {
		t.Fatalf("claim: got %+v, want %+v", actual, model)
	}
	if at := slices.Index(m.claims, model); at >= 0 {
		if m.actual[at] != actual {
			t.Fatalf("claim %+v has turned into %+v", m.actual[at], actual)
		}
		return
	}
	m.claims, m.actual = append(m.claims, model), append(m.actual, actual)
}

// translate returns the store's claim for one of the model's.
func (m *machine) translate(model node.Claim) node.Claim {
	if at := slices.Index(m.claims, model); at >= 0 {
		return m.actual[at]
	}
	return model
}

func (m *machine) checkCall(t *rapid.T, call string, err error, got, want int) {
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	if got != want {
		t.Fatalf("%s returned %d results for %d arguments", call, got, want)
	}
}
