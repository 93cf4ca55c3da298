package journal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/transfer"
)

// mover returns what moves the journal of a topic with one partition, and what ends it.
func (w *world) mover(topic string) (m *journal.Mover, done func()) {
	w.Helper()
	dir, err := os.MkdirTemp("", "move-*")
	if err == nil {
		m, err = journal.OpenMover(journal.MoveConfig{
			Log: w.cluster.Ledger(topic, "chronos"), Partitions: 1, Dir: dir, Now: w.clock.Now,
			Fit: journal.Fit{
				Partitions: 1, Input: input(), Placing: journal.PlaceByKey,
				Choose: func([]byte) int32 { return 0 },
			},
		})
	}
	if err != nil {
		w.Fatal(err)
	}
	return m, func() {
		if err := errors.Join(m.Close(), os.RemoveAll(dir)); err != nil {
			w.Error(err)
		}
	}
}

// TestExportAtEveryStep exports the journal at every step of a node that takes in and fires, fills another one from it,
// and has a node go on there. Goal: a consumer sees each message once; the node whose journal was sealed hears of it,
// fires nothing, and takes nothing in.
func TestExportAtEveryStep(t *testing.T) {
	t.Parallel()
	step := 1
	for ; exportAt(newWorld(t), step); step++ {
	}
	if step < 20 {
		t.Fatalf("there are only %d steps", step)
	}
}

// exportAt exports at the step of that number, and reports whether there was one.
func exportAt(w *world, number int) (struck bool) {
	items := w.records()
	for i := range items {
		items[i].Key = []byte("key")
	}
	from, done := w.mover(topicName)
	defer done()
	var out bytes.Buffer
	steps := 0
	w.cluster.Strike(func(simulated.Step) simulated.Fault {
		if steps++; steps != number {
			return simulated.None
		}
		struck = true
		w.cluster.Strike(nil)
		if _, err := from.Seal(w.Context(), uuid.New(), "test"); err != nil {
			w.Fatalf("step %d: %v", number, err)
		}
		return simulated.None
	})
	err := w.live(w.Context(), w.stores[0], items)
	if !struck {
		return false
	}
	at := w.came()
	for range 3 { // it is spent, or sealed, and stays so
		if err == nil && !slices.Equal(at, once()) {
			w.Fatalf("step %d: the node ends without an error, with %q", number, at)
		}
		err = w.live(w.Context(), w.stores[0], items)
		if _, sealed := errors.AsType[*journal.SealedError](err); !sealed {
			w.Fatalf("step %d: the node is told %v", number, err)
		}
	}
	if now := w.came(); !slices.Equal(now, at) {
		w.Fatalf("step %d: %q came out of a sealed journal, behind %q", number, now, at)
	}
	_, _, err = transfer.Export(w.Context(), from, transfer.Header{}, &out, func(transfer.Progress) {})
	if err != nil {
		w.Fatalf("step %d: %v", number, err)
	}
	w.goOn(number, out.Bytes(), items)
	return true
}

// goOn has a node live on a journal that is filled from a file.
func (w *world) goOn(number int, file []byte, items []node.Item) {
	w.Helper()
	w.cluster.CreateTopic("second", 1, 0)
	to, done := w.mover("second")
	defer done()
	seal, err := transfer.Import(w.Context(), to, bytes.NewReader(file), "test", func(transfer.Progress) {})
	if err != nil || seal.Kind != transfer.Imported {
		w.Fatalf("step %d: %+v, %v", number, seal, err)
	}
	second, err := journal.Open(journal.Config{
		Ledger: w.cluster.Ledger("second", "chronos"), Dir: w.TempDir(), Now: w.clock.Now,
	})
	if err != nil {
		w.Fatal(err)
	}
	if err := errors.Join(w.live(w.Context(), second, items), second.Close()); err != nil {
		w.Fatalf("step %d: the other node: %v", number, err)
	}
	if !slices.Equal(w.came(), once()) {
		w.Fatalf("step %d: %q came out, want %q", number, w.came(), once())
	}
}

