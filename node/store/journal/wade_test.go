package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// What is removed at the beginning of an index stays in the local copy until its next compaction, and everybody who
// begins there steps over it. These count the steps of as many calls as there was removed.

// Requests remove the answers that have expired, a few each. They step over what was removed once, and not each anew.
// Then an answer that expires before the others, since the clock was set back, is removed in its turn.
func TestSweepsStepOverOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, journal.AskerLimits{})
	const many = 1000
	request := func(keep time.Duration) node.Item {
		item := d.submission(node.Cancel, "none")
		item.Incarnation = uuid.New()
		item.Request = &node.Request{ID: uuid.New(), Print: uuid.UUID{1}, Keep: keep, Ask: item.Incarnation}
		return item
	}
	take := func(items ...node.Item) {
		t.Helper()
		for _, item := range items {
			d.sent <- item
		}
		if err := d.take(0, len(items)); err != nil {
			t.Fatal(err)
		}
	}
	for range many / 10 {
		var items []node.Item
		for range 10 {
			items = append(items, request(time.Minute))
		}
		take(items...)
	}
	d.clock.Advance(2 * time.Minute)
	before := d.stores[0].Steps()
	for range many / 2 { // twice as many as it takes to remove all of them
		take(request(time.Hour))
	}
	if steps := d.stores[0].Steps() - before; steps > 10*many {
		t.Errorf("%d requests have stepped over %d keys, where %d answers had expired", many/2, steps, many)
	}
	if left := d.answers(); left != many/2 {
		t.Errorf("%d answers are kept, want those of the last %d requests", left, many/2)
	}
	d.clock.Advance(-time.Minute)
	take(request(time.Second))
	d.clock.Advance(time.Minute)
	take(request(time.Hour))
	if left := d.answers(); left != many/2+1 {
		t.Errorf("%d answers are kept: that of the clock which was set back is not removed", left)
	}
}

// answers returns how many answers the first store has.
func (d *desk) answers() int {
	d.Helper()
	count := 0
	for _, r := range d.cluster.Records(topicName, true) {
		if len(r.Key) == 17 && r.Key[0] == 'a' {
			if r.Value == nil {
				count--
			} else {
				count++
			}
		}
	}
	return count
}

// A line in which one message after the other is settled is stepped over once, and what comes in before the first one
// is found nevertheless.
func TestLinesAreSteppedOverOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	const many = 1000
	for i := range int64(many) {
		m := w.message(fmt.Sprintf("%04d", i))
		m.Line = uuid.UUID{15: 7}
		w.take(store, i, []node.Item{{Epoch: 1, Offset: i, Action: node.Schedule, Message: m}})
	}
	next := func(id string) {
		t.Helper()
		result, err := store.Claim(t.Context(), node.ClaimRequest{
			Node: uuid.UUID{2}, Hold: time.Minute, Until: w.clock.Now(),
			Lanes: []node.Share{{Lane: output, Limit: 1, Bytes: 1 << 20}},
		})
		if err != nil || len(result.Messages) != 1 || result.Messages[0].ID != id ||
			result.Messages[0].Turn != node.ItsTurn {
			t.Fatalf("claimed %+v, %v, want message %s, whose turn it is", result.Messages, err, id)
		}
		deleted, err := store.Settle(t.Context(), node.Removals(result.Messages[0].Ref()))
		if err != nil || deleted[0] != node.Removed {
			t.Fatalf("delete: %v, %v", deleted, err)
		}
	}
	before := store.Steps()
	for i := range many / 2 {
		next(fmt.Sprintf("%04d", i))
	}
	if steps := store.Steps() - before; steps > 20*many {
		t.Errorf("%d messages of one line that were settled have stepped over %d keys", many/2, steps)
	}
	early := w.message("0000")
	early.Line, early.Deadline = uuid.UUID{15: 7}, early.Deadline.Add(-time.Hour)
	w.take(store, many, []node.Item{{Epoch: 1, Offset: many, Action: node.Schedule, Message: early}})
	next("0000")
	next(fmt.Sprintf("%04d", many/2))
}

// ends is a journal that counts how often somebody has asked for an end, which is how reading begins.
type ends struct {
	ledger.Ledger

	asked int
}

func (e *ends) End(ctx context.Context, number int32) (ledger.Place, error) {
	e.asked++
	return e.Ledger.End(ctx, number)
}

// silent is a sender whose records nobody takes in.
type silent struct{}

func (silent) Partition(context.Context, string, []byte) (int32, error) { return 0, nil }

func (silent) Send(context.Context, int32, node.Record) error { return nil }

// A partition is read until nobody has waited for as long as there is to linger, whoever has waited before.
func TestAskerLingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := simulated.New()
		cluster.CreateTopic(topicName, 1, 0)
		log := &ends{Ledger: cluster.Ledger(topicName, "asker")}
		const linger = 30 * time.Second
		asker := journal.NewAsker(log, silent{}, marks(), journal.AskerLimits{Wait: time.Second, Linger: linger})
		defer asker.Close()
		ask := func() {
			t.Helper()
			item := node.Item{Message: node.Message{ID: "x", Lane: output, Incarnation: uuid.New()}}
			item.Action, item.Request = node.Cancel, &node.Request{ID: uuid.New(), Ask: item.Incarnation}
			if _, err := asker.Ask(t.Context(), item, node.Record{}); !errors.Is(err, journal.ErrUnheard) {
				t.Fatalf("the error is %v, want that nobody has answered", err)
			}
		}
		for range 4 { // what the first one would linger is over before the third one
			ask()
			<-time.After(linger * 2 / 3)
		}
		if log.asked != 1 {
			t.Errorf("reading has begun %d times, while somebody asked all the time", log.asked)
		}
		<-time.After(linger)
		if ask(); log.asked != 2 {
			t.Errorf("reading has begun %d times, though nobody had asked for long", log.asked)
		}
	})
}
