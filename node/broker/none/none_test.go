package none_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/broker/none"
	"chronos/node/clock/system"
)

// Goal: a poll waits, so that the loop that polls does not spin, and ends when it is told to; nothing comes of it.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := none.NewSource(system.New())
		started := time.Now()
		batch, err := source.Poll(t.Context())
		if err != nil || len(batch.Records)+len(batch.Assigned) > 0 {
			t.Errorf("%+v, %v", batch, err)
		}
		if waited := time.Since(started); waited < 100*time.Millisecond || waited > time.Second {
			t.Errorf("a poll has waited %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		started = time.Now()
		if _, err := source.Poll(ctx); err != nil || time.Since(started) > 0 {
			t.Errorf("a poll that is to end: %v after %v", err, time.Since(started))
		}
	})
}

// Goal: a message for a topic is put off, as for any topic that does not exist, and is not lost.
func TestPublish(t *testing.T) {
	errs := (&none.Sink{}).Publish(t.Context(), make([]node.Record, 2))
	if len(errs) != 2 || node.KindOf(errs[0]) != node.TopicMissing || node.KindOf(errs[1]) != node.TopicMissing {
		t.Errorf("%v", errs)
	}
}
