package node_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// settling is a store that publishes: what is acknowledged is settled in the same step.
type settling struct{ gatedSink }

func (s *settling) Fire(
	ctx context.Context, records []node.Record, next []node.Next,
) (settled []node.Settled, errs []error) {
	settled = make([]node.Settled, len(records))
	errs = s.Publish(ctx, records)
	for i, err := range errs {
		if err != nil {
			continue
		}
		one, broken := s.world.store.Rearm(ctx, next[i:i+1])
		if broken != nil {
			panic(broken) // the memory store does not fail
		}
		settled[i] = one[0]
	}
	return settled, errs
}

// Where the store publishes by itself, what comes out is settled with it, and nothing is settled again: messages,
// occurrences, and copies for the dead-letter topic. What came out is told as always.
func TestSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settles = true
		w.refuse = func(r node.Record) error {
			if r.Topic == "out" && string(r.Value) == "value refused" {
				return fmt.Errorf("%w: too large", node.ErrRejected)
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
