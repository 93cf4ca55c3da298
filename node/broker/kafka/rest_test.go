package kafka_test

import (
	"testing"
	"time"

	"chronos/node/broker/kafka"
)

// TestPollRests polls a topic to which records come one by one: between two polls that return some there is a rest.
func TestPollRests(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", input))
	plain.Produce(t, texts(input, "first", 1)...)
	pollBatch(t, b)
	for range 5 {
		began := time.Now()
		plain.Produce(t, texts(input, "next", 1)...)
		pollBatch(t, b)
		if took := time.Since(began); took < kafka.PollRest*9/10 {
			t.Fatalf("the next poll returned a record after %v, without a rest", took)
		}
	}
}

// TestPollWaitsLessBeforeACommit polls a topic that has run dry: as long as something is not committed, Poll returns
// soon, so that it can be; and takes its time after that.
func TestPollWaitsLessBeforeACommit(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", input))
	plain.Produce(t, texts(input, "text", 3)...)
	batch := pollBatch(t, b)
	dry := func() time.Duration {
		began := time.Now()
		if records, err := b.Poll(t.Context()); err != nil || len(records) > 0 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		return time.Since(began)
	}
	soon := false
	for range 10 { // the machine may be slow at times
		soon = soon || dry() < kafka.PollWait
	}
	if !soon {
		t.Errorf("no poll has returned within %v, and something is to be committed", kafka.PollWait)
	}
	if err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if took := dry(); took < kafka.PollWait*9/10 {
		t.Errorf("a poll returned after %v, and there was nothing to commit", took)
	}
}
