package journal_test

import (
	"context"
	"errors"
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

// troubled is a group that has something to complain of, as a source has while a partition of some input topic has no
// leader, or while one of the topics is forbidden: each poll in which nothing comes is an error, unless it was ended.
type troubled struct{ *group }

// Poll implements node.Source.
func (g troubled) Poll(ctx context.Context) (node.Batch, error) {
	select {
	case b := <-g.batches:
		return b, nil
	default:
	}
	if ctx.Err() == nil {
		return node.Batch{}, errors.New("input topic payments.in partition 0 has no leader")
	}
	return node.Batch{}, nil
}

// What is wrong with one input topic does not keep a node from what it has of another one: an attempt to own a
// partition that failed is repeated, and a partition that was lost is owned anew, though each poll says what is wrong.
func TestSourceBesideTrouble(t *testing.T) {
	t.Parallel()
	cluster, clock := newInputs(), storetest.NewClock()
	store := open(t, inputsConfig(cluster, clock, t.TempDir(), ordersIn, paymentsIn))
	g := troubled{&group{batches: make(chan node.Batch, 1)}}
	attempts := 0
	source := journal.NewSource(g, store, uuid.New(), session, func(int32, error) { attempts++ })
	t.Cleanup(source.Close)
	orders := inputsOf()[0]
	// until polls until the node is told of a partition, with the clock ahead of any wait.
	until := func(told func(node.Batch) []node.Partition) {
		t.Helper()
		for began := time.Now(); time.Since(began) < soon; clock.Advance(time.Second) {
			b, err := source.Poll(t.Context())
			if err != nil {
				continue
			}
			if all := told(b); len(all) == 1 && all[0] == orders {
				return
			}
		}
		t.Fatalf("the node is never told of %s/%d, after %d attempts to own it", orders.Topic, orders.Number, attempts)
	}
	assigned := func(b node.Batch) (all []node.Partition) {
		for _, a := range b.Assigned {
			all = append(all, a.Partition)
		}
		return all
	}
	cluster.Strike(func(simulated.Step) simulated.Fault {
		cluster.Strike(nil)
		return simulated.Lost
	})
	g.batches <- node.Batch{Assigned: []node.Assignment{{Extent: node.Extent{Partition: orders}}}}
	until(assigned)
	if attempts != 2 {
		t.Fatalf("%d attempts, want the one that fails and another one", attempts)
	}
	cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At == simulated.Ending {
			return simulated.Unanswered
		}
		return simulated.None
	})
	if _, _, err := store.Positions(t.Context(), []node.Place{{Partition: orders}}); err == nil {
		t.Fatal("the outcome is known")
	}
	cluster.Strike(nil)
	until(func(b node.Batch) []node.Partition { return b.Revoked })
	until(assigned)
	if _, err := source.Poll(t.Context()); err == nil {
		t.Error("nobody is told what is wrong with the other topic")
	}
}

// A journal of several that can't be seen keeps nobody from what he has of another one: its wishes are done, requests
// are made, since a look shows whose the partition is, and a standby's copy stays young. Who asks for a pause is told
// that not all owners were asked, and so is whoever looks.
func TestInputsBesideUnseen(t *testing.T) {
	t.Parallel()
	const lane = node.CallbackPrefix + "bills"
	cluster, clock := newInputs(), storetest.NewClock()
	config := inputsConfig(cluster, clock, t.TempDir(), ordersIn, paymentsIn)
	store := open(t, config)
	board := journal.NewSwitchboard(config.Ledger, inputPoster{cluster}, journal.AskerLimits{})
	t.Cleanup(board.Close)
	store.SwitchBy(board)
	orders := inputsOf()[0]
	bring(t, store, clock, orders, config.Inputs...)
	bringTo(t, store, clock, lane, orders)
	standby := open(t, inputsConfig(cluster, clock, t.TempDir(), config.Inputs...))
	follower := journal.NewFollower(standby, 0)
	follower.Round(t.Context())
	cluster.DeleteTopic(journalOf(paymentsIn))
	clock.Advance(time.Minute)
	paused, err := journal.Wish(uuid.New(), output, true)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Append(journalOf(ordersIn), 0, paused)
	if err := store.Hear(t.Context()); err == nil {
		t.Error("nobody is told that a journal can't be seen")
	}
	if got, err := store.Pauses(t.Context()); err != nil || len(got) != 1 || got[0].Lane != output {
		t.Errorf("paused: %+v, %v; want %s", got, err, output)
	}
	claimed, err := store.Claim(t.Context(), node.ClaimRequest{
		Until: clock.Now(), Lanes: []node.Share{{Lane: lane, Limit: 9, Bytes: 9}},
	})
	if err != nil || len(claimed.Messages) != 1 {
		t.Errorf("claimed for requests: %+v, %v; want one", claimed.Messages, err)
	}
	standbys, _ := follower.Round(t.Context())
	if len(standbys) != len(inputsOf()) {
		t.Fatalf("the standby says %+v", standbys)
	}
	for _, said := range standbys {
		at, _ := ledger.Split(said.Number)
		if !said.Warm || (said.Err != nil) != (at == 1) {
			t.Errorf("the standby says of %s: %+v", ledger.Name(said.Number), said)
		}
	}
	if _, err := store.Pause(t.Context(), node.Pause{Lane: lane}); err == nil {
		t.Error("a pause is answered, and nobody has asked the owners of the second journal")
	}
}

// A journal with more partitions than a node asks at the same time is paused all the same: who asks for the others
// waits for those before them.
func TestPauseOfMany(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	board := journal.NewSwitchboard(
		h.cluster.Ledger(topicName, "chronos"), poster{h.cluster}, journal.AskerLimits{Most: 1},
	)
	t.Cleanup(board.Close)
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	for _, store := range h.stores {
		store.SwitchBy(board)
		listening.Go(func() { store.Listen(ctx, time.Millisecond) })
	}
	defer listening.Wait()
	defer stop()
	for range 3 {
		if _, err := h.stores[0].Pause(ctx, node.Pause{Lane: output}); err != nil {
			t.Fatalf("%d partitions: %v", len(h.stores), err)
		}
	}
}

// A new owner does what was wished before in the order in which it came, and answers all of it.
func TestWishesInOrder(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	names := []uuid.UUID{h.wish(0, output, true), h.wish(0, output, false), h.wish(0, output, true)}
	own(t, h.stores[1], 0)
	for i, name := range names {
		if !granted(h.cluster, name) {
			t.Errorf("nobody has answered wish %d of %d", i+1, len(names))
		}
	}
	if got, err := h.stores[1].Pauses(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("paused: %+v, %v; want what was wished last", got, err)
	}
}

// forgetful loses the first wish of a partition, as an owner does that ends before it has looked.
type forgetful struct {
	poster

	sent atomic.Int32
}

// Send implements journal.Poster.
func (f *forgetful) Send(ctx context.Context, number int32, record node.Record) error {
	if f.sent.Add(1) == 1 {
		return nil
	}
	return f.poster.Send(ctx, number, record)
}

// A wish that was missed is sent again, and then done.
func TestWishMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	board := journal.NewSwitchboard(
		w.cluster.Ledger(topicName, "chronos"), &forgetful{poster: poster{w.cluster}}, journal.AskerLimits{Wait: soon},
	)
	t.Cleanup(board.Close)
	w.stores[0].SwitchBy(board)
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { w.stores[0].Listen(ctx, time.Millisecond) })
	defer listening.Wait()
	defer stop()
	if _, err := w.stores[0].Pause(ctx, node.Pause{Lane: output}); err != nil {
		t.Errorf("a wish was missed: %v", err)
	}
}
