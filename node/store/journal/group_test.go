package journal_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// What comes while a transaction is on its way is in the next one, all of it; and if one part of that is refused, the
// others come out nevertheless. Method: while the first message is fired, a take and two fires come, of which one is
// larger than its topic takes.
func TestTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	from := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch}}
	if _, _, err := store.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	take := func(messages ...node.Message) {
		t.Helper()
		request := node.TakeRequest{From: []node.Place{from}}
		for _, m := range messages {
			request.Items = append(request.Items, node.Item{
				Epoch: 1, Offset: from.Offset, Action: node.Schedule, Message: m,
			})
			from.Offset++
		}
		result, err := store.Take(t.Context(), request)
		if err != nil || result.Taken != len(messages) {
			t.Errorf("take: %+v, %v", result, err)
			return
		}
		from.Position = result.Positions[0]
	}
	first, second, large, last := w.message("first"), w.message("second"), w.message("large"), w.message("last")
	large.Value = make([]byte, 2000)
	take(first, second, large)

	var others sync.WaitGroup
	var refused error
	transactions := 0
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Appending {
			return simulated.None
		}
		if transactions++; transactions > 1 {
			return simulated.None
		}
		others.Go(func() { take(last) })
		others.Go(func() { refused = publish(t.Context(), store, large) })
		others.Go(func() {
			if err := publish(t.Context(), store, second); err != nil {
				t.Errorf("what is not to blame: %v", err)
			}
		})
		for store.Waiting(0) < 3 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		return simulated.None
	})
	if err := publish(t.Context(), store, first); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	if node.KindOf(refused) != node.RecordRejected {
		t.Errorf("what is too large: %v", refused)
	}
	if want := 1 + 1 + 3; transactions != want {
		t.Errorf("there were %d transactions, want %d: the first, the one of all three, and one for each", transactions,
			want)
	}
	claimed, err := store.Claim(t.Context(), node.ClaimRequest{
		Hold: time.Minute, Until: w.clock.Now(), Lanes: []node.Share{{Lane: output, Limit: 9, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 2 {
		t.Errorf("%d messages wait, want the large one and the last: %v", len(claimed.Messages), err)
	}
	if got, want := w.came(), []string{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("came out: %v, want %v", got, want)
	}
}

// While no broker takes a transaction, those who wait for the partition share one try, and do not wait for one try
// each: a try may last as long as a transaction may.
func TestAwayTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	items := w.records()
	w.take(store, 0, items)
	var others sync.WaitGroup
	transactions := 0
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Appending {
			return simulated.None
		}
		if transactions++; transactions > 1 {
			return simulated.Lost
		}
		for _, item := range items[:2] {
			others.Go(func() {
				if err := publish(t.Context(), store, item.Message); !node.KindOf(err).Untried() {
					t.Errorf("no broker takes %s: %v", item.ID, err)
				}
			})
		}
		for store.Waiting(0) < 2 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		return simulated.None
	})
	if err := publish(t.Context(), store, items[4].Message); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	if transactions != 2 {
		t.Errorf("there were %d transactions, want 2: one, and a try of all who waited", transactions)
	}
}

// A partition whose writer could not abort what it had begun is owned anew, and at once: nobody else owns it.
func TestSpent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	items := w.records()
	w.take(store, 0, items[:1])
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		switch step.At {
		case simulated.Appending:
			return simulated.Unanswered
		case simulated.Aborting:
			return simulated.Lost
		default:
			return simulated.None
		}
	})
	if err := publish(t.Context(), store, items[0].Message); !node.KindOf(err).Untried() {
		t.Errorf("what could not be aborted has not come out, and never will: %v", err)
	}
	w.cluster.Strike(nil)
	if got, want := store.Lost(), []journal.Loss{{Number: 0}}; !slices.Equal(got, want) {
		t.Fatalf("lost: %v, want %v", got, want)
	}
	own(t, store, 0)
	if err := publish(t.Context(), store, items[0].Message); err != nil {
		t.Fatal(err)
	}
	if got, want := w.came(), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("came out: %v, want %v", got, want)
	}
}

// A transaction waits for as long as the one before took, however long it may wait; and not after the first.
func TestSpacing(t *testing.T) {
	t.Parallel()
	cluster := simulated.New()
	cluster.CreateTopic(topicName, 1, 0)
	store := open(t, journal.Config{
		Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Spacing: time.Hour,
	})
	own(t, store, 0)
	from := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch}}
	if _, _, err := store.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	const takes = 20 * time.Millisecond
	cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Ending {
			<-time.After(takes)
		}
		return simulated.None
	})
	began := time.Now()
	for i := range int64(4) {
		result, err := store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: []node.Item{{
			Epoch: 1, Offset: i, Action: node.Pass,
		}}})
		if err != nil || result.Refused[0] {
			t.Fatalf("take: %+v, %v", result, err)
		}
		from.Position = result.Positions[0]
	}
	if took := time.Since(began); took < 7*takes {
		t.Errorf("four transactions and three rests took %v, want %v at least", took, 7*takes)
	}
}

// The rest of a partition is bounded, however long its last transaction took: nobody waits for a deadline or an answer
// any longer because a broker is slow. Behind many entries there is none.
func TestRestIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 20 * time.Millisecond
	began := time.Now()
	for _, c := range []struct {
		took  time.Duration
		moved int
		rests time.Duration
	}{
		{0, 1, 0},
		{time.Millisecond, 1, time.Millisecond},
		{bound / 2, 1, bound / 2},
		{bound * 3 / 4, 1, bound / 4},
		{bound, 1, 0},
		{5 * time.Second, 1, 0},
		{bound / 2, journal.Crowd - 1, bound / 2},
		{bound / 2, journal.Crowd, 0},
	} {
		ended := began.Add(c.took)
		if rests := max(0, journal.RestsUntil(began, ended, c.moved, bound).Sub(ended)); rests != c.rests {
			t.Errorf("behind %d entries in %v it rests for %v, want %v", c.moved, c.took, rests, c.rests)
		}
	}
}

// Who gives up does not end the transaction that he makes for others as well. Method: while the first message is fired,
// somebody who then gives up settles the second one, and behind him the third one is fired.
func TestGivingUpTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	items := w.records()
	w.take(store, 0, items)
	var others sync.WaitGroup
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	first := true
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Appending || !first {
			return simulated.None
		}
		first = false
		waits := func(n int) {
			for store.Waiting(0) < n && t.Context().Err() == nil {
				runtime.Gosched()
			}
		}
		others.Go(func() { _, _ = store.Settle(leaving, node.Removals(items[1].Ref())) })
		waits(1)
		others.Go(func() {
			if err := publish(t.Context(), store, items[4].Message); err != nil {
				t.Errorf("somebody else has given up: %v", err)
			}
		})
		waits(2)
		leave()
		return simulated.None
	})
	if err := publish(t.Context(), store, items[0].Message); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	if got, want := w.came(), []string{items[0].ID, items[4].ID}; !slices.Equal(got, want) {
		t.Errorf("came out: %v, want %v", got, want)
	}
}
