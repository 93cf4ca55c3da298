package journal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
)

// output is the topic that messages come out on.
const output = "output"

// input is partition 0 of the input topic, whose records world takes in.
func input() node.Partition { return node.Partition{Topic: "input", TopicID: uuid.UUID{1}, Number: 0} }

// world is a cluster with two nodes, of which one after the other owns the partition, and a clock that stands still.
type world struct {
	*testing.T

	cluster *simulated.Cluster
	clock   *storetest.Clock
	stores  []*journal.Store
	drawn   byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cluster: simulated.New(), clock: storetest.NewClock()}
	w.cluster.CreateTopic(topicName, 1, 0)
	w.cluster.CreateTopic(output, 3, 1000)
	for range 2 {
		w.stores = append(w.stores, open(t, journal.Config{
			Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: w.clock.Now,
		}))
	}
	return w
}

// message returns a message that is due now.
func (w *world) message(id string) node.Message {
	w.drawn++
	return node.Message{
		ID: id, Lane: output, Incarnation: uuid.UUID{1, 15: w.drawn},
		Deadline: w.clock.Now().UTC().Truncate(time.Microsecond), Value: []byte(id),
	}
}

// records are what stands on the input: ids from a to l, of which c is cancelled again, and d is submitted twice. Some
// are so large that they are kept apart.
func (w *world) records() []node.Item {
	var items []node.Item
	for _, id := range []string{"a", "b", "c", "d", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		items = append(items, node.Item{
			Epoch: 1, Offset: int64(len(items)), Action: node.Schedule, Message: w.message(id), Claim: id == "e",
		})
		if id >= "c" && id <= "g" {
			items[len(items)-1].Key = make([]byte, journal.Large)
		}
		if id == "c" {
			items = append(items, node.Item{
				Epoch: 1, Offset: int64(len(items)), Action: node.Cancel, Message: node.Message{ID: id, Lane: output},
			})
		}
	}
	return items
}

// live is what a node does, as far as the store is concerned, until all of the input is taken in and fired: after each
// error it goes on as the engine does. It owns the partition when it begins, and whenever that is lost.
func (w *world) live(ctx context.Context, store *journal.Store, items []node.Item) error {
	me := uuid.UUID{2}
	if err := store.Own(ctx, 0, me); err != nil {
		return err
	}
	positions, _, err := store.Positions(ctx, []node.Place{{Partition: input(), Position: node.Position{Epoch: -1}}})
	if err != nil {
		return err
	}
	for from := positions[0]; int(from.Offset) < len(items); {
		part := items[from.Offset:min(len(items), int(from.Offset)+5)]
		result, err := store.Take(ctx, node.TakeRequest{
			Node: me, Hold: time.Minute, From: []node.Place{{Partition: input(), Position: from}}, Items: part,
		})
		if err != nil {
			return err
		}
		if result.Refused[0] {
			return errors.New("the take is refused")
		}
		from = result.Positions[0]
		for i, one := range result.Results {
			if one.Claim.ReadiedBy == me {
				if err := publish(ctx, store, part[i].Message); err != nil {
					return err
				}
			}
		}
	}
	for {
		claimed, err := store.Claim(ctx, node.ClaimRequest{
			Node: me, Hold: time.Minute, Until: w.clock.Now(),
			Lanes: []node.Share{{Lane: output, Limit: 4, Bytes: 1 << 20}},
		})
		if err != nil || len(claimed.Messages) == 0 {
			return err
		}
		var messages []node.Message
		for _, m := range claimed.Messages {
			messages = append(messages, m.Message)
		}
		if err := publish(ctx, store, messages...); err != nil {
			return err
		}
	}
}

// publish fires messages.
func publish(ctx context.Context, store *journal.Store, messages ...node.Message) error {
	records, next := make([]node.Record, len(messages)), make([]node.Next, len(messages))
	for i, m := range messages {
		records[i], next[i] = node.Record{Topic: output, Value: m.Value}, node.Next{Of: m.Ref()}
	}
	_, errs := store.Fire(ctx, records, next)
	return errors.Join(errs...)
}

