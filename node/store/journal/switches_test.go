package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
	"chronos/node/store/transfer"
)

// poster appends to the journal.
type poster struct{ cluster *simulated.Cluster }

// Send implements journal.Poster.
func (p poster) Send(_ context.Context, number int32, record node.Record) error {
	p.cluster.Append(topicName, number, record)
	return nil
}

// switchboard has a store pause, and hear of what is wished, until the test ends.
func switchboard(t *testing.T, cluster *simulated.Cluster, store *journal.Store) {
	t.Helper()
	board := journal.NewSwitchboard(cluster.Ledger(topicName, "chronos"), poster{cluster}, journal.AskerLimits{})
	store.SwitchBy(board)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		store.Listen(ctx, time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		board.Close()
	})
}

// halls are two nodes, each of which owns one of two partitions.
type halls struct {
	*testing.T

	cluster *simulated.Cluster
	clock   *storetest.Clock
	stores  []*journal.Store
}

func newHalls(t *testing.T) *halls {
	t.Helper()
	h := &halls{T: t, cluster: simulated.New(), clock: storetest.NewClock()}
	h.cluster.CreateTopic(topicName, 2, 0)
	h.cluster.CreateTopic(output, 1, 0)
	for number := range int32(2) {
		store := open(t, journal.Config{
			Ledger: h.cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: h.clock.Now,
		})
		h.stores = append(h.stores, store)
		own(t, store, number)
		h.bring(number, fmt.Sprint("x", number))
	}
	return h
}

// board gives a store a switchboard, and has it look at nothing by itself.
func (h *halls) board(store *journal.Store) {
	board := journal.NewSwitchboard(h.cluster.Ledger(topicName, "chronos"), poster{h.cluster}, journal.AskerLimits{})
	h.Cleanup(board.Close)
	store.SwitchBy(board)
}

// bring has the owner of a partition take in a message that is due, and is the next record there.
func (h *halls) bring(number int32, id string) {
	h.Helper()
	h.bringTo(output, number, id)
}

func (h *halls) bringTo(lane string, number int32, id string) {
	h.Helper()
	store := h.stores[number]
	place := node.Place{Partition: input(), Position: node.Position{Epoch: -1}}
	place.Number = number
	positions, _, err := store.Positions(h.Context(), []node.Place{place})
	if err != nil {
		h.Fatal(err)
	}
	place.Position = positions[0]
	result, err := store.Take(h.Context(), node.TakeRequest{From: []node.Place{place}, Items: []node.Item{{
		Epoch: 1, Offset: place.Offset, Action: node.Schedule, Message: node.Message{
			ID: id, Lane: lane, Incarnation: uuid.New(), Deadline: h.clock.Now().UTC(), Value: []byte(id),
		},
	}}})
	if err != nil || result.Refused[0] {
		h.Fatalf("take: %+v, %v", result, err)
	}
}

// claim returns the ids of what a node claims.
func (h *halls) claim(store *journal.Store) (ids []string) {
	h.Helper()
	return h.claimOn(output, store)
}

func (h *halls) claimOn(lane string, store *journal.Store) (ids []string) {
	h.Helper()
	claimed, err := store.Claim(h.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: h.clock.Now().Add(time.Minute),
		Lanes: []node.Share{{Lane: lane, Limit: 9, Bytes: 1 << 20}},
	})
	if err != nil {
		h.Fatal(err)
	}
	for _, m := range claimed.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// wish appends a wish to a partition, and returns its name.
func (h *halls) wish(number int32, lane string, pause bool) uuid.UUID {
	h.Helper()
	name := uuid.New()
	r, err := journal.Wish(name, lane, pause)
	if err != nil {
		h.Fatal(err)
	}
	h.cluster.Append(topicName, number, r)
	return name
}

// granted reports whether somebody who reads what was committed sees that a wish is done.
func granted(cluster *simulated.Cluster, name uuid.UUID) bool {
	return slices.ContainsFunc(cluster.Records(topicName, true), func(r node.Record) bool {
		return slices.Contains(journal.Granted(r), name)
	})
}

