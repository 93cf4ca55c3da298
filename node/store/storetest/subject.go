package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// noon is when messages fall due whose deadline does not matter.
func noon() time.Time { return time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC) }

// earliest and latest are the ends of what a deadline may be.
func earliest() time.Time { return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC) }
func latest() time.Time   { return time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC) }

// alice and bob are the nodes that use the store.
func alice() uuid.UUID { return uuid.UUID{0: 0xa1, 6: 0x40, 8: 0x80, 15: 1} }
func bob() uuid.UUID   { return uuid.UUID{0: 0xb0, 6: 0x40, 8: 0x80, 15: 2} }

// output is the topic of messages whose lane does not matter.
const output = "output"

// hold is the hold time of claims in cases that are not about it: such a claim is expired from the start, so that
// Expired returns all there are.
const hold = 0

// subject is a store in one case, with calls that end the case when the store returns an error or not as many
// results as it was asked for. They are for the goroutine of the case.
type subject struct {
	testing.TB
	Instance

	drawn  uint32     // incarnations
	placed byte       // partitions
	at     node.Place // how far the case has taken in its own partition
	lanes  []string   // those that a message was made for
}

func newSubject(t testing.TB, instance Instance) *subject {
	t.Helper()
	if instance.Peer == nil {
		instance.Peer = instance.Store
	}
	return &subject{TB: t, Instance: instance, lanes: []string{output}}
}

// partition returns one of an input topic that the case has not used yet. The store has no position for it.
func (s *subject) partition() node.Partition {
	s.placed++
	return node.Partition{
		Topic: fmt.Sprint("input-", s.placed), TopicID: uuid.UUID{0: s.placed, 6: 0x40, 8: 0x80}, Number: 3,
	}
}

// place returns a partition that has a position.
func (s *subject) place(epoch int32, offset int64) node.Place {
	s.Helper()
	place := node.Place{Partition: s.partition(), Position: node.Position{Epoch: epoch, Offset: offset}}
	s.check("new position", s.positions(place), []node.Position{place.Position})
	return place
}

