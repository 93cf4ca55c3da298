package brokertest

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// Cluster is a Kafka cluster seen by a plain franz-go client with default settings.
type Cluster struct {
	options []kgo.Opt
	client  *kgo.Client
	admin   *kadm.Client

	mu        sync.Mutex
	positions map[string]*Positions
}

// Positions returns the positions of a consumer group, as a store would keep them.
func (c *Cluster) Positions(group string) *Positions {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.positions[group] == nil {
		c.positions[group] = new(Positions)
	}
	return c.positions[group]
}

// NewCluster returns the cluster that options connect to, until the test ends.
func NewCluster(t testing.TB, options ...kgo.Opt) *Cluster {
	t.Helper()
	options = append(slices.Clip(options),
		// Large records are a matter between the topic and the adapter, not one of this client.
		kgo.ProducerBatchMaxBytes(16<<20), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatalf("plain client: %v", err)
	}
	t.Cleanup(client.Close)
	return &Cluster{
		options: options, client: client, admin: kadm.NewClient(client), positions: make(map[string]*Positions),
	}
}

// unique returns a name that nobody else uses.
func unique(prefix string) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return prefix + "-" + hex.EncodeToString(b[:])
}

// Topic creates a topic with a name of its own and returns the name. Settings are pairs of a name and a value.
func (c *Cluster) Topic(t testing.TB, partitions int32, settings ...string) string {
	t.Helper()
	topic := unique("topic")
	c.CreateTopic(t, topic, partitions, settings...)
	return topic
}

// CreateTopic creates a topic.
func (c *Cluster) CreateTopic(t testing.TB, topic string, partitions int32, settings ...string) {
	t.Helper()
	configs := make(map[string]*string)
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.admin.CreateTopic(ctx, partitions, -1, configs, topic); err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	c.awaitLeaders(ctx, t, topic, int(partitions))
}

// DeleteTopic deletes a topic, and waits until the brokers do not know it any more.
func (c *Cluster) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.admin.DeleteTopic(ctx, topic); err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
	c.await(ctx, t, topic, func(answer kmsg.MetadataResponseTopic) bool { return answer.ErrorCode != 0 })
}

// awaitLeaders waits until a topic has that many partitions, each with a leader: the brokers hear of a change some time
// after it was acknowledged.
func (c *Cluster) awaitLeaders(ctx context.Context, t testing.TB, topic string, partitions int) {
	t.Helper()
	c.await(ctx, t, topic, func(answer kmsg.MetadataResponseTopic) bool {
		return answer.ErrorCode == 0 && len(answer.Partitions) == partitions &&
			!slices.ContainsFunc(answer.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool {
				return p.ErrorCode != 0 || p.Leader < 0
			})
	})
}

// await waits until what a broker says of a topic is right. It asks the broker each time, for kadm's ListTopics repeats
// for five seconds what it has heard first.
func (c *Cluster) await(
	ctx context.Context, t testing.TB, topic string, right func(kmsg.MetadataResponseTopic) bool,
) {
	t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		response, err := request.RequestWith(ctx, c.client)
		if err == nil && len(response.Topics) == 1 && right(response.Topics[0]) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("topic %s is not yet as it should be after %v: %+v, error %v", topic, patience, response, err)
		}
	}
}

// DeleteRecords deletes the records of a partition before an offset, as retention does.
func (c *Cluster) DeleteRecords(t testing.TB, topic string, partition int32, before int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: before})
	responses, err := c.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s/%d: %v", topic, partition, err)
	}
}

// AddPartitions gives a topic more partitions, up to a total.
func (c *Cluster) AddPartitions(t testing.TB, topic string, total int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	responses, err := c.admin.UpdatePartitions(ctx, total, topic)
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		t.Fatalf("add partitions to %s: %v", topic, err)
	}
	c.awaitLeaders(ctx, t, topic, total)
}

// Produce appends records, each to the partition that it names, and fills in their offsets. A record without a
// timestamp gets that of now; noTimestamp has one appended without any.
func (c *Cluster) Produce(t testing.TB, records ...node.Record) []node.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	batch := make([]*kgo.Record, len(records))
	for i, r := range records {
		batch[i] = plain(r)
	}
	if err := c.client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		t.Fatalf("plain produce: %v", err)
	}
	produced := make([]node.Record, len(records))
	for i, r := range records {
		produced[i] = r
		produced[i].Offset, produced[i].Partition = batch[i].Offset, batch[i].Partition
	}
	return produced
}

