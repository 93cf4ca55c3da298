package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/store/memory"
)

// newStore returns a store with a message for each id, on the lane "out", due in an hour.
func newStore(t *testing.T, ids ...string) *memory.Store {
	t.Helper()
	store := memory.New(time.Now)
	var items []node.Item
	for _, id := range ids {
		items = append(items, item(node.Schedule, id))
	}
	outcomes, err := control.Instruct(t.Context(), store, items)
	if err != nil || slices.ContainsFunc(outcomes, func(o node.Outcome) bool { return o != node.Scheduled }) {
		t.Fatalf("scheduling: %v, %v", outcomes, err)
	}
	return store
}

func item(action node.Action, id string) node.Item {
	m := node.Message{ID: id, Lane: "out", Deadline: time.Now().Add(time.Hour), Incarnation: uuid.New()}
	return node.Item{Action: action, Message: m}
}

// TestInstruct gives instructions as an operator does, with nothing but the names filled in.
func TestInstruct(t *testing.T) {
	store := newStore(t, "cancelled", "fired", "other")
	another := item(node.Cancel, "other")
	another.Only = uuid.New()
	fire := node.Item{Action: node.FireNow, Message: node.Message{ID: "fired", Lane: "out", Deadline: time.Now()}}
	outcomes, err := control.Instruct(t.Context(), store, []node.Item{
		{Action: node.Cancel, Message: node.Message{ID: "cancelled", Lane: "out"}}, fire, another,
	})
	want := []node.Outcome{node.Cancelled, node.FiredNow, node.NotFound}
	if err != nil || !slices.Equal(outcomes, want) {
		t.Fatalf("got %v, %v; want %v", outcomes, err, want)
	}
	for _, row := range store.Dump() {
		if row.Incarnation == uuid.Nil {
			t.Errorf("message %q has no incarnation", row.ID)
		}
	}
	if fire.Incarnation != uuid.Nil || fire.From != 0 {
		t.Error("the items of the caller were changed")
	}
}

// TestNothingHappens asks for things that cannot be done, and sees that none of the others is.
func TestNothingHappens(t *testing.T) {
	store := newStore(t, "a")
	both := []node.Item{item(node.Cancel, "a"), item(node.Cancel, "with\x00NUL")}
	_, err := control.Instruct(t.Context(), store, both)
	if _, is := errors.AsType[*control.RefusedError](err); !is {
		t.Errorf("a bad id: %v", err)
	}
	if _, err := store.Pause(t.Context(), node.Pause{Lane: node.Intake}); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Instruct(t.Context(), store, both[:1]); !control.IsClosed(err) {
		t.Errorf("a paused intake: %v", err)
	}
	if _, err := store.Resume(t.Context(), node.Intake); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := control.Instruct(ctx, store, both[:1]); err == nil || control.IsClosed(err) {
		t.Errorf("no time left: %v", err)
	}
	if rows := store.Dump(); len(rows) != 1 {
		t.Errorf("what is stored: %v", rows)
	}
}

// TestBusy has another session lock the row of a message: the answer comes at once, says what to do, and concerns that
// message alone.
func TestBusy(t *testing.T) {
	store := newStore(t, "locked", "other")
	unlock := store.Lock(memory.Locks{Messages: []node.MessageID{{ID: "locked", Lane: "out"}}})
	both := []node.Item{item(node.Cancel, "locked"), item(node.Cancel, "other")}
	_, err := control.Instruct(t.Context(), store, both[:1])
	if !control.IsBusy(err) || control.IsClosed(err) || !strings.Contains(err.Error(), `message "locked"`) ||
		!strings.Contains(err.Error(), "pg_stat_activity") {
		t.Errorf("one that is locked: %v", err)
	}
	outcomes, err := control.Instruct(t.Context(), store, both)
	if want := []node.Outcome{node.Blocked, node.Cancelled}; err != nil || !slices.Equal(outcomes, want) {
		t.Errorf("got %v, %v; want %v", outcomes, err, want)
	}
	unlock()
	if outcomes, err := control.Instruct(t.Context(), store, both[:1]); err != nil || outcomes[0] != node.Cancelled {
		t.Errorf("after the lock: %v, %v", outcomes, err)
	}
}

// TestClosed has a sentence for each reason, and a different one.
func TestClosed(t *testing.T) {
	seen := map[string]bool{}
	for _, state := range []node.State{{}, {Holding: true}, {Suspect: true}, {IntakePaused: true}} {
		text := (&control.ClosedError{State: state}).Error()
		if seen[text] || !strings.Contains(text, "nothing is changed") {
			t.Errorf("%+v: %s", state, text)
		}
		seen[text] = true
	}
}
