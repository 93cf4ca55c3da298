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
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(t, rt, instance)
		m.empty(rt)
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

	drawn    uint32
	messages []node.Message // every one ever inserted

	// claims are those ever returned: the model's and, in the same places, the store's.
	claims, actual []node.Claim
}

func newMachine(t *testing.T, rt *rapid.T, instance Instance) *machine {
	t.Helper()
	rt.Helper()
	clock := instance.Clock
	if clock == nil {
		clock = NewClock()
	}
	return &machine{t: t, instance: instance, clock: clock, model: memory.New(clock.Now)}
}

// Insert stores a few messages: new ones, more incarnations of old ones, and old ones again.
func (m *machine) Insert(t *rapid.T) {
	request := node.InsertRequest{Node: drawOwner(t), Messages: []node.Insertion{}}
	for range rapid.IntRange(0, 5).Draw(t, "messages") {
		message := m.drawMessage(t)
		request.Messages = append(request.Messages, node.Insertion{
			Message: message, Readied: rapid.Bool().Draw(t, "readied"),
		})
	}
	m.tick()
	got, err := m.instance.Store.Insert(m.t.Context(), request)
	m.checkCall(t, "Insert", err, len(got), len(request.Messages))

	// What the store refuses has not happened: the model, which refuses nothing, is not asked.
	asked := request
	asked.Messages = nil
	var results []node.InsertResult
	for i, result := range got {
		message := request.Messages[i].Message
		if result.Outcome == node.Refused {
			if result.Reason == "" || result.Claim != (node.Claim{}) || holdable(message) {
				t.Fatalf("inserting %+v: %+v", message, result)
			}
			continue
		}
		m.messages = append(m.messages, message)
		asked.Messages = append(asked.Messages, request.Messages[i])
		results = append(results, result)
	}
	want, err := m.model.Insert(m.t.Context(), asked)
	m.checkCall(t, "the model's Insert", err, len(want), len(results))
	for i, result := range results {
		if result.Outcome != want[i].Outcome {
			t.Fatalf("inserting %+v: got %+v, want %+v", asked.Messages[i], result, want[i])
		}
		if want[i].Claim != (node.Claim{}) || result.Claim != (node.Claim{}) {
			m.pair(t, want[i].Claim, result.Claim)
		}
	}
}

// Present asks for a few messages.
func (m *machine) Present(t *rapid.T) {
	ids := []node.MessageID{}
	for range rapid.IntRange(0, 5).Draw(t, "ids") {
		ids = append(ids, node.MessageID{ID: drawID().Draw(t, "id"), Topic: drawTopic(t)})
	}
	got, err := m.instance.Store.Present(m.t.Context(), ids)
	m.checkCall(t, "Present", err, len(got), len(ids))
	want, err := m.model.Present(m.t.Context(), ids)
	m.checkCall(t, "the model's Present", err, len(want), len(ids))
	if !slices.Equal(got, want) {
		t.Fatalf("present of %+v: got %v, want %v", ids, got, want)
	}
}

// Ready claims what falls due.
func (m *machine) Ready(t *rapid.T) {
	m.ready(t, node.ReadyRequest{
		Node:  drawOwner(t),
		Until: drawInstant().Draw(t, "until"),
		Limit: rapid.OneOf(rapid.IntRange(1, 4), rapid.Just(math.MaxInt)).Draw(t, "limit"),
		Bytes: rapid.OneOf(rapid.IntRange(1, 20), rapid.Just(math.MaxInt)).Draw(t, "bytes"),
	})
}

func (m *machine) ready(t *rapid.T, request node.ReadyRequest) {
	m.tick()
	got, err := m.instance.Store.Ready(m.t.Context(), request)
	m.checkCall(t, "Ready", err, 0, 0)
	want, err := m.model.Ready(m.t.Context(), request)
	m.checkCall(t, "the model's Ready", err, 0, 0)
	for i := range min(len(got), len(want)) {
		if why := diffMessage(got[i].Message, want[i].Message); why != "" {
			t.Fatalf("claimed message %d: %s", i, why)
		}
		m.pair(t, want[i].Claim, got[i].Claim)
	}
	if len(got) != len(want) {
		t.Fatalf("claimed %q, want %q", idsOf(got), idsOf(want))
	}
}

