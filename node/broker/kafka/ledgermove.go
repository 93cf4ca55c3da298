package kafka

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What is needed to move the contents of a journal, and by nobody else.

// Stable returns the offset behind everything in a partition that has been committed, and before which no transaction
// is open. It tries until ctx is done while no broker answers, or that partition has no leader: the others may have
// none.
func (l *Ledger) Stable(ctx context.Context, number int32) (end int64, err error) {
	place, err := l.End(ctx, number)
	return place.Offset, err
}

// Identify returns the identity of another topic, and that of the cluster.
func (l *Ledger) Identify(ctx context.Context, topic string) (id uuid.UUID, cluster string, err error) {
	if cluster, err = l.admin.ClusterID(ctx); err != nil {
		return id, "", err
	}
	err = l.admin.try(ctx, func(client *kgo.Client) error {
		ids, err := topicIDs(ctx, client, []string{topic})
		id = ids[topic]
		return err
	})
	return id, cluster, err
}

// JavaPartition returns the partition that a Java producer chooses for a key that is not null.
func JavaPartition(key []byte, partitions int32) int32 {
	keyed := kgo.StickyKeyPartitioner(nil).ForTopic("") // any of the client does the same with a key
	return int32(keyed.Partition(&kgo.Record{Key: key}, int(partitions)))
}
