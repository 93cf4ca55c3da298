package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// lookTimeout bounds a look at the cluster that others wait for.
const lookTimeout = 2 * time.Second

// topicPartition names a partition as Kafka's protocol does, by the name of its topic.
type topicPartition struct {
	topic  string
	number int32
}

func (p topicPartition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.number) }

func comparePartitions(a, b topicPartition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
}

// sortedPartitions returns the keys of a map in order.
func sortedPartitions[V any](m map[topicPartition]V) []topicPartition {
	list := make([]topicPartition, 0, len(m))
	for p := range m {
		list = append(list, p)
	}
	slices.SortFunc(list, comparePartitions)
	return list
}

// listTopics returns what the cluster says about topics, each for itself. (That of kadm says nothing about any topic if
// one is forbidden.) It is what one broker says: that of asked, or any.
func listTopics(ctx context.Context, asked kmsg.Requestor, topics ...string) (kadm.TopicDetails, error) {
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = new(topic)
		request.Topics = append(request.Topics, one)
	}
	response, err := request.RequestWith(ctx, asked)
	if err != nil {
		return nil, err
	}
	details := make(kadm.TopicDetails, len(topics))
	for _, topic := range response.Topics {
		if topic.Topic == nil {
			continue
		}
		detail := kadm.TopicDetail{
			Topic: *topic.Topic, ID: kadm.TopicID(topic.TopicID), Err: kerr.ErrorForCode(topic.ErrorCode),
			Partitions: make(kadm.PartitionDetails, len(topic.Partitions)),
		}
		for _, p := range topic.Partitions {
			detail.Partitions[p.Partition] = kadm.PartitionDetail{
				Topic: *topic.Topic, Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
				Replicas: p.Replicas, ISR: p.ISR, OfflineReplicas: p.OfflineReplicas,
				Err: kerr.ErrorForCode(p.ErrorCode),
			}
		}
		details[*topic.Topic] = detail
	}
	return details, nil
}

