package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// KafkaConfig says what a cluster is to be like.
type KafkaConfig struct {
	// Name is the beginning of the names of its folders and logs; "" for kafka.
	Name string

	// Brokers is how many there are; each is a controller, too. With three, topics have three replicas, of which two
	// have to be in sync.
	Brokers int

	// Nodes is for how many nodes each broker has a listener of its own, which advertises the address of a proxy.
	Nodes int

	// Authority, if there is one, signs the certificates of two more listeners of each broker: one for the Users, who
	// have passwords, and one for whoever has a certificate of the authority. They may do what ACLs allow.
	Authority *Authority
	Users     map[string]string

	// Properties replace those of the brokers.
	Properties map[string]string
}

// Kafka is a cluster of brokers.
type Kafka struct {
	Brokers []*Broker

	// Addresses are those of the listeners for everybody, one of each broker.
	Addresses []string

	// Secure and Mutual are those of the listeners with TLS, for users with passwords or tokens and for certificates.
	Secure, Mutual []string

	properties map[string]string
}

// Broker is one of them, with its ports.
type Broker struct {
	Server

	Number int

	// Collector is the file of what its garbage collector says of itself; "" where it has none.
	Collector string

	// Nodes are the ways of the nodes.
	Nodes []NodePorts

	client, controller, internal int
	secure, mutual               int // 0 where there is no authority
	log                          string
}

// NodePorts are the ports of one node's listener: the broker listens on one, and tells the node the other, which is
// that of the node's proxy.
type NodePorts struct{ Listener, Proxy int }

