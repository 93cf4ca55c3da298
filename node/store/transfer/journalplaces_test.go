package transfer_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/journal"
	"chronos/node/store/transfer"
)

// TestJournalGrows moves from a journal with two partitions to one with five, of the same input topic, to which
// partitions were added: what waits goes where its key leads now, and positions stay. Where the partitions are those of
// another topic, its positions are left behind.
func TestJournalGrows(t *testing.T) {
	e := keyed(t, 50)
	small := newLedgers(2)
	for i := range e.messages {
		number := small.fit.Choose(e.messages[i].Key)
		e.messages[i].Origin = node.Origin{Topic: "in", Partition: number, Offset: int64(i)}
	}
	small.fill(t, e.file(t))
	wrong := *small
	wrong.fit.Input.TopicID = uuid.UUID{8}
	mover, done := wrong.open(t)
	_, err := mover.Seal(t.Context(), uuid.New(), "test")
	if done(); !transfer.IsRefused(err) || !strings.Contains(err.Error(), "--input-topic") {
		t.Fatalf("under another input topic: %v", err)
	}
	file := small.export(t)
	large := newLedgers(5)
	large.fit.Placing = journal.PlaceSame
	mover, done = large.open(t)
	_, err = transfer.Import(t.Context(), mover, bytes.NewReader(file), "test", quiet)
	if done(); !transfer.IsRefused(err) || !strings.Contains(err.Error(), "came from other partitions") {
		t.Fatalf("without a word: %v", err)
	}
	large.fit.Placing = journal.PlaceByKey
	large.fill(t, file)
	in := large.content(t)
	in.queues = e.queues
	same(t, "the larger one", in, e, true)
	if owned := large.whole(t, e.messages); owned != 5 {
		t.Fatalf("%d partitions are open", owned)
	}
	other := newLedgers(5)
	other.fit.Input = node.Partition{Topic: "other", TopicID: uuid.UUID{8}}
	other.fit.OtherInput, other.fit.Placing = true, journal.PlaceSame
	other.fill(t, file)
	in = other.content(t)
	if in.queues = e.queues; len(in.places) > 0 || in.group != "" {
		t.Fatalf("positions %+v of group %q", in.places, in.group)
	}
	in.places, in.cluster, in.group = e.places, e.cluster, e.group
	same(t, "that of another input", in, e, true)
	if owned := other.whole(t, e.messages); owned != 5 {
		t.Fatalf("%d partitions are open", owned)
	}
}

// TestJournalTwice has an id wait under keys of two partitions, which a file can't have. Goal: the export says so
// before it seals anything, and one that is under way by then ends with an error.
func TestJournalTwice(t *testing.T) {
	l := newLedgers(2)
	for number := range int32(2) {
		store, err := journal.Open(journal.Config{
			Ledger: l.Ledger("journal", "journal"), Dir: t.TempDir(), Now: time.Now,
		})
		check(t, err)
		check(t, store.Own(t.Context(), number, uuid.New()))
		from := node.Place{Partition: l.fit.Input}
		from.Number = number
		_, _, err = store.Positions(t.Context(), []node.Place{from})
		check(t, err)
		_, err = store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: []node.Item{{
			Action: node.Schedule, Message: node.Message{
				ID: "a", Lane: "topic", Incarnation: uuid.UUID{5: byte(number)}, Deadline: time.UnixMicro(1).UTC(),
			},
		}}})
		check(t, err)
		check(t, store.Close())
	}
	mover, done := l.open(t)
	defer done()
	_, err := mover.Seal(t.Context(), uuid.New(), "test")
	if !transfer.IsRefused(err) || !strings.Contains(err.Error(), "1 ids wait in it more than once") {
		t.Fatalf("it is sealed: %v", err)
	}
	for limit := range 3 { // a page may end between the two
		if read, err := mover.Messages(t.Context(), node.MessageID{}, limit+1, 1<<20); err == nil {
			t.Fatalf("%d are read", len(read))
		}
	}
	if seal, err := mover.Sealed(t.Context()); err != nil || seal.Kind != transfer.Open {
		t.Fatalf("%+v, %v", seal, err)
	}
}

// TestJournalByOrigin has messages go where they came from, if their producers choose partitions in a way of their own.
func TestJournalByOrigin(t *testing.T) {
	e := keyed(t, 9)
	l := newLedgers(2)
	for i := range e.messages {
		number := 1 - l.fit.Choose(e.messages[i].Key)
		e.messages[i].Origin = node.Origin{Topic: "in", Partition: number, Offset: int64(i)}
	}
	choose := l.fit.Choose
	l.fit.Placing = journal.PlaceByOrigin
	l.fill(t, e.file(t))
	l.fit.Choose = func(key []byte) int32 { return 1 - choose(key) } // whole asks where they are
	if owned := l.whole(t, e.messages); owned != 2 {
		t.Fatalf("%d partitions are open", owned)
	}
}

// TestJournalUsed imports into journals that are not to be filled.
func TestJournalUsed(t *testing.T) {
	e := keyed(t, 5)
	file := e.file(t)
	l := newLedgers(2)
	l.fill(t, file)
	other := e.file(t) // of another name
	for name, into := range map[string][]byte{"filled": other, "its own": l.export(t)} {
		mover, done := l.open(t)
		_, err := transfer.Import(t.Context(), mover, bytes.NewReader(into), "test", quiet)
		if done(); !transfer.IsRefused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	used := newLedgers(2)
	store, err := journal.Open(journal.Config{
		Ledger: used.Ledger("journal", "journal"), Dir: t.TempDir(), Now: time.Now,
	})
	check(t, err)
	check(t, store.Own(t.Context(), 1, uuid.New()))
	at := node.Place{Partition: node.Partition{Topic: "in", TopicID: used.fit.Input.TopicID, Number: 1}}
	_, _, err = store.Positions(t.Context(), []node.Place{at})
	check(t, err)
	mover, done := used.open(t)
	_, err = transfer.Import(t.Context(), mover, bytes.NewReader(file), "test", quiet)
	if done(); !transfer.IsRefused(err) {
		t.Errorf("one that a node has used: %v", err)
	}
	check(t, store.Close())
	lateUse(t, e.batch())
}

// lateUse has a node use a journal when somebody has looked who is about to fill it.
func lateUse(t *testing.T, batch transfer.Batch) {
	t.Helper()
	l := newLedgers(2)
	mover, done := l.open(t)
	defer done()
	_, err := mover.Sealed(t.Context())
	check(t, err)
	store, err := journal.Open(journal.Config{
		Ledger: l.Ledger("journal", "journal"), Dir: t.TempDir(), Now: time.Now,
	})
	check(t, err)
	check(t, store.Own(t.Context(), 1, uuid.New()))
	at := node.Place{Partition: node.Partition{Topic: "in", TopicID: l.fit.Input.TopicID, Number: 1}}
	_, _, err = store.Positions(t.Context(), []node.Place{at})
	check(t, err)
	batch.Queues = nil
	_, err = mover.Receive(t.Context(), batch)
	if check(t, store.Close()); !transfer.IsRefused(err) {
		t.Errorf("one that a node has used since: %v", err)
	}
}
