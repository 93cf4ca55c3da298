package journal_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
)

// A clock that was ahead, and is put right, does not make an old local copy young: such a copy may have missed
// tombstones that compaction has removed since. Method: the first node takes messages in while its clock is ahead; the
// second one fires some of them, and their tombstones go. The first one is then back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	items := w.records()
	own(t, w.stores[0], 0)
	w.clock.Advance(24 * time.Hour)
	w.take(w.stores[0], 0, items)
	w.clock.Advance(-24 * time.Hour)
	own(t, w.stores[1], 0)
	w.clock.Advance(time.Hour) // what was taken in is due
	w.fire(w.stores[1], 5)
	w.clock.Advance(3 * time.Hour)
	w.cluster.Compact(topicName, 0, true)
	want := w.ids(w.stores[1])
	own(t, w.stores[0], 0)
	if got := w.ids(w.stores[0]); !slices.Equal(got, want) {
		t.Fatalf("the first node has %q again, and the journal says %q", got, want)
	}
}

// dated is a ledger that says when its entries were appended, by a clock that is right.
type dated struct {
	ledger.Ledger

	clock *storetest.Clock
	ends  *[]datedEnd
}

// datedEnd is where the log ended at an instant.
type datedEnd struct {
	offset int64
	at     time.Time
}

func (d dated) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	w, err := d.Ledger.Own(ctx, number, fence)
	if err != nil {
		return nil, err
	}
	*d.ends = append(*d.ends, datedEnd{w.Fence() + 1, d.clock.Now()})
	return datedWriter{w, d}, nil
}

func (d dated) Read(ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error) error {
	return d.Ledger.Read(ctx, from, until, func(e ledger.Committed) error {
		for _, end := range *d.ends {
			if e.Offset < end.offset {
				e.At = end.at
				break
			}
		}
		return each(e)
	})
}

type datedWriter struct {
	ledger.Writer

	dated dated
}

func (w datedWriter) Commit(ctx context.Context, transaction ledger.Transaction) (int64, error) {
	end, err := w.Writer.Commit(ctx, transaction)
	*w.dated.ends = append(*w.dated.ends, datedEnd{end, w.dated.clock.Now()})
	return end, err
}

// A clock that is set back by nearly as long as a local copy is old does not make that young: what was appended since
// tells. Method: a node takes messages in, and stands still for five hours, in which another one fires some of them and
// their tombstones go; the clock of the first one has been set back by more than four of them. Without a clock that is
// set back, and within MaxAge, the copy is good.
func TestClockSetBackByLess(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		w := newWorld(t)
		wrong := time.Duration(0)
		var ends []datedEnd
		var anew []bool
		log := dated{w.cluster.Ledger(topicName, "chronos"), w.clock, &ends}
		first := open(t, journal.Config{
			Ledger: log, Dir: t.TempDir(), Now: func() time.Time { return w.clock.Now().Add(-wrong) },
			Observe: func(r journal.Replay) { anew = append(anew, r.Anew) },
		})
		second := open(t, journal.Config{Ledger: log, Dir: t.TempDir(), Now: w.clock.Now})
		own(t, first, 0)
		w.take(first, 0, w.records())
		own(t, second, 0)
		w.fire(second, 5)
		if back {
			w.cluster.Compact(topicName, 0, true)
			w.clock.Advance(5 * time.Hour)
			wrong = 4*time.Hour + 30*time.Minute
			w.fire(second, 1) // the last that was appended, which compaction leaves
		}
		want := w.ids(second)
		anew = nil
		own(t, first, 0)
		if got := w.ids(first); !slices.Equal(got, want) || anew[len(anew)-1] != back {
			t.Errorf("set back %v: the first node has %q, want %q; made anew: %v", back, got, want, anew)
		}
	}
}

// hasty is a ledger that compares no epochs when there is nothing to read, as the one on Kafka does.
type hasty struct{ ledger.Ledger }

func (h hasty) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	if from.Offset >= until {
		return nil
	}
	return h.Ledger.Read(ctx, from, until, each)
}

