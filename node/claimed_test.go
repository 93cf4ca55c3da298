package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// A claim fails when the store has claimed a part already, and tells of that part: it comes out on time, and the call
// counts as failed. Of the rest nobody knows, so that comes out when its claims have expired.
func TestClaimFailsWithMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fill(t, w.store, 2)
		r := w.run(config(0), nil)
		failed := false
		claimed := func(result node.ClaimResult) (node.ClaimResult, error) {
			if failed || len(result.Messages) < 2 {
				return result, nil
			}
			failed = true
			result.Messages = result.Messages[:1]
			return result, errInjected
		}
		r.gate.claimed.Store(&claimed)
		pass(time.Second)
		if n := len(w.on("out")); !failed || n != 1 {
			t.Errorf("%d came out, want the one of which the store has told", n)
		}
		if failures := seen[node.Failed](w); len(failures) != 1 || failures[0].Call != "claim" {
			t.Errorf("the failures are %+v, want that of the claim", failures)
		}
		pass(2 * config(0).HoldTime)
		if n := len(w.on("out")); n != 2 {
			t.Errorf("%d came out, want both", n)
		}
	})
}