// came returns what a consumer sees that reads what was committed, sorted.
func (w *world) came() []string {
	var values []string
	for _, r := range w.cluster.Records(output, true) {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	return values
}

// once are the ids that come out, each once.
func once() []string { return []string{"a", "b", "d", "e", "f", "g", "h", "i", "j", "k", "l"} }

// S24: whatever goes wrong at whatever step, and also if the other node takes over there, or the first one is frozen
// there and goes on later, a consumer that reads what was committed sees each message once.
func TestEveryStep(t *testing.T) {
	t.Parallel()
	for _, fault := range []simulated.Fault{simulated.None, simulated.Lost, simulated.Unanswered} {
		for _, takeover := range []bool{false, true} {
			for step := 1; ; step++ {
				if !everyStep(newWorld(t), fault, takeover, step) {
					if step < 10 {
						t.Fatalf("there are only %d steps", step)
					}
					break
				}
			}
		}
	}
}

// everyStep has something happen at the step of that number, and reports whether there was one.
func everyStep(w *world, fault simulated.Fault, takeover bool, number int) (struck bool) {
	items := w.records()
	steps := 0
	w.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if steps++; steps != number || struck {
			return simulated.None
		}
		struck = true
		if takeover {
			w.cluster.Strike(nil)
			if err := w.live(w.Context(), w.stores[1], items); err != nil {
				w.Fatalf("the node that takes over at step %d, %v: %v", number, step, err)
			}
		}
		return fault
	})
	err := w.live(w.Context(), w.stores[0], items)
	if struck && takeover && !slices.Equal(w.came(), once()) {
		w.Fatalf("step %d, fault %v, takeover: %q came out; the first node says: %v", number, fault, w.came(), err)
	}
	for tries := 0; err != nil; tries++ {
		if tries > 3 {
			w.Fatalf("step %d, fault %v: %v", number, fault, err)
		}
		err = w.live(w.Context(), w.stores[0], items)
	}
	if !slices.Equal(w.came(), once()) {
		w.Fatalf("step %d, fault %v, takeover %v: %q came out, want %q", number, fault, takeover, w.came(), once())
	}
	if rows, err := w.stores[0].Dump(); err != nil || len(rows) != 0 {
		w.Fatalf("step %d: %d rows are left, %v", number, len(rows), err)
	}
	return struck
}

// A local copy goes on from where it was, and is made anew where it can't be trusted: each says the same as one that is
// made anew. The journal is compacted in between, once with the tombstones.
func TestLocalCopy(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world){
		"nothing has happened": func(*world) {},
		"the journal was compacted": func(w *world) {
			w.cluster.Compact(topicName, 0, false)
		},
		"tombstones are gone, and the copy is old": func(w *world) {
			w.cluster.Compact(topicName, 0, true)
			w.clock.Advance(2 * time.Hour)
		},
		"the journal has lost its end": func(w *world) { // fences, markers, tombstones of both nodes
			w.cluster.ChangeLeader(topicName, 0, 9)
		},
		"the journal has lost its end, and has another one that is longer": func(w *world) {
			w.cluster.ChangeLeader(topicName, 0, 20) // with some of what the first node has
			for range 20 {
				own(w.T, w.stores[1], 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			items := w.records()
			first, second := w.stores[0], w.stores[1]
			own(t, first, 0)
			w.take(first, 0, items[:8])
			own(t, second, 0) // what follows the first one has not seen
			w.take(second, 8, items[8:])
			w.fire(second, 3)
			spoil(w)
			own(t, first, 0)
			fresh := open(t, journal.Config{
				Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: w.clock.Now,
			})
			own(t, second, 0)
			own(t, fresh, 0)
			want := w.ids(fresh)
			for i, store := range w.stores {
				if got := w.ids(store); !slices.Equal(got, want) {
					t.Fatalf("node %d has %q, and one without a copy %q", i, got, want)
				}
			}
		})
	}
}