// A local copy that ends behind the fence of the new owner is of another log, even if the end is the same: it can't
// have that fence. Method: the log loses an end, and fences of the other node make it longer again, by one after the
// other, until that of the first node ends where its copy does, and beyond.
func TestCopyOfSameLength(t *testing.T) {
	t.Parallel()
	for rounds := 1; rounds < 8; rounds++ {
		w := newWorld(t)
		first := open(t, journal.Config{
			Ledger: hasty{w.cluster.Ledger(topicName, "chronos")}, Dir: t.TempDir(), Now: w.clock.Now,
		})
		own(t, first, 0)
		w.take(first, 0, w.records())
		w.fire(first, 3)
		w.cluster.ChangeLeader(topicName, 0, 10)
		for range rounds {
			own(t, w.stores[1], 0)
		}
		want := w.ids(w.stores[1])
		own(t, first, 0)
		if got := w.ids(first); !slices.Equal(got, want) {
			t.Errorf("with %d fences: the first node has %q, and the journal says %q", rounds, got, want)
		}
	}
}

// Of two takes of one partition that share a transaction the second one is refused, as it is if they follow each other:
// otherwise the position would be where the slower one has left it, and what follows would be taken in twice. Method:
// while a transaction is on its way, a take of four records and one of their first two come.
func TestTwoTakesTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	items := w.records()
	w.take(store, 0, items[:1])
	from := node.Place{Partition: input(), Position: node.Position{Epoch: 1, Offset: 1}}
	var takes sync.WaitGroup
	var errs [2]error
	begun := false
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Appending || begun {
			return simulated.None
		}
		begun = true
		for i, until := range []int{5, 3} {
			takes.Go(func() {
				_, errs[i] = store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: items[1:until]})
			})
			for store.Waiting(0) <= i && t.Context().Err() == nil {
				runtime.Gosched()
			}
		}
		return simulated.None
	})
	if err := publish(t.Context(), store, items[0].Message); err != nil {
		t.Fatal(err)
	}
	takes.Wait()
	positions, _, err := store.Positions(t.Context(), []node.Place{from})
	if err != nil || positions[0].Offset != 5 {
		t.Errorf("the position is %v, %v, want that behind the longer take", positions, err)
	}
	if errs[0] != nil || errs[1] == nil {
		t.Errorf("the first take: %v, the second one: %v", errs[0], errs[1])
	}
}

// What a takeover holds in memory is bounded by bytes, and not by entries alone, which have up to 900 kB each.
func TestReplayIsBounded(t *testing.T) {
	t.Parallel()
	cluster := simulated.New()
	cluster.CreateTopic(topicName, 1, 0)
	w := &world{T: t, cluster: cluster}
	const messages, size = 40, 800 << 10
	var read []int64
	for i := range 2 {
		store := open(t, journal.Config{
			Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(),
			Observe: func(r journal.Replay) { read = append(read, r.Read) },
		})
		w.clock = storetest.NewClock()
		read = nil
		own(t, store, 0)
		if i > 0 {
			break
		}
		var items []node.Item
		for n := range int64(messages) {
			m := w.message(fmt.Sprint(n))
			m.Value = make([]byte, size)
			items = append(items, node.Item{Epoch: 1, Offset: n, Action: node.Schedule, Message: m})
		}
		w.take(store, 0, items)
	}
	for i := 1; i < len(read); i++ {
		if held := (read[i] - read[i-1]) * size; held > 16<<20 {
			t.Errorf("%d bytes were held in memory before they were written: read %v", held, read)
		}
	}
	if len(read) < 2 {
		t.Errorf("all %d bytes were held in memory before they were written", messages*size)
	}
}

