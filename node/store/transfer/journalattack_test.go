package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/transfer"
)

// watched is a journal whose calls somebody is told of before they are made.
type watched struct {
	journal.Log

	owns  func(number int32) error // nil for nobody
	reads atomic.Int64             // how often something was read
}

// Own implements ledger.Ledger.
func (w *watched) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	if w.owns != nil {
		if err := w.owns(number); err != nil {
			return nil, err
		}
	}
	return w.Log.Own(ctx, number, fence)
}

// Read implements ledger.Ledger.
func (w *watched) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	w.reads.Add(1)
	return w.Log.Read(ctx, from, until, each)
}

// seenBy returns the journal as movers see it that are opened from now on, each of whose calls is watched.
func (l *ledgers) seenBy(owns func(number int32) error) (*ledgers, *watched) {
	w := &watched{owns: owns}
	seen := *l
	seen.log = func(log journal.Log) journal.Log {
		w.Log = log
		return w
	}
	return &seen, w
}

// without returns what keeps somebody from owning one partition.
func without(number int32) func(int32) error {
	return func(n int32) error {
		if n == number {
			return errDied
		}
		return nil
	}
}

// node owns a partition as a node does, does something with it, and ends.
func (l *ledgers) node(t *testing.T, number int32, do func(store *journal.Store, from node.Place)) {
	t.Helper()
	store, err := journal.Open(journal.Config{Ledger: l.Ledger("journal", "journal"), Dir: t.TempDir(), Now: time.Now})
	check(t, err)
	check(t, store.Own(context.Background(), number, uuid.New()))
	from := node.Place{Partition: l.fit.Input}
	from.Number = number
	positions, _, err := store.Positions(context.Background(), []node.Place{from})
	check(t, err)
	from.Position = positions[0]
	do(store, from)
	check(t, store.Close())
}

// take has a node take in one record.
func take(t fataler, store *journal.Store, from node.Place, action node.Action, id string) {
	t.Helper()
	item := node.Item{Epoch: from.Epoch, Offset: from.Offset, Action: action, Message: node.Message{
		ID: id, Lane: "topic", Incarnation: uuid.New(), Deadline: time.UnixMicro(1).UTC(), Key: []byte(id),
	}}
	request := node.TakeRequest{From: []node.Place{from}, Items: []node.Item{item}}
	result, err := store.Take(context.Background(), request)
	check(t, err)
	if result.Refused[0] {
		t.Fatalf("the take of %q is refused", id)
	}
}

// TestJournalTwoExports has two exports begin at once, of which each seals a partition before it hears of the other.
// Goal: neither is done, and to do either again seals all of it, under one name.
func TestJournalTwoExports(t *testing.T) {
	e := keyed(t, 30)
	file := e.file(t)
	l := newLedgers(2)
	l.fill(t, file)
	var once sync.Once
	first, _ := l.seenBy(func(int32) error {
		once.Do(func() {
			second, _ := l.seenBy(without(0))
			mover, done := second.open(t)
			defer done()
			if _, err := mover.Seal(t.Context(), uuid.New(), "second"); err == nil {
				t.Error("the second export has sealed a partition that it does not own")
			}
		})
		return nil
	})
	mover, done := first.open(t)
	_, err := mover.Seal(t.Context(), uuid.New(), "first")
	if done(); err == nil || !strings.Contains(err.Error(), "do it again") {
		t.Fatalf("the first export: %v", err)
	}
	if got := l.export(t); !bytes.Equal(lines(got), lines(file)) {
		t.Fatalf("the export is\n%s, want\n%s", got, file)
	}
	if open := l.whole(t, e.messages); open != 0 {
		t.Fatalf("%d partitions are open", open)
	}
}

