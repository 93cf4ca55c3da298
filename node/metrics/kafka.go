package metrics

import (
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// Kafka returns a hook for the Kafka clients of one purpose, such as source, which is a label. A node makes and ends
// clients as it goes: what they do is counted together, as chronos_kafka_*.
func (m *Metrics) Kafka(client string) kgo.Hook {
	registry := prometheus.WrapRegistererWith(prometheus.Labels{"client": client}, m.registry)
	return &kafkaHook{
		inner:     kprom.NewMetrics("chronos_kafka", kprom.Registerer(withoutBuffers{registry})),
		throttled: m.counters["chronos_throttled_seconds_total"].WithLabelValues(client),
	}
}

// kafkaHook is kprom for many clients, one after another and side by side. kprom itself registers its metrics with each
// new client, which is refused for the second, and forgets all counts with the end of one.
type kafkaHook struct {
	once      sync.Once
	inner     *kprom.Metrics
	throttled prometheus.Counter
}

var (
	_ kgo.HookNewClient           = (*kafkaHook)(nil)
	_ kgo.HookBrokerConnect       = (*kafkaHook)(nil)
	_ kgo.HookBrokerDisconnect    = (*kafkaHook)(nil)
	_ kgo.HookBrokerRead          = (*kafkaHook)(nil)
	_ kgo.HookBrokerWrite         = (*kafkaHook)(nil)
	_ kgo.HookBrokerE2E           = (*kafkaHook)(nil)
	_ kgo.HookBrokerThrottle      = (*kafkaHook)(nil)
	_ kgo.HookProduceBatchWritten = (*kafkaHook)(nil)
	_ kgo.HookFetchBatchRead      = (*kafkaHook)(nil)
)

// OnNewClient has the first client make the metrics.
func (h *kafkaHook) OnNewClient(client *kgo.Client) {
	h.once.Do(func() { h.inner.OnNewClient(client) })
}

// OnBrokerConnect counts.
func (h *kafkaHook) OnBrokerConnect(meta kgo.BrokerMetadata, took time.Duration, conn net.Conn, err error) {
	h.inner.OnBrokerConnect(meta, took, conn, err)
}

// OnBrokerDisconnect counts.
func (h *kafkaHook) OnBrokerDisconnect(meta kgo.BrokerMetadata, conn net.Conn) {
	h.inner.OnBrokerDisconnect(meta, conn)
}

// OnBrokerRead counts.
func (h *kafkaHook) OnBrokerRead(
	meta kgo.BrokerMetadata, key int16, bytes int, wait, took time.Duration, err error,
) {
	h.inner.OnBrokerRead(meta, key, bytes, wait, took, err)
}

// OnBrokerWrite counts.
func (h *kafkaHook) OnBrokerWrite(
	meta kgo.BrokerMetadata, key int16, bytes int, wait, took time.Duration, err error,
) {
	h.inner.OnBrokerWrite(meta, key, bytes, wait, took, err)
}

// OnBrokerE2E counts.
func (h *kafkaHook) OnBrokerE2E(meta kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	h.inner.OnBrokerE2E(meta, key, e2e)
}

// OnBrokerThrottle counts.
func (h *kafkaHook) OnBrokerThrottle(meta kgo.BrokerMetadata, interval time.Duration, after bool) {
	h.inner.OnBrokerThrottle(meta, interval, after)
	h.throttled.Add(interval.Seconds())
}

// OnProduceBatchWritten counts.
func (h *kafkaHook) OnProduceBatchWritten(
	meta kgo.BrokerMetadata, topic string, partition int32, batch kgo.ProduceBatchMetrics,
) {
	h.inner.OnProduceBatchWritten(meta, topic, partition, batch)
}

// OnFetchBatchRead counts.
func (h *kafkaHook) OnFetchBatchRead(
	meta kgo.BrokerMetadata, topic string, partition int32, batch kgo.FetchBatchMetrics,
) {
	h.inner.OnFetchBatchRead(meta, topic, partition, batch)
}

// withoutBuffers refuses the gauges of buffers: they would be those of the first client only.
type withoutBuffers struct{ prometheus.Registerer }

// Register implements prometheus.Registerer.
func (r withoutBuffers) Register(c prometheus.Collector) error {
	if isBuffer(c) {
		return nil
	}
	return r.Registerer.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r withoutBuffers) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if !isBuffer(c) {
			r.Registerer.MustRegister(c)
		}
	}
}

// isBuffer reports whether a collector is the gauge of a buffer.
func isBuffer(c prometheus.Collector) bool {
	descs := make(chan *prometheus.Desc, 8)
	c.Describe(descs)
	close(descs)
	for desc := range descs {
		if strings.Contains(desc.String(), "chronos_kafka_buffered_") {
			return true
		}
	}
	return false
}