// incarnation returns one that the case has not used yet.
func (s *subject) incarnation() uuid.UUID {
	s.drawn++
	drawn := uuid.UUID{6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(drawn[12:], s.drawn)
	return drawn
}

// message returns a new incarnation of a message that is due at noon.
func (s *subject) message(id string) node.Message {
	return node.Message{
		ID: id, Lane: output, Incarnation: s.incarnation(), Deadline: noon(),
		Key: []byte("key of " + id), Value: []byte("value of " + id),
	}
}

// messages returns n new messages, whose ids are in ascending order, due at noon and each a millisecond later
// than the one before.
func (s *subject) messages(n int) []node.Message {
	list := make([]node.Message, n)
	for i := range list {
		list[i] = s.message(fmt.Sprintf("message-%05d", i))
		list[i].Deadline = noon().Add(time.Duration(i) * time.Millisecond)
	}
	return list
}

// submission is a message on its way in.
type submission struct {
	node.Message

	claim bool
}

// insert takes messages in as waiting. All must be new.
func (s *subject) insert(messages ...node.Message) {
	s.Helper()
	for i, result := range s.insertAll(alice(), submissions(messages, false)...) {
		if result.Outcome != node.Scheduled || result.Claim != (node.Claim{}) {
			s.Fatalf("taking %q in as waiting: %+v", messages[i].ID, result)
		}
	}
}

// insertClaimed takes messages in as claimed by owner. All must be new.
func (s *subject) insertClaimed(owner uuid.UUID, messages ...node.Message) []node.Claim {
	s.Helper()
	claims := make([]node.Claim, len(messages))
	for i, result := range s.insertAll(owner, submissions(messages, true)...) {
		if result.Outcome != node.Scheduled {
			s.Fatalf("taking %q in as claimed: %+v", messages[i].ID, result)
		}
		s.checkClaim(result.Claim, messages[i].Ref(), owner, hold)
		claims[i] = result.Claim
	}
	return claims
}

// insertAll takes messages in, as the next records of the case's own partition, whatever comes of it. None may be
// refused.
func (s *subject) insertAll(owner uuid.UUID, messages ...submission) []node.ItemResult {
	s.Helper()
	request := s.request(owner, messages...)
	return s.accept(request, s.take(request))
}

// request returns the take that has messages as the next records of the case's own partition.
func (s *subject) request(owner uuid.UUID, messages ...submission) node.TakeRequest {
	s.Helper()
	if s.at == (node.Place{}) {
		s.at = s.place(1, 100)
	}
	return requestAt(s.at, owner, messages...)
}

// requestAt returns the take of messages that are the records of a partition from place on.
func requestAt(place node.Place, owner uuid.UUID, messages ...submission) node.TakeRequest {
	request := node.TakeRequest{Node: owner, Hold: hold, From: []node.Place{place}}
	for i, m := range messages {
		request.Items = append(request.Items, node.Item{
			Epoch: place.Epoch, Offset: place.Offset + int64(i),
			Action: node.Schedule, Message: m.Message, Claim: m.claim,
		})
	}
	return request
}

// accept ends the case unless a take from the case's own partition has dealt with all of its records. It returns
// what became of them.
func (s *subject) accept(request node.TakeRequest, result node.TakeResult) []node.ItemResult {
	s.Helper()
	s.at.Offset += int64(len(request.Items))
	want := node.TakeResult{
		State: result.State, Positions: []node.Position{s.at.Position}, Refused: []bool{false},
		Taken: len(request.Items), Results: result.Results,
	}
	s.check("take", result, want)
	return result.Results
}

// take makes a call whatever comes of it.
func (s *subject) take(request node.TakeRequest) node.TakeResult {
	s.Helper()
	for _, item := range request.Items {
		if item.Action.Stores() && !slices.Contains(s.lanes, item.Lane) {
			s.lanes = append(s.lanes, item.Lane)
		}
	}
	result, err := s.Store.Take(s.Context(), request)
	s.checkCall("Take", err, len(result.Positions), len(request.From))
	s.checkCall("Take", err, len(result.Refused), len(request.From))
	s.checkCall("Take", err, len(result.Results), result.Taken)
	if (result.Refusal == "") != (result.Taken == len(request.Items)) {
		s.Fatalf("a take of %d records: %s", len(request.Items), brief(result))
	}
	return result
}

// positions returns those of places, which are created where they are missing.
func (s *subject) positions(places ...node.Place) []node.Position {
	s.Helper()
	positions, _, err := s.Store.Positions(s.Context(), places)
	s.checkCall("Positions", err, len(positions), len(places))
	return positions
}

// state returns what the store says of itself.
func (s *subject) state() node.State {
	s.Helper()
	_, state, err := s.Store.Positions(s.Context(), nil)
	s.checkCall("Positions", err, 0, 0)
	return state
}

func (s *subject) catchUp(request node.CatchUpRequest) node.State {
	s.Helper()
	state, err := s.Store.CatchUp(s.Context(), request)
	s.checkCall("CatchUp", err, 0, 0)
	return state
}

func (s *subject) bind(request node.BindRequest) node.Bound {
	s.Helper()
	bound, err := s.Store.Bind(s.Context(), request)
	s.checkCall("Bind", err, 0, 0)
	return bound
}

// claim claims all messages that fall due until then on any lane of the case, and checks the claims.
func (s *subject) claim(owner uuid.UUID, until time.Time) []node.Ready {
	s.Helper()
	return s.claimWithin(owner, until, s.unlimited()...)
}

// unlimited returns shares that claim all there is.
func (s *subject) unlimited() []node.Share {
	shares := make([]node.Share, len(s.lanes))
	for i, lane := range s.lanes {
		shares[i] = node.Share{Lane: lane, Limit: math.MaxInt, Bytes: math.MaxInt}
	}
	return shares
}

// share is one of the lane of messages whose lane does not matter.
func share(limit, bytes int) node.Share { return node.Share{Lane: output, Limit: limit, Bytes: bytes} }

func (s *subject) claimWithin(owner uuid.UUID, until time.Time, shares ...node.Share) []node.Ready {
	s.Helper()
	return s.claimFor(node.ClaimRequest{Node: owner, Hold: hold, Until: until, Lanes: shares})
}

func (s *subject) claimFor(request node.ClaimRequest) []node.Ready {
	s.Helper()
	result, err := s.Store.Claim(s.Context(), request)
	s.checkCall("Claim", err, 0, 0)
	for _, r := range result.Messages {
		s.checkClaim(r.Claim, r.Ref(), request.Node, request.Hold)
	}
	return result.Messages
}

func (s *subject) delete(refs ...node.Ref) []bool {
	s.Helper()
	settled, err := s.Store.Settle(s.Context(), node.Removals(refs...))
	s.checkCall("Settle", err, len(settled), len(refs))
	return s.effects(settled, node.Removed)
}

// effects returns for each answer whether it says that the call took effect: what it says otherwise is that there was
// nothing for it.
func (s *subject) effects(settled []node.Settled, effect node.Settled) []bool {
	s.Helper()
	effects := make([]bool, len(settled))
	for i, how := range settled {
		if effects[i] = how == effect; !effects[i] {
			s.check("the answer where there is no effect", how, node.Gone)
		}
	}
	return effects
}

func (s *subject) rearm(next ...node.Next) []node.Settled {
	s.Helper()
	settled, err := s.Store.Settle(s.Context(), next)
	s.checkCall("Settle", err, len(settled), len(next))
	return settled
}

// expired returns all claims that have expired.
func (s *subject) expired() []node.Claim {
	s.Helper()
	return s.expiredWithin(math.MaxInt)
}

func (s *subject) expiredWithin(limit int) []node.Claim {
	s.Helper()
	expired, err := s.Store.Expired(s.Context(), limit)
	s.checkCall("Expired", err, 0, 0)
	return expired
}

// reset gives claims up without putting anything off.
func (s *subject) reset(claims ...node.Claim) []bool {
	s.Helper()
	releases := make([]node.Release, len(claims))
	for i, claim := range claims {
		releases[i].Claim = claim
	}
	return s.release(releases...)
}

func (s *subject) release(releases ...node.Release) []bool {
	s.Helper()
	reset, err := s.Store.Reset(s.Context(), releases)
	s.checkCall("Reset", err, len(reset), len(releases))
	return s.effects(reset, node.Freed)
}

// pass makes the store's clock show a later instant than now.
func (s *subject) pass() {
	s.Helper()
	if s.Clock != nil {
		s.Clock.Advance(time.Second)
		return
	}
	// A clock that goes by itself is asked for the time through a claim.
	probe := s.message("probe of the clock")
	probe.Lane = "probe"
	first := s.insertClaimed(alice(), probe)[0]
	s.delete(first.Ref)
	for range 100_000 {
		again := s.insertClaimed(alice(), probe)[0]
		s.delete(again.Ref)
		if again.ReadiedAt.After(first.ReadiedAt) {
			return
		}
	}
	s.Fatal("the store's clock stands still")
}

// rows returns what the store holds, or nil when it cannot be seen.
func (s *subject) rows() []memory.Row {
	s.Helper()
	if s.Dump == nil {
		return nil
	}
	return s.Dump(s)
}

// checkRows ends the case when the rows are not what they were.
func (s *subject) checkRows(before []memory.Row, after string) {
	s.Helper()
	if why := diffRows(s.rows(), before); why != "" {
		s.Fatalf("the rows have changed after %s: %s", after, why)
	}
}

func (s *subject) checkCall(call string, err error, got, want int) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", call, err)
	}
	if got != want {
		s.Fatalf("%s returned %d results for %d arguments", call, got, want)
	}
}

