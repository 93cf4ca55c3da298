package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// desk is a world in which a node asks that owns nothing. What it sends stands on the input until somebody who owns the
// partition takes it in.
type desk struct {
	*world

	asker *journal.Asker
	sent  chan node.Item // the items of records, in their order
	items sync.Map       // by the name of the record
	next  int64
}

func newDesk(t *testing.T, limits journal.AskerLimits) *desk {
	t.Helper()
	d := &desk{world: newWorld(t), sent: make(chan node.Item, 2000)}
	limits.Linger = time.Hour
	d.asker = journal.NewAsker(d.cluster.Ledger(topicName, "asker"), d, marks(), limits)
	t.Cleanup(d.asker.Close)
	d.own(0)
	return d
}

// own makes a store the owner.
func (d *desk) own(store int) {
	d.Helper()
	if err := d.stores[store].Own(d.Context(), 0, uuid.UUID{2}); err != nil {
		d.Fatal(err)
	}
	if _, _, err := d.stores[store].Positions(d.Context(), []node.Place{{Partition: input()}}); err != nil {
		d.Fatal(err)
	}
}

// Partition implements journal.Sender.
func (d *desk) Partition(context.Context, string, []byte) (int32, error) { return 0, nil }

// Send implements journal.Sender.
func (d *desk) Send(_ context.Context, _ int32, r node.Record) error {
	for _, h := range r.Headers {
		if h.Name == node.HeaderRequest {
			item, known := d.items.Load(string(h.Value[len(h.Value)-36:]))
			if !known {
				return fmt.Errorf("nobody knows of %s", h.Value)
			}
			d.sent <- item.(node.Item)
			return nil
		}
	}
	return errors.New("the record has no mark")
}

// asked is what came of asking.
type asked struct {
	node.ItemResult
	err error
}

// ask asks, and returns where the answer comes.
func (d *desk) ask(item node.Item, request uuid.UUID) <-chan asked {
	item.Incarnation = uuid.New()
	item.Request = &node.Request{ID: request, Print: uuid.UUID{1}, Keep: time.Hour, Ask: item.Incarnation}
	d.items.Store(item.Incarnation.String(), item)
	answers := make(chan asked, 1)
	go func() {
		result, err := d.asker.Ask(d.Context(), item, node.Record{})
		answers <- asked{result, err}
	}()
	return answers
}

// take has a store take in what the next n records ask for, in one call.
func (d *desk) take(store, n int) error {
	d.Helper()
	request := node.TakeRequest{From: []node.Place{{Partition: input(), Position: node.Position{Offset: d.next}}}}
	for range n {
		item := <-d.sent
		item.From, item.Offset = 0, d.next
		d.next++
		request.Items = append(request.Items, item)
	}
	return d.repeat(store, request)
}

func (d *desk) repeat(store int, request node.TakeRequest) error {
	_, err := d.stores[store].Take(d.Context(), request)
	return err
}

// submission returns what brings a message that is due in an hour.
func (d *desk) submission(action node.Action, id string) node.Item {
	return node.Item{Action: action, Message: node.Message{
		ID: id, Lane: output, Value: []byte(id),
		Deadline: d.clock.Now().UTC().Truncate(time.Microsecond).Add(time.Hour),
	}}
}

// check compares what was told.
func (d *desk) check(what string, got asked, want node.Outcome, again bool) {
	d.Helper()
	if got.err != nil || got.Told == nil || got.Told.Outcome != want || got.Told.Again != again {
		d.Fatalf("%s: %+v (%+v), want %v, again %v", what, got, got.Told, want, again)
	}
}

// Each outcome reaches a node that does not own the partition, and not before the record is taken in.
func TestRequestOutcomes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	for _, one := range []struct {
		action node.Action
		want   node.Outcome
	}{
		{node.Schedule, node.Scheduled},
		{node.Schedule, node.Duplicate},
		{node.Replace, node.Replaced},
		{node.Reschedule, node.Rescheduled},
		{node.FireNow, node.FiredNow},
		{node.Cancel, node.TooLate},
		{node.Replace, node.Replaced},
		{node.Cancel, node.Cancelled},
		{node.Cancel, node.NotFound},
		{node.FireNow, node.NotFound},
	} {
		answers := d.ask(d.submission(one.action, "x"), uuid.New())
		item := <-d.sent
		select {
		case got := <-answers:
			t.Fatalf("%v: answered before it was taken in: %+v", one.action, got)
		default:
		}
		d.sent <- item
		if err := d.take(0, 1); err != nil {
			t.Fatal(err)
		}
		d.check(one.action.String(), <-answers, one.want, false)
	}
}

