package journal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
)

// failing is a disk of which all operations of a kind fail, from one of them on.
type failing struct {
	vfs.FS

	mem *vfs.MemFS

	from, seen atomic.Int64 // from is 0 for never
}

func newFailing(kind errorfs.OpReadWrite) *failing {
	f := &failing{mem: vfs.NewCrashableMem()}
	f.FS = errorfs.Wrap(f.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileClose, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpRemove:
			return nil // they need no room
		default:
			if op.Kind.ReadOrWrite() != kind {
				return nil
			}
		}
		if seen, from := f.seen.Add(1), f.from.Load(); from == 0 || seen < from {
			return nil
		}
		return syscall.ENOSPC
	}))
	return f
}

// open opens a store on the disk.
func (f *failing) open(w *world) (*journal.Store, error) {
	return journal.Open(journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: "copy", Now: w.clock.Now, Files: f,
	})
}

// A disk that is full, from any write on, ends a store and loses nothing: whoever opens it or owns by it is told by one
// sentence; its calls end, with errors, and it can be closed. What was committed stands in the journal:
// another node, and later the same one with room on its disk, go on, and each message comes out once.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		for from := int64(1); ; from++ {
			w := newWorld(t)
			disk := newFailing(errorfs.OpIsWrite)
			disk.from.Store(from)
			store, err := disk.open(w)
			items := w.records()
			if err == nil {
				w.liveFlushing(store, items)
			}
			failed := disk.seen.Load() >= from
			if store != nil {
				_ = store.Close()
			}
			next := w.stores[0]
			if back { // as another process finds the disk; what is left of this one still has the other
				found := &failing{FS: disk.mem.CrashClone(vfs.CrashCloneCfg{
					UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1)),
				})}
				if next, err = found.open(w); err != nil {
					t.Fatalf("write %d failed, and with room again: %v", from, err)
				}
			}
			if err := w.live(t.Context(), next, items); err != nil {
				t.Fatalf("write %d failed, then: %v", from, err)
			}
			if got := w.came(); !slices.Equal(got, once()) {
				t.Fatalf("write %d failed: %q came out, want %q", from, got, once())
			}
			if back {
				if err := next.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !failed {
				t.Logf("failed at each of %d writes", from-1)
				break
			}
		}
	}
}

// liveFlushing is live, with all of the local copy written to disk before anything is taken in, before anything is
// fired, and after that.
func (w *world) liveFlushing(store *journal.Store, items []node.Item) {
	place := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch}}
	for _, do := range []func() error{
		func() error { return store.Own(w.Context(), 0, uuid.UUID{2}) },
		func() error {
			_, _, err := store.Positions(w.Context(), []node.Place{place})
			if err == nil {
				_, err = store.Take(w.Context(), node.TakeRequest{From: []node.Place{place}, Items: items})
			}
			return err
		},
		func() error { return w.live(w.Context(), store, items) },
	} {
		if err := do(); err != nil {
			return
		}
		if _, err := store.DiskSize(); err != nil {
			problem, is := errors.AsType[*journal.DiskError](err)
			if !is || problem.Dir != "copy" || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
				w.Errorf("the disk is full, and the error is %v", err)
			}
			w.after(store, items)
			return
		}
	}
}

// after asks that a store whose disk has failed does nothing more, and fences nobody.
func (w *world) after(store *journal.Store, items []node.Item) {
	before := len(w.cluster.Records(topicName, false))
	if err := publish(w.Context(), store, items[0].Message); err == nil {
		w.Error("it fires")
	}
	if lost := store.Lost(); len(lost) != 1 || lost[0].Fenced {
		w.Errorf("lost: %v, want the partition, and that nobody else owns it", lost)
	}
	if _, is := errors.AsType[*journal.DiskError](store.Own(w.Context(), 0, uuid.UUID{2})); !is {
		w.Error("whoever would own the partition anew is not told why that can't be")
	}
	if after := len(w.cluster.Records(topicName, false)); after != before {
		w.Errorf("it appends %d records to the journal", after-before)
	}
}