// TestJournalHalfUndone has somebody undo an export that is being written, and die before all of it is open. Goal: the
// export ends with an error, also if the journal is sealed again by then: what is open has fired meanwhile.
func TestJournalHalfUndone(t *testing.T) {
	e := keyed(t, 2100)
	file := e.file(t)
	for _, again := range []bool{false, true} {
		for undone := range int32(2) {
			l := newLedgers(2)
			l.fill(t, file)
			mover, done := l.open(t)
			_, err := mover.Seal(t.Context(), uuid.New(), "test")
			check(t, err)
			var once sync.Once
			var out bytes.Buffer
			_, _, err = transfer.Export(t.Context(), mover, transfer.Header{}, &out, func(transfer.Progress) {
				once.Do(func() {
					half, _ := l.seenBy(without(1 - undone))
					other, done := half.open(t)
					if _, err := other.Unseal(t.Context()); err == nil {
						t.Error("it was undone in a partition that nobody owns")
					}
					done()
					l.node(t, undone, func(store *journal.Store, from node.Place) {
						take(t, store, from, node.Schedule, "new")
					})
					if again {
						l.export(t)
					}
				})
			})
			if done(); !transfer.IsRefused(err) {
				t.Errorf("partition %d, sealed again %t: the export returns %v", undone, again, err)
			}
		}
	}
}

// TestJournalExportedLater exports a sealed journal once more when answers have expired. Goal: the lines are the same,
// since an import that has died goes on by their numbers.
func TestJournalExportedLater(t *testing.T) {
	begun := time.Now()
	e := keyed(t, 1500)
	e.answers = nil
	for i := range 8 {
		e.answers = append(e.answers, transfer.Answer{
			Request: uuid.UUID{byte(i + 1)}, Expires: begun.Add(time.Duration(i-1) * time.Hour).UTC(), Told: node.Told{
				Outcome: node.Scheduled, Message: node.MessageID{ID: fmt.Sprint("x", i), Lane: "topic"}, Lineage: 3,
			},
		})
	}
	l := newLedgers(2)
	l.fill(t, e.file(t))
	first := l.export(t)
	if n := bytes.Count(first, []byte(`{"answer":`)); n != 6 { // one had expired, and another one does just now
		t.Errorf("%d answers are exported", n)
	}
	l.now = func() time.Time { return begun.Add(4*time.Hour + time.Minute) }
	later := l.export(t)
	if !bytes.Equal(lines(first), lines(later)) {
		t.Errorf("there were %d answers, and there are %d", bytes.Count(first, []byte(`{"answer":`)),
			bytes.Count(later, []byte(`{"answer":`)))
	}
	// An import that dies with the first file, and goes on with the second one.
	into := newLedgers(2)
	into.strikeFrom(20, simulated.Lost)
	mover, done := into.open(t)
	_, err := transfer.Import(t.Context(), mover, bytes.NewReader(first), "test", quiet)
	if done(); err == nil {
		t.Fatal("the import has not died")
	}
	into.Strike(nil)
	into.fill(t, later)
	if in := into.content(t); len(in.messages) != len(e.messages) {
		t.Errorf("%d messages arrive, want %d", len(in.messages), len(e.messages))
	}
}

// TestJournalLookedTwice looks at a journal, and again when something has come out. Goal: what is gone is not counted,
// and an id that waits in another partition now waits once.
func TestJournalLookedTwice(t *testing.T) {
	l := newLedgers(2)
	for _, id := range []string{"a", "b"} {
		l.node(t, 0, func(store *journal.Store, from node.Place) { take(t, store, from, node.Schedule, id) })
	}
	mover, done := l.open(t)
	defer done()
	count := func(want int64) {
		t.Helper()
		contents, err := mover.Contents(t.Context())
		if check(t, err); contents.Messages != want || contents.Unmovable != "" {
			t.Errorf("%d messages, want %d; %s", contents.Messages, want, contents.Unmovable)
		}
	}
	count(2)
	l.node(t, 0, func(store *journal.Store, from node.Place) { take(t, store, from, node.Cancel, "a") })
	count(1)
	l.node(t, 1, func(store *journal.Store, from node.Place) { take(t, store, from, node.Schedule, "a") })
	count(2)
}

