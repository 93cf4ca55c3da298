package kafka

import (
	"context"
	"crypto/tls"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// dialTimeout bounds the opening of a connection, without the handshakes that follow.
	dialTimeout = 2 * time.Second

	// requestOverhead is how long a broker may be silent about a request that it should answer at once. It is
	// short, so that a connection on which nothing moves any more is replaced soon after the network heals.
	requestOverhead = 3 * time.Second

	// idleTimeout is when a connection that is not used is closed: before the ten minutes at which a broker
	// does it. The default of franz-go, 30 s, would have a message that comes alone wait for two handshakes.
	idleTimeout = 9 * time.Minute

	// metadataAge is how often leaders and partitions are looked up without a reason.
	metadataAge = time.Minute

	// metadataPause is the least time between two looks that have a reason, such as a leader that is gone. It
	// bounds how fast clients find their way after an outage; the default of franz-go is 5 s.
	metadataPause = 100 * time.Millisecond

	// consumerMetadataPause is the same for the consumer, which keeps on looking while an input topic is missing.
	consumerMetadataPause = 250 * time.Millisecond

	// backoffMax is the longest wait between two tries of a request.
	backoffMax = 250 * time.Millisecond

	// bulkBytes is the size of the largest batch of the bulk client before compression. A topic with default
	// settings accepts 1,048,588 bytes, and did 1,000,012 before Kafka 2.5.
	bulkBytes = 1_000_012

	// carefulBytes is the largest record that the careful client sends: a little less than the largest
	// request that a broker with default settings takes, 100 MiB, beyond which it closes the connection.
	carefulBytes = 96 << 20
)

// ConnectionOptions returns the options of a franz-go client that connects as a Source and a Sink do. The tools that
// produce and consume by themselves use it, so that they reach what the node reaches.
func ConnectionOptions(c Connection) ([]kgo.Opt, error) {
	c = connectionDefaults(c)
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c.options(), nil
}

// ProducerOptions returns the options by which a franz-go client produces as a Java client does with its default
// settings: into the partition that the murmur2 hash of the key says, an empty key being a key like any
// other; records without a key go to one partition until a batch is full; acknowledged by all in-sync replicas.
func ProducerOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.RecordPartitioner(javaPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
	}
}

// Partitioners returns the names of the ways in which clients of Kafka choose the partition of a key, see Partitioner.
func Partitioners() []string { return []string{"murmur2", "crc32", "fnv1a"} }

// Partitioner returns the way to choose partitions that a name of Partitioners stands for, as an option that replaces
// the one of ProducerOptions: murmur2 is that of Java's clients, kafkajs, kafka-python and franz-go, crc32 that of
// librdkafka and all clients on it, fnv1a that of sarama and segmentio's kafka-go.
func Partitioner(name string) kgo.Opt {
	switch name {
	case "crc32":
		modulo := func(key []byte, partitions int) int {
			return int(crc32.ChecksumIEEE(key) % uint32(partitions)) //nolint:gosec // there are not so many
		}
		return kgo.RecordPartitioner(kgo.StickyKeyPartitioner(modulo))
	case "fnv1a":
		hash := func(key []byte) uint32 {
			h := fnv.New32a()
			_, _ = h.Write(key) // which never fails
			return h.Sum32()
		}
		return kgo.RecordPartitioner(kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(hash)))
	}
	return kgo.RecordPartitioner(javaPartitioner())
}

// javaPartitioner chooses partitions as ProducerOptions says.
func javaPartitioner() kgo.Partitioner { return kgo.UniformBytesPartitioner(64<<10, true, true, nil) }

// options returns the options that all clients share.
func (c *Connection) options() []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(quiet(c.Logger)),
		kgo.DialTimeout(dialTimeout),
		kgo.RequestTimeoutOverhead(requestOverhead),
		kgo.ConnIdleTimeout(idleTimeout),
		kgo.MetadataMaxAge(metadataAge),
		kgo.MetadataMinAge(metadataPause),
		kgo.RetryBackoffFn(backoff),
		// A connection that is closed before its first answer means a wrong configuration, or a broker that
		// is just restarting behind a proxy. The second must not end a group session or fail a publish.
		kgo.AlwaysRetryEOF(),
		kgo.DisableClientMetrics(),
		kgo.WithHooks(c.Hooks...),
	}
	if c.SASL != nil {
		options = append(options, kgo.SASL(c.SASL))
	}
	return append(options, kgo.Dialer(c.dialer()))
}

// dialer is what opens connections.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns what opens connections to brokers.
func (c *Connection) dialer() dialer {
	switch {
	case c.TLS != nil:
		return c.dialTLS
	case c.Dialer != nil:
		return c.Dialer
	}
	plain := net.Dialer{Timeout: dialTimeout}
	return plain.DialContext
}

// dialTLS makes an encrypted connection. The time limit is that of the opening and the handshake together.
func (c *Connection) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := c.TLS()
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	return dialer.DialContext(ctx, network, address)
}

// options returns the options of the consumer, without its hooks and callbacks.
func (c *SourceConfig) options() []kgo.Opt {
	return append(c.Connection.options(),
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Inputs...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(c.heartbeat()),
		kgo.RebalanceTimeout(c.LeaveAfter+20*time.Second),
		// Where a log does not have the place that it is read from, the Source says what was lost, and goes on.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// The markers that end transactions have offsets, which positions are to pass.
		kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(pollWait/2),
		kgo.FetchMaxBytes(c.FetchMaxBytes),
		// With all of it, what has piled up in one partition would leave nothing to the others. With less than half of
		// it, a fetch of records of 1 MiB returns one of them.
		kgo.FetchMaxPartitionBytes(max(1, c.FetchMaxBytes/2)),
		kgo.MetadataMinAge(consumerMetadataPause),
	)
}

// heartbeat returns the interval of heartbeats: several of them fit into a session, and a rebalance is noticed that
// soon.
func (c *SourceConfig) heartbeat() time.Duration { return c.SessionTimeout / 4 }

// bulkOptions returns the options of the client that publishes nearly everything.
func (c *SinkConfig) bulkOptions(codec Compression) []kgo.Opt {
	return append(c.producerOptions(), kgo.ProducerBatchMaxBytes(bulkBytes), codec.option())
}

// carefulOptions returns the options of the client that publishes what is large or was refused.
func (c *SinkConfig) carefulOptions(codec Compression) []kgo.Opt {
	return append(c.producerOptions(), kgo.ProducerBatchMaxBytes(carefulBytes), codec.option())
}

// producerOptions returns the options that both producers share. Both are idempotent: a try of franz-go that is
// repeated within the time limit appends once. What is given up at the time limit may be appended, though, and
// a caller that publishes it again may append it twice.
func (c *SinkConfig) producerOptions() []kgo.Opt {
	options := append(c.options(), ProducerOptions()...)
	return append(options,
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(2*maxAttempt),
		kgo.AllowIdempotentProduceCancellation(),
		kgo.RecordDeliveryTimeout(c.PublishTimeout),
		kgo.ProduceRequestTimeout(c.PublishTimeout),
	)
}

// backoff returns how long to wait after so many failures: 50 ms, 100 ms, then backoffMax, give or take a fifth.
func backoff(failures int) time.Duration {
	wait := backoffMax
	if failures <= 2 {
		wait = 50 * time.Millisecond << max(failures-1, 0)
	}
	return wait*4/5 + rand.N(wait*2/5)
}
