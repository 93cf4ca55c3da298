package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// settling is a store that publishes: what is acknowledged is settled in the same step, and what the store does not
// have any more is not published.
type settling struct{ *gatedSink }

func (s *settling) Fire(
	ctx context.Context, records []node.Record, next []node.Next,
) (settled []node.Settled, errs []error) {
	settled, errs = make([]node.Settled, len(records)), make([]error, len(records))
	stored := map[uuid.UUID]bool{}
	for _, row := range s.world.store.Dump() {
		stored[row.Incarnation] = true
	}
	for i := range records {
		if !stored[next[i].Of.Incarnation] {
			errs[i] = fmt.Errorf("%w: as the test has it", node.MessageGone)
		}
	}
	for i, err := range s.publishThose(ctx, records, errs) {
		if errs[i] = err; err != nil {
			continue
		}
		one, broken := s.world.store.Settle(ctx, next[i:i+1])
		if broken != nil {
			panic(broken) // the memory store does not fail
		}
		settled[i] = one[0]
	}
	return settled, errs
}

// publishThose publishes the records that have no error yet, in one call, and returns the errors of all.
func (s *settling) publishThose(ctx context.Context, records []node.Record, errs []error) []error {
	var there []node.Record
	for i, err := range errs {
		if err == nil {
			there = append(there, records[i])
		}
	}
	if len(there) == 0 {
		return errs
	}
	results := s.Publish(ctx, there)
	errs = slices.Clone(errs)
	for i, err := range errs {
		if err == nil {
			errs[i], results = results[0], results[1:]
		}
	}
	return errs
}

// Where the store publishes by itself, what comes out is settled with it, and nothing is settled again: messages,
// occurrences, and copies for the dead-letter topic. What came out is told as always.
func TestSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settles = true
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" && string(r.Value) == "value refused" {
				return fmt.Errorf("%w: too large", node.RecordRejected)
			}
			return nil
		}
		start := time.Now()
		w.submit("once", time.Second)
		w.submit("refused", time.Second)
		w.submit("again", 2*time.Second)
		w.series("series", "every 2s", time.Second, node.HeaderRepeatCount, "3")
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "delete" {
				t.Error("something is settled once more")
			}
			return nil, true
		})
		pass(20 * time.Second)
		for id, want := range map[string]string{
			"once": "?@1.0", "again": "?@2.0", "refused": "", "series": "1@1.0 2@3.0 3@5.0",
		} {
			if got := w.came(id, start); got != want {
				t.Errorf("%s came %q, want %q", id, got, want)
			}
		}
		if dead := w.values("dead"); dead["value refused"] != 1 || len(dead) != 1 {
			t.Errorf("dead letters: %v", dead)
		}
		deleted, recurred := 0, 0
		for _, e := range seen[node.Deleted](w) {
			deleted += len(e.Refs)
		}
		for _, e := range seen[node.Recurred](w) {
			recurred += len(e.Next)
		}
		if deleted != 4 || recurred != 2 || len(seen[node.Missing](w)) != 0 {
			t.Errorf("told of %d deleted, %d recurred, missing %v", deleted, recurred, seen[node.Missing](w))
		}
		w.empty()
	})
}

// A step that nobody knows the outcome of settles nothing here: what the store has is the truth, and is claimed again.
func TestSettlingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settles = true
		for i := range 20 {
			w.submit(id(i), time.Second)
		}
		failures := 0
		w.run(config(0), func(_ int, call string) (error, bool) {
			if call == "publish" && failures < 2 {
				failures++
				return errors.New("no broker answers"), false
			}
			return nil, true
		})
		pass(20 * time.Second)
		if out := w.values("out"); failures != 2 || len(out) != 20 {
			t.Errorf("%d failures, and then came out: %v", failures, out)
		}
		w.empty()
	})
}

// What is replaced while it is held is gone, and its lane has not failed: the next message there is on time, however
// often that happens. Nothing comes out of what is gone, neither a record nor a copy of it.
func TestSettlingGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settles = true
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" && string(r.Value) == "value refused" {
				w.replaces("refused")
				return fmt.Errorf("%w: too large", node.RecordRejected)
			}
			return nil
		}
		n := w.run(config(0), nil)
		replace := node.Header{Name: node.HeaderAction, Value: []byte("replace")}
		pass(time.Second)
		for range 4 {
			w.submit("x", 200*time.Millisecond, replace)
			pass(90 * time.Millisecond)
			if w.claimedBy(n.node.ID()) != 1 {
				t.Fatal("it is not held")
			}
			w.submit("x", time.Hour, replace)
			pass(500 * time.Millisecond)
		}
		w.submit("refused", 100*time.Millisecond)
		pass(500 * time.Millisecond)
		w.submit("y", 300*time.Millisecond)
		pass(10 * time.Second)
		if times := w.instants("out"); len(times) != 1 || times[0] > 4200*time.Millisecond {
			t.Errorf("they came out at %v, want one, after 4.16s", times)
		}
		if dead, failed := w.on("dead"), seen[node.Failed](w); len(dead) != 0 || len(failed) != 0 {
			t.Errorf("dead letters: %v; failures: %v", dead, failed)
		}
	})
}

// replaces has somebody replace a message.
func (w *world) replaces(id string) {
	item := node.Item{From: node.NoPlace, Action: node.Replace, Message: node.Message{
		ID: id, Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().Add(time.Hour),
	}}
	if _, err := w.store.Take(w.t.Context(), node.TakeRequest{Items: []node.Item{item}}); err != nil {
		w.t.Error(err)
	}
}