// What one node is asked is minded by all from the answer on, and shown by all; and so is that it is resumed.
func TestPausesOfAll(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	for _, store := range h.stores {
		switchboard(t, h.cluster, store)
	}
	pause, err := h.stores[0].Pause(t.Context(), node.Pause{Lane: output, By: "anna", Why: "a reason"})
	if err != nil || pause.By != "anna" || pause.Since.IsZero() {
		t.Fatalf("paused: %+v, %v", pause, err)
	}
	again, err := h.stores[1].Pause(t.Context(), node.Pause{Lane: output, By: "bert"})
	if err != nil || again != pause {
		t.Fatalf("paused again: %+v, %v, want %+v", again, err, pause)
	}
	for i, store := range h.stores {
		if got := h.claim(store); got != nil {
			t.Errorf("node %d claims %q", i, got)
		}
		if got, err := store.Pauses(t.Context()); err != nil || !slices.Equal(got, []node.Pause{pause}) {
			t.Errorf("node %d shows %+v, %v", i, got, err)
		}
	}
	if was, err := h.stores[1].Resume(t.Context(), output); err != nil || !was {
		t.Fatalf("resumed: %v, %v", was, err)
	}
	for i, store := range h.stores {
		if got := h.claim(store); len(got) != 1 {
			t.Errorf("node %d claims %q", i, got)
		}
	}
}

// Nobody is told that something is paused as long as the owner of one partition has not said so; who owns it next does
// it, whether it reads the wish behind its fence or before it. To ask again tells.
func TestPauseUnanswered(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	board := journal.NewSwitchboard(h.cluster.Ledger(topicName, "chronos"), poster{h.cluster},
		journal.AskerLimits{Wait: 50 * time.Millisecond})
	t.Cleanup(board.Close)
	h.stores[0].SwitchBy(board)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go h.stores[0].Listen(ctx, time.Millisecond)
	for said := ""; !strings.Contains(said, "paused on 1 of 2 partitions"); { // or on none, on a slow machine
		_, err := h.stores[0].Pause(t.Context(), node.Pause{Lane: output})
		partly, is := errors.AsType[*inspect.PartlyError](err)
		if !is || !errors.Is(err, journal.ErrUnheard) {
			t.Fatalf("paused, and the owner of partition 1 sleeps: %v", err)
		}
		said = partly.Sentence
	}
	own(t, h.stores[0], 1) // the wish stands before its fence
	if got := h.claim(h.stores[0]); got != nil {
		t.Fatalf("the next owner claims %q", got)
	}
	for tries := 1; ; tries++ {
		_, err := h.stores[0].Pause(t.Context(), node.Pause{Lane: output})
		if err == nil {
			break
		}
		if tries == 100 {
			t.Fatalf("asked again: %v", err)
		}
	}
}

// A pause is minded before anybody can read that it is committed: its owner may hear of that last.
func TestPauseMindedFirst(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	h.wish(0, output, true)
	var claimed []string
	h.cluster.Strike(func(s simulated.Step) simulated.Fault {
		if s.At == simulated.Ending {
			claimed = append(claimed, h.claim(h.stores[0])...)
		}
		return simulated.None
	})
	if err := h.stores[0].Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if claimed != nil {
		t.Fatalf("claimed while the pause was being committed: %q", claimed)
	}
}

// A pause whose transaction is aborted is none, and is done at the next look.
func TestPauseAborted(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	name := h.wish(0, output, true)
	h.cluster.Strike(func(s simulated.Step) simulated.Fault {
		if s.At == simulated.Appending {
			return simulated.Lost
		}
		return simulated.None
	})
	if err := h.stores[0].Hear(t.Context()); err == nil || granted(h.cluster, name) {
		t.Fatalf("done without a transaction: %v", err)
	}
	h.cluster.Strike(nil)
	if got := h.claim(h.stores[0]); len(got) != 1 {
		t.Fatalf("claims %q while nothing is paused", got)
	}
	if err := h.stores[0].Hear(t.Context()); err != nil || !granted(h.cluster, name) {
		t.Fatalf("not done: %v", err)
	}
}

