package kafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// openAll makes a source, a sink and an admin, and returns the first error.
func openAll(c config) error {
	if _, err := kafka.NewSource(c.SourceConfig); err != nil {
		return err
	}
	_, err := kafka.NewSink(kafka.SinkConfig{Connection: c.Connection, PublishTimeout: c.PublishTimeout})
	return err
}

// A wrong setting is an error at once, and names the setting.
func TestNewChecksSettings(t *testing.T) {
	t.Parallel()
	valid := func() config {
		return config{
			SourceConfig: kafka.SourceConfig{
				Connection: kafka.Connection{Brokers: []string{"localhost:9092"}},
				Group:      "group", Inputs: []string{"in"},
			},
			PublishTimeout: 2 * time.Second,
		}
	}
	if err := openAll(valid()); err != nil {
		t.Fatalf("a valid configuration: %v", err)
	}
	for name, c := range map[string]struct {
		setting string
		change  func(*config)
	}{
		"no brokers":        {"Brokers", func(c *config) { c.Brokers = nil }},
		"no port":           {"Brokers", func(c *config) { c.Brokers = []string{"kafka"} }},
		"no host":           {"Brokers", func(c *config) { c.Brokers = []string{":9092"} }},
		"port is a name":    {"Brokers", func(c *config) { c.Brokers = []string{"a:1", "b:http"} }},
		"port is too large": {"Brokers", func(c *config) { c.Brokers = []string{"a:65536"} }},
		"port is zero":      {"Brokers", func(c *config) { c.Brokers = []string{"a:0"} }},
		"port and more":     {"Brokers", func(c *config) { c.Brokers = []string{"a:9092x"} }},
		"a URL":             {"Brokers", func(c *config) { c.Brokers = []string{"kafka://a:9092"} }},
		"no group":          {"Group", func(c *config) { c.Group = "" }},
		"no inputs":         {"Inputs", func(c *config) { c.Inputs = nil }},
		"input twice":       {"Inputs", func(c *config) { c.Inputs = []string{"a", "b", "a"} }},
		"input empty":       {"Inputs", func(c *config) { c.Inputs = []string{"a", ""} }},
		"no timeout":        {"PublishTimeout", func(c *config) { c.PublishTimeout = 0 }},
		"short timeout":     {"PublishTimeout", func(c *config) { c.PublishTimeout = time.Second - 1 }},
		"leave too soon":    {"LeaveAfter", func(c *config) { c.LeaveAfter = time.Millisecond }},
		"short session":     {"SessionTimeout", func(c *config) { c.SessionTimeout = time.Millisecond }},
		"negative poll":     {"MaxPollRecords", func(c *config) { c.MaxPollRecords = -1 }},
		"negative bytes":    {"MaxPollBytes", func(c *config) { c.MaxPollBytes = -1 }},
		"negative memory":   {"FetchMemory", func(c *config) { c.FetchMemory = -1 }},
		"negative batch":    {"BatchMemory", func(c *config) { c.BatchMemory = -1 }},
		"negative fetch":    {"FetchMaxBytes", func(c *config) { c.FetchMaxBytes = -1 }},
		"dialer and TLS": {"Dialer", func(c *config) {
			c.TLS = kafka.Fixed(new(tls.Config))
			c.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") }
		}},
	} {
		config := valid()
		c.change(&config)
		err := openAll(config)
		var wrong *node.ConfigError
		if !errors.As(err, &wrong) || wrong.Setting != c.setting || wrong.Allowed == "" {
			t.Errorf("%s: %v, want an error about %s", name, err, c.setting)
		}
	}
	config := valid()
	config.ClientID = strings.Repeat("x", 1000) // which only franz-go knows to be too long
	if err := openAll(config); err == nil {
		t.Error("a client id of 1000 bytes is accepted")
	}
}

// The options for other tools refuse what New does.
func TestConnectionOptions(t *testing.T) {
	t.Parallel()
	if _, err := kafka.ConnectionOptions(kafka.Connection{}); err == nil {
		t.Error("no brokers are accepted")
	}
	if _, err := kafka.ConnectionOptions(kafka.Connection{Brokers: []string{"localhost:9092"}}); err != nil {
		t.Error(err)
	}
}
