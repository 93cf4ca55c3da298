package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/queue"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
	"chronos/node/store/memory"
	"chronos/node/store/transfer"
)

// ledgers is a simulated cluster with a journal for the input topic "in".
type ledgers struct {
	*simulated.Cluster

	fit journal.Fit
	now func() time.Time
	log func(journal.Log) journal.Log // what a mover sees of the journal
}

func newLedgers(partitions int32) *ledgers {
	l := &ledgers{Cluster: simulated.New(), now: time.Now, fit: journal.Fit{
		Cluster: "cluster", Input: node.Partition{Topic: "in", TopicID: uuid.UUID{0: 1, 6: 0x40, 8: 0x80}},
		Partitions: partitions, Placing: journal.PlaceByKey, MaxEntry: 1 << 20,
		Choose: func(key []byte) (number int32) {
			for _, b := range key {
				number = (number*31 + int32(b)) % partitions
			}
			return number
		},
	}}
	l.CreateTopic("journal", int(partitions), 0)
	return l
}

// open returns a mover with a copy of its own, and what ends it.
func (l *ledgers) open(t fataler) (mover *journal.Mover, done func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "move-*")
	check(t, err)
	var log journal.Log = l.Ledger("journal", "journal")
	if l.log != nil {
		log = l.log(log)
	}
	mover, err = journal.OpenMover(journal.MoveConfig{
		Log: log, Partitions: l.fit.Partitions, Dir: dir, Now: l.now, Fit: l.fit,
	})
	check(t, err)
	return mover, func() {
		check(t, mover.Close())
		check(t, os.RemoveAll(dir))
	}
}

// content returns what is in the journal, as somebody sees it who comes anew.
func (l *ledgers) content(t fataler) everything {
	t.Helper()
	mover, done := l.open(t)
	defer done()
	return of(t, mover)
}

// fill imports a file, and fails unless that is done.
func (l *ledgers) fill(t fataler, file []byte) transfer.Seal {
	t.Helper()
	mover, done := l.open(t)
	defer done()
	seal, err := transfer.Import(context.Background(), mover, bytes.NewReader(file), "test", quiet)
	check(t, err)
	return seal
}

// export seals the journal, and returns the file.
func (l *ledgers) export(t fataler) []byte {
	t.Helper()
	mover, done := l.open(t)
	defer done()
	return exported(t, mover)
}

// fitting draws contents that a journal can hold.
func fitting(t *rapid.T) everything {
	e := drawEverything(t)
	e.pauses, e.queues, e.actions, e.tasks = nil, []queue.Queue{queue.NewRoot()}, nil, nil
	for i := range e.answers { // a journal has no expired ones
		e.answers[i].Expires = time.UnixMicro(9e15 + int64(i)).UTC()
	}
	for i := range e.places {
		e.places[i].Mark = -1
	}
	for i := range e.messages {
		m := &e.messages[i]
		m.Line = uuid.Nil
		if m.Key == nil {
			m.Key = []byte(m.ID)
		}
	}
	return e
}

// TestJournalRoundTrip moves contents of every kind that a journal can hold from memory into a journal, and back. Goal:
// every field arrives, in either direction, the files have the same lines, and lineages go up.
func TestJournalRoundTrip(t *testing.T) {
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		if checks++; checks > 3*roundTrips {
			return // each of them opens four copies
		}
		e := fitting(t)
		source, back := memory.New(time.Now), memory.New(time.Now)
		_, err := source.Receive(context.Background(), e.batch())
		check(t, err)
		file := exported(t, source)
		l := newLedgers(4)
		seal := l.fill(t, file)
		if seal.Kind != transfer.Imported || seal.Lineage != e.lineage+3 {
			t.Fatalf("the seal is %+v, and the source was in lineage %d", seal, e.lineage)
		}
		in := l.content(t)
		in.queues = e.queues // it has none, not even root
		same(t, "the journal", in, e, true)
		again := l.export(t)
		if !bytes.Equal(lines(again), lines(file)) {
			t.Fatalf("the second file is\n%s, the first\n%s", again, file)
		}
		last, err := transfer.Import(context.Background(), back, bytes.NewReader(again), "test", quiet)
		check(t, err)
		same(t, "the second store", of(t, back), e, true)
		if last.Lineage != seal.Lineage+1 {
			t.Fatalf("it is in lineage %d, and the journal was in %d", last.Lineage, seal.Lineage)
		}
	})
}