// An owner that was stopped while another one has taken over, and has said that a lane is paused, publishes nothing of
// it any more.
func TestPauseFrozenOwner(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	name := h.wish(0, output, true)
	own(t, h.stores[1], 0)
	if !granted(h.cluster, name) {
		t.Fatal("the new owner has not done what was wished before its fence")
	}
	claimed, err := h.stores[0].Claim(t.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: h.clock.Now().Add(time.Minute),
		Lanes: []node.Share{{Lane: output, Limit: 9, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 1 {
		t.Fatalf("the former owner claims %+v, %v: it knows of nothing yet", claimed, err)
	}
	m := claimed.Messages[0]
	_, errs := h.stores[0].Fire(t.Context(), []node.Record{{Topic: output, Value: m.Value}}, []node.Next{{Of: m.Ref()}})
	if !node.KindOf(errs[0]).Untried() || len(h.cluster.Records(output, true)) > 0 {
		t.Fatalf("the former owner fires: %v", errs)
	}
	own(t, h.stores[0], 0)
	_, errs = h.stores[0].Fire(t.Context(), []node.Record{{Topic: output, Value: m.Value}}, []node.Next{{Of: m.Ref()}})
	if errs[0] == nil || len(h.cluster.Records(output, true)) > 0 {
		t.Fatalf("it owns the partition again, and fires what it has claimed before: %v", errs)
	}
}

// What is wished is heard among transactions of the owner's own, and where there are none; where only the owner writes,
// nothing is read.
func TestHearsAmongItsOwn(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	reads, ending := 0, func() {}
	h.cluster.Strike(func(s simulated.Step) simulated.Fault {
		switch s.At {
		case simulated.Reading:
			reads++
		case simulated.Ending:
			ending()
		default:
		}
		return simulated.None
	})
	hear := func(what string, want bool, names ...uuid.UUID) {
		t.Helper()
		before := reads
		if err := h.stores[0].Hear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if reads > before != want {
			t.Errorf("%s: %d reads, want any: %v", what, reads-before, want)
		}
		for _, name := range names {
			if !granted(h.cluster, name) {
				t.Errorf("%s: not done", what)
			}
		}
	}
	settle := func() { // what a look has written is read once more, since it stands behind somebody else's entry
		t.Helper()
		if err := h.stores[0].Hear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	hear("nothing has happened", false)
	h.bring(0, "a")
	h.bring(0, "b")
	hear("only takes", false)
	first := h.wish(0, "one", true)
	hear("a wish behind everything", true, first)
	settle()
	hear("again", false)
	second := h.wish(0, "two", true)
	h.bring(0, "c")
	third := h.wish(0, "three", true)
	h.bring(0, "d")
	hear("wishes between takes", true, second, third)
	settle()
	hear("again", false)
	var amid uuid.UUID
	ending = func() {
		ending = func() {}
		amid = h.wish(0, "amid", true)
	}
	h.bring(0, "e")
	h.bring(0, "f")
	hear("a wish before the marker of a take", true, amid)
	if got, err := h.stores[0].Pauses(t.Context()); err != nil || len(got) != 4 {
		t.Errorf("paused are %+v, %v", got, err)
	}
}

// A wish that is sent again, since nobody has heard that it was done, is answered each time and done once: somebody may
// have wished for the opposite since.
func TestWishTwice(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	name := uuid.New()
	r, err := journal.Wish(name, output, true)
	if err != nil {
		t.Fatal(err)
	}
	hear := func() {
		t.Helper()
		if err := h.stores[0].Hear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	answers := func() (n int) { // what a lane became names the last wishes that were done, that one and others
		for _, r := range h.cluster.Records(topicName, true) {
			if slices.Contains(journal.Granted(r), name) {
				n++
			}
		}
		return n
	}
	for sent := 1; sent <= 3; sent++ {
		before := answers()
		h.cluster.Append(topicName, 0, r)
		if hear(); answers() == before {
			t.Errorf("the wish is not answered when it has been sent %d times", sent)
		}
		if sent < 3 {
			h.wish(0, output, false)
			hear()
		}
	}
	if got := h.claim(h.stores[0]); len(got) != 1 {
		t.Fatalf("a wish that was sent again has paused what was resumed: claims %q", got)
	}
}

// Pauses outlive owners, copies and compaction.
func TestPauseStays(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	h.wish(0, output, true)
	h.wish(0, node.Intake, true)
	h.wish(0, "other", true)
	h.wish(0, "other", false)
	if err := h.stores[0].Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.cluster.Compact(topicName, 0, true)
	h.clock.Advance(2 * time.Hour)
	own(t, h.stores[1], 0)
	pauses, err := h.stores[1].Pauses(t.Context())
	if err != nil || len(pauses) != 2 || pauses[0].Lane != node.Intake || pauses[1].Lane != output {
		t.Fatalf("paused are %+v, %v", pauses, err)
	}
	if got := h.claim(h.stores[1]); slices.Contains(got, "x0") {
		t.Fatalf("claims %q", got)
	}
	place := node.Place{Partition: input()}
	result, err := h.stores[1].Take(t.Context(), node.TakeRequest{From: []node.Place{place}, Items: []node.Item{{
		Epoch: 1, Offset: 1, Action: node.Schedule,
		Message: node.Message{ID: "y", Lane: output, Incarnation: uuid.New(), Deadline: h.clock.Now()},
	}}})
	if err != nil || !result.Refused[0] || !result.State.IntakePaused {
		t.Fatalf("taken in: %+v, %v", result, err)
	}
}

// Pauses are moved with everything else.
func TestPausesMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	for lane, pause := range map[string]bool{output: true, node.Intake: true, "other": false} {
		record, err := journal.Wish(uuid.New(), lane, pause)
		if err != nil {
			t.Fatal(err)
		}
		w.cluster.Append(topicName, 0, record)
	}
	if err := w.stores[0].Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := w.stores[0].Pauses(t.Context())
	if err != nil || len(want) != 2 {
		t.Fatalf("paused are %+v, %v", want, err)
	}
	from, done := w.mover(topicName)
	defer done()
	if _, err := from.Seal(t.Context(), uuid.New(), "test"); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	ignored := func(transfer.Progress) {}
	if _, _, err := transfer.Export(t.Context(), from, transfer.Header{}, &file, ignored); err != nil {
		t.Fatal(err)
	}
	w.cluster.CreateTopic("second", 1, 0)
	to, done := w.mover("second")
	defer done()
	if _, err := transfer.Import(t.Context(), to, &file, "test", ignored); err != nil {
		t.Fatal(err)
	}
	second := open(t, journal.Config{
		Ledger: w.cluster.Ledger("second", "chronos"), Dir: t.TempDir(), Now: w.clock.Now,
	})
	own(t, second, 0)
	if got, err := second.Pauses(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Fatalf("paused are %+v, %v, want %+v", got, err, want)
	}
}

// Goal: a node that was stopped for longer than the group waits for it claims nothing for requests, which nothing would
// refuse, until a look has shown whose the partition is. Here it is another node's, which has been asked to pause the
// lane meanwhile. What comes out to topics it may claim: its transactions are refused.
func TestPauseOfFrozenCaller(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	const lane = node.CallbackPrefix + "bills"
	for number, store := range h.stores {
		h.board(store)
		h.bringTo(lane, int32(number), fmt.Sprint("y", number)) //nolint:gosec // two
	}
	own(t, h.stores[1], 0)
	h.clock.Advance(4 * time.Second)
	if ids := h.claimOn(lane, h.stores[0]); len(ids) != 0 {
		t.Errorf("a node that does not know whose the partition is has claimed %v for requests", ids)
	}
	if ids := h.claim(h.stores[0]); !slices.Equal(ids, []string{"x0"}) {
		t.Errorf("it has claimed %v for a topic, want x0", ids)
	}
	for _, store := range h.stores {
		if err := store.Hear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if ids := h.claimOn(lane, h.stores[0]); len(ids) != 0 {
		t.Errorf("a node that has heard of its fence has claimed %v", ids)
	}
	if ids := h.claimOn(lane, h.stores[1]); !slices.Equal(ids, []string{"y0", "y1"}) {
		t.Errorf("the node that has looked has claimed %v, want y0 and y1", ids)
	}
}

// Goal: a node makes requests for 3 s after a look or a transaction has shown that the partition is its own, and not
// for longer; a clock that was set back shows nothing.
func TestPauseOfCallerThatLooks(t *testing.T) {
	t.Parallel()
	h := newHalls(t)
	const lane = node.CallbackPrefix + "bills"
	h.board(h.stores[0])
	for i, step := range []struct {
		since  time.Duration // the take
		looks  bool
		passes time.Duration
		claims bool
	}{
		{4 * time.Second, false, 0, false},
		{0, false, 3 * time.Second, true},
		{4 * time.Second, true, 0, true},
		{4 * time.Second, true, 3*time.Second + time.Millisecond, false},
		{0, true, -4 * time.Second, false},
	} {
		id := fmt.Sprint("y", i)
		h.bringTo(lane, 0, id)
		h.clock.Advance(step.since)
		if step.looks {
			if err := h.stores[0].Hear(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h.clock.Advance(step.passes)
		if ids := h.claimOn(lane, h.stores[0]); slices.Contains(ids, id) != step.claims {
			t.Errorf("%+v: it has claimed %v", step, ids)
		}
	}
}
