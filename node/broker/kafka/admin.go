package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

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
func (b *Broker) EnsureTopics(ctx context.Context, create bool, topics ...TopicSpec) error {
	client, beat, err := b.admin.get()
	if err != nil {
		return fmt.Errorf("look up topics: %w", err)
	}
	admin := kadm.NewClient(client)
	missing, err := lookUp(ctx, admin, topics, beat)
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
	for len(missing) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for topics that were created: %w: %w", missingError(missing), ctx.Err())
		}
		pause(ctx, pollPause)
		if missing, err = lookUp(ctx, admin, topics, beat); err != nil {
			return err
		}
	}
	return nil
}

// lookUp returns the topics that do not exist. It tries until ctx is done while no broker answers.
func lookUp(
	ctx context.Context, admin *kadm.Client, topics []TopicSpec, beat *pulse,
) ([]TopicSpec, error) {
	for {
		missing, err := missingOf(ctx, admin, topics)
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
		pause(ctx, pollPause)
	}
}

// missingOf returns the topics that do not exist, or are not ready yet.
func missingOf(ctx context.Context, admin *kadm.Client, topics []TopicSpec) ([]TopicSpec, error) {
	names := make([]string, len(topics))
	for i, topic := range topics {
		names[i] = topic.Name
	}
	details, err := admin.ListTopics(ctx, names...)
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