// TestJournalAndDatabases moves the same from Postgres to a journal, to SQLite, to another journal, and to Postgres.
func TestJournalAndDatabases(t *testing.T) {
	first, second, file := newServer(t), newServer(t), newFile(t)
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		if checks++; checks > roundTrips {
			return
		}
		first.empty(t)
		second.empty(t)
		emptyFile(t, file.DB())
		e := fitting(t)
		_, err := first.Receive(context.Background(), e.batch())
		check(t, err)
		for i, target := range []transfer.Store{file, second} {
			l := newLedgers(int32(3 + i))
			l.fill(t, exported(t, []transfer.Store{first, file}[i]))
			in := l.content(t)
			in.queues = e.queues
			same(t, "the journal", in, e, i == 0)
			_, err := transfer.Import(context.Background(), target, bytes.NewReader(l.export(t)), "test", quiet)
			check(t, err)
			same(t, "the database", of(t, target), e, false)
		}
	})
}

// strikeFrom has the step of that number fail, and all after it, as if the process had died there.
func (l *ledgers) strikeFrom(number int64, fault simulated.Fault) (steps *atomic.Int64) {
	steps = new(atomic.Int64)
	l.Strike(func(simulated.Step) simulated.Fault {
		switch n := steps.Add(1); {
		case number == 0 || n < number:
			return simulated.None
		case n == number:
			return fault
		}
		return simulated.Lost
	})
	return steps
}

// keyed is many, with keys, and positions of two partitions.
func keyed(t fataler, n int) everything {
	e := of(t, many(t, n))
	e.lineage = 4
	for i := range e.messages {
		e.messages[i].Key = fmt.Append(nil, i%7)
	}
	e.places = nil
	for i := range int32(2) {
		e.places = append(e.places, inspect.Place{Mark: -1, Place: node.Place{
			Partition: node.Partition{Topic: "in", TopicID: uuid.UUID{0: 1, 6: 0x40, 8: 0x80}, Number: i},
			Position:  node.Position{Offset: int64(n)},
		}})
	}
	return e
}

// file returns an export of it.
func (e *everything) file(t fataler) []byte {
	t.Helper()
	source := memory.New(time.Now)
	_, err := source.Receive(context.Background(), e.batch())
	check(t, err)
	return exported(t, source)
}

// TestJournalImportDies has an import die at each step on the cluster, once before the effect of that and once after
// it, and be run again by somebody who knows nothing of it. Goal: the journal is what it would be without that;
// until then no node owns all of it, and none of a partition that lacks something.
func TestJournalImportDies(t *testing.T) {
	e := keyed(t, 2100)
	file := e.file(t)
	l := newLedgers(2)
	steps := l.strikeFrom(0, simulated.None)
	l.fill(t, file)
	total := steps.Load()
	if total < 20 {
		t.Fatalf("an import has %d steps: too few to be worth dying in", total)
	}
	for at := int64(1); at <= total; at++ {
		for _, fault := range []simulated.Fault{simulated.Lost, simulated.Unanswered} {
			l := newLedgers(2)
			l.strikeFrom(at, fault)
			mover, done := l.open(t)
			_, err := transfer.Import(t.Context(), mover, bytes.NewReader(file), "test", quiet)
			done()
			l.Strike(nil)
			whole := l.whole(t, e.messages)
			if err == nil && whole != 2 {
				t.Fatalf("step %d: the import is done, and %d partitions are open", at, whole)
			}
			if seal := l.fill(t, file); seal.Kind != transfer.Imported {
				t.Fatalf("step %d: %+v", at, seal)
			}
			in := l.content(t)
			in.queues = e.queues
			same(t, fmt.Sprint("died at ", at), in, e, true)
		}
	}
}

