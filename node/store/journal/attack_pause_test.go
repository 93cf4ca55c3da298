package journal_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
)

// soon is how long a test waits for what must come.
const soon = time.Minute

// stuck is a journal of which a partition loses its leader: whoever reads it waits until he gives up.
type stuck struct {
	ledger.Ledger

	number  int32
	away    atomic.Bool
	reading chan struct{} // gets one for each reader who waits, as far as there is room
}

// Read implements ledger.Ledger.
func (s *stuck) Read(ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error) error {
	if !s.away.Load() || from.Number != s.number {
		return s.Ledger.Read(ctx, from, until, each)
	}
	select {
	case s.reading <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

// What is wished of a partition is done while another one of the same node can't be read: a broker that dies is why
// somebody pauses.
func TestPauseBesideStuckPartition(t *testing.T) {
	t.Parallel()
	h := &halls{T: t, cluster: simulated.New(), clock: storetest.NewClock()}
	h.cluster.CreateTopic(topicName, 2, 0)
	h.cluster.CreateTopic(output, 1, 0)
	log := &stuck{Ledger: h.cluster.Ledger(topicName, "chronos"), number: 1, reading: make(chan struct{}, 1)}
	store := open(t, journal.Config{Ledger: log, Dir: t.TempDir(), Now: h.clock.Now})
	h.stores = []*journal.Store{store, store}
	done := make(chan uuid.UUID, 100)
	h.cluster.Watch(func(c simulated.Committed) {
		for _, r := range c.Records {
			for _, name := range journal.Granted(r) {
				done <- name
			}
		}
	})
	own(t, store, 0)
	own(t, store, 1)
	log.away.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		store.Listen(ctx, time.Millisecond)
	}()
	h.wish(1, output, true)
	<-log.reading
	name := h.wish(0, output, true)
	select {
	case got := <-done:
		if got != name {
			t.Errorf("done: %v, want %v", got, name)
		}
	case <-time.After(soon):
		t.Error("a wish waits for the leader of another partition")
	}
	stop()
	<-ended
}

// A claim finds out once who is first in a line, and not for each message of it that it has claimed: that look steps
// over what was settled, while nobody else can claim anything.
func TestLineLookedAtOnce(t *testing.T) {
	t.Parallel()
	const settled, claimed = 900, 100
	w := newWorld(t)
	own(t, w.stores[0], 0)
	var items []node.Item
	for i := range settled + claimed {
		m := w.message(fmt.Sprintf("x%04d", i))
		m.Line, m.Incarnation = uuid.UUID{15: 7}, uuid.New()
		items = append(items, node.Item{Epoch: 1, Offset: int64(i), Action: node.Schedule, Message: m})
	}
	w.take(w.stores[0], 0, items)
	var refs []node.Ref
	for _, m := range w.claim(w.stores[0], settled) {
		refs = append(refs, m.Ref())
	}
	done, err := w.stores[0].Settle(t.Context(), node.Removals(refs...))
	if err != nil || len(done) != settled || done[settled-1] != node.Removed {
		t.Fatalf("delete: %d of them, %v", len(done), err)
	}
	before := w.stores[0].Steps()
	ready := w.claim(w.stores[0], claimed)
	if steps := w.stores[0].Steps() - before; steps > 5*(settled+claimed) {
		t.Errorf("claiming %d messages of a line, of which %d are settled, steps over %d keys", claimed, settled, steps)
	}
	for i, m := range ready {
		if (m.Turn == node.ItsTurn) != (i == 0) {
			t.Errorf("%s: turn %v", m.ID, m.Turn)
		}
	}
}

// A wish that was missed by its owner, and stands before another one of its lane that was done, is done no more, when
// somebody comes who reads all of the journal.
func TestPauseOldWish(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	h.wish(0, output, true) // which the owner passes over, and then ends
	h.bring(0, "y")
	own(t, h.stores[0], 0)
	name := h.wish(0, output, false)
	if err := h.stores[0].Hear(t.Context()); err != nil || !granted(h.cluster, name) {
		t.Fatalf("not resumed: %v", err)
	}
	own(t, h.stores[1], 0)
	if got := h.claim(h.stores[1]); len(got) != 3 {
		t.Errorf("claimed %q: a pause that was missed is in force, though the lane was resumed since", got)
	}
}

// What was wished and done leaves nothing behind in the journal but the state of its lane.
func TestPauseLeavesNoWish(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	wishes := func() (n int) {
		for _, r := range h.cluster.Records(topicName, true) {
			if journal.IsWish(r) {
				n++
			}
		}
		return n
	}
	for i := range 20 {
		h.wish(0, output, i%2 == 0)
	}
	if wishes() != 20 {
		t.Fatalf("%d wishes, want 20", wishes())
	}
	if err := h.stores[0].Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.cluster.Compact(topicName, 0, true)
	if n := wishes(); n > 0 {
		t.Errorf("compaction leaves %d wishes that were done", n)
	}
}

// unlisted is a journal of which the broker that is asked knows nothing yet, as one that has just started.
type unlisted struct{ ledger.Ledger }

// Extents implements ledger.Ledger.
func (unlisted) Extents(context.Context) ([]node.Extent, error) { return nil, nil }

// Nobody is told that something is paused, or resumed, when no partition was asked.
func TestPauseOfNothing(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	log := unlisted{h.cluster.Ledger(topicName, "chronos")}
	board := journal.NewSwitchboard(log, poster{h.cluster}, journal.AskerLimits{})
	t.Cleanup(board.Close)
	h.stores[0].SwitchBy(board)
	if got, err := h.stores[0].Pause(t.Context(), node.Pause{Lane: output}); err == nil {
		t.Errorf("paused: %+v, and the lane is paused nowhere", got)
	}
	if _, err := h.stores[0].Resume(t.Context(), output); err == nil {
		t.Error("resumed, and nobody was asked")
	}
}

// A message is found while it is claimed, also where nothing else is on its lane: it has not come out yet.
func TestClaimedIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	w.take(w.stores[0], 0, []node.Item{{Epoch: 1, Action: node.Schedule, Message: w.message("x")}})
	if claimed := w.claim(w.stores[0], 1); len(claimed) != 1 {
		t.Fatalf("claimed %v", claimed)
	}
	if found, err := w.stores[0].Find(t.Context(), "x", inspect.Parts{}); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v, want x, which is claimed", found, err)
	}
}
