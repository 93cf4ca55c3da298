package control_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/store/inspect"
	"chronos/node/store/memory"
)

// meddled is a store in which something happens each time after somebody has looked.
type meddled struct {
	*memory.Store

	meanwhile func()
}

// Slice implements inspect.Source.
func (m meddled) Slice(ctx context.Context, request inspect.SliceRequest) ([]inspect.Message, error) {
	slice, err := m.Store.Slice(ctx, request)
	m.meanwhile()
	return slice, err
}

// give gives instructions, and asks for their outcomes.
func give(t *testing.T, store *memory.Store, want node.Outcome, items ...node.Item) {
	t.Helper()
	outcomes, err := control.Instruct(t.Context(), store, items)
	if err != nil || slices.ContainsFunc(outcomes, func(o node.Outcome) bool { return o != want }) {
		t.Fatalf("%v, %v; want %v", outcomes, err, want)
	}
}

// page cancels one page of the lane "out".
func page(t *testing.T, source inspect.Source, store control.Taker, dry bool) control.Tally {
	t.Helper()
	q := inspect.Query{Lanes: []string{"out"}}
	done, err := control.CancelPage(t.Context(), source, store, q, time.Now(), dry)
	if err != nil {
		t.Fatal(err)
	}
	return done.Tally
}

// TestCancelPageOnlyWhatItHasSeen has a message replaced, one come out and submitted again, and one rescheduled,
// between the look and the cancel: what has come in their places may say something else, and is left alone.
func TestCancelPageOnlyWhatItHasSeen(t *testing.T) {
	store := newStore(t, "replaced", "again", "moved", "same")
	done := false
	meanwhile := func() {
		if done {
			return
		}
		done = true
		give(t, store, node.Replaced, item(node.Replace, "replaced"))
		give(t, store, node.Cancelled, item(node.Cancel, "again"))
		give(t, store, node.Scheduled, item(node.Schedule, "again"))
		give(t, store, node.Rescheduled, item(node.Reschedule, "moved"))
	}
	tally := page(t, meddled{store, meanwhile}, store, false)
	if want := (control.Tally{Scanned: 4, Matched: 4, Cancelled: 1, Changed: 3}); tally != want {
		t.Errorf("%+v, want %+v", tally, want)
	}
	if rows := store.Dump(); len(rows) != 3 {
		t.Errorf("left are %v", rows)
	}
}

// TestCancelPageDry says of messages in all states what becomes of them, changes none, and is right.
func TestCancelPageDry(t *testing.T) {
	store := newStore(t, "waits", "put off", "unsent", "released", "outcome", "letter", "like an outcome",
		"like a letter")
	series := item(node.Schedule, "series")
	series.Recurrence = node.Recurrence{Series: "every 1h", Sequence: 2, At: series.Deadline}
	give(t, store, node.Scheduled, series)
	claimed, err := store.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.New(), Hold: time.Hour, Until: time.Now().Add(2 * time.Hour),
		Lanes: []node.Share{{Lane: "out", Limit: 100, Bytes: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	give(t, store, node.TooLate, item(node.Cancel, "released")) // it is bound from here on
	var back []node.Release
	for _, m := range claimed.Messages { // all but the series
		if m.ID != "series" {
			back = append(back, node.Release{Claim: m.Claim, Unsent: m.ID != "put off"})
		}
	}
	if _, err := store.Reset(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	made := func(id string, headers ...string) {
		one := item(node.Replace, id)
		for _, name := range headers {
			one.Headers = append(one.Headers, node.Header{Name: name})
		}
		give(t, store, node.Replaced, one)
	}
	made("outcome", node.HeaderOutcome, node.HeaderLineage)
	made("letter", node.HeaderReason, node.HeaderSourceTopic)
	made("like an outcome", node.HeaderOutcome, node.HeaderSourceTopic)
	made("like a letter", node.HeaderReason, node.HeaderLineage)

	before := fmt.Sprint(store.Dump())
	dry := page(t, store, store, true)
	if after := fmt.Sprint(store.Dump()); after != before {
		t.Errorf("before %s\nafter %s", before, after)
	}
	if want := (control.Tally{Scanned: 8, Matched: 8, Cancelled: 4, TooLate: 2, Left: 2}); dry != want {
		t.Errorf("it would be %+v, want %+v", dry, want)
	}
	if done := page(t, store, store, false); done != dry {
		t.Errorf("it would be %+v, and is %+v", dry, done)
	}
	query := inspect.Query{Lanes: []string{"out"}, State: inspect.Claimed}
	for _, dry := range []bool{true, false} {
		done, err := control.CancelPage(t.Context(), store, store, query, time.Now(), dry)
		if err != nil || done.Tally != (control.Tally{Scanned: 1, Matched: 1, Stopped: 1}) || len(done.Stops) != 1 {
			t.Errorf("dry %v, of what is claimed: %+v, %v", dry, done, err)
		}
	}
}
