package service

import (
	"slices"

	"chronos/node/broker/kafka"
	"chronos/node/deadletter"
)

// openDead makes what answers for dead letters.
func (s *Service) openDead() error {
	config := &s.config
	connection := config.Kafka
	connection.Logger = s.log
	options, err := kafka.ConnectionOptions(connection)
	if err != nil {
		return err
	}
	topics := config.Node.Callbacks.DeadLetters()
	for _, r := range config.Node.Routes {
		topics = append(topics, r.DeadLetter)
	}
	slices.Sort(topics)
	topics = slices.DeleteFunc(slices.Compact(topics), func(topic string) bool { return topic == "" })
	s.dead = deadletter.New(deadletter.Config{
		Options: append(options, kafka.ProducerOptions()...), Topics: topics, Inputs: config.inputs(),
	})
	return nil
}