// Transact appends records in a transaction, which it commits or aborts. It returns when that stands in the log: the
// coordinator answers before the leaders have its marker.
func (c *Cluster) Transact(t testing.TB, commit bool, records ...node.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := kgo.NewClient(append(slices.Clip(c.options),
		kgo.TransactionalID(unique("transaction")), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatalf("transactional client: %v", err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatalf("begin transaction: %v", err)
	}
	next := map[node.Partition]int64{} // where the marker comes, or after it
	for _, r := range records {
		results := client.ProduceSync(ctx, plain(r))
		if err := results.FirstErr(); err != nil {
			t.Fatalf("produce in a transaction: %v", err)
		}
		next[node.Partition{Topic: r.Topic, Number: r.Partition}] = results[0].Record.Offset + 1
	}
	if err := client.EndTransaction(ctx, kgo.TransactionEndTry(commit)); err != nil {
		t.Fatalf("end transaction: %v", err)
	}
	for p, at := range next {
		for end := int64(0); end <= at; {
			ends, err := c.admin.ListEndOffsets(ctx, p.Topic)
			if ctx.Err() != nil {
				t.Fatalf("wait for the end of a transaction on %s: %v", p.Topic, err)
			}
			if of, found := ends.Lookup(p.Topic, p.Number); found && of.Err == nil {
				end = of.Offset
			}
		}
	}
}

// Read returns all records of a topic that have been appended, in order within each partition, whatever became of the
// transactions that they are in.
func (c *Cluster) Read(t testing.TB, topic string) []node.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	for err != nil || ends.Error() != nil { // until it has found a leader that moves
		if ctx.Err() != nil {
			t.Fatalf("end offsets of %s: %v, %v", topic, err, ends.Error())
		}
		c.client.ForceMetadataRefresh()
		ends, err = c.admin.ListEndOffsets(ctx, topic)
	}
	from := make(map[int32]kgo.Offset)
	left := make(map[int32]int64)
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			from[end.Partition] = kgo.NewOffset().AtStart()
			left[end.Partition] = end.Offset
		}
	})
	if len(from) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(slices.Clip(c.options),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.KeepControlRecords())...)
	if err != nil {
		t.Fatalf("plain client: %v", err)
	}
	defer client.Close()
	var records []node.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("plain fetch of %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records = append(records, polled(r))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records
}

// Committed returns the committed offsets of a group on a topic, by partition.
func (c *Cluster) Committed(t testing.TB, group, topic string) map[int32]int64 {
	t.Helper()
	offsets := make(map[int32]int64)
	for _, o := range c.committed(t, group) {
		if o.Topic == topic {
			offsets[o.Partition] = o.At
		}
	}
	return offsets
}

func (c *Cluster) committed(t testing.TB, group string) []kadm.Offset {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	responses, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		t.Fatalf("offsets of group %s: %v", group, err)
	}
	var offsets []kadm.Offset
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Err != nil {
			t.Fatalf("offset of group %s: %v", group, r.Err)
		}
		offsets = append(offsets, r.Offset)
	})
	return offsets
}

// GroupState returns the state of a group as Kafka calls it, and how many members it has.
func (c *Cluster) GroupState(t testing.TB, group string) (state string, members int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	groups, err := c.admin.DescribeGroups(ctx, group)
	if err != nil {
		t.Fatalf("describe group %s: %v", group, err)
	}
	return groups[group].State, len(groups[group].Members)
}

func plain(r node.Record) *kgo.Record {
	record := &kgo.Record{
		Topic: r.Topic, Partition: r.Partition, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return record
}

func polled(r *kgo.Record) node.Record {
	record := node.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
		Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, node.Header{Name: h.Key, Value: h.Value})
	}
	return record
}

// position names a record for a person.
func position(r node.Record) string { return fmt.Sprintf("%s/%d@%d", r.Topic, r.Partition, r.Offset) }

// Fresh returns the cluster seen by a client of its own, which knows nothing of topics as they were before, until the
// test ends. (To have a client forget a topic is not enough: its partitions would begin to count from zero again, and
// Kafka would take what comes for duplicates.)
func (c *Cluster) Fresh(t testing.TB) *Cluster {
	t.Helper()
	return NewCluster(t, c.options...)
}