// TestExportLate has a node take messages in between the looks of an export and its seal. Goal: all of them are there.
func TestExportLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mover, done := w.mover(topicName)
	defer done()
	store := w.stores[0]
	own(t, store, 0)
	from := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch}}
	if _, _, err := store.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	take := func(id string) {
		t.Helper()
		result, err := store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: []node.Item{{
			Epoch: 1, Offset: from.Offset, Action: node.Schedule, Message: w.message(id),
		}}})
		if err != nil || result.Refused[0] {
			t.Fatalf("take: %+v, %v", result, err)
		}
		from.Position = result.Positions[0]
	}
	count := func(want int) {
		t.Helper()
		messages, err := mover.Messages(t.Context(), node.MessageID{}, 10, 1<<20)
		if err != nil || len(messages) != want {
			t.Errorf("%d messages, want %d: %v", len(messages), want, err)
		}
	}
	for i, id := range []string{"a", "b"} { // two looks
		take(id)
		if contents, err := mover.Contents(t.Context()); err != nil || contents.Messages != int64(i+1) {
			t.Errorf("look %d: %+v, %v", i, contents, err)
		}
		count(i + 1)
	}
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Owning {
			w.cluster.Strike(nil)
			take("c")
		}
		return simulated.None
	})
	if _, err := mover.Seal(t.Context(), uuid.New(), "test"); err != nil {
		t.Fatal(err)
	}
	count(3)
}

// A node hears of a seal from its source, and leaves whoever moves the journal alone for a session.
func TestSourceSealed(t *testing.T) {
	t.Parallel()
	s := newSourced(t)
	mover, done := s.mover(topicName)
	defer done()
	if _, err := mover.Seal(t.Context(), uuid.New(), "test"); err != nil {
		t.Fatal(err)
	}
	owned := 0
	s.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Owning {
			owned++
		}
		return simulated.None
	})
	s.poll(node.Batch{Assigned: []node.Assignment{{Extent: node.Extent{Partition: input()}}}})
	for len(s.attempts) == 0 {
		if b, err := s.source.Poll(t.Context()); err != nil || len(b.Assigned) > 0 {
			t.Fatalf("the node is told %+v, %v", b, err)
		}
	}
	if _, sealed := errors.AsType[*journal.SealedError](s.attempts[0]); !sealed {
		t.Fatalf("the attempt ends with %v", s.attempts[0])
	}
	s.clock.Advance(session - time.Second)
	for range 3 {
		s.poll(node.Batch{})
	}
	if owned != 1 || s.source.Owning() > 0 {
		t.Errorf("the partition was owned %d times", owned)
	}
	if _, err := mover.Unseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Second)
	s.poll(node.Batch{})
	s.until()
}

// TestMovedLineage looks at what a journal tells that was filled from a store in a later lineage.
func TestMovedLineage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mover, done := w.mover(topicName)
	defer done()
	if _, err := mover.Receive(t.Context(), transfer.Batch{
		ID: uuid.New(), By: "test", Lineage: 6, Last: true,
	}); err != nil {
		t.Fatal(err)
	}
	store := w.stores[0]
	own(t, store, 0)
	place := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch}}
	if _, _, err := store.Positions(t.Context(), []node.Place{place}); err != nil {
		t.Fatal(err)
	}
	answer := node.Message{Lane: "outcomes", Deadline: w.clock.Now()}
	if _, err := store.Take(t.Context(), node.TakeRequest{From: []node.Place{place}, Items: []node.Item{{
		Epoch: 1, Action: node.Cancel, Message: node.Message{ID: "x", Lane: output},
		Answer: &node.Answer{Message: answer},
	}}}); err != nil {
		t.Fatal(err)
	}
	rows, err := store.Dump()
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, h := range rows[0].Headers {
		if h.Name == node.HeaderLineage && string(h.Value) == "7" {
			return
		}
	}
	t.Errorf("it tells of %q, and not of lineage 7", rows[0].Headers)
}

