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

// A wrong setting is an error at once, and names the setting.
func TestNewChecksSettings(t *testing.T) {
	t.Parallel()
	valid := func() kafka.Config {
		return kafka.Config{
			Brokers: []string{"localhost:9092"}, Group: "group", Inputs: []string{"in"},
			PublishTimeout: 2 * time.Second,
		}
	}
	if _, err := kafka.New(valid()); err != nil {
		t.Fatalf("a valid configuration: %v", err)
	}
	for name, c := range map[string]struct {
		setting string
		change  func(*kafka.Config)
	}{
		"no brokers":        {"Brokers", func(c *kafka.Config) { c.Brokers = nil }},
		"no port":           {"Brokers", func(c *kafka.Config) { c.Brokers = []string{"kafka"} }},
		"no host":           {"Brokers", func(c *kafka.Config) { c.Brokers = []string{":9092"} }},
		"port is a name":    {"Brokers", func(c *kafka.Config) { c.Brokers = []string{"a:1", "b:http"} }},
		"port is too large": {"Brokers", func(c *kafka.Config) { c.Brokers = []string{"a:65536"} }},
		"port is zero":      {"Brokers", func(c *kafka.Config) { c.Brokers = []string{"a:0"} }},
		"port and more":     {"Brokers", func(c *kafka.Config) { c.Brokers = []string{"a:9092x"} }},
		"a URL":             {"Brokers", func(c *kafka.Config) { c.Brokers = []string{"kafka://a:9092"} }},
		"no group":          {"Group", func(c *kafka.Config) { c.Group = "" }},
		"no inputs":         {"Inputs", func(c *kafka.Config) { c.Inputs = nil }},
		"input twice":       {"Inputs", func(c *kafka.Config) { c.Inputs = []string{"a", "b", "a"} }},
		"input empty":       {"Inputs", func(c *kafka.Config) { c.Inputs = []string{"a", ""} }},
		"no timeout":        {"PublishTimeout", func(c *kafka.Config) { c.PublishTimeout = 0 }},
		"short timeout":     {"PublishTimeout", func(c *kafka.Config) { c.PublishTimeout = time.Second - 1 }},
		"leave too soon":    {"LeaveAfter", func(c *kafka.Config) { c.LeaveAfter = time.Millisecond }},
		"short session":     {"SessionTimeout", func(c *kafka.Config) { c.SessionTimeout = time.Millisecond }},
		"negative poll":     {"MaxPollRecords", func(c *kafka.Config) { c.MaxPollRecords = -1 }},
		"negative fetch":    {"FetchMaxBytes", func(c *kafka.Config) { c.FetchMaxBytes = -1 }},
		"dialer and TLS": {"Dialer", func(c *kafka.Config) {
			c.TLS = new(tls.Config)
			c.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") }
		}},
	} {
		config := valid()
		c.change(&config)
		_, err := kafka.New(config)
		var wrong *node.ConfigError
		if !errors.As(err, &wrong) || wrong.Setting != c.setting || wrong.Allowed == "" {
			t.Errorf("%s: %v, want an error about %s", name, err, c.setting)
		}
	}
	config := valid()
	config.ClientID = strings.Repeat("x", 1000) // which only franz-go knows to be too long
	if _, err := kafka.New(config); err == nil {
		t.Error("a client id of 1000 bytes is accepted")
	}
}

// The options for other tools refuse what New does.
func TestConnectionOptions(t *testing.T) {
	t.Parallel()
	if _, err := kafka.ConnectionOptions(kafka.Config{}); err == nil {
		t.Error("no brokers are accepted")
	}
	if _, err := kafka.ConnectionOptions(kafka.Config{Brokers: []string{"localhost:9092"}}); err != nil {
		t.Error(err)
	}
}
