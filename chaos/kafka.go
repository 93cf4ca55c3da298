package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clusterID is the identity of every Kafka cluster here.
const clusterID = "MkU3OEVBNTcwNTJENDM2Qg"

// kafka is a cluster of brokers.
type kafka struct {
	brokers []*broker
	direct  []string // the addresses of the suite's own listeners
}

// broker is one of them, with its ports.
type broker struct {
	server

	number                       int
	client, controller, internal int
	nodes                        []nodePorts // by node
	log                          string
}

// nodePorts are the ports of one node's listener: the broker listens on one, and tells the node the other, which is
// that of the node's proxy.
type nodePorts struct{ listener, proxy int }

// newKafka prepares a cluster for so many nodes. Its ports are chosen before anything starts, because each broker has
// to know those of the others and of the proxies.
func newKafka(
	ctx context.Context, b backend, p *ports, brokers, nodes int, log func(string) string,
) (*kafka, error) {
	var err error
	next := func() int {
		port, takeErr := p.take()
		err = errors.Join(err, takeErr)
		return port
	}
	k := &kafka{}
	for i := range brokers {
		br := &broker{number: i + 1, client: next(), controller: next(), internal: next()}
		br.log = log(fmt.Sprintf("kafka-%d.log", br.number))
		for range nodes {
			br.nodes = append(br.nodes, nodePorts{next(), next()})
		}
		k.brokers = append(k.brokers, br)
		k.direct = append(k.direct, local(br.client))
	}
	if err != nil {
		return nil, err
	}
	for _, br := range k.brokers {
		if br.server, err = b.broker(ctx, brokerSpec{br.number, k.properties(br), br.log}); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// properties returns the settings of a broker.
func (k *kafka) properties(br *broker) map[string]string {
	listeners := []string{
		"CLIENT://" + local(br.client), "CONTROLLER://" + local(br.controller), "INTERNAL://" + local(br.internal),
	}
	advertised := []string{"CLIENT://" + local(br.client), "INTERNAL://" + local(br.internal)}
	protocols := []string{"CLIENT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "INTERNAL:PLAINTEXT"}
	for i, n := range br.nodes {
		name := "P" + strconv.Itoa(i+1)
		listeners = append(listeners, name+"://"+local(n.listener))
		advertised = append(advertised, name+"://"+local(n.proxy))
		protocols = append(protocols, name+":PLAINTEXT")
	}
	var voters []string
	for _, other := range k.brokers {
		voters = append(voters, fmt.Sprintf("%d@%s", other.number, local(other.controller)))
	}
	replicas := strconv.Itoa(len(k.brokers))
	inSync := strconv.Itoa(max(len(k.brokers)-1, 1))
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(br.number),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "INTERNAL",
		"listeners":                      strings.Join(listeners, ","),
		"advertised.listeners":           strings.Join(advertised, ","),
		"listener.security.protocol.map": strings.Join(protocols, ","),

		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              inSync,
		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            inSync,
	}
	maps.Copy(p, brokerSettings())
	return p
}

// brokerSettings make a small broker, and one that notices in seconds when a peer is frozen or gone: some of the
// limits are 30 s by default.
func brokerSettings() map[string]string {
	return map[string]string{
		"auto.create.topics.enable":            "false",
		"offsets.topic.num.partitions":         "4",
		"transaction.state.log.num.partitions": "4",
		"group.initial.rebalance.delay.ms":     "0",
		"broker.session.timeout.ms":            "3000",
		"broker.heartbeat.interval.ms":         "500",
		"controller.socket.timeout.ms":         "2000",
		"replica.socket.timeout.ms":            "2000",
		"request.timeout.ms":                   "2000",
		"replica.lag.time.max.ms":              "5000",
		"num.network.threads":                  "2",
		"num.io.threads":                       "4",
		"log.cleaner.dedupe.buffer.size":       "16777216",
		// What fires is dated by the broker: that is the time in the history.
		"log.message.timestamp.type": "LogAppendTime",
	}
}

// start starts all brokers at once and waits until the cluster is whole.
func (k *kafka) start(ctx context.Context) error {
	for _, br := range k.brokers {
		if err := br.start(ctx); err != nil {
			return fmt.Errorf("start broker %d: %w", br.number, err)
		}
	}
	return k.whole(ctx, 2*time.Minute)
}

// connect returns a client of the suite's own, which no fault of a link reaches.
func (k *kafka) connect(options ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(k.direct...), kgo.DialTimeout(time.Second), kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	return client, nil
}

// whole waits until all brokers are there, there is a controller, and every partition has a leader and all replicas.
func (k *kafka) whole(ctx context.Context, within time.Duration) error {
	client, err := k.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	err = await(ctx, within, func(ctx context.Context) error {
		metadata, err := kadm.NewClient(client).Metadata(ctx)
		if err != nil {
			return err
		}
		if n := len(metadata.Brokers); len(k.brokers) > 0 && (n != len(k.brokers) || metadata.Controller < 0) {
			return fmt.Errorf("there are %d of %d brokers", n, len(k.brokers))
		}
		var missing error
		metadata.Topics.EachPartition(func(p kadm.PartitionDetail) {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				missing = fmt.Errorf("%s/%d has the leader %d and %d of %d replicas",
					p.Topic, p.Partition, p.Leader, len(p.ISR), len(p.Replicas))
			}
		})
		return missing
	})
	if err != nil {
		var logs []error
		for _, br := range k.brokers {
			logs = append(logs, fmt.Errorf("broker %d: %s", br.number, tail(br.log)))
		}
		return fmt.Errorf("wait for Kafka: %w\n%w", err, errors.Join(logs...))
	}
	return nil
}

// create creates topics.
func (k *kafka) create(ctx context.Context, partitions int32, topics ...string) error {
	client, err := k.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	created, err := kadm.NewClient(client).CreateTopics(ctx, partitions, -1,
		map[string]*string{
			"max.message.bytes": new("100000"), "message.timestamp.type": new("LogAppendTime"),
		}, topics...)
	for _, topic := range created {
		// One may be there by a call whose reply came too late: nobody else uses such names.
		if err == nil && !errors.Is(topic.Err, kerr.TopicAlreadyExists) {
			err = topic.Err
		}
	}
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	return nil
}

// remove removes topics and a consumer group.
func (k *kafka) remove(group string, topics ...string) error {
	client, err := k.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin := kadm.NewClient(client)
	_, _ = admin.DeleteGroup(ctx, group) // nobody may have joined it
	deleted, err := admin.DeleteTopics(ctx, topics...)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	return nil
}

// coordinator returns the broker that keeps the offsets of a consumer group.
func (k *kafka) coordinator(ctx context.Context, group string) (*broker, error) {
	client, err := k.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	c := kadm.NewClient(client).FindGroupCoordinators(ctx, group)[group]
	if c.Err != nil {
		return nil, fmt.Errorf("find the coordinator of %s: %w", group, c.Err)
	}
	for _, br := range k.brokers {
		if int32(br.number) == c.NodeID {
			return br, nil
		}
	}
	return nil, fmt.Errorf("find the coordinator of %s: there is no broker %d", group, c.NodeID)
}
