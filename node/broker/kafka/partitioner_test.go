package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
)

// Each name of a partitioner leads to the partition that the clients choose which it stands for: the values for
// murmur2 are those of Kafka's own tests, for crc32 those of zlib, for fnv1a those of its authors.
func TestPartitioners(t *testing.T) {
	const partitions = 100
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for name, want := range map[string]map[string]int32{
		// murmur2 of Java: foobar is -790332482, 21 is -973932308; the sign is masked.
		"murmur2": {"foobar": (-790332482 & 0x7fffffff) % partitions, "21": (-973932308 & 0x7fffffff) % partitions},
		// CRC-32 as zlib has it, of its check value and of another text.
		"crc32": {"123456789": 0xcbf43926 % partitions, "customer-7": 0x28c7948 % partitions},
		// FNV-1a, of which sarama takes the absolute value as an int32.
		"fnv1a": {"foobar": -(0xbf9cf968 - 1<<32) % partitions, "a": -(0xe40c292c - 1<<32) % partitions},
	} {
		client, err := kgo.NewClient(append(kafka.ProducerOptions(), kafka.Partitioner(name),
			kgo.SeedBrokers(cluster.ListenAddrs()...))...)
		if err != nil {
			t.Fatal(err)
		}
		for key, partition := range want {
			record := &kgo.Record{Topic: "in", Key: []byte(key)}
			if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if record.Partition != partition {
				t.Errorf("%s leads %q to partition %d, want %d", name, key, record.Partition, partition)
			}
		}
		client.Close()
	}
}
