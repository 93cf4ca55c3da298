package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
)

// answerTimeout is how long a command that a person waits for gives Kafka to answer at all.
const answerTimeout = 5 * time.Second

// connect returns a client of the cluster that settings describe. It fails soon, and says why, when no broker answers.
func connect(ctx context.Context, settings *kafkaSettings, options ...kgo.Opt) (*kgo.Client, error) {
	config, err := settings.connection()
	if err != nil {
		return nil, err
	}
	connection, err := kafka.ConnectionOptions(config)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(connection, options...)...)
	if err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := client.Ping(limited); err != nil {
		client.Close()
		return nil, fmt.Errorf("no Kafka broker answers at %s (%s); is it, or \"chronos dev\", running there?",
			strings.Join(config.Brokers, ", "), oneLine(err))
	}
	return client, nil
}