// checkClaim ends the case when claim is not one that owner has just been given on ref for a hold time.
func (s *subject) checkClaim(claim node.Claim, ref node.Ref, owner uuid.UUID, hold time.Duration) {
	s.Helper()
	if claim.Ref != ref || claim.ReadiedBy != owner {
		s.Fatalf("claim %+v: want one of %v on %+v", claim, owner, ref)
	}
	s.checkInstant("the claim's ReadiedAt", claim.ReadiedAt)
	s.checkInstant("the claim's Expires", claim.Expires)
	if !claim.Expires.Equal(claim.ReadiedAt.Add(hold)) {
		s.Fatalf("claim %+v: want one that expires after %v", claim, hold)
	}
	if s.Clock != nil {
		if now := s.Clock.Now().UTC().Truncate(time.Microsecond); claim.ReadiedAt != now {
			s.Fatalf("the claim's ReadiedAt is %v, but the store's clock is at %v", claim.ReadiedAt, now)
		}
	}
}

// checkInstant ends the case when t is not as every instant of a store is.
func (s *subject) checkInstant(what string, t time.Time) {
	s.Helper()
	if t.Location() != time.UTC || t != t.Truncate(time.Microsecond) {
		s.Fatalf("%s is %#v: want UTC and whole microseconds", what, t)
	}
}

// checkMessages ends the case when the claimed messages are not those wanted, in order and byte for byte.
func (s *subject) checkMessages(messages []node.Ready, want ...node.Message) {
	s.Helper()
	for i, r := range messages {
		s.checkInstant("Deadline", r.Deadline)
		if i < len(want) {
			if why := diffMessage(r.Message, want[i]); why != "" {
				s.Fatalf("message %d of %d: %s", i, len(messages), why)
			}
		}
	}
	if len(messages) != len(want) {
		s.Fatalf("%d messages, want %d: got %s, want %s",
			len(messages), len(want), brief(idsOf(messages)), brief(idsOfMessages(want)))
	}
}

// check ends the case when got is not want.
func (s *subject) check(what string, got, want any) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("%s: got %s, want %s", what, brief(got), brief(want))
	}
}

