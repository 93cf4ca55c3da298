package kafka_test

import (
	"fmt"
	"testing"

	"chronos/node"
	"chronos/node/broker/brokertest"
)

const (
	benchBatch = 500
	benchValue = 512
)

// BenchmarkPublish measures Publish of batches of 500 records with a key, two headers and a value of 512 bytes
// of JSON-like text, on a topic of 6 partitions.
func BenchmarkPublish(b *testing.B) {
	b.Run("fake", func(b *testing.B) { benchmarkPublish(b, fake(b)) })
	b.Run("kafka", func(b *testing.B) { benchmarkPublish(b, realKafka(b)) })
}

func benchmarkPublish(b *testing.B, env brokertest.Environment) {
	topic := env.Cluster.Topic(b, 6)
	broker := openSink(b, env)
	records := benchRecords(topic, benchBatch)
	b.ReportAllocs()
	for b.Loop() {
		for i, err := range broker.Publish(b.Context(), records) {
			if err != nil {
				b.Fatalf("record %d: %v", i, err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkPublishOne measures Publish of one record: the latency that a message of its own has.
func BenchmarkPublishOne(b *testing.B) {
	b.Run("fake", func(b *testing.B) { benchmarkPublishOne(b, fake(b)) })
	b.Run("kafka", func(b *testing.B) { benchmarkPublishOne(b, realKafka(b)) })
}

func benchmarkPublishOne(b *testing.B, env brokertest.Environment) {
	topic := env.Cluster.Topic(b, 6)
	broker := openSink(b, env)
	records := benchRecords(topic, 1)
	for b.Loop() {
		if err := broker.Publish(b.Context(), records)[0]; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublishLarge measures Publish of 8 records of 1 MiB each, which go one by one.
func BenchmarkPublishLarge(b *testing.B) {
	b.Run("fake", func(b *testing.B) { benchmarkPublishLarge(b, fake(b)) })
	b.Run("kafka", func(b *testing.B) { benchmarkPublishLarge(b, realKafka(b)) })
}

func benchmarkPublishLarge(b *testing.B, env brokertest.Environment) {
	topic := env.Cluster.Topic(b, 6, "max.message.bytes", "4194304", "retention.bytes", "67108864")
	broker := openSink(b, env)
	records := benchRecords(topic, 8)
	for i := range records {
		for len(records[i].Value) < 1<<20 {
			records[i].Value = append(records[i].Value, records[i].Value...)
		}
		records[i].Value = records[i].Value[:1<<20]
	}
	b.SetBytes(8 << 20)
	for b.Loop() {
		for i, err := range broker.Publish(b.Context(), records) {
			if err != nil {
				b.Fatalf("record %d: %v", i, err)
			}
		}
	}
}

// BenchmarkPollCommit measures Poll and Commit, each poll committed, of records as in BenchmarkPublish.
func BenchmarkPollCommit(b *testing.B) {
	b.Run("fake", func(b *testing.B) { benchmarkPollCommit(b, fake(b)) })
	b.Run("kafka", func(b *testing.B) { benchmarkPollCommit(b, realKafka(b)) })
}

func benchmarkPollCommit(b *testing.B, env brokertest.Environment) {
	topic := env.Cluster.Topic(b, 6)
	sink := openSink(b, env)
	broker := openReader(b, env, topic)
	records := benchRecords(topic, benchBatch)
	const prepared = 100
	polled := 0
	b.ReportAllocs()
	for b.Loop() {
		if polled%(prepared*benchBatch) == 0 {
			b.StopTimer()
			for range prepared {
				for i, err := range sink.Publish(b.Context(), records) {
					if err != nil {
						b.Fatalf("record %d: %v", i, err)
					}
				}
			}
			b.StartTimer()
		}
		for n := 0; n == 0; {
			batch, err := broker.Poll(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := broker.Commit(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			n = len(batch)
			polled += n
		}
	}
	b.ReportMetric(float64(polled)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(polled)/float64(b.N), "records/op")
}

func openSink(b *testing.B, env brokertest.Environment) brokertest.Sink {
	sink := env.OpenSink(b, brokertest.SinkOptions{PublishTimeout: defaultPublishTimeout})
	b.Cleanup(sink.Close)
	return sink
}

func openReader(b *testing.B, env brokertest.Environment, input string) *brokertest.Reader {
	source := env.OpenSource(b, brokertest.SourceOptions{Group: input, Inputs: []string{input}})
	b.Cleanup(func() { _ = source.Close(b.Context()) })
	return brokertest.NewReader(source, new(brokertest.Positions))
}

func benchRecords(topic string, n int) []node.Record {
	records := make([]node.Record, n)
	for i := range records {
		var value []byte
		for j := 0; len(value) < benchValue; j++ {
			value = fmt.Appendf(value, `{"order":%d,"line":%d,"state":"waiting"},`, i*7919, j*104729+i)
		}
		records[i] = node.Record{
			Topic: topic, Key: fmt.Append(nil, i), Value: value[:benchValue],
			Headers: []node.Header{
				{Name: "content-type", Value: []byte("application/json")},
				{Name: "trace", Value: fmt.Appendf(nil, "%032x", i)},
			},
		}
	}
	return records
}
