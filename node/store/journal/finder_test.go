package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"chronos/node"
	"chronos/node/store/journal"
)

// What is not in the local copy is not looked for on the disk, either: the filters know. Method: many messages come to
// rest in the lowest level of the copy, and ids that nobody has used are cancelled; the first look reads the filter.
func TestUnknownIDsReadNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	const many = 2000
	var items []node.Item
	for i := range int64(many) {
		items = append(items, node.Item{
			Epoch: 1, Offset: i, Action: node.Schedule, Message: w.message(fmt.Sprintf("known-%d", i)),
		})
	}
	w.take(store, 0, items)
	if err := store.Compact(); err != nil {
		t.Fatal(err)
	}
	cancel := func(first, count int64) {
		var items []node.Item
		for i := range count {
			items = append(items, node.Item{
				Epoch: 1, Offset: first + i, Action: node.Cancel,
				Message: node.Message{ID: fmt.Sprintf("known-%d-not", first+i), Lane: output},
			})
		}
		w.take(store, first, items)
	}
	cancel(many, 1)
	answered, read := store.Filtered()
	const unknown = 500
	cancel(many+1, unknown)
	answers, reads := store.Filtered()
	// One in a hundred is mistaken for a known one.
	if answers-answered < unknown*9/10 || reads-read > unknown/10 {
		t.Errorf("of %d ids the filters knew %d, and %d blocks were read", unknown, answers-answered, reads-read)
	}
}

// A local copy in a form that another release has written is made anew, and not misread.
func TestCopyOfAnotherForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var told []journal.Replay
	config := journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: w.clock.Now,
		Observe: func(r journal.Replay) { told = append(told, r) },
	}
	store := open(t, config)
	own(t, store, 0)
	w.take(store, 0, w.records())
	want := w.ids(store)
	if err := store.Age(0); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	told = nil
	store = open(t, config)
	own(t, store, 0)
	if got := w.ids(store); len(told) == 0 || !told[0].Anew || !slices.Equal(got, want) {
		t.Errorf("it has %q, want %q, and was brought so: %+v", got, want, told)
	}
}
