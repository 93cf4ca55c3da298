package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"

	"chronos/node"
)

// Connection says how to reach a cluster. Brokers must be set; the zero value of every other field has the meaning that
// its comment states.
type Connection struct {
	// Brokers are the addresses, host:port, of one or more brokers to find the others by.
	Brokers []string

	// ClientID is the name under which this client appears in the logs and quotas of Kafka; "chronos" if empty.
	ClientID string

	// Logger gets what an operator should know; nil for nothing. What repeats is said once a minute. The logs
	// of franz-go itself appear at level debug: they repeat themselves through an outage.
	Logger *slog.Logger

	// TLS returns how to encrypt a connection that is about to be made; nil for not at all. It is asked anew for each
	// of them, so that a certificate that was replaced is used from the next connection on. Fixed has the same
	// answer for all.
	TLS func() (*tls.Config, error)

	// SASL is how to authenticate; nil for not at all. It is asked for each connection as well.
	SASL sasl.Mechanism

	// Hooks are told by franz-go what its clients do, for metrics. All clients of a connection share them.
	Hooks []kgo.Hook

	// Dialer replaces the one of package net, for tests that break the network. It excludes TLS.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

// SourceConfig says what a Source consumes and how. Connection.Brokers, Group and Inputs must be set; the zero value of
// every other field has the meaning that its comment states.
type SourceConfig struct {
	Connection

	// Group is the consumer group.
	Group string

	// Inputs are the topics to consume, each once.
	Inputs []string

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

	// MaxPollBytes bounds the keys, values and headers that Poll returns; 8 MiB if zero. One record can exceed it.
	MaxPollBytes int

	// FetchMaxBytes bounds what one broker sends at a time, as it is stored: compressed. 4 MiB if zero, or FetchMemory
	// if that is less. A single batch can exceed it.
	FetchMaxBytes int32

	// FetchMemory bounds the records that are held in memory before Poll returns them, decompressed, of all brokers
	// together: DefaultFetchMemory if zero. A record counts as 200 bytes more than it has, and a header as 40. A batch
	// that alone is larger comes through by itself, up to BatchMemory. Of what was not compressed each broker has two
	// fetches in memory at most, beside that.
	FetchMemory int

	// BatchMemory is the largest batch, counted alike, that is read at all; DefaultBatchMemory if zero. A larger one
	// stops its partition, and Poll says so: there is no way to read a part of a batch, and a few kilobytes can
	// decompress to more than there is memory.
	BatchMemory int
}

// SinkConfig says how a Sink publishes. Connection.Brokers and PublishTimeout must be set.
type SinkConfig struct {
	Connection

	// PublishTimeout is the time limit of one Publish, 1 s or more: node.Config.PublishTimeout.
	PublishTimeout time.Duration

	// Compression returns how what goes on a topic is compressed; nil for not at all. It must always return the same
	// for the same topic, and is called from several goroutines at once. A record that its topic refuses for its size
	// is sent once more, compressed by Gzip, unless it was sent by Gzip or Zstd. What is as large goes on that topic
	// so from then on.
	Compression func(topic string) Compression
}

// Fixed returns what Connection.TLS is for a configuration that never changes.
func Fixed(config *tls.Config) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return config, nil }
}

// DefaultSessionTimeout is the least that brokers accept with their default settings.
const DefaultSessionTimeout = 6 * time.Second

// The memory for records that a Source has if nobody says otherwise, in bytes.
const (
	DefaultFetchMemory = 64 << 20
	DefaultBatchMemory = 256 << 20
)

const (
	defaultClientID       = "chronos"
	defaultLeaveAfter     = 10 * time.Second
	defaultMaxPollRecords = 500
	defaultMaxPollBytes   = 8 << 20
	defaultFetchMaxBytes  = 4 << 20

	// minPublishTimeout is the least that franz-go takes for the delivery of a record.
	minPublishTimeout = time.Second
)

// connectionDefaults returns c with every field set.
func connectionDefaults(c Connection) Connection {
	c.Brokers = slices.Clone(c.Brokers)
	if c.ClientID == "" {
		c.ClientID = defaultClientID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// sourceDefaults returns c with every field set.
func sourceDefaults(c SourceConfig) SourceConfig {
	c.Connection = connectionDefaults(c.Connection)
	c.Inputs = slices.Clone(c.Inputs)
	c.LeaveAfter = cmp.Or(c.LeaveAfter, defaultLeaveAfter)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.MaxPollRecords = cmp.Or(c.MaxPollRecords, defaultMaxPollRecords)
	c.MaxPollBytes = cmp.Or(c.MaxPollBytes, defaultMaxPollBytes)
	c.FetchMemory = cmp.Or(c.FetchMemory, DefaultFetchMemory)
	c.FetchMaxBytes = cmp.Or(c.FetchMaxBytes, int32(max(1, min(c.FetchMemory, defaultFetchMaxBytes))))
	c.BatchMemory = cmp.Or(c.BatchMemory, DefaultBatchMemory)
	return c
}

// validate returns a *node.ConfigError for the first setting that is not allowed, or nil.
func (c *SourceConfig) validate() error {
	if err := c.Connection.validate(); err != nil {
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
	if err := validateDuration("LeaveAfter", c.LeaveAfter, time.Second); err != nil {
		return err
	}
	if err := validateDuration("SessionTimeout", c.SessionTimeout, time.Second); err != nil {
		return err
	}
	for _, number := range []struct {
		setting string
		value   int
	}{
		{"MaxPollRecords", c.MaxPollRecords},
		{"MaxPollBytes", c.MaxPollBytes},
		{"FetchMaxBytes", int(c.FetchMaxBytes)},
		{"FetchMemory", c.FetchMemory},
		{"BatchMemory", c.BatchMemory},
	} {
		if number.value < 1 || number.value > math.MaxInt32 {
			return &node.ConfigError{
				Setting: number.setting, Value: strconv.Itoa(number.value), Allowed: "it must be from 1 to 2147483647",
			}
		}
	}
	return nil
}

// validate returns a *node.ConfigError for the first setting that is not allowed, or nil.
func (c *SinkConfig) validate() error {
	if err := c.Connection.validate(); err != nil {
		return err
	}
	return validateDuration("PublishTimeout", c.PublishTimeout, minPublishTimeout)
}

func validateDuration(setting string, value, least time.Duration) error {
	if value < least || value > time.Hour {
		return &node.ConfigError{
			Setting: setting, Value: value.String(), Allowed: fmt.Sprintf("it must be from %v to %v", least, time.Hour),
		}
	}
	return nil
}

// validate checks what every client needs.
func (c *Connection) validate() error {
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
