package kafka_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// What the group has committed for a topic that was deleted says nothing of the one that has its name now: a node that
// took it for a commit of this one would see a store that was set back. Commits that do not say of which topic they are
// count. Both on a fake cluster and on a real one, whose versions of the protocol differ.
func TestCommitOfFormerTopic(t *testing.T) {
	t.Parallel()
	onBoth(t, commitOfFormerTopic)
}

func commitOfFormerTopic(t *testing.T, brokers []string, plain *brokertest.Cluster) {
	t.Helper()
	const former, current, unsaid, others = 0, 1, 2, 3
	input := plain.Topic(t, 4)
	group := input + "-group"
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.UUID(topics[input].ID)
	offsets := kadm.Offsets{}
	for number, metadata := range map[int32]string{
		former: kafka.MetadataOf(uuid.New()), current: kafka.MetadataOf(id), unsaid: kafka.KeptMetadata, others: "",
	} {
		offsets.Add(kadm.Offset{Topic: input, Partition: number, At: 7, LeaderEpoch: -1, Metadata: metadata})
	}
	if err := admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
		t.Fatal(err)
	}

	b := open(t, config{
		SourceConfig: kafka.SourceConfig{
			Connection: kafka.Connection{Brokers: brokers}, Group: group, Inputs: []string{input},
		},
		PublishTimeout: defaultPublishTimeout,
	})
	committed, err := b.admin.Committed(t.Context(), group, input)
	if err != nil || len(committed) != 3 {
		t.Fatalf("committed %+v: %v, want what is not of another topic", committed, err)
	}
	for _, c := range committed {
		if c.Number == former || c.Offset != 7 || c.Kept != (c.Number != others) {
			t.Errorf("committed %+v", c)
		}
	}
	seen := map[int32]int64{}
	var places []node.Place
	pollFor(t, b.source, patience, func(batch node.Batch, _ error) bool {
		for _, a := range batch.Assigned {
			seen[a.Number] = a.Committed.Offset
			places = append(places, node.Place{Partition: a.Partition, Position: node.Position{Epoch: 0, Offset: 0}})
		}
		return len(seen) == 4
	})
	for number, want := range map[int32]int64{former: -1, current: 7, unsaid: 7, others: 7} {
		if seen[number] != want {
			t.Errorf("partition %d was committed at %d, want %d", number, seen[number], want)
		}
	}

	// What the source commits says of which topic it is.
	if err := b.source.Start(t.Context(), places); err != nil {
		t.Fatal(err)
	}
	await(t, "a commit", func() bool { return b.source.Commit(t.Context(), places) == nil })
	responses, err := admin.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []int32{former, current, unsaid, others} {
		got, _ := responses.Lookup(input, number)
		if got.At != 0 || got.Metadata != kafka.MetadataOf(id) || !strings.Contains(got.Metadata, id.String()) {
			t.Errorf("partition %d is committed at %d, and says %q", number, got.At, got.Metadata)
		}
	}
}

// The group rebalances after franz-go has asked from where to read a partition, and before Poll has told of it; so
// franz-go asks again. What the group has committed is of a topic that was deleted, the second time as well: the source
// once took it for a commit of this one then.
func TestCommitOfFormerTopicAfterRebalance(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	c := configFor(cluster, input+"-group", input)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: input, At: 7, LeaderEpoch: -1, Metadata: kafka.MetadataOf(uuid.New())})
	if err := kadm.NewClient(client).CommitAllOffsets(t.Context(), c.Group, offsets); err != nil {
		t.Fatal(err)
	}
	b := open(t, c)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = b.source.Poll(over) // joins, and waits for nothing
	await(t, "the partition is known", func() bool { return b.source.Repeat(t.Context(), input, 0, 7) })
	pollFor(t, b.source, patience, func(batch node.Batch, _ error) bool {
		for _, a := range batch.Assigned {
			if a.Committed.Offset != -1 {
				t.Errorf("committed at %d, which is of another topic", a.Committed.Offset)
			}
		}
		return len(batch.Assigned) > 0
	})
}