// Delete removes a few messages, present or not.
func (m *machine) Delete(t *rapid.T) {
	refs := []node.Ref{}
	for range rapid.IntRange(0, 4).Draw(t, "refs") {
		ref := node.Ref{ID: drawID().Draw(t, "id"), Topic: drawTopic(t), Incarnation: m.incarnation()}
		if len(m.messages) > 0 && rapid.IntRange(0, 9).Draw(t, "kind") > 0 {
			message := rapid.SampledFrom(m.messages).Draw(t, "message")
			ref = message.Ref()
		}
		refs = append(refs, ref)
	}
	m.delete(t, refs)
}

func (m *machine) delete(t *rapid.T, refs []node.Ref) {
	got, err := m.instance.Store.Delete(m.t.Context(), refs)
	m.checkCall(t, "Delete", err, len(got), len(refs))
	want, err := m.model.Delete(m.t.Context(), refs)
	m.checkCall(t, "the model's Delete", err, len(want), len(refs))
	if !slices.Equal(got, want) {
		t.Fatalf("deleting %+v: got %v, want %v", refs, got, want)
	}
}

// Stuck asks for old claims.
func (m *machine) Stuck(t *rapid.T) {
	request := node.StuckRequest{
		Hold:  rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "hold"),
		Limit: rapid.OneOf(rapid.IntRange(1, 4), rapid.Just(math.MaxInt)).Draw(t, "limit"),
	}
	if m.instance.Clock != nil {
		request.Hold = time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "hold")) * time.Microsecond
	}
	m.stuck(t, request)
}