// parallel runs n calls at once and ends the case when one returns an error.
func (s *subject) parallel(n int, call func(caller int) error) {
	s.Helper()
	errs := make([]error, n)
	var group sync.WaitGroup
	start := make(chan struct{})
	for caller := range n {
		group.Go(func() {
			<-start
			if err := call(caller); err != nil {
				errs[caller] = fmt.Errorf("caller %d: %w", caller, err)
			}
		})
	}
	close(start)
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

func submissions(messages []node.Message, claim bool) []submission {
	list := make([]submission, len(messages))
	for i, m := range messages {
		list[i] = submission{m, claim}
	}
	return list
}

func refsOf(messages []node.Message) []node.Ref {
	refs := make([]node.Ref, len(messages))
	for i, m := range messages {
		refs[i] = m.Ref()
	}
	return refs
}

func claimsOf(messages []node.Ready) []node.Claim {
	claims := make([]node.Claim, len(messages))
	for i, r := range messages {
		claims[i] = r.Claim
	}
	return claims
}

func idsOf(messages []node.Ready) []string {
	ids := make([]string, len(messages))
	for i, r := range messages {
		ids[i] = r.ID
	}
	return ids
}

func idsOfMessages(messages []node.Message) []string {
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

// copyMessage returns a copy of m that shares no memory with it.
func copyMessage(m node.Message) node.Message {
	m.Key, m.Value, m.Headers = slices.Clone(m.Key), slices.Clone(m.Value), slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = slices.Clone(m.Headers[i].Value)
	}
	return m
}

// many returns n times value.
func many[T any](n int, value T) []T { return slices.Repeat([]T{value}, n) }

// diffMessage returns what differs between two messages, empty for nothing. Null and empty differ, but not for a
// list of headers.
func diffMessage(got, want node.Message) string {
	switch {
	case got.ID != want.ID:
		return fmt.Sprintf("id: got %s, want %s", brief(got.ID), brief(want.ID))
	case got.Lane != want.Lane:
		return fmt.Sprintf("lane: got %s, want %s", brief(got.Lane), brief(want.Lane))
	case got.Incarnation != want.Incarnation:
		return fmt.Sprintf("incarnation: got %v, want %v", got.Incarnation, want.Incarnation)
	case !got.Deadline.Equal(want.Deadline):
		return fmt.Sprintf("deadline: got %v, want %v", got.Deadline, want.Deadline)
	case !got.NotAfter.Equal(want.NotAfter):
		return fmt.Sprintf("not after: got %v, want %v", got.NotAfter, want.NotAfter)
	case got.Line != want.Line:
		return fmt.Sprintf("line: got %v, want %v", got.Line, want.Line)
	case got.Recurrence != want.Recurrence:
		return fmt.Sprintf("recurrence: got %+v, want %+v", got.Recurrence, want.Recurrence)
	case !equalBytes(got.Key, want.Key):
		return fmt.Sprintf("key: got %s, want %s", brief(got.Key), brief(want.Key))
	case !equalBytes(got.Value, want.Value):
		return fmt.Sprintf("value: got %s, want %s", brief(got.Value), brief(want.Value))
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("headers: got %s, want %s", brief(got.Headers), brief(want.Headers))
	}
	for i, h := range got.Headers {
		if w := want.Headers[i]; h.Name != w.Name || !equalBytes(h.Value, w.Value) {
			return fmt.Sprintf("header %d: got %s, want %s", i, brief(h), brief(w))
		}
	}
	return ""
}

// diffRows returns what differs between two dumps, empty for nothing.
func diffRows(got, want []memory.Row) string {
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if why := diffMessage(g.Message, w.Message); why != "" {
			return fmt.Sprintf("row %d: %s", i, why)
		}
		if g.Due != w.Due || g.ReadiedAt != w.ReadiedAt || g.ReadiedBy != w.ReadiedBy || g.Expires != w.Expires ||
			g.Attempts != w.Attempts || g.Bound != w.Bound || g.Former != w.Former || g.Behind != w.Behind ||
			g.Stopped != w.Stopped || g.Part != w.Part {
			g.Message, w.Message = node.Message{}, node.Message{}
			return fmt.Sprintf("row %d (%s): got %+v, want %+v", i, brief(got[i].ID), g, w)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("got %d rows, want %d", len(got), len(want))
	}
	return ""
}

// equalBytes tells null from empty.
func equalBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// brief returns v for a person, cut when it is long. Null and empty bytes look different.
func brief(v any) string {
	if data, ok := v.([]byte); ok && data == nil {
		return "null"
	}
	format := "%+v"
	switch v.(type) {
	case string, []string, []byte, node.Header, []node.Header:
		format = "%q"
	}
	text := fmt.Sprintf(format, v)
	if len(text) > 400 {
		return fmt.Sprintf("%s... (%d bytes in all)", text[:400], len(text))
	}
	return text
}