// TestJournalRefusedHalfway has imports be refused when they have sealed a part of the journal. Goal: as a refusal
// says, nothing has changed: nodes own all of it, and to do one of the imports again fills it.
func TestJournalRefusedHalfway(t *testing.T) {
	e := keyed(t, 5)
	first, second := e.file(t), e.file(t) // of other names
	l := newLedgers(2)
	var once sync.Once
	seen, _ := l.seenBy(func(int32) error {
		once.Do(func() {
			half, _ := l.seenBy(without(0))
			mover, done := half.open(t)
			defer done()
			if _, err := transfer.Import(t.Context(), mover, bytes.NewReader(second), "second", quiet); err == nil {
				t.Error("the second import has filled a partition that it does not own")
			}
		})
		return nil
	})
	mover, done := seen.open(t)
	_, err := transfer.Import(t.Context(), mover, bytes.NewReader(first), "first", quiet)
	if done(); !transfer.IsRefused(err) {
		t.Fatalf("the first import: %v", err)
	}
	l.fill(t, second)
	in := l.content(t)
	in.queues = e.queues
	same(t, "the journal", in, e, true)

	used := newLedgers(2)
	mover, done = used.open(t)
	defer done()
	if _, err := mover.Sealed(t.Context()); err != nil {
		t.Fatal(err)
	}
	used.node(t, 1, func(store *journal.Store, from node.Place) { take(t, store, from, node.Schedule, "a") })
	batch := e.batch()
	batch.Queues = nil
	if _, err := mover.Receive(t.Context(), batch); !transfer.IsRefused(err) {
		t.Errorf("one that a node has used since: %v", err)
	}
	for number := range int32(2) {
		used.node(t, number, func(store *journal.Store, from node.Place) { take(t, store, from, node.Schedule, "b") })
	}
}

// TestJournalReads counts how often an export reads: as often as there are partitions, and not again for each page of
// answers, since each read is a connection.
func TestJournalReads(t *testing.T) {
	e := keyed(t, 10)
	e.answers = nil
	for i := range 3500 {
		e.answers = append(e.answers, transfer.Answer{
			Request: uuid.UUID{byte(i >> 8), byte(i), 1}, Expires: time.UnixMicro(9e15).UTC(), Told: node.Told{
				Outcome: node.Scheduled, Message: node.MessageID{ID: fmt.Sprint("x", i), Lane: "topic"}, Lineage: 3,
			},
		})
	}
	l := newLedgers(2)
	l.fill(t, e.file(t))
	seen, w := l.seenBy(nil)
	mover, done := seen.open(t)
	defer done()
	contents, err := mover.Contents(t.Context())
	if check(t, err); contents.Answers != 3500 {
		t.Errorf("it is said to have %d answers", contents.Answers)
	}
	file := exported(t, mover)
	if n := bytes.Count(file, []byte(`{"answer":`)); n != len(e.answers) {
		t.Errorf("%d answers are exported", n)
	}
	if most := int64(2 * 3); w.reads.Load() > most { // before the seal, when it is owned, and behind that
		t.Errorf("it is read %d times, want %d at most", w.reads.Load(), most)
	}
}

// TestJournalOtherPlacing has an import die, and go on with another rule for where messages go. Goal: that is refused,
// since a message would be in two partitions, or in none; by the rule of before it is done.
func TestJournalOtherPlacing(t *testing.T) {
	e := keyed(t, 1500)
	for i := range e.messages {
		e.messages[i].Origin = node.Origin{Topic: "in", Partition: int32(i % 2), Offset: int64(i)}
	}
	file := e.file(t)
	places := []journal.Placing{journal.PlaceByKey, journal.PlaceByOrigin}
	for i, placing := range places {
		l := newLedgers(2)
		l.fit.Placing = placing
		mover, done := l.open(t)
		var appended atomic.Int64
		l.Strike(func(step simulated.Step) simulated.Fault {
			// The fence, the seal, and the first lines, which only the other partition has.
			if step.Number == 1 && step.At == simulated.Appending && appended.Add(1) > 2 {
				return simulated.Lost
			}
			return simulated.None
		})
		if _, err := transfer.Import(t.Context(), mover, bytes.NewReader(file), "test", quiet); err == nil {
			t.Fatal("the import has not died")
		}
		done()
		l.Strike(nil)
		l.fit.Placing = places[1-i]
		mover, done = l.open(t)
		_, err := transfer.Import(t.Context(), mover, bytes.NewReader(file), "test", quiet)
		if done(); !transfer.IsRefused(err) || !strings.Contains(err.Error(), "--place "+string(placing)) {
			t.Errorf("by %s after %s: %v; it has %d messages, of %d", places[1-i], placing, err,
				len(l.content(t).messages), len(e.messages))
			continue
		}
		l.fit.Placing = placing
		l.fill(t, file)
		in := l.content(t)
		in.queues = e.queues
		same(t, "the journal", in, e, true)
	}
}