// A partition that is lost as its first position is kept has a position all the same, the one that it would have had:
// the engine asks until it is answered, and hears of the loss in a poll only. Nothing is taken in there.
func TestLostBeforeItsPosition(t *testing.T) {
	t.Parallel()
	for _, fault := range []simulated.Fault{simulated.Lost, simulated.Unanswered} {
		w := newWorld(t)
		store := w.stores[0]
		own(t, store, 0)
		w.cluster.Strike(func(step simulated.Step) simulated.Fault {
			if step.At == simulated.Ending {
				return fault
			}
			return simulated.None
		})
		place := node.Place{Partition: input(), Position: node.Position{Epoch: -1, Offset: 7}}
		if _, _, err := store.Positions(t.Context(), []node.Place{place}); err == nil {
			t.Fatal("the outcome is known")
		}
		w.cluster.Strike(nil)
		positions, _, err := store.Positions(t.Context(), []node.Place{place})
		if err != nil || positions[0] != place.Position {
			t.Fatalf("fault %v: the engine would ask on forever: %v, %v", fault, positions, err)
		}
		result, err := store.Take(t.Context(), node.TakeRequest{From: []node.Place{place}, Items: []node.Item{{
			Epoch: 1, Offset: 7, Action: node.Schedule, Message: w.message("a"),
		}}})
		if err != nil || !result.Refused[0] {
			t.Fatalf("fault %v: a take of what is lost: %+v, %v", fault, result, err)
		}
		own(t, store, 0)
		w.take(store, 7, nil)
	}
}

// A partition whose transactions take long, because a broker is away, holds up nobody who fires and settles what is in
// others. Method: while a transaction of partition 1 is on its way, messages of partition 0 are fired and deleted; none
// of that waits for partition 1.
func TestPartitionsApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster.CreateTopic(topicName, 2, 0)
	store := w.stores[0]
	own(t, store, 0, 1)
	items := w.records()
	w.take(store, 0, items[:2])
	claimed, err := store.Claim(t.Context(), node.ClaimRequest{
		Until: w.clock.Now(), Lanes: []node.Share{{Lane: output, Limit: 1, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 1 {
		t.Fatal(claimed, err)
	}
	other := node.Place{Partition: node.Partition{TopicID: input().TopicID, Number: 1}}
	begun := false
	var work sync.WaitGroup
	var over atomic.Bool
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Appending || step.Number != 1 || begun {
			return simulated.None
		}
		begun = true
		work.Go(func() {
			defer over.Store(true)
			reset, err := store.Reset(t.Context(), []node.Release{{Claim: claimed.Messages[0].Claim}})
			if err != nil || reset[0] != node.Freed {
				t.Errorf("reset: %v, %v", reset, err)
			}
			if err := publish(t.Context(), store, items[0].Message); err != nil {
				t.Error(err)
			}
			deleted, err := store.Settle(t.Context(), node.Removals(items[1].Ref()))
			if err != nil || deleted[0] != node.Removed {
				t.Errorf("delete: %v, %v", deleted, err)
			}
		})
		for spins := 0; !over.Load(); spins++ {
			if store.Waiting(1) > 0 || spins > 5_000_000 {
				t.Error("what is of partition 0 waits for partition 1")
				return simulated.None
			}
			runtime.Gosched()
		}
		return simulated.None
	})
	if _, _, err := store.Positions(t.Context(), []node.Place{other}); err != nil || !begun {
		t.Fatalf("there was no transaction: %v", err)
	}
	work.Wait()
}

// Whoever waited for a partition as it was given up changes nothing of it.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	late := w.stores[0].Late(0)
	w.stores[0].Release(0)
	before := len(w.cluster.Records(topicName, false))
	if err := late(t.Context()); !errors.Is(err, ledger.ErrAborted) {
		t.Errorf("a transaction of what is given up: %v", err)
	}
	if after := len(w.cluster.Records(topicName, false)); after != before {
		t.Errorf("%d records were appended to what is given up", after-before)
	}
}

// A partition that the group takes away while it is being owned is not owned after that. Method: the attempt stands
// still where nothing asks for its context any more; the group takes the partition away; the attempt goes on.
func TestTakenAwayAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	store := open(t, journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: w.clock.Now,
		Observe: func(journal.Replay) {
			close(reached)
			<-goOn
		},
	})
	g := &group{batches: make(chan node.Batch, 1)}
	source := journal.NewSource(g, store, uuid.New(), session, func(int32, error) {})
	g.batches <- assignment()
	if _, err := source.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-reached
	g.batches <- node.Batch{Revoked: []node.Partition{input()}}
	polled := make(chan error, 1)
	go func() {
		_, err := source.Poll(t.Context())
		polled <- err
	}()
	for range 10000 { // a poll that does not wait for the attempt is over by then
		runtime.Gosched()
	}
	close(goOn)
	if err := <-polled; err != nil {
		t.Fatal(err)
	}
	source.Close() // waits for the attempt
	if _, _, err := store.Positions(t.Context(), []node.Place{{Partition: input()}}); err == nil {
		t.Error("what was taken away is owned")
	}
}

