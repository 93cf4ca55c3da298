package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
	"chronos/node/store/outlook"
)

// parking is a world with some messages, which are numbered.
type parking struct {
	*world

	store *journal.Store
}

func newParking(t *testing.T, many int64) parking {
	w := newWorld(t)
	p := parking{w, w.stores[0]}
	own(t, p.store, 0)
	var items []node.Item
	for i := range many {
		m := w.message(fmt.Sprint(i))
		m.Deadline = m.Deadline.Add(time.Duration(i) * time.Microsecond)
		items = append(items, node.Item{Epoch: 1, Offset: i, Action: node.Schedule, Message: m})
	}
	w.take(p.store, 0, items)
	return p
}

// claimOn claims all that is due on a part of the output, and returns it.
func (p parking) claimOn(part string) []node.Ready {
	p.Helper()
	result, err := p.store.Claim(p.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: p.clock.Now().Add(time.Hour), Ahead: time.Second,
		Lanes: []node.Share{{Lane: output, Part: part, Limit: 99, Bytes: 1 << 20}},
	})
	if err != nil || result.Idle != 0 {
		p.Fatalf("claim: %v, idle for %v", err, result.Idle)
	}
	return result.Messages
}

// park gives claims back, parked on a part.
func (p parking) park(part string, claimed ...node.Ready) {
	p.Helper()
	var releases []node.Release
	for i := range claimed {
		releases = append(releases, node.Release{Claim: claimed[i].Claim, Part: part, Unsent: true})
	}
	freed, err := p.store.Reset(p.Context(), releases)
	if err != nil || slices.ContainsFunc(freed, func(s node.Settled) bool { return s != node.Freed }) {
		p.Fatalf("reset: %v, %v", freed, err)
	}
}

func (p parking) parts(want ...node.Part) {
	p.Helper()
	if got, err := p.store.Parts(p.Context()); err != nil || !slices.Equal(got, want) {
		p.Errorf("parts: %v, %v, want %v", got, err, want)
	}
}

func idsOf(ready []node.Ready) (ids []string) {
	for i := range ready {
		ids = append(ids, ready[i].ID)
	}
	return ids
}

// What is parked is found by claims for its part only, by people, and among what is counted. It is parked still when
// the same node owns the partition anew; another node tries each message once more. Large messages are like others.
func TestParked(t *testing.T) {
	t.Parallel()
	p := newParking(t, 4)
	large := p.message("large")
	large.Value, large.Deadline = make([]byte, 5000), large.Deadline.Add(time.Millisecond)
	p.take(p.store, 4, []node.Item{{Epoch: 1, Offset: 4, Action: node.Schedule, Message: large}})
	all := p.claimOn("")
	p.park("3", all[1], all[4])
	p.park("10", all[2])
	p.park("", all[0], all[3])
	p.parts(node.Part{Lane: output}, node.Part{Lane: output, Name: "10"}, node.Part{Lane: output, Name: "3"})
	if got := idsOf(p.claimOn("")); !slices.Equal(got, []string{"0", "3"}) {
		t.Errorf("claimed %v on the lane", got)
	}
	p.parts(node.Part{Lane: output, Name: "10"}, node.Part{Lane: output, Name: "3"})

	found, err := p.store.Find(t.Context(), "1", inspect.Parts{Payload: true})
	if err != nil || len(found) != 1 || found[0].Part != "3" || !found[0].Waits() || found[0].Attempts != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	request := inspect.SliceRequest{Lane: output, Part: "3", Until: p.clock.Now().Add(time.Hour), Limit: 9}
	slice, err := p.store.Slice(t.Context(), request)
	if err != nil || len(slice) != 2 || slice[0].ID != "1" || slice[1].ID != "large" || slice[1].Part != "3" {
		t.Errorf("the slice is %+v, %v", slice, err)
	}
	request.Part, request.After = "", inspect.Mark{}
	if slice, err = p.store.Slice(t.Context(), request); err != nil || len(slice) > 0 {
		t.Errorf("the slice of the lane is %+v, %v", slice, err)
	}
	now := p.clock.Now().Add(time.Hour)
	told, err := p.store.Outlook(t.Context(), outlook.Request{Lanes: []string{output}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	lane := told.Lanes[0]
	want := []outlook.Parked{
		{Part: "10", Waiting: outlook.Count{N: 1}, Oldest: all[2].Due},
		{Part: "3", Waiting: outlook.Count{N: 2}, Oldest: all[1].Due},
	}
	if !slices.Equal(lane.Parked, want) || lane.Waiting.N != 3 || lane.Overdue.N != 5 {
		t.Errorf("the outlook is %+v", lane)
	}

	own(t, p.store, 0)
	if got := p.claimOn("3"); !slices.Equal(idsOf(got), []string{"1", "large"}) || got[0].Part != "3" ||
		len(got[1].Value) != 5000 || got[0].Attempts != 1 {
		t.Errorf("claimed %+v on the part", got)
	}
	other := p.stores[1]
	own(t, other, 0)
	if got, err := other.Parts(t.Context()); err != nil || !slices.Equal(got, []node.Part{{Lane: output}}) {
		t.Errorf("a new owner finds the parts %v, %v", got, err)
	}
}

// What gives a parked message another incarnation or deadline has it wait on its lane, and what does not leaves it
// where it is.
func TestParkedMoves(t *testing.T) {
	t.Parallel()
	p := newParking(t, 5)
	p.park("3", p.claimOn("")...)
	at := int64(5)
	do := func(action node.Action, id string, change func(*node.Message)) {
		t.Helper()
		m := p.message(id)
		m.Incarnation = uuid.New()
		change(&m)
		p.take(p.store, at, []node.Item{{Epoch: 1, Offset: at, Action: action, Message: m}})
		at++
	}
	do(node.Replace, "0", func(*node.Message) {})
	do(node.Reschedule, "1", func(m *node.Message) { m.Deadline = m.Deadline.Add(time.Second) })
	do(node.FireNow, "2", func(*node.Message) {})
	do(node.Cancel, "3", func(*node.Message) {})
	if got := idsOf(p.claimOn("3")); !slices.Equal(got, []string{"4"}) {
		t.Errorf("%v are parked, want 4 alone", got)
	}
	got := idsOf(p.claimOn(""))
	if slices.Sort(got); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("%v wait on the lane, want 0, 1 and 2", got)
	}
	p.parts()
}

// A message whose partition does not answer is not sent, and names it. The others of its batch come out all the same,
// and so does what others have in the transaction.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	p := newParking(t, 20)
	p.cluster.Silence(output, 1, true)
	claimed := p.claimOn("")
	var records []node.Record
	var next []node.Next
	for i := range claimed {
		records = append(records, node.Record{Topic: output, Key: []byte{byte(i)}, Value: []byte(claimed[i].ID)})
		next = append(next, node.Next{Of: claimed[i].Ref()})
	}
	settled, errs := p.store.Fire(t.Context(), records, next)
	unavailable := 0
	for i, err := range errs {
		var u *node.PublishError
		switch {
		case err == nil && settled[i] == node.Removed:
		case errors.As(err, &u) && u.Part == "1" && node.KindOf(err).Untried():
			unavailable++
		default:
			t.Errorf("message %d: %v, %v", i, settled[i], err)
		}
	}
	if came := len(p.came()); unavailable == 0 || came+unavailable != len(records) || came == 0 {
		t.Errorf("%d have come out, and %d belong to the partition that does not answer", came, unavailable)
	}
	if lost := p.store.Lost(); len(lost) > 0 {
		t.Errorf("the partition of the journal is lost: %v", lost)
	}
}
