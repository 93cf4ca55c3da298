package journal_test

import (
	"bytes"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/journal"
)

// What of a message is kept apart from its key goes when the message does, or is kept elsewhere: nobody would ever look
// for it again, and it would fill the disk. Method: each way in which a large message goes or falls due at another
// time; and then another node owns the partition, which has an old copy and reads what has happened.
func TestApartGoesWithItsMessage(t *testing.T) {
	t.Parallel()
	change := func(w *world, action node.Action, size int) {
		m := w.message("x")
		m.Deadline, m.Key = m.Deadline.Add(time.Minute), make([]byte, size)
		w.take(w.stores[0], 1, []node.Item{{Epoch: 1, Offset: 1, Action: action, Message: m}})
	}
	release := func(w *world, later time.Duration) {
		claimed := w.claim(w.stores[0], 1)
		back, err := w.stores[0].Reset(w.Context(), []node.Release{{
			Claim: claimed[0].Claim, Due: w.clock.Now().Add(later),
		}})
		if err != nil || back[0] != node.Freed {
			w.Fatalf("the claim is given back: %v, %v", back, err)
		}
	}
	for name, c := range map[string]struct {
		happens func(w *world)
		want    int // of what is kept apart then
	}{
		"nothing happens":             {func(*world) {}, 1},
		"it is fired":                 {func(w *world) { w.fire(w.stores[0], 1) }, 0},
		"it is cancelled":             {func(w *world) { change(w, node.Cancel, 0) }, 0},
		"another large one is there":  {func(w *world) { change(w, node.Replace, journal.Large) }, 1},
		"a small one takes its place": {func(w *world) { change(w, node.Replace, 1) }, 0},
		"it is put off":               {func(w *world) { release(w, time.Minute) }, 1},
		"it is put off, and fired": {func(w *world) {
			release(w, time.Minute)
			w.clock.Advance(time.Minute)
			w.fire(w.stores[0], 1)
		}, 0},
		"it is claimed, and replaced": {func(w *world) {
			w.claim(w.stores[0], 1)
			change(w, node.Replace, journal.Large)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			own(t, w.stores[0], 0)
			large := w.message("x")
			large.Key = make([]byte, journal.Large)
			w.take(w.stores[0], 0, []node.Item{{Epoch: 1, Action: node.Schedule, Message: large}})
			own(t, w.stores[1], 0)
			own(t, w.stores[0], 0)
			c.happens(w)
			if n, err := w.stores[0].Apart(); n != c.want || err != nil {
				t.Errorf("%d messages are kept apart, want %d, %v", n, c.want, err)
			}
			own(t, w.stores[1], 0)
			if n, err := w.stores[1].Apart(); n != c.want || err != nil {
				t.Errorf("the next owner keeps %d messages apart, want %d, %v", n, c.want, err)
			}
		})
	}
}

// A message is kept apart when it is as large as it may not be beside its key, and not when it is smaller by a byte. It
// comes back whole in both cases.
func TestApartFromWhichSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own(t, w.stores[0], 0)
	take := func(id string, offset int64, size int) (entry int) {
		m := w.message(id)
		m.Value = bytes.Repeat([]byte{1}, size)
		before := len(w.cluster.Records(topicName, true))
		w.take(w.stores[0], offset, []node.Item{{Epoch: 1, Offset: offset, Action: node.Schedule, Message: m}})
		for _, r := range w.cluster.Records(topicName, true)[before:] {
			if said, err := journal.ReadEntry(r.Key, r.Value); err == nil && said.Row != nil {
				entry = len(r.Value)
			}
		}
		return entry
	}
	const some = journal.Large - 200
	beside := take("a", 0, some)
	for i, c := range []struct{ entry, apart int }{{journal.Large - 1, 0}, {journal.Large, 1}, {journal.Large + 1, 2}} {
		if got := take(string(rune('b'+i)), int64(1+i), some+c.entry-beside); got != c.entry {
			t.Fatalf("an entry has %d bytes, want %d", got, c.entry)
		}
		if n, err := w.stores[0].Apart(); n != c.apart || err != nil {
			t.Errorf("after one of %d bytes %d messages are kept apart, want %d, %v", c.entry, n, c.apart, err)
		}
	}
}
