package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// A repeat that its owner refuses, since its limits are others by now, is told what was done, as every repeat is, and
// does not take the place of the answer: nothing is done again.
func TestRequestRefusedRepeat(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{Wait: soon})
	request := uuid.New()
	first := d.ask(d.submission(node.Schedule, "x"), request)
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	told := <-first
	d.check("the first", told, node.Scheduled, false)
	refused := d.ask(d.submission(node.Schedule, "x"), request)
	item := <-d.sent
	reason := *item.Request
	reason.Refused = "it is too far away"
	item.Action, item.Message, item.Request = node.Pass, node.Message{}, &reason
	d.sent <- item
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	d.check("who is refused", <-refused, node.Scheduled, true)
	again := d.ask(d.submission(node.Replace, "x"), request)
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	got := <-again
	d.check("once more", got, node.Scheduled, true)
	if got.Told.Incarnation != told.Told.Incarnation {
		t.Errorf("another message: %v and %v", got.Told, told.Told)
	}
}

// A message that no owner can keep is refused at once, and not sent: Kafka would not take its record, and whoever asks
// would hear forever that nobody knows what has become of it.
func TestRequestTooLarge(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{Wait: time.Second})
	for _, action := range []node.Action{node.Schedule, node.Replace} {
		item := d.submission(action, "x")
		item.Value = make([]byte, ledger.MaxEntryBytes)
		got := <-d.ask(item, uuid.New())
		if _, refused := errors.AsType[*control.RefusedError](got.err); !refused {
			t.Errorf("%v: %v, want that it is refused", action, got.err)
		}
	}
	if len(d.sent) > 0 {
		t.Error("a record was sent that nobody can keep")
	}
}

// A partition is read on when somebody has come just as it was to be read no more:
//
//	timer   is over, and waits for the lock
//	asker   joins those who wait, and stops the timer too late
func TestAskerComesInTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{Wait: soon})
	answer := d.ask(d.submission(node.Schedule, "x"), uuid.New())
	item := <-d.sent // so it waits
	d.asker.Rest(0)
	d.sent <- item
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	d.check("who came in time", <-answer, node.Scheduled, false)
}

// Who asks of a partition that can't be read hears why, and does not wait for an answer that can't come.
func TestAskerUnread(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	asker := journal.NewAsker(d.cluster.Ledger("nowhere", "asker"), silent{}, marks(), journal.AskerLimits{Wait: soon})
	t.Cleanup(asker.Close)
	item := d.submission(node.Schedule, "x")
	item.Incarnation, item.Request = uuid.New(), &node.Request{ID: uuid.New(), Keep: time.Hour}
	if _, err := asker.Ask(t.Context(), item, node.Record{}); err == nil || errors.Is(err, journal.ErrUnheard) {
		t.Errorf("asked of a partition that is not there: %v", err)
	}
}