// TestJournalAnsweredTwice has one name be given to two requests, for messages of two partitions. Goal: the export has
// the answer of the first one, once, also where a page ends between them; other stores take one answer for a name.
func TestJournalAnsweredTwice(t *testing.T) {
	l := newLedgers(2)
	request := uuid.UUID{7}
	for number := range int32(2) {
		l.node(t, number, func(store *journal.Store, from node.Place) {
			item := node.Item{Epoch: from.Epoch, Offset: from.Offset, Action: node.Schedule, Message: node.Message{
				ID: fmt.Sprint("of ", number), Lane: "topic", Incarnation: uuid.New(),
				Deadline: time.UnixMicro(1).UTC(),
			}}
			item.Request = &node.Request{ID: request, Keep: time.Hour, Ask: item.Incarnation}
			_, err := store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: []node.Item{item}})
			check(t, err)
		})
	}
	mover, done := l.open(t)
	defer done()
	for limit := range 3 {
		told, err := mover.Told(t.Context(), uuid.Nil, limit+1)
		check(t, err)
		if len(told) != 1 || told[0].Told.Message.ID != "of 0" {
			t.Fatalf("%d at most: %+v", limit+1, told)
		}
		if rest, err := mover.Told(t.Context(), request, limit+1); err != nil || len(rest) > 0 {
			t.Fatalf("behind it: %+v, %v", rest, err)
		}
	}
	var answers int
	for line := range strings.Lines(string(l.export(t))) {
		answers += strings.Count(line, `{"answer":`)
	}
	if answers != 1 {
		t.Errorf("%d answers are exported", answers)
	}
}

// TestJournalLopsided imports messages of which all go to one partition, for many batches; and into a journal of
// another input topic of the same name, where it does not matter that they came from the other partition. One without a
// key has no place there, and a position that is of that topic is kept.
func TestJournalLopsided(t *testing.T) {
	e := keyed(t, 2100)
	l := newLedgers(2)
	number := l.fit.Choose([]byte("key"))
	for i := range e.messages {
		e.messages[i].Key = []byte("key")
		e.messages[i].Origin = node.Origin{Topic: "in", Partition: 1 - number, Offset: int64(i)}
	}
	l.fit.Input.TopicID, l.fit.OtherInput, l.fit.Placing = uuid.UUID{8}, true, journal.PlaceSame
	e.places[1].TopicID = l.fit.Input.TopicID
	l.fill(t, e.file(t))
	if in := l.content(t); len(in.places) != 1 || in.places[0] != e.places[1] || in.group != "" {
		t.Errorf("positions %+v of group %q", in.places, in.group)
	}
	if owned := l.whole(t, e.messages); owned != 2 {
		t.Fatalf("%d partitions are open", owned)
	}
	e.messages[7].Key = nil
	fit := l.fit
	_, _, err := transfer.CheckFor(bytes.NewReader(e.file(t)), quiet, &fit)
	check(t, err)
	if err := fit.Refusal(); !transfer.IsRefused(err) || !strings.Contains(err.Error(), "1 messages without a key") {
		t.Errorf("of another input: %v", err)
	}
}