// TestFirstWish has a lane be paused in the last of two partitions, which nobody has owned before. Goal: its owner does
// what is wished, although that is the first entry of all, and an export has the pause, although it is of one
// partition.
func TestFirstWish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster.CreateTopic("two", 2, 0)
	wish, err := journal.Wish(uuid.New(), output, true)
	if err != nil {
		t.Fatal(err)
	}
	w.cluster.Append("two", 1, wish)
	log := w.cluster.Ledger("two", "two")
	own(t, open(t, journal.Config{Ledger: log, Dir: t.TempDir(), Now: w.clock.Now}), 1)
	mover, err := journal.OpenMover(journal.MoveConfig{Log: log, Partitions: 2, Dir: t.TempDir(), Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	contents, err := mover.Contents(t.Context())
	if err := errors.Join(err, mover.Close()); err != nil {
		t.Fatal(err)
	}
	if len(contents.Pauses) != 1 || contents.Pauses[0].Lane != output {
		t.Errorf("the pauses are %+v", contents.Pauses)
	}
}

// TestUndoneLineage opens a journal again that was filled from a later lineage. Goal: it stays in its own, which
// outcomes have told of already.
func TestUndoneLineage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mover, done := w.mover(topicName)
	defer done()
	seal, err := mover.Receive(t.Context(), transfer.Batch{ID: uuid.New(), By: "test", Lineage: 6, Last: true})
	if err != nil || seal.Lineage != 7 {
		t.Fatalf("%+v, %v", seal, err)
	}
	for range 2 {
		if seal, err := mover.Seal(t.Context(), uuid.New(), "test"); err != nil || seal.Lineage != 7 {
			t.Fatalf("it is sealed as %+v, %v", seal, err)
		}
		if state, err := mover.Unseal(t.Context()); err != nil || state.Lineage != 7 {
			t.Fatalf("it is opened in %+v, %v", state, err)
		}
	}
}

// TestMoverFenced has a node own the partition again and again while it is sealed: the mover gives up in the end, with
// a sentence, and nothing is half done that a repeat does not end.
func TestMoverFenced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	mover, done := w.mover(topicName)
	defer done()
	ends, strikes := 0, func(int) bool { return false }
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Ending {
			return simulated.None
		}
		if ends++; !strikes(ends) {
			return simulated.None
		}
		before, of := ends, strikes
		strikes = func(int) bool { return false } // what the node does strikes nobody
		if err := w.stores[0].Own(context.WithoutCancel(t.Context()), 0, uuid.New()); err != nil {
			t.Errorf("the node: %v", err)
		}
		ends, strikes = before, of
		return simulated.None
	})
	for _, which := range []func(int) bool{ // each attempt ends two transactions: the fence, and the seal
		func(n int) bool { return n == 1 },
		func(n int) bool { return n == 2 },
		func(n int) bool { return n <= 3 },
	} {
		ends, strikes = 0, which
		if _, err := mover.Seal(t.Context(), uuid.New(), "test"); err != nil {
			t.Errorf("after others: %v", err)
		}
		if _, err := mover.Unseal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	strikes = func(int) bool { return true }
	if seal, err := mover.Seal(t.Context(), uuid.New(), "test"); err == nil || transfer.IsRefused(err) {
		t.Errorf("among others: %+v, %v", seal, err)
	}
	strikes = func(int) bool { return false }
	if _, err := mover.Seal(t.Context(), uuid.New(), "test"); err != nil {
		t.Errorf("in the end: %v", err)
	}
}

// TestMovedAnswers exports what requests were told, so that one that is repeated after the move is not done again; but
// for what has expired.
func TestMovedAnswers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	request := uuid.New()
	answers := d.ask(d.submission(node.Schedule, "x"), request)
	if err := d.take(0, 1); err != nil {
		t.Fatal(err)
	}
	d.check("a submission", <-answers, node.Scheduled, false)
	m, done := d.mover(topicName)
	defer done()
	told, err := m.Told(t.Context(), uuid.Nil, 10)
	if err != nil || len(told) != 1 || told[0].Request != request || told[0].Told.Outcome != node.Scheduled {
		t.Fatalf("the answers are %+v, %v", told, err)
	}
	if rest, err := m.Told(t.Context(), request, 10); err != nil || len(rest) != 0 {
		t.Errorf("after the last one there are %+v, %v", rest, err)
	}
	d.clock.Advance(2 * time.Hour)
	if old, err := m.Told(t.Context(), uuid.Nil, 10); err != nil || len(old) != 0 {
		t.Errorf("what has expired is %+v, %v", old, err)
	}
}