// whole returns how many partitions a node owns that comes now, and fails if one of them lacks a message.
func (l *ledgers) whole(t *testing.T, all []transfer.Message) (owned int) {
	t.Helper()
	mover, done := l.open(t)
	seal, err := mover.Sealed(t.Context())
	check(t, err)
	done()
	if seal.Kind == transfer.Open {
		return 0 // nothing is in it, and whoever uses it now keeps the import out
	}
	for number := range l.fit.Partitions {
		store, err := journal.Open(journal.Config{
			Ledger: l.Ledger("journal", "journal"), Dir: t.TempDir(), Now: time.Now,
		})
		check(t, err)
		err = store.Own(t.Context(), number, uuid.New())
		if _, sealed := errors.AsType[*journal.SealedError](err); sealed {
			check(t, store.Close())
			continue
		}
		check(t, err)
		owned++
		want := 0
		for i := range all {
			if l.fit.Choose(all[i].Key) == number {
				want++
			}
		}
		result, err := store.Claim(t.Context(), node.ClaimRequest{
			Node: uuid.UUID{1}, Hold: time.Minute, Until: time.Now(),
			Lanes: []node.Share{{Lane: "topic", Limit: len(all) + 1, Bytes: 1 << 30}},
		})
		check(t, err)
		if got := len(result.Messages); got == 0 && seal.Kind == transfer.Importing && seal.Lines == 0 {
			owned-- // it is not sealed yet, and nothing is in any
		} else if got != want {
			t.Fatalf("partition %d is open with %d messages, want %d", number, got, want)
		}
		check(t, store.Close())
	}
	return owned
}

// TestJournalAnswers imports what requests were told, and repeats them, each in the partition of its id.
// Goal: each is told what it was told before, and nothing is done.
func TestJournalAnswers(t *testing.T) {
	e := keyed(t, 5)
	e.answers = nil
	for i := range 8 {
		e.answers = append(e.answers, transfer.Answer{
			Request: uuid.UUID{byte(i + 1)}, Expires: time.UnixMicro(9e15).UTC(), Told: node.Told{
				Outcome: node.Scheduled, Message: node.MessageID{ID: fmt.Sprint("x", i), Lane: "topic"}, Lineage: 3,
			},
		})
	}
	l := newLedgers(3)
	l.fill(t, e.file(t))
	store, err := journal.Open(journal.Config{Ledger: l.Ledger("journal", "journal"), Dir: t.TempDir(), Now: time.Now})
	check(t, err)
	defer func() { check(t, store.Close()) }()
	for number := range l.fit.Partitions {
		check(t, store.Own(t.Context(), number, uuid.New()))
	}
	for i := range e.answers {
		a := &e.answers[i]
		item := node.Item{Action: node.Cancel, Message: node.Message{
			ID: a.Told.Message.ID, Lane: "topic", Incarnation: uuid.New(),
		}}
		item.Request = &node.Request{ID: a.Request, Keep: time.Hour, Ask: item.Incarnation}
		in := l.fit.Input
		in.Number = l.fit.Choose([]byte(item.ID))
		positions, _, err := store.Positions(t.Context(), []node.Place{{Partition: in}})
		check(t, err)
		item.Epoch, item.Offset = positions[0].Epoch, positions[0].Offset
		result, err := store.Take(t.Context(), node.TakeRequest{
			From: []node.Place{{Partition: in, Position: positions[0]}}, Items: []node.Item{item},
		})
		check(t, err)
		if told := result.Results[0].Told; told == nil || !told.Again || told.Outcome != node.Scheduled {
			t.Errorf("request %d was told %+v", i, told)
		}
	}
}

