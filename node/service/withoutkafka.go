package service

import (
	"context"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/broker/none"
)

// noBrokers is the value of brokers for a node without Kafka.
const noBrokers = "none"

// source and sink are the broker's, whatever it is.
type source interface {
	node.Source

	Joined() bool
	Close(ctx context.Context) error
}

type sink interface {
	node.Sink

	Close()
}

var (
	_ source = (*kafka.Source)(nil)
	_ source = (*none.Source)(nil)
	_ sink   = (*kafka.Sink)(nil)
	_ sink   = (*none.Sink)(nil)
)

// WithoutKafka reports whether there is no Kafka: nothing comes from topics, and nothing comes out there.
func (c *Config) WithoutKafka() bool { return len(c.Kafka.Brokers) == 0 }

// withoutKafka reports whether the settings are those of a node without Kafka: they say so, or they ask for a
// listener for applications and say nothing of Kafka.
func (s *Settings) withoutKafka() bool {
	if s.brokers.IsSet {
		return s.brokers.Text == noBrokers
	}
	return (s.servesAPI() || s.servesMetaswitch() || s.servesHorae()) && s.ofKafka() == nil && !s.kafkaProperties.IsSet
}

// ofKafka returns a setting that only makes sense with Kafka, and that somebody has set; nil for none.
func (s *Settings) ofKafka() *Value {
	for _, v := range []*Value{
		&s.inputTopic, &s.outputTopic, &s.deadLetterTopic, &s.outcomeTopic, &s.targets, &s.tls, &s.tlsCA, &s.tlsCert,
		&s.saslMechanism, &s.group, &s.createTopics, &s.createPartitions, &s.compression,
	} {
		if v.IsSet {
			return v
		}
	}
	if s.file != nil && s.file.routesOrigin != "" {
		return &Value{Origin: s.file.routesOrigin}
	}
	return nil
}

// checkWithoutKafka returns an error for settings that say that there is no Kafka, and ask for something of it.
func (s *Settings) checkWithoutKafka() error {
	if v := s.ofKafka(); v != nil {
		return Usagef("%s is %s, and %s is set: without Kafka there are no "+
			"topics", s.brokers.Origin, noBrokers, v.Origin)
	}
	if !s.servesAPI() && !s.servesMetaswitch() && !s.servesHorae() {
		return Usagef("%s is %s, and api-listen is not set, nor metaswitch-listen or horae-listen: nothing could "+
			"come in",
			s.brokers.Origin, noBrokers)
	}
	return nil
}