// Kafka prepares a cluster, which has an id of its own. It is not started. Its ports are chosen before anything starts,
// because each broker has to know those of the others and of the proxies.
func (s *Servers) Kafka(ctx context.Context, config KafkaConfig) (*Kafka, error) {
	if s.backend == nil {
		return nil, fmt.Errorf("make a Kafka: %w: the servers were given", ErrImpossible)
	}
	var err error
	next := func() int {
		port, takeErr := s.Port()
		err = errors.Join(err, takeErr)
		return port
	}
	k := &Kafka{properties: maps.Clone(config.Properties)}
	if config.Authority != nil {
		secure, secureErr := secureSettings(config.Authority, config.Users)
		if secureErr != nil {
			return nil, secureErr
		}
		maps.Copy(secure, k.properties)
		k.properties = secure
	}
	name := func(br *Broker) string { return fmt.Sprintf("%s-%d", cmp.Or(config.Name, "kafka"), br.Number) }
	for i := range max(config.Brokers, 1) {
		br := &Broker{Number: i + 1, client: next(), controller: next(), internal: next()}
		br.log = s.log(name(br))
		if s.config.Shipped && s.config.Backend == Processes {
			br.Collector = s.log(name(br) + "-gc")
		}
		if config.Authority != nil {
			br.secure, br.mutual = next(), next()
			k.Secure, k.Mutual = append(k.Secure, Local(br.secure)), append(k.Mutual, Local(br.mutual))
		}
		for range config.Nodes {
			br.Nodes = append(br.Nodes, NodePorts{next(), next()})
		}
		k.Brokers = append(k.Brokers, br)
		k.Addresses = append(k.Addresses, Local(br.client))
	}
	if err != nil {
		return nil, err
	}
	id := clusterID()
	for _, br := range k.Brokers {
		spec := brokerSpec{
			name: name(br), cluster: id, properties: k.settings(br), log: br.log, collector: br.Collector,
		}
		if br.Server, err = s.backend.broker(ctx, spec); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// GivenKafka is a cluster that somebody else runs.
func GivenKafka(addresses ...string) *Kafka { return &Kafka{Addresses: addresses} }

// clusterID draws the identity of a cluster: sixteen bytes in Kafka's alphabet, of which the first may be no dash.
func clusterID() string { return "C" + rand.Text()[:20] + "A" }

// settings returns the properties of a broker.
func (k *Kafka) settings(br *Broker) map[string]string {
	listeners := []string{
		"CLIENT://" + Local(br.client), "CONTROLLER://" + Local(br.controller), "INTERNAL://" + Local(br.internal),
	}
	advertised := []string{"CLIENT://" + Local(br.client), "INTERNAL://" + Local(br.internal)}
	protocols := []string{"CLIENT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "INTERNAL:PLAINTEXT"}
	for i, n := range br.Nodes {
		name := "P" + strconv.Itoa(i+1)
		listeners = append(listeners, name+"://"+Local(n.Listener))
		advertised = append(advertised, name+"://"+Local(n.Proxy))
		protocols = append(protocols, name+":PLAINTEXT")
	}
	if br.secure != 0 {
		for name, port := range map[string]int{secureListener: br.secure, mutualListener: br.mutual} {
			listeners = append(listeners, name+"://"+Local(port))
			advertised = append(advertised, name+"://"+Local(port))
		}
		protocols = append(protocols, secureListener+":SASL_SSL", mutualListener+":SSL")
	}
	var voters []string
	for _, other := range k.Brokers {
		voters = append(voters, fmt.Sprintf("%d@%s", other.Number, Local(other.controller)))
	}
	replicas := strconv.Itoa(len(k.Brokers))
	inSync := strconv.Itoa(max(len(k.Brokers)-1, 1))
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(br.Number),
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
	maps.Copy(p, k.properties)
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
	}
}

// Start starts all brokers at once and waits until the cluster is whole.
func (k *Kafka) Start(ctx context.Context) error {
	for _, br := range k.Brokers {
		if err := br.Start(ctx); err != nil {
			return fmt.Errorf("start broker %d: %w", br.Number, err)
		}
	}
	return k.Whole(ctx, 2*time.Minute)
}

// Connect returns a client that goes to the brokers themselves, by no proxy.
func (k *Kafka) Connect(options ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(k.Addresses...), kgo.DialTimeout(time.Second), kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	return client, nil
}

// Whole waits until all brokers are there, there is a controller, and every partition has a leader and all replicas.
func (k *Kafka) Whole(ctx context.Context, within time.Duration) error {
	client, err := k.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	err = Await(ctx, within, func(ctx context.Context) error {
		metadata, err := kadm.NewClient(client).Metadata(ctx)
		if err != nil {
			return err
		}
		if n := len(metadata.Brokers); len(k.Brokers) > 0 && (n != len(k.Brokers) || metadata.Controller < 0) {
			return fmt.Errorf("there are %d of %d brokers", n, len(k.Brokers))
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
		for _, br := range k.Brokers {
			logs = append(logs, fmt.Errorf("broker %d: %s", br.Number, Tail(br.log)))
		}
		return fmt.Errorf("wait for Kafka: %w\n%w", err, errors.Join(logs...))
	}
	return nil
}

// Topic is one to be created.
type Topic struct {
	Name       string
	Partitions int

	// On places partitions: the brokers that have them, by their numbers, the one that leads first. Others are on as
	// many as the cluster says.
	On map[int][]int32

	Settings map[string]string
}

// Create creates topics. Partitions are moved afterwards to where they are to be: with its first places, a topic has to
// have as many replicas of each partition.
func (k *Kafka) Create(ctx context.Context, topics ...Topic) error {
	client, err := k.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	var moves kadm.AlterPartitionAssignmentsReq
	for _, t := range topics {
		settings := map[string]*string{}
		for key, value := range t.Settings {
			settings[key] = &value
		}
		_, err := admin.CreateTopic(ctx, int32(t.Partitions), -1, settings, t.Name)
		// One may be there by a call whose reply came too late: nobody else uses such names.
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create the topic %s: %w", t.Name, err)
		}
		for p, brokers := range t.On {
			moves.Assign(t.Name, int32(p), brokers)
		}
	}
	if len(moves) == 0 {
		return nil
	}
	moved, err := admin.AlterPartitionAssignments(ctx, moves)
	if err == nil {
		err = moved.Error()
	}
	if err == nil {
		err = Await(ctx, time.Minute, func(ctx context.Context) error {
			metadata, err := admin.Metadata(ctx)
			if err != nil {
				return err
			}
			if err := inPlace(metadata.Topics, topics); err != nil {
				return err
			}
			return led(ctx, admin, metadata.Topics, topics)
		})
	}
	if err != nil {
		return fmt.Errorf("move partitions: %w", err)
	}
	return nil
}

// inPlace sees whether partitions are where they are to be.
func inPlace(there kadm.TopicDetails, topics []Topic) error {
	for _, t := range topics {
		for p, brokers := range t.On {
			if is := there[t.Name].Partitions[int32(p)].Replicas; !slices.Equal(is, brokers) {
				return fmt.Errorf("%s/%d is on %v, and not on %v", t.Name, p, is, brokers)
			}
		}
	}
	return nil
}

// led sees whether the first broker of each partition leads it, and asks for an election where it does not.
func led(ctx context.Context, admin *kadm.Client, there kadm.TopicDetails, topics []Topic) error {
	others := kadm.TopicsSet{}
	for _, t := range topics {
		for p, brokers := range t.On {
			if there[t.Name].Partitions[int32(p)].Leader != brokers[0] {
				others.Add(t.Name, int32(p))
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	if _, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, others); err != nil {
		return fmt.Errorf("elect leaders: %w", err)
	}
	return fmt.Errorf("partitions are led by others: %v", others)
}

// Remove removes topics and a consumer group.
func (k *Kafka) Remove(group string, topics ...string) error {
	client, err := k.Connect()
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

// Coordinator returns the broker that keeps the offsets of a consumer group.
func (k *Kafka) Coordinator(ctx context.Context, group string) (*Broker, error) {
	client, err := k.Connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	c := kadm.NewClient(client).FindGroupCoordinators(ctx, group)[group]
	if c.Err != nil {
		return nil, fmt.Errorf("find the coordinator of %s: %w", group, c.Err)
	}
	for _, br := range k.Brokers {
		if int32(br.Number) == c.NodeID {
			return br, nil
		}
	}
	return nil, fmt.Errorf("find the coordinator of %s: there is no broker %d", group, c.NodeID)
}

// Transactions returns how many of some transactional ids each broker coordinates, by its number.
func (k *Kafka) Transactions(ctx context.Context, ids ...string) (map[int]int, error) {
	client, err := k.Connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	counts := map[int]int{}
	for _, c := range kadm.NewClient(client).FindTxnCoordinators(ctx, ids...) {
		if c.Err != nil {
			return nil, fmt.Errorf("find the coordinator of %s: %w", c.Name, c.Err)
		}
		counts[int(c.NodeID)]++
	}
	return counts, nil
}

// Leads returns how many partitions of a topic each broker leads, by its number.
func (k *Kafka) Leads(ctx context.Context, topic string) (map[int]int, error) {
	client, err := k.Connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	metadata, err := kadm.NewClient(client).Metadata(ctx, topic)
	if err == nil {
		err = metadata.Topics.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the leaders of %s: %w", topic, err)
	}
	counts := map[int]int{}
	for _, p := range metadata.Topics[topic].Partitions {
		counts[int(p.Leader)]++
	}
	return counts, nil
}

// Led returns how many partitions a broker leads, those of the brokers' own topics among them, as another one has it.
func (k *Kafka) Led(ctx context.Context, number int) (led int, err error) {
	other := k.Addresses[number%len(k.Addresses)] // the next one: they are counted from 1
	client, err := k.Connect(kgo.SeedBrokers(other))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	all := kmsg.NewPtrMetadataRequest()
	response, err := all.RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil {
		return 0, fmt.Errorf("find the leaders of all topics: %w", err)
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if int(p.Leader) == number {
				led++
			}
		}
	}
	return led, nil
}
