package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
)

// partitionFlags say which partition of the input topic a record goes to, where the way of Java's clients leads to
// another one than the message is in.
type partitionFlags struct {
	Partitioner string `group:"message" enum:"murmur2,crc32,fnv1a" default:"murmur2" help:"Of its key: ${enum}."`
	Partition   *int32 `group:"message" placeholder:"N" help:"The partition of the input topic, whatever the key is."`
}

// option returns how partitions are chosen.
func (f *partitionFlags) option() kgo.Opt {
	if f.Partition != nil {
		return kgo.RecordPartitioner(kgo.ManualPartitioner())
	}
	return kafka.Partitioner(f.Partitioner)
}

// choose gives a record the partition that somebody has asked for, if there is one of that number.
func (f *partitionFlags) choose(ctx context.Context, client *kgo.Client, record *kgo.Record) error {
	if f.Partition == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(limited, record.Topic)
	if err != nil {
		return fmt.Errorf("look up the partitions of topic %s: %w; nothing was sent", record.Topic, err)
	}
	if n := len(topics[record.Topic].Partitions); n > 0 && (*f.Partition < 0 || int(*f.Partition) >= n) {
		return usagef("--partition is %d: topic %s has %d, from 0 to %d", *f.Partition, record.Topic, n, n-1)
	}
	record.Partition = *f.Partition
	return nil
}