// topicIDs returns the ids of topics, of which all have to exist.
func topicIDs(ctx context.Context, client *kgo.Client, topics []string) (map[string]uuid.UUID, error) {
	details, err := listTopics(ctx, client, topics...)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]uuid.UUID, len(topics))
	for _, topic := range topics {
		if ids[topic], err = topicID(topic, details); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// topicID returns the id of a topic, or why it has none.
func topicID(topic string, details kadm.TopicDetails) (uuid.UUID, error) {
	detail, listed := details[topic]
	switch {
	case !listed || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
		return uuid.UUID{}, &MissingTopicsError{[]string{topic}}
	case detail.Err != nil:
		return uuid.UUID{}, fmt.Errorf("topic %s: %w", topic, detail.Err)
	case detail.ID == kadm.TopicID{}:
		return uuid.UUID{}, errNoTopicIDs
	}
	return uuid.UUID(detail.ID), nil
}

// describe returns what partitions of the topics hold, in order: those that wanted names, or all if it is nil; and of
// which of them that is not known, and why. Where all are wanted, all topics have to exist.
func describe(
	ctx context.Context, client *kgo.Client, topics []string, wanted map[topicPartition]bool,
) (extents []node.Extent, unknown map[topicPartition]error, err error) {
	details, err := listTopics(ctx, client, topics...)
	if err != nil {
		return nil, nil, err
	}
	ids := make(map[string]uuid.UUID, len(topics))
	unknown = make(map[topicPartition]error)
	var led []topicPartition
	for _, topic := range topics {
		if ids[topic], err = topicID(topic, details); err != nil {
			if wanted == nil {
				return nil, nil, err
			}
			for name := range wanted {
				if name.topic == topic {
					unknown[name] = err
				}
			}
			continue
		}
		for _, p := range details[topic].Partitions.Sorted() {
			name := topicPartition{topic, p.Partition}
			switch {
			case wanted != nil && !wanted[name]:
			case p.Err != nil:
				unknown[name] = p.Err
			case p.Leader < 0:
				unknown[name] = kerr.LeaderNotAvailable
			default:
				led = append(led, name)
			}
		}
	}
	slices.SortFunc(led, comparePartitions)
	firsts := listOffsets(ctx, client, led, timestampFirst, true)
	ends := listOffsets(ctx, client, led, timestampEnd, true)
	for _, name := range led {
		first, end := firsts[name], ends[name]
		if err := cmp.Or(first.err, end.err); err != nil {
			unknown[name] = err
			continue
		}
		extents = append(extents, node.Extent{
			Partition: node.Partition{Topic: name.topic, TopicID: ids[name.topic], Number: name.number},
			First:     first.offset, End: max(first.offset, end.offset),
		})
	}
	return extents, unknown, nil
}

// The timestamps that stand for the first record, and for the end of a log.
const (
	timestampFirst = -2
	timestampEnd   = -1
)

// listed is an offset that a broker told, or why it did not.
type listed struct {
	offset int64
	err    error
}

// listOffsets asks the leaders of partitions for the offsets at a timestamp. Where stable is set, the end of a log is
// that of what a consumer sees: it lies before a transaction that is open. Each partition has a result.
//
// A leader that does not answer is found out after requestOverhead. franz-go would allow it the time limit of the
// request besides, half a minute, and a heartbeat waits behind it on the same connection:
//
//	member       asks for offsets at broker 2, which coordinates its group
//	broker 2     is frozen; another one coordinates the group
//	member       sends a heartbeat to broker 2, and gives up on the offsets
//	coordinator  has heard nothing for a session, and gives its partitions to others
//	member       finds out that broker 2 does not answer, 33 s later
func listOffsets(
	ctx context.Context, client *kgo.Client, partitions []topicPartition, timestamp int64, stable bool,
) map[topicPartition]listed {
	results := make(map[topicPartition]listed, len(partitions))
	if len(partitions) == 0 {
		return results
	}
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	if timestamp < 0 {
		request.TimeoutMillis = 0 // for a look in tiered storage, which no such timestamp needs
	}
	if stable {
		request.IsolationLevel = 1
	}
	for i, p := range partitions {
		results[p] = listed{err: errNoResult}
		if i == 0 || partitions[i-1].topic != p.topic {
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = p.topic
			request.Topics = append(request.Topics, topic)
		}
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p.number, timestamp
		topic := &request.Topics[len(request.Topics)-1]
		topic.Partitions = append(topic.Partitions, partition)
	}
	for _, shard := range client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			for _, topic := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
				for _, p := range topic.Partitions {
					results[topicPartition{topic.Topic, p.Partition}] = listed{err: shard.Err}
				}
			}
			continue
		}
		for _, topic := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range topic.Partitions {
				results[topicPartition{topic.Topic, p.Partition}] = listed{p.Offset, kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return results
}

// extentsAsFarAsKnown returns what the partitions of those of the topics hold that exist, in order. The end of one that
// nobody can tell about is node.UnknownEnd: whoever waits for all of them to be taken in must not forget it, nor wait
// for its leader before anything else is done.
func (a *Admin) extentsAsFarAsKnown(ctx context.Context, topics []string) ([]node.Extent, error) {
	var all []node.Extent
	err := a.try(ctx, func(client *kgo.Client) error {
		details, err := listTopics(ctx, client, topics...)
		if err != nil {
			return err
		}
		ids := map[string]uuid.UUID{}
		wanted := map[topicPartition]bool{}
		for _, topic := range topics {
			id, err := topicID(topic, details)
			if missing := new(MissingTopicsError); errors.As(err, &missing) {
				continue
			} else if err != nil {
				return err
			}
			ids[topic] = id
			for _, p := range details[topic].Partitions.Sorted() {
				wanted[topicPartition{topic, p.Partition}] = true
			}
		}
		extents, unknown, err := describe(ctx, client, topics, wanted)
		if err != nil {
			return err
		}
		for _, name := range sortedPartitions(unknown) {
			extents = append(extents, node.Extent{
				Partition: node.Partition{Topic: name.topic, TopicID: ids[name.topic], Number: name.number},
				End:       node.UnknownEnd,
			})
		}
		all = extents
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up what the input topics hold: %w", err)
	}
	return all, nil
}

// extentOf returns what one partition holds. It tries until ctx is done while no broker answers, or that partition has
// no leader; the others may have none.
func (a *Admin) extentOf(ctx context.Context, p topicPartition) (node.Extent, error) {
	var extents []node.Extent
	var reason error // that there was at the last try which had an answer
	err := a.try(ctx, func(client *kgo.Client) error {
		known, unknown, err := describe(ctx, client, []string{p.topic}, map[topicPartition]bool{p: true})
		if err == nil && unknown[p] != nil {
			err = fmt.Errorf("topic %s partition %d: %w", p.topic, p.number, unknown[p])
			reason = err
		}
		extents = known
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil && reason != nil:
		return node.Extent{}, fmt.Errorf("look up what a partition holds: %w (%w)", reason, ctx.Err())
	case err != nil:
		return node.Extent{}, fmt.Errorf("look up what a partition holds: %w", err)
	case len(extents) == 0:
		return node.Extent{}, fmt.Errorf("topic %s has no partition %d", p.topic, p.number)
	}
	return extents[0], nil
}