// TestJournalOtherBatches has an import die when one partition has its part of a small batch, and go on with larger
// ones, as a later release might. Goal: each partition takes what it lacks, line by line.
func TestJournalOtherBatches(t *testing.T) {
	e := keyed(t, 20)
	e.answers = nil
	for i := range 3 {
		e.answers = append(e.answers, transfer.Answer{
			Request: uuid.UUID{byte(i + 1)}, Expires: time.UnixMicro(9e15).UTC(),
			Told: node.Told{Outcome: node.Scheduled, Message: node.MessageID{ID: fmt.Sprint("x", i), Lane: "topic"}},
		})
	}
	l := newLedgers(2)
	whole := e.batch()
	begin, small := whole, whole
	begin.To, begin.Last, begin.Places, begin.Answers, begin.Messages = 0, false, nil, nil, nil
	small.To, small.Last, small.Messages = int64(2+len(e.answers)+3), false, whole.Messages[:3]
	for _, batch := range []*transfer.Batch{&begin, &small, &whole} {
		batch.Queues = nil
		mover, done := l.open(t)
		_, err := mover.Receive(t.Context(), *batch)
		if done(); (err == nil) != (batch != &small) {
			t.Fatalf("lines to %d: %v", batch.To, err)
		}
		l.Strike(func(step simulated.Step) simulated.Fault {
			if batch == &begin && step.Number == 1 && step.At == simulated.Appending {
				return simulated.Lost
			}
			return simulated.None
		})
	}
	in := l.content(t)
	in.queues = e.queues
	same(t, "the journal", in, e, true)
}

// TestJournalExportDies has an export die at each step. Goal: to do it again seals all of it, under one name, and
// writes what is in it; and to undo it opens all of it.
func TestJournalExportDies(t *testing.T) {
	e := keyed(t, 30)
	file := e.file(t)
	seal := func(l *ledgers) error {
		mover, done := l.open(t)
		defer done()
		_, err := mover.Seal(t.Context(), uuid.New(), "test")
		return err
	}
	undo := func(l *ledgers) error {
		mover, done := l.open(t)
		defer done()
		_, err := mover.Unseal(t.Context())
		return err
	}
	for _, do := range []func(*ledgers) error{seal, undo} {
		for at, died := int64(1), true; died; at++ {
			for _, fault := range []simulated.Fault{simulated.Lost, simulated.Unanswered} {
				l := newLedgers(3)
				l.fill(t, file)
				if at > 1 {
					check(t, seal(l))
				}
				steps := l.strikeFrom(at, fault)
				err := do(l)
				died = steps.Load() >= at
				l.Strike(nil)
				if err == nil && died && fault == simulated.Lost {
					t.Fatalf("step %d: nothing has failed", at)
				}
				if got := l.export(t); !bytes.Equal(lines(got), lines(file)) {
					t.Fatalf("step %d: the export is\n%s, want\n%s", at, got, file)
				}
				if open := l.whole(t, e.messages); open != 0 {
					t.Fatalf("step %d: %d partitions are open", at, open)
				}
				check(t, undo(l))
				if err := undo(l); !transfer.IsRefused(err) {
					t.Fatalf("step %d: once more: %v", at, err)
				}
			}
		}
	}
}

// TestJournalUndone opens the journal while it is read, by somebody else.
func TestJournalUndone(t *testing.T) {
	e := keyed(t, 2100)
	l := newLedgers(2)
	l.fill(t, e.file(t))
	mover, done := l.open(t)
	defer done()
	_, err := mover.Seal(t.Context(), uuid.New(), "test")
	check(t, err)
	var out bytes.Buffer
	_, _, err = transfer.Export(t.Context(), mover, transfer.Header{}, &out, func(transfer.Progress) {
		other, done := l.open(t)
		defer done()
		_, _ = other.Unseal(t.Context()) // the first time does it
	})
	if !transfer.IsRefused(err) {
		t.Fatalf("the export returns %v", err)
	}
}