func (m *machine) stuck(t *rapid.T, request node.StuckRequest) {
	got, err := m.instance.Store.Stuck(m.t.Context(), request)
	m.checkCall(t, "Stuck", err, 0, 0)
	asked := request
	if m.instance.Clock == nil {
		asked.Limit = math.MaxInt // which ones the limit leaves is for the store's instants to say
	}
	want, err := m.model.Stuck(m.t.Context(), asked)
	m.checkCall(t, "the model's Stuck", err, 0, 0)
	if m.instance.Clock != nil {
		if !slices.Equal(got, want) {
			t.Fatalf("stuck claims (%+v): got %+v, want %+v", request, got, want)
		}
		return
	}
	if request.Hold > 0 {
		want = nil // no claim of this test is an hour old
	}
	for i := range want {
		want[i] = m.translate(want[i])
	}
	byAge := func(a, b node.Claim) int { return a.ReadiedAt.Compare(b.ReadiedAt) }
	slices.SortStableFunc(want, byAge)
	if len(got) != min(len(want), request.Limit) || !slices.IsSortedFunc(got, byAge) {
		t.Fatalf("stuck claims (%+v): got %+v, want of these %+v", request, got, want)
	}
	for i, claim := range got {
		if !slices.Contains(want, claim) || slices.Contains(got[:i], claim) ||
			!claim.ReadiedAt.Equal(want[i].ReadiedAt) {
			t.Fatalf("stuck claim %d (%+v): got %+v, want of these %+v", i, request, got, want)
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
		ask := node.Release{Claim: m.claims[at], Due: due}
		release := node.Release{Claim: m.actual[at], Due: due}
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

// changeClaim makes another claim of c for one of the changes 0 to 3.
func changeClaim(c *node.Claim, change int) {
	switch change {
	case 0:
		c.ReadiedAt = c.ReadiedAt.Add(time.Microsecond)
	case 1:
		c.ReadiedAt = c.ReadiedAt.Add(-time.Second)
	case 2:
		c.ReadiedBy[1]++
	case 3:
		c.Incarnation[1]++
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

// Check compares the rows, after every call.
func (m *machine) Check(t *rapid.T) {
	if m.instance.Dump == nil {
		return
	}
	want := m.model.Dump()
	for i, row := range want {
		if row.ReadiedBy != uuid.Nil && m.instance.Clock == nil {
			claim := node.Claim{Ref: row.Ref(), ReadiedAt: row.ReadiedAt, ReadiedBy: row.ReadiedBy}
			want[i].ReadiedAt = m.translate(claim).ReadiedAt
		}
	}
	if why := diffRows(m.instance.Dump(m.t), want); why != "" {
		t.Fatalf("the rows differ: %s", why)
	}
}

// drain compares what is left with the port's own means, and removes it.
func (m *machine) drain(t *rapid.T) {
	m.ready(t, node.ReadyRequest{Node: alice(), Until: latest(), Limit: math.MaxInt, Bytes: math.MaxInt})
	if m.instance.Clock != nil {
		m.instance.Clock.Advance(24 * time.Hour) // no claim of this test is stamped later, however it was put back
	}
	m.stuck(t, node.StuckRequest{Limit: math.MaxInt})
	var refs []node.Ref
	for _, row := range m.model.Dump() {
		refs = append(refs, row.Ref())
	}
	m.delete(t, refs)
}

// empty removes what a failed run has left in the store.
func (m *machine) empty(t *rapid.T) {
	s := newSubject(m.t, m.instance)
	for range 3 {
		var refs []node.Ref
		for _, r := range s.ready(alice(), latest()) {
			refs = append(refs, r.Ref())
		}
		if m.instance.Clock != nil {
			m.instance.Clock.Advance(24 * time.Hour)
		}
		for _, claim := range s.stuck(0) {
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

func (m *machine) incarnation() uuid.UUID {
	m.drawn++
	drawn := uuid.UUID{6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(drawn[12:], m.drawn)
	return drawn
}

func (m *machine) drawMessage(t *rapid.T) node.Message {
	if len(m.messages) > 0 && rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		return rapid.SampledFrom(m.messages).Draw(t, "message")
	}
	message := node.Message{
		ID: drawID().Draw(t, "id"), Topic: drawTopic(t), Incarnation: m.incarnation(),
		Deadline: drawInstant().Draw(t, "deadline"),
		Key:      drawBytes().Draw(t, "key"), Value: drawBytes().Draw(t, "value"),
	}
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		message.ID = "with\x00NUL"
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		message.Headers = append(message.Headers, node.Header{
			Name:  rapid.SampledFrom([]string{"a", "b", "", "é", "\xff", "\x00"}).Draw(t, "name"),
			Value: drawBytes().Draw(t, "value"),
		})
	}
	return message
}

// holdable says whether every store must take m: all messages of this test but for one odd id.
func holdable(m node.Message) bool { return m.ID != "with\x00NUL" }

// A few ids and topics, so that calls meet.
func drawID() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "B", "𐍈"})
}

func drawTopic(t *rapid.T) string {
	return rapid.SampledFrom([]string{"one", "two"}).Draw(t, "topic")
}

func drawOwner(t *rapid.T) uuid.UUID {
	return rapid.SampledFrom([]uuid.UUID{alice(), bob()}).Draw(t, "owner")
}

// drawInstant draws from a few that are close together, and from the ends.
func drawInstant() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		micro := rapid.IntRange(-1, 10).Draw(t, "microsecond")
		switch micro {
		case -1:
			return earliest()
		case 10:
			return latest()
		}
		return noon().Add(time.Duration(micro) * time.Microsecond)
	})
}

func drawBytes() *rapid.Generator[[]byte] {
	return rapid.SampledFrom([][]byte{
		nil, {}, []byte("x"), []byte("text"), {0}, {0xff, 0xfe}, []byte(`"\u0000`),
	})
}
