package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// Admin asks a cluster about itself, its topics and its groups. It is safe for concurrent use. NewAdmin makes one;
// Close ends it.
type Admin struct{ client *producer }

// NewAdmin returns an Admin for the cluster. It connects to nothing yet; a configuration that can never work is an
// error, a *node.ConfigError wherever one setting is to blame.
func NewAdmin(connection Connection) (*Admin, error) {
	connection = connectionDefaults(connection)
	if err := connection.validate(); err != nil {
		return nil, err
	}
	options := connection.options()
	if err := kgo.ValidateOpts(options...); err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	return &Admin{&producer{options: options}}, nil
}

// Close closes all connections.
func (a *Admin) Close() { a.client.close() }

// ClusterID returns the id that the cluster has given itself when it was set up. It tries until ctx is done while no
// broker answers.
func (a *Admin) ClusterID(ctx context.Context) (string, error) {
	var id string
	err := a.try(ctx, func(client *kgo.Client) error {
		metadata, err := kadm.NewClient(client).BrokerMetadata(ctx)
		if err == nil && metadata.Cluster == "" {
			return errors.New("the brokers do not tell the id of their cluster")
		}
		id = metadata.Cluster
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look up the Kafka cluster: %w", err)
	}
	return id, nil
}

// Committed returns what the consumer group has committed on the topics, in order; the partitions of which it has
// committed nothing are left out, and so are those where what it has is of a topic that had the name before. It tries
// until ctx is done while no broker answers.
func (a *Admin) Committed(ctx context.Context, group string, topics ...string) ([]node.CommittedPlace, error) {
	var committed []node.CommittedPlace
	err := a.try(ctx, func(client *kgo.Client) error {
		ids, err := topicIDs(ctx, client, topics)
		if err != nil {
			return err
		}
		responses, err := kadm.NewClient(client).FetchOffsets(ctx, group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		committed = nil
		for _, response := range responses.Sorted() {
			id, asked := ids[response.Topic]
			if !asked || response.At < 0 {
				continue
			}
			if response.Err != nil {
				return fmt.Errorf("topic %s partition %d: %w", response.Topic, response.Partition, response.Err)
			}
			kept, of := origin(response.Metadata)
			if isOfAnother(of, id) {
				continue
			}
			committed = append(committed, node.CommittedPlace{
				Place: node.Place{
					Partition: node.Partition{Topic: response.Topic, TopicID: id, Number: response.Partition},
					Position:  node.Position{Epoch: response.LeaderEpoch, Offset: response.At},
				},
				Kept: kept,
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up what group %s has committed: %w", group, err)
	}
	return committed, nil
}

// Extents returns what each partition of the topics holds, in order. It tries until ctx is done while no broker
// answers, or a partition has no leader.
func (a *Admin) Extents(ctx context.Context, topics ...string) ([]node.Extent, error) {
	var all []node.Extent
	err := a.try(ctx, func(client *kgo.Client) error {
		extents, missing, err := describe(ctx, client, topics, nil)
		if err == nil {
			for _, name := range sortedPartitions(missing) {
				return fmt.Errorf("topic %s partition %d: %w", name.topic, name.number, missing[name])
			}
		}
		all = extents
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up what the input topics hold: %w", err)
	}
	return all, nil
}

// PlacesAt returns for each partition of the topics, in order, the place of the first record with a timestamp not
// before the instant, or the end of the log where there is none. The epochs are not known. It tries until ctx is
// done while no broker answers, or a partition has no leader.
func (a *Admin) PlacesAt(ctx context.Context, instant time.Time, topics ...string) ([]node.Place, error) {
	var places []node.Place
	err := a.try(ctx, func(client *kgo.Client) error {
		extents, missing, err := describe(ctx, client, topics, nil)
		if err != nil {
			return err
		}
		for _, name := range sortedPartitions(missing) {
			return fmt.Errorf("topic %s partition %d: %w", name.topic, name.number, missing[name])
		}
		var names []topicPartition
		for _, e := range extents {
			names = append(names, topicPartition{e.Topic, e.Number})
		}
		listed := listOffsets(ctx, client, names, instant.UnixMilli(), false)
		places = nil
		for i, e := range extents {
			first := listed[names[i]]
			if first.err != nil {
				return fmt.Errorf("topic %s partition %d: %w", e.Topic, e.Number, first.err)
			}
			if first.offset < 0 { // all records are older
				first.offset = e.End
			}
			places = append(places, node.Place{
				Partition: e.Partition, Position: node.Position{Epoch: node.UnknownEpoch, Offset: first.offset},
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up offsets by time: %w", err)
	}
	return places, nil
}

// try calls ask until it succeeds, or says what waiting does not mend, or ctx is done.
func (a *Admin) try(ctx context.Context, ask func(*kgo.Client) error) error {
	client, beat, err := a.client.get()
	if err != nil {
		return err
	}
	for {
		err := ask(client)
		var missing *MissingTopicsError
		if _, permanent := Permanent(err); err == nil || permanent || !isTransient(err) || errors.As(err, &missing) {
			return err
		}
		if ctx.Err() != nil {
			if trouble := beat.stopped(0); trouble != nil {
				return fmt.Errorf("no broker answers: %w", trouble)
			}
			return err
		}
		pause(ctx)
	}
}

// TopicSpec is a topic that is needed.
type TopicSpec struct {
	Name string

	// Partitions is how many it gets when it is created; 0 for the default of the broker.
	Partitions int32

	// Replicas is how many copies of each partition there are when it is created; 0 for the default of the
	// broker.
	Replicas int16
}

// A MissingTopicsError says that topics do not exist.
type MissingTopicsError struct{ Topics []string }

// Error returns the sentence for a person.
func (e *MissingTopicsError) Error() string {
	if len(e.Topics) == 1 {
		return fmt.Sprintf("topic %s does not exist", e.Topics[0])
	}
	last := len(e.Topics) - 1
	return fmt.Sprintf("topics %s and %s do not exist", strings.Join(e.Topics[:last], ", "), e.Topics[last])
}

// EnsureTopics returns nil when all topics exist. If create is set, it creates those that are missing and waits until
// they can be used; otherwise it returns a *MissingTopicsError that names them. It tries until ctx is done
// while no broker answers.
func (a *Admin) EnsureTopics(ctx context.Context, create bool, topics ...TopicSpec) error {
	client, beat, err := a.client.get()
	if err != nil {
		return fmt.Errorf("look up topics: %w", err)
	}
	admin := kadm.NewClient(client)
	missing, err := lookUp(ctx, client, topics, beat)
	switch {
	case err != nil:
		return err
	case len(missing) == 0:
		return nil
	case !create:
		return missingError(missing)
	}
	for _, topic := range missing {
		if err := createTopic(ctx, admin, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic.Name, err)
		}
	}
	return awaitTopics(ctx, client, topics, beat)
}

// awaitTopics waits until all brokers know of topics that were created. Each learns of them by itself:
//
//	the controller creates x, and answers      broker 2 has heard of it, and says that it is there
//	                                           broker 3, which is asked next, says that it is not
//
// A broker that does not answer counts for nothing: it learns of them before it serves anybody again.
func awaitTopics(ctx context.Context, client *kgo.Client, topics []TopicSpec, beat *pulse) error {
	for {
		missing, err := lookUp(ctx, client, topics, beat)
		if err != nil {
			return err
		}
		for _, b := range client.DiscoveredBrokers() {
			if len(missing) == 0 {
				missing = missingAt(ctx, b, topics)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for topics that were created: %w: %w", missingError(missing), ctx.Err())
		}
		pause(ctx)
	}
}

// missingAt returns the topics that a broker does not know of; none if it does not answer soon.
func missingAt(ctx context.Context, broker *kgo.Broker, topics []TopicSpec) []TopicSpec {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	missing, err := missingOf(ctx, broker, topics)
	if err != nil {
		return nil
	}
	return missing
}

// lookUp returns the topics that do not exist. It tries until ctx is done while no broker answers.
func lookUp(
	ctx context.Context, client *kgo.Client, topics []TopicSpec, beat *pulse,
) ([]TopicSpec, error) {
	for {
		missing, err := missingOf(ctx, client, topics)
		if err == nil {
			return missing, nil
		}
		if !isTransient(err) {
			return nil, fmt.Errorf("look up topics: %w", err)
		}
		if ctx.Err() != nil {
			if trouble := beat.stopped(0); trouble != nil {
				return nil, fmt.Errorf("look up topics: no broker answers: %w", trouble)
			}
			return nil, fmt.Errorf("look up topics: %w", err)
		}
		pause(ctx)
	}
}

// missingOf returns the topics that do not exist, or are not ready yet, as one broker says: that of asked, or any.
func missingOf(ctx context.Context, asked kmsg.Requestor, topics []TopicSpec) ([]TopicSpec, error) {
	names := make([]string, len(topics))
	for i, topic := range topics {
		names[i] = topic.Name
	}
	details, err := listTopics(ctx, asked, names...)
	if err != nil {
		return nil, err
	}
	var missing []TopicSpec
	seen := make(map[string]bool)
	for _, topic := range topics {
		if seen[topic.Name] {
			continue
		}
		seen[topic.Name] = true
		switch err := details[topic.Name].Err; {
		case err == nil:
		case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.LeaderNotAvailable):
			missing = append(missing, topic)
		default:
			return nil, fmt.Errorf("topic %s: %w", topic.Name, err)
		}
	}
	return missing, nil
}

// createTopic creates a topic. It is no error if somebody else has meanwhile.
func createTopic(ctx context.Context, admin *kadm.Client, topic TopicSpec) error {
	partitions, replicas := topic.Partitions, topic.Replicas
	if partitions == 0 {
		partitions = -1
	}
	if replicas == 0 {
		replicas = -1
	}
	_, err := admin.CreateTopic(ctx, partitions, replicas, nil, topic.Name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// isTransient reports whether err may be gone at the next try: nobody answers, or not yet.
func isTransient(err error) bool {
	var kafka *kerr.Error
	return !errors.As(err, &kafka) || kafka.Retriable
}

func missingError(topics []TopicSpec) error {
	e := new(MissingTopicsError)
	for _, topic := range topics {
		e.Topics = append(e.Topics, topic.Name)
	}
	return e
}
