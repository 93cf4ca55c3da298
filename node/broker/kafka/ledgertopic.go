package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// LedgerTopic is what a cluster says of the topic of a ledger, as far as whoever asks may see it.
type LedgerTopic struct {
	// Partitions is how many there are; 0 if there is no such topic.
	Partitions int32

	// Replicas is how many copies the partition has that has the fewest, and Brokers how many brokers there are.
	Replicas, Brokers int

	// Settings are those of the topic, by name, with the defaults of the brokers in them. One that may not be seen is
	// absent.
	Settings map[string]string

	// LongestTransaction is the longest time-out that the brokers allow to a transaction; 0 if that may not be seen.
	LongestTransaction time.Duration
}

// maxTransactionSetting is the setting of a broker that bounds the time-outs of transactions.
const maxTransactionSetting = "transaction.max.timeout.ms"

// TransactionTimeout returns the time-out of the transactions of the ledger.
func (l *Ledger) TransactionTimeout() time.Duration { return l.config.TransactionTimeout }

// Topic returns what the cluster says of the topic. It tries until ctx is done while no broker answers.
func (l *Ledger) Topic(ctx context.Context) (LedgerTopic, error) {
	var topic LedgerTopic
	err := l.admin.try(ctx, func(client *kgo.Client) (err error) {
		topic, err = l.lookAt(ctx, client)
		return err
	})
	if err != nil {
		return LedgerTopic{}, fmt.Errorf("look up topic %s: %w", l.config.Topic, err)
	}
	return topic, nil
}

func (l *Ledger) lookAt(ctx context.Context, client *kgo.Client) (topic LedgerTopic, err error) {
	details, err := listTopics(ctx, client, l.config.Topic)
	if err != nil {
		return topic, err
	}
	admin := kadm.NewClient(client)
	brokers, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return topic, err
	}
	topic.Brokers = len(brokers.Brokers)
	detail, listed := details[l.config.Topic]
	if !listed || errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		return topic, nil
	}
	if detail.Err != nil {
		return topic, detail.Err
	}
	topic.Partitions = int32(len(detail.Partitions))
	for _, p := range detail.Partitions {
		if topic.Replicas == 0 || len(p.Replicas) < topic.Replicas {
			topic.Replicas = len(p.Replicas)
		}
	}
	if topic.Settings, err = visible(admin.DescribeTopicConfigs(ctx, l.config.Topic)); err != nil {
		return topic, err
	}
	of, err := visible(admin.DescribeBrokerConfigs(ctx, brokers.Brokers[0].NodeID))
	if ms, wrong := strconv.ParseInt(of[maxTransactionSetting], 10, 64); wrong == nil {
		topic.LongestTransaction = time.Duration(ms) * time.Millisecond
	}
	return topic, err
}

// visible returns the settings of one resource. That somebody may not see them is no error.
func visible(described kadm.ResourceConfigs, err error) (map[string]string, error) {
	settings := map[string]string{}
	for _, resource := range described {
		err = errors.Join(err, resource.Err)
		for _, c := range resource.Configs {
			if c.Value != nil {
				settings[c.Key] = *c.Value
			}
		}
	}
	var auth *kadm.AuthError
	if errors.As(err, &auth) || errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return settings, nil
	}
	return settings, err
}

// Create creates the topic, with so many partitions, the number of replicas that the brokers have as a default, and
// settings. It is no error if somebody else has meanwhile: Topic says what it is like.
func (l *Ledger) Create(ctx context.Context, partitions int32, replicas int16, settings map[string]string) error {
	texts := map[string]*string{}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		texts[name] = new(settings[name])
	}
	if err := l.admin.try(ctx, func(client *kgo.Client) error {
		_, err := kadm.NewClient(client).CreateTopic(ctx, partitions, replicas, texts, l.config.Topic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("create topic %s: %w", l.config.Topic, err)
	}
	client, beat, err := l.admin.client.get()
	if err != nil {
		return fmt.Errorf("create topic %s: %w", l.config.Topic, err)
	}
	return awaitTopics(ctx, client, []TopicSpec{{Name: l.config.Topic}}, beat)
}

// Partitions returns how many partitions another topic has; 0 if there is no such topic. It tries until ctx is done
// while no broker answers.
func (l *Ledger) Partitions(ctx context.Context, topic string) (partitions int32, err error) {
	err = l.admin.try(ctx, func(client *kgo.Client) error {
		details, err := listTopics(ctx, client, topic)
		if err != nil {
			return err
		}
		detail := details[topic]
		if errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		partitions = int32(len(detail.Partitions))
		return detail.Err
	})
	if err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, err)
	}
	return partitions, nil
}

// Records returns how many records the topic has at most, on all its partitions together.
func (l *Ledger) Records(ctx context.Context) (records int64, err error) {
	extents, err := l.admin.Extents(ctx, l.config.Topic)
	for _, e := range extents {
		records += e.End - e.First
	}
	return records, err
}
