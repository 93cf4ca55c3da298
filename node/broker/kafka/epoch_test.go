package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// TestWithEpochs asks for the epochs before all offsets of a log that several leaders have written, some of which have
// written nothing, with and without a bound.
func TestWithEpochs(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 2)
	for _, records := range []int{2, 0, 3, 0, 1, 0} { // in the epochs 0 to 5
		if records > 0 {
			plain.Produce(t, texts(input, "text", records)...)
		}
		if err := cluster.MoveTopicPartition(input, 0, (cluster.LeaderFor(input, 0)+1)%3); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, configFor(cluster, "group", input))
	extents, err := b.admin.Extents(t.Context(), input)
	if err != nil || len(extents) != 2 {
		t.Fatalf("extents %v: %v", extents, err)
	}
	check := func(what string, offset int64, highest int32, want node.Position) {
		t.Helper()
		got, err := b.admin.WithEpochs(t.Context(), []node.Place{
			{Partition: extents[0].Partition, Position: node.Position{Epoch: highest, Offset: offset}},
			{Partition: extents[1].Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: 3}}, // is empty
		})
		empty := node.Position{Epoch: node.UnknownEpoch}
		if err != nil || len(got) != 2 || got[0].Position != want || got[0].Partition != extents[0].Partition ||
			got[1].Position != empty {
			t.Errorf("%s, %d: %+v, %v; want %+v", what, offset, got, err, want)
		}
	}
	for offset, epoch := range []int32{node.UnknownEpoch, 0, 0, 2, 2, 2, 4} {
		check("any epoch", int64(offset), node.UnknownEpoch, node.Position{Epoch: epoch, Offset: int64(offset)})
	}
	check("behind the end", 9, node.UnknownEpoch, node.Position{Epoch: 4, Offset: 6})
	check("behind the end of its epoch", 6, 3, node.Position{Epoch: 2, Offset: 5})
	check("behind the end of its epoch", 4, 1, node.Position{Epoch: 0, Offset: 2})
	check("at the end of its epoch", 2, 0, node.Position{Epoch: 0, Offset: 2})

	// What retention has taken says nothing any more.
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var until kadm.Offsets
	until.AddOffset(input, 0, 3, -1)
	if _, err := kadm.NewClient(client).DeleteRecords(t.Context(), until); err != nil {
		t.Fatal(err)
	}
	check("before the first record", 2, node.UnknownEpoch, node.Position{Epoch: node.UnknownEpoch, Offset: 2})
	check("at the first record", 3, node.UnknownEpoch, node.Position{Epoch: node.UnknownEpoch, Offset: 3})
	check("at the first record, in a lost log", 3, 4, node.Position{Epoch: node.UnknownEpoch, Offset: 3})
	check("behind the first record", 4, node.UnknownEpoch, node.Position{Epoch: 2, Offset: 4})
}
