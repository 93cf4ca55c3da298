package properties

import (
	"slices"
	"strings"
)

// isIgnored reports whether a key tunes a producer, a consumer or an admin client, and so changes nothing here.
func isIgnored(key string) bool {
	return slices.Contains(strings.Fields(tuning), key)
}

// tuning are the keys of Java's producers, consumers and admin clients, and of librdkafka, which this client decides
// for itself. Those that would change what is promised are among them: this client always produces with acks=all and
// idempotence, reads committed records only, and commits by itself.
const tuning = `
acks auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size buffer.memory check.crcs
client.dns.lookup client.rack compression.codec compression.gzip.level compression.level compression.lz4.level
compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms
delivery.timeout.ms enable.auto.commit enable.auto.offset.store enable.idempotence enable.metrics.push
enable.partition.eof exclude.internal.topics fetch.error.backoff.ms fetch.max.bytes fetch.max.wait.ms
fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.instance.id group.protocol
group.protocol.type group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
key.serializer linger.ms log.connection.close log.queue log_level max.block.ms max.in.flight
max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records
max.request.size message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
metadata.cluster.check.enable metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
partition.assignment.strategy partitioner partitioner.adaptive.partitioning.enable
partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys queue.buffering.max.kbytes
queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages
receive.buffer.bytes receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.required.acks
request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
socket.blocking.max.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
socket.timeout.ms statistics.interval.ms sticky.partitioning.linger.ms topic.metadata.propagation.max.ms
topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
transaction.timeout.ms value.deserializer value.serializer
api.version.request api.version.request.timeout.ms api.version.fallback.ms broker.address.family broker.address.ttl
broker.version.fallback connections.max.idle.ms allow.auto.create.topics queue.buffering.backpressure.threshold
offset.store.method offset.store.path offset.store.sync.interval.ms ssl.protocol ssl.enabled.protocols
ssl.cipher.suites ssl.curves.list ssl.sigalgs.list ssl.provider
ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds
sasl.oauthbearer.header.urlencode

`
