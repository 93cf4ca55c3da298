package kafka_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// defaultPublishTimeout is that of the tests that do not care.
const defaultPublishTimeout = patience

// These tests wait for time limits and hardly compute: more of them fit into a machine than it has processors.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil { // unless the command line says otherwise
		panic(err)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// onBoth runs a test on a fake cluster and on a real one, whose versions of the protocol differ.
func onBoth(t *testing.T, test func(t *testing.T, brokers []string, plain *brokertest.Cluster)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		cluster, plain := newFake(t)
		test(t, cluster.ListenAddrs(), plain)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		addresses := os.Getenv("CHRONOS_TEST_KAFKA")
		if addresses == "" {
			t.Skip("CHRONOS_TEST_KAFKA names no broker")
		}
		brokers := strings.Split(addresses, ",")
		test(t, brokers, brokertest.NewCluster(t, kgo.SeedBrokers(brokers...)))
	})
}

// newFake returns a fake cluster and the plain view of it, until the test ends.
func newFake(t testing.TB, options ...kfake.Opt) (*kfake.Cluster, *brokertest.Cluster) {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(time.Second),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster, brokertest.NewCluster(t, kgo.SeedBrokers(cluster.ListenAddrs()...))
}

// config is that of a source and a sink that share a connection.
type config struct {
	kafka.SourceConfig

	PublishTimeout time.Duration
}

// configFor returns a configuration that consumes one topic or more from a fake cluster.
func configFor(cluster *kfake.Cluster, group string, inputs ...string) config {
	return config{
		SourceConfig: kafka.SourceConfig{
			Connection:     kafka.Connection{Brokers: cluster.ListenAddrs()},
			Group:          group,
			Inputs:         inputs,
			SessionTimeout: fakeSession,
		},
		PublishTimeout: defaultPublishTimeout,
	}
}

// broker is a source, a sink and an admin, the source read at positions as a node does it.
type broker struct {
	*brokertest.Reader
	*kafka.Sink

	source *kafka.Source
	admin  *kafka.Admin
}

// Commit commits records, again while it takes longer than Commit waits.
func (b *broker) Commit(ctx context.Context, records []node.Record) error {
	for deadline := time.Now().Add(patience); ; {
		err := b.Reader.Commit(ctx, records)
		if err == nil || !strings.Contains(err.Error(), "not answered yet") || time.Now().After(deadline) {
			return err
		}
	}
}

// Close closes all of it, and returns the error of the source.
func (b *broker) Close(ctx context.Context) error {
	err := b.source.Close(ctx)
	b.Sink.Close()
	b.admin.Close()
	return err
}

// positions holds those of all groups of all clusters.
var positions sync.Map

// open opens a source, a sink and an admin until the test ends.
func open(t testing.TB, c config) *broker {
	t.Helper()
	source, err := kafka.NewSource(c.SourceConfig)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := kafka.NewSink(kafka.SinkConfig{Connection: c.Connection, PublishTimeout: c.PublishTimeout})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := kafka.NewAdmin(c.Connection)
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := positions.LoadOrStore(c.Brokers[0]+" "+c.Group, new(brokertest.Positions))
	b := &broker{brokertest.NewReader(source, kept.(*brokertest.Positions)), sink, source, admin}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// await waits until done is true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// pollValues polls until there are n records, ignoring errors, and returns their values.
func pollValues(t *testing.T, b *broker, n int) []string {
	t.Helper()
	var got []string
	var last error
	for deadline := time.Now().Add(patience); len(got) < n; {
		records, err := b.Poll(t.Context())
		if err != nil {
			last = err
		}
		for _, r := range records {
			got = append(got, string(r.Value))
		}
		if time.Now().After(deadline) {
			t.Fatalf("polled %q within %v, want %d records; the last error was: %v", got, patience, n, last)
		}
	}
	return got
}

// pollBatch polls until a poll returns records.
func pollBatch(t *testing.T, b *broker) []node.Record {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		records, err := b.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(records) > 0 {
			return records
		}
	}
	t.Fatalf("no records within %v", patience)
	return nil
}

// pollError polls until an error comes.
func pollError(t *testing.T, b *broker) error {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := b.Poll(t.Context()); err != nil {
			return err
		}
	}
	t.Fatalf("no error within %v", patience)
	return nil
}

// texts returns n records on a topic with the values "prefix-0" and so on.
func texts(topic, prefix string, n int) []node.Record {
	records := make([]node.Record, n)
	for i := range records {
		records[i] = node.Record{Topic: topic, Value: fmt.Appendf(nil, "%s-%d", prefix, i)}
	}
	return records
}

// noise returns bytes that cannot be compressed.
func noise(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// values returns the values of records, in order of the alphabet.
func values(records []node.Record) []string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = string(r.Value)
	}
	slices.Sort(list)
	return list
}

// publishOne publishes a record with this value.
func publishOne(t *testing.T, b *broker, topic, value string) error {
	t.Helper()
	return b.Publish(t.Context(), []node.Record{{Topic: topic, Value: []byte(value)}})[0]
}

// memoryLog is a slog.Handler that keeps what is logged at level info and above.
type memoryLog struct {
	mu    sync.Mutex
	lines []string
}

func (m *memoryLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (m *memoryLog) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	m.mu.Lock()
	m.lines = append(m.lines, line)
	m.mu.Unlock()
	return nil
}

func (m *memoryLog) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m *memoryLog) WithGroup(string) slog.Handler      { return m }

func (m *memoryLog) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}