// TestJournalFit imports what a journal can't hold. Goal: each is counted, before anything is sealed, and Receive takes
// none of it either.
func TestJournalFit(t *testing.T) {
	for want, spoil := range map[string]func(e *everything){
		"1 queues": func(e *everything) {
			e.queues = append(e.queues, queue.Queue{ID: uuid.UUID{9}, Name: "q", Kind: queue.Sync, Window: "never"})
		},
		"2 messages whose order": func(e *everything) {
			e.messages[0].Line, e.messages[4].Line = uuid.UUID{1}, uuid.UUID{1}
		},
		"2 messages without a key": func(e *everything) {
			e.messages[0].Key = nil
			e.messages[2].Key, e.messages[2].Origin = nil, node.Origin{Topic: "in", Partition: 2, Offset: 3}
			e.messages[1].Key, e.messages[1].Origin = nil, node.Origin{Topic: "in", Partition: 1, Offset: 3}
		},
		"1 messages that are larger":           func(e *everything) { e.messages[0].Value = make([]byte, 1<<20) },
		"1 positions of partitions that are b": func(e *everything) { e.places[0].Mark = e.places[0].Offset + 3 },
		"2 positions of other inputs": func(e *everything) {
			beyond := e.places[1]
			beyond.Number = 2
			e.places = append(e.places, beyond)
			e.places[1].Topic, e.places[1].TopicID = "x", uuid.UUID{7}
		},
		"cluster elsewhere": func(e *everything) { e.cluster = "elsewhere" },
		"3 messages that came from other partitions": func(e *everything) {
			for i := range 3 {
				number := newLedgers(2).fit.Choose(e.messages[i].Key)
				e.messages[i].Origin = node.Origin{Topic: "in", Partition: 1 - number}
			}
		},
	} {
		e := keyed(t, 5)
		spoil(&e)
		file := e.file(t)
		l := newLedgers(2)
		l.fit.Placing = journal.PlaceSame
		if strings.Contains(want, "whose order") {
			l.fit.Placing = journal.PlaceByOrigin
		}
		mover, done := l.open(t)
		fits := mover.Fits()
		_, _, err := transfer.CheckFor(bytes.NewReader(file), quiet, fits)
		check(t, err)
		if err := fits.Refusal(); !transfer.IsRefused(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		_, err = transfer.Import(t.Context(), mover, bytes.NewReader(file), "test", quiet)
		if !transfer.IsRefused(err) {
			t.Errorf("%s: the import returns %v", want, err)
		}
		if seal, err := mover.Sealed(t.Context()); err != nil || seal.Kind != transfer.Open {
			t.Errorf("%s: it is sealed: %+v, %v", want, seal, err)
		}
		done()
	}
}

// TestJournalSurvey looks at a store of which it is not known yet into which journal it goes.
func TestJournalSurvey(t *testing.T) {
	e := keyed(t, 1200)
	e.messages[1100].Key = nil
	e.pauses = []node.Pause{{Lane: "topic", Since: time.UnixMicro(1).UTC()}}
	e.places[1].Topic = "on"
	source := memory.New(time.Now)
	_, err := source.Receive(t.Context(), e.batch())
	check(t, err)
	fit := &journal.Fit{}
	check(t, transfer.Survey(t.Context(), source, quiet, fit))
	refusal := fit.Refusal()
	for _, want := range []string{"1 messages without a key", "several input topics, such as in and on"} {
		if !strings.Contains(fmt.Sprint(refusal), want) {
			t.Errorf("%v: want %q", refusal, want)
		}
	}
	if strings.Contains(fmt.Sprint(refusal), "pause") {
		t.Errorf("a journal has pauses: %v", refusal)
	}
}
