package kafka_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/ledger"
)

// codecs returns how many records of a topic came in batches of each compression, by what their batches say.
func codecs(t *testing.T, brokers []string, topic string, records int) map[kafka.Compression]int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counts := map[kafka.Compression]int{}
	for seen := 0; seen < records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("topic %s: %v, after %d of %d records", topic, err, seen, records)
		}
		for _, r := range fetches.Records() {
			counts[kafka.Compression(r.Attrs.CompressionType())]++
			seen++
		}
	}
	return counts
}

// Records that are published together are compressed as their topics say, each topic by itself, and by default not at
// all: a consumer that knows no codec reads them.
func TestCompression(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	for _, asked := range []bool{false, true} {
		all := map[string]kafka.Compression{}
		var records []node.Record
		for i, word := range kafka.CompressionNames() {
			topic := plain.Topic(t, 1)
			all[topic] = kafka.Compression(i)
			if got, known := kafka.ParseCompression(word); got != all[topic] || !known || got.String() != word {
				t.Errorf("%s is read as %v, %v", word, got, known)
			}
			for range 50 {
				records = append(records, node.Record{Topic: topic, Value: bytes.Repeat([]byte("chronos "), 50)})
			}
		}
		config := kafka.SinkConfig{
			Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, PublishTimeout: defaultPublishTimeout,
		}
		if asked {
			config.Compression = func(topic string) kafka.Compression { return all[topic] }
		}
		sink, err := kafka.NewSink(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sink.Close)
		for i, err := range sink.Publish(t.Context(), records) {
			if err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		for topic, codec := range all {
			want := kafka.Uncompressed
			if asked {
				want = codec
			}
			if got := codecs(t, cluster.ListenAddrs(), topic, 50); got[want] != 50 {
				t.Errorf("topic of %v: %v records by compression, want 50 by %v", codec, got, want)
			}
		}
	}
	if _, known := kafka.ParseCompression("brotli"); known {
		t.Error("brotli is read as a compression")
	}
}

// written counts the bytes that a client writes.
type written struct{ atomic.Int64 }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (w *written) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, bytes int, _, _ time.Duration, _ error) {
	w.Add(int64(bytes))
}

// What a topic refuses for its size is compressed, whatever its compression is, so that it comes out if it fits then;
// and the records of its key stay in their order. The next time it is compressed at once.
func TestCompressionOfWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	for codec, want := range map[kafka.Compression]kafka.Compression{
		kafka.Uncompressed: kafka.Gzip, kafka.Snappy: kafka.Gzip, kafka.LZ4: kafka.Gzip, kafka.Zstd: kafka.Zstd,
	} {
		t.Run(codec.String(), func(t *testing.T) {
			t.Parallel()
			topic := plain.Topic(t, 1, "max.message.bytes", "10000")
			var sent written
			sink, err := kafka.NewSink(kafka.SinkConfig{
				Connection:     kafka.Connection{Brokers: cluster.ListenAddrs(), Hooks: []kgo.Hook{&sent}},
				PublishTimeout: 10 * time.Second, Compression: func(string) kafka.Compression { return codec },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sink.Close)
			// Snappy and LZ4 make a twentieth, and a 255th, of zeros: too little.
			values := [][]byte{[]byte("first"), make([]byte, 4<<20), []byte("third")}
			var records []node.Record
			for _, value := range values {
				records = append(records, node.Record{Topic: topic, Key: []byte("key"), Value: value})
			}
			for range 2 {
				sent.Store(0)
				for i, err := range sink.Publish(t.Context(), records) {
					if err != nil {
						t.Fatalf("record %d: %v", i, err)
					}
				}
			}
			if bytes := sent.Load(); bytes > 100_000 {
				t.Errorf("%d bytes are sent the second time: was it tried as it is once more?", bytes)
			}
			for i, r := range plain.Read(t, topic) {
				if !bytes.Equal(r.Value, values[i%3]) {
					t.Errorf("record %d has %d bytes, want %d", i, len(r.Value), len(values[i%3]))
				}
			}
			if got := codecs(t, cluster.ListenAddrs(), topic, 6); got[want] == 0 {
				t.Errorf("%v records by compression: want some by %v", got, want)
			}
		})
	}
}

// What comes out of a ledger is compressed as the ledger is told, and by default not at all.
func TestLedgerCompression(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	for _, codec := range []kafka.Compression{kafka.Uncompressed, kafka.Gzip} {
		topic, output := plain.Topic(t, 1), plain.Topic(t, 1)
		l, err := kafka.NewLedger(kafka.LedgerConfig{
			Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: topic, Name: topic, Compression: codec,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		w, err := l.Own(t.Context(), 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		transaction := ledger.Transaction{Outputs: []node.Record{
			{Topic: output, Value: make([]byte, 1000)}, {Topic: output, Value: make([]byte, 1000)},
		}}
		if _, err := w.Commit(t.Context(), transaction); err != nil {
			t.Fatal(err)
		}
		if got := codecs(t, cluster.ListenAddrs(), output, 2); got[codec] != 2 {
			t.Errorf("%v: %v records by compression", codec, got)
		}
	}
}
