package kafka_test

import (
	"testing"
	"time"

	"chronos/node/broker/kafka"
)

// A record without a key goes around a silent partition, by its number: franz-go would have it choose among those that
// have leaders, where an index is another number.
func TestKeylessAvoidsSilentPartition(t *testing.T) {
	t.Parallel()
	for range 200 {
		if pick, number := kafka.SilentPick(2, 3); pick == 2 || !number {
			t.Fatalf("picked %d, which is the number of a partition: %v", pick, number)
		}
	}
}

// Applications make up names of topics. What is known of topics is bounded, and topics that are missing are not looked
// for any more when nobody wants them.
func TestTopicsAreForgotten(t *testing.T) {
	t.Parallel()
	for place, n := range kafka.Remembered(3 * kafka.MostTopics) {
		if n > kafka.MostTopics+1 {
			t.Errorf("place %d remembers %d topics", place, n)
		}
	}
	if recent, old := kafka.Missing(time.Minute), kafka.Missing(time.Hour); recent != 1 || old != 0 {
		t.Errorf("%d and %d topics are looked for, wanted a minute and an hour ago, want 1 and 0", recent, old)
	}
}