// An attempt to own a partition that failed is not repeated at once: each one fences whoever owns it.
func TestSourceRests(t *testing.T) {
	t.Parallel()
	s := newSourced(t)
	s.cluster.Strike(func(simulated.Step) simulated.Fault { return simulated.Lost })
	s.poll(assignment())
	for len(s.attempts) == 0 {
		if _, err := s.source.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if s.poll(node.Batch{}); s.source.Owning() != 0 {
			t.Fatal("the partition is owned anew at once")
		}
	}
	s.clock.Advance(time.Second)
	if s.poll(node.Batch{}); s.source.Owning() != 1 {
		t.Fatal("the partition is not owned anew a second later")
	}
}

// blaming is a ledger that blames all outputs of a transaction for one that is refused, as Kafka does with those of a
// batch.
type blaming struct{ ledger.Ledger }

func (b blaming) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	w, err := b.Ledger.Own(ctx, number, fence)
	return blamingWriter{w}, err
}

type blamingWriter struct{ ledger.Writer }

func (b blamingWriter) Commit(ctx context.Context, transaction ledger.Transaction) (int64, error) {
	end, err := b.Writer.Commit(ctx, transaction)
	if refusal, is := errors.AsType[*ledger.RefusedError](err); is {
		for i := range refusal.Errs {
			refusal.Errs[i] = node.RecordRejected
		}
	}
	return end, err
}

// Of a batch that is refused everything comes out that is not to blame, wherever in it the culprit stands.
func TestCulpritAnywhere(t *testing.T) {
	t.Parallel()
	for culprit := range 5 {
		w := newWorld(t)
		store := open(t, journal.Config{
			Ledger: blaming{w.cluster.Ledger(topicName, "chronos")}, Dir: t.TempDir(), Now: w.clock.Now,
		})
		own(t, store, 0)
		var items []node.Item
		var records []node.Record
		var next []node.Next
		for i := range int64(5) {
			m := w.message(fmt.Sprint(i))
			items = append(items, node.Item{Epoch: 1, Offset: i, Action: node.Schedule, Message: m})
			records = append(records, node.Record{Topic: output, Value: m.Value})
			next = append(next, node.Next{Of: m.Ref()})
		}
		records[culprit].Value = make([]byte, 2000)
		w.take(store, 0, items)
		settled, errs := store.Fire(t.Context(), records, next)
		for i, err := range errs {
			rejected := node.KindOf(err) == node.RecordRejected
			if rejected != (i == culprit) || !rejected && err != nil ||
				!rejected && settled[i] != node.Removed {
				t.Errorf("message %d is to blame, and message %d: %v, %v", culprit, i, settled[i], err)
			}
		}
		if got := w.came(); len(got) != 4 {
			t.Errorf("message %d is to blame, and %q came out", culprit, got)
		}
	}
}

// What may have come out is not said to be unsent, and what has not, is.
func TestUnknownIsNotUnsent(t *testing.T) {
	t.Parallel()
	for at, unsent := range map[simulated.At]bool{simulated.Appending: true, simulated.Ending: false} {
		w := newWorld(t)
		own(t, w.stores[0], 0)
		items := w.records()
		w.take(w.stores[0], 0, items[:1])
		w.cluster.Strike(func(step simulated.Step) simulated.Fault {
			if step.At == at {
				return simulated.Unanswered
			}
			return simulated.None
		})
		err := publish(t.Context(), w.stores[0], items[0].Message)
		if err == nil || node.KindOf(err).Untried() != unsent {
			t.Errorf("at step %v: %v, unsent: want %v", at, err, unsent)
		}
	}
}