// A record that the owner rejects is a refusal, and a refusal is not remembered.
func TestRequestRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	request := uuid.New()
	answers := d.ask(d.submission(node.Schedule, "x"), request)
	item := <-d.sent
	refused := *item.Request
	refused.Refused = "it is too far away"
	item.Action, item.Message, item.Request = node.Pass, node.Message{}, &refused
	d.sent <- item
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	got := <-answers
	if is, ok := errors.AsType[*control.RefusedError](got.err); !ok || is.Reason != refused.Refused {
		t.Fatalf("got %+v", got)
	}
	answers = d.ask(d.submission(node.Schedule, "x"), request)
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	d.check("with other limits", <-answers, node.Scheduled, false)
}

// An owner that ends between the record and its transaction, or in the transaction, has told nobody: its successor
// takes the record in and is heard.
func TestRequestOwnerDies(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	answers := d.ask(d.submission(node.Schedule, "x"), uuid.New())
	item := <-d.sent
	d.cluster.Strike(func(s simulated.Step) simulated.Fault {
		if s.At == simulated.Ending {
			return simulated.Lost
		}
		return simulated.None
	})
	d.sent <- item
	if err := d.take(0, 1); err == nil {
		t.Fatal("the transaction was committed")
	}
	d.cluster.Strike(nil)
	select {
	case got := <-answers:
		t.Fatalf("answered by a transaction that was never committed: %+v", got)
	default:
	}
	d.own(1)
	d.next = 0
	d.sent <- item
	if err := d.take(1, 1); err != nil {
		t.Fatal(err)
	}
	d.check("by the successor", <-answers, node.Scheduled, false)
}

// Somebody who has not heard the answer asks again, under the same request, another owner that has nothing but the
// journal: that tells what was done, and does nothing.
func TestRequestAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{Wait: 50 * time.Millisecond})
	if got := <-d.ask(d.submission(node.Schedule, "x"), uuid.New()); !errors.Is(got.err, journal.ErrUnheard) {
		t.Fatalf("nobody has taken it in: %+v", got)
	}
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	patient := journal.NewAsker(d.cluster.Ledger(topicName, "asker"), d, marks(), journal.AskerLimits{})
	t.Cleanup(patient.Close)
	request := uuid.New()
	cancels := d.ask(d.submission(node.Cancel, "x"), request)
	if got := <-cancels; !errors.Is(got.err, journal.ErrUnheard) {
		t.Fatalf("nobody has taken it in: %+v", got)
	}
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	d.own(1)
	d.asker = patient
	answers := d.ask(d.submission(node.Cancel, "x"), request)
	if err := d.take(1, 1); err != nil {
		t.Fatal(err)
	}
	d.check("again", <-answers, node.Cancelled, true)
	d.clock.Advance(time.Hour + time.Second)
	answers = d.ask(d.submission(node.Cancel, "x"), request)
	if err := d.take(1, 1); err != nil {
		t.Fatal(err)
	}
	d.check("when it is forgotten", <-answers, node.NotFound, false)
}

// Two that ask at once under one request are both answered, and what they ask for is done once; and of two with
// requests of their own each hears what became of its own.
func TestRequestsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	request := uuid.New()
	first := d.ask(d.submission(node.Schedule, "x"), request)
	second := d.ask(d.submission(node.Schedule, "x"), request)
	if err := d.take(0, 2); err != nil {
		t.Fatal(err)
	}
	a, b := <-first, <-second
	d.check("the first", a, node.Scheduled, true) // one entry answers both
	d.check("the second", b, node.Scheduled, true)
	if a.Told.Incarnation != b.Told.Incarnation {
		t.Fatalf("two messages: %v and %v", a.Told, b.Told)
	}
	first = d.ask(d.submission(node.Cancel, "x"), uuid.New())
	one := <-d.sent
	second = d.ask(d.submission(node.Cancel, "x"), uuid.New())
	two := <-d.sent
	d.sent <- one
	d.sent <- two
	if err := d.take(0, 2); err != nil {
		t.Fatal(err)
	}
	d.check("the first", <-first, node.Cancelled, false)
	d.check("the second", <-second, node.NotFound, false)
}

// A thousand ask at once, and all are answered; one more than there may be is told so at once.
func TestThousandRequests(t *testing.T) {
	t.Parallel()
	const most = 1000
	d := newDesk(t, journal.AskerLimits{Most: most, Wait: time.Minute})
	answers := make([]<-chan asked, most)
	for i := range answers {
		answers[i] = d.ask(d.submission(node.Schedule, fmt.Sprintf("x%04d", i)), uuid.New())
	}
	items := make([]node.Item, most)
	for i := range items {
		items[i] = <-d.sent
	}
	if got := <-d.ask(d.submission(node.Schedule, "one more"), uuid.New()); !errors.Is(got.err, intake.ErrBusy) {
		t.Fatalf("one more: %+v", got)
	}
	for chunk := range slices.Chunk(items, 100) {
		for _, item := range chunk {
			d.sent <- item
		}
		if err := d.take(0, len(chunk)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range answers {
		d.check("one of many", <-answers[i], node.Scheduled, false)
	}
}

// marks are those of all nodes of a world.
func marks() *node.Marks { return node.NewMarks([]byte("the secret of all nodes of a world")) }