// A node that does not know yet that another one owns the partition writes to its local copy, which makes it no
// younger: it may have missed tombstones all the same. Method: the first node claims a message and stands still; the
// second one fires it, and two hours later the tombstone is gone; the first one gives its claim back, and owns the
// partition again.
func TestResetMakesNoCopyYounger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.stores[0], w.stores[1]
	own(t, first, 0)
	w.take(first, 0, w.records()[:1])
	claimed, err := first.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: w.clock.Now(),
		Lanes: []node.Share{{Lane: output, Limit: 1, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 1 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	own(t, second, 0)
	w.fire(second, 1)
	w.cluster.Compact(topicName, 0, true)
	w.clock.Advance(2 * time.Hour)
	if _, err := first.Reset(t.Context(), []node.Release{{Claim: claimed.Messages[0].Claim}}); err != nil {
		t.Fatal(err)
	}
	own(t, first, 0)
	if left := w.ids(first); len(left) > 0 {
		t.Errorf("the first node has %q, which has come out: %q", left, w.came())
	}
}

// take takes items in that begin at an offset.
func (w *world) take(store *journal.Store, offset int64, items []node.Item) {
	w.Helper()
	place := node.Place{Partition: input(), Position: node.Position{Epoch: -1, Offset: offset}}
	if _, _, err := store.Positions(w.Context(), []node.Place{place}); err != nil {
		w.Fatal(err)
	}
	result, err := store.Take(w.Context(), node.TakeRequest{From: []node.Place{place}, Items: items})
	if err != nil || result.Refused[0] {
		w.Fatalf("take: %+v, %v", result, err)
	}
}

// claim claims the first messages that are due, for a minute.
func (w *world) claim(store *journal.Store, limit int) []node.Ready {
	w.Helper()
	claimed, err := store.Claim(w.Context(), node.ClaimRequest{
		Hold: time.Minute, Until: w.clock.Now(), Lanes: []node.Share{{Lane: output, Limit: limit, Bytes: 1 << 20}},
	})
	if err != nil {
		w.Fatal(err)
	}
	return claimed.Messages
}

// fire fires the first messages that are due.
func (w *world) fire(store *journal.Store, limit int) {
	w.Helper()
	claimed, err := store.Claim(w.Context(), node.ClaimRequest{
		Until: w.clock.Now(), Lanes: []node.Share{{Lane: output, Limit: limit, Bytes: 1 << 20}},
	})
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range claimed.Messages {
		settled, errs := store.Fire(w.Context(),
			[]node.Record{{Topic: output, Value: m.Value}}, []node.Next{{Of: m.Ref()}})
		if errs[0] != nil || settled[0] != node.Removed {
			w.Fatalf("fire %s: %v, %v", m.ID, settled, errs)
		}
	}
}

// ids returns the messages of a store with their incarnations.
func (w *world) ids(store *journal.Store) []string {
	w.Helper()
	rows, err := store.Dump()
	if err != nil {
		w.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range rows {
		names[fmt.Sprint(r.ID, " ", r.Incarnation, " ", r.Due)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// An output that its topic refuses keeps nothing else from coming out, and is told from what was not tried.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	var items []node.Item
	var records []node.Record
	var next []node.Next
	for i := range 9 {
		m := w.message(fmt.Sprint("m", i))
		items = append(items, node.Item{Epoch: 1, Offset: int64(i), Action: node.Schedule, Message: m})
		records = append(records, node.Record{Topic: output, Value: m.Value})
		next = append(next, node.Next{Of: m.Ref()})
	}
	records[2].Value = make([]byte, 2000)
	records[5].Topic = "missing"
	w.take(w.stores[0], 0, items)
	_, errs := w.stores[0].Fire(t.Context(), records, next)
	for i, err := range errs {
		switch {
		case i == 2 && node.KindOf(err) == node.RecordRejected, i == 5 && node.KindOf(err) == node.TopicMissing:
		case i == 2 || i == 5 || err != nil:
			t.Errorf("message %d: %v", i, err)
		}
	}
	if got, left := w.came(), w.ids(w.stores[0]); len(got) != 7 || len(left) != 2 {
		t.Fatalf("%q came out, %q are left", got, left)
	}
	_, errs = w.stores[0].Fire(t.Context(), records[:1], next[:1])
	if !node.KindOf(errs[0]).Untried() || len(w.came()) != 7 {
		t.Fatalf("what has come out is fired once more: %v, %q", errs, w.came())
	}
}
