package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"

	"chronos/node"
)

// Config says which cluster a Broker talks to and how. Brokers, Group, Inputs and PublishTimeout must be set; the
// zero value of every other field has the meaning that its comment states.
type Config struct {
	// Brokers are the addresses, host:port, of one or more brokers to find the others by.
	Brokers []string

	// ClientID is the name under which this client appears in the logs and quotas of Kafka; "chronos" if empty.
	ClientID string

	// Group is the consumer group.
	Group string

	// Inputs are the topics to consume, each once.
	Inputs []string

	// PublishTimeout is the time limit of one Publish, 1 s or more: node.Config.PublishTimeout.
	PublishTimeout time.Duration

	// LeaveAfter is how long the caller may keep a batch without polling, before it calls Leave:
	// node.Config.LeaveAfter; 10 s if zero. The group waits that long, and 20 s more for what else there is
	// to do with a batch, before it rebalances without this node.
	LeaveAfter time.Duration

	// SessionTimeout is how long the group waits for a node that is silent before it gives its partitions to
	// others; 6 s if zero, the least that a broker with default settings accepts. Messages in the input of a
	// node that was killed wait that long. The price of a short one is low: a node that is taken for dead by
	// mistake costs a rebalance, and its last batch is delivered again, which the store ignores. A broker
	// that restarts costs nothing, because the new coordinator counts from its own start.
	SessionTimeout time.Duration

	// MaxPollRecords is the largest number of records that Poll returns; 500 if zero.
	MaxPollRecords int

	// FetchMaxBytes bounds what one broker sends at a time; 4 MiB if zero. That much is buffered for each
	// broker while the caller works on the batch before. A single record can exceed it.
	FetchMaxBytes int32

	// Logger gets what an operator should know; nil for nothing. What repeats is said once a minute. The logs
	// of franz-go itself appear at level debug: they repeat themselves through an outage.
	Logger *slog.Logger

	// TLS is how to encrypt connections; nil for not at all.
	TLS *tls.Config

	// SASL is how to authenticate; nil for not at all.
	SASL sasl.Mechanism

	// Dialer replaces the one of package net, for tests that break the network. It excludes TLS.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultClientID       = "chronos"
	defaultLeaveAfter     = 10 * time.Second
	defaultSessionTimeout = 6 * time.Second
	defaultMaxPollRecords = 500
	defaultFetchMaxBytes  = 4 << 20

	// minPublishTimeout is the least that franz-go takes for the delivery of a record.
	minPublishTimeout = time.Second
)

// withDefaults returns c with every field set.
func withDefaults(c Config) Config {
	c.Brokers = slices.Clone(c.Brokers)
	c.Inputs = slices.Clone(c.Inputs)
	if c.ClientID == "" {
		c.ClientID = defaultClientID
	}
	if c.LeaveAfter == 0 {
		c.LeaveAfter = defaultLeaveAfter
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = defaultSessionTimeout
	}
	if c.MaxPollRecords == 0 {
		c.MaxPollRecords = defaultMaxPollRecords
	}
	if c.FetchMaxBytes == 0 {
		c.FetchMaxBytes = defaultFetchMaxBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate returns a *node.ConfigError for the first setting that is not allowed, or nil.
func (c *Config) validate() error {
	if err := c.validateConnection(); err != nil {
		return err
	}
	switch {
	case c.Group == "":
		return &node.ConfigError{Setting: "Group", Value: "empty", Allowed: "it must name a consumer group"}
	case len(c.Inputs) == 0:
		return &node.ConfigError{Setting: "Inputs", Value: "empty", Allowed: "it must name a topic or more"}
	}
	for i, topic := range c.Inputs {
		if topic == "" || slices.Contains(c.Inputs[:i], topic) {
			return &node.ConfigError{
				Setting: "Inputs", Value: fmt.Sprintf("%q", c.Inputs),
				Allowed: "every topic in it must have a name and be there once",
			}
		}
	}
	bounds := []struct {
		setting  string
		value    time.Duration
		min, max time.Duration
	}{
		{"PublishTimeout", c.PublishTimeout, minPublishTimeout, time.Hour},
		{"LeaveAfter", c.LeaveAfter, time.Second, time.Hour},
		{"SessionTimeout", c.SessionTimeout, time.Second, time.Hour},
	}
	for _, b := range bounds {
		if b.value < b.min || b.value > b.max {
			return &node.ConfigError{
				Setting: b.setting, Value: b.value.String(),
				Allowed: fmt.Sprintf("it must be from %v to %v", b.min, b.max),
			}
		}
	}
	switch {
	case c.MaxPollRecords < 1:
		return &node.ConfigError{
			Setting: "MaxPollRecords", Value: fmt.Sprint(c.MaxPollRecords), Allowed: "it must be 1 or more",
		}
	case c.FetchMaxBytes < 1:
		return &node.ConfigError{
			Setting: "FetchMaxBytes", Value: fmt.Sprint(c.FetchMaxBytes), Allowed: "it must be 1 or more",
		}
	}
	return nil
}

// validateConnection checks what every client needs.
func (c *Config) validateConnection() error {
	if len(c.Brokers) == 0 {
		return &node.ConfigError{
			Setting: "Brokers", Value: "empty", Allowed: "it must hold one address, host:port, or more",
		}
	}
	for _, address := range c.Brokers {
		if err := validateAddress(address); err != nil {
			return &node.ConfigError{
				Setting: "Brokers", Value: fmt.Sprintf("%q", address), Allowed: "it must be host:port: " + err.Error(),
			}
		}
	}
	if c.TLS != nil && c.Dialer != nil {
		return &node.ConfigError{Setting: "Dialer", Value: "set", Allowed: "it must not be set together with TLS"}
	}
	return nil
}

// validateAddress says what is wrong with the address of a broker, without asking any name server.
func validateAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("there is no port")
	}
	if host == "" {
		return errors.New("there is no host")
	}
	var number int
	if _, err := fmt.Sscanf(port+";", "%d;", &number); err != nil || number < 1 || number > 65535 {
		return errors.New("the port is not a number from 1 to 65535")
	}
	return nil
}
