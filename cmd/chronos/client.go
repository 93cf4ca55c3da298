package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// answerTimeout is how long a command that a person waits for gives Kafka to answer at all.
const answerTimeout = service.AnswerTimeout

// connect returns a client of the cluster that settings describe. It fails soon, and says why, when no broker answers.
func connect(ctx context.Context, settings *service.Settings, options ...kgo.Opt) (*kgo.Client, error) {
	config, err := settings.Connection()
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
		return nil, connectError(strings.Join(config.Brokers, ", "), err)
	}
	return client, nil
}

// connectError tells what is wrong with a connection, as far as that can be told: a broker that is asked for TLS or
// SASL that it does not have, or has it and is not asked for it, may just hang up.
func connectError(brokers string, err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no Kafka broker answers at %s: is it, or \"chronos dev\", running there? --brokers names "+
			"others", brokers)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the Kafka broker at %s closes the connection: it may want other TLS or SASL settings",
			brokers)
	default:
		return fmt.Errorf("connect to Kafka at %s: %s", brokers, service.CauseHere(err))
	}
}

// oneLine returns what err says, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
