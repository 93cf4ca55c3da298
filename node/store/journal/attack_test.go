package journal_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
			t.Fatalf("fault %v: the engine would ask on for ever: %v, %v", fault, positions, err)
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
			if err := publish(t.Context(), store, items[0].Message); err != nil {
				t.Error(err)
			}
			deleted, err := store.Delete(t.Context(), []node.Ref{items[1].Ref()})
			if err != nil || !deleted[0] {
				t.Errorf("delete: %v, %v", deleted, err)
			}
		})
		for !over.Load() && t.Context().Err() == nil {
			if store.Waiting(1) > 0 {
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
