package kafka_test

import (
	"slices"
	"testing"

	"chronos/node/broker/kafka"
)

// TestShares has batches made of what is left of the partitions: each has its share, in records and in bytes, and what
// one does not need of it the others have.
func TestShares(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		records, bytes int
		left, want     []int
		size           int
	}{
		"all have much":                {8, 1000, []int{50, 60}, []int{4, 4}, 1},
		"one has little":               {8, 1000, []int{50, 2, 60}, []int{3, 2, 3}, 1},
		"one has nearly nothing":       {8, 1000, []int{50, 1}, []int{7, 1}, 1},
		"there is room for all":        {8, 1000, []int{3, 0, 4}, []int{3, 0, 4}, 1},
		"more partitions than records": {2, 1000, []int{5, 5, 5}, []int{1, 1, 0}, 1},
		"as many bytes":                {8, 60, []int{50, 50}, []int{3, 3}, 10},
		"one that is too large":        {8, 60, []int{50, 50}, []int{1, 0}, 100},
		"nothing":                      {8, 60, []int{0, 0}, []int{0, 0}, 100},
	} {
		config := kafka.SourceConfig{MaxPollRecords: test.records, MaxPollBytes: test.bytes}
		if got := kafka.Share(config, test.left, test.size); !slices.Equal(got, test.want) {
			t.Errorf("%s: a batch has %d of the partitions, not %d", name, got, test.want)
		}
	}
}