// What can't be read is not said to be gone: it waits, and nobody would try it again until its claim has expired.
// Method: messages whose heads are in several blocks of the disk are fired together, while everything fails from the
// first read on, from the second one, and so on.
func TestUnreadableIsNotGone(t *testing.T) {
	t.Parallel()
	failures := 0
	for from := int64(1); ; from++ {
		w := newWorld(t)
		disk := newFailing(errorfs.OpIsRead)
		store, err := disk.open(w)
		if err != nil {
			t.Fatal(err)
		}
		own(t, store, 0)
		messages := w.takeMany(store)
		if err := store.Close(); err != nil { // so that nothing of it is in memory
			t.Fatal(err)
		}
		if store, err = disk.open(w); err != nil {
			t.Fatal(err)
		}
		own(t, store, 0)
		disk.seen.Store(0)
		disk.from.Store(from)
		_, errs := store.Fire(t.Context(), make([]node.Record, len(messages)), nexts(messages))
		failed := disk.seen.Load() >= from
		disk.from.Store(0)
		for i, err := range errs {
			if node.KindOf(err) == node.MessageGone {
				t.Errorf("read %d fails: message %d is said to be gone, and waits: %v", from, i, err)
			}
			if err != nil && node.KindOf(err).Untried() {
				failures++
			}
		}
		if err := store.Close(); err != nil {
			t.Logf("read %d fails: %v", from, err)
		}
		if !failed {
			break
		}
	}
	if failures == 0 {
		t.Error("no read has failed")
	}
}

// A partition is lost if claims can't be given back in it: some of them may be, and the local copy has not heard of it.
// Whoever owns it anew claims all of the messages again. Method: as above, after one read, two, and so on.
func TestUnreadableIsNotGivenBack(t *testing.T) {
	t.Parallel()
	for from := int64(1); ; from++ {
		w := newWorld(t)
		disk := newFailing(errorfs.OpIsRead)
		store, err := disk.open(w)
		if err != nil {
			t.Fatal(err)
		}
		own(t, store, 0)
		many := len(w.takeMany(store))
		if err := store.Compact(); err != nil {
			t.Fatal(err)
		}
		var releases []node.Release
		for _, ready := range w.claim(store, many) {
			releases = append(releases, node.Release{Claim: ready.Claim})
		}
		disk.seen.Store(0)
		disk.from.Store(from)
		_, err = store.Reset(t.Context(), releases)
		failed := disk.seen.Load() >= from
		disk.from.Store(0)
		if lost := store.Lost(); (err != nil) != (len(lost) == 1) {
			t.Errorf("read %d fails: the claims are given back: %v, and lost is %v", from, err, lost)
		}
		own(t, store, 0)
		if again := w.claim(store, many); len(again) != many {
			t.Errorf("read %d fails: %d messages can be claimed again, want %d", from, len(again), many)
		}
		if err := store.Close(); err != nil {
			t.Errorf("read %d fails: %v", from, err)
		}
		if !failed {
			if from == 1 {
				t.Error("no read has failed")
			}
			break
		}
	}
}

// takeMany has a store take in more messages than the disk is read for at a time.
func (w *world) takeMany(store *journal.Store) (messages []node.Message) {
	w.Helper()
	var items []node.Item
	for i := range int64(40) {
		m := w.message(fmt.Sprintf("%0120d", i))
		items = append(items, node.Item{Epoch: 1, Offset: i, Action: node.Schedule, Message: m})
		messages = append(messages, m)
	}
	w.take(store, 0, items)
	return messages
}

func nexts(messages []node.Message) []node.Next {
	next := make([]node.Next, len(messages))
	for i := range messages {
		next[i].Of = messages[i].Ref()
	}
	return next
}

// A store that is closed answers: with an error, or that it owns nothing. It is closed while others use it, too.
func TestClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	items := w.records()
	w.take(store, 0, items)
	looking, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		<-looking
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	for looked := 0; ; looked++ {
		all, err := store.Claim(t.Context(), node.ClaimRequest{
			Hold: time.Nanosecond, Until: w.clock.Now(), Lanes: []node.Share{{Lane: output, Limit: 1, Bytes: 1}},
		})
		if err != nil || looked > 10 && len(all.Messages) == 0 {
			break
		}
		if looked == 3 {
			close(looking)
		}
	}
	<-closed
	ctx := t.Context()
	if err := store.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	before := len(w.cluster.Records(topicName, false))
	if err := store.Own(ctx, 0, uuid.New()); err == nil {
		t.Error("a closed store owns a partition")
	}
	if after := len(w.cluster.Records(topicName, false)); after != before {
		t.Error("a closed store has fenced whoever owns the partition")
	}
	if _, err := store.DiskSize(); err == nil {
		t.Error("a closed store has a size")
	}
	if err := publish(ctx, store, items[0].Message); err == nil {
		t.Error("a closed store fires")
	}
	if _, err := store.Parts(ctx); err != nil {
		t.Errorf("lanes: %v", err)
	}
	if _, err := store.Settle(ctx, node.Removals(items[0].Ref())); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, _, err := store.Positions(ctx, []node.Place{{Partition: input()}}); err == nil {
		t.Error("a closed store has positions")
	}
	if _, err := store.Find(ctx, "a", inspect.Parts{}); err != nil {
		t.Errorf("find: %v", err)
	}
	if lost := store.Lost(); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}
